/*
 * Faults of a driver in the words of OpenCL, for tests that run on CUDA too: what the driver of this run calls the same.
 */
#ifndef TANDEM_TESTS_SUPPORT_DRIVERS_DRIVER_WORDS_H
#define TANDEM_TESTS_SUPPORT_DRIVERS_DRIVER_WORDS_H

#include <stdbool.h>

/* Does TANDEM_TEST_DEVICES name a CUDA device? */
bool test_runs_on_cuda(void);

/* tdm_fault_plant of the call that does the same, with a code that means the same. */
void test_fault_plant(const char *opencl_call, long nth, int opencl_code, bool sticky);

/* The name of that code, as details have it. */
const char *test_code_name(int opencl_code);

#endif
