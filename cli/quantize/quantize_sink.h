/* The output of `tandem quantize`: a safetensors or a GGUF file, by the end of its name, written piece by piece. */
#ifndef TANDEM_CLI_QUANTIZE_QUANTIZE_SINK_H
#define TANDEM_CLI_QUANTIZE_QUANTIZE_SINK_H

#include "cli/quantize/quantize_plan.h"

typedef struct quantize_sink quantize_sink;

/*
 * Begin the file. Its metadata is that of the source and what the plan adds. A text of a safetensors file becomes the GGUF string
 * "safetensors.<key>", and its old self on the way back; other GGUF strings become texts "gguf.<key>". 0, or -1 with the reason: a
 * name, a type or a shape that the container does not take, or what the file system says.
 */
int quantize_sink_open(const char *path, const quantize_source *source, const quantize_plan *plan,
                       const quantize_choice *choice, quantize_sink **sink, file_error *error);

/* Bytes of an entry of the plan. `user` is the sink: the function is that of a quantize_target. */
int quantize_sink_put(void *user, size_t entry, uint64_t offset, const void *bytes, size_t size,
                      file_error *error);

/* Values of a GGUF file that a safetensors file has no place for. */
size_t quantize_sink_left_out(const quantize_sink *sink);

/* Both destroy the sink. */
int quantize_sink_finish(quantize_sink *sink, file_error *error);
void quantize_sink_abandon(quantize_sink *sink); /* NULL is accepted */

#endif
