/*
 * The warpgroup (wgmma) variants are tested at their loop boundaries: more tiles than groups, slots
 * whose phases wrap around, parts of K, batches. The tests also cover which problems they take,
 * operands at offsets that tensor maps refuse, recorded launches and cached maps.
 */
// ctest: device cuda timeout=300
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/gemm/gemm_internal.h"
#include "tests/support/devices/device_cases.h"
#include "tests/support/devices/own_device.h"
#include "tests/support/devices/variant_cases.h"
#include "tests/support/gemm/gemm_int_trial.h"
#include "tests/support/gemm/gemm_trial.h"
#include "tests/support/gemm/outofcore_trial.h"
#include "tests/support/test_case.h"

#define COUNT(array) ((int)(sizeof(array) / sizeof(array)[0]))

static bool is_wgmma(const tdm_variant *row) {
    return row->parameters[TDM_GEMM_P_FAMILY] == TDM_GEMM_WGMMA;
}

/* On slow implementations each case of a table runs with one of every `step` variants. */
static bool is_due(const test_device *device, const tdm_variant *row, int index, int step) {
    int number = 0;
    for (const tdm_variant *other = tdm_variants; other < row; other++)
        number += other->op == row->op && is_wgmma(other) && test_can_run(device, other);
    return !test_is_small() || (index + number) % step == 0;
}

/* ---- results --------------------------------------------------------------------------------- */

typedef struct wgmma_row {
    int64_t m, n, k;
    int transpose_a, transpose_b;
    int64_t batch;
    unsigned shared_a, shared_b;
    int parts; /* of K */
} wgmma_row;

static const wgmma_row wgmma_rows[] = {
    /*
     * K has eleven steps for four or six slots. Groups compute consecutive tiles, also at the end
     * of the square that they cover.
     */
    {300, 520, 696, 0, 1, 0, 0, 0, 0},
    {2200, 136, 72, 0, 0, 0, 0, 0, 0},
    /* These are the other transposes, with all kinds of tails. */
    {200, 264, 456, 1, 0, 0, 0, 0, 0},
    {136, 257, 200, 1, 1, 0, 0, 0, 0},
    {129, 136, 64, 0, 0, 0, 0, 0, 0},
    /* These are batches, some with an operand that all entries share. */
    {130, 136, 136, 0, 1, 3, 0, 0, 0},
    {72, 136, 80, 1, 0, 5, 0, 1, 0},
    {72, 136, 80, 0, 0, 2, 1, 0, 0},
    /* K is in parts, with a remainder and without. */
    {136, 264, 1000, 0, 1, 0, 0, 0, 3},
    {136, 136, 512, 1, 0, 2, 0, 0, 2},
};

static gemm_trial trial_of(const tdm_variant *row, const wgmma_row *c, const char *variant) {
    gemm_trial trial = {.variant = variant};
    trial.item = (op_gemm_case){.m = c->m,
                                .n = c->n,
                                .k = c->k,
                                .transpose_a = c->transpose_a,
                                .transpose_b = c->transpose_b,
                                .alpha = 1,
                                .batch_rank = c->batch > 0,
                                .batch = {c->batch},
                                .exact = c->k % 3 == 0,
                                .seed = 900 + (uint64_t)c->k};
    trial.item.shared[OP_GEMM_A] = c->shared_a;
    trial.item.shared[OP_GEMM_B] = c->shared_b;
    trial.item.dtype[OP_GEMM_A] = (tdm_dtype)row->parameters[TDM_GEMM_P_A_TYPE];
    trial.item.dtype[OP_GEMM_B] = (tdm_dtype)row->parameters[TDM_GEMM_P_B_TYPE];
    trial.item.dtype[OP_GEMM_D] = c->n % 16 == 0 ? TDM_F32 : trial.item.dtype[OP_GEMM_A];
    return trial;
}

static void run_case(const test_device *device, const tdm_variant *row, const wgmma_row *c) {
    char variant[128];
    snprintf(variant, sizeof variant, c->parts ? "%s:split_k=%d" : "%s", row->name, c->parts);
    const gemm_trial trial = trial_of(row, c, variant);
    gemm_trial_case(device, &trial);
}

