// GGUF blocks become quantized tensors and are read back, bit for bit. The tests also cover device
// results from them, and refused calls.
// ctest: device
#include <stdlib.h>
#include <string.h>

#include "api/device/core.h"
#include "quant/quant_blocks.h"
#include "tests/support/devices/device_cases.h"
#include "tests/support/drivers/counted_host.h"
#include "tests/support/test_case.h"
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

#define FORMATS ((int)COUNT(formats))

static tdm_tensor *create_with(const test_device *device, tdm_dtype dtype, const int64_t *shape,
                               const int64_t *block, tdm_dtype scale, tdm_dtype zero) {
    tdm_tensor *tensor;
    TEST_OK(
        tdm_tensor_create_quantized(device->device, dtype, 2, shape, block, scale, zero, &tensor));
    return tensor;
}

static tdm_tensor *create(const test_device *device, int format, int64_t rows, int64_t columns) {
    return create_with(device, formats[format].codes, DIMS(rows, columns), DIMS(1, 32), TDM_F16,
                       TDM_DTYPE_NONE);
}

static void write_blocks(const test_device *device, int format, const void *blocks, size_t bytes,
                         tdm_tensor *tensor) {
    TEST_OK(tdm_tensor_write_blocks(device->stream, formats[format].format, blocks, bytes, tensor));
}

/*
 * Checks that reading gives these blocks and writes nothing around them. The memory is not aligned.
 */
static void expect_blocks(const test_device *device, int format, const tdm_tensor *tensor,
                          const unsigned char *blocks, size_t bytes) {
    unsigned char *const back = malloc(bytes + 2);
    assert_non_null(back);
    memset(back, 0xa5, bytes + 2);
    TEST_OK(
        tdm_tensor_read_blocks(device->stream, tensor, formats[format].format, back + 1, bytes));
    if (memcmp(blocks, back + 1, bytes) != 0 || back[0] != 0xa5 || back[bytes + 1] != 0xa5)
        test_case_fail("%s: blocks come back as others, or beside their place",
                       formats[format].name);
    free(back);
}

/* Returns random bits, also in the scales. */
static unsigned char *any_blocks(size_t bytes, uint64_t seed) {
    test_random random = {seed};
    unsigned char *const blocks = malloc(bytes + 1);
    assert_non_null(blocks);
    for (size_t i = 0; i < bytes; i++)
        blocks[i] = (unsigned char)test_random_bits(&random);
    return blocks;
}

/* ---- both ways ------------------------------------------------------------------------------- */

static void round_trip(const test_device *device, int format, tdm_tensor *tensor) {
    const size_t bytes = (size_t)tdm_tensor_elements(tensor) / 32 * formats[format].bytes;
    unsigned char *const blocks = any_blocks(bytes, 7);
    write_blocks(device, format, blocks, bytes, tensor);
    expect_blocks(device, format, tensor, blocks, bytes);
    tdm_tensor_destroy(tensor);
    free(blocks);
}

/* The last two shapes have rows in parts, and several pieces. */
DEVICE_TEST(blocks_come_back_bit_for_bit) {
    static const int64_t shapes[][2] = {
        {5, 32}, {3, 160}, {0, 64}, {2, (1 << 20) + 32}, {1100, 1024}};
    for (int f = 0; f < FORMATS; f++) {
        for (int i = 0; i < (test_is_small() ? 3 : 5); i++)
            round_trip(device, f, create(device, f, shapes[i][0], shapes[i][1]));
        /* Other block sizes describe the same blocks: in a vector, in one block per row, and in a
         * single row. */
        tdm_tensor *line;
        TEST_OK(tdm_tensor_create_quantized(device->device, formats[f].codes, 1, DIMS(96), DIMS(32),
                                            TDM_F16, TDM_DTYPE_NONE, &line));
        round_trip(device, f, line);
        round_trip(device, f,
                   create_with(device, formats[f].codes, DIMS(4, 32), DIMS(1, 0), TDM_F16,
                               TDM_DTYPE_NONE));
        round_trip(device, f,
                   create_with(device, formats[f].codes, DIMS(1, 128), DIMS(0, 32), TDM_F16,
                               TDM_DTYPE_NONE));
    }
}

