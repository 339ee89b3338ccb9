/*
 * `tandem infer --together`: one model on all devices of the run at once, in one process. Each device has a
 * thread, a stream and its pool, and takes the next batch of the samples when it has done one. Every answer
 * of the first pass is compared; the passes after it are timed.
 */
#ifndef TANDEM_CLI_INFER_INFER_TOGETHER_H
#define TANDEM_CLI_INFER_INFER_TOGETHER_H

#include <stdio.h>

#include "bench/record/results_json.h"
#include "cli/infer/infer_measure.h"

enum {
    INFER_MAX_PARTIES = 64
};

/* A device that takes part. */
typedef struct infer_party {
    tdm_device *device; /* borrowed */
    tdm_device_info info;
    infer_result result; /* its own status, agreement, weights, memory and kernels */
    int64_t images;      /* that it took, of the passes that were timed */
} infer_party;

typedef struct infer_together {
    infer_party *parties;
    int party_count;
    infer_result
        all; /* of all samples, by whichever device; its `waited` has the passes, per pass */
} infer_together;

/* Fills the results of *together, whose parties have device and info. Release with infer_together_release. */
void infer_together_measure(const infer_case *given, infer_together *together);
void infer_together_release(infer_together *together);

/* A table of the devices and of all, and the rows of the results file; 0, or 1 where something failed. */
int infer_together_report(const infer_case *given, const infer_together *together,
                          results_document *document, const char *command, FILE *out);

#endif
