/* Tests the reader of results files: accepted files, refused files and messages. No text may make
 * it crash. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cjson/cJSON.h>

#include "bench/record/results_read.h"
#include "common/random_fill.h"
#include "tests/support/test_case.h"
#include "tests/support/test_folder.h"

static const char valid[] =
    "{\"schema\":\"tandem-bench/1\",\"library\":{\"version\":\"0.1.0\",\"commit\":null},"
    "\"created\":\"2026-11-22T00:00:00Z\",\"later\":{\"unknown\":[1,{\"x\":2}]},"
    "\"host\":{\"cpu\":\"A CPU\",\"cores\":2},"
    "\"device\":{\"name\":\"D\",\"selector\":\"a/b/D\",\"cache_bytes\":1024,\"clock_mhz\":null,"
    "\"capabilities\":[\"one\",\"two\"]},"
    "\"environment\":{\"governor\":null,\"ecc\":true,\"variables\":{\"THREADS\":\"3\"}},"
    "\"results\":[{\"suite\":\"gemm\",\"case\":\"f32 2x3x4 "
    "nn\",\"impl\":\"tandem\",\"variant\":null,"
    "\"dtype\":\"f32\",\"shape\":{\"m\":2,\"n\":3,\"k\":4,\"odd\":null},\"mode\":\"waited\","
    "\"packing\":\"inside\",\"samples\":3,\"raw_s\":[0.5,0.25,1],\"median_s\":0.5,\"min_s\":0.25,"
    "\"p5_s\":0.275,\"p95_s\":0.95,\"flops\":48,\"bytes\":null,\"gflops\":9.6e-8,\"gbs\":null,"
    "\"verified\":true,\"max_error\":0,\"status\":\"ok\",\"reason\":null,\"note\":\"hot\","
    "\"metrics\":{\"joules\":null,\"level\":2},\"new\":[]},"
    "{\"suite\":\"gemm\",\"case\":\"other\",\"impl\":\"onednn\",\"dtype\":null,\"mode\":null,"
    "\"packing\":null,\"shape\":{},\"raw_s\":[],\"median_s\":null,\"status\":\"skipped\","
    "\"reason\":\"no worker\"}]}";

/* Returns the valid text with the first `from` replaced by `to`. Appends `to` if `from` is "". */
static char *changed(const char *from, const char *to) {
    static char text[8192];
    const char *const place = from[0] == '\0' ? valid + strlen(valid) : strstr(valid, from);
    if (place == NULL)
        fail_msg("the valid text has no %s", from);
    snprintf(text, sizeof text, "%.*s%s%s", (int)(place - valid), valid, to, place + strlen(from));
    return text;
}

static int read_text(const char *text, results_file *file, file_error *error) {
    return results_read_text("some/file.json", text, strlen(text), file, error);
}

static void accepted(const char *from, const char *to) {
    file_error error;
    results_file file;
    if (read_text(changed(from, to), &file, &error) != 0)
        fail_msg("'%s' for '%s': %s", to, from, error.text);
    results_file_release(&file);
}

static void refused(const char *from, const char *to, const char *sentence) {
    file_error error;
    results_file file;
    if (read_text(changed(from, to), &file, &error) == 0)
        fail_msg("'%s' for '%s' was taken", to, from);
    if (strstr(error.text, sentence) == NULL || strncmp(error.text, "some/file.json: ", 16) != 0)
        fail_msg("'%s' for '%s' gave: %s", to, from, error.text);
}

