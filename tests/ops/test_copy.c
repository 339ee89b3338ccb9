/* Tests copies between tensors and with the host, and fills: every variant on every device, bit for
 * bit.
 * ctest: device timeout=180 */
#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "api/device/core.h"
#include "common/op_elementwise.h"
#include "quant/number_formats.h"
#include "tests/support/devices/device_cases.h"
#include "tests/support/devices/variant_cases.h"
#include "tests/support/drivers/driver_faults.h"
#include "tests/support/test_array.h"
#include "tests/support/test_case.h"

#define DIMS(...) ((const int64_t[]){__VA_ARGS__})

/*
 * Returns a dtype of each element size, where 0 stands for s4. f16 is used because NaN patterns
 * must survive.
 */
static tdm_dtype dtype_of_bytes(int bytes) {
    return bytes == 0   ? TDM_S4
           : bytes == 1 ? TDM_U8
           : bytes == 2 ? TDM_F16
           : bytes == 4 ? TDM_F32
                        : TDM_S64;
}

static void expect_same_bits(const test_array *target, const test_array *source) {
    const size_t bytes = (size_t)tdm_dtype_info(source->layout.dtype)->unit_bytes;
    for (int64_t i = 0; i < test_array_count(source); i++)
        if (memcmp(test_array_fetched_bits(target, i), test_array_bits(source, i), bytes) != 0)
            test_case_fail("element %lld is another one", (long long)i);
}

/* ---- every variant ---- */

enum {
    F_SHAPE,
    F_X,
    F_Y,
    FACTORS
};

/* If both tensors are dense, the driver's own copy is used. The copy is tested then, but the
 * variant does not run. */
static void copy_case(const test_device *device, const tdm_variant *variant, const op_shape *shape,
                      test_placement x, test_placement y) {
    test_array source, target;
    const tdm_dtype dtype = dtype_of_bytes(variant->parameters[0]);
    test_array_create(&source, device, dtype, shape->rank, shape->shape, x);
    test_array_create(&target, device, dtype, shape->rank, shape->shape, y);
    test_array_fill(&source, TEST_DATA_ANY_BITS, 31);
    test_array_send(&target);
    tdm_force_variant(variant->name);
    const tdm_status status = tdm_tensor_copy(device->stream, source.tensor, target.tensor);
    tdm_force_variant(NULL);
    const bool wide = variant->parameters[1] > 1;
    const bool gaps =
        test_has_gaps(shape->rank, shape->shape, x) || test_has_gaps(shape->rank, shape->shape, y);
    if (status != TDM_UNSUPPORTED || !wide || !gaps) {
        TEST_OK(status);
        test_array_fetch(&target);
        expect_same_bits(&target, &source);
        const bool by_driver = x <= TEST_OFFSET && y <= TEST_OFFSET;
        if (test_array_count(&target) > 1 && !by_driver)
            test_case_end();
    }
    test_array_destroy(&source);
    test_array_destroy(&target);
}

static void fill_case(const test_device *device, const tdm_variant *variant, const op_shape *shape,
                      double value, test_placement y) {
    const int bytes = variant->parameters[0];
    const tdm_dtype dtype = bytes == 8 ? TDM_F64 : dtype_of_bytes(bytes);
    test_array target;
    test_array_create(&target, device, dtype, shape->rank, shape->shape, y);
    test_array_send(&target);
    tdm_force_variant(variant->name);
    const tdm_status status = tdm_tensor_fill(device->stream, value, target.tensor);
    tdm_force_variant(NULL);
    if (status == TDM_UNSUPPORTED && variant->parameters[1] > 1 &&
        test_has_gaps(shape->rank, shape->shape, y)) {
        test_array_destroy(&target);
        return;
    }
    TEST_OK(status);
    test_array_fetch(&target);
    unsigned char expected[8];
    if (dtype != TDM_S4)
        tdm_number_set(dtype, expected, 0, value);
    for (int64_t i = 0; i < test_array_count(&target); i++)
        if (dtype == TDM_S4
                ? test_array_fetched(&target, i) != fmin(fmax(rint(value), -8), 7)
                : memcmp(test_array_fetched_bits(&target, i), expected, (size_t)bytes) != 0)
            test_case_fail("element %lld is %g", (long long)i, test_array_fetched(&target, i));
    if (test_array_count(&target) > 1 && y > TEST_OFFSET)
        test_case_end();
    test_array_destroy(&target);
}

