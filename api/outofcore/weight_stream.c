/*
 * Weight streaming enqueues copies on a stream of its own. That stream waits for events until the
 * previous users of a region have released it. Users' streams wait for events of the copies. The
 * host never waits.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "api/device/device_internal.h"
#include "api/outofcore/outofcore_internal.h"
#include "api/outofcore/weight_stream_internal.h"

/* ---- regions of the ring --------------------------------------------------------------------- */

static void forget_uses(tdm_weight_stream_entry *entry) {
    for (int i = 0; i < entry->use_count; i++)
        tdm_event_destroy(entry->uses[i].event);
    entry->use_count = 0;
}

static void forget_copy(tdm_weight_stream_entry *entry) {
    tdm_event_destroy(entry->loaded);
    tdm_tensor_destroy(entry->tensor);
    entry->loaded = NULL;
    entry->tensor = NULL;
    entry->present = false;
}

static bool overlaps(const tdm_weight_stream_entry *entry, uint64_t offset, uint64_t room) {
    return !entry->resident && entry->present && entry->offset < offset + room &&
           offset < entry->offset + entry->room;
}

/* True if the item is the latest one and still acquired, or is expected soon after it. Such items
 * do not evict one another. */
static bool is_ahead(const tdm_weight_stream *o, int index) {
    int at = o->latest;
    for (int i = 0; i <= o->stats.depth && at >= 0; i++, at = o->entries[at].next)
        if (at == index && (i > 0 || o->entries[at].holds > 0))
            return true;
    return false;
}

/* Returns an item whose region must not be taken, or -1 if there is none. The search continues at
 * that item's end. */
static int obstacle(const tdm_weight_stream *o, uint64_t offset, uint64_t room, bool spares_ahead) {
    for (int i = 0; i < o->count; i++)
        if (overlaps(&o->entries[i], offset, room) &&
            (o->entries[i].holds > 0 || (spares_ahead && is_ahead(o, i))))
            return i;
    return -1;
}

/* Finds a free region of the ring. The search begins at the head and goes around the ring at most
 * twice. */
static bool find_place(const tdm_weight_stream *o, uint64_t room, bool spares_ahead,
                       uint64_t *offset) {
    uint64_t at = o->head, passed = 0;
    while (passed <= 2 * o->ring_bytes) {
        if (at + room > o->ring_bytes) {
            passed += o->ring_bytes - at + 1;
            at = 0;
            continue;
        }
        const int blocked = obstacle(o, o->ring_at + at, room, spares_ahead);
        if (blocked < 0) {
            *offset = o->ring_at + at;
            return true;
        }
        const uint64_t end = o->entries[blocked].offset + o->entries[blocked].room - o->ring_at;
        passed += end - at;
        at = end;
    }
    return false;
}

/* Evicts the items in a region. Later copies wait for the streams that used them. */
static tdm_status take_place(tdm_weight_stream *o, uint64_t offset, uint64_t room) {
    for (int i = 0; i < o->count; i++) {
        tdm_weight_stream_entry *const entry = &o->entries[i];
        if (!overlaps(entry, offset, room))
            continue;
        for (int u = 0; u < entry->use_count; u++)
            TDM_TRY(tdm_stream_wait_event(o->in, entry->uses[u].event));
        forget_uses(entry);
        forget_copy(entry);
        o->stats.evictions++;
    }
    return TDM_OK;
}

/* ---- copies ---------------------------------------------------------------------------------- */

static tdm_status view_place(const tdm_weight_stream *o, tdm_weight_stream_entry *entry,
                             uint64_t offset) {
    const int64_t bits = tdm_dtype_info(entry->layout.dtype)->bits;
    return tdm_tensor_on_buffer(o->memory, (int64_t)(offset * 8) / bits, &entry->layout,
                                &entry->tensor);
}

/* Copies an item. Pageable memory goes to a discrete device through pinned pieces, if pinned
 * memory is available. */
static tdm_status copy_bytes(tdm_weight_stream *o, const tdm_weight_stream_entry *entry,
                             uint64_t offset) {
    static const char operation[] = "weight_stream: copying an item";
    const size_t bytes = (size_t)entry->bytes;
    const bool pageable = tdm_staging_ring_wanted(o->device, entry->memory, bytes);
    if (pageable && !o->staging &&
        tdm_staging_ring_open(o->device, TDM_STAGING_PIECE_BYTES, &o->staging) != TDM_OK)
        o->staging = NULL;
    if (!pageable || !o->staging)
        return tdm_enqueue_write(o->in, operation, o->memory->block, offset, entry->memory, bytes);
    // This clears the failure of an earlier item.
    TDM_TRY(tdm_stream_clear_failure(tdm_staging_ring_stream(o->staging)));
    const tdm_status status = tdm_staging_ring_in_bytes(
        o->staging, o->in, operation, o->memory->block, offset, entry->memory, bytes);
    if (status == TDM_OK)
        return TDM_OK;
    tdm_fail_after_wait(o->in, status);
    tdm_staging_ring_close(o->staging);
    o->staging = NULL;
    return status;
}

