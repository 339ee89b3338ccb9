/*
 * A pool records traces. The tests check their contents and omissions. A failure to write the trace
 * does not affect the pool.
 */
// ctest: threads
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "api/device/memory/memory_trace.h"
#include "api/pool/pool_internal.h"
#include "bench/trace/trace_replay.h"
#include "tests/support/test_case.h"
#include "tests/support/test_data.h"

enum {
    THREADS = 4,
    ROUNDS = 2000
};

/* ---- a pool over counted memory whose streams have always finished --------------------------- */

typedef struct world {
    counted_memory memory;
    tdm_pool *pool;
} world;

static void world_open(world *own) {
    *own = (world){.pool = NULL};
    const tdm_pool_upstream upstream = counted_upstream(&own->memory);
    assert_int_equal(tdm_pool_create(&upstream, &own->pool), TDM_OK);
}

static tdm_block *take(const world *own, size_t bytes, uint32_t stream) {
    tdm_block *block;
    assert_int_equal(tdm_pool_alloc(own->pool, bytes, stream, &block), TDM_OK);
    return block;
}

static void use(tdm_block *block, uint32_t stream, uint64_t sequence) {
    tdm_use dependencies[8];
    assert_int_equal(tdm_pool_prepare(&block, 1, stream, dependencies, 8), 0);
    tdm_pool_record_use(&block, 1, (tdm_use){stream, sequence});
}

/* ---- the sink of the trace ------------------------------------------------------------------- */

typedef struct text_sink {
    char *text;
    size_t size;
    size_t room;  /* writes beyond this size fail; 0: unlimited */
    bool blocked; /* writes wait until `lock` is free */
    pthread_mutex_t lock;
} text_sink;

static tdm_status take_text(void *user, const void *bytes, size_t size) {
    text_sink *const own = user;
    if (own->blocked) {
        pthread_mutex_lock(&own->lock);
        pthread_mutex_unlock(&own->lock);
    }
    if (own->room > 0 && own->size + size > own->room)
        return TDM_UNSUPPORTED;
    own->text = realloc(own->text, own->size + size);
    assert_non_null(own->text);
    memcpy(own->text + own->size, bytes, size);
    own->size += size;
    return TDM_OK;
}

static tdm_memory_trace *start(const world *own, text_sink *sink, size_t ring_events) {
    tdm_memory_trace *trace;
    tdm_memory_trace_options options = TDM_MEMORY_TRACE_OPTIONS_INIT;
    options.write = take_text;
    options.user = sink;
    options.ring_events = ring_events;
    assert_int_equal(tdm_pool_trace_start(own->pool, &options, "a test", &trace), TDM_OK);
    return trace;
}

static void parse(text_sink *sink, trace_data *trace) {
    file_error error;
    if (trace_parse(sink->text, sink->size, 0, trace, &error) != 0)
        fail_msg("%s in\n%.*s", error.text, (int)sink->size, sink->text);
    free(sink->text);
    sink->text = NULL;
}

static void expect_event(const trace_data *trace, size_t index, trace_kind kind, uint32_t block,
                         uint32_t stream) {
    assert_in_range(index, 0, trace->event_count - 1);
    assert_int_equal(trace->events[index].kind, kind);
    assert_int_equal(trace->events[index].block, block);
    assert_int_equal(trace->events[index].stream, stream);
}

/* A pool whose operations are being recorded. */
typedef struct recording {
    world own;
    text_sink sink;
    tdm_memory_trace *recorder;
    trace_data trace; /* parsed after recording stops */
} recording;

static const trace_data *stop(recording *r) {
    assert_int_equal(tdm_memory_trace_stop(r->recorder), TDM_OK);
    parse(&r->sink, &r->trace);
    return &r->trace;
}

#define TRACE_TEST(name)                                                                           \
    static void name##_with(recording *r);                                                         \
    TEST(name) {                                                                                   \
        recording r = {.recorder = NULL};                                                          \
        world_open(&r.own);                                                                        \
        r.recorder = start(&r.own, &r.sink, 0);                                                    \
        name##_with(&r);                                                                           \
        trace_release(&r.trace);                                                                   \
        tdm_pool_destroy(r.own.pool);                                                              \
    }                                                                                              \
    static void name##_with(recording *r)

