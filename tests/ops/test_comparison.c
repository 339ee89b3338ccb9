/* Tests comparisons, selection, and "and" and "or" of booleans, on every device.
 * ctest: device timeout=240 */
#include <math.h>
#include <string.h>

#include "api/device/core.h"
#include "common/op_elementwise.h"
#include "kernels/dialect/op_codes.h"
#include "tests/support/devices/device_cases.h"
#include "tests/support/devices/variant_cases.h"
#include "tests/support/oracle.h"
#include "tests/support/test_array.h"
#include "tests/support/test_case.h"

#define DIMS(...) ((const int64_t[]){__VA_ARGS__})

/* Kernels use the values of the public enum. */
_Static_assert(TDM_CODE_EQUAL == TDM_EQUAL && TDM_CODE_NOT_EQUAL == TDM_NOT_EQUAL &&
                   TDM_CODE_LESS == TDM_LESS && TDM_CODE_LESS_EQUAL == TDM_LESS_EQUAL &&
                   TDM_CODE_GREATER == TDM_GREATER && TDM_CODE_GREATER_EQUAL == TDM_GREATER_EQUAL,
               "comparison codes");

enum {
    COMPARISONS = TDM_GREATER_EQUAL
};

/* This is how an input's shape differs from the output's. */
typedef enum broadcast {
    FULL,
    ONE_ROW,    /* the first dimension is 1 */
    ONE_COLUMN, /* the last dimension is 1 */
    SCALAR,     /* rank 0 */
    BROADCASTS
} broadcast;

static op_shape shape_of_input(const op_shape *output, broadcast kind) {
    op_shape shape = *output;
    if (kind == SCALAR || shape.rank == 0)
        return (op_shape){0};
    if (kind == ONE_ROW)
        shape.shape[0] = 1;
    if (kind == ONE_COLUMN)
        shape.shape[shape.rank - 1] = 1;
    return shape;
}

/* Returns the index of the input element that output element `index` uses. */
static int64_t index_under(const test_array *input, const test_array *output, int64_t index) {
    const tdm_layout *const in = &input->layout, *const out = &output->layout;
    int64_t place = 0, step = 1;
    for (int d = out->rank - 1, own = in->rank - 1; own >= 0; d--, own--) {
        if (in->shape[own] > 1)
            place += index % out->shape[d] * step;
        index /= out->shape[d];
        step *= in->shape[own];
    }
    return place;
}

static void create_input(test_array *array, const test_device *device, tdm_dtype dtype,
                         const op_shape *output, broadcast kind, test_placement placement) {
    const op_shape shape = shape_of_input(output, kind);
    test_array_create(array, device, dtype, shape.rank, shape.shape, placement);
}

/* ---- comparisons ---- */

static bool holds_of_doubles(tdm_comparison op, double a, double b) {
    switch (op) {
    case TDM_EQUAL:
        return a == b;
    case TDM_NOT_EQUAL:
        return !(a == b);
    case TDM_LESS:
        return a < b;
    case TDM_LESS_EQUAL:
        return a <= b;
    case TDM_GREATER:
        return a > b;
    case TDM_GREATER_EQUAL:
        return a >= b;
    }
    return false;
}

/* An s64 may have more bits than a double, so the halves are compared, and the upper ones first. */
static bool holds(tdm_comparison op, const test_array *a, int64_t i, const test_array *b,
                  int64_t j) {
    if (a->layout.dtype != TDM_S64)
        return holds_of_doubles(op, test_array_get(a, i), test_array_get(b, j));
    int64_t x, y;
    memcpy(&x, test_array_bits(a, i), sizeof x);
    memcpy(&y, test_array_bits(b, j), sizeof y);
    const double upper_x = (double)(x >> 32), upper_y = (double)(y >> 32);
    return upper_x == upper_y ? holds_of_doubles(op, (double)(uint32_t)x, (double)(uint32_t)y)
                              : holds_of_doubles(op, upper_x, upper_y);
}

/* Some elements of b become equal to those of a, some become NaN. Numbers that a device may read
 * as zero become zero. */
