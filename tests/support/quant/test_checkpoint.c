#include "tests/support/quant/test_checkpoint.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "quant/number_formats.h"
#include "quant/quant_reference.h"
#include "tests/support/test_data.h"
#include "tests/support/test_model.h"
#include "tests/support/unit.h"

enum {
    PATIENCE_S = 100
};

static const char program[] = TANDEM_BINARY_DIR "/bin/tandem";

/* ---- the folder ---- */

int test_checkpoint_enter(void **state) {
    return test_folder_make(state) == 0 && chdir(test_folder()) == 0 ? 0 : -1;
}

/* Objects that a case obtained here; its teardown releases them. */
static struct {
    void *object;
    int is_file;
} * owned;
static size_t owned_count;

static void own(void *object, int is_file) {
    if (object == NULL)
        return;
    owned = realloc(owned, (owned_count + 1) * sizeof *owned);
    assert_non_null(owned);
    owned[owned_count].object = object;
    owned[owned_count++].is_file = is_file;
}

void *test_checkpoint_own(void *memory) {
    assert_non_null(memory);
    own(memory, 0);
    return memory;
}

int test_checkpoint_leave(void **state) {
    for (size_t i = 0; i < owned_count; i++)
        if (owned[i].is_file)
            safetensors_close(owned[i].object);
        else
            free(owned[i].object);
    free(owned);
    owned = NULL;
    owned_count = 0;
    return chdir("/") == 0 ? test_folder_remove(state) : -1;
}

int test_checkpoint_files(void) {
    return test_folder_count(test_folder());
}

void test_checkpoint_write_good(const char *name) {
    safetensors_tensor tensors[] = {test_tensor_make("a.weight", SAFETENSORS_F32, 1, 32, 64, 0),
                                    test_tensor_make("b.weight", SAFETENSORS_F16, 2, 40, 32, 0)};
    test_checkpoint_write(name, tensors, 2);
}

void test_checkpoint_remove(const char *name) {
    if (unlink(name) != 0)
        fail_msg("%s is not there", name);
}

/* ---- tensors ---- */

static tdm_dtype dtype_of(safetensors_dtype dtype) {
    return dtype == SAFETENSORS_F16 ? TDM_F16 : dtype == SAFETENSORS_BF16 ? TDM_BF16 : TDM_F32;
}

int64_t test_tensor_count(const safetensors_tensor *tensor) {
    return (int64_t)(tensor->bytes / safetensors_dtype_bytes(tensor->dtype));
}

safetensors_tensor test_tensor_make(const char *name, safetensors_dtype dtype, uint64_t seed,
                                    int64_t first, int64_t second, int64_t third) {
    safetensors_tensor tensor = {.name = name, .dtype = dtype, .shape = {first, second, third}};
    test_random random = {.state = seed};
    int64_t count = 1;
    while (tensor.rank < 3 && tensor.shape[tensor.rank] > 0)
        count *= tensor.shape[tensor.rank++];
    tensor.bytes = (size_t)count * safetensors_dtype_bytes(dtype);
    void *const data = malloc(tensor.bytes);
    assert_non_null(data);
    for (int64_t i = 0; i < count; i++) {
        double sum = 0;
        for (int j = 0; j < 4; j++)
            sum += test_random_uniform(&random, -1, 1);
        tdm_number_set(dtype_of(dtype), data, (size_t)i, sum);
    }
    tensor.data = data;
    own(data, 0);
    return tensor;
}

float test_tensor_at(const safetensors_tensor *tensor, int64_t index) {
    return (float)tdm_number_get(dtype_of(tensor->dtype), tensor->data, (size_t)index);
}

/* ---- files ---- */

void test_checkpoint_write(const char *name, const safetensors_tensor *tensors, size_t count) {
    static const safetensors_pair metadata[] = {{"architecture", "test"}, {"note", "keep me"}};
    safetensors_error error = {""};
    if (test_safetensors_write(name, tensors, count, metadata, 2, &error))
        fail_msg("%s", error.text);
}

