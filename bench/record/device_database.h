/* Datasheets of devices: rows of bench/record/devices.def, which are what a vendor promises and not what anybody measured here. */
#ifndef TANDEM_BENCH_RECORD_DEVICE_DATABASE_H
#define TANDEM_BENCH_RECORD_DEVICE_DATABASE_H

#include <stddef.h>

typedef enum datasheet_field {
    DATASHEET_DRAM_GBS,
    DATASHEET_CAPACITY_GB,
    DATASHEET_BUS_BITS,
    DATASHEET_FP32_TFLOPS,
    DATASHEET_FP16_TFLOPS,
    DATASHEET_INT8_TOPS,
    DATASHEET_CACHE_MB,
    DATASHEET_BOARD_WATTS,
    DATASHEET_FIELDS
} datasheet_field;

typedef struct datasheet {
    const char *name;
    const char *memory_type; /* "HBM3" */
    const char *names;       /* what drivers call it, separated by '|' */
    const char *source;
    double values[DATASHEET_FIELDS]; /* NaN: not known */
} datasheet;

/*
 * The sheet of a device by what its driver calls it, or by the sheet's own name with any signs between its words ("RTX-4090"). NULL
 * for a device that is not known, and for one that may be another: "RTX 4090 Laptop GPU".
 */
const datasheet *datasheet_find(const char *device_name);

/* The same by the name of the board, where the driver tells one beside the chip's (either may be NULL or ""). */
const datasheet *datasheet_of_board(const char *board_name, const char *device_name);

/* The sheets in order, NULL behind the last. */
const datasheet *datasheet_at(size_t index);

/*
 * Multiplications and additions per second of a row's dtype (the names that results files have): f32 at the rate of f32, f16, bf16
 * and weights of 8 or 4 bits beside floats at that of f16, integers at that of INT8. In GFLOP/s; NaN where it is not known.
 */
double datasheet_peak_gflops(const datasheet *sheet, const char *dtype);

#endif
