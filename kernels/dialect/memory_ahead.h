/* How far ahead of what they read texts for CPU cores ask for memory, and where in it element i of a DT is. A text defines DT first. */
#ifndef TDM_MEMORY_AHEAD_H
#define TDM_MEMORY_AHEAD_H

#define BYTES_AHEAD 8192

/* Of s4 two elements are in a place. */
#define IS_OF_PAIRS_s4 1
#if TDM_CAT2(IS_OF_PAIRS_, DT)
#define PLACE_OF(i) ((i) >> 1)
#else
#define PLACE_OF(i) (i)
#endif

#endif
