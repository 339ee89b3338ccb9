/* PREFETCH_BYTES is the prefetch distance of kernel sources for CPU cores. PLACE_OF(i) is the
 * offset of element i of type DT, which the source defines first. */
#ifndef TDM_PREFETCH_H
#define TDM_PREFETCH_H

#define PREFETCH_BYTES 8192

/* One byte holds two elements of s4. */
#define IS_OF_PAIRS_s4 1
#if TDM_CAT2(IS_OF_PAIRS_, DT)
#define PLACE_OF(i) ((i) >> 1)
#else
#define PLACE_OF(i) (i)
#endif

#endif
