/* These are the arguments of unary.cl besides buffers and strides. The host and the kernel source
 * share this definition. */
#ifndef TDM_UNARY_ARGS_H
#define TDM_UNARY_ARGS_H

/* op: TDM_CODE_NEG …, plus TDM_CODE_NONTEMPORAL for non-temporal stores. low, high: the bounds of
 * TDM_CODE_CLAMP. unused: there is no padding, which drivers count differently. */
typedef struct {
    int op, unused;
    float low, high;
} tdm_unary_arg;

#endif
