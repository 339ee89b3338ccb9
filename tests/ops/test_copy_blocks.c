// GGUF blocks to quantized tensors and back, bit for bit; what devices make of them; what is refused.
// ctest: device
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "api/device/core.h"
#include "quant/quant_blocks.h"
#include "tests/support/devices/test_devices.h"
#include "tests/support/drivers/counted_host.h"
#include "tests/support/test_data.h"

#define DIMS(...) ((const int64_t[]){__VA_ARGS__})
#define COUNT(array) (sizeof(array) / sizeof(array)[0])

static const struct {
    tdm_block_format format;
    const char *name;
    tdm_dtype codes;
    size_t bytes;
    void (*decode)(const void *, size_t, float *);
} formats[] = {
    {TDM_BLOCKS_Q8_0, "q8_0", TDM_S8, 34, tdm_quant_q8_0_decode},
    {TDM_BLOCKS_Q4_0, "q4_0", TDM_S4, 18, tdm_quant_q4_0_decode},
};

static tdm_tensor *create(const test_device *device, size_t format, int rank,
                          const int64_t *shape) {
    tdm_tensor *tensor;
    const int64_t blocks[2] = {rank == 2 ? 1 : 32, 32};
    TEST_OK(tdm_tensor_create_quantized(device->device, formats[format].codes, rank, shape, blocks,
                                        TDM_F16, TDM_DTYPE_NONE, &tensor));
    return tensor;
}

/* Blocks told by other words: those of whole rows, and of as many rows as there are. */
static tdm_tensor *create_alike(const test_device *device, size_t format, int way) {
    tdm_tensor *tensor;
    TEST_OK(tdm_tensor_create_quantized(
        device->device, formats[format].codes, 2, way == 0 ? DIMS(4, 32) : DIMS(1, 128),
        way == 0 ? DIMS(1, 0) : DIMS(0, 32), TDM_F16, TDM_DTYPE_NONE, &tensor));
    return tensor;
}

/* Any bits, of scales too. */
static unsigned char *any_blocks(size_t bytes, uint64_t seed) {
    test_random random = {seed};
    unsigned char *const blocks = malloc(bytes + 1);
    assert_non_null(blocks);
    for (size_t i = 0; i < bytes; i++)
        blocks[i] = (unsigned char)test_random_bits(&random);
    return blocks;
}

/* Blocks whose scales are plain numbers. */
static unsigned char *plain_blocks(size_t format, size_t count, uint64_t seed) {
    unsigned char *const blocks = any_blocks(count * formats[format].bytes, seed);
    for (size_t i = 0; i < count; i++)
        blocks[i * formats[format].bytes + 1] = 0x24; /* 2^-6 to 2^-5 */
    return blocks;
}

/* ---- both ways ------------------------------------------------------------------------------- */

static void expect_round_trip(const test_device *device, size_t format, int rank,
                              const int64_t *shape) {
    const int64_t elements = shape[0] * (rank == 2 ? shape[1] : 1);
    const size_t bytes = (size_t)elements / 32 * formats[format].bytes;
    if (!test_case_begin(device, NULL, "%s, %lld elements in rows of %lld", formats[format].name,
                         (long long)elements, (long long)shape[rank - 1]))
        return;
    /* Nothing is aligned. */
    unsigned char *const blocks = any_blocks(bytes, 7), *const back = malloc(bytes + 2);
    assert_non_null(back);
    memset(back, 0xa5, bytes + 2);
    tdm_tensor *const tensor = create(device, format, rank, shape);
    TEST_OK(tdm_tensor_write_blocks(device->stream, formats[format].format, blocks, bytes, tensor));
    TEST_OK(
        tdm_tensor_read_blocks(device->stream, tensor, formats[format].format, back + 1, bytes));
    if (memcmp(blocks, back + 1, bytes) != 0 || back[0] != 0xa5 || back[bytes + 1] != 0xa5)
        test_case_fail("blocks come back as others, or beside their place");
    test_case_end();
    tdm_tensor_destroy(tensor);
    free(blocks);
    free(back);
}

