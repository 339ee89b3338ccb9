/* Quantization of matrices beyond the caches, which may walk memory and store results in other ways: the bits that pieces of
 * the matrix give, each of which fits.
 * ctest: device timeout=240 cost=10 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "api/tensor/strided_loop.h"
#include "quant/number_formats.h"
#include "tests/support/devices/device_cases.h"
#include "tests/support/devices/variant_cases.h"
#include "tests/support/test_array.h"

#define DIMS(...) ((const int64_t[]){__VA_ARGS__})

typedef struct matrix {
    const test_device *device;
    int64_t rows, columns, piece; /* rows of a piece, the least */
    float *data;
    tdm_tensor *x;
} matrix;

static int64_t rows_beyond_caches(const test_device *device, int64_t columns) {
    const int64_t bytes = (int64_t)tdm_cache_in_reach(device->device);
    return test_is_small() ? 9 : bytes < (64 << 20) ? bytes / 4 / columns + 9 : 2000;
}

/* Numbers around those of codes, ties of round scales, and what is not finite. */
static float number(test_random *random) {
    switch (test_random_bits(random) % 64) {
    case 0:
        return NAN;
    case 1:
        return INFINITY;
    case 2:
        return -0x1p-140f;
    case 3:
        return (float)test_random_int(random, -300, 300) * 0.5f * 0.125f;
    default:
        return (float)test_random_uniform(random, -20.0, 20.0);
    }
}

static void matrix_create(matrix *m, const test_device *device, int64_t columns) {
    test_random random = {71};
    m->device = device;
    m->columns = columns;
    m->rows = rows_beyond_caches(device, columns);
    m->piece = test_is_small() ? 4 : m->rows / 40 + 1;
    const size_t bytes = (size_t)(m->rows * columns) * sizeof(float);
    m->data = malloc(bytes);
    assert_non_null(m->data);
    for (int64_t i = 0; i < m->rows * columns; i++)
        m->data[i] = number(&random);
    TEST_OK(tdm_tensor_create(device->device, TDM_F32, 2, DIMS(m->rows, columns), &m->x));
    TEST_OK(tdm_tensor_write(device->stream, m->data, bytes, NULL, m->x));
}

static void matrix_destroy(matrix *m) {
    tdm_tensor_destroy(m->x);
    free(m->data);
}

/* Scales of blocks of so many rows and columns, 0 for all of them. */
static tdm_tensor *create_scales(const matrix *m, int64_t down, int64_t across) {
    const int64_t high = down == 0 ? 1 : tdm_ceil_div(m->rows, down);
    const int64_t wide = across == 0 ? 1 : m->columns / across;
    const size_t bytes = (size_t)(high * wide) * sizeof(float);
    test_random random = {72};
    tdm_tensor *scale;
    float *const data = malloc(bytes);
    assert_non_null(data);
    for (int64_t i = 0; i < high * wide; i++)
        data[i] = i % 5 == 0 ? 0.125f : (float)test_random_uniform(&random, 0.01, 3.0);
    TEST_OK(tdm_tensor_create(m->device->device, TDM_F32, 2, DIMS(high, wide), &scale));
    TEST_OK(tdm_tensor_write(m->device->stream, data, bytes, NULL, scale));
    TEST_OK(tdm_stream_synchronize(m->device->stream));
    free(data);
    return scale;
}

typedef tdm_status quantizing(tdm_stream *stream, const tdm_tensor *source, tdm_tensor *target);

/* Rows first … first + rows - 1 of x to those of codes. */
static void quantize_rows(const matrix *m, quantizing *quantize, tdm_tensor *codes,
                          tdm_tensor *scale, int64_t down, int64_t across, int64_t first,
                          int64_t rows) {
    tdm_tensor *x, *part, *scales, *carrier;
    tdm_quantization quantization = TDM_QUANTIZATION_INIT;
    TEST_OK(tdm_tensor_slice(m->x, 0, first, first + rows, 1, &x));
    TEST_OK(tdm_tensor_slice(codes, 0, first, first + rows, 1, &part));
    const int64_t scale_first = down == 0 ? 0 : first / down;
    const int64_t scale_rows = down == 0 ? 1 : tdm_ceil_div(rows, down);
    TEST_OK(tdm_tensor_slice(scale, 0, scale_first, scale_first + scale_rows, 1, &scales));
    quantization.block[0] = down;
    quantization.block[1] = across;
    quantization.scale = scales;
    TEST_OK(tdm_tensor_quantized(part, &quantization, &carrier));
    TEST_OK(quantize(m->device->stream, x, carrier));
    tdm_tensor_destroy(carrier);
    tdm_tensor_destroy(scales);
    tdm_tensor_destroy(part);
    tdm_tensor_destroy(x);
}