static void one_case(const test_device *device, const tdm_variant *variant, const int row[]) {
    static const double values[] = {0.0, 1.0, -2.5, 300.0, 0.1};
    const op_shape *const shape = &op_elementwise_shapes[row[F_SHAPE]];
    const test_placement x = (test_placement)row[F_X];
    const test_placement y = (test_placement)row[F_Y];
    char text[128];
    test_shape_text(shape->rank, shape->shape, text);
    if (variant->op == TDM_OP_COPY) {
        if (test_case_begin(device, variant->name, "%s %s to %s", text, test_placement_name(x),
                            test_placement_name(y)))
            copy_case(device, variant, shape, x, y);
    } else if (test_case_begin(device, variant->name, "%s %s with %g", text, test_placement_name(y),
                               values[row[F_X]])) {
        fill_case(device, variant, shape, values[row[F_X]], y);
    }
}

static void every_variant(tdm_op op) {
    const int levels[FACTORS] = {test_is_small() ? OP_ELEMENTWISE_SMALL_SHAPES
                                                 : OP_ELEMENTWISE_SHAPES,
                                 TEST_PLACEMENTS, TEST_PLACEMENTS};
    test_every_variant(op, FACTORS, levels, one_case);
}

TEST(every_copy) {
    every_variant(TDM_OP_COPY);
}

TEST(every_fill) {
    every_variant(TDM_OP_FILL);
}

/* ---- broadcast sources, equal views ---- */

DEVICE_TEST(a_repeated_source_is_spread_out) {
    test_array source, target;
    test_array_create(&source, device, TDM_S32, 1, DIMS(5), TEST_DENSE);
    test_array_create(&target, device, TDM_S32, 2, DIMS(7, 5), TEST_PADDED);
    test_array_fill(&source, TEST_DATA_UNIT, 3);
    test_array_send(&target);
    tdm_tensor *repeated;
    TEST_OK(tdm_tensor_broadcast(source.tensor, 2, DIMS(7, 5), &repeated));
    TEST_OK(tdm_tensor_copy(device->stream, repeated, target.tensor));
    test_array_fetch(&target);
    for (int64_t i = 0; i < 35; i++)
        assert_true(test_array_fetched(&target, i) == test_array_get(&source, i % 5));
    tdm_tensor_destroy(repeated);
    test_array_destroy(&source);
    test_array_destroy(&target);
}

/* Copies and fills a tensor of about `bytes` bytes, which is long enough to be split among cores.
 * `place` is the placement of the copy's source and of the fill's target. */
static void copy_and_fill(const test_device *device, tdm_dtype dtype, double value,
                          test_placement place, int64_t bytes) {
    test_array source, target;
    const int unit = tdm_dtype_info(dtype)->unit_bytes;
    unsigned char expected[8] = {0};
    test_array_create(&source, device, dtype, 1, DIMS(bytes / unit), place);
    test_array_create(&target, device, dtype, 1, DIMS(bytes / unit), TEST_DENSE);
    test_array_fill(&source, TEST_DATA_ANY_BITS, 3);
    test_array_send(&target);
    TEST_OK(tdm_tensor_copy(device->stream, source.tensor, target.tensor));
    test_array_fetch(&target);
    expect_same_bits(&target, &source);
    TEST_OK(tdm_tensor_fill(device->stream, value, source.tensor));
    test_array_fetch(&source);
    tdm_number_set(dtype, expected, 0, value);
    for (int64_t i = 0; i < test_array_count(&source); i++)
        if (memcmp(test_array_fetched_bits(&source, i), expected, (size_t)unit) != 0)
            test_case_fail("%s: element %lld is %g", tdm_dtype_name(dtype), (long long)i,
                           test_array_fetched(&source, i));
    test_array_destroy(&source);
    test_array_destroy(&target);
}

