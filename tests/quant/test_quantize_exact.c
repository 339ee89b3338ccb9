/* Codes next to ties under scales of every significand, in the forms that CPU cores have, and beyond their caches.
 * ctest: device rusticl_in_ci timeout=240 */
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

/* What every `step`-th code stands for, and where there is a mask, whether it was not saturated. */
static void check_fake(const test_array *x, test_array *y, test_array *mask,
                       const quant_carrier *carrier, int64_t step) {
    const tdm_quant_range range = quant_full_range(carrier->codes.layout.dtype);
    test_array_fetch(y);
    if (mask)
        test_array_fetch(mask);
    for (int64_t i = 0; i < test_array_count(x); i += step) {
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

/* Takes the device to have so many bytes of caches. Gives what it had. */
static uint64_t set_caches(const test_device *device, uint64_t bytes) {
    const uint64_t had = device->device->info.cache_bytes;
    device->device->info.cache_bytes = bytes;
    return had;
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
    const uint64_t own_caches = device->device->info.cache_bytes;
    for (int past = 0; past < 2; past++) {
        test_array_send(&carrier.codes);
        test_array_send(&y);
        test_array_send(&mask);
        set_caches(device, past ? 1 : own_caches);
        const tdm_status codes = tdm_tensor_quantize(device->stream, x.tensor, carrier.tensor);
        const tdm_status fake =
            tdm_tensor_fake_quantize(device->stream, x.tensor, carrier.tensor, y.tensor, NULL);
        set_caches(device, own_caches);
        TEST_OK(codes);
        TEST_OK(fake);
        quant_carrier_check_codes(&carrier, &x, quant_full_range(c->codes), 1);
        check_fake(&x, &y, NULL, &carrier, 1);
        test_array_send(&y);
        set_caches(device, past ? 1 : own_caches);
        const tdm_status masked = tdm_tensor_fake_quantize(device->stream, x.tensor, carrier.tensor,
                                                           y.tensor, mask.tensor);
        set_caches(device, own_caches);
        TEST_OK(masked);
        check_fake(&x, &y, &mask, &carrier, 1);
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

/* Strips and groups of requantize: sums and codes into codes of other blocks. */
typedef struct requantize_case {
    int64_t shape[2];
    tdm_dtype from_codes, to_codes;
    quant_sharing from_sharing, to_sharing;
    tdm_dtype from_zeros, to_zeros; /* sums have none */
    bool any_scale;                 /* else those that may be replaced by their reciprocals */
} requantize_case;

static void requantize_pair(const test_device *device, const requantize_case *c) {
    quant_carrier from, to;
    quant_carrier_create(&from, device, c->from_codes, 2, c->shape, TEST_DENSE, c->from_sharing,
                         TDM_F32, c->from_codes == TDM_S32 ? TDM_DTYPE_NONE : c->from_zeros,
                         TEST_DENSE);
    quant_carrier_create(&to, device, c->to_codes, 2, c->shape, TEST_DENSE, c->to_sharing, TDM_F32,
                         c->to_zeros, TEST_DENSE);
    quant_carrier_fill_parameters(&from, 71);
    quant_carrier_fill_parameters(&to, 72);
    if (!c->any_scale) {
        fill_plain_scales(&from, 73);
        fill_plain_scales(&to, 73);
    }
    test_array_fill(&from.codes, TEST_DATA_ANY_BITS, 74);
    test_random random = {75};
    for (int64_t i = 0; c->from_codes == TDM_S32 && i < test_array_count(&from.codes); i++)
        test_array_put(&from.codes, i, (double)test_random_int(&random, -400, 400));
    test_array_send(&from.codes);
    TEST_OK(tdm_tensor_requantize(device->stream, from.tensor, to.tensor));
    test_array_fetch(&to.codes);
    const tdm_quant_range range = quant_full_range(c->to_codes);
    for (int64_t i = 0; i < test_array_count(&to.codes); i++) {
        const tdm_quant_parameters a = quant_carrier_parameters(&from, i);
        const tdm_quant_parameters b = quant_carrier_parameters(&to, i);
        const float factor = b.scale == 0.0f ? 0.0f : a.scale / b.scale;
        const int32_t code = (int32_t)test_array_get(&from.codes, i) - a.zero_point;
        const int32_t expected = tdm_quant_requantize(
            code, (tdm_quant_parameters){.scale = factor, .zero_point = b.zero_point}, range);
        const double actual = test_array_fetched(&to.codes, i);
        if (actual != expected && !(fabsf(factor) < 0x1p-126f && actual == b.zero_point))
            test_case_fail("element %lld: code %d from %a to %a, zero point %d became %g, not %d",
                           (long long)i, code, (double)a.scale, (double)b.scale, b.zero_point,
                           actual, expected);
    }
    quant_carrier_destroy(&from);
    quant_carrier_destroy(&to);
}

DEVICE_TEST(requantize_in_strips_and_groups) {
    static const quant_sharing sharings[] = {SHARE_ALL, SHARE_ROWS, SHARE_COLUMNS, SHARE_VECTORS};
    static const tdm_dtype from_codes[] = {TDM_S32, TDM_S8, TDM_U8, TDM_S4};
    static const requantize_case cases[] = {
        /* groups, an odd number of them: without zero points, with those of one side alone */
        {{3, 96},
         TDM_S32,
         TDM_S8,
         SHARE_VECTORS,
         SHARE_VECTORS,
         TDM_DTYPE_NONE,
         TDM_DTYPE_NONE,
         false},
        {{3, 96},
         TDM_S8,
         TDM_S4,
         SHARE_VECTORS,
         SHARE_VECTORS,
         TDM_DTYPE_NONE,
         TDM_DTYPE_NONE,
         false},
        {{3, 96}, TDM_S32, TDM_U8, SHARE_VECTORS, SHARE_VECTORS, TDM_S32, TDM_S32, false},
        {{3, 96}, TDM_U8, TDM_S8, SHARE_VECTORS, SHARE_VECTORS, TDM_S32, TDM_DTYPE_NONE, false},
        /* blocks of 32 and of 6 that begin together */
        {{3, 100}, TDM_S8, TDM_U8, SHARE_VECTORS, SHARE_LAST_GROUPS, TDM_S32, TDM_S32, false},
        {{3, 100}, TDM_U8, TDM_S8, SHARE_LAST_GROUPS, SHARE_VECTORS, TDM_S32, TDM_S32, false},
        /* blocks of s4 that part bytes */
        {{3, 130}, TDM_S4, TDM_S8, SHARE_ODD, SHARE_ALL, TDM_S32, TDM_S32, false},
        {{3, 130}, TDM_S4, TDM_U8, SHARE_ODD, SHARE_COLUMNS, TDM_S32, TDM_S32, false},
        /* more columns than a strip has; the last, which slow implementations leave out */
        {{5, 8226}, TDM_S32, TDM_S8, SHARE_ALL, SHARE_COLUMNS, TDM_S32, TDM_S32, false},
    };
    const int count = (int)(sizeof cases / sizeof cases[0]) - (test_is_small() ? 1 : 0);
    const int64_t rows = test_is_small() ? 5 : 37, columns = test_is_small() ? 96 : 640;
    for (int i = 0; i < 16; i++) {
        const int64_t rest = i % 4 == 3 || i / 4 == 3 ? 0 : 6;
        const requantize_case c = {.shape = {rows, columns + rest},
                                   .from_codes = from_codes[(i + i / 4) % 4],
                                   .to_codes = code_dtypes[i % 3],
                                   .from_sharing = sharings[i % 4],
                                   .to_sharing = sharings[i / 4],
                                   .from_zeros = TDM_S32,
                                   .to_zeros = TDM_S32,
                                   .any_scale = i % 2 != 0};
        requantize_pair(device, &c);
    }
    for (int i = 0; i < count; i++)
        requantize_pair(device, &cases[i]);
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
                          tdm_dtype codes, tdm_dtype reals, int64_t step) {
    quant_carrier carrier;
    test_array x;
    const int64_t group = sharing == SHARE_VECTORS ? 32 : shape[1];
    const tdm_dtype zero = codes == TDM_U8 ? TDM_U8 : TDM_DTYPE_NONE;
    quant_carrier_create(&carrier, device, codes, 2, shape, TEST_DENSE, sharing, TDM_F32, zero,
                         TEST_DENSE);
    quant_carrier_send(&carrier);
    test_array_create(&x, device, reals, 2, shape, TEST_DENSE);
    fill_near_derived_ties(&x, group, 91);
    TEST_OK(tdm_tensor_quantize_minmax(device->stream, x.tensor, carrier.tensor));
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
    quant_carrier_check_codes(&carrier, &x, range, step);
    test_array_destroy(&x);
    quant_carrier_destroy(&carrier);
}

DEVICE_TEST(dynamic_codes_next_to_ties) {
    static const quant_sharing sharings[] = {SHARE_ROWS, SHARE_VECTORS, SHARE_ALL};
    static const tdm_dtype reals[] = {TDM_F32, TDM_BF16, TDM_F32, TDM_F16};
    const int64_t rows = test_is_small() ? 5 : 67;
    for (int i = 0; i < 12; i++)
        dynamic_codes(device, DIMS(rows, sharings[i % 3] == SHARE_VECTORS ? 640 : 530),
                      sharings[i % 3], code_dtypes[i / 3 % 3], reals[i % 4], 1);
}

/* Beyond the caches codes are stored past them, where rows begin at whole vectors. */
DEVICE_TEST(large_codes) {
    const int64_t elements = 1 << 20;
    const uint64_t own_caches = set_caches(device, 1 << 20);
    for (int number = 0; number < 9; number++) {
        const int i = number % 3;
        const int64_t columns = i == 1 ? 4 * 1025 : 4 * 1028;
        const exact_case c = {
            .shape = {test_is_small() ? 3 : elements / columns + 5, columns},
            .sharing = i == 0   ? SHARE_ALL
                       : i == 1 ? SHARE_ROWS
                                : SHARE_COLUMNS,
            .codes = code_dtypes[(i + number / 3) % 3],
            .reals = real_dtypes[number / 3],
            .scale = TDM_F32,
            .zero = i == 1 ? TDM_S32 : TDM_DTYPE_NONE,
        };
        quant_carrier carrier;
        test_array x;
        quant_carrier_create(&carrier, device, c.codes, 2, c.shape, TEST_DENSE, c.sharing, c.scale,
                             c.zero, TEST_DENSE);
        for (int64_t entry = 0; entry < test_array_count(&carrier.scale); entry++) {
            test_array_put(&carrier.scale, entry, 0.0123 * (double)(1 + entry % 7));
            if (carrier.has_zero)
                test_array_put(&carrier.zero, entry, (double)(entry % 5));
        }
        quant_carrier_send(&carrier);
        test_array_create(&x, device, c.reals, 2, c.shape, TEST_DENSE);
        test_array_fill(&x, TEST_DATA_UNIT, 81);
        test_array_send(&x);
        TEST_OK(tdm_tensor_quantize(device->stream, x.tensor, carrier.tensor));
        quant_carrier_check_codes(&carrier, &x, quant_full_range(c.codes), 29);
        test_array_destroy(&x);
        quant_carrier_destroy(&carrier);
    }
    set_caches(device, own_caches);
}

/* What else is stored past them: codes of derived scales, reals of each width, masks. */
DEVICE_TEST(large_results) {
    static const quant_sharing sharings[] = {SHARE_ALL, SHARE_VECTORS, SHARE_COLUMNS};
    const int64_t elements = test_is_small() ? 4096 : 1 << 20;
    const uint64_t own_caches = set_caches(device, 1 << 20);
    for (int i = 0; i < 3; i++) {
        const int64_t shape[] = {elements / 4096 + 5, 4096 + (i == 2 ? 7 : 0)};
        quant_carrier carrier;
        test_array x, y, mask;
        quant_carrier_create(&carrier, device, TDM_S8, 2, shape, TEST_DENSE, sharings[i], TDM_F32,
                             TDM_DTYPE_NONE, TEST_DENSE);
        for (int64_t entry = 0; entry < test_array_count(&carrier.scale); entry++)
            test_array_put(&carrier.scale, entry, 0.006 * (double)(1 + entry % 7));
        quant_carrier_send(&carrier);
        test_array_create(&x, device, real_dtypes[i], 2, shape, TEST_DENSE);
        test_array_create(&y, device, real_dtypes[i], 2, shape, TEST_DENSE);
        test_array_create(&mask, device, TDM_U8, 2, shape, TEST_DENSE);
        test_array_fill(&x, TEST_DATA_UNIT, 82);
        test_array_send(&x);
        test_array_send(&y);
        test_array_send(&mask);
        TEST_OK(tdm_tensor_fake_quantize(device->stream, x.tensor, carrier.tensor, y.tensor,
                                         mask.tensor));
        check_fake(&x, &y, &mask, &carrier, 31);
        test_array_destroy(&x);
        test_array_destroy(&y);
        test_array_destroy(&mask);
        quant_carrier_destroy(&carrier);
    }
    dynamic_codes(device, DIMS(elements / 4096 + 5, 4096), SHARE_ROWS, TDM_S8, TDM_F32, 29);
    dynamic_codes(device, DIMS(elements / 4096 + 5, 4096), SHARE_VECTORS, TDM_U8, TDM_F16, 29);
    set_caches(device, own_caches);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(codes_next_to_ties),
        cmocka_unit_test(codes_of_groups_along_columns),
        cmocka_unit_test(masks_of_groups),
        cmocka_unit_test(requantize_in_strips_and_groups),
        cmocka_unit_test(dynamic_codes_next_to_ties),
        cmocka_unit_test(large_codes),
        cmocka_unit_test(large_results),
    };
    return cmocka_run_group_tests_name("quantize exact", tests, test_devices_setup,
                                       test_devices_teardown);
}
