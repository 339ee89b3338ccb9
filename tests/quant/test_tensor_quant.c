// Tensors may carry quantization parameters. The tests cover creation, refused arguments,
// parameters of views, and the lifetime of parameters.
// ctest: device
#include <stdio.h>
#include <string.h>

#include "api/device/core.h"
#include "tests/support/devices/device_cases.h"
#include "tests/support/devices/own_device.h"
#include "tests/support/drivers/counted_host.h"
#include "tests/support/test_case.h"
#include "tests/support/test_data.h"

#define DIMS(...) ((const int64_t[]){__VA_ARGS__})

static tdm_tensor *create(const test_device *device, tdm_dtype dtype, int rank,
                          const int64_t *shape) {
    tdm_tensor *tensor;
    TEST_OK(tdm_tensor_create(device->device, dtype, rank, shape, &tensor));
    return tensor;
}

static tdm_tensor *create_quantized(const test_device *device, tdm_dtype dtype, int rank,
                                    const int64_t *shape, const int64_t *block) {
    tdm_tensor *tensor;
    TEST_OK(tdm_tensor_create_quantized(device->device, dtype, rank, shape, block, TDM_F32, TDM_S32,
                                        &tensor));
    return tensor;
}

static tdm_quantization carried(const tdm_tensor *tensor) {
    tdm_quantization q = TDM_QUANTIZATION_INIT;
    TEST_OK(tdm_tensor_quantization(tensor, &q));
    assert_int_equal(q.struct_size, sizeof q);
    return q;
}

static void expect_shape(const tdm_tensor *tensor, int rank, const int64_t *shape) {
    assert_int_equal(tdm_tensor_rank(tensor), rank);
    for (int i = 0; i < rank; i++)
        assert_int_equal(tdm_tensor_dim(tensor, i), shape[i]);
}

static void expect_same_layout(const tdm_layout *layout, const tdm_tensor *tensor) {
    assert_int_equal(layout->dtype, tdm_tensor_dtype(tensor));
    assert_int_equal(layout->rank, tdm_tensor_rank(tensor));
    for (int i = 0; i < layout->rank; i++) {
        assert_int_equal(layout->shape[i], tdm_tensor_dim(tensor, i));
        assert_int_equal(layout->strides[i], tdm_tensor_stride(tensor, i));
    }
}

/* Checks that both queries report these blocks and this shape of parameters. */
static void expect_carried(const tdm_tensor *tensor, const int64_t *block, const int64_t *shape,
                           bool has_zero) {
    const int rank = tdm_tensor_rank(tensor);
    const tdm_quantization q = carried(tensor);
    tdm_quant_layout layout;
    TEST_OK(tdm_tensor_quant_layout(tensor, &layout));
    assert_non_null(q.scale);
    expect_shape(q.scale, rank, shape);
    expect_same_layout(&layout.scale, q.scale);
    assert_int_equal(q.zero_point != NULL, has_zero);
    if (has_zero) {
        expect_shape(q.zero_point, rank, shape);
        expect_same_layout(&layout.zero_point, q.zero_point);
    } else {
        assert_int_equal(layout.zero_point.dtype, TDM_DTYPE_NONE);
    }
    for (int i = 0; i < rank; i++) {
        assert_int_equal(q.block[i], block[i]);
        assert_int_equal(layout.block[i], block[i]);
    }
}

/* ---- creation -------------------------------------------------------------------------------- */

typedef struct granularity {
    int rank;
    int64_t shape[TDM_MAX_RANK], block[TDM_MAX_RANK], parameters[TDM_MAX_RANK];
} granularity;

static const granularity granularities[] = {
    {0, {0}, {0}, {0}},
    {1, {5}, {0}, {1}},
    {1, {5}, {1}, {5}},
    {1, {5}, {2}, {3}},
    {1, {5}, {5}, {1}},
    {1, {5}, {7}, {1}},
    {1, {5}, {INT64_MAX}, {1}},
    {2, {70, 6}, {0, 0}, {1, 1}},
    {2, {70, 6}, {0, 1}, {1, 6}},
    {2, {70, 6}, {1, 0}, {70, 1}},
    {2, {70, 6}, {32, 1}, {3, 6}},
    {2, {70, 6}, {32, 4}, {3, 2}},
    {2, {0, 6}, {0, 1}, {1, 6}},
    {2, {0, 6}, {32, 1}, {0, 6}},
    {2, {6, 0}, {1, 1}, {6, 0}},
    {3, {2, 4, 6}, {1, 0, 3}, {2, 1, 2}},
    {8, {1, 2, 1, 2, 1, 2, 2, 4}, {0, 1, 1, 0, 1, 0, 1, 2}, {1, 2, 1, 1, 1, 1, 2, 2}},
};
#define GRANULARITIES (sizeof granularities / sizeof granularities[0])

