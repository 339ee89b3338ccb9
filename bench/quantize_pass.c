#include "bench/quantize_pass.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "bench/file_mapping.h"
#include "bench/parallel_shares.h"
#include "quant/number_formats.h"
#include "quant/quant_blocks.h"
#include "quant/quant_reference.h"

enum {
    SLAB_ELEMENTS = 1 << 19
};

/* A part of a slab that one thread works at: whole units. */
typedef struct share {
    int64_t first; /* element of the tensor */
    int64_t count;
    int64_t nonfinite; /* first element that is not finite, or -1 */
    int64_t unscaled;  /* first element of a block without a scale, or -1 */
    quantize_outcome outcome;
} share;

/*
 * The state of one pass. A unit is what cannot be cut: elements that share a byte or a scale with each other and
 * with nobody else, or a row of the matrix. Where scales span everything, or a row longer than a slab, they are made in a pass of
 * their own before.
 */
typedef struct pass_state {
    const quantize_pass *pass;
    const tdm_quant_scheme *rules; /* of codes */
    int64_t elements;
    int64_t unit;
    int64_t slab;         /* elements, whole units */
    int64_t scales_total; /* of codes */
    float *before;        /* a slab */
    float *after;
    unsigned char *bytes;
    float *scales; /* of the tensor */
    int32_t *zero_points;
    tdm_quant_bounds *bounds; /* PARALLEL_SHARES times the scales, where scales span everything */
    share shares[PARALLEL_SHARES];
    int64_t slab_first;
} pass_state;

size_t quantize_code_bytes(tdm_dtype dtype, int64_t count) {
    return dtype == TDM_S4 ? ((size_t)count + 1) / 2 : (size_t)count;
}

/* ---- what is cut how ---- */

static int spans_everything(const pass_state *state) {
    return state->pass->scheme->kind == QUANTIZE_CODES && state->pass->spec.blocks[0] == 0;
}

static int has_long_rows(const pass_state *state) {
    return state->pass->scheme->kind == QUANTIZE_CODES && state->pass->spec.blocks[0] <= 1 &&
           state->pass->spec.shape[1] > SLAB_ELEMENTS;
}

/* Rows longer than a slab that have one scale each, or all one. */
static int has_long_channels(const pass_state *state) {
    return has_long_rows(state) && state->pass->spec.blocks[1] == 0;
}

/* Rows longer than a slab that are worked at one by one, in pieces of whole groups. Where rows of s4 end within a
 * byte, they cannot be. */
static int has_long_groups(const pass_state *state) {
    const tdm_quant_spec *const spec = &state->pass->spec;
    return has_long_rows(state) && spec->blocks[0] == 1 && spec->blocks[1] > 1 &&
           (spec->dtype != TDM_S4 || spec->shape[1] % 2 == 0);
}

static int has_scales_before(const pass_state *state) {
    return spans_everything(state) || has_long_channels(state);
}

static int64_t unit_of(const pass_state *state) {
    const tdm_quant_spec *const spec = &state->pass->spec;
    if (state->pass->scheme->kind == QUANTIZE_BLOCKS ||
        state->pass->tensor->storage != QUANTIZE_PLAIN)
        if (state->pass->scheme->kind != QUANTIZE_CODES)
            return TDM_QUANT_BLOCK_ELEMENTS;
    if (state->pass->scheme->kind == QUANTIZE_FLOATS)
        return 1;
    if (has_long_channels(state))
        return 2; /* codes of s4 that share a byte */
    if (has_long_groups(state))
        return spec->blocks[1];
    const int64_t rows = spec->blocks[0] > 1 ? spec->blocks[0] : 1;
    /* Rows of an odd number of s4 end within a byte; two of them do not. */
    const int shared_byte = spec->dtype == TDM_S4 && rows % 2 != 0 && spec->shape[1] % 2 != 0;
    return rows * spec->shape[1] * (shared_byte ? 2 : 1);
}

