/*
 * Tandem's own worker for the pool suite: blocks come and go in a given order, from the library's pool, from malloc or
 * from the driver; or a trace is replayed; or headers are read, one after the other.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "api/device/core.h"
#include "api/pool/pool_internal.h"
#include "api/pool/pool_statistics.h"
#include "bench/cases/pool_case.h"
#include "bench/trace/trace_replay.h"
#include "bench/workers/worker_tandem.h"
#include "common/random_fill.h"

/* Sizes are drawn before: a thread goes through so many of them again and again. */
#define SIZES 4096

typedef struct pool_state pool_state;

/* What one thread has, in cache lines of its own. */
typedef struct pool_lane {
    _Alignas(128) pool_state *state;
    void *_Atomic *blocks; /* of this lane; of all lanes where they hand over */
    int64_t live, oldest;
    uint32_t sizes[SIZES];
    uint64_t drawn; /* sizes */
    uint64_t random;
    int failed;
    pthread_t thread; /* of all lanes but the first */
} pool_lane;

/* A header's place in the chain: the size is that of the pool's own. */
typedef union chain_link {
    union chain_link *next;
    char header[sizeof(tdm_block)];
} chain_link;

struct pool_state {
    worker_device device; /* first, for worker_tandem.h */
    pool_case item;
    counted_memory memory;
    tdm_pool *pool;
    tdm_pool_statistics *statistics; /* as a device's pool has them */
    pool_lane *lanes;
    pthread_mutex_t lock; /* of what follows, about the lanes' threads */
    pthread_cond_t change;
    int64_t started; /* lanes, the first among them; 0: the lock is not made */
    int64_t working; /* that are not through with this round */
    uint64_t round;
    bool quits;
    chain_link *chain, *place;
    trace_data trace;
    replay_result replayed;
};

/* ---- where memory comes from ----------------------------------------------------------------------- */

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

/* ---- the orders ---------------------------------------------------------------------------------------- */

static void *take_next(pool_lane *lane) {
    void *const block = take(lane->state, lane->sizes[lane->drawn++ % SIZES]);
    lane->failed |= block == NULL;
    return block;
}

/* What only this lane reads and writes. */
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

/* The youngest go, in the reverse order, then as many come. */
static void run_lifo(pool_lane *lane, int64_t row) {
    for (int64_t i = 1; i <= row; i++)
        give(lane->state, get_block(lane, lane->live - i));
    for (int64_t i = row; i >= 1; i--)
        set_block(lane, lane->live - i, take_next(lane));
}

static void run_fifo(pool_lane *lane, int64_t row) {
    for (int64_t i = 0; i < row; i++) {
        exchange(lane, lane->oldest);
        lane->oldest = lane->oldest + 1 == lane->live ? 0 : lane->oldest + 1;
    }
}

static void run_random(pool_lane *lane, int64_t row) {
    for (int64_t i = 0; i < row; i++) {
        lane->random = lane->random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        exchange(lane, (int64_t)((lane->random >> 33) % (uint64_t)lane->live));
    }
}

/* A lane's block takes the place of one that another lane took, which is freed. */
static void run_handover(pool_lane *lane, int64_t row) {
    const int64_t all = lane->state->item.live;
    for (int64_t i = 0; i < row; i++) {
        give(lane->state, atomic_exchange(&lane->blocks[lane->oldest], take_next(lane)));
        lane->oldest = lane->oldest + 1 == all ? 0 : lane->oldest + 1;
    }
}

static void run_lane(pool_lane *lane) {
    static void (*const orders[])(pool_lane *, int64_t) = {run_lifo, run_fifo, run_random,
                                                           run_handover};
    const pool_case *const item = &lane->state->item;
    const int64_t row = pool_case_row(item, lane->live);
    for (int64_t done = 0; done < item->pairs; done += row)
        orders[item->order](lane, row);
}

/* ---- threads: one for each lane, for all rounds ----------------------------------------------------------- */

static void *serve_lane(void *user) {
    pool_lane *const lane = user;
    pool_state *const own = lane->state;
    pthread_mutex_lock(&own->lock);
    for (uint64_t seen = 0;; seen++) {
        while (own->round == seen && !own->quits)
            pthread_cond_wait(&own->change, &own->lock);
        if (own->quits)
            break;
        pthread_mutex_unlock(&own->lock);
        run_lane(lane);
        pthread_mutex_lock(&own->lock);
        if (--own->working == 0)
            pthread_cond_broadcast(&own->change);
    }
    pthread_mutex_unlock(&own->lock);
    return NULL;
}

static int start_lanes(pool_state *own) {
    pthread_mutex_init(&own->lock, NULL);
    pthread_cond_init(&own->change, NULL);
    for (own->started = 1; own->started < own->item.threads; own->started++) {
        pool_lane *const lane = &own->lanes[own->started];
        if (pthread_create(&lane->thread, NULL, serve_lane, lane) != 0)
            return -1;
    }
    return 0;
}

