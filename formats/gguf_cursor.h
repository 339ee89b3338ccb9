/* What the GGUF reader and writer share: bounded steps through bytes, sizes of tensors. */
#ifndef TANDEM_FORMATS_GGUF_CURSOR_H
#define TANDEM_FORMATS_GGUF_CURSOR_H

#include "formats/gguf.h"

typedef struct gguf_cursor {
    const unsigned char *next;
    const unsigned char *end;
} gguf_cursor;

/* Copy `size` bytes out; -1, and nothing has moved, when fewer are left. */
int gguf_take(gguf_cursor *cursor, void *target, size_t size);

/* Where the next `size` bytes stand, going past them; NULL when fewer are left. */
const void *gguf_skip(gguf_cursor *cursor, uint64_t size);

/* A copy of a text that has no end of its own; the caller frees it. NULL when memory is short. */
char *gguf_copy_text(const void *bytes, size_t length);

/* Go past a value and check it. `depth`: how many arrays may stand in each other. `key` is for the sentence. */
int gguf_skip_value(gguf_cursor *cursor, uint32_t type, int depth, const char *key,
                    file_error *error);

#define GGUF_UNKNOWN_BYTES SIZE_MAX

/* Bytes that a tensor takes by its shape and type; GGUF_UNKNOWN_BYTES where the type is unknown
 * and the shape not empty. 0, or -1 with the reason. */
int gguf_tensor_bytes(const gguf_tensor *tensor, size_t *bytes, file_error *error);

/* The next multiple; far below overflow, as places in files are. */
uint64_t gguf_align(uint64_t place, uint64_t alignment);

#endif
