/*
 * Debug mode: red zones around blocks, poison in what was never written, a look at both when a life ends.
 *
 * A guard serves the pools of one device through the hooks of pool_debug.h. A zone holds a pattern that carries the
 * number of the block's life, so that a copy of another block's zone does not pass for it. Everything is read and written
 * through the device, on a queue of the guard's own: what a kernel wrote is seen as what a copy wrote.
 */
#ifndef TANDEM_API_POOL_GUARD_H
#define TANDEM_API_POOL_GUARD_H

#include "api/pool/pool.h"

/* How a guard reaches native memory: each call returns when it is done. One at a time. */
typedef struct tdm_guard_access {
    void *user;
    tdm_status (*read)(void *user, tdm_bk_memory *memory, uint64_t offset, void *host,
                       size_t bytes);
    tdm_status (*write)(void *user, tdm_bk_memory *memory, uint64_t offset, const void *host,
                        size_t bytes);
    /* The 8 bytes of `pattern` over and over; offset and bytes are multiples of 8. */
    tdm_status (*fill)(void *user, tdm_bk_memory *memory, uint64_t offset, size_t bytes,
                       const void *pattern);
} tdm_guard_access;

typedef struct tdm_guard tdm_guard;

/* Zones of `zone` bytes, a multiple of the pool's alignment and of 8. */
tdm_status tdm_guard_create(const tdm_guard_access *access, uint64_t zone, tdm_guard **guard);
/* After the pools it serves; NULL is accepted. */
void tdm_guard_destroy(tdm_guard *guard);

/* What a pool's upstream names as its debug hooks. */
const tdm_pool_debug_hooks *tdm_guard_hooks(const tdm_guard *guard);

/* New native memory: filled with what freed memory holds, so that the first life of it is watched as all later ones. */
void tdm_guard_fill_native(tdm_guard *guard, tdm_bk_memory *memory, size_t bytes);

/*
 * Look at the zones of every live block; what is damaged is reported in the log and put right. Returns how many
 * reports there were. No work may be under way.
 */
uint64_t tdm_guard_check(tdm_guard *guard);

/* Reports so far. */
uint64_t tdm_guard_reports(tdm_guard *guard);

/* A guard on the device's memory (guard_device.c). */
tdm_status tdm_guard_create_for(tdm_device *device, tdm_guard **guard);

#endif
