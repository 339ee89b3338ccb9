/* Tests the GEMM cases of the benchmarks: their types, sets and request lines. The check of their
 * outputs must detect mistakes. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/cases/gemm_sets.h"
#include "common/random_fill.h"
#include "quant/number_formats.h"
#include "quant/quant_reference.h"
#include "tests/support/test_case.h"

static const gemm_case plain = {.types = GEMM_F32, .m = 21, .n = 34, .k = 129, .seed = 7};

/* ---- a GEMM, right or wrong ------------------------------------------------------------------ */

typedef enum mistake {
    RIGHT,
    SHORTER, /* the last term is left out */
    // Bytes of A are read as the other type. If A is float, its rows are quantized where they must
    // not be, or the reverse.
    OTHER_A,
    RAW_A,         /* the zero point is left out */
    SATURATED,     /* pairs of products saturate at 16 bits, as on older processors */
    OTHER_NIBBLES, /* the two nibbles of a byte are exchanged */
    OTHER_GROUP,   /* scales of the next group are used */
    OTHER_COLUMN
} mistake;

static double stored(const gemm_case *item, const void *data, op_gemm_operand which, size_t place) {
    return tdm_number_get(gemm_case_dtype(item, which), data, place);
}

/* Returns the index of element (row, column) of op(A) or op(B). */
static size_t place_of(const gemm_case *item, op_gemm_operand which, int64_t batch, int64_t row,
                       int64_t column) {
    const int64_t rows = which == OP_GEMM_A ? item->m : item->k;
    const int64_t columns = which == OP_GEMM_A ? item->k : item->n;
    const int transposed = which == OP_GEMM_A ? item->transpose_a : item->transpose_b;
    return (size_t)(batch * rows * columns +
                    (transposed ? column * rows + row : row * columns + column));
}

static int is_byte(const gemm_case *item, op_gemm_operand which) {
    return tdm_dtype_info(gemm_case_dtype(item, which))->kind != TDM_CLASS_FLOAT;
}

/* Reads a row of op(A) and dequantizes it without A's scale. */
static void row_of_a(const gemm_case *item, const void *a, int64_t batch, int64_t row, mistake way,
                     double *values) {
    float most = 0;
    for (int64_t i = 0; i < item->k; i++) {
        double x = stored(item, a, OP_GEMM_A, place_of(item, OP_GEMM_A, batch, row, i));
        if (way == OTHER_A && is_byte(item, OP_GEMM_A))
            x = gemm_case_dtype(item, OP_GEMM_A) == TDM_S8 ? (double)(uint8_t)(int8_t)x
                                                           : (double)(int8_t)(uint8_t)x;
        values[i] = x - (way == RAW_A ? 0 : gemm_case_zero_point(item, OP_GEMM_A));
        most = fmaxf(most, fabsf((float)x));
    }
    const int weights = is_byte(item, OP_GEMM_B) && !is_byte(item, OP_GEMM_A);
    if (gemm_types_dynamic(item->types) == (weights && way == OTHER_A))
        return;
    for (int64_t i = 0; i < item->k; i++)
        values[i] = (double)(most / 127) * (double)rintf((float)values[i] / (most / 127));
}

/* Returns an element of B. It is dequantized with B's scale only if A is not quantized. */
static double value_of_b(const gemm_case *item, const void *b, int64_t batch, int64_t step,
                         int64_t column, mistake way) {
    const size_t place = place_of(item, OP_GEMM_B, batch, step, column);
    const int64_t length = gemm_types_group(item->types);
    const int64_t group = length == 0 ? 0 : step / length;
    const size_t read = way == OTHER_NIBBLES ? place ^ 1 : place;
    const double x = gemm_case_dtype(item, OP_GEMM_B) == TDM_S4
                         ? tdm_quant_get(TDM_S4, b, (int64_t)read)
                         : stored(item, b, OP_GEMM_B, place);
    if (!gemm_types_quantized(item->types, OP_GEMM_B) ||
        gemm_types_quantized(item->types, OP_GEMM_A))
        return x;
    return x * (double)gemm_case_scale(item, OP_GEMM_B,
                                       (group + (way == OTHER_GROUP)) % gemm_case_groups(item),
                                       (column + (way == OTHER_COLUMN)) % item->n);
}

