#include "bench/record/sample_deal.h"

#include <math.h>

const sampling_rule sampling_rule_full = {
    .samples = 10,
    .least_passes = 12,
    .most_passes = 32,
    .settled = 0.01,
    .patience_seconds = 0.3,
    .maximum_seconds = 3.0,
};

const sampling_rule sampling_rule_quick = {
    .samples = 3,
    .least_passes = 1,
    .most_passes = 1,
    .settled = 1,
    .patience_seconds = 0.1,
    .maximum_seconds = 0.2,
};

int sample_deal_add(sample_deal *deal, const sampling_rule *rule, double seconds_per_call,
                    double seconds_spent, sample_series *samples) {
    const size_t place = deal->batches.count % rule->samples;
    if (series_add(&deal->batches, seconds_per_call, seconds_spent) != 0)
        return -1;
    if (place >= samples->count)
        return series_add(samples, seconds_per_call, seconds_spent);
    samples->values[place] = fmin(samples->values[place], seconds_per_call);
    samples->seconds += seconds_spent;
    return 0;
}

size_t sample_deal_left(const sample_deal *deal, const sampling_rule *rule) {
    const size_t all = rule->samples * rule->most_passes;
    return deal->batches.count < all ? all - deal->batches.count : 0;
}

static double median_of(const sample_series *series) {
    return summarize_samples(series->values, series->count).median;
}

/* Whether more batches have stopped making the samples shorter. */
static int is_settled(sample_deal *deal, const sampling_rule *rule, const sample_series *samples,
                      size_t passes) {
    const size_t step = (rule->least_passes + 1) / 2;
    const double before = deal->last_median;
    if (passes < (deal->next_check == 0 ? step : deal->next_check))
        return 0;
    deal->last_median = median_of(samples);
    deal->next_check = passes + step;
    return passes >= rule->least_passes && deal->last_median >= (1 - rule->settled) * before;
}

int sample_deal_done(sample_deal *deal, const sampling_rule *rule, const sample_series *samples) {
    const size_t passes = deal->batches.count / rule->samples;
    if (samples->count > 0 && samples->seconds >= rule->maximum_seconds)
        return 1;
    if (passes == 0)
        return 0;
    return passes >= rule->most_passes || samples->seconds >= rule->patience_seconds ||
           is_settled(deal, rule, samples, passes);
}

double sample_deal_disturbed(const sample_deal *deal, const sample_series *samples) {
    return median_of(&deal->batches) / median_of(samples);
}

void sample_deal_release(sample_deal *deal) {
    series_release(&deal->batches);
    *deal = (sample_deal){.next_check = 0};
}
