#include "bench/trace/counted_memory.h"

#include <stdlib.h>

static tdm_status count_one(void *user, size_t bytes, tdm_bk_memory **memory) {
    counted_memory *const own = user;
    unsigned long long *const number = malloc(sizeof *number);
    (void)bytes;
    if (number == NULL)
        return TDM_OUT_OF_HOST_MEMORY;
    *number = atomic_fetch_add(&own->allocations, 1) + 1;
    *memory = (tdm_bk_memory *)number;
    return TDM_OK;
}

static void forget_one(void *user, tdm_bk_memory *memory) {
    (void)user;
    free(memory);
}

tdm_pool_upstream counted_upstream(counted_memory *memory) {
    return (tdm_pool_upstream){.user = memory,
                               .allocate = count_one,
                               .release = forget_one,
                               .max_allocation = UINT64_C(1) << 62,
                               .alignment = 128,
                               .budget = UINT64_C(1) << 62};
}

unsigned long long counted_number(const tdm_bk_memory *memory) {
    return *(const unsigned long long *)(const void *)memory;
}
