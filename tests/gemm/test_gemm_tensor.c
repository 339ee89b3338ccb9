/*
 * Tests tensor-core variants in cases that the common sample of all variants lacks. K spans several
 * tiles, so that all stages of local memory are used and reused, and may end within a tile.
 * Operands of either order are copied in chunks of 16 bytes, by words or by elements.
 */
// ctest: device cuda timeout=120
#include "api/gemm/gemm_internal.h"
#include "tests/support/devices/variant_cases.h"
#include "tests/support/gemm/gemm_int_trial.h"
#include "tests/support/gemm/gemm_trial.h"
#include "tests/support/test_case.h"

#define COUNT(array) ((int)(sizeof(array) / sizeof(array)[0]))

static bool is_tensor_row(const tdm_variant *row, tdm_op op) {
    return row->op == op && row->parameters[TDM_GEMM_P_FAMILY] == TDM_GEMM_TENSOR;
}

typedef void row_test(const test_device *device, const tdm_variant *row);

/*
 * Runs the test for every tensor-core variant on each device that can run it. A device with tensor
 * cores must be able to run at least one.
 */
static void on_tensor_rows(tdm_op op, row_test *test) {
    for (int d = 0; d < test_device_count(); d++) {
        const test_device *const device = test_device_at(d);
        int rows = 0;
        for (int i = 0; i < tdm_variant_count; i++)
            if (is_tensor_row(&tdm_variants[i], op) && test_can_run(device, &tdm_variants[i])) {
                test(device, &tdm_variants[i]);
                rows++;
            }
        if (rows == 0 && (device->info.capabilities & TDM_CAP_TENSOR_CORES) &&
            test_case_begin(device, NULL, "tensor rows of op %d", (int)op)) {
            test_case_fail("no row of op %d can be run", (int)op);
            test_case_end();
        }
    }
}

/* ---- floats ---- */

typedef struct layout_row {
    int transpose_a, transpose_b;
    test_placement a, b;
} layout_row;

/* Dense operands are copied in chunks of 16 bytes, because all sides are multiples of eight. */
static const layout_row layouts[] = {
    {0, 1, TEST_DENSE, TEST_DENSE},  {0, 0, TEST_DENSE, TEST_DENSE},
    {1, 0, TEST_DENSE, TEST_DENSE},  {1, 1, TEST_DENSE, TEST_DENSE},
    {0, 1, TEST_OFFSET, TEST_DENSE}, {0, 0, TEST_DENSE, TEST_OFFSET},
    {1, 0, TEST_SPREAD, TEST_PADDED}};

/* K is shorter than a tile of f16 or bf16 (32 steps), equal to it, or longer. The longest K has
 * more than twice as many tiles as there are stages. */
static const int64_t depths[] = {8, 32, 40, 128, 296};

/* D is `tiles` tiles high and two tiles wide; the last tiles are incomplete. */
static void run_floats(const test_device *device, const tdm_variant *row, const layout_row *layout,
                       int64_t tiles, int64_t k, int exact) {
    const int32_t *const p = row->parameters;
    gemm_trial trial = {.variant = row->name};
    trial.item = (op_gemm_case){.m = tiles * p[TDM_GEMM_P_ROWS] - 8,
                                .n = p[TDM_GEMM_P_COLUMNS] + 8,
                                .k = k,
                                .transpose_a = layout->transpose_a,
                                .transpose_b = layout->transpose_b,
                                .alpha = 1.0f,
                                .exact = exact,
                                .allow_3xtf32 = tdm_gemm_is_3xtf32(row),
                                .seed = (uint64_t)k + 99};
    trial.item.dtype[OP_GEMM_A] = (tdm_dtype)p[TDM_GEMM_P_A_TYPE];
    trial.item.dtype[OP_GEMM_B] = (tdm_dtype)p[TDM_GEMM_P_B_TYPE];
    trial.item.dtype[OP_GEMM_D] = exact ? TDM_F32 : (tdm_dtype)p[TDM_GEMM_P_A_TYPE];
    trial.placement[OP_GEMM_A] = layout->a;
    trial.placement[OP_GEMM_B] = layout->b;
    gemm_trial_case(device, &trial);
}

/*
 * All layouts run with the longest K, and every other K runs with one layout. On slow
 * implementations, variants of one kernel source share the cases.
 */
static void floats_on(const test_device *device, const tdm_variant *row) {
    const int longest = COUNT(depths) - 1;
    for (int l = 0; l < COUNT(layouts); l++)
        if (test_part_is_due(device, row, l))
            run_floats(device, row, &layouts[l], 1, depths[longest], 1);
    for (int d = 0; d < longest; d++)
        if (test_part_is_due(device, row, d))
            run_floats(device, row, &layouts[d % 4], 1, depths[d], 0);
    /* Work-groups traverse D in bands of several row tiles. The last band has fewer row tiles. */
    if (row->parameters[TDM_GEMM_P_ROWS] == 64)
        run_floats(device, row, &layouts[0], 19, 8, 1);
}

TEST(long_sums_of_floats) {
    on_tensor_rows(TDM_OP_GEMM, floats_on);
}

/* ---- integers ---- */

static const char *const trials[] = {
    /* Copies are by chunks, words and elements. A, B, both or neither have zero points. */
    "0x0x592 s8>s32 tb",
    "0x0x592 u8>s32",
    "0x0x600 u8>s8 A:each+zero B:one D:one+zero ta tb",
    "0x0x601 u8>u8 A:one+zero A@offset B:each+zero D:each+zero",
    "0x0x130 s8>f16 A:one B:each+zero B@spread tb",
    "0x0x64 u8>s32 A:one+zero B:one+zero tb extreme"};

static void integers_on(const test_device *device, const tdm_variant *row) {
    for (int i = 0; i < COUNT(trials); i++) {
        gemm_int_trial trial = gemm_int_trial_read(trials[i]);
        trial.variant = row->name;
        trial.m = row->parameters[TDM_GEMM_P_ROWS] - 3;
        trial.n = row->parameters[TDM_GEMM_P_COLUMNS] + 16;
        trial.seed = (uint64_t)trial.k;
        if (test_part_is_due(device, row, i))
            gemm_int_trial_case(device, trial);
    }
}

TEST(long_sums_of_integers) {
    on_tensor_rows(TDM_OP_GEMM_INT, integers_on);
}

TEST_MAIN(test_devices_setup, test_devices_teardown)