static void blocks_come_back_bit_for_bit(void **state) {
    (void)state;
    for (int d = 0; d < test_device_count(); d++)
        for (size_t f = 0; f < COUNT(formats); f++) {
            const test_device *const device = test_device_at(d);
            expect_round_trip(device, f, 1, DIMS(96));
            expect_round_trip(device, f, 2, DIMS(5, 32));
            expect_round_trip(device, f, 2, DIMS(3, 160));
            expect_round_trip(device, f, 2, DIMS(0, 64));
            if (test_is_small())
                continue;
            expect_round_trip(device, f, 2, DIMS(2, (1 << 20) + 32)); /* rows in parts */
            expect_round_trip(device, f, 2, DIMS(1100, 1024));        /* rows in several pieces */
        }
}

static void blocks_in_other_words_are_taken(void **state) {
    (void)state;
    for (int d = 0; d < test_device_count(); d++)
        for (size_t f = 0; f < COUNT(formats); f++)
            for (int way = 0; way < 2; way++) {
                const test_device *const device = test_device_at(d);
                if (!test_case_begin(device, NULL, "%s, %s", formats[f].name,
                                     way == 0 ? "rows of a block" : "one row"))
                    continue;
                const size_t bytes = 4 * formats[f].bytes;
                unsigned char *const blocks = any_blocks(bytes, 7), *const back = malloc(bytes);
                assert_non_null(back);
                tdm_tensor *const tensor = create_alike(device, f, way);
                TEST_OK(tdm_tensor_write_blocks(device->stream, formats[f].format, blocks, bytes,
                                                tensor));
                TEST_OK(
                    tdm_tensor_read_blocks(device->stream, tensor, formats[f].format, back, bytes));
                assert_memory_equal(blocks, back, bytes);
                test_case_end();
                tdm_tensor_destroy(tensor);
                free(blocks);
                free(back);
            }
}

/* Rows with gaps, of which some are left out: only the view's own blocks are written and read. */
static void views_take_blocks(void **state) {
    (void)state;
    for (int d = 0; d < test_device_count(); d++)
        for (size_t f = 0; f < COUNT(formats); f++) {
            const test_device *const device = test_device_at(d);
            if (!test_case_begin(device, NULL, "%s, a view", formats[f].name))
                continue;
            const size_t size = formats[f].bytes;
            unsigned char *const all = any_blocks(6 * 4 * size, 3);
            unsigned char *const some = any_blocks(3 * 2 * size, 4), *const back =
                                                                         malloc(24 * size);
            tdm_tensor *const tensor = create(device, f, 2, DIMS(6, 128));
            tdm_tensor *rows, *view;
            TEST_OK(
                tdm_tensor_write_blocks(device->stream, formats[f].format, all, 24 * size, tensor));
            TEST_OK(tdm_tensor_slice(tensor, 0, 1, 6, 2, &rows));
            TEST_OK(tdm_tensor_slice(rows, 1, 32, 96, 1, &view));
            TEST_OK(
                tdm_tensor_write_blocks(device->stream, formats[f].format, some, 6 * size, view));
            for (size_t row = 0; row < 3; row++)
                memcpy(all + ((1 + 2 * row) * 4 + 1) * size, some + row * 2 * size, 2 * size);
            TEST_OK(
                tdm_tensor_read_blocks(device->stream, tensor, formats[f].format, back, 24 * size));
            if (memcmp(all, back, 24 * size) != 0)
                test_case_fail("a view's blocks are not where they belong");
            TEST_OK(
                tdm_tensor_read_blocks(device->stream, view, formats[f].format, back, 6 * size));
            if (memcmp(some, back, 6 * size) != 0)
                test_case_fail("a view's blocks come back as others");
            test_case_end();
            tdm_tensor_destroy(view);
            tdm_tensor_destroy(rows);
            tdm_tensor_destroy(tensor);
            free(all);
            free(some);
            free(back);
        }
}

