/* How the bandwidth probes traverse their arrays; the host and the kernel sources share this
 * definition. */
#ifndef TDM_PROBE_STREAM_ARGS_H
#define TDM_PROBE_STREAM_ARGS_H

/* All members count elements of 4 bytes, except where noted. There is no padding: drivers differ in
 * where they count it. */
typedef struct {
    long chunk;       /* from one chunk to the next */
    long item;        /* from one work-item's first vector to its neighbour's */
    long gap;         /* from one vector of a work-item to its next in the chunk */
    long chunks;      /* number of chunks */
    long first_chunk; /* a group's first chunk is its number times this */
    long next_chunk;  /* increment from a group's chunk to its next */
    long ahead;       /* prefetch distance in bytes; 0: no prefetch */
    int passes;       /* most chunks of a group */
    int rounds;       /* repetitions of all chunks */
    int unroll;       /* vectors of a work-item in a chunk: 1, 4 or 8 */
    float scale;
} tdm_stream_arg;

#endif
