/*
 * Index of free ranges by size: two levels of classes with bitmaps, and a last-in-first-out list
 * per class. Every operation except tdm_index_largest takes constant time. The index has no locks
 * and allocates no memory.
 *
 * Sizes are counted in units. Classes 0…15 are 0…15 units. Above, every power of two is cut into 16
 * classes of equal width, so a class is at most 6.25 % wide.
 */
#ifndef TANDEM_API_POOL_POOL_INDEX_H
#define TANDEM_API_POOL_POOL_INDEX_H

#include "api/pool/pool.h"

#define TDM_INDEX_STEP_BITS 4
#define TDM_INDEX_STEPS (1 << TDM_INDEX_STEP_BITS)
#define TDM_INDEX_OCTAVES 40 /* sizes below 2^43 units */

/* Limits of a search: ranges in the class of the request, ranges in each class above it, and number
 * of those classes. */
#define TDM_INDEX_OWN_LOOKS 8
#define TDM_INDEX_MORE_LOOKS 2
#define TDM_INDEX_MORE_CLASSES 3

typedef struct tdm_pool_index {
    uint64_t octaves; /* bit i: steps[i] is not 0 */
    uint16_t steps[TDM_INDEX_OCTAVES];
    tdm_block *heads[TDM_INDEX_OCTAVES][TDM_INDEX_STEPS];
} tdm_pool_index;

/* Returns the class of a size in units. */
unsigned tdm_index_class(uint64_t units);

/* Insert or remove a range; `units` is its size. */
void tdm_index_insert(tdm_pool_index *index, tdm_block *range, uint64_t units);
void tdm_index_remove(tdm_pool_index *index, tdm_block *range, uint64_t units);

/*
 * Finds a range of at least `bytes` (= `units` units), or NULL. It takes the smallest sufficient
 * one of the first few ranges in the request's own class. If there is none, it takes the first
 * suitable range of the next classes.
 *
 * With a `stream`, it considers only ranges whose first dependency is on that stream. Without a
 * stream, it always finds a range of a higher class if there is one. It adds the number of ranges
 * looked at to *visited.
 */
tdm_block *tdm_index_find(const tdm_pool_index *index, uint64_t bytes, uint64_t units,
                          uint32_t stream, uint64_t *visited);

/* Returns the largest of the first few ranges in the highest class, or NULL. */
tdm_block *tdm_index_top(const tdm_pool_index *index, int looks);

/* Returns the size of the largest range in bytes, or 0. It traverses the list of one class. */
uint64_t tdm_index_largest(const tdm_pool_index *index);

#endif
