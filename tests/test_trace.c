/* Memory traces: what generators make, files and what is wrong with them, and that a replay is the same every time. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "api/memory_trace_text.h"
#include "bench/pool_case.h"
#include "bench/trace_file.h"
#include "bench/trace_models.h"
#include "bench/trace_replay.h"
#include "tests/support/test_data.h"

#define KIB UINT64_C(1024)

/* A small instance of a model. */
static trace_settings small_settings(const trace_model *model) {
    trace_settings settings = TRACE_SETTINGS_INIT;
    settings.layers = 3;
    settings.hidden = 96;
    settings.heads = 6;
    settings.kv_heads = 2;
    settings.inner = 250;
    settings.vocabulary = 777;
    settings.batch = 2;
    settings.sequence = 17;
    settings.steps = strcmp(model->name, "decode") == 0 ? 7 : 2;
    settings.operations = 900;
    settings.live = 60;
    return settings;
}

static void generate(const trace_model *model, const trace_settings *settings, trace_data *trace) {
    assert_null(trace_settings_fault(settings));
    assert_int_equal(trace_generate(model, settings, trace), 0);
    assert_true(trace->event_count > 0);
}

/* ---- generators ----------------------------------------------------------------------------------- */

/* Event at which every block is allocated and freed; one past the last where it never is. */
static void find_lives(const trace_data *trace, size_t *born, size_t *dead) {
    for (size_t i = 0; i < trace->block_count; i++)
        born[i] = dead[i] = trace->event_count;
    for (size_t i = 0; i < trace->event_count; i++) {
        const trace_event *const event = &trace->events[i];
        assert_in_range(event->block, 0, trace->block_count - 1);
        if (i > 0)
            assert_true(event->time_ns >= trace->events[i - 1].time_ns);
        if (event->kind == TRACE_ALLOC) {
            assert_int_equal(born[event->block], trace->event_count);
            born[event->block] = i;
            continue;
        }
        assert_in_range(born[event->block], 0, i);
        assert_int_equal(dead[event->block], trace->event_count);
        if (event->kind == TRACE_FREE)
            dead[event->block] = i;
        else
            assert_in_range(event->stream, 1, trace->streams);
    }
}

/* The sum of what lives at each event, from the definition. */
static uint64_t bound_by_definition(const trace_data *trace, const size_t *born, const size_t *dead,
                                    uint64_t unit) {
    uint64_t most = 0;
    for (size_t i = 0; i < trace->event_count; i++) {
        uint64_t sum = 0;
        for (size_t block = 0; block < trace->block_count; block++) {
            const uint64_t bytes = trace->blocks[block].bytes;
            if (born[block] <= i && i < dead[block])
                sum += bytes == 0 ? unit : (bytes + unit - 1) / unit * unit;
        }
        most = sum > most ? sum : most;
    }
    return most;
}

static void expect_whole(const trace_data *trace) {
    size_t *const born = calloc(2 * trace->block_count, sizeof *born);
    assert_non_null(born);
    size_t *const dead = born + trace->block_count;
    find_lives(trace, born, dead);
    for (size_t i = 0; i < trace->block_count; i++) {
        assert_int_equal(trace->blocks[i].live != 0, dead[i] == trace->event_count);
        assert_in_range(trace->blocks[i].tag, 1, trace->tag_count);
    }
    /* By the definition it takes events times blocks. */
    if (trace->event_count < 2000)
        assert_int_equal(trace_lower_bound(trace, 256),
                         bound_by_definition(trace, born, dead, 256));
    free(born);
}

static void generated_traces_are_whole(void **state) {
    (void)state;
    int traces = 0;
    for (int i = 0; i < trace_model_count; i++)
        for (int variant = 0; variant < 8; variant++, traces++) {
            trace_settings settings = small_settings(&trace_models[i]);
            trace_data trace;
            settings.materialize = variant & 1;
            settings.no_weights = variant >> 1 & 1;
            settings.streams = variant & 4 ? 3 : 1;
            generate(&trace_models[i], &settings, &trace);
            assert_int_equal(trace.streams, settings.streams);
            expect_whole(&trace);
            trace_release(&trace);
        }
    assert_int_equal(traces, 40);
}

