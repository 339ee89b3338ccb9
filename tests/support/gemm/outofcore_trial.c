#include "tests/support/gemm/outofcore_trial.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "quant/number_formats.h"
#include "tests/support/gemm/gemm_table.h"

enum {
    A,
    B,
    C,
    RESIDUAL,
    D
};

/*
 * This tolerance for a float D applies if K is split. It is a share of the largest element, for
 * sums over a few thousand steps.
 */
#define CUT_TOLERANCE 1e-5

const tdm_outofcore_rates outofcore_trial_rates = {.in_bytes_per_s = 1e9,
                                                   .out_bytes_per_s = 1e9,
                                                   .operations_per_s = 1e10,
                                                   .step_s = 1e-6,
                                                   .overlap = 1};

static const char *dash(tdm_dtype dtype) {
    return dtype == TDM_DTYPE_NONE ? "-" : tdm_dtype_name(dtype);
}

const char *outofcore_trial_text(const outofcore_trial *t, char text[512]) {
    static const char *const spreads[] = {"none", "one", "each", "groups"};
    size_t used = (size_t)snprintf(
        text, 512,
        "%s*%s>%s m%lld n%lld k%lld %c%c alpha %g beta %g C %s%s residual %s%s bias %s act %d "
        "quant "
        "%s %s %s%s%s device %u budget %g tile %lldx%lld buffers %d batch",
        dash(t->a), dash(t->b), dash(t->d), (long long)t->m, (long long)t->n, (long long)t->k,
        t->transpose_a ? 't' : 'n', t->transpose_b ? 't' : 'n', (double)t->alpha, (double)t->beta,
        dash(t->c), t->c_is_d ? "=D" : "", dash(t->residual), t->gated ? " gated" : "",
        dash(t->bias), (int)t->activation, spreads[t->a_quant], spreads[t->b_quant],
        spreads[t->d_quant], t->zero_points ? "+zero" : "", t->quantize_a ? " dynamic" : "",
        t->on_device, t->budget, (long long)t->tile_rows, (long long)t->tile_columns, t->buffers);
    for (int i = 0; i < t->batch_rank; i++)
        used += (size_t)snprintf(text + used, 512 - used, " %lld", (long long)t->batch[i]);
    for (int i = 0; i < OUTOFCORE_MATRICES; i++)
        used += (size_t)snprintf(text + used, 512 - used, " %c:%s/%u", "ABCRD"[i],
                                 test_placement_name(t->place[i]), t -> shared[i]);
    return text;
}

/* ---- memory ---- */

/* This is an array in host memory, with its layout and its copy on the device. */
typedef struct mirrored {
    tdm_layout layout; /* TDM_DTYPE_NONE: the operand is absent */
    size_t bytes;
    unsigned char *host;
    tdm_buffer *buffer;
    tdm_tensor *tensor;
} mirrored;

typedef struct carrier {
    mirrored data, scale, zero;
    tdm_quant_layout quant;
    tdm_tensor *tensor; /* the data, with quantization parameters */
} carrier;

struct outofcore_operands {
    const test_device *device;
    const outofcore_trial *trial;
    carrier matrix[OUTOFCORE_MATRICES];
    mirrored bias;
    unsigned char *d_before, *d_expected;
};

static size_t extent_bytes(const tdm_layout *layout) {
    const tdm_dtype_traits *const traits = tdm_dtype_info(layout->dtype);
    int64_t last = 0;
    for (int i = 0; i < layout->rank; i++) {
        if (layout->shape[i] == 0)
            return 0;
        last += (layout->shape[i] - 1) * layout->strides[i];
    }
    const int64_t units = (last + traits->elements_per_unit) / traits->elements_per_unit;
    return (size_t)units * (size_t)traits->unit_bytes;
}

static void send(const test_device *device, const mirrored *t) {
    if (t->bytes > 0)
        TEST_OK(tdm_buffer_write(device->stream, t->buffer, 0, t->host, t->bytes));
    TEST_OK(tdm_stream_synchronize(device->stream));
}

static void create_mirrored(const test_device *device, mirrored *t) {
    t->bytes = extent_bytes(&t->layout);
    t->host = malloc(t->bytes + (t->bytes == 0));
    memset(t->host, 0xff, t->bytes);
    TEST_OK(tdm_buffer_create(device->device, t->bytes, &t->buffer));
    TEST_OK(tdm_tensor_on_buffer(t->buffer, 0, &t->layout, &t->tensor));
}

