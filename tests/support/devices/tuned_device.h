/* A device opened anew with a text as the user's tuning file, and what plans on it say. */
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

/* The device again, in a context of its own; the log is listened to until it is closed. */
tuned_device tuned_device_open(const test_device *device, const char *text);
void tuned_device_close(tuned_device *own);

/* What the topics dispatch and tuning said since it was opened: lines "topic: message". */
const char *tuned_device_heard(void);

/* The name of the row that a plan of this description takes, and what the plan says of its tuning. */
typedef struct tuned_plan {
    char variant[64];
    char tuning[TDM_GEMM_TUNING_TEXT];
} tuned_plan;
tuned_plan tuned_device_plan(const tuned_device *own, const tdm_gemm_desc *desc);

#endif