/* The view leaves out some rows and columns. Only its own blocks are written and read. */
DEVICE_TEST(views_take_blocks) {
    for (int f = 0; f < FORMATS; f++) {
        const size_t size = formats[f].bytes;
        unsigned char *const all = any_blocks(24 * size, 3), *const some = any_blocks(6 * size, 4);
        tdm_tensor *const tensor = create(device, f, 6, 128);
        tdm_tensor *rows, *view;
        write_blocks(device, f, all, 24 * size, tensor);
        TEST_OK(tdm_tensor_slice(tensor, 0, 1, 6, 2, &rows));
        TEST_OK(tdm_tensor_slice(rows, 1, 32, 96, 1, &view));
        write_blocks(device, f, some, 6 * size, view);
        for (size_t row = 0; row < 3; row++)
            memcpy(all + ((1 + 2 * row) * 4 + 1) * size, some + row * 2 * size, 2 * size);
        expect_blocks(device, f, tensor, all, 24 * size);
        expect_blocks(device, f, view, some, 6 * size);
        tdm_tensor_destroy(view);
        tdm_tensor_destroy(rows);
        tdm_tensor_destroy(tensor);
        free(all);
        free(some);
    }
}

/* The rows are interleaved, and two rows of s4 share a byte. Pieces hold whole bytes. */
DEVICE_TEST(columns_take_blocks) {
    for (int f = 0; f < (test_is_small() ? 0 : FORMATS); f++) {
        tdm_tensor *const across = create_with(device, formats[f].codes, DIMS(1088, 964),
                                               DIMS(32, 1), TDM_F16, TDM_DTYPE_NONE);
        tdm_tensor *tensor;
        TEST_OK(tdm_tensor_transpose(across, NULL, &tensor));
        round_trip(device, f, tensor);
        tdm_tensor_destroy(across);
    }
}

/* ---- device results from them ---------------------------------------------------------------- */

enum {
    N = 10,
    K = 96,
    BLOCKS = N * K / 32
};

DEVICE_TEST(devices_read_blocks_as_the_host_does) {
    for (int f = 0; f < FORMATS; f++) {
        float real[N * K], values[N * K];
        tdm_tensor *plain, *const weights = create(device, f, N, K);
        unsigned char *const blocks = any_blocks(BLOCKS * formats[f].bytes, 5);
        for (size_t i = 0; i < BLOCKS; i++)
            blocks[i * formats[f].bytes + 1] = 0x24; /* scales from 2^-6 to 2^-5 */
        formats[f].decode(blocks, BLOCKS, real);
        TEST_OK(tdm_tensor_create(device->device, TDM_F32, 2, DIMS(N, K), &plain));
        write_blocks(device, f, blocks, BLOCKS * formats[f].bytes, weights);
        TEST_OK(tdm_tensor_dequantize(device->stream, weights, plain));
        TEST_OK(tdm_tensor_read(device->stream, plain, values, sizeof values, NULL));
        for (int i = 0; i < N * K; i++)
            if (values[i] != real[i])
                test_case_fail("element %d is %a, must be %a", i, (double)values[i],
                               (double)real[i]);
        tdm_tensor_destroy(plain);
        tdm_tensor_destroy(weights);
        free(blocks);
    }
}

/* ---- refused calls --------------------------------------------------------------------------- */

