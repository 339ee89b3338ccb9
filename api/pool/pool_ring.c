/* The ring of a pool's last events. */
#include <time.h>

#include "api/base/base.h"
#include "api/pool/pool_ring.h"

static uint64_t clock_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * UINT64_C(1000000000) + (uint64_t)now.tv_nsec;
}

static void on_event(void *user, const tdm_pool_event *event) {
    tdm_pool_ring *const ring = user;
    pthread_mutex_lock(&ring->lock);
    if (ring->capacity) {
        const uint64_t before = ring->number++;
        ring->events[before % ring->capacity] =
            (tdm_memory_event){.kind = (tdm_memory_event_kind)event->kind,
                               .stream = event->stream,
                               .number = before + 1,
                               .time_ns = clock_ns(),
                               .block = event->generation,
                               .requested = event->requested,
                               .bytes = event->bytes,
                               .tag = event->tag};
        if (ring->kept < ring->capacity)
            ring->kept++;
    }
    pthread_mutex_unlock(&ring->lock);
}

void tdm_pool_ring_init(tdm_pool_ring *ring, tdm_pool *pool) {
    *ring = (tdm_pool_ring){.listener =
                                (tdm_pool_listener){.event = on_event, .user = ring, .timed = true},
                            .pool = pool};
    pthread_mutex_init(&ring->control, NULL);
    pthread_mutex_init(&ring->lock, NULL);
}

void tdm_pool_ring_finish(tdm_pool_ring *ring) {
    if (ring->capacity)
        tdm_pool_unlisten(ring->pool, &ring->listener);
    tdm_host_free(ring->events);
    pthread_mutex_destroy(&ring->control);
    pthread_mutex_destroy(&ring->lock);
}

/* Replaces the array of events and returns the old one. */
static tdm_memory_event *swap(tdm_pool_ring *ring, tdm_memory_event *events, uint64_t capacity) {
    pthread_mutex_lock(&ring->lock);
    tdm_memory_event *const old = ring->events;
    ring->events = events;
    ring->capacity = capacity;
    ring->number = ring->kept = 0;
    pthread_mutex_unlock(&ring->lock);
    return old;
}

tdm_status tdm_pool_ring_resize(tdm_pool_ring *ring, uint64_t capacity) {
    tdm_memory_event *events = NULL;
    if (capacity) {
        events = tdm_host_calloc(capacity, sizeof *events);
        if (!events)
            return tdm_fail(TDM_OUT_OF_HOST_MEMORY, "memory events: no host memory for %llu events",
                            (unsigned long long)capacity);
    }
    pthread_mutex_lock(&ring->control);
    const bool listened = ring->events != NULL;
    tdm_memory_event *const old = swap(ring, events, capacity);
    if (capacity && !listened)
        tdm_pool_listen(ring->pool, &ring->listener);
    if (!capacity && listened)
        tdm_pool_unlisten(ring->pool, &ring->listener);
    pthread_mutex_unlock(&ring->control);
    tdm_host_free(old);
    return TDM_OK;
}

uint64_t tdm_pool_ring_copy(tdm_pool_ring *ring, tdm_memory_event *events, uint64_t capacity) {
    pthread_mutex_lock(&ring->lock);
    const uint64_t count = ring->kept < capacity ? ring->kept : capacity;
    for (uint64_t i = 0; i < count; i++)
        events[i] = ring->events[(ring->number - count + i) % ring->capacity];
    pthread_mutex_unlock(&ring->lock);
    return count;
}

uint64_t tdm_pool_ring_count(tdm_pool_ring *ring) {
    pthread_mutex_lock(&ring->lock);
    const uint64_t kept = ring->kept;
    pthread_mutex_unlock(&ring->lock);
    return kept;
}