static void every_size_distribution_is_different(void **state) {
    (void)state;
    const char *names = trace_size_names;
    uint64_t bounds[8];
    int count = 0;
    while (*names != '\0') {
        char name[16];
        const size_t length = strcspn(names, "|");
        trace_settings settings = small_settings(trace_model_find("random"));
        trace_data trace;
        snprintf(name, sizeof name, "%.*s", (int)length, names);
        settings.sizes = name;
        settings.streams = 4;
        generate(trace_model_find("random"), &settings, &trace);
        expect_whole(&trace);
        const trace_figures figures = trace_summarize(&trace);
        assert_in_range(figures.live_peak, 45, 60);
        bounds[count] = trace_lower_bound(&trace, 256);
        for (int i = 0; i < count; i++)
            assert_true(bounds[i] != bounds[count]);
        trace_release(&trace);
        count++;
        names += length + (names[length] == '|');
    }
    assert_int_equal(count, 5);
}

/* Sizes that a model must have, worked out here once more. */
static void a_transformer_has_its_tensors(void **state) {
    (void)state;
    trace_settings settings = small_settings(trace_model_find("prefill"));
    trace_data trace;
    generate(trace_model_find("prefill"), &settings, &trace);
    const uint64_t hidden = 96;
    const uint64_t layer = 2 * hidden + 2 * hidden * hidden + 2 * hidden * 32 + 3 * hidden * 250;
    uint64_t weights = 0;
    int wide = 0;
    for (size_t i = 0; i < trace.block_count; i++) {
        if (strcmp(trace.tags[trace.blocks[i].tag - 1], "weights") == 0) {
            weights += trace.blocks[i].bytes;
            assert_true(trace.blocks[i].live);
        } else {
            assert_false(trace.blocks[i].live);
            wide += trace.blocks[i].bytes == UINT64_C(2) * 2 * 17 * 250;
        }
    }
    assert_int_equal(weights, 2 * (2 * 777 * hidden + 3 * layer));
    assert_int_equal(wide, 2 * 3 * 4); /* gate, up, active, product of each layer and prompt */
    trace_release(&trace);
}

static void a_cache_grows_by_one_token(void **state) {
    (void)state;
    trace_settings settings = small_settings(trace_model_find("decode"));
    trace_data trace;
    generate(trace_model_find("decode"), &settings, &trace);
    int seen[64] = {0};
    int kept = 0;
    for (size_t i = 0; i < trace.block_count; i++)
        if (strcmp(trace.tags[trace.blocks[i].tag - 1], "kv cache") == 0) {
            const uint64_t token = UINT64_C(2) * 2 * 32;
            assert_int_equal(trace.blocks[i].bytes % token, 0);
            assert_in_range(trace.blocks[i].bytes / token, 17, 17 + 7);
            seen[trace.blocks[i].bytes / token]++;
            kept += trace.blocks[i].live;
        }
    assert_int_equal(kept, 2 * 3);
    for (int positions = 17; positions <= 17 + 7; positions++)
        assert_int_equal(seen[positions], 2 * 3);
    trace_release(&trace);
}

static void settings_without_sense_are_refused(void **state) {
    (void)state;
    trace_settings settings = TRACE_SETTINGS_INIT;
    settings.heads = 31;
    assert_non_null(strstr(trace_settings_fault(&settings), "no multiple"));
    settings.heads = 32;
    settings.kv_heads = 5;
    assert_non_null(strstr(trace_settings_fault(&settings), "keys and values"));
    settings.kv_heads = 8;
    settings.sequence = 100000000;
    settings.materialize = 1;
    assert_non_null(strstr(trace_settings_fault(&settings), "100 TB"));
    settings = (trace_settings)TRACE_SETTINGS_INIT;
    settings.steps = 1000000;
    assert_non_null(trace_settings_fault(&settings));
}

