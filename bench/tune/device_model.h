/*
 * A GPU that exists only as a datasheet. The library's own rules can make GEMM plans for it, but
 * the plans cannot run. They show which kernel, and how many parts of K, such a device would get.
 */
#ifndef TANDEM_BENCH_TUNE_DEVICE_MODEL_H
#define TANDEM_BENCH_TUNE_DEVICE_MODEL_H

#include <tandem/device.h>
#include <tandem/gemm.h>

#include "bench/cases/gemm_case.h"

typedef struct device_model device_model;

/* The names of the devices, separated by ", ". */
extern const char *const device_model_names;

/*
 * Makes the device with this datasheet name in devices.def ("H200", "rtx-4090"). Returns NULL if
 * the device is not among device_model_names or memory is short. The library's own tuning data
 * apply to it, as do those of the user's file (TANDEM_TUNING_FILE).
 */
device_model *device_model_create(const char *name);
void device_model_destroy(device_model *device);

const tdm_device_info *device_model_info(const device_model *device);

/* The result of the device's plan for a case. */
typedef struct modelled_choice {
    const char *variant;
    int64_t parts;  /* parts of K; 1: K is not split */
    int64_t waves;  /* 0: the wave model does not cover this kernel variant */
    double seconds; /* predicted; NaN: unknown */
} modelled_choice;

/* Returns -1 if there is no plan; tdm_last_detail has the reason. */
int device_model_choose(device_model *device, const gemm_case *item, modelled_choice *choice);

#endif