/* ---- contents of a trace --------------------------------------------------------------------- */

TRACE_TEST(everything_is_recorded_once) {
    assert_int_equal(tdm_memory_tag_push("layer 1\t%"), TDM_OK);
    tdm_block *const a = take(&r->own, 1000, 7);
    assert_int_equal(tdm_memory_tag_pop(), TDM_OK);
    use(a, 7, 1);
    use(a, 7, 2);
    tdm_block *const b = take(&r->own, 0, 0);
    use(a, 9, 1);
    tdm_block_retain(a);
    tdm_block_release(a);
    tdm_block_release(a);
    assert_int_equal(tdm_memory_trace_stop(r->recorder), TDM_OK);
    tdm_block_release(b); /* not recorded: the trace has stopped */
    parse(&r->sink, &r->trace);
    const trace_data *const trace = &r->trace;
    assert_string_equal(trace->comment, "a test");
    assert_int_equal(trace->event_count, 5);
    expect_event(trace, 0, TRACE_ALLOC, 0, 1);
    expect_event(trace, 1, TRACE_USE, 0, 1);
    expect_event(trace, 2, TRACE_ALLOC, 1, 0);
    expect_event(trace, 3, TRACE_USE, 0, 2);
    expect_event(trace, 4, TRACE_FREE, 0, 0);
    assert_int_equal(trace->blocks[0].bytes, 1000);
    assert_string_equal(trace->tags[trace->blocks[0].tag - 1], "layer 1\t%");
    assert_int_equal(trace->blocks[1].bytes, 0);
    assert_int_equal(trace->blocks[1].tag, 0);
    assert_true(trace->blocks[1].live);
}

TRACE_TEST(time_goes_on) {
    tdm_block *const a = take(&r->own, 1000, 1);
    usleep(20000);
    tdm_block_release(a);
    const trace_data *const trace = stop(r);
    assert_in_range(trace->events[1].time_ns, 20000000, UINT64_C(60000000000));
}

TRACE_TEST(what_is_older_or_adopted_is_left_out) {
    tdm_bk_memory *memory;
    tdm_block *adopted;
    tdm_block *const old = take(&r->own, 1000, 1);
    stop(r);
    trace_release(&r->trace);
    r->sink.size = 0;
    r->recorder = start(&r->own, &r->sink, 0);
    const tdm_pool_upstream upstream = counted_upstream(&r->own.memory);
    assert_int_equal(upstream.allocate(upstream.user, 512, &memory), TDM_OK);
    assert_int_equal(tdm_pool_adopt(r->own.pool, memory, 512, &adopted), TDM_OK);
    tdm_block *const a = take(&r->own, 2000, 1);
    use(old, 1, 1);
    use(adopted, 1, 2);
    use(a, 1, 3);
    tdm_block_release(old);
    tdm_block_release(adopted);
    tdm_block_release(a);
    const trace_data *const trace = stop(r);
    assert_int_equal(trace->event_count, 3);
    assert_int_equal(trace->block_count, 1);
    assert_int_equal(trace->blocks[0].bytes, 2000);
}

/*
 * A replay of the trace repeats the pool's decisions: the same native allocations, offsets and
 * sizes.
 */
TRACE_TEST(a_replay_decides_as_the_program_did) {
    enum {
        LIVE = 40,
        STEPS = 3000
    };
    test_random random = {.state = 3};
    tdm_block *live[LIVE] = {NULL};
    static replay_decision made[STEPS];
    size_t count = 0;
    for (int i = 0; i < STEPS; i++) {
        tdm_block **const slot = &live[test_random_int(&random, 0, LIVE - 1)];
        if (*slot) {
            tdm_block_release(*slot);
            *slot = NULL;
            continue;
        }
        const uint32_t stream = (uint32_t)test_random_int(&random, 1, 3);
        *slot = take(&r->own, (size_t)test_random_int(&random, 0, 3 << 20), stream);
        use(*slot, stream, (uint64_t)i + 1);
        made[count++] = (replay_decision){.native = counted_number((*slot)->memory),
                                          .offset = (*slot)->offset,
                                          .size = (*slot)->size};
    }
    assert_int_equal(tdm_memory_trace_stop(r->recorder), TDM_OK);
    for (int i = 0; i < LIVE; i++)
        tdm_block_release(live[i]);
    replay_result result;
    file_error error;
    parse(&r->sink, &r->trace);
    const trace_data *const trace = &r->trace;
    assert_int_equal(trace->block_count, count);
    const replay_settings settings = {.command_ns = 0};
    assert_int_equal(replay_run(trace, &settings, &result, &error), 0);
    assert_memory_equal(result.decisions, made, count * sizeof made[0]);
    replay_release(&result);
}

