#include "cli/quantize/quantize_pass.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/parallel_shares.h"
#include "formats/file_mapping.h"
#include "quant/number_formats.h"
#include "quant/quant_blocks.h"
#include "quant/quant_reference.h"

enum {
    SLAB_ELEMENTS = 1 << 19,
    UNIT = 128 /* columns that are never split: whole bytes, blocks and groups */
};

/* The elements that one thread processes: whole rows, or a piece of one row. */
typedef struct share {
    int64_t first; /* first element in the tensor */
    int64_t at;    /* offset of its elements, and of its scales, in the slab */
    int64_t rows, columns;
    int64_t nonfinite; /* first element that is not finite, or -1 */
    double found;      /* the value of that element */
    int64_t unscaled;  /* first element of a block without a scale, or -1 */
    quantize_outcome outcome;
} share;

/*
 * The state of one pass. The tensor is treated as a matrix; it has one row if no scale belongs to a
 * row. A tile holds as many whole rows as fit into a slab, or a piece of a longer row. Scales that
 * span more than one tile are computed first, in a pass of their own.
 */
typedef struct pass_state {
    const quantize_pass *pass;
    tdm_quant_spec spec;         /* for quantized values: the shape of that matrix */
    tdm_quant_symmetry symmetry; /* for quantized values */
    int64_t rows, columns;
    int is_cut;        /* 1: tiles are pieces of a row */
    int64_t unit;      /* rows (or columns, if rows are cut) that are never split */
    int64_t slab;      /* largest number of elements in a tile */
    int scales_before; /* 1: scales are computed first, for the whole tensor; 0: per tile */
    float *before;     /* one slab */
    float *after;
    unsigned char *bytes;
    float *scales;
    int32_t *zero_points; /* NULL unless the quantized values are asymmetric */
    tdm_quant_bounds bounds[PARALLEL_SHARES];
    share shares[PARALLEL_SHARES];
} pass_state;

static int64_t least(int64_t a, int64_t b) {
    return a < b ? a : b;
}

static int has_codes(const pass_state *state) {
    return state->pass->scheme->kind == QUANTIZE_CODES;
}

static int64_t share_count(const share *part) {
    return part->rows * part->columns;
}

/* ---- tiles and shares ---- */

static void plan_state(pass_state *state, const quantize_pass *pass) {
    *state = (pass_state){.pass = pass, .spec = pass->spec, .rows = 1};
    state->columns = has_codes(state) ? tdm_quant_element_count(&pass->spec)
                                      : quantize_element_count(pass->tensor);
    if (has_codes(state) && pass->spec.blocks[0] != 0) {
        state->rows = pass->spec.shape[0];
        state->columns = pass->spec.shape[1];
    }
    state->spec.shape[0] = state->rows;
    state->spec.shape[1] = state->columns;
    /* Two rows of an odd number of s4 values end on a byte boundary. */
    state->unit =
        has_codes(state) && state->spec.dtype == TDM_S4 && state->columns % 2 != 0 ? 2 : 1;
    const int64_t together = state->unit * state->columns;
    state->is_cut = state->rows == 1 || together > SLAB_ELEMENTS;
    state->slab = state->is_cut
                      ? least(SLAB_ELEMENTS, state->columns)
                      : least(SLAB_ELEMENTS / together * together, state->rows * state->columns);
    if (state->is_cut)
        state->unit = UNIT;
    state->scales_before = has_codes(state) && state->is_cut && state->spec.blocks[1] == 0;
    if (has_codes(state))
        state->symmetry = tdm_quant_scheme_info(pass->scheme->rules)->symmetry;
}

int quantize_pass_can_write(const quantize_pass *pass) {
    pass_state state;
    plan_state(&state, pass);
    return !state.is_cut || state.rows == 1 || state.spec.dtype != TDM_S4 || state.columns % 2 == 0;
}

