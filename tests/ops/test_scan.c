/* Tests top-k and cumulative sums along an axis against exact or double-precision results.
 * ctest: device timeout=240 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "api/device/core.h"
#include "quant/number_formats.h"
#include "tests/support/devices/device_cases.h"
#include "tests/support/oracle.h"
#include "tests/support/test_array.h"
#include "tests/support/test_case.h"

#define DIMS(...) ((const int64_t[]){__VA_ARGS__})

typedef struct scan_case {
    int rank, axis;
    int64_t k; /* of top_k */
    int64_t shape[8];
} scan_case;

static const scan_case cases[] = {
    {1, 0, 1, {1}},
    {1, 0, 7, {7}},
    {1, 0, 40, {1031}},
    {2, 1, 8, {33, 256}},
    {2, 0, 5, {65, 6}},
    {2, 0, 1, {9, 1}},
    {3, 1, 19, {3, 19, 5}},
    {3, 2, 0, {2, 3, 4}},
    {3, 1, 2, {2, 6, 0}},
    {4, 0, 300, {513, 1, 2, 1}},
    {8, 3, 2, {1, 2, 1, 3, 2, 1, 2, 2}},
    {8, 7, 3, {2, 1, 1, 2, 1, 1, 1, 5}},
    {1, 0, 40, {151936}}, /* not in the small scale from here on */
    {1, 0, 20011, {20011}},
    {2, 1, 6, {3000, 64}},
};

enum {
    SMALL_CASES = 12,
    CASES = sizeof cases / sizeof cases[0]
};

static const tdm_dtype types[] = {TDM_F32, TDM_F16, TDM_BF16, TDM_S32};
static const test_placement placements[][2] = {{TEST_DENSE, TEST_DENSE},
                                               {TEST_OFFSET, TEST_PADDED},
                                               {TEST_TRANSPOSED, TEST_SPREAD},
                                               {TEST_SPREAD, TEST_TRANSPOSED}};

static int case_count(void) {
    return test_is_small() ? SMALL_CASES : CASES;
}

static int64_t elements_after(const scan_case *c) {
    int64_t inner = 1;
    for (int d = c->axis + 1; d < c->rank; d++)
        inner *= c->shape[d];
    return inner;
}

static int64_t row_count(const scan_case *c) {
    int64_t rows = elements_after(c);
    for (int d = 0; d < c->axis; d++)
        rows *= c->shape[d];
    return rows;
}

/* Returns the index of element i of a row, in a tensor with `count` elements along the axis. */
static int64_t place_of(const scan_case *c, int64_t row, int64_t i, int64_t count) {
    const int64_t inner = elements_after(c);
    return (row / inner * count + i) * inner + row % inner;
}

/* ---- top-k ----------------------------------------------------------------------------------- */

typedef struct ranked {
    double value;
    int64_t index;
    bool smallest_first;
} ranked;

/* Orders numbers with a NaN as the largest. */
static int compare_numbers(double a, double b) {
    if (isnan(a) || isnan(b))
        return (isnan(a) != 0) - (isnan(b) != 0);
    return (a > b) - (a < b);
}

static int compare_ranked(const void *first, const void *second) {
    const ranked *const a = first, *const b = second;
    const int order = compare_numbers(a->value, b->value);
    if (order != 0)
        return a->smallest_first ? order : -order;
    return (a->index > b->index) - (a->index < b->index);
}

/* Fills with ties, or with any number; both have signed zeros, NaNs and infinities. */
static void fill_ranked(test_array *x, bool ties, uint64_t seed) {
    const bool is_float = x->layout.dtype != TDM_S32;
    const int64_t count = test_array_count(x);
    static const double specials[] = {NAN, HUGE_VAL, -HUGE_VAL, -0.0, 0.0, -NAN};
    static const double extremes[] = {-2147483648.0, 2147483647.0, 0, -1, -2147483648.0, 1};
    test_random random = {seed};
    test_array_fill(x, is_float ? TEST_DATA_UNIT : TEST_DATA_ANY_BITS, seed);
    for (int64_t i = 0; i < count && ties; i++)
        test_array_put(x, i, (double)test_random_int(&random, -3, 3));
    for (int n = 0; n < 6 && count > 4; n++)
        test_array_put(x, test_random_int(&random, 0, count - 1),
                       is_float ? specials[n] : extremes[n]);
    test_array_send(x);
}

