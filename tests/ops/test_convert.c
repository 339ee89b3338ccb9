/* Tests conversion between dtypes: every variant to every target on every device, bit for bit.
 * ctest: device timeout=240 */
#include <math.h>
#include <string.h>

#include "api/device/core.h"
#include "common/op_elementwise.h"
#include "quant/number_formats.h"
#include "tests/support/devices/device_cases.h"
#include "tests/support/devices/variant_cases.h"
#include "tests/support/oracle.h"
#include "tests/support/test_array.h"
#include "tests/support/test_case.h"

#define DIMS(...) ((const int64_t[]){__VA_ARGS__})

static const tdm_dtype dtypes[] = {TDM_F32, TDM_F16, TDM_BF16, TDM_S32, TDM_S8,
                                   TDM_U8,  TDM_S4,  TDM_S64,  TDM_BOOL};

enum {
    DTYPES = sizeof dtypes / sizeof dtypes[0]
};

static bool is_long(tdm_dtype dtype) {
    return dtype == TDM_S64 || dtype == TDM_BOOL;
}

/* Returns true if a kernel converts between the dtypes, and if it is one of CONVERT_S64. */
static bool is_pair(tdm_dtype from, tdm_dtype to) {
    const bool is_packed = from == TDM_S4 || to == TDM_S4;
    return from != to && !(is_packed && (is_long(from) || is_long(to)));
}
static bool is_long_pair(tdm_dtype from, tdm_dtype to) {
    return from == TDM_S64 || is_long(to);
}

/* Returns the double that rounds to every narrower format as the integer does. It is rounded to
 * odd, so that no bit is lost without a trace. */
static double double_of_long(int64_t v) {
    const int64_t whole = v >> 10, limit = INT64_C(1) << 53;
    if (v > -limit && v < limit)
        return (double)v;
    return (double)(whole | ((v & 1023) != 0)) * 1024;
}

static int64_t long_at(const void *bits) {
    int64_t v;
    memcpy(&v, bits, sizeof v);
    return v;
}

static double source_at(const test_array *source, int64_t i) {
    return source->layout.dtype == TDM_S64 ? double_of_long(long_at(test_array_bits(source, i)))
                                           : test_array_get(source, i);
}

/* Returns true if the device may give this result. A NaN may become any NaN, and a number that the
 * device may flush may become zero. */
static bool is_legal(tdm_dtype from, tdm_dtype to, double x, double expected, double actual) {
    if (isnan(expected))
        return isnan(actual);
    if (actual == expected)
        return true;
    return actual == 0 && (oracle_may_flush(from, x) || oracle_may_flush(to, expected));
}

static double converted(tdm_dtype to, double x) {
    unsigned char bytes[8];
    if (to == TDM_S4)
        return (double)tdm_int_from_f64(x, -8, 7);
    tdm_number_set(to, bytes, 0, x);
    return tdm_number_get(to, bytes, 0);
}

/* Compares an s64 exactly. A double may be the nearest one to several of them. */
static bool is_exact(const test_array *target, int64_t i, double x) {
    int64_t expected;
    tdm_number_set(TDM_S64, &expected, 0, x);
    return long_at(test_array_fetched_bits(target, i)) == expected;
}

static void check(const test_array *source, const test_array *target) {
    const tdm_dtype to = target->layout.dtype;
    for (int64_t i = 0; i < test_array_count(target); i++) {
        const double x = source_at(source, i);
        const double expected = converted(to, x);
        const double actual = test_array_fetched(target, i);
        if (!is_legal(source->layout.dtype, to, x, expected, actual) ||
            (to == TDM_S64 && !is_exact(target, i, x)))
            test_case_fail("element %lld: %.9g (%a) became %.9g, not %.9g", (long long)i, x, x,
                           actual, expected);
    }
}

static bool must_accept(const tdm_variant *variant, const op_shape *shape, test_placement x,
                        test_placement y) {
    return variant->parameters[1] == 1 || !(test_has_gaps(shape->rank, shape->shape, x) ||
                                            test_has_gaps(shape->rank, shape->shape, y));
}

static void run_case(const test_device *device, const tdm_variant *variant, tdm_dtype from,
                     tdm_dtype to, const op_shape *shape, test_data_kind kind, test_placement x,
                     test_placement y) {
    test_array source, target;
    test_array_create(&source, device, from, shape->rank, shape->shape, x);
    test_array_create(&target, device, to, shape->rank, shape->shape, y);
    test_array_fill(&source, kind, 23);
    test_array_send(&target);
    tdm_force_variant(variant->name);
    test_pass_caches(device, kind == TEST_DATA_ANY_BITS);
    const tdm_status status = tdm_tensor_convert(device->stream, source.tensor, target.tensor);
    test_pass_caches(device, false);
    tdm_force_variant(NULL);
    if (status != TDM_UNSUPPORTED || must_accept(variant, shape, x, y)) {
        TEST_OK(status);
        test_array_fetch(&target);
        check(&source, &target);
        if (test_array_count(&target) > 0)
            test_case_end();
    }
    test_array_destroy(&source);
    test_array_destroy(&target);
}