/* Tests cached and non-temporal stores. */
DEVICE_TEST(large_dense_copies_and_fills) {
    static const struct {
        tdm_dtype dtype;
        double value;
    } rows[] = {{TDM_U8, 77}, {TDM_F16, 0.1}, {TDM_F32, -2.7}, {TDM_F64, 0.0}, {TDM_F64, 0.1}};
    const int64_t bytes = test_is_small() ? 4012 : (1 << 20) + 4008;
    for (int i = 0; i < 10; i++) {
        test_pass_caches(device, i >= 5);
        copy_and_fill(device, rows[i % 5].dtype, rows[i % 5].value, TEST_DENSE, bytes);
        copy_and_fill(device, rows[i % 5].dtype, rows[i % 5].value, TEST_OFFSET, bytes - 3);
    }
    test_pass_caches(device, false);
}

/* The driver's own copy and fill need no kernel, so recording does not have to build one. */
DEVICE_TEST(long_runs_are_recorded_without_kernels) {
    test_array source, target, filled;
    tdm_graph *graph;
    const int64_t *const shape = DIMS(1 << 18);
    test_array_create(&source, device, TDM_F32, 1, shape, TEST_DENSE);
    test_array_create(&target, device, TDM_F32, 1, shape, TEST_DENSE);
    test_array_create(&filled, device, TDM_F32, 1, shape, TEST_DENSE);
    test_array_fill(&source, TEST_DATA_UNIT, 91);
    test_array_send(&target);
    test_array_send(&filled);
    TEST_OK(tdm_stream_begin_recording(device->stream));
    TEST_OK(tdm_tensor_copy(device->stream, source.tensor, target.tensor));
    TEST_OK(tdm_tensor_fill(device->stream, 2.5, filled.tensor));
    TEST_OK(tdm_stream_end_recording(device->stream, &graph));
    TEST_OK(tdm_graph_launch(graph, device->stream));
    test_array_fetch(&target);
    test_array_fetch(&filled);
    for (int64_t i = 0; i < test_array_count(&target); i++) {
        assert_true(test_array_fetched(&target, i) == test_array_get(&source, i));
        assert_true(test_array_fetched(&filled, i) == 2.5);
    }
    tdm_graph_destroy(graph);
    test_array_destroy(&source);
    test_array_destroy(&target);
    test_array_destroy(&filled);
}

DEVICE_TEST(equal_views_are_left_alone) {
    test_array x;
    test_array_create(&x, device, TDM_F32, 2, DIMS(4, 6), TEST_DENSE);
    test_array_fill(&x, TEST_DATA_UNIT, 3);
    TEST_OK(tdm_tensor_copy(device->stream, x.tensor, x.tensor));
    test_array_expect_unchanged(&x);
    test_array_destroy(&x);
}

/* ---- the host ---- */

/* Computes the element strides of a host array of this shape. Kinds are dense, padded, transposed
 * (last dimension first), and with gaps. Returns the extent in elements. */
static size_t host_layout(const op_shape *shape, int kind, int64_t strides[TDM_MAX_RANK]) {
    tdm_layout layout;
    static const test_placement placements[] = {TEST_DENSE, TEST_PADDED, TEST_TRANSPOSED,
                                                TEST_SPREAD};
    test_layout_place(&layout, TDM_F16, shape->rank, shape->shape, placements[kind]);
    memcpy(strides, layout.strides, sizeof layout.strides);
    return (size_t)tdm_layout_extent(&layout);
}

static size_t host_place(const op_shape *shape, const int64_t *strides, int64_t index) {
    int64_t place = 0;
    for (int d = shape->rank - 1; d >= 0; d--) {
        place += index % shape->shape[d] * strides[d];
        index /= shape->shape[d];
    }
    return (size_t)place;
}