/* Returns the number of elements of the tile that begins at `first`. */
static int64_t tile_count(const pass_state *state, int64_t first) {
    const int64_t left = state->is_cut ? state->columns - first % state->columns
                                       : state->rows * state->columns - first;
    return least(state->slab, left);
}

static void cut(pass_state *state, int64_t first, int64_t count) {
    const int64_t step = state->is_cut ? 1 : state->columns;
    const int64_t total = count / step;
    const int64_t units = (total + state->unit - 1) / state->unit;
    for (int i = 0; i < PARALLEL_SHARES; i++) {
        const int64_t begin = least(units * i / PARALLEL_SHARES * state->unit, total);
        const int64_t end = least(units * (i + 1) / PARALLEL_SHARES * state->unit, total);
        state->shares[i] = (share){.first = first + begin * step,
                                   .at = begin * step,
                                   .rows = state->is_cut ? 1 : end - begin,
                                   .columns = state->is_cut ? end - begin : state->columns,
                                   .nonfinite = -1,
                                   .unscaled = -1};
    }
}

/* Returns the number of output bytes for a number of elements. */
static size_t bytes_of(const pass_state *state, int64_t elements) {
    const quantize_scheme *const scheme = state->pass->scheme;
    const quantize_tensor shape = {.storage = scheme->storage, .dtype = SAFETENSORS_F32};
    if (scheme->kind == QUANTIZE_CODES)
        return quantize_code_bytes(state->pass->spec.dtype, elements);
    if (scheme->kind == QUANTIZE_BLOCKS)
        return quantize_storage_bytes(&shape, elements);
    return (size_t)elements * (scheme->dtype == TDM_F32 ? 4 : 2);
}

/* Returns the spec of a share as a matrix of its own. */
static tdm_quant_spec spec_of(const pass_state *state, const share *part) {
    tdm_quant_spec spec = state->spec;
    spec.shape[0] = part->rows;
    spec.shape[1] = part->columns;
    return spec;
}

/* Returns the index of the share's first scale in the tensor. */
static int64_t first_scale(const pass_state *state, const share *part) {
    const int64_t at[2] = {part->first / state->columns, part->first % state->columns};
    return tdm_quant_scale_index(&state->spec, at);
}

/* ---- one share ---- */

/* Loads the share's elements into the slab. Returns 0 if all of them are finite. */
static int load(pass_state *state, share *part) {
    float *const before = state->before + part->at;
    quantize_read_floats(state->pass->tensor, part->first, share_count(part), before);
    for (int64_t i = 0; i < share_count(part); i++) {
        if (isfinite(before[i]))
            continue;
        part->nonfinite = part->first + i;
        part->found = (double)before[i];
        return -1;
    }
    return 0;
}

static void make_floats(pass_state *state, share *part) {
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
        memcpy(state->bytes + 2 * (at + i), &bits, sizeof bits);
    }
}

static void make_blocks(pass_state *state, share *part) {
    const float *const before = state->before + part->at;
    const size_t blocks = (size_t)share_count(part) / TDM_QUANT_BLOCK_ELEMENTS;
    void *const encoded = state->bytes + bytes_of(state, part->at);
    const int q8_0 = state->pass->scheme->storage == QUANTIZE_Q8_0;
    const size_t done = q8_0 ? tdm_quant_q8_0_encode(before, blocks, encoded)
                             : tdm_quant_q4_0_encode(before, blocks, encoded);
    if (done < blocks)
        part->unscaled = part->first + (int64_t)done * TDM_QUANT_BLOCK_ELEMENTS;
    else if (q8_0)
        tdm_quant_q8_0_decode(encoded, blocks, state->after + part->at);
    else
        tdm_quant_q4_0_decode(encoded, blocks, state->after + part->at);
}