static void prepare(test_array *a, test_array *b, uint64_t seed) {
    test_random random = {seed};
    const int64_t count_a = test_array_count(a), count_b = test_array_count(b);
    const tdm_dtype dtype = a->layout.dtype;
    const size_t bytes = (size_t)tdm_dtype_info(dtype)->unit_bytes;
    for (int n = 0; n < 2; n++) {
        test_array *const array = n == 0 ? a : b;
        for (int64_t i = 0; i < test_array_count(array); i++)
            if (oracle_may_flush(dtype, test_array_get(array, i)))
                test_array_put(array, i, test_random_int(&random, 0, 1) ? 0.0 : -0.0);
            else if (dtype == TDM_F32 && test_random_int(&random, 0, 9) == 0)
                test_array_put(array, i, (double)NAN);
    }
    for (int64_t i = 0; count_a > 0 && i < count_b; i++)
        if (test_random_int(&random, 0, 2) == 0)
            memcpy((void *)(uintptr_t)test_array_bits(b, i), test_array_bits(a, i % count_a),
                   bytes);
    test_array_send(a);
    test_array_send(b);
}

static void check_comparison(tdm_comparison op, const test_array *a, const test_array *b,
                             const test_array *y) {
    for (int64_t i = 0; i < test_array_count(y); i++) {
        const bool expected = holds(op, a, index_under(a, y, i), b, index_under(b, y, i));
        const unsigned char actual = *(const unsigned char *)test_array_fetched_bits(y, i);
        if (actual != (expected ? 1 : 0))
            test_case_fail("element %lld is %d, not %d", (long long)i, actual, expected);
    }
}

enum {
    F_OP,
    F_SHAPE,
    F_Y,
    F_IN_A,
    F_CAST_A,
    F_IN_B,
    F_CAST_B,
    F_IS_BOOL, /* kernels of u8 compare bool too */
    FACTORS
};

static void compare_case(const test_device *device, const tdm_variant *variant, const int row[]) {
    const op_shape *const shape = &op_elementwise_shapes[row[F_SHAPE]];
    const tdm_dtype stored = (tdm_dtype)variant->parameters[0];
    const tdm_dtype dtype = stored == TDM_U8 && row[F_IS_BOOL] ? TDM_BOOL : stored;
    const tdm_comparison op = (tdm_comparison)(row[F_OP] + 1);
    char text[128];
    if (!test_case_begin(device, variant->name, "%s %d y%s %s a %d %s b %d %s",
                         tdm_dtype_name(dtype), (int)op,
                         test_shape_text(shape->rank, shape->shape, text),
                         test_placement_name((test_placement)row[F_Y]), row[F_CAST_A],
                         test_placement_name((test_placement)row[F_IN_A]), row[F_CAST_B],
                         test_placement_name((test_placement)row[F_IN_B])))
        return;
    test_array a, b, y;
    create_input(&a, device, dtype, shape, (broadcast)row[F_CAST_A], (test_placement)row[F_IN_A]);
    create_input(&b, device, dtype, shape, (broadcast)row[F_CAST_B], (test_placement)row[F_IN_B]);
    test_array_create(&y, device, TDM_BOOL, shape->rank, shape->shape, (test_placement)row[F_Y]);
    test_array_fill(&a, TEST_DATA_ANY_BITS, 31);
    test_array_fill(&b, TEST_DATA_ANY_BITS, 32);
    prepare(&a, &b, 33);
    test_array_send(&y);
    tdm_force_variant(variant->name);
    TEST_OK(tdm_compare(device->stream, op, a.tensor, b.tensor, y.tensor));
    tdm_force_variant(NULL);
    test_array_fetch(&y);
    check_comparison(op, &a, &b, &y);
    if (test_array_count(&y) > 0)
        test_case_end();
    test_array_destroy(&a);
    test_array_destroy(&b);
    test_array_destroy(&y);
}

