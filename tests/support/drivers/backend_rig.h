/*
 * A device of the run is tested at the level of its backend, without the core. The rig holds the
 * backend's function table, and a native stream and memory that the test owns.
 */
#ifndef TANDEM_TESTS_SUPPORT_DRIVERS_BACKEND_RIG_H
#define TANDEM_TESTS_SUPPORT_DRIVERS_BACKEND_RIG_H

#include "api/backend.h"
#include "tests/support/devices/test_devices.h"

#define RIG_WORDS 1024

typedef struct backend_rig {
    const test_device *device;
    const tdm_backend *api;
    tdm_bk_device *native;
    tdm_bk_stream *stream;
    tdm_bk_memory *memory; /* RIG_WORDS 32-bit words */
} backend_rig;

backend_rig rig_open(const test_device *device);

/* Waits for the stream first. */
void rig_close(backend_rig *r);

tdm_status rig_wait(const backend_rig *r);

/* Reads all the words, and waits. */
void rig_fetch(const backend_rig *r, int32_t words[RIG_WORDS]);

tdm_status rig_build(const backend_rig *r, const char *entry, const char *text, const char *defines,
                     tdm_bk_kernel **kernel);

/* A host task that ends once an atomic_bool is true. */
void rig_wait_for_gate(void *gate);

tdm_arg rig_buffer_arg(tdm_bk_memory *memory, int64_t offset);

#endif