DEVICE_TEST(every_granularity_is_created) {
    static const tdm_dtype types[] = {TDM_S8, TDM_U8, TDM_S4, TDM_S32};
    static const tdm_dtype scales[] = {TDM_F32, TDM_F16, TDM_BF16};
    static const tdm_dtype zeros[] = {TDM_S32, TDM_S8, TDM_U8, TDM_DTYPE_NONE};
    for (size_t i = 0; i < GRANULARITIES; i++)
        for (size_t type = 0; type < 4; type++) {
            const granularity *const g = &granularities[i];
            const tdm_dtype scale = scales[(i + type) % 3], zero = zeros[(i + type) % 4];
            tdm_tensor *made, *again;
            TEST_OK(tdm_tensor_create_quantized(device->device, types[type], g->rank, g->shape,
                                                g->block, scale, zero, &made));
            expect_shape(made, g->rank, g->shape);
            assert_int_equal(tdm_tensor_dtype(made), types[type]);
            assert_true(tdm_tensor_is_contiguous(made));
            expect_carried(made, g->block, g->parameters, zero != TDM_DTYPE_NONE);
            tdm_quantization q = carried(made);
            assert_int_equal(tdm_tensor_dtype(q.scale), scale);
            assert_int_equal(tdm_tensor_dtype(q.zero_point), zero);
            // The report of one tensor serves to create another.
            TEST_OK(tdm_tensor_quantized(made, &q, &again));
            expect_carried(again, g->block, g->parameters, zero != TDM_DTYPE_NONE);
            assert_ptr_equal(tdm_tensor_buffer(again), tdm_tensor_buffer(made));
            tdm_tensor_destroy(made);
            tdm_tensor_destroy(again);
        }
}

DEVICE_TEST(without_blocks_there_is_one_parameter) {
    tdm_tensor *made;
    TEST_OK(tdm_tensor_create_quantized(device->device, TDM_U8, 3, DIMS(2, 3, 4), NULL, TDM_F32,
                                        TDM_U8, &made));
    expect_carried(made, DIMS(0, 0, 0), DIMS(1, 1, 1), true);
    tdm_tensor_destroy(made);
}

DEVICE_TEST(creation_refuses) {
    static const int64_t shape[9] = {4, 4, 1, 1, 1, 1, 1, 1, 1}, negative[2] = {3, -4},
                         block[2] = {0, -1};
    static const struct {
        tdm_dtype dtype;
        int rank;
        const int64_t *shape, *block;
        tdm_dtype scale, zero;
        tdm_status status;
        const char *part;
    } rows[] = {
        {TDM_F32, 1, shape, NULL, TDM_F32, TDM_S32, TDM_BAD_DTYPE, "tensor is f32; s8, u8, s4 and"},
        {(tdm_dtype)99, 1, shape, NULL, TDM_F32, TDM_S32, TDM_BAD_DTYPE, "tensor is unknown"},
        {TDM_S8, 1, shape, NULL, TDM_F64, TDM_S32, TDM_BAD_DTYPE, "scale is f64; f32, f16 and"},
        {TDM_S8, 1, shape, NULL, TDM_DTYPE_NONE, TDM_S32, TDM_BAD_DTYPE, "scale is "},
        {TDM_S8, 1, shape, NULL, TDM_F32, TDM_F32, TDM_BAD_DTYPE, "zero_point is f32; s32, s8 and"},
        {TDM_S8, 2, shape, block, TDM_F32, TDM_S32, TDM_BAD_ARGUMENT, "block[1] is -1"},
        {TDM_S8, 1, NULL, NULL, TDM_F32, TDM_S32, TDM_BAD_ARGUMENT, "shape is NULL but rank is 1"},
        {TDM_S8, 9, shape, NULL, TDM_F32, TDM_S32, TDM_BAD_SHAPE, "rank is 9"},
        {TDM_S8, -1, NULL, NULL, TDM_F32, TDM_S32, TDM_BAD_SHAPE, "rank is -1"},
        {TDM_S8, 2, negative, NULL, TDM_F32, TDM_S32, TDM_BAD_SHAPE, "dimension 1 is -4"},
    };
    tdm_device *const d = device->device;
    tdm_tensor *t;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        t = (tdm_tensor *)(uintptr_t)1;
        TEST_REFUSED(tdm_tensor_create_quantized(d, rows[i].dtype, rows[i].rank, rows[i].shape,
                                                 rows[i].block, rows[i].scale, rows[i].zero, &t),
                     rows[i].status, rows[i].part);
        assert_null(t);
    }
    TEST_REFUSED(tdm_tensor_create_quantized(NULL, TDM_S8, 1, shape, NULL, TDM_F32, TDM_S32, &t),
                 TDM_BAD_ARGUMENT, "device is NULL");
    TEST_REFUSED(tdm_tensor_create_quantized(d, TDM_S8, 1, shape, NULL, TDM_F32, TDM_S32, NULL),
                 TDM_BAD_ARGUMENT, "tensor is NULL");
}