static void host_round_trip(const test_device *device, const op_shape *shape,
                            test_placement placement, int kind, bool async) {
    int64_t strides[TDM_MAX_RANK];
    const size_t extent = host_layout(shape, kind, strides);
    const size_t bytes = extent * sizeof(uint16_t);
    uint16_t *const sent = malloc(bytes + 1);
    uint16_t *const received = malloc(bytes + 1);
    assert_true(sent != NULL && received != NULL);
    test_data_fill(TDM_F16, sent, extent, TEST_DATA_ANY_BITS, 77);
    memset(received, 0x5a, bytes);

    test_array x;
    test_array_create(&x, device, TDM_F16, shape->rank, shape->shape, placement);
    test_array_send(&x);
    const int64_t *const given = kind == 0 ? NULL : strides;
    tdm_stream *const s = device->stream;
    TEST_OK(async ? tdm_tensor_write_async(s, sent, bytes, given, x.tensor)
                  : tdm_tensor_write(s, sent, bytes, given, x.tensor));
    TEST_OK(async ? tdm_tensor_read_async(s, x.tensor, received, bytes, given)
                  : tdm_tensor_read(s, x.tensor, received, bytes, given));
    if (async)
        TEST_OK(tdm_stream_synchronize(s));
    test_array_fetch(&x);
    uint16_t *const expected = malloc(bytes + 1);
    assert_non_null(expected);
    memset(expected, 0x5a, bytes);
    for (int64_t i = 0; i < test_array_count(&x); i++) {
        const size_t place = host_place(shape, strides, i);
        expected[place] = sent[place];
        if (memcmp(test_array_fetched_bits(&x, i), &sent[place], sizeof sent[0]) != 0)
            test_case_fail("rank %d, %s, host %d: element %lld did not arrive", shape->rank,
                           test_placement_name(placement), kind, (long long)i);
    }
    /* The gaps between elements on the host stay unchanged. */
    if (memcmp(received, expected, bytes) != 0)
        test_case_fail("rank %d, %s, host %d: what came back differs", shape->rank,
                       test_placement_name(placement), kind);
    free(sent);
    free(received);
    free(expected);
    test_array_destroy(&x);
}

DEVICE_TEST(host_copies) {
    const int each = TEST_PLACEMENTS * 4 * 2;
    for (int n = 0; n < OP_ELEMENTWISE_SMALL_SHAPES * each; n++)
        host_round_trip(device, &op_elementwise_shapes[n / each],
                        (test_placement)(n % TEST_PLACEMENTS), n / TEST_PLACEMENTS % 4,
                        n / TEST_PLACEMENTS / 4 % 2 != 0);
}

/* The call fails after it lent memory to the driver. When it returns, nothing may use the memory
 * any more. */
typedef struct lent_case {
    const char *failing; /* the driver call */
    test_placement placement;
    int kind; /* of host_layout */
    bool to_host;
} lent_case;

static const lent_case lent_cases[] = {
    // The first copy uses the caller's memory.
    {"clEnqueueNDRangeKernel", TEST_TRANSPOSED, 0, false},
    // The driver uses a dense copy of the caller's memory.
    {"clEnqueueBarrierWithWaitList", TEST_DENSE, 1, false},
    {"clEnqueueBarrierWithWaitList", TEST_TRANSPOSED, 1, false},
    {"clEnqueueBarrierWithWaitList", TEST_DENSE, 1, true},
    {"clEnqueueBarrierWithWaitList", TEST_TRANSPOSED, 1, true},
};

/* This is CL_OUT_OF_RESOURCES. */
#define OUT_OF_RESOURCES (-5)

/* These are not on the stack, because a call that does not wait would leave them in use. */
static atomic_bool is_done;
static unsigned char lent[256], as_lent[256];

static void finish_late(void *user) {
    const struct timespec pause = {.tv_nsec = 100000000};
    (void)user;
    nanosleep(&pause, NULL);
    atomic_store(&is_done, true);
}