/* Returns the output that the definition gives for a sum. */
static double store(const gemm_case *item, double sum, int64_t column, double residual) {
    const gemm_types types = item->types;
    if (gemm_types_requantized(types)) {
        const float multiplier = gemm_case_scale(item, OP_GEMM_A, 0, 0) *
                                 gemm_case_scale(item, OP_GEMM_B, 0, column) /
                                 gemm_case_scale(item, OP_GEMM_D, 0, 0);
        const int is_signed = gemm_types_dtype(types, OP_GEMM_D) == TDM_S8;
        const float zero = is_signed ? -8 : 120, low = is_signed ? -128 : 0;
        const float least = item->epilogue.activation == TDM_ACT_RELU ? zero : low;
        return (double)fminf(fmaxf(rintf((float)sum * multiplier) + zero, least), low + 255);
    }
    if (gemm_types_quantized(types, OP_GEMM_A))
        sum *= (double)gemm_case_scale(item, OP_GEMM_A, 0, 0) *
               (double)gemm_case_scale(item, OP_GEMM_B, 0, column);
    return op_gemm_activate(sum + residual, item->epilogue.activation);
}

/* Sums are in f32 if B holds floats, and exact if it holds integers. */
static double sum_of(const gemm_case *item, const double *a, const void *b, int64_t batch,
                     int64_t column, mistake way) {
    const int64_t steps = item->k - (way == SHORTER);
    float single = 0;
    double sum = 0, pair = 0;
    for (int64_t i = 0; i < steps; i++) {
        const double product = a[i] * value_of_b(item, b, batch, i, column, way);
        single += (float)product;
        pair = i % 2 == 0 ? product : pair + product;
        if (way != SATURATED)
            sum += product;
        else if (i % 2 == 1 || i + 1 == steps)
            sum += fmin(fmax(pair, -32768), 32767);
    }
    return is_byte(item, OP_GEMM_B) ? sum : (double)single;
}

static void *multiply(const gemm_case *item, mistake way) {
    void *const a = gemm_case_create(item, OP_GEMM_A);
    void *const b = gemm_case_create(item, OP_GEMM_B);
    void *const d = gemm_case_create(item, OP_GEMM_D);
    void *const bias = item->epilogue.bias ? gemm_case_create(item, OP_GEMM_BIAS) : NULL;
    void *const residual =
        item->epilogue.residual ? gemm_case_create(item, OP_GEMM_RESIDUAL) : NULL;
    double *const row = malloc((size_t)item->k * sizeof *row);
    assert_true(a != NULL && b != NULL && d != NULL && row != NULL);
    for (int64_t line = 0; line < gemm_case_batch(item) * item->m; line++) {
        row_of_a(item, a, line / item->m, line % item->m, way, row);
        for (int64_t column = 0; column < item->n; column++) {
            const size_t place = (size_t)(line * item->n + column);
            double sum = sum_of(item, row, b, line / item->m, column, way);
            if (bias != NULL)
                sum += stored(item, bias, OP_GEMM_BIAS, (size_t)column);
            tdm_number_set(
                gemm_case_dtype(item, OP_GEMM_D), d, place,
                store(item, sum, column,
                      residual != NULL ? stored(item, residual, OP_GEMM_RESIDUAL, place) : 0));
        }
    }
    free(a);
    free(b);
    free(bias);
    free(residual);
    free(row);
    return d;
}

/* ---- the check ------------------------------------------------------------------------------- */

/* Returns 1 if an output passes. */
static int passes(const gemm_case *item, const void *d, double *max_error) {
    worker_text reason = {.length = 0};
    gemm_oracle oracle = GEMM_ORACLE_INIT;
    assert_int_equal(gemm_oracle_set(&oracle, item), 0);
    const int result =
        gemm_oracle_check(&oracle, d, gemm_case_bytes(item, OP_GEMM_D), max_error, &reason);
    assert_true(result == 0 || reason.length > 0);
    gemm_oracle_release(&oracle);
    return result == 0;
}

TEST(right_results_pass) {
    for (gemm_types types = GEMM_F32; types <= GEMM_W4A8; types++) {
        const tdm_dtype d_type = gemm_types_dtype(types, OP_GEMM_D);
        const double largest_error = d_type == TDM_F32    ? 1e-6
                                     : d_type == TDM_F16  ? 5e-4
                                     : d_type == TDM_BF16 ? 4e-3
                                                          : 0;
        for (int i = 0; i < 5; i++) {
            gemm_case item = plain;
            double error = NAN;
            item.types = types;
            item.transpose_a = i / 2 % 2;
            item.transpose_b = i % 2;
            item.batch = i == 4 ? 3 : 1;
            void *const d = multiply(&item, RIGHT);
            if (!passes(&item, d, &error) || !(error <= largest_error))
                fail_msg("%s %d: error %g", gemm_types_name(types), i, error);
            free(d);
        }
    }
}

