#include "bench/compare/compare_ratio.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "bench/record/bench_statistics.h"
#include "common/random_fill.h"

/* The interval keeps the middle 95 % of the resampled ratios. */
#define TAIL 0.025

const char *ratio_verdict_name(ratio_verdict verdict) {
    static const char *const names[] = {"-", "SAME", "FASTER", "SLOWER", "AMBIGUOUS"};
    return names[verdict];
}

static ratio_verdict judge(double low, double high, double margin) {
    if (low > 1 + margin)
        return VERDICT_FASTER;
    if (high < 1 / (1 + margin))
        return VERDICT_SLOWER;
    return low >= 1 / (1 + margin) && high <= 1 + margin ? VERDICT_SAME : VERDICT_AMBIGUOUS;
}

static int ascending(const void *left, const void *right) {
    const double a = *(const double *)left;
    const double b = *(const double *)right;
    return (a > b) - (a < b);
}

/* Resamples the list with replacement, sorted, into `drawn`. Returns the median of the result. */
static double resampled_median(sample_list samples, uint64_t seed, size_t round, double *drawn) {
    for (size_t i = 0; i < samples.count; i++) {
        const uint64_t bits = random_bits(seed, round * samples.count + i) >> 32;
        const double second = samples.seconds[bits * samples.count >> 32];
        size_t place = i;
        for (; place > 0 && drawn[place - 1] > second; place--)
            drawn[place] = drawn[place - 1];
        drawn[place] = second;
    }
    return (drawn[(samples.count - 1) / 2] + drawn[samples.count / 2]) / 2;
}

static int bootstrap(sample_list base, sample_list other, speed_ratio *ratio) {
    const size_t tail = (size_t)(TAIL * RATIO_RESAMPLES);
    double *const ratios = malloc(RATIO_RESAMPLES * sizeof *ratios);
    double *const drawn = calloc(base.count + other.count, sizeof *drawn);
    const int status = ratios == NULL || drawn == NULL ? -1 : 0;
    for (size_t round = 0; status == 0 && round < RATIO_RESAMPLES; round++)
        ratios[round] = resampled_median(base, RATIO_SEED, round, drawn) /
                        resampled_median(other, RATIO_SEED + 1, round, drawn);
    if (status == 0) {
        qsort(ratios, RATIO_RESAMPLES, sizeof *ratios, ascending);
        ratio->low = ratios[tail];
        ratio->high = ratios[RATIO_RESAMPLES - 1 - tail];
    }
    free(ratios);
    free(drawn);
    return status;
}

int speed_ratio_find(sample_list base, sample_list other, double margin, speed_ratio *ratio) {
    *ratio = (speed_ratio){NAN, NAN, NAN, VERDICT_NONE};
    if (base.count == 0 || other.count == 0)
        return 0;
    if (base.count == other.count &&
        memcmp(base.seconds, other.seconds, base.count * sizeof *base.seconds) == 0) {
        *ratio = (speed_ratio){1, 1, 1, VERDICT_SAME};
        return 0;
    }
    ratio->ratio = summarize_samples(base.seconds, base.count).median /
                   summarize_samples(other.seconds, other.count).median;
    ratio->verdict = VERDICT_AMBIGUOUS;
    if (isnan(ratio->ratio))
        return -1;
    if (base.count < RATIO_MIN_SAMPLES || other.count < RATIO_MIN_SAMPLES)
        return 0;
    if (bootstrap(base, other, ratio) != 0)
        return -1;
    ratio->verdict = judge(ratio->low, ratio->high, margin);
    return 0;
}
