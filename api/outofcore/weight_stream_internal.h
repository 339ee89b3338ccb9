/* A weight stream is a list of weights of which the device holds a part. weight_stream.c copies
 * them, and weight_stream_plan.c divides the budget. */
#ifndef TANDEM_API_OUTOFCORE_WEIGHT_STREAM_INTERNAL_H
#define TANDEM_API_OUTOFCORE_WEIGHT_STREAM_INTERNAL_H

#include "api/device/memory/staging_ring.h"

#include <tandem/weight_stream.h>

#define TDM_WEIGHT_STREAM_ALIGNMENT 256
#define TDM_WEIGHT_STREAM_MAX_DEPTH 8
/* For this many streams, the last release of an item is recorded separately. */
#define TDM_WEIGHT_STREAM_USES 4

typedef struct tdm_weight_stream_use {
    uint32_t stream;
    tdm_event *event;
} tdm_weight_stream_use;

typedef struct tdm_weight_stream_entry {
    tdm_layout layout;
    const void *memory;
    uint64_t bytes;  /* bytes to copy */
    uint64_t room;   /* bytes, aligned */
    bool resident;   /* never evicted, has its own region at `offset` */
    bool present;    /* its copy to `offset` is enqueued */
    uint64_t offset; /* bytes from the buffer's start */
    int holds;       /* acquired and not yet released */
    int next;        /* item that was acquired after this one the last time */
    tdm_event *loaded;
    tdm_tensor *tensor; /* only while present */
    tdm_weight_stream_use
        uses[TDM_WEIGHT_STREAM_USES]; /* releases that the reuse of its region waits for */
    int use_count;
} tdm_weight_stream_entry;

struct tdm_weight_stream {
    tdm_device *device; /* reference-counted */
    pthread_mutex_t lock;
    tdm_stream *in;
    tdm_staging_ring *staging; /* for pageable memory of a discrete device; NULL: not opened yet */
    tdm_buffer *memory;
    uint64_t ring_at, ring_bytes; /* bytes from the buffer's start, and size */
    uint64_t head;                /* where the search for a region begins, relative to ring_at */
    int latest;                   /* item acquired last, -1: none */
    tdm_weight_stream_stats stats;
    int count;
    tdm_weight_stream_entry *entries;
};

/* Divides the budget between resident items and the ring. Fills in resident, offset, ring_at,
 * ring_bytes, depth and device_bytes. */
tdm_status tdm_weight_stream_divide(tdm_weight_stream *o, const tdm_weight_stream_options *options,
                                    double rate);

#endif
