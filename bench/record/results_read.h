/*
 * Reads results files of the schemas tandem-bench/1 and tandem-report/1 (results_json.h) from any
 * machine.
 *
 * Unknown members are ignored. Optional members of the wrong kind count as unknown. Medians and
 * rates are computed from the samples; the file's own values are not used.
 */
#ifndef TANDEM_BENCH_RECORD_RESULTS_READ_H
#define TANDEM_BENCH_RECORD_RESULTS_READ_H

#include <stddef.h>

#include "bench/record/results_json.h"
#include "formats/file_error.h"

/* A row. Strings and objects belong to the file's JSON. Unknown values are NULL or NaN. */
typedef struct results_row {
    const char *suite;
    const char *case_name;
    const char *impl;
    const char *variant;
    const char *dtype;
    const char *mode;
    const char *packing;
    size_t device; /* index into the file's devices */
    const struct cJSON *shape;
    const struct cJSON *metrics;
    double *raw_s; /* positive and finite */
    size_t samples;
    double median_s;
    double flops;
    double bytes;
    double gflops;
    double gbs;
    int verified; /* 1: its output was compared and is correct */
    result_status status;
    const char *reason;
    const char *note;
} results_row;

typedef struct results_file {
    const char *path; /* as given by the caller */
    const char *name; /* without folders */
    const char *schema;
    const char *created;
    const struct cJSON *library;
    const struct cJSON *host;
    const struct cJSON *environment;
    const struct cJSON **devices; /* at least one entry, which is NULL if the file has no device */
    size_t device_count;
    results_row *rows;
    size_t row_count;
    struct cJSON *json;
} results_file;

/* Returns 0, or -1 and the reason; there is then nothing to release. `path` is kept. */
int results_read(const char *path, results_file *file, file_error *error);

/* Reads a text in the same way; `name` replaces the path. */
int results_read_text(const char *name, const char *text, size_t length, results_file *file,
                      file_error *error);

void results_file_release(results_file *file);

/* Read a member of an object (may be NULL). They return NULL or NaN if it is missing. */
const char *results_get_text(const struct cJSON *object, const char *key);
double results_get_number(const struct cJSON *object, const char *key);

/*
 * Writes a value in printable form, e.g. the words of a list with commas between them. Writes ""
 * for null, objects and NULL.
 */
void results_value_text(const struct cJSON *item, char *text, size_t size);

/* Returns the product name of a device if known, else the driver's name, else NULL. */
const char *results_device_name(const struct cJSON *device);

/* Returns 1 if the row is marked `noisy`: its samples vary widely. */
int results_row_is_noisy(const results_row *row);

#endif
