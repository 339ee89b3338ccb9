#include "bench/compare/compare_ratio.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "bench/record/bench_statistics.h"
#include "common/random_fill.h"

/* Middle 95 % of what is resampled. */
#define TAIL 0.025

const char *ratio_verdict_name(ratio_verdict verdict) {
    static const char *const names[] = {"-", "SAME", "FASTER", "SLOWER", "AMBIGUOUS"};
    return names[verdict];
}

static ratio_verdict judge(double low, double high, double margin) {
    if (!(isfinite(low) && isfinite(high)))
        return VERDICT_NONE;
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

/* A list in order, and how often each of its samples was drawn. */
typedef struct resampler {
    double *sorted;
    uint32_t *drawn;
    size_t count;
    uint64_t seed;
} resampler;

static int resampler_open(resampler *list, sample_list samples, uint64_t seed) {
    list->count = samples.count;
    list->seed = seed;
    list->sorted = malloc(samples.count * sizeof *list->sorted);
    list->drawn = malloc(samples.count * sizeof *list->drawn);
    if (list->sorted == NULL || list->drawn == NULL)
        return -1;
    memcpy(list->sorted, samples.seconds, samples.count * sizeof *list->sorted);
    qsort(list->sorted, list->count, sizeof *list->sorted, ascending);
    return 0;
}

static void resampler_close(resampler *list) {
    free(list->sorted);
    free(list->drawn);
}

/* The sample at a place of the drawn list put in order. */
static double drawn_at(const resampler *list, size_t place) {
    size_t passed = 0;
    size_t index = 0;
    while (passed + list->drawn[index] <= place)
        passed += list->drawn[index++];
    return list->sorted[index];
}

static double resampled_median(resampler *list, size_t round) {
    memset(list->drawn, 0, list->count * sizeof *list->drawn);
    for (size_t i = 0; i < list->count; i++) {
        const uint64_t bits = random_bits(list->seed, round * list->count + i) >> 32;
        list->drawn[bits * list->count >> 32]++;
    }
    const size_t middle = list->count / 2;
    const double upper = drawn_at(list, middle);
    return list->count % 2 == 1 ? upper : (upper + drawn_at(list, middle - 1)) / 2;
}

/* The interval of values in order. */
static void middle_of(const double *sorted, size_t count, double *low, double *high) {
    const size_t tail = (size_t)(TAIL * (double)count);
    *low = sorted[tail];
    *high = sorted[count - 1 - tail];
}

static int bootstrap(sample_list base, sample_list other, uint64_t stream, double *logs,
                     speed_ratio *ratio) {
    resampler first = {NULL, NULL, 0, 0};
    resampler second = {NULL, NULL, 0, 0};
    double *const ratios = malloc(RATIO_RESAMPLES * sizeof *ratios);
    int status = ratios == NULL ? -1 : 0;
    if (status == 0)
        status = resampler_open(&first, base, random_bits(RATIO_SEED, 2 * stream));
    if (status == 0)
        status = resampler_open(&second, other, random_bits(RATIO_SEED, 2 * stream + 1));
    for (size_t round = 0; status == 0 && round < RATIO_RESAMPLES; round++) {
        ratios[round] = resampled_median(&first, round) / resampled_median(&second, round);
        if (logs != NULL)
            logs[round] += log(ratios[round]);
    }
    if (status == 0) {
        qsort(ratios, RATIO_RESAMPLES, sizeof *ratios, ascending);
        middle_of(ratios, RATIO_RESAMPLES, &ratio->low, &ratio->high);
    }
    resampler_close(&first);
    resampler_close(&second);
    free(ratios);
    return status;
}

static void extremes(sample_list samples, double *least, double *most) {
    *least = *most = samples.seconds[0];
    for (size_t i = 1; i < samples.count; i++) {
        *least = fmin(*least, samples.seconds[i]);
        *most = fmax(*most, samples.seconds[i]);
    }
}

/* A mean knows no more of such a ratio than that: one end or the other. */
static void span_extremes(sample_list base, sample_list other, uint64_t stream, double *logs,
                          speed_ratio *ratio) {
    const uint64_t seed = random_bits(RATIO_SEED, 2 * stream);
    double least[2];
    double most[2];
    extremes(base, &least[0], &most[0]);
    extremes(other, &least[1], &most[1]);
    ratio->low = least[0] / most[1];
    ratio->high = most[0] / least[1];
    for (size_t round = 0; logs != NULL && round < RATIO_RESAMPLES; round++)
        logs[round] += log(random_bits(seed, round) >> 63 ? ratio->high : ratio->low);
}

int speed_ratio_find(sample_list base, sample_list other, double margin, uint64_t stream,
                     double *logs, speed_ratio *ratio) {
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
    if (isnan(ratio->ratio))
        return -1;
    if (base.count < RATIO_MIN_SAMPLES || other.count < RATIO_MIN_SAMPLES) {
        span_extremes(base, other, stream, logs, ratio);
        ratio->verdict = VERDICT_AMBIGUOUS;
        return 0;
    }
    if (bootstrap(base, other, stream, logs, ratio) != 0)
        return -1;
    ratio->verdict = judge(ratio->low, ratio->high, margin);
    return 0;
}

speed_ratio speed_ratio_mean(double sum, double *logs, size_t count, double margin) {
    speed_ratio mean = {NAN, NAN, NAN, VERDICT_NONE};
    if (count == 0)
        return mean;
    qsort(logs, RATIO_RESAMPLES, sizeof *logs, ascending);
    middle_of(logs, RATIO_RESAMPLES, &mean.low, &mean.high);
    mean.ratio = exp(sum / (double)count);
    mean.low = exp(mean.low / (double)count);
    mean.high = exp(mean.high / (double)count);
    mean.verdict = judge(mean.low, mean.high, margin);
    return mean;
}