static void turn(const test_device *device, const tdm_variant *row) {
    for (int c = 0; c < COUNT(wgmma_rows); c++)
        if (is_due(device, row, c, 4))
            run_case(device, row, &wgmma_rows[c]);
}

TEST(where_the_kernels_turn) {
    test_each_variant(TDM_OP_GEMM, is_wgmma, turn);
}

/*
 * D has 16 bits, addends and batches, so that its tiles are whole tensor-map boxes and partial
 * ones. D also starts at an address that a tensor map refuses.
 */
static void run_addends(const test_device *device, const tdm_variant *row, test_placement d) {
    const wgmma_row shape = {200, 136, 72, 0, 1, 2, 0, 0, 0};
    gemm_trial trial = trial_of(row, &shape, row->name);
    const tdm_dtype type = d == TEST_DENSE ? TDM_BF16 : TDM_F16;
    trial.item.dtype[OP_GEMM_D] = trial.item.dtype[OP_GEMM_C] = type;
    trial.item.dtype[OP_GEMM_BIAS] = trial.item.dtype[OP_GEMM_RESIDUAL] = TDM_F32;
    trial.item.beta = 0.5f;
    trial.item.activation = TDM_ACT_GELU;
    trial.c_source = GEMM_SAME;
    trial.placement[OP_GEMM_C] = trial.placement[OP_GEMM_D] = d;
    gemm_trial_case(device, &trial);
}

static void run_places(const test_device *device, const tdm_variant *row) {
    static const test_placement places[] = {TEST_DENSE, TEST_OFFSET, TEST_TRANSPOSED};
    for (int p = 0; p < COUNT(places); p++)
        if (p == 0 || is_due(device, row, p + 1, 2))
            run_addends(device, row, places[p]);
}

TEST(narrow_d_with_addends) {
    test_each_variant(TDM_OP_GEMM, is_wgmma, run_places);
}

/*
 * The first case has twelve steps of K, more than there are slots. Others have consecutive tiles
 * and batches. Both operands, one or none need zero-point sums.
 */
static const char *const integer_trials[] = {
    "136x264x1424 s8>s32 extreme",
    "260x264x656 u8>s32 A:each+zero B:each+zero",
    "700x72x144 u8>s8 A:one+zero B:each D:each+zero bias:s32 relu",
    "131x133x272 s8>f16 A:each B:one+zero bias:f32 C batch:3 shared",
};

static void run_integers(const test_device *device, const char *variant, const char *text) {
    gemm_int_trial trial = gemm_int_trial_read(text);
    trial.variant = variant;
    trial.transpose_b = 1;
    trial.seed = 700 + (uint64_t)trial.k;
    gemm_int_trial_case(device, trial);
}

static void turn_integers(const test_device *device, const tdm_variant *row) {
    for (int t = 0; t < COUNT(integer_trials); t++)
        if (is_due(device, row, t, 2))
            run_integers(device, row->name, integer_trials[t]);
}

TEST(where_the_kernels_of_integers_turn) {
    test_each_variant(TDM_OP_GEMM_INT, is_wgmma, turn_integers);
}

/* Returns the value of -D<name>= among a variant's defines. */
static long define_of(const tdm_variant *row, const char *name) {
    const char *const found = strstr(row->defines, name);
    return found ? strtol(found + strlen(name), NULL, 10) : 0;
}

/*
 * The launch must reserve the local memory that the kernel source uses: slots on a multiple of
 * 1024, eight strips, two mbarriers per slot. Integer variants add two copies of the column sums,
 * and the row sums; others add eight tensor-map boxes.
 */
static void check_local_memory(const test_device *device, const tdm_variant *row) {
    if (!test_case_begin(device, row->name, "local memory"))
        return;
    const long slots = define_of(row, "-DSTAGES="), tn = define_of(row, "-DTN="),
               bytes = 1024 - 16 + slots * (128 + tn) * 128 + 8 * 16 * 32 * 4 + 2 * slots * 8 +
                       (row->op == TDM_OP_GEMM_INT ? (2 * tn + 128) * 4 : 8 * 16 * 128);
    assert_int_equal(row->parameters[TDM_GEMM_P_LOCAL_BYTES], bytes);
    test_case_end();
}

