/*
 * OpenBLAS picks its kernels by the processor's name and knows only processors older than itself;
 * the user can name a better set with OPENBLAS_CORETYPE. A fair peer is the best of them.
 */
#include <math.h>
#include <string.h>

#include "bench/cases/gemm_case.h"
#include "bench/harness/bench_peers.h"

static const char *const core_types[] = {
#if defined(__x86_64__)
    "Haswell", "Zen", "SkylakeX", "Cooperlake", "SapphireRapids",
#elif defined(__aarch64__)
    "ARMV8", "CORTEXA53", "CORTEXA57", "CORTEXA72", "NEOVERSEN1", "NEOVERSEV1", "NEOVERSEN2",
#endif
    NULL,
};

enum {
    MAX_CORE_TYPES = 8
};

static int fastest(const bench_entrant *candidates, int count) {
    int best = -1;
    double best_seconds = INFINITY;
    for (int i = 0; i < count; i++) {
        const sample_series *const series = &candidates[i].series;
        const double seconds = summarize_samples(series->values, series->count).median;
        if (candidates[i].status != RESULT_OK || !(seconds < best_seconds))
            continue;
        best = i;
        best_seconds = seconds;
    }
    return best;
}

void bench_entrant_openblas_best(bench_entrant *entrant, int one_row) {
    static bench_entrant candidates[MAX_CORE_TYPES];
    const gemm_case matrices = {.types = GEMM_F32, .m = 768, .n = 768, .k = 768, .seed = 1};
    const gemm_case row = {
        .types = GEMM_F32, .m = 1, .n = 4096, .k = 4096, .transpose_b = 1, .seed = 1};
    const gemm_case probe = one_row ? row : matrices;
    worker_text request = {.length = 0};
    int count = 0;
    bench_entrant_peer(entrant, "openblas-best");
    if (entrant->missing != NULL)
        return;
    for (; count < MAX_CORE_TYPES && core_types[count] != NULL; count++) {
        bench_entrant_peer(&candidates[count], "openblas-best");
        bench_entrant_set(&candidates[count], "OPENBLAS_CORETYPE", core_types[count]);
    }
    gemm_oracle oracle = GEMM_ORACLE_INIT;
    if (gemm_oracle_set(&oracle, &probe) != 0)
        return;
    gemm_case_write(&probe, &request);
    const bench_plan plan = {
        .task = {.request = request.text, .verify = gemm_oracle_check, .user = &oracle},
        .rule = sampling_rule_quick,
        .turn_seconds = 0.005,
        .timeout_s = 10,
        .label = "openblas-best",
    };
    bench_run_case(&plan, candidates, count);
    const int best = fastest(candidates, count);
    if (best >= 0)
        bench_entrant_set(entrant, "OPENBLAS_CORETYPE", core_types[best]);
    bench_entrants_release(candidates, count);
    gemm_oracle_release(&oracle);
}