static void check_top_k(const scan_case *c, int largest, const test_array *x,
                        const test_array *values, const test_array *indices) {
    const int64_t count = c->shape[c->axis];
    const size_t bytes = tdm_dtype_info(x->layout.dtype)->unit_bytes;
    ranked *const all = calloc((size_t)count + 1, sizeof *all);
    assert_non_null(all);
    for (int64_t row = 0; row < row_count(c); row++) {
        for (int64_t i = 0; i < count; i++)
            all[i] = (ranked){test_array_get(x, place_of(c, row, i, count)), i, !largest};
        qsort(all, (size_t)count, sizeof *all, compare_ranked);
        for (int64_t j = 0; j < c->k; j++) {
            const int64_t at = place_of(c, row, j, c->k);
            const int64_t from = place_of(c, row, all[j].index, count);
            const double actual = test_array_fetched(indices, at);
            if (actual != (double)all[j].index) {
                test_case_fail("row %lld: place %lld has index %g, expected %lld", (long long)row,
                               (long long)j, actual, (long long)all[j].index);
                free(all);
                return;
            }
            const bool both_nan = isnan(all[j].value) && isnan(test_array_fetched(values, at));
            if (!both_nan &&
                memcmp(test_array_fetched_bits(values, at), test_array_bits(x, from), bytes) != 0) {
                test_case_fail("row %lld: place %lld has value %g, expected %g", (long long)row,
                               (long long)j, test_array_fetched(values, at), all[j].value);
                free(all);
                return;
            }
        }
    }
    free(all);
}

static void run_top_k(const test_device *device, const scan_case *c, tdm_dtype dtype, int n) {
    test_array x, values, indices;
    int64_t shape[8];
    memcpy(shape, c->shape, sizeof shape);
    shape[c->axis] = c->k;
    test_array_create(&x, device, dtype, c->rank, c->shape, placements[n % 4][0]);
    test_array_create(&values, device, dtype, c->rank, shape, placements[n % 4][1]);
    test_array_create(&indices, device, TDM_S32, c->rank, shape, placements[(n + 1) % 4][1]);
    fill_ranked(&x, n / 4 % 2 == 0, 11 + (uint64_t)n);
    test_array_send(&values);
    test_array_send(&indices);
    TEST_OK(tdm_top_k(device->stream, x.tensor, c->axis, n / 8, values.tensor, indices.tensor));
    test_array_fetch(&values);
    test_array_fetch(&indices);
    check_top_k(c, n / 8, &x, &values, &indices);
    test_case_end();
    test_array_destroy(&x);
    test_array_destroy(&values);
    test_array_destroy(&indices);
}

/* n selects the placements, ties and the direction. Large cases take each only once. */
DEVICE_TEST(the_best_are_first) {
    for (int i = 0; i < case_count(); i++)
        for (int type = 0; type < 4; type++)
            for (int n = 0; n < 16; n++) {
                const scan_case *const c = &cases[i];
                char text[128];
                if ((i >= SMALL_CASES || test_is_small()) && (n + type + i) % 4 != 0)
                    continue;
                if (test_case_begin(device, NULL, "top %lld of %s %s axis %d %s %s case %d",
                                    (long long)c->k, tdm_dtype_name(types[type]),
                                    test_shape_text(c->rank, c->shape, text), c->axis,
                                    n / 8 ? "largest" : "smallest",
                                    n / 4 % 2 == 0 ? "ties" : "no ties", n))
                    run_top_k(device, c, types[type], n);
            }
}

/* ---- cumulative sums ------------------------------------------------------------------------- */

static double wrapped(double sum) {
    return (double)(int32_t)(uint32_t)(uint64_t)(int64_t)sum;
}

static bool matches_sum(tdm_dtype dtype, double actual, double sum, double magnitude,
                        int64_t count) {
    if (dtype == TDM_S32)
        return actual == wrapped(sum);
    const double bound = isfinite(magnitude) ? 0x1p-24 * (double)(count + 2) * magnitude : 0;
    return oracle_matches(dtype, actual, sum, bound);
}

static void check_sums(const scan_case *c, int exclusive, int reverse, const test_array *x,
                       const test_array *y) {
    const int64_t count = c->shape[c->axis];
    for (int64_t row = 0; row < row_count(c); row++) {
        double sum = 0, magnitude = 0;
        for (int64_t i = 0; i < count; i++) {
            const int64_t at = place_of(c, row, reverse ? count - 1 - i : i, count);
            const double term = test_array_get(x, at), actual = test_array_fetched(y, at);
            const double before = sum, magnitude_before = magnitude;
            sum += term;
            magnitude += fabs(term);
            const double expected = exclusive ? before : sum;
            if (!matches_sum(x->layout.dtype, actual, expected,
                             exclusive ? magnitude_before : magnitude, count)) {
                test_case_fail("row %lld: sum %lld is %.9g, expected %.9g", (long long)row,
                               (long long)i, actual, expected);
                return;
            }
        }
    }
}

