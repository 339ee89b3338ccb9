/*
 * Quantized weights are multiplied by A of f16 and bf16 in every form: packed, N×K and K×N. M, N
 * and K are odd in some cases, and some groups match no tile. No form falls back to a reference
 * kernel, and results keep the bound of docs/numerics.md.
 */
// ctest: device rusticl_in_ci timeout=240 cost=15
#include <string.h>

#include "api/gemm/gemm_internal.h"
#include "tests/support/devices/device_cases.h"
#include "tests/support/devices/own_device.h"
#include "tests/support/gemm/weights_trial.h"
#include "tests/support/test_case.h"

#define COUNT(array) ((int)(sizeof(array) / sizeof(array)[0]))

typedef struct weights_kind {
    tdm_dtype codes, scale, zero;
    int64_t group; /* 0: one scale per column */
} weights_kind;

enum {
    Q4_0 = 4 /* index into `kinds` */
};

static const weights_kind kinds[] = {
    {TDM_S8, TDM_F32, TDM_DTYPE_NONE, 0},  {TDM_S4, TDM_F32, TDM_DTYPE_NONE, 32},
    {TDM_S4, TDM_F16, TDM_S8, 64},         {TDM_S8, TDM_F16, TDM_DTYPE_NONE, 32},
    {TDM_S4, TDM_F16, TDM_DTYPE_NONE, 32}, {TDM_S8, TDM_BF16, TDM_S32, 48},
    {TDM_S4, TDM_F32, TDM_DTYPE_NONE, 20}, {TDM_S8, TDM_F32, TDM_S8, 6}};

typedef enum weights_form {
    FORM_PACKED,
    FORM_LINES,   /* N×K */
    FORM_COLUMNS, /* K×N */
    FORMS
} weights_form;

static const tdm_dtype halves[] = {TDM_F16, TDM_BF16};
static const int64_t all_rows[] = {1, 3, 16, 17, 64};
static const int64_t depths_and_columns[][2] = {{97, 41}, {96, 41}, {97, 40}, {96, 40}};

static weights_trial trial_of(const test_device *device, int kind, int form, tdm_dtype a_type,
                              int64_t m, int64_t n, int64_t k) {
    return (weights_trial){.device = device,
                           .m = m,
                           .n = n,
                           .k = k,
                           .group = kinds[kind].group,
                           .a_type = a_type,
                           .b_type = kinds[kind].codes,
                           .d_type = TDM_F32,
                           .scale_type = kinds[kind].scale,
                           .zero_type = kinds[kind].zero,
                           .transpose_b = form != FORM_COLUMNS,
                           .packed = form == FORM_PACKED,
                           .seed = (uint64_t)(m + 3 * n + 7 * k)};
}

/* ---- the choice of a variant ----------------------------------------------------------------- */

static void refuse_reference(const tdm_gemm_plan *plan) {
    if (strstr(tdm_gemm_plan_variant(plan), "reference"))
        test_case_fail("%s is chosen: %s", tdm_gemm_plan_variant(plan),
                       tdm_gemm_plan_refusals(plan));
}

/* If groups are whole blocks of K, the GEMM runs on tensor cores, however B is stored. */
static void require_tensor_cores(const weights_trial *t, const tdm_gemm_plan *plan) {
    const uint32_t needed = TDM_CAP_TENSOR_CORES | TDM_CAP_ASYNC_COPY;
    const char *const variant = tdm_gemm_plan_variant(plan);
    if ((t->device->info.capabilities & needed) == needed && t->group % 32 == 0 &&
        !strstr(variant, "__tensor"))
        test_case_fail("%s is chosen: %s", variant, tdm_gemm_plan_refusals(plan));
}

/*
 * Quantized values are multiplied in place for any number of rows, except on devices with
 * asynchronous copies of floats.
 */
static void refuse_workspace(const weights_trial *t, const tdm_gemm_plan *plan) {
    size_t bytes = 1;
    TEST_OK(tdm_gemm_plan_workspace_size(plan, &bytes));
    if (bytes != 0 && (t->device->info.capabilities & TDM_CAP_ASYNC_COPY) == 0)
        test_case_fail("%s takes %zu bytes: %s", tdm_gemm_plan_variant(plan), bytes,
                       tdm_gemm_plan_refusals(plan));
}

static void plan_one(weights_trial t,
                     void (*check)(const weights_trial *t, const tdm_gemm_plan *plan)) {
    char text[256];
    tdm_gemm_plan *plan;
    if (!test_case_begin(t.device, NULL, "plan of %s", weights_trial_text(&t, text)))
        return;
    weights_trial_create(&t);
    const tdm_gemm_desc desc = weights_trial_describe(&t);
    TEST_OK(tdm_gemm_plan_create(t.device->device, &desc, &plan));
    check(&t, plan);
    tdm_gemm_plan_destroy(plan);
    test_case_end();
    weights_trial_destroy(&t);
}

static void check_row(const weights_trial *t, const tdm_gemm_plan *plan) {
    refuse_reference(plan);
    require_tensor_cores(t, plan);
}

/*
 * Selects cases for variants for few rows of A and for variants for more rows. At small scale the
 * two types of A alternate.
 */
