/*
 * Device memory: pooled buffers, statistics, budget, memory events, traces.
 *
 * Buffers and tensors come from the device's caching pool, or from a private one
 * (tandem/memory_control.h). A freed block returns to the pool in stream order. It is reused only
 * where no enqueued work can still touch it.
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
 * releases it with tdm_buffer_destroy. May block when memory is short. Statuses: TDM_BAD_ARGUMENT,
 * TDM_OUT_OF_HOST_MEMORY, TDM_OUT_OF_DEVICE_MEMORY, TDM_OVER_BUDGET (the detail gives requested,
 * reserved and budget). Thread-safe. Since 0.1.
 */
TDM_API tdm_status tdm_buffer_create(tdm_device *device, size_t bytes, tdm_buffer **buffer);

/* Release the caller's reference; NULL is accepted. Tensors on the buffer keep it alive. Legal
 * while work on it is in flight. Thread-safe. Since 0.1. */
TDM_API void tdm_buffer_destroy(tdm_buffer *buffer);

/* Returns the size in bytes as requested; 0 for NULL. Thread-safe. Since 0.1. */
TDM_API size_t tdm_buffer_size(const tdm_buffer *buffer);

/*
 * Enqueue a copy of bytes: host → buffer, buffer → host, or buffer → buffer (one device; ranges
 * must not overlap). Not blocking: `host` must stay valid, and for tdm_buffer_write unchanged,
 * until the stream has reached that point (tdm_stream_synchronize). Statuses: TDM_BAD_ARGUMENT
 * (NULL, range outside the buffer, overlap, devices differ), TDM_BAD_STATE (tdm_buffer_write and
 * _read while the stream records), the stream's failure. Thread-safe. Since 0.1.
 */
TDM_API tdm_status tdm_buffer_write(tdm_stream *stream, tdm_buffer *buffer, size_t offset,
                                    const void *host, size_t bytes);
TDM_API tdm_status tdm_buffer_read(tdm_stream *stream, const tdm_buffer *buffer, size_t offset,
                                   void *host, size_t bytes);
TDM_API tdm_status tdm_buffer_copy(tdm_stream *stream, tdm_buffer *target, size_t target_offset,
                                   const tdm_buffer *source, size_t source_offset, size_t bytes);

/*
 * The push function sets a tag ("weights", "layer 3/attention") for later allocations of the
 * calling thread. The pop function ends the latest tag. Statistics, traces and leak reports show
 * the tag of each block. Tags nest, 32 deep; the innermost one applies. The text is copied and kept
 * for the life of the process, so name kinds of objects, not each object.
 *
 * Statuses of push: TDM_BAD_ARGUMENT (NULL, TDM_MEMORY_TAG_BYTES or longer), TDM_BAD_STATE (too
 * deep), TDM_OUT_OF_HOST_MEMORY. Statuses of pop: TDM_BAD_STATE (no tag is open). Thread-safe.
 * Since 0.1.
 */
#define TDM_MEMORY_TAG_BYTES 64
TDM_API tdm_status tdm_memory_tag_push(const char *tag);
TDM_API tdm_status tdm_memory_tag_pop(void);

/* Statistics of a device's pool. All sizes in bytes. */
typedef struct tdm_memory_stats {
    size_t struct_size; /* sizeof(tdm_memory_stats), set by the caller */
    uint64_t requested; /* requested by live blocks */
    uint64_t requested_peak;
    uint64_t allocated; /* live blocks, after rounding */
    uint64_t allocated_peak;
    uint64_t reserved; /* held from the driver: live, cached and unused */
    uint64_t reserved_peak;
    uint64_t pending;            /* freed, but enqueued work may still touch them */
    uint64_t budget;             /* upper bound of reserved */
    uint64_t allocations;        /* blocks handed out so far */
    uint64_t frees;              /* blocks freed so far */
    uint64_t reuses;             /* allocations served without a driver call */
    uint64_t native_allocations; /* driver allocations so far */
    uint64_t native_frees;
    uint64_t retries;  /* allocations that succeeded only after waiting or trimming */
    uint64_t failures; /* allocations refused */
    uint64_t live_blocks;
} tdm_memory_stats;

