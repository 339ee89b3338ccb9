/* Codes of every f16 and every bf16, bit for bit as the host reference: CPU cores make them by two products.
 * ctest: device timeout=240 */
#include <math.h>

#include "api/device/core.h"
#include "quant/number_formats.h"
#include "quant/quant_parameters.h"
#include "tests/support/devices/device_cases.h"
#include "tests/support/quant/quant_carrier.h"

#define DIMS(...) ((const int64_t[]){__VA_ARGS__})
#define GROUP 32 /* of SHARE_VECTORS */

/* Significands of which a product with the rounded reciprocal, without what mends it, makes other codes; the one that leaves the
 * reciprocal's rest next to a tie; powers of two, which leave none; scales that are divided by. */
static const double scales[] = {0x1.755556p-7, 0x1.aaaaacp+2,  0x1.cccccep-5, 0x1.e66664p+1,
                                0x1.fffffep+0, 0x1.fffffep-9,  1.0,           0x1p-24,
                                0x1.fffffep+7, 0x1.8p-59,      0x1.5p+59,     0x1p-60,
                                0x1p-61,       0x1.755556p-60, 0.0,           0x1.aaaaacp-14};
enum {
    SCALES = sizeof scales / sizeof *scales
};

static double half_of(tdm_dtype reals, int64_t bits) {
    return reals == TDM_F16 ? (double)tdm_f32_from_f16((uint16_t)bits)
                            : (double)tdm_f32_from_bf16((uint16_t)bits);
}

/* Where drivers are slow one of 31. */
static int64_t halves(void) {
    return test_is_small() ? 65536 / 31 / GROUP * GROUP : 65536;
}

static int64_t bits_of(int64_t half) {
    return test_is_small() ? half * 31 + 15 : half;
}

/* Scale `s` of every entry, or the scales in turn where entries are columns. */
static void put_scales(quant_carrier *carrier, bool in_turn, int s) {
    for (int64_t i = 0; i < test_array_count(&carrier->scale); i++) {
        test_array_put(&carrier->scale, i, scales[in_turn ? i % SCALES : s]);
        if (carrier->has_zero)
            test_array_put(&carrier->zero, i, (double)(s * 83 % 256));
    }
    quant_carrier_send(carrier);
}

/* Lines of codes must not run on into the gaps of rows that are apart. */
static test_placement placement_of(int number) {
    return number % 2 == 0 ? TEST_DENSE : TEST_PADDED;
}

/* All halves with scale s, or in each column under the scale of that. */
static void codes_of_halves(const test_device *device, tdm_dtype reals, tdm_dtype codes,
                            quant_sharing sharing, int s) {
    const bool columns = sharing == SHARE_COLUMNS;
    const int64_t width = columns ? 4 * SCALES : sharing == SHARE_VECTORS ? GROUP : 64;
    const int64_t *shape = DIMS(columns ? halves() : halves() / width, width);
    quant_carrier carrier;
    test_array x;
    quant_carrier_create(&carrier, device, codes, 2, shape, placement_of(s), sharing, TDM_F32,
                         codes == TDM_U8 ? TDM_U8 : TDM_DTYPE_NONE, TEST_DENSE);
    put_scales(&carrier, columns, s);
    test_array_create(&x, device, reals, 2, shape, TEST_DENSE);
    for (int64_t i = 0; i < test_array_count(&x); i++)
        test_array_put(&x, i, half_of(reals, bits_of(columns ? i / width : i)));
    test_array_send(&x);
    TEST_OK(tdm_tensor_quantize(device->stream, x.tensor, carrier.tensor));
    quant_carrier_check_codes(&carrier, &x, quant_full_range(codes), 1);
    test_array_destroy(&x);
    quant_carrier_destroy(&carrier);
}

DEVICE_TEST(codes_of_all_halves) {
    static const tdm_dtype codes[] = {TDM_S8, TDM_U8, TDM_S4};
    static const quant_sharing sharings[] = {SHARE_ALL, SHARE_ROWS, SHARE_VECTORS};
    for (int s = 0; s < SCALES; s++) {
        codes_of_halves(device, TDM_F16, codes[s % 3], sharings[s / 3 % 3], s);
        codes_of_halves(device, TDM_BF16, codes[s % 3], sharings[(s + 1) / 3 % 3], s);
    }
}