enum {
    F_TO,
    F_SHAPE,
    F_DATA,
    F_X,
    F_Y,
    F_FROM_BOOL, /* kernels of u8 read bool too */
    FACTORS
};

static void one_case(const test_device *device, const tdm_variant *variant, const int row[]) {
    static const test_data_kind kinds[] = {TEST_DATA_TIES, TEST_DATA_ANY_BITS, TEST_DATA_WIDE,
                                           TEST_DATA_UNIT};
    const tdm_dtype stored = (tdm_dtype)variant->parameters[0], to = dtypes[row[F_TO]];
    const tdm_dtype from = stored == TDM_U8 && row[F_FROM_BOOL] ? TDM_BOOL : stored;
    const op_shape *const shape = &op_elementwise_shapes[row[F_SHAPE]];
    const test_placement x = (test_placement)row[F_X];
    const test_placement y = (test_placement)row[F_Y];
    char text[128];
    if (is_pair(from, to) && is_long_pair(from, to) == (variant->op == TDM_OP_CONVERT_S64) &&
        test_case_begin(device, variant->name, "%s to %s %s data %d x %s y %s",
                        tdm_dtype_name(from), tdm_dtype_name(to),
                        test_shape_text(shape->rank, shape->shape, text), row[F_DATA],
                        test_placement_name(x), test_placement_name(y)))
        run_case(device, variant, from, to, shape, kinds[row[F_DATA]], x, y);
}

TEST(every_variant) {
    const int levels[FACTORS] = {DTYPES,
                                 test_is_small() ? OP_ELEMENTWISE_SMALL_SHAPES
                                                 : OP_ELEMENTWISE_SHAPES,
                                 4,
                                 TEST_PLACEMENTS,
                                 TEST_PLACEMENTS,
                                 2};
    test_every_variant(TDM_OP_CONVERT, FACTORS, levels, one_case);
    test_every_variant(TDM_OP_CONVERT_S64, FACTORS, levels, one_case);
}

/* ---- every pattern, and the values around every rounding ---- */

static void convert_array(const test_device *device, test_array *source, tdm_dtype to) {
    test_array target;
    test_array_create(&target, device, to, 1, source->layout.shape, TEST_DENSE);
    test_array_send(source);
    test_array_send(&target);
    TEST_OK(tdm_tensor_convert(device->stream, source->tensor, target.tensor));
    test_array_fetch(&target);
    check(source, &target);
    test_array_destroy(&target);
}

/* Converts all 65,536 patterns of the two-byte floats to all other dtypes. */
DEVICE_TEST(every_pattern_of_the_narrow_floats) {
    for (int n = 0; n < 2; n++) {
        test_array source;
        test_array_create(&source, device, n == 0 ? TDM_F16 : TDM_BF16, 1, DIMS(65536), TEST_DENSE);
        uint16_t *const patterns = (uint16_t *)(uintptr_t)test_array_bits(&source, 0);
        for (uint32_t i = 0; i < 65536; i++)
            patterns[i] = (uint16_t)i;
        for (int t = 0; t < DTYPES; t++)
            if (is_pair(source.layout.dtype, dtypes[t]))
                convert_array(device, &source, dtypes[t]);
        test_array_destroy(&source);
    }
}

static double narrow_number(tdm_dtype dtype, uint32_t bits, uint32_t infinity) {
    if (bits == infinity) /* the value that the next finite number would have */
        return dtype == TDM_F16 ? 0x1p16 : 0x1p128;
    return (double)(dtype == TDM_F16 ? tdm_f32_from_f16((uint16_t)bits)
                                     : tdm_f32_from_bf16((uint16_t)bits));
}

/* Tests the midpoint of every interval between neighbours of a two-byte float, and the f32 numbers
 * next to it. */