TEST(smallest_shapes_pass) {
    for (int shape = 0; shape < 8; shape++) {
        gemm_case item = plain;
        double error;
        item.m = shape & 1 ? 1 : 5;
        item.n = shape & 2 ? 1 : 7;
        item.k = shape & 4 ? 1 : 3;
        void *const d = multiply(&item, RIGHT);
        assert_true(passes(&item, d, &error));
        free(d);
    }
}

TEST(wrong_sums_are_seen) {
    static const struct {
        gemm_types types;
        mistake ways[6];
    } rows[] = {{GEMM_F32, {SHORTER}},
                {GEMM_F16, {SHORTER}},
                {GEMM_BF16, {SHORTER}},
                {GEMM_S8, {OTHER_A, SHORTER}},
                {GEMM_U8S8, {OTHER_A, SHORTER, SATURATED}},
                {GEMM_U8S8F32, {RAW_A, SHORTER}},
                {GEMM_U8S8U8, {RAW_A, SHORTER, OTHER_A}},
                {GEMM_W8, {OTHER_A, OTHER_COLUMN}},
                {GEMM_W8A8, {OTHER_A, OTHER_COLUMN}},
                {GEMM_W4, {OTHER_A, OTHER_COLUMN, OTHER_NIBBLES, OTHER_GROUP}},
                {GEMM_W4A8, {OTHER_A, OTHER_COLUMN, OTHER_NIBBLES, OTHER_GROUP}}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        for (int way = 0; rows[i].ways[way] != RIGHT; way++) {
            gemm_case item = plain;
            double error;
            item.types = rows[i].types;
            item.transpose_b = way % 2;
            void *const d = multiply(&item, rows[i].ways[way]);
            if (passes(&item, d, &error))
                fail_msg("%s: mistake %d was not seen", gemm_types_name(item.types),
                         rows[i].ways[way]);
            free(d);
        }
    }
}

/* The check of a small GEMM detects any wrong entry. A NaN remains the largest error. */
TEST(every_wrong_entry_is_seen) {
    static const float wrong[] = {NAN, INFINITY, 0.05f};
    const size_t bytes = gemm_case_bytes(&plain, OP_GEMM_D);
    float *const d = multiply(&plain, RIGHT);
    gemm_oracle oracle = GEMM_ORACLE_INIT;
    worker_text reason;
    double error;
    assert_int_equal(gemm_oracle_set(&oracle, &plain), 0);
    for (size_t i = 0; i < bytes / sizeof *d; i++) {
        const float kept = d[i];
        d[i] += wrong[i % 3];
        if (gemm_oracle_check(&oracle, d, bytes, &error, &reason) == 0)
            fail_msg("entry %zu was not seen", i);
        assert_int_equal(isnan(error), i % 3 == 0);
        d[i] = kept;
    }
    assert_int_equal(gemm_oracle_check(&oracle, d, bytes, &error, &reason), 0);
    assert_int_equal(gemm_oracle_check(&oracle, d, bytes - 4, &error, &reason), -1);
    gemm_oracle_release(&oracle);
    free(d);
}

/* The check of a larger GEMM detects any wrong square of 2 by 2. */
TEST(every_wrong_square_is_seen) {
    const gemm_case item = {.types = GEMM_F32, .m = 1031, .n = 1029, .k = 1, .seed = 5};
    const size_t bytes = gemm_case_bytes(&item, OP_GEMM_D);
    float *const d = multiply(&item, RIGHT);
    gemm_oracle oracle = GEMM_ORACLE_INIT;
    worker_text reason;
    double error;
    assert_int_equal(gemm_oracle_set(&oracle, &item), 0);
    for (int64_t square = 0; square < 516 * 515; square += 9973) {
        for (int way = 0; way < 2; way++) {
            for (int64_t i = 0; i < 4; i++) {
                const int64_t row = 2 * (square / 515) + i / 2, column = 2 * (square % 515) + i % 2;
                if (row < item.m && column < item.n)
                    d[row * item.n + column] *= -1;
            }
            if ((gemm_oracle_check(&oracle, d, bytes, &error, &reason) == 0) != way)
                fail_msg("square %d, turn %d", (int)square, way);
        }
    }
    gemm_oracle_release(&oracle);
    free(d);
}

