/*
 * Checkpoints for tests of `tandem quantize`, in a folder of their own, and runs of the command on
 * them.
 */
#ifndef TANDEM_TESTS_SUPPORT_QUANT_TEST_CHECKPOINT_H
#define TANDEM_TESTS_SUPPORT_QUANT_TEST_CHECKPOINT_H

#include <stddef.h>
#include <stdint.h>

#include "formats/checkpoint/quantize_read.h"
#include "formats/safetensors.h"
#include "tests/support/test_folder.h"
#include "tests/support/test_program.h"

/*
 * Setup and teardown of cmocka: a folder becomes the working folder of the running case. Objects
 * that a case makes, opens or reads with the functions below live until its teardown.
 */
int test_checkpoint_enter(void **state);
int test_checkpoint_leave(void **state);

/* Registers memory that the teardown frees, and returns it. Fails the case if it is NULL. */
void *test_checkpoint_own(void *memory);

/* Counts the entries of the folder. */
int test_checkpoint_files(void);

/* Writes two weights, F32 and F16, that every scheme accepts. */
void test_checkpoint_write_good(const char *name);

/* Removes a file of the folder, which must exist. */
void test_checkpoint_remove(const char *name);

/*
 * Makes a tensor of normal-like random floats (sums of four uniform ones) in f32, f16 or bf16. An
 * extent of 0 ends the shape.
 */
safetensors_tensor test_tensor_make(const char *name, safetensors_dtype dtype, uint64_t seed,
                                    int64_t first, int64_t second, int64_t third);

/* Returns an element of a tensor of floats. */
float test_tensor_at(const safetensors_tensor *tensor, int64_t index);

/* Returns the number of elements. */
int64_t test_tensor_count(const safetensors_tensor *tensor);

/* Writes tensors as `name`. Fails the case on an error. */
void test_checkpoint_write(const char *name, const safetensors_tensor *tensors, size_t count);

/* Opens `name`. Fails the case on an error. */
safetensors_file *test_checkpoint_open(const char *name);

/* Reads a weight from an output of the command. Fails the case on an error. */
quantized_weight test_weight_read(const safetensors_file *file, const char *name);

/*
 * The first two return the scale and the zero point at an index of the tensor of scales. The third
 * returns the index for an element, by the rule of quant.h.
 */
float test_weight_scale(const quantized_weight *weight, int64_t index);
int32_t test_weight_zero_point(const quantized_weight *weight, int64_t index);
int64_t test_weight_scale_of(const quantized_weight *weight, int64_t element);

/*
 * Checks that dequantized values lie within the largest rounding error of the originals. The check
 * does not use the reference of quant/.
 */
void test_weight_check(const safetensors_tensor *tensor, const quantized_weight *weight);

/*
 * Runs `tandem quantize` with these arguments. Fails the case unless it exits with `exit_code`.
 * Output and errors must contain the given texts that are not NULL.
 */
void test_quantize(int exit_code, const char *output, const char *errors, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* Like test_quantize, but returns the standard output, which the caller frees. */
char *test_quantize_output(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