DEVICE_TEST(codes_of_halves_by_column) {
    codes_of_halves(device, TDM_F16, TDM_S8, SHARE_COLUMNS, 0);
    codes_of_halves(device, TDM_BF16, TDM_U8, SHARE_COLUMNS, 1);
}

/* ---- ranges ---- */

/* The least and the greatest finite element from `start` on, 0 among them. */
static tdm_quant_bounds bounds_of(const test_array *x, int64_t start, int64_t count) {
    tdm_quant_bounds bounds = {.minimum = 0.0f, .maximum = 0.0f};
    for (int64_t i = start; i < start + count; i++) {
        const float value = (float)test_array_get(x, i);
        if (!isfinite(value))
            continue;
        bounds.minimum = fminf(bounds.minimum, value);
        bounds.maximum = fmaxf(bounds.maximum, value);
    }
    return bounds;
}

/* Groups of `group` neighbours, which have one sign and almost one size where `mixed` is not set. */
static void ranges_of_halves(const test_device *device, tdm_dtype reals, tdm_dtype codes,
                             quant_sharing sharing, test_placement placement, int64_t group,
                             bool mixed) {
    const int64_t *shape = DIMS(halves() / group, group);
    const bool symmetric = codes != TDM_U8;
    tdm_quant_range range = quant_full_range(codes);
    range.low = symmetric ? -range.high : range.low;
    quant_carrier carrier;
    test_array x;
    quant_carrier_create(&carrier, device, codes, 2, shape, placement, sharing, TDM_F32,
                         symmetric ? TDM_DTYPE_NONE : TDM_U8, TEST_DENSE);
    quant_carrier_send(&carrier);
    test_array_create(&x, device, reals, 2, shape, TEST_DENSE);
    for (int64_t i = 0; i < test_array_count(&x); i++)
        test_array_put(&x, i,
                       half_of(reals, mixed ? (i * 40503 + i / group) & 0xffff : bits_of(i)));
    test_array_send(&x);
    TEST_OK(tdm_tensor_quantize_minmax(device->stream, x.tensor, carrier.tensor));
    test_array_fetch(&carrier.scale);
    if (!symmetric)
        test_array_fetch(&carrier.zero);
    for (int64_t i = 0; i < shape[0]; i++) {
        const tdm_quant_parameters wanted =
            tdm_quant_derive(symmetric ? TDM_QUANT_SYMMETRIC : TDM_QUANT_ASYMMETRIC,
                             bounds_of(&x, i * group, group), range);
        const double zero = symmetric ? 0.0 : test_array_fetched(&carrier.zero, i);
        if (test_array_fetched(&carrier.scale, i) != (double)wanted.scale ||
            zero != wanted.zero_point)
            test_case_fail("group %lld: scale %a, zero point %g, not %a, %d", (long long)i,
                           test_array_fetched(&carrier.scale, i), zero, (double)wanted.scale,
                           wanted.zero_point);
        test_array_put(&carrier.scale, i, (double)wanted.scale);
        if (!symmetric)
            test_array_put(&carrier.zero, i, wanted.zero_point);
    }
    quant_carrier_check_codes(&carrier, &x, range, 1);
    test_array_destroy(&x);
    quant_carrier_destroy(&carrier);
}

DEVICE_TEST(ranges_of_all_halves) {
    static const tdm_dtype codes[] = {TDM_S8, TDM_U8};
    for (int i = 0; i < 8; i++) {
        const tdm_dtype reals = i / 2 % 2 == 0 ? TDM_F16 : TDM_BF16;
        ranges_of_halves(device, reals, codes[i % 2], SHARE_VECTORS, placement_of(i / 4), GROUP,
                         i >= 4);
        ranges_of_halves(device, reals, codes[i % 2], SHARE_ROWS, placement_of(i),
                         i >= 4 ? 4 * GROUP : 480, i >= 4);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(codes_of_all_halves),
        cmocka_unit_test(codes_of_halves_by_column),
        cmocka_unit_test(ranges_of_all_halves),
    };
    return cmocka_run_group_tests_name("quantize halves", tests, test_devices_setup,
                                       test_devices_teardown);
}
