#include "bench/trace/trace_replay.h"

#include <math.h>
#include <stdlib.h>

#include "api/device/memory/memory_trace_text.h"

enum {
    MAX_DEPENDENCIES = 256
};

/* ---- counted memory -------------------------------------------------------------------------- */

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

/* ---- streams --------------------------------------------------------------------------------- */

/* The commands of a stream. Command i + 1 is done at done_ns[i]. */
typedef struct virtual_stream {
    uint64_t *done_ns;
    uint64_t count, capacity;
} virtual_stream;

/* A stream that used a block, in a list that starts at the block. */
typedef struct stream_use {
    uint32_t stream;
    uint32_t next; /* index plus 1 */
} stream_use;

typedef struct replay {
    /* This must be first: the pool's upstream gets one pointer for the memory and the streams. */
    counted_memory memory;
    const trace_data *trace;
    const replay_settings *settings;
    replay_result *result;
    tdm_pool *pool;
    virtual_stream *streams; /* stream s is at [s] */
    uint64_t now_ns;
    uint64_t lost_ns; /* time waited: delay of the replay behind the trace's clock */
    uint64_t waits;
    tdm_block **blocks;  /* NULL: refused, or not live */
    uint32_t *first_use; /* per block: index in `uses` plus 1 */
    stream_use *uses;
    uint32_t use_count;
} replay;

static uint64_t done_at(const replay *own, tdm_use use) {
    return own->streams[use.stream].done_ns[use.sequence - 1];
}

static bool has_passed(void *user, tdm_use use) {
    const replay *const own = user;
    return use.sequence == 0 || done_at(own, use) <= own->now_ns;
}

static void wait_for(void *user, tdm_use use) {
    replay *const own = user;
    if (has_passed(user, use))
        return;
    const uint64_t idle = done_at(own, use) - own->now_ns;
    own->waits++;
    own->lost_ns += idle;
    own->now_ns += idle;
}

/* The virtual clock waits for as long as needed, and ignores the patience. */
static bool wait_briefly(void *user, tdm_use use, uint64_t patience_ns) {
    (void)patience_ns;
    wait_for(user, use);
    return true;
}

/* ---- events ---------------------------------------------------------------------------------- */

/* Enqueues a command that waits for pending dependencies. Returns 0, or -1 if memory is short. */
static int enqueue(replay *own, uint32_t stream, const tdm_use *dependencies,
                   int dependency_count) {
    virtual_stream *const queue = &own->streams[stream];
    if (queue->count == queue->capacity) {
        const uint64_t capacity = queue->capacity == 0 ? 256 : 2 * queue->capacity;
        uint64_t *const done = realloc(queue->done_ns, capacity * sizeof *done);
        if (done == NULL)
            return -1;
        queue->done_ns = done;
        queue->capacity = capacity;
    }
    uint64_t start = own->now_ns;
    if (queue->count > 0 && queue->done_ns[queue->count - 1] > start)
        start = queue->done_ns[queue->count - 1];
    for (int i = 0; i < dependency_count; i++)
        if (done_at(own, dependencies[i]) > start)
            start = done_at(own, dependencies[i]);
    queue->done_ns[queue->count++] = start + own->settings->command_ns;
    return 0;
}

static void replay_alloc(replay *own, const trace_event *event, size_t index) {
    const uint64_t bytes = own->trace->blocks[event->block].bytes;
    tdm_block *block;
    if (tdm_pool_alloc(own->pool, bytes, event->stream, &block) != TDM_OK) {
        if (own->result->first_failure == 0)
            own->result->first_failure = index + 1;
        return;
    }
    own->blocks[event->block] = block;
    own->result->decisions[event->block] = (replay_decision){
        .native = counted_number(block->memory),
        .offset = block->offset,
        .size = block->size,
    };
}

static int replay_use(replay *own, const trace_event *event) {
    tdm_block *const block = own->blocks[event->block];
    tdm_use dependencies[MAX_DEPENDENCIES];
    if (block == NULL)
        return 0;
    const int found = tdm_pool_prepare(&block, 1, event->stream, dependencies, MAX_DEPENDENCIES);
    if (found < 0 || found > MAX_DEPENDENCIES ||
        enqueue(own, event->stream, dependencies, found) != 0)
        return -1;
    own->result->orders += found > 0;
    tdm_pool_record_use(&block, 1, (tdm_use){event->stream, own->streams[event->stream].count});
    own->uses[own->use_count] = (stream_use){event->stream, own->first_use[event->block]};
    own->first_use[event->block] = ++own->use_count;
    return 0;
}