static void fill_mirrored(mirrored *t, uint64_t seed) {
    const tdm_dtype dtype = t->layout.dtype;
    const size_t unit = dtype == TDM_S4 ? 1 : extent_bytes(&(tdm_layout){.dtype = dtype});
    test_data_fill(dtype == TDM_S4 ? TDM_U8 : dtype, t->host, t->bytes / unit, TEST_DATA_UNIT,
                   seed);
}

static void destroy_mirrored(mirrored *t) {
    tdm_tensor_destroy(t->tensor);
    tdm_buffer_destroy(t->buffer);
    free(t->host);
}

/* ---- quantization parameters ---- */

static void fill_scale(mirrored *t, uint64_t seed) {
    test_random random = {seed};
    for (size_t i = 0; i < t->bytes / sizeof(float); i++) {
        const float scale = (float)test_random_uniform(&random, 0.01, 0.05);
        memcpy(t->host + i * sizeof scale, &scale, sizeof scale);
    }
}

static void fill_zero(mirrored *t, tdm_dtype data, uint64_t seed) {
    test_random random = {seed};
    for (size_t i = 0; i < t->bytes / sizeof(int32_t); i++) {
        const int32_t zero = (int32_t)(data == TDM_U8   ? test_random_int(&random, 0, 255)
                                       : data == TDM_S4 ? test_random_int(&random, -8, 7)
                                                        : test_random_int(&random, -100, 100));
        memcpy(t->host + i * sizeof zero, &zero, sizeof zero);
    }
}

/*
 * Creates quantization parameters. They vary along the rows of op(A), or along the columns of op(B)
 * and D. Those of A and B also vary along the batch. With OUTOFCORE_ONE there is a single
 * parameter.
 */
static void create_parameters(const test_device *device, const outofcore_trial *t, int which,
                              outofcore_spread spread, carrier *c) {
    const tdm_layout *const data = &c->data.layout;
    const int flipped = (which == A && t->transpose_a) || (which == B && t->transpose_b);
    const int first = data->rank - (flipped ? 1 : 2), second = data->rank - (flipped ? 2 : 1);
    int64_t shape[TDM_MAX_RANK];
    for (int i = 0; i < data->rank - 2; i++) {
        shape[i] = spread == OUTOFCORE_ONE || which == D ? 1 : data->shape[i];
        c->quant.block[i] = shape[i] > 1 ? 1 : 0;
    }
    const int varies = which == A ? first : second, other = which == A ? second : first;
    shape[varies] = spread == OUTOFCORE_ONE ? 1 : data->shape[varies];
    c->quant.block[varies] = spread == OUTOFCORE_ONE ? 0 : 1;
    shape[other] = spread == OUTOFCORE_GROUPS ? (data->shape[other] + t->group - 1) / t->group : 1;
    c->quant.block[other] = spread == OUTOFCORE_GROUPS ? t->group : 0;
    TEST_OK(tdm_layout_contiguous(TDM_F32, data->rank, shape, &c->scale.layout));
    create_mirrored(device, &c->scale);
    fill_scale(&c->scale, t->seed + 100 + (uint64_t)which);
    send(device, &c->scale);
    c->quant.scale = c->scale.layout;
    if (t->zero_points) {
        TEST_OK(tdm_layout_contiguous(TDM_S32, data->rank, shape, &c->zero.layout));
        create_mirrored(device, &c->zero);
        fill_zero(&c->zero, data->dtype, t->seed + 200 + (uint64_t)which);
        send(device, &c->zero);
        c->quant.zero_point = c->zero.layout;
    }
    tdm_quantization quantization = TDM_QUANTIZATION_INIT;
    memcpy(quantization.block, c->quant.block, sizeof quantization.block);
    quantization.scale = c->scale.tensor;
    quantization.zero_point = c->zero.tensor;
    TEST_OK(tdm_tensor_quantized(c->data.tensor, &quantization, &c->tensor));
}

/* ---- operands ---- */

static void create_matrix(outofcore_operands *o, int which, tdm_dtype dtype,
                          outofcore_spread spread) {
    const outofcore_trial *const t = o->trial;
    carrier *const c = &o->matrix[which];
    int64_t shape[TDM_MAX_RANK], rows = which == B ? t->k : t->m,
                                 columns = which == A ? t->k : t->n;
    const int flipped = (which == A && t->transpose_a) || (which == B && t->transpose_b);
    if (dtype == TDM_DTYPE_NONE)
        return;
    for (int i = 0; i < t->batch_rank; i++)
        shape[i] = t->shared[which] >> i & 1u ? 1 : t->batch[i];
    shape[t->batch_rank] = flipped ? columns : rows;
    shape[t->batch_rank + 1] = flipped ? rows : columns;
    test_layout_place(&c->data.layout, dtype, t->batch_rank + 2, shape, t->place[which]);
    create_mirrored(o->device, &c->data);
    const int read = which == D ? t->c_is_d && t->beta != 0 : which != C || t->beta != 0;
    if (read)
        fill_mirrored(&c->data, t->seed + (uint64_t)which);
    send(o->device, &c->data);
    if (spread != OUTOFCORE_NONE)
        create_parameters(o->device, t, which, spread, c);
}

