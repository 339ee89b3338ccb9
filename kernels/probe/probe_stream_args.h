/* How the bandwidth probes walk through their arrays, one definition for the host and for the kernel texts. */
#ifndef TDM_PROBE_STREAM_ARGS_H
#define TDM_PROBE_STREAM_ARGS_H

/* All in elements of 4 bytes but what is said to be else. No padding: drivers differ on where they count it. */
typedef struct {
    long chunk;       /* from one chunk to the next */
    long item;        /* from one work-item's first vector to its neighbour's */
    long gap;         /* from one vector of an item to its next in the chunk */
    long chunks;      /* how many there are */
    long first_chunk; /* a group's first chunk is its number times so many */
    long next_chunk;  /* so many chunks on */
    long ahead;       /* bytes from a load to what is prefetched with it; 0: nothing */
    int passes;       /* at most so many chunks of a group */
    int rounds;       /* how often all of them */
    int unroll;       /* vectors of an item in a chunk: 1, 4 or 8 */
    float scale;
} tdm_stream_arg;

#endif
