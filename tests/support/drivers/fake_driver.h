/*
 * Compiles drivers from tests/fake_driver into the folder of test_folder.h, and checks the contexts
 * opened on them.
 */
#ifndef TANDEM_TESTS_SUPPORT_DRIVERS_FAKE_DRIVER_H
#define TANDEM_TESTS_SUPPORT_DRIVERS_FAKE_DRIVER_H

#include <tandem/device.h>

/*
 * Compiles a shared library from C files of tests/fake_driver. `arguments` are the compiler's
 * arguments.
 */
void fake_driver_compile(const char *library, const char *arguments);
/* Creates a context with a single backend, on a driver file in the folder or at a path. */
tdm_context *fake_driver_context(const char *backend, const char *library);
/* Checks that the context lists no device, and that a note contains `part`. */
void fake_driver_expect_note(const char *backend, const char *library, const char *part);

#endif
