/*
 * The check of products of integers and of quantized weights in the benchmarks: right results pass, the
 * mistakes that kernels make are seen.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/support/gemm/bench_gemm_check.h"

/* A page from the heading on, to the next of its kind. The caller frees it. */
static char *section_of(const char *path, const char *heading) {
    enum {
        MOST = 1 << 18
    };
    FILE *const file = fopen(path, "r");
    char *const text = calloc(MOST, 1);
    assert_true(file && text);
    assert_in_range(fread(text, 1, MOST - 1, file), 1, MOST - 2);
    fclose(file);
    char *const start = strstr(text, heading);
    assert_non_null(start);
    char *const end = strstr(start + strlen(heading), "\n## ");
    if (end)
        *end = '\0';
    memmove(text, start, strlen(start) + 1);
    return text;
}

/* In --help by a line, in the documentation by the table. */
static void every_type_is_explained(void **state) {
    (void)state;
    char *const table =
        section_of(TANDEM_SOURCE_DIR "/docs/benchmarks.md", "\n## Types of matrices\n");
    int count = 0;
    for (gemm_types types = GEMM_NO_TYPES + 1; types <= GEMM_W4A8; types++, count++) {
        char line[32], cell[32];
        snprintf(line, sizeof line, "\n  %s: ", gemm_types_name(types));
        snprintf(cell, sizeof cell, "`%s`", gemm_types_name(types));
        if (!strstr(gemm_types_help, line) || !strstr(table, cell))
            fail_msg("%s is not explained", gemm_types_name(types));
    }
    assert_int_equal(count, 15);
    free(table);
}

/* ---- integers ------------------------------------------------------------------------------------------ */

static const gemm_case integers = {.types = GEMM_U8S8, .m = 33, .n = 47, .k = 261, .seed = 11};

/* How the sum of a product is made, rightly or not. */
typedef int64_t (*sum_function)(const gemm_case *item, const void *a, const void *b, int64_t row,
                                int64_t column);

static int64_t exact_sum(const gemm_case *item, const void *a, const void *b, int64_t row,
                         int64_t column) {
    int64_t sum = 0;
    for (int64_t i = 0; i < item->k; i++)
        sum += ((int64_t)operand(item, a, OP_GEMM_A, 0, row, i) -
                gemm_case_zero_point(item, OP_GEMM_A)) *
               (int64_t)operand(item, b, OP_GEMM_B, 0, i, column);
    return sum;
}

/* Pairs of products in 16 bits, as the multiply-add of bytes of older processors makes them. */
static int64_t saturated_sum(const gemm_case *item, const void *a, const void *b, int64_t row,
                             int64_t column) {
    int64_t sum = 0;
    for (int64_t i = 0; i < item->k; i += 2) {
        int64_t pair = 0;
        for (int64_t j = i; j < i + 2 && j < item->k; j++)
            pair += (int64_t)operand(item, a, OP_GEMM_A, 0, row, j) *
                    (int64_t)operand(item, b, OP_GEMM_B, 0, j, column);
        sum += pair > 32767 ? 32767 : pair < -32768 ? -32768 : pair;
    }
    return sum;
}

/* A taken for the other type of bytes. */
static int64_t misread_sum(const gemm_case *item, const void *a, const void *b, int64_t row,
                           int64_t column) {
    gemm_case other = *item;
    other.types = item->types == GEMM_S8 ? GEMM_U8S8 : GEMM_S8;
    return exact_sum(&other, a, b, row, column);
}

/* The zero point left out. */
static int64_t raw_sum(const gemm_case *item, const void *a, const void *b, int64_t row,
                       int64_t column) {
    gemm_case other = *item;
    other.types = GEMM_U8S8;
    return exact_sum(&other, a, b, row, column);
}

static int64_t shorter_sum(const gemm_case *item, const void *a, const void *b, int64_t row,
                           int64_t column) {
    return exact_sum(item, a, b, row, column) -
           (int64_t)operand(item, a, OP_GEMM_A, 0, row, item->k - 1) *
               (int64_t)operand(item, b, OP_GEMM_B, 0, item->k - 1, column);
}

