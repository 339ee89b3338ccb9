// The pool under random traffic, against a model that records for every unit of memory its owner
// and its last users. A failing sequence is shrunk before it is reported. TANDEM_POOL_OPERATIONS
// sets the number of operations (10000000 by default).
//
// Mutants of the pool, listed here by subject, were tried by hand. This program, test_pool,
// test_pool_limits, test_pool_order or test_pool_threads detected each of them:
//   ranges        a unit split short or long, or only if far larger; no merge with the neighbour
//                 before or after
//   dependencies  event guard omitted in prepare, free, split or merge; dependencies of an earlier
//                 generation forgotten; the smaller sequence number kept in a merge; all
//                 dependencies treated as finished when pruned or merged; another stream's pending
//                 range treated as ready
//   index         class rounded down by one; own class searched without comparing sizes; search one
//                 class too low; a bit not cleared
//   counters      an idle slab, or a slab's live bytes, not counted
//   limits        budget a unit too large or too small; account not credited on release or on
//                 failure; no wait before a refusal; relief called with the pool locked
//   release       idle slab released while pending; native memory of a block released under running
//                 work, or leaked when host memory is short; release without the lock; uses kept
//                 for the next generation; uses of destroyed streams kept
//   caches        blocks on another cache's list not freed before a refusal or a read; slab moved
//                 without counting its live bytes, or with its free ranges left in the old index; a
//                 range of another cache taken without its lock
//                 (test_pool_thread_caches:) slot not emptied, filled twice or not counted;
//                 overflow list forgotten; a cache's changes not added to the sums, or added twice;
//                 its peak not added
//   cost          headers never reused; a search without a limit; growth with the depth of queues
#include <stdlib.h>
#include <string.h>

#include "tests/support/drivers/pool_world.h"
#include "tests/support/test_case.h"
#include "tests/support/test_data.h"

#define SLOTS 192
#define SEQUENCE 20000

typedef enum op_kind {
    OP_ALLOC,
    OP_USE,
    OP_FREE,
    OP_PASS,
    OP_TRIM,
    OP_HOME // simulates a change of thread: existing blocks belong to other caches
} op_kind;

/* Any subsequence is valid: an operation does nothing if its slot is in the wrong state. */
typedef struct op {
    uint8_t kind, stream;
    uint16_t slot;
    uint32_t bytes;
} op;

typedef struct settings {
    uint64_t seed, budget;
    uint32_t streams;
    bool thorough;          /* check the pool after every operation */
    bool has_thread_caches; /* several per-thread caches */
    bool planted;           /* treat two live blocks of 1000 bytes as a fault */
} settings;

typedef struct slot {
    tdm_block *block;
    uint64_t size;
    uint64_t former[WORLD_STREAMS + 1]; /* unfinished work of earlier owners when allocated */
    uint64_t uses[WORLD_STREAMS + 1];
} slot;

typedef struct model {
    const settings *settings;
    pool_world world;
    slot slots[SLOTS];
    uint64_t sequence[WORLD_STREAMS + 1];
    uint64_t requested, allocated, live, allocations, frees, refused;
    int planted;
} model;

/* ---- one operation --------------------------------------------------------------------------- */

static world_unit *units_of(const tdm_block *block) {
    return ((world_native *)block->memory)->units + block->offset / WORLD_UNIT;
}

static const char *alloc(model *m, slot *s, const op *o) {
    if (s->block)
        return NULL;
    if (tdm_pool_alloc(m->world.pool, o->bytes, o->stream, &s->block) != TDM_OK) {
        m->refused++;
        return s->block ? "a refused allocation gave a block" : NULL;
    }
    const tdm_block *const block = s->block;
    *s = (slot){.block = s->block, .size = block->size};
    if (block->size < o->bytes || block->size > (uint64_t)o->bytes + WORLD_UNIT ||
        block->offset % WORLD_UNIT)
        return "a block of the wrong size or alignment";
    if (block->offset + block->size > ((world_native *)block->memory)->bytes)
        return "a block reaches beyond its memory";
    world_unit *const units = units_of(block);
    for (uint64_t i = 0; i < block->size / WORLD_UNIT; i++) {
        if (units[i].generation)
            return "a block where another one lives";
        units[i].generation = block->generation;
        for (int t = 1; t <= WORLD_STREAMS; t++)
            if (s->former[t] < units[i].used[t])
                s->former[t] = units[i].used[t];
    }
    m->requested += o->bytes;
    m->allocated += block->size;
    m->live++;
    m->allocations++;
    m->planted += o->bytes == 1000;
    return NULL;
}

