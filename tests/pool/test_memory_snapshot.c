// The memory of a device is reported by a report, by tags and by events. The JSON snapshot holds
// all of them.
// ctest: device
#include <stdlib.h>
#include <string.h>

#include <cjson/cJSON.h>

#include "api/device/core.h"
#include "tests/support/devices/device_cases.h"
#include "tests/support/test_case.h"

#define BUFFERS 12

static tdm_memory_report report_of(const test_device *device) {
    tdm_memory_report report = {.struct_size = sizeof report};
    TEST_OK(tdm_device_memory_report(device->device, &report));
    return report;
}

static tdm_buffer *tagged(const test_device *device, const char *tag, size_t bytes) {
    tdm_buffer *buffer;
    TEST_OK(tdm_memory_tag_push(tag));
    TEST_OK(tdm_buffer_create(device->device, bytes, &buffer));
    TEST_OK(tdm_memory_tag_pop());
    return buffer;
}

static uint64_t number(const cJSON *object, const char *name) {
    const cJSON *const item = cJSON_GetObjectItemCaseSensitive(object, name);
    if (!cJSON_IsNumber(item))
        test_case_fail("no number %s", name);
    return (uint64_t)item->valuedouble;
}

static const char *string(const cJSON *object, const char *name) {
    const cJSON *const item = cJSON_GetObjectItemCaseSensitive(object, name);
    if (!cJSON_IsString(item))
        test_case_fail("no string %s", name);
    return item->valuestring;
}

static cJSON *snapshot(const test_device *device) {
    char *text;
    size_t bytes;
    TEST_OK(tdm_device_memory_snapshot(device->device, &text, &bytes));
    assert_int_equal(strlen(text), bytes);
    cJSON *const root = cJSON_ParseWithOpts(text, NULL, 1);
    if (!root)
        test_case_fail("this is no JSON: %s", text);
    tdm_memory_snapshot_free(text);
    return root;
}

static const cJSON *statistic(const cJSON *root, const char *name) {
    return cJSON_GetObjectItemCaseSensitive(cJSON_GetObjectItemCaseSensitive(root, "statistics"),
                                            name);
}

/* Ranges cover their slabs without gaps and add up to the statistics. */
static void expect_slabs(const cJSON *root, const tdm_memory_report *report) {
    uint64_t reserved = 0, live = 0, requested = 0, unused = 0, largest = 0;
    const cJSON *slab, *range;
    cJSON_ArrayForEach(slab, cJSON_GetObjectItemCaseSensitive(root, "slabs")) {
        uint64_t end = 0;
        cJSON_ArrayForEach(range, cJSON_GetObjectItemCaseSensitive(slab, "ranges")) {
            const uint64_t bytes = number(range, "bytes");
            assert_int_equal(number(range, "offset"), end);
            end += bytes;
            if (strcmp(string(range, "state"), "live") == 0) {
                live += bytes;
                requested += number(range, "requested");
            } else {
                unused += bytes;
                largest = bytes > largest ? bytes : largest;
            }
        }
        assert_int_equal(number(slab, "bytes"), end);
        reserved += end;
    }
    assert_int_equal(reserved, report->reserved.current);
    assert_int_equal(live, report->allocated.current);
    assert_int_equal(requested, report->requested.current);
    assert_int_equal(unused, report->free);
    assert_int_equal(largest, report->largest_free);
}

DEVICE_TEST(the_report_agrees_with_the_statistics) {
    tdm_memory_stats stats = {.struct_size = sizeof stats};
    const tdm_memory_report before = report_of(device);
    tdm_buffer *const buffer = tagged(device, "weights", 100000);
    const tdm_memory_report with = report_of(device);
    TEST_OK(tdm_device_memory_stats(device->device, &stats));
    assert_int_equal(with.requested.current, before.requested.current + 100000);
    assert_int_equal(with.requested.current, stats.requested);
    assert_int_equal(with.requested.peak, stats.requested_peak);
    assert_int_equal(with.allocated.current, stats.allocated);
    assert_int_equal(with.allocated.peak, stats.allocated_peak);
    assert_int_equal(with.reserved.current, stats.reserved);
    assert_int_equal(with.reserved.peak, stats.reserved_peak);
    assert_int_equal(with.blocks.current, stats.live_blocks);
    assert_int_equal(with.blocks.allocated, stats.allocations);
    assert_int_equal(with.blocks.freed, stats.frees);
    assert_int_equal(with.slabs.allocated, stats.native_allocations);
    assert_int_equal(with.slabs.freed, stats.native_frees);
    assert_int_equal(with.budget, stats.budget);
    assert_int_equal(with.free, stats.reserved - stats.allocated);
    tdm_buffer_destroy(buffer);
    TEST_OK(tdm_device_reset_peaks(device->device));
    const tdm_memory_report after = report_of(device);
    assert_int_equal(after.allocated.peak, after.allocated.current);
    assert_int_equal(after.allocated.freed - before.allocated.freed,
                     with.allocated.current - before.allocated.current);
}

