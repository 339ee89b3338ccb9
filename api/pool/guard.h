/*
 * Debug mode: red zones around blocks and poison in fresh and freed memory. The zones are checked
 * when a block is freed. Freed memory is checked when it is allocated again.
 *
 * A guard serves the pools of one device through the hooks of pool_debug.h. The pattern of a zone
 * depends on the number of the block's allocation generation, so that a copy of another block's
 * zone does not match.
 *
 * All reads and writes go through the device, on the guard's own queue. Damage by kernels is
 * therefore detected like damage by copies.
 */
#ifndef TANDEM_API_POOL_GUARD_H
#define TANDEM_API_POOL_GUARD_H

#include "api/pool/pool.h"

/* Access to native memory. Each call returns when it is complete. Calls come one at a time. */
typedef struct tdm_guard_access {
    void *user;
    tdm_status (*read)(void *user, tdm_bk_memory *memory, uint64_t offset, void *host,
                       size_t bytes);
    tdm_status (*write)(void *user, tdm_bk_memory *memory, uint64_t offset, const void *host,
                        size_t bytes);
    /* Repeats the 8 bytes of `pattern`; offset and bytes are multiples of 8. */
    tdm_status (*fill)(void *user, tdm_bk_memory *memory, uint64_t offset, size_t bytes,
                       const void *pattern);
} tdm_guard_access;

typedef struct tdm_guard tdm_guard;

/* Creates a guard whose zones have `zone` bytes, a multiple of the pool's alignment and of 8. */
tdm_status tdm_guard_create(const tdm_guard_access *access, uint64_t zone, tdm_guard **guard);
/* Destroys a guard, after its pools were destroyed. NULL is accepted. */
void tdm_guard_destroy(tdm_guard *guard);

/* Makes each later report also go to standard error and end the process by abort(). */
void tdm_guard_abort_on_report(tdm_guard *guard);

/* Returns the debug hooks for the upstream of a pool. */
const tdm_pool_debug_hooks *tdm_guard_hooks(const tdm_guard *guard);

/* Fills new native memory with the pattern of freed memory, so that its first block is checked like
 * all later ones. */
void tdm_guard_fill_native(tdm_guard *guard, tdm_bk_memory *memory, size_t bytes);

/*
 * Checks the zones of every live block. It logs damage, repairs it and returns the number of
 * reports. No work may be running.
 */
uint64_t tdm_guard_check(tdm_guard *guard);

/* Returns the number of reports so far. */
uint64_t tdm_guard_reports(tdm_guard *guard);

/* Creates a guard for the device's memory (guard_device.c). */
tdm_status tdm_guard_create_for(tdm_device *device, tdm_guard **guard);

#endif