TEST(local_memory_is_what_the_text_needs) {
    test_each_variant(TDM_OP_GEMM, is_wgmma, check_local_memory);
    test_each_variant(TDM_OP_GEMM_INT, is_wgmma, check_local_memory);
}

/* ---- which problems they take ---------------------------------------------------------------- */

typedef struct operands {
    tdm_layout a, b, d;
    tdm_tensor *tensors[3];
    tdm_buffer *buffers[3];
} operands;

static tdm_gemm_desc desc_of(const operands *o) {
    tdm_gemm_desc desc = TDM_GEMM_DESC_INIT;
    desc.a = o->a;
    desc.b = o->b;
    desc.d = o->d;
    return desc;
}

static tdm_layout matrix(tdm_dtype dtype, int64_t rows, int64_t columns, int64_t pitch) {
    return (tdm_layout){.dtype = dtype, .rank = 2, .shape = {rows, columns}, .strides = {pitch, 1}};
}

static bool has_wgmma(const test_device *device) {
    return (device->info.capabilities & TDM_CAP_WGMMA) != 0;
}

static void expect_row_for(const test_device *device, const tdm_gemm_desc *desc, const char *part) {
    tdm_gemm_plan *plan;
    TEST_OK(tdm_gemm_plan_create(device->device, desc, &plan));
    if (!strstr(tdm_gemm_plan_variant(plan), part))
        test_case_fail("%lld by %lld of %lld gets %s, expected is %s; refused: %s",
                       (long long)desc->a.shape[0], (long long)desc->a.shape[1],
                       (long long)desc->a.strides[0], tdm_gemm_plan_variant(plan), part,
                       tdm_gemm_plan_refusals(plan));
    tdm_gemm_plan_destroy(plan);
}

/* Checks which variant is chosen for m×k by k×n. Rows of A are `pitch` elements apart. */
static void expect_row(const test_device *device, int64_t m, int64_t n, int64_t k, int64_t pitch,
                       const char *part) {
    const operands o = {.a = matrix(TDM_F16, m, k, pitch),
                        .b = matrix(TDM_F16, k, n, n),
                        .d = matrix(TDM_F32, m, n, n)};
    const tdm_gemm_desc desc = desc_of(&o);
    expect_row_for(device, &desc, part);
}

/* Checks which variant is chosen for s8. A transposed B is contiguous along K. */
static void expect_integer_row(const test_device *device, int64_t m, int64_t n, int64_t k,
                               int transpose_a, int transpose_b, const char *part) {
    const operands o = {.a = transpose_a ? matrix(TDM_S8, k, m, m) : matrix(TDM_S8, m, k, k),
                        .b = transpose_b ? matrix(TDM_S8, n, k, k) : matrix(TDM_S8, k, n, n),
                        .d = matrix(TDM_S32, m, n, n)};
    tdm_gemm_desc desc = desc_of(&o);
    desc.transpose_a = transpose_a;
    desc.transpose_b = transpose_b;
    expect_row_for(device, &desc, part);
}

DEVICE_TEST(what_they_take) {
    if (!has_wgmma(device))
        return;
    expect_row(device, 4096, 8192, 4096, 4096, "wgmma_256x256");
    expect_row(device, 256, 256, 4096, 4096, "wgmma_128x128");
    // Half of a cluster would have no tile.
    expect_row(device, 100, 8192, 4096, 4096, "wgmma_128x256");
    expect_row(device, 4096, 4096, 4096, 4104, "wgmma");
    expect_row(device, 4096, 4096, 4096, 4099, "__tensor");
    expect_row(device, 4096, 4096, 4096, 8, "__tensor"); // overlapping rows
    expect_row(device, 4096, 4096, 4096, 0, "__tensor");
    // The forced variant applies to this thread, and no other variant is a candidate.
    tdm_force_variant("gemm_f16_wgmma_128x128__sm90a");
    expect_row(device, 4096, 8192, 4096, 4104, "wgmma_128x128");
    tdm_force_variant(NULL);
    expect_integer_row(device, 4096, 8192, 4096, 0, 1, "gemm_int_wgmma_256x256");
    expect_integer_row(device, 256, 256, 4096, 0, 1, "gemm_int_wgmma_128x128");
    expect_integer_row(device, 256, 256, 4095, 0, 1, "gemm_int_mma");
    expect_integer_row(device, 4096, 4096, 4096, 0, 0, "gemm_int_mma");
    expect_integer_row(device, 4096, 4096, 4096, 1, 1, "gemm_int_mma");
    // On four units the twelve single tiles take three waves. Only two of the eight cluster tiles
    // run at a time, so they take four waves.
    if (device->info.compute_units == 4)
        expect_row(device, 384, 1024, 4096, 4096, "wgmma_128x256");
}

