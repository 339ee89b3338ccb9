/*
 * Translates OpenCL calls and error codes to those of the driver under test. Tests that inject
 * faults by OpenCL names therefore also run on CUDA.
 */
#ifndef TANDEM_TESTS_SUPPORT_DRIVERS_DRIVER_FAULTS_H
#define TANDEM_TESTS_SUPPORT_DRIVERS_DRIVER_FAULTS_H

#include <stdbool.h>

/* Returns true if TANDEM_TEST_DEVICES begins with "cuda". */
bool test_runs_on_cuda(void);

/* Calls tdm_fault_plant, with the driver's equivalents of the OpenCL call and the error code. */
void test_fault_plant(const char *opencl_call, long nth, int opencl_code, bool sticky);

/* Returns the name of the equivalent code, as it appears in the detail texts of errors. */
const char *test_code_name(int opencl_code);

#endif
