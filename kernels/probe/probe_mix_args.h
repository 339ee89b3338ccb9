/* How the mixed-traffic probe traverses its arrays; the host and the kernel source share this
 * definition. */
#ifndef TDM_PROBE_MIX_ARGS_H
#define TDM_PROBE_MIX_ARGS_H

/* There is no padding: drivers differ in where they count it. */
typedef struct {
    long steps;      /* number of steps */
    long first_step; /* a group's first step is its number times this */
    long next_step;  /* increment from a group's step to its next */
    long ahead;      /* prefetch distance in bytes; 0: no prefetch */
    int passes;      /* most steps of a group */
    int reads;       /* lines that a step reads */
    int writes;      /* lines that a step writes */
    int streams;     /* 1: non-temporal stores */
} tdm_mix_arg;

#endif
