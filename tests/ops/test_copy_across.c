// Tensors are copied between two devices: of two contexts, and of two drivers if the run has them.
// ctest: device threads
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "api/device/core.h"
#include "tests/support/devices/device_cases.h"
#include "tests/support/devices/own_device.h"
#include "tests/support/test_case.h"
#include "tests/support/test_data.h"

#define MIB ((int64_t)1 << 20)

typedef struct endpoint {
    tdm_device *device;
    tdm_stream *stream;
    const char *name;
} endpoint;

typedef void (*pair_test)(const endpoint *from, const endpoint *to);

/* Runs the test from the device to itself in another context, and to each other device of the
 * run. */
static void on_each_pair(const test_device *device, pair_test test) {
    const endpoint here = {device->device, device->stream, device->info.selector};
    own_device second = own_device_open(device, 0);
    test(&here, &(endpoint){second.device, second.stream, "a second device object"});
    test(&(endpoint){second.device, second.stream, "a second device object"}, &here);
    own_device_close(&second);
    for (int i = 0; i < test_device_count(); i++) {
        const test_device *const other = test_device_at(i);
        if (other->device != device->device)
            test(&here, &(endpoint){other->device, other->stream, other->info.selector});
    }
}

/* ---- values and layouts ---------------------------------------------------------------------- */

typedef enum arrangement {
    DENSE,
    OFFSET,     /* dense, some elements into its buffer */
    TRANSPOSED, /* columns are dense */
    GAPS,       /* every second row of a wider matrix, from a column on */
    BROADCAST   /* one row for all: sources only */
} arrangement;

static const char *const arrangement_names[] = {"dense", "offset", "transposed", "gaps",
                                                "broadcast"};

typedef struct matrix {
    tdm_tensor *whole; /* dense */
    tdm_tensor *view;  /* [rows, columns] of it */
    unsigned char *host;
    size_t bytes; /* of the whole */
} matrix;

static matrix matrix_create(const endpoint *end, tdm_dtype dtype, arrangement how, int64_t rows,
                            int64_t columns, uint64_t seed) {
    matrix made;
    const int64_t pitch = how == GAPS ? 2 * (columns + 6) : how == TRANSPOSED ? rows : columns;
    const int64_t elements = how == TRANSPOSED ? rows * columns : rows * pitch + 16;
    const int64_t strides[2] = {how == TRANSPOSED  ? 1
                                : how == BROADCAST ? 0
                                                   : pitch,
                                how == TRANSPOSED ? pitch : 1};
    const int64_t offset = how == OFFSET ? 6 : how == GAPS ? 4 : 0;
    TEST_OK(tdm_tensor_create(end->device, dtype, 1, &elements, &made.whole));
    TEST_OK(tdm_tensor_view(made.whole, 2, (const int64_t[]){rows, columns}, strides, offset,
                            &made.view));
    TEST_OK(tdm_dtype_bytes(dtype, elements, &made.bytes));
    made.host = malloc(made.bytes);
    assert_non_null(made.host);
    test_random random = {.state = seed};
    for (size_t i = 0; i < made.bytes; i += sizeof(uint64_t)) {
        const uint64_t bits = test_random_bits(&random);
        memcpy(made.host + i, &bits, made.bytes - i < sizeof bits ? made.bytes - i : sizeof bits);
    }
    TEST_OK(tdm_tensor_write(end->stream, made.host, made.bytes, NULL, made.whole));
    return made;
}

static void matrix_destroy(matrix *made) {
    tdm_tensor_destroy(made->view);
    tdm_tensor_destroy(made->whole);
    free(made->host);
}

/* Returns the bit offset of an element of the view in the host's copy of the whole tensor. */
static int64_t bit_place(const matrix *made, int64_t row, int64_t column, int bits) {
    return (tdm_tensor_offset(made->view) + row * tdm_tensor_stride(made->view, 0) +
            column * tdm_tensor_stride(made->view, 1)) *
           bits;
}

static unsigned nibble_at(const unsigned char *bytes, int64_t bit) {
    return bytes[bit / 8] >> (bit % 8) & 15u;
}

/* Writes the expected contents of the whole target: the source's elements at their positions, and
 * everything else unchanged. */
