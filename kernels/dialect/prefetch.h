/* PREFETCH_BYTES is the prefetch distance, in bytes, of kernels for CPU cores. PLACE_OF(i) is the
 * index of the storage unit that holds element i of type DT. A source defines DT before it includes
 * this file. */
#ifndef TDM_PREFETCH_H
#define TDM_PREFETCH_H

#define PREFETCH_BYTES 8192

/* A storage unit of s4 is a byte, which holds two elements. */
#define IS_OF_PAIRS_s4 1
#if TDM_CAT2(IS_OF_PAIRS_, DT)
#define PLACE_OF(i) ((i) >> 1)
#else
#define PLACE_OF(i) (i)
#endif

#endif
