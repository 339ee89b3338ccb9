/* These functions report on a device's memory: counters, tags, events, and all of them as JSON. */
#include <string.h>

#include "api/base/json_text.h"
#include "api/device/device_internal.h"
#include "api/pool/observation.h"

tdm_status tdm_device_memory_report(const tdm_device *device, tdm_memory_report *report) {
    if (!device || !report)
        return tdm_fail(TDM_BAD_ARGUMENT, "device_memory_report: %s is NULL",
                        device ? "report" : "device");
    TDM_TRY(tdm_struct_check_output("device_memory_report", "report", report, sizeof *report));
    tdm_memory_report now = {.struct_size = sizeof now};
    tdm_observation_report(device->observation, &now);
    tdm_struct_write(&now, sizeof now, report);
    return TDM_OK;
}

/* Checks the arguments of a function that copies out a list. `what` is the name of the list's
 * parameter. */
static tdm_status check_list(const char *function, const tdm_device *device, const char *what,
                             const void *list, int capacity, int *count) {
    if (!count)
        return tdm_fail(TDM_BAD_ARGUMENT, "%s: count is NULL", function);
    *count = 0;
    if (!device || (!list && capacity > 0))
        return tdm_fail(TDM_BAD_ARGUMENT, "%s: %s is NULL", function, device ? what : "device");
    if (capacity < 0)
        return tdm_fail(TDM_BAD_ARGUMENT, "%s: capacity is %d", function, capacity);
    return TDM_OK;
}

tdm_status tdm_device_memory_tags(const tdm_device *device, tdm_memory_tag_usage *usage,
                                  int capacity, int *count) {
    TDM_TRY(check_list("device_memory_tags", device, "usage", usage, capacity, count));
    *count = tdm_observation_tags(device->observation, usage, capacity);
    return TDM_OK;
}

tdm_status tdm_device_record_memory_events(tdm_device *device, int capacity) {
    if (!device)
        return tdm_fail(TDM_BAD_ARGUMENT, "device_record_memory_events: device is NULL");
    if (capacity < 0 || capacity > TDM_MEMORY_EVENTS_MAX)
        return tdm_fail(TDM_BAD_ARGUMENT,
                        "device_record_memory_events: capacity is %d, must be 0 to %d", capacity,
                        TDM_MEMORY_EVENTS_MAX);
    return tdm_pool_ring_resize(&device->observation->ring, (uint64_t)capacity);
}

tdm_status tdm_device_memory_events(const tdm_device *device, tdm_memory_event *events,
                                    int capacity, int *count) {
    TDM_TRY(check_list("device_memory_events", device, "events", events, capacity, count));
    *count = (int)tdm_pool_ring_copy(&device->observation->ring, events, (uint64_t)capacity);
    return TDM_OK;
}

/* ---- the snapshot ---------------------------------------------------------------------------- */

static void write_device(tdm_json *json, const tdm_device_info *info) {
    tdm_json_open(json, "device", '{');
    tdm_json_string(json, "selector", info->selector);
    tdm_json_string(json, "name", info->name);
    tdm_json_string(json, "driver", info->driver_version);
    tdm_json_number(json, "global_bytes", info->global_bytes);
    tdm_json_number(json, "max_alloc_bytes", info->max_alloc_bytes);
    tdm_json_close(json, '}');
}

static void write_counter(tdm_json *json, const char *name, const tdm_memory_counter *counter) {
    tdm_json_open(json, name, '{');
    tdm_json_number(json, "current", counter->current);
    tdm_json_number(json, "peak", counter->peak);
    tdm_json_number(json, "allocated", counter->allocated);
    tdm_json_number(json, "freed", counter->freed);
    tdm_json_close(json, '}');
}

static void write_statistics(tdm_json *json, const tdm_memory_report *report) {
    tdm_json_open(json, "statistics", '{');
#define WRITE(name) write_counter(json, #name, &report->name);
    TDM_COUNTER_LIST(WRITE)
#undef WRITE
    tdm_json_number(json, "retries", report->retries);
    tdm_json_number(json, "ooms", report->ooms);
    tdm_json_number(json, "budget", report->budget);
    tdm_json_number(json, "free", report->free);
    tdm_json_number(json, "largest_free", report->largest_free);
    tdm_json_fraction(json, "fragmentation", report->fragmentation);
    tdm_json_close(json, '}');
}

