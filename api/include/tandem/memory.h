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
 * records), the stream's failure. Since 0.1.
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

/* Give cached memory that no live block needs back to the driver, pinned host memory too. Waits for
 * pending frees. Statuses: TDM_BAD_ARGUMENT. Thread-safe. Since 0.1. */
TDM_API tdm_status tdm_device_trim(tdm_device *device);

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
inline tdm_memory_trace_options tdm_memory_trace_options_init() {
    tdm_memory_trace_options options = tdm_memory_trace_options();
    options.struct_size = sizeof(tdm_memory_trace_options);
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
 * which it keeps the device. Statuses: TDM_BAD_ARGUMENT, TDM_IO_ERROR (the file cannot be made), TDM_OUT_OF_HOST_MEMORY, what
 * `write` returned. Thread-safe. Since 0.1.
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