DEVICE_TEST(giving_parameters_refuses) {
    tdm_tensor *const tensor = create(device, TDM_S8, 2, DIMS(40, 6)),
                      *const scale = create(device, TDM_F32, 2, DIMS(2, 6)),
                      *const zero = create(device, TDM_S8, 2, DIMS(2, 6)),
                      *const other = create(device, TDM_F32, 2, DIMS(2, 5)),
                      *const flat = create(device, TDM_F32, 1, DIMS(12)),
                      *const flipped = create(device, TDM_S32, 2, DIMS(6, 2));
    const size_t size = sizeof(tdm_quantization);
    const struct {
        tdm_quantization q;
        tdm_status status;
        const char *part;
    } rows[] = {
        {{5, {32, 1}, scale, zero}, TDM_BAD_ARGUMENT, "struct_size of quantization is 5"},
        {{size, {32, 1}, NULL, zero}, TDM_BAD_ARGUMENT, "scale is NULL"},
        {{size, {32, 1}, zero, zero}, TDM_BAD_DTYPE, "scale is s8; f32, f16 and bf16"},
        {{size, {32, 1}, scale, scale}, TDM_BAD_DTYPE, "zero_point is f32; s32, s8 and u8"},
        {{size, {-32, 1}, scale, zero}, TDM_BAD_ARGUMENT, "block[0] is -32"},
        {{size, {32, 1}, other, zero}, TDM_BAD_SHAPE, "scale is [2, 5], these blocks need [2, 6]"},
        {{size, {32, 1}, flat, zero}, TDM_BAD_SHAPE, "scale is [12], these blocks need [2, 6]"},
        {{size, {20, 0}, scale, zero}, TDM_BAD_SHAPE, "scale is [2, 6], these blocks need [2, 1]"},
        {{size, {16, 1}, scale, zero}, TDM_BAD_SHAPE, "scale is [2, 6], these blocks need [3, 6]"},
        {{size, {32, 1}, scale, flipped}, TDM_BAD_SHAPE, "zero_point is [6, 2], these blocks"},
    };
    const tdm_quantization good = {size, {32, 1}, scale, zero};
    tdm_tensor *t;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        t = (tdm_tensor *)(uintptr_t)1;
        TEST_REFUSED(tdm_tensor_quantized(tensor, &rows[i].q, &t), rows[i].status, rows[i].part);
        assert_null(t);
    }
    TEST_REFUSED(tdm_tensor_quantized(NULL, &good, &t), TDM_BAD_ARGUMENT, "tensor is NULL");
    TEST_REFUSED(tdm_tensor_quantized(tensor, NULL, &t), TDM_BAD_ARGUMENT, "quantization is NULL");
    TEST_REFUSED(tdm_tensor_quantized(tensor, &good, NULL), TDM_BAD_ARGUMENT, "quantized is NULL");
    TEST_REFUSED(tdm_tensor_quantized(scale, &good, &t), TDM_BAD_DTYPE, "tensor is f32");
    TEST_OK(tdm_tensor_quantized(tensor, &good, &t));
    tdm_tensor *const all[] = {tensor, scale, zero, other, flat, flipped, t};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        tdm_tensor_destroy(all[i]);
}

