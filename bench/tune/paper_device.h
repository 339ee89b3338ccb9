/*
 * A GPU that is nothing but its description: plans of products can be made for it, by the library's own rules, and not be run. It
 * shows which kernel, and how many parts of K, such a device would be given.
 */
#ifndef TANDEM_BENCH_TUNE_PAPER_DEVICE_H
#define TANDEM_BENCH_TUNE_PAPER_DEVICE_H

#include <tandem/device.h>
#include <tandem/gemm.h>

#include "bench/cases/gemm_case.h"

typedef struct paper_device paper_device;

/* What there is a description of, separated by ", ". */
extern const char *const paper_device_names;

/*
 * By a name of the datasheets of devices.def ("H200", "rtx-4090"). NULL where none is described or memory is short. The library's own
 * tuning data count for it, and those of the user's file, as TANDEM_TUNING_FILE says.
 */
paper_device *paper_device_create(const char *name);
void paper_device_destroy(paper_device *device);

const tdm_device_info *paper_device_info(const paper_device *device);

/* What the device's plan of a case comes to. */
typedef struct paper_choice {
    const char *variant;
    int64_t parts;  /* of K, 1: it is not split */
    int64_t waves;  /* 0: the model knows no time of this row */
    double seconds; /* predicted, NaN: not known */
} paper_choice;

/* -1 where there is no plan; tdm_last_detail says why. */
int paper_device_choose(paper_device *device, const gemm_case *item, paper_choice *choice);

#endif
