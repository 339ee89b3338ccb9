/*
 * What a pool would do: a copy of its bookkeeping, with the same code working on it, and memory that is only counted.
 * The pool itself does not change.
 */
#ifndef TANDEM_API_POOL_POOL_REHEARSAL_H
#define TANDEM_API_POOL_POOL_REHEARSAL_H

#include "api/pool/pool.h"

typedef struct tdm_pool_rehearsal tdm_pool_rehearsal;

/* What lies outside the pool. */
typedef struct tdm_rehearsal_limits {
    uint64_t native_free; /* bytes the driver has left; UINT64_MAX: as many as are asked for */
    uint64_t relief;      /* bytes that other pools of the account would give back, at most once */
} tdm_rehearsal_limits;

/* Copy the pool as it is now: takes time in proportion to its ranges, with the pool locked. */
tdm_status tdm_rehearsal_begin(tdm_pool *pool, const tdm_rehearsal_limits *limits,
                               tdm_pool_rehearsal **rehearsal);

/*
 * As tdm_pool_alloc; nothing is ever freed. *rounded is what the block would take, *grown what of it no range of the
 * pool held. Both are set on failure too (grown: 0).
 */
tdm_status tdm_rehearsal_alloc(tdm_pool_rehearsal *rehearsal, size_t bytes, uint32_t stream,
                               uint64_t *rounded, uint64_t *grown);

/* Native bytes that were taken so far. */
uint64_t tdm_rehearsal_native(const tdm_pool_rehearsal *rehearsal);
/* Bytes that could be live besides what is, were there no fragments: within the budgets and what the driver has. */
uint64_t tdm_rehearsal_room(const tdm_pool_rehearsal *rehearsal);

/* NULL is accepted. */
void tdm_rehearsal_end(tdm_pool_rehearsal *rehearsal);

#endif