/* There are more tags than the lookup cache holds. */
TRACE_TEST(many_tags_are_told_apart) {
    enum {
        TAGS = 700
    };
    for (int i = 0; i < 3 * TAGS; i++) {
        char tag[32];
        snprintf(tag, sizeof tag, "tag %d", i % TAGS);
        assert_int_equal(tdm_memory_tag_push(tag), TDM_OK);
        tdm_block_release(take(&r->own, (size_t)(i % TAGS), 1));
        assert_int_equal(tdm_memory_tag_pop(), TDM_OK);
    }
    const trace_data *const trace = stop(r);
    assert_int_equal(trace->tag_count, TAGS);
    assert_int_equal(trace->block_count, 3 * TAGS);
    for (size_t i = 0; i < trace->block_count; i++) {
        char tag[32];
        snprintf(tag, sizeof tag, "tag %d", (int)trace->blocks[i].bytes);
        assert_string_equal(trace->tags[trace->blocks[i].tag - 1], tag);
    }
}

TRACE_TEST(many_live_blocks_are_told_apart) {
    enum {
        LIVE = 5000
    };
    test_random random = {.state = 5};
    static tdm_block *live[LIVE];
    for (int i = 0; i < LIVE; i++)
        live[i] = take(&r->own, 100, 1);
    for (int left = LIVE; left > 0; left--) {
        tdm_block **const slot = &live[test_random_int(&random, 0, left - 1)];
        tdm_block_release(*slot);
        *slot = live[left - 1];
    }
    const trace_data *const trace = stop(r);
    assert_int_equal(trace->event_count, 2 * LIVE);
}

static void *churn(void *user) {
    const world *const own = user;
    tdm_block *kept[8] = {NULL};
    for (int i = 0; i < ROUNDS; i++) {
        tdm_block **const slot = &kept[i % 8];
        tdm_block_release(*slot);
        *slot = take(own, (size_t)(i % 97) * 100, 1 + (uint32_t)(i % 3));
        use(*slot, 1 + (uint32_t)(i % 3), (uint64_t)i + 1);
        use(*slot, 2 + (uint32_t)(i % 3), (uint64_t)i + 1);
    }
    for (int i = 0; i < 8; i++)
        tdm_block_release(kept[i]);
    return NULL;
}

TEST(threads_record_together) {
    world own;
    text_sink sinks[2] = {{.text = NULL}, {.text = NULL}};
    tdm_memory_trace *recorders[2];
    pthread_t threads[THREADS];
    world_open(&own);
    for (int i = 0; i < 2; i++)
        recorders[i] = start(&own, &sinks[i], 0);
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, churn, &own), 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    for (int i = 0; i < 2; i++) {
        trace_data trace;
        assert_int_equal(tdm_memory_trace_stop(recorders[i]), TDM_OK);
        parse(&sinks[i], &trace);
        assert_int_equal(trace.block_count, THREADS * ROUNDS);
        assert_int_equal(trace.event_count, THREADS * ROUNDS * 4);
        trace_release(&trace);
    }
    tdm_pool_destroy(own.pool);
}

