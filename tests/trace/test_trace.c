/* Tests memory traces: generated traces, trace files and their errors, and `tandem trace`. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/device/memory/memory_trace_text.h"
#include "bench/trace/trace_data.h"
#include "tests/support/bench/trace_samples.h"
#include "tests/support/test_case.h"
#include "tests/support/test_data.h"
#include "tests/support/test_folder.h"
#include "tests/support/test_program.h"

/* ---- generators ---- */

/* Returns the largest total of live bytes at any event, computed from the definition. */
static uint64_t bound_by_definition(const trace_data *trace, const size_t *born,
                                    const size_t *dead) {
    const uint64_t unit = TRACE_UNIT;
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
    find_generations(trace, born, dead);
    for (size_t i = 0; i < trace->block_count; i++) {
        assert_int_equal(trace->blocks[i].live != 0, dead[i] == trace->event_count);
        assert_in_range(trace->blocks[i].tag, 1, trace->tag_count);
    }
    /* The definition takes time proportional to events times blocks, so it is used for short traces
     * only. */
    if (trace->event_count < 2000)
        assert_int_equal(trace_summarize(trace).lower_bound,
                         bound_by_definition(trace, born, dead));
    free(born);
}

TEST(generated_traces_are_whole) {
    for (int bare = 0; bare < 2; bare++) {
        trace_settings settings = small_settings();
        trace_data trace;
        settings.no_weights = bare;
        generate(&settings, &trace);
        assert_int_equal(trace.streams, 3);
        expect_whole(&trace);
        trace_release(&trace);
    }
}

/*
 * Returns the total bytes of the blocks with a tag. *live receives the bytes of those that are
 * never freed.
 */
static uint64_t bytes_of(const trace_data *trace, const char *tag, uint64_t *live) {
    uint64_t sum = 0;
    *live = 0;
    for (size_t i = 0; i < trace->block_count; i++)
        if (strcmp(trace->tags[trace->blocks[i].tag - 1], tag) == 0) {
            sum += trace->blocks[i].bytes;
            *live += trace->blocks[i].live ? trace->blocks[i].bytes : 0;
        }
    return sum;
}

/*
 * Recomputes the sizes for three layers of width 96 (keys: 32, inner: 250), a vocabulary of 777,
 * and two sequences of 17 tokens.
 */
TEST(a_model_has_its_tensors) {
    const uint64_t layers = UINT64_C(3) * (2 * 96 + 2 * 96 * 96 + 2 * 96 * 32 + 3 * 96 * 250);
    const uint64_t table = 777 * 96;
    const uint64_t token = UINT64_C(3) * 2 * 2 * 2 * 32; /* keys and values of all layers, in f16 */
    /* The KV cache of 17 tokens grows one token at a time, to 24. */
    const uint64_t cached = token * (17 + 18 + 19 + 20 + 21 + 22 + 23 + 24);
    const trace_settings settings = small_settings();
    trace_data trace;
    uint64_t live;
    generate(&settings, &trace);
    assert_int_equal(bytes_of(&trace, "weights", &live), 2 * (2 * table + layers));
    assert_int_equal(live, 2 * (2 * table + layers));
    assert_int_equal(bytes_of(&trace, "kv cache", &live), cached);
    assert_int_equal(live, token * 24);
    trace_release(&trace);
}

/* ---- files ---- */

static const char example[] = TDM_TRACE_MAGIC "# an example\n"
                                              "t 1 a b%25\n"
                                              "a 5 3 1000 2 1\n"
                                              "u 5 3 9\n"
                                              "a 0 4 0 0 0\n"
                                              "f 100 3\n";

/* Writes the example with its last line, which holds the checksum. */
static size_t finished_example(char *text, size_t size) {
    const uint64_t checksum = tdm_trace_hash(TDM_TRACE_HASH_START, example, sizeof example - 1);
    return (size_t)snprintf(text, size, "%se 4 %016llx\n", example, (unsigned long long)checksum);
}

TEST(a_file_says_what_it_says) {
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
    assert_int_equal(trace_summarize(&trace).lower_bound, 1024 + 256);
    trace_release(&trace);
}

/* A pool of several threads numbers allocation generations in batches per thread. */
TEST(generations_come_in_any_order) {
    enum {
        GENERATIONS = 3000
    };
    static char text[64 * GENERATIONS];
    trace_data trace;
    file_error error;
    size_t size = (size_t)snprintf(text, sizeof text, "%s", TDM_TRACE_MAGIC);
    for (int i = 0; i < GENERATIONS; i++)
        size += (size_t)snprintf(text + size, sizeof text - size, "a 1 %d %d 0 0\n",
                                 1 + i * 1009 % GENERATIONS, 1 + i);
    for (int i = 0; i < GENERATIONS; i++)
        size += (size_t)snprintf(text + size, sizeof text - size, "f 1 %d\n",
                                 1 + i * 1009 % GENERATIONS);
    assert_int_equal(trace_parse(text, size, 1, &trace, &error), 0);
    assert_int_equal(trace.block_count, GENERATIONS);
    for (uint32_t i = 0; i < GENERATIONS; i++) {
        assert_int_equal(trace.blocks[i].bytes, 1 + i);
        assert_int_equal(trace.events[GENERATIONS + i].block, i);
    }
    trace_release(&trace);
}

TEST(a_changed_or_cut_file_is_refused) {
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
        /* A trace that a crash cut off is accepted up to its end. */
        const int whole = length >= sizeof TDM_TRACE_MAGIC - 1;
        assert_int_equal(trace_parse(text, length, 1, &trace, &error), whole ? 0 : -1);
        trace_release(&trace);
    }
}

