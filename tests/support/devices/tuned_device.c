#include "tests/support/devices/tuned_device.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "api/device/core.h"

static char logged[16384];

static void listen(void *user, tdm_log_level level, const char *topic, const char *message) {
    const size_t used = strlen(logged);
    (void)user;
    (void)level;
    if (strcmp(topic, "dispatch") == 0 || strcmp(topic, "tuning") == 0)
        snprintf(logged + used, sizeof logged - used, "%s: %s\n", topic, message);
}

tuned_device tuned_device_open(const test_device *device, const char *text) {
    tuned_device own = {.path = "/tmp/tandem-tuning-XXXXXX"};
    int index;
    const int descriptor = mkstemp(own.path);
    assert_true(descriptor >= 0);
    assert_int_equal(write(descriptor, text, strlen(text)), (ssize_t)strlen(text));
    close(descriptor);
    setenv("TANDEM_TUNING_FILE", own.path, 1);
    logged[0] = '\0';
    tdm_set_log(listen, NULL);
    TEST_OK(tdm_context_create(NULL, &own.context));
    TEST_OK(tdm_context_find_device(own.context, device->info.selector, &index));
    TEST_OK(tdm_device_get(own.context, index, &own.device));
    setenv("TANDEM_TUNING_FILE", "off", 1);
    return own;
}

void tuned_device_close(tuned_device *own) {
    tdm_set_log(NULL, NULL);
    tdm_device_release(own->device);
    tdm_context_destroy(own->context);
    unlink(own->path);
}

const char *tuned_device_log(void) {
    return logged;
}

tuned_plan tuned_device_plan(const tuned_device *own, const tdm_gemm_desc *desc) {
    tuned_plan said;
    tdm_gemm_plan *plan;
    TEST_OK(tdm_gemm_plan_create(own->device, desc, &plan));
    snprintf(said.variant, sizeof said.variant, "%s", tdm_gemm_plan_variant(plan));
    snprintf(said.tuning, sizeof said.tuning, "%s", tdm_gemm_plan_tuning(plan));
    tdm_gemm_plan_destroy(plan);
    return said;
}