/* Allocation generations are not in order when threads use different caches of the pool. */
TRACE_TEST(thread_caches_are_recorded_together) {
    tdm_block *blocks[20];
    for (int i = 0; i < 20; i++) {
        blocks[i] = take(&r->own, (size_t)i + 1, 1);
        tdm_pool_next_home(r->own.pool);
    }
    assert_true(blocks[TDM_POOL_THREAD_CACHES]->generation <
                blocks[TDM_POOL_THREAD_CACHES - 1]->generation);
    for (int i = 0; i < 20; i++)
        tdm_block_release(blocks[i]);
    const trace_data *const trace = stop(r);
    assert_int_equal(trace->block_count, 20);
    for (uint32_t i = 0; i < 20; i++)
        assert_int_equal(trace->blocks[i].bytes, i + 1);
}

TEST(a_trace_may_start_and_stop_among_threads) {
    world own;
    pthread_t threads[THREADS];
    world_open(&own);
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, churn, &own), 0);
    for (int i = 0; i < 10; i++) {
        text_sink sink = {.text = NULL};
        trace_data trace;
        tdm_memory_trace *const recorder = start(&own, &sink, 0);
        usleep(500);
        assert_int_equal(tdm_memory_trace_stop(recorder), TDM_OK);
        parse(&sink, &trace);
        trace_release(&trace);
    }
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    tdm_pool_destroy(own.pool);
}

/* ---- failures -------------------------------------------------------------------------------- */

TEST(a_ring_that_is_full_ends_the_trace) {
    world own;
    text_sink sink = {.lock = PTHREAD_MUTEX_INITIALIZER};
    trace_data trace;
    world_open(&own);
    tdm_memory_trace *const recorder = start(&own, &sink, 16);
    pthread_mutex_lock(&sink.lock);
    sink.blocked = true; /* the writer reads it only after the first event */
    for (int i = 0; i < 500; i++)
        tdm_block_release(take(&own, 1000, 1));
    pthread_mutex_unlock(&sink.lock);
    usleep(300000); /* the ring has room again, but events were lost */
    assert_int_equal(tdm_memory_tag_push("behind the gap"), TDM_OK);
    tdm_block_release(take(&own, 1000, 1));
    assert_int_equal(tdm_memory_tag_pop(), TDM_OK);
    assert_int_equal(tdm_memory_trace_stop(recorder), TDM_IO_ERROR);
    assert_non_null(strstr(tdm_last_detail(), "came faster than they could be written"));
    parse(&sink, &trace);
    assert_in_range(trace.event_count, 16, 999);
    assert_int_equal(trace.tag_count, 0);
    trace_release(&trace);
    tdm_pool_destroy(own.pool);
}

TEST(a_full_disk_is_reported_at_the_end) {
    world own;
    text_sink sink = {.room = 5000};
    world_open(&own);
    tdm_memory_trace *const recorder = start(&own, &sink, 0);
    for (int i = 0; i < 5000; i++)
        tdm_block_release(take(&own, 1000, 1));
    assert_int_equal(tdm_memory_trace_stop(recorder), TDM_UNSUPPORTED);
    assert_non_null(strstr(tdm_last_detail(), "the caller's write function failed"));
    trace_data trace;
    file_error error;
    assert_int_equal(trace_parse(sink.text, sink.size, 0, &trace, &error), -1);
    assert_int_equal(trace_parse(sink.text, sink.size, 1, &trace, &error), 0);
    trace_release(&trace);
    free(sink.text);
    tdm_memory_stats stats;
    tdm_pool_stats(own.pool, &stats);
    assert_int_equal(stats.failures, 0);
    assert_int_equal(stats.live_blocks, 0);
    tdm_pool_destroy(own.pool);
}

static void expect_refused(const world *own, const char *path, const char *sentence) {
    tdm_memory_trace *trace;
    tdm_memory_trace_options options = TDM_MEMORY_TRACE_OPTIONS_INIT;
    options.path = path;
    assert_int_equal(tdm_pool_trace_start(own->pool, &options, NULL, &trace), TDM_IO_ERROR);
    if (strstr(tdm_last_detail(), sentence) == NULL)
        fail_msg("%s: '%s'", path, tdm_last_detail());
}

