/*
 * This is a second handle on a device: a context, a device and a stream that the test owns, with a
 * memory budget.
 */
#ifndef TANDEM_TESTS_SUPPORT_DEVICES_OWN_DEVICE_H
#define TANDEM_TESTS_SUPPORT_DEVICES_OWN_DEVICE_H

#include "tests/support/devices/test_devices.h"

typedef struct own_device {
    tdm_context *context;
    tdm_device *device;
    tdm_stream *stream;
} own_device;

/*
 * `pool_budget` limits the device's memory, and `staging_budget` its pinned host memory. A budget
 * of 0 sets no limit.
 */
own_device own_device_open(const test_device *like, uint64_t pool_budget);
own_device own_device_open_staging(const test_device *like, uint64_t staging_budget);
/*
 * Like own_device_open, but always with slabs, regardless of TANDEM_POOL. Only slabs reuse memory
 * while work is in flight.
 */
own_device own_device_open_slabs(const test_device *like, uint64_t pool_budget);
/* Bytes of a block's red zones: 0 except in debug mode. */
size_t own_device_zones(const own_device *own);
void own_device_close(own_device *own);

#endif