/* ---- clusters that fit a device -------------------------------------------------------------- */

static const char clusters_row[] = "gemm_f16_wgmma_256x256__sm90a";

/*
 * A launch has as many clusters as the driver reports to fit the device. It has no more clusters
 * than tiles, and batch entries share the clusters.
 */
static void expect_grid(const test_device *device, const tdm_gemm_desc *desc) {
    tdm_gemm_plan *plan;
    TEST_OK(tdm_gemm_plan_create(device->device, desc, &plan));
    const int64_t held = tdm_gemm_wgmma_clusters(device->device, plan->kernel),
                  most = device->info.compute_units / 2;
    if (held < 1 || held > most ||
        (strstr(device->info.selector, "/simulator/") && held != 1)) /* unit groups of 3 and 1 */
        test_case_fail("the device is said to hold %lld clusters", (long long)held);
    assert_int_equal(tdm_gemm_wgmma_groups(plan, 1000, 1), 2 * held);
    assert_int_equal(tdm_gemm_wgmma_groups(plan, 1, 1), 2);
    assert_int_equal(tdm_gemm_wgmma_groups(plan, 1000, 2 * held), 2);
    tdm_gemm_plan_destroy(plan);
}

/*
 * The kernel of a private device records that no cluster fits. Another variant is chosen, and the
 * forced one is refused.
 */
static void expect_no_clusters(const test_device *device, tdm_gemm_desc desc) {
    own_device own = own_device_open(device, 0);
    tdm_kernel *kernel;
    tdm_gemm_plan *plan = NULL;
    TEST_OK(tdm_device_kernel(own.device, tdm_variant_find(clusters_row), &kernel));
    atomic_store(&kernel->clusters, 1);
    TEST_REFUSED(tdm_gemm_plan_create(own.device, &desc, &plan), TDM_UNSUPPORTED,
                 "cannot run one of its clusters");
    desc.variant = NULL;
    TEST_OK(tdm_gemm_plan_create(own.device, &desc, &plan));
    if (!strstr(tdm_gemm_plan_variant(plan), "wgmma_128x256"))
        test_case_fail("without clusters it gets %s", tdm_gemm_plan_variant(plan));
    tdm_gemm_plan_destroy(plan);
    own_device_close(&own);
}

DEVICE_TEST(clusters_are_as_many_as_the_device_holds) {
    const operands o = {.a = matrix(TDM_F16, 4096, 4096, 4096),
                        .b = matrix(TDM_F16, 4096, 8192, 8192),
                        .d = matrix(TDM_F32, 4096, 8192, 8192)};
    tdm_gemm_desc desc = desc_of(&o);
    desc.variant = clusters_row;
    if (!has_wgmma(device))
        return;
    expect_grid(device, &desc);
    expect_no_clusters(device, desc);
}

/* ---- operands at any offset ------------------------------------------------------------------ */

enum {
    SIDE = 136
};

