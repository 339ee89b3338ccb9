/*
 * What products of quantized numbers lose on random data, through the device's own quantization and tdm_gemm: what theory says, from both
 * sides. tests/quant/test_quant_tensor.c asks the same of the host's reference.
 */
// ctest: device
#include <math.h>
#include <stdlib.h>

#include "quant/error_measures.h"
#include "tests/support/devices/device_cases.h"
#include "tests/support/quant/quant_theory.h"

enum {
    ROWS = 64,
    COLUMNS = 64,
    DEPTH = 256,
    ALL = 0 /* a block that spans its dimension */
};

typedef struct nmse_case {
    const char *name;
    tdm_dtype a, b;         /* as they are multiplied */
    int64_t b_group;        /* along K */
    int quantize_a;         /* inside the call */
    int a_levels, b_levels; /* steps from 0 to the greatest number; 0: not rounded to steps */
} nmse_case;

static const nmse_case cases[] = {
    {"f16 x f16", TDM_F16, TDM_F16, ALL, 0, 0, 0},
    {"s8 by row x s8 by channel", TDM_S8, TDM_S8, ALL, 0, 127, 127},
    {"f32 x s8 by channel", TDM_F32, TDM_S8, ALL, 0, 0, 127},
    {"f32 quantized by row x s8 by channel", TDM_F32, TDM_S8, ALL, 1, 127, 127},
    {"f32 x s4 by 32", TDM_F32, TDM_S4, 32, 0, 0, 7},
    {"f32 quantized by row x s4 by 32", TDM_F32, TDM_S4, 32, 1, 127, 7},
    {"f16 x s4 by 128", TDM_F16, TDM_S4, 128, 0, 0, 7},
};

static double theory_of(const nmse_case *item, quant_distribution kind) {
    double sum = 0;
    if (item->a_levels > 0)
        sum += quant_theory_of_steps(kind, DEPTH, item->a_levels);
    else if (item->a == TDM_F16)
        sum += quant_theory_of_f16(kind);
    if (item->b_levels > 0)
        return sum + quant_theory_of_steps(kind, item->b_group == ALL ? DEPTH : (int)item->b_group,
                                           item->b_levels);
    return sum + quant_theory_of_f16(kind);
}

/* Numbers of f32 brought to the type on the device: converted, or quantized by blocks of their last dimension. */
static tdm_tensor *bring(const test_device *device, const float *numbers, int64_t rows,
                         tdm_dtype type, int64_t group) {
    const int64_t shape[] = {rows, DEPTH}, blocks[] = {1, group};
    tdm_tensor *source, *result;
    TEST_OK(tdm_tensor_create(device->device, TDM_F32, 2, shape, &source));
    TEST_OK(tdm_tensor_write(device->stream, numbers, (size_t)(rows * DEPTH) * sizeof *numbers,
                             NULL, source));
    if (type == TDM_F32)
        return source;
    if (tdm_dtype_info(type)->kind == TDM_CLASS_FLOAT) {
        TEST_OK(tdm_tensor_create(device->device, type, 2, shape, &result));
        TEST_OK(tdm_tensor_convert(device->stream, source, result));
    } else {
        TEST_OK(tdm_tensor_create_quantized(device->device, type, 2, shape, blocks, TDM_F32,
                                            TDM_DTYPE_NONE, &result));
        TEST_OK(tdm_tensor_quantize_minmax(device->stream, source, result));
    }
    tdm_tensor_destroy(source);
    return result;
}

static void multiply(const test_device *device, const nmse_case *item, const float *a,
                     const float *b, float *product) {
    const int64_t shape[] = {ROWS, COLUMNS};
    tdm_tensor *const left = bring(device, a, ROWS, item->a, ALL);
    tdm_tensor *const right = bring(device, b, COLUMNS, item->b, item->b_group);
    tdm_tensor *turned, *d;
    tdm_gemm_epilogue epilogue = {.struct_size = sizeof epilogue};
    epilogue.quantize_a = item->quantize_a;
    TEST_OK(tdm_tensor_transpose(right, (const int[]){1, 0}, &turned));
    TEST_OK(tdm_tensor_create(device->device, TDM_F32, 2, shape, &d));
    TEST_OK(tdm_gemm(device->stream, 1, left, turned, 0, NULL, d, &epilogue));
    TEST_OK(tdm_tensor_read(device->stream, d, product, sizeof(float) * ROWS * COLUMNS, NULL));
    tdm_tensor_destroy(left);
    tdm_tensor_destroy(right);
    tdm_tensor_destroy(turned);
    tdm_tensor_destroy(d);
}

static double nmse_of(const float *a, const float *b, const float *product) {
    tdm_quant_error error = {0};
    for (int i = 0; i < ROWS; i++)
        for (int j = 0; j < COLUMNS; j++) {
            double sum = 0;
            for (int k = 0; k < DEPTH; k++)
                sum += (double)a[i * DEPTH + k] * (double)b[j * DEPTH + k];
            const float exact = (float)sum;
            tdm_quant_error_add(&error, &exact, &product[i * COLUMNS + j], 1);
        }
    return tdm_quant_error_nmse(&error);
}

DEVICE_TEST(products_lose_what_theory_says) {
    static float a[ROWS * DEPTH], b[COLUMNS * DEPTH], product[ROWS * COLUMNS];
    for (int kind = QUANT_GAUSSIAN; kind <= QUANT_UNIFORM; kind++) {
        test_random random = {20261123};
        for (int i = 0; i < ROWS * DEPTH; i++)
            a[i] = (float)quant_draw(&random, (quant_distribution)kind);
        for (int i = 0; i < COLUMNS * DEPTH; i++)
            b[i] = (float)quant_draw(&random, (quant_distribution)kind);
        for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
            const double theory = theory_of(&cases[i], (quant_distribution)kind);
            multiply(device, &cases[i], a, b, product);
            const double nmse = nmse_of(a, b, product);
            if (!(nmse <= 1.2 * theory && nmse >= theory / 1.2))
                test_case_fail("%s, %s data: the NMSE is %.3e, %.3f of the theory's %.3e",
                               cases[i].name, kind == QUANT_GAUSSIAN ? "Gaussian" : "uniform", nmse,
                               nmse / theory, theory);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(products_lose_what_theory_says),
    };
    return cmocka_run_group_tests(tests, test_devices_setup, test_devices_teardown);
}