static const tdm_tensor *tensor_of(const outofcore_operands *o, int which) {
    const carrier *const c = &o->matrix[which == C && o->trial->c_is_d ? D : which];
    return c->tensor ? c->tensor : c->data.tensor;
}

static tdm_layout layout_of(const outofcore_operands *o, int which) {
    return o->matrix[which == C && o->trial->c_is_d ? D : which].data.layout;
}

static void describe_gemm(const outofcore_operands *o, tdm_gemm_desc *desc) {
    const outofcore_trial *const t = o->trial;
    desc->a = layout_of(o, A);
    desc->b = layout_of(o, B);
    desc->c = layout_of(o, C);
    desc->d = layout_of(o, D);
    desc->residual = layout_of(o, RESIDUAL);
    desc->bias = o->bias.layout;
    desc->a_quant = o->matrix[A].quant;
    desc->b_quant = o->matrix[B].quant;
    desc->d_quant = o->matrix[D].quant;
    desc->transpose_a = t->transpose_a;
    desc->transpose_b = t->transpose_b;
    desc->alpha = t->alpha;
    desc->beta = t->beta;
    desc->activation = t->activation;
    desc->gated = t->gated;
    desc->quantize_a = t->quantize_a;
    desc->variant = t->variant;
}

/* Computes the expected D with all operands on the device. */
static void run_in_core(outofcore_operands *o) {
    const test_device *const device = o->device;
    const mirrored *const d = &o->matrix[D].data;
    tdm_gemm_desc desc = TDM_GEMM_DESC_INIT;
    tdm_gemm_args args = TDM_GEMM_ARGS_INIT;
    tdm_gemm_plan *plan = NULL;
    describe_gemm(o, &desc);
    TEST_OK(tdm_gemm_plan_create(device->device, &desc, &plan));
    tdm_buffer *const workspace = gemm_workspace(device, plan);
    args.a = tensor_of(o, A);
    args.b = tensor_of(o, B);
    args.c = tensor_of(o, C);
    args.residual = tensor_of(o, RESIDUAL);
    args.bias = o->bias.tensor;
    args.d = (tdm_tensor *)(uintptr_t)tensor_of(o, D);
    args.workspace = workspace;
    TEST_OK(tdm_gemm_plan_run(plan, device->stream, &args));
    if (d->bytes > 0)
        TEST_OK(tdm_buffer_read(device->stream, d->buffer, 0, o->d_expected, d->bytes));
    TEST_OK(tdm_stream_synchronize(device->stream));
    tdm_buffer_destroy(workspace);
    tdm_gemm_plan_destroy(plan);
}

outofcore_operands *outofcore_operands_create(const test_device *device, const outofcore_trial *t) {
    outofcore_operands *const o = calloc(1, sizeof *o);
    o->device = device;
    o->trial = t;
    create_matrix(o, A, t->a, t->a_quant);
    create_matrix(o, B, t->b, t->b_quant);
    create_matrix(o, C, t->c_is_d ? TDM_DTYPE_NONE : t->c, OUTOFCORE_NONE);
    create_matrix(o, RESIDUAL, t->residual, OUTOFCORE_NONE);
    create_matrix(o, D, t->d, t->d_quant);
    if (t->bias != TDM_DTYPE_NONE) {
        TEST_OK(tdm_layout_contiguous(t->bias, 1, &t->n, &o->bias.layout));
        create_mirrored(device, &o->bias);
        fill_mirrored(&o->bias, t->seed + 50);
        if (t->bias == TDM_S32) // keep the sums near the range of the quantized values
            for (size_t i = 0; i < o->bias.bytes; i += 4)
                memset(o->bias.host + i + 2, 0, 2);
        send(device, &o->bias);
    }
    const size_t bytes = o->matrix[D].data.bytes;
    o->d_before = malloc(bytes + 1);
    o->d_expected = malloc(bytes + 1);
    memcpy(o->d_before, o->matrix[D].data.host, bytes);
    run_in_core(o);
    outofcore_operands_reset(o);
    return o;
}