static void make_operands(operands *o, const test_device *device, int64_t shift) {
    static uint16_t halves[2 * SIDE * SIDE];
    static const uint16_t one = 0x3c00;
    for (int i = 0; i < COUNT(halves); i++)
        halves[i] = (uint16_t)(i % 5 == 0 ? one : i % 7 == 0 ? one | 0x8000 : 0);
    o->a = o->b = matrix(TDM_F16, SIDE, SIDE, SIDE);
    o->d = matrix(TDM_F32, SIDE, SIDE, SIDE);
    const tdm_layout *const layouts[] = {&o->a, &o->b, &o->d};
    for (int i = 0; i < 3; i++) {
        const size_t bytes = sizeof halves;
        TEST_OK(tdm_buffer_create(device->device, bytes, &o->buffers[i]));
        TEST_OK(tdm_buffer_write(device->stream, o->buffers[i], 0, halves, bytes));
        TEST_OK(tdm_tensor_on_buffer(o->buffers[i], i < 2 ? shift * (i + 1) : 0, layouts[i],
                                     &o->tensors[i]));
    }
    TEST_OK(tdm_stream_synchronize(device->stream));
}

static void destroy_operands(operands *o) {
    for (int i = 0; i < 3; i++) {
        tdm_tensor_destroy(o->tensors[i]);
        tdm_buffer_destroy(o->buffers[i]);
    }
}

static tdm_gemm_args args_of(const operands *o) {
    tdm_gemm_args args = TDM_GEMM_ARGS_INIT;
    args.a = o->tensors[0];
    args.b = o->tensors[1];
    args.d = o->tensors[2];
    return args;
}

/* Returns element i of the f16 values that make_operands writes. */
static float half_at(int64_t i) {
    return i % 5 == 0 ? 1.0f : i % 7 == 0 ? -1.0f : 0.0f;
}

static void expect_sums(const float *d, int64_t shift) {
    for (int64_t i = 0; i < SIDE; i++)
        for (int64_t j = 0; j < SIDE; j++) {
            float sum = 0;
            for (int64_t p = 0; p < SIDE; p++)
                sum += half_at(shift + i * SIDE + p) * half_at(2 * shift + p * SIDE + j);
            if (d[i * SIDE + j] != sum)
                test_case_fail("(%d, %d) is %g, expected %g", (int)i, (int)j,
                               (double)d[i * SIDE + j], (double)sum);
        }
}

static void expect_product(const test_device *device, const operands *o, int64_t shift) {
    static float d[SIDE * SIDE];
    TEST_OK(tdm_buffer_read(device->stream, o->buffers[2], 0, d, sizeof d));
    TEST_OK(tdm_stream_synchronize(device->stream));
    expect_sums(d, shift);
}

/*
 * A plan takes operands at any offset. A forced variant refuses some, and its message states which
 * offsets it takes.
 */
static void run_shifted(const test_device *device, int64_t shift) {
    operands o;
    tdm_gemm_plan *plan;
    make_operands(&o, device, shift);
    tdm_gemm_desc desc = desc_of(&o);
    const tdm_gemm_args args = args_of(&o);
    TEST_OK(tdm_gemm_plan_create(device->device, &desc, &plan));
    if (!strstr(tdm_gemm_plan_variant(plan), "wgmma"))
        test_case_fail("the plan took %s", tdm_gemm_plan_variant(plan));
    TEST_OK(tdm_gemm_plan_run(plan, device->stream, &args));
    expect_product(device, &o, shift);
    tdm_gemm_plan_destroy(plan);
    desc.variant = "gemm_f16_wgmma_128x128__sm90a";
    TEST_OK(tdm_gemm_plan_create(device->device, &desc, &plan));
    if (shift % 8 == 0)
        TEST_OK(tdm_gemm_plan_run(plan, device->stream, &args));
    else
        TEST_REFUSED(tdm_gemm_plan_run(plan, device->stream, &args), TDM_UNSUPPORTED,
                     "needs offsets that are multiples of 16");
    TEST_OK(tdm_stream_synchronize(device->stream));
    tdm_gemm_plan_destroy(plan);
    destroy_operands(&o);
}

/*
 * All tiles of an out-of-core GEMM are forced to the variant chosen for the whole. The operands on
 * the device may start at any offset.
 */
