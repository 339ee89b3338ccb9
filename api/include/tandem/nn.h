/*
 * Operations of neural networks: normalization of rows, rotary position embedding, attention.
 *
 * The common rules and statuses of tandem/ops.h hold here too: operations enqueue and return, all
 * tensors are on the stream's device, inputs have any strides, and elements of an output do not
 * overlap each other.
 */
#ifndef TANDEM_NN_H
#define TANDEM_NN_H

#include <tandem/tensor.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum tdm_norm_kind {
    TDM_NORM_RMS = 1,  /* root mean square: the mean is not subtracted */
    TDM_NORM_LAYER = 2 /* layer normalization: mean 0 and variance 1 */
} tdm_norm_kind;

/* Optional operands of a normalization. Start from TDM_NORM_OPERANDS_INIT. */
typedef struct tdm_norm_operands {
    size_t struct_size;         /* sizeof(tdm_norm_operands) */
    const tdm_tensor *scale;    /* one factor per element of a row; NULL: 1 */
    const tdm_tensor *bias;     /* one summand per element of a row; NULL: 0 */
    const tdm_tensor *residual; /* added to x first; shape and dtype of x; NULL: 0 */
    tdm_tensor *sum;            /* receives x + residual; shape and dtype of x; NULL: not stored */
} tdm_norm_operands;

#ifdef __cplusplus
static inline tdm_norm_operands tdm_norm_operands_init(void) {
    tdm_norm_operands operands = tdm_norm_operands();
    operands.struct_size = sizeof operands;
    return operands;
}
#define TDM_NORM_OPERANDS_INIT tdm_norm_operands_init()
#else
#define TDM_NORM_OPERANDS_INIT                                                                     \
    { .struct_size = sizeof(tdm_norm_operands) }
#endif

/*
 * Normalize each row, which is the last dimension of x, of D elements:
 *
 *     h = x + residual
 *     RMS:    y = h / sqrt(mean of h² + epsilon) · scale + bias
 *     layer:  y = (h − m) / sqrt(mean of (h − m)² + epsilon) · scale + bias,  m = mean of h
 *
 * (Zhang and Sennrich 2019; Ba, Kiros and Hinton 2016.) `operands` may be NULL: no scale, bias,
 * residual or sum. All is computed in f32. sum and y are rounded once; y does not depend on the
 * rounding of sum. A row with a NaN or an infinity, and a row of zeros with epsilon 0, gives NaN in
 * at least one element. The squares must not exceed the range of f32: |h| below 10^19 / sqrt(D).
 *
 * Dtypes: x, residual, sum and y are all f32, f16 or bf16; scale and bias are each f32, f16 or
 * bf16, of rank 1 with D elements. y and sum may each be the very same view as x or residual; they
 * may not overlap each other, scale or bias. Statuses: as tandem/ops.h; TDM_BAD_ARGUMENT also for
 * an epsilon that is negative or not finite. Thread-safe. Since 0.2.
 */
TDM_API tdm_status tdm_norm(tdm_stream *stream, tdm_norm_kind kind, const tdm_tensor *x,
                            float epsilon, const tdm_norm_operands *operands, tdm_tensor *y);

/* How the frequencies of a rotary embedding are changed for contexts longer than those of training.
 * Formulas are at tdm_rope_frequencies. */
typedef enum tdm_rope_scaling {
    TDM_ROPE_SCALING_NONE = 0,
    TDM_ROPE_SCALING_LINEAR = 1, /* position interpolation */
    TDM_ROPE_SCALING_LLAMA3 = 2, /* Llama 3.1 */
    TDM_ROPE_SCALING_YARN = 3    /* YaRN */
} tdm_rope_scaling;

