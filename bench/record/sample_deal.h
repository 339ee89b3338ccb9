/*
 * Samples of a time that is only ever disturbed upwards: by an interrupt, another guest of the machine, a step of the clock.
 *
 * A row is measured in batches, short runs of calls, which are dealt out to its samples in turn like cards:
 *
 *     batch   0 1 2 3 4 5 6 7 8 …        with 4 samples
 *     sample  0 1 2 3 0 1 2 3 0 …        a sample is the shortest of its batches
 *
 * Each sample so has batches from all of the time that the row was measured in, and the samples agree where each of them has met
 * the machine undisturbed. They are done when more batches no longer make them shorter. Calls longer than a batch get one or a few
 * batches each; those samples are what calls took.
 */
#ifndef TANDEM_BENCH_RECORD_SAMPLE_DEAL_H
#define TANDEM_BENCH_RECORD_SAMPLE_DEAL_H

#include "bench/record/bench_statistics.h"

typedef struct sampling_rule {
    size_t samples;
    size_t least_passes; /* batches of each sample */
    size_t most_passes;
    double
        settled; /* so small a share that the median fell by since half of least_passes ago ends it */
    double patience_seconds; /* after so long one pass is enough */
    double maximum_seconds;  /* after so long not even that is waited for */
} sampling_rule;

extern const sampling_rule sampling_rule_full;
extern const sampling_rule sampling_rule_quick;

/* What is dealt to the samples of one implementation; zero-initialised. */
typedef struct sample_deal {
    sample_series batches;
    size_t next_check; /* passes; 0: not known yet */
    double last_median;
} sample_deal;

/* A batch of calls that took so long each, all together `seconds_spent`. 0, or -1 when memory is short. */
int sample_deal_add(sample_deal *deal, const sampling_rule *rule, double seconds_per_call,
                    double seconds_spent, sample_series *samples);

/* How many batches more there may be. */
size_t sample_deal_left(const sample_deal *deal, const sampling_rule *rule);

/* Whether the samples are complete; remembers their median for the next question. */
int sample_deal_done(sample_deal *deal, const sampling_rule *rule, const sample_series *samples);

/* How much longer than the samples batches took, median over median: 1 where nothing disturbed them. NaN without batches. */
double sample_deal_disturbed(const sample_deal *deal, const sample_series *samples);

void sample_deal_release(sample_deal *deal);

#endif
