/*
 * Debug mode of a pool: red zones around each block, and calls where a block's life begins and ends.
 *
 * What the core does when tdm_pool_upstream.debug is not NULL, for every block but adopted ones:
 * - it takes a range of before + max(bytes, 1) + after, rounded up as usual; block->offset is the start of the
 *   range + before, block->size what lies between the zones (bytes rounded up), block->requested what was
 *   asked for. Statistics (`allocated`) and events (`bytes`) count the whole range, zones included;
 * - tdm_pool_alloc, with the block complete (life and tag too), the pool unlocked and nobody else having the
 *   block yet, calls `begin`. Ranges of it have no pending work then;
 * - tdm_block_release, with the last reference, before the pool is locked: waits (upstream.wait) for every use of
 *   the life and every edge it had left, then calls `end`, then frees the range as usual.
 * So in debug mode freeing waits, and no free range is ever pending.
 * What statistics need of the core is in pool_events.h: slab_bytes, slab_live and pending of ALLOC and FREE.
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
