#include "tests/support/devices/own_device.h"

#include <stdio.h>
#include <stdlib.h>

#include "api/device/device_internal.h"
#include "api/pool/pool_internal.h"

static own_device open_with(const test_device *like, const tdm_context_options *options) {
    own_device own;
    int index;
    TEST_OK(tdm_context_create(options, &own.context));
    TEST_OK(tdm_context_find_device(own.context, like->info.selector, &index));
    TEST_OK(tdm_device_get(own.context, index, &own.device));
    TEST_OK(tdm_stream_create(own.device, &own.stream));
    return own;
}

own_device own_device_open(const test_device *like, uint64_t pool_budget) {
    const tdm_context_options options = {.struct_size = sizeof options,
                                         .pool_budget_bytes = pool_budget};
    return open_with(like, &options);
}

own_device own_device_open_slabs(const test_device *like, uint64_t pool_budget) {
    char mode[32];
    const char *const former = getenv("TANDEM_POOL");
    snprintf(mode, sizeof mode, "%s", former == NULL ? "" : former);
    unsetenv("TANDEM_POOL");
    const own_device own = own_device_open(like, pool_budget);
    if (former != NULL)
        setenv("TANDEM_POOL", mode, 1);
    return own;
}

own_device own_device_open_staging(const test_device *like, uint64_t staging_budget) {
    const tdm_context_options options = {.struct_size = sizeof options,
                                         .staging_budget_bytes = staging_budget};
    return open_with(like, &options);
}

size_t own_device_zones(const own_device *own) {
    return (size_t)(own->device->pool->zone_before + own->device->pool->zone_after);
}

void own_device_close(own_device *own) {
    tdm_stream_destroy(own->stream);
    tdm_device_release(own->device);
    tdm_context_destroy(own->context);
}
