// Tests tensors, views and buffers: shapes, strides and refused arguments. The tests of copies
// check the data behind views.
// ctest: device
#include <string.h>

#include "api/tensor/tensor_internal.h"
#include "tests/support/devices/device_cases.h"
#include "tests/support/test_case.h"

static tdm_tensor *create(const test_device *device, tdm_dtype dtype, int rank,
                          const int64_t *shape) {
    tdm_tensor *tensor;
    TEST_OK(tdm_tensor_create(device->device, dtype, rank, shape, &tensor));
    return tensor;
}

static void expect_layout(const tdm_tensor *tensor, int rank, const int64_t *shape,
                          const int64_t *strides, int64_t offset) {
    assert_int_equal(tdm_tensor_rank(tensor), rank);
    for (int i = 0; i < rank; i++) {
        assert_int_equal(tdm_tensor_dim(tensor, i), shape[i]);
        if (shape[i] > 1)
            assert_int_equal(tdm_tensor_stride(tensor, i), strides[i]);
    }
    assert_int_equal(tdm_tensor_offset(tensor), offset);
}

#define DIMS(...) ((const int64_t[]){__VA_ARGS__})

DEVICE_TEST(a_new_tensor_is_contiguous) {
    tdm_tensor *const tensor = create(device, TDM_F16, 3, DIMS(2, 3, 4));
    expect_layout(tensor, 3, DIMS(2, 3, 4), DIMS(12, 4, 1), 0);
    assert_int_equal(tdm_tensor_dtype(tensor), TDM_F16);
    assert_int_equal(tdm_tensor_elements(tensor), 24);
    assert_true(tdm_tensor_is_contiguous(tensor));
    assert_ptr_equal(tdm_tensor_device(tensor), device->device);
    assert_int_equal(tdm_buffer_size(tdm_tensor_buffer(tensor)), 48);
    assert_int_equal(tdm_tensor_dim(tensor, 3), 0);
    assert_int_equal(tdm_tensor_stride(tensor, -1), 0);
    tdm_tensor_destroy(tensor);
}

DEVICE_TEST(scalars_and_empty_tensors_are_legal) {
    tdm_tensor *const scalar = create(device, TDM_F32, 0, NULL);
    assert_int_equal(tdm_tensor_elements(scalar), 1);
    tdm_tensor *const empty = create(device, TDM_F32, 2, DIMS(0, 5));
    assert_int_equal(tdm_tensor_elements(empty), 0);
    assert_true(tdm_tensor_is_contiguous(empty));
    tdm_tensor *view;
    TEST_OK(tdm_tensor_slice(empty, 1, 5, 5, 1, &view));
    tdm_tensor_destroy(view);
    TEST_OK(tdm_tensor_reshape(empty, 3, DIMS(7, 0, 2), &view));
    tdm_tensor_destroy(view);
    tdm_tensor_destroy(empty);
    tdm_tensor_destroy(scalar);
}

DEVICE_TEST(creation_refuses) {
    tdm_tensor *t;
    tdm_device *const d = device->device;
    TEST_REFUSED(tdm_tensor_create(NULL, TDM_F32, 1, DIMS(4), &t), TDM_BAD_ARGUMENT,
                 "tensor_create: device is NULL");
    TEST_REFUSED(tdm_tensor_create(d, TDM_F32, 1, DIMS(4), NULL), TDM_BAD_ARGUMENT, "tensor is");
    TEST_REFUSED(tdm_tensor_create(d, TDM_F32, 1, NULL, &t), TDM_BAD_ARGUMENT, "but rank is 1");
    TEST_REFUSED(tdm_tensor_create(d, TDM_DTYPE_NONE, 1, DIMS(4), &t), TDM_BAD_DTYPE,
                 "tensor_create: layout: dtype 0");
    TEST_REFUSED(tdm_tensor_create(d, TDM_F32, 9, DIMS(1, 1, 1, 1, 1, 1, 1, 1, 1), &t),
                 TDM_BAD_SHAPE, "rank is 9");
    TEST_REFUSED(tdm_tensor_create(d, TDM_F32, -1, DIMS(1), &t), TDM_BAD_SHAPE, "rank is -1");
    TEST_REFUSED(tdm_tensor_create(d, TDM_F32, 2, DIMS(3, -4), &t), TDM_BAD_SHAPE,
                 "tensor_create: layout: dimension 1 is -4");
    TEST_REFUSED(tdm_tensor_create(d, TDM_F32, 2, DIMS(INT64_MAX, 2), &t), TDM_BAD_SHAPE,
                 "overflows");
    TEST_REFUSED(tdm_tensor_create(d, TDM_F32, 1, DIMS(INT64_MAX / 8), &t), TDM_BAD_SHAPE,
                 "overflows");
    // An empty dimension must not hide an overflow.
    TEST_REFUSED(tdm_tensor_create(d, TDM_F32, 3, DIMS(INT64_MAX, 0, INT64_MAX), &t), TDM_BAD_SHAPE,
                 "overflows");
    assert_null(t);
    TEST_REFUSED(tdm_tensor_create(d, TDM_F32, 1, DIMS((int64_t)1 << 50), &t),
                 TDM_OUT_OF_DEVICE_MEMORY, "tensor_create: pool");
    assert_null(t);
    TEST_REFUSED(tdm_tensor_create(d, TDM_S4, 2, DIMS(3, 5), &t), TDM_UNSUPPORTED, "2 s4 elements");
    assert_null(t);
}

