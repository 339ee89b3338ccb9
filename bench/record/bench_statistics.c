#include "bench/record/bench_statistics.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

const double noisy_middle = 0.05;

static int compare_doubles(const void *left, const void *right) {
    const double a = *(const double *)left;
    const double b = *(const double *)right;
    return (a > b) - (a < b);
}

static double percentile(const double *sorted, size_t count, double share) {
    const double position = share * (double)(count - 1);
    const size_t below = (size_t)position;
    const size_t above = below + 1 < count ? below + 1 : below;
    return sorted[below] + (position - (double)below) * (sorted[above] - sorted[below]);
}

sample_summary summarize_samples(const double *samples, size_t count) {
    sample_summary summary = {NAN, NAN, NAN, NAN, NAN};
    double *const sorted = count == 0 ? NULL : malloc(count * sizeof *sorted);
    if (sorted == NULL)
        return summary;
    memcpy(sorted, samples, count * sizeof *sorted);
    qsort(sorted, count, sizeof *sorted, compare_doubles);
    summary.median = percentile(sorted, count, 0.5);
    summary.minimum = sorted[0];
    summary.p5 = percentile(sorted, count, 0.05);
    summary.p95 = percentile(sorted, count, 0.95);
    summary.middle =
        summary.median > 0
            ? (percentile(sorted, count, 0.75) - percentile(sorted, count, 0.25)) / summary.median
            : NAN;
    free(sorted);
    return summary;
}

int series_add(sample_series *series, double sample, double seconds_spent) {
    if (series->count == series->capacity) {
        const size_t capacity = series->capacity == 0 ? 64 : 2 * series->capacity;
        double *const values = realloc(series->values, capacity * sizeof *values);
        if (values == NULL)
            return -1;
        series->values = values;
        series->capacity = capacity;
    }
    series->values[series->count++] = sample;
    series->seconds += seconds_spent;
    return 0;
}

int series_done(const sample_series *series, const stopping_rule *rule) {
    return series->count >= rule->samples ||
           (series->count > 0 && series->seconds >= rule->seconds);
}

void series_release(sample_series *series) {
    free(series->values);
    memset(series, 0, sizeof *series);
}
