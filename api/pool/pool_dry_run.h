/*
 * A dry run of allocations: the pool's code works on a copy of its bookkeeping, and native memory
 * is only counted. The pool itself does not change.
 */
#ifndef TANDEM_API_POOL_POOL_DRY_RUN_H
#define TANDEM_API_POOL_POOL_DRY_RUN_H

#include "api/pool/pool.h"

typedef struct tdm_pool_dry_run tdm_pool_dry_run;

/* Limits outside the pool. */
typedef struct tdm_dry_run_limits {
    uint64_t native_free; /* bytes the driver has left; UINT64_MAX: unlimited */
    uint64_t relief;      /* bytes that other pools of the account would release, at most once */
} tdm_dry_run_limits;

/* Copies the current state of the pool. The time is proportional to its number of ranges, with the
 * pool locked. */
tdm_status tdm_dry_run_begin(tdm_pool *pool, const tdm_dry_run_limits *limits,
                             tdm_pool_dry_run **dry_run);

/*
 * Like tdm_pool_alloc, but nothing is ever freed. *rounded is the size of the block, and *grown the
 * part that no existing range could hold. Both are also set on failure (grown: 0).
 */
tdm_status tdm_dry_run_alloc(tdm_pool_dry_run *dry_run, size_t bytes, uint32_t stream,
                             uint64_t *rounded, uint64_t *grown);

/* Native bytes taken so far. */
uint64_t tdm_dry_run_native(const tdm_pool_dry_run *dry_run);
/* Bytes that could become live without fragmentation, within the budgets and free memory. */
uint64_t tdm_dry_run_room(const tdm_pool_dry_run *dry_run);

/* NULL is accepted. */
void tdm_dry_run_end(tdm_pool_dry_run *dry_run);

#endif