static void put_expected(matrix *target, const matrix *source, tdm_dtype dtype) {
    const int bits = tdm_dtype_info(dtype)->bits;
    const int64_t columns = tdm_tensor_dim(target->view, 1);
    const bool runs = bits >= 8 && tdm_tensor_stride(target->view, 1) == 1 &&
                      tdm_tensor_stride(source->view, 1) == 1;
    for (int64_t r = 0; r < tdm_tensor_dim(target->view, 0); r++) {
        if (runs) {
            memcpy(target->host + bit_place(target, r, 0, bits) / 8,
                   source->host + bit_place(source, r, 0, bits) / 8, (size_t)(columns * bits / 8));
            continue;
        }
        for (int64_t c = 0; c < columns; c++) {
            const int64_t to = bit_place(target, r, c, bits);
            const int64_t from = bit_place(source, r, c, bits);
            if (bits >= 8) {
                memcpy(target->host + to / 8, source->host + from / 8, (size_t)bits / 8);
                continue;
            }
            const unsigned kept = target->host[to / 8] & (15u << (4 - to % 8));
            target->host[to / 8] =
                (unsigned char)(kept | nibble_at(source->host, from) << (to % 8));
        }
    }
}

static void check_one(const endpoint *from, const endpoint *to, tdm_dtype dtype, arrangement given,
                      arrangement wanted, int64_t rows, int64_t columns) {
    matrix source = matrix_create(from, dtype, given, rows, columns, 17);
    matrix target = matrix_create(to, dtype, wanted, rows, columns, 18);
    unsigned char *const found = malloc(target.bytes);
    assert_non_null(found);
    put_expected(&target, &source, dtype);
    TEST_OK(tdm_tensor_copy_across(from->stream, source.view, to->stream, target.view));
    TEST_OK(tdm_tensor_read(to->stream, target.whole, found, target.bytes, NULL));
    if (memcmp(found, target.host, target.bytes) != 0)
        test_case_fail("%s, %s to %s, %lld x %lld from %s to %s: other bytes arrived",
                       tdm_dtype_name(dtype), arrangement_names[given], arrangement_names[wanted],
                       (long long)rows, (long long)columns, from->name, to->name);
    free(found);
    matrix_destroy(&source);
    matrix_destroy(&target);
}

static void check_layouts(const endpoint *from, const endpoint *to) {
    static const tdm_dtype dtypes[] = {TDM_F32, TDM_F16, TDM_S8, TDM_F64, TDM_S64, TDM_U8};
    for (size_t i = 0; i < sizeof dtypes / sizeof dtypes[0]; i++)
        for (arrangement given = DENSE; given <= BROADCAST; given++)
            for (arrangement wanted = DENSE; wanted < BROADCAST; wanted++)
                check_one(from, to, dtypes[i], given, wanted, 7, 13);
    check_one(from, to, TDM_S4, DENSE, DENSE, 7, 12);
    check_one(from, to, TDM_S4, OFFSET, OFFSET, 3, 8);
    check_one(from, to, TDM_S4, GAPS, DENSE, 5, 6);
    check_one(from, to, TDM_S4, DENSE, GAPS, 5, 6);
    check_one(from, to, TDM_F32, DENSE, DENSE, 1, 1);
}

/* ---- pieces ---------------------------------------------------------------------------------- */

static void check_sizes(const endpoint *from, const endpoint *to) {
    static const int64_t sizes[] = {4 * MIB + 1, 4 * MIB, 13 * MIB + 7};
    const size_t count = test_is_small() ? 1 : sizeof sizes / sizeof sizes[0];
    for (size_t i = 0; i < count; i++)
        check_one(from, to, TDM_U8, OFFSET, DENSE, 1, sizes[i]);
    check_one(from, to, TDM_F32, TRANSPOSED, GAPS, 512, test_is_small() ? 64 : 2101);
}

/* Tests copies with and without a pinned staging piece of the source device. */
static void check_rings(const endpoint *from, const endpoint *to) {
    const bool given = from->device->stages_copies;
    for (int staged = 0; staged < 2; staged++) {
        tdm_memory_stats before = {.struct_size = sizeof before}, after = before;
        from->device->stages_copies = staged != 0;
        TEST_OK(tdm_device_host_memory_stats(from->device, &before));
        check_sizes(from, to);
        TEST_OK(tdm_device_host_memory_stats(from->device, &after));
        assert_true((after.allocations > before.allocations) == (staged != 0) || given);
        assert_int_equal(after.live_blocks, before.live_blocks);
    }
    from->device->stages_copies = given;
}

static void check_empty(const endpoint *from, const endpoint *to) {
    tdm_tensor *a, *b;
    TEST_OK(tdm_tensor_create(from->device, TDM_F32, 2, (const int64_t[]){0, 5}, &a));
    TEST_OK(tdm_tensor_create(to->device, TDM_F32, 2, (const int64_t[]){0, 5}, &b));
    TEST_OK(tdm_tensor_copy_across(from->stream, a, to->stream, b));
    tdm_tensor_destroy(a);
    tdm_tensor_destroy(b);
}

