/*
 * Device memory: pooled buffers, statistics, budget.
 *
 * Every buffer and tensor comes from the device's caching pool. A freed block returns to the pool
 * in stream order: it is handed out again only where no enqueued work can still touch it.
 */
#ifndef TANDEM_MEMORY_H
#define TANDEM_MEMORY_H

#include <tandem/stream.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tdm_buffer tdm_buffer;

/*
 * Allocate `bytes` of device memory; the content is undefined. Zero bytes is legal. The caller
 * releases it with tdm_buffer_destroy. Statuses: TDM_BAD_ARGUMENT, TDM_OUT_OF_HOST_MEMORY,
 * TDM_OUT_OF_DEVICE_MEMORY, TDM_OVER_BUDGET (the detail gives requested, reserved and budget). May
 * block when memory is short. Thread-safe. Since 0.1.
 */
TDM_API tdm_status tdm_buffer_create(tdm_device *device, size_t bytes, tdm_buffer **buffer);

/*
 * Release the caller's reference; NULL is accepted. Tensors on the buffer keep it alive. Legal
 * while work on it is in flight. Thread-safe. Since 0.1.
 */
TDM_API void tdm_buffer_destroy(tdm_buffer *buffer);

/* Size in bytes as requested; 0 for NULL. Thread-safe. Since 0.1. */
TDM_API size_t tdm_buffer_size(const tdm_buffer *buffer);

/*
 * Enqueue a copy of bytes host → buffer, buffer → host, buffer → buffer (one device; ranges must
 * not overlap). Not blocking: `host` must stay valid, and for tdm_buffer_write unchanged, until the
 * stream has passed; see tdm_stream_synchronize. Statuses: TDM_BAD_ARGUMENT (NULL, range outside
 * the buffer, overlap, devices differ), TDM_BAD_STATE (tdm_buffer_write and _read while the stream
 * records), the stream's failure. Thread-safe. Since 0.1.
 */
TDM_API tdm_status tdm_buffer_write(tdm_stream *stream, tdm_buffer *buffer, size_t offset,
                                    const void *host, size_t bytes);
TDM_API tdm_status tdm_buffer_read(tdm_stream *stream, const tdm_buffer *buffer, size_t offset,
                                   void *host, size_t bytes);
TDM_API tdm_status tdm_buffer_copy(tdm_stream *stream, tdm_buffer *target, size_t target_offset,
                                   const tdm_buffer *source, size_t source_offset, size_t bytes);

/*
 * Name what the calling thread allocates from here on ("weights", "layer 3/attention"): statistics,
 * traces and leak reports tell it with each block. Tags nest, 32 deep; the innermost counts. The
 * text is copied, and kept for the life of the process: name kinds of things, not each thing.
 * Statuses of push: TDM_BAD_ARGUMENT (NULL, TDM_MEMORY_TAG_BYTES or longer), TDM_BAD_STATE (too
 * deep), TDM_OUT_OF_HOST_MEMORY; of pop: TDM_BAD_STATE (none is open). Thread-safe. Since 0.1.
 */
#define TDM_MEMORY_TAG_BYTES 64
TDM_API tdm_status tdm_memory_tag_push(const char *tag);
TDM_API tdm_status tdm_memory_tag_pop(void);

/* What a device's pool holds. All sizes in bytes. */
typedef struct tdm_memory_stats {
    size_t struct_size; /* sizeof(tdm_memory_stats), set by the caller */
    uint64_t requested; /* asked for by live blocks */
    uint64_t requested_peak;
    uint64_t allocated; /* live blocks, rounded to their size class */
    uint64_t allocated_peak;
    uint64_t reserved; /* held from the driver: live, cached and unused */
    uint64_t reserved_peak;
    uint64_t pending;            /* freed, but enqueued work may still touch them */
    uint64_t budget;             /* upper bound of reserved */
    uint64_t allocations;        /* blocks handed out so far */
    uint64_t frees;              /* blocks given back so far */
    uint64_t reuses;             /* of the allocations: served without the driver */
    uint64_t native_allocations; /* driver allocations so far */
    uint64_t native_frees;
    uint64_t retries;  /* allocations that succeeded only after waiting or trimming */
    uint64_t failures; /* allocations refused */
    uint64_t live_blocks;
} tdm_memory_stats;