DEVICE_TEST(what_is_no_matrix_of_blocks_is_refused) {
    static unsigned char host[4096];
    static const struct {
        tdm_dtype codes;
        int64_t shape[2], block[2];
        tdm_dtype scale, zero;
        tdm_status status;
        const char *part;
    } wrong[] = {
        {TDM_U8, {4, 64}, {1, 32}, TDM_F16, TDM_DTYPE_NONE, TDM_BAD_DTYPE, "u8"},
        {TDM_S8, {4, 64}, {1, 32}, TDM_F32, TDM_DTYPE_NONE, TDM_UNSUPPORTED, "f32"},
        {TDM_S8, {4, 64}, {1, 32}, TDM_F16, TDM_S8, TDM_UNSUPPORTED, "zero points"},
        {TDM_S8, {4, 64}, {1, 64}, TDM_F16, TDM_DTYPE_NONE, TDM_UNSUPPORTED, "64 elements"},
        {TDM_S8, {4, 64}, {2, 32}, TDM_F16, TDM_DTYPE_NONE, TDM_UNSUPPORTED, "2 rows"},
        {TDM_S8, {4, 72}, {1, 32}, TDM_F16, TDM_DTYPE_NONE, TDM_BAD_SHAPE, "72"},
    };
    tdm_stream *const stream = device->stream;
    const tdm_block_format q8_0 = TDM_BLOCKS_Q8_0;
    for (size_t i = 0; i < COUNT(wrong); i++) {
        tdm_tensor *const tensor = create_with(device, wrong[i].codes, wrong[i].shape,
                                               wrong[i].block, wrong[i].scale, wrong[i].zero);
        TEST_REFUSED(tdm_tensor_write_blocks(stream, q8_0, host, sizeof host, tensor),
                     wrong[i].status, wrong[i].part);
        TEST_REFUSED(tdm_tensor_read_blocks(stream, tensor, q8_0, host, sizeof host),
                     wrong[i].status, wrong[i].part);
        tdm_tensor_destroy(tensor);
    }
    tdm_tensor *cube, *plain, *half, *three, *odd, *const right = create(device, 0, 4, 64);
    TEST_OK(tdm_tensor_create_quantized(device->device, TDM_S8, 3, DIMS(2, 2, 64), DIMS(1, 1, 32),
                                        TDM_F16, TDM_DTYPE_NONE, &cube));
    TEST_OK(tdm_tensor_create(device->device, TDM_S8, 2, DIMS(4, 64), &plain));
    /* The last byte holds two elements of s4, and only one of them belongs to the tensor. */
    tdm_tensor *const all =
        create_with(device, TDM_S4, DIMS(64, 4), DIMS(32, 1), TDM_F16, TDM_DTYPE_NONE);
    TEST_OK(tdm_tensor_slice(all, 0, 0, 32, 1, &half));
    TEST_OK(tdm_tensor_slice(half, 1, 0, 3, 1, &three));
    TEST_OK(tdm_tensor_transpose(three, NULL, &odd));
    const struct {
        tdm_stream *stream;
        tdm_block_format format;
        const void *host;
        size_t bytes;
        tdm_tensor *tensor;
        tdm_status status;
        const char *part;
    } rows[] = {
        {stream, q8_0, host, 4096, cube, TDM_BAD_SHAPE, "the rank of the tensor is 3"},
        {stream, q8_0, host, 4096, plain, TDM_UNSUPPORTED, "no quantization parameters"},
        {stream, q8_0, host, 8 * 34 - 1, right, TDM_BAD_SHAPE, "272"},
        {stream, q8_0, NULL, 8 * 34, right, TDM_BAD_ARGUMENT, "host"},
        {stream, q8_0, host, 4096, NULL, TDM_BAD_ARGUMENT, "target"},
        {NULL, q8_0, host, 4096, right, TDM_BAD_ARGUMENT, "stream"},
        {stream, (tdm_block_format)9, host, 4096, right, TDM_BAD_ARGUMENT, "9"},
        {stream, TDM_BLOCKS_Q4_0, host, 4096, right, TDM_BAD_DTYPE, "s8"},
        {stream, TDM_BLOCKS_Q4_0, host, 4096, odd, TDM_UNSUPPORTED,
         "the output target ends inside"},
    };
    for (size_t i = 0; i < COUNT(rows); i++)
        TEST_REFUSED(tdm_tensor_write_blocks(rows[i].stream, rows[i].format, rows[i].host,
                                             rows[i].bytes, rows[i].tensor),
                     rows[i].status, rows[i].part);
    tdm_tensor *const made[] = {cube, plain, odd, three, half, all, right};
    for (size_t i = 0; i < COUNT(made); i++)
        tdm_tensor_destroy(made[i]);
}

/*
 * If host memory is missing, the call returns a status, nothing leaks, and the next try succeeds.
 */
DEVICE_TEST(nothing_leaks_without_host_memory) {
    unsigned char *const blocks = any_blocks(8 * 34, 9);
    tdm_tensor *const tensor = create(device, 0, 4, 64);
    write_blocks(device, 0, blocks, 8 * 34, tensor);
    for (int nth = 1; nth <= 2; nth++) {
        const long before = counted_host_live();
        counted_host_fail_at(nth);
        TEST_REFUSED(
            tdm_tensor_write_blocks(device->stream, TDM_BLOCKS_Q8_0, blocks, 8 * 34, tensor),
            TDM_OUT_OF_HOST_MEMORY, "host memory");
        assert_true(counted_host_recover());
        assert_int_equal(counted_host_live(), before);
    }
    write_blocks(device, 0, blocks, 8 * 34, tensor);
    tdm_tensor_destroy(tensor);
    free(blocks);
}

int main(void) {
    if (!counted_host_install())
        return 1;
    return test_run_all(test_devices_setup, test_devices_teardown);
}