DEVICE_TEST(a_budget_that_changes_is_reported) {
    TEST_OK(tdm_device_set_memory_budget(device->device, 77 << 20));
    assert_int_equal(report_of(device).budget, 77 << 20);
    TEST_OK(tdm_device_set_memory_budget(device->device, 0));
    tdm_memory_stats stats = {.struct_size = sizeof stats};
    TEST_OK(tdm_device_memory_stats(device->device, &stats));
    assert_int_equal(report_of(device).budget, stats.budget);
}

DEVICE_TEST(the_snapshot_has_every_number) {
    tdm_buffer *buffers[BUFFERS];
    TEST_OK(tdm_device_record_memory_events(device->device, 1000));
    for (int i = 0; i < BUFFERS; i++)
        buffers[i] = tagged(device, i % 3 ? "cache" : "odd \"tag\"\n\xff\xc3\xa9",
                            (size_t)1000 * (size_t)(i + 1));
    const tdm_memory_report report = report_of(device);
    cJSON *const root = snapshot(device);
    assert_string_equal(string(root, "schema"), "tandem-memory/1");
    assert_string_equal(string(cJSON_GetObjectItemCaseSensitive(root, "device"), "selector"),
                        device->info.selector);
    assert_int_equal(number(statistic(root, "requested"), "current"), report.requested.current);
    assert_int_equal(number(statistic(root, "allocated"), "peak"), report.allocated.peak);
    assert_int_equal(number(statistic(root, "reserved"), "freed"), report.reserved.freed);
    assert_int_equal(number(statistic(root, "active"), "allocated"), report.active.allocated);
    assert_int_equal(number(statistic(root, "inactive_split"), "current"),
                     report.inactive_split.current);
    uint64_t bytes = 0, blocks = 0, odd = 0;
    const cJSON *tag;
    cJSON_ArrayForEach(tag, cJSON_GetObjectItemCaseSensitive(root, "tags")) {
        const cJSON *const name = cJSON_GetObjectItemCaseSensitive(tag, "tag");
        bytes += number(tag, "bytes");
        blocks += number(tag, "blocks");
        if (cJSON_IsString(name) &&
            strcmp(name->valuestring, "odd \"tag\"\n\xef\xbf\xbd\xc3\xa9") == 0)
            odd = number(tag, "blocks");
    }
    assert_int_equal(bytes, report.allocated.current);
    assert_int_equal(blocks, report.blocks.current);
    assert_int_equal(odd, BUFFERS / 3);
    expect_slabs(root, &report);
    uint64_t allocs = 0, requested = 0;
    const cJSON *event;
    cJSON_ArrayForEach(
        event, cJSON_GetObjectItemCaseSensitive(root, "events")) if (strcmp(string(event, "kind"),
                                                                            "alloc") == 0) {
        allocs++;
        requested += number(event, "requested");
    }
    assert_int_equal(allocs, BUFFERS);
    assert_int_equal(requested, 1000 * BUFFERS * (BUFFERS + 1) / 2);
    cJSON_Delete(root);
    for (int i = 0; i < BUFFERS; i++)
        tdm_buffer_destroy(buffers[i]);
    TEST_OK(tdm_device_record_memory_events(device->device, 0));
}

DEVICE_TEST(events_come_with_stream_and_tag) {
    tdm_memory_event events[64];
    int count;
    TEST_OK(tdm_device_record_memory_events(device->device, 64));
    tdm_buffer *const buffer = tagged(device, "step", 4096);
    TEST_OK(tdm_buffer_write(device->stream, buffer, 0, &(int){1}, sizeof(int)));
    TEST_OK(tdm_stream_synchronize(device->stream));
    tdm_buffer_destroy(buffer);
    TEST_OK(tdm_device_memory_events(device->device, events, 64, &count));
    int allocs = 0, uses = 0, frees = 0;
    uint64_t block = 0;
    for (int i = 0; i < count; i++) {
        if (events[i].kind == TDM_MEMORY_ALLOC && events[i].tag &&
            strcmp(events[i].tag, "step") == 0) {
            allocs++;
            block = events[i].block;
        }
        uses += events[i].kind == TDM_MEMORY_USE && events[i].block == block &&
                events[i].stream == device->stream->id;
        frees += events[i].kind == TDM_MEMORY_FREE && events[i].block == block;
    }
    assert_int_equal(allocs, 1);
    assert_int_equal(uses, 1);
    assert_int_equal(frees, 1);
    TEST_OK(tdm_device_record_memory_events(device->device, 0));
    TEST_OK(tdm_device_memory_events(device->device, NULL, 0, &count));
    assert_int_equal(count, 0);
}