/* Enqueues the copy of an item to its new region. */
static tdm_status copy_item(tdm_weight_stream *o, tdm_weight_stream_entry *entry, uint64_t offset) {
    TDM_TRY(view_place(o, entry, offset));
    tdm_status status = copy_bytes(o, entry, offset);
    if (status == TDM_OK)
        status = tdm_event_record(o->in, &entry->loaded);
    if (status != TDM_OK) {
        forget_copy(entry);
        return status;
    }
    entry->offset = offset;
    entry->present = true;
    o->stats.bytes_moved += entry->bytes;
    return TDM_OK;
}

static tdm_status load(tdm_weight_stream *o, int index, bool ahead) {
    tdm_weight_stream_entry *const entry = &o->entries[index];
    uint64_t offset = entry->offset;
    // A recorded failure belongs to an earlier item. A broken device fails again.
    TDM_TRY(tdm_stream_clear_failure(o->in));
    if (!entry->resident) {
        if (!find_place(o, entry->room, ahead, &offset))
            return tdm_fail(TDM_OVER_BUDGET,
                            "weight_stream: item %d needs %llu bytes, but the acquired items leave "
                            "no such free range in %llu bytes",
                            index, (unsigned long long)entry->room,
                            (unsigned long long)o->ring_bytes);
        TDM_TRY(take_place(o, offset, entry->room));
    }
    TDM_TRY(copy_item(o, entry, offset));
    if (!entry->resident)
        o->head = offset + entry->room - o->ring_at;
    return TDM_OK;
}

/* Copies the items that are probably used next. Lack of space is not a failure. */
static void prefetch(tdm_weight_stream *o) {
    char detail[512];
    snprintf(detail, sizeof detail, "%s", tdm_last_detail());
    int at = o->latest;
    for (int i = 0; i < o->stats.depth && at >= 0; i++) {
        at = o->entries[at].next;
        if (at < 0 || at == o->latest)
            break;
        if (!o->entries[at].present && load(o, at, true) != TDM_OK)
            break;
    }
    tdm_stream_flush(o->in);
    tdm_set_detail("%s", detail);
}

/* ---- the calls ------------------------------------------------------------------------------- */

static tdm_status check_call(const char *call, const tdm_weight_stream *o, int index,
                             tdm_stream *stream) {
    if (!o || !stream)
        return tdm_fail(TDM_BAD_ARGUMENT, "%s: %s is NULL", call, o ? "stream" : "weight_stream");
    if (index < 0 || index >= o->count)
        return tdm_fail(TDM_BAD_ARGUMENT, "%s: index is %d, there are %d items", call, index,
                        o->count);
    TDM_TRY(tdm_check_device(call, "the weight stream", o->device, "the stream", stream->device));
    return tdm_refuse_recording(stream, call);
}

/* Drops an item whose enqueued copy has failed, after its last users are done. Its
 * content is not valid. */
static tdm_status drop_failed_copy(tdm_weight_stream *o, tdm_weight_stream_entry *entry) {
    int done;
    if (!entry->present || entry->holds > 0 || tdm_event_query(entry->loaded, &done) == TDM_OK)
        return TDM_OK;
    TDM_TRY(tdm_stream_clear_failure(o->in));
    for (int u = 0; u < entry->use_count; u++)
        TDM_TRY(tdm_stream_wait_event(o->in, entry->uses[u].event));
    forget_uses(entry);
    forget_copy(entry);
    return TDM_OK;
}

static tdm_status acquire_locked(tdm_weight_stream *o, int index, tdm_stream *stream) {
    tdm_weight_stream_entry *const entry = &o->entries[index];
    TDM_TRY(drop_failed_copy(o, entry));
    const bool hit = entry->present;
    if (!hit)
        TDM_TRY(load(o, index, false));
    TDM_TRY(tdm_stream_wait_event(stream, entry->loaded));
    entry->holds++;
    if (o->latest >= 0 && o->latest != index)
        o->entries[o->latest].next = index;
    o->latest = index;
    o->stats.acquires++;
    *(hit ? &o->stats.hits : &o->stats.misses) += 1;
    return TDM_OK;
}

