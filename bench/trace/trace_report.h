/* What is told of a trace and of a replay, as text and as JSON. */
#ifndef TANDEM_BENCH_TRACE_TRACE_REPORT_H
#define TANDEM_BENCH_TRACE_TRACE_REPORT_H

#include "bench/trace/trace_replay.h"

/*
 * Print the facts of the trace and its largest tags, or where `replay` is not NULL those of the trace and of the replay.
 * With a path the same goes there as JSON (schema tandem-trace/1); "-" is standard output, without the text. An exit code.
 */
int trace_report(const char *command, const trace_data *trace, const replay_result *replay,
                 const char *path);

#endif