/* To bytes by the definition, in f32: the product, the nearest integer, the zero point, the ends of the range. */
static double requantized(const gemm_case *item, int64_t column, int64_t sum) {
    const float multiplier = gemm_case_scale(item, OP_GEMM_A, 0, 0) *
                             gemm_case_scale(item, OP_GEMM_B, 0, column) /
                             gemm_case_scale(item, OP_GEMM_D, 0, 0);
    const int is_signed = gemm_types_dtype(item->types, OP_GEMM_D) == TDM_S8;
    const float zero = is_signed ? -8 : 120, low = is_signed ? -128 : 0;
    const float least = item->epilogue.activation == TDM_ACT_RELU ? zero : low;
    return (double)fminf(fmaxf(rintf((float)sum * multiplier) + zero, least), low + 255);
}

static double scale_of(const gemm_case *item, int64_t column) {
    if (!gemm_types_quantized(item->types, OP_GEMM_B))
        return 1;
    return (double)gemm_case_scale(item, OP_GEMM_A, 0, 0) *
           (double)gemm_case_scale(item, OP_GEMM_B, 0, column);
}

static void *multiply_integers(const gemm_case *item, sum_function sum) {
    void *const a = gemm_case_create(item, OP_GEMM_A);
    void *const b = gemm_case_create(item, OP_GEMM_B);
    void *const d = gemm_case_create(item, OP_GEMM_D);
    int32_t *const bias = item->epilogue.bias ? gemm_case_create(item, OP_GEMM_BIAS) : NULL;
    assert_true(a != NULL && b != NULL && d != NULL);
    for (int64_t i = 0; i < item->m * item->n; i++) {
        const int64_t column = i % item->n;
        const int64_t value =
            sum(item, a, b, i / item->n, column) + (bias != NULL ? bias[column] : 0);
        tdm_number_set(gemm_types_dtype(item->types, OP_GEMM_D), d, (size_t)i,
                       gemm_types_requantized(item->types)
                           ? requantized(item, column, value)
                           : scale_of(item, column) * (double)value);
    }
    free(a);
    free(b);
    free(bias);
    return d;
}

static const gemm_types integer_types[] = {GEMM_S8, GEMM_U8S8, GEMM_U8S8F32, GEMM_U8S8U8,
                                           GEMM_S8S8S8};

static void right_integers_pass(void **state) {
    (void)state;
    for (int i = 0; i < 20; i++) {
        gemm_case item = integers;
        item.types = integer_types[i / 4];
        item.transpose_a = i / 2 % 2;
        item.transpose_b = i % 2;
        void *const d = multiply_integers(&item, exact_sum);
        const gemm_verdict verdict = verdict_of(&item, d);
        const int exact = gemm_types_exact(item.types) || gemm_types_requantized(item.types);
        if (!verdict.right || !(verdict.max_error <= (exact ? 0 : 1e-7)))
            fail_msg("%s %d: %s, error %g", gemm_types_name(item.types), i % 4, verdict.reason,
                     verdict.max_error);
        free(d);
    }
}

static void wrong_sums_are_seen(void **state) {
    (void)state;
    static const struct {
        gemm_types types;
        sum_function sum;
    } rows[] = {{GEMM_U8S8, saturated_sum},   {GEMM_U8S8, misread_sum},  {GEMM_S8, misread_sum},
                {GEMM_U8S8, shorter_sum},     {GEMM_S8, shorter_sum},    {GEMM_U8S8F32, raw_sum},
                {GEMM_U8S8F32, shorter_sum},  {GEMM_U8S8U8, raw_sum},    {GEMM_U8S8U8, shorter_sum},
                {GEMM_U8S8U8, saturated_sum}, {GEMM_U8S8U8, misread_sum}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        gemm_case item = integers;
        item.types = rows[i].types;
        void *const d = multiply_integers(&item, rows[i].sum);
        if (verdict_of(&item, d).right)
            fail_msg("row %zu was not seen", i);
        free(d);
    }
}

/* One entry, by one; two that change places, where a row is all that is looked at. */
static void one_wrong_integer_is_seen(void **state) {
    (void)state;
    gemm_case item = integers;
    item.m = 90; /* more entries than are sampled */
    for (int i = 0; i < 64; i++) {
        item.types = integer_types[i % 2];
        item.seed = (uint64_t)i;
        int32_t *const d = multiply_integers(&item, exact_sum);
        const int64_t row = 1 + i;
        int32_t *const entry = d + row * item.n + 1 + i % 40;
        *entry += 1;
        if (verdict_of(&item, d).right)
            fail_msg("one off was not seen in row %d", (int)row);
        *entry -= 1;
        if (i % 4 == 0) {
            const int32_t kept = entry[0];
            entry[0] = entry[3];
            entry[3] = kept;
            if (entry[0] != entry[3] && verdict_of(&item, d).right)
                fail_msg("two in each other's place were not seen in row %d", (int)row);
        }
        free(d);
    }
}

