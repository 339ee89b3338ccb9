#include "tests/support/random_operand.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

bool random_chance(test_random *random, int percent) {
    return test_random_int(random, 0, 99) < percent;
}

int64_t random_of(test_random *random, const int64_t *choices, size_t count) {
    return choices[test_random_int(random, 0, (int64_t)count - 1)];
}

/* ---- layouts ---- */

/*
 * Selects the last dimensions of the batch. Some of them get length one; those in `stays` get
 * stride 0.
 */
static int share_batch(tdm_layout *layout, test_random *random, const random_batch *batch,
                       bool may_share, bool stays[TDM_MAX_RANK]) {
    int rank = 0, first = 0;
    if (may_share && batch->rank > 0 && random_chance(random, 15))
        first = (int)test_random_int(random, 1, batch->rank);
    for (int d = first; d < batch->rank; d++, rank++) {
        layout->shape[rank] = batch->shape[d];
        if (may_share && random_chance(random, 20)) {
            stays[rank] = random_chance(random, 50);
            layout->shape[rank] = stays[rank] ? batch->shape[d] : 1;
        }
    }
    return rank;
}

static void swap(int order[], int a, int b) {
    const int kept = order[a];
    order[a] = order[b];
    order[b] = kept;
}

/* Makes the last dimension the innermost in most draws. */
static void draw_order(int order[TDM_MAX_RANK], int rank, test_random *random) {
    for (int d = 0; d < rank; d++)
        order[d] = d;
    if (random_chance(random, 40))
        swap(order, rank - 1, rank - 2);
    if (rank > 2 && random_chance(random, 15))
        swap(order, (int)test_random_int(random, 0, rank - 2), rank - 3);
}

static int64_t draw_gap(int64_t stride, tdm_dtype dtype, test_random *random) {
    if (random_chance(random, 25))
        stride += test_random_int(random, 1, 5);
    if (dtype == TDM_S4)
        return stride + stride % 2;
    return random_chance(random, 25) ? (stride + 15) / 16 * 16 : stride;
}

static void draw_strides(tdm_layout *layout, test_random *random, const bool stays[]) {
    int order[TDM_MAX_RANK];
    draw_order(order, layout->rank, random);
    int64_t stride = layout->dtype != TDM_S4 && random_chance(random, 8) ? 2 : 1;
    for (int i = layout->rank - 1; i >= 0; i--) {
        const int d = order[i];
        layout->strides[d] = stays[d] ? 0 : stride;
        if (stays[d])
            continue;
        stride *= layout->shape[d] > 0 ? layout->shape[d] : 1;
        stride = draw_gap(stride, layout->dtype, random);
    }
}

static int64_t draw_offset(tdm_dtype dtype, test_random *random) {
    if (random_chance(random, 60))
        return 0;
    return dtype == TDM_S4 ? 2 * test_random_int(random, 0, 8) : test_random_int(random, 0, 17);
}

void random_operand_create(random_operand *o, const test_device *device, test_random *random,
                           const random_batch *batch, tdm_dtype dtype, const int64_t matrix[2],
                           bool may_share) {
    tdm_layout layout = {.dtype = dtype};
    bool stays[TDM_MAX_RANK] = {false};
    *o = (random_operand){.batch = *batch};
    layout.rank = share_batch(&layout, random, batch, may_share, stays) + 2;
    layout.shape[layout.rank - 2] = matrix[0];
    layout.shape[layout.rank - 1] = matrix[1];
    draw_strides(&layout, random, stays);
    test_array_create_layout(&o->data, device, &layout, draw_offset(dtype, random));
    o->tensor = o->data.tensor;
}

/* ---- parameters ---- */

static void draw_blocks(random_operand *o, test_random *random, const random_parameters *p) {
    const int rank = o->data.layout.rank, varies = rank - p->vary;
    o->block[varies] = random_chance(random, 75) ? 1 : 0;
    o->block[2 * rank - 3 - varies] = p->group;
    for (int d = 0; p->by_entry && d < rank - 2; d++)
        o->block[d] = random_chance(random, 70) ? 1 : 0;
}

static void draw_parameter_layout(const random_operand *o, test_random *random, tdm_layout *s) {
    const tdm_layout *const of = &o->data.layout;
    int64_t stride = random_chance(random, 20) ? 2 : 1;
    *s = *of;
    for (int d = of->rank - 1; d >= 0; d--) {
        const int64_t block = o->block[d];
        s->shape[d] = block == 0 ? 1 : (of->shape[d] + block - 1) / block;
        s->strides[d] = of->strides[d] == 0 ? 0 : stride;
        stride *= s->shape[d] > 0 ? s->shape[d] : 1;
        stride += random_chance(random, 10) ? 1 : 0;
    }
}

