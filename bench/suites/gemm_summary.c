#include "bench/suites/gemm_summary.h"

#include <math.h>
#include <string.h>

static double median_of(const bench_entrant *entrant) {
    return entrant->status == RESULT_OK
               ? summarize_samples(entrant->series.values, entrant->series.count).median
               : NAN;
}

void gemm_summary_print(gemm_summary *summary, FILE *file) {
    for (int i = 0; file != NULL && summary->cases > 1 && i < summary->peer_count; i++) {
        if (summary->peers[i].count == 0)
            continue;
        fprintf(file,
                "%s: tandem is %.2fx %s over %d shapes (geometric mean), at least %.2fx (%s)\n",
                summary->name, exp(summary->peers[i].log_sum / summary->peers[i].count),
                summary->peers[i].impl, summary->peers[i].count, summary->peers[i].least,
                summary->peers[i].least_case);
    }
    memset(summary, 0, sizeof *summary);
}

static void begin_group(gemm_summary *summary, const char *group, const bench_entrant *entrants,
                        int count) {
    snprintf(summary->name, sizeof summary->name, "%s", group);
    summary->peer_count = count;
    for (int i = 0; i < count; i++) {
        summary->peers[i].impl = entrants[i].impl;
        summary->peers[i].least = INFINITY;
    }
}

void gemm_summary_add(gemm_summary *summary, const char *group, const char *case_name,
                      const bench_entrant *entrants, int count, FILE *file) {
    if (strncmp(summary->name, group, sizeof summary->name - 1) != 0) {
        gemm_summary_print(summary, file);
        begin_group(summary, group, entrants, count);
    }
    summary->cases++;
    for (int i = 1; i < count && i < summary->peer_count; i++) {
        const double ratio = median_of(&entrants[i]) / median_of(&entrants[0]);
        if (!isfinite(ratio))
            continue;
        summary->peers[i].count++;
        summary->peers[i].log_sum += log(ratio);
        if (ratio >= summary->peers[i].least)
            continue;
        summary->peers[i].least = ratio;
        snprintf(summary->peers[i].least_case, sizeof summary->peers[i].least_case, "%s",
                 case_name);
    }
}
