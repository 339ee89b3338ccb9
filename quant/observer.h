/*
 * Observers calibrate quantization. They receive activations batch by batch, and return the range
 * to quantize at the end.
 *
 *     kind            result                                    memory per channel
 *     minmax          smallest and largest number               small
 *     moving-average  average of the batches' extremes          small
 *     percentile      extremes without the outermost tails      16 KiB (a histogram)
 *     mse             range of least squared error              16 KiB
 *     kl              range of least information loss           16 KiB
 *
 * NaN and infinities are counted, and otherwise ignored. Nothing is allocated. An observer is
 * stored in the caller's memory and needs no clean-up.
 *
 * Observers of parts of the data may be merged. minmax, percentile, mse and kl then give the bits
 * of one observer of all data, for any order and any split. A moving average depends on the order
 * of its batches. merge(a, b) gives the result of one observer of the batches of a, then those of
 * b, up to rounding in double precision. Other splits into batches or another order give another
 * average.
 *
 * The functions are not thread-safe. Use one observer per thread, and merge them.
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

/* The first function returns the name of a kind, or NULL for an invalid value. The second one
 * returns the kind of a name, or 0 for NULL or an unknown name. */
const char *tdm_quant_observer_kind_name(tdm_quant_observer_kind kind);
tdm_quant_observer_kind tdm_quant_observer_kind_from_name(const char *name);

/*
 * These are the options of an observer. Data has the shape (anything) x channels x inner,
 * row-major: element i belongs to channel (i / inner) % channels. With channels = 1 and inner = 1,
 * the tensor is one channel. With inner = 1, channels are the last dimension.
 */
typedef struct tdm_quant_observer_options {
    tdm_quant_observer_kind kind;
    int64_t channels; /* at least 1 */
    int64_t inner;    /* at least 1 */
    double percent;   /* percentile: in (0, 100]; 0 stands for 99.99 */
    double momentum;  /* moving average: weight of a new batch, in (0, 1]; 0 stands for 0.01 */
} tdm_quant_observer_options;

typedef struct tdm_quant_observer tdm_quant_observer;

/* Returns the bytes an observer needs; 0 for options that tdm_quant_observer_init refuses. */
size_t tdm_quant_observer_bytes(const tdm_quant_observer_options *options);

/*
 * Makes an empty observer in `memory`, which must outlive it. The memory has at least
 * tdm_quant_observer_bytes bytes and is aligned for any object. Returns TDM_BAD_ARGUMENT, and the
 * reason, for options out of their domain, or memory that is NULL or too short. reason may be NULL.
 */
tdm_status tdm_quant_observer_init(const tdm_quant_observer_options *options, void *memory,
                                   size_t bytes, tdm_quant_observer **observer,
                                   tdm_quant_reason *reason);

/* Copies an observer to other memory, with the requirements of tdm_quant_observer_init. */
tdm_status tdm_quant_observer_copy(const tdm_quant_observer *from, void *memory, size_t bytes,
                                   tdm_quant_observer **copy, tdm_quant_reason *reason);

/*
 * Observes one batch of f32, f16 or bf16 numbers, a multiple of channels * inner; a count of 0 does
 * nothing. Returns TDM_OK, TDM_BAD_DTYPE or TDM_BAD_SHAPE; reason may be NULL. One call is one
 * batch of a moving average; for the other kinds the split into batches does not matter.
 */
tdm_status tdm_quant_observe(tdm_quant_observer *observer, tdm_dtype dtype, const void *data,
                             int64_t count, tdm_quant_reason *reason);

/*
 * These observe one batch of f32, f16 or bf16 numbers in parts. A part has elements first to first
 * + count - 1; parts are in order. Call tdm_quant_observe_end after the last part, before any other
 * call on the observer. `inner` is at least 1 and replaces that of the options for this batch. The
 * result has the bits of one tdm_quant_observe of the whole batch.
 */
void tdm_quant_observe_part(tdm_quant_observer *observer, int64_t inner, int64_t first,
                            tdm_dtype dtype, const void *data, int64_t count);
void tdm_quant_observe_end(tdm_quant_observer *observer);

/* These are a device's counts for one channel of one batch. */
typedef struct tdm_quant_summary {
    uint64_t numbers;       /* finite numbers, zeros included */
    uint64_t zeros;         /* numbers that are in no bin; 0 if the kernel bins zeros */
    uint64_t nans;          /* left out */
    uint64_t infinities;    /* left out */
    tdm_quant_bounds seen;  /* bounds of the finite numbers; ignored if there are none */
    int exponent;           /* exponent of the bins, as in histogram.h; >= that of the bounds */
    const uint32_t *counts; /* TDM_QUANT_BINS; may be NULL for minmax and moving-average */
} tdm_quant_summary;

/*
 * Observes one channel from a summary made elsewhere. `numbers` must be zeros + the sum of the
 * bins. The bounds must be finite and in order, the exponent in its domain and large enough for the
 * bounds. Otherwise returns TDM_BAD_ARGUMENT and the reason, and changes nothing. reason may be
 * NULL.
 */
tdm_status tdm_quant_observe_summary(tdm_quant_observer *observer, int64_t channel,
                                     const tdm_quant_summary *summary, tdm_quant_reason *reason);

/*
 * Adds the data of `from`, another observer. Both must have equal kind, channels, percent and
 * momentum: otherwise returns TDM_BAD_ARGUMENT and changes nothing. `from` is not changed. reason
 * may be NULL.
 */
tdm_status tdm_quant_observer_merge(tdm_quant_observer *into, const tdm_quant_observer *from,
                                    tdm_quant_reason *reason);

/* These are counts over all channels. */
typedef struct tdm_quant_seen {
    uint64_t numbers; /* finite numbers */
    uint64_t nans;
    uint64_t infinities;
} tdm_quant_seen;

tdm_quant_seen tdm_quant_observer_seen(const tdm_quant_observer *observer);

/*
 * Returns the range that the observer proposes for a channel (in [0, channels)), for symmetric or
 * asymmetric quantization to a range of integers. It is {0, 0} without finite numbers. Only mse and
 * kl use both symmetry and range. percentile uses only symmetry.
 */
tdm_quant_bounds tdm_quant_observer_bounds(const tdm_quant_observer *observer, int64_t channel,
                                           tdm_quant_symmetry symmetry, tdm_quant_range range);

/* Returns the parameters that tdm_quant_derive makes of those bounds. */
tdm_quant_parameters tdm_quant_observer_parameters(const tdm_quant_observer *observer,
                                                   int64_t channel, tdm_quant_symmetry symmetry,
                                                   tdm_quant_range range);

#endif