static void an_output_nobody_wrote_is_wrong(void **state) {
    (void)state;
    for (int i = 0; i < 4; i++) {
        gemm_case item = integers;
        item.types = integer_types[i];
        item.k = i < 3 ? 1 : 9;
        void *const d = gemm_case_create(&item, OP_GEMM_D);
        const gemm_verdict verdict = verdict_of(&item, d);
        assert_false(verdict.right);
        free(d);
    }
}

/* Every value that the type has, about as often as any other. */
static void integers_cover_their_range(void **state) {
    (void)state;
    gemm_case item = integers;
    item.m = 400;
    item.n = 400;
    item.k = 400;
    for (int i = 0; i < 4; i++) {
        int counts[256] = {0};
        const op_gemm_operand which = i % 2 == 0 ? OP_GEMM_A : OP_GEMM_B;
        item.types = i < 2 ? GEMM_S8 : GEMM_U8S8;
        unsigned char *const data = gemm_case_create(&item, which);
        for (size_t at = 0; at < gemm_case_elements(&item, which); at++)
            counts[data[at]]++;
        for (int value = 0; value < 256; value++)
            assert_in_range(counts[value], 625 - 125, 625 + 125); /* five standard deviations */
        free(data);
    }
}

/* A wrong byte in a square of its own, whatever the square; both ends of the range are reached. */
static void a_wrong_square_is_seen(void **state) {
    (void)state;
    const gemm_case item = {
        .types = GEMM_U8S8U8, .m = 70, .n = 200, .k = 40, .transpose_b = 1, .seed = 3};
    int counts[256] = {0};
    unsigned char *const d = multiply_integers(&item, exact_sum);
    for (int64_t i = 0; i < item.m * item.n; i++)
        counts[d[i]]++;
    assert_true(counts[0] > 0 && counts[255] > 0 && counts[120] > 10);
    assert_true(verdict_of(&item, d).right);
    for (int64_t square = 0; square < 3 * 7; square++) {
        for (int way = 0; way < 2; way++) {
            for (int64_t i = 0; i < item.m * item.n; i++)
                if (i / item.n / 32 * 7 + i % item.n / 32 == square)
                    d[i] ^= 1;
            assert_int_equal(verdict_of(&item, d).right, way);
        }
    }
    free(d);
}

/* Bias and relu before and in the requantization: the right bytes pass, those of another epilogue do not. */
static void requantized_epilogues_are_checked(void **state) {
    (void)state;
    for (int i = 0; i < 2 * 4; i++) {
        gemm_case item = integers;
        item.types = i < 4 ? GEMM_U8S8U8 : GEMM_S8S8S8;
        item.epilogue = (gemm_case_epilogue){i & 1, 0, i & 2 ? TDM_ACT_RELU : TDM_ACT_NONE};
        void *const d = multiply_integers(&item, exact_sum);
        for (int other = 0; other < 4; other++) {
            gemm_case checked = item;
            checked.epilogue =
                (gemm_case_epilogue){other & 1, 0, other & 2 ? TDM_ACT_RELU : TDM_ACT_NONE};
            assert_int_equal(verdict_of(&checked, d).right, other == i % 4);
        }
        free(d);
    }
}

/* Both ends of s8: of matrices so small that every entry is looked at, and so short that their bias leads out of the range. */
static void both_ends_of_s8_are_checked(void **state) {
    (void)state;
    gemm_case item = {.types = GEMM_S8S8S8, .m = 7, .n = 9, .k = 2, .epilogue = {.bias = 1}};
    int least = 0, most = 0;
    for (item.seed = 1; item.seed <= 20; item.seed++) {
        int8_t *const d = multiply_integers(&item, exact_sum);
        assert_true(verdict_of(&item, d).right);
        for (int i = 0; i < 7 * 9; i++) {
            least += d[i] == -128;
            most += d[i] == 127;
        }
        free(d);
    }
    assert_true(least > 20 && most > 20);
}

