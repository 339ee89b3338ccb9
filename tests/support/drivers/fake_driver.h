/* Driver files out of tests/fake_driver, compiled into the folder of test_folder.h, and what a context says of them. */
#ifndef TANDEM_TESTS_SUPPORT_DRIVERS_FAKE_DRIVER_H
#define TANDEM_TESTS_SUPPORT_DRIVERS_FAKE_DRIVER_H

#include <tandem/device.h>

/* A shared library from C files of tests/fake_driver, or from what else the arguments of the compiler say. */
void fake_driver_compile(const char *library, const char *arguments);
/* A context with one backend alone, on a driver file of the folder, or of that path. */
tdm_context *fake_driver_context(const char *backend, const char *library);
/* It lists no device, and a note says why. */
void fake_driver_expect_note(const char *backend, const char *library, const char *part);

#endif
