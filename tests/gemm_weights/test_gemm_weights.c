/*
 * The tests check which plans packed weights serve and which refuse them, and the packing kernels.
 */
// ctest: device kernels=gemm cost=10
#include <string.h>

#include "api/gemm/gemm_internal.h"
#include "tests/support/devices/device_cases.h"
#include "tests/support/devices/variant_cases.h"
#include "tests/support/gemm/gemm_table.h"
#include "tests/support/test_case.h"

/* These are the batch dimensions of A and D; those of B are always packed_batch. */
typedef struct batching {
    int rank;
    int64_t a[3], d[3];
} batching;

static const int64_t packed_batch[2] = {3, 2};

static tdm_dtype type_or_f32(const tdm_variant *row, int parameter) {
    return row && row->parameters[parameter] != 0 ? (tdm_dtype)row->parameters[parameter] : TDM_F32;
}

/* True for variants with tensor maps, which need rows in multiples of 16 bytes and no empty D. */
static bool takes_boxes(const tdm_variant *row) {
    return row && row->parameters[TDM_GEMM_P_FAMILY] == TDM_GEMM_WGMMA;
}

/*
 * Describes a batched GEMM with packed B, in types that the variant takes. It is m×6 by 6×5, or m×8
 * by 8×8 for tensor maps. The variant is forced unless it is NULL or does not take such a D.
 */
static tdm_gemm_desc batched_desc(const batching *batch, int64_t m, const tdm_variant *row) {
    tdm_gemm_desc desc = TDM_GEMM_DESC_INIT;
    const tdm_dtype a_type = type_or_f32(row, TDM_GEMM_P_A_TYPE);
    const tdm_dtype b_type = type_or_f32(row, TDM_GEMM_P_B_TYPE);
    const int64_t k = takes_boxes(row) ? 8 : 6, n = takes_boxes(row) ? 8 : 5;
    int64_t a[5], d[5];
    for (int i = 0; i < batch->rank; i++) {
        a[i] = batch->a[i];
        d[i] = batch->d[i];
    }
    a[batch->rank] = d[batch->rank] = m;
    a[batch->rank + 1] = k;
    d[batch->rank + 1] = n;
    const int64_t b[4] = {packed_batch[0], packed_batch[1], k, n};
    TEST_OK(tdm_layout_contiguous(a_type, batch->rank + 2, a, &desc.a));
    TEST_OK(tdm_layout_contiguous(b_type, 4, b, &desc.b));
    TEST_OK(tdm_layout_contiguous(TDM_F32, batch->rank + 2, d, &desc.d));
    desc.packed_b = 1;
    const bool forced = row && !(takes_boxes(row) && tdm_layout_elements(&desc.d) == 0);
    desc.variant = forced ? row->name : NULL;
    desc.allow_3xtf32 = row && tdm_gemm_is_3xtf32(row);
    return desc;
}

static void expect_batched_product(gemm_table *t, const batching *batch) {
    const int64_t m = t->d.layout.shape[batch->rank];
    const int64_t k = t->b.layout.shape[2], n = t->b.layout.shape[3];
    int64_t entries = 1;
    for (int i = 0; i < batch->rank; i++)
        entries *= batch->d[i];
    test_array_fetch(&t->d);
    for (int64_t e = 0; e < entries; e++) {
        int64_t a_entry = 0, step = 1, rest = e;
        for (int i = batch->rank - 1; i >= 0; i--) {
            a_entry += batch->a[i] == 1 ? 0 : rest % batch->d[i] * step;
            step *= batch->a[i];
            rest /= batch->d[i];
        }
        const int64_t b_entry = e % (packed_batch[0] * packed_batch[1]);
        for (int64_t i = 0; i < m * n; i++) {
            double sum = 0;
            for (int64_t p = 0; p < k; p++)
                sum += test_array_get(&t->a, (a_entry * m + i / n) * k + p) *
                       test_array_get(&t->b, (b_entry * k + p) * n + i % n);
            const double got = test_array_fetched(&t->d, e * m * n + i);
            if (got != sum)
                test_case_fail("D[%d], element %d is %g, must be %g", (int)e, (int)i, got, sum);
        }
    }
}

