/*
 * Random problems against exact sums: floats that hold small integers, integers with parameters,
 * and quantized weights. Each seed draws one problem: strides, offsets, batches, epilogue, variant,
 * packed B and recording.
 *
 * TANDEM_TEST_SEED   run only this seed, of each kind
 * TANDEM_TEST_SEEDS  run this many seeds, from 1
 */
// ctest: device compiled rusticl_in_ci timeout=240 cost=15
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "api/gemm/gemm_internal.h"
#include "tests/support/devices/device_cases.h"
#include "tests/support/gemm/gemm_table.h"
#include "tests/support/gemm/random_gemm.h"
#include "tests/support/test_case.h"

enum {
    SEEDS = 60,
    FEW_SEEDS = 6, /* for slow kernel compilers; the simulator is fast */
    MAX_DRAWS = 4  /* times the number of seeds, while too few problems run */
};

/* ---- running --------------------------------------------------------------------------------- */

static void need(const random_gemm *p, tdm_status status, const char *what) {
    char text[RANDOM_GEMM_TEXT];
    if (status != TDM_OK)
        test_case_fail("%s: %s; %s", what, tdm_last_detail(), random_gemm_text(p, text));
}

/* Returns false if a forced variant does not take the problem. */
static bool make_plan(random_gemm *p) {
    const tdm_status status = tdm_gemm_plan_create(p->device->device, &p->desc, &p->plan);
    if (status == TDM_UNSUPPORTED && p->desc.variant != NULL)
        return false;
    need(p, status, "the plan");
    p->workspace = gemm_workspace(p->device, p->plan);
    return true;
}

/* Packs the same B with a plan that has another M. */
static void pack_by_another(random_gemm *p) {
    static const int64_t lengths[] = {1, 3, 8, 17, 64};
    const int64_t m = RANDOM_OF(&p->random, lengths);
    const int rank = p->batch.rank + 2;
    int64_t shape[TDM_MAX_RANK] = {0};
    tdm_gemm_desc desc = p->desc;
    tdm_gemm_plan *plan = NULL;
    tdm_packed *packed = NULL;
    desc.variant = NULL;
    memcpy(shape, p->batch.shape, sizeof p->batch.shape);
    shape[rank - 2] = desc.transpose_a ? p->k : m;
    shape[rank - 1] = desc.transpose_a ? m : p->k;
    TEST_OK(tdm_layout_contiguous(p->desc.a.dtype, rank, shape, &desc.a));
    shape[rank - 2] = m;
    shape[rank - 1] = p->n;
    TEST_OK(tdm_layout_contiguous(p->desc.d.dtype, rank, shape, &desc.d));
    need(p, tdm_gemm_plan_create(p->device->device, &desc, &plan), "the plan of another M");
    need(p, tdm_gemm_pack_b(plan, p->device->stream, p->b.tensor, &packed), "packing by it");
    if (strcmp(tdm_packed_layout(packed), tdm_packed_layout(p->packed)) == 0) {
        tdm_packed_destroy(p->packed);
        p->packed = packed;
    } else
        tdm_packed_destroy(packed);
    tdm_gemm_plan_destroy(plan);
}

/* Packs B, then overwrites it. */
static void pack(random_gemm *p) {
    need(p, tdm_gemm_pack_b(p->plan, p->device->stream, p->b.tensor, &p->packed), "packing");
    if (p->kind != RANDOM_INTEGERS && !random_gemm_has(&p->c) && !random_gemm_has(&p->residual) &&
        random_chance(&p->random, 50))
        pack_by_another(p);
    gemm_poison(p->device, p->b.data.buffer, p->b.data.bytes);
}

/* Returns false if a forced variant does not take the operands at their offsets. */
static bool launch(random_gemm *p, const tdm_gemm_args *args) {
    const tdm_status status = tdm_gemm_plan_run(p->plan, p->device->stream, args);
    if (status == TDM_UNSUPPORTED && p->desc.variant != NULL &&
        strstr(tdm_last_detail(), "begins") != NULL)
        return false;
    need(p, status, "the run");
    return true;
}