tdm_status tdm_weight_stream_acquire(tdm_weight_stream *weight_stream, int index,
                                     tdm_stream *stream, const tdm_tensor **tensor) {
    if (!tensor)
        return tdm_fail(TDM_BAD_ARGUMENT, "weight_stream_acquire: tensor is NULL");
    *tensor = NULL;
    TDM_TRY(check_call("weight_stream_acquire", weight_stream, index, stream));
    pthread_mutex_lock(&weight_stream->lock);
    const tdm_status status = acquire_locked(weight_stream, index, stream);
    if (status == TDM_OK) {
        *tensor = weight_stream->entries[index].tensor;
        prefetch(weight_stream);
    }
    pthread_mutex_unlock(&weight_stream->lock);
    return status;
}

/* Records an event at the current end of a stream. It replaces an earlier event of the same
 * stream. */
static tdm_status note_use(tdm_weight_stream *o, tdm_weight_stream_entry *entry,
                           tdm_stream *stream) {
    tdm_event *event;
    int at = 0;
    TDM_TRY(tdm_event_record(stream, &event));
    while (at < entry->use_count && entry->uses[at].stream != stream->id)
        at++;
    if (at == TDM_WEIGHT_STREAM_USES) { // copies wait for the oldest use now, not at eviction
        at = 0;
        const tdm_status status = tdm_stream_wait_event(o->in, entry->uses[0].event);
        if (status != TDM_OK) {
            tdm_event_destroy(event);
            return status;
        }
    }
    if (at < entry->use_count)
        tdm_event_destroy(entry->uses[at].event);
    else
        entry->use_count++;
    entry->uses[at] = (tdm_weight_stream_use){.stream = stream->id, .event = event};
    return TDM_OK;
}

tdm_status tdm_weight_stream_release(tdm_weight_stream *weight_stream, int index,
                                     tdm_stream *stream) {
    TDM_TRY(check_call("weight_stream_release", weight_stream, index, stream));
    pthread_mutex_lock(&weight_stream->lock);
    tdm_weight_stream_entry *const entry = &weight_stream->entries[index];
    tdm_status status = TDM_OK;
    if (entry->holds == 0)
        status = tdm_fail(TDM_BAD_STATE, "weight_stream_release: item %d is not acquired", index);
    else if (!entry->resident)
        status = note_use(weight_stream, entry, stream);
    if (status == TDM_OK) {
        entry->holds--;
        prefetch(weight_stream);
    }
    pthread_mutex_unlock(&weight_stream->lock);
    return status;
}

tdm_status tdm_weight_stream_statistics(tdm_weight_stream *weight_stream,
                                        tdm_weight_stream_stats *stats) {
    if (!weight_stream || !stats)
        return tdm_fail(TDM_BAD_ARGUMENT, "weight_stream_statistics: %s is NULL",
                        weight_stream ? "stats" : "weight_stream");
    TDM_TRY(tdm_struct_check_output("weight_stream_statistics", "stats", stats, sizeof *stats));
    pthread_mutex_lock(&weight_stream->lock);
    tdm_struct_write(&weight_stream->stats, sizeof weight_stream->stats, stats);
    pthread_mutex_unlock(&weight_stream->lock);
    return TDM_OK;
}

/* ---- lifetime -------------------------------------------------------------------------------- */

static tdm_status check_options(const tdm_weight_stream_options *options) {
    if (options->depth < 0 || options->depth > TDM_WEIGHT_STREAM_MAX_DEPTH)
        return tdm_fail(TDM_BAD_ARGUMENT, "weight_stream_create: depth is %d, must be 0 to %d",
                        options->depth, TDM_WEIGHT_STREAM_MAX_DEPTH);
    if (!(options->in_bytes_per_s >= 0.0) || !isfinite(options->in_bytes_per_s) ||
        !(options->use_s >= 0.0) || !isfinite(options->use_s))
        return tdm_fail(TDM_BAD_ARGUMENT,
                        "weight_stream_create: in_bytes_per_s is %g and use_s is %g, both must be "
                        "finite and not negative",
                        options->in_bytes_per_s, options->use_s);
    if (options->budget_bytes == 0)
        return tdm_fail(TDM_BAD_ARGUMENT, "weight_stream_create: budget_bytes is 0");
    return TDM_OK;
}