void outofcore_operands_destroy(outofcore_operands *o) {
    for (int i = 0; i < OUTOFCORE_MATRICES; i++) {
        tdm_tensor_destroy(o->matrix[i].tensor);
        destroy_mirrored(&o->matrix[i].data);
        destroy_mirrored(&o->matrix[i].scale);
        destroy_mirrored(&o->matrix[i].zero);
    }
    destroy_mirrored(&o->bias);
    free(o->d_before);
    free(o->d_expected);
    free(o);
}

uint64_t outofcore_operands_bytes(const outofcore_operands *o) {
    uint64_t bytes = 0;
    for (int i = 0; i < OUTOFCORE_MATRICES; i++)
        bytes += o->matrix[i].data.bytes;
    return bytes;
}

void outofcore_operands_describe(const outofcore_operands *o, tdm_outofcore_desc *desc) {
    const outofcore_trial *const t = o->trial;
    *desc = (tdm_outofcore_desc)TDM_OUTOFCORE_DESC_INIT;
    describe_gemm(o, &desc->gemm);
    desc->on_device = t->on_device;
    desc->tile_rows = t->tile_rows;
    desc->tile_columns = t->tile_columns;
    desc->buffers = t->buffers;
    desc->measure = t->measure;
    desc->whole_k = !t->cuts_k;
    desc->rates = outofcore_trial_rates;
    desc->budget_bytes = (uint64_t)(t->budget * (double)outofcore_operands_bytes(o)) + 1;
}

static void give(const outofcore_operands *o, int which, unsigned bit,
                 tdm_outofcore_source *source) {
    const carrier *const c = &o->matrix[which == C && o->trial->c_is_d ? D : which];
    if (which == C && o->trial->beta == 0)
        return; // C is not read
    if (o->trial->on_device & bit) {
        source->tensor = tensor_of(o, which);
        return;
    }
    source->memory = c->data.host;
    source->bytes = c->data.bytes;
    source->scale = c->scale.host;
    source->scale_bytes = c->scale.bytes;
    source->zero_point = c->zero.host;
    source->zero_point_bytes = c->zero.bytes;
}

void outofcore_operands_args(const outofcore_operands *o, tdm_outofcore_args *args) {
    *args = (tdm_outofcore_args)TDM_OUTOFCORE_ARGS_INIT;
    give(o, A, TDM_OUTOFCORE_A, &args->a);
    give(o, B, TDM_OUTOFCORE_B, &args->b);
    give(o, C, TDM_OUTOFCORE_C, &args->c);
    give(o, RESIDUAL, TDM_OUTOFCORE_RESIDUAL, &args->residual);
    give(o, D, TDM_OUTOFCORE_D, &args->d);
    if (o->trial->on_device & TDM_OUTOFCORE_BIAS) {
        args->bias.tensor = o->bias.tensor;
    } else {
        args->bias.memory = o->bias.host;
        args->bias.bytes = o->bias.bytes;
    }
    if (o->trial->on_device & TDM_OUTOFCORE_D)
        return;
    args->d.memory = NULL;
    args->d.bytes = 0;
    args->d_memory = o->matrix[D].data.host;
    args->d_bytes = o->matrix[D].data.bytes;
}

void outofcore_operands_reset(outofcore_operands *o) {
    memcpy(o->matrix[D].data.host, o->d_before, o->matrix[D].data.bytes);
    send(o->device, &o->matrix[D].data);
}

/* Decodes a number of type f32, f16 or bf16. */
static double number_of(tdm_dtype dtype, const unsigned char *bytes) {
    uint16_t half;
    float value;
    if (dtype == TDM_F32) {
        memcpy(&value, bytes, sizeof value);
        return (double)value;
    }
    memcpy(&half, bytes, sizeof half);
    return (double)(dtype == TDM_F16 ? tdm_f32_from_f16(half) : tdm_f32_from_bf16(half));
}

/*
 * Compares D with the in-core result. The tolerance is a few units in the last place, plus a share
 * of the largest element. Vectorized exponentials can differ from scalar ones in the last bit. D's
 * layout and width determine which elements are in a vector.
 */