static size_t output_bytes(const pass_state *state, int64_t elements) {
    const quantize_scheme *const scheme = state->pass->scheme;
    const quantize_tensor shape = {.storage = scheme->storage, .dtype = SAFETENSORS_F32};
    if (scheme->kind == QUANTIZE_CODES)
        return quantize_code_bytes(state->pass->spec.dtype, elements);
    if (scheme->kind == QUANTIZE_BLOCKS)
        return quantize_storage_bytes(&shape, elements);
    return (size_t)elements * (scheme->dtype == TDM_F32 ? 4 : 2);
}

/* The spec of whole units of the tensor. */
static tdm_quant_spec spec_of(const pass_state *state, int64_t elements) {
    tdm_quant_spec spec = state->pass->spec;
    if (has_long_groups(state)) {
        spec.shape[0] = 1;
        spec.shape[1] = elements;
        return spec;
    }
    spec.shape[0] = elements / spec.shape[1];
    return spec;
}

/* Position of the first scale of a share, in the tensor's. */
static int64_t first_scale(const pass_state *state, int64_t first) {
    const tdm_quant_spec *const spec = &state->pass->spec;
    int64_t shape[TDM_QUANT_MAX_RANK];
    if (spec->blocks[0] == 0)
        return 0;
    tdm_quant_scale_shape(spec, shape);
    if (has_long_groups(state))
        return first / spec->shape[1] * shape[1] + first % spec->shape[1] / spec->blocks[1];
    return first / spec->shape[1] / spec->blocks[0] * shape[1];
}

/* Cut `count` elements from `first` on into shares of whole units. */
static void cut(pass_state *state, int64_t first, int64_t count) {
    const int64_t units = (count + state->unit - 1) / state->unit;
    state->slab_first = first;
    for (int i = 0; i < PARALLEL_SHARES; i++) {
        const int64_t begin = units * i / PARALLEL_SHARES * state->unit;
        int64_t end = units * (i + 1) / PARALLEL_SHARES * state->unit;
        end = end < count ? end : count;
        state->shares[i] =
            (share){.first = first + begin, .count = end - begin, .nonfinite = -1, .unscaled = -1};
    }
}

/* ---- one share ---- */

static int64_t find_nonfinite(const float *values, int64_t count) {
    for (int64_t i = 0; i < count; i++)
        if (!isfinite(values[i]))
            return i;
    return -1;
}

/* Elements of a share into the slab; 0 when all of them are finite. */
static int load(pass_state *state, share *part) {
    float *const before = state->before + (part->first - state->slab_first);
    quantize_read_floats(state->pass->tensor, part->first, part->count, before);
    const int64_t found = find_nonfinite(before, part->count);
    part->nonfinite = found < 0 ? -1 : part->first + found;
    return found < 0 ? 0 : -1;
}

static void make_floats(pass_state *state, share *part) {
    const tdm_dtype dtype = state->pass->scheme->dtype;
    const int64_t at = part->first - state->slab_first;
    const float *const before = state->before + at;
    float *const after = state->after + at;
    if (dtype == TDM_F32) {
        memcpy(state->bytes + 4 * at, before, (size_t)part->count * sizeof *before);
        memcpy(after, before, (size_t)part->count * sizeof *before);
        return;
    }
    for (int64_t i = 0; i < part->count; i++) {
        const uint16_t bits = tdm_quant_narrow(dtype, before[i], true);
        after[i] = dtype == TDM_F16 ? tdm_f32_from_f16(bits) : tdm_f32_from_bf16(bits);
        part->outcome.saturated += tdm_quant_narrow(dtype, before[i], false) != bits;
        memcpy(state->bytes + 2 * (at + i), &bits, sizeof bits);
    }
}

