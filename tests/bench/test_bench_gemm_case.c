/*
 * The check of a GEMM's output in the benchmarks: right results pass, every kind of mistake is
 * seen.
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

#include "common/random_fill.h"
#include "tests/support/gemm/bench_gemm_check.h"

static const gemm_case plain = {.types = GEMM_F32, .m = 61, .n = 83, .k = 129, .seed = 7};

/* D as a right implementation would give it, with sums in f32 and `steps` of the k products. */
static void *multiply(const gemm_case *item, int64_t steps) {
    void *const a = gemm_case_create(item, OP_GEMM_A);
    void *const b = gemm_case_create(item, OP_GEMM_B);
    void *const d = gemm_case_create(item, OP_GEMM_D);
    assert_true(a != NULL && b != NULL && d != NULL);
    for (int64_t line = 0; line < gemm_case_batch(item) * item->m; line++) {
        const int64_t batch = line / item->m;
        for (int64_t column = 0; column < item->n; column++) {
            float sum = 0;
            for (int64_t i = 0; i < steps; i++)
                sum += (float)(operand(item, a, OP_GEMM_A, batch, line % item->m, i) *
                               operand(item, b, OP_GEMM_B, batch, i, column));
            tdm_number_set(gemm_types_dtype(item->types, OP_GEMM_D), d,
                           (size_t)(line * item->n + column), sum);
        }
    }
    free(a);
    free(b);
    return d;
}

static void right_results_pass(void **state) {
    (void)state;
    static const struct {
        gemm_types types;
        double
            largest_error; /* of the magnitude: half a unit in the last place, and a bit for sums */
    } rows[] = {{GEMM_F32, 1e-6}, {GEMM_F16, 5e-4}, {GEMM_BF16, 4e-3}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        for (int layout = 0; layout < 4; layout++) {
            gemm_case item = plain;
            item.types = rows[i].types;
            item.transpose_a = layout / 2;
            item.transpose_b = layout % 2;
            void *const d = multiply(&item, item.k);
            const gemm_verdict verdict = verdict_of(&item, d);
            if (!verdict.right || !(verdict.max_error < rows[i].largest_error) ||
                verdict.max_error <= 0)
                fail_msg("%s %d: %s, error %g", gemm_types_name(item.types), layout, verdict.reason,
                         verdict.max_error);
            free(d);
        }
    }
}

/* Of a batch too, and each of its matrices counts. */
static void batches_are_checked(void **state) {
    (void)state;
    for (int layout = 0; layout < 4; layout++) {
        gemm_case item = plain;
        item.batch = 3;
        item.transpose_a = layout / 2;
        item.transpose_b = layout % 2;
        void *const d = multiply(&item, item.k);
        const gemm_verdict verdict = verdict_of(&item, d);
        if (!verdict.right)
            fail_msg("layout %d: %s", layout, verdict.reason);
        for (int64_t batch = 0; batch < 3; batch++) {
            float *const entry = (float *)d + (batch * item.m + 17) * item.n + 4;
            *entry += 0.05f;
            if (verdict_of(&item, d).right)
                fail_msg("layout %d: a mistake in matrix %d was not seen", layout, (int)batch);
            *entry -= 0.05f;
        }
        free(d);
    }
}

/* What the product becomes with the epilogue, in place of `plain_d`, which has the numbers before it. */
static void *store(const gemm_case *item, const float *plain_d) {
    void *const bias = item->epilogue.bias ? gemm_case_create(item, OP_GEMM_BIAS) : NULL;
    void *const residual =
        item->epilogue.residual ? gemm_case_create(item, OP_GEMM_RESIDUAL) : NULL;
    void *const d = gemm_case_create(item, OP_GEMM_D);
    const tdm_dtype dtype = gemm_types_dtype(item->types, OP_GEMM_D);
    for (int64_t i = 0; i < item->m * item->n; i++) {
        double value = (double)plain_d[i];
        if (bias != NULL)
            value += tdm_number_get(dtype, bias, (size_t)(i % item->n));
        if (residual != NULL)
            value += tdm_number_get(dtype, residual, (size_t)i);
        tdm_number_set(dtype, d, (size_t)i, op_gemm_activate(value, item->epilogue.activation));
    }
    free(bias);
    free(residual);
    return d;
}

