/*
 * A dry run makes allocations on a copy of a pool's bookkeeping. The pool's code runs on that copy,
 * and native memory is only counted. The allocations do not change the pool itself.
 */
#ifndef TANDEM_API_POOL_POOL_DRY_RUN_H
#define TANDEM_API_POOL_POOL_DRY_RUN_H

#include "api/pool/pool.h"

typedef struct tdm_pool_dry_run tdm_pool_dry_run;

/* These limits come from outside the pool. */
typedef struct tdm_dry_run_limits {
    uint64_t native_free; /* bytes the driver has left; UINT64_MAX: unlimited */
    uint64_t relief;      /* bytes that other pools of the memory account would release, once */
} tdm_dry_run_limits;

/* Copies the current state of the pool, which is locked meanwhile. The time grows with the number
 * of its ranges. */
tdm_status tdm_dry_run_begin(tdm_pool *pool, const tdm_dry_run_limits *limits,
                             tdm_pool_dry_run **dry_run);

/*
 * Allocates from the copy like tdm_pool_alloc; the block is never freed. *rounded is the size of
 * the block. *grown is the same size if new native memory was needed, otherwise 0. Both are also
 * set on failure; *grown is then 0.
 */
tdm_status tdm_dry_run_alloc(tdm_pool_dry_run *dry_run, size_t bytes, uint32_t stream,
                             uint64_t *rounded, uint64_t *grown);

/* Returns the native bytes that the dry run has taken in total. */
uint64_t tdm_dry_run_native(const tdm_pool_dry_run *dry_run);
/* Returns how many more bytes could be allocated if the free memory were not fragmented. The
 * budgets and the free native memory limit this number. */
uint64_t tdm_dry_run_room(const tdm_pool_dry_run *dry_run);

/* Frees the copy. NULL is accepted. */
void tdm_dry_run_end(tdm_pool_dry_run *dry_run);

#endif