static void make_blocks(pass_state *state, share *part) {
    const int64_t at = part->first - state->slab_first;
    const size_t blocks = (size_t)part->count / TDM_QUANT_BLOCK_ELEMENTS;
    void *const encoded = state->bytes + output_bytes(state, at);
    const int q8_0 = state->pass->scheme->storage == QUANTIZE_Q8_0;
    const size_t done = q8_0 ? tdm_quant_q8_0_encode(state->before + at, blocks, encoded)
                             : tdm_quant_q4_0_encode(state->before + at, blocks, encoded);
    if (done < blocks) {
        part->unscaled = part->first + (int64_t)done * TDM_QUANT_BLOCK_ELEMENTS;
        return;
    }
    if (q8_0)
        tdm_quant_q8_0_decode(encoded, blocks, state->after + at);
    else
        tdm_quant_q4_0_decode(encoded, blocks, state->after + at);
}

/* Elements from `first` on, below `end`, that lie in the same row. */
static int64_t count_in_row(const pass_state *state, int64_t first, int64_t end) {
    const int64_t columns = state->pass->spec.shape[1];
    const int64_t next = first - first % columns + columns;
    return (next < end ? next : end) - first;
}

/* The scale of an element of a long channel. */
static int64_t channel_scale(const pass_state *state, int64_t element) {
    const tdm_quant_spec *const spec = &state->pass->spec;
    return spec->blocks[0] == 0 ? 0 : element / spec->shape[1];
}

/* Codes of long channels, of which a share may have the end of one and the beginning of the next, within a byte. */
static void make_long_channels(pass_state *state, const share *part) {
    const tdm_quant_spec *const spec = &state->pass->spec;
    const int64_t end = part->first + part->count;
    memset(state->bytes + output_bytes(state, part->first - state->slab_first), 0,
           output_bytes(state, part->count));
    for (int64_t first = part->first; first < end;) {
        const int64_t scale = channel_scale(state, first);
        const tdm_quant_parameters parameters = {state->scales[scale], state->zero_points[scale]};
        const int64_t stop = first + count_in_row(state, first, end);
        for (; first < stop; first++) {
            const int64_t at = first - state->slab_first;
            const int32_t code = tdm_quant_quantize(state->before[at], parameters, spec->range);
            tdm_quant_set(spec->dtype, state->bytes, at, code);
            state->after[at] = tdm_quant_dequantize(code, parameters);
        }
    }
}

static void make_codes(pass_state *state, const share *part) {
    if (has_long_channels(state)) {
        make_long_channels(state, part);
        return;
    }
    const int64_t at = part->first - state->slab_first;
    const tdm_quant_spec spec = spec_of(state, part->count);
    void *const codes = state->bytes + output_bytes(state, at);
    const int64_t scale = first_scale(state, part->first);
    float *const scales = state->scales + scale;
    int32_t *const zero_points = state->zero_points + scale;
    if (spans_everything(state))
        tdm_quant_quantize_tensor(&spec, TDM_F32, state->before + at, scales, zero_points, codes);
    else
        tdm_quant_dynamic_tensor(&spec, state->rules->symmetry, TDM_F32, state->before + at, scales,
                                 zero_points, codes);
    tdm_quant_dequantize_tensor(&spec, codes, scales, zero_points, TDM_F32, state->after + at);
}

static void make_share(void *context, int index) {
    pass_state *const state = context;
    share *const part = &state->shares[index];
    const int64_t at = part->first - state->slab_first;
    if (part->count == 0 || load(state, part) != 0)
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
        tdm_quant_error_add(&part->outcome.errors, state->before + at, state->after + at,
                            (size_t)part->count);
}

static void widen(tdm_quant_bounds *bounds, tdm_quant_bounds more) {
    bounds->minimum = fminf(bounds->minimum, more.minimum);
    bounds->maximum = fmaxf(bounds->maximum, more.maximum);
}

static void range_long_channels(const pass_state *state, const share *part,
                                tdm_quant_bounds *bounds) {
    const int64_t end = part->first + part->count;
    tdm_quant_spec spec = {.rank = 1, .dtype = state->pass->spec.dtype};
    for (int64_t first = part->first; first < end; first += spec.shape[0]) {
        tdm_quant_bounds here;
        spec.shape[0] = count_in_row(state, first, end);
        tdm_quant_ranges_tensor(&spec, TDM_F32, state->before + (first - state->slab_first), &here);
        widen(&bounds[channel_scale(state, first)], here);
    }
}

