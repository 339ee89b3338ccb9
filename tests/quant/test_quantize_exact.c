/* Codes next to ties under scales of every significand, in the forms that CPU cores have, and beyond their caches.
 * ctest: device timeout=240 */
#include <math.h>
#include <stdlib.h>

#include "api/device/core.h"
#include "quant/number_formats.h"
#include "tests/support/devices/device_cases.h"
#include "tests/support/quant/quant_carrier.h"

#define DIMS(...) ((const int64_t[]){__VA_ARGS__})

static const tdm_dtype code_dtypes[] = {TDM_S8, TDM_U8, TDM_S4};

/* Positive, neither tiny nor huge: those that may be replaced by their reciprocals. */
static void fill_plain_scales(quant_carrier *carrier, uint64_t seed) {
    test_random random = {seed};
    const int64_t entries = test_array_count(&carrier->scale);
    const bool narrow = carrier->scale.layout.dtype == TDM_F16;
    for (int64_t i = 0; i < entries; i++) {
        const int most = narrow ? 8 : 58;
        const double significand =
            1.0 + (double)test_random_int(&random, 0, (1 << 23) - 1) * 0x1p-23;
        test_array_put(&carrier->scale, i,
                       ldexp(significand, (int)test_random_int(&random, -most, most)));
    }
    for (int64_t i = 0; carrier->has_zero && i < entries; i++)
        test_array_put(&carrier->zero, i, (double)test_random_int(&random, 0, 7));
    quant_carrier_send(carrier);
}

/* Half codes, up to three numbers of f32 off, a quarter of them where codes saturate; some of what has no code. */
static void fill_near_ties(test_array *x, const quant_carrier *carrier, uint64_t seed) {
    test_random random = {seed};
    for (int64_t i = 0; i < test_array_count(x); i++) {
        const float scale = quant_carrier_parameters(carrier, i).scale;
        float value = ((float)test_random_int(&random, -300, 300) + 0.5f) * scale;
        const int away = (int)test_random_int(&random, -3, 3);
        for (int step = 0; step < abs(away); step++)
            value = nextafterf(value, away < 0 ? -INFINITY : INFINITY);
        switch (test_random_bits(&random) % 64) {
        case 0:
            value = NAN;
            break;
        case 1:
            value = away < 0 ? -INFINITY : INFINITY;
            break;
        case 2:
            value = away < 0 ? -3e38f : 3e38f;
            break;
        case 3:
            value = 0.0f;
            break;
        default:
            break;
        }
        test_array_put(x, i, (double)value);
    }
    test_array_send(x);
}

/* What every code stands for, and where there is a mask, whether it was not saturated. */
static void check_fake(const test_array *x, test_array *y, test_array *mask,
                       const quant_carrier *carrier) {
    const tdm_quant_range range = quant_full_range(carrier->codes.layout.dtype);
    test_array_fetch(y);
    if (mask)
        test_array_fetch(mask);
    for (int64_t i = 0; i < test_array_count(x); i++) {
        bool pass;
        const tdm_quant_parameters parameters = quant_carrier_parameters(carrier, i);
        const float value = (float)test_array_get(x, i);
        const float expected = tdm_quant_fake(value, parameters, range, &pass);
        if (!test_array_is_rounded(y, i, expected))
            test_case_fail("element %lld: %a by scale %a, zero point %d became %a, not %a",
                           (long long)i, (double)value, (double)parameters.scale,
                           parameters.zero_point, test_array_fetched(y, i), (double)expected);
        if (mask && test_array_fetched(mask, i) != (pass ? 1.0 : 0.0))
            test_case_fail("element %lld: %a by scale %a, zero point %d has mask %g, not %d",
                           (long long)i, (double)value, (double)parameters.scale,
                           parameters.zero_point, test_array_fetched(mask, i), pass);
    }
}

typedef struct exact_case {
    int64_t shape[3]; /* the third 0: two dimensions */
    quant_sharing sharing;
    tdm_dtype codes, reals, scale, zero;
    bool irregular;            /* one scale for which nothing is done by reciprocals */
    test_placement x, y, mask; /* of the source, of what becomes of it, of the mask */
} exact_case;

