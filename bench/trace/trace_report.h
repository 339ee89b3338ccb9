/* What `tandem trace` says of a trace and of its replay: as text, and as JSON of schema tandem-trace/1. */
#ifndef TANDEM_BENCH_TRACE_TRACE_REPORT_H
#define TANDEM_BENCH_TRACE_TRACE_REPORT_H

#include "bench/trace/trace_replay.h"

/*
 * Print the trace, and the replay unless it is NULL; or with a path write them as JSON there, "-" for stdout (without the text
 * then). `where` names what was replayed on. Returns the exit code.
 */
int trace_report(const char *command, const trace_data *trace, const replay_result *replay,
                 const char *where, const char *path);

#endif