static void range_share(void *context, int index) {
    pass_state *const state = context;
    share *const part = &state->shares[index];
    const int64_t at = part->first - state->slab_first;
    tdm_quant_bounds *const bounds = state->bounds + index * state->scales_total;
    if (part->count == 0 || load(state, part) != 0)
        return;
    if (has_long_channels(state)) {
        range_long_channels(state, part, bounds);
        return;
    }
    const tdm_quant_spec spec = spec_of(state, part->count);
    /* The scratch of this share lies behind the totals of all. */
    tdm_quant_bounds *const here = bounds + PARALLEL_SHARES * state->scales_total;
    tdm_quant_ranges_tensor(&spec, TDM_F32, state->before + at, here);
    for (int64_t i = 0; i < state->scales_total; i++)
        widen(&bounds[i], here[i]);
}

/* ---- slabs ---- */

static int check_shares(const pass_state *state, file_error *error) {
    const file_name name = file_printable(state->pass->tensor->name);
    for (int i = 0; i < PARALLEL_SHARES; i++) {
        const share *const part = &state->shares[i];
        if (part->nonfinite >= 0)
            return file_fail(error, "element %lld of tensor \"%s\" is %g: not finite",
                             (long long)part->nonfinite, name.text,
                             (double)state->before[part->nonfinite - state->slab_first]);
        if (part->unscaled >= 0)
            return file_fail(error,
                             "elements %lld to %lld of tensor \"%s\" are too large for the scale "
                             "of a %s block, which ends at 65504",
                             (long long)part->unscaled, (long long)part->unscaled + 31, name.text,
                             state->pass->scheme->name);
    }
    return 0;
}

static int64_t slab_count(const pass_state *state, int64_t first) {
    const int64_t left = has_long_groups(state) ? count_in_row(state, first, state->elements)
                                                : state->elements - first;
    return left < state->slab ? left : state->slab;
}

/* Scales that span everything, or long rows: a pass of its own over the tensor. */
static int derive_scales(pass_state *state, file_error *error) {
    for (int64_t first = 0; first < state->elements; first += state->slab) {
        cut(state, first, slab_count(state, first));
        parallel_shares(range_share, state);
        quantize_release(state->pass->tensor, first, slab_count(state, first));
        if (check_shares(state, error))
            return -1;
    }
    for (int64_t i = 0; i < state->scales_total; i++) {
        tdm_quant_bounds all = {0.0f, 0.0f};
        for (int s = 0; s < PARALLEL_SHARES; s++)
            widen(&all, state->bounds[s * state->scales_total + i]);
        const tdm_quant_spec *const spec = &state->pass->spec;
        const tdm_quant_parameters parameters =
            tdm_quant_derive_kept(state->rules->symmetry, all, spec->range, spec->scale_dtype);
        state->scales[i] = parameters.scale;
        state->zero_points[i] = parameters.zero_point;
    }
    return 0;
}

static int run_slab(pass_state *state, int64_t first, quantize_outcome *outcome,
                    file_error *error) {
    const quantize_pass *const pass = state->pass;
    const int64_t count = slab_count(state, first);
    cut(state, first, count);
    parallel_shares(make_share, state);
    quantize_release(pass->tensor, first, count);
    if (check_shares(state, error))
        return -1;
    for (int i = 0; i < PARALLEL_SHARES; i++) {
        tdm_quant_error_merge(&outcome->errors, &state->shares[i].outcome.errors);
        outcome->saturated += state->shares[i].outcome.saturated;
    }
    if (pass->witness.see)
        pass->witness.see(pass->witness.user, first, count, state->before, state->after);
    return pass->target.put(pass->target.user, pass->target.data, output_bytes(state, first),
                            state->bytes, output_bytes(state, count), error);
}

