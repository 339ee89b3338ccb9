/* These are the arguments of rope.cl besides buffers and strides. The host and the kernel source
 * share this definition. */
#ifndef TDM_ROPE_ARGS_H
#define TDM_ROPE_ARGS_H

/* width: elements of a row. interleaved: 1 if pair i is elements 2i and 2i + 1, 0 if it is elements
 * i and i + pairs. unused: there is no padding, which drivers count differently. */
typedef struct {
    long width;
    int interleaved, unused;
} tdm_rope_arg;

#endif
