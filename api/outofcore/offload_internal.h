/* A list of weights of which the device holds a part: offload.c keeps them moving, offload_plan.c divides the budget. */
#ifndef TANDEM_API_OUTOFCORE_OFFLOAD_INTERNAL_H
#define TANDEM_API_OUTOFCORE_OFFLOAD_INTERNAL_H

#include "api/device/memory/staging_ring.h"

#include <tandem/offload.h>

#define TDM_OFFLOAD_ALIGNMENT 256
#define TDM_OFFLOAD_MOST_DEPTH 8
/* Releases of one item on different streams that are remembered apart. */
#define TDM_OFFLOAD_USES 4

typedef struct tdm_offload_use {
    uint32_t stream;
    tdm_event *event;
} tdm_offload_use;

typedef struct tdm_offload_entry {
    tdm_layout layout;
    const void *memory;
    uint64_t bytes;  /* that are copied */
    uint64_t room;   /* aligned */
    bool resident;   /* has a place of its own, at `offset` */
    bool present;    /* its copy is enqueued, at `offset` */
    uint64_t offset; /* bytes into the arena */
    int holds;       /* acquired and not released */
    int next;        /* that followed the last time */
    tdm_event *loaded;
    tdm_tensor *tensor;                     /* while it is present */
    tdm_offload_use uses[TDM_OFFLOAD_USES]; /* releases that its place waits for */
    int use_count;
} tdm_offload_entry;

struct tdm_offload {
    tdm_device *device; /* counted */
    pthread_mutex_t lock;
    tdm_stream *in;
    tdm_staging_ring *staging; /* for pageable memory of a discrete device; NULL: none yet */
    tdm_buffer *arena;
    uint64_t ring_at, ring_bytes; /* of the arena */
    uint64_t head;                /* where the ring goes on, from ring_at */
    int latest;                   /* that was acquired last, -1: none */
    tdm_offload_stats stats;
    int count;
    tdm_offload_entry *entries;
};

/* Divide the budget between items that stay and the ring: fills in resident, offset, ring_at, ring_bytes, depth, device_bytes. */
tdm_status tdm_offload_divide(tdm_offload *o, const tdm_offload_options *options, double rate);

#endif