DEVICE_TEST(parameters_of_another_device_are_refused) {
    own_device second = own_device_open(device, 0);
    tdm_tensor *const tensor = create(device, TDM_S8, 1, DIMS(4)), *const scale = create(
                                                                       device, TDM_F32, 1, DIMS(1));
    tdm_tensor *foreign, *foreign_zero, *made;
    TEST_OK(tdm_tensor_create(second.device, TDM_F32, 1, DIMS(1), &foreign));
    TEST_OK(tdm_tensor_create(second.device, TDM_S8, 1, DIMS(1), &foreign_zero));
    tdm_quantization q = TDM_QUANTIZATION_INIT;
    q.scale = foreign;
    TEST_REFUSED(tdm_tensor_quantized(tensor, &q, &made), TDM_BAD_ARGUMENT, "scale is on device");
    q.scale = scale;
    q.zero_point = foreign_zero;
    TEST_REFUSED(tdm_tensor_quantized(tensor, &q, &made), TDM_BAD_ARGUMENT, "is on device");
    tdm_tensor *const all[] = {tensor, scale, foreign, foreign_zero};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        tdm_tensor_destroy(all[i]);
    own_device_close(&second);
}

DEVICE_TEST(queries_answer_and_refuse) {
    tdm_tensor *const plain = create(device, TDM_S8, 2, DIMS(4, 4));
    tdm_quantization q = TDM_QUANTIZATION_INIT;
    tdm_quant_layout layout;
    memset(&layout, 0x5a, sizeof layout);
    const tdm_quantization none = carried(plain);
    assert_null(none.scale);
    assert_null(none.zero_point);
    TEST_OK(tdm_tensor_quant_layout(plain, &layout));
    const unsigned char *const bytes = (const unsigned char *)&layout;
    for (size_t i = 0; i < sizeof layout; i++)
        assert_int_equal(bytes[i], 0);
    TEST_REFUSED(tdm_tensor_quantization(NULL, &q), TDM_BAD_ARGUMENT, "tensor is NULL");
    TEST_REFUSED(tdm_tensor_quantization(plain, NULL), TDM_BAD_ARGUMENT, "quantization is NULL");
    TEST_REFUSED(tdm_tensor_quant_layout(NULL, &layout), TDM_BAD_ARGUMENT, "tensor is NULL");
    TEST_REFUSED(tdm_tensor_quant_layout(plain, NULL), TDM_BAD_ARGUMENT, "layout is NULL");
    tdm_tensor_destroy(plain);
}

/* ---- lifetime -------------------------------------------------------------------------------- */

static float first_scale(const test_device *device, const tdm_tensor *tensor) {
    float value = 0;
    TEST_OK(tdm_tensor_read(device->stream, carried(tensor).scale, &value, sizeof value, NULL));
    return value;
}

DEVICE_TEST(parameters_outlive_their_handles) {
    tdm_tensor *const tensor = create(device, TDM_S8, 1, DIMS(4)),
                      *const scale = create(device, TDM_F32, 1, DIMS(1)),
                      *const kept = create(device, TDM_F32, 1, DIMS(1));
    tdm_tensor *first, *second, *view, *alias;
    tdm_quantization q = TDM_QUANTIZATION_INIT;
    q.scale = scale;
    TEST_OK(tdm_tensor_view(scale, 1, DIMS(1), DIMS(1), 0, &alias));
    TEST_OK(tdm_tensor_quantized(tensor, &q, &first));
    TEST_OK(tdm_tensor_fill(device->stream, 3, scale));
    tdm_tensor_destroy(scale);
    tdm_tensor_destroy(tensor);
    assert_true(first_scale(device, first) == 3.0f);
    // A tensor that is made from a quantized one has only the new parameters.
    TEST_OK(tdm_tensor_fill(device->stream, 5, kept));
    q.scale = kept;
    TEST_OK(tdm_tensor_quantized(first, &q, &second));
    TEST_OK(tdm_tensor_slice(first, 0, 1, 3, 1, &view));
    tdm_tensor_destroy(first);
    tdm_tensor_destroy(kept);
    assert_true(first_scale(device, second) == 5.0f);
    assert_true(first_scale(device, view) == 3.0f);
    TEST_OK(tdm_tensor_fill(device->stream, 7, alias)); // a later reader sees later writes
    assert_true(first_scale(device, view) == 7.0f);
    assert_true(first_scale(device, second) == 5.0f);
    tdm_tensor_destroy(alias);
    tdm_tensor_destroy(view);
    tdm_tensor_destroy(second);
}

