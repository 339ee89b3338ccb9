/*
 * Translates OpenCL calls and error codes to those of the driver under test, so that fault tests
 * also run on CUDA.
 */
#ifndef TANDEM_TESTS_SUPPORT_DRIVERS_DRIVER_WORDS_H
#define TANDEM_TESTS_SUPPORT_DRIVERS_DRIVER_WORDS_H

#include <stdbool.h>

/* Returns true if TANDEM_TEST_DEVICES names a CUDA device. */
bool test_runs_on_cuda(void);

/* Calls tdm_fault_plant for the equivalent call, with an equivalent code. */
void test_fault_plant(const char *opencl_call, long nth, int opencl_code, bool sticky);

/* The name of the equivalent code, as it appears in details. */
const char *test_code_name(int opencl_code);

#endif
