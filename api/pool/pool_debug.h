/*
 * Debug mode of a pool: red zones around each block, and calls at the begin and end of each
 * allocation generation.
 *
 * If tdm_pool_upstream.debug is not NULL, the pool does this for every block that is not adopted:
 * - Size: it takes before + max(bytes, 1) + after bytes, rounded up as usual.
 * - Members: `offset` is the start of the range + before. `size` is the number of bytes between
 *   the zones (rounded up). `requested` is the number of bytes requested.
 * - Counters: `allocated` of the statistics and `bytes` of the events include the zones.
 * - Begin: tdm_pool_alloc calls `begin` with the block complete (generation and tag too). The pool
 *   is unlocked, nobody else has the block yet, and no enqueued work can touch it.
 * - End: tdm_block_release calls `end` for the last reference, before the pool is locked. Before
 *   that it waits (upstream.wait) for every use of the generation and every dependency left.
 *   Afterwards it frees the range as usual.
 *
 * In debug mode, therefore, freeing waits, and no free range is ever pending.
 */
#ifndef TANDEM_API_POOL_POOL_DEBUG_H
#define TANDEM_API_POOL_POOL_DEBUG_H

#include <stdint.h>

struct tdm_block;

/* The pool borrows the hooks until it is destroyed. */
typedef struct tdm_pool_debug_hooks {
    void *user;
    uint64_t before; /* bytes of the red zones; multiples of the pool's alignment */
    uint64_t after;
    void (*begin)(void *user, struct tdm_block *block);
    void (*end)(void *user, struct tdm_block *block);
} tdm_pool_debug_hooks;

#endif