/* Packs B with the plan of one description and runs the plan of another with it. */
static void share_packed(const test_device *device, const tdm_gemm_desc *packer,
                         const batching *batch, const tdm_variant *row) {
    const tdm_gemm_desc desc = batched_desc(batch, 3, row);
    tdm_gemm_plan *plan = NULL;
    tdm_packed *packed = NULL;
    gemm_table t;
    // Each run has other weights, so that results from memory of an earlier run are wrong.
    static uint64_t seed = 100;
    gemm_table_lay(&t, device, &desc);
    test_array_fill(&t.b, TEST_DATA_SMALL_INTEGER, seed++);
    TEST_OK(tdm_gemm_plan_create(device->device, packer, &plan));
    TEST_OK(tdm_gemm_pack_b(plan, device->stream, t.b.tensor, &packed));
    t.args.b = NULL;
    t.args.packed_b = packed;
    TEST_OK(tdm_gemm_plan_run(t.plan, device->stream, &t.args));
    expect_batched_product(&t, batch);
    tdm_packed_destroy(packed);
    tdm_gemm_plan_destroy(plan);
    gemm_table_clear(&t);
}

/*
 * The z dimension of the launch is the first, the second or the third batch dimension, or all of
 * them merged.
 */
static const batching batchings[] = {
    {3, {4, 1, 2}, {4, 3, 2}}, {2, {1, 2}, {3, 2}}, {3, {1, 3, 1}, {1, 3, 2}}, {2, {3, 2}, {3, 2}}};
#define BATCHINGS (sizeof batchings / sizeof *batchings)

/*
 * Packs with the plan of each batching, with m rows in D, and runs the plan of every batching. Slow
 * implementations pack only with the plan of the next batching.
 */
static void share_in_any_order(const test_device *device, const tdm_variant *row, int64_t m) {
    const size_t packers = test_is_small() ? 1 : BATCHINGS;
    for (size_t to = 0; to < BATCHINGS; to++)
        for (size_t i = 1; i <= packers && (!row || test_part_is_due(device, row, (int)to)); i++) {
            const tdm_gemm_desc packer = batched_desc(&batchings[(to + i) % BATCHINGS], m, row);
            share_packed(device, &packer, &batchings[to], row);
        }
}

static void pack_with_rows(const test_device *device, const tdm_variant *row) {
    share_in_any_order(device, row, 3);
}

/* D of the packing plan is empty, but B is not. */
static void pack_without_rows(const test_device *device, const tdm_variant *row) {
    static const batching none = {3, {0, 1, 1}, {0, 3, 2}};
    const tdm_gemm_desc packer = batched_desc(&none, 3, row);
    share_in_any_order(device, row, 0);
    for (size_t to = 0; to < BATCHINGS; to++)
        if (test_part_is_due(device, row, (int)to + 1))
            share_packed(device, &packer, &batchings[to], row);
}

DEVICE_TEST(packed_weights_serve_chosen_plans_with_any_order_of_batches) {
    pack_with_rows(device, NULL);
}

TEST(packed_weights_serve_plans_with_any_order_of_batches) {
    test_case_of_each_variant(TDM_OP_GEMM, "packed_weights_serve_plans_with_any_order_of_batches",
                              pack_with_rows);
}

TEST(weights_are_packed_by_plans_without_rows) {
    test_case_of_each_variant(TDM_OP_GEMM, "weights_are_packed_by_plans_without_rows",
                              pack_without_rows);
}

/* Batch extents of B; all entries share the plan's A. */
typedef struct weights_batch {
    int rank;
    int64_t shape[3];
} weights_batch;

static tdm_gemm_desc weights_desc(const weights_batch *batch) {
    tdm_gemm_desc desc = gemm_small_desc();
    int64_t b[5] = {0}, d[5] = {0};
    memcpy(b, batch->shape, sizeof batch->shape);
    memcpy(d, batch->shape, sizeof batch->shape);
    b[batch->rank] = 6;
    d[batch->rank] = 4;
    b[batch->rank + 1] = d[batch->rank + 1] = 5;
    TEST_OK(tdm_layout_contiguous(TDM_F32, batch->rank + 2, b, &desc.b));
    TEST_OK(tdm_layout_contiguous(TDM_F32, batch->rank + 2, d, &desc.d));
    return desc;
}