static tdm_status take_item(tdm_weight_stream *o, int index, const tdm_weight_stream_item *item) {
    tdm_weight_stream_entry *const entry = &o->entries[index];
    char what[48];
    size_t bytes;
    snprintf(what, sizeof what, "weight_stream_create: item %d", index);
    if (!tdm_dtype_info(item->layout.dtype))
        return tdm_fail(TDM_BAD_DTYPE, "%s has the data type %d, which is unknown", what,
                        (int)item->layout.dtype);
    TDM_TRY(tdm_layout_check(&item->layout, what));
    TDM_TRY(tdm_layout_check_units(&item->layout, 0, what));
    TDM_TRY(tdm_dtype_bytes(item->layout.dtype, tdm_layout_extent(&item->layout), &bytes));
    if (bytes > item->bytes)
        return tdm_fail(TDM_BAD_SHAPE, "%s needs %zu bytes but has %zu", what, bytes, item->bytes);
    if (!item->memory && bytes > 0)
        return tdm_fail(TDM_BAD_ARGUMENT, "%s has no memory", what);
    if (bytes > INT64_MAX / 16)
        return tdm_fail(TDM_BAD_SHAPE, "%s has %zu bytes", what, bytes);
    entry->layout = item->layout;
    entry->memory = item->memory;
    entry->bytes = bytes;
    entry->room = (uint64_t)tdm_ceil_div((int64_t)bytes, TDM_WEIGHT_STREAM_ALIGNMENT) *
                  TDM_WEIGHT_STREAM_ALIGNMENT;
    entry->next = (index + 1) % o->count;
    return TDM_OK;
}

static tdm_status build(tdm_weight_stream *o, const tdm_weight_stream_item *items,
                        const tdm_weight_stream_options *options) {
    o->entries = tdm_host_calloc((size_t)o->count, sizeof *o->entries);
    if (!o->entries)
        return tdm_fail(TDM_OUT_OF_HOST_MEMORY, "weight_stream_create: no host memory for %d items",
                        o->count);
    for (int i = 0; i < o->count; i++)
        TDM_TRY(take_item(o, i, &items[i]));
    const double rate = options->in_bytes_per_s > 0.0
                            ? options->in_bytes_per_s
                            : tdm_ooc_in_rate(o->device, options->budget_bytes);
    TDM_TRY(tdm_weight_stream_divide(o, options, rate));
    TDM_TRY(tdm_stream_create(o->device, &o->in));
    return tdm_buffer_create_for(o->device, o->in->id, (size_t)o->stats.device_bytes, &o->memory);
}

tdm_status tdm_weight_stream_create(tdm_device *device, const tdm_weight_stream_item *items,
                                    int count, const tdm_weight_stream_options *options,
                                    tdm_weight_stream **weight_stream) {
    if (!weight_stream)
        return tdm_fail(TDM_BAD_ARGUMENT, "weight_stream_create: weight_stream is NULL");
    *weight_stream = NULL;
    if (!device || !items || !options)
        return tdm_fail(TDM_BAD_ARGUMENT, "weight_stream_create: %s is NULL",
                        !device  ? "device"
                        : !items ? "items"
                                 : "options");
    if (count < 1)
        return tdm_fail(TDM_BAD_ARGUMENT, "weight_stream_create: count is %d, must be at least 1",
                        count);
    tdm_weight_stream_options room;
    options = tdm_struct_read("weight_stream_create", "options", options, sizeof room, &room);
    if (!options)
        return TDM_BAD_ARGUMENT;
    TDM_TRY(check_options(options));
    tdm_weight_stream *const made = tdm_host_calloc(1, sizeof *made);
    if (!made)
        return tdm_fail(TDM_OUT_OF_HOST_MEMORY, "weight_stream_create: no host memory");
    tdm_device_retain(device);
    made->device = device;
    made->count = count;
    made->latest = -1;
    made->stats.struct_size = sizeof made->stats;
    pthread_mutex_init(&made->lock, NULL);
    const tdm_status status = build(made, items, options);
    if (status != TDM_OK) {
        tdm_weight_stream_destroy(made);
        return status;
    }
    *weight_stream = made;
    return TDM_OK;
}

void tdm_weight_stream_destroy(tdm_weight_stream *weight_stream) {
    if (!weight_stream)
        return;
    tdm_stream_destroy(weight_stream->in); // waits: nothing reads host memory afterwards
    tdm_staging_ring_close(weight_stream->staging);
    for (int i = 0; weight_stream->entries && i < weight_stream->count; i++) {
        forget_uses(&weight_stream->entries[i]);
        forget_copy(&weight_stream->entries[i]);
    }
    tdm_buffer_destroy(weight_stream->memory);
    pthread_mutex_destroy(&weight_stream->lock);
    tdm_device *const device = weight_stream->device;
    tdm_host_free(weight_stream->entries);
    tdm_host_free(weight_stream);
    tdm_device_release(device);
}
