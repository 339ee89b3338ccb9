#include "tests/support/devices/made_device.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cjson/cJSON.h>

#include "common/random_fill.h"
#include "tests/support/unit.h"

/* Returns the share of a working set that main memory serves: 0 up to 16 MB, 1 from 48 MB on. */
static double main_share(double set) {
    return fmin(1, fmax(0, (set - 16e6) / 32e6));
}

static double speed_at(double set) {
    const double share = main_share(set);
    return set <= 1e6 ? 400e9 : 1 / ((1 - share) / 100e9 + share / 40e9);
}

double made_product_s(double m, double n, double k) {
    return MADE_LAUNCH + 3e-6 + 2 * m * n * k / MADE_RATE * (1 + 8 / m);
}

predict_work made_product_work(double m, double n, double k, const char *dtype) {
    predict_work work = {.dtype = dtype, .m = m, .n = n, .k = k, .flops = 2 * m * n * k};
    work.read_bytes = work.working_set = 4 * (m * k + k * n + m * n);
    predict_product_key(work.key, m, n, dtype);
    return work;
}

/*
 * Returns the seconds of a streaming loop, with a launch and 2 us in each call. Reads run at 40
 * GB/s in main memory and at 80 GB/s in caches; writes run at 20 GB/s and 50 GB/s.
 */
static double stream_s(double reads, double writes) {
    const double share = main_share(reads + writes);
    return MADE_LAUNCH + 2e-6 + share * (reads / 40e9 + writes / 20e9) +
           (1 - share) * (reads / 80e9 + writes / 50e9);
}

cJSON *made_add_row(cJSON *rows, const char *suite, const char *name, const char *dtype,
                    double seconds, double flops, double bytes) {
    cJSON *const row = cJSON_CreateObject();
    cJSON_AddStringToObject(row, "suite", suite);
    cJSON_AddStringToObject(row, "case", name);
    cJSON_AddStringToObject(row, "impl", "tandem");
    cJSON_AddStringToObject(row, "dtype", dtype);
    cJSON_AddStringToObject(row, "mode", "pipelined");
    cJSON_AddStringToObject(row, "packing", "inside");
    cJSON_AddStringToObject(row, "status", "ok");
    cJSON_AddItemToObject(row, "raw_s", cJSON_CreateDoubleArray(&seconds, 1));
    cJSON_AddNumberToObject(row, "median_s", seconds);
    if (flops > 0)
        cJSON_AddNumberToObject(row, "flops", flops);
    if (bytes > 0)
        cJSON_AddNumberToObject(row, "bytes", bytes);
    cJSON_AddItemToArray(rows, row);
    return row;
}

cJSON *made_add_product_of(cJSON *rows, const char *dtype, double m, double n, double k,
                           double seconds) {
    char name[64];
    snprintf(name, sizeof name, "%s %.0fx%.0fx%.0f nn", dtype, m, n, k);
    cJSON *const row = made_add_row(rows, "gemm", name, dtype, seconds, 2 * m * n * k,
                                    4 * (m * k + k * n + m * n));
    cJSON *const shape = cJSON_AddObjectToObject(row, "shape");
    cJSON_AddNumberToObject(shape, "m", m);
    cJSON_AddNumberToObject(shape, "n", n);
    cJSON_AddNumberToObject(shape, "k", k);
    return shape;
}

static void add_product(cJSON *rows, double m, double n, double k) {
    made_add_product_of(rows, "f32", m, n, k, made_product_s(m, n, k));
}

void made_add_sweep(cJSON *rows, double set) {
    char name[64];
    const double bytes = set < 1e6 ? 1e6 : set;
    snprintf(name, sizeof name, "sweep read %.0f", set);
    cJSON *const row =
        made_add_row(rows, "memory", name, "f32", MADE_LAUNCH + bytes / speed_at(set), 0, bytes);
    cJSON_AddNumberToObject(cJSON_AddObjectToObject(row, "shape"), "bytes", set);
}

void made_add_stream(cJSON *rows, const char *loop, double array, int reads, int writes) {
    char name[64];
    snprintf(name, sizeof name, "%s %.0f", loop, array);
    cJSON *const row =
        made_add_row(rows, "memory", name, "f32", stream_s(reads * array, writes * array), 0,
                     (reads + writes) * array);
    cJSON_AddNumberToObject(cJSON_AddObjectToObject(row, "shape"), "bytes", array);
}

cJSON *made_device_json(void) {
    static const double sides[] = {64, 100, 256, 400, 512, 1000, 1024, 2048};
    cJSON *const root = cJSON_CreateObject();
    cJSON_AddStringToObject(root, "schema", "tandem-bench/1");
    cJSON *const device = cJSON_AddObjectToObject(root, "device");
    cJSON_AddStringToObject(device, "name", "made");
    cJSON_AddNumberToObject(device, "global_bytes", 1e9);
    cJSON_AddNumberToObject(device, "cache_bytes", 16e6);
    cJSON *const rows = cJSON_AddArrayToObject(root, "results");
    made_add_row(rows, "launch", "kernel", "f32", MADE_LAUNCH, 0, 0);
    for (int i = 0; i < 25; i++)
        made_add_sweep(rows, 1e4 * pow(1.5, i));
    for (int i = 0; i < 40; i++) {
        const uint64_t bits = random_bits(3, (uint64_t)i);
        add_product(rows, sides[bits % 8], sides[bits >> 8 & 7], sides[bits >> 16 & 7]);
    }
    for (int i = 0; i < 7; i++) {
        const double array = 3e5 * pow(2.5, i);
        made_add_stream(rows, "copy", array, 1, 1);
        made_add_stream(rows, "triad", array, 2, 1);
        made_add_stream(rows, "read", array, 1, 0);
        made_add_stream(rows, "write", array, 0, 1);
    }
    return root;
}

cJSON *made_file_json(cJSON **rows) {
    cJSON *const root = cJSON_CreateObject();
    cJSON_AddStringToObject(root, "schema", "tandem-bench/1");
    *rows = cJSON_AddArrayToObject(root, "results");
    return root;
}

void made_file_read(cJSON *root, const char *name, results_file *file) {
    file_error error;
    char *const text = cJSON_PrintUnformatted(root);
    cJSON_Delete(root);
    if (results_read_text(name, text, strlen(text), file, &error) != 0)
        fail_msg("%s", error.text);
    free(text);
}

void made_device_read(results_file *file, char **text) {
    static char *kept;
    file_error error;
    cJSON *const root = made_device_json();
    free(kept);
    kept = cJSON_PrintUnformatted(root);
    if (results_read_text("made", kept, strlen(kept), file, &error) != 0)
        fail_msg("%s", error.text);
    if (text != NULL)
        *text = kept;
    cJSON_Delete(root);
}