static void check_nearly(const outofcore_operands *o, double share_of_largest) {
    const mirrored *const d = &o->matrix[D].data;
    const tdm_dtype dtype = d->layout.dtype;
    const size_t unit = dtype == TDM_F32 ? 4 : 2;
    const double tolerance = dtype == TDM_F32 ? 0x1p-20 : dtype == TDM_F16 ? 0x1p-10 : 0x1p-7;
    double largest = 0;
    for (size_t i = 0; i < d->bytes; i += unit) {
        const double size = fabs(number_of(dtype, o->d_expected + i));
        largest = size > largest ? size : largest; // NaNs fill the gaps between elements
    }
    for (size_t i = 0; i < d->bytes; i += unit) {
        if (memcmp(d->host + i, o->d_expected + i, unit) == 0)
            continue;
        const double got = number_of(dtype, d->host + i),
                     expected = number_of(dtype, o->d_expected + i);
        if (!(fabs(got - expected) <=
              tolerance * (fabs(expected) + 0x1p-4) + share_of_largest * largest))
            test_case_fail("element %zu of D is %.9g, in core %.9g", i / unit, got, expected);
    }
}

void outofcore_operands_check(outofcore_operands *o) {
    const mirrored *const d = &o->matrix[D].data;
    TEST_OK(tdm_stream_synchronize(o->device->stream));
    if ((o->trial->on_device & TDM_OUTOFCORE_D) && d->bytes > 0) {
        TEST_OK(tdm_buffer_read(o->device->stream, d->buffer, 0, d->host, d->bytes));
        TEST_OK(tdm_stream_synchronize(o->device->stream));
    }
    if (o->trial->activation > TDM_ACT_RELU) {
        check_nearly(o, 0);
        return;
    }
    if (o->trial->cuts_k &&
        (d->layout.dtype == TDM_F32 || d->layout.dtype == TDM_F16 || d->layout.dtype == TDM_BF16)) {
        check_nearly(o, CUT_TOLERANCE);
        return;
    }
    size_t wrong = 0, first = 0;
    for (size_t i = 0; i < d->bytes; i++)
        if (d->host[i] != o->d_expected[i] && wrong++ == 0)
            first = i;
    if (wrong > 0)
        test_case_fail("%zu of %zu bytes of D differ from those in core, the first at %zu", wrong,
                       d->bytes, first);
}

/* ---- the trial ---- */

uint64_t outofcore_least_budget(const test_device *device, tdm_outofcore_desc desc) {
    static const char before[] = "the smallest tile needs ";
    for (desc.budget_bytes = 1;;) {
        tdm_outofcore_plan *plan = NULL;
        const tdm_status status = tdm_outofcore_plan_create(device->device, &desc, &plan);
        tdm_outofcore_plan_destroy(plan);
        if (status == TDM_OK)
            return desc.budget_bytes;
        const char *const text = strstr(tdm_last_detail(), before);
        const uint64_t needed = text ? strtoull(text + sizeof before - 1, NULL, 10) : 0;
        if (status != TDM_OVER_BUDGET || needed <= desc.budget_bytes)
            test_case_fail("a budget of %llu: %s", (unsigned long long)desc.budget_bytes,
                           tdm_last_detail());
        desc.budget_bytes = needed;
    }
}

void outofcore_trial_run(const test_device *device, const outofcore_trial *trial) {
    outofcore_operands *const o = outofcore_operands_create(device, trial);
    tdm_outofcore_desc desc;
    tdm_outofcore_args args;
    tdm_outofcore_plan *plan = NULL;
    tdm_outofcore_info info = {.struct_size = sizeof info};
    tdm_memory_stats before = {.struct_size = sizeof before}, after = before;
    outofcore_operands_describe(o, &desc);
    outofcore_operands_args(o, &args);
    const uint64_t least = outofcore_least_budget(device, desc);
    if (desc.budget_bytes < least)
        desc.budget_bytes = least;
    TEST_OK(tdm_device_memory_stats(device->device, &before));
    TEST_OK(tdm_outofcore_plan_create(device->device, &desc, &plan));
    TEST_OK(tdm_device_memory_stats(device->device, &after));
    TEST_OK(tdm_outofcore_plan_describe(plan, &info));
    if (after.requested - before.requested > desc.budget_bytes ||
        info.device_bytes > desc.budget_bytes)
        test_case_fail("%llu bytes are allocated, %llu described, of a budget of %llu",
                       (unsigned long long)(after.requested - before.requested),
                       (unsigned long long)info.device_bytes,
                       (unsigned long long)desc.budget_bytes);
    TEST_OK(tdm_outofcore_plan_run(plan, device->stream, &args));
    outofcore_operands_check(o);
    if (!trial->c_is_d || trial->beta == 0) { // D is not an input, so the plan can run again
        outofcore_operands_reset(o);
        TEST_OK(tdm_outofcore_plan_run(plan, device->stream, &args));
        TEST_OK(tdm_outofcore_plan_run(plan, device->stream, &args));
        outofcore_operands_check(o);
    }
    tdm_outofcore_plan_destroy(plan);
    outofcore_operands_destroy(o);
}