DEVICE_TEST(slices_step_and_refuse) {
    tdm_tensor *const tensor = create(device, TDM_F32, 2, DIMS(6, 10));
    tdm_tensor *view, *inner;
    TEST_OK(tdm_tensor_slice(tensor, 1, 2, 9, 3, &view));
    expect_layout(view, 2, DIMS(6, 3), DIMS(10, 3), 2);
    TEST_OK(tdm_tensor_slice(view, 0, 4, 6, 1, &inner));
    expect_layout(inner, 2, DIMS(2, 3), DIMS(10, 3), 42);
    assert_false(tdm_tensor_is_contiguous(inner));
    tdm_tensor_destroy(inner);
    tdm_tensor_destroy(view);
    TEST_OK(tdm_tensor_slice(tensor, 0, 0, 6, INT64_MAX, &view));
    expect_layout(view, 2, DIMS(1, 10), DIMS(0, 1), 0);
    tdm_tensor_destroy(view);
    TEST_REFUSED(tdm_tensor_slice(tensor, 2, 0, 1, 1, &view), TDM_BAD_ARGUMENT, "is 2, rank is 2");
    TEST_REFUSED(tdm_tensor_slice(tensor, 1, 3, 11, 1, &view), TDM_BAD_SHAPE, "stop 11");
    TEST_REFUSED(tdm_tensor_slice(tensor, 1, 4, 3, 1, &view), TDM_BAD_SHAPE, "start 4, stop 3");
    TEST_REFUSED(tdm_tensor_slice(tensor, 1, 0, 3, 0, &view), TDM_BAD_SHAPE, "step 0");
    TEST_REFUSED(tdm_tensor_slice(NULL, 1, 0, 3, 1, &view), TDM_BAD_ARGUMENT, "tensor is NULL");
    assert_null(view);
    tdm_tensor_destroy(tensor);
}

DEVICE_TEST(transposes_permute_and_refuse) {
    tdm_tensor *const tensor = create(device, TDM_F32, 3, DIMS(2, 3, 4));
    tdm_tensor *view;
    TEST_OK(tdm_tensor_transpose(tensor, NULL, &view));
    expect_layout(view, 3, DIMS(4, 3, 2), DIMS(1, 4, 12), 0);
    tdm_tensor_destroy(view);
    TEST_OK(tdm_tensor_transpose(tensor, (const int[]){0, 2, 1}, &view));
    expect_layout(view, 3, DIMS(2, 4, 3), DIMS(12, 1, 4), 0);
    tdm_tensor_destroy(view);
    TEST_REFUSED(tdm_tensor_transpose(tensor, (const int[]){0, 0, 1}, &view), TDM_BAD_ARGUMENT,
                 "order[1] is 0");
    TEST_REFUSED(tdm_tensor_transpose(tensor, (const int[]){0, 3, 1}, &view), TDM_BAD_ARGUMENT,
                 "order[1] is 3");
    tdm_tensor_destroy(tensor);
}