DEVICE_TEST(wrong_calls_are_refused) {
    tdm_memory_report report = {.struct_size = sizeof report + 1};
    tdm_memory_tag_usage usage[1];
    char *text = (char *)&report;
    size_t bytes = 1;
    int count = 7;
    TEST_REFUSED(tdm_device_memory_report(device->device, &report), TDM_BAD_ARGUMENT,
                 "struct_size");
    TEST_REFUSED(tdm_device_memory_report(NULL, &report), TDM_BAD_ARGUMENT, "device");
    // An output struct may be smaller than the library's; only the fields that it has are filled.
    report = (tdm_memory_report){.struct_size = offsetof(tdm_memory_report, allocated)};
    report.allocated.current = 99;
    TEST_OK(tdm_device_memory_report(device->device, &report));
    assert_int_equal(report.allocated.current, 99);
    TEST_REFUSED(tdm_device_memory_tags(device->device, NULL, 1, &count), TDM_BAD_ARGUMENT,
                 "usage");
    assert_int_equal(count, 0);
    TEST_REFUSED(tdm_device_memory_tags(device->device, usage, -1, &count), TDM_BAD_ARGUMENT,
                 "capacity is -1");
    TEST_REFUSED(tdm_device_memory_events(device->device, NULL, 3, &count), TDM_BAD_ARGUMENT,
                 "events");
    TEST_REFUSED(tdm_device_record_memory_events(device->device, TDM_MEMORY_EVENTS_MAX + 1),
                 TDM_BAD_ARGUMENT, "capacity");
    TEST_REFUSED(tdm_device_memory_snapshot(NULL, &text, &bytes), TDM_BAD_ARGUMENT, "device");
    assert_null(text);
    assert_int_equal(bytes, 0);
    tdm_memory_snapshot_free(NULL);
}

/*
 * The snapshot lists every open device of the run and nothing else, each with its own statistics.
 * The total is their sum.
 */
DEVICE_TEST(a_context_tells_of_all_its_devices) {
    tdm_buffer *buffer;
    char *text;
    size_t bytes;
    TEST_OK(tdm_buffer_create(device->device, 123456, &buffer));
    TEST_OK(tdm_context_memory_snapshot(test_context(), &text, &bytes));
    assert_int_equal(strlen(text), bytes);
    cJSON *const root = cJSON_ParseWithOpts(text, NULL, 1);
    if (!root)
        test_case_fail("this is no JSON: %s", text);
    tdm_memory_snapshot_free(text);
    assert_string_equal(string(root, "schema"), "tandem-memory-all/1");
    const cJSON *const devices = cJSON_GetObjectItemCaseSensitive(root, "devices");
    assert_int_equal(cJSON_GetArraySize(devices), test_device_count());
    uint64_t requested = 0;
    int met = 0;
    const cJSON *item;
    cJSON_ArrayForEach(item, devices) {
        const uint64_t own = number(statistic(item, "requested"), "current");
        requested += own;
        if (strcmp(string(cJSON_GetObjectItemCaseSensitive(item, "device"), "selector"),
                   device->info.selector) == 0)
            met += own >= 123456;
    }
    assert_int_equal(met, 1);
    assert_int_equal(number(cJSON_GetObjectItemCaseSensitive(root, "total"), "requested"),
                     requested);
    cJSON_Delete(root);
    tdm_buffer_destroy(buffer);
    TEST_REFUSED(tdm_context_memory_snapshot(NULL, &text, &bytes), TDM_BAD_ARGUMENT, "context");
    assert_null(text);
    TEST_REFUSED(tdm_context_memory_snapshot(test_context(), NULL, &bytes), TDM_BAD_ARGUMENT,
                 "json");
}

TEST_MAIN(test_devices_setup, test_devices_teardown)