static void write_tag(tdm_json *json, const tdm_memory_tag_usage *usage) {
    tdm_json_open(json, NULL, '{');
    tdm_json_string(json, "tag", usage->tag[0] ? usage->tag : NULL);
    tdm_json_number(json, "bytes", usage->bytes);
    tdm_json_number(json, "bytes_peak", usage->bytes_peak);
    tdm_json_number(json, "blocks", usage->blocks);
    tdm_json_number(json, "blocks_peak", usage->blocks_peak);
    tdm_json_number(json, "allocations", usage->allocations);
    tdm_json_close(json, '}');
}

static tdm_status write_tags(tdm_json *json, const tdm_observation *observation) {
    tdm_memory_tag_usage *const usage = tdm_host_calloc(TDM_STATISTIC_TAGS, sizeof *usage);
    if (!usage)
        return tdm_fail(TDM_OUT_OF_HOST_MEMORY, "device_memory_snapshot: no host memory for tags");
    const int count = tdm_observation_tags(observation, usage, TDM_STATISTIC_TAGS);
    tdm_json_open(json, "tags", '[');
    for (int i = 0; i < count; i++)
        write_tag(json, &usage[i]);
    tdm_json_close(json, ']');
    tdm_host_free(usage);
    return TDM_OK;
}

static const char *event_text(tdm_memory_event_kind kind) {
    switch (kind) {
#define TEXT(name, value, text)                                                                    \
    case name:                                                                                     \
        return text;
        TDM_MEMORY_EVENT_LIST(TEXT)
#undef TEXT
    }
    return "unknown";
}

static void write_event(tdm_json *json, const tdm_memory_event *event) {
    tdm_json_open(json, NULL, '{');
    tdm_json_number(json, "number", event->number);
    tdm_json_string(json, "kind", event_text(event->kind));
    tdm_json_number(json, "time_ns", event->time_ns);
    tdm_json_number(json, "stream", event->stream);
    tdm_json_number(json, "block", event->block);
    tdm_json_number(json, "requested", event->requested);
    tdm_json_number(json, "bytes", event->bytes);
    tdm_json_string(json, "tag", event->tag);
    tdm_json_close(json, '}');
}

static tdm_status write_events(tdm_json *json, tdm_observation *observation) {
    const uint64_t room = tdm_pool_ring_count(&observation->ring);
    tdm_memory_event *const events = tdm_host_calloc(room, sizeof *events);
    if (!events)
        return tdm_fail(TDM_OUT_OF_HOST_MEMORY,
                        "device_memory_snapshot: no host memory for %llu events",
                        (unsigned long long)room);
    const uint64_t count = tdm_pool_ring_copy(&observation->ring, events, room);
    tdm_json_open(json, "events", '[');
    for (uint64_t i = 0; i < count; i++)
        write_event(json, &events[i]);
    tdm_json_close(json, ']');
    tdm_host_free(events);
    return TDM_OK;
}

/* ---- slabs and their ranges: called with the pool locked ------------------------------------- */

typedef struct slab_writer {
    tdm_json *json;
    bool open; /* a slab is being written */
} slab_writer;

static void end_slab(slab_writer *writer) {
    if (writer->open) {
        tdm_json_close(writer->json, ']');
        tdm_json_close(writer->json, '}');
    }
    writer->open = false;
}

static void write_slab(void *user, const tdm_slab_view *slab) {
    slab_writer *const writer = user;
    tdm_json *const json = writer->json;
    end_slab(writer);
    tdm_json_open(json, NULL, '{');
    tdm_json_number(json, "number", slab->number);
    tdm_json_number(json, "bytes", slab->bytes);
    tdm_json_number(json, "live_blocks", slab->live_blocks);
    tdm_json_string(json, "kind",
                    slab->adopted  ? "adopted"
                    : slab->single ? "single"
                    : slab->small  ? "small"
                                   : "large");
    tdm_json_open(json, "ranges", '[');
    writer->open = true;
}

static void write_range(void *user, const tdm_slab_view *slab, const tdm_range_view *range) {
    (void)slab;
    tdm_json *const json = ((slab_writer *)user)->json;
    tdm_json_open(json, NULL, '{');
    tdm_json_number(json, "offset", range->offset);
    tdm_json_number(json, "bytes", range->bytes);
    tdm_json_string(json, "state",
                    range->state == TDM_RANGE_LIVE      ? "live"
                    : range->state == TDM_RANGE_PENDING ? "pending"
                                                        : "free");
    if (range->stream)
        tdm_json_number(json, "stream", range->stream);
    if (range->state == TDM_RANGE_LIVE) {
        tdm_json_number(json, "requested", range->requested);
        tdm_json_number(json, "block", range->generation);
        tdm_json_string(json, "tag", range->tag);
    }
    tdm_json_close(json, '}');
}

