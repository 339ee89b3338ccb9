/*
 * Calibration: observers see activations batch by batch and say at the end which range to quantize.
 *
 *     kind            result                                    memory per channel
 *     minmax          least and greatest number                 small
 *     moving-average  average of the batches' extremes          small
 *     percentile      extremes without the outermost tails      16 KiB (a histogram)
 *     mse             range of least squared error              16 KiB
 *     kl              range of least information loss           16 KiB
 *
 * NaN and infinities are counted and left out. Nothing is allocated: an observer lives in memory of
 * the caller, which it does not own, and needs no clean-up.
 *
 * Observers of parts of the data may be merged. minmax, percentile, mse and kl then give the same
 * bits as one observer that saw everything, in any order and any split. A moving average is by
 * definition one of batches in order: merge(a, b) is what one observer gives that saw the batches of
 * a, then those of b, up to rounding in double precision; other splits into batches or another order
 * give another average.
 *
 * Not thread-safe: one observer per thread, then merge.
 */
#ifndef TANDEM_QUANT_OBSERVER_H
#define TANDEM_QUANT_OBSERVER_H

#include "quant/histogram.h"

/* kind, value (pinned), name */
#define TDM_QUANT_OBSERVER_LIST(X)                                                                 \
    X(TDM_QUANT_OBSERVE_MINMAX, 1, "minmax")                                                       \
    X(TDM_QUANT_OBSERVE_MOVING_AVERAGE, 2, "moving-average")                                       \
    X(TDM_QUANT_OBSERVE_PERCENTILE, 3, "percentile")                                               \
    X(TDM_QUANT_OBSERVE_MSE, 4, "mse")                                                             \
    X(TDM_QUANT_OBSERVE_KL, 5, "kl")

typedef enum tdm_quant_observer_kind {
#define TDM_QUANT_OBSERVER_ENUM(kind, value, text) kind = value,
    TDM_QUANT_OBSERVER_LIST(TDM_QUANT_OBSERVER_ENUM)
#undef TDM_QUANT_OBSERVER_ENUM
} tdm_quant_observer_kind;

/* Name of a kind, NULL for a value that is none; kind of a name, 0 for NULL or an unknown one. */
const char *tdm_quant_observer_kind_name(tdm_quant_observer_kind kind);
tdm_quant_observer_kind tdm_quant_observer_kind_from_name(const char *name);

/*
 * What to observe. Data is (anything) x channels x inner, row-major: element i belongs to channel
 * (i / inner) % channels. channels = 1, inner = 1: per tensor. inner = 1: the last dimension.
 */
typedef struct tdm_quant_observer_options {
    tdm_quant_observer_kind kind;
    int64_t channels; /* at least 1 */
    int64_t inner;    /* at least 1 */
    double percent;   /* percentile: in (0, 100]; 0 stands for 99.99 */
    double momentum;  /* moving average: weight of a new batch, in (0, 1]; 0 stands for 0.01 */
} tdm_quant_observer_options;

typedef struct tdm_quant_observer tdm_quant_observer;

/* Bytes an observer needs; 0 for options that tdm_quant_observer_init refuses. */
size_t tdm_quant_observer_bytes(const tdm_quant_observer_options *options);

/*
 * Make an empty observer in `memory`, at least tdm_quant_observer_bytes long and aligned for any
 * object, which must outlive it. TDM_BAD_ARGUMENT, and the reason, for options out of their domain,
 * or memory that is NULL or too short. reason may be NULL.
 */
tdm_status tdm_quant_observer_init(const tdm_quant_observer_options *options, void *memory,
                                   size_t bytes, tdm_quant_observer **observer,
                                   tdm_quant_reason *reason);

/* The same observer in other memory, as for tdm_quant_observer_init with its options. */
tdm_status tdm_quant_observer_copy(const tdm_quant_observer *from, void *memory, size_t bytes,
                                   tdm_quant_observer **copy, tdm_quant_reason *reason);

/*
 * Look at one batch of f32, f16 or bf16 numbers, a multiple of channels * inner; 0 is legal and does
 * nothing. TDM_BAD_DTYPE, TDM_BAD_SHAPE; reason may be NULL. One call is one batch of a moving
 * average; the other kinds do not mind how the data is cut.
 */
tdm_status tdm_quant_observe(tdm_quant_observer *observer, tdm_dtype dtype, const void *data,
                             int64_t count, tdm_quant_reason *reason);

/*
 * The same in parts: elements first to first + count - 1 of one batch of f32, f16 or bf16 numbers, in
 * order from its first element to its last, and _end after the last part, before anything else is
 * asked of the observer. `inner`, at least 1, is this batch's, whatever the options say. The bits are
 * those of one tdm_quant_observe of the whole.
 */
void tdm_quant_observe_part(tdm_quant_observer *observer, int64_t inner, int64_t first,
                            tdm_dtype dtype, const void *data, int64_t count);
void tdm_quant_observe_end(tdm_quant_observer *observer);

/* What a device has counted of one channel of one batch. */
typedef struct tdm_quant_summary {
    uint64_t numbers;       /* finite numbers, zeros included */
    uint64_t zeros;         /* of those, zeros that are in no bin; 0 where the kernel bins them */
    uint64_t nans;          /* left out */
    uint64_t infinities;    /* left out */
    tdm_quant_bounds seen;  /* of the finite numbers; not looked at when there are none */
    int exponent;           /* of the bins, as in histogram.h; >= that of the bounds */
    const uint32_t *counts; /* TDM_QUANT_BINS; may be NULL for minmax and moving-average */
} tdm_quant_summary;

/*
 * The same as tdm_quant_observe for one channel, from a summary made elsewhere: `numbers` must be
 * zeros + the sum of the bins, the bounds finite and in order, the exponent large enough for them
 * and in its domain. TDM_BAD_ARGUMENT and the reason otherwise, and nothing has changed. reason may
 * be NULL.
 */
tdm_status tdm_quant_observe_summary(tdm_quant_observer *observer, int64_t channel,
                                     const tdm_quant_summary *summary, tdm_quant_reason *reason);

/*
 * Add what `from`, another observer, has seen. Both must have the same kind, channels, percent and
 * momentum: TDM_BAD_ARGUMENT otherwise, and nothing has changed. `from` stays as it is. reason may be
 * NULL.
 */
tdm_status tdm_quant_observer_merge(tdm_quant_observer *into, const tdm_quant_observer *from,
                                    tdm_quant_reason *reason);

/* Counts over all channels. */
typedef struct tdm_quant_seen {
    uint64_t numbers; /* finite */
    uint64_t nans;
    uint64_t infinities;
} tdm_quant_seen;

tdm_quant_seen tdm_quant_observer_seen(const tdm_quant_observer *observer);

/*
 * The range that the observer proposes for a channel (in [0, channels)), for numbers that are
 * quantized symmetrically or not, to a range of integers; {0, 0} where nothing finite was seen. Only
 * mse and kl look at symmetry and range, percentile at symmetry.
 */
tdm_quant_bounds tdm_quant_observer_bounds(const tdm_quant_observer *observer, int64_t channel,
                                           tdm_quant_symmetry symmetry, tdm_quant_range range);

/* tdm_quant_derive of those bounds. */
tdm_quant_parameters tdm_quant_observer_parameters(const tdm_quant_observer *observer,
                                                   int64_t channel, tdm_quant_symmetry symmetry,
                                                   tdm_quant_range range);

#endif