/* Rows that lie side by side, those of s4 two to a byte: pieces hold whole bytes. */
static void columns_take_blocks(void **state) {
    (void)state;
    const int64_t rows = 964, columns = 1088, blocks[2] = {32, 1};
    for (int d = 0; d < test_device_count(); d++)
        for (size_t f = 0; f < COUNT(formats); f++) {
            const test_device *const device = test_device_at(d);
            if (test_is_small() ||
                !test_case_begin(device, NULL, "%s, rows side by side", formats[f].name))
                continue;
            const size_t bytes = (size_t)(rows * columns) / 32 * formats[f].bytes;
            unsigned char *const all = any_blocks(bytes, 6), *const back = malloc(bytes);
            tdm_tensor *across, *tensor;
            assert_non_null(back);
            TEST_OK(tdm_tensor_create_quantized(device->device, formats[f].codes, 2,
                                                DIMS(columns, rows), blocks, TDM_F16,
                                                TDM_DTYPE_NONE, &across));
            TEST_OK(tdm_tensor_transpose(across, (const int[]){1, 0}, &tensor));
            TEST_OK(tdm_tensor_write_blocks(device->stream, formats[f].format, all, bytes, tensor));
            TEST_OK(tdm_tensor_read_blocks(device->stream, tensor, formats[f].format, back, bytes));
            if (memcmp(all, back, bytes) != 0)
                test_case_fail("blocks come back as others");
            test_case_end();
            tdm_tensor_destroy(tensor);
            tdm_tensor_destroy(across);
            free(all);
            free(back);
        }
}

/* ---- what devices make of them --------------------------------------------------------------- */

enum {
    M = 3,
    N = 10,
    K = 96,
    BLOCKS = N * K / 32
};

static void expect_values(const test_device *device, const tdm_tensor *weights, const float *real) {
    float values[N * K];
    tdm_tensor *plain;
    TEST_OK(tdm_tensor_create(device->device, TDM_F32, 2, DIMS(N, K), &plain));
    TEST_OK(tdm_tensor_dequantize(device->stream, weights, plain));
    TEST_OK(tdm_tensor_read(device->stream, plain, values, sizeof values, NULL));
    for (int i = 0; i < N * K; i++)
        if (values[i] != real[i])
            test_case_fail("element %d is %a, must be %a", i, (double)values[i], (double)real[i]);
    tdm_tensor_destroy(plain);
}

static void expect_product(const test_device *device, const tdm_tensor *weights,
                           const float *real) {
    float a_values[M * K], d_values[M * N];
    test_random random = {11};
    for (int i = 0; i < M * K; i++)
        a_values[i] = (float)test_random_uniform(&random, -1.0, 1.0);
    tdm_gemm_args args = TDM_GEMM_ARGS_INIT;
    tdm_gemm_desc desc = TDM_GEMM_DESC_INIT;
    tdm_tensor *a, *d;
    TEST_OK(tdm_tensor_create(device->device, TDM_F32, 2, DIMS(M, K), &a));
    TEST_OK(tdm_tensor_create(device->device, TDM_F32, 2, DIMS(M, N), &d));
    TEST_OK(tdm_tensor_write(device->stream, a_values, sizeof a_values, NULL, a));
    TEST_OK(tdm_tensor_layout(a, &desc.a));
    TEST_OK(tdm_tensor_layout(weights, &desc.b));
    TEST_OK(tdm_tensor_quant_layout(weights, &desc.b_quant));
    TEST_OK(tdm_tensor_layout(d, &desc.d));
    desc.transpose_b = 1;
    tdm_gemm_plan *plan;
    size_t bytes;
    TEST_OK(tdm_gemm_plan_create(device->device, &desc, &plan));
    TEST_OK(tdm_gemm_plan_workspace_size(plan, &bytes));
    if (bytes > 0)
        TEST_OK(tdm_buffer_create(device->device, bytes, &args.workspace));
    args.a = a;
    args.b = weights;
    args.d = d;
    TEST_OK(tdm_gemm_plan_run(plan, device->stream, &args));
    TEST_OK(tdm_tensor_read(device->stream, d, d_values, sizeof d_values, NULL));
    for (int i = 0; i < M * N; i++) {
        double sum = 0.0, size = 0.0;
        for (int p = 0; p < K; p++) {
            const double term = (double)a_values[i / N * K + p] * (double)real[i % N * K + p];
            sum += term;
            size += fabs(term);
        }
        if (!(fabs((double)d_values[i] - sum) <= K * 0x1p-23 * size))
            test_case_fail("D[%d, %d] is %a, must be %a", i / N, i % N, (double)d_values[i], sum);
    }
    tdm_buffer_destroy(args.workspace);
    tdm_gemm_plan_destroy(plan);
    tdm_tensor_destroy(a);
    tdm_tensor_destroy(d);
}

