/*
 * Tests the small-M family at the limits of its blocking: long rows, long K, more rows than one
 * pass takes, and swapped operands. The last part tests when the library chooses it.
 * test_gemm_variants.c samples all its factors.
 */
// ctest: device timeout=300 kernels=gemm cost=15
#include <string.h>

#include "api/gemm/gemm_internal.h"
#include "tests/support/devices/device_cases.h"
#include "tests/support/devices/variant_cases.h"
#include "tests/support/gemm/gemm_int_trial.h"
#include "tests/support/gemm/gemm_trial.h"
#include "tests/support/test_case.h"

/* ---- results --------------------------------------------------------------------------------- */

typedef struct shape_row {
    int64_t m, n, k;
    int transpose_a, transpose_b;
    int packed;
} shape_row;

static const shape_row shapes[] = {
    /* B is contiguous along N. Stripes have KEPT / rows columns, and blocks have STRIP / rows steps
     * of K. */
    {1, 9001, 11, 0, 0, 0},
    {1, 130, 8300, 0, 0, 0},
    {16, 1100, 1030, 0, 0, 0},
    {7, 2100, 1201, 1, 0, 0},
    /* B is contiguous along K. */
    {1, 1000, 8300, 0, 1, 0},
    {16, 1100, 1030, 0, 1, 0},
    {3, 71, 9001, 1, 1, 0},
    /* B is packed into micro-panels. */
    {1, 9001, 11, 0, 0, 1},
    {16, 1100, 1030, 0, 0, 1},
    {7, 71, 9001, 0, 1, 1},
    /* N is smaller than M. */
    {9001, 1, 67, 0, 0, 0},
    {1100, 16, 1030, 0, 0, 0},
    {2100, 7, 1201, 1, 1, 0},
    {300, 2, 515, 1, 0, 0},
    /* D has one or two elements. */
    {1, 1, 100003, 0, 0, 0},
    {2, 1, 65537, 0, 0, 0},
};
static const shape_row small_shapes[] = {
    {3, 70, 37, 0, 0, 0}, {5, 35, 67, 0, 1, 0},  {2, 35, 19, 0, 0, 1},
    {70, 3, 37, 0, 0, 0}, {18, 18, 19, 0, 0, 0},
};

static gemm_trial trial_of(const tdm_variant *row, const shape_row *shape, uint64_t seed) {
    gemm_trial trial = {.variant = row->name, .packed_b = shape->packed, .large = 1};
    trial.item = (op_gemm_case){.m = shape->m,
                                .n = shape->n,
                                .k = shape->k,
                                .transpose_a = shape->transpose_a,
                                .transpose_b = shape->transpose_b,
                                .alpha = 1,
                                .seed = seed};
    trial.item.dtype[OP_GEMM_A] = trial.item.dtype[OP_GEMM_B] =
        (tdm_dtype)row->parameters[TDM_GEMM_P_B_TYPE];
    trial.item.dtype[OP_GEMM_D] = TDM_F32;
    return trial;
}

static bool is_small_m(const tdm_variant *row) {
    return row->op == TDM_OP_GEMM && row->parameters[TDM_GEMM_P_FAMILY] == TDM_GEMM_SMALL_M;
}

static void run_shapes(const test_device *device, const tdm_variant *row) {
    const shape_row *const list = test_is_small() ? small_shapes : shapes;
    const int count = (int)(test_is_small() ? sizeof small_shapes / sizeof *small_shapes
                                            : sizeof shapes / sizeof *shapes);
    for (int i = 0; i < count; i++) {
        const gemm_trial trial = trial_of(row, &list[i], 300 + (uint64_t)i);
        gemm_trial_case(device, &trial);
    }
}

TEST(shapes_that_are_cut) {
    test_each_variant(TDM_OP_GEMM, is_small_m, run_shapes);
}

/* ---- integers -------------------------------------------------------------------------------- */

/*
 * A CUDA variant takes one, two or three passes over K, in pieces of 16 steps with a remainder, or
 * step by step. TEST_PADDED adds three elements to each row, so that rows are a multiple of 16
 * apart if K mod 16 is 13. The cases cover zero points of A, of B and of both, and an integer,
 * quantized and float D.
 */
