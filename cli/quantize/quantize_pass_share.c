#include <float.h>
#include <math.h>
#include <string.h>

#include "cli/quantize/quantize_lost.h"
#include "cli/quantize/quantize_pass_state.h"
#include "quant/number_formats.h"
#include "quant/quant_blocks.h"
#include "quant/quant_reference.h"

void quantize_pass_cut(pass_state *state, const tile *t, int by_columns, int64_t unit) {
    const int64_t total = by_columns ? t->columns : t->rows;
    const int64_t units = (total + unit - 1) / unit;
    int64_t at = 0;
    for (int i = 0; i < PARALLEL_SHARES; i++) {
        const int64_t begin = least(units * i / PARALLEL_SHARES * unit, total);
        const int64_t end = least(units * (i + 1) / PARALLEL_SHARES * unit, total);
        tile of = *t;
        if (by_columns) {
            of.column += begin;
            of.columns = end - begin;
        } else {
            of.row += begin;
            of.rows = end - begin;
        }
        state->shares[i] = (share){.of = of, .at = at, .nonfinite = -1, .unscaled = -1};
        at += of.rows * of.columns;
    }
}

size_t quantize_pass_bytes(const pass_state *state, int64_t elements) {
    const quantize_scheme *const scheme = state->pass->scheme;
    const quantize_tensor shape = {.storage = scheme->storage, .dtype = SAFETENSORS_F32};
    if (scheme->kind == QUANTIZE_CODES)
        return quantize_code_bytes(state->pass->spec.dtype, elements);
    if (scheme->kind == QUANTIZE_BLOCKS)
        return quantize_storage_bytes(&shape, elements);
    return (size_t)elements * (scheme->dtype == TDM_F32 ? 4 : 2);
}

tdm_quant_spec quantize_pass_spec(const pass_state *state, const share *part) {
    tdm_quant_spec spec = state->spec;
    spec.shape[0] = part->of.rows;
    spec.shape[1] = part->of.columns;
    return spec;
}

int64_t quantize_pass_first_scale(const pass_state *state, const tile *t) {
    const tdm_quant_spec *const spec = &state->spec;
    int64_t shape[TDM_QUANT_MAX_RANK];
    tdm_quant_scale_shape(spec, shape);
    const int64_t row = spec->blocks[0] == 0 ? 0 : t->row / spec->blocks[0];
    const int64_t column = spec->blocks[1] == 0 ? 0 : t->column / spec->blocks[1];
    return row * shape[1] + column;
}

/* Numbers of F64 are measured, and made other floats, as they are; codes and blocks are made of them in f32. */
static int is_wide(const pass_state *state) {
    const quantize_tensor *const tensor = state->pass->tensor;
    return tensor->storage == QUANTIZE_PLAIN && tensor->dtype == SAFETENSORS_F64;
}

/* Number i of a share of F64. */
static double wide_at(const pass_state *state, const share *part, int64_t i) {
    return tdm_number_get(TDM_F64, state->pass->tensor->data, (size_t)element_of(state, part, i));
}

/* As one that is not finite is what f32 has no room for, where it has to. */
static int64_t find_wide_nonfinite(const pass_state *state, const share *part) {
    const int in_f32 = state->pass->scheme->kind != QUANTIZE_FLOATS;
    for (int64_t i = 0; i < share_count(part); i++) {
        const double x = wide_at(state, part, i);
        if (!isfinite(x) || (in_f32 && isinf((float)x)))
            return i;
    }
    return -1;
}

static int64_t find_nonfinite(const float *values, int64_t count) {
    for (int64_t i = 0; i < count; i++)
        if (!isfinite(values[i]))
            return i;
    return -1;
}

int quantize_pass_load(pass_state *state, share *part) {
    const tile *const of = &part->of;
    float *const before = state->before + part->at;
    const int64_t rows = of->columns == state->columns ? 1 : of->rows;
    const int64_t columns = share_count(part) / rows;
    for (int64_t i = 0; i < rows; i++)
        quantize_read_floats(state->pass->tensor, element_of(state, part, i * of->columns), columns,
                             before + i * columns);
    const int64_t found = is_wide(state) ? find_wide_nonfinite(state, part)
                                         : find_nonfinite(before, share_count(part));
    if (found < 0)
        return 0;
    part->nonfinite = element_of(state, part, found);
    part->found = is_wide(state) ? wide_at(state, part, found) : (double)before[found];
    return -1;
}

/* Rounded once, and limited to the largest number where that is beyond it. */
static void make_narrow(pass_state *state, share *part) {
    const tdm_dtype dtype = state->pass->scheme->dtype;
    const size_t bytes = dtype == TDM_F32 ? 4 : 2;
    const float most = dtype == TDM_F32   ? FLT_MAX
                       : dtype == TDM_F16 ? 65504.0f
                                          : tdm_f32_from_bf16(0x7f7f);
    for (int64_t i = 0; i < share_count(part); i++) {
        unsigned char *const to = state->bytes + (size_t)(part->at + i) * bytes;
        const double x = wide_at(state, part, i);
        tdm_number_set(dtype, to, 0, x);
        float y = (float)tdm_number_get(dtype, to, 0);
        if (isinf(y)) {
            y = copysignf(most, y);
            tdm_number_set(dtype, to, 0, (double)y);
            part->outcome.saturated++;
        }
        state->after[part->at + i] = y;
        part->outcome.zeroed += x != 0 && y == 0;
    }
}