static void fail_behind_task(const test_device *device, const lent_case *c, bool async) {
    static const op_shape shape = {2, {5, 7}};
    int64_t strides[TDM_MAX_RANK];
    assert_in_range(host_layout(&shape, c->kind, strides), 1, sizeof lent / sizeof(uint16_t));
    const int64_t *const given = c->kind == 0 ? NULL : strides;
    tdm_stream *const s = device->stream;
    test_array x;
    test_array_create(&x, device, TDM_F16, shape.rank, shape.shape, c->placement);
    test_array_fill(&x, TEST_DATA_UNIT, 5);
    memset(lent, 0x5a, sizeof lent);
    memset(as_lent, 0x5a, sizeof as_lent);
    atomic_store(&is_done, false);
    TEST_OK(tdm_stream_host_task(s, finish_late, NULL));
    test_fault_plant(c->failing, 1, OUT_OF_RESOURCES, false);
    tdm_status status;
    if (c->to_host)
        status = async ? tdm_tensor_read_async(s, x.tensor, lent, sizeof lent, given)
                       : tdm_tensor_read(s, x.tensor, lent, sizeof lent, given);
    else
        status = async ? tdm_tensor_write_async(s, lent, sizeof lent, given, x.tensor)
                       : tdm_tensor_write(s, lent, sizeof lent, given, x.tensor);
    tdm_fault_clear();
    const bool waited = atomic_load(&is_done);
    TEST_REFUSED(status, TDM_INTERNAL, test_code_name(OUT_OF_RESOURCES));
    TEST_OK(tdm_stream_synchronize(s));
    assert_true(waited);
    assert_memory_equal(lent, as_lent, sizeof lent);
    test_array_destroy(&x);
    /* The stream continues to work. */
    host_round_trip(device, &shape, c->placement, c->kind, async);
}

DEVICE_TEST(host_copies_that_fail_wait_first) {
    if (!(device->info.capabilities & TDM_CAP_HOST_TASK))
        return;
    /* CUDA streams keep their order without a barrier, so no barrier can fail. */
    const size_t count = test_runs_on_cuda() ? 1 : sizeof lent_cases / sizeof lent_cases[0];
    for (size_t i = 0; i < count; i++) {
        fail_behind_task(device, &lent_cases[i], false);
        fail_behind_task(device, &lent_cases[i], true);
    }
}

/* There are more rows than the height of a CUDA grid, with one work-group each. Memory checkers are
 * too slow for that. */
DEVICE_TEST(rows_beyond_the_grid) {
    const bool checked = !(device->info.capabilities & TDM_CAP_SLABS);
    const int64_t rows = checked ? 67 : 65539, columns = 256;
    const size_t bytes = (size_t)(rows * columns);
    tdm_tensor *x, *y, *spread;
    TEST_OK(tdm_tensor_create(device->device, TDM_U8, 2, DIMS(rows, 2 * columns), &x));
    TEST_OK(tdm_tensor_create(device->device, TDM_U8, 2, DIMS(rows, columns), &y));
    TEST_OK(tdm_tensor_view(x, 2, DIMS(rows, columns), DIMS(2 * columns, 2), 1, &spread));
    uint8_t *const given = malloc(2 * bytes), *const got = malloc(bytes);
    assert_non_null(given);
    assert_non_null(got);
    for (size_t i = 0; i < 2 * bytes; i++)
        given[i] = (uint8_t)(i * 2654435761U >> 24);
    TEST_OK(tdm_tensor_write(device->stream, given, 2 * bytes, NULL, x));
    TEST_OK(tdm_tensor_copy(device->stream, spread, y));
    TEST_OK(tdm_tensor_read(device->stream, y, got, bytes, NULL));
    for (size_t i = 0; i < bytes; i++)
        if (got[i] != given[2 * i + 1])
            test_case_fail("element %zu is another one", i);
    free(given);
    free(got);
    tdm_tensor_destroy(spread);
    tdm_tensor_destroy(x);
    tdm_tensor_destroy(y);
}

/* ---- misuse ---- */