/* Statistics of the device's pool, exact at the time of the call. Statuses: TDM_BAD_ARGUMENT.
 * Thread-safe. Since 0.1. */
TDM_API tdm_status tdm_device_memory_stats(const tdm_device *device, tdm_memory_stats *stats);

/* Set the peaks to the present values. Statuses: TDM_BAD_ARGUMENT. Thread-safe. Since 0.1. */
TDM_API tdm_status tdm_device_reset_peaks(tdm_device *device);

/*
 * Bound the memory the pool holds from the driver; 0 means the context's bound. A bound below what
 * is reserved now gives cached memory back first; live blocks stay. Statuses: TDM_BAD_ARGUMENT.
 * Thread-safe. Since 0.1.
 */
TDM_API tdm_status tdm_device_set_memory_budget(tdm_device *device, uint64_t bytes);

/*
 * Throttle a program that enqueues far ahead of its streams, so that the device's own pool (not private ones) grows with what
 * lives and not with what waits. While more than 8 MiB, and more than a `share`-th of the live bytes, were freed but are still
 * used by enqueued work, an allocation that finds nothing else takes memory that another stream uses, ordered behind it, and where there is none
 * waits for work to end. 16 is a good share; 0, as in the beginning: never.
 *
 * The price: an allocation may wait for a long kernel of another stream although the device has memory left. Where that stream
 * itself waits for what the allocating thread has yet to do, nothing would end the wait: after `patience_ms` (at least 1 with a
 * share) the pool grows instead, and no allocation waits again before that work has ended. Threads that work the pool at the same
 * time have branches of it, eight at most, each with bytes and a wait of its own. Statuses: TDM_BAD_ARGUMENT. Thread-safe. Since
 * 0.1.
 */
TDM_API tdm_status tdm_device_set_memory_throttle(tdm_device *device, uint32_t share,
                                                  uint32_t patience_ms);

/* Give cached memory that no live block needs back to the driver, pinned host memory too. Waits for
 * pending frees. Statuses: TDM_BAD_ARGUMENT. Thread-safe. Since 0.1. */
TDM_API tdm_status tdm_device_trim(tdm_device *device);

/* ---- observation: what happened, by what, and what there is now ------------------------------- */

/* One quantity: now, at most (since the peaks were reset), and the sums of what came and what went. */
typedef struct tdm_memory_counter {
    uint64_t current;
    uint64_t peak;
    uint64_t allocated;
    uint64_t freed;
} tdm_memory_counter;

/* What a device's pool did so far. Adopted memory (tdm_buffer_from_opencl) does not count. Sizes in bytes. */
typedef struct tdm_memory_report {
    size_t struct_size;           /* sizeof(tdm_memory_report), set by the caller */
    tdm_memory_counter requested; /* asked for by live blocks */
    tdm_memory_counter allocated; /* live blocks, as rounded */
    tdm_memory_counter reserved;  /* held from the driver */
    tdm_memory_counter active; /* live blocks, and freed ones whose work is not known to be done */
    tdm_memory_counter inactive_split; /* free pieces of native allocations that hold live blocks */
    tdm_memory_counter blocks;         /* live blocks, a number */
    tdm_memory_counter slabs;          /* native allocations, a number */
    uint64_t retries;      /* allocations that succeeded only after waiting or trimming */
    uint64_t ooms;         /* allocations refused */
    uint64_t budget;       /* upper bound of reserved */
    uint64_t free;         /* bytes in free ranges, pending ones included */
    uint64_t largest_free; /* the largest such range */
    double fragmentation;  /* 1 - largest_free / free; 0 where nothing is free */
} tdm_memory_report;

/*
 * Statistics of the device's pool, the counters as they were at one moment. Statuses: TDM_BAD_ARGUMENT.
 * tdm_device_reset_peaks resets the peaks. Thread-safe. Since 0.1.
 */
