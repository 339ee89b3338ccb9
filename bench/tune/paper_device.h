/*
 * A GPU that exists only as a datasheet. The library's own rules can make GEMM plans for it, but
 * the plans cannot run. They show which kernel, and how many parts of K, such a device would get.
 */
#ifndef TANDEM_BENCH_TUNE_PAPER_DEVICE_H
#define TANDEM_BENCH_TUNE_PAPER_DEVICE_H

#include <tandem/device.h>
#include <tandem/gemm.h>

#include "bench/cases/gemm_case.h"

typedef struct paper_device paper_device;

/* The names of the devices, separated by ", ". */
extern const char *const paper_device_names;

/*
 * Makes a device by a name of the datasheets of devices.def ("H200", "rtx-4090"). Returns NULL if
 * there is no such description or memory is short. The library's own tuning data apply to it, as do
 * those of the user's file (TANDEM_TUNING_FILE).
 */
paper_device *paper_device_create(const char *name);
void paper_device_destroy(paper_device *device);

const tdm_device_info *paper_device_info(const paper_device *device);

/* The result of the device's plan for a case. */
typedef struct paper_choice {
    const char *variant;
    int64_t parts;  /* parts of K; 1: K is not split */
    int64_t waves;  /* 0: the model has no time for this kernel variant */
    double seconds; /* predicted; NaN: unknown */
} paper_choice;

/* Returns -1 if there is no plan; tdm_last_detail has the reason. */
int paper_device_choose(paper_device *device, const gemm_case *item, paper_choice *choice);

#endif