/* ---- views ----------------------------------------------------------------------------------- */

/* Returns the index of an element's parameter from the element's coordinates. The index counts
 * elements of the parameter's buffer. */
static int64_t parameter_place(const tdm_tensor *tensor, const tdm_tensor *parameter,
                               const int64_t *at) {
    const tdm_quantization q = carried(tensor);
    int64_t place = tdm_tensor_offset(parameter);
    for (int i = 0; i < tdm_tensor_rank(tensor); i++) {
        const int64_t entry = q.block[i] == 0 ? 0 : at[i] / q.block[i];
        assert_true(entry < tdm_tensor_dim(parameter, i));
        place += entry * tdm_tensor_stride(parameter, i);
    }
    return place;
}

/* Checks that every element of the view has the parameters that it has in `whole`, which is
 * contiguous from its buffer's start. */
static void expect_same_parameters(const tdm_tensor *whole, const tdm_tensor *view) {
    const tdm_quantization from = carried(whole), to = carried(view);
    const int rank = tdm_tensor_rank(view), whole_rank = tdm_tensor_rank(whole);
    assert_ptr_equal(tdm_tensor_buffer(from.scale), tdm_tensor_buffer(to.scale));
    assert_ptr_equal(tdm_tensor_buffer(from.zero_point), tdm_tensor_buffer(to.zero_point));
    for (int64_t e = 0; e < tdm_tensor_elements(view); e++) {
        int64_t at[TDM_MAX_RANK], original[TDM_MAX_RANK], place = tdm_tensor_offset(view);
        int64_t rest = e;
        for (int i = rank - 1; i >= 0; i--) {
            at[i] = rest % tdm_tensor_dim(view, i);
            rest /= tdm_tensor_dim(view, i);
            place += at[i] * tdm_tensor_stride(view, i);
        }
        for (int i = whole_rank - 1; i >= 0; i--) {
            original[i] = place % tdm_tensor_dim(whole, i);
            place /= tdm_tensor_dim(whole, i);
        }
        assert_int_equal(parameter_place(view, to.scale, at),
                         parameter_place(whole, from.scale, original));
        assert_int_equal(parameter_place(view, to.zero_point, at),
                         parameter_place(whole, from.zero_point, original));
    }
}

/* Tests chains of transposes and slices of any arrangement. The parameters follow their elements. A
 * view that would split a block is refused. */
DEVICE_TEST(chains_of_views_keep_each_elements_parameters) {
    test_random random = {20261121};
    int refused = 0, carried_along = 0;
    for (int round = 0; round < 600; round++) {
        const int rank = (int)test_random_int(&random, 1, 4);
        int64_t shape[4], block[4];
        for (int i = 0; i < rank; i++) {
            shape[i] = test_random_int(&random, 0, 9);
            block[i] = test_random_int(&random, 0, shape[i] + 1);
        }
        tdm_tensor *const whole = create_quantized(device, TDM_S8, rank, shape, block);
        tdm_tensor *view, *next;
        TEST_OK(tdm_tensor_transpose(whole, (const int[]){0, 1, 2, 3}, &view));
        for (int step = 0; step < 4; step++) {
            const int d = (int)test_random_int(&random, 0, rank - 1);
            const int64_t size = tdm_tensor_dim(view, d), own = carried(view).block[d];
            const int64_t start = test_random_int(&random, 0, size),
                          stop = test_random_int(&random, start, size),
                          by = test_random_int(&random, 1, 2);
            const int turn = (int)test_random_int(&random, 0, rank - 1);
            const int order[4] = {turn % rank, (turn + 1) % rank, (turn + 2) % rank,
                                  (turn + 3) % rank};
            if (test_random_int(&random, 0, 3) == 0) {
                TEST_OK(tdm_tensor_transpose(view, step % 2 ? order : NULL, &next));
            } else if (own > 1 && start < stop &&
                       (by > 1 || start % own != 0 || (stop < size && stop % own != 0))) {
                TEST_REFUSED(tdm_tensor_slice(view, d, start, stop, by, &next), TDM_UNSUPPORTED,
                             "splits blocks");
                assert_null(next);
                refused++;
                continue;
            } else {
                TEST_OK(tdm_tensor_slice(view, d, start, stop, by, &next));
                const int64_t left = (stop - start + by - 1) / by;
                assert_int_equal(carried(next).block[d], own);
                assert_int_equal(tdm_tensor_dim(carried(next).scale, d),
                                 own == 0 ? 1 : (left + own - 1) / own);
                carried_along += tdm_tensor_elements(next) > 0;
            }
            tdm_tensor_destroy(view);
            view = next;
            expect_same_parameters(whole, view);
        }
        tdm_tensor_destroy(view);
        tdm_tensor_destroy(whole);
    }
    assert_true(refused > 50 && carried_along > 100);
}