TEST(comparisons) {
    const int shapes = test_is_small() ? OP_ELEMENTWISE_SMALL_SHAPES : OP_ELEMENTWISE_SHAPES;
    const int levels[FACTORS] = {COMPARISONS, shapes,          TEST_PLACEMENTS, TEST_PLACEMENTS,
                                 BROADCASTS,  TEST_PLACEMENTS, BROADCASTS,      2};
    test_every_variant(TDM_OP_COMPARE, FACTORS, levels, compare_case);
}

/* Numbers that are close together, that differ in sign alone, or that are not ordered. */
DEVICE_TEST(comparisons_of_special_numbers) {
    static const double numbers[] = {0.0, -0.0, 1.0, 1.0 + 0x1p-23, -1.0, HUGE_VAL, -HUGE_VAL, NAN};
    enum {
        COUNT = sizeof numbers / sizeof numbers[0]
    };
    test_array a, b, y;
    test_array_create(&a, device, TDM_F32, 2, DIMS(COUNT, 1), TEST_DENSE);
    test_array_create(&b, device, TDM_F32, 1, DIMS(COUNT), TEST_DENSE);
    test_array_create(&y, device, TDM_BOOL, 2, DIMS(COUNT, COUNT), TEST_DENSE);
    for (int i = 0; i < COUNT; i++) {
        test_array_put(&a, i, numbers[i]);
        test_array_put(&b, i, numbers[i]);
    }
    test_array_send(&a);
    test_array_send(&b);
    test_array_send(&y);
    for (int op = 1; op <= COMPARISONS; op++) {
        TEST_OK(tdm_compare(device->stream, (tdm_comparison)op, a.tensor, b.tensor, y.tensor));
        test_array_fetch(&y);
        check_comparison((tdm_comparison)op, &a, &b, &y);
    }
    test_array_destroy(&a);
    test_array_destroy(&b);
    test_array_destroy(&y);
}

/* ---- selection ---- */

enum {
    W_SHAPE,
    W_Y,
    W_CONDITION,
    W_CAST_CONDITION,
    W_A,
    W_CAST_A,
    W_B,
    W_CAST_B,
    W_DTYPE,
    W_FACTORS
};

/* Returns one of two dtypes whose elements have that many bytes. */
static tdm_dtype dtype_of_bytes(int bytes, int which) {
    static const tdm_dtype dtypes[4][2] = {
        {TDM_BOOL, TDM_S8}, {TDM_F16, TDM_BF16}, {TDM_F32, TDM_S32}, {TDM_S64, TDM_F64}};
    return dtypes[bytes == 1 ? 0 : bytes == 2 ? 1 : bytes == 4 ? 2 : 3][which];
}

static void check_selection(const test_array in[3], const test_array *y) {
    const size_t bytes = (size_t)tdm_dtype_info(y->layout.dtype)->unit_bytes;
    for (int64_t i = 0; i < test_array_count(y); i++) {
        const bool condition = test_array_get(&in[0], index_under(&in[0], y, i)) != 0;
        const test_array *const from = &in[condition ? 1 : 2];
        if (memcmp(test_array_fetched_bits(y, i), test_array_bits(from, index_under(from, y, i)),
                   bytes) != 0)
            test_case_fail("element %lld is not that of %s", (long long)i, condition ? "a" : "b");
    }
}

