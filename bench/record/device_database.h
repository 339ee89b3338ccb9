/*
 * Datasheets of devices, for sharing out what was measured and for bounds of what was not: rows of bench/record/devices.def.
 *
 * A value is what a vendor promises, not what anybody measured here; each says where it is from, when that was read and how far it
 * was checked.
 */
#ifndef TANDEM_BENCH_RECORD_DEVICE_DATABASE_H
#define TANDEM_BENCH_RECORD_DEVICE_DATABASE_H

#include <stddef.h>

/* Rates are dense, with the accumulator that the value names. */
#define DATASHEET_FIELD_LIST(X)                                                                    \
    X(DRAM_GBS, "dram_gbs", "GB/s")                                                                \
    X(CAPACITY_GB, "capacity_gb", "GB")                                                            \
    X(BUS_BITS, "bus_bits", "bit")                                                                 \
    X(FP32_TFLOPS, "fp32_tflops", "TFLOP/s")                                                       \
    X(FP16_TFLOPS, "fp16_tflops", "TFLOP/s")                                                       \
    X(INT8_TOPS, "int8_tops", "TOP/s")                                                             \
    X(CACHE_MB, "cache_mb", "MB")                                                                  \
    X(BOARD_WATTS, "board_watts", "W")

typedef enum datasheet_field {
#define DATASHEET_FIELD_ENUM(id, name, unit) DATASHEET_##id,
    DATASHEET_FIELD_LIST(DATASHEET_FIELD_ENUM)
#undef DATASHEET_FIELD_ENUM
    DATASHEET_FIELDS
} datasheet_field;

typedef struct datasheet_source {
    const char *title;
    const char *address; /* NULL: none */
    const char *date;    /* when it was read, ISO 8601 */
} datasheet_source;

typedef enum datasheet_math {
    DATASHEET_PLAIN,
    DATASHEET_DENSE,
    DATASHEET_SPARSE
} datasheet_math;

typedef struct datasheet_value {
    double value;                   /* NaN: not known */
    const datasheet_source *source; /* NULL: not known */
    char confidence;                /* 'A', 'B' or 'C', see bench/record/devices.def */
    datasheet_math math;
    const char *accumulator; /* NULL where there is none */
} datasheet_value;

typedef struct datasheet {
    const char *name;
    const char *memory_type; /* "HBM3" */
    const char *names;       /* what drivers call it, separated by '|' */
    datasheet_value values[DATASHEET_FIELDS];
} datasheet;

/*
 * The sheet of a device by what its driver calls it, or by the sheet's own name with any signs between its words ("RTX-4090"). NULL
 * for a device that is not known, and for one that may be another: "RTX 4090 Laptop GPU".
 */
const datasheet *datasheet_find(const char *device_name);

/* The same by the name of the board, where the driver tells one beside the chip's (either may be NULL or ""). */
const datasheet *datasheet_of_board(const char *board_name, const char *device_name);

/*
 * The sheet that a user means: datasheet_find's, or the only one in whose name the words stand, at its beginning and with nothing
 * behind them that makes another device ("Arc-A770" is "Arc A770 16 GB", "Orin-Nano" is not "Orin Nano Super"). NULL: none, or several.
 */
const datasheet *datasheet_named(const char *name);

/* Whether the words of `name` stand in the sheet's own name, one behind the other. */
int datasheet_may_be(const datasheet *sheet, const char *name);

/* The sheets in order, NULL behind the last. */
const datasheet *datasheet_at(size_t index);

/* Name and unit of a field. */
const char *datasheet_field_name(datasheet_field field);
const char *datasheet_field_unit(datasheet_field field);

/* The sheet's arithmetic for a row's dtype, as below; NULL where it is not known. */
const datasheet_value *datasheet_peak(const datasheet *sheet, const char *dtype);

/*
 * Multiplications and additions per second of a row's dtype (the names that results files have): f32 at the rate of f32, f16, bf16
 * and weights of 8 or 4 bits beside floats at that of f16, integers at that of INT8. In GFLOP/s; NaN where it is not known.
 */
double datasheet_peak_gflops(const datasheet *sheet, const char *dtype);

#endif