DEVICE_TEST(other_views_carry_parameters_of_the_whole_tensor) {
    static const int64_t blocks[][2] = {{0, 0}, {4, 6}, {9, 0}}, zeros[8] = {0},
                         ones[8] = {1, 1, 1, 1, 1, 1, 1, 1};
    for (int i = 0; i < 3 * 6; i++) {
        tdm_tensor *const tensor = create_quantized(device, TDM_U8, 2, DIMS(4, 6), blocks[i / 6]);
        tdm_tensor *row, *view;
        TEST_OK(tdm_tensor_view(tensor, 2, DIMS(1, 6), DIMS(6, 1), 0, &row));
        switch (i % 6) {
        case 0:
            TEST_OK(tdm_tensor_reshape(tensor, 3, DIMS(2, 2, 6), &view));
            break;
        case 1:
            TEST_OK(tdm_tensor_reshape(tensor, 8, DIMS(1, 1, 2, 2, 1, 3, 2, 1), &view));
            break;
        case 2:
            TEST_OK(tdm_tensor_view(tensor, 2, DIMS(2, 3), DIMS(6, 2), 1, &view));
            break;
        case 3:
            TEST_OK(tdm_tensor_view(tensor, 0, NULL, NULL, 5, &view));
            break;
        case 4:
            TEST_OK(tdm_tensor_view(tensor, 0, NULL, NULL, 5, &view));
            tdm_tensor_destroy(row);
            row = view;
            TEST_OK(tdm_tensor_transpose(row, NULL, &view));
            break;
        default:
            TEST_OK(tdm_tensor_broadcast(row, 3, DIMS(5, 3, 6), &view));
        }
        expect_carried(view, zeros, ones, true);
        expect_same_parameters(tensor, view);
        tdm_tensor_destroy(view);
        tdm_tensor_destroy(row);
        tdm_tensor_destroy(tensor);
    }
}

