/* tdm_tensor_quantize and tdm_tensor_dequantize: every variant on every device, bit for bit as the host reference.
 * ctest: device timeout=240 cost=40 */
#include <float.h>
#include <math.h>
#include <string.h>

#include "api/device/core.h"
#include "api/tensor/strided_loop.h"
#include "quant/number_formats.h"
#include "tests/support/devices/device_cases.h"
#include "tests/support/devices/variant_cases.h"
#include "tests/support/quant/quant_carrier.h"
#include "tests/support/quant/quant_cases.h"

static const tdm_dtype code_dtypes[] = {TDM_S8, TDM_U8, TDM_S4};

/* ---- quantize ---- */

/* False when the call was refused as unsupported. variant: NULL for the one that is chosen. */
static bool quantize_case(const test_device *device, const tdm_variant *variant,
                          const quant_case *c, tdm_dtype from) {
    quant_carrier carrier;
    test_array x;
    const op_shape *const shape = c->shape;
    quant_carrier_create(&carrier, device, c->codes, shape->rank, shape->shape, c->y, c->sharing,
                         c->scale, c->zero, c->parameters);
    quant_carrier_fill_parameters(&carrier, 5);
    test_array_create(&x, device, from, shape->rank, shape->shape, c->x);
    quant_fill_reals(&x, &carrier, 6);
    tdm_force_variant(variant ? variant->name : NULL);
    const tdm_status status = tdm_tensor_quantize(device->stream, x.tensor, carrier.tensor);
    tdm_force_variant(NULL);
    const bool ran = status != TDM_UNSUPPORTED;
    if (ran) {
        TEST_OK(status);
        quant_carrier_check_codes(&carrier, &x, quant_full_range(c->codes), 1);
        test_array_expect_unchanged(&carrier.scale);
    }
    test_array_destroy(&x);
    quant_carrier_destroy(&carrier);
    return ran;
}

/* What each variant owes: it ran, or may refuse the case. */
static void end_case(bool ran, const tdm_variant *variant, const quant_case *c) {
    if (!ran && quant_case_must_run(variant, c))
        test_case_fail("refused: %s", tdm_last_detail());
    if (ran && !quant_case_is_empty(c))
        test_case_end();
}

static void one_quantize(const test_device *device, const tdm_variant *variant, const int row[]) {
    quant_case c;
    quant_case_read(&c, row, code_dtypes);
    if (quant_case_begin(device, variant, &c))
        end_case(quantize_case(device, variant, &c, (tdm_dtype)variant->parameters[0]), variant,
                 &c);
}

static void every_quantize(void **state) {
    (void)state;
    quant_every_variant(TDM_OP_QUANTIZE, 3, one_quantize);
}

/* ---- dequantize ---- */

static const tdm_dtype real_dtypes[] = {TDM_F32, TDM_F16, TDM_BF16};