static unsigned char *codes_of(const matrix *m, tdm_tensor *codes, size_t bytes) {
    unsigned char *const data = malloc(bytes);
    assert_non_null(data);
    TEST_OK(tdm_tensor_read(m->device->stream, codes, data, bytes, NULL));
    return data;
}

/* The whole and its pieces; of dynamic scales only those of rows, which pieces have, too. */
static void check(const matrix *m, quantizing *quantize, tdm_dtype dtype, int64_t down,
                  int64_t across) {
    tdm_tensor *whole, *pieces;
    const size_t bytes = (size_t)(m->rows * m->columns) / (dtype == TDM_S4 ? 2 : 1);
    tdm_tensor *const scale = create_scales(m, down, across);
    TEST_OK(tdm_tensor_create(m->device->device, dtype, 2, DIMS(m->rows, m->columns), &whole));
    TEST_OK(tdm_tensor_create(m->device->device, dtype, 2, DIMS(m->rows, m->columns), &pieces));
    quantize_rows(m, quantize, whole, scale, down, across, 0, m->rows);
    const int64_t piece = down > 1 ? tdm_ceil_div(m->piece, down) * down : m->piece;
    for (int64_t first = 0; first < m->rows; first += piece)
        quantize_rows(m, quantize, pieces, scale, down, across, first,
                      first + piece < m->rows ? piece : m->rows - first);
    unsigned char *const a = codes_of(m, whole, bytes), *const b = codes_of(m, pieces, bytes);
    for (size_t i = 0; i < bytes; i++)
        if (a[i] != b[i])
            test_case_fail("%s, blocks of %lld by %lld: byte %zu is %02x, in pieces %02x",
                           tdm_dtype_name(dtype), (long long)down, (long long)across, i, a[i],
                           b[i]);
    free(a);
    free(b);
    tdm_tensor_destroy(pieces);
    tdm_tensor_destroy(whole);
    tdm_tensor_destroy(scale);
}

/* Of one scale, of rows that begin anywhere in a line of the output, of columns and of groups along them. */
DEVICE_TEST(rows_and_columns) {
    static const int64_t blocks[][2] = {{0, 0}, {1, 0}, {0, 1}, {32, 1}};
    matrix m;
    matrix_create(&m, device, 1168);
    for (int i = 0; i < 8; i++)
        check(&m, tdm_tensor_quantize, i % 2 == 0 ? TDM_S8 : TDM_S4, blocks[i / 2][0],
              blocks[i / 2][1]);
    check(&m, tdm_tensor_quantize_minmax, TDM_S8, 1, 0);
    matrix_destroy(&m);
}

/* Of groups of which four, two or one make a line of s4. */
DEVICE_TEST(groups_of_a_line) {
    matrix m;
    matrix_create(&m, device, 1152);
    for (int64_t group = 32; group <= 128; group *= 2)
        check(&m, tdm_tensor_quantize, TDM_S4, 1, group);
    check(&m, tdm_tensor_quantize, TDM_S8, 1, 32);
    matrix_destroy(&m);
}

/* The widest range of each column, wherever in it, decides about its scale. */
DEVICE_TEST(ranges_of_columns) {
    matrix m;
    tdm_tensor *codes;
    matrix_create(&m, device, 1168);
    tdm_tensor *const scale = create_scales(&m, 0, 1);
    float *const scales = malloc((size_t)m.columns * sizeof(float));
    assert_non_null(scales);
    TEST_OK(tdm_tensor_create(device->device, TDM_S8, 2, DIMS(m.rows, m.columns), &codes));
    quantize_rows(&m, tdm_tensor_quantize_minmax, codes, scale, 0, 1, 0, m.rows);
    TEST_OK(tdm_tensor_read(device->stream, scale, scales, (size_t)m.columns * 4, NULL));
    for (int64_t c = 0; c < m.columns; c++) {
        float most = 0.0f;
        for (int64_t row = 0; row < m.rows; row++) {
            const float size = fabsf(m.data[row * m.columns + c]);
            most = size < INFINITY && size > most ? size : most;
        }
        if (scales[c] != most / 127.0f)
            test_case_fail("column %lld: scale %a, not %a", (long long)c, (double)scales[c],
                           (double)(most / 127.0f));
    }
    tdm_tensor_destroy(codes);
    tdm_tensor_destroy(scale);
    free(scales);
    matrix_destroy(&m);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_and_columns),
        cmocka_unit_test(groups_of_a_line),
        cmocka_unit_test(ranges_of_columns),
    };
    return cmocka_run_group_tests_name("quantize_large", tests, test_devices_setup,
                                       test_devices_teardown);
}
