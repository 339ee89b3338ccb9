/* The output of `tandem quantize`: a safetensors or a GGUF file, or an index with its shards, by the end of its name, written piece by piece. */
#ifndef TANDEM_CLI_QUANTIZE_QUANTIZE_SINK_H
#define TANDEM_CLI_QUANTIZE_QUANTIZE_SINK_H

#include "cli/quantize/quantize_plan.h"

typedef struct quantize_sink quantize_sink;

/*
 * Begin the file, or the files: shards are those of the source, which has an index then. Its metadata is that of the source, and what the plan adds. 0, or -1 with the reason: a name, a type or a
 * shape that the container does not take, or what the file system says.
 */
int quantize_sink_open(const char *path, const quantize_source *source, const quantize_plan *plan,
                       quantize_sink **sink, file_error *error);

/* Bytes of an entry of the plan. `user` is the sink: the function is that of a quantize_target. */
int quantize_sink_put(void *user, size_t entry, uint64_t offset, const void *bytes, size_t size,
                      file_error *error);

/* Values of a GGUF file that a safetensors file has no place for: arrays. */
size_t quantize_sink_left_out(const quantize_sink *sink);

/* All bytes are put: complete the file, under a name of its own. What remains for _finish is to give it its name. 0, or -1 with the reason. */
int quantize_sink_settle(quantize_sink *sink, file_error *error);

/* Both destroy the sink. */
int quantize_sink_finish(quantize_sink *sink, file_error *error);
void quantize_sink_abandon(quantize_sink *sink); /* NULL is accepted */

#endif
