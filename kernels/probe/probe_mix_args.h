/* How the probe of mixed traffic walks through its arrays, one definition for the host and for the kernel text. */
#ifndef TDM_PROBE_MIX_ARGS_H
#define TDM_PROBE_MIX_ARGS_H

/* No padding: drivers differ on where they count it. */
typedef struct {
    long steps;      /* how many there are */
    long first_step; /* a group's first step is its number times so many */
    long next_step;  /* so many steps on */
    long ahead;      /* bytes that a prefetch is ahead of its load; 0: none */
    int passes;      /* at most so many steps of a group */
    int reads;       /* lines that a step reads */
    int writes;      /* lines that it writes */
    int streams;     /* whether stores go past the caches */
} tdm_mix_arg;

#endif