static int rank_of(const exact_case *c) {
    return c->shape[2] == 0 ? 2 : 3;
}

static const tdm_dtype real_dtypes[] = {TDM_F32, TDM_F16, TDM_BF16};

/* Whose results stay in the caches, and go past them. */
static void exact_codes(const test_device *device, const exact_case *c, uint64_t seed) {
    quant_carrier carrier;
    test_array x, y, mask;
    const int rank = rank_of(c);
    quant_carrier_create(&carrier, device, c->codes, rank, c->shape, c->y, c->sharing, c->scale,
                         c->zero, TEST_DENSE);
    fill_plain_scales(&carrier, seed);
    if (c->irregular) {
        test_array_put(&carrier.scale, test_array_count(&carrier.scale) / 2,
                       c->scale == TDM_F16 ? 0.0 : 0x1p127);
        quant_carrier_send(&carrier);
    }
    test_array_create(&x, device, c->reals, rank, c->shape, c->x);
    test_array_create(&y, device, real_dtypes[seed % 3], rank, c->shape, c->y);
    test_array_create(&mask, device, TDM_U8, rank, c->shape, c->mask);
    fill_near_ties(&x, &carrier, seed + 1);
    for (int past = 0; past < 2; past++) {
        test_array_send(&carrier.codes);
        test_array_send(&y);
        test_array_send(&mask);
        test_pass_caches(device, past);
        const tdm_status codes = tdm_tensor_quantize(device->stream, x.tensor, carrier.tensor);
        const tdm_status fake =
            tdm_tensor_fake_quantize(device->stream, x.tensor, carrier.tensor, y.tensor, NULL);
        test_pass_caches(device, false);
        TEST_OK(codes);
        TEST_OK(fake);
        quant_carrier_check_codes(&carrier, &x, quant_full_range(c->codes), 1);
        check_fake(&x, &y, NULL, &carrier);
        test_array_send(&y);
        test_pass_caches(device, past);
        const tdm_status masked = tdm_tensor_fake_quantize(device->stream, x.tensor, carrier.tensor,
                                                           y.tensor, mask.tensor);
        test_pass_caches(device, false);
        TEST_OK(masked);
        check_fake(&x, &y, &mask, &carrier);
    }
    test_array_destroy(&x);
    test_array_destroy(&y);
    test_array_destroy(&mask);
    quant_carrier_destroy(&carrier);
}

DEVICE_TEST(codes_next_to_ties) {
    static const quant_sharing sharings[] = {SHARE_ALL, SHARE_ROWS, SHARE_COLUMNS, SHARE_VECTORS,
                                             SHARE_LAST_GROUPS};
    static const tdm_dtype reals[] = {TDM_F32, TDM_F32, TDM_BF16, TDM_F16};
    for (int i = 0; i < 20; i++) {
        const exact_case c = {
            .shape = {test_is_small() ? 7 : 67, i % 5 == 3 ? 640 : 530},
            .sharing = sharings[i % 5],
            .codes = code_dtypes[i % 3],
            .reals = reals[i % 4],
            .scale = i % 4 == 3   ? TDM_F16
                     : i % 4 == 1 ? TDM_BF16
                                  : TDM_F32,
            .zero = i % 2 == 0 ? TDM_DTYPE_NONE : TDM_S32,
            .irregular = i >= 15,
        };
        exact_codes(device, &c, 100 + (uint64_t)i);
    }
}

/* Groups along a column: tiles of rows that end with a group, with a strip of columns, with the matrix; rows that are not
 * next to each other in memory, groups of two outer dimensions, and rows of which only those further away share parameters. */
