/*
 * Tandem's own worker for the pool suite. It allocates and frees blocks in a given order, from the
 * library's pool, from malloc or from the driver. It also replays traces.
 */
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "api/device/core.h"
#include "api/pool/pool_internal.h"
#include "api/pool/pool_statistics.h"
#include "bench/cases/pool_case.h"
#include "bench/trace/trace_replay.h"
#include "bench/workers/team.h"
#include "bench/workers/worker_tandem.h"

/* Sizes are drawn in advance; a thread cycles through this many. */
#define SIZES 4096

typedef struct pool_state pool_state;

/* The state of one thread, in cache lines of its own. */
typedef struct pool_lane {
    _Alignas(128) pool_state *state;
    void *_Atomic *blocks; /* this lane's; in handover order all lanes share them */
    int64_t live, oldest;
    uint32_t sizes[SIZES];
    uint64_t drawn; /* sizes used so far */
    uint64_t random;
    int failed;
} pool_lane;

struct pool_state {
    worker_device device; /* first, for worker_tandem.h */
    pool_case item;
    counted_memory memory;
    tdm_pool *pool;
    tdm_pool_statistics *statistics; /* opened as for a device's pool */
    pool_lane *lanes;
    team *threads; /* one for each lane */
    trace_data trace;
    replay_result replayed;
};

static int read_case(void *state, const char *request) {
    return pool_case_read(request, &((pool_state *)state)->item);
}

/* ---- allocators ------------------------------------------------------------------------------ */

static void *take(const pool_state *own, size_t bytes) {
    if (own->item.way == POOL_TANDEM) {
        tdm_block *block;
        return tdm_pool_alloc(own->pool, bytes, 1, &block) == TDM_OK ? block : NULL;
    }
    if (own->item.way == POOL_MALLOC)
        return malloc(bytes);
    const tdm_device *const device = own->device.device;
    tdm_bk_memory *memory;
    return device->api->memory_alloc(device->native, TDM_MEMORY_DEVICE, bytes, &memory) == TDM_OK
               ? memory
               : NULL;
}

static void give(const pool_state *own, void *block) {
    if (own->item.way == POOL_TANDEM)
        tdm_block_release(block);
    else if (own->item.way == POOL_MALLOC)
        free(block);
    else if (block != NULL)
        own->device.device->api->memory_free(own->device.device->native, block);
}

/* ---- the orders ------------------------------------------------------------------------------ */

static void *take_next(pool_lane *lane) {
    void *const block = take(lane->state, lane->sizes[lane->drawn++ % SIZES]);
    lane->failed |= block == NULL;
    return block;
}

/* Returns a block that only this lane reads and writes. */
static void *get_block(const pool_lane *lane, int64_t index) {
    return atomic_load_explicit(&lane->blocks[index], memory_order_relaxed);
}

static void set_block(pool_lane *lane, int64_t index, void *block) {
    atomic_store_explicit(&lane->blocks[index], block, memory_order_relaxed);
}

static void exchange(pool_lane *lane, int64_t index) {
    give(lane->state, get_block(lane, index));
    set_block(lane, index, take_next(lane));
}

/* Frees the youngest blocks in reverse order, then allocates as many. */
static void run_lifo(pool_lane *lane, int64_t row) {
    for (int64_t i = 1; i <= row; i++)
        give(lane->state, get_block(lane, lane->live - i));
    for (int64_t i = row; i >= 1; i--)
        set_block(lane, lane->live - i, take_next(lane));
}

static void run_random(pool_lane *lane, int64_t row) {
    for (int64_t i = 0; i < row; i++) {
        lane->random = lane->random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        exchange(lane, (int64_t)((lane->random >> 33) % (uint64_t)lane->live));
    }
}

/* Replaces the oldest block, which another lane allocated, by a new one, and frees it. */
static void run_handover(pool_lane *lane, int64_t row) {
    const int64_t all = lane->state->item.live;
    for (int64_t i = 0; i < row; i++) {
        give(lane->state, atomic_exchange(&lane->blocks[lane->oldest], take_next(lane)));
        lane->oldest = lane->oldest + 1 == all ? 0 : lane->oldest + 1;
    }
}

static void run_lane(void *state, int part) {
    static void (*const orders[])(pool_lane *, int64_t) = {run_lifo, run_random, run_handover};
    const pool_state *const own = state;
    pool_lane *const lane = &own->lanes[part];
    const int64_t row = pool_case_row(&own->item, lane->live);
    for (int64_t done = 0; done < own->item.pairs; done += row)
        orders[own->item.order](lane, row);
}

/* ---- the worker ------------------------------------------------------------------------------ */

static void release(void *state) {
    pool_state *const own = state;
    const int shared = own->item.order == POOL_HANDOVER;
    team_stop(own->threads);
    for (int64_t i = 0; own->lanes != NULL && i < (shared ? 1 : own->item.threads); i++) {
        pool_lane *const lane = &own->lanes[i];
        for (int64_t j = 0; lane->blocks != NULL && j < (shared ? own->item.live : lane->live); j++)
            give(own, get_block(lane, j));
        free((void *)lane->blocks);
    }
    free(own->lanes);
    tdm_pool_statistics_close(own->statistics);
    tdm_pool_destroy(own->pool);
    trace_release(&own->trace);
    replay_release(&own->replayed);
}