void random_operand_quantize(random_operand *o, test_random *random, const random_parameters *p) {
    static const int64_t types[] = {TDM_F32, TDM_F16, TDM_BF16};
    const test_device *const device = o->data.device;
    tdm_quantization q = TDM_QUANTIZATION_INIT;
    tdm_layout layout;
    draw_blocks(o, random, p);
    draw_parameter_layout(o, random, &layout);
    layout.dtype = (tdm_dtype)RANDOM_OF(random, types);
    test_array_create_layout(&o->scale, device, &layout, draw_offset(layout.dtype, random));
    for (int64_t i = 0; i < test_array_count(&o->scale); i++)
        test_array_put(&o->scale, i,
                       ldexp(1.0, (int)test_random_int(random, p->scale_low, p->scale_high)));
    test_array_send(&o->scale);
    q.scale = o->scale.tensor;
    memcpy(q.block, o->block, sizeof o->block);
    if (p->zero != TDM_DTYPE_NONE) {
        layout.dtype = p->zero;
        test_array_create_layout(&o->zero, device, &layout, draw_offset(p->zero, random));
        random_array_fill(&o->zero, random, p->zero_low, p->zero_high);
        q.zero_point = o->zero.tensor;
    }
    TEST_OK(tdm_tensor_quantized(o->data.tensor, &q, &o->tensor));
}

void random_operand_destroy(random_operand *o) {
    if (o->tensor != o->data.tensor)
        tdm_tensor_destroy(o->tensor);
    test_array_destroy(&o->data);
    test_array_destroy(&o->scale);
    test_array_destroy(&o->zero);
    *o = (random_operand){0};
}

void random_array_fill(test_array *array, test_random *random, int64_t low, int64_t high) {
    for (int64_t i = 0; i < test_array_count(array); i++)
        test_array_put(array, i, (double)test_random_int(random, low, high));
    test_array_send(array);
}

/* ---- elements ---- */

static void place_in(const random_operand *o, int64_t entry, int64_t row, int64_t column,
                     int64_t at[TDM_MAX_RANK]) {
    const tdm_layout *const l = &o->data.layout;
    at[l->rank - 2] = row;
    at[l->rank - 1] = column;
    for (int d = l->rank - 3, of = o->batch.rank - 1; d >= 0; d--, of--) {
        at[d] = l->shape[d] == 1 ? 0 : entry % o->batch.shape[of];
        entry /= o->batch.shape[of];
    }
}

int64_t random_operand_index(const random_operand *o, int64_t entry, int64_t row, int64_t column) {
    const tdm_layout *const l = &o->data.layout;
    int64_t at[TDM_MAX_RANK], index = 0;
    place_in(o, entry, row, column, at);
    for (int d = 0; d < l->rank; d++)
        index = index * l->shape[d] + at[d];
    return index;
}

double random_operand_get(const random_operand *o, int64_t entry, int64_t row, int64_t column) {
    return test_array_get(&o->data, random_operand_index(o, entry, row, column));
}

static double parameter(const random_operand *o, const test_array *array, int64_t entry,
                        int64_t row, int64_t column) {
    int64_t at[TDM_MAX_RANK], index = 0;
    place_in(o, entry, row, column, at);
    for (int d = 0; d < array->layout.rank; d++)
        index = index * array->layout.shape[d] + (o->block[d] == 0 ? 0 : at[d] / o->block[d]);
    return test_array_get(array, index);
}

double random_operand_scale(const random_operand *o, int64_t entry, int64_t row, int64_t column) {
    return o->scale.tensor == NULL ? 1 : parameter(o, &o->scale, entry, row, column);
}

double random_operand_zero(const random_operand *o, int64_t entry, int64_t row, int64_t column) {
    return o->zero.tensor == NULL ? 0 : parameter(o, &o->zero, entry, row, column);
}

int random_operand_text(const random_operand *o, char *text, size_t size) {
    const tdm_layout *const l = &o->data.layout;
    int used = snprintf(text, size, "%s[", tdm_dtype_name(l->dtype));
    for (int d = 0; d < l->rank; d++)
        used += snprintf(text + used, size - (size_t)used, d > 0 ? ",%lld:%lld" : "%lld:%lld",
                         (long long)l->shape[d], (long long)l->strides[d]);
    used += snprintf(text + used, size - (size_t)used, "]+%lld%s%s", (long long)o->data.offset,
                     o->scale.tensor != NULL ? " scaled" : "",
                     o->zero.tensor != NULL ? " with zero points" : "");
    return used;
}