DEVICE_TEST(every_rounding_to_the_narrow_floats) {
    for (int n = 0; n < 2; n++) {
        const tdm_dtype to = n == 0 ? TDM_F16 : TDM_BF16;
        const uint32_t infinity = n == 0 ? 0x7c00 : 0x7f80;
        test_array source;
        test_array_create(&source, device, TDM_F32, 1, DIMS(6 * infinity), TEST_DENSE);
        for (uint32_t bits = 0; bits < infinity; bits++) {
            const float middle = (float)((narrow_number(to, bits, infinity) +
                                          narrow_number(to, bits + 1, infinity)) /
                                         2);
            const float around[] = {nextafterf(middle, 0.0f), middle,
                                    nextafterf(middle, HUGE_VALF)};
            for (int k = 0; k < 6; k++)
                test_array_put(&source, 6 * bits + k, (double)around[k / 2] * (k % 2 ? -1 : 1));
        }
        convert_array(device, &source, to);
        test_array_destroy(&source);
    }
}

/* Three neighbouring integers lie around a tie. If the first were converted through f32, it would
 * be rounded to the tie, and then in the wrong direction. */
DEVICE_TEST(integers_round_once) {
    test_array source;
    test_array_create(&source, device, TDM_S32, 1, DIMS(24 * 48), TEST_DENSE);
    int64_t count = 0;
    for (int bit = 8; bit <= 30; bit++) {
        for (int k = 0; k < 8; k++) {
            const int64_t tie = (INT64_C(1) << bit) + (2 * k + 1) * (INT64_C(1) << (bit - 8));
            for (int64_t away = -1; away <= 1; away++) {
                test_array_put(&source, count++, (double)(tie + away));
                test_array_put(&source, count++, (double)-(tie + away));
            }
        }
    }
    while (count < test_array_count(&source)) {
        test_array_put(&source, count, (double)(INT32_MAX - count));
        count++;
    }
    convert_array(device, &source, TDM_BF16);
    convert_array(device, &source, TDM_F16);
    convert_array(device, &source, TDM_F32);
    test_array_destroy(&source);
}

/* Long integers around every power of two and around the ties of each float, of both signs. */
DEVICE_TEST(long_integers_round_once) {
    static const int64_t lost[] = {0, 1, 2, 3};
    static const int kept[] = {8, 11, 24};
    test_array source;
    int64_t count = 0;
    test_array_create(&source, device, TDM_S64, 1, DIMS(64 * 3 * 4 * 5 * 2), TEST_DENSE);
    for (int bit = 0; bit < 64; bit++)
        for (int f = 0; f < 3; f++)
            for (int k = 0; k < 4; k++)
                for (int64_t away = -2; away <= 2; away++) {
                    const int half = bit - kept[f] > 0 ? bit - kept[f] : 0;
                    const uint64_t value =
                        (UINT64_C(1) << bit) + ((uint64_t)lost[k] << half) + (uint64_t)away;
                    for (int sign = 0; sign < 2; sign++) {
                        const int64_t v = (int64_t)(sign ? UINT64_C(0) - value : value);
                        memcpy((void *)(uintptr_t)test_array_bits(&source, count++), &v, sizeof v);
                    }
                }
    for (int t = 0; t < DTYPES; t++)
        if (is_pair(TDM_S64, dtypes[t]))
            convert_array(device, &source, dtypes[t]);
    test_array_destroy(&source);
}

DEVICE_TEST(the_edges_of_the_integers) {
    static const double values[] = {
        0.5,           1.5,
        2.5,           -0.5,
        -1.5,          126.5,
        127.5,         127.49999,
        128.5,         -128.5,
        -127.5,        -129.0,
        254.5,         255.5,
        256.0,         1e9,
        2147483520.0,  2147483648.0,
        4294967296.0,  -2147483648.0,
        -2147483904.0, -1e30,
        1e30,          HUGE_VAL,
        -HUGE_VAL,     NAN,
        16777217.0,    8388609.5,
        4194304.25,    4194304.5,
        4194305.5,     -0.0,
        0x1p62,        -0x1p62,
        0x1p63,        -0x1p63,
        0x1.fffffep62, -0x1.000002p63,
        0x1p64,        1e-30,
    };
    const int64_t count = sizeof values / sizeof values[0];
    test_array source;
    test_array_create(&source, device, TDM_F32, 1, DIMS(count), TEST_DENSE);
    for (int64_t i = 0; i < count; i++)
        test_array_put(&source, i, values[i]);
    convert_array(device, &source, TDM_S32);
    convert_array(device, &source, TDM_S8);
    convert_array(device, &source, TDM_U8);
    convert_array(device, &source, TDM_S64);
    convert_array(device, &source, TDM_BOOL);
    test_array_destroy(&source);
}

/* ---- between s4 and bytes ---- */

