#ifndef TANDEM_KERNEL_INDEX_H
#define TANDEM_KERNEL_INDEX_H

#include <stddef.h>

// A kernel text with its includes inlined, as cmake/embed_kernels.cmake writes it.
typedef struct tdm_kernel_text {
    const char *file;
    const char *text;
    size_t length; // without the terminating zero
} tdm_kernel_text;

extern const tdm_kernel_text tdm_kernel_texts[];
extern const size_t tdm_kernel_text_count;

#endif