DEVICE_TEST(reshapes_without_a_copy_or_not_at_all) {
    tdm_tensor *const tensor = create(device, TDM_F32, 3, DIMS(4, 6, 5));
    tdm_tensor *view, *transposed, *rows;
    TEST_OK(tdm_tensor_reshape(tensor, 2, DIMS(24, 5), &view));
    expect_layout(view, 2, DIMS(24, 5), DIMS(5, 1), 0);
    tdm_tensor_destroy(view);
    TEST_OK(tdm_tensor_reshape(tensor, 5, DIMS(2, 2, 1, 6, 5), &view));
    expect_layout(view, 5, DIMS(2, 2, 1, 6, 5), DIMS(60, 30, 0, 5, 1), 0);
    tdm_tensor_destroy(view);
    // Rows of a slice keep their stride if they are split, and they cannot be joined.
    TEST_OK(tdm_tensor_slice(tensor, 2, 1, 4, 1, &rows));
    TEST_OK(tdm_tensor_reshape(rows, 3, DIMS(2, 12, 3), &view));
    expect_layout(view, 3, DIMS(2, 12, 3), DIMS(60, 5, 1), 1);
    tdm_tensor_destroy(view);
    TEST_REFUSED(tdm_tensor_reshape(rows, 2, DIMS(4, 18), &view), TDM_UNSUPPORTED,
                 "without a copy");
    TEST_REFUSED(tdm_tensor_reshape(rows, 1, DIMS(71), &view), TDM_BAD_SHAPE, "has 72 elements");
    tdm_tensor_destroy(rows);
    TEST_OK(tdm_tensor_transpose(tensor, NULL, &transposed));
    TEST_REFUSED(tdm_tensor_reshape(transposed, 1, DIMS(120), &view), TDM_UNSUPPORTED,
                 "without a copy");
    TEST_OK(tdm_tensor_reshape(transposed, 4, DIMS(5, 2, 3, 4), &view));
    expect_layout(view, 4, DIMS(5, 2, 3, 4), DIMS(1, 15, 5, 30), 0);
    tdm_tensor_destroy(view);
    tdm_tensor_destroy(transposed);
    tdm_tensor_destroy(tensor);
}

DEVICE_TEST(broadcasts_repeat_by_stride_zero) {
    tdm_tensor *const tensor = create(device, TDM_F32, 2, DIMS(3, 1));
    tdm_tensor *view;
    TEST_OK(tdm_tensor_broadcast(tensor, 3, DIMS(7, 3, 5), &view));
    assert_int_equal(tdm_tensor_stride(view, 0), 0);
    assert_int_equal(tdm_tensor_stride(view, 1), 1);
    assert_int_equal(tdm_tensor_stride(view, 2), 0);
    assert_int_equal(tdm_tensor_elements(view), 105);
    TEST_REFUSED(tdm_tensor_fill(device->stream, 1, view), TDM_BAD_ARGUMENT, "overlap in memory");
    tdm_tensor_destroy(view);
    TEST_REFUSED(tdm_tensor_broadcast(tensor, 2, DIMS(4, 5), &view), TDM_BAD_SHAPE,
                 "is 3 and cannot be broadcast to 4");
    TEST_REFUSED(tdm_tensor_broadcast(tensor, 1, DIMS(5), &view), TDM_BAD_SHAPE, "tensor's is 2");
    tdm_tensor_destroy(tensor);
}

DEVICE_TEST(views_stay_inside_their_buffer) {
    tdm_tensor *const tensor = create(device, TDM_F32, 1, DIMS(100));
    tdm_tensor *view;
    TEST_OK(tdm_tensor_view(tensor, 2, DIMS(10, 9), DIMS(10, 1), 1, &view));
    tdm_tensor_destroy(view);
    TEST_REFUSED(tdm_tensor_view(tensor, 2, DIMS(10, 10), DIMS(10, 1), 1, &view), TDM_BAD_SHAPE,
                 "reach byte 404 of a buffer of 400");
    TEST_REFUSED(tdm_tensor_view(tensor, 1, DIMS(2), DIMS(INT64_MAX), 0, &view), TDM_BAD_SHAPE,
                 "overflows");
    TEST_REFUSED(tdm_tensor_view(tensor, 1, DIMS(2), DIMS(-1), 5, &view), TDM_BAD_SHAPE,
                 "stride 0 is -1");
    TEST_REFUSED(tdm_tensor_view(tensor, 1, DIMS(2), DIMS(1), -1, &view), TDM_BAD_ARGUMENT,
                 "offset is -1");
    TEST_REFUSED(tdm_tensor_view(tensor, 1, DIMS(2), DIMS(1), INT64_MAX, &view), TDM_BAD_SHAPE,
                 "offset");
    TEST_REFUSED(tdm_tensor_view(tensor, 1, DIMS(2), NULL, 0, &view), TDM_BAD_ARGUMENT,
                 "strides is NULL");
    assert_null(view);
    tdm_tensor_destroy(tensor);
}