/*
 * Creates the lanes. In handover order all share the first lane's blocks, and each starts in a part
 * of its own.
 */
static tdm_status create_lanes(pool_state *own) {
    const int shared = own->item.order == POOL_HANDOVER;
    const size_t bytes = (size_t)own->item.threads * sizeof *own->lanes;
    int64_t first = 0;
    own->lanes = aligned_alloc(_Alignof(pool_lane), bytes);
    if (own->lanes == NULL)
        return TDM_OUT_OF_HOST_MEMORY;
    memset(own->lanes, 0, bytes);
    for (int64_t i = 0; i < own->item.threads; i++) {
        pool_lane *const lane = &own->lanes[i];
        lane->state = own;
        lane->live = pool_case_live(&own->item, i);
        lane->oldest = shared ? first : 0;
        lane->random = own->item.seed + (uint64_t)i;
        for (uint64_t j = 0; j < SIZES; j++)
            lane->sizes[j] = (uint32_t)pool_case_size(&own->item, i, j);
        lane->blocks = shared && i > 0 ? own->lanes[0].blocks
                                       : calloc((size_t)(shared ? own->item.live : lane->live),
                                                sizeof *lane->blocks);
        if (lane->blocks == NULL)
            return TDM_OUT_OF_HOST_MEMORY;
        for (int64_t j = 0; j < lane->live; j++)
            set_block(lane, lane->oldest + j, take_next(lane));
        if (lane->failed)
            return TDM_OUT_OF_DEVICE_MEMORY;
        first += lane->live;
    }
    return TDM_OK;
}

static tdm_status prepare(void *state, const char *request, worker_text *reply) {
    static const char *const variants[] = {"pool over counted memory", "malloc", "driver",
                                           "pool over counted memory"};
    pool_state *const own = state;
    (void)request;
    worker_field_add(reply, "variant", variants[own->item.way]);
    if (own->item.way == POOL_REPLAY)
        return pool_case_trace(&own->item, &own->trace) == 0 ? TDM_OK : TDM_OUT_OF_HOST_MEMORY;
    if (own->item.way == POOL_NATIVE && own->item.live > POOL_MAX_NATIVE)
        return tdm_fail(TDM_UNSUPPORTED, "more than %d native allocations are not supported",
                        POOL_MAX_NATIVE);
    if (own->item.way == POOL_TANDEM) {
        const tdm_pool_upstream upstream = counted_upstream(&own->memory);
        TDM_TRY(tdm_pool_create(&upstream, &own->pool));
        TDM_TRY(tdm_pool_statistics_open(own->pool, NULL, &own->statistics));
    }
    TDM_TRY(create_lanes(own));
    own->threads = team_start((int)own->item.threads, run_lane, own);
    return own->threads == NULL ? TDM_OUT_OF_HOST_MEMORY : TDM_OK;
}

static tdm_status enqueue(void *state) {
    pool_state *const own = state;
    file_error error;
    if (own->item.way == POOL_REPLAY) {
        replay_release(&own->replayed);
        return replay_run(&own->trace, &(replay_settings)REPLAY_SETTINGS_INIT, &own->replayed,
                          &error) == 0
                   ? TDM_OK
                   : tdm_fail(TDM_INTERNAL, "%s", error.text);
    }
    team_run(own->threads);
    for (int64_t i = 0; i < own->item.threads; i++)
        if (own->lanes[i].failed)
            return tdm_fail(TDM_OUT_OF_DEVICE_MEMORY, "an allocation was refused");
    return TDM_OK;
}

static size_t output_bytes(const void *state) {
    (void)state;
    return sizeof(pool_output);
}

static tdm_status output(void *state, void *bytes) {
    const pool_state *const own = state;
    pool_output result = {.operations = pool_case_operations(&own->item)};
    if (own->item.way == POOL_TANDEM) {
        tdm_memory_stats stats = {.struct_size = sizeof stats};
        tdm_pool_stats(own->pool, &stats);
        const tdm_pool_totals totals = tdm_pool_totals_now(own->pool);
        result.live = stats.live_blocks;
        result.failures = stats.failures;
        result.visited = totals.visited;
        result.visited_most = totals.visited_max;
        result.counted = totals.operations;
    }
    if (own->item.way == POOL_REPLAY) {
        result.operations = own->replayed.operations;
        result.peak_reserved = own->replayed.peak_reserved;
        result.lower_bound = own->replayed.lower_bound;
        result.failures = own->replayed.failures;
    }
    memcpy(bytes, &result, sizeof result);
    return TDM_OK;
}

const tandem_worker worker_pool = {"tandem", sizeof(pool_state), read_case, prepare, enqueue,
                                   NULL,     output_bytes,       output,    release, NULL};
