/* cmocka, with the headers that must come before it. */
#ifndef TANDEM_TESTS_SUPPORT_UNIT_H
#define TANDEM_TESTS_SUPPORT_UNIT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif
#include <cmocka.h>
#ifdef __cplusplus
}
#endif

#endif