/* ---- order ----------------------------------------------------------------------------------- */

static void sleep_a_while(void *user) {
    const struct timespec *const time = user;
    nanosleep(time, NULL);
}

/*
 * The source is filled late and overwritten as soon as the call returns. The target is read late
 * and overwritten afterwards. Neither side may see data out of order. */
static void check_order(const endpoint *from, const endpoint *to) {
    static struct timespec time = {.tv_nsec = 20 * 1000 * 1000};
    const int64_t count = test_is_small() ? 1000 : 3 * MIB;
    tdm_tensor *source, *target, *first, *second;
    float found[4];
    TEST_OK(tdm_tensor_create(from->device, TDM_F32, 1, &count, &source));
    TEST_OK(tdm_tensor_create(to->device, TDM_F32, 1, &count, &target));
    TEST_OK(tdm_tensor_slice(target, 0, 0, 2, 1, &first));
    TEST_OK(tdm_tensor_slice(target, 0, count - 2, count, 1, &second));
    TEST_OK(tdm_tensor_fill(from->stream, 1, source));
    TEST_OK(tdm_stream_host_task(from->stream, sleep_a_while, &time));
    TEST_OK(tdm_tensor_fill(from->stream, 2, source));
    TEST_OK(tdm_stream_host_task(to->stream, sleep_a_while, &time));
    TEST_OK(tdm_tensor_fill(to->stream, 3, target));
    TEST_OK(tdm_tensor_copy_across(from->stream, source, to->stream, target));
    TEST_OK(tdm_tensor_fill(from->stream, 4, source));
    TEST_OK(tdm_tensor_read_async(to->stream, first, found, 2 * sizeof *found, NULL));
    TEST_OK(tdm_tensor_read_async(to->stream, second, found + 2, 2 * sizeof *found, NULL));
    TEST_OK(tdm_tensor_fill(to->stream, 5, target));
    TEST_OK(tdm_stream_synchronize(to->stream));
    for (int i = 0; i < 4; i++)
        if (found[i] != 2)
            test_case_fail("from %s to %s: %g instead of 2", from->name, to->name, found[i]);
    TEST_OK(tdm_stream_synchronize(from->stream));
    tdm_tensor_destroy(first);
    tdm_tensor_destroy(second);
    tdm_tensor_destroy(source);
    tdm_tensor_destroy(target);
}

/* ---- refusals and failures ------------------------------------------------------------------- */

