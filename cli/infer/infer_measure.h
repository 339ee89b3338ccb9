/*
 * One measurement of `tandem infer`: a model in one precision at one batch size on one device.
 * Samples are run and compared first, then timed.
 */
#ifndef TANDEM_CLI_INFER_INFER_MEASURE_H
#define TANDEM_CLI_INFER_INFER_MEASURE_H

#include "bench/record/bench_statistics.h"
#include "bench/record/results_json.h"
#include "common/table_print.h"
#include "models/mlp/mlp_network.h"
#include "models/mlp/mlp_oracle.h"

typedef struct infer_case {
    const mlp_model *model;
    const mlp_samples *samples;
    const mlp_precision *precision;
    const mlp_quantized *quantized; /* NULL if the precision does not quantize */
    const mlp_reference *reference; /* for this precision */
    /* The unquantized model on all samples. NULL: the samples have no labels. */
    const mlp_reference *exact;
    int64_t calibration; /* the number of leading samples used for calibration */
    int64_t batch;
    int all_samples; /* 1: no sample is left out, so the accuracy is checked */
    double seconds;  /* for each of the two timings */
} infer_case;

typedef struct infer_result {
    tdm_status status; /* TDM_OK, or the failure, with `reason` */
    int skipped;       /* 1: the caller chose not to run it; see `reason` */
    char reason[512];
    mlp_agreement agreement;
    int64_t images;  /* samples that were run and compared with their label */
    double accuracy; /* fraction of correct answers; NaN if the samples have no labels */
    int64_t unseen;  /* the images that were not used for calibration */
    /* Fraction of correct answers on the unseen images, minus the exact model's. NaN: none. */
    double difference;
    /*
     * 1 if the oracle's bound holds and the accuracy is within the slack of its reference. The
     * reference is the recorded accuracy, or the exact model's for a quantized model. Stored
     * integers are compared with both.
     */
    int passed;
    double first_seconds; /* of the first batch, which also builds kernels; not a sample */
    /* Seconds per batch: passes are enqueued back to back, with one wait at the end. */
    sample_series pipelined;
    /* Seconds per batch: upload, layers, and a blocking read of the logits. */
    sample_series waited;
    uint64_t weight_bytes;
    tdm_memory_stats memory; /* peaks of this measurement */
    char variants[256];
} infer_result;

/* Fills *result, including the device's status. Release it with infer_result_release. */
void infer_measure(tdm_device *device, const infer_case *given, infer_result *result);
void infer_result_release(infer_result *result);

/* Writes a name such as "digits w4 batch 1". The name of stored integers includes their scheme. */
void infer_case_name(const infer_case *given, char *name, size_t size);

/* Returns the number of multiplications and additions of one batch. */
double infer_flops(const infer_case *given);

/* Fills the result of a case that is not run. */
void infer_skip(infer_result *result, const char *reason);

/* Returns the median seconds per batch, or NaN if there is no sample. */
double infer_median(const sample_series *series);

/* Returns images per second: pipelined, else waited, or NaN if neither was measured. */
double infer_images_per_second(const infer_case *given, const infer_result *result);

/* The table per device is for people; the rows of the results file are for scripts. */
text_table *infer_table_create(void);
void infer_table_add(text_table *table, const infer_case *given, const infer_result *result);

/* Adds a row for each timed mode, or one row if the case failed, was wrong or was skipped. */
void infer_results_add(results_document *document, const tdm_device_info *info,
                       const infer_case *given, const infer_result *result);

/* Adds a row for a device that could not be opened. */
void infer_results_add_failure(results_document *document, const tdm_device_info *info,
                               const char *reason);

/* Writes why the case is wrong or was skipped, or "" if the measurement is good. */
void infer_verdict(const infer_case *given, const infer_result *result, char *text, size_t size);

#endif
