/* Datasheets of devices (bench/record/devices.def). They are vendors' claims, not measurements. */
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
    const char *names;       /* names that drivers use, separated by '|' */
    const char *source;
    double values[DATASHEET_FIELDS]; /* NaN: unknown */
} datasheet;

/*
 * Finds the datasheet of a device by its driver's name, or by the datasheet's own name with any
 * separators between its words ("RTX-4090"). Returns NULL for an unknown device, and for a name
 * that denotes another device, like "RTX 4090 Laptop GPU".
 */
const datasheet *datasheet_find(const char *device_name);

/*
 * Finds the datasheet by the board's name, if the driver reports one besides the chip's, and
 * otherwise by the device's name. Either may be NULL or "".
 */
const datasheet *datasheet_of_board(const char *board_name, const char *device_name);

/* Returns the datasheets in order, and NULL after the last. */
const datasheet *datasheet_at(size_t index);

/*
 * Returns the multiplications and additions per second for a row's dtype, named as in results
 * files, in GFLOP/s. f32 has the f32 rate. f16, bf16, and 8- or 4-bit weights with float inputs
 * have the f16 rate. Integers have the INT8 rate. Returns NaN if the rate is unknown.
 */
double datasheet_peak_gflops(const datasheet *sheet, const char *dtype);

#endif