static void where_case(const test_device *device, const tdm_variant *variant, const int row[]) {
    const op_shape *const shape = &op_elementwise_shapes[row[W_SHAPE]];
    const tdm_dtype dtype = dtype_of_bytes(variant->parameters[0], row[W_DTYPE]);
    char text[128];
    if (!test_case_begin(device, variant->name, "%s y%s %d condition %d %d a %d %d b %d %d",
                         tdm_dtype_name(dtype), test_shape_text(shape->rank, shape->shape, text),
                         row[W_Y], row[W_CONDITION], row[W_CAST_CONDITION], row[W_A], row[W_CAST_A],
                         row[W_B], row[W_CAST_B]))
        return;
    test_array in[3], y;
    for (int n = 0; n < 3; n++) {
        create_input(&in[n], device, n == 0 ? TDM_BOOL : dtype, shape,
                     (broadcast)row[W_CAST_CONDITION + 2 * n],
                     (test_placement)row[W_CONDITION + 2 * n]);
        test_array_fill(&in[n], TEST_DATA_ANY_BITS, 41 + (uint64_t)n);
    }
    test_array_create(&y, device, dtype, shape->rank, shape->shape, (test_placement)row[W_Y]);
    test_array_send(&y);
    tdm_force_variant(variant->name);
    TEST_OK(tdm_where(device->stream, in[0].tensor, in[1].tensor, in[2].tensor, y.tensor));
    tdm_force_variant(NULL);
    test_array_fetch(&y);
    check_selection(in, &y);
    if (test_array_count(&y) > 0)
        test_case_end();
    for (int n = 0; n < 3; n++)
        test_array_destroy(&in[n]);
    test_array_destroy(&y);
}

TEST(selection) {
    const int shapes = test_is_small() ? OP_ELEMENTWISE_SMALL_SHAPES : OP_ELEMENTWISE_SHAPES;
    const int levels[W_FACTORS] = {shapes,          TEST_PLACEMENTS, TEST_PLACEMENTS,
                                   BROADCASTS,      TEST_PLACEMENTS, BROADCASTS,
                                   TEST_PLACEMENTS, BROADCASTS,      2};
    test_every_variant(TDM_OP_WHERE, W_FACTORS, levels, where_case);
}

/* ---- booleans, in place, misuse ---- */

/* All results are written over an input: the and, the or, a comparison and a selection. */
DEVICE_TEST(booleans_in_place) {
    enum {
        COUNT = 67
    };
    for (int k = 0; k < 4; k++) {
        test_array a, b;
        test_array_create(&a, device, TDM_BOOL, 1, DIMS(COUNT), TEST_OFFSET);
        test_array_create(&b, device, TDM_BOOL, 1, DIMS(COUNT), TEST_DENSE);
        test_array_fill(&a, TEST_DATA_UNIT, 51);
        test_array_fill(&b, TEST_DATA_UNIT, 52);
        tdm_stream *const s = device->stream;
        TEST_OK(k < 2 ? tdm_binary_op(s, k == 0 ? TDM_MIN : TDM_MAX, a.tensor, b.tensor, a.tensor)
                : k == 2 ? tdm_compare(s, TDM_NOT_EQUAL, b.tensor, a.tensor, a.tensor)
                         : tdm_where(s, a.tensor, b.tensor, a.tensor, a.tensor));
        test_array_fetch(&a);
        for (int64_t i = 0; i < COUNT; i++) {
            const bool x = test_array_get(&a, i) != 0, z = test_array_get(&b, i) != 0;
            const bool expected = k == 0 ? x && z : k == 1 ? x || z : k == 2 ? x != z : x && z;
            assert_true(test_array_fetched(&a, i) == (expected ? 1.0 : 0.0));
        }
        test_array_destroy(&a);
        test_array_destroy(&b);
    }
}