/* Batch dimensions are compared, not the number of matrices. Extents of 1 do not count. */
DEVICE_TEST(packed_weights_of_another_batch_are_refused) {
    static const struct {
        weights_batch packed, plan;
        const char *detail; /* NULL: accepted */
    } rows[] = {
        {{2, {2, 2}}, {1, {4}}, "gemm: packed_b has batch shape [2, 2] but B in the plan has [4]"},
        {{1, {4}}, {2, {2, 2}}, "gemm: packed_b has batch shape [4] but B in the plan has [2, 2]"},
        {{2, {3, 2}},
         {2, {2, 3}},
         "gemm: packed_b has batch shape [3, 2] but B in the plan has [2, 3]"},
        {{1, {4}}, {0}, "gemm: packed_b has batch shape [4] but B in the plan has []"},
        {{0}, {1, {4}}, "gemm: packed_b has batch shape [] but B in the plan has [4]"},
        {{1, {4}}, {2, {1, 4}}, NULL},
        {{3, {2, 1, 2}}, {2, {2, 2}}, NULL},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        tdm_gemm_desc packing = weights_desc(&rows[i].packed), desc = weights_desc(&rows[i].plan);
        packing.packed_b = desc.packed_b = 1;
        tdm_gemm_plan *plan = NULL;
        tdm_packed *packed = NULL;
        test_array weights;
        gemm_table t;
        gemm_table_lay(&t, device, &desc);
        test_array_create_layout(&weights, device, &packing.b, 0);
        test_array_fill(&weights, TEST_DATA_SMALL_INTEGER, 2);
        TEST_OK(tdm_gemm_plan_create(device->device, &packing, &plan));
        TEST_OK(tdm_gemm_pack_b(plan, device->stream, weights.tensor, &packed));
        t.args.b = NULL;
        t.args.packed_b = packed;
        if (rows[i].detail) {
            TEST_REFUSED(tdm_gemm_plan_run(t.plan, device->stream, &t.args), TDM_BAD_SHAPE,
                         rows[i].detail);
            test_array_expect_unchanged(&t.d);
        } else {
            TEST_OK(tdm_gemm_plan_run(t.plan, device->stream, &t.args));
            batching batch = {.rank = rows[i].plan.rank, .a = {1, 1, 1}};
            memcpy(batch.d, rows[i].plan.shape, sizeof batch.d);
            expect_batched_product(&t, &batch);
        }
        tdm_packed_destroy(packed);
        tdm_gemm_plan_destroy(plan);
        test_array_destroy(&weights);
        gemm_table_clear(&t);
    }
}

/* Packing an empty B is no error, and runs give the results of unpacked weights. */
DEVICE_TEST(empty_weights_are_packed) {
    static const int64_t shapes[][2] = {{0, 5}, {6, 0}, {0, 0}}; /* K, N */
    static const char *const variants[] = {NULL, "gemm_any_reference"};
    for (int i = 0; i < 6; i++) {
        const int64_t *const kn = shapes[i / 2];
        tdm_gemm_desc desc = TDM_GEMM_DESC_INIT;
        TEST_OK(tdm_layout_contiguous(TDM_F32, 2, (const int64_t[]){4, kn[0]}, &desc.a));
        TEST_OK(tdm_layout_contiguous(TDM_F32, 2, kn, &desc.b));
        TEST_OK(tdm_layout_contiguous(TDM_F32, 2, (const int64_t[]){4, kn[1]}, &desc.d));
        desc.packed_b = 1;
        desc.variant = variants[i % 2];
        tdm_packed *packed = NULL;
        gemm_table t;
        gemm_table_lay(&t, device, &desc);
        TEST_OK(tdm_gemm_pack_b(t.plan, device->stream, t.b.tensor, &packed));
        t.args.b = NULL;
        t.args.packed_b = packed;
        TEST_OK(tdm_gemm_plan_run(t.plan, device->stream, &t.args));
        gemm_table_expect_product(&t);
        tdm_packed_destroy(packed);
        gemm_table_clear(&t);
    }
}

