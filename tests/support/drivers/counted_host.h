/*
 * Host memory of the library that counts itself, and fails when told to.
 */
#ifndef TANDEM_TESTS_SUPPORT_DRIVERS_COUNTED_HOST_H
#define TANDEM_TESTS_SUPPORT_DRIVERS_COUNTED_HOST_H

#include <stdbool.h>

/* Before the library takes any host memory. False when it refuses the allocator. */
bool counted_host_install(void);

/* Blocks that live now, and allocations asked for so far, refused ones too. */
long counted_host_live(void);
long counted_host_calls(void);

/* The nth allocation from now fails, and with `_from` every later one too; the first is 1. */
void counted_host_fail_at(long nth);
void counted_host_fail_from(long nth);

/* No allocation fails any more. True when one has failed since the last call that asked for it. */
bool counted_host_recover(void);

#endif