TEST(a_file_becomes_plain_structs) {
    file_error error;
    results_file file;
    assert_int_equal(read_text(valid, &file, &error), 0);
    assert_string_equal(file.name, "file.json");
    assert_string_equal(file.schema, "tandem-bench/1");
    assert_int_equal(file.device_count, 1);
    assert_string_equal(results_get_text(file.devices[0], "name"), "D");
    assert_true(results_get_number(file.devices[0], "cache_bytes") == 1024);
    assert_true(isnan(results_get_number(file.devices[0], "clock_mhz")));
    assert_null(results_get_text(file.devices[0], "cache_bytes"));
    static const char *const printed[][2] = {
        {"capabilities", "one, two"}, {"cache_bytes", "1024"}, {"name", "D"}, {"clock_mhz", ""}};
    for (size_t i = 0; i < sizeof printed / sizeof *printed; i++) {
        char text[32];
        results_value_text(cJSON_GetObjectItem(file.devices[0], printed[i][0]), text, sizeof text);
        assert_string_equal(text, printed[i][1]);
    }
    assert_string_equal(results_get_text(file.library, "version"), "0.1.0");
    assert_string_equal(results_get_text(file.host, "cpu"), "A CPU");
    assert_int_equal(file.row_count, 2);
    const results_row *const row = &file.rows[0];
    assert_string_equal(row->case_name, "f32 2x3x4 nn");
    assert_null(row->variant);
    assert_true(results_get_number(row->shape, "k") == 4);
    assert_true(isnan(results_get_number(row->shape, "odd")));
    assert_true(isnan(results_get_number(row->shape, "absent")));
    assert_true(results_get_number(row->metrics, "level") == 2);
    assert_int_equal(row->samples, 3);
    assert_true(row->raw_s[1] == 0.25 && row->median_s == 0.5);
    assert_true(row->flops == 48 && isnan(row->bytes) && isnan(row->gbs));
    assert_true(fabs(row->gflops - 9.6e-8) < 1e-15);
    assert_int_equal(row->verified, 1);
    assert_int_equal(row->status, RESULT_OK);
    assert_string_equal(row->note, "hot");
    assert_int_equal(file.rows[1].status, RESULT_SKIPPED);
    assert_int_equal(file.rows[1].verified, 0);
    assert_int_equal(file.rows[1].samples, 0);
    assert_true(isnan(file.rows[1].median_s));
    assert_string_equal(file.rows[1].reason, "no worker");
    results_file_release(&file);
}

TEST(other_versions) {
    accepted("tandem-bench/1", "tandem-report/1");
    accepted("tandem-bench/1", "tandem-bench/1.4");
    refused("tandem-bench/1", "tandem-bench/2",
            "its schema is 'tandem-bench/2'; this program reads");
    refused("tandem-bench/1", "tandem-bench/11", "its schema is");
    refused("tandem-bench/1", "tandem-bench/", "its schema is");
    static const char *const others[] = {"01",   " 1", "+1",   "1.", "1.x",
                                         "1.4 ", "1 ", "1.-4", "1,4"};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        char schema[32];
        snprintf(schema, sizeof schema, "tandem-bench/%s", others[i]);
        refused("tandem-bench/1", schema, "its schema is");
    }
    accepted("tandem-bench/1", "tandem-report/1.12");
    refused("tandem-bench/1", "nvbench/1", "its schema is");
    refused("\"schema\":\"tandem-bench/1\",", "", "member \"schema\" is missing");
    refused("\"tandem-bench/1\"", "1", "member \"schema\" is not a string");
}

TEST(broken_json) {
    refused("\"created\"", "created", "it is not a JSON object");
    refused("", " x", "there is data after the end");
    accepted("", " \n\t ");
    refused("\"cores\":2", "\"cores\":NaN", "it is not a JSON object");
    refused("\"cores\":2", "\"cores\":1e999", "a number is out of range");
    refused("A CPU", "A \xff CPU", "not UTF-8");
    refused("A CPU", "A \x01 CPU", "control character");
    refused("A CPU", "A\\u0000CPU", "the character NUL");
    refused("A CPU", "A\\u001b[2JCPU", "control character");
    refused("\"cores\":2", "\"cores\":2,\"cores\":3", "\"cores\" appears twice");
    refused("\"suite\":\"gemm\"", "\"suite\":\"gemm\",\"suite\":\"gemv\"",
            "\"suite\" appears twice");
    refused("[1,{\"x\":2}]", "[[[[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]]]]", "nests deeper than 16");
    file_error error;
    results_file file;
    assert_int_equal(read_text("[]", &file, &error), -1);
    assert_int_equal(read_text("3", &file, &error), -1);
    assert_int_equal(read_text("", &file, &error), -1);
}