static void make_floats(pass_state *state, share *part) {
    if (is_wide(state)) {
        make_narrow(state, part);
        return;
    }
    const tdm_dtype dtype = state->pass->scheme->dtype;
    const int64_t at = part->at, count = share_count(part);
    const float *const before = state->before + at;
    float *const after = state->after + at;
    if (dtype == TDM_F32) {
        memcpy(state->bytes + 4 * at, before, (size_t)count * sizeof *before);
        memcpy(after, before, (size_t)count * sizeof *before);
        return;
    }
    for (int64_t i = 0; i < count; i++) {
        const uint16_t bits = tdm_quant_narrow(dtype, before[i], true);
        after[i] = dtype == TDM_F16 ? tdm_f32_from_f16(bits) : tdm_f32_from_bf16(bits);
        part->outcome.saturated += tdm_quant_narrow(dtype, before[i], false) != bits;
        part->outcome.zeroed += before[i] != 0 && after[i] == 0;
        memcpy(state->bytes + 2 * (at + i), &bits, sizeof bits);
    }
}

static void make_blocks(pass_state *state, share *part) {
    const int64_t at = part->at, count = share_count(part);
    const size_t blocks = (size_t)count / TDM_QUANT_BLOCK_ELEMENTS;
    void *const encoded = state->bytes + quantize_pass_bytes(state, at);
    const int q8_0 = state->pass->scheme->storage == QUANTIZE_Q8_0;
    const size_t done = q8_0 ? tdm_quant_q8_0_encode(state->before + at, blocks, encoded)
                             : tdm_quant_q4_0_encode(state->before + at, blocks, encoded);
    if (done < blocks) {
        part->unscaled = element_of(state, part, (int64_t)done * TDM_QUANT_BLOCK_ELEMENTS);
        return;
    }
    quantize_lost_in_blocks(state->before + at, encoded,
                            q8_0 ? TDM_QUANT_Q8_0_BYTES : TDM_QUANT_Q4_0_BYTES, blocks,
                            &part->outcome);
    if (q8_0)
        tdm_quant_q8_0_decode(encoded, blocks, state->after + at);
    else
        tdm_quant_q4_0_decode(encoded, blocks, state->after + at);
}

static void make_codes(pass_state *state, share *part) {
    const tdm_quant_spec spec = quantize_pass_spec(state, part);
    const float *const before = state->before + part->at;
    void *const codes = state->bytes + quantize_pass_bytes(state, part->at);
    const int64_t scale =
        state->scales_before ? quantize_pass_first_scale(state, &part->of) : part->at;
    float *const scales = state->scales + scale;
    int32_t *const zero_points = state->zero_points ? state->zero_points + scale : NULL;
    if (!state->scales_before)
        tdm_quant_dynamic_tensor(&spec, state->symmetry, TDM_F32, before, scales, zero_points,
                                 NULL);
    tdm_quant_quantize_tensor(&spec, TDM_F32, before, scales, zero_points, codes);
    tdm_quant_dequantize_tensor(&spec, codes, scales, zero_points, TDM_F32,
                                state->after + part->at);
    quantize_lost_in_codes(&spec, scales, before, state->after + part->at, &part->outcome);
}

static void measure(const pass_state *state, share *part) {
    enum {
        PIECE = 256
    };
    const float *const after = state->after + part->at;
    double source[PIECE];
    if (!is_wide(state)) {
        tdm_quant_error_add(&part->outcome.errors, state->before + part->at, after,
                            (size_t)share_count(part));
        return;
    }
    for (int64_t i = 0; i < share_count(part); i += PIECE) {
        const int64_t count = least(PIECE, share_count(part) - i);
        for (int64_t j = 0; j < count; j++)
            source[j] = wide_at(state, part, i + j);
        tdm_quant_error_add_f64(&part->outcome.errors, source, after + i, (size_t)count);
    }
}

void quantize_pass_make_share(void *context, int index) {
    pass_state *const state = context;
    share *const part = &state->shares[index];
    if (share_count(part) == 0 || quantize_pass_load(state, part) != 0)
        return;
    switch (state->pass->scheme->kind) {
    case QUANTIZE_FLOATS:
        make_floats(state, part);
        break;
    case QUANTIZE_BLOCKS:
        make_blocks(state, part);
        break;
    default:
        make_codes(state, part);
    }
    if (part->unscaled < 0)
        measure(state, part);
}

int quantize_pass_check(const pass_state *state, file_error *error) {
    const file_name name = file_printable(state->pass->tensor->name);
    const share *first = NULL;
    for (int i = 0; i < PARALLEL_SHARES; i++) {
        const share *const part = &state->shares[i];
        if (part->nonfinite >= 0 && (!first || part->nonfinite < first->nonfinite))
            first = part;
        if (part->unscaled >= 0)
            return file_fail(error,
                             "elements %lld to %lld of tensor \"%s\" are too large for the scale "
                             "of a %s block, which ends at 65504",
                             (long long)part->unscaled, (long long)part->unscaled + 31, name.text,
                             state->pass->scheme->name);
    }
    return first ? file_fail(error, "element %lld of tensor \"%s\" is %g: %s",
                             (long long)first->nonfinite, name.text, first->found,
                             isfinite(first->found) ? "beyond the largest number of f32, 3.4e38"
                                                    : "not finite; --skip leaves a tensor as it is")
                 : 0;
}

void quantize_pass_release(const pass_state *state, const tile *t) {
    quantize_release(state->pass->tensor, state->first + t->row * state->columns + t->column,
                     (t->rows - 1) * state->columns + t->columns);
}

size_t quantize_code_bytes(tdm_dtype dtype, int64_t count) {
    return dtype == TDM_S4 ? ((size_t)count + 1) / 2 : (size_t)count;
}
