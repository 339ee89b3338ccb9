/*
 * The recorder of memory traces: a pool listener that puts events into a ring, and a thread that
 * writes them as text. The listener runs with the pool locked. It reads the clock, takes a leaf
 * lock and copies 48 bytes.
 *
 * If the ring is full, the trace ends there and tdm_memory_trace_stop reports it. Events after a
 * gap could not be interpreted.
 */
#include "api/device/memory/memory_trace.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "api/device/device_internal.h"
#include "api/device/memory/memory_trace_text.h"

/* 12 MiB, but a program with few events touches little of it. */
#define DEFAULT_EVENTS (1 << 18)
#define LARGEST_EVENTS (1 << 26)
#define WRITE_EVERY_MS 100
/* Largest number of file names tried for a trace requested by the environment. */
#define MAX_NUMBERS 100
/* Number of events after which their room in the ring is free again. */
#define EVENTS_AT_ONCE 4096

/* Allocation generations that began in the trace and have not ended: a hash set with open
 * addressing, at most half full. 0 is no generation. */
typedef struct generation_set {
    uint64_t *slots;
    size_t capacity, count;
} generation_set;

struct tdm_memory_trace {
    tdm_pool_listener listener;
    tdm_pool *pool;
    tdm_device *device;   /* holds a reference, or NULL */
    pthread_mutex_t lock; /* leaf lock: the ring's ends and the members below */
    pthread_cond_t wake;
    pthread_t writer;
    tdm_trace_event *ring;
    uint64_t capacity;   /* a power of two */
    uint64_t head, tail; /* events received, events written */
    uint64_t lost;       /* events that found no room, and all later ones */
    bool closing;
    /* Members used by the writer only. */
    int file; /* -1: `write` is used instead */
    tdm_status (*write)(void *user, const void *bytes, size_t size);
    void *user;
    tdm_trace_text text;
    generation_set generations;
    char detail[256]; /* describes the first failure */
};

/* ---- generations ----------------------------------------------------------------------------- */

static size_t place_of(const generation_set *set, uint64_t generation) {
    size_t place = (size_t)(generation * UINT64_C(0x9E3779B97F4A7C15) >> 20) & (set->capacity - 1);
    while (set->slots[place] != 0 && set->slots[place] != generation)
        place = (place + 1) & (set->capacity - 1);
    return place;
}

static bool has_generation(const generation_set *set, uint64_t generation) {
    return set->capacity > 0 && set->slots[place_of(set, generation)] == generation;
}

static bool add_generation(generation_set *set, uint64_t generation) {
    if (2 * (set->count + 1) > set->capacity) {
        const generation_set old = *set;
        set->capacity = old.capacity ? 2 * old.capacity : 1024;
        set->slots = tdm_host_calloc(set->capacity, sizeof *set->slots);
        if (!set->slots) {
            *set = old;
            return false;
        }
        for (size_t i = 0; i < old.capacity; i++)
            if (old.slots[i])
                set->slots[place_of(set, old.slots[i])] = old.slots[i];
        tdm_host_free(old.slots);
    }
    set->slots[place_of(set, generation)] = generation;
    set->count++;
    return true;
}

/* Removes the generation and moves later entries that could not be found beyond the hole. */
static void remove_generation(generation_set *set, uint64_t generation) {
    const size_t mask = set->capacity - 1;
    size_t place = place_of(set, generation);
    set->slots[place] = 0;
    set->count--;
    for (size_t next = (place + 1) & mask; set->slots[next]; next = (next + 1) & mask) {
        const uint64_t moved = set->slots[next];
        set->slots[next] = 0;
        set->slots[place_of(set, moved)] = moved;
    }
}

/* ---- the listener ---------------------------------------------------------------------------- */

static uint64_t now_ns(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * UINT64_C(1000000000) + (uint64_t)time.tv_nsec;
}