/* Parameters of the frequencies. Start from TDM_ROPE_DESC_INIT. */
typedef struct tdm_rope_desc {
    size_t struct_size; /* sizeof(tdm_rope_desc) */
    tdm_rope_scaling scaling;
    double base;             /* above 1; often 10000 or 500000 */
    double factor;           /* of all scalings: how much longer contexts may be, ≥ 1 */
    double original_context; /* llama3, yarn: positions of the contexts of training */
    double low_frequency;    /* llama3: turns within the original context, often 1 … */
    double high_frequency;   /* … and 4 */
    double beta_fast;        /* yarn: turns within the original context, often 32 … */
    double beta_slow;        /* … and 1 */
    double magnitude;        /* factor of all results; 0: 1, with yarn 1 + ln(factor) / 10 */
    /* Divisors of the frequencies, one for each pair, or NULL: rope_freqs of Llama 3 in GGUF, and
     * LongRoPE. Read during the call. */
    const float *divisors;
} tdm_rope_desc;

#ifdef __cplusplus
static inline tdm_rope_desc tdm_rope_desc_init(void) {
    tdm_rope_desc desc = tdm_rope_desc();
    desc.struct_size = sizeof desc;
    desc.base = 10000;
    desc.factor = desc.low_frequency = desc.beta_slow = 1;
    desc.high_frequency = 4;
    desc.beta_fast = 32;
    return desc;
}
#define TDM_ROPE_DESC_INIT tdm_rope_desc_init()
#else
#define TDM_ROPE_DESC_INIT                                                                         \
    {                                                                                              \
        .struct_size = sizeof(tdm_rope_desc), .base = 10000, .factor = 1, .low_frequency = 1,      \
        .high_frequency = 4, .beta_fast = 32, .beta_slow = 1                                       \
    }
#endif

/*
 * Compute the frequencies of a rotary embedding of P pairs: `frequencies` is a contiguous f32
 * tensor of shape [3][P]. Before scaling, pair i turns by θ = base^(−i / P) / divisor radians per
 * position (Su et al. 2021). Then:
 *
 *     linear   θ / factor
 *     llama3   with t = original_context · θ / 2π, the turns within the original context:
 *              θ if t > high_frequency; θ / factor if t < low_frequency; between them
 *              (1 − s) · θ / factor + s · θ,  s = (t − low_frequency) / (high − low_frequency)
 *     yarn     (1 − r) · θ + r · θ / factor,  r = (i − first) / (last − first) within [0, 1], where
 *              first = floor(pair(beta_fast)) and last = ceil(pair(beta_slow)), within [0, 2P − 1],
 *              and pair(t) = P · ln(original_context / 2πt) / ln(base)  (Peng et al. 2023)
 *
 * The rows of the tensor are: turns (θ / 2π) rounded to f32, what that rounding left out, and the
 * magnitude. Blocking. Statuses: TDM_BAD_ARGUMENT (NULL, a parameter outside its range),
 * TDM_BAD_SHAPE, TDM_BAD_DTYPE, TDM_UNSUPPORTED (not contiguous), TDM_BAD_STATE (recording),
 * memory, the stream's failure. Thread-safe. Since 0.2.
 */
TDM_API tdm_status tdm_rope_frequencies(tdm_stream *stream, const tdm_rope_desc *desc,
                                        tdm_tensor *frequencies);

/* Which elements of a row are pair i of P. */
typedef enum tdm_rope_pairs {
    TDM_ROPE_INTERLEAVED = 1, /* 2i and 2i + 1: Llama in GGUF files, GPT-J */
    TDM_ROPE_HALVES = 2       /* i and i + P: GPT-NeoX, Qwen, Llama in safetensors files */
} tdm_rope_pairs;

/*
 * Rotary position embedding: y is x with every pair (a, b) of a row, which is the last dimension,
 * turned by its angle:
 *
 *     a' = (a · cos(position · θ) − b · sin(position · θ)) · magnitude
 *     b' = (b · cos(position · θ) + a · sin(position · θ)) · magnitude
 *
 * frequencies is a tensor [3][P] as tdm_rope_frequencies makes it, contiguous. Elements from 2P on
 * are copied. positions is s32, broadcast to the shape of x without its last dimension: [tokens][1]
 * for an x of [tokens][heads][width], [tokens] for [heads][tokens][width]. Positions are within
 * ±2^24. x and y are both f32, f16 or bf16, of one shape, and any strides; y may be the very same
 * view as x. All is computed in f32; y is rounded once. Statuses: as tandem/ops.h. Thread-safe.
 * Since 0.2.
 */