static void make_codes(pass_state *state, share *part) {
    const tdm_quant_spec spec = spec_of(state, part);
    const float *const before = state->before + part->at;
    void *const codes = state->bytes + bytes_of(state, part->at);
    const int64_t scale = state->scales_before ? first_scale(state, part) : part->at;
    float *const scales = state->scales + scale;
    int32_t *const zero_points = state->zero_points ? state->zero_points + scale : NULL;
    if (!state->scales_before)
        tdm_quant_dynamic_tensor(&spec, state->symmetry, TDM_F32, before, scales, zero_points,
                                 NULL);
    tdm_quant_quantize_tensor(&spec, TDM_F32, before, scales, zero_points, codes);
    tdm_quant_dequantize_tensor(&spec, codes, scales, zero_points, TDM_F32,
                                state->after + part->at);
}

/* Loads a share, converts it, and measures its error. */
static void make_share(void *context, int index) {
    pass_state *const state = context;
    share *const part = &state->shares[index];
    if (share_count(part) == 0 || load(state, part) != 0)
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
        tdm_quant_error_add(&part->outcome.errors, state->before + part->at,
                            state->after + part->at, (size_t)share_count(part));
}

/* Finds the minimum and maximum of a share of a row that has one scale. */
static void see_share(void *context, int index) {
    pass_state *const state = context;
    share *const part = &state->shares[index];
    tdm_quant_bounds *const bounds = &state->bounds[index];
    if (share_count(part) == 0 || load(state, part) != 0)
        return;
    for (const float *x = state->before + part->at, *end = x + share_count(part); x < end; x++) {
        bounds->minimum = *x < bounds->minimum ? *x : bounds->minimum;
        bounds->maximum = *x > bounds->maximum ? *x : bounds->maximum;
    }
}

/* ---- one tile ---- */

/* Returns 0 if all shares could be converted, or -1 and the reason. */
static int check(const pass_state *state, file_error *error) {
    const file_name name = file_printable(state->pass->tensor->name);
    for (int i = 0; i < PARALLEL_SHARES; i++) {
        const share *const part = &state->shares[i];
        if (part->nonfinite >= 0)
            return file_fail(
                error,
                "element %lld of tensor \"%s\" is %g: not finite; --skip copies a tensor unchanged",
                (long long)part->nonfinite, name.text, part->found);
        if (part->unscaled >= 0)
            return file_fail(error,
                             "elements %lld to %lld of tensor \"%s\" are too large for the scale "
                             "of a %s block, which ends at 65504",
                             (long long)part->unscaled, (long long)part->unscaled + 31, name.text,
                             state->pass->scheme->name);
    }
    return 0;
}

static int run_shares(pass_state *state, int64_t first, int64_t count,
                      void (*work)(void *context, int index), file_error *error) {
    cut(state, first, count);
    parallel_shares(work, state);
    quantize_release(state->pass->tensor, first, count);
    return check(state, error);
}

/* Writes `count` scales and zero points. `first` indexes the tensor's, `at` the state's arrays. */
static int put_parameters(const pass_state *state, int64_t first, int64_t at, int64_t count,
                          file_error *error) {
    const quantize_target *const target = &state->pass->target;
    const size_t each = sizeof *state->scales;
    if (target->put(target->user, target->scale, (uint64_t)first * each, state->scales + at,
                    (size_t)count * each, error))
        return -1;
    if (!state->zero_points)
        return 0;
    unsigned char *const zero_points = (unsigned char *)(state->zero_points + at);
    /* This narrows in place: a write never overwrites a zero point that is still to be read. */
    for (int64_t i = 0; i < count; i++)
        zero_points[i] = (unsigned char)state->zero_points[at + i];
    return target->put(target->user, target->zero_point, (uint64_t)first, zero_points,
                       (size_t)count, error);
}

