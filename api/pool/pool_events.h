/*
 * What happens in a pool, told to whoever listens: the ring of the last events, a trace that is
 * being recorded, the page a monitor looks at. A pool that nobody listens to pays one load.
 */
#ifndef TANDEM_API_POOL_POOL_EVENTS_H
#define TANDEM_API_POOL_POOL_EVENTS_H

#include <stdbool.h>
#include <stdint.h>

typedef struct tdm_pool tdm_pool;

typedef enum tdm_pool_event_kind {
    TDM_POOL_EVENT_ALLOC = 1,  /* a block was handed out */
    TDM_POOL_EVENT_USE,        /* the first use of a block's life by the stream */
    TDM_POOL_EVENT_FREE,       /* the last reference came back; enqueued work may go on */
    TDM_POOL_EVENT_SLAB_ALLOC, /* native memory came from the driver */
    TDM_POOL_EVENT_SLAB_FREE,  /* and went back */
    TDM_POOL_EVENT_RETRY,      /* an allocation succeeded only after waiting or trimming */
    TDM_POOL_EVENT_FAILURE     /* an allocation was refused */
} tdm_pool_event_kind;

typedef struct tdm_pool_event {
    tdm_pool_event_kind kind;
    uint32_t stream;    /* who will use it first, uses it; 0: not known */
    uint64_t life;      /* number of the block's life, unique in the pool, from 1; 0: no block */
    uint64_t requested; /* bytes asked for */
    uint64_t bytes;     /* bytes handed out, or of the native memory */
    const char *tag;    /* of the allocation (tdm_memory_tag), kept for ever by it; or NULL */
    /* Of ALLOC and FREE, after the event: the native memory the block lies in, its bytes in live blocks (the sum of
     * their `bytes`), and the pool's bytes in ranges that are freed but, as far as is known, still in use by enqueued
     * work. All 0 for adopted memory. */
    uint64_t slab_bytes, slab_live, pending;
} tdm_pool_event;

/*
 * `event` and `events` run with the pool locked, or with its marks locked for a USE: they must be short and must not call the pool. The
 * listener's memory is the caller's, and stays until it was removed.
 *
 * Where several threads work the pool at the same time, events are told some dozens of operations late, unless a listener is
 * `timed`. Those of one block come in their order always, but for a USE, which is told at once and then may come before its
 * ALLOC. tdm_pool_catch_up tells what is left.
 */
typedef struct tdm_pool_listener {
    void (*event)(void *user, const tdm_pool_event *event);
    /* Several at once, in their order. Optional. */
    void (*events)(void *user, const tdm_pool_event *events, int count);
    void *user;
    bool timed; /* it takes the time: each event is told at once, one at a time but for a USE */
    struct tdm_pool_listener *next;
} tdm_pool_listener;

/* Thread-safe; after tdm_pool_unlisten returned, no call is under way or comes later. */
void tdm_pool_listen(tdm_pool *pool, tdm_pool_listener *listener);
void tdm_pool_unlisten(tdm_pool *pool, tdm_pool_listener *listener);

/* Tell listeners all that happened before. Thread-safe. */
void tdm_pool_catch_up(tdm_pool *pool);

#endif