TEST(a_file_that_cannot_be_written_is_refused) {
    char folder[] = "/tmp/tandem_memory_trace_XXXXXX";
    char pipe[64];
    char link[64];
    char file[64];
    world own;
    assert_non_null(mkdtemp(folder));
    snprintf(pipe, sizeof pipe, "%s/pipe", folder);
    snprintf(link, sizeof link, "%s/link", folder);
    snprintf(file, sizeof file, "%s/file", folder);
    assert_int_equal(mkfifo(pipe, 0600), 0);
    assert_int_equal(symlink(file, link), 0);
    world_open(&own);
    expect_refused(&own, "/nonexistent/trace", "No such file");
    expect_refused(&own, folder, "directory");
    expect_refused(&own, pipe, "cannot be written");
    expect_refused(&own, link, "cannot be written");
    expect_refused(&own, "/dev/full", "No space left");
    assert_int_equal(access(file, F_OK), -1);
    tdm_block_release(take(&own, 1000, 1));
    tdm_pool_destroy(own.pool);
    unlink(pipe);
    unlink(link);
    rmdir(folder);
}

TEST(a_file_is_ours_alone_and_starts_empty) {
    char path[] = "/tmp/tandem_memory_trace_XXXXXX";
    struct stat status;
    world own;
    tdm_memory_trace *recorder;
    const int file = mkstemp(path);
    static const char old[] = "something that was longer than the trace that is written now: "
                              "0123456789 0123456789 0123456789 0123456789 0123456789 0123456789";
    assert_int_equal(write(file, old, sizeof old), sizeof old);
    close(file);
    world_open(&own);
    tdm_memory_trace_options options = TDM_MEMORY_TRACE_OPTIONS_INIT;
    options.path = path;
    for (int i = 0; i < 2; i++) {
        trace_data trace;
        file_error error;
        assert_int_equal(tdm_pool_trace_start(own.pool, &options, NULL, &recorder), TDM_OK);
        tdm_memory_trace *second;
        assert_int_equal(tdm_pool_trace_start(own.pool, &options, NULL, &second), TDM_BAD_STATE);
        assert_non_null(strstr(tdm_last_detail(), "is being written by another trace"));
        tdm_block_release(take(&own, 1000, 1));
        assert_int_equal(tdm_memory_trace_stop(recorder), TDM_OK);
        assert_int_equal(trace_load(path, 0, &trace, &error), 0);
        assert_int_equal(trace.event_count, 2);
        trace_release(&trace);
        assert_int_equal(stat(path, &status), 0);
        assert_int_equal(status.st_mode & 0777, 0600);
        unlink(path);
    }
    tdm_pool_destroy(own.pool);
}

TEST(options_are_checked) {
    tdm_memory_trace *trace;
    text_sink sink = {.text = NULL};
    tdm_memory_trace_options options = TDM_MEMORY_TRACE_OPTIONS_INIT;
    assert_int_equal(tdm_pool_trace_start(NULL, NULL, NULL, &trace), TDM_BAD_ARGUMENT);
    assert_int_equal(tdm_pool_trace_start(NULL, &options, NULL, &trace), TDM_BAD_ARGUMENT);
    assert_non_null(strstr(tdm_last_detail(), "neither path nor write is given"));
    options.path = "/dev/null";
    options.write = take_text;
    options.user = &sink;
    assert_int_equal(tdm_pool_trace_start(NULL, &options, NULL, &trace), TDM_BAD_ARGUMENT);
    assert_non_null(strstr(tdm_last_detail(), "both path and write are given"));
    options.path = NULL;
    options.ring_events = SIZE_MAX;
    assert_int_equal(tdm_pool_trace_start(NULL, &options, NULL, &trace), TDM_BAD_ARGUMENT);
    options.struct_size = 3;
    assert_int_equal(tdm_pool_trace_start(NULL, &options, NULL, &trace), TDM_BAD_ARGUMENT);
    assert_int_equal(tdm_memory_trace_start(NULL, &options, &trace), TDM_BAD_ARGUMENT);
    assert_int_equal(tdm_memory_trace_start(NULL, &options, NULL), TDM_BAD_ARGUMENT);
    assert_int_equal(tdm_memory_trace_stop(NULL), TDM_OK);
}

TEST_MAIN(NULL, NULL)