static int run_tile(pass_state *state, int64_t first, int64_t count, quantize_outcome *outcome,
                    file_error *error) {
    const quantize_target *const target = &state->pass->target;
    if (run_shares(state, first, count, make_share, error))
        return -1;
    for (int i = 0; i < PARALLEL_SHARES; i++) {
        const share *const part = &state->shares[i];
        tdm_quant_error_merge(&outcome->errors, &part->outcome.errors);
        outcome->saturated += part->outcome.saturated;
        if (share_count(part) == 0 || !has_codes(state) || state->scales_before)
            continue;
        const tdm_quant_spec spec = spec_of(state, part);
        if (put_parameters(state, first_scale(state, part), part->at, tdm_quant_scale_count(&spec),
                           error))
            return -1;
    }
    return target->put(target->user, target->data, bytes_of(state, first), state->bytes,
                       bytes_of(state, count), error);
}

/* Computes the scale of a row that is longer than a tile. */
static int derive_scale(pass_state *state, int64_t row, file_error *error) {
    tdm_quant_bounds seen = {HUGE_VALF, -HUGE_VALF};
    for (int i = 0; i < PARALLEL_SHARES; i++)
        state->bounds[i] = seen;
    for (int64_t done = 0, count; done < state->columns; done += count) {
        const int64_t first = row * state->columns + done;
        count = tile_count(state, first);
        if (run_shares(state, first, count, see_share, error))
            return -1;
    }
    for (int i = 0; i < PARALLEL_SHARES; i++) {
        seen.minimum = fminf(seen.minimum, state->bounds[i].minimum);
        seen.maximum = fmaxf(seen.maximum, state->bounds[i].maximum);
    }
    const tdm_quant_parameters parameters =
        tdm_quant_derive(state->symmetry, seen, state->spec.range);
    state->scales[row] = parameters.scale;
    if (state->zero_points)
        state->zero_points[row] = parameters.zero_point;
    return 0;
}

/* ---- the pass ---- */

static void *array(int64_t count, size_t size) {
    return calloc((size_t)count + 1, size);
}

static int allocate(pass_state *state) {
    const int64_t scales = !has_codes(state)      ? 0
                           : state->scales_before ? tdm_quant_scale_count(&state->spec)
                                                  : state->slab;
    state->before = array(state->slab, sizeof *state->before);
    state->after = array(state->slab, sizeof *state->after);
    state->bytes = array(1, bytes_of(state, state->slab));
    state->scales = array(scales, sizeof *state->scales);
    if (state->symmetry == TDM_QUANT_ASYMMETRIC)
        state->zero_points = array(scales, sizeof *state->zero_points);
    return state->before && state->after && state->bytes && state->scales &&
                   (state->zero_points || state->symmetry != TDM_QUANT_ASYMMETRIC)
               ? 0
               : -1;
}

static int run(pass_state *state, quantize_outcome *outcome, file_error *error) {
    if (allocate(state))
        return file_fail(error, "out of memory for a slab of tensor \"%s\"",
                         file_printable(state->pass->tensor->name).text);
    for (int64_t row = 0; state->scales_before && row < state->rows; row++)
        if (derive_scale(state, row, error))
            return -1;
    for (int64_t first = 0, count; first < state->rows * state->columns; first += count) {
        count = tile_count(state, first);
        if (run_tile(state, first, count, outcome, error))
            return -1;
    }
    return state->scales_before
               ? put_parameters(state, 0, 0, tdm_quant_scale_count(&state->spec), error)
               : 0;
}

int quantize_pass_run(const quantize_pass *pass, quantize_outcome *outcome, file_error *error) {
    pass_state state;
    memset(outcome, 0, sizeof *outcome);
    plan_state(&state, pass);
    const int result = run(&state, outcome, error);
    free(state.before);
    free(state.after);
    free(state.bytes);
    free(state.scales);
    free(state.zero_points);
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

size_t quantize_code_bytes(tdm_dtype dtype, int64_t count) {
    return dtype == TDM_S4 ? ((size_t)count + 1) / 2 : (size_t)count;
}
