/* A ring buffer of a pool's last events. Its size can change. */
#ifndef TANDEM_API_POOL_POOL_RING_H
#define TANDEM_API_POOL_POOL_RING_H

#include <pthread.h>
#include <stdbool.h>

#include "api/pool/pool_events.h"

#include <tandem/memory.h>

typedef struct tdm_pool_ring {
    tdm_pool_listener listener;
    tdm_pool *pool;
    pthread_mutex_t control; /* serializes changes of the size; taken before the pool's locks */
    /* leaf lock: the events; listeners run under either lock of the pool */
    pthread_mutex_t lock;
    tdm_memory_event *events;
    uint64_t capacity;
    uint64_t number; /* number of the last event */
    uint64_t kept;
} tdm_pool_ring;

/* Initialises a ring without capacity, which does not listen to the pool. */
void tdm_pool_ring_init(tdm_pool_ring *ring, tdm_pool *pool);
void tdm_pool_ring_finish(tdm_pool_ring *ring);

/* Keeps the last `capacity` events from now on. */
tdm_status tdm_pool_ring_resize(tdm_pool_ring *ring, uint64_t capacity);

/* Copies the last `capacity` kept events, oldest first. Returns their number. */
uint64_t tdm_pool_ring_copy(tdm_pool_ring *ring, tdm_memory_event *events, uint64_t capacity);

/* Returns the number of kept events. */
uint64_t tdm_pool_ring_count(tdm_pool_ring *ring);

#endif
