/* Every variant of tdm_tensor_quantize and tdm_tensor_dequantize gives the bits of the host
 * reference on every device.
 * ctest: device rusticl_in_ci timeout=240 cost=40 */
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
#include "tests/support/test_case.h"

static const tdm_dtype code_dtypes[] = {TDM_S8, TDM_U8, TDM_S4};

/* ---- quantize ---- */

/* Returns false if the call was refused as unsupported. If `variant` is NULL, the library chooses
 * one. */
static bool quantize_case(const test_device *device, const tdm_variant *variant,
                          const quant_case *c, tdm_dtype from) {
    quant_carrier carrier;
    test_array x;
    const op_shape *const shape = c->shape;
    quant_carrier_create(&carrier, device, c->codes, shape->rank, shape->shape, c->y, c->sharing,
                         c->scale, c->zero, c->parameters);
    quant_carrier_fill_parameters(&carrier, 5);
    test_array_create(&x, device, from, shape->rank, shape->shape, c->x);
    quant_fill_dequantized(&x, &carrier, 6);
    tdm_force_variant(variant ? variant->name : NULL);
    const tdm_status status = tdm_tensor_quantize(device->stream, x.tensor, carrier.tensor);
    tdm_force_variant(NULL);
    const bool ran = status != TDM_UNSUPPORTED;
    if (ran) {
        TEST_OK(status);
        quant_carrier_check_codes(&carrier, &x, quant_full_range(c->codes));
        test_array_expect_unchanged(&carrier.scale);
    }
    test_array_destroy(&x);
    quant_carrier_destroy(&carrier);
    return ran;
}

/* Fails if the variant refused a case that it must run. */
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

TEST(every_quantize) {
    quant_every_variant(TDM_OP_QUANTIZE, 3, one_quantize);
}

/* ---- dequantize ---- */

static const tdm_dtype real_dtypes[] = {TDM_F32, TDM_F16, TDM_BF16};