static void types_are_rows(void **state) {
    (void)state;
    assert_int_equal(gemm_types_find("u8s8"), GEMM_U8S8);
    assert_int_equal(gemm_types_find("u8"), GEMM_NO_TYPES);
    assert_int_equal(gemm_types_find(""), GEMM_NO_TYPES);
    assert_string_equal(
        gemm_types_choices,
        "f32|3xtf32|f16|bf16|s8|u8s8|s8s8s8|u8s8f32|u8s8u8|w8|w4|f16w8|f16w4|w8a8|w4a8");
    assert_int_equal(gemm_types_dtype(GEMM_S8, OP_GEMM_D), TDM_S32);
    assert_int_equal(gemm_types_op(GEMM_BF16), TDM_OP_GEMM);
    assert_int_equal(gemm_types_op(GEMM_U8S8F32), TDM_OP_GEMM_INT);
    assert_int_equal(gemm_types_op(GEMM_W4A8), TDM_OP_GEMM_WEIGHTS);
    assert_int_equal(gemm_types_of(TDM_U8, TDM_S8, 0, 0), GEMM_U8S8);
    assert_int_equal(gemm_types_of(TDM_F32, TDM_S4, 1, 0), GEMM_W4A8);
    assert_int_equal(gemm_types_of(TDM_F32, TDM_F16, 0, 0), GEMM_NO_TYPES);
    assert_int_equal(gemm_types_of(TDM_DTYPE_NONE, TDM_DTYPE_NONE, 0, 0), GEMM_NO_TYPES);
    assert_int_equal(gemm_types_of(TDM_F32, TDM_F32, 0, 0), GEMM_F32);
    assert_int_equal(gemm_types_of(TDM_F32, TDM_F32, 0, 1), GEMM_3XTF32);
    assert_int_equal(gemm_types_for_tuning(GEMM_U8S8F32), GEMM_U8S8);
    assert_int_equal(gemm_types_for_tuning(GEMM_W8), GEMM_W8);
    assert_int_equal(gemm_types_for_tuning(GEMM_S8S8S8), GEMM_S8);
    assert_int_equal(gemm_types_with_requantized(GEMM_U8S8), GEMM_U8S8U8);
    assert_int_equal(gemm_types_with_requantized(GEMM_BF16), GEMM_BF16);
    assert_int_equal(gemm_types_for_tuning(GEMM_NO_TYPES), GEMM_NO_TYPES);
    gemm_case item = integers;
    item.types = GEMM_U8S8;
    assert_true(gemm_case_bytes(&item, OP_GEMM_A) == 33 * 261);
    assert_true(gemm_case_bytes(&item, OP_GEMM_D) == 4 * 33 * 47);
}

/* ---- quantized weights --------------------------------------------------------------------------------- */

static const gemm_case weights = {.types = GEMM_W8, .m = 21, .n = 34, .k = 262, .seed = 5};

typedef enum wrong_way {
    NO_MISTAKE,
    OTHER_A,       /* A's rows quantized where they are not to be, or the other way around */
    OTHER_NIBBLES, /* the second of a byte first */
    OTHER_GROUP,   /* scales of the next one */
    OTHER_COLUMN
} wrong_way;

static double real_of_a(const gemm_case *item, const void *a, int64_t row, int64_t step,
                        wrong_way mistake) {
    float most = 0;
    for (int64_t i = 0; i < item->k; i++)
        most = fmaxf(most, fabsf((float)operand(item, a, OP_GEMM_A, 0, row, i)));
    const double x = operand(item, a, OP_GEMM_A, 0, row, step);
    const float scale = most / 127;
    const int dynamic = gemm_types_dynamic(item->types) != (mistake == OTHER_A);
    return dynamic ? (double)scale * (double)rintf((float)x / scale) : x;
}

static double stored_of_b(const gemm_case *item, const void *b, int64_t step, int64_t column,
                          wrong_way mistake) {
    const int64_t place = item->transpose_b ? column * item->k + step : step * item->n + column;
    if (gemm_types_dtype(item->types, OP_GEMM_B) != TDM_S4)
        return ((const int8_t *)b)[place];
    const int byte = ((const unsigned char *)b)[place / 2];
    const int nibble = (place % 2 == 1) != (mistake == OTHER_NIBBLES) ? byte >> 4 : byte & 15;
    return nibble > 7 ? nibble - 16 : nibble;
}

static double real_of_b(const gemm_case *item, const void *b, int64_t step, int64_t column,
                        wrong_way mistake) {
    const int64_t length = gemm_types_group(item->types);
    const int64_t group = length == 0 ? 0 : step / length;
    const int64_t used_group = (group + (mistake == OTHER_GROUP)) % gemm_case_groups(item);
    const int64_t used_column = (column + (mistake == OTHER_COLUMN)) % item->n;
    return (double)gemm_case_scale(item, OP_GEMM_B, used_group, used_column) *
           stored_of_b(item, b, step, column, mistake);
}