static bool is_multiplied(const weights_trial *t, int kind, int form) {
    const bool other = test_is_small() && (form + kind) % COUNT(halves) != (t->a_type == TDM_BF16);
    return (t->m == 3 || t->m == 17) && t->k == depths_and_columns[0][0] &&
           t->n == depths_and_columns[0][1] && !other;
}

/* Cases that are also multiplied must keep the bound. */
DEVICE_TEST(no_form_of_weights_ends_at_the_reference) {
    const int shapes = test_is_small() ? 1 : COUNT(depths_and_columns);
    for (int i = 0; i < COUNT(kinds) * FORMS * COUNT(halves) * COUNT(all_rows) * shapes; i++) {
        int rest = i;
        const int kind = rest % COUNT(kinds), form = (rest /= COUNT(kinds)) % FORMS;
        const tdm_dtype a_type = halves[(rest /= FORMS) % COUNT(halves)];
        const int64_t m = all_rows[(rest /= COUNT(halves)) % COUNT(all_rows)];
        const int64_t *const shape = depths_and_columns[rest / COUNT(all_rows)];
        const weights_trial t = trial_of(device, kind, form, a_type, m, shape[1], shape[0]);
        plan_one(t, check_row);
        if (is_multiplied(&t, kind, form))
            weights_trial_run(t);
    }
}

DEVICE_TEST(many_rows_need_no_workspace) {
    static const tdm_dtype types[] = {TDM_F32, TDM_F16, TDM_BF16};
    for (int i = 0; i < COUNT(kinds) * FORMS * COUNT(types); i++)
        plan_one(trial_of(device, i % COUNT(kinds), i / COUNT(kinds) % FORMS,
                          types[i / COUNT(kinds) / FORMS], 70, 41, 97),
                 refuse_workspace);
}

/* ---- results --------------------------------------------------------------------------------- */

/* Some operands are converted first: a transposed A, and an operand that batch entries share. */
DEVICE_TEST(entries_that_share_an_operand_have_their_own_results) {
    for (int kind = 0; kind < COUNT(kinds); kind++)
        for (int i = 0; i < 3; i++) {
            weights_trial t = trial_of(device, kind, FORM_COLUMNS, halves[(kind + i) % 2],
                                       i == 1 ? 3 : 18, 10, 70);
            t.batch = i == 2 ? 0 : 3;
            t.transpose_a = i == 2;
            t.shares_a = i == 1;
            t.shares_b = i == 0;
            weights_trial_run(t);
        }
}

/* The workspace holds the converted weights and the partial results of a split K. */
DEVICE_TEST(parts_of_k_stand_beside_lines) {
    weights_trial_run(trial_of(device, Q4_0, FORM_COLUMNS, TDM_F16, 64, 16, 2080));
}

/*
 * Neighbouring rows of B are one element apart and overlap, so every other row starts inside a
 * byte.
 */
static void multiply_within_bytes(const test_device *device, const char *variant) {
    for (int form = FORM_LINES; form < FORMS; form++) {
        weights_trial t = trial_of(device, Q4_0, form, TDM_F32, 20, 9, 41);
        t.group = 0;
        t.side_by_side = 1;
        t.variant = variant;
        weights_trial_run(t);
    }
}

DEVICE_TEST(lines_may_begin_within_a_byte) {
    multiply_within_bytes(device, NULL);
    for (int i = 0; i < tdm_variant_count; i++) {
        const tdm_variant *const row = &tdm_variants[i];
        if (row->op == TDM_OP_GEMM_WEIGHTS && test_can_run(device, row) &&
            row->parameters[TDM_GEMM_P_FAMILY] == TDM_GEMM_TILED &&
            row->parameters[TDM_GEMM_P_A_TYPE] == TDM_F32 &&
            row->parameters[TDM_GEMM_P_B_TYPE] == TDM_S4)
            multiply_within_bytes(device, row->name);
    }
}

/* A forced variant gets operands in a form that it takes: B along K, or both operands in f32. */
DEVICE_TEST(forced_rows_get_their_form) {
    static const char *const rows[] = {"gemm_f16s8_mma_64x64__tensor", "gemm_f32_tiled_32x32",
                                       "gemm_f32_simt_64x64__async", "gemm_f32_small_m_group"};
    for (int i = 0; i < COUNT(rows); i++) {
        weights_trial t = trial_of(device, 0, FORM_COLUMNS, TDM_F16, 18, 10, 72);
        t.batch = 2;
        t.shares_a = i % 2 == 0;
        t.variant = rows[i];
        if (test_can_run(device, tdm_variant_find(rows[i])) && !weights_trial_run(t))
            fail_msg("%s refuses it", rows[i]);
    }
}

/* A plan builds all kernels that its runs launch, because a recording stream builds none. */
DEVICE_TEST(the_first_run_can_be_recorded) {
    const int one_of_each[] = {0, Q4_0, 5};
    for (int i = 0; i < COUNT(one_of_each); i++) {
        own_device own = own_device_open(device, 0);
        test_device fresh = *device;
        fresh.device = own.device;
        fresh.stream = own.stream;
        weights_trial t = trial_of(&fresh, one_of_each[i], FORM_COLUMNS, TDM_F16, 17, 9, 64);
        t.recorded = 1;
        weights_trial_create(&t);
        weights_trial_multiply(&t);
        weights_trial_check(&t);
        weights_trial_destroy(&t);
        own_device_close(&own);
    }
}

TEST_MAIN(test_devices_setup, test_devices_teardown)
