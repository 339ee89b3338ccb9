#include "quant/observer.h"

#include <inttypes.h>
#include <math.h>
#include <stddef.h>
#include <string.h>

#include "quant/float_chunks.h"
#include "quant/quant_reason.h"

/* This is the state of one channel. Without data the bounds are {inf, -inf}. */
typedef struct channel_state {
    uint64_t numbers, nans, infinities;
    tdm_quant_bounds seen;
    tdm_quant_bounds batch; /* bounds of the current batch */
    uint64_t batches;       /* batches that had a finite number */
    double average_low, average_high;
    double first_low, first_high; /* extremes of the first batch, which a merge needs */
} channel_state;

struct tdm_quant_observer {
    tdm_quant_observer_options options;
    tdm_quant_histogram *histograms; /* one per channel, or NULL */
    channel_state channels[];
};

static const tdm_quant_bounds nothing = {HUGE_VALF, -HUGE_VALF};

/* ---- kinds and options -------------------------------------------------------------------- */

static const struct {
    tdm_quant_observer_kind kind;
    const char *name;
} kinds[] = {
#define ROW(kind, value, text) {kind, text},
    TDM_QUANT_OBSERVER_LIST(ROW)
#undef ROW
};

enum {
    KIND_COUNT = sizeof kinds / sizeof kinds[0]
};

const char *tdm_quant_observer_kind_name(tdm_quant_observer_kind kind) {
    for (size_t i = 0; i < KIND_COUNT; i++) {
        if (kinds[i].kind == kind) {
            return kinds[i].name;
        }
    }
    return NULL;
}

tdm_quant_observer_kind tdm_quant_observer_kind_from_name(const char *name) {
    for (size_t i = 0; name && i < KIND_COUNT; i++) {
        if (strcmp(kinds[i].name, name) == 0) {
            return kinds[i].kind;
        }
    }
    return (tdm_quant_observer_kind)0;
}

static bool has_histogram(tdm_quant_observer_kind kind) {
    return kind != TDM_QUANT_OBSERVE_MINMAX && kind != TDM_QUANT_OBSERVE_MOVING_AVERAGE;
}

/* Computes the offset of the histograms and the total bytes; returns false if that overflows. */
static bool layout_of(const tdm_quant_observer_options *options, size_t *histograms,
                      size_t *bytes) {
    size_t states, bins;
    const size_t per_channel = has_histogram(options->kind) ? sizeof(tdm_quant_histogram) : 0;
    return !__builtin_mul_overflow(sizeof(channel_state), options->channels, &states) &&
           !__builtin_mul_overflow(per_channel, options->channels, &bins) &&
           !__builtin_add_overflow(sizeof(tdm_quant_observer), states, histograms) &&
           !__builtin_add_overflow(*histograms, bins, bytes);
}

static bool check_options(const tdm_quant_observer_options *options, tdm_quant_reason *reason) {
    size_t histograms, bytes;
    if (!tdm_quant_observer_kind_name(options->kind)) {
        tdm_quant_refuse(reason, "observer kind is %d, which is unknown", (int)options->kind);
    } else if (options->channels < 1 || options->inner < 1) {
        tdm_quant_refuse(reason,
                         "channels is %" PRId64 ", inner is %" PRId64 ", both must be at least 1",
                         options->channels, options->inner);
    } else if (!(options->percent >= 0 && options->percent <= 100)) {
        tdm_quant_refuse(reason, "percent is %g, must be in (0, 100]", options->percent);
    } else if (!(options->momentum >= 0 && options->momentum <= 1)) {
        tdm_quant_refuse(reason, "momentum is %g, must be in (0, 1]", options->momentum);
    } else if (!layout_of(options, &histograms, &bytes)) {
        tdm_quant_refuse(reason, "channels is %" PRId64 ", too many for the address space",
                         options->channels);
    } else {
        tdm_quant_accept(reason);
        return true;
    }
    return false;
}

size_t tdm_quant_observer_bytes(const tdm_quant_observer_options *options) {
    size_t histograms, bytes = 0;
    return check_options(options, NULL) && layout_of(options, &histograms, &bytes) ? bytes : 0;
}