static void run_in_tiles(const test_device *device, int64_t shift) {
    static float d[SIDE * SIDE];
    operands o;
    tdm_outofcore_desc desc = TDM_OUTOFCORE_DESC_INIT;
    tdm_outofcore_args args = TDM_OUTOFCORE_ARGS_INIT;
    tdm_outofcore_plan *plan;
    make_operands(&o, device, shift);
    desc.gemm = desc_of(&o);
    desc.on_device = TDM_OUTOFCORE_A | TDM_OUTOFCORE_B;
    desc.tile_rows = desc.tile_columns = 128;
    desc.budget_bytes = 1 << 20;
    desc.rates = outofcore_trial_rates;
    args.a.tensor = o.tensors[0];
    args.b.tensor = o.tensors[1];
    args.d_memory = d;
    args.d_bytes = sizeof d;
    TEST_OK(tdm_outofcore_plan_create(device->device, &desc, &plan));
    TEST_OK(tdm_outofcore_plan_run(plan, device->stream, &args));
    TEST_OK(tdm_stream_synchronize(device->stream));
    expect_sums(d, shift);
    tdm_outofcore_plan_destroy(plan);
    destroy_operands(&o);
}

DEVICE_TEST(operands_and_tiles_begin_anywhere) {
    for (int64_t shift = 0; shift < 10 && has_wgmma(device); shift += shift == 0 ? 1 : 7) {
        run_shifted(device, shift);
        run_in_tiles(device, shift);
    }
}

TEST(operands_of_integers_begin_anywhere) {
    for (int d = 0; d < test_device_count(); d++)
        if (has_wgmma(test_device_at(d)))
            run_integers(test_device_at(d), NULL, "136x200x272 s8>s32 A@offset B@offset");
}

/* ---- recorded launches and cached maps ------------------------------------------------------- */

static tdm_gemm_plan *forced_plan(const test_device *device, const operands *o,
                                  const char *variant) {
    tdm_gemm_plan *plan;
    tdm_gemm_desc desc = desc_of(o);
    desc.variant = variant;
    TEST_OK(tdm_gemm_plan_create(device->device, &desc, &plan));
    return plan;
}

/*
 * A graph keeps the description of the operands after the call. Clusters are launched from graphs
 * too.
 */
static void replay(const test_device *device, const char *variant) {
    operands o;
    tdm_graph *graph;
    make_operands(&o, device, 0);
    tdm_gemm_plan *const plan = forced_plan(device, &o, variant);
    const tdm_gemm_args args = args_of(&o);
    TEST_OK(tdm_stream_begin_recording(device->stream));
    TEST_OK(tdm_gemm_plan_run(plan, device->stream, &args));
    TEST_OK(tdm_stream_end_recording(device->stream, &graph));
    tdm_gemm_plan_destroy(plan);
    TEST_OK(tdm_graph_launch(graph, device->stream));
    expect_product(device, &o, 0);
    tdm_graph_destroy(graph);
    destroy_operands(&o);
}

/* The driver encodes tensor maps once, and again only if the tensors change. */
static void keep_maps(const test_device *device) {
    operands o, others;
    make_operands(&o, device, 0);
    make_operands(&others, device, 8);
    tdm_gemm_plan *const plan = forced_plan(device, &o, "gemm_f16_wgmma_128x128__sm90a");
    const tdm_gemm_args args = args_of(&o), other_args = args_of(&others);
    TEST_OK(tdm_gemm_plan_run(plan, device->stream, &args));
    tdm_fault_plant("cuTensorMapEncodeTiled", 1, 999, true);
    const tdm_status kept = tdm_gemm_plan_run(plan, device->stream, &args);
    TEST_REFUSED(tdm_gemm_plan_run(plan, device->stream, &other_args), TDM_INTERNAL,
                 "cuTensorMapEncodeTiled");
    tdm_fault_clear();
    TEST_OK(kept);
    expect_product(device, &o, 0);
    TEST_OK(tdm_gemm_plan_run(plan, device->stream, &other_args));
    expect_product(device, &others, 8);
    tdm_gemm_plan_destroy(plan);
    destroy_operands(&o);
    destroy_operands(&others);
}

DEVICE_TEST(runs_are_recorded_and_maps_kept) {
    if (!has_wgmma(device))
        return;
    replay(device, "gemm_f16_wgmma_128x128__sm90a");
    replay(device, clusters_row);
    keep_maps(device);
}

TEST_MAIN(test_devices_setup, test_devices_teardown)