/* The batch is empty. Packing takes every stride that the call takes, also 0, and reads nothing. */
DEVICE_TEST(weights_of_an_empty_batch_are_packed) {
    static const struct {
        int rank; /* of B */
        int64_t shape[4], strides[4];
    } batches[] = {
        {3, {0, 6, 5}, {30, 5, 1}},        {3, {0, 6, 5}, {0, 5, 1}},
        {4, {0, 2, 6, 5}, {0, 30, 5, 1}},  {4, {0, 2, 6, 5}, {0, 0, 5, 1}},
        {4, {2, 0, 6, 5}, {30, 0, 5, 1}},  {4, {2, 0, 6, 5}, {0, 0, 5, 1}},
        {4, {0, 2, 6, 5}, {60, 30, 5, 1}}, {2, {6, 5}, {5, 1}},
    };
    static const struct {
        tdm_dtype a, b, d;
        const char *variant;
    } rows[] = {{TDM_F32, TDM_F32, TDM_F32, NULL},
                {TDM_F32, TDM_F32, TDM_F32, "gemm_any_reference"},
                {TDM_S8, TDM_S8, TDM_S32, NULL}};
    for (size_t i = 0; i < sizeof batches / sizeof *batches; i++)
        for (size_t t = 0; t < sizeof rows / sizeof *rows; t++) {
            const int rank = batches[i].rank;
            const int64_t a_shape[2] = {4, 6};
            int64_t d_shape[4] = {0};
            tdm_gemm_desc desc = TDM_GEMM_DESC_INIT;
            test_array a, d;
            tdm_tensor *b = NULL;
            tdm_buffer *nothing = NULL; // memory of an empty B
            tdm_gemm_plan *plan = NULL;
            tdm_packed *packed = NULL;
            tdm_buffer *workspace = NULL;
            size_t bytes;
            memcpy(d_shape, batches[i].shape, sizeof d_shape);
            if (rank == 2)
                memcpy(d_shape + 1, batches[i].shape, 2 * sizeof *d_shape);
            const int d_rank = rank == 2 ? 3 : rank;
            d_shape[0] = rank == 2 ? 0 : d_shape[0];
            d_shape[d_rank - 2] = 4;
            TEST_OK(tdm_layout_contiguous(rows[t].a, 2, a_shape, &desc.a));
            TEST_OK(tdm_layout_contiguous(rows[t].b, rank, batches[i].shape, &desc.b));
            memcpy(desc.b.strides, batches[i].strides, sizeof batches[i].strides);
            TEST_OK(tdm_layout_contiguous(rows[t].d, d_rank, d_shape, &desc.d));
            test_array_create_layout(&a, device, &desc.a, 0);
            TEST_OK(tdm_buffer_create(device->device, rank == 2 ? 120 : 0, &nothing));
            TEST_OK(tdm_tensor_on_buffer(nothing, 0, &desc.b, &b));
            test_array_create_layout(&d, device, &desc.d, 0);
            TEST_OK(tdm_gemm(device->stream, 1.0f, a.tensor, b, 0.0f, NULL, d.tensor, NULL));
            desc.packed_b = 1;
            desc.variant = rows[t].variant;
            TEST_OK(tdm_gemm_plan_create(device->device, &desc, &plan));
            TEST_OK(tdm_gemm_plan_workspace_size(plan, &bytes));
            TEST_OK(tdm_buffer_create(device->device, bytes + 1, &workspace));
            TEST_OK(tdm_gemm_pack_b(plan, device->stream, b, &packed));
            tdm_gemm_args args = TDM_GEMM_ARGS_INIT;
            args.a = a.tensor;
            args.packed_b = packed;
            args.d = d.tensor;
            args.workspace = workspace;
            TEST_OK(tdm_gemm_plan_run(plan, device->stream, &args));
            TEST_OK(tdm_stream_synchronize(device->stream));
            tdm_packed_destroy(packed);
            tdm_gemm_plan_destroy(plan);
            tdm_buffer_destroy(workspace);
            test_array_destroy(&a);
            tdm_tensor_destroy(b);
            tdm_buffer_destroy(nothing);
            test_array_destroy(&d);
        }
}