static void devices_read_blocks_as_the_host_does(void **state) {
    (void)state;
    for (int d = 0; d < test_device_count(); d++)
        for (size_t f = 0; f < COUNT(formats); f++) {
            const test_device *const device = test_device_at(d);
            if (!test_case_begin(device, NULL, "%s, values and a product", formats[f].name))
                continue;
            float real[N * K];
            unsigned char *const blocks = plain_blocks(f, BLOCKS, 5);
            formats[f].decode(blocks, BLOCKS, real);
            tdm_tensor *const weights = create(device, f, 2, DIMS(N, K));
            TEST_OK(tdm_tensor_write_blocks(device->stream, formats[f].format, blocks,
                                            BLOCKS * formats[f].bytes, weights));
            expect_values(device, weights, real);
            expect_product(device, weights, real);
            test_case_end();
            tdm_tensor_destroy(weights);
            free(blocks);
        }
}

/* ---- what is refused ------------------------------------------------------------------------- */

static tdm_tensor *other(const test_device *device, tdm_dtype dtype, const int64_t *shape,
                         const int64_t *block, tdm_dtype scale, tdm_dtype zero) {
    tdm_tensor *tensor;
    TEST_OK(
        tdm_tensor_create_quantized(device->device, dtype, 2, shape, block, scale, zero, &tensor));
    return tensor;
}

static void refuses_what_is_no_matrix_of_blocks(void **state) {
    (void)state;
    static unsigned char host[4096];
    for (int d = 0; d < test_device_count(); d++) {
        const test_device *const device = test_device_at(d);
        if (!test_case_begin(device, NULL, "refusals"))
            continue;
        tdm_tensor *plain;
        TEST_OK(tdm_tensor_create(device->device, TDM_S8, 2, DIMS(4, 64), &plain));
        const struct {
            tdm_tensor *tensor;
            tdm_status status;
            const char *part;
        } wrong[] = {
            {other(device, TDM_U8, DIMS(4, 64), DIMS(1, 32), TDM_F16, TDM_DTYPE_NONE),
             TDM_BAD_DTYPE, "u8"},
            {other(device, TDM_S8, DIMS(4, 64), DIMS(1, 32), TDM_F32, TDM_DTYPE_NONE),
             TDM_UNSUPPORTED, "f32"},
            {other(device, TDM_S8, DIMS(4, 64), DIMS(1, 32), TDM_F16, TDM_S8), TDM_UNSUPPORTED,
             "zero points"},
            {other(device, TDM_S8, DIMS(4, 64), DIMS(1, 64), TDM_F16, TDM_DTYPE_NONE),
             TDM_UNSUPPORTED, "64 elements"},
            {other(device, TDM_S8, DIMS(4, 64), DIMS(2, 32), TDM_F16, TDM_DTYPE_NONE),
             TDM_UNSUPPORTED, "2 rows"},
            {other(device, TDM_S8, DIMS(4, 72), DIMS(1, 32), TDM_F16, TDM_DTYPE_NONE),
             TDM_BAD_SHAPE, "72"},
            {plain, TDM_UNSUPPORTED, "no parameters"},
        };
        for (size_t i = 0; i < COUNT(wrong); i++) {
            TEST_REFUSED(tdm_tensor_write_blocks(device->stream, TDM_BLOCKS_Q8_0, host, sizeof host,
                                                 wrong[i].tensor),
                         wrong[i].status, wrong[i].part);
            TEST_REFUSED(tdm_tensor_read_blocks(device->stream, wrong[i].tensor, TDM_BLOCKS_Q8_0,
                                                host, sizeof host),
                         wrong[i].status, wrong[i].part);
            tdm_tensor_destroy(wrong[i].tensor);
        }
        tdm_tensor *cube;
        TEST_OK(tdm_tensor_create_quantized(device->device, TDM_S8, 3, DIMS(2, 2, 64),
                                            DIMS(1, 1, 32), TDM_F16, TDM_DTYPE_NONE, &cube));
        TEST_REFUSED(
            tdm_tensor_read_blocks(device->stream, cube, TDM_BLOCKS_Q8_0, host, sizeof host),
            TDM_BAD_SHAPE, "the rank of the tensor is 3");
        tdm_tensor_destroy(cube);
        tdm_tensor *const right = create(device, 0, 2, DIMS(4, 64));
        tdm_stream *const stream = device->stream;
        TEST_REFUSED(tdm_tensor_write_blocks(stream, TDM_BLOCKS_Q8_0, host, 8 * 34 - 1, right),
                     TDM_BAD_SHAPE, "272");
        TEST_REFUSED(tdm_tensor_write_blocks(stream, TDM_BLOCKS_Q8_0, NULL, 8 * 34, right),
                     TDM_BAD_ARGUMENT, "host");
        TEST_REFUSED(tdm_tensor_write_blocks(stream, TDM_BLOCKS_Q8_0, host, sizeof host, NULL),
                     TDM_BAD_ARGUMENT, "target");
        TEST_REFUSED(tdm_tensor_write_blocks(NULL, TDM_BLOCKS_Q8_0, host, sizeof host, right),
                     TDM_BAD_ARGUMENT, "stream");
        TEST_REFUSED(tdm_tensor_write_blocks(stream, (tdm_block_format)9, host, sizeof host, right),
                     TDM_BAD_ARGUMENT, "9");
        TEST_REFUSED(tdm_tensor_write_blocks(stream, TDM_BLOCKS_Q4_0, host, sizeof host, right),
                     TDM_BAD_DTYPE, "s8");
        /* Of the last byte's two elements of s4 one is not the tensor's. */
        tdm_tensor *const all =
            other(device, TDM_S4, DIMS(64, 4), DIMS(32, 1), TDM_F16, TDM_DTYPE_NONE);
        tdm_tensor *half, *three, *odd;
        TEST_OK(tdm_tensor_slice(all, 0, 0, 32, 1, &half));
        TEST_OK(tdm_tensor_slice(half, 1, 0, 3, 1, &three));
        TEST_OK(tdm_tensor_transpose(three, (const int[]){1, 0}, &odd));
        TEST_REFUSED(tdm_tensor_write_blocks(stream, TDM_BLOCKS_Q4_0, host, sizeof host, odd),
                     TDM_UNSUPPORTED, "tensor_write_blocks: the output target ends inside");
        test_case_end();
        tdm_tensor_destroy(odd);
        tdm_tensor_destroy(three);
        tdm_tensor_destroy(half);
        tdm_tensor_destroy(all);
        tdm_tensor_destroy(right);
    }
}

