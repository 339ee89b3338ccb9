/* What a tensor is filled with, one definition for the host and for the kernel text. */
#ifndef TDM_FILL_ARGS_H
#define TDM_FILL_ARGS_H

/* No padding: drivers differ on where they count it. */
typedef struct {
    long pattern; /* the element in its low bytes; of s4 both halves of the lowest */
    long streams; /* whether it is larger than the caches, so that stores go past them */
} tdm_fill_arg;

#endif