static void write_slabs(tdm_json *json, tdm_pool *pool) {
    slab_writer writer = {.json = json};
    const tdm_pool_visitor visitor = {.slab = write_slab, .range = write_range, .user = &writer};
    tdm_json_open(json, "slabs", '[');
    tdm_pool_visit(pool, &visitor);
    end_slab(&writer);
    tdm_json_close(json, ']');
}

static tdm_status write_members(tdm_json *json, tdm_device *device) {
    tdm_memory_report report = {.struct_size = sizeof report};
    tdm_observation_report(device->observation, &report);
    tdm_json_string(json, "schema", "tandem-memory/1");
    tdm_json_string(json, "version", tdm_version_text());
    write_device(json, &device->info);
    write_statistics(json, &report);
    write_slabs(json, device->pool);
    TDM_TRY(write_tags(json, device->observation));
    return write_events(json, device->observation);
}

/* Hands the JSON text to the caller, unless `status` is a failure. */
static tdm_status hand_over(tdm_json *text, tdm_status status, const char *function, char **json,
                            size_t *bytes) {
    char *const written = tdm_json_finish(text, bytes);
    if (status == TDM_OK && written) {
        *json = written;
        return TDM_OK;
    }
    *bytes = 0;
    tdm_host_free(written);
    return status != TDM_OK
               ? status
               : tdm_fail(TDM_OUT_OF_HOST_MEMORY, "%s: no host memory for the text", function);
}

static tdm_status check_text(const char *function, char **json, size_t *bytes) {
    if (!json || !bytes)
        return tdm_fail(TDM_BAD_ARGUMENT, "%s: %s is NULL", function, json ? "bytes" : "json");
    *json = NULL;
    *bytes = 0;
    return TDM_OK;
}

tdm_status tdm_device_memory_snapshot(tdm_device *device, char **json, size_t *bytes) {
    TDM_TRY(check_text("device_memory_snapshot", json, bytes));
    if (!device)
        return tdm_fail(TDM_BAD_ARGUMENT, "device_memory_snapshot: device is NULL");
    tdm_json text = {.separated = true};
    tdm_json_open(&text, NULL, '{');
    const tdm_status status = write_members(&text, device);
    tdm_json_close(&text, '}');
    return hand_over(&text, status, "device_memory_snapshot", json, bytes);
}

/* ---- all devices of a context ---------------------------------------------------------------- */

static void add_report(tdm_memory_report *sum, const tdm_device *device) {
    tdm_memory_report report = {.struct_size = sizeof report};
    tdm_observation_report(device->observation, &report);
#define ADD(name) sum->name.current += report.name.current;
    TDM_COUNTER_LIST(ADD)
#undef ADD
}

static void write_total(tdm_json *json, tdm_device *const *devices, int count) {
    tdm_memory_report sum = {.struct_size = sizeof sum};
    for (int i = 0; i < count; i++)
        add_report(&sum, devices[i]);
    tdm_json_open(json, "total", '{');
#define WRITE(name) tdm_json_number(json, #name, sum.name.current);
    TDM_COUNTER_LIST(WRITE)
#undef WRITE
    tdm_json_close(json, '}');
}

static tdm_status write_devices(tdm_json *json, tdm_device *const *devices, int count) {
    tdm_status status = TDM_OK;
    tdm_json_string(json, "schema", "tandem-memory-all/1");
    tdm_json_string(json, "version", tdm_version_text());
    write_total(json, devices, count);
    tdm_json_open(json, "devices", '[');
    for (int i = 0; i < count && status == TDM_OK; i++) {
        tdm_json_open(json, NULL, '{');
        status = write_members(json, devices[i]);
        tdm_json_close(json, '}');
    }
    tdm_json_close(json, ']');
    return status;
}

tdm_status tdm_context_memory_snapshot(tdm_context *context, char **json, size_t *bytes) {
    TDM_TRY(check_text("context_memory_snapshot", json, bytes));
    if (!context)
        return tdm_fail(TDM_BAD_ARGUMENT, "context_memory_snapshot: context is NULL");
    tdm_device **devices;
    int count;
    TDM_TRY(tdm_context_open_devices(context, &devices, &count));
    tdm_json text = {.separated = true};
    tdm_json_open(&text, NULL, '{');
    const tdm_status status = write_devices(&text, devices, count);
    tdm_json_close(&text, '}');
    for (int i = 0; i < count; i++)
        tdm_device_release(devices[i]);
    tdm_host_free((void *)devices);
    return hand_over(&text, status, "context_memory_snapshot", json, bytes);
}

void tdm_memory_snapshot_free(char *json) {
    tdm_host_free(json);
}