/* ---- files ------------------------------------------------------------------------------------------ */

static char path[64];

static int make_path(void **state) {
    (void)state;
    snprintf(path, sizeof path, "/tmp/tandem_trace_XXXXXX");
    const int file = mkstemp(path);
    return file < 0 ? -1 : close(file);
}

static int remove_path(void **state) {
    (void)state;
    return unlink(path);
}

static char *read_whole(size_t *size) {
    FILE *const file = fopen(path, "rb");
    assert_non_null(file);
    char *const bytes = calloc(1, 8 << 20);
    assert_non_null(bytes);
    *size = fread(bytes, 1, 8 << 20, file);
    fclose(file);
    return bytes;
}

static void expect_equal(const trace_data *a, const trace_data *b) {
    assert_int_equal(a->event_count, b->event_count);
    assert_int_equal(a->block_count, b->block_count);
    for (size_t i = 0; i < a->event_count; i++) {
        assert_int_equal(a->events[i].time_ns - a->events[0].time_ns,
                         b->events[i].time_ns - b->events[0].time_ns);
        assert_int_equal(a->events[i].block, b->events[i].block);
        assert_int_equal(a->events[i].kind, b->events[i].kind);
    }
    for (size_t i = 0; i < a->block_count; i++) {
        assert_int_equal(a->blocks[i].bytes, b->blocks[i].bytes);
        assert_int_equal(a->blocks[i].live, b->blocks[i].live);
        assert_string_equal(a->tags[a->blocks[i].tag - 1], b->tags[b->blocks[i].tag - 1]);
    }
    assert_string_equal(a->comment, b->comment);
}

static void a_file_gives_the_trace_back(void **state) {
    (void)state;
    for (int i = 0; i < trace_model_count; i++) {
        trace_settings settings = small_settings(&trace_models[i]);
        trace_data made;
        trace_data loaded;
        file_error error;
        size_t sizes[2];
        settings.streams = 3;
        generate(&trace_models[i], &settings, &made);
        assert_int_equal(trace_save(&made, path, &error), 0);
        if (trace_load(path, 0, &loaded, &error) != 0)
            fail_msg("%s", error.text);
        expect_equal(&made, &loaded);
        char *const first = read_whole(&sizes[0]);
        assert_int_equal(trace_save(&loaded, path, &error), 0);
        trace_data again;
        assert_int_equal(trace_load(path, 0, &again, &error), 0);
        expect_equal(&loaded, &again);
        char *const second = read_whole(&sizes[1]);
        assert_int_equal(sizes[0], sizes[1]);
        free(first);
        free(second);
        trace_release(&made);
        trace_release(&loaded);
        trace_release(&again);
    }
}

static const char example[] = TDM_TRACE_MAGIC "# an example\n"
                                              "t 1 a b%25\n"
                                              "a 5 3 1000 2 1\n"
                                              "u 5 3 9\n"
                                              "a 0 4 0 0 0\n"
                                              "f 100 3\n";

/* The example with its last line. */
static size_t finished_example(char *text, size_t size) {
    const uint64_t checksum = tdm_trace_hash(TDM_TRACE_HASH_START, example, sizeof example - 1);
    return (size_t)snprintf(text, size, "%se 4 %016llx\n", example, (unsigned long long)checksum);
}

