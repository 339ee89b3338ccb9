#include "tests/support/drivers/backend_rig.h"

#include <stdatomic.h>
#include <time.h>

#include <string.h>

#include "api/device/core.h"

backend_rig rig_open(const test_device *device) {
    backend_rig r = {
        .device = device, .api = device->device->api, .native = device->device->native};
    TEST_OK(r.api->stream_create(r.native, &r.stream));
    TEST_OK(
        r.api->memory_alloc(r.native, TDM_MEMORY_DEVICE, RIG_WORDS * sizeof(int32_t), &r.memory));
    return r;
}

void rig_close(backend_rig *r) {
    TEST_OK(rig_wait(r));
    r->api->memory_free(r->native, r->memory);
    r->api->stream_destroy(r->stream);
}

tdm_status rig_wait(const backend_rig *r) {
    const char *failed;
    return r->api->stream_wait(r->stream, &failed);
}

void rig_fetch(const backend_rig *r, int32_t words[RIG_WORDS]) {
    TEST_OK(r->api->read(r->stream, "fetch", r->memory, 0, words, RIG_WORDS * sizeof(int32_t)));
    TEST_OK(rig_wait(r));
}

tdm_status rig_build(const backend_rig *r, const char *entry, const char *text, const char *defines,
                     tdm_bk_kernel **kernel) {
    const tdm_kernel_source source = {
        .entry = entry, .text = text, .text_bytes = strlen(text), .defines = defines};
    return r->api->kernel_build(r->native, &source, kernel);
}

tdm_arg rig_buffer_arg(tdm_bk_memory *memory, int64_t offset) {
    return (tdm_arg){.kind = TDM_ARG_BUFFER, .value.buffer = {.memory = memory, .offset = offset}};
}

void rig_wait_for_gate(void *gate) {
    const struct timespec pause = {.tv_nsec = 1000000};
    while (!atomic_load((atomic_bool *)gate))
        nanosleep(&pause, NULL);
}