/* Get the statistics of the device's pool, which are exact at the time of the call. Statuses:
 * TDM_BAD_ARGUMENT. Thread-safe. Since 0.1. */
TDM_API tdm_status tdm_device_memory_stats(const tdm_device *device, tdm_memory_stats *stats);

/* Reset the peaks to the current values. Statuses: TDM_BAD_ARGUMENT. Thread-safe. Since 0.1. */
TDM_API tdm_status tdm_device_reset_peaks(tdm_device *device);

/*
 * Set the bound of the reserved bytes. 0 restores the context's bound. If more is reserved, the
 * call releases cached memory until the bound holds or none is left, and may wait for pending
 * frees. Live blocks stay. Statuses: TDM_BAD_ARGUMENT. Thread-safe. Since 0.1.
 */
TDM_API tdm_status tdm_device_set_memory_budget(tdm_device *device, uint64_t bytes);

/*
 * Throttle a program that enqueues far ahead of its streams. The device's own pool (not private
 * ones) then grows with the live bytes, not with freed blocks that wait for enqueued work. The
 * throttle applies while freed blocks that enqueued work still uses exceed both 8 MiB and 1/`share`
 * of the live bytes. An allocation that finds nothing else then takes memory that another stream
 * uses, ordered behind that stream's work. If there is no such memory, it waits for work to end. 16
 * is a good share. 0, the initial value, disables the throttle.
 *
 * The price: an allocation may wait for a long kernel of another stream although the device has
 * memory left. If that stream itself waits for the allocating thread, the wait would never end.
 * After `patience_ms` (at least 1 with a share) the pool therefore grows instead. No allocation
 * waits again before that work has ended. Threads that use the pool at the same time have caches of
 * it, eight at most. Each cache counts its own bytes and remembers its own timeout. Statuses:
 * TDM_BAD_ARGUMENT. Thread-safe. Since 0.1.
 */
TDM_API tdm_status tdm_device_set_memory_throttle(tdm_device *device, uint32_t share,
                                                  uint32_t patience_ms);

/* Return cached memory that no live block needs to the driver, including pinned host memory. Waits
 * for pending frees. Statuses: TDM_BAD_ARGUMENT. Thread-safe. Since 0.1. */
TDM_API tdm_status tdm_device_trim(tdm_device *device);

/* ---- observation: statistics, usage by tag, events, snapshots -------------------------------- */

/* One quantity: current value, peak (since the peaks were reset), and the sums of all increases and
 * of all decreases. */
typedef struct tdm_memory_counter {
    uint64_t current;
    uint64_t peak;
    uint64_t allocated;
    uint64_t freed;
} tdm_memory_counter;

/* Statistics of a device's pool so far. Sizes in bytes. Wrapped native memory
 * (tdm_buffer_from_opencl) does not count. */
typedef struct tdm_memory_report {
    size_t struct_size;           /* sizeof(tdm_memory_report), set by the caller */
    tdm_memory_counter requested; /* requested by live blocks */
    tdm_memory_counter allocated; /* live blocks, after rounding */
    tdm_memory_counter reserved;  /* held from the driver */
    tdm_memory_counter active; /* live blocks, and freed ones that unfinished work may still use */
    tdm_memory_counter inactive_split; /* free pieces of native allocations that hold live blocks */
    tdm_memory_counter blocks;         /* number of live blocks */
    tdm_memory_counter slabs;          /* number of native allocations */
    uint64_t retries;      /* allocations that succeeded only after waiting or trimming */
    uint64_t ooms;         /* allocations refused */
    uint64_t budget;       /* upper bound of reserved */
    uint64_t free;         /* bytes in free ranges, pending ones included */
    uint64_t largest_free; /* the largest such range */
    double fragmentation;  /* 1 - largest_free / free; 0 where nothing is free */
} tdm_memory_report;