safetensors_file *test_checkpoint_open(const char *name) {
    safetensors_file *file = NULL;
    safetensors_error error = {""};
    if (safetensors_open(name, &file, &error))
        fail_msg("%s", error.text);
    own(file, 1);
    return file;
}

/* ---- weights ---- */

quantized_weight test_weight_read(const safetensors_file *file, const char *name) {
    quantized_weight weight;
    file_error error = {""};
    if (quantized_weight_read(file, name, &weight, &error))
        fail_msg("%s: %s", name, error.text);
    own(weight.memory, 0);
    return weight;
}

float test_weight_scale(const quantized_weight *weight, int64_t index) {
    return (float)tdm_number_get(weight->scale_dtype, weight->scales, (size_t)index);
}

int32_t test_weight_zero_point(const quantized_weight *weight, int64_t index) {
    if (weight->zero_point_dtype == TDM_DTYPE_NONE)
        return 0;
    return (int32_t)tdm_number_get(weight->zero_point_dtype, weight->zero_points, (size_t)index);
}

int64_t test_weight_scale_of(const quantized_weight *weight, int64_t element) {
    int64_t at[SAFETENSORS_MAX_RANK];
    int64_t position = 0;
    for (int i = weight->rank - 1; i >= 0; i--) {
        at[i] = element % weight->shape[i];
        element /= weight->shape[i];
    }
    for (int i = 0; i < weight->rank; i++) {
        const int64_t block = weight->block[i] == 0 ? weight->shape[i] : weight->block[i];
        position = position * ((weight->shape[i] + block - 1) / block) + at[i] / block;
    }
    return position;
}

/*
 * Returns the largest error of dequantized values. Without zero points it is half a rounding step.
 * A rounded zero point adds half a step, and a scale that was rounded down cuts off the end of the
 * range.
 */
static double largest_error(const quantized_weight *weight, double scale) {
    const double codes = weight->dtype == TDM_S4 ? 15 : 255;
    return weight->zero_point_dtype ? scale + codes * scale * 0x1p-24 : 0.5 * scale;
}

void test_weight_check(const safetensors_tensor *tensor, const quantized_weight *weight) {
    for (int64_t i = 0; i < test_tensor_count(tensor); i++) {
        const int64_t at = test_weight_scale_of(weight, i);
        const double scale = (double)test_weight_scale(weight, at);
        const double x = (double)test_tensor_at(tensor, i);
        const int32_t code = tdm_quant_get(weight->dtype, weight->codes, i);
        const double y = scale * (code - test_weight_zero_point(weight, at));
        if (!(fabs(x - y) <= 1.0001 * largest_error(weight, scale)))
            fail_msg("element %lld: %g became %g, scale %g", (long long)i, x, y, scale);
    }
}

/* ---- the command ---- */

static test_program_result run(const char *format, va_list values, char *arguments, size_t size) {
    const int prefix = snprintf(arguments, size, "quantize ");
    vsnprintf(arguments + prefix, size - (size_t)prefix, format, values);
    return test_program_run(program, arguments, NULL, PATIENCE_S);
}

void test_quantize(int exit_code, const char *output, const char *errors, const char *format, ...) {
    char arguments[1024];
    va_list values;
    va_start(values, format);
    test_program_result result = run(format, values, arguments, sizeof arguments);
    va_end(values);
    if (result.exit_code != exit_code || (output && !strstr(result.output, output)) ||
        (errors && !strstr(result.errors, errors)))
        fail_msg("'tandem %s' gave %d\n-- output:\n%s-- errors:\n%s", arguments, result.exit_code,
                 result.output, result.errors);
    test_program_release(&result);
}

char *test_quantize_output(const char *format, ...) {
    char arguments[1024];
    va_list values;
    va_start(values, format);
    test_program_result result = run(format, values, arguments, sizeof arguments);
    va_end(values);
    if (result.exit_code != 0)
        fail_msg("'tandem %s' gave %d: %s", arguments, result.exit_code, result.errors);
    free(result.errors);
    return result.output;
}
