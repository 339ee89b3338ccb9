/*
 * This synthetic device follows the model of `tandem predict` and has the form of its results file.
 * Predictions from it have known answers. GEMM runs at 200 GFLOP/s. Reads run at 400 GB/s up to 1
 * MB, 100 GB/s in the last cache of 16 MB, and 40 GB/s in main memory.
 */
#ifndef TANDEM_TESTS_SUPPORT_DEVICES_MADE_DEVICE_H
#define TANDEM_TESTS_SUPPORT_DEVICES_MADE_DEVICE_H

#include "bench/predict/predict_run.h"
#include "bench/record/results_read.h"

struct cJSON;

#define MADE_LAUNCH 4e-6
#define MADE_RATE 200e9

/* Returns the seconds of an f32 GEMM. */
double made_product_s(double m, double n, double k);

/*
 * Returns the prediction input for a GEMM. It counts four bytes per element, and each operand is
 * read or written once.
 */
predict_work made_product_work(double m, double n, double k, const char *dtype);

/* The results file of the device, and functions that add rows to one. */
struct cJSON *made_device_json(void);
struct cJSON *made_add_row(struct cJSON *rows, const char *suite, const char *name,
                           const char *dtype, double seconds, double flops, double bytes);
void made_add_sweep(struct cJSON *rows, double set);
void made_add_stream(struct cJSON *rows, const char *loop, double array, int reads, int writes);

/* Returns the shape of the new row. */
struct cJSON *made_add_product_of(struct cJSON *rows, const char *dtype, double m, double n,
                                  double k, double seconds);

/* A file without rows; *rows is the array to add them to. */
struct cJSON *made_file_json(struct cJSON **rows);

/* Reads `root` as a results file of this name, and frees `root`. */
void made_file_read(struct cJSON *root, const char *name, results_file *file);

/* Reads the file, and its text unless `text` is NULL. The text is valid until the next call. */
void made_device_read(results_file *file, char **text);

#endif