/* A stream's first command on the block must depend on all unfinished work of others. */
static const char *check_dependencies(const model *m, const slot *s, uint32_t stream,
                                      const tdm_use *dependencies, int count) {
    uint64_t reported[WORLD_STREAMS + 1] = {0};
    for (int i = 0; i < count; i++) {
        if (dependencies[i].stream == stream || reported[dependencies[i].stream])
            return "an edge to the stream itself, or two to one";
        if (m->world.passed[dependencies[i].stream] >= dependencies[i].sequence)
            return "an edge to what has passed";
        reported[dependencies[i].stream] = dependencies[i].sequence;
    }
    for (uint32_t t = 1; t <= WORLD_STREAMS; t++)
        if (t != stream && s->former[t] > m->world.passed[t] && reported[t] < s->former[t])
            return "an edge is missing";
    return NULL;
}

static const char *use(model *m, slot *s, const op *o) {
    if (!s->block)
        return NULL;
    tdm_use dependencies[8];
    const int count = tdm_pool_prepare(&s->block, 1, o->stream, dependencies, 8);
    const char *wrong = NULL;
    if (!s->uses[o->stream])
        wrong = check_dependencies(m, s, o->stream, dependencies, count);
    else if (count)
        wrong = "an edge was asked for twice";
    s->uses[o->stream] = ++m->sequence[o->stream];
    tdm_pool_record_use(&s->block, 1, (tdm_use){o->stream, s->uses[o->stream]});
    return wrong;
}

static const char *release(model *m, slot *s) {
    if (!s->block)
        return NULL;
    world_unit *const units = units_of(s->block);
    for (uint64_t i = 0; i < s->size / WORLD_UNIT; i++) {
        if (units[i].generation != s->block->generation)
            return "somebody else moved into a live block";
        units[i].generation = 0;
        for (int t = 1; t <= WORLD_STREAMS; t++)
            if (s->uses[t])
                units[i].used[t] = s->uses[t];
    }
    m->requested -= s->block->requested;
    m->allocated -= s->size;
    m->live--;
    m->frees++;
    m->planted -= s->block->requested == 1000;
    tdm_block_release(s->block);
    s->block = NULL;
    return NULL;
}

static const char *apply(model *m, const op *o) {
    slot *const s = &m->slots[o->slot];
    switch ((op_kind)o->kind) {
    case OP_ALLOC:
        return alloc(m, s, o);
    case OP_USE:
        return use(m, s, o);
    case OP_FREE:
        return release(m, s);
    case OP_PASS:
        m->world.polled[o->stream] = m->sequence[o->stream] - m->sequence[o->stream] % 16;
        break;
    case OP_TRIM:
        tdm_pool_trim(m->world.pool);
        break;
    case OP_HOME:
        tdm_pool_next_home(m->world.pool);
        break;
    }
    return NULL;
}

/* Sums the counters of all caches, after pending remote frees have been done. */
static tdm_memory_stats counted(const model *m) {
    tdm_memory_stats sum = {.requested = 0};
    tdm_pool_catch_up(m->world.pool);
    for (int i = 0; i < TDM_POOL_THREAD_CACHES; i++) {
        const tdm_pool *const thread_cache = tdm_pool_thread_cache(m->world.pool, i);
        if (!thread_cache)
            continue;
        sum.requested += thread_cache->stats.requested;
        sum.allocated += thread_cache->stats.allocated;
        sum.live_blocks += thread_cache->stats.live_blocks;
        sum.allocations += thread_cache->stats.allocations;
        sum.frees += thread_cache->stats.frees;
        sum.failures += thread_cache->stats.failures;
        sum.reserved += thread_cache->stats.reserved;
    }
    return sum;
}

static const char *check_statistics(const model *m) {
    const tdm_memory_stats stats = counted(m);
    return stats.requested != m->requested || stats.allocated != m->allocated ||
                   stats.live_blocks != m->live || stats.allocations != m->allocations ||
                   stats.frees != m->frees || stats.failures != m->refused ||
                   stats.reserved != m->world.native_bytes || stats.reserved > m->settings->budget
               ? "the statistics are wrong"
               : NULL;
}

/* ---- sequences ------------------------------------------------------------------------------- */

static op *generate(const settings *how, size_t count) {
    test_random random = {how->seed};
    op *const ops = malloc(count * sizeof *ops);
    assert_non_null(ops);
    for (size_t i = 0; i < count; i++) {
        const int64_t dice = test_random_int(&random, 0, 999);
        const int64_t large = dice % 100 == 0 ? 256 : 32;
        ops[i] = (op){.kind = dice < 400   ? OP_ALLOC
                              : dice < 600 ? OP_USE
                              : dice < 960 ? OP_FREE
                              : dice < 999 ? OP_PASS
                                           : OP_TRIM,
                      .stream = (uint8_t)test_random_int(&random, 1, how->streams),
                      .slot = (uint16_t)test_random_int(&random, 0, SLOTS - 1),
                      .bytes = (uint32_t)test_random_int(&random, 0, large << 10)};
        if (dice == 7)
            ops[i].bytes = (uint32_t)test_random_int(&random, MIB, 3 * MIB);
        if (ops[i].kind == OP_TRIM && i % 16)
            ops[i].kind = OP_FREE;
        if (how->has_thread_caches && i % 23 == 0)
            ops[i].kind = OP_HOME;
    }
    return ops;
}

