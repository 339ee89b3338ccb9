/*
 * A dry run of allocations: the pool's code works on a copy of its bookkeeping, and native memory
 * is only counted. The pool itself does not change.
 */
#ifndef TANDEM_API_POOL_POOL_REHEARSAL_H
#define TANDEM_API_POOL_POOL_REHEARSAL_H

#include "api/pool/pool.h"

typedef struct tdm_pool_rehearsal tdm_pool_rehearsal;

/* Limits outside the pool. */
typedef struct tdm_rehearsal_limits {
    uint64_t native_free; /* bytes the driver has left; UINT64_MAX: unlimited */
    uint64_t relief;      /* bytes that other pools of the account would release, at most once */
} tdm_rehearsal_limits;

/* Copies the current state of the pool. The time is proportional to its number of ranges, with the
 * pool locked. */
tdm_status tdm_rehearsal_begin(tdm_pool *pool, const tdm_rehearsal_limits *limits,
                               tdm_pool_rehearsal **rehearsal);

/*
 * Like tdm_pool_alloc, but nothing is ever freed. *rounded is the size of the block, and *grown the
 * part that no existing range could hold. Both are also set on failure (grown: 0).
 */
tdm_status tdm_rehearsal_alloc(tdm_pool_rehearsal *rehearsal, size_t bytes, uint32_t stream,
                               uint64_t *rounded, uint64_t *grown);

/* Native bytes taken so far. */
uint64_t tdm_rehearsal_native(const tdm_pool_rehearsal *rehearsal);
/* Bytes that could become live without fragmentation, within the budgets and free memory. */
uint64_t tdm_rehearsal_room(const tdm_pool_rehearsal *rehearsal);

/* NULL is accepted. */
void tdm_rehearsal_end(tdm_pool_rehearsal *rehearsal);

#endif
