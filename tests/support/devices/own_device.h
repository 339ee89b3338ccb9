/*
 * A device once more: a context, a device and a stream of a test's own, with a bound of its memory.
 */
#ifndef TANDEM_TESTS_SUPPORT_DEVICES_OWN_DEVICE_H
#define TANDEM_TESTS_SUPPORT_DEVICES_OWN_DEVICE_H

#include "tests/support/devices/test_devices.h"

typedef struct own_device {
    tdm_context *context;
    tdm_device *device;
    tdm_stream *stream;
} own_device;

/* The bound is of the device's memory, or of its pinned host memory; 0: none. */
own_device own_device_open(const test_device *like, uint64_t pool_budget);
own_device own_device_open_staging(const test_device *like, uint64_t staging_budget);
/* The same with slabs, whatever TANDEM_POOL says: for what only they do, giving memory on while work is under way. */
own_device own_device_open_slabs(const test_device *like, uint64_t pool_budget);
/* Bytes of the red zones of a block: 0 but in debug mode. */
size_t own_device_zones(const own_device *own);
void own_device_close(own_device *own);

#endif
