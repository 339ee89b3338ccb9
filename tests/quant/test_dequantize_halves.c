/* Dequantizing to f16 and bf16: CPU cores round two vectors at a time and store lines of the caches, past them where operands do not
 * fit. Whatever numbers come of it, to the last bit of the host's.
 * ctest: device timeout=240 */
#include <math.h>
#include <string.h>

#include "api/device/core.h"
#include "quant/quant_parameters.h"
#include "tests/support/devices/device_cases.h"
#include "tests/support/quant/quant_carrier.h"

#define DIMS(...) ((const int64_t[]){__VA_ARGS__})

typedef struct half_case {
    quant_sharing sharing;
    int64_t rows, columns;
} half_case;

/* What strips, rows and short rows are made of, and what is left of each: of vectors, of lines, of tiles of rows. */
static const half_case half_cases[] = {
    {SHARE_ALL, 3, 1171},    {SHARE_ROWS, 37, 208},    {SHARE_ROWS, 29, 64},
    {SHARE_ROWS, 33, 176},   {SHARE_COLUMNS, 6, 8293}, {SHARE_COLUMNS, 5, 208},
    {SHARE_BANDS, 39, 4200}, {SHARE_VECTORS, 67, 96},  {SHARE_ODD, 9, 330}};

/* Floats around ties of both formats, NaNs whose fraction rounding would carry out of, and what is not normal. */
static const uint32_t special_bits[] = {0x7fffffff, 0xffffffff, 0x7f800000, 0xff800000, 0x7fc00000,
                                        0x7f7fffff, 0x7f7f8000, 0x7f7f7fff, 0x00008000, 0x00018000,
                                        0x80000001, 0x00000000, 0x3f808000, 0x3f818000, 0xbf818001};
static const uint32_t lower_halves[] = {0, 1, 0x7fff, 0x8000, 0x8001, 0xffff};

static float some_scale(test_random *random) {
    const uint64_t draw = test_random_bits(random);
    const size_t specials = sizeof special_bits / sizeof *special_bits;
    const size_t halves = sizeof lower_halves / sizeof *lower_halves;
    const uint32_t bits = draw % 8 == 0
                              ? special_bits[draw / 8 % specials]
                              : (uint32_t)(draw >> 48) << 16 | lower_halves[draw / 8 % halves];
    float scale;
    memcpy(&scale, &bits, sizeof scale);
    return scale;
}

/* Half of them make products whose last bits are those of the scale. */
static double some_code(tdm_dtype dtype, test_random *random) {
    const tdm_quant_range range = quant_full_range(dtype);
    const uint64_t draw = test_random_bits(random);
    return draw % 2 == 0 ? (double)(1 << draw / 2 % 3)
                         : (double)test_random_int(random, range.low, range.high);
}

static void fill(quant_carrier *carrier, uint64_t seed) {
    test_random random = {seed};
    quant_carrier_fill_parameters(carrier, seed);
    for (int64_t i = 0; i < test_array_count(&carrier->scale); i++)
        test_array_put(&carrier->scale, i, (double)some_scale(&random));
    for (int64_t i = 0; i < test_array_count(&carrier->codes); i++)
        test_array_put(&carrier->codes, i, some_code(carrier->codes.layout.dtype, &random));
    quant_carrier_send(carrier);
}

static void check(const quant_carrier *carrier, const test_array *y) {
    for (int64_t i = 0; i < test_array_count(y); i++) {
        const tdm_quant_parameters parameters = quant_carrier_parameters(carrier, i);
        const int32_t code = (int32_t)test_array_get(&carrier->codes, i);
        const float expected = tdm_quant_dequantize(code, parameters);
        if (!test_array_is_rounded(y, i, expected))
            test_case_fail("element %lld: code %d by scale %a, zero point %d became %a, not %a",
                           (long long)i, code, (double)parameters.scale, parameters.zero_point,
                           test_array_fetched(y, i), (double)expected);
    }
}

/* caches: bytes that the device is taken to have in its caches. */
static void reals_of(const test_device *device, const half_case *c, tdm_dtype codes,
                     tdm_dtype reals, test_placement placement, uint64_t caches) {
    quant_carrier carrier;
    test_array y;
    const uint64_t own_caches = device->device->info.cache_bytes;
    const int64_t *const shape = DIMS(c->rows, c->columns);
    quant_carrier_create(&carrier, device, codes, 2, shape, TEST_DENSE, c->sharing, TDM_F32,
                         codes == TDM_U8 ? TDM_U8 : TDM_DTYPE_NONE, TEST_DENSE);
    fill(&carrier, (uint64_t)c->columns);
    test_array_create(&y, device, reals, 2, shape, placement);
    test_array_send(&y);
    device->device->info.cache_bytes = caches;
    const tdm_status status = tdm_tensor_dequantize(device->stream, carrier.tensor, y.tensor);
    device->device->info.cache_bytes = own_caches;
    TEST_OK(status);
    test_array_fetch(&y);
    check(&carrier, &y);
    test_array_destroy(&y);
    quant_carrier_destroy(&carrier);
}

static void halves_of(const test_device *device, tdm_dtype reals) {
    static const tdm_dtype codes[] = {TDM_S8, TDM_U8, TDM_S4};
    static const test_placement placements[] = {TEST_DENSE, TEST_OFFSET, TEST_PADDED};
    const int cases = (int)(sizeof half_cases / sizeof *half_cases);
    for (int i = 0; i < cases * 9; i++) {
        const half_case *const c = &half_cases[i / 9];
        const test_placement placement = placements[i % 3];
        if (test_is_small() && i % 7 != 0)
            continue;
        reals_of(device, c, codes[i / 3 % 3], reals, placement, device->device->info.cache_bytes);
        reals_of(device, c, codes[i / 3 % 3], reals, placement, 1);
    }
}

DEVICE_TEST(codes_become_bf16) {
    halves_of(device, TDM_BF16);
}

DEVICE_TEST(codes_become_f16) {
    halves_of(device, TDM_F16);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(codes_become_bf16),
        cmocka_unit_test(codes_become_f16),
    };
    return cmocka_run_group_tests_name("dequantize_halves", tests, test_devices_setup,
                                       test_devices_teardown);
}