TEST(what_is_wrong_is_said_with_the_line) {
    static const struct {
        const char *lines; /* the lines after the first one */
        const char *sentence;
    } rows[] = {
        {"x 1 2\n", "line 2: unknown kind of line"},
        {"\n", "line 2: unknown kind of line"},
        {"a\n", "line 2: unknown kind of line"},
        {"a \n", "line 2: number 1 of the line"},
        {"a 1 1 64 0 0\na 1 1 64 0 0\n", "line 3: block 1 is 0 or was allocated before"},
        {"a 1 0 64 0 0\n", "line 2: block 0 is 0 or was"},
        {"a 1 1 64 0 1\n", "line 2: tag 1 is not defined yet"},
        {"a 1 1 64 0\n", "line 2: number 5 of the line"},
        {"a 1 1 64 0 0 0\n", "line 2: the line has too many fields"},
        {"a 1 1 64 0 0 \n", "line 2: the line has too many fields"},
        {"a -1 1 64 0 0\n", "line 2: number 1 of the line"},
        {"a 1 1 64x 0 0\n", "line 2: number 3 of the line"},
        {"a 1  1 64 0 0\n", "line 2: number 2 of the line"},
        {"a 99999999999999999999 1 64 0 0\n", "line 2: number 1 of the line"},
        {"a 1 1 281474976710657 0 0\n", "line 2: more bytes are live"},
        {"a 1152921504606846976 1 64 0 0\nu 1152921504606846976 1 1\nu 1152921504606846976 1 1\n"
         "u 1152921504606846976 1 1\nf 1152921504606846976 1\n",
         "line 6: the sum of the times overflows"},
        {"u 1 7 1\n", "line 2: block 7 was never allocated"},
        {"a 1 1 64 0 0\nu 1 1 0\n", "line 3: stream 0 cannot use a block"},
        {"a 1 1 64 0 0\nf 1 1\nf 1 1\n", "line 4: block 1 is already freed"},
        {"a 1 1 64 0 0\nf 1 1\nu 1 1 1\n", "line 4: block 1 is already freed"},
        {"t 2 x\n", "line 2: tag 2 is out of order, expected 1"},
        {"t 1 a%\n", "line 2: % is not followed by two hexadecimal digits"},
        {"t 1 a%00\n", "line 2: % is not followed by two hexadecimal digits"},
        {"t 1 a\tb\n", "line 2: the text contains a control character"},
        {"t 1 1234567890123456789012345678901234567890123456789012345678901234\n",
         "line 2: the text has more than 63 bytes"},
        {"e 1 0000000000000000\n", "line 2: the end line says 1 events, but there are 0"},
        {"e 0 000000000000000\n", "line 2: the checksum is wrong"},
        {"e 0 0000000000000000\n", "line 2: the checksum is wrong"},
        {"a 1 1 64 0 0\n", "line 3: the file has no end line"},
        {"a 1 1 64 0 0", "line 2: the file ends in the middle of the line"},
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
    assert_string_equal(error.text, "line 1: not a memory trace of version 1");
    assert_int_equal(trace_load("/nonexistent/trace", 0, &trace, &error), -1);
    assert_non_null(strstr(error.text, "/nonexistent/trace"));
}

/* Random lines of valid kinds are refused or accepted. The reader never reads beyond the end. */
TEST(random_lines_do_no_harm) {
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

/* ---- the program, on machines without any device ---- */

/* Runs "tandem trace", with FILE replaced by the path. */
static void expect(const char *arguments, int exit_code, const char *output, const char *errors) {
    static const char *const no_drivers[] = {"OCL_ICD_VENDORS=/nonexistent", NULL};
    char path[TEST_PATH], all[TEST_PATH + 100];
    test_folder_path(path, "trace");
    const char *const place = strstr(arguments, "FILE");
    snprintf(all, sizeof all, "trace %s%s", place == NULL ? "" : path,
             place == NULL ? arguments : place + 4);
    test_program_result result =
        test_program_run(TANDEM_BINARY_DIR "/bin/tandem", all, no_drivers, 60);
    if (result.exit_code != exit_code ||
        (output != NULL && strstr(result.output, output) == NULL) ||
        (errors != NULL && strstr(result.errors, errors) == NULL))
        fail_msg("'tandem %s' gave %d\n-- output:\n%s-- errors:\n%s", all, result.exit_code,
                 result.output, result.errors);
    test_program_release(&result);
}

static void write_trace(const char *lines) {
    char path[TEST_PATH], text[400];
    snprintf(text, sizeof text, TDM_TRACE_MAGIC "%s", lines);
    test_text_write(test_folder_path(path, "trace"), text, 0600);
}

TEST(a_trace_is_shown_and_replayed) {
    write_trace("# of a test\nt 1 weights\na 1 1 300000 1 1\nu 1 1 1\na 1 2 64 0 0\n"
                "e 3 c0ffee0000000000\n");
    expect("FILE", 1, NULL, "line 7: the checksum is wrong");
    write_trace("# of a test\nt 1 weights\na 1 1 300000 1 1\nu 1 1 1\na 1 2 64 0 0\n");
    expect("FILE", 1, NULL, "line 7: the file has no end line");
    expect("FILE --unfinished --command-time 40", 0, "of a test", NULL);
    expect("FILE --unfinished", 0, "\nweights ", NULL);
    expect("FILE --unfinished", 0, "  decisions ", NULL);
    expect("FILE --unfinished --budget 100K", 1, "first refused event", NULL);
}

TEST(a_bad_file_is_refused_with_its_line) {
    write_trace("a 1 1 64 0 0\nf 1 2\n");
    expect("FILE --unfinished", 1, NULL, "line 3: block 2 was never allocated");
    expect("/nonexistent", 1, NULL, "/nonexistent");
}

TEST_MAIN(test_folder_make, test_folder_remove)