static void check_dequantized(const quant_carrier *carrier, const test_array *y) {
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

/* These are floats around ties of both formats, NaNs whose fraction would overflow when rounded,
 * infinities, zeros and denormals. */
static const uint32_t special_bits[] = {0x7fffffff, 0xffffffff, 0x7f800000, 0xff800000, 0x7fc00000,
                                        0x7f7fffff, 0x7f7f8000, 0x7f7f7fff, 0x00008000, 0x00018000,
                                        0x80000001, 0x00000000, 0x3f808000, 0x3f818000, 0xbf818001};
static const uint32_t lower_halves[] = {0, 1, 0x7fff, 0x8000, 0x8001, 0xffff};

static float some_scale(test_random *random) {
    const uint64_t draw = test_random_bits(random);
    const uint32_t bits =
        draw % 8 == 0 ? special_bits[draw / 8 % (sizeof special_bits / sizeof *special_bits)]
                      : (uint32_t)(draw >> 48) << 16 | lower_halves[draw / 8 % 6];
    float scale;
    memcpy(&scale, &bits, sizeof scale);
    return scale;
}

/* Half of the values are 1, 2 or 4, so that products keep the last bits of the scale. */
static double some_code(tdm_dtype dtype, test_random *random) {
    const tdm_quant_range range = quant_full_range(dtype);
    const uint64_t draw = test_random_bits(random);
    return draw % 2 == 0 ? (double)(1 << draw / 2 % 3)
                         : (double)test_random_int(random, range.low, range.high);
}

static void fill_near_ties(quant_carrier *carrier, uint64_t seed) {
    test_random random = {seed};
    for (int64_t i = 0; i < test_array_count(&carrier->scale); i++)
        test_array_put(&carrier->scale, i, (double)some_scale(&random));
    for (int64_t i = 0; i < test_array_count(&carrier->codes); i++)
        test_array_put(&carrier->codes, i, some_code(carrier->codes.layout.dtype, &random));
    quant_carrier_send(carrier);
}

static bool dequantize_case(const test_device *device, const tdm_variant *variant,
                            const quant_case *c, tdm_dtype codes) {
    quant_carrier carrier;
    test_array y;
    const op_shape *const shape = c->shape;
    const tdm_dtype dequantized = c->codes;
    quant_carrier_create(&carrier, device, codes, shape->rank, shape->shape, c->x, c->sharing,
                         c->scale, codes == TDM_S32 ? TDM_DTYPE_NONE : c->zero, c->parameters);
    quant_carrier_fill_parameters(&carrier, 7);
    if (c->last) // the scales give products near ties
        fill_near_ties(&carrier, 9);
    else
        test_array_fill(&carrier.codes, TEST_DATA_ANY_BITS, 8);
    test_array_create(&y, device, dequantized, shape->rank, shape->shape, c->y);
    test_array_send(&y);
    tdm_force_variant(variant ? variant->name : NULL);
    const tdm_status status = tdm_tensor_dequantize(device->stream, carrier.tensor, y.tensor);
    tdm_force_variant(NULL);
    const bool ran = status != TDM_UNSUPPORTED;
    if (ran) {
        TEST_OK(status);
        test_array_fetch(&y);
        check_dequantized(&carrier, &y);
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

TEST(every_dequantize) {
    quant_every_variant(TDM_OP_DEQUANTIZE, 3, one_dequantize);
}

/* ---- forms with code of their own on CPU cores ---- */

/* CPU cores have code of their own for strips of columns, for rows and for short rows. The shapes
 * have remainders of vectors, of cache lines and of tiles of rows, or none. Other shapes have
 * groups of whole vectors, or many rows under one row of parameters. The last shape has more
 * dimensions than a kernel takes after each is cut into blocks. Blocks of s4 in a source may begin
 * and end inside bytes. */
static const struct {
    op_shape shape;
    quant_sharing sharing;
} forms[] = {
    {{2, {3, 1171}}, SHARE_ALL},
    {{2, {37, 208}}, SHARE_ROWS},
    {{2, {29, 64}}, SHARE_ROWS},
    {{2, {33, 176}}, SHARE_ROWS},
    {{2, {37, 530}}, SHARE_COLUMNS},
    {{2, {6, 8293}}, SHARE_COLUMNS},
    {{2, {5, 208}}, SHARE_COLUMNS},
    {{2, {39, 4200}}, SHARE_BANDS},
    {{2, {67, 96}}, SHARE_VECTORS},
    {{2, {3, 640}}, SHARE_VECTORS},
    {{2, {9, 330}}, SHARE_ODD},
    {{3, {2, 3, 66}}, SHARE_ODD},
    {{3, {2, 3, 8226}}, SHARE_FIRST_GROUPS},
    {{8, {4, 3, 4, 4, 1, 3, 4, 6}}, SHARE_TILES},
};

DEVICE_TEST(forms_of_their_own) {
    static const tdm_dtype zeros[] = {TDM_DTYPE_NONE, TDM_S32, TDM_S8};
    test_random random = {20261129};
    for (int i = 0; i < 9 * (int)(sizeof forms / sizeof *forms); i++) {
        const tdm_dtype codes = code_dtypes[i / 3 % 3], dequantized = real_dtypes[i % 3];
        quant_case c = {.shape = &forms[i / 9].shape,
                        .sharing = forms[i / 9].sharing,
                        .codes = codes,
                        .scale = real_dtypes[test_random_int(&random, 0, 2)],
                        .zero = zeros[test_random_int(&random, 0, 2)],
                        .x = (test_placement)test_random_int(&random, TEST_DENSE, TEST_PADDED),
                        .y = (test_placement)test_random_int(&random, TEST_DENSE, TEST_PADDED)};
        if (test_is_small() && i % 4 != 0)
            continue;
        const bool parts_bytes = c.sharing == SHARE_ODD && codes == TDM_S4;
        if (!parts_bytes && !quantize_case(device, NULL, &c, dequantized))
            test_case_fail("quantize: %s", tdm_last_detail());
        c.codes = dequantized;
        for (int past = 0; past < 4; past++) {
            c.last = past / 2;
            c.scale = c.last ? TDM_F32 : c.scale;
            test_pass_caches(device, past % 2);
            if (!dequantize_case(device, NULL, &c, codes))
                test_case_fail("dequantize: %s", tdm_last_detail());
            test_pass_caches(device, false);
        }
    }
}

#define DIMS(...) ((const int64_t[]){__VA_ARGS__})

/* If two work-items halved this row of s4, they would share a byte. Race checkers detect that. */
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

/* The scales of three columns end where an allocation ends, and a row is shorter than a vector.
 * Memory checkers detect a read beyond the last scale. */
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

/* Every row has its own scale in the description, but all scales are one number in memory. */
static void shared_places_are_refused(const test_device *device, const test_array *dequantized) {
    test_array codes, number;
    tdm_tensor *scale, *carrier;
    tdm_quantization quantization = TDM_QUANTIZATION_INIT;
    test_array_create(&codes, device, TDM_S8, 2, DIMS(4, 66), TEST_DENSE);
    test_array_create(&number, device, TDM_F32, 2, DIMS(1, 1), TEST_DENSE);
    TEST_OK(tdm_tensor_broadcast(number.tensor, 2, DIMS(4, 1), &scale));
    quantization.block[0] = 1;
    quantization.scale = scale;
    TEST_OK(tdm_tensor_quantized(codes.tensor, &quantization, &carrier));
    TEST_REFUSED(tdm_tensor_quantize_minmax(device->stream, dequantized->tensor, carrier),
                 TDM_BAD_ARGUMENT, "quantize_minmax: elements of target's scale overlap in memory");
    tdm_tensor_destroy(carrier);
    tdm_tensor_destroy(scale);
    test_array_destroy(&number);
    test_array_destroy(&codes);
}

enum {
    CODES,
    SUMS,
    UNSIGNED,
    TILES,
    WRONG,
    SPLIT,
    CARRIERS
};

static const struct {
    tdm_dtype codes;
    quant_sharing sharing;
    tdm_dtype zero;
} carriers[CARRIERS] = {
    [CODES] = {TDM_S8, SHARE_ROWS, TDM_S8},
    [SUMS] = {TDM_S32, SHARE_ROWS, TDM_S32},
    [UNSIGNED] = {TDM_U8, SHARE_ROWS, TDM_DTYPE_NONE},
    [TILES] = {TDM_S8, SHARE_TILES, TDM_DTYPE_NONE},
    [WRONG] = {TDM_S8, SHARE_ROWS, TDM_U8},
    [SPLIT] = {TDM_S4, SHARE_ODD, TDM_DTYPE_NONE},
};

DEVICE_TEST(misuse_is_refused) {
    quant_carrier made[CARRIERS];
    test_array f, other, integers;
    for (int i = 0; i < CARRIERS; i++)
        quant_carrier_create(&made[i], device, carriers[i].codes, 2, DIMS(4, 66), TEST_DENSE,
                             carriers[i].sharing, TDM_F32, carriers[i].zero, TEST_DENSE);
    test_array_create(&f, device, TDM_F32, 2, DIMS(4, 66), TEST_DENSE);
    test_array_create(&other, device, TDM_F32, 2, DIMS(66, 4), TEST_DENSE);
    test_array_create(&integers, device, TDM_S32, 2, DIMS(4, 66), TEST_DENSE);
    quant_carrier_send(&made[CODES]);
    test_array_send(&f);
    tdm_stream *const s = device->stream;
    tdm_tensor *const x = f.tensor, *const q = made[CODES].tensor, *const sums = made[SUMS].tensor;
    const struct {
        tdm_status (*call)(tdm_stream *stream, const tdm_tensor *source, tdm_tensor *target);
        tdm_tensor *source, *target;
        tdm_status status;
        const char *part;
    } rows[] = {
        {tdm_tensor_quantize, x, made[CODES].codes.tensor, TDM_BAD_ARGUMENT,
         "no quantization parameters"},
        {tdm_tensor_quantize, other.tensor, q, TDM_BAD_SHAPE, "[66, 4] but target [4, 66]"},
        {tdm_tensor_quantize, integers.tensor, q, TDM_UNSUPPORTED, "quantize: source is s32"},
        {tdm_tensor_quantize, x, sums, TDM_UNSUPPORTED, "quantize: target is s32"},
        {tdm_tensor_quantize, x, NULL, TDM_BAD_ARGUMENT, "quantize: target is NULL"},
        {tdm_tensor_quantize, x, made[SPLIT].tensor, TDM_UNSUPPORTED, "split the two s4 elements"},
        {tdm_tensor_quantize_minmax, x, made[SPLIT].tensor, TDM_UNSUPPORTED, "blocks of 33"},
        {tdm_tensor_quantize_minmax, x, made[UNSIGNED].tensor, TDM_UNSUPPORTED, "zero points"},
        {tdm_tensor_quantize_minmax, x, made[TILES].tensor, TDM_UNSUPPORTED, "2 dimensions of"},
        {tdm_tensor_quantize_minmax, x, made[WRONG].tensor, TDM_UNSUPPORTED, "cannot hold every"},
        {tdm_tensor_dequantize, NULL, x, TDM_BAD_ARGUMENT, "dequantize: source is NULL"},
        {tdm_tensor_dequantize, sums, x, TDM_UNSUPPORTED, "must have scales only"},
        {tdm_tensor_dequantize, q, integers.tensor, TDM_UNSUPPORTED, "dequantize: target is s32"},
        {tdm_tensor_dequantize, q, made[CODES].scale.tensor, TDM_BAD_SHAPE, "source has"},
        {tdm_tensor_requantize, q, q, TDM_BAD_ARGUMENT, "requantize: the output target overlaps"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        TEST_REFUSED(rows[i].call(s, rows[i].source, rows[i].target), rows[i].status, rows[i].part);
    TEST_REFUSED(tdm_tensor_quantize(NULL, x, q), TDM_BAD_ARGUMENT, "quantize: stream is NULL");
    TEST_REFUSED(tdm_tensor_fake_quantize(s, x, q, x, integers.tensor), TDM_BAD_DTYPE,
                 "fake_quantize: mask is s32, must be u8");
    TEST_REFUSED(tdm_tensor_fake_quantize(s, x, NULL, x, NULL), TDM_BAD_ARGUMENT, "like is NULL");
    shared_places_are_refused(device, &f);
    test_array_expect_unchanged(&made[CODES].codes);
    test_array_expect_unchanged(&f);
    for (int i = 0; i < CARRIERS; i++)
        quant_carrier_destroy(&made[i]);
    test_array_destroy(&f);
    test_array_destroy(&other);
    test_array_destroy(&integers);
}

TEST_MAIN(test_devices_setup, test_devices_teardown)