static void check_reals(const quant_carrier *carrier, const test_array *y) {
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

static bool dequantize_case(const test_device *device, const tdm_variant *variant,
                            const quant_case *c, tdm_dtype codes) {
    quant_carrier carrier;
    test_array y;
    const op_shape *const shape = c->shape;
    const tdm_dtype reals = c->codes;
    quant_carrier_create(&carrier, device, codes, shape->rank, shape->shape, c->x, c->sharing,
                         c->scale, codes == TDM_S32 ? TDM_DTYPE_NONE : c->zero, c->parameters);
    quant_carrier_fill_parameters(&carrier, 7);
    test_array_fill(&carrier.codes, TEST_DATA_ANY_BITS, 8);
    test_array_create(&y, device, reals, shape->rank, shape->shape, c->y);
    test_array_send(&y);
    tdm_force_variant(variant ? variant->name : NULL);
    const tdm_status status = tdm_tensor_dequantize(device->stream, carrier.tensor, y.tensor);
    tdm_force_variant(NULL);
    const bool ran = status != TDM_UNSUPPORTED;
    if (ran) {
        TEST_OK(status);
        test_array_fetch(&y);
        check_reals(&carrier, &y);
    }
    test_array_destroy(&y);
    quant_carrier_destroy(&carrier);
    return ran;
}

static void one_dequantize(const test_device *device, const tdm_variant *variant, const int row[]) {
    quant_case c;
    quant_case_read(&c, row, real_dtypes);
    if (quant_case_begin(device, variant, &c))
        end_case(dequantize_case(device, variant, &c, (tdm_dtype)variant->parameters[0]), variant,
                 &c);
}

static void every_dequantize(void **state) {
    (void)state;
    quant_every_variant(TDM_OP_DEQUANTIZE, 3, one_dequantize);
}

/* ---- forms of their own on CPU cores ---- */

/* Groups of whole vectors, many rows under one row of parameters, and what is left over of both. */
static const op_shape long_shapes[] = {{2, {3, 640}}, {2, {37, 530}}, {3, {2, 3, 8226}}};
static const quant_sharing long_sharings[] = {SHARE_VECTORS, SHARE_COLUMNS, SHARE_FIRST_GROUPS};

static void groups_and_columns_of(const test_device *device, tdm_dtype scale, tdm_dtype zero) {
    for (int i = 0; i < 27; i++) {
        const int form = i / 9, codes = i / 3 % 3, reals = i % 3;
        quant_case c = {.shape = &long_shapes[form],
                        .sharing = long_sharings[form],
                        .codes = code_dtypes[codes],
                        .scale = scale,
                        .zero = zero};
        if (!quantize_case(device, NULL, &c, real_dtypes[reals]))
            test_case_fail("quantize: %s", tdm_last_detail());
        c.codes = real_dtypes[reals];
        if (!dequantize_case(device, NULL, &c, code_dtypes[codes]))
            test_case_fail("dequantize: %s", tdm_last_detail());
    }
}

DEVICE_TEST(groups_and_columns) {
    groups_and_columns_of(device, TDM_F32, TDM_DTYPE_NONE);
    if (test_is_small())
        return;
    groups_and_columns_of(device, TDM_F16, TDM_S32);
    groups_and_columns_of(device, TDM_F32, TDM_S8);
}

#define DIMS(...) ((const int64_t[]){__VA_ARGS__})

/* More dimensions than a kernel has room for, once each is cut into blocks. */
DEVICE_TEST(blocks_along_every_dimension) {
    quant_carrier carrier;
    test_array x;
    const int64_t *const shape = DIMS(4, 3, 4, 4, 1, 3, 4, 6);
    quant_carrier_create(&carrier, device, TDM_S8, 8, shape, TEST_DENSE, SHARE_TILES, TDM_F32,
                         TDM_S8, TEST_DENSE);
    quant_carrier_fill_parameters(&carrier, 51);
    test_array_create(&x, device, TDM_F32, 8, shape, TEST_TRANSPOSED);
    quant_fill_reals(&x, &carrier, 52);
    TEST_OK(tdm_tensor_quantize(device->stream, x.tensor, carrier.tensor));
    quant_carrier_check_codes(&carrier, &x, quant_full_range(TDM_S8), 1);
    test_array_destroy(&x);
    quant_carrier_destroy(&carrier);
}

/* Blocks of s4 that begin and end inside bytes, which a source may have: rows of three blocks, and what is left of a row. */
DEVICE_TEST(blocks_that_part_bytes_are_read) {
    static const op_shape shapes[] = {{2, {3, 130}}, {2, {2, 97}}, {3, {2, 3, 66}}};
    for (int i = 0; i < 9; i++) {
        const quant_case c = {.shape = &shapes[i / 3],
                              .sharing = SHARE_ODD,
                              .codes = real_dtypes[i % 3],
                              .scale = TDM_F32,
                              .zero = i % 2 == 0 ? TDM_DTYPE_NONE : TDM_S8,
                              .x = i % 3 == 2 ? TEST_PADDED : TEST_DENSE};
        if (!dequantize_case(device, NULL, &c, TDM_S4))
            test_case_fail("dequantize: %s", tdm_last_detail());
    }
}

/* A row of s4 whose halves, one for each of two items, would part a byte: checkers of races see it. */
DEVICE_TEST(items_share_no_bytes) {
    static const op_shape row = {1, {2 * 8193}};
    for (int v = 0; v < tdm_variant_count; v++) {
        const tdm_variant *const variant = &tdm_variants[v];
        const quant_case c = {
            .shape = &row, .sharing = SHARE_ALL, .codes = TDM_S4, .scale = TDM_F32};
        if (variant->op == TDM_OP_QUANTIZE && variant->parameters[0] == TDM_F32 &&
            test_can_run(device, variant) && !quantize_case(device, variant, &c, TDM_F32))
            test_case_fail("%s: %s", variant->name, tdm_last_detail());
    }
}

/* ---- dequantized lines: CPU cores round two vectors at a time and store lines, past the caches where operands do not fit ---- */

typedef struct line_case {
    quant_sharing sharing;
    int64_t rows, columns;
} line_case;

/* What strips, rows and short rows are made of, and what is left of each: of vectors, of lines, of tiles of rows. */
static const line_case line_cases[] = {
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

static void fill_near_ties(quant_carrier *carrier, uint64_t seed) {
    test_random random = {seed};
    quant_carrier_fill_parameters(carrier, seed);
    for (int64_t i = 0; i < test_array_count(&carrier->scale); i++)
        test_array_put(&carrier->scale, i, (double)some_scale(&random));
    for (int64_t i = 0; i < test_array_count(&carrier->codes); i++)
        test_array_put(&carrier->codes, i, some_code(carrier->codes.layout.dtype, &random));
    quant_carrier_send(carrier);
}

static void reals_of(const test_device *device, const line_case *c, tdm_dtype codes,
                     tdm_dtype reals, test_placement placement, bool past_caches) {
    quant_carrier carrier;
    test_array y;
    const int64_t *const shape = DIMS(c->rows, c->columns);
    quant_carrier_create(&carrier, device, codes, 2, shape, TEST_DENSE, c->sharing, TDM_F32,
                         codes == TDM_U8 ? TDM_U8 : TDM_DTYPE_NONE, TEST_DENSE);
    fill_near_ties(&carrier, (uint64_t)c->columns);
    test_array_create(&y, device, reals, 2, shape, placement);
    test_array_send(&y);
    test_pass_caches(device, past_caches);
    const tdm_status status = tdm_tensor_dequantize(device->stream, carrier.tensor, y.tensor);
    test_pass_caches(device, false);
    TEST_OK(status);
    test_array_fetch(&y);
    check_reals(&carrier, &y);
    test_array_destroy(&y);
    quant_carrier_destroy(&carrier);
}

static void reals_of_each_case(const test_device *device, tdm_dtype reals) {
    static const tdm_dtype codes[] = {TDM_S8, TDM_U8, TDM_S4};
    static const test_placement placements[] = {TEST_DENSE, TEST_OFFSET, TEST_PADDED};
    const int cases = (int)(sizeof line_cases / sizeof *line_cases);
    for (int i = 0; i < cases * 9; i++) {
        const line_case *const c = &line_cases[i / 9];
        const test_placement placement = placements[i % 3];
        if (test_is_small() && i % 7 != 0)
            continue;
        reals_of(device, c, codes[i / 3 % 3], reals, placement, false);
        reals_of(device, c, codes[i / 3 % 3], reals, placement, true);
    }
}

DEVICE_TEST(codes_become_reals) {
    for (int i = 0; i < 3; i++)
        reals_of_each_case(device, real_dtypes[i]);
}

/* Scales of three columns at the very end of an allocation, for a row that is shorter than a vector: checkers of memory see
 * one that is read too many. */
DEVICE_TEST(short_rows_read_no_more_scales_than_there_are) {
    enum {
        COLUMNS = 3,
        ROOM = 1 << 14
    };
    tdm_tensor *room, *scale, *x, *codes, *carrier;
    TEST_OK(tdm_tensor_create(device->device, TDM_F32, 1, DIMS(ROOM), &room));
    TEST_OK(tdm_tensor_view(room, 2, DIMS(1, COLUMNS), DIMS(COLUMNS, 1), ROOM - COLUMNS, &scale));
    TEST_OK(tdm_tensor_create(device->device, TDM_F32, 2, DIMS(3, COLUMNS), &x));
    TEST_OK(tdm_tensor_create(device->device, TDM_S8, 2, DIMS(3, COLUMNS), &codes));
    TEST_OK(tdm_tensor_fill(device->stream, 0.5, room));
    TEST_OK(tdm_tensor_fill(device->stream, 3.0, x));
    tdm_quantization quantization = TDM_QUANTIZATION_INIT;
    quantization.block[1] = 1;
    quantization.scale = scale;
    TEST_OK(tdm_tensor_quantized(codes, &quantization, &carrier));
    for (int v = 0; v < tdm_variant_count; v++) {
        int8_t given[3 * COLUMNS] = {0};
        if (tdm_variants[v].op != TDM_OP_QUANTIZE || tdm_variants[v].parameters[0] != TDM_F32 ||
            !test_can_run(device, &tdm_variants[v]))
            continue;
        tdm_force_variant(tdm_variants[v].name);
        TEST_OK(tdm_tensor_quantize(device->stream, x, carrier));
        tdm_force_variant(NULL);
        TEST_OK(tdm_tensor_read(device->stream, carrier, given, sizeof given, NULL));
        for (int i = 0; i < 3 * COLUMNS; i++)
            assert_int_equal(given[i], 6);
    }
    tdm_tensor_destroy(carrier);
    tdm_tensor_destroy(codes);
    tdm_tensor_destroy(x);
    tdm_tensor_destroy(scale);
    tdm_tensor_destroy(room);
}

/* A tensor of nibbles whose blocks of three end inside bytes. */
static void split_bytes_are_refused(const test_device *device, tdm_tensor *reals) {
    tdm_tensor *codes, *scale, *carrier;
    tdm_quantization quantization = TDM_QUANTIZATION_INIT;
    TEST_OK(tdm_tensor_create(device->device, TDM_S4, 2, DIMS(4, 6), &codes));
    TEST_OK(tdm_tensor_create(device->device, TDM_F32, 2, DIMS(4, 2), &scale));
    quantization.block[0] = 1;
    quantization.block[1] = 3;
    quantization.scale = scale;
    TEST_OK(tdm_tensor_quantized(codes, &quantization, &carrier));
    TEST_REFUSED(tdm_tensor_quantize(device->stream, reals, carrier), TDM_UNSUPPORTED,
                 "quantize: blocks of 3 along dimension 1 of target part the two s4 elements");
    TEST_REFUSED(tdm_tensor_quantize_minmax(device->stream, reals, carrier), TDM_UNSUPPORTED,
                 "quantize_minmax: blocks of 3 along dimension 1");
    TEST_OK(tdm_tensor_dequantize(device->stream, carrier, reals));
    TEST_OK(tdm_stream_synchronize(device->stream));
    tdm_tensor_destroy(codes);
    tdm_tensor_destroy(scale);
    tdm_tensor_destroy(carrier);
}

/* A scale for each row, of which all are the same number in memory. */
static void shared_places_are_refused(const test_device *device, const tdm_tensor *reals) {
    tdm_tensor *codes, *number, *scale, *carrier;
    tdm_quantization quantization = TDM_QUANTIZATION_INIT;
    TEST_OK(tdm_tensor_create(device->device, TDM_S8, 2, DIMS(4, 6), &codes));
    TEST_OK(tdm_tensor_create(device->device, TDM_F32, 1, DIMS(1), &number));
    TEST_OK(tdm_tensor_view(number, 2, DIMS(4, 1), DIMS(0, 1), 0, &scale));
    quantization.block[0] = 1;
    quantization.scale = scale;
    TEST_OK(tdm_tensor_quantized(codes, &quantization, &carrier));
    TEST_REFUSED(tdm_tensor_quantize_minmax(device->stream, reals, carrier), TDM_BAD_ARGUMENT,
                 "quantize_minmax: elements of target's scale share a place");
    tdm_tensor_destroy(carrier);
    tdm_tensor_destroy(scale);
    tdm_tensor_destroy(number);
    tdm_tensor_destroy(codes);
}

static void dynamic_refusals(const test_device *device, const test_array *f) {
    quant_carrier unsigned_codes, tiles, wrong;
    quant_carrier_create(&unsigned_codes, device, TDM_U8, 2, DIMS(4, 6), TEST_DENSE, SHARE_ROWS,
                         TDM_F32, TDM_DTYPE_NONE, TEST_DENSE);
    quant_carrier_create(&tiles, device, TDM_S8, 2, DIMS(4, 6), TEST_DENSE, SHARE_TILES, TDM_F32,
                         TDM_DTYPE_NONE, TEST_DENSE);
    quant_carrier_create(&wrong, device, TDM_S8, 2, DIMS(4, 6), TEST_DENSE, SHARE_ROWS, TDM_F32,
                         TDM_U8, TEST_DENSE);
    tdm_stream *const s = device->stream;
    TEST_REFUSED(tdm_tensor_quantize_minmax(s, f->tensor, unsigned_codes.tensor), TDM_UNSUPPORTED,
                 "quantize_minmax: target is u8 without zero points");
    TEST_REFUSED(tdm_tensor_quantize_minmax(s, f->tensor, tiles.tensor), TDM_UNSUPPORTED,
                 "quantize_minmax: blocks of several elements along 2 dimensions of target");
    TEST_REFUSED(tdm_tensor_quantize_minmax(s, f->tensor, wrong.tensor), TDM_UNSUPPORTED,
                 "quantize_minmax: zero points of u8 cannot hold every code of s8");
    shared_places_are_refused(device, f->tensor);
    quant_carrier_destroy(&unsigned_codes);
    quant_carrier_destroy(&tiles);
    quant_carrier_destroy(&wrong);
}

DEVICE_TEST(misuse_is_refused) {
    quant_carrier carrier, sums;
    test_array f, other, integers;
    quant_carrier_create(&carrier, device, TDM_S8, 2, DIMS(4, 6), TEST_DENSE, SHARE_ROWS, TDM_F32,
                         TDM_S8, TEST_DENSE);
    quant_carrier_create(&sums, device, TDM_S32, 2, DIMS(4, 6), TEST_DENSE, SHARE_ROWS, TDM_F32,
                         TDM_S32, TEST_DENSE);
    test_array_create(&f, device, TDM_F32, 2, DIMS(4, 6), TEST_DENSE);
    test_array_create(&other, device, TDM_F32, 2, DIMS(6, 4), TEST_DENSE);
    test_array_create(&integers, device, TDM_S32, 2, DIMS(4, 6), TEST_DENSE);
    quant_carrier_send(&carrier);
    test_array_send(&f);
    tdm_stream *const s = device->stream;
    tdm_tensor *const q = carrier.tensor;
    TEST_REFUSED(tdm_tensor_quantize(s, f.tensor, carrier.codes.tensor), TDM_BAD_ARGUMENT,
                 "quantize: target carries no parameters");
    TEST_REFUSED(tdm_tensor_quantize(s, other.tensor, q), TDM_BAD_SHAPE,
                 "quantize: source has shape [6, 4] but target [4, 6]");
    TEST_REFUSED(tdm_tensor_quantize(s, integers.tensor, q), TDM_UNSUPPORTED,
                 "quantize: source is s32, must be one of f32, f16, bf16");
    TEST_REFUSED(tdm_tensor_quantize(s, f.tensor, sums.tensor), TDM_UNSUPPORTED,
                 "quantize: target is s32, must be one of s8, u8, s4");
    TEST_REFUSED(tdm_tensor_quantize(s, f.tensor, NULL), TDM_BAD_ARGUMENT,
                 "quantize: target is NULL");
    TEST_REFUSED(tdm_tensor_quantize(NULL, f.tensor, q), TDM_BAD_ARGUMENT,
                 "quantize: stream is NULL");
    TEST_REFUSED(tdm_tensor_dequantize(s, NULL, f.tensor), TDM_BAD_ARGUMENT,
                 "dequantize: source is NULL");
    TEST_REFUSED(tdm_tensor_dequantize(s, sums.tensor, f.tensor), TDM_UNSUPPORTED,
                 "dequantize: source is s32 with zero points, must have scales only");
    TEST_REFUSED(tdm_tensor_dequantize(s, q, integers.tensor), TDM_UNSUPPORTED,
                 "dequantize: target is s32");
    TEST_REFUSED(tdm_tensor_requantize(s, q, q), TDM_BAD_ARGUMENT,
                 "requantize: the output target overlaps");
    TEST_REFUSED(tdm_tensor_fake_quantize(s, f.tensor, q, f.tensor, integers.tensor), TDM_BAD_DTYPE,
                 "fake_quantize: mask is s32, must be u8");
    TEST_REFUSED(tdm_tensor_fake_quantize(s, f.tensor, NULL, f.tensor, NULL), TDM_BAD_ARGUMENT,
                 "fake_quantize: like is NULL");
    TEST_REFUSED(tdm_tensor_dequantize(s, q, carrier.scale.tensor), TDM_BAD_SHAPE,
                 "dequantize: source has");
    dynamic_refusals(device, &f);
    test_array_expect_unchanged(&carrier.codes);
    test_array_expect_unchanged(&f);
    split_bytes_are_refused(device, f.tensor);
    quant_carrier_destroy(&carrier);
    quant_carrier_destroy(&sums);
    test_array_destroy(&f);
    test_array_destroy(&other);
    test_array_destroy(&integers);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_quantize),
        cmocka_unit_test(every_dequantize),
        cmocka_unit_test(groups_and_columns),

        cmocka_unit_test(blocks_along_every_dimension),
        cmocka_unit_test(blocks_that_part_bytes_are_read),
        cmocka_unit_test(items_share_no_bytes),

        cmocka_unit_test(short_rows_read_no_more_scales_than_there_are),
        cmocka_unit_test(codes_become_reals),
        cmocka_unit_test(misuse_is_refused),
    };
    return cmocka_run_group_tests_name("quantize", tests, test_devices_setup,
                                       test_devices_teardown);
}