static void run_sum(const test_device *device, const scan_case *c, tdm_dtype dtype, int n,
                    bool specials) {
    const int exclusive = n / 4 % 2, reverse = n / 8;
    const bool in_place = n % 4 == 3;
    test_array x, y;
    test_array_create(&x, device, dtype, c->rank, c->shape, placements[n % 4][0]);
    test_array_create(&y, device, dtype, c->rank, c->shape, placements[n % 4][in_place ? 0 : 1]);
    test_array_fill(&x, dtype == TDM_S32 ? TEST_DATA_ANY_BITS : TEST_DATA_UNIT, 5 + (uint64_t)n);
    if (specials && dtype != TDM_S32 && test_array_count(&x) > 6) {
        test_array_put(&x, test_array_count(&x) / 3, HUGE_VAL);
        test_array_put(&x, test_array_count(&x) / 2, -HUGE_VAL);
        test_array_put(&x, test_array_count(&x) - 1, NAN);
    }
    test_array_send(&x);
    test_array_send(&y);
    tdm_tensor *const target = in_place ? x.tensor : y.tensor;
    TEST_OK(tdm_cumulative_sum(device->stream, x.tensor, c->axis, exclusive, reverse, target));
    test_array_fetch(in_place ? &x : &y);
    check_sums(c, exclusive, reverse, &x, in_place ? &x : &y);
    test_case_end();
    test_array_destroy(&x);
    test_array_destroy(&y);
}

DEVICE_TEST(sums_are_cumulative) {
    for (int i = 0; i < case_count(); i++)
        for (int type = 0; type < 4; type++)
            for (int n = 0; n < 16; n++) {
                const scan_case *const c = &cases[i];
                char text[128];
                if ((i >= SMALL_CASES || test_is_small()) && (n + type + i) % 4 != 0)
                    continue;
                if (test_case_begin(device, NULL, "sums of %s %s axis %d case %d",
                                    tdm_dtype_name(types[type]),
                                    test_shape_text(c->rank, c->shape, text), c->axis, n))
                    run_sum(device, c, types[type], n, i % 2 == 1);
            }
}

/* ---- recordings and misuse ------------------------------------------------------------------- */

DEVICE_TEST(recordings_are_replayed) {
    const scan_case top = {2, 1, 3, {4, 50}};
    test_array x, values, indices, sums;
    tdm_graph *graph;
    test_array_create(&x, device, TDM_F32, 2, top.shape, TEST_DENSE);
    test_array_create(&sums, device, TDM_F32, 2, top.shape, TEST_DENSE);
    test_array_create(&values, device, TDM_F32, 2, DIMS(4, 3), TEST_DENSE);
    test_array_create(&indices, device, TDM_S32, 2, DIMS(4, 3), TEST_DENSE);
    for (int run = 0; run < 3; run++) {
        fill_ranked(&x, run == 1, 40 + (uint64_t)run);
        for (int64_t i = 0; i < 200; i++) // sums of finite numbers
            if (!isfinite(test_array_get(&x, i)))
                test_array_put(&x, i, 0.5);
        test_array_send(&x);
        test_array_send(&values);
        test_array_send(&indices);
        test_array_send(&sums);
        if (run == 1)
            TEST_OK(tdm_stream_begin_recording(device->stream));
        if (run < 2) {
            TEST_OK(tdm_top_k(device->stream, x.tensor, 1, 1, values.tensor, indices.tensor));
            TEST_OK(tdm_cumulative_sum(device->stream, x.tensor, 1, 0, 0, sums.tensor));
        }
        if (run == 1)
            TEST_OK(tdm_stream_end_recording(device->stream, &graph));
        if (run > 0)
            TEST_OK(tdm_graph_launch(graph, device->stream));
        test_array_fetch(&values);
        test_array_fetch(&indices);
        test_array_fetch(&sums);
        check_top_k(&top, 1, &x, &values, &indices);
        check_sums(&top, 0, 0, &x, &sums);
    }
    tdm_graph_destroy(graph);
    test_array_destroy(&x);
    test_array_destroy(&values);
    test_array_destroy(&indices);
    test_array_destroy(&sums);
}