/* Host memory that is not there: a status, nothing leaks, and the next try succeeds. */
static void nothing_leaks_without_host_memory(void **state) {
    (void)state;
    for (int d = 0; d < test_device_count(); d++) {
        const test_device *const device = test_device_at(d);
        if (!test_case_begin(device, NULL, "no host memory"))
            continue;
        unsigned char *const blocks = any_blocks(8 * 34, 9);
        tdm_tensor *const tensor = create(device, 0, 2, DIMS(4, 64));
        TEST_OK(tdm_tensor_write_blocks(device->stream, TDM_BLOCKS_Q8_0, blocks, 8 * 34, tensor));
        for (int nth = 1; nth <= 2; nth++) {
            const long before = counted_host_live();
            counted_host_fail_at(nth);
            TEST_REFUSED(
                tdm_tensor_write_blocks(device->stream, TDM_BLOCKS_Q8_0, blocks, 8 * 34, tensor),
                TDM_OUT_OF_HOST_MEMORY, "host memory");
            assert_true(counted_host_recover());
            assert_int_equal(counted_host_live(), before);
        }
        TEST_OK(tdm_tensor_write_blocks(device->stream, TDM_BLOCKS_Q8_0, blocks, 8 * 34, tensor));
        test_case_end();
        tdm_tensor_destroy(tensor);
        free(blocks);
    }
}

int main(void) {
    if (!counted_host_install())
        return 1;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(blocks_come_back_bit_for_bit),
        cmocka_unit_test(blocks_in_other_words_are_taken),
        cmocka_unit_test(views_take_blocks),
        cmocka_unit_test(columns_take_blocks),
        cmocka_unit_test(devices_read_blocks_as_the_host_does),
        cmocka_unit_test(refuses_what_is_no_matrix_of_blocks),
        cmocka_unit_test(nothing_leaks_without_host_memory),
    };
    return cmocka_run_group_tests(tests, test_devices_setup, test_devices_teardown);
}