/* Returns NULL, or what is wrong after ops[*at]. */
static const char *run(const settings *how, const op *ops, size_t count, size_t *at) {
    model *const m = calloc(1, sizeof *m);
    assert_non_null(m);
    m->settings = how;
    m->world.modelled = true;
    tdm_pool_upstream upstream = world_upstream(&m->world);
    upstream.budget = how->budget;
    world_open_on(&m->world, &upstream);
    const char *wrong = NULL;
    for (*at = 0; *at < count && !wrong; ++*at) {
        wrong = apply(m, &ops[*at]);
        if (!wrong && (!how->has_thread_caches || *at % 64 == 63))
            wrong = check_statistics(m);
        if (!wrong && (how->thorough || *at % 1024 == 1023))
            wrong = world_check(&m->world);
        if (!wrong && how->planted && m->planted > 1)
            wrong = "planted";
        if (wrong)
            break;
    }
    if (!wrong || how->planted) {
        for (int i = 0; i < SLOTS; i++)
            release(m, &m->slots[i]);
        world_close(&m->world);
        free(m);
    }
    return wrong;
}

/* Removes operations that the fault does not need; returns how many are left. */
static size_t shrink(const settings *how, op *ops, size_t count) {
    op *const fewer = malloc(count * sizeof *fewer);
    assert_non_null(fewer);
    for (size_t step = count / 2; step > 0; step /= 2)
        for (size_t from = 0; from < count;) {
            const size_t left_out = count - from < step ? count - from : step;
            memcpy(fewer, ops, from * sizeof *ops);
            memcpy(fewer + from, ops + from + left_out, (count - from - left_out) * sizeof *ops);
            size_t at;
            if (run(how, fewer, count - left_out, &at)) {
                count = at + 1;
                memcpy(ops, fewer, count * sizeof *ops);
            } else {
                from += left_out;
            }
        }
    free(fewer);
    return count;
}

static void expect_sound(const settings *how, size_t count) {
    op *const ops = generate(how, count);
    size_t at;
    const char *const wrong = run(how, ops, count, &at);
    if (wrong) {
        const size_t left = shrink(how, ops, at + 1);
        for (size_t i = 0; i < left; i++)
            print_message("kind %d slot %d stream %d bytes %u\n", ops[i].kind, ops[i].slot,
                          ops[i].stream, ops[i].bytes);
        fail_msg("seed %llu: %s after %zu operations, the %zu above will do",
                 (unsigned long long)how->seed, wrong, at + 1, left);
    }
    free(ops);
}

static size_t operations(void) {
    const char *const wanted = getenv("TANDEM_POOL_OPERATIONS");
    if (wanted)
        return (size_t)strtoul(wanted, NULL, 10);
    const char *const scale = getenv("TANDEM_TEST_SCALE");
    return scale && strcmp(scale, "small") == 0 ? 200000 : 10000000;
}

TEST(random_traffic_is_sound) {
    static const uint64_t budgets[] = {2 * MIB, 6 * MIB, 1024 * MIB};
    const size_t sequences = (operations() + SEQUENCE - 1) / SEQUENCE;
    assert_true(sequences > 0);
    for (size_t i = 0; i < sequences; i++) {
        const settings how = {.seed = 1000 + i,
                              .budget = budgets[i % 3],
                              .streams = WORLD_STREAMS - (uint32_t)(i % WORLD_STREAMS),
                              .has_thread_caches = i % 4 == 1};
        expect_sound(&how, SEQUENCE);
    }
}

TEST(every_single_operation_is_sound) {
    for (uint64_t i = 0; i < 4; i++) {
        const settings how = {.seed = 50 + i,
                              .budget = (i + 1) * MIB,
                              .streams = 2 + (uint32_t)i,
                              .thorough = true,
                              .has_thread_caches = i % 2 == 1};
        expect_sound(&how, operations() / 1000);
    }
}

/* The planted fault needs only two allocations. */
TEST(failing_sequences_shrink) {
    const settings how = {.seed = 9, .budget = 64 * MIB, .streams = 3, .planted = true};
    op *const ops = generate(&how, 2000);
    for (size_t i = 100; i < 2000; i += 20)
        ops[i] = (op){.kind = OP_ALLOC, .stream = 1, .slot = (uint16_t)(i % SLOTS), .bytes = 1000};
    size_t at;
    assert_non_null(run(&how, ops, 2000, &at));
    const size_t left = shrink(&how, ops, at + 1);
    assert_int_equal(left, 2);
    for (size_t i = 0; i < left; i++) {
        assert_int_equal(ops[i].kind, OP_ALLOC);
        assert_int_equal(ops[i].bytes, 1000);
    }
    free(ops);
}

TEST_MAIN(NULL, NULL)