static void replay_free(replay *own, uint32_t index) {
    tdm_block *const block = own->blocks[index];
    if (block == NULL)
        return;
    for (uint32_t use = own->first_use[index]; use != 0; use = own->uses[use - 1].next) {
        const uint32_t stream = own->uses[use - 1].stream;
        tdm_pool_record_use(&block, 1, (tdm_use){stream, own->streams[stream].count});
    }
    tdm_block_release(block);
    own->blocks[index] = NULL;
}

static int replay_events(replay *own) {
    const trace_data *const trace = own->trace;
    for (size_t i = 0; i < trace->event_count; i++) {
        const trace_event *const event = &trace->events[i];
        own->now_ns = event->time_ns + own->lost_ns;
        if (event->kind == TRACE_ALLOC)
            replay_alloc(own, event, i);
        else if (event->kind == TRACE_FREE)
            replay_free(own, event->block);
        else if (replay_use(own, event) != 0)
            return -1;
    }
    return 0;
}

/* ---- the replay ------------------------------------------------------------------------------ */

static int prepare(replay *own, const tdm_pool_upstream *upstream) {
    const trace_data *const trace = own->trace;
    const size_t blocks = trace->block_count + 1;
    size_t uses = 1;
    for (size_t i = 0; i < trace->event_count; i++)
        uses += trace->events[i].kind == TRACE_USE;
    own->streams = calloc((size_t)trace->streams + 1, sizeof *own->streams);
    own->blocks = calloc(blocks, sizeof(tdm_block *));
    own->first_use = calloc(blocks, sizeof *own->first_use);
    own->uses = calloc(uses, sizeof *own->uses);
    own->result->decisions = calloc(blocks, sizeof *own->result->decisions);
    own->result->decision_count = trace->block_count;
    if (own->streams == NULL || own->blocks == NULL || own->first_use == NULL ||
        own->uses == NULL || own->result->decisions == NULL)
        return -1;
    return tdm_pool_create(upstream, &own->pool) == TDM_OK ? 0 : -1;
}

static void finish(replay *own) {
    for (size_t i = 0; own->pool != NULL && i < own->trace->block_count; i++)
        tdm_block_release(own->blocks[i]);
    tdm_pool_destroy(own->pool);
    for (uint32_t i = 0; own->streams != NULL && i <= own->trace->streams; i++)
        free(own->streams[i].done_ns);
    free(own->streams);
    free((void *)own->blocks);
    free(own->first_use);
    free(own->uses);
}

static void take_figures(const replay *own) {
    replay_result *const result = own->result;
    tdm_memory_stats stats = {.struct_size = sizeof stats};
    tdm_pool_stats(own->pool, &stats);
    result->peak_reserved = stats.reserved_peak;
    result->native_allocations = stats.native_allocations;
    result->failures = stats.failures;
    result->waits = own->waits;
    result->idle_seconds = 1e-9 * (double)own->lost_ns;
    result->operations = own->trace->event_count;
}

int replay_run(const trace_data *trace, const replay_settings *settings, replay_result *result,
               file_error *error) {
    *result = (replay_result){.lower_bound = trace_summarize(trace).lower_bound};
    replay own = {.trace = trace, .settings = settings, .result = result};
    tdm_pool_upstream upstream = counted_upstream(&own.memory);
    upstream.passed = has_passed;
    upstream.wait = wait_for;
    upstream.wait_briefly = wait_briefly;
    upstream.alignment = TRACE_UNIT;
    if (settings->budget != 0)
        upstream.budget = settings->budget;
    int failed = prepare(&own, &upstream);
    if (!failed) {
        tdm_pool_set_throttle(own.pool, settings->throttle, 1);
        failed = replay_events(&own);
        take_figures(&own);
    }
    finish(&own);
    return failed ? file_fail(error, "out of memory while %zu events were replayed",
                              trace->event_count)
                  : 0;
}

void replay_release(replay_result *result) {
    free(result->decisions);
    result->decisions = NULL;
    result->decision_count = 0;
}

uint64_t replay_hash(const replay_result *result) {
    return tdm_trace_hash(TDM_TRACE_HASH_START, result->decisions,
                          result->decision_count * sizeof *result->decisions);
}

double replay_ratio(const replay_result *result) {
    return result->lower_bound > 0 ? (double)result->peak_reserved / (double)result->lower_bound
                                   : NAN;
}