/* The right D passes with its own epilogue and with no other. The oracle keeps expected results
 * between checks, but not those of other data. */
TEST(epilogues_are_checked) {
    static const struct {
        gemm_types types;
        gemm_case_epilogue epilogues[7];
        int count;
    } rows[] = {
        {GEMM_F32,
         {{.bias = 1},
          {.residual = 1},
          {.activation = TDM_ACT_RELU},
          {.activation = TDM_ACT_GELU},
          {.activation = TDM_ACT_GELU_TANH},
          {.activation = TDM_ACT_SILU},
          {1, 1, TDM_ACT_GELU}},
         7},
        {GEMM_U8S8U8, {{0}, {.bias = 1}, {.activation = TDM_ACT_RELU}, {1, 0, TDM_ACT_RELU}}, 4},
        {GEMM_S8S8S8, {{0}, {.bias = 1}, {.activation = TDM_ACT_RELU}, {1, 0, TDM_ACT_RELU}}, 4}};
    for (size_t r = 0; r < sizeof rows / sizeof rows[0]; r++) {
        gemm_oracle oracle = GEMM_ORACLE_INIT;
        for (int i = 0; i < rows[r].count; i++) {
            gemm_case item = plain;
            item.types = rows[r].types;
            item.epilogue = rows[r].epilogues[i];
            void *const d = multiply(&item, RIGHT);
            for (int other = 0; other < rows[r].count; other++) {
                gemm_case checked = item;
                worker_text reason;
                double error;
                checked.epilogue = rows[r].epilogues[other];
                assert_int_equal(gemm_oracle_set(&oracle, &checked), 0);
                const int right = gemm_oracle_check(&oracle, d, gemm_case_bytes(&item, OP_GEMM_D),
                                                    &error, &reason) == 0;
                if (right != (other == i))
                    fail_msg("%s: D with epilogue %d, checked with %d", gemm_types_name(item.types),
                             i, other);
            }
            free(d);
        }
        gemm_oracle_release(&oracle);
    }
}

/* Outputs reach both ends of a requantized range. If the sums are short, the bias takes them there.
 * An output that was not written is wrong. */
TEST(ends_of_ranges_are_checked) {
    gemm_case item = {.types = GEMM_S8S8S8, .m = 7, .n = 9, .k = 2, .epilogue = {.bias = 1}};
    int least = 0, most = 0;
    double error;
    for (item.seed = 1; item.seed <= 20; item.seed++) {
        int8_t *const d = multiply(&item, RIGHT);
        int8_t *const unwritten = gemm_case_create(&item, OP_GEMM_D);
        assert_true(passes(&item, d, &error));
        assert_false(passes(&item, unwritten, &error));
        for (int i = 0; i < 7 * 9; i++) {
            least += d[i] == -128;
            most += d[i] == 127;
        }
        free(d);
        free(unwritten);
    }
    assert_true(least > 20 && most > 20);
}

/* ---- cases ----------------------------------------------------------------------------------- */

TEST(shapes_are_read) {
    static const char *const bad[] = {"",          "8",       "8x8",         "8x8x8x8",
                                      "0x8x8",     "8x8x8x",  "8x8x-8",      "8x 8x8",
                                      "*8x8x8",    "0*8x8x8", "65537*1x1x1", "32768x1x32768",
                                      "8*8*8x8x8", "2*8x8",   "8x8x1048577", "40000x40000x1"};
    gemm_case item = plain;
    char name[96];
    assert_int_equal(gemm_case_parse_shape("12x345x6", &item), 0);
    assert_true(item.batch == 1 && item.m == 12 && item.n == 345 && item.k == 6);
    assert_int_equal(gemm_case_parse_shape("96*512x511x64", &item), 0);
    item.epilogue = (gemm_case_epilogue){1, 1, TDM_ACT_GELU_TANH};
    item.rotate = 200 << 20;
    gemm_case_name(&item, name, sizeof name);
    assert_string_equal(name, "f32 96*512x511x64 nn, 17 Bs +bias+residual+gelu_tanh");
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        if (gemm_case_parse_shape(bad[i], &item) == 0)
            fail_msg("'%s' was accepted", bad[i]);
    }
}

