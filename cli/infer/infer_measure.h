/*
 * One measurement of `tandem infer`: a model in one precision at one batch size on one device. Every sample is run and
 * compared first; times are taken after that.
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
    const mlp_quantized *quantized; /* NULL where the precision does not quantize */
    const mlp_reference *reference; /* for this precision */
    const mlp_reference *exact; /* the model as it is, of all samples; NULL: they have no labels */
    int64_t calibration;        /* so many samples, the first, have served to calibrate */
    int64_t batch;
    int all_samples; /* the samples are those the recorded accuracy was measured on */
    double seconds;  /* for each of the two timings */
} infer_case;

typedef struct infer_result {
    tdm_status status; /* TDM_OK, or what failed; then `reason` says why */
    int skipped;       /* not tried, by the caller's decision; `reason` says why */
    char reason[512];
    mlp_agreement agreement;
    int64_t images;  /* samples that were run and compared with their label */
    double accuracy; /* share of right answers among them; NaN where the samples have no labels */
    int64_t unseen;  /* of the images, those that no calibration has seen */
    double
        difference; /* share of right answers among these less that of the exact model; NaN: none */
    int passed; /* the oracle's bound holds; the accuracy is the recorded one, of a quantized model the exact one's, of stored
                   integers both, less the slack */
    double first_seconds; /* of the first batch, which also builds kernels: no sample */
    sample_series
        pipelined;        /* seconds per batch: passes enqueued back to back, one wait at the end */
    sample_series waited; /* seconds per batch: upload, layers, logits read back and waited for */
    uint64_t weight_bytes;
    tdm_memory_stats memory; /* peaks of this measurement */
    char variants[256];
} infer_result;

/* Fills *result; the device's status is in it. Release with infer_result_release. */
void infer_measure(tdm_device *device, const infer_case *given, infer_result *result);
void infer_result_release(infer_result *result);

/* "digits w4 batch 1"; stored integers with their scheme. */
void infer_case_name(const infer_case *given, char *name, size_t size);

/* Multiplications and additions of one batch. */
double infer_flops(const infer_case *given);

/* The result of a case that is not tried. */
void infer_skip(infer_result *result, const char *reason);

/* Median seconds per batch; NaN when there is no sample. */
double infer_median(const sample_series *series);

/* Images per second: pipelined, or waited where that was not measured; NaN when nothing was. */
double infer_images_per_second(const infer_case *given, const infer_result *result);

/* A table per device for people, rows of the results file for scripts. */
text_table *infer_table_create(void);
void infer_table_add(text_table *table, const infer_case *given, const infer_result *result);

/* Rows for both modes where they were timed; one when it failed, was wrong or was skipped. */
void infer_results_add(results_document *document, const tdm_device_info *info,
                       const infer_case *given, const infer_result *result);

/* A device that could not even be opened. */
void infer_results_add_failure(results_document *document, const tdm_device_info *info,
                               const char *reason);

/* One sentence about what is wrong, or why it was skipped; "" when the measurement is good. */
void infer_verdict(const infer_case *given, const infer_result *result, char *text, size_t size);

#endif
