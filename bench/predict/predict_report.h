/* What `tandem predict` tells: tables for people, schema tandem-predict/1 for programs. */
#ifndef TANDEM_BENCH_PREDICT_PREDICT_REPORT_H
#define TANDEM_BENCH_PREDICT_PREDICT_REPORT_H

#include <stdio.h>

#include "bench/predict/predict_run.h"

struct cJSON;

void predict_print(const predict_run *runs, size_t count, FILE *file);

/* NULL when memory is short. */
struct cJSON *predict_json(const predict_run *runs, size_t count);

#endif