DEVICE_TEST(codes_of_groups_along_columns) {
    static const exact_case cases[] = {
        {{70, 530}, SHARE_BANDS, TDM_S8, TDM_F32, TDM_F32, TDM_DTYPE_NONE, .irregular = false},
        {{33, 8315}, SHARE_BANDS, TDM_U8, TDM_F16, TDM_F32, TDM_S32, .irregular = false},
        {{261, 80},
         SHARE_TALL_BANDS,
         TDM_S4,
         TDM_BF16,
         TDM_F16,
         TDM_DTYPE_NONE,
         .irregular = false},
        {{67, 530}, SHARE_FIRST_GROUPS, TDM_U8, TDM_F32, TDM_BF16, TDM_S32, .irregular = false},
        {{70, 21}, SHARE_BANDS, TDM_S8, TDM_BF16, TDM_F32, TDM_S32, .irregular = false},
        {{70, 192}, SHARE_BANDS, TDM_S4, TDM_F16, TDM_F32, TDM_S32, .x = TEST_PADDED},
        {{70, 192},
         SHARE_BANDS,
         TDM_U8,
         TDM_F32,
         TDM_F32,
         TDM_S32,
         .y = TEST_PADDED,
         .mask = TEST_PADDED},
        {{70, 192}, SHARE_BANDS, TDM_S8, TDM_F32, TDM_F32, TDM_DTYPE_NONE, .x = TEST_TRANSPOSED},
        {{70, 144}, SHARE_BANDS, TDM_S8, TDM_F16, TDM_F32, TDM_DTYPE_NONE, .irregular = true},
        {{70, 3, 96}, SHARE_BANDS, TDM_S8, TDM_F32, TDM_F32, TDM_DTYPE_NONE, .irregular = false},
        {{9, 37, 96}, SHARE_FIRST_GROUPS, TDM_U8, TDM_BF16, TDM_F32, TDM_S32, .x = TEST_PADDED},
        {{9, 37, 96}, SHARE_FIRST, TDM_S8, TDM_F32, TDM_F32, TDM_DTYPE_NONE, .x = TEST_PADDED},
    };
    for (int i = 0; i < (int)(sizeof cases / sizeof cases[0]); i++)
        exact_codes(device, &cases[i], 200 + (uint64_t)i);
}

/* Lines of what two groups become, a group that is left over, and rows of the mask that lie otherwise than those of its numbers. */
DEVICE_TEST(masks_of_groups) {
    static const exact_case cases[] = {
        {{7, 96}, SHARE_VECTORS, TDM_S8, TDM_F32, TDM_F32, TDM_DTYPE_NONE, .irregular = false},
        {{7, 96}, SHARE_VECTORS, TDM_U8, TDM_BF16, TDM_F16, TDM_S32, .irregular = false},
        {{21, 32}, SHARE_VECTORS, TDM_S8, TDM_F16, TDM_F32, TDM_S32, .mask = TEST_PADDED},
        {{21, 32}, SHARE_VECTORS, TDM_S4, TDM_F32, TDM_F32, TDM_DTYPE_NONE, .y = TEST_PADDED},
        {{21, 64}, SHARE_ROWS, TDM_S8, TDM_F32, TDM_F32, TDM_DTYPE_NONE, .mask = TEST_PADDED},
        {{9, 208}, SHARE_ROWS, TDM_U8, TDM_BF16, TDM_F32, TDM_S32, .mask = TEST_OFFSET},
        {{9, 640}, SHARE_COLUMNS, TDM_S8, TDM_F16, TDM_F32, TDM_DTYPE_NONE, .mask = TEST_PADDED},
        {{5, 640}, SHARE_ALL, TDM_S8, TDM_F32, TDM_F32, TDM_DTYPE_NONE, .mask = TEST_OFFSET},
        /* two strips of columns, of which one cell is done otherwise */
        {{6, 8304}, SHARE_COLUMNS, TDM_S8, TDM_F32, TDM_F32, TDM_DTYPE_NONE, .irregular = true},
        {{6, 8304}, SHARE_COLUMNS, TDM_U8, TDM_F32, TDM_F32, TDM_S32, .irregular = false},
    };
    for (int i = 0; i < 3 * (int)(sizeof cases / sizeof cases[0]); i++) /* results of each type */
        exact_codes(device, &cases[i / 3], 300 + (uint64_t)i);
}

/* ---- dynamic ---- */

/* Each run of `group` elements has one of 127 and else such that its scale puts them next to ties. A few are so small that a product of
 * theirs would underflow: their neighbours do not tell. */