/*
 * Get the statistics of the device's pool. All counters belong to one moment; the free bytes are
 * read just after it. tdm_device_reset_peaks resets the peaks. Statuses: TDM_BAD_ARGUMENT.
 * Thread-safe. Since 0.1.
 */
TDM_API tdm_status tdm_device_memory_report(const tdm_device *device, tdm_memory_report *report);

/* Allocations under one tag (tdm_memory_tag_push): rounded bytes and blocks. */
typedef struct tdm_memory_tag_usage {
    char tag[TDM_MEMORY_TAG_BYTES]; /* empty: allocated without a tag */
    uint64_t bytes;
    uint64_t bytes_peak;
    uint64_t blocks;
    uint64_t blocks_peak;
    uint64_t allocations; /* blocks so far */
} tdm_memory_tag_usage;

/*
 * Get the usage by tag, in the order in which the tags first allocated. The first `capacity`
 * entries are copied. *count is the number of all entries. usage may be NULL if capacity is 0. At
 * most 127 tags are counted separately. Blocks of later tags count as the last entry, "(other
 * tags)". Statuses: TDM_BAD_ARGUMENT. Thread-safe. Since 0.1.
 */
TDM_API tdm_status tdm_device_memory_tags(const tdm_device *device, tdm_memory_tag_usage *usage,
                                          int capacity, int *count);

/* Kinds of events. Columns: name, value, text. */
#define TDM_MEMORY_EVENT_LIST(X)                                                                   \
    X(TDM_MEMORY_ALLOC, 1, "alloc")           /* a block was handed out */                         \
    X(TDM_MEMORY_USE, 2, "use")               /* the stream uses a block for the first time */     \
    X(TDM_MEMORY_FREE, 3, "free")             /* a block was freed */                              \
    X(TDM_MEMORY_SLAB_ALLOC, 4, "slab_alloc") /* native memory came from the driver */             \
    X(TDM_MEMORY_SLAB_FREE, 5, "slab_free")   /* native memory was returned to it */               \
    X(TDM_MEMORY_RETRY, 6, "retry")           /* an allocation needed waiting or trimming */       \
    X(TDM_MEMORY_FAILURE, 7, "failure")       /* an allocation was refused */

typedef enum tdm_memory_event_kind {
#define TDM_MEMORY_EVENT_ENUM(name, value, text) name = value,
    TDM_MEMORY_EVENT_LIST(TDM_MEMORY_EVENT_ENUM)
#undef TDM_MEMORY_EVENT_ENUM
} tdm_memory_event_kind;

typedef struct tdm_memory_event {
    tdm_memory_event_kind kind;
    uint32_t stream;    /* number of the stream in the device; 0: unknown */
    uint64_t number;    /* number of the event, from 1; a gap: events were overwritten */
    uint64_t time_ns;   /* the host's monotonic clock */
    uint64_t block;     /* number of the block's allocation in the pool, from 1; 0: none */
    uint64_t requested; /* bytes requested */
    uint64_t bytes;     /* bytes of the block, or of the native memory */
    const char *tag;    /* kept for the life of the process, or NULL */
} tdm_memory_event;

/*
 * Keep the last `capacity` events of the device's pool, at most TDM_MEMORY_EVENTS_MAX. 0, the
 * initial value, keeps none. The call discards earlier events. Statuses: TDM_BAD_ARGUMENT,
 * TDM_OUT_OF_HOST_MEMORY (nothing changes). Thread-safe. Since 0.1.
 */
#define TDM_MEMORY_EVENTS_MAX 1048576
TDM_API tdm_status tdm_device_record_memory_events(tdm_device *device, int capacity);

/* Copy the last `capacity` kept events, oldest first. *count is the number of copied events.
 * Statuses: TDM_BAD_ARGUMENT. Thread-safe. Since 0.1. */
