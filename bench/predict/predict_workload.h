/*
 * Workloads of `tandem predict`: operations with shapes, counts and types, schema tandem-workload/1:
 *
 * {"schema":"tandem-workload/1","name":TEXT,"about":TEXT,"tokens":SIZE or null,"batch":N,"context":N,"weights":DTYPE,
 *  "resident":[{"what":TEXT,"bytes":SIZE}, …],
 *  "operations":[{"op":"gemm","name":TEXT,"count":SIZE,"batch":SIZE,"m":SIZE,"n":SIZE,"k":SIZE,"dtype":DTYPE,"weights":BOOL}, …
 *                {"op":"stream","name":TEXT,"count":SIZE,"reads":SIZE,"writes":SIZE,"resident":BOOL}, …]}
 *
 * SIZE is a positive number, or a product of numbers and the words batch and context, e.g. "2*8*128*context". DTYPE is a row of
 * tandem bench gemm, or the word "weights": the type that the workload, or the user, gives the weights. reads and writes are
 * bytes. What "weights" marks is read anew in every pass: main memory holds it.
 * "resident":true of a stream marks what stays between passes, as keys and values do: between two readings all of it and all weights are read. "tokens" is what a pass makes.
 */
#ifndef TANDEM_BENCH_PREDICT_PREDICT_WORKLOAD_H
#define TANDEM_BENCH_PREDICT_PREDICT_WORKLOAD_H

#include "bench/predict/predict_profile.h"

enum {
    WORKLOAD_MAX_OPERATIONS = 64,
    WORKLOAD_MAX_NAME = 64
};

typedef struct workload_operation {
    char name[WORKLOAD_MAX_NAME];
    double count;
    predict_work work;
    double weight_bytes; /* of one call; 0: no weights */
    int resident;        /* a stream of what stays in memory, of which each call has another part */
} workload_operation;

typedef struct predict_workload {
    char name[WORKLOAD_MAX_NAME];
    double tokens; /* of a pass; NaN: none */
    double batch;
    double context;
    char weights[16]; /* dtype */
    double weight_bytes;
    double resident_bytes; /* besides weights: keys and values, embeddings */
    double kv_bytes;       /* of these, what is called "keys and values" */
    workload_operation operations[WORKLOAD_MAX_OPERATIONS];
    size_t operation_count;
} predict_workload;

/* What the user sets in place of the file's own; 0 or NULL: the file's. */
typedef struct workload_settings {
    double batch;
    double context;
    const char *weights;
} workload_settings;

/* A built-in name or a file. 0, or -1 with the reason. */
int predict_workload_read(const char *name, const workload_settings *settings,
                          predict_workload *workload, file_error *error);

/* The built-in workloads, which stand in bench/predict/workloads; NULL behind the last. */
typedef struct workload_text {
    const char *name;
    const char *text;
    size_t length;
} workload_text;

extern const workload_text workload_texts[];

#endif
