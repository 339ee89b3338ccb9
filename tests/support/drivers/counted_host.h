/*
 * A host allocator for the library that counts its blocks and fails on request.
 */
#ifndef TANDEM_TESTS_SUPPORT_DRIVERS_COUNTED_HOST_H
#define TANDEM_TESTS_SUPPORT_DRIVERS_COUNTED_HOST_H

#include <stdbool.h>

/*
 * Call this before the library allocates any host memory. Returns false if the library refuses the
 * allocator.
 */
bool counted_host_install(void);

/* Number of live blocks, and number of allocations requested so far, failed ones included. */
long counted_host_live(void);
long counted_host_calls(void);

/*
 * Makes the nth allocation from now fail. With `_from`, every later one fails too. The first is 1.
 */
void counted_host_fail_at(long nth);
void counted_host_fail_from(long nth);

/*
 * Stops the failures. Returns true if an allocation has failed since the last call that set them.
 */
bool counted_host_recover(void);

#endif