DEVICE_TEST(packed_elements_are_not_split) {
    tdm_tensor *const tensor = create(device, TDM_S4, 2, DIMS(4, 6));
    assert_int_equal(tdm_buffer_size(tdm_tensor_buffer(tensor)), 12);
    tdm_tensor *view;
    TEST_OK(tdm_tensor_slice(tensor, 1, 2, 6, 1, &view));
    tdm_tensor_destroy(view);
    TEST_REFUSED(tdm_tensor_slice(tensor, 1, 1, 5, 1, &view), TDM_UNSUPPORTED, "a storage unit");
    TEST_REFUSED(tdm_tensor_view(tensor, 2, DIMS(2, 2), DIMS(3, 1), 0, &view), TDM_UNSUPPORTED,
                 "stride 0 is 3");
    // A slice that ends inside a byte shares it with the next element.
    unsigned char seen[12] = {0};
    unsigned char *const full =
        (unsigned char[12]){0x22, 0x22, 0x22, 0x22, 0x22, 0x22, 0x22, 0x22, 0x22, 0x22, 0x22, 0x22};
    TEST_OK(tdm_tensor_write(device->stream, full, 12, NULL, tensor));
    TEST_OK(tdm_tensor_view(tensor, 1, DIMS(3), DIMS(1), 0, &view));
    TEST_REFUSED(tdm_tensor_write(device->stream, full, 2, NULL, view), TDM_UNSUPPORTED,
                 "ends inside a storage unit");
    tdm_tensor_destroy(view);
    TEST_OK(tdm_tensor_read(device->stream, tensor, seen, 12, NULL));
    assert_memory_equal(seen, full, 12);
    tdm_tensor_destroy(tensor);
}

DEVICE_TEST(a_view_keeps_its_buffer) {
    tdm_memory_stats before = {.struct_size = sizeof before}, after = before;
    TEST_OK(tdm_device_memory_stats(device->device, &before));
    tdm_tensor *const tensor = create(device, TDM_F32, 1, DIMS(1000));
    tdm_tensor *view;
    TEST_OK(tdm_tensor_slice(tensor, 0, 0, 10, 1, &view));
    tdm_tensor_destroy(tensor);
    TEST_OK(tdm_device_memory_stats(device->device, &after));
    assert_int_equal(after.requested, before.requested + 4000);
    tdm_tensor_destroy(view);
    TEST_OK(tdm_device_memory_stats(device->device, &after));
    assert_int_equal(after.requested, before.requested);
    assert_int_equal(after.live_blocks, before.live_blocks);
}

DEVICE_TEST(buffers_copy_bytes_and_refuse) {
    tdm_buffer *a, *b;
    unsigned char sent[64], seen[64];
    for (int i = 0; i < 64; i++)
        sent[i] = (unsigned char)(3 * i + 1);
    TEST_OK(tdm_buffer_create(device->device, 64, &a));
    TEST_OK(tdm_buffer_create(device->device, 64, &b));
    TEST_OK(tdm_buffer_write(device->stream, a, 0, sent, 64));
    TEST_OK(tdm_buffer_copy(device->stream, b, 1, a, 0, 63));
    TEST_OK(tdm_buffer_copy(device->stream, b, 0, a, 63, 1));
    TEST_OK(tdm_buffer_read(device->stream, b, 0, seen, 64));
    TEST_OK(tdm_stream_synchronize(device->stream));
    for (int i = 0; i < 64; i++)
        assert_int_equal(seen[i], sent[(i + 63) % 64]);
    TEST_OK(tdm_buffer_write(device->stream, a, 64, NULL, 0));
    TEST_REFUSED(tdm_buffer_write(device->stream, a, 60, sent, 5), TDM_BAD_ARGUMENT, "offset 60");
    TEST_REFUSED(tdm_buffer_read(device->stream, a, SIZE_MAX, seen, 2), TDM_BAD_ARGUMENT,
                 "reach beyond");
    TEST_REFUSED(tdm_buffer_read(device->stream, a, 0, NULL, 2), TDM_BAD_ARGUMENT, "host is NULL");
    TEST_REFUSED(tdm_buffer_copy(device->stream, a, 0, a, 31, 32), TDM_BAD_ARGUMENT, "overlap");
    TEST_OK(tdm_buffer_copy(device->stream, a, 0, a, 32, 32));
    TEST_REFUSED(tdm_buffer_copy(NULL, a, 0, b, 0, 1), TDM_BAD_ARGUMENT, "stream is NULL");
    tdm_buffer_destroy(a);
    TEST_REFUSED(tdm_buffer_create(NULL, 1, &a), TDM_BAD_ARGUMENT, "device is NULL");
    assert_null(a);
    tdm_buffer_destroy(tdm_tensor_buffer(NULL));
    tdm_buffer_destroy(b);
}

