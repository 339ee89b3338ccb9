#include "quant/schemes.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "quant/float_chunks.h"
#include "quant/quant_reason.h"

void tdm_quant_refuse(tdm_quant_reason *reason, const char *format, ...) {
    if (!reason) {
        return;
    }
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(reason->text, sizeof reason->text, format, arguments);
    va_end(arguments);
}

void tdm_quant_accept(tdm_quant_reason *reason) {
    if (reason) {
        reason->text[0] = '\0';
    }
}

/* ---- the table ---------------------------------------------------------------------------- */

static const tdm_quant_scheme schemes[] = {
#define ROW(id, value, text, dtype, symmetry, granularity, group, low, high)                       \
    {id, text, dtype, TDM_QUANT_##symmetry, TDM_QUANT_##granularity, group, {low, high}},
    TDM_QUANT_SCHEME_LIST(ROW)
#undef ROW
};

size_t tdm_quant_scheme_count(void) {
    return sizeof schemes / sizeof schemes[0];
}

const tdm_quant_scheme *tdm_quant_scheme_at(size_t position) {
    return position < tdm_quant_scheme_count() ? &schemes[position] : NULL;
}

const tdm_quant_scheme *tdm_quant_scheme_info(tdm_quant_scheme_id id) {
    for (size_t i = 0; i < tdm_quant_scheme_count(); i++) {
        if (schemes[i].id == id) {
            return &schemes[i];
        }
    }
    return NULL;
}

const tdm_quant_scheme *tdm_quant_scheme_from_name(const char *name) {
    for (size_t i = 0; name && i < tdm_quant_scheme_count(); i++) {
        if (strcmp(schemes[i].name, name) == 0) {
            return &schemes[i];
        }
    }
    return NULL;
}

int32_t tdm_quant_middle(tdm_quant_range range) {
    const int64_t twice = (int64_t)range.low + range.high + 1;
    return (int32_t)(twice >= 0 ? twice / 2 : -((1 - twice) / 2));
}

/* ---- blocks ------------------------------------------------------------------------------- */

static bool check_rank(int rank, tdm_quant_reason *reason) {
    if (rank < 0 || rank > TDM_QUANT_MAX_RANK) {
        tdm_quant_refuse(reason, "rank is %d, at least 0 and at most %d are supported", rank,
                         TDM_QUANT_MAX_RANK);
        return false;
    }
    tdm_quant_accept(reason);
    return true;
}

static bool check_axis(int rank, int axis, tdm_quant_reason *reason) {
    if (!check_rank(rank, reason)) {
        return false;
    }
    if (axis < 0 || axis >= rank) {
        tdm_quant_refuse(reason, "axis is %d of a tensor of rank %d", axis, rank);
        return false;
    }
    return true;
}

static void fill_blocks(int rank, int64_t extent, int64_t *blocks) {
    for (int i = 0; i < rank; i++) {
        blocks[i] = extent;
    }
}

bool tdm_quant_blocks_per_tensor(int rank, int64_t *blocks, tdm_quant_reason *reason) {
    if (!check_rank(rank, reason)) {
        return false;
    }
    fill_blocks(rank, 0, blocks);
    return true;
}

bool tdm_quant_blocks_per_axis(int rank, int axis, int64_t *blocks, tdm_quant_reason *reason) {
    if (!check_axis(rank, axis, reason)) {
        return false;
    }
    fill_blocks(rank, 0, blocks);
    blocks[axis] = 1;
    return true;
}

bool tdm_quant_blocks_per_group(int rank, int axis, int64_t group, int64_t *blocks,
                                tdm_quant_reason *reason) {
    if (!check_axis(rank, axis, reason)) {
        return false;
    }
    if (group < 1) {
        tdm_quant_refuse(reason, "group is %" PRId64 ", must be at least 1", group);
        return false;
    }
    fill_blocks(rank, 1, blocks);
    blocks[axis] = group;
    return true;
}

/* ---- specs -------------------------------------------------------------------------------- */

static tdm_quant_range range_of_dtype(tdm_dtype dtype) {
    switch (dtype) {
    case TDM_S8:
        return (tdm_quant_range){INT8_MIN, INT8_MAX};
    case TDM_U8:
        return (tdm_quant_range){0, UINT8_MAX};
    case TDM_S4:
        return (tdm_quant_range){-8, 7};
    default:
        return (tdm_quant_range){0, 0};
    }
}

static tdm_status check_shape(const tdm_quant_spec *spec, tdm_quant_reason *reason) {
    if (!check_rank(spec->rank, reason)) {
        return TDM_BAD_SHAPE;
    }
    int64_t elements = 1;
    for (int i = 0; i < spec->rank; i++) {
        if (spec->shape[i] < 0) {
            tdm_quant_refuse(reason, "dimension %d is %" PRId64, i, spec->shape[i]);
            return TDM_BAD_SHAPE;
        }
        if (spec->blocks[i] < 0) {
            tdm_quant_refuse(reason, "block %d is %" PRId64, i, spec->blocks[i]);
            return TDM_BAD_ARGUMENT;
        }
        if (__builtin_mul_overflow(elements, spec->shape[i], &elements)) {
            tdm_quant_refuse(reason, "the element count overflows at dimension %d of %" PRId64, i,
                             spec->shape[i]);
            return TDM_BAD_SHAPE;
        }
    }
    return TDM_OK;
}

tdm_status tdm_quant_spec_check(const tdm_quant_spec *spec, tdm_quant_reason *reason) {
    const tdm_status status = check_shape(spec, reason);
    if (status != TDM_OK) {
        return status;
    }
    const tdm_quant_range widest = range_of_dtype(spec->dtype);
    if (widest.low == widest.high) {
        tdm_quant_refuse(reason, "dtype is %d, quantized values must be s8, u8 or s4",
                         (int)spec->dtype);
        return TDM_BAD_DTYPE;
    }
    const tdm_quant_range range = spec->range;
    if (range.low >= range.high || range.low < widest.low || range.high > widest.high) {
        tdm_quant_refuse(reason, "range is [%d, %d], must be within [%d, %d] of the dtype",
                         (int)range.low, (int)range.high, (int)widest.low, (int)widest.high);
        return TDM_BAD_ARGUMENT;
    }
    if (spec->scale_dtype != TDM_DTYPE_NONE && !tdm_quant_is_float(spec->scale_dtype)) {
        tdm_quant_refuse(reason, "scale_dtype is %d, must be f32, f16 or bf16",
                         (int)spec->scale_dtype);
        return TDM_BAD_DTYPE;
    }
    return TDM_OK;
}

/* Sets the block extents of the scheme's granularity. */
static bool scheme_blocks(const tdm_quant_scheme *scheme, int rank, int axis, int64_t group,
                          int64_t *blocks, tdm_quant_reason *reason) {
    switch (scheme->granularity) {
    case TDM_QUANT_PER_TENSOR:
        return tdm_quant_blocks_per_tensor(rank, blocks, reason);
    case TDM_QUANT_PER_AXIS:
        return tdm_quant_blocks_per_axis(rank, axis, blocks, reason);
    case TDM_QUANT_PER_GROUP:
        return tdm_quant_blocks_per_group(rank, axis, group == 0 ? scheme->group : group, blocks,
                                          reason);
    default:
        return tdm_quant_blocks_per_group(rank, rank - 1, scheme->group, blocks, reason);
    }
}

tdm_status tdm_quant_spec_make(const tdm_quant_scheme *scheme, int rank, const int64_t *shape,
                               int axis, int64_t group, tdm_quant_spec *spec,
                               tdm_quant_reason *reason) {
    *spec = (tdm_quant_spec){0};
    if (scheme->granularity == TDM_QUANT_NONE) {
        tdm_quant_refuse(reason, "scheme %s has no scales", scheme->name);
        return TDM_BAD_DTYPE;
    }
    tdm_quant_spec made = {.rank = rank, .dtype = scheme->dtype, .range = scheme->range};
    if (!scheme_blocks(scheme, rank, axis, group, made.blocks, reason)) {
        return TDM_BAD_ARGUMENT;
    }
    for (int i = 0; i < rank; i++) {
        made.shape[i] = shape[i];
    }
    const tdm_status status = tdm_quant_spec_check(&made, reason);
    if (status != TDM_OK) {
        return status;
    }
    if (scheme->granularity == TDM_QUANT_PER_BLOCK && shape[rank - 1] % scheme->group != 0) {
        tdm_quant_refuse(reason,
                         "the last dimension is %" PRId64
                         ", but scheme %s needs a multiple of %" PRId64 "",
                         shape[rank - 1], scheme->name, scheme->group);
        return TDM_BAD_SHAPE;
    }
    *spec = made;
    return TDM_OK;
}

/* ---- positions ---------------------------------------------------------------------------- */

int64_t tdm_quant_element_count(const tdm_quant_spec *spec) {
    int64_t count = 1;
    for (int i = 0; i < spec->rank; i++) {
        count *= spec->shape[i];
    }
    return count;
}

void tdm_quant_scale_shape(const tdm_quant_spec *spec, int64_t *scale_shape) {
    for (int i = 0; i < spec->rank; i++) {
        const int64_t extent = spec->shape[i];
        const int64_t block = spec->blocks[i] == 0 ? extent : spec->blocks[i];
        scale_shape[i] = extent == 0 ? 0 : (extent - 1) / block + 1;
    }
}

int64_t tdm_quant_scale_count(const tdm_quant_spec *spec) {
    int64_t shape[TDM_QUANT_MAX_RANK];
    int64_t count = 1;
    tdm_quant_scale_shape(spec, shape);
    for (int i = 0; i < spec->rank; i++) {
        count *= shape[i];
    }
    return count;
}

int64_t tdm_quant_scale_index(const tdm_quant_spec *spec, const int64_t *at) {
    int64_t shape[TDM_QUANT_MAX_RANK];
    int64_t index = 0;
    tdm_quant_scale_shape(spec, shape);
    for (int i = 0; i < spec->rank; i++) {
        index = index * shape[i] + (spec->blocks[i] == 0 ? 0 : at[i] / spec->blocks[i]);
    }
    return index;
}

/* Increments an index of the leading `rank` dimensions, the last one fastest. */
static void next_index(const int64_t *shape, int rank, int64_t *at) {
    for (int i = rank - 1; i >= 0; i--) {
        at[i]++;
        if (at[i] < shape[i]) {
            return;
        }
        at[i] = 0;
    }
}

void tdm_quant_for_each_run(const tdm_quant_spec *spec, tdm_quant_run_visitor visit, void *user) {
    const int64_t elements = tdm_quant_element_count(spec);
    const int last = spec->rank - 1;
    if (spec->rank == 0) {
        visit(user, 0, 1, 0, 0);
        return;
    }
    int64_t at[TDM_QUANT_MAX_RANK] = {0};
    const int64_t row = spec->shape[last];
    const int64_t step = spec->blocks[last] == 1 ? 1 : 0;
    const int64_t run = spec->blocks[last] == 0 || step == 1 ? row : spec->blocks[last];
    for (int64_t first = 0; first < elements; first += row) {
        at[last] = 0;
        int64_t scale = tdm_quant_scale_index(spec, at);
        for (int64_t column = 0; column < row; column += run, scale++) {
            const int64_t left = row - column;
            visit(user, first + column, left < run ? left : run, scale, step);
        }
        next_index(spec->shape, last, at);
    }
}