static void record(void *user, const tdm_pool_event *event) {
    tdm_memory_trace *const trace = user;
    if (event->kind > TDM_POOL_EVENT_FREE)
        return;
    const uint64_t time = now_ns();
    bool half_full = false;
    pthread_mutex_lock(&trace->lock);
    const uint64_t waiting = trace->head - trace->tail;
    if (trace->lost || waiting == trace->capacity) {
        trace->lost++;
    } else {
        trace->ring[trace->head++ & (trace->capacity - 1)] =
            (tdm_trace_event){.kind = event->kind,
                              .stream = event->stream,
                              .time_ns = time,
                              .generation = event->generation,
                              .bytes = event->requested,
                              .tag = event->tag};
        half_full = waiting + 1 == trace->capacity / 2;
    }
    pthread_mutex_unlock(&trace->lock);
    if (half_full)
        pthread_cond_signal(&trace->wake);
}

/* ---- the writer ------------------------------------------------------------------------------ */

static tdm_status put(void *user, const void *bytes, size_t size) {
    tdm_memory_trace *const trace = user;
    if (trace->write) {
        const tdm_status status = trace->write(trace->user, bytes, size);
        if (status != TDM_OK)
            snprintf(trace->detail, sizeof trace->detail, "the caller's write function failed");
        return status;
    }
    for (const char *next = bytes; size > 0;) {
        const ssize_t written = write(trace->file, next, size);
        if (written < 0 && errno == EINTR)
            continue;
        if (written <= 0) {
            const int error = written < 0 ? errno : ENOSPC;
            snprintf(trace->detail, sizeof trace->detail, "the file cannot be written: %s",
                     strerror(error));
            return TDM_IO_ERROR;
        }
        next += written;
        size -= (size_t)written;
    }
    return TDM_OK;
}

/* Writes an event if the allocation of its block is in the trace. Other blocks are older or were
 * adopted. */
static void write_event(tdm_memory_trace *trace, const tdm_trace_event *event) {
    if (trace->text.status != TDM_OK)
        return;
    if (event->kind == TDM_POOL_EVENT_ALLOC) {
        if (!add_generation(&trace->generations, event->generation)) {
            trace->text.status = TDM_OUT_OF_HOST_MEMORY;
            snprintf(trace->detail, sizeof trace->detail, "no host memory for %zu live blocks",
                     trace->generations.count);
            return;
        }
    } else if (!has_generation(&trace->generations, event->generation)) {
        return;
    }
    if (event->kind == TDM_POOL_EVENT_FREE)
        remove_generation(&trace->generations, event->generation);
    tdm_trace_text_add(&trace->text, event);
}

/* Waits until half of the ring is full, the trace ends or the time is up. It returns the range of
 * events, and true at the end of the trace. */
static bool wait_for_events(tdm_memory_trace *trace, uint64_t *from, uint64_t *to) {
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += WRITE_EVERY_MS * 1000000L;
    until.tv_sec += until.tv_nsec / 1000000000L;
    until.tv_nsec %= 1000000000L;
    pthread_mutex_lock(&trace->lock);
    while (!trace->closing && trace->head - trace->tail < trace->capacity / 2 &&
           pthread_cond_timedwait(&trace->wake, &trace->lock, &until) == 0) {
    }
    *from = trace->tail;
    *to = trace->head;
    const bool closing = trace->closing;
    pthread_mutex_unlock(&trace->lock);
    return closing;
}

static void write_range(tdm_memory_trace *trace, uint64_t from, uint64_t to) {
    while (from < to) {
        const uint64_t end = to - from < EVENTS_AT_ONCE ? to : from + EVENTS_AT_ONCE;
        for (; from < end; from++)
            write_event(trace, &trace->ring[from & (trace->capacity - 1)]);
        pthread_mutex_lock(&trace->lock);
        trace->tail = end;
        pthread_mutex_unlock(&trace->lock);
    }
}

static void *write_events(void *user) {
    tdm_memory_trace *const trace = user;
    for (bool closing = false; !closing;) {
        uint64_t from;
        uint64_t to;
        closing = wait_for_events(trace, &from, &to);
        write_range(trace, from, to);
        // Flushing now leaves all but the last moments in the file if the program dies.
        tdm_trace_text_flush(&trace->text);
    }
    return NULL;
}

/* ---- start and stop -------------------------------------------------------------------------- */

/*
 * Opens a regular file of this user, or a device such as /dev/null. Links are refused. Pipes are
 * refused because the end of their reader would raise a signal.
 */