TDM_API tdm_status tdm_device_memory_report(const tdm_device *device, tdm_memory_report *report);

/* What is allocated under one tag (tdm_memory_tag_push): rounded bytes and blocks. */
typedef struct tdm_memory_tag_usage {
    char tag[TDM_MEMORY_TAG_BYTES]; /* empty: allocated without a tag */
    uint64_t bytes;
    uint64_t bytes_peak;
    uint64_t blocks;
    uint64_t blocks_peak;
    uint64_t allocations; /* blocks so far */
} tdm_memory_tag_usage;

/*
 * Usage by tag, in the order in which the tags first allocated: the first `capacity` of them, and in *count how many
 * there are. usage may be NULL where capacity is 0. At most 127 tags are told apart; blocks of later ones count as
 * "(other tags)", the last. Statuses: TDM_BAD_ARGUMENT. Thread-safe. Since 0.1.
 */
TDM_API tdm_status tdm_device_memory_tags(const tdm_device *device, tdm_memory_tag_usage *usage,
                                          int capacity, int *count);

/* Kinds of events. name, value, text. */
#define TDM_MEMORY_EVENT_LIST(X)                                                                   \
    X(TDM_MEMORY_ALLOC, 1, "alloc")           /* a block was handed out */                         \
    X(TDM_MEMORY_USE, 2, "use")               /* the stream uses a block for the first time */     \
    X(TDM_MEMORY_FREE, 3, "free")             /* a block was given back */                         \
    X(TDM_MEMORY_SLAB_ALLOC, 4, "slab_alloc") /* native memory came from the driver */             \
    X(TDM_MEMORY_SLAB_FREE, 5, "slab_free")   /* and went back */                                  \
    X(TDM_MEMORY_RETRY, 6, "retry")           /* it took waiting or trimming to allocate */        \
    X(TDM_MEMORY_FAILURE, 7, "failure")       /* an allocation was refused */

typedef enum tdm_memory_event_kind {
#define TDM_MEMORY_EVENT_ENUM(name, value, text) name = value,
    TDM_MEMORY_EVENT_LIST(TDM_MEMORY_EVENT_ENUM)
#undef TDM_MEMORY_EVENT_ENUM
} tdm_memory_event_kind;

typedef struct tdm_memory_event {
    tdm_memory_event_kind kind;
    uint32_t stream;    /* number of the stream in the device, 0: not known */
    uint64_t number;    /* of the event, from 1; a gap: events were overwritten */
    uint64_t time_ns;   /* of the host's monotonic clock */
    uint64_t block;     /* number of the block's life in the pool, from 1; 0: none */
    uint64_t requested; /* bytes asked for */
    uint64_t bytes;     /* bytes handed out, or of the native memory */
    const char *tag;    /* kept for the life of the process, or NULL */
} tdm_memory_event;

/*
 * Keep the last `capacity` events of the device's pool, at most TDM_MEMORY_EVENTS_MAX; 0, which is where it starts:
 * none. Forgets the events so far. Statuses: TDM_BAD_ARGUMENT, TDM_OUT_OF_HOST_MEMORY (it goes on as before).
 * Thread-safe. Since 0.1.
 */
#define TDM_MEMORY_EVENTS_MAX 1048576
TDM_API tdm_status tdm_device_record_memory_events(tdm_device *device, int capacity);

/*
 * Copy the kept events out, oldest first: the last `capacity` of them, and in *count how many were copied.
 * Statuses: TDM_BAD_ARGUMENT. Thread-safe. Since 0.1.
 */
TDM_API tdm_status tdm_device_memory_events(const tdm_device *device, tdm_memory_event *events,
                                            int capacity, int *count);

/*
 * All of it as one JSON text ("schema": "tandem-memory/1"; docs/memory.md lists the members): the device, the
 * statistics, the native allocations with their ranges, usage by tag, the kept events. Ends with a 0 that *bytes does
 * not count. The caller gives it back with tdm_memory_snapshot_free. Statuses: TDM_BAD_ARGUMENT,
 * TDM_OUT_OF_HOST_MEMORY. Thread-safe. Since 0.1.
 */
