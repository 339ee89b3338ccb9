/*
 * Index of free ranges by size: two levels of classes with bitmaps, a list per class, the range that
 * came last first. Every operation takes constant time. No locks, no memory of its own.
 *
 * Sizes are counted in units. Classes 0…15 are 0…15 units; above, every power of two is cut into 16
 * classes of equal width, so a class is at most 6.25 % wide.
 */
#ifndef TANDEM_API_POOL_POOL_INDEX_H
#define TANDEM_API_POOL_POOL_INDEX_H

#include "api/pool/pool.h"

#define TDM_INDEX_STEP_BITS 4
#define TDM_INDEX_STEPS (1 << TDM_INDEX_STEP_BITS)
#define TDM_INDEX_OCTAVES 40 /* sizes below 2^43 units */

/* Ranges looked at in the class of the request itself, and in each class above it, at most. */
#define TDM_INDEX_OWN_LOOKS 8
#define TDM_INDEX_MORE_LOOKS 2
#define TDM_INDEX_MORE_CLASSES 3

typedef struct tdm_pool_index {
    uint64_t octaves; /* bit i: steps[i] is not 0 */
    uint16_t steps[TDM_INDEX_OCTAVES];
    tdm_block *heads[TDM_INDEX_OCTAVES][TDM_INDEX_STEPS];
} tdm_pool_index;

/* Number of the class of a size in units. */
unsigned tdm_index_class(uint64_t units);

/* Put a range in or take it out; `units` is its size. */
void tdm_index_insert(tdm_pool_index *index, tdm_block *range, uint64_t units);
void tdm_index_remove(tdm_pool_index *index, tdm_block *range, uint64_t units);

/*
 * A range of at least `bytes` (= `units` units), or NULL: the tightest of the first few of the request's own class,
 * else the first of the next class. With a `stream`, only ranges whose first edge is of that stream. Adds the ranges
 * it looked at to *visited. Without a stream it finds a range of a class above wherever there is one.
 */
tdm_block *tdm_index_find(const tdm_pool_index *index, uint64_t bytes, uint64_t units,
                          uint32_t stream, uint64_t *visited);

/* The largest of the first few ranges of the highest class; NULL where there is none. */
tdm_block *tdm_index_top(const tdm_pool_index *index, int looks);

/* Size in bytes of the largest range, 0 where there is none. Walks the list of one class. */
uint64_t tdm_index_largest(const tdm_pool_index *index);

#endif