/* Scales in the type that they are kept in, in the place where they are: never ahead of what is read. Returns their bytes. */
static size_t store_scales(const pass_state *state) {
    const tdm_dtype dtype = state->pass->spec.scale_dtype;
    if (dtype == TDM_F32)
        return (size_t)state->scales_total * sizeof *state->scales;
    for (int64_t i = 0; i < state->scales_total; i++) {
        const uint16_t bits = tdm_quant_narrow(dtype, state->scales[i], false);
        memcpy((unsigned char *)state->scales + 2 * i, &bits, sizeof bits);
    }
    return (size_t)state->scales_total * sizeof(uint16_t);
}

/* Zero points go out in the type of the codes, s4 in bytes. */
static int put_parameters(pass_state *state, file_error *error) {
    const quantize_target *const target = &state->pass->target;
    const size_t scale_bytes = store_scales(state);
    if (target->put(target->user, target->scale, 0, state->scales, scale_bytes, error))
        return -1;
    if (state->rules->symmetry == TDM_QUANT_SYMMETRIC)
        return 0;
    unsigned char *const bytes = (unsigned char *)state->zero_points;
    for (int64_t i = 0; i < state->scales_total; i++)
        bytes[i] = (unsigned char)state->zero_points[i]; /* never ahead of what is read */
    return target->put(target->user, target->zero_point, 0, bytes, (size_t)state->scales_total,
                       error);
}

static void *array(int64_t count, size_t size) {
    return calloc((size_t)count + 1, size);
}

static int allocate(pass_state *state) {
    state->before = array(state->slab, sizeof *state->before);
    state->after = array(state->slab, sizeof *state->after);
    state->bytes = array(1, output_bytes(state, state->slab));
    state->scales = array(state->scales_total, sizeof *state->scales);
    state->zero_points = array(state->scales_total, sizeof *state->zero_points);
    if (has_scales_before(state))
        state->bounds = array(2 * PARALLEL_SHARES * state->scales_total, sizeof *state->bounds);
    return state->before && state->after && state->bytes && state->scales && state->zero_points &&
                   (state->bounds || !has_scales_before(state))
               ? 0
               : -1;
}

static int run(pass_state *state, quantize_outcome *outcome, file_error *error) {
    const int codes = state->pass->scheme->kind == QUANTIZE_CODES;
    if (allocate(state))
        return file_fail(error, "out of memory for a slab of tensor \"%s\"",
                         file_printable(state->pass->tensor->name).text);
    if (has_scales_before(state) && derive_scales(state, error))
        return -1;
    for (int64_t first = 0; first < state->elements; first += slab_count(state, first))
        if (run_slab(state, first, outcome, error))
            return -1;
    return codes ? put_parameters(state, error) : 0;
}

int quantize_pass_run(const quantize_pass *pass, quantize_outcome *outcome, file_error *error) {
    pass_state state = {.pass = pass, .elements = quantize_element_count(pass->tensor)};
    memset(outcome, 0, sizeof *outcome);
    if (pass->scheme->kind == QUANTIZE_CODES) {
        state.rules = tdm_quant_scheme_info(pass->scheme->rules);
        state.scales_total = tdm_quant_scale_count(&pass->spec);
    }
    state.unit = unit_of(&state);
    const int64_t units = SLAB_ELEMENTS / state.unit;
    state.slab = (units > 0 ? units : 1) * state.unit;
    const int result = run(&state, outcome, error);
    free(state.before);
    free(state.after);
    free(state.bytes);
    free(state.scales);
    free(state.zero_points);
    free(state.bounds);
    return result;
}

int quantize_copy(const quantize_tensor *tensor, const quantize_target *target, file_error *error) {
    enum {
        PIECE = 4 << 20
    };
    const unsigned char *const bytes = tensor->data;
    for (size_t done = 0; done < tensor->bytes;) {
        const size_t left = tensor->bytes - done;
        const size_t size = left < PIECE ? left : PIECE;
        if (target->put(target->user, target->data, done, bytes + done, size, error))
            return -1;
        file_release_pages(tensor->floor, bytes + done, size);
        done += size;
    }
    return 0;
}