DEVICE_TEST(copy_misuse_is_refused) {
    test_array x, y, wide;
    test_array_create(&x, device, TDM_F32, 2, DIMS(4, 6), TEST_DENSE);
    test_array_create(&y, device, TDM_F32, 2, DIMS(6, 4), TEST_DENSE);
    test_array_create(&wide, device, TDM_S32, 2, DIMS(4, 6), TEST_DENSE);
    test_array_send(&x);
    test_array_send(&y);
    tdm_tensor *shifted, *repeated, *flags;
    TEST_OK(tdm_tensor_create(device->device, TDM_F8E4M3, 1, DIMS(8), &flags));
    TEST_OK(tdm_tensor_view(x.tensor, 2, DIMS(4, 6), DIMS(6, 1), 2, &shifted));
    TEST_OK(tdm_tensor_view(x.tensor, 2, DIMS(4, 6), DIMS(0, 1), 0, &repeated));
    tdm_stream *const s = device->stream;
    TEST_REFUSED(tdm_tensor_copy(s, x.tensor, y.tensor), TDM_BAD_SHAPE, "[4, 6] but target [6, 4]");
    TEST_REFUSED(tdm_tensor_copy(s, wide.tensor, x.tensor), TDM_BAD_DTYPE, "copy: source is s32");
    TEST_REFUSED(tdm_tensor_copy(s, x.tensor, shifted), TDM_BAD_ARGUMENT, "target overlaps source");
    TEST_REFUSED(tdm_tensor_copy(s, x.tensor, repeated), TDM_BAD_ARGUMENT,
                 "elements of the output target overlap in memory");
    TEST_REFUSED(tdm_tensor_copy(s, x.tensor, NULL), TDM_BAD_ARGUMENT, "copy: target is NULL");
    TEST_REFUSED(tdm_tensor_copy(s, NULL, x.tensor), TDM_BAD_ARGUMENT, "copy: source is NULL");
    TEST_REFUSED(tdm_tensor_copy(NULL, y.tensor, x.tensor), TDM_BAD_ARGUMENT, "stream is NULL");
    TEST_REFUSED(tdm_tensor_fill(s, 1.0, NULL), TDM_BAD_ARGUMENT, "fill: target is NULL");
    TEST_REFUSED(tdm_tensor_fill(s, 1.0, flags), TDM_UNSUPPORTED, "fill: target is f8e4m3");
    tdm_tensor_destroy(flags);
    TEST_REFUSED(tdm_tensor_fill(s, 1.0, repeated), TDM_BAD_ARGUMENT, "of the output target");
    test_array_expect_unchanged(&x);
    test_array_expect_unchanged(&y);
    tdm_tensor_destroy(shifted);
    tdm_tensor_destroy(repeated);
    test_array_destroy(&x);
    test_array_destroy(&y);
    test_array_destroy(&wide);
}

/* An odd count ends inside a byte, whose other half is a gap. Offsets and strides leave out whole
 * bytes. */
DEVICE_TEST(nibbles_are_filled) {
    static const double values[][2] = {{7.4, 7},        {1e9, 7},   {-1e9, -8}, {3.5, 4},
                                       {-0.5, 0},       {-8.5, -8}, {NAN, 0},   {INFINITY, 7},
                                       {-INFINITY, -8}, {7.5, 7}};
    for (size_t i = 0; i < 10 * TEST_PLACEMENTS; i++) {
        const double *const row = values[i / TEST_PLACEMENTS];
        test_array target;
        test_array_create(&target, device, TDM_S4, 2, DIMS(3, 37),
                          (test_placement)(i % TEST_PLACEMENTS));
        test_array_send(&target);
        TEST_OK(tdm_tensor_fill(device->stream, row[0], target.tensor));
        test_array_fetch(&target);
        for (int64_t at = 0; at < test_array_count(&target); at++)
            if (test_array_fetched(&target, at) != row[1])
                test_case_fail("placement %zu, %g: element %lld is %g", i % TEST_PLACEMENTS, row[0],
                               (long long)at, test_array_fetched(&target, at));
        test_array_destroy(&target);
    }
}