static void a_file_says_what_it_says(void **state) {
    (void)state;
    char text[400];
    trace_data trace;
    file_error error;
    const size_t size = finished_example(text, sizeof text);
    assert_int_equal(trace_parse(text, size, 0, &trace, &error), 0);
    assert_int_equal(trace.event_count, 4);
    assert_string_equal(trace.comment, "an example");
    assert_string_equal(trace.tags[0], "a b%");
    assert_int_equal(trace.blocks[0].bytes, 1000);
    assert_int_equal(trace.streams, 2);
    assert_int_equal(trace.events[0].stream, 1);
    assert_int_equal(trace.events[1].stream, 2);
    assert_int_equal(trace.events[3].time_ns, 110);
    assert_true(trace.blocks[1].live);
    assert_int_equal(trace_lower_bound(&trace, 256), 1024 + 256);
    trace_release(&trace);
}

/* A pool of several threads numbers lives by the dozen for each. */
static void lives_come_in_any_order(void **state) {
    (void)state;
    enum {
        LIVES = 3000
    };
    static char text[64 * LIVES];
    trace_data trace;
    file_error error;
    size_t size = (size_t)snprintf(text, sizeof text, "%s", TDM_TRACE_MAGIC);
    for (int i = 0; i < LIVES; i++)
        size += (size_t)snprintf(text + size, sizeof text - size, "a 1 %d %d 0 0\n",
                                 1 + i * 1009 % LIVES, 1 + i);
    for (int i = 0; i < LIVES; i++)
        size += (size_t)snprintf(text + size, sizeof text - size, "f 1 %d\n", 1 + i * 1009 % LIVES);
    assert_int_equal(trace_parse(text, size, 1, &trace, &error), 0);
    assert_int_equal(trace.block_count, LIVES);
    for (uint32_t i = 0; i < LIVES; i++) {
        assert_int_equal(trace.blocks[i].bytes, 1 + i);
        assert_int_equal(trace.events[LIVES + i].block, i);
    }
    trace_release(&trace);
}

static void a_changed_or_cut_file_is_refused(void **state) {
    (void)state;
    char text[400];
    trace_data trace;
    file_error error;
    const size_t size = finished_example(text, sizeof text);
    for (size_t i = 0; i < size; i++)
        for (int bit = 0; bit < 8; bit++) {
            text[i] = (char)(text[i] ^ 1 << bit);
            if (trace_parse(text, size, 0, &trace, &error) == 0)
                fail_msg("bit %d of byte %zu is not missed", bit, i);
            assert_memory_equal(error.text, "line ", 5);
            text[i] = (char)(text[i] ^ 1 << bit);
        }
    for (size_t length = 0; length < size; length++) {
        assert_int_equal(trace_parse(text, length, 0, &trace, &error), -1);
        /* What a program left that died is taken as far as it goes. */
        const int whole = length >= sizeof TDM_TRACE_MAGIC - 1;
        assert_int_equal(trace_parse(text, length, 1, &trace, &error), whole ? 0 : -1);
        trace_release(&trace);
    }
}