DEVICE_TEST(packed_weights_of_another_kind_are_refused) {
    tdm_gemm_desc desc = gemm_small_desc();
    gemm_table t;
    gemm_table_lay(&t, device, &desc);
    tdm_packed *packed = NULL;
    TEST_REFUSED(tdm_gemm_pack_b(t.plan, device->stream, t.b.tensor, &packed), TDM_BAD_STATE,
                 "the plan was made without packed_b");
    TEST_REFUSED(tdm_gemm_pack_b(NULL, device->stream, t.b.tensor, &packed), TDM_BAD_ARGUMENT,
                 "plan is NULL");
    TEST_REFUSED(tdm_gemm_pack_b(t.plan, device->stream, t.b.tensor, NULL), TDM_BAD_ARGUMENT,
                 "packed is NULL");
    tdm_gemm_plan *plan = NULL, *wide = NULL, *plain = NULL;
    desc.packed_b = 1;
    TEST_OK(tdm_gemm_plan_create(device->device, &desc, &plan));
    TEST_REFUSED(tdm_gemm_pack_b(plan, device->stream, t.a.tensor, &packed), TDM_BAD_SHAPE,
                 "the layout of B differs");
    assert_null(packed);
    TEST_OK(tdm_gemm_pack_b(plan, device->stream, t.b.tensor, &packed));
    tdm_gemm_args args = t.args;
    args.packed_b = packed;
    TEST_REFUSED(tdm_gemm_plan_run(t.plan, device->stream, &args), TDM_BAD_ARGUMENT,
                 "packed_b is given but the plan was made without");
    TEST_REFUSED(tdm_gemm_plan_run(plan, device->stream, &args), TDM_BAD_ARGUMENT,
                 "B is given but");
    args.b = NULL;
    args.packed_b = NULL;
    TEST_REFUSED(tdm_gemm_plan_run(plan, device->stream, &args), TDM_BAD_ARGUMENT,
                 "packed_b is NULL");
    args.packed_b = packed;
    desc.b.shape[1] = desc.d.shape[1] = 7;
    desc.b.strides[0] = desc.d.strides[0] = 7;
    tdm_tensor *d = NULL;
    TEST_OK(tdm_gemm_plan_create(device->device, &desc, &wide));
    TEST_OK(tdm_tensor_create(device->device, TDM_F32, 2, (const int64_t[]){4, 7}, &d));
    args.d = d;
    TEST_REFUSED(tdm_gemm_plan_run(wide, device->stream, &args), TDM_BAD_SHAPE,
                 "packed_b is 6 by 5 but B in the plan is 6 by 7");
    desc = gemm_small_desc();
    desc.packed_b = 1;
    desc.variant = "gemm_any_reference";
    args.d = t.d.tensor;
    TEST_OK(tdm_gemm_plan_create(device->device, &desc, &plain));
    if (strcmp(tdm_packed_layout(packed), plain->packed_layout) != 0) // packed in panels
        TEST_REFUSED(tdm_gemm_plan_run(plain, device->stream, &args), TDM_BAD_ARGUMENT,
                     "but gemm_any_reference reads plain-f32/1");
    test_array_expect_unchanged(&t.d);
    tdm_tensor_destroy(d);
    tdm_packed_destroy(packed);
    tdm_gemm_plan_destroy(plan);
    tdm_gemm_plan_destroy(wide);
    tdm_gemm_plan_destroy(plain);
    gemm_table_clear(&t);
}

/* ---- the packing kernels alone: every element at its offset, zeros past the matrix ---- */

/* The source is depth×lines with a placement. It is one entry of a batch of `batch`. */
typedef struct pack_case {
    int64_t depth, lines, batch;
    test_placement placement;
    int lines_first; /* the source is stored as lines×depth */
} pack_case;

/* These depths are near the eight rows of one step; the last exceeds a work-item's share. */
static const int64_t depths[] = {1, 7, 8, 9, 1500};

