/*
 * These functions reopen a device with a text as the user's tuning file, and report the plans
 * created on it.
 */
#ifndef TANDEM_TESTS_SUPPORT_DEVICES_TUNED_DEVICE_H
#define TANDEM_TESTS_SUPPORT_DEVICES_TUNED_DEVICE_H

#include "api/gemm/gemm_internal.h"
#include "tests/support/devices/test_devices.h"

#define TUNING_HEADER "tandem-tuning 1\n"

typedef struct tuned_device {
    char path[64];
    tdm_context *context;
    tdm_device *device;
} tuned_device;

/*
 * Opens the device again in a context of its own. The log is captured until the device is closed.
 */
tuned_device tuned_device_open(const test_device *device, const char *text);
void tuned_device_close(tuned_device *own);

/*
 * Returns the log messages of the topics dispatch and tuning since the device was opened. Each
 * message is a line "topic: message".
 */
const char *tuned_device_log(void);

/* The variant that a plan of this descriptor selects, and its tuning text. */
typedef struct tuned_plan {
    char variant[64];
    char tuning[TDM_GEMM_TUNING_TEXT];
} tuned_plan;
tuned_plan tuned_device_plan(const tuned_device *own, const tdm_gemm_desc *desc);

#endif