TDM_API tdm_status tdm_device_memory_snapshot(tdm_device *device, char **json, size_t *bytes);

/*
 * The same of every device of the context that is open, of all backends, as one text ("schema":
 * "tandem-memory-all/1"): sums of the current values, then each device's snapshot. Statuses: TDM_BAD_ARGUMENT,
 * TDM_OUT_OF_HOST_MEMORY. Thread-safe. Since 0.1.
 */
TDM_API tdm_status tdm_context_memory_snapshot(tdm_context *context, char **json, size_t *bytes);

/* For both; NULL is accepted. Thread-safe. Since 0.1. */
TDM_API void tdm_memory_snapshot_free(char *json);

/*
 * In debug mode (TANDEM_POOL=debug, tdm_context_options.debug_pool): wait for the device, then look at the red zones of
 * every live block. What was written outside a block is reported in the log, with the block's tag, size and site, put
 * right, and counted in *reports. Without debug mode *reports is 0. Blocking. Statuses: TDM_BAD_ARGUMENT, or a stream's
 * failure. Thread-safe. Since 0.1.
 */
TDM_API tdm_status tdm_device_check_memory(tdm_device *device, uint64_t *reports);

/* ---- traces: what was allocated, in order, for replay ------------------------------------------ */

typedef struct tdm_memory_trace tdm_memory_trace;

/* Start from TDM_MEMORY_TRACE_OPTIONS_INIT, and set path or write. */
typedef struct tdm_memory_trace_options {
    size_t struct_size; /* sizeof(tdm_memory_trace_options), set by the INIT */
    /* File to write: a new one, or one of before, which is emptied. No link, no pipe. */
    const char *path;
    /* Takes the file's bytes in order instead, on a thread of the library's. A status that is not TDM_OK ends the
     * trace, and comes back from tdm_memory_trace_stop. */
    tdm_status (*write)(void *user, const void *bytes, size_t size);
    void *user;
    size_t ring_events; /* events that may wait to be written, 48 bytes each; 0: 262144 */
} tdm_memory_trace_options;

#ifdef __cplusplus
static inline tdm_memory_trace_options tdm_memory_trace_options_init(void) {
    tdm_memory_trace_options options = tdm_memory_trace_options();
    options.struct_size = sizeof options;
    return options;
}
#define TDM_MEMORY_TRACE_OPTIONS_INIT tdm_memory_trace_options_init()
#else
#define TDM_MEMORY_TRACE_OPTIONS_INIT                                                              \
    { .struct_size = sizeof(tdm_memory_trace_options) }
#endif

/*
 * Record every allocation of the device's pool from here on, its first use by each stream and when it is freed: size,
 * stream, tag, time. docs/memory.md has the format; `tandem trace` shows and replays it. The program is not held up by
 * the file: events wait in a ring. Several traces may run at a time. The caller ends it with tdm_memory_trace_stop, until
 * which it keeps the device. Statuses: TDM_BAD_ARGUMENT, TDM_IO_ERROR (the file cannot be made), TDM_BAD_STATE (another
 * trace is being written to it), TDM_OUT_OF_HOST_MEMORY, what `write` returned. Thread-safe. Since 0.1.
 */
TDM_API tdm_status tdm_memory_trace_start(tdm_device *device,
                                          const tdm_memory_trace_options *options,
                                          tdm_memory_trace **trace);

/*
 * End the trace, write what is left, and release it, whatever the status; NULL is accepted. Statuses: TDM_IO_ERROR (the
 * file could not be written, or not as fast as events came: the detail says which, and the file holds the events before),
 * TDM_OUT_OF_HOST_MEMORY, what `write` returned. May block. Since 0.1.
 */
TDM_API tdm_status tdm_memory_trace_stop(tdm_memory_trace *trace);

#ifdef __cplusplus
}
#endif

#endif