tdm_status tdm_quant_observer_init(const tdm_quant_observer_options *options, void *memory,
                                   size_t bytes, tdm_quant_observer **observer,
                                   tdm_quant_reason *reason) {
    size_t histograms, needed;
    *observer = NULL;
    if (!check_options(options, reason) || !layout_of(options, &histograms, &needed)) {
        return TDM_BAD_ARGUMENT;
    }
    if (!memory || bytes < needed || (uintptr_t)memory % _Alignof(max_align_t) != 0) {
        tdm_quant_refuse(reason, "memory is %p with %zu bytes, %zu aligned bytes are needed",
                         memory, memory ? bytes : 0, needed);
        return TDM_BAD_ARGUMENT;
    }
    tdm_quant_observer *const made = memory;
    *made = (tdm_quant_observer){.options = *options};
    made->options.percent = options->percent > 0 ? options->percent : 99.99;
    made->options.momentum = options->momentum > 0 ? options->momentum : 0.01;
    if (has_histogram(options->kind)) {
        made->histograms = (tdm_quant_histogram *)((unsigned char *)memory + histograms);
    }
    for (int64_t c = 0; c < options->channels; c++) {
        made->channels[c] = (channel_state){.seen = nothing, .batch = nothing};
        if (made->histograms) {
            tdm_quant_histogram_clear(&made->histograms[c]);
        }
    }
    *observer = made;
    return TDM_OK;
}

tdm_status tdm_quant_observer_copy(const tdm_quant_observer *from, void *memory, size_t bytes,
                                   tdm_quant_observer **copy, tdm_quant_reason *reason) {
    const tdm_status status = tdm_quant_observer_init(&from->options, memory, bytes, copy, reason);
    for (int64_t c = 0; status == TDM_OK && c < from->options.channels; c++) {
        (*copy)->channels[c] = from->channels[c];
        if (from->histograms) {
            (*copy)->histograms[c] = from->histograms[c];
        }
    }
    return status;
}

/* ---- observing ---------------------------------------------------------------------------- */

static tdm_quant_bounds join(tdm_quant_bounds a, tdm_quant_bounds b) {
    return (tdm_quant_bounds){a.minimum < b.minimum ? a.minimum : b.minimum,
                              a.maximum > b.maximum ? a.maximum : b.maximum};
}

/* Keeps the finite numbers and counts the others. */
static size_t finite_only(channel_state *state, float *x, int64_t count) {
    size_t kept = 0;
    for (int64_t i = 0; i < count; i++) {
        if (isfinite(x[i])) {
            x[kept++] = x[i];
        } else if (isnan(x[i])) {
            state->nans++;
        } else {
            state->infinities++;
        }
    }
    state->numbers += kept;
    return kept;
}

static void observe_chunk(tdm_quant_observer *observer, int64_t channel, float *x, int64_t count) {
    channel_state *const state = &observer->channels[channel];
    const size_t kept = finite_only(state, x, count);
    for (size_t i = 0; i < kept; i++) {
        state->batch = join(state->batch, (tdm_quant_bounds){x[i], x[i]});
    }
    if (observer->histograms) {
        tdm_quant_histogram_add(&observer->histograms[channel], x, kept);
    }
}

/* Adds the bounds of the batch to those of the channel. */
static void end_batch(channel_state *state, double momentum) {
    if (state->batch.minimum > state->batch.maximum) {
        return;
    }
    const double low = (double)state->batch.minimum, high = (double)state->batch.maximum;
    if (state->batches == 0) {
        state->first_low = state->average_low = low;
        state->first_high = state->average_high = high;
    } else {
        state->average_low += (low - state->average_low) * momentum;
        state->average_high += (high - state->average_high) * momentum;
    }
    state->batches++;
    state->seen = join(state->seen, state->batch);
    state->batch = nothing;
}

static tdm_status check_batch(const tdm_quant_observer *observer, tdm_dtype dtype, int64_t count,
                              tdm_quant_reason *reason) {
    int64_t whole;
    if (!tdm_quant_is_float(dtype)) {
        tdm_quant_refuse(reason, "dtype is %d, observers support f32, f16 and bf16", (int)dtype);
        return TDM_BAD_DTYPE;
    }
    if (__builtin_mul_overflow(observer->options.channels, observer->options.inner, &whole)) {
        whole = INT64_MAX;
    }
    if (count < 0 || count % whole != 0) {
        tdm_quant_refuse(reason, "count is %" PRId64 ", not a multiple of %" PRId64, count, whole);
        return TDM_BAD_SHAPE;
    }
    tdm_quant_accept(reason);
    return TDM_OK;
}