static bool replay(random_gemm *p, const tdm_gemm_args *args) {
    tdm_stream *const stream = p->device->stream;
    tdm_graph *graph = NULL;
    TEST_OK(tdm_stream_synchronize(stream));
    TEST_OK(tdm_stream_begin_recording(stream));
    const bool taken = launch(p, args);
    need(p, tdm_stream_end_recording(stream, &graph), "the end of the recording");
    for (int i = 0; taken && i < 2; i++)
        TEST_OK(tdm_graph_launch(graph, stream));
    TEST_OK(tdm_stream_synchronize(stream));
    tdm_graph_destroy(graph);
    return taken;
}

static bool run(random_gemm *p) {
    tdm_gemm_args args = TDM_GEMM_ARGS_INIT;
    if (p->desc.packed_b)
        pack(p);
    args.a = p->a.tensor;
    args.b = p->packed == NULL ? p->b.tensor : NULL;
    args.packed_b = p->packed;
    args.c = p->c.tensor;
    args.d = p->d.tensor;
    args.residual = p->residual.tensor;
    args.bias = p->bias.tensor;
    args.workspace = p->workspace;
    if (!(p->recorded ? replay(p, &args) : launch(p, &args)))
        return false;
    test_array_fetch(&p->d.data);
    return true;
}

/* ---- expected results ------------------------------------------------------------------------ */

typedef struct place {
    int64_t entry, row, column;
} place;

/*
 * Returns an element of A·B and adds the magnitudes of its terms to *size. The sum includes zero
 * points, but only the scales of weights.
 */
static double sum_of(const random_gemm *p, const place *at, double *size) {
    const bool ta = p->desc.transpose_a, tb = p->desc.transpose_b;
    double sum = 0;
    for (int64_t l = 0; l < p->k; l++) {
        const int64_t ar = ta ? l : at->row, ac = ta ? at->row : l;
        const int64_t br = tb ? at->column : l, bc = tb ? l : at->column;
        double a = random_operand_get(&p->a, at->entry, ar, ac);
        double b = random_operand_get(&p->b, at->entry, br, bc);
        a -= random_operand_zero(&p->a, at->entry, ar, ac);
        b -= random_operand_zero(&p->b, at->entry, br, bc);
        b *= p->kind == RANDOM_WEIGHTS ? random_operand_scale(&p->b, at->entry, br, bc) : 1;
        sum += a * b;
        *size += fabs(a * b);
    }
    return sum;
}

/* Parameters of integer operands do not vary along K. */
static double scales_of(const random_gemm *p, const place *at) {
    if (p->kind != RANDOM_INTEGERS)
        return 1;
    const bool ta = p->desc.transpose_a, tb = p->desc.transpose_b;
    return random_operand_scale(&p->a, at->entry, ta ? 0 : at->row, ta ? at->row : 0) *
           random_operand_scale(&p->b, at->entry, tb ? at->column : 0, tb ? 0 : at->column);
}

static double beta_c(const random_gemm *p, const place *at) {
    if (!random_gemm_has(&p->c))
        return 0;
    return (double)p->desc.beta * random_operand_get(&p->c, at->entry, at->row, at->column);
}

static double bias_of(const random_gemm *p, const place *at) {
    return p->bias.tensor != NULL ? test_array_get(&p->bias, at->column) : 0;
}

/*
 * Sums are far from the limits of s32 here. Scales are powers of two, so the quotient is exact and
 * ties stay ties.
 */
static double expected_code(const random_gemm *p, const place *at) {
    const tdm_dtype dtype = p->d.data.layout.dtype;
    double size = 0;
    const double sum = sum_of(p, at, &size) + beta_c(p, at) + bias_of(p, at);
    if (dtype == TDM_S32)
        return sum;
    const double zero = random_operand_zero(&p->d, at->entry, at->row, at->column);
    const double scale = random_operand_scale(&p->d, at->entry, at->row, at->column);
    double low = (dtype == TDM_S8 ? INT8_MIN : 0) - zero;
    const double high = (dtype == TDM_S8 ? INT8_MAX : UINT8_MAX) - zero;
    if (p->desc.activation == TDM_ACT_RELU && low < 0)
        low = 0;
    const double real = (double)(float)sum * (scales_of(p, at) / scale);
    return zero + rint(real < low ? low : real > high ? high : real);
}