static void check_refusals(const endpoint *from, const endpoint *to) {
    tdm_tensor *source, *target, *longer, *integers, *row, *repeated;
    tdm_graph *graph;
    TEST_OK(tdm_tensor_create(from->device, TDM_F32, 1, (const int64_t[]){8}, &source));
    TEST_OK(tdm_tensor_create(to->device, TDM_F32, 1, (const int64_t[]){8}, &target));
    TEST_OK(tdm_tensor_create(to->device, TDM_F32, 1, (const int64_t[]){9}, &longer));
    TEST_OK(tdm_tensor_create(to->device, TDM_S32, 1, (const int64_t[]){8}, &integers));
    TEST_OK(tdm_tensor_slice(target, 0, 0, 1, 1, &row));
    TEST_OK(tdm_tensor_broadcast(row, 1, (const int64_t[]){8}, &repeated));
    tdm_stream *const a = from->stream, *const b = to->stream;
    const struct {
        tdm_stream *from;
        tdm_tensor *source;
        tdm_stream *to;
        tdm_tensor *target;
        tdm_status status;
        const char *part;
    } rows[] = {
        {a, source, NULL, target, TDM_BAD_ARGUMENT, "target_stream is NULL"},
        {NULL, source, b, target, TDM_BAD_ARGUMENT, "source_stream is NULL"},
        {a, source, b, NULL, TDM_BAD_ARGUMENT, "target is NULL"},
        {a, NULL, b, target, TDM_BAD_ARGUMENT, "source is NULL"},
        {a, source, a, target, TDM_BAD_ARGUMENT, "copy_across: target is on device"},
        {b, source, b, target, TDM_BAD_ARGUMENT, "copy_across: source is on device"},
        {a, source, b, longer, TDM_BAD_SHAPE, "[8] but target [9]"},
        {a, source, b, integers, TDM_BAD_DTYPE, "source is f32 but target is s32"},
        {a, source, b, repeated, TDM_BAD_ARGUMENT, "overlap in memory"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        TEST_REFUSED(
            tdm_tensor_copy_across(rows[i].from, rows[i].source, rows[i].to, rows[i].target),
            rows[i].status, rows[i].part);
    for (int i = 0; i < 2; i++) {
        tdm_stream *const recording = i ? from->stream : to->stream;
        TEST_OK(tdm_stream_begin_recording(recording));
        TEST_REFUSED(tdm_tensor_copy_across(from->stream, source, to->stream, target),
                     TDM_BAD_STATE, "recording");
        TEST_OK(tdm_stream_end_recording(recording, &graph));
        tdm_graph_destroy(graph);
    }
    tdm_tensor *const all[] = {source, target, longer, integers, row, repeated};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        tdm_tensor_destroy(all[i]);
}

DEVICE_TEST(each_pair) {
    static const pair_test tests[] = {check_layouts, check_rings, check_empty, check_order,
                                      check_refusals};
    for (size_t i = 0; i < sizeof tests / sizeof tests[0]; i++)
        on_each_pair(device, tests[i]);
}

DEVICE_TEST(order_on_one_device) {
    tdm_stream *other;
    TEST_OK(tdm_stream_create(device->device, &other));
    const endpoint here = {device->device, device->stream, "a stream"};
    check_order(&here, &(endpoint){device->device, other, "another"});
    check_order(&here, &here);
    tdm_stream_destroy(other);
}

/* Copies on streams of its own, with the nth driver call failing (0: none); returns the number of
 * calls. */
static long fail_call(const endpoint *from, const endpoint *to, long nth) {
    endpoint a = *from, b = *to;
    tdm_memory_stats stats = {.struct_size = sizeof stats};
    TEST_OK(tdm_stream_create(a.device, &a.stream));
    TEST_OK(tdm_stream_create(b.device, &b.stream));
    matrix source = matrix_create(&a, TDM_F32, GAPS, 17, 30, 3);
    matrix target = matrix_create(&b, TDM_F32, TRANSPOSED, 17, 30, 4);
    tdm_fault_plant(NULL, nth ? nth : 1000000, -6, false);
    const tdm_status status = tdm_tensor_copy_across(a.stream, source.view, b.stream, target.view);
    const bool reported = tdm_last_detail()[0] != '\0';
    tdm_stream_synchronize(b.stream);
    const long calls = tdm_fault_clear();
    if (nth == 0)
        TEST_OK(status);
    else if (status != TDM_OK && !reported)
        test_case_fail("call %ld failed without a sentence", nth);
    TEST_OK(tdm_device_host_memory_stats(a.device, &stats));
    assert_int_equal(stats.live_blocks, 0);
    TEST_OK(tdm_device_host_memory_stats(b.device, &stats));
    assert_int_equal(stats.live_blocks, 0);
    matrix_destroy(&source);
    matrix_destroy(&target);
    tdm_stream_destroy(a.stream);
    tdm_stream_destroy(b.stream);
    return calls;
}

/* After any driver call fails, there is a status with a message, nothing is leaked, and the next
 * copy is right. */
static void check_failures(const endpoint *from, const endpoint *to) {
    const bool given = from->device->stages_copies;
    from->device->stages_copies = true;
    const long calls = fail_call(from, to, 0);
    assert_true(calls > 5);
    for (long nth = 1; nth <= calls; nth++)
        fail_call(from, to, nth);
    check_one(from, to, TDM_F32, GAPS, TRANSPOSED, 9, 5);
    from->device->stages_copies = given;
}

DEVICE_TEST(any_driver_call_may_fail) {
    own_device other = own_device_open(device, 0);
    check_failures(&(endpoint){device->device, device->stream, "the device"},
                   &(endpoint){other.device, other.stream, "a second device object"});
    own_device_close(&other);
}

DEVICE_TEST(pinned_memory_over_budget) {
    own_device tight = own_device_open_staging(device, 64 << 10);
    const endpoint from = {device->device, device->stream, "the device"};
    const endpoint to = {tight.device, tight.stream, "one of little pinned memory"};
    matrix source = matrix_create(&from, TDM_U8, DENSE, 1, MIB, 5);
    matrix target = matrix_create(&to, TDM_U8, DENSE, 1, MIB, 6);
    TEST_REFUSED(tdm_tensor_copy_across(from.stream, source.view, to.stream, target.view),
                 TDM_OVER_BUDGET, "copy_across: pinned memory");
    matrix_destroy(&source);
    matrix_destroy(&target);
    own_device_close(&tight);
}

TEST_MAIN(test_devices_setup, test_devices_teardown)