/* Observes elements of one channel. */
static void observe_run(tdm_quant_observer *observer, int64_t channel, tdm_dtype dtype,
                        const void *data, int64_t first, int64_t count) {
    float x[TDM_QUANT_CHUNK];
    for (int64_t done = 0; done < count; done += TDM_QUANT_CHUNK) {
        const int64_t chunk = tdm_quant_chunk(count - done);
        tdm_quant_load(dtype, data, first + done, chunk, x);
        observe_chunk(observer, channel, x, chunk);
    }
}

void tdm_quant_observe_part(tdm_quant_observer *observer, int64_t inner, int64_t first,
                            tdm_dtype dtype, const void *data, int64_t count) {
    const int64_t channels = observer->options.channels;
    int64_t channel = first / inner % channels;
    int64_t run = channels == 1 ? count : inner - first % inner;
    for (int64_t done = 0; done < count; run = inner) {
        run = run < count - done ? run : count - done;
        observe_run(observer, channel, dtype, data, done, run);
        done += run;
        channel = channel + 1 < channels ? channel + 1 : 0;
    }
}

void tdm_quant_observe_end(tdm_quant_observer *observer) {
    for (int64_t c = 0; c < observer->options.channels; c++) {
        end_batch(&observer->channels[c], observer->options.momentum);
    }
}

tdm_status tdm_quant_observe(tdm_quant_observer *observer, tdm_dtype dtype, const void *data,
                             int64_t count, tdm_quant_reason *reason) {
    const tdm_status status = check_batch(observer, dtype, count, reason);
    if (status != TDM_OK) {
        return status;
    }
    tdm_quant_observe_part(observer, observer->options.inner, 0, dtype, data, count);
    tdm_quant_observe_end(observer);
    return TDM_OK;
}

/* ---- summaries made elsewhere ------------------------------------------------------------- */

static uint64_t sum_of(const uint32_t *counts) {
    uint64_t sum = 0;
    for (int i = 0; i < TDM_QUANT_BINS; i++) {
        sum += counts[i];
    }
    return sum;
}

static bool check_bins(const tdm_quant_summary *summary, tdm_quant_reason *reason) {
    const float amax = fmaxf(-summary->seen.minimum, summary->seen.maximum);
    const int least = tdm_quant_histogram_exponent(amax > 0 ? amax : 0.0f);
    if (!summary->counts) {
        tdm_quant_refuse(reason, "counts is NULL, this kind of observer needs a histogram");
    } else if (summary->exponent < least || summary->exponent > TDM_QUANT_EXPONENT_MAX) {
        tdm_quant_refuse(reason, "exponent is %d, these bounds need one from %d to %d",
                         summary->exponent, least, (int)TDM_QUANT_EXPONENT_MAX);
    } else if (summary->zeros > summary->numbers ||
               sum_of(summary->counts) != summary->numbers - summary->zeros) {
        tdm_quant_refuse(reason,
                         "numbers is %" PRIu64 ", but zeros is %" PRIu64
                         " and the bins contain %" PRIu64 "",
                         summary->numbers, summary->zeros, sum_of(summary->counts));
    } else {
        return true;
    }
    return false;
}

static bool check_summary(const tdm_quant_observer *observer, int64_t channel,
                          const tdm_quant_summary *summary, tdm_quant_reason *reason) {
    tdm_quant_accept(reason);
    if (channel < 0 || channel >= observer->options.channels) {
        tdm_quant_refuse(reason, "channel is %" PRId64 " of %" PRId64, channel,
                         observer->options.channels);
        return false;
    }
    if (summary->numbers == 0) {
        return true;
    }
    const tdm_quant_bounds seen = summary->seen;
    if (!isfinite(seen.minimum) || !isfinite(seen.maximum) || seen.minimum > seen.maximum) {
        tdm_quant_refuse(reason, "bounds are %g and %g, must be finite and in ascending order",
                         (double)seen.minimum, (double)seen.maximum);
        return false;
    }
    return !observer->histograms || check_bins(summary, reason);
}

static void add_bins(tdm_quant_histogram *histogram, const tdm_quant_summary *summary) {
    tdm_quant_histogram part = {.exponent = summary->exponent, .zeros = summary->zeros};
    for (int i = 0; i < TDM_QUANT_BINS; i++) {
        part.counts[i] = summary->counts[i];
    }
    tdm_quant_histogram_merge(histogram, &part);
}

