/*
 * A device made from the model of `tandem predict`, as the results file that it would have: predictions from it have known answers. Of
 * products 200 GFLOP/s, of reading 400 GB/s up to 1 MB, 100 GB/s in the last cache of 16 MB, 40 GB/s in main memory.
 */
#ifndef TANDEM_TESTS_SUPPORT_DEVICES_MADE_DEVICE_H
#define TANDEM_TESTS_SUPPORT_DEVICES_MADE_DEVICE_H

#include "bench/predict/predict_run.h"
#include "bench/record/results_read.h"

struct cJSON;

#define MADE_LAUNCH 4e-6
#define MADE_RATE 200e9

/* Seconds of a product of f32. */
double made_product_s(double m, double n, double k);

/* What a product has to be predicted from: operands of four bytes an element, each read or written once. */
predict_work made_product_work(double m, double n, double k, const char *dtype);

/* Its file, and rows to put into the results of one. */
struct cJSON *made_device_json(void);
struct cJSON *made_add_row(struct cJSON *rows, const char *suite, const char *name,
                           const char *dtype, double seconds, double flops, double bytes);
void made_add_sweep(struct cJSON *rows, double set);
void made_add_stream(struct cJSON *rows, const char *loop, double array, int reads, int writes);

/* The row's shape comes back. */
struct cJSON *made_add_product_of(struct cJSON *rows, const char *dtype, double m, double n,
                                  double k, double seconds);

/* A file without rows, for them; *rows is where they go. */
struct cJSON *made_file_json(struct cJSON **rows);

/* The file of this name that `root` makes, which is deleted. */
void made_file_read(struct cJSON *root, const char *name, results_file *file);

/* The file, and its text where that is wanted: it stays until the next call. */
void made_device_read(results_file *file, char **text);

#endif