/* With each part of an epilogue the right D passes, and one without that part does not. */
static void epilogues_are_checked(void **state) {
    (void)state;
    static const gemm_case_epilogue epilogues[] = {{.bias = 1},
                                                   {.residual = 1},
                                                   {.activation = TDM_ACT_RELU},
                                                   {.activation = TDM_ACT_GELU},
                                                   {.activation = TDM_ACT_GELU_TANH},
                                                   {.activation = TDM_ACT_SILU},
                                                   {1, 1, TDM_ACT_GELU}};
    float *const sums = multiply(&plain, plain.k);
    for (size_t i = 0; i < sizeof epilogues / sizeof epilogues[0]; i++) {
        gemm_case item = plain, other = plain;
        item.epilogue = epilogues[i];
        other.epilogue = epilogues[(i + 1) % (sizeof epilogues / sizeof epilogues[0])];
        void *const d = store(&item, sums);
        const gemm_verdict verdict = verdict_of(&item, d);
        if (!verdict.right || !(verdict.max_error < 1e-6))
            fail_msg("epilogue %zu: %s, error %g", i, verdict.reason, verdict.max_error);
        if (verdict_of(&other, d).right || verdict_of(&plain, d).right)
            fail_msg("epilogue %zu passes for another", i);
        free(d);
    }
    free(sums);
}

/* Where no vector is multiplied, a mistake in any square of 32 by 32 is seen. */
static void each_square_counts_behind_an_epilogue(void **state) {
    (void)state;
    gemm_case item = {.types = GEMM_F32, .m = 300, .n = 400, .k = 9, .seed = 7}; /* many squares */
    float *const sums = multiply(&item, item.k);
    item.epilogue = (gemm_case_epilogue){1, 1, TDM_ACT_NONE};
    float *const d = store(&item, sums);
    for (int64_t square = 0; square < 10 * 13; square++) {
        for (int way = 0; way < 2; way++) {
            for (int64_t i = 0; i < item.m * item.n; i++)
                if (i / item.n / 32 * 13 + i % item.n / 32 == square)
                    d[i] = -d[i];
            assert_int_equal(verdict_of(&item, d).right, way);
        }
    }
    free(d);
    free(sums);
}

/* Answers are kept between checks: those of other data must not be. */
static void an_oracle_follows_its_case(void **state) {
    (void)state;
    gemm_case other = plain, biased = plain;
    other.seed++;
    biased.epilogue.bias = 1;
    gemm_oracle oracle = GEMM_ORACLE_INIT;
    gemm_verdict verdict;
    void *const d = multiply(&plain, plain.k);
    const size_t bytes = gemm_case_bytes(&plain, OP_GEMM_D);
    const gemm_case *const order[] = {&plain, &plain, &other, &plain, &biased, &plain};
    for (size_t i = 0; i < sizeof order / sizeof order[0]; i++) {
        assert_int_equal(gemm_oracle_set(&oracle, order[i]), 0);
        assert_int_equal(gemm_oracle_verify(&oracle, d, bytes, &verdict), 0);
        assert_int_equal(verdict.right, order[i] == &plain);
    }
    gemm_oracle_release(&oracle);
    free(d);
}

static void shapes_are_read(void **state) {
    (void)state;
    static const char *const bad[] = {"",
                                      "8",
                                      "8x8",
                                      "8x8x8x8",
                                      "0x8x8",
                                      "8x8x1048577",
                                      "8x8x8x",
                                      "8x8x-8",
                                      "8x 8x8",
                                      "*8x8x8",
                                      "0*8x8x8",
                                      "2*8x8",
                                      "65537*1x1x1",
                                      "32768x1x32768",
                                      "8*8*8x8x8",
                                      "40000x40000x1"};
    gemm_case item = plain;
    assert_int_equal(gemm_case_parse_shape("12x345x6", &item), 0);
    assert_int_equal(item.batch, 1);
    assert_true(item.m == 12 && item.n == 345 && item.k == 6);
    assert_int_equal(gemm_case_parse_shape("96*512x511x64", &item), 0);
    assert_int_equal(item.batch, 96);
    assert_true(item.m == 512 && item.n == 511 && item.k == 64);
    char name[64];
    gemm_case_name(&item, name, sizeof name);
    assert_string_equal(name, "f32 96*512x511x64 nn");
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        if (gemm_case_parse_shape(bad[i], &item) == 0)
            fail_msg("'%s' was accepted", bad[i]);
    }
}