static void fill_near_derived_ties(test_array *x, int64_t group, uint64_t seed) {
    test_random random = {seed};
    float scale = 1.0f;
    for (int64_t i = 0; i < test_array_count(x); i++) {
        if (i % group == 0)
            scale = (1.0f + (float)test_random_int(&random, 0, (1 << 23) - 1) * 0x1p-23f) *
                    (i / group % 64 == 3 ? 0x1p-124f : 1.0f);
        float value = ((float)test_random_int(&random, -127, 126) + 0.5f) * scale;
        const int away = (int)test_random_int(&random, -3, 3);
        for (int step = 0; step < abs(away); step++)
            value = nextafterf(value, away < 0 ? -INFINITY : INFINITY);
        const bool odd = i / group % 3 == 1 && i % group % 11 == 5;
        test_array_put(x, i,
                       i % group == 0 ? 127.0 * (double)scale
                       : odd          ? (i % 2 == 0 ? NAN : -INFINITY)
                                      : (double)value);
    }
    test_array_send(x);
}

static void dynamic_codes(const test_device *device, const int64_t *shape, quant_sharing sharing,
                          tdm_dtype codes, tdm_dtype reals, bool past_caches) {
    quant_carrier carrier;
    test_array x;
    const int64_t group = sharing == SHARE_VECTORS ? 32 : shape[1];
    const tdm_dtype zero = codes == TDM_U8 ? TDM_U8 : TDM_DTYPE_NONE;
    quant_carrier_create(&carrier, device, codes, 2, shape, TEST_DENSE, sharing, TDM_F32, zero,
                         TEST_DENSE);
    quant_carrier_send(&carrier);
    test_array_create(&x, device, reals, 2, shape, TEST_DENSE);
    fill_near_derived_ties(&x, group, 91);
    test_pass_caches(device, past_caches);
    const tdm_status status = tdm_tensor_quantize_minmax(device->stream, x.tensor, carrier.tensor);
    test_pass_caches(device, false);
    TEST_OK(status);
    test_array_fetch(&carrier.scale);
    if (carrier.has_zero)
        test_array_fetch(&carrier.zero);
    for (int64_t i = 0; i < test_array_count(&carrier.scale); i++) {
        test_array_put(&carrier.scale, i, test_array_fetched(&carrier.scale, i));
        if (carrier.has_zero)
            test_array_put(&carrier.zero, i, test_array_fetched(&carrier.zero, i));
        const double scale = test_array_get(&carrier.scale, i);
        const double most = sharing == SHARE_ALL ? 0.0 : fabs(test_array_get(&x, i * group));
        if (codes == TDM_S8 && most > 0.0 && scale != (double)((float)most / 127.0f))
            test_case_fail("scale %lld is %a, of reals up to %a", (long long)i, scale, most);
    }
    tdm_quant_range range = quant_full_range(codes);
    range.low = carrier.has_zero ? range.low : -range.high;
    quant_carrier_check_codes(&carrier, &x, range, 1);
    test_array_destroy(&x);
    quant_carrier_destroy(&carrier);
}

DEVICE_TEST(dynamic_codes_next_to_ties) {
    static const quant_sharing sharings[] = {SHARE_ROWS, SHARE_VECTORS, SHARE_ALL};
    static const tdm_dtype reals[] = {TDM_F32, TDM_BF16, TDM_F32, TDM_F16};
    const int64_t rows = test_is_small() ? 5 : 67;
    for (int i = 0; i < 24; i++)
        dynamic_codes(device, DIMS(rows, sharings[i % 3] == SHARE_VECTORS ? 640 : 530),
                      sharings[i % 3], code_dtypes[i / 3 % 3], reals[i % 4], i >= 12);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(codes_next_to_ties),
        cmocka_unit_test(codes_of_groups_along_columns),
        cmocka_unit_test(masks_of_groups),

        cmocka_unit_test(dynamic_codes_next_to_ties),

    };
    return cmocka_run_group_tests_name("quantize exact", tests, test_devices_setup,
                                       test_devices_teardown);
}
