// This upstream allocator of a pool uses host memory. It simulates the number of the last completed
// command of each stream.
#include <stdlib.h>

#include "tests/support/drivers/simulated_memory.h"

#include "tests/support/unit.h"

static void counter_add(tdm_memory_counter *counter, uint64_t by) {
    counter->current += by;
    counter->allocated += by;
    if (counter->current > counter->peak)
        counter->peak = counter->current;
}

static tdm_status native_allocate(void *user, size_t bytes, tdm_bk_memory **memory) {
    simulated_memory *const m = user;
    simulated_native *const native = calloc(1, sizeof *native);
    assert_non_null(native);
    native->bytes = bytes;
    native->data = malloc(bytes);
    assert_non_null(native->data);
    native->next = m->natives;
    m->natives = native;
    counter_add(&m->bytes, bytes);
    counter_add(&m->count, 1);
    *memory = (tdm_bk_memory *)native;
    return TDM_OK;
}

static void native_release(void *user, tdm_bk_memory *memory) {
    simulated_memory *const m = user;
    simulated_native **link = &m->natives;
    while (*link != (simulated_native *)memory)
        link = &(*link)->next;
    simulated_native *const native = *link;
    *link = native->next;
    m->bytes.current -= native->bytes;
    m->bytes.freed += native->bytes;
    m->count.current--;
    m->count.freed++;
    free(native->data);
    free(native);
}

static bool has_passed(void *user, tdm_use use) {
    const simulated_memory *const m = user;
    return !m->unfinished || m->passed[use.stream] >= use.sequence;
}

static void wait_for(void *user, tdm_use use) {
    simulated_memory *const m = user;
    if (has_passed(user, use))
        return;
    m->waits++;
    m->passed[use.stream] = use.sequence;
}

tdm_pool_upstream simulated_upstream(simulated_memory *memory) {
    return (tdm_pool_upstream){.user = memory,
                               .allocate = native_allocate,
                               .release = native_release,
                               .passed = has_passed,
                               .wait = wait_for,
                               .max_allocation = UINT64_C(256) << 20,
                               .alignment = 128,
                               .budget = UINT64_C(1) << 30};
}

void simulated_open(simulated_memory *memory) {
    *memory = (simulated_memory){0};
    const tdm_pool_upstream upstream = simulated_upstream(memory);
    assert_int_equal(tdm_pool_create(&upstream, &memory->pool), TDM_OK);
}

void simulated_close(simulated_memory *memory) {
    tdm_pool_destroy(memory->pool);
    assert_null(memory->natives);
}

simulated_native *simulated_native_of(const tdm_block *block) {
    return (simulated_native *)block->memory;
}

void simulated_use(tdm_block *block, uint32_t stream, uint64_t sequence) {
    tdm_use dependencies[8];
    assert_true(tdm_pool_prepare(&block, 1, stream, dependencies, 8) >= 0);
    tdm_pool_record_use(&block, 1, (tdm_use){stream, sequence});
}
