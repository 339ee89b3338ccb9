/*
 * What a set of shapes comes to: for each peer, how many times as fast as it Tandem is, as the geometric
 * mean of all shapes and the least of them.
 */
#ifndef TANDEM_BENCH_SUITES_GEMM_SUMMARY_H
#define TANDEM_BENCH_SUITES_GEMM_SUMMARY_H

#include <stdio.h>

#include "bench/harness/bench_runner.h"

enum {
    MAX_SUMMARY_NAME = 64
};

typedef struct gemm_summary {
    char name[MAX_SUMMARY_NAME]; /* "bert f32 nt pipelined prepacked" */
    struct {
        const char *impl;
        int count;
        double log_sum;
        double least;
        char least_case[64];
    } peers[MAX_ENTRANTS];
    int peer_count;
    int cases;
} gemm_summary;

/* Add a finished case to the group of that name; another name than before prints the group before. */
void gemm_summary_add(gemm_summary *summary, const char *group, const char *case_name,
                      const bench_entrant *entrants, int count, FILE *file);

/* Print what there is, for groups of more than one case, and start afresh. `file` NULL: nothing is printed. */
void gemm_summary_print(gemm_summary *summary, FILE *file);

#endif