static const char *const integers[] = {
    "1x9x2093 s8>s32",
    "2x4x2096 u8>s32 bias:s32 C",
    "3x6x4141 u8>s8 A:each+zero B:each+zero D:each+zero",
    "8x5x2093 s8>u8 A:one B:one+zero D:one relu",
    "9x3x2096 u8>f16 A:one+zero B:each packed",
    "5x7x301 s8>f32 A:each+zero A@offset B:each+zero bias:f32 C batch:3",
    "4x5x2061 u8>s32 A:one+zero B:one+zero B@spread batch:2 shared extreme",
};

/*
 * These cases are for the variants for any device. The large operand is A or B. It is contiguous
 * along K, or along its other dimension. Its rows or columns fill more than one work-group, or a
 * part of one. K is a multiple of 16, of four, or of neither. The small operand is contiguous along
 * K or across it.
 */
static const char *const grouped[] = {
    "1x150x1040 u8>s32 tb",
    "7x70x333 s8>u8 A:one+zero B:each+zero D:each+zero tb",
    "3x132x68 u8>s8 A:each+zero B:each+zero D:one",
    "4x71x70 s8>s32 bias:s32 C",
    "2x140x36 u8>s32 B@spread",
    "70x1x1040 u8>f32 A:each+zero B:one+zero",
    "75x6x272 s8>s32 A:one B:each+zero tb batch:2",
    "132x7x72 u8>s8 A:each+zero B:each+zero D:each bias:s32 ta tb",
    "134x5x37 u8>s32 ta batch:2 shared",
};

static bool takes_few_integers(const tdm_variant *row) {
    return row->op == TDM_OP_GEMM_INT && row->parameters[TDM_GEMM_P_FAMILY] == TDM_GEMM_SMALL_M;
}

static void run_integers(const test_device *device, const tdm_variant *row) {
    for (size_t i = 0; i < sizeof integers / sizeof *integers; i++) {
        gemm_int_trial trial = gemm_int_trial_read(integers[i]);
        trial.variant = row->name;
        trial.seed = 400 + i;
        trial.transpose_b = 1;
        if (trial.k % 16 == 13 && trial.a_place == TEST_DENSE && trial.b_place == TEST_DENSE)
            trial.a_place = trial.b_place = TEST_PADDED;
        gemm_int_trial_case(device, trial);
    }
}

static void run_grouped(const test_device *device, const tdm_variant *row) {
    for (size_t i = 0; i < sizeof grouped / sizeof *grouped; i++) {
        gemm_int_trial trial = gemm_int_trial_read(grouped[i]);
        trial.variant = row->name;
        trial.seed = 500 + i;
        gemm_int_trial_case(device, trial);
    }
}

TEST(few_rows_or_columns_of_integers) {
    test_each_variant(TDM_OP_GEMM_INT, tdm_gemm_small_m_groups_integers, run_grouped);
}

TEST(few_rows_of_integers) {
    test_each_variant(TDM_OP_GEMM_INT, takes_few_integers, run_integers);
}

/* ---- the choice ------------------------------------------------------------------------------ */

/* Describes an f32 GEMM of m×k by k×n. B is stored row by row, or column by column if
 * `b_along_k`. */
static tdm_gemm_desc describe(int64_t m, int64_t n, int64_t k, int b_along_k) {
    tdm_gemm_desc desc = TDM_GEMM_DESC_INIT;
    const int64_t a[2] = {m, k}, d[2] = {m, n};
    const int64_t b[2] = {b_along_k ? n : k, b_along_k ? k : n};
    TEST_OK(tdm_layout_contiguous(TDM_F32, 2, a, &desc.a));
    TEST_OK(tdm_layout_contiguous(TDM_F32, 2, b, &desc.b));
    TEST_OK(tdm_layout_contiguous(TDM_F32, 2, d, &desc.d));
    desc.transpose_b = b_along_k;
    return desc;
}

/* Checks that the plan chooses a small-M variant, or that a refusal contains `reason` if that is
 * not NULL. */
static void expect_choice(const test_device *device, const tdm_gemm_desc *desc,
                          const char *reason) {
    tdm_gemm_plan *plan = NULL;
    TEST_OK(tdm_gemm_plan_create(device->device, desc, &plan));
    const bool small_m = is_small_m(tdm_variant_find(tdm_gemm_plan_variant(plan)));
    if (small_m != (reason == NULL))
        test_case_fail("%s was chosen", tdm_gemm_plan_variant(plan));
    if (reason && !strstr(tdm_gemm_plan_refusals(plan), reason))
        test_case_fail("no refusal says: %s", reason);
    tdm_gemm_plan_destroy(plan);
}

