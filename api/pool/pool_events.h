/*
 * Events of a pool and their listeners: the ring of the last events, a trace recorder, the monitor
 * page. A pool without listeners pays one load.
 */
#ifndef TANDEM_API_POOL_POOL_EVENTS_H
#define TANDEM_API_POOL_POOL_EVENTS_H

#include <stdbool.h>
#include <stdint.h>

typedef struct tdm_pool tdm_pool;

typedef enum tdm_pool_event_kind {
    TDM_POOL_EVENT_ALLOC = 1,  /* a block was allocated */
    TDM_POOL_EVENT_USE,        /* first use of an allocation generation by the stream */
    TDM_POOL_EVENT_FREE,       /* the last reference was dropped; enqueued work may still run */
    TDM_POOL_EVENT_SLAB_ALLOC, /* native memory was allocated */
    TDM_POOL_EVENT_SLAB_FREE,  /* native memory was released */
    TDM_POOL_EVENT_RETRY,      /* an allocation succeeded only after waiting or trimming */
    TDM_POOL_EVENT_FAILURE     /* an allocation was refused */
} tdm_pool_event_kind;

typedef struct tdm_pool_event {
    tdm_pool_event_kind kind;
    uint32_t stream;     /* stream that will use it first, or uses it; 0: unknown */
    uint64_t generation; /* allocation generation, unique in the pool, from 1; 0: no block */
    uint64_t requested;  /* bytes requested */
    uint64_t bytes;      /* bytes allocated, or bytes of the native memory */
    /* tag of the allocation (tdm_memory_tag), which stays valid; or NULL */
    const char *tag;
    /*
     * Set for ALLOC and FREE, with the values after the event; all 0 for adopted memory.
     * `slab_bytes`: size of the native memory that holds the block. `slab_live`: sum of `bytes` of
     * its live blocks. `pending`: bytes of the pool that are freed but, as far as is known, still
     * used by enqueued work.
     */
    uint64_t slab_bytes, slab_live, pending;
} tdm_pool_event;

/*
 * `event` and `events` run with the pool locked, or with its use lists locked for a USE. They must
 * be short and must not call the pool. The caller owns the listener's memory and keeps it until the
 * listener is removed.
 *
 * With several per-thread caches, events arrive some dozens of operations late, unless a listener
 * is `timed`. Events of one block always arrive in their order, except USE. A USE is reported at
 * once and may precede its ALLOC. tdm_pool_catch_up reports all buffered events.
 */
typedef struct tdm_pool_listener {
    void (*event)(void *user, const tdm_pool_event *event);
    /* Receives several events in their order. Optional. */
    void (*events)(void *user, const tdm_pool_event *events, int count);
    void *user;
    /* it records times: each event is reported at once, one at a time except USE */
    bool timed;
    struct tdm_pool_listener *next;
} tdm_pool_listener;

/* Both are thread-safe. After tdm_pool_unlisten returns, no call is running or will come. */
void tdm_pool_listen(tdm_pool *pool, tdm_pool_listener *listener);
void tdm_pool_unlisten(tdm_pool *pool, tdm_pool_listener *listener);

/* Reports all buffered events to the listeners. Thread-safe. */
void tdm_pool_catch_up(tdm_pool *pool);

#endif