static void what_does_not_fit_is_said(void **state) {
    (void)state;
    /* A has 4 MB, B 40 MB, D 400 kB. */
    const gemm_case item = {.types = GEMM_F32, .m = 100, .n = 1000, .k = 10000};
    worker_text reason = {.length = 0};
    tdm_device_info info = {.max_alloc_bytes = 40000000, .global_bytes = 170000000};
    assert_true(gemm_case_fits(&item, 1, &info, &reason));
    assert_true(gemm_case_fits(&item, 2, &info, &reason)); /* a packed B as well: 84.4 MB each */
    assert_false(gemm_case_fits(&item, 3, &info, &reason));
    assert_string_equal(reason.text, "3 processes need 0.3 GB, the device has 0.2 GB");
    info.capabilities = TDM_CAP_CPU_CORES; /* whose memory is the host's */
    assert_true(gemm_case_fits(&item, 3, &info, &reason));
    info = (tdm_device_info){.max_alloc_bytes = 0};
    assert_true(gemm_case_fits(&item, 1, &info, &reason));
    info.max_alloc_bytes = 39999999;
    assert_false(gemm_case_fits(&item, 1, &info, &reason));
    assert_non_null(strstr(reason.text, "the device allocates at most"));
    info.max_alloc_bytes = 0;
    assert_false(gemm_case_fits(&item, 1 << 24, &info, &reason));
    assert_non_null(strstr(reason.text, "of memory are available"));
}

static void smallest_shapes_pass(void **state) {
    (void)state;
    for (int shape = 0; shape < 8; shape++) {
        gemm_case item = plain;
        item.m = shape & 1 ? 1 : 5;
        item.n = shape & 2 ? 1 : 7;
        item.k = shape & 4 ? 1 : 3;
        void *const d = multiply(&item, item.k);
        assert_true(verdict_of(&item, d).right);
        free(d);
    }
}

static float *entry(void *d, const gemm_case *item, int64_t row, int64_t column) {
    return (float *)d + row * item->n + column;
}

/* Each makes one mistake in a right result. */
static void change_one_entry(void *d, const gemm_case *item) {
    *entry(d, item, 40, 71) += 0.05f;
}

static void poison_one_entry(void *d, const gemm_case *item) {
    *entry(d, item, 33, 2) = NAN;
}

static void overflow_one_entry(void *d, const gemm_case *item) {
    *entry(d, item, 12, 50) = INFINITY;
}

static void swap_two_entries(void *d, const gemm_case *item) {
    const float kept = *entry(d, item, 7, 9);
    *entry(d, item, 7, 9) = *entry(d, item, 7, 10);
    *entry(d, item, 7, 10) = kept;
}

static void swap_two_rows(void *d, const gemm_case *item) {
    for (int64_t column = 0; column < item->n; column++) {
        const float kept = *entry(d, item, 20, column);
        *entry(d, item, 20, column) = *entry(d, item, 21, column);
        *entry(d, item, 21, column) = kept;
    }
}

static void clear_the_last_column(void *d, const gemm_case *item) {
    for (int64_t row = 0; row < item->m; row++)
        *entry(d, item, row, item->n - 1) = 0;
}

static void leave_the_last_row(void *d, const gemm_case *item) {
    memset(entry(d, item, item->m - 1, 0), 0xFF, (size_t)item->n * sizeof(float));
}

static void scale_a_little(void *d, const gemm_case *item) {
    for (int64_t i = 0; i < item->m * item->n; i++)
        ((float *)d)[i] *= 1.0001f;
}

