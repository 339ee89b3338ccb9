/* The fill argument of a tensor; the host and the kernel source share this definition. */
#ifndef TDM_FILL_ARGS_H
#define TDM_FILL_ARGS_H

/* There is no padding: drivers differ in where they count it. */
typedef struct {
    long pattern; /* the element in its low bytes; for s4 both halves of the lowest byte */
    long streams; /* 1: the tensor is larger than the caches; use non-temporal stores */
} tdm_fill_arg;

#endif