DEVICE_TEST(misuse_of_comparisons_is_refused) {
    test_array f, h, flags, bytes, packed, wide;
    test_array_create(&f, device, TDM_F32, 2, DIMS(4, 3), TEST_DENSE);
    test_array_create(&h, device, TDM_F16, 2, DIMS(4, 3), TEST_DENSE);
    test_array_create(&flags, device, TDM_BOOL, 2, DIMS(4, 3), TEST_DENSE);
    test_array_create(&bytes, device, TDM_U8, 2, DIMS(2, 3), TEST_DENSE);
    test_array_create(&packed, device, TDM_S4, 2, DIMS(4, 3), TEST_DENSE);
    test_array_create(&wide, device, TDM_F64, 2, DIMS(4, 3), TEST_DENSE);
    test_array *const all[] = {&f, &h, &flags, &bytes, &packed, &wide};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        test_array_send(all[i]);
    tdm_stream *const s = device->stream;
    tdm_tensor *const y = flags.tensor, *turned, *as_bytes;
    tdm_layout layout;
    TEST_OK(tdm_tensor_view(y, 2, DIMS(3, 4), DIMS(1, 3), 0, &turned));
    TEST_OK(tdm_layout_contiguous(TDM_U8, 2, DIMS(4, 3), &layout));
    TEST_OK(tdm_tensor_on_buffer(flags.buffer, flags.offset, &layout, &as_bytes));
    TEST_REFUSED(tdm_compare(s, (tdm_comparison)7, f.tensor, f.tensor, y), TDM_BAD_ARGUMENT,
                 "operation 7 is unknown");
    TEST_REFUSED(tdm_compare(s, TDM_LESS, f.tensor, h.tensor, y), TDM_BAD_DTYPE,
                 "less: a is f32 but b is f16");
    TEST_REFUSED(tdm_compare(s, TDM_LESS, f.tensor, f.tensor, f.tensor), TDM_BAD_DTYPE,
                 "less: y is f32, must be bool");
    TEST_REFUSED(tdm_compare(s, TDM_EQUAL, wide.tensor, wide.tensor, y), TDM_UNSUPPORTED,
                 "equal: no kernel for f64");
    TEST_REFUSED(tdm_compare(s, TDM_EQUAL, packed.tensor, packed.tensor, y), TDM_UNSUPPORTED,
                 "equal: no kernel for s4");
    TEST_REFUSED(tdm_compare(s, TDM_GREATER, bytes.tensor, bytes.tensor, y), TDM_BAD_SHAPE,
                 "greater: a of shape [2, 3]");
    TEST_REFUSED(tdm_compare(s, TDM_EQUAL, as_bytes, as_bytes, y), TDM_BAD_ARGUMENT,
                 "y overlaps a");
    TEST_REFUSED(tdm_compare(s, TDM_EQUAL, NULL, f.tensor, y), TDM_BAD_ARGUMENT, "a is NULL");
    TEST_REFUSED(tdm_compare(s, TDM_EQUAL, f.tensor, NULL, y), TDM_BAD_ARGUMENT, "b is NULL");
    TEST_REFUSED(tdm_compare(s, TDM_EQUAL, f.tensor, f.tensor, NULL), TDM_BAD_ARGUMENT,
                 "y is NULL");
    TEST_REFUSED(tdm_compare(NULL, TDM_EQUAL, f.tensor, f.tensor, y), TDM_BAD_ARGUMENT, "stream");
    TEST_REFUSED(tdm_where(s, f.tensor, f.tensor, f.tensor, f.tensor), TDM_BAD_DTYPE,
                 "where: condition is f32, must be bool");
    TEST_REFUSED(tdm_where(s, y, h.tensor, f.tensor, f.tensor), TDM_BAD_DTYPE,
                 "where: a is f16 but y is f32");
    TEST_REFUSED(tdm_where(s, y, f.tensor, h.tensor, f.tensor), TDM_BAD_DTYPE,
                 "where: b is f16 but y is f32");
    TEST_REFUSED(tdm_where(s, y, packed.tensor, packed.tensor, packed.tensor), TDM_UNSUPPORTED,
                 "where: no kernel writes s4");
    TEST_REFUSED(tdm_where(s, turned, y, y, y), TDM_BAD_SHAPE, "where: condition of shape [3, 4]");
    TEST_REFUSED(tdm_where(s, y, as_bytes, as_bytes, as_bytes), TDM_BAD_ARGUMENT,
                 "y overlaps condition");
    TEST_REFUSED(tdm_where(s, NULL, f.tensor, f.tensor, f.tensor), TDM_BAD_ARGUMENT,
                 "condition is NULL");
    TEST_REFUSED(tdm_binary_op(s, TDM_ADD, y, y, y), TDM_UNSUPPORTED, "add: no kernel for bool");
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        test_array_expect_unchanged(all[i]);
    tdm_tensor_destroy(turned);
    tdm_tensor_destroy(as_bytes);
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        test_array_destroy(all[i]);
}

TEST_MAIN(test_devices_setup, test_devices_teardown)