tdm_status tdm_quant_observe_summary(tdm_quant_observer *observer, int64_t channel,
                                     const tdm_quant_summary *summary, tdm_quant_reason *reason) {
    if (!check_summary(observer, channel, summary, reason)) {
        return TDM_BAD_ARGUMENT;
    }
    channel_state *const state = &observer->channels[channel];
    state->nans += summary->nans;
    state->infinities += summary->infinities;
    if (summary->numbers > 0) {
        state->numbers += summary->numbers;
        state->batch = summary->seen;
        end_batch(state, observer->options.momentum);
        if (observer->histograms) {
            add_bins(&observer->histograms[channel], summary);
        }
    }
    return TDM_OK;
}

/* ---- merging ------------------------------------------------------------------------------ */

/* Merges as if the batches of `from` had come after those of `into`. `from` gave its first batch
 * the weight of all earlier ones. That weight goes to the average of `into` instead. */
static void merge_averages(channel_state *into, const channel_state *from, double momentum) {
    if (from->batches == 0) {
        return;
    }
    if (into->batches == 0) {
        into->first_low = from->first_low;
        into->first_high = from->first_high;
        into->average_low = from->average_low;
        into->average_high = from->average_high;
    } else {
        const double weight = pow(1 - momentum, (double)from->batches);
        into->average_low = from->average_low + weight * (into->average_low - from->first_low);
        into->average_high = from->average_high + weight * (into->average_high - from->first_high);
    }
    into->batches += from->batches;
}

tdm_status tdm_quant_observer_merge(tdm_quant_observer *into, const tdm_quant_observer *from,
                                    tdm_quant_reason *reason) {
    const tdm_quant_observer_options *const a = &into->options;
    const tdm_quant_observer_options *const b = &from->options;
    if (into == from || a->kind != b->kind || a->channels != b->channels ||
        a->percent != b->percent || a->momentum != b->momentum) {
        tdm_quant_refuse(
            reason, "the observers differ: %s, %" PRId64 " channels, and %s, %" PRId64 " channels",
            tdm_quant_observer_kind_name(a->kind), a->channels,
            tdm_quant_observer_kind_name(b->kind), b->channels);
        return TDM_BAD_ARGUMENT;
    }
    for (int64_t c = 0; c < a->channels; c++) {
        channel_state *const state = &into->channels[c];
        const channel_state *const other = &from->channels[c];
        merge_averages(state, other, a->momentum);
        state->numbers += other->numbers;
        state->nans += other->nans;
        state->infinities += other->infinities;
        state->seen = join(state->seen, other->seen);
        if (into->histograms) {
            tdm_quant_histogram_merge(&into->histograms[c], &from->histograms[c]);
        }
    }
    tdm_quant_accept(reason);
    return TDM_OK;
}

/* ---- results ------------------------------------------------------------------------------ */

tdm_quant_seen tdm_quant_observer_seen(const tdm_quant_observer *observer) {
    tdm_quant_seen seen = {0};
    for (int64_t c = 0; c < observer->options.channels; c++) {
        seen.numbers += observer->channels[c].numbers;
        seen.nans += observer->channels[c].nans;
        seen.infinities += observer->channels[c].infinities;
    }
    return seen;
}

tdm_quant_bounds tdm_quant_observer_bounds(const tdm_quant_observer *observer, int64_t channel,
                                           tdm_quant_symmetry symmetry, tdm_quant_range range) {
    const channel_state *const state = &observer->channels[channel];
    const tdm_quant_histogram *const histogram =
        observer->histograms ? &observer->histograms[channel] : NULL;
    if (state->numbers == 0) {
        return (tdm_quant_bounds){0.0f, 0.0f};
    }
    switch (observer->options.kind) {
    case TDM_QUANT_OBSERVE_MOVING_AVERAGE:
        return (tdm_quant_bounds){(float)state->average_low, (float)state->average_high};
    case TDM_QUANT_OBSERVE_PERCENTILE:
        return tdm_quant_bounds_percentile(histogram, state->seen, symmetry,
                                           observer->options.percent);
    case TDM_QUANT_OBSERVE_MSE:
        return tdm_quant_bounds_mse(histogram, state->seen, symmetry, range);
    case TDM_QUANT_OBSERVE_KL:
        return tdm_quant_bounds_kl(histogram, state->seen, symmetry, range);
    default:
        return state->seen;
    }
}

tdm_quant_parameters tdm_quant_observer_parameters(const tdm_quant_observer *observer,
                                                   int64_t channel, tdm_quant_symmetry symmetry,
                                                   tdm_quant_range range) {
    return tdm_quant_derive(symmetry, tdm_quant_observer_bounds(observer, channel, symmetry, range),
                            range);
}
