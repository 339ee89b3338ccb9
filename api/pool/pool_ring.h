/* The last events of a pool, in a ring of a size that can change. */
#ifndef TANDEM_API_POOL_POOL_RING_H
#define TANDEM_API_POOL_POOL_RING_H

#include <pthread.h>
#include <stdbool.h>

#include "api/pool/pool_events.h"

#include <tandem/memory.h>

typedef struct tdm_pool_ring {
    tdm_pool_listener listener;
    tdm_pool *pool;
    pthread_mutex_t control; /* one change of the size at a time; taken before the pool's locks */
    pthread_mutex_t lock;    /* leaf: the events; listeners run under either lock of the pool */
    tdm_memory_event *events;
    uint64_t capacity;
    uint64_t number; /* of the last event */
    uint64_t kept;
} tdm_pool_ring;

/* A ring that keeps nothing and costs nothing. */
void tdm_pool_ring_init(tdm_pool_ring *ring, tdm_pool *pool);
void tdm_pool_ring_finish(tdm_pool_ring *ring);

/* Keep the last `capacity` events from now on. */
tdm_status tdm_pool_ring_resize(tdm_pool_ring *ring, uint64_t capacity);

/* The last `capacity` kept events, oldest first; returns how many. */
uint64_t tdm_pool_ring_copy(tdm_pool_ring *ring, tdm_memory_event *events, uint64_t capacity);

/* How many are kept. */
uint64_t tdm_pool_ring_count(tdm_pool_ring *ring);

#endif