static double expected_float(const random_gemm *p, const place *at, double *tolerance) {
    const tdm_dtype dtype = p->d.data.layout.dtype;
    double size = 0, sum = sum_of(p, at, &size), bias = bias_of(p, at);
    if (p->desc.bias.dtype == TDM_S32) {
        sum += bias;
        bias = 0;
    }
    sum *= scales_of(p, at);
    const double c = beta_c(p, at);
    const double residual = random_gemm_has(&p->residual)
                                ? random_operand_get(&p->residual, at->entry, at->row, at->column)
                                : 0;
    const bool gated = p->desc.gated != 0;
    double value = (double)p->desc.alpha * sum + c + bias + (gated ? 0 : residual);
    if (p->desc.activation == TDM_ACT_RELU && value < 0)
        value = 0;
    size = size * fabs((double)p->desc.alpha) + fabs(c) + fabs(bias);
    size = gated ? size * fabs(residual) : size + fabs(residual);
    value *= gated ? residual : 1;
    *tolerance = p->kind == RANDOM_INTEGERS ? 1e-6 * fabs(gated ? sum * residual : sum) : 0;
    *tolerance += size > 8e6 ? 1e-6 * size : 0;
    *tolerance += dtype == TDM_F16 ? 6e-4 * fabs(value) + 1e-6 : 0;
    *tolerance += dtype == TDM_BF16 ? 5e-3 * fabs(value) + 1e-6 : 0;
    return value;
}

static void expect_element(const random_gemm *p, const place *at) {
    const tdm_dtype dtype = p->d.data.layout.dtype;
    char text[RANDOM_GEMM_TEXT];
    double tolerance = 0;
    const double expected =
        random_gemm_is_float(dtype) ? expected_float(p, at, &tolerance) : expected_code(p, at);
    const int64_t index = random_operand_index(&p->d, at->entry, at->row, at->column);
    const double got = test_array_fetched(&p->d.data, index);
    if (dtype == TDM_F16 && fabs(expected) > 65000)
        return;
    if (!(fabs(got - expected) <= tolerance))
        test_case_fail("entry %lld, row %lld, column %lld is %.9g and not %.9g by %s; %s",
                       (long long)at->entry, (long long)at->row, (long long)at->column, got,
                       expected, tdm_gemm_plan_variant(p->plan), random_gemm_text(p, text));
}

static void expect_result(const random_gemm *p) {
    for (int64_t e = 0; e < p->entries; e++)
        for (int64_t i = 0; i < p->m; i++)
            for (int64_t j = 0; j < p->n; j++)
                expect_element(p, &(place){e, i, j});
}

/* ---- cases ----------------------------------------------------------------------------------- */

/* Returns true unless the forced variant refused the problem. */
static bool run_seed(const test_device *device, random_gemm_kind kind, uint64_t seed) {
    random_gemm p;
    random_gemm_draw(&p, device, kind, seed);
    const bool ran = make_plan(&p) && run(&p);
    if (ran)
        expect_result(&p);
    random_gemm_drop(&p);
    return ran;
}

static int count_seeds(const test_device *device) {
    const char *const count = getenv("TANDEM_TEST_SEEDS");
    if (count != NULL)
        return (int)strtol(count, NULL, 10);
    return test_is_small() && strcmp(device->info.backend, "opencl") == 0 ? FEW_SEEDS : SEEDS;
}

static void run_seeds(const test_device *device, random_gemm_kind kind) {
    const char *const one = getenv("TANDEM_TEST_SEED");
    const int seeds = count_seeds(device);
    int ran = 0;
    if (one != NULL) {
        run_seed(device, kind, strtoull(one, NULL, 10));
        return;
    }
    /* Variants may refuse most of a few seeds, so more are drawn until a third of `seeds` ran. */
    int drawn = 0;
    while (drawn < seeds || (ran < seeds / 3 && drawn < MAX_DRAWS * seeds))
        ran += run_seed(device, kind, (uint64_t)++drawn);
    if (ran < seeds / 3)
        test_case_fail("%d of %d problems ran", ran, drawn);
}

DEVICE_TEST(floats) {
    run_seeds(device, RANDOM_FLOATS);
}

DEVICE_TEST(integers) {
    run_seeds(device, RANDOM_INTEGERS);
}

DEVICE_TEST(weights) {
    run_seeds(device, RANDOM_WEIGHTS);
}

TEST_MAIN(test_devices_setup, test_devices_teardown)