TEST(what_does_not_fit_is_said) {
    /* A has 4 MB, B 40 MB, D 400 kB. */
    const gemm_case item = {.types = GEMM_F32, .m = 100, .n = 1000, .k = 10000};
    const tdm_device_info tight = {.max_alloc_bytes = 40000000, .global_bytes = 170000000};
    tdm_device_info info = tight;
    worker_text reason = {.length = 0};
    assert_true(gemm_case_fits(&item, 2, &info, &reason)); /* with a packed B: 84.4 MB each */
    assert_false(gemm_case_fits(&item, 3, &info, &reason));
    assert_string_equal(reason.text, "0.3 GB are needed, more than the 0.2 GB of the device");
    info.capabilities = TDM_CAP_CPU_CORES; /* such a device uses the host's memory */
    assert_true(gemm_case_fits(&item, 3, &info, &reason));
    assert_false(gemm_case_fits(&item, 1 << 24, &info, &reason));
    info.max_alloc_bytes--;
    assert_false(gemm_case_fits(&item, 1, &info, &reason));
}

/* The number of copies is the smallest that has this many bytes in total, up to a limit. */
TEST(copies_of_b_are_counted) {
    static const int64_t rows[][2] = {{0, 1},    {1, 1},      {4000, 1},
                                      {4001, 2}, {40000, 10}, {INT64_C(1) << 40, 64}};
    gemm_case item = {.types = GEMM_F32, .m = 1, .n = 100, .k = 10};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        item.rotate = rows[i][0];
        assert_int_equal(gemm_case_copies(&item), rows[i][1]);
    }
}

TEST(a_request_line_carries_the_case) {
    static gemm_case item = {.types = GEMM_BF16,
                             .m = 3,
                             .n = 1 << 20,
                             .k = 5,
                             .batch = 7,
                             .transpose_b = 1,
                             .prepacked = 1,
                             .rotate = INT64_C(20) << 32,
                             .way = GEMM_BY_CALL,
                             .budget = 1,
                             .epilogue = {1, 1, TDM_ACT_GELU_TANH},
                             .seed = UINT64_C(1) << 62};
    static const char *const bad[] = {"m=3", "types=4", "m=1048577", "k=-5", "n=1e3"};
    static gemm_case read; /* static, so its padding is zero like that of `item` */
    worker_text line = {.length = 0};
    gemm_case_write(&item, &line);
    assert_int_equal(gemm_case_read(line.text, &read), 0);
    assert_memory_equal(&read, &item, sizeof item);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        worker_text other = {.length = 0};
        worker_text_add(&other, "%s%s", bad[i], i < 2 ? "" : line.text); /* the first one is used */
        if (gemm_case_read(other.text, &read) == 0)
            fail_msg("'%s' was accepted", bad[i]);
    }
}

/* Floats are in [-1, 1), and all bytes are equally frequent. Another seed or operand gives other
 * data. Threads fill large arrays with the right data too. */
TEST(data_is_in_range_and_depends_on_the_seed) {
    gemm_case item = plain, other;
    item.m = item.n = item.k = 400;
    other = item;
    other.seed++;
    const size_t count = gemm_case_elements(&item, OP_GEMM_A);
    float *const a = gemm_case_create(&item, OP_GEMM_A);
    float *const b = gemm_case_create(&item, OP_GEMM_B);
    float *const of_other = gemm_case_create(&other, OP_GEMM_A);
    item.types = GEMM_U8S8;
    unsigned char *const bytes = gemm_case_create(&item, OP_GEMM_A);
    double sum = 0, squares = 0;
    int counts[256] = {0};
    for (size_t i = 0; i < count; i++) {
        assert_true(a[i] >= -1 && a[i] < 1);
        sum += (double)a[i];
        squares += (double)a[i] * (double)a[i];
        counts[bytes[i]]++;
    }
    assert_true(fabs(sum / (double)count) < 0.01);
    assert_true(fabs(squares / (double)count - 1.0 / 3) < 0.01);
    for (int value = 0; value < 256; value++)
        assert_in_range(counts[value], 625 - 125, 625 + 125); /* five standard deviations */
    assert_memory_not_equal(a, b, count * sizeof *a);
    assert_memory_not_equal(a, of_other, count * sizeof *a);
    free(a);
    free(b);
    free(of_other);
    free(bytes);
    const size_t many = (1 << 20) + 13;
    uint16_t *const numbers = malloc(many * sizeof *numbers);
    random_fill_numbers(TDM_F16, 5, numbers, many);
    for (size_t i = 0; i < many; i++) {
        uint16_t number;
        tdm_number_set(TDM_F16, &number, 0, (double)random_number(5, i));
        if (numbers[i] != number)
            fail_msg("element %zu differs", i);
    }
    free(numbers);
}