static void *multiply_weights(const gemm_case *item, wrong_way mistake) {
    void *const a = gemm_case_create(item, OP_GEMM_A);
    void *const b = gemm_case_create(item, OP_GEMM_B);
    float *const d = gemm_case_create(item, OP_GEMM_D);
    double *const row = malloc((size_t)item->k * sizeof *row);
    assert_true(a != NULL && b != NULL && d != NULL && row != NULL);
    for (int64_t i = 0; i < item->m; i++) {
        for (int64_t step = 0; step < item->k; step++)
            row[step] = real_of_a(item, a, i, step, mistake);
        for (int64_t column = 0; column < item->n; column++) {
            double sum = 0;
            for (int64_t step = 0; step < item->k; step++)
                sum += row[step] * real_of_b(item, b, step, column, mistake);
            d[i * item->n + column] = (float)sum;
        }
    }
    free(row);
    free(a);
    free(b);
    return d;
}

static const gemm_types weight_types[] = {GEMM_W8, GEMM_W4, GEMM_W8A8, GEMM_W4A8};

static void right_weights_pass(void **state) {
    (void)state;
    for (int i = 0; i < 16; i++) {
        gemm_case item = weights;
        item.types = weight_types[i / 4];
        item.transpose_a = i / 2 % 2;
        item.transpose_b = i % 2;
        void *const d = multiply_weights(&item, NO_MISTAKE);
        const gemm_verdict verdict = verdict_of(&item, d);
        if (!verdict.right || !(verdict.max_error < 1e-7))
            fail_msg("%s %d: %s, error %g", gemm_types_name(item.types), i % 4, verdict.reason,
                     verdict.max_error);
        free(d);
    }
}

static void weights_read_wrongly_are_seen(void **state) {
    (void)state;
    for (int i = 0; i < 32; i++) {
        gemm_case item = weights;
        const wrong_way mistake = (wrong_way)(1 + i / 8);
        item.types = weight_types[i % 4];
        item.transpose_b = i / 4 % 2;
        const int is_s4 = gemm_types_dtype(item.types, OP_GEMM_B) == TDM_S4;
        if ((mistake == OTHER_NIBBLES || mistake == OTHER_GROUP) && !is_s4)
            continue;
        void *const d = multiply_weights(&item, mistake);
        if (verdict_of(&item, d).right)
            fail_msg("%s: mistake %d was not seen", gemm_types_name(item.types), mistake);
        free(d);
    }
}

/* Two elements of s4 are a byte, and scales are read as well. */
static void weights_count_their_bytes(void **state) {
    (void)state;
    gemm_case item = weights;
    item.types = GEMM_W4;
    assert_int_equal(gemm_case_groups(&item), 9);
    assert_int_equal(gemm_case_bytes(&item, OP_GEMM_B), 17 * 262);
    assert_true(gemm_case_operand_bytes(&item) ==
                4 * 21 * 262 + 17 * 262 + 2 * 9 * 34 + 4 * 21 * 34);
    item.types = GEMM_W8A8;
    assert_int_equal(gemm_case_groups(&item), 1);
    assert_true(gemm_case_operand_bytes(&item) == 4 * 21 * 262 + 34 * 262 + 4 * 34 + 4 * 21 * 34);
    assert_true(gemm_types_integer(GEMM_W8A8) && !gemm_types_integer(GEMM_W8));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(requantized_epilogues_are_checked),
        cmocka_unit_test(both_ends_of_s8_are_checked),
        cmocka_unit_test(types_are_rows),
        cmocka_unit_test(every_type_is_explained),
        cmocka_unit_test(integers_cover_their_range),
        cmocka_unit_test(right_integers_pass),
        cmocka_unit_test(wrong_sums_are_seen),
        cmocka_unit_test(one_wrong_integer_is_seen),
        cmocka_unit_test(a_wrong_square_is_seen),
        cmocka_unit_test(an_output_nobody_wrote_is_wrong),
        cmocka_unit_test(right_weights_pass),
        cmocka_unit_test(weights_read_wrongly_are_seen),
        cmocka_unit_test(weights_count_their_bytes),
    };
    return cmocka_run_group_tests_name("bench gemm types", tests, NULL, NULL);
}