static void every_mistake_is_seen(void **state) {
    (void)state;
    static void (*const mistakes[])(void *, const gemm_case *) = {
        change_one_entry, poison_one_entry,      overflow_one_entry, swap_two_entries,
        swap_two_rows,    clear_the_last_column, leave_the_last_row, scale_a_little};
    for (size_t i = 0; i < sizeof mistakes / sizeof mistakes[0]; i++) {
        void *const d = multiply(&plain, plain.k);
        assert_true(verdict_of(&plain, d).right);
        mistakes[i](d, &plain);
        const gemm_verdict verdict = verdict_of(&plain, d);
        if (verdict.right || verdict.reason[0] == '\0')
            fail_msg("mistake %zu was not seen", i);
        free(d);
    }
}

/* The first entry that is looked at: later ones must not hide it. */
static void the_error_of_a_nan_is_nan(void **state) {
    (void)state;
    void *const d = multiply(&plain, plain.k);
    *entry(d, &plain, 0, 0) = NAN;
    const gemm_verdict verdict = verdict_of(&plain, d);
    assert_false(verdict.right);
    assert_true(isnan(verdict.max_error));
    free(d);
}

static void a_dropped_product_is_seen(void **state) {
    (void)state;
    static const gemm_types types[] = {GEMM_F32, GEMM_F16, GEMM_BF16};
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
        gemm_case item = plain;
        item.types = types[i];
        item.k = 700;
        void *const d = multiply(&item, item.k - 1);
        assert_false(verdict_of(&item, d).right);
        free(d);
    }
}

static void an_output_of_another_size_is_wrong(void **state) {
    (void)state;
    void *const d = multiply(&plain, plain.k);
    gemm_verdict verdict;
    gemm_oracle oracle = GEMM_ORACLE_INIT;
    const size_t bytes = gemm_case_bytes(&plain, OP_GEMM_D) - 4;
    assert_int_equal(gemm_oracle_set(&oracle, &plain), 0);
    assert_int_equal(gemm_oracle_verify(&oracle, d, bytes, &verdict), 0);
    assert_false(verdict.right);
    gemm_oracle_release(&oracle);
    free(d);
}

static void a_request_line_carries_the_case(void **state) {
    (void)state;
    const gemm_case item = {.types = GEMM_BF16,
                            .m = 3,
                            .n = 1 << 20,
                            .k = 5,
                            .batch = 7,
                            .transpose_b = 1,
                            .prepacked = 1,
                            .waited = 1,
                            .rotate = 20 << 20,
                            .epilogue = {1, 1, TDM_ACT_GELU_TANH},
                            .seed = 123456789};
    worker_text line = {.length = 0};
    gemm_case read;
    char name[96];
    gemm_case_write(&item, &line);
    assert_int_equal(gemm_case_read(line.text, &read), 0);
    assert_int_equal(read.types, item.types);
    assert_int_equal(read.m, item.m);
    assert_int_equal(read.n, item.n);
    assert_int_equal(read.k, item.k);
    assert_int_equal(read.batch, item.batch);
    assert_int_equal(read.transpose_a, 0);
    assert_int_equal(read.transpose_b, 1);
    assert_int_equal(read.prepacked, 1);
    assert_int_equal(read.waited, 1);
    assert_int_equal(read.rotate, item.rotate);
    assert_int_equal(gemm_case_copies(&read), 1); /* B alone has 70 MB */
    assert_int_equal(read.seed, item.seed);
    assert_int_equal(read.epilogue.bias, 1);
    assert_int_equal(read.epilogue.residual, 1);
    assert_int_equal(read.epilogue.activation, TDM_ACT_GELU_TANH);
    gemm_case_name(&item, name, sizeof name);
    assert_string_equal(name, "bf16 7*3x1048576x5 nt +bias+residual+gelu_tanh");
}

/* As few as have so many bytes, and not too many. */
static void copies_of_b_are_counted(void **state) {
    (void)state;
    static const struct {
        int64_t rotate;
        int copies;
    } rows[] = {{0, 1}, {1, 1}, {4000, 1}, {4001, 2}, {40000, 10}, {INT64_C(1) << 40, 64}};
    gemm_case item = {.types = GEMM_F32, .m = 1, .n = 100, .k = 10};
    char name[64];
    char copies[24];
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        item.rotate = rows[i].rotate;
        assert_int_equal(gemm_case_copies(&item), rows[i].copies);
        gemm_case_name(&item, name, sizeof name);
        snprintf(copies, sizeof copies, ", %d Bs", rows[i].copies);
        assert_int_equal(strstr(name, copies) != NULL, rows[i].copies > 1);
    }
}

