/* Checkpoints for tests of `tandem quantize`, in a folder of their own, and runs of the command on them. */
#ifndef TANDEM_TESTS_SUPPORT_QUANT_TEST_CHECKPOINT_H
#define TANDEM_TESTS_SUPPORT_QUANT_TEST_CHECKPOINT_H

#include <stddef.h>
#include <stdint.h>

#include "formats/checkpoint/quantize_read.h"
#include "formats/safetensors.h"
#include "tests/support/test_folder.h"
#include "tests/support/test_program.h"

/* The folder that is the working folder of the running case; setup and teardown of cmocka. What a case makes, opens or reads with the
 * functions below lives until its teardown. */
int test_checkpoint_enter(void **state);
int test_checkpoint_leave(void **state);

/* Memory that the teardown frees; fails the case where it is NULL. Returns it. */
void *test_checkpoint_own(void *memory);

/* How many entries the folder has. */
int test_checkpoint_files(void);

/* Two weights, of F32 and F16, that every scheme takes. */
void test_checkpoint_write_good(const char *name);

/* Remove a file of the folder, which must be there. */
void test_checkpoint_remove(const char *name);

/* A tensor of floats from normal-like random numbers (a sum of four uniform ones), in f32, f16 or bf16. rank <= 4; extents of 0 end the shape. */
safetensors_tensor test_tensor_make(const char *name, safetensors_dtype dtype, uint64_t seed,
                                    int64_t first, int64_t second, int64_t third);

/* Element of a tensor of floats. */
float test_tensor_at(const safetensors_tensor *tensor, int64_t index);

/* Number of elements. */
int64_t test_tensor_count(const safetensors_tensor *tensor);

/* Write tensors as `name`; fails the case where that fails. */
void test_checkpoint_write(const char *name, const safetensors_tensor *tensors, size_t count);

/* Open `name`; fails the case where that fails. */
safetensors_file *test_checkpoint_open(const char *name);

/* Read a weight of an output of the command; fails the case where that fails. */
quantized_weight test_weight_read(const safetensors_file *file, const char *name);

/* Scale and zero point at a position of the tensor of scales, and the position that serves an element by the rule of
 * quant.h. */
float test_weight_scale(const quantized_weight *weight, int64_t index);
int32_t test_weight_zero_point(const quantized_weight *weight, int64_t index);
int64_t test_weight_scale_of(const quantized_weight *weight, int64_t element);

/* Without the reference of quant/: what comes back lies within half a step of what went in. */
void test_weight_check(const safetensors_tensor *tensor, const quantized_weight *weight);

/* Run `tandem quantize` with these words. Fails the case unless it ends with `exit_code` and, for each that is not NULL, has
 * the texts in its output and errors. */
void test_quantize(int exit_code, const char *output, const char *errors, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* The same, giving the standard output, which the caller frees. */
char *test_quantize_output(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