TEST(fields_that_are_missing_or_of_another_kind) {
    refused("\"suite\":\"gemm\",", "", "row 1: member \"suite\" is missing");
    refused("\"case\":\"f32 2x3x4 nn\",", "", "row 1: member \"case\" is missing");
    refused("\"impl\":\"tandem\"", "\"impl\":null", "row 1: member \"impl\" is not a string");
    refused("\"impl\":\"tandem\"", "\"impl\":\"\"", "member \"impl\" is empty");
    refused("\"status\":\"ok\",", "", "row 1 (f32 2x3x4 nn): member \"status\" is missing");
    refused("\"status\":\"ok\"", "\"status\":\"fine\"", "member \"status\" is 'fine'");
    refused("\"results\":[", "\"resulted\":[", "member \"results\" is missing");
    refused("{\"suite\":\"gemm\",\"case\":\"other\"", "7,{\"suite\":\"gemm\",\"case\":\"other\"",
            "row 2: member \"suite\" is missing");
    accepted("\"device\":{", "\"device\":null,\"was\":{");
    accepted("\"new\":[]", "\"new\":{\"deep\":true}");
}

TEST(numbers_that_cannot_be) {
    refused("[0.5,0.25,1]", "[0.5,-0.25,1]", "sample 2 of \"raw_s\" is not a positive number");
    refused("[0.5,0.25,1]", "[0.5,0,1]", "sample 2 of \"raw_s\" is not a positive number");
    refused("[0.5,0.25,1]", "[0.5,null,1]", "sample 2 of \"raw_s\" is not a positive number");
    refused("\"raw_s\":[0.5,0.25,1]", "\"raw_s\":{}", "\"raw_s\" has no samples");
    refused("[0.5,0.25,1]", "[0.5,NaN,1]", "it is not a JSON object");
    refused("\"samples\":3,\"raw_s\":[0.5,0.25,1]", "\"samples\":0,\"raw_s\":[]",
            "\"raw_s\" has no samples");
    refused("\"verified\":true", "\"verified\":false", "ok, but its output was wrong");
    accepted("\"verified\":true", "\"verified\":null");
    accepted("\"status\":\"ok\"", "\"status\":\"failed\"");
    /* Optional members of another type, and negative work, count as unknown. */
    static const char *const changes[][2] = {
        {"\"dtype\":\"f32\"", "\"dtype\":32"},        {"\"m\":2", "\"m\":\"2\""},
        {"\"metrics\":{", "\"metrics\":7,\"old\":{"}, {"\"flops\":48", "\"flops\":-48"},
        {"\"flops\":48", "\"flops\":1.7e308"},        {"\"bytes\":null", "\"bytes\":\"many\""},
        {"\"later\":", "\"devices\":3,\"later\":"},   {"\"later\":", "\"devices\":[3],\"later\":"}};
    for (size_t i = 0; i < sizeof changes / sizeof *changes; i++)
        accepted(changes[i][0], changes[i][1]);
}

TEST(rows_of_several_devices) {
    file_error error;
    results_file file;
    char text[8192];
    refused("\"case\":\"other\"", "\"case\":\"other\",\"device\":\"a/b/E\"",
            "does not describe the device 'a/b/E'");
    accepted("\"case\":\"other\"", "\"case\":\"other\",\"device\":\"a/b/D\"");
    const char *const listed = changed(
        "\"later\":", "\"devices\":[{\"selector\":\"a/b/D\"},{\"selector\":\"a/b/E\"}],\"later\":");
    static const char other[] = "\"case\":\"other\"";
    const char *const place = strstr(listed, other);
    assert_non_null(place);
    const size_t head = (size_t)(place - listed);
    snprintf(text, sizeof text, "%.*s%s,\"device\":\"a/b/E\"%s", (int)head, listed, other,
             listed + head + sizeof other - 1);
    assert_int_equal(read_text(text, &file, &error), 0);
    assert_int_equal(file.device_count, 2);
    assert_int_equal(file.rows[0].device, 0);
    assert_int_equal(file.rows[1].device, 1);
    results_file_release(&file);
}