DEVICE_TEST(tensors_are_made_of_host_memory) {
    const float host[6] = {1, -2, 3, 4, -5, 6};
    float back[6] = {0};
    tdm_tensor *tensor = NULL;
    TEST_OK(tdm_tensor_from_host(device->stream, TDM_F32, 2, DIMS(2, 3), host, &tensor));
    assert_int_equal(tdm_tensor_dim(tensor, 1), 3);
    TEST_OK(tdm_tensor_read(device->stream, tensor, back, sizeof back, NULL));
    assert_memory_equal(host, back, sizeof host);
    tdm_tensor_destroy(tensor);
    TEST_REFUSED(tdm_tensor_from_host(device->stream, TDM_F32, 2, DIMS(2, 3), NULL, &tensor),
                 TDM_BAD_ARGUMENT, "host is NULL");
    assert_null(tensor);
    TEST_REFUSED(tdm_tensor_from_host(NULL, TDM_F32, 2, DIMS(2, 3), host, &tensor),
                 TDM_BAD_ARGUMENT, "stream is NULL");
    TEST_REFUSED(tdm_tensor_from_host(device->stream, TDM_F32, 2, DIMS(2, 3), host, NULL),
                 TDM_BAD_ARGUMENT, "tensor is NULL");
    TEST_REFUSED(tdm_tensor_from_host(device->stream, TDM_F32, 2, DIMS(2, -3), host, &tensor),
                 TDM_BAD_SHAPE, "-3");
    TEST_OK(tdm_tensor_from_host(device->stream, TDM_F16, 1, DIMS(0), NULL, &tensor));
    tdm_tensor_destroy(tensor);
}

DEVICE_TEST(host_misuse_is_refused) {
    test_array x;
    float host[64] = {0};
    test_array_create(&x, device, TDM_F32, 2, DIMS(4, 6), TEST_DENSE);
    test_array_send(&x);
    tdm_stream *const s = device->stream;
    tdm_tensor *const t = x.tensor;
    TEST_REFUSED(tdm_tensor_write(s, host, 95, NULL, t), TDM_BAD_SHAPE, "but host_bytes is 95");
    TEST_REFUSED(tdm_tensor_read(s, t, host, 96, DIMS(10, 1)), TDM_BAD_SHAPE, "host_bytes is 96");
    TEST_REFUSED(tdm_tensor_read(s, t, host, sizeof host, DIMS(5, 1)), TDM_BAD_ARGUMENT,
                 "tensor_read: elements overlap with these host_strides");
    TEST_REFUSED(tdm_tensor_write(s, host, sizeof host, DIMS(-6, 1), t), TDM_BAD_SHAPE,
                 "tensor_write: host_strides");
    TEST_REFUSED(tdm_tensor_write(s, host, sizeof host, DIMS(INT64_MAX, 1), t), TDM_BAD_SHAPE,
                 "overflows");
    TEST_REFUSED(tdm_tensor_write(s, NULL, 96, NULL, t), TDM_BAD_ARGUMENT, "host is NULL");
    TEST_REFUSED(tdm_tensor_write(s, host, 96, NULL, NULL), TDM_BAD_ARGUMENT, "target is NULL");
    TEST_REFUSED(tdm_tensor_read(s, NULL, host, 96, NULL), TDM_BAD_ARGUMENT, "source is NULL");
    TEST_REFUSED(tdm_tensor_read(NULL, t, host, 96, NULL), TDM_BAD_ARGUMENT, "stream is NULL");
    TEST_OK(tdm_stream_begin_recording(s));
    TEST_REFUSED(tdm_tensor_write_async(s, host, 96, NULL, t), TDM_BAD_STATE, "record");
    TEST_REFUSED(tdm_tensor_read(s, t, host, 96, NULL), TDM_BAD_STATE, "record");
    tdm_graph *graph;
    TEST_OK(tdm_stream_end_recording(s, &graph));
    tdm_graph_destroy(graph);
    test_array_expect_unchanged(&x);
    test_array_destroy(&x);
}

TEST_MAIN(test_devices_setup, test_devices_teardown)