static void stop_lanes(pool_state *own) {
    if (own->started == 0)
        return;
    pthread_mutex_lock(&own->lock);
    own->quits = true;
    pthread_cond_broadcast(&own->change);
    pthread_mutex_unlock(&own->lock);
    for (int64_t i = 1; i < own->started; i++)
        pthread_join(own->lanes[i].thread, NULL);
    pthread_cond_destroy(&own->change);
    pthread_mutex_destroy(&own->lock);
}

static int run_lanes(pool_state *own) {
    int failed = 0;
    pthread_mutex_lock(&own->lock);
    own->round++;
    own->working = own->started - 1;
    pthread_cond_broadcast(&own->change);
    pthread_mutex_unlock(&own->lock);
    run_lane(&own->lanes[0]);
    pthread_mutex_lock(&own->lock);
    while (own->working > 0)
        pthread_cond_wait(&own->change, &own->lock);
    pthread_mutex_unlock(&own->lock);
    for (int64_t i = 0; i < own->item.threads; i++)
        failed |= own->lanes[i].failed;
    return failed;
}

static void run_chain(pool_state *own) {
    const uint64_t touches = pool_case_operations(&own->item);
    chain_link *place = own->place;
    for (uint64_t i = 0; i < touches; i++)
        place = place->next;
    own->place = place;
}

/* ---- the worker ------------------------------------------------------------------------------------------ */

static void release(void *state) {
    pool_state *const own = state;
    stop_lanes(own);
    for (int64_t i = 0; own->lanes != NULL && i < own->item.threads; i++) {
        pool_lane *const lane = &own->lanes[i];
        const bool shared = own->item.order == POOL_HANDOVER && i > 0;
        const int64_t blocks = own->item.order == POOL_HANDOVER ? own->item.live : lane->live;
        for (int64_t j = 0; lane->blocks != NULL && !shared && j < blocks; j++)
            give(own, get_block(lane, j));
        if (!shared)
            free((void *)lane->blocks);
    }
    free(own->lanes);
    free(own->chain);
    tdm_pool_statistics_close(own->statistics);
    tdm_pool_destroy(own->pool);
    trace_release(&own->trace);
    replay_release(&own->replayed);
    *own = (pool_state){.device = own->device};
}

/* The lane's blocks; lanes that hand over share the first one's, each with a part of its own to begin with. */
static int make_blocks(pool_state *own, pool_lane *lane, int64_t part) {
    const bool shared = own->item.order == POOL_HANDOVER;
    if (!shared || lane == own->lanes)
        lane->blocks = calloc((size_t)(shared ? own->item.live : lane->live), sizeof *lane->blocks);
    else
        lane->blocks = own->lanes[0].blocks;
    if (lane->blocks == NULL)
        return -1;
    lane->oldest = shared ? part : 0;
    for (int64_t j = 0; j < lane->live; j++)
        set_block(lane, lane->oldest + j, take_next(lane));
    return lane->failed ? -1 : 0;
}

static int make_lanes(pool_state *own) {
    const size_t bytes = (size_t)own->item.threads * sizeof *own->lanes;
    int64_t part = 0;
    own->lanes = aligned_alloc(_Alignof(pool_lane), bytes);
    if (own->lanes != NULL)
        memset(own->lanes, 0, bytes);
    for (int64_t i = 0; own->lanes != NULL && i < own->item.threads; i++) {
        pool_lane *const lane = &own->lanes[i];
        lane->state = own;
        lane->live = pool_case_live(&own->item, i);
        lane->random = own->item.seed + (uint64_t)i;
        for (uint64_t j = 0; j < SIZES; j++)
            lane->sizes[j] = (uint32_t)pool_case_size(&own->item, i, j);
        if (make_blocks(own, lane, part) != 0)
            return -1;
        part += lane->live;
    }
    return own->lanes == NULL ? -1 : 0;
}

/* One circle through all headers, in random order. */
static int make_chain(pool_state *own) {
    const uint64_t count = (uint64_t)own->item.live;
    uint32_t *const order = calloc(count, sizeof *order);
    own->chain = malloc(count * sizeof *own->chain);
    if (order == NULL || own->chain == NULL) {
        free(order);
        return -1;
    }
    for (uint64_t i = 0; i < count; i++) {
        const uint64_t other = random_bits(own->item.seed, i) % (i + 1);
        order[i] = order[other];
        order[other] = (uint32_t)i;
    }
    for (uint64_t i = 0; i < count; i++)
        own->chain[order[i]].next = &own->chain[order[(i + 1) % count]];
    own->place = own->chain;
    free(order);
    return 0;
}