static void expect_panels(const pack_case *c, int width, const test_array *source,
                          const test_array *packed) {
    const int64_t panels = tdm_ceil_div(c->lines, width);
    for (int64_t z = 0; z < c->batch; z++)
        for (int64_t q = 0; q < panels; q++)
            for (int64_t p = 0; p < c->depth; p++)
                for (int64_t w = 0; w < width; w++) {
                    const int64_t line = q * width + w;
                    const int64_t from = c->lines_first ? line * c->depth + p : p * c->lines + line;
                    const double expected =
                        line < c->lines ? test_array_get(source, z * c->depth * c->lines + from)
                                        : 0;
                    const double got =
                        test_array_fetched(packed, ((z * panels + q) * c->depth + p) * width + w);
                    if (got != expected)
                        test_case_fail(
                            "batch %lld, panel %lld, depth %lld, line %lld is %g, must be %g",
                            (long long)z, (long long)q, (long long)p, (long long)w, got, expected);
                }
}

static void run_packing(const test_device *device, const tdm_variant *row, const pack_case *c) {
    const int width = row->parameters[TDM_PACK_P_WIDTH];
    const tdm_dtype source_type = (tdm_dtype)row->parameters[TDM_PACK_P_SOURCE];
    const tdm_dtype panel_type = (tdm_dtype)row->parameters[TDM_PACK_P_PANELS];
    const int64_t panels = tdm_ceil_div(c->lines, width);
    const int64_t shape[3] = {c->batch, c->lines_first ? c->lines : c->depth,
                              c->lines_first ? c->depth : c->lines};
    const int64_t packed_shape[4] = {c->batch, panels, c->depth, width};
    test_array source, packed;
    test_array_create(&source, device, source_type, 3, shape, c->placement);
    test_array_create(&packed, device, panel_type, 4, packed_shape, TEST_DENSE);
    test_array_fill(&source, TEST_DATA_UNIT, 42);
    test_array_send(&packed);
    tdm_gemm_packing packing = {.width = width,
                                .unit_bytes = tdm_dtype_info(panel_type)->unit_bytes,
                                .lines = c->lines,
                                .z_elements = panels * width * c->depth,
                                .z_stride = panels * width * c->depth,
                                .z_count = c->batch};
    TEST_OK(tdm_device_kernel(device->device, row, &packing.kernel));
    const int64_t *const strides = source.layout.strides;
    const tdm_gemm_pack_job job = {.packing = &packing,
                                   .source = source.tensor,
                                   .depth = c->depth,
                                   .depth_stride = strides[c->lines_first ? 2 : 1],
                                   .line_stride = strides[c->lines_first ? 1 : 2],
                                   .z_stride = strides[0],
                                   .target = packed.buffer->block,
                                   .target_offset = (uint64_t)(packed.offset * packing.unit_bytes)};
    TEST_OK(tdm_gemm_enqueue_pack(device->stream, &job));
    test_array_fetch(&packed);
    expect_panels(c, width, &source, &packed);
    test_array_destroy(&source);
    test_array_destroy(&packed);
}

static void run_packings(const test_device *device, const tdm_variant *row) {
    const int width = row->parameters[TDM_PACK_P_WIDTH];
    const int64_t lines[] = {1, width - 1, width, 2 * width + 1};
    int number = 0;
    for (int d = 0; d < (test_is_small() ? 4 : 5); d++)
        for (int l = 0; l < 4; l++)
            for (int first = 0; first < 2; first++, number++) {
                const pack_case c = {depths[d], lines[l], 1 + number % 2,
                                     (test_placement)(number % TEST_PLACEMENTS), first};
                if (!test_case_begin(device, row->name, "depth %d lines %d batch %d %s%s",
                                     (int)c.depth, (int)c.lines, (int)c.batch,
                                     test_placement_name(c.placement), first ? " lines first" : ""))
                    continue;
                run_packing(device, row, &c);
                test_case_end();
            }
}

TEST(every_packing) {
    test_each_variant(TDM_OP_GEMM_PACK, NULL, run_packings);
    test_require_all_variants(TDM_OP_GEMM_PACK);
}

TEST_MAIN(test_devices_setup, test_devices_teardown)