TDM_API tdm_status tdm_device_memory_events(const tdm_device *device, tdm_memory_event *events,
                                            int capacity, int *count);

/*
 * Write the state of the device's memory as one JSON text ("schema": "tandem-memory/1";
 * docs/memory.md lists the members). It holds the device, the statistics, the native allocations
 * with their ranges, usage by tag, and the kept events. The text ends with a 0 that *bytes does not
 * count. The caller releases it with tdm_memory_snapshot_free. Statuses: TDM_BAD_ARGUMENT,
 * TDM_OUT_OF_HOST_MEMORY. Thread-safe. Since 0.1.
 */
TDM_API tdm_status tdm_device_memory_snapshot(tdm_device *device, char **json, size_t *bytes);

/*
 * Write the state of every open device of the context, of all backends, as one JSON text ("schema":
 * "tandem-memory-all/1"). It holds sums of the current values, then each device's snapshot. The
 * caller releases it with tdm_memory_snapshot_free. Statuses: TDM_BAD_ARGUMENT,
 * TDM_OUT_OF_HOST_MEMORY. Thread-safe. Since 0.1.
 */
TDM_API tdm_status tdm_context_memory_snapshot(tdm_context *context, char **json, size_t *bytes);

/* Release the text of either snapshot; NULL is accepted. Thread-safe. Since 0.1. */
TDM_API void tdm_memory_snapshot_free(char *json);

/*
 * Check the red zones of every live block, in debug mode (TANDEM_POOL=debug,
 * tdm_context_options.debug_pool). The call waits for the device first. Each write outside a block
 * is reported in the log with the block's tag, size and call site. The red zone is then restored.
 * *reports is the number of reports; without debug mode it is 0. Blocking. Statuses:
 * TDM_BAD_ARGUMENT, a stream's failure. Thread-safe. Since 0.1.
 */
TDM_API tdm_status tdm_device_check_memory(tdm_device *device, uint64_t *reports);

/* ---- traces: allocations in order, for replay ------------------------------------------------ */

typedef struct tdm_memory_trace tdm_memory_trace;

/* Start from TDM_MEMORY_TRACE_OPTIONS_INIT, then set path or write. */
typedef struct tdm_memory_trace_options {
    size_t struct_size; /* sizeof(tdm_memory_trace_options), set by the INIT */
    /* File to write. A file that exists is emptied first. Links and pipes are refused. */
    const char *path;
    /* Receives the file's bytes in order instead, on a thread of the library. A status other than
     * TDM_OK ends the trace and is returned by tdm_memory_trace_stop. */
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
 * Start a trace of the device's pool: every allocation, its first use by each stream, and its free,
 * with size, stream, tag and time. docs/memory.md describes the format; `tandem trace` shows and
 * replays it. Events wait in a ring, so that file writes do not delay the program. Several traces
 * may run at a time. The caller ends the trace with tdm_memory_trace_stop. The trace keeps the
 * device alive until then.
 *
 * Statuses: TDM_BAD_ARGUMENT, TDM_IO_ERROR (the file cannot be created), TDM_BAD_STATE (another
 * trace writes to the file), TDM_OUT_OF_HOST_MEMORY, the status that `write` returned. Thread-safe.
 * Since 0.1.
 */
TDM_API tdm_status tdm_memory_trace_start(tdm_device *device,
                                          const tdm_memory_trace_options *options,
                                          tdm_memory_trace **trace);

/*
 * End the trace, write the remaining events, and release it, whatever the status. NULL is accepted.
 * May block. Statuses: TDM_IO_ERROR (the file could not be written, or not as fast as events came:
 * the detail says which, and the file holds the earlier events), TDM_OUT_OF_HOST_MEMORY, the status
 * that `write` returned. Since 0.1.
 */
TDM_API tdm_status tdm_memory_trace_stop(tdm_memory_trace *trace);

#ifdef __cplusplus
}
#endif

#endif
