/*
 * Reads results files of the schemas tandem-bench/1 and tandem-report/1 (results_json.h) that any machine may have written.
 *
 * Members that are not known are passed over, optional ones of another kind count as unknown. Medians and rates are computed from the
 * samples, whatever the file says of them.
 */
#ifndef TANDEM_BENCH_RECORD_RESULTS_READ_H
#define TANDEM_BENCH_RECORD_RESULTS_READ_H

#include <stddef.h>

#include "bench/record/results_json.h"
#include "formats/file_error.h"

/* A row. Texts and objects belong to the file's JSON. What is not known is NULL or NaN. */
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
    int verified; /* its output was compared and right */
    result_status status;
    const char *reason;
    const char *note;
} results_row;

typedef struct results_file {
    const char *path; /* as it was given */
    const char *name; /* without folders */
    const char *schema;
    const char *created;
    const struct cJSON *library;
    const struct cJSON *host;
    const struct cJSON *environment;
    const struct cJSON **devices; /* at least one; NULL for that of a file without a device */
    size_t device_count;
    results_row *rows;
    size_t row_count;
    struct cJSON *json;
} results_file;

/* 0, or -1 with the reason and nothing to release. `path` is kept. */
int results_read(const char *path, results_file *file, file_error *error);

/* The same from a text; `name` takes the place of the path. */
int results_read_text(const char *name, const char *text, size_t length, results_file *file,
                      file_error *error);

void results_file_release(results_file *file);

/* A member of an object, which may be NULL; NULL or NaN where there is none of that kind. */
const char *results_get_text(const struct cJSON *object, const char *key);
double results_get_number(const struct cJSON *object, const char *key);

/* A value as one prints it, e.g. the words of a list with commas between them; "" for null, for objects and for NULL. */
void results_value_text(const struct cJSON *item, char *text, size_t size);

/* What a file's device is sold as, where that is told, else what its driver calls it; NULL for one without a name. */
const char *results_device_name(const struct cJSON *device);

/* True where the row has the mark `noisy`: its samples lie far apart. */
int results_row_is_noisy(const results_row *row);

#endif