TEST(files_that_are_none) {
    file_error error;
    results_file file;
    char path[TEST_PATH];
    assert_int_equal(results_read("/nowhere/at/all", &file, &error), -1);
    assert_non_null(strstr(error.text, "/nowhere/at/all"));
    assert_int_equal(results_read(test_folder(), &file, &error), -1);
    test_file_write(test_folder_path(path, "empty"), "", 0);
    assert_int_equal(results_read(path, &file, &error), -1);
    test_file_write(test_folder_path(path, "huge"), "", 0);
    assert_int_equal(truncate(path, ((off_t)64 << 20) + 1), 0);
    assert_int_equal(results_read(path, &file, &error), -1);
    assert_non_null(strstr(error.text, "larger than 64 MiB"));
    test_file_write(test_folder_path(path, "good"), valid, strlen(valid));
    assert_int_equal(results_read(path, &file, &error), 0);
    assert_string_equal(file.name, "good");
    results_file_release(&file);
}

/* Changes, removes or duplicates a few bytes of the text. Returns its new length. */
static size_t mutate(uint64_t seed, char *text, size_t length) {
    static const char bytes[] = "{}[]\",:0-.eE9\\un\0 \xff";
    const int changes = 1 + (int)(random_bits(seed, 0) % 4);
    for (int i = 1; i <= changes; i++) {
        const uint64_t bits = random_bits(seed, (uint64_t)i);
        const size_t place = (size_t)(bits >> 32) % length;
        size_t run = 1 + bits % 40;
        run = run < length - place ? run : length - place;
        switch (bits >> 8 & 3) {
        case 0:
            text[place] = bytes[(bits >> 16) % (sizeof bytes - 1)];
            break;
        case 1:
            memmove(text + place, text + place + run, length - place - run);
            length -= run < length ? run : length - 1;
            break;
        case 2:
            memmove(text + place + run, text + place, length - place);
            length += run;
            break;
        default:
            text[place] = (char)(text[place] ^ (1 << (bits >> 16 & 7)));
        }
    }
    return length;
}

/* Each text is in memory of its own length, so that sanitizers detect a read beyond it. */
TEST(no_mutation_makes_it_crash) {
    int read = 0;
    int trials = 20000;
    for (int trial = 0; trial < trials; trial++) {
        char text[4 * sizeof valid];
        file_error error = {""};
        results_file file;
        memcpy(text, valid, sizeof valid);
        const size_t length = mutate((uint64_t)trial, text, sizeof valid - 1);
        char *const exact = malloc(length);
        assert_non_null(exact);
        memcpy(exact, text, length);
        if (results_read_text("f", exact, length, &file, &error) == 0) {
            read++;
            results_file_release(&file);
        } else if (strncmp(error.text, "f: ", 3) != 0) {
            fail_msg("seed %d: no sentence: '%s'", trial, error.text);
        }
        free(exact);
    }
    print_message("%d of %d mutated files were still valid\n", read, trials);
    assert_true(read > trials / 100 && read < trials / 2);
    for (size_t length = 1; length < sizeof valid - 1; length++) {
        file_error error;
        results_file file;
        char *const exact = malloc(length);
        assert_non_null(exact);
        memcpy(exact, valid, length);
        assert_int_equal(results_read_text("f", exact, length, &file, &error), -1);
        free(exact);
    }
}

TEST_MAIN(test_folder_make, test_folder_remove)
