#include "tests/support/drivers/counted_host.h"

#include <limits.h>
#include <stdatomic.h>
#include <stdlib.h>

#include <tandem/tandem.h>

static atomic_long live, calls;
/* Range of failing calls, both ends included. */
static atomic_long first_failure = LONG_MAX, last_failure = LONG_MAX;

static void *allocate(void *user, size_t bytes) {
    (void)user;
    const long call = atomic_fetch_add(&calls, 1) + 1;
    if (call >= atomic_load(&first_failure) && call <= atomic_load(&last_failure))
        return NULL;
    void *const block = malloc(bytes);
    if (block)
        atomic_fetch_add(&live, 1);
    return block;
}

static void release(void *user, void *block) {
    (void)user;
    if (block)
        atomic_fetch_sub(&live, 1);
    free(block);
}

bool counted_host_install(void) {
    const tdm_host_allocator allocator = {
        .struct_size = sizeof allocator, .allocate = allocate, .release = release};
    return tdm_set_host_allocator(&allocator) == TDM_OK;
}

long counted_host_live(void) {
    return atomic_load(&live);
}

long counted_host_calls(void) {
    return atomic_load(&calls);
}

void counted_host_fail_at(long nth) {
    const long call = atomic_load(&calls) + nth;
    atomic_store(&last_failure, call);
    atomic_store(&first_failure, call);
}

void counted_host_fail_from(long nth) {
    atomic_store(&last_failure, LONG_MAX);
    atomic_store(&first_failure, atomic_load(&calls) + nth);
}

bool counted_host_recover(void) {
    return atomic_load(&calls) >= atomic_exchange(&first_failure, LONG_MAX);
}