/* Two elements of s4 share a byte. The bytes of scales count too. */
TEST(operands_count_their_bytes) {
    gemm_case item = {.types = GEMM_W4, .m = 21, .n = 34, .k = 262};
    assert_int_equal(gemm_case_bytes(&item, OP_GEMM_B), 17 * 262);
    assert_true(gemm_case_operand_bytes(&item) ==
                4 * 21 * 262 + 17 * 262 + 2 * 9 * 34 + 4 * 21 * 34);
    item.types = GEMM_W8A8;
    assert_true(gemm_case_operand_bytes(&item) == 4 * 21 * 262 + 34 * 262 + 4 * 34 + 4 * 21 * 34);
}

/* ---- types and sets -------------------------------------------------------------------------- */

TEST(types_are_rows) {
    assert_int_equal(gemm_types_find("u8s8"), GEMM_U8S8);
    assert_int_equal(gemm_types_find("u8"), GEMM_NO_TYPES);
    assert_int_equal(gemm_types_op(GEMM_BF16), TDM_OP_GEMM);
    assert_int_equal(gemm_types_op(GEMM_U8S8F32), TDM_OP_GEMM_INT);
    assert_int_equal(gemm_types_op(GEMM_W4A8), TDM_OP_GEMM_WEIGHTS);
    assert_int_equal(gemm_types_for_tuning(GEMM_U8S8F32), GEMM_U8S8);
    assert_int_equal(gemm_types_for_tuning(GEMM_NO_TYPES), GEMM_NO_TYPES);
    assert_int_equal(gemm_types_for_tuning(GEMM_3XTF32), GEMM_3XTF32);
    assert_int_equal(gemm_types_for_tuning(GEMM_W4A8), GEMM_W4A8);
    assert_int_equal(gemm_types_with_requantized(GEMM_U8S8), GEMM_U8S8U8);
    assert_int_equal(gemm_types_with_requantized(GEMM_BF16), GEMM_BF16);
    assert_true(gemm_types_integer(GEMM_W8A8) && !gemm_types_integer(GEMM_W8));
}

TEST(every_set_has_shapes_that_can_be_read) {
    int shapes = 0;
    assert_null(gemm_set_find("all"));
    for (int i = 0; i < gemm_set_count; i++) {
        const gemm_set *const set = gemm_set_find(gemm_sets[i].name);
        assert_ptr_equal(set, &gemm_sets[i]);
        for (int number = 0; number < gemm_set_size(set); number++, shapes++) {
            gemm_case item = {.types = GEMM_F32};
            gemm_set_shape(set, number, &item);
            assert_true(item.batch >= 1 && item.m >= 1 && item.n >= 1 && item.k >= 1);
        }
    }
    assert_int_equal(shapes, 10 + 3 + 3 * 8 + 11 * (5 + 4 + 4) + 7 + 1 + 5);
}

TEST(rows_can_be_others) {
    static const char *const bad[] = {"", "0", "1,", "x", "1x", "99999999999"};
    gemm_set set = *gemm_set_find("deepseek");
    gemm_case item = {.types = GEMM_F32};
    gemm_set_shape(&set, 11 + 1, &item);
    assert_true(item.m == 2 && item.n == 24576 && item.k == 1536);
    assert_int_equal(gemm_set_take_rows(&set, "3,4096"), 0);
    assert_int_equal(gemm_set_size(&set), 2 * 4);
    gemm_set_shape(&set, 1, &item);
    assert_int_equal(item.m, 4096);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_int_equal(gemm_set_take_rows(&set, bad[i]), -1);
    set = *gemm_set_find("large");
    assert_int_equal(gemm_set_take_rows(&set, "3"), 0);
    gemm_set_shape(&set, 0, &item);
    assert_int_equal(item.m, 512);
}

TEST_MAIN(NULL, NULL)