DEVICE_TEST(other_views_refuse_parameters_that_vary) {
    /* The last two have no parameter along an empty dimension: the whole tensor has none. */
    static const struct {
        int64_t shape[2], block[2];
        const char *part;
    } rows[] = {{{4, 6}, {1, 0}, "there are 4 quantization parameters along dimension 0"},
                {{4, 6}, {0, 4}, "there are 2 quantization parameters along dimension 1"},
                {{1, 6}, {0, 1}, "there are 6 quantization parameters along dimension 1"},
                {{0, 6}, {1, 0}, "there are 0 quantization parameters along dimension 0"},
                {{1, 0}, {0, 32}, "there are 0 quantization parameters along dimension 1"}};
    tdm_tensor *view;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const int64_t *const shape = rows[i].shape;
        tdm_tensor *const tensor = create_quantized(device, TDM_S8, 2, shape, rows[i].block);
        TEST_REFUSED(tdm_tensor_reshape(tensor, 2, shape, &view), TDM_UNSUPPORTED, rows[i].part);
        assert_null(view);
        TEST_REFUSED(tdm_tensor_view(tensor, 2, shape, DIMS(6, 1), 0, &view), TDM_UNSUPPORTED,
                     rows[i].part);
        assert_null(view);
        TEST_REFUSED(tdm_tensor_broadcast(tensor, 2, shape, &view), TDM_UNSUPPORTED, rows[i].part);
        assert_null(view);
        tdm_tensor_destroy(tensor);
    }
    /*
     * The message advises the caller to reshape the elements and the parameters separately, which
     * is done here.
     */
    tdm_tensor *const tensor = create_quantized(device, TDM_S8, 2, DIMS(4, 6), DIMS(1, 0));
    tdm_tensor *elements, *flat, *again;
    tdm_layout layout;
    TEST_OK(tdm_tensor_layout(tensor, &layout));
    TEST_OK(tdm_tensor_on_buffer(tdm_tensor_buffer(tensor), 0, &layout, &elements));
    assert_null(carried(elements).scale);
    TEST_OK(tdm_tensor_reshape(elements, 3, DIMS(4, 2, 3), &view));
    TEST_OK(tdm_tensor_reshape(carried(tensor).scale, 3, DIMS(4, 1, 1), &flat));
    const tdm_quantization q = {.struct_size = sizeof q, .block = {1}, .scale = flat};
    TEST_OK(tdm_tensor_quantized(view, &q, &again));
    expect_carried(again, DIMS(1, 0, 0), DIMS(4, 1, 1), false);
    tdm_tensor *const all[] = {tensor, elements, view, flat, again};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        tdm_tensor_destroy(all[i]);
}

/* Views split no byte of s4, and the parameters follow their elements. */
DEVICE_TEST(views_of_s4_carry_parameters) {
    tdm_tensor *const tensor = create_quantized(device, TDM_S4, 2, DIMS(4, 64), DIMS(1, 32));
    tdm_tensor *view;
    TEST_OK(tdm_tensor_slice(tensor, 1, 32, 64, 1, &view));
    expect_carried(view, DIMS(1, 32), DIMS(4, 1), true);
    expect_same_parameters(tensor, view);
    tdm_tensor_destroy(view);
    TEST_OK(tdm_tensor_transpose(tensor, NULL, &view));
    expect_carried(view, DIMS(32, 1), DIMS(2, 4), true);
    tdm_tensor_destroy(view);
    TEST_REFUSED(tdm_tensor_slice(tensor, 1, 1, 33, 1, &view), TDM_UNSUPPORTED, "a storage unit");
    assert_null(view);
    tdm_tensor_destroy(tensor);
}

/* ---- host memory ----------------------------------------------------------------------------- */

static tdm_status make(int kind, tdm_tensor *from, tdm_tensor **made) {
    const tdm_quantization q = carried(from);
    switch (kind) {
    case 0:
        return tdm_tensor_create_quantized(tdm_tensor_device(from), TDM_S8, 2, DIMS(4, 6),
                                           DIMS(1, 0), TDM_F32, TDM_S32, made);
    case 1:
        return tdm_tensor_quantized(from, &q, made);
    case 2:
        return tdm_tensor_transpose(from, NULL, made);
    case 3:
        return tdm_tensor_slice(from, 0, 1, 3, 1, made);
    default:
        return tdm_tensor_reshape(from, 1, DIMS(24), made);
    }
}

DEVICE_TEST(failures_of_host_memory_leave_nothing_behind) {
    tdm_tensor *const from = create_quantized(device, TDM_S8, 2, DIMS(4, 6), DIMS(0, 0));
    for (int kind = 0; kind < 5; kind++) {
        tdm_status status = TDM_INTERNAL;
        long nth = 0;
        while (status != TDM_OK) {
            tdm_tensor *made = (tdm_tensor *)(uintptr_t)1;
            const long before = counted_host_live();
            counted_host_fail_at(++nth);
            status = make(kind, from, &made);
            counted_host_recover();
            if (status == TDM_OK) {
                tdm_tensor_destroy(made);
            } else {
                assert_int_equal(status, TDM_OUT_OF_HOST_MEMORY);
                assert_null(made);
            }
            assert_int_equal(counted_host_live(), before);
        }
        assert_true(nth > 3); // the blocks are a handle and those of two parameters
    }
    tdm_tensor_destroy(from);
}

int main(void) {
    if (!counted_host_install())
        return 1;
    return test_run_all(test_devices_setup, test_devices_teardown);
}