static void what_is_wrong_is_said_with_the_line(void **state) {
    (void)state;
    static const struct {
        const char *lines; /* behind the first */
        const char *sentence;
    } rows[] = {
        {"x 1 2\n", "line 2: no kind of line begins like this"},
        {"\n", "line 2: no kind of line begins like this"},
        {"a\n", "line 2: no kind of line"},
        {"a \n", "line 2: the time is missing or no number"},
        {"a 1 1 64 0 0\na 1 1 64 0 0\n", "line 3: life 1 was allocated before"},
        {"a 1 0 64 0 0\n", "line 2: life 0 is none"},
        {"a 1 1 64 0 1\n", "line 2: there is no tag 1 yet"},
        {"a 1 1 64 0\n", "line 2: the tag is missing"},
        {"a 1 1 64 0 0 0\n", "line 2: there is more on the line"},
        {"a 1 1 64 0 0 \n", "line 2: there is more on the line"},
        {"a -1 1 64 0 0\n", "line 2: the time is missing or no number"},
        {"a 1 1 64x 0 0\n", "line 2: the size is followed by no blank"},
        {"a 1  1 64 0 0\n", "line 2: the life is missing"},
        {"a 99999999999999999999 1 64 0 0\n", "line 2: the time is larger than any number"},
        {"a 1 1 281474976710657 0 0\n", "line 2: the size is 281474976710657, at most"},
        {"a 1 1 64 4294967296 0\n", "line 2: the stream is 4294967296"},
        {"a 4611686018427387904 1 64 0 0\nf 4611686018427387904 1\n", "line 3: the times add up"},
        {"u 1 7 1\n", "line 2: life 7 was never allocated"},
        {"a 1 1 64 0 0\nu 1 1 0\n", "line 3: stream 0 uses nothing"},
        {"a 1 1 64 0 0\nf 1 1\nf 1 1\n", "line 4: life 1 has ended before"},
        {"a 1 1 64 0 0\nf 1 1\nu 1 1 1\n", "line 4: life 1 has ended before"},
        {"t 2 x\n", "line 2: tag 2 comes where 1 is due"},
        {"t 1 a%\n", "line 2: a % is followed by no byte"},
        {"t 1 a%00\n", "line 2: a % is followed by no byte"},
        {"t 1 a\tb\n", "line 2: there is a control character"},
        {"t 1 1234567890123456789012345678901234567890123456789012345678901234\n",
         "line 2: the text has more than 63 bytes"},
        {"e 1 0000000000000000\n", "line 2: there should be 1 events, there are 0"},
        {"e 0 000000000000000\n", "line 2: the checksum has not 16 digits"},
        {"e 0 000000000000000g\n", "line 2: the checksum is no number"},
        {"e 0 0000000000000000\n", "line 2: the checksum is wrong"},
        {"a 1 1 64 0 0\n", "line 3: the file ends before the line of the end"},
        {"a 1 1 64 0 0", "line 2: the file ends within the line"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char text[512];
        trace_data trace;
        file_error error = {""};
        const int size = snprintf(text, sizeof text, TDM_TRACE_MAGIC "%s", rows[i].lines);
        const int refused = trace_parse(text, (size_t)size, 0, &trace, &error);
        if (refused != -1 || strncmp(error.text, rows[i].sentence, strlen(rows[i].sentence)) != 0)
            fail_msg("'%s': %d, '%s'", rows[i].lines, refused, error.text);
        assert_null(trace.events);
    }
    trace_data trace;
    file_error error;
    assert_int_equal(trace_parse("tandem-memory-trace 2\n", 22, 0, &trace, &error), -1);
    assert_string_equal(error.text, "line 1: this is no memory trace of version 1");
    assert_int_equal(trace_load("/nonexistent/trace", 0, &trace, &error), -1);
    assert_non_null(strstr(error.text, "/nonexistent/trace"));
}

/* Random lines of right kinds: refused or taken, never read beyond the end. */
static void random_lines_do_no_harm(void **state) {
    (void)state;
    test_random random = {.state = 7};
    int taken = 0;
    for (int round = 0; round < 3000; round++) {
        char text[600];
        int size = snprintf(text, sizeof text, "%s", TDM_TRACE_MAGIC);
        for (int line = (int)test_random_int(&random, 1, 6); line > 0; line--) {
            static const char kinds[] = "aaauft#";
            static const int lengths[] = {5, 5, 5, 3, 2, 2, 1};
            const int kind = (int)test_random_int(&random, 0, 6);
            const int numbers = lengths[kind] + (test_random_int(&random, 0, 9) == 0);
            size += snprintf(text + size, sizeof text - (size_t)size, "%c", kinds[kind]);
            for (int i = 0; i < numbers; i++)
                size += snprintf(text + size, sizeof text - (size_t)size, " %d",
                                 (int)test_random_int(&random, 0, 3));
            size += snprintf(text + size, sizeof text - (size_t)size, "\n");
        }
        char *const exact = malloc((size_t)size);
        assert_non_null(exact);
        memcpy(exact, text, (size_t)size);
        trace_data trace;
        file_error error;
        taken += trace_parse(exact, (size_t)size, 1, &trace, &error) == 0;
        trace_release(&trace);
        free(exact);
    }
    assert_in_range(taken, 1, 2999);
}

/* ---- replay ------------------------------------------------------------------------------------------ */

static void run(const trace_data *trace, const replay_settings *settings, replay_result *result) {
    file_error error;
    if (replay_run(trace, settings, result, &error) != 0)
        fail_msg("%s", error.text);
}

static void expect_same_decisions(const replay_result *a, const replay_result *b) {
    assert_int_equal(a->decision_count, b->decision_count);
    assert_memory_equal(a->decisions, b->decisions, a->decision_count * sizeof *a->decisions);
    assert_int_equal(a->peak_reserved, b->peak_reserved);
    assert_int_equal(a->waits, b->waits);
    assert_int_equal(a->orders, b->orders);
    assert_int_equal(a->native_allocations, b->native_allocations);
    assert_true(a->idle_seconds == b->idle_seconds);
}

static void a_replay_is_the_same_every_time(void **state) {
    (void)state;
    uint64_t waits = 0;
    uint64_t orders = 0;
    for (int i = 0; i < trace_model_count; i++)
        for (int tight = 0; tight < 2; tight++) {
            trace_settings settings = small_settings(&trace_models[i]);
            trace_data trace;
            replay_result results[3];
            settings.streams = 3;
            generate(&trace_models[i], &settings, &trace);
            replay_settings how = REPLAY_SETTINGS_INIT;
            how.command_ns = 40000;
            if (tight)
                how.budget = trace_lower_bound(&trace, 256) * 5 / 4;
            run(&trace, &how, &results[0]);
            run(&trace, &how, &results[1]);
            how.memory = REPLAY_MALLOC;
            run(&trace, &how, &results[2]);
            expect_same_decisions(&results[0], &results[1]);
            expect_same_decisions(&results[0], &results[2]);
            waits += results[0].waits;
            orders += results[0].orders;
            for (int j = 0; j < 3; j++)
                replay_release(&results[j]);
            trace_release(&trace);
        }
    /* The streams took part. */
    assert_true(waits > 0);
    assert_true(orders > 0);
}

/* Blocks that live at the same time never share a byte, wherever the replay put them. */
static void live_blocks_are_apart(void **state) {
    (void)state;
    for (int i = 0; i < trace_model_count; i++) {
        trace_settings settings = small_settings(&trace_models[i]);
        trace_data trace;
        replay_result result;
        settings.streams = 3;
        generate(&trace_models[i], &settings, &trace);
        run(&trace, &(replay_settings)REPLAY_SETTINGS_INIT, &result);
        size_t *const born = calloc(2 * trace.block_count, sizeof *born);
        assert_non_null(born);
        size_t *const dead = born + trace.block_count;
        find_lives(&trace, born, dead);
        for (size_t a = 0; a < trace.block_count; a++)
            for (size_t b = 0; b < a; b++) {
                const replay_decision *const x = &result.decisions[a];
                const replay_decision *const y = &result.decisions[b];
                assert_true(x->native != y->native || born[a] > dead[b] || born[b] > dead[a] ||
                            x->offset + x->size <= y->offset || y->offset + y->size <= x->offset);
            }
        assert_true(result.peak_reserved >= result.lower_bound);
        assert_int_equal(result.failures, 0);
        free(born);
        replay_release(&result);
        trace_release(&trace);
    }
}

/*
 * One block's worth of memory. A second block that another stream uses must not get it before the first stream's command
 * is done, or must wait for that in its stream.
 */
static void a_stream_that_is_behind_is_waited_for(void **state) {
    (void)state;
    for (int same = 0; same < 2; same++)
        for (int early = 0; early < 2; early++) {
            trace_data trace = {.events = NULL};
            replay_result result;
            const uint32_t tag = trace_tag(&trace, "x");
            const uint32_t first = trace_alloc(&trace, 4096 * KIB, 1, tag);
            trace_use(&trace, first, 1);
            trace.time_ns += 10;
            trace_free(&trace, first);
            trace.time_ns += early ? 10 : 100000;
            const uint32_t second = trace_alloc(&trace, 4096 * KIB, same ? 1 : 2, tag);
            trace_use(&trace, second, same ? 1 : 2);
            trace_free(&trace, second);
            const replay_settings how = {.command_ns = 5000, .budget = 4096 * KIB};
            run(&trace, &how, &result);
            assert_int_equal(result.failures, 0);
            assert_int_equal(result.waits + result.orders > 0, !same && early);
            assert_int_equal(result.decisions[0].native, result.decisions[1].native);
            replay_release(&result);
            trace_release(&trace);
        }
}

/* A later command of a stream that used the block may be the last that does. */
static void a_use_lasts_until_the_block_is_freed(void **state) {
    (void)state;
    trace_data trace = {.events = NULL};
    replay_result result;
    const uint32_t tag = trace_tag(&trace, "x");
    const uint32_t first = trace_alloc(&trace, 4096 * KIB, 1, tag);
    const uint32_t other = trace_alloc(&trace, 64, 1, tag);
    trace_use(&trace, first, 1);
    trace.time_ns += 20000; /* done with that one */
    trace_use(&trace, other, 1);
    trace_free(&trace, first);
    trace_free(&trace, other);
    const uint32_t second = trace_alloc(&trace, 4096 * KIB, 2, tag);
    trace_use(&trace, second, 2);
    const replay_settings how = {.command_ns = 5000, .budget = 7 * 1024 * KIB};
    run(&trace, &how, &result);
    assert_int_equal(result.failures, 0);
    assert_true(result.waits + result.orders > 0);
    replay_release(&result);
    trace_release(&trace);
}

/* Two ranges that wait for different streams must both be done before they are one. */
static void a_wait_of_the_host_moves_the_clock(void **state) {
    (void)state;
    trace_data trace = {.events = NULL};
    replay_result result;
    const uint32_t tag = trace_tag(&trace, "x");
    uint32_t halves[2];
    for (uint32_t i = 0; i < 2; i++) {
        halves[i] = trace_alloc(&trace, 4096 * KIB, 1 + i, tag);
        trace_use(&trace, halves[i], 1 + i);
    }
    for (uint32_t i = 0; i < 2; i++)
        trace_free(&trace, halves[i]);
    const uint32_t whole = trace_alloc(&trace, 8192 * KIB, 3, tag);
    trace_free(&trace, whole);
    const replay_settings how = {.command_ns = 7000, .budget = 8192 * KIB};
    run(&trace, &how, &result);
    assert_int_equal(result.failures, 0);
    assert_true(result.waits > 0);
    assert_int_equal((int)(1e9 * result.idle_seconds + 0.5), 7000);
    replay_release(&result);
    trace_release(&trace);
}

static void a_budget_is_kept(void **state) {
    (void)state;
    trace_settings settings = small_settings(trace_model_find("random"));
    trace_data trace;
    replay_result free_result;
    replay_result result;
    replay_settings how = REPLAY_SETTINGS_INIT;
    generate(trace_model_find("random"), &settings, &trace);
    run(&trace, &how, &free_result);
    assert_int_equal(free_result.failures, 0);
    assert_int_equal(free_result.first_failure, 0);
    how.budget = free_result.peak_reserved;
    run(&trace, &how, &result);
    assert_int_equal(result.failures, 0);
    replay_release(&result);
    how.budget = free_result.lower_bound / 2;
    run(&trace, &how, &result);
    assert_true(result.failures > 0);
    assert_true(result.peak_reserved <= how.budget);
    assert_in_range(result.first_failure, 1, trace.event_count);
    const trace_event *const refused = &trace.events[result.first_failure - 1];
    assert_int_equal(refused->kind, TRACE_ALLOC);
    assert_int_equal(result.decisions[refused->block].native, 0);
    uint64_t refusals = 0;
    for (size_t i = 0; i < result.decision_count; i++)
        refusals += result.decisions[i].native == 0;
    assert_int_equal(refusals, result.failures);
    replay_release(&result);
    replay_release(&free_result);
    trace_release(&trace);
}

/* The traces of `tandem bench pool`, as it generates them. */
static void little_more_is_reserved_than_must_be(void **state) {
    (void)state;
    static const char *const names[] = {
        "prefill",     "decode",       "growing",       "training", "bare-prefill",
        "bare-decode", "bare-growing", "bare-training", "log",      "uniform",
        "powers",      "two",          "pareto"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        pool_case item = {.seed = 1};
        trace_data trace;
        replay_result result;
        double bar;
        snprintf(item.trace, sizeof item.trace, "%s", names[i]);
        assert_int_equal(pool_case_trace(&item, &trace, &bar), 0);
        assert_true(bar > 1 && bar <= 1.3);
        run(&trace, &(replay_settings)REPLAY_SETTINGS_INIT, &result);
        if (!(replay_ratio(&result) <= bar))
            fail_msg("%s: %.3f of the lower bound", names[i], replay_ratio(&result));
        replay_release(&result);
        trace_release(&trace);
    }
}

/* However far the host is ahead, a throttled pool meets the bars; else it grows with the depth of the queues. */
static void a_throttle_keeps_the_bars(void **state) {
    (void)state;
    static const char *const names[] = {"decode",       "training",      "bare-prefill",
                                        "bare-growing", "bare-training", "uniform"};
    double worst = 0;
    for (size_t i = 0; i < 2 * sizeof names / sizeof names[0]; i++) {
        pool_case item = {.seed = 1};
        trace_data trace;
        replay_result free_run, throttled;
        double bar;
        snprintf(item.trace, sizeof item.trace, "%s", names[i / 2]);
        assert_int_equal(pool_case_trace(&item, &trace, &bar), 0);
        replay_settings how = REPLAY_SETTINGS_INIT;
        how.command_ns = i % 2 ? 3000000 : 30000;
        run(&trace, &how, &free_run);
        how.throttle = 16;
        run(&trace, &how, &throttled);
        worst = worst > replay_ratio(&free_run) ? worst : replay_ratio(&free_run);
        if (!(replay_ratio(&throttled) <= bar))
            fail_msg("%s: %.3f of the lower bound", names[i / 2], replay_ratio(&throttled));
        replay_release(&free_run);
        replay_release(&throttled);
        trace_release(&trace);
    }
    assert_true(worst > 1.5);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(generated_traces_are_whole),
        cmocka_unit_test(every_size_distribution_is_different),
        cmocka_unit_test(a_transformer_has_its_tensors),
        cmocka_unit_test(a_cache_grows_by_one_token),
        cmocka_unit_test(settings_without_sense_are_refused),
        cmocka_unit_test(a_file_gives_the_trace_back),
        cmocka_unit_test(a_file_says_what_it_says),
        cmocka_unit_test(lives_come_in_any_order),
        cmocka_unit_test(a_changed_or_cut_file_is_refused),
        cmocka_unit_test(what_is_wrong_is_said_with_the_line),
        cmocka_unit_test(random_lines_do_no_harm),
        cmocka_unit_test(a_replay_is_the_same_every_time),
        cmocka_unit_test(live_blocks_are_apart),
        cmocka_unit_test(a_stream_that_is_behind_is_waited_for),
        cmocka_unit_test(a_use_lasts_until_the_block_is_freed),
        cmocka_unit_test(a_wait_of_the_host_moves_the_clock),
        cmocka_unit_test(a_budget_is_kept),
        cmocka_unit_test(little_more_is_reserved_than_must_be),
        cmocka_unit_test(a_throttle_keeps_the_bars),
    };
    return cmocka_run_group_tests_name("memory traces", tests, make_path, remove_path);
}