DEVICE_TEST(one_small_dimension_is_enough) {
    const int64_t sizes[] = {1, 2, 16};
    for (int i = 0; i < 3; i++)
        for (int along_k = 0; along_k < 2; along_k++) {
            tdm_gemm_desc desc = describe(sizes[i], 300, 200, along_k);
            expect_choice(device, &desc, NULL);
            desc = describe(300, sizes[i], 200, along_k);
            expect_choice(device, &desc, NULL);
        }
    const bool cores = (device->info.capabilities & TDM_CAP_CPU_CORES) != 0;
    const tdm_gemm_desc square = describe(33, 33, 200, 0);
    expect_choice(device, &square,
                  cores ? "M is 33 and N is 33, one of them must be at most 32"
                        : "M is 33 and N is 33, one of them must be at most 16");
}

DEVICE_TEST(a_matrix_with_gaps_both_ways_is_left_to_others) {
    tdm_gemm_desc desc = describe(1, 300, 200, 0);
    desc.b.strides[0] = 1000;
    desc.b.strides[1] = 2;
    expect_choice(device, &desc, "B is contiguous along neither dimension");
    desc = describe(300, 1, 200, 0);
    desc.a.strides[0] = 1000;
    desc.a.strides[1] = 2;
    expect_choice(device, &desc, "A is contiguous along neither dimension");
}

static void expect_integers(const test_device *device, const int64_t shape[3], int b_along_k,
                            bool expected) {
    tdm_gemm_desc desc = describe(shape[0], shape[1], shape[2], b_along_k);
    tdm_gemm_plan *plan;
    desc.a.dtype = TDM_U8;
    desc.b.dtype = TDM_S8;
    desc.d.dtype = TDM_S32;
    TEST_OK(tdm_gemm_plan_create(device->device, &desc, &plan));
    const char *const chosen = tdm_gemm_plan_variant(plan);
    if (takes_few_integers(tdm_variant_find(chosen)) != expected)
        test_case_fail("%s was chosen for %d x %d x %d%s", chosen, (int)shape[0], (int)shape[1],
                       (int)shape[2], b_along_k ? ", columns along K" : "");
    tdm_gemm_plan_destroy(plan);
}

/*
 * The library chooses small-M integer variants for up to eight rows. On CUDA the columns of B must
 * be contiguous along K. CPU cores do not use these variants. Other devices accept either layout of
 * B, and also up to eight columns.
 */
DEVICE_TEST(few_rows_of_integers_have_rows_of_their_own) {
    static const int64_t one[3] = {1, 600, 2048}, eight[3] = {8, 600, 2048},
                         nine[3] = {9, 600, 2048}, one_column[3] = {600, 1, 2048},
                         eight_columns[3] = {600, 8, 2048}, nine_columns[3] = {600, 9, 2048};
    const uint32_t capabilities = device->info.capabilities;
    const bool cuda = (capabilities & TDM_CAP_CUDA) != 0,
               groups = !cuda && !(capabilities & TDM_CAP_CPU_CORES);
    expect_integers(device, one, 1, cuda || groups);
    expect_integers(device, eight, 1, cuda || groups);
    expect_integers(device, nine, 1, false);
    expect_integers(device, eight, 0, groups);
    expect_integers(device, one_column, 0, groups);
    expect_integers(device, eight_columns, 0, groups);
    expect_integers(device, nine_columns, 0, false);
}

/* If a work-group would have little work, a kernel with one work-item per element is no slower. */
DEVICE_TEST(small_products_of_integers_are_left_to_others) {
    static const int64_t flat[3] = {1, 8192, 1023}, short_lines[3] = {8, 8192, 127},
                         few_lines[3] = {4, 255, 1024};
    if (device->info.capabilities & TDM_CAP_CUDA)
        return;
    expect_integers(device, flat, 1, false);
    expect_integers(device, short_lines, 0, false);
    expect_integers(device, few_lines, 1, false);
}

TEST_MAIN(test_devices_setup, test_devices_teardown)