static void from_place(const test_device *device, tdm_dtype from, tdm_dtype to, int64_t count,
                       int64_t place) {
    test_array source, target;
    tdm_layout layout;
    TEST_OK(tdm_layout_contiguous(from, 1, &count, &layout));
    test_array_create_layout(&source, device, &layout, 34);
    TEST_OK(tdm_layout_contiguous(to, 1, &count, &layout));
    test_array_create_layout(&target, device, &layout, place);
    test_array_fill(&source, TEST_DATA_ANY_BITS, 78);
    test_array_send(&target);
    test_pass_caches(device, place % 4 == 0);
    TEST_OK(tdm_tensor_convert(device->stream, source.tensor, target.tensor));
    test_pass_caches(device, false);
    test_array_fetch(&target);
    check(&source, &target);
    test_array_destroy(&source);
    test_array_destroy(&target);
}

/* CPU cores process 64 elements at a time. The counts end inside such a block and beyond it. The
 * targets start at all offsets in a cache line, with cached and with non-temporal stores. */
DEVICE_TEST(bytes_to_s4_and_back_at_every_place) {
    const int64_t step = test_is_small() ? 22 : 2;
    for (int64_t place = 0; place < 130; place += step) {
        const int64_t count = 333 + place % 66;
        from_place(device, TDM_S8, TDM_S4, count, place);
        from_place(device, TDM_U8, TDM_S4, count, place);
        from_place(device, TDM_S4, TDM_S8, count, place);
        from_place(device, TDM_S4, TDM_U8, count, place);
    }
}

/* ---- misuse ---- */

DEVICE_TEST(misuse_is_refused) {
    test_array f, h, wide, packed, flags;
    test_array_create(&f, device, TDM_F32, 2, DIMS(4, 6), TEST_DENSE);
    test_array_create(&h, device, TDM_F16, 2, DIMS(6, 4), TEST_DENSE);
    test_array_create(&wide, device, TDM_F64, 2, DIMS(4, 6), TEST_DENSE);
    test_array_create(&packed, device, TDM_S4, 2, DIMS(4, 6), TEST_DENSE);
    test_array_create(&flags, device, TDM_BOOL, 2, DIMS(4, 6), TEST_DENSE);
    test_array_send(&f);
    test_array_send(&h);
    test_array_send(&wide);
    test_array_send(&packed);
    test_array_send(&flags);
    tdm_tensor *repeated, *bytes;
    tdm_layout layout;
    TEST_OK(tdm_tensor_view(f.tensor, 2, DIMS(4, 6), DIMS(0, 1), 0, &repeated));
    TEST_OK(tdm_layout_contiguous(TDM_U8, 2, DIMS(4, 6), &layout));
    TEST_OK(tdm_tensor_on_buffer(f.buffer, f.offset * 4, &layout, &bytes));
    tdm_stream *const s = device->stream;
    TEST_REFUSED(tdm_tensor_convert(s, f.tensor, h.tensor), TDM_BAD_SHAPE, "but target [6, 4]");
    TEST_REFUSED(tdm_tensor_convert(s, wide.tensor, f.tensor), TDM_UNSUPPORTED, "source is f64");
    TEST_REFUSED(tdm_tensor_convert(s, f.tensor, wide.tensor), TDM_UNSUPPORTED, "target is f64");
    TEST_REFUSED(tdm_tensor_convert(s, packed.tensor, flags.tensor), TDM_UNSUPPORTED,
                 "no kernel from s4 to bool");
    TEST_REFUSED(tdm_tensor_convert(s, flags.tensor, packed.tensor), TDM_UNSUPPORTED,
                 "no kernel from bool to s4");
    TEST_REFUSED(tdm_tensor_convert(s, f.tensor, bytes), TDM_BAD_ARGUMENT, "overlaps source");
    TEST_REFUSED(tdm_tensor_convert(s, f.tensor, repeated), TDM_BAD_ARGUMENT, "overlap in memory");
    TEST_REFUSED(tdm_tensor_convert(s, f.tensor, NULL), TDM_BAD_ARGUMENT, "target is NULL");
    TEST_REFUSED(tdm_tensor_convert(s, NULL, f.tensor), TDM_BAD_ARGUMENT, "source is NULL");
    TEST_REFUSED(tdm_tensor_convert(NULL, f.tensor, f.tensor), TDM_BAD_ARGUMENT, "stream is NULL");
    test_array_expect_unchanged(&f);
    test_array_expect_unchanged(&h);
    test_array_expect_unchanged(&wide);
    test_array_expect_unchanged(&packed);
    test_array_expect_unchanged(&flags);
    tdm_tensor_destroy(repeated);
    tdm_tensor_destroy(bytes);
    test_array_destroy(&f);
    test_array_destroy(&h);
    test_array_destroy(&wide);
    test_array_destroy(&packed);
    test_array_destroy(&flags);
}

TEST_MAIN(test_devices_setup, test_devices_teardown)