static tdm_status open_file(const char *path, int *file) {
    struct stat status = {.st_mode = 0};
    *file = open(path, O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY, 0600);
    if (*file < 0)
        return tdm_fail(TDM_IO_ERROR, "memory_trace_start: %s cannot be written: %s", path,
                        strerror(errno));
    if (fstat(*file, &status) == 0 && S_ISCHR(status.st_mode) && fcntl(*file, F_SETFL, 0) == 0)
        return TDM_OK;
    // Two traces in one file would destroy each other.
    const bool regular =
        S_ISREG(status.st_mode) && status.st_uid == geteuid() && status.st_nlink == 1;
    const bool taken = regular && flock(*file, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK;
    if (regular && !taken && ftruncate(*file, 0) == 0)
        return TDM_OK;
    close(*file);
    *file = -1;
    return taken
               ? tdm_fail(TDM_BAD_STATE, "memory_trace_start: %s is being written by another trace",
                          path)
               : tdm_fail(
                     TDM_IO_ERROR,
                     "memory_trace_start: %s is not a regular file of this user with a single link",
                     path);
}

/* The writer blocks all signals, because the program's signals are for its own threads. */
static int start_writer(tdm_memory_trace *trace) {
    sigset_t all;
    sigset_t old;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    const int error = pthread_create(&trace->writer, NULL, write_events, trace);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    return error;
}

static void trace_free(tdm_memory_trace *trace) {
    if (trace->file >= 0)
        close(trace->file);
    pthread_cond_destroy(&trace->wake);
    pthread_mutex_destroy(&trace->lock);
    tdm_host_free(trace->generations.slots);
    tdm_host_free(trace->ring);
    tdm_host_free(trace);
}

static tdm_status check_options(const tdm_memory_trace_options *options) {
    if (!options->path == !options->write)
        return tdm_fail(TDM_BAD_ARGUMENT, "memory_trace_start: %s",
                        options->path ? "both path and write are given, exactly one is needed"
                                      : "neither path nor write is given, exactly one is needed");
    if (options->ring_events > LARGEST_EVENTS)
        return tdm_fail(TDM_BAD_ARGUMENT,
                        "memory_trace_start: ring_events is %zu, must be at most %d",
                        options->ring_events, LARGEST_EVENTS);
    return TDM_OK;
}

tdm_status tdm_pool_trace_start(tdm_pool *pool, const tdm_memory_trace_options *options,
                                const char *comment, tdm_memory_trace **trace) {
    if (!options)
        return tdm_fail(TDM_BAD_ARGUMENT, "memory_trace_start: options is NULL");
    tdm_memory_trace_options room;
    options = tdm_struct_read("memory_trace_start", "options", options, sizeof room, &room);
    if (!options)
        return TDM_BAD_ARGUMENT;
    tdm_status status = check_options(options);
    if (status != TDM_OK)
        return status;
    tdm_memory_trace *const created = tdm_host_calloc(1, sizeof *created);
    if (!created)
        return tdm_fail(TDM_OUT_OF_HOST_MEMORY, "memory_trace_start: no host memory");
    created->pool = pool;
    created->write = options->write;
    created->user = options->user;
    created->file = -1;
    created->listener = (tdm_pool_listener){.event = record, .user = created, .timed = true};
    pthread_mutex_init(&created->lock, NULL);
    pthread_cond_init(&created->wake, NULL);
    created->capacity = 2;
    while (created->capacity < (options->ring_events ? options->ring_events : DEFAULT_EVENTS))
        created->capacity *= 2;
    created->ring = tdm_host_alloc(created->capacity * sizeof *created->ring);
    if (!created->ring) {
        status =
            tdm_fail(TDM_OUT_OF_HOST_MEMORY, "memory_trace_start: no host memory for %llu events",
                     (unsigned long long)created->capacity);
        goto cleanup;
    }
    if (options->path)
        TDM_TRY_GOTO(open_file(options->path, &created->file));
    tdm_trace_text_begin(&created->text, put, created, comment);
    tdm_trace_text_flush(&created->text);
    if (created->text.status != TDM_OK) {
        status = tdm_fail(created->text.status, "memory_trace_start: %s", created->detail);
        goto cleanup;
    }
    if (start_writer(created) != 0) {
        status = tdm_fail(TDM_OUT_OF_HOST_MEMORY,
                          "memory_trace_start: the writer thread cannot be started");
        goto cleanup;
    }
    tdm_pool_listen(pool, &created->listener);
    *trace = created;
    return TDM_OK;

cleanup:
    trace_free(created);
    return status;
}

tdm_status tdm_memory_trace_start(tdm_device *device, const tdm_memory_trace_options *options,
                                  tdm_memory_trace **trace) {
    if (!trace)
        return tdm_fail(TDM_BAD_ARGUMENT, "memory_trace_start: trace is NULL");
    *trace = NULL;
    if (!device)
        return tdm_fail(TDM_BAD_ARGUMENT, "memory_trace_start: device is NULL");
    TDM_TRY(tdm_pool_trace_start(device->pool, options, device->info.selector, trace));
    tdm_device_retain(device);
    (*trace)->device = device;
    return TDM_OK;
}

tdm_status tdm_memory_trace_stop(tdm_memory_trace *trace) {
    if (!trace)
        return TDM_OK;
    tdm_pool_unlisten(trace->pool, &trace->listener);
    pthread_mutex_lock(&trace->lock);
    trace->closing = true;
    pthread_mutex_unlock(&trace->lock);
    pthread_cond_signal(&trace->wake);
    pthread_join(trace->writer, NULL);
    const uint64_t written = trace->text.events;
    tdm_status status = tdm_trace_text_end(&trace->text);
    if (status == TDM_OK && trace->file >= 0) {
        // Some file systems report only now that there is no space.
        const int file = trace->file;
        trace->file = -1;
        if (close(file) != 0) {
            snprintf(trace->detail, sizeof trace->detail, "the file cannot be written: %s",
                     strerror(errno));
            status = TDM_IO_ERROR;
        }
    }
    if (status != TDM_OK)
        status = tdm_fail(status, "memory_trace_stop: %s; about %llu events were written",
                          trace->detail, (unsigned long long)written);
    else if (trace->lost)
        status = tdm_fail(TDM_IO_ERROR,
                          "memory_trace_stop: the trace ends after %llu events; %llu were lost "
                          "because they came faster than they could be written",
                          (unsigned long long)written, (unsigned long long)trace->lost);
    tdm_device *const device = trace->device;
    trace_free(trace);
    tdm_device_release(device);
    return status;
}

/* ---- the environment ------------------------------------------------------------------------- */

/* Builds the path: %p becomes the process id, and a number other than 1 is appended. Returns false
 * if the path is too long. */
static bool numbered_path(const char *path, int number, char *text, size_t size) {
    const char *const id = strstr(path, "%p");
    int length =
        id ? snprintf(text, size, "%.*s%ld%s", (int)(id - path), path, (long)getpid(), id + 2)
           : snprintf(text, size, "%s", path);
    if (number > 1 && length >= 0 && (size_t)length < size)
        length += snprintf(text + length, size - (size_t)length, ".%d", number);
    return length >= 0 && (size_t)length < size;
}

tdm_memory_trace *tdm_memory_trace_open_named(tdm_device *device) {
    // A program may open several devices, or one of them twice. Other programs may write traces to
    // the same path.
    static atomic_int opened;
    char path[4096];
    tdm_memory_trace *trace = NULL;
    const tdm_memory_trace_options options = {.struct_size = sizeof options, .path = path};
    tdm_status status = TDM_BAD_STATE;
    if (!device->context->memory_trace)
        return NULL;
    for (int tries = 0; status == TDM_BAD_STATE && tries < MAX_NUMBERS; tries++) {
        const int number = atomic_fetch_add(&opened, 1) + 1;
        status = numbered_path(device->context->memory_trace, number, path, sizeof path)
                     ? tdm_pool_trace_start(device->pool, &options, device->info.selector, &trace)
                     : tdm_fail(TDM_IO_ERROR, "the path is too long");
    }
    if (status != TDM_OK)
        tdm_log(TDM_LOG_WARNING, "pool", "TANDEM_MEMORY_TRACE: %s", tdm_last_detail());
    return trace;
}

void tdm_memory_trace_close_named(tdm_memory_trace *trace) {
    if (tdm_memory_trace_stop(trace) != TDM_OK)
        tdm_log(TDM_LOG_WARNING, "pool", "TANDEM_MEMORY_TRACE: %s", tdm_last_detail());
}
