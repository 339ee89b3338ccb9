/* Memory traces as files; api/device/memory/memory_trace_text.h has the format. */
#ifndef TANDEM_BENCH_TRACE_TRACE_FILE_H
#define TANDEM_BENCH_TRACE_TRACE_FILE_H

#include "bench/trace/trace_data.h"
#include "formats/file_error.h"

/*
 * Read a trace from the bytes of a file. 0, or -1 with the line and what is wrong there. With `unfinished`, a file whose
 * end is missing is taken up to its last whole line: what a program left that died.
 */
int trace_parse(const void *bytes, size_t size, int unfinished, trace_data *trace,
                file_error *error);

/* The same from a file; the path stands in front of the reason. */
int trace_load(const char *path, int unfinished, trace_data *trace, file_error *error);

/* Write a trace to a file that appears complete or not at all. 0, or -1 with the reason. */
int trace_save(const trace_data *trace, const char *path, file_error *error);

#endif
