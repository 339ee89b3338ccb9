/*
 * Reads results files of the schemas tandem-bench/1 and tandem-report/1 (results_json.h) that any machine may have written.
 *
 * Members that are not known are passed over. What contradicts itself is refused with a sentence that names the file, the row and
 * the member: a median that is not that of the samples, a rate that is not work over time, an accepted row whose output was wrong.
 */
#ifndef TANDEM_BENCH_RECORD_RESULTS_READ_H
#define TANDEM_BENCH_RECORD_RESULTS_READ_H

#include <stddef.h>

#include "bench/record/results_json.h"
#include "formats/file_error.h"

/* A member of an object, e.g. of the environment; members of objects within have names like "variables.NAME". */
typedef struct results_fact {
    char *key;
    char *text;    /* as one would print it; NULL: null */
    double number; /* NaN: null or no number */
} results_fact;

typedef struct results_facts {
    results_fact *items;
    size_t count;
} results_facts;

typedef struct results_figure {
    const char *key;
    double value; /* NaN: null */
} results_figure;

typedef struct results_figures {
    results_figure *items;
    size_t count;
} results_figures;

/* A row; texts that are null in the file are NULL, numbers NaN. */
typedef struct results_row {
    size_t number; /* place in the file, from 1 */
    const char *suite;
    const char *case_name;
    const char *impl;
    const char *variant;
    const char *dtype;
    const char *mode;
    const char *packing;
    size_t device; /* index into the file's devices */
    results_figures shape;
    results_figures metrics;
    double *raw_s; /* positive and finite */
    size_t samples;
    double median_s;
    double p5_s;
    double p95_s;
    double flops;
    double bytes;
    double gflops;
    double gbs;
    int verified; /* -1: null */
    result_status status;
    const char *reason;
    const char *note;
    const char *throttle_reasons;
} results_row;

typedef struct results_file {
    const char *path; /* as it was given */
    const char *name; /* without folders */
    const char *schema;
    const char *created;
    results_facts library;
    results_facts host;
    results_facts environment;
    results_facts *devices; /* at least one; that of a file without a device has no facts */
    size_t device_count;
    results_row *rows;
    size_t row_count;
    struct cJSON *json; /* owns the texts */
} results_file;

/* 0, or -1 with the reason and nothing to release. `path` is kept. */
int results_read(const char *path, results_file *file, file_error *error);

/* The same from a text; `name` takes the place of the path. */
int results_read_text(const char *name, const char *text, size_t length, results_file *file,
                      file_error *error);

void results_file_release(results_file *file);

/* Let this device and the file's first one change their places, in the rows, too. */
void results_put_first(results_file *file, size_t device);

/* NULL or NaN where there is none. */
const char *results_fact_text(const results_facts *facts, const char *key);
double results_fact_number(const results_facts *facts, const char *key);

/* What a file's device is sold as, where that is told, else what its driver calls it; NULL for one without a name. */
const char *results_device_name(const results_facts *device);

/* True where the row has the mark `noisy`: its samples lie far apart. */
int results_row_is_noisy(const results_row *row);

/* NaN where there is none. */
double results_figure_value(const results_figures *figures, const char *key);

#endif