DEVICE_TEST(budget_and_statistics_reach_the_device) {
    tdm_memory_stats stats = {.struct_size = sizeof stats};
    TEST_OK(tdm_device_trim(device->device));
    TEST_OK(tdm_device_memory_stats(device->device, &stats));
    TEST_OK(tdm_device_set_memory_budget(device->device, stats.reserved + 1024));
    tdm_buffer *buffer;
    TEST_REFUSED(tdm_buffer_create(device->device, 1 << 20, &buffer), TDM_OVER_BUDGET, "budget");
    assert_null(buffer);
    TEST_OK(tdm_device_set_memory_budget(device->device, 0));
    TEST_OK(tdm_buffer_create(device->device, 1 << 20, &buffer));
    tdm_buffer_destroy(buffer);
    stats.struct_size = 1;
    TEST_REFUSED(tdm_device_memory_stats(device->device, &stats), TDM_BAD_ARGUMENT,
                 "this library's struct has");
    TEST_REFUSED(tdm_device_memory_stats(NULL, &stats), TDM_BAD_ARGUMENT, "device is NULL");
    TEST_REFUSED(tdm_device_memory_stats(device->device, NULL), TDM_BAD_ARGUMENT, "stats is NULL");
    TEST_REFUSED(tdm_device_trim(NULL), TDM_BAD_ARGUMENT, "device is NULL");
}

DEVICE_TEST(devices_are_shared_and_described) {
    tdm_device *again;
    int index;
    TEST_OK(tdm_context_find_device(test_context(), device->info.selector, &index));
    TEST_OK(tdm_device_get(test_context(), index, &again));
    assert_ptr_equal(again, device->device);
    tdm_device_info info = {.struct_size = sizeof info};
    TEST_OK(tdm_device_describe(again, &info));
    assert_string_equal(info.selector, device->info.selector);
    assert_true(info.global_bytes >= info.max_alloc_bytes && info.max_alloc_bytes > 0);
    assert_true(info.compute_units > 0 && info.max_group_items > 0 && info.address_bits >= 32);
    tdm_device_release(again);
    info.struct_size = 2;
    TEST_REFUSED(tdm_device_describe(device->device, &info), TDM_BAD_ARGUMENT,
                 "2, but this library's struct");
}

DEVICE_TEST(overlap_is_recognized) {
    tdm_tensor *const m = create(device, TDM_F32, 2, DIMS(8, 10));
    tdm_tensor *left, *right, *middle, *top, *bottom;
    TEST_OK(tdm_tensor_slice(m, 1, 0, 5, 1, &left));
    TEST_OK(tdm_tensor_slice(m, 1, 5, 10, 1, &right));
    TEST_OK(tdm_tensor_slice(m, 1, 4, 6, 1, &middle));
    TEST_OK(tdm_tensor_slice(m, 0, 0, 4, 1, &top));
    TEST_OK(tdm_tensor_slice(m, 0, 4, 8, 1, &bottom));
    assert_false(tdm_may_overlap(left, right));
    assert_true(tdm_may_overlap(left, middle));
    assert_true(tdm_may_overlap(middle, right));
    assert_false(tdm_may_overlap(top, bottom));
    assert_true(tdm_may_overlap(top, left));
    assert_true(tdm_same_view(left, left));
    assert_false(tdm_same_view(left, right));
    tdm_tensor *const all[] = {left, right, middle, top, bottom, m};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        tdm_tensor_destroy(all[i]);
}

TEST(null_handles_have_no_properties) {
    assert_int_equal(tdm_tensor_dtype(NULL), TDM_DTYPE_NONE);
    assert_int_equal(tdm_tensor_rank(NULL), 0);
    assert_int_equal(tdm_tensor_elements(NULL), 0);
    assert_int_equal(tdm_tensor_is_contiguous(NULL), 0);
    assert_null(tdm_tensor_device(NULL));
    assert_int_equal(tdm_buffer_size(NULL), 0);
    tdm_tensor_destroy(NULL);
    tdm_buffer_destroy(NULL);
    tdm_device_release(NULL);
    tdm_layout layout;
    TEST_REFUSED(tdm_tensor_layout(NULL, &layout), TDM_BAD_ARGUMENT, "tensor is NULL");
    tdm_tensor *scalar;
    TEST_OK(tdm_tensor_create(test_device_at(0)->device, TDM_F32, 0, NULL, &scalar));
    TEST_REFUSED(tdm_tensor_layout(scalar, NULL), TDM_BAD_ARGUMENT, "layout is NULL");
    tdm_tensor_destroy(scalar);
}

TEST_MAIN(test_devices_setup, test_devices_teardown)
