// Tests copies of rows between host and device memory through the backend's function table, with
// any pitches and offsets.
// ctest: device
#include <string.h>

#include "api/device/core.h"
#include "tests/support/devices/device_cases.h"
#include "tests/support/drivers/backend_rig.h"
#include "tests/support/test_case.h"

enum {
    BYTES = 4096
};

static void fill(uint8_t *bytes, int step) {
    for (int i = 0; i < BYTES; i++)
        bytes[i] = (uint8_t)(i * step + i / 256);
}

static const tdm_bk_rows shapes[] = {
    {.offset = 0, .pitch = 16, .host_pitch = 16, .bytes = 16, .rows = 10},
    {.offset = 3, .pitch = 7, .host_pitch = 5, .bytes = 5, .rows = 40},
    {.offset = 1001, .pitch = 13, .host_pitch = 29, .bytes = 13, .rows = 20},
    {.offset = 130, .pitch = 64, .host_pitch = 1, .bytes = 1, .rows = 50},
    {.offset = 4000, .pitch = 96, .host_pitch = 50, .bytes = 50, .rows = 1},
    {.offset = 77, .pitch = 100, .host_pitch = 200, .bytes = 99, .rows = 12},
};

DEVICE_TEST(write_rows) {
    backend_rig r = rig_open(device);
    uint8_t host[BYTES], expected[BYTES], found[BYTES];
    fill(host, 31);
    for (size_t s = 0; s < sizeof shapes / sizeof shapes[0]; s++) {
        const tdm_bk_rows *const rows = &shapes[s];
        memset(expected, 0xee, sizeof expected);
        TEST_OK(r.api->write(r.stream, "write", r.memory, 0, expected, sizeof expected));
        TEST_OK(r.api->write_rows(r.stream, "rows", r.memory, rows, host + 11));
        TEST_OK(r.api->read(r.stream, "read", r.memory, 0, found, sizeof found));
        TEST_OK(rig_wait(&r));
        for (size_t i = 0; i < rows->rows; i++)
            memcpy(expected + rows->offset + i * rows->pitch, host + 11 + i * rows->host_pitch,
                   rows->bytes);
        assert_memory_equal(found, expected, sizeof found);
    }
    rig_close(&r);
}

DEVICE_TEST(read_rows) {
    backend_rig r = rig_open(device);
    uint8_t host[BYTES], expected[BYTES], found[BYTES];
    fill(host, 29);
    TEST_OK(r.api->write(r.stream, "write", r.memory, 0, host, sizeof host));
    for (size_t s = 0; s < sizeof shapes / sizeof shapes[0]; s++) {
        const tdm_bk_rows *const rows = &shapes[s];
        memset(expected, 0xee, sizeof expected);
        memset(found, 0xee, sizeof found);
        TEST_OK(r.api->read_rows(r.stream, "rows", r.memory, rows, found + 5));
        TEST_OK(rig_wait(&r));
        for (size_t i = 0; i < rows->rows; i++)
            memcpy(expected + 5 + i * rows->host_pitch, host + rows->offset + i * rows->pitch,
                   rows->bytes);
        assert_memory_equal(found, expected, sizeof found);
    }
    rig_close(&r);
}

TEST_MAIN(test_devices_setup, test_devices_teardown)