static tdm_status open_pool(pool_state *own) {
    const tdm_pool_upstream upstream = counted_upstream(&own->memory);
    TDM_TRY(tdm_pool_create(&upstream, &own->pool));
    return tdm_pool_statistics_open(own->pool, NULL, &own->statistics);
}

static int prepare_lanes(pool_state *own) {
    if (own->item.way == POOL_TANDEM && open_pool(own) != TDM_OK)
        return -1;
    return make_lanes(own) == 0 ? start_lanes(own) : -1;
}

static worker_answer open_driver(pool_state *own, const char *request, worker_text *reply) {
    if (own->item.way == POOL_NATIVE && own->item.live > POOL_MAX_NATIVE) {
        worker_text_set(reply, "more than %d native allocations at a time are not tried",
                        POOL_MAX_NATIVE);
        return WORKER_SKIP;
    }
    return worker_device_open(&own->device, request, reply);
}

static worker_answer prepare(pool_state *own, const char *request, worker_text *reply) {
    int failed = 0;
    switch (own->item.way) {
    case POOL_NATIVE: {
        const worker_answer answer = open_driver(own, request, reply);
        if (answer != WORKER_OK)
            return answer;
        failed = prepare_lanes(own);
        break;
    }
    case POOL_TANDEM:
    case POOL_MALLOC:
        failed = prepare_lanes(own);
        break;
    case POOL_TOUCH:
        failed = make_chain(own);
        break;
    case POOL_REPLAY:
        failed = pool_case_trace(&own->item, &own->trace);
        break;
    }
    if (!failed)
        return WORKER_OK;
    worker_text_set(reply, "out of memory, or of threads");
    return WORKER_FAIL;
}

static worker_answer describe(void *state, const char *request, worker_text *reply) {
    static const char *const variants[] = {"pool over counted memory", "malloc", "driver",
                                           "dependent loads", "pool over counted memory"};
    pool_state *const own = state;
    if (pool_case_read(request, &own->item) != 0) {
        worker_text_set(reply, "the case cannot be read");
        return WORKER_FAIL;
    }
    const worker_answer answer = prepare(own, request, reply);
    if (answer == WORKER_OK)
        worker_field_add(reply, "variant", variants[own->item.way]);
    return answer;
}

static worker_answer replay(pool_state *own, worker_text *reply) {
    file_error error;
    replay_release(&own->replayed);
    if (replay_run(&own->trace, &(replay_settings)REPLAY_SETTINGS_INIT, &own->replayed, &error) ==
        0)
        return WORKER_OK;
    worker_text_set(reply, "%s", error.text);
    return WORKER_FAIL;
}

static worker_answer enqueue(void *state, worker_text *reply) {
    pool_state *const own = state;
    if (own->item.way == POOL_REPLAY)
        return replay(own, reply);
    if (own->item.way == POOL_TOUCH) {
        run_chain(own);
        return WORKER_OK;
    }
    if (run_lanes(own) == 0)
        return WORKER_OK;
    worker_text_set(reply, "an allocation was refused");
    return WORKER_FAIL;
}

static size_t output_bytes(void *state) {
    (void)state;
    return sizeof(pool_output);
}

static void output_of_pool(const pool_state *own, pool_output *output) {
    tdm_memory_stats stats = {.struct_size = sizeof stats};
    tdm_pool_stats(own->pool, &stats);
    output->live = stats.live_blocks;
    output->requested = stats.requested;
    output->failures = stats.failures;
    output->peak_reserved = stats.reserved_peak;
    output->lower_bound = stats.allocated_peak;
    const tdm_pool_totals totals = tdm_pool_totals_now(own->pool);
    output->visited = totals.visited;
    output->visited_most = totals.visited_max;
    output->counted = totals.operations;
}

static worker_answer output(void *state, void *bytes, worker_text *reply) {
    (void)reply;
    const pool_state *const own = state;
    pool_output result = {.operations = pool_case_operations(&own->item)};
    if (own->item.way == POOL_TANDEM)
        output_of_pool(own, &result);
    if (own->item.way == POOL_REPLAY) {
        result.operations = own->replayed.operations;
        result.peak_reserved = own->replayed.peak_reserved;
        result.lower_bound = own->replayed.lower_bound;
        result.failures = own->replayed.failures;
    }
    memcpy(bytes, &result, sizeof result);
    return WORKER_OK;
}

int worker_tandem_pool(void) {
    static const worker_implementation tandem = {.name = "tandem",
                                                 .identify = worker_device_identify,
                                                 .describe = describe,
                                                 .enqueue = enqueue,
                                                 .output_bytes = output_bytes,
                                                 .output = output,
                                                 .release = release};
    static pool_state state;
    return worker_device_serve(&tandem, &state);
}