static void requests_out_of_range_are_refused(void **state) {
    (void)state;
    static const char *const lines[] = {"dtype=f32 m=0 n=1 k=1",
                                        "dtype=f32 m=1 n=1",
                                        "dtype=f32 m=1 n=1 k=1048577",
                                        "dtype=f32 m=-1 n=1 k=1",
                                        "dtype=f33 m=1 n=1 k=1",
                                        "m=1 n=1 k=1",
                                        "dtype=f32 m=1e3 n=1 k=1",
                                        "dtype=f32 m=1 n=1 k=1 batch=0",
                                        "dtype=f32 m=1 n=1 k=1 activation=9"};
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) {
        gemm_case read;
        if (gemm_case_read(lines[i], &read) == 0)
            fail_msg("'%s' was accepted", lines[i]);
    }
}

static void data_is_in_range_and_depends_on_the_seed(void **state) {
    (void)state;
    gemm_case other = plain;
    other.seed++;
    float *const a = gemm_case_create(&plain, OP_GEMM_A);
    float *const again = gemm_case_create(&plain, OP_GEMM_A);
    float *const b = gemm_case_create(&plain, OP_GEMM_B);
    float *const a_of_other = gemm_case_create(&other, OP_GEMM_A);
    const size_t count = gemm_case_elements(&plain, OP_GEMM_A);
    double sum = 0;
    double squares = 0;
    for (size_t i = 0; i < count; i++) {
        assert_true(a[i] >= -1 && a[i] < 1);
        sum += (double)a[i];
        squares += (double)a[i] * (double)a[i];
    }
    assert_true(fabs(sum / (double)count) < 0.03);
    assert_true(fabs(squares / (double)count - 1.0 / 3) < 0.02);
    assert_memory_equal(a, again, count * sizeof *a);
    assert_memory_not_equal(a, b, count * sizeof *a);
    assert_memory_not_equal(a, a_of_other, count * sizeof *a);
    free(a);
    free(again);
    free(b);
    free(a_of_other);
}

/* Threads fill large arrays: each element is what it is in a small one. */
static void large_data_is_the_same(void **state) {
    (void)state;
    const size_t count = (1 << 20) + 13;
    uint16_t *const numbers = malloc(count * sizeof *numbers);
    unsigned char *const bytes = malloc(count);
    random_fill_numbers(TDM_F16, 5, numbers, count);
    random_fill_bytes(5, bytes, count);
    for (size_t i = 0; i < count; i++) {
        uint16_t number;
        tdm_number_set(TDM_F16, &number, 0, (double)random_number(5, i));
        const uint64_t bits = random_bits(5, i / 8);
        if (numbers[i] != number || bytes[i] != ((const unsigned char *)&bits)[i % 8])
            fail_msg("element %zu differs", i);
    }
    free(numbers);
    free(bytes);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(right_results_pass),
        cmocka_unit_test(batches_are_checked),
        cmocka_unit_test(epilogues_are_checked),
        cmocka_unit_test(each_square_counts_behind_an_epilogue),
        cmocka_unit_test(an_oracle_follows_its_case),
        cmocka_unit_test(shapes_are_read),
        cmocka_unit_test(what_does_not_fit_is_said),
        cmocka_unit_test(smallest_shapes_pass),
        cmocka_unit_test(every_mistake_is_seen),
        cmocka_unit_test(the_error_of_a_nan_is_nan),
        cmocka_unit_test(a_dropped_product_is_seen),
        cmocka_unit_test(an_output_of_another_size_is_wrong),
        cmocka_unit_test(a_request_line_carries_the_case),
        cmocka_unit_test(copies_of_b_are_counted),
        cmocka_unit_test(requests_out_of_range_are_refused),
        cmocka_unit_test(data_is_in_range_and_depends_on_the_seed),
        cmocka_unit_test(large_data_is_the_same),
    };
    return cmocka_run_group_tests_name("bench gemm case", tests, NULL, NULL);
}