DEVICE_TEST(misuse_is_refused) {
    tdm_stream *const s = device->stream;
    test_array x, y, three, ints, seven, bytes, scalar;
    test_array_create(&x, device, TDM_F32, 2, DIMS(4, 6), TEST_DENSE);
    test_array_create(&y, device, TDM_F16, 2, DIMS(4, 3), TEST_DENSE);
    test_array_create(&three, device, TDM_F32, 2, DIMS(4, 3), TEST_DENSE);
    test_array_create(&ints, device, TDM_S32, 2, DIMS(4, 3), TEST_DENSE);
    test_array_create(&seven, device, TDM_F32, 2, DIMS(4, 7), TEST_DENSE);
    test_array_create(&bytes, device, TDM_U8, 2, DIMS(4, 3), TEST_DENSE);
    test_array_create(&scalar, device, TDM_F32, 0, NULL, TEST_DENSE);
    test_array_send(&three);
    TEST_REFUSED(tdm_top_k(s, x.tensor, 2, 1, three.tensor, ints.tensor), TDM_BAD_ARGUMENT,
                 "top_k: axis 2 is outside the rank of x, 2");
    TEST_REFUSED(tdm_top_k(s, scalar.tensor, 0, 1, scalar.tensor, ints.tensor), TDM_BAD_ARGUMENT,
                 "top_k: axis 0 is outside the rank of x, 0");
    TEST_REFUSED(tdm_top_k(s, x.tensor, 1, 2, three.tensor, ints.tensor), TDM_BAD_ARGUMENT,
                 "top_k: largest is 2, must be 0 or 1");
    TEST_REFUSED(tdm_top_k(s, x.tensor, 1, 1, seven.tensor, ints.tensor), TDM_BAD_SHAPE,
                 "with at most 6 along axis 1");
    TEST_REFUSED(tdm_top_k(s, x.tensor, 0, 1, three.tensor, ints.tensor), TDM_BAD_SHAPE,
                 "top_k: values has shape [4, 3], must be x's shape [4, 6]");
    TEST_REFUSED(tdm_top_k(s, seven.tensor, 1, 1, three.tensor, scalar.tensor), TDM_BAD_SHAPE,
                 "but indices");
    TEST_REFUSED(tdm_top_k(s, x.tensor, 1, 1, y.tensor, ints.tensor), TDM_BAD_DTYPE,
                 "top_k: x is f32 but values is f16");
    TEST_REFUSED(tdm_top_k(s, x.tensor, 1, 1, three.tensor, y.tensor), TDM_BAD_DTYPE,
                 "top_k: indices is f16, must be s32");
    TEST_REFUSED(tdm_top_k(s, bytes.tensor, 1, 1, bytes.tensor, ints.tensor), TDM_UNSUPPORTED,
                 "top_k: no kernel for u8");
    TEST_REFUSED(tdm_top_k(s, three.tensor, 1, 1, three.tensor, ints.tensor), TDM_BAD_ARGUMENT,
                 "values");
    TEST_REFUSED(tdm_cumulative_sum(s, x.tensor, -1, 0, 0, x.tensor), TDM_BAD_ARGUMENT,
                 "cumulative_sum: axis -1 is outside the rank of x, 2");
    TEST_REFUSED(tdm_cumulative_sum(s, x.tensor, 0, 3, 0, x.tensor), TDM_BAD_ARGUMENT,
                 "cumulative_sum: exclusive is 3, must be 0 or 1");
    TEST_REFUSED(tdm_cumulative_sum(s, x.tensor, 0, 0, -1, x.tensor), TDM_BAD_ARGUMENT,
                 "cumulative_sum: reverse is -1, must be 0 or 1");
    TEST_REFUSED(tdm_cumulative_sum(s, x.tensor, 0, 0, 0, three.tensor), TDM_BAD_SHAPE,
                 "cumulative_sum: x has shape [4, 6] but y [4, 3]");
    TEST_REFUSED(tdm_cumulative_sum(s, three.tensor, 0, 0, 0, y.tensor), TDM_BAD_DTYPE,
                 "cumulative_sum: x is f32 but y is f16");
    TEST_REFUSED(tdm_cumulative_sum(s, bytes.tensor, 0, 0, 0, bytes.tensor), TDM_UNSUPPORTED,
                 "cumulative_sum: no kernel for u8");
    test_array_expect_unchanged(&three);
    test_array_destroy(&x);
    test_array_destroy(&y);
    test_array_destroy(&three);
    test_array_destroy(&ints);
    test_array_destroy(&seven);
    test_array_destroy(&bytes);
    test_array_destroy(&scalar);
}

TEST_MAIN(test_devices_setup, test_devices_teardown)
