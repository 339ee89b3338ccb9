/*
 * The output of `tandem quantize`, written piece by piece. It is a safetensors or a GGUF file,
 * according to the end of its name.
 */
#ifndef TANDEM_CLI_QUANTIZE_QUANTIZE_SINK_H
#define TANDEM_CLI_QUANTIZE_QUANTIZE_SINK_H

#include "cli/quantize/quantize_plan.h"

typedef struct quantize_sink quantize_sink;

/*
 * Begins the file. Its metadata is that of the source plus that of the plan. Safetensors metadata
 * becomes the GGUF string "safetensors.<key>", and is restored on the way back. Other GGUF strings
 * become safetensors metadata "gguf.<key>". Returns 0, or -1 and the reason: a name, a type or a
 * shape that the container does not allow, or an error of the file system.
 */
int quantize_sink_open(const char *path, const quantize_source *source, const quantize_plan *plan,
                       const quantize_choice *choice, quantize_sink **sink, file_error *error);

/* The `put` of a quantize_target: writes bytes of an entry of the plan. `user` is the sink. */
int quantize_sink_put(void *user, size_t entry, uint64_t offset, const void *bytes, size_t size,
                      file_error *error);

/* Returns the number of GGUF values that a safetensors file cannot hold. */
size_t quantize_sink_left_out(const quantize_sink *sink);

/* Both destroy the sink. */
int quantize_sink_finish(quantize_sink *sink, file_error *error);
void quantize_sink_abandon(quantize_sink *sink); /* NULL is accepted */

#endif