TDM_API tdm_status tdm_rope(tdm_stream *stream, tdm_rope_pairs pairs, const tdm_tensor *x,
                            const tdm_tensor *positions, const tdm_tensor *frequencies,
                            tdm_tensor *y);

/* Options of attention. Start from TDM_ATTENTION_OPTIONS_INIT. */
typedef struct tdm_attention_options {
    size_t struct_size; /* sizeof(tdm_attention_options) */
    /* Added to the scores: f32, f16 or bf16, broadcast to [batch][heads][queries][keys]. NULL: 0 */
    const tdm_tensor *mask;
    /* s32 [batch]: the keys that each sequence has, within 0 … keys. NULL: all of k */
    const tdm_tensor *lengths;
    /* s32 [batch][pages of a sequence]: k and v are paged. NULL: they are not */
    const tdm_tensor *block_table;
    double scale;        /* factor of q·k; 0: 1 / sqrt(width of q) */
    double soft_cap;     /* s becomes soft_cap · tanh(s / soft_cap); 0: it stays */
    int causal;          /* 1: a query sees no key behind its own position */
    int64_t window;      /* a query sees keys at a distance below this; 0: any */
    int64_t first_query; /* position of the first query; -1: the last query is at the last key */
} tdm_attention_options;

#ifdef __cplusplus
static inline tdm_attention_options tdm_attention_options_init(void) {
    tdm_attention_options options = tdm_attention_options();
    options.struct_size = sizeof options;
    options.first_query = -1;
    return options;
}
#define TDM_ATTENTION_OPTIONS_INIT tdm_attention_options_init()
#else
#define TDM_ATTENTION_OPTIONS_INIT                                                                 \
    { .struct_size = sizeof(tdm_attention_options), .first_query = -1 }
#endif

/*
 * Scaled dot-product attention. For each sequence b, head h and query i:
 *
 *     s[j] = cap(scale · Σ over d  q[b][h][i][d] · k[b][h / G][j][d]) + mask[b][h][i][j]
 *     y[b][h][i][d] = Σ over j  softmax(s)[j] · v[b][h / G][j][d],   j the keys that query i sees
 *
 * q is [batch][heads][queries][width], k is [batch][KV heads][keys][width], v is [batch][KV
 * heads][keys][v_width] and y is [batch][heads][queries][v_width]. heads = G · KV heads: G heads
 * share a head of k and v (grouped-query attention; multi-query if there is one KV head).
 * `options` may be NULL. A sequence of length L has its first query at position first_query, or
 * L − queries. A query at position p sees the keys j < L, with `causal` also j ≤ p, with `window`
 * also |p − j| < window. A query that sees no key, or only keys with a mask of -infinity, gives 0.
 *
 * With a block table, k and v are [pages][KV heads][keys of a page][…], and key j of sequence b is
 * key j % page of page block_table[b][j / page]. Entries beyond the length are not read. An entry
 * outside of the pages gives NaN.
 *
 * q and y are both f32, f16 or bf16; k and v are each f32, f16, bf16, or s8 with scales (quant.h)
 * and without zero points: one scale for a row of the last dimension, or for groups of it. q8_0 has
 * groups of 32. Any strides. y must not overlap an input. All is computed in f32, and y is rounded
 * once. |s| must stay below 10^37; v must be finite where some query of a head sees it.
 *
 * The softmax is computed block by block (Milakov and Gimelshein 2018; Dao et al. 2022): no tensor
 * of queries × keys exists. Few queries of many keys are computed in parts, whose results take
 * (v_width + 2) f32 for each row and part. A recorded call keeps that memory until its graph is
 * destroyed. Statuses: as tandem/ops.h; TDM_BAD_ARGUMENT also for a number outside its range.
 * Thread-safe. Since 0.2.
 */
TDM_API tdm_status tdm_attention(tdm_stream *stream, const tdm_tensor *q, const tdm_tensor *k,
                                 const tdm_tensor *v, const tdm_attention_options *options,
                                 tdm_tensor *y);

#ifdef __cplusplus
}
#endif

#endif
