/* Whether two runs of one machine agree, and what `tandem compare` says where they do not: files whose answers are known. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <cjson/cJSON.h>

#include "bench/compare/compare_agree.h"
#include "bench/compare/compare_page.h"
#include "bench/compare/compare_report.h"

enum {
    SAMPLES = 5,
    DISPLACED = 4 /* the case whose processors stood elsewhere in the second file */
};

/* A case in both files: how many times as fast it was in the second, and how fast the clock. */
typedef struct twice {
    const char *impl;
    double ratio;
    double clock; /* NaN: not told */
} twice;

static char *text_of(const char *device, const twice *cases, int count, int second) {
    cJSON *const root = cJSON_CreateObject();
    cJSON_AddStringToObject(root, "schema", "tandem-report/1");
    cJSON_AddStringToObject(cJSON_AddObjectToObject(root, "device"), "name", device);
    cJSON *const rows = cJSON_AddArrayToObject(root, "results");
    for (int i = 0; i < count; i++) {
        char name[24];
        double raw[SAMPLES];
        cJSON *const row = cJSON_CreateObject();
        snprintf(name, sizeof name, "case %d", i);
        for (int s = 0; s < SAMPLES; s++)
            raw[s] = 1e-3 / (second ? cases[i].ratio : 1);
        cJSON_AddStringToObject(row, "suite", "memory");
        cJSON_AddStringToObject(row, "case", name);
        cJSON_AddStringToObject(row, "impl", cases[i].impl);
        cJSON_AddStringToObject(row, "status", "ok");
        cJSON_AddItemToObject(row, "raw_s", cJSON_CreateDoubleArray(raw, SAMPLES));
        cJSON_AddNumberToObject(row, "median_s", raw[0]);
        cJSON *const metrics = cJSON_AddObjectToObject(row, "metrics");
        if (!isnan(cases[i].clock))
            cJSON_AddNumberToObject(metrics, "chain_ns", 5000 / (second ? cases[i].clock : 1));
        if (i == DISPLACED)
            cJSON_AddNumberToObject(metrics, "handover_ns", second ? 400 : 110);
        cJSON_AddItemToArray(rows, row);
    }
    char *const text = cJSON_PrintUnformatted(root);
    cJSON_Delete(root);
    return text;
}

/* Two files of such cases, matched. */
typedef struct pair {
    results_file files[2];
    compare_table table;
    compare_differences differences;
    compare_report report;
} pair;

static pair *open_pair(const char *second_device, const twice *cases, int count) {
    pair *const own = calloc(1, sizeof *own);
    for (int i = 0; i < 2; i++) {
        file_error error;
        char *const text = text_of(i == 0 ? "a device" : second_device, cases, count, i);
        if (results_read_text(i == 0 ? "first" : "second", text, strlen(text), &own->files[i],
                              &error) != 0)
            fail_msg("%s", error.text);
        free(text);
        assert_int_equal(compare_add_columns(&own->table, &own->files[i]), 0);
    }
    assert_int_equal(compare_match(&own->table, RATIO_MARGIN), 0);
    own->report = (compare_report){&own->table, &own->differences, RATIO_MARGIN};
    return own;
}

static void close_pair(pair *own) {
    compare_release(&own->table);
    for (int i = 0; i < 2; i++)
        results_file_release(&own->files[i]);
    free(own);
}

/* ---- two runs of which the second had a clock 1.04 times as fast ------------------------------------ */

static const twice moved[] = {
    {"tandem", 1.005, 1.04}, {"tandem", 1.02, 1.04},  {"tandem", 1.04, 1.04},
    {"tandem", 1.06, 1.04},  {"tandem", 1.2, 1.04},   {"tandem", 0.8, NAN},
    {"stream", 1.0, 1.04},   {"stream", 1.008, 1.04}, {"stream", 1.002, 1.04},
    {"stream", 1.02, 1.04},  {"stream", 1.08, 1.04},
};

enum {
    MOVED = sizeof moved / sizeof *moved
};

static void cases_are_counted_by_distance_control_and_clock(void **state) {
    (void)state;
    static const size_t near[COMPARE_DISTANCES] = {4, 6, 7, 9};
    pair *const own = open_pair("a device", moved, MOVED);
    const compare_agreement found = compare_agree(&own->table, 1, RATIO_MARGIN);
    assert_true(found.cases == MOVED && found.within == 6);
    for (int i = 0; i < COMPARE_DISTANCES; i++)
        assert_int_equal(found.near[i], near[i]);
    assert_true(found.controls == 5 && found.controls_within == 4);
    assert_true(found.clocked == 10 && found.clocked_beyond == 4);
    assert_true(found.as_the_clock == 2 && found.within_at_one_clock == 4);
    assert_true(fabs(found.clock - 1.04) < 1e-9);
    assert_int_equal(compare_repeated(&found), 0);
    close_pair(own);
}

static const char *const sentences[] = {
    "B: of 11 cases 36.4 % are within 1 %, 54.5 % are within 3 %, 63.6 % are within 5 %, 81.8 % "
    "are "
    "within 10 %",
    "B: the clock was 1.040 times as fast as A's; of 4 cases without 3 % that tell of it 2 moved "
    "as "
    "the clock did, and with all divided by it 4 of 10 are within (40.0 %)",
    "B: the machine did not repeat itself: of 5 cases that run no code of Tandem's 4 are within 3 "
    "% "
    "(80.0 %), its clock differed by 4.0 %; what else differs need not be the work of either run",
};

enum {
    SENTENCES = sizeof sentences / sizeof *sentences
};

static void find_line(void *user, const char *text) {
    int *const found = user;
    found[SENTENCES + 1] += strstr(text, "within") != NULL || strstr(text, "others") != NULL;
    for (int i = 0; i < SENTENCES; i++)
        found[i] += strcmp(text, sentences[i]) == 0;
    found[SENTENCES] += strstr(text, "repeat") != NULL || strstr(text, "clock") != NULL;
}

static void what_repeated_is_told_of_one_device(void **state) {
    (void)state;
    int found[SENTENCES + 2] = {0};
    pair *own = open_pair("a device", moved, MOVED);
    compare_tell_agreement(&own->report, find_line, found);
    assert_int_equal(found[SENTENCES + 1], 5);
    for (int i = 0; i < SENTENCES; i++)
        if (found[i] != 1)
            fail_msg("there is no '%s'", sentences[i]);
    close_pair(own);
    memset(found, 0, sizeof found);
    own = open_pair("another device", moved, MOVED);
    compare_tell_agreement(&own->report, find_line, found);
    assert_true(found[SENTENCES] == 0 && found[SENTENCES + 1] == 0);
    close_pair(own);
}

static void gather_lines(void *user, const char *text) {
    FILE *const file = user;
    fprintf(file, "%s\n", text);
}

/* One case of each kind. */
static void one_is_no_plural(void **state) {
    (void)state;
    static const twice one[] = {{"stream", 1.2, 1.04}};
    static const char *const words[] = {
        "B: 0 of 1 row are marked noisy (0.0 %); medians of 0 of 1 case are within 3 %",
        "; of the 1 other, what ran beside it moved alike in 0, not in 0, and nothing ran beside 1",
        "B: of 1 case 0.0 % are within 1 %",
        "; of 1 case without 3 % that tells of it 0 moved as the clock did",
        " of 1 case that runs no code of Tandem's 0 are within 3 %",
    };
    char *text = NULL;
    size_t size = 0;
    pair *const own = open_pair("a device", one, 1);
    FILE *const file = open_memstream(&text, &size);
    compare_tell_agreement(&own->report, gather_lines, file);
    assert_int_equal(fclose(file), 0);
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strstr(text, words[i]) == NULL)
            fail_msg("there is no '%s' in\n%s", words[i], text);
    free(text);
    close_pair(own);
}

/* "case 0" by another implementation, as much slower: of unlike devices nobody expected otherwise. */
static void notes_tell_of_one_device_what_moved(void **state) {
    (void)state;
    static const char *const devices[] = {"a device", "another device"};
    char note[128];
    for (int i = 0; i < 2; i++) {
        pair *const own = open_pair(devices[i], moved, MOVED);
        results_row beside = *own->table.cases[4].row;
        beside.impl = (char *)"stream";
        own->table.cases[10].row = &beside;
        own->table.cases[10].cells[1].ratio.ratio = own->table.cases[4].cells[1].ratio.ratio;
        compare_note_text(&own->report, 4, 1, note, sizeof note);
        assert_string_equal(note, i == 0 ? "stream moved alike" : "");
        close_pair(own);
    }
}

static double number(const cJSON *object, const char *key) {
    const cJSON *const item = cJSON_GetObjectItemCaseSensitive(object, key);
    if (!cJSON_IsNumber(item))
        fail_msg("there is no number '%s'", key);
    return item->valuedouble;
}

static void files_and_pages_have_the_same(void **state) {
    (void)state;
    pair *own = open_pair("a device", moved, MOVED);
    cJSON *root = compare_json(&own->report);
    const cJSON *devices = cJSON_GetObjectItemCaseSensitive(root, "devices");
    const cJSON *item = cJSON_GetArrayItem(devices, 1);
    const cJSON *const distances = cJSON_GetObjectItemCaseSensitive(item, "distances");
    assert_int_equal(cJSON_GetArraySize(distances), COMPARE_DISTANCES);
    assert_true(number(cJSON_GetArrayItem(distances, 2), "within") == 0.05);
    assert_true(number(cJSON_GetArrayItem(distances, 2), "cases") == 7);
    assert_true(number(item, "controls") == 5 && number(item, "controls_within_margin") == 4);
    assert_true(number(item, "cases_clocked") == 10 &&
                number(item, "cases_clocked_without_margin") == 4);
    assert_true(number(item, "cases_as_the_clock_moved") == 2 &&
                number(item, "cases_within_at_one_clock") == 4);
    assert_true(fabs(number(item, "clock_ratio") - 1.04) < 1e-9);
    assert_true(cJSON_IsFalse(cJSON_GetObjectItemCaseSensitive(item, "machine_repeated_itself")));
    assert_true(cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(item, "same_device")));
    item = cJSON_GetArrayItem(devices, 0);
    assert_true(cJSON_IsNull(cJSON_GetObjectItemCaseSensitive(item, "controls")));
    assert_true(cJSON_IsNull(cJSON_GetObjectItemCaseSensitive(item, "machine_repeated_itself")));
    cJSON_Delete(root);
    char *page = NULL;
    size_t size = 0;
    FILE *const file = open_memstream(&page, &size);
    assert_int_equal(compare_page_write(file, &own->report), 0);
    fclose(file);
    assert_non_null(strstr(page, "<li>B: of 11 cases 36.4 % are within 1 %"));
    assert_non_null(strstr(page, "<li>B: the machine did not repeat itself: of 5 cases"));
    free(page);
    close_pair(own);
    own = open_pair("another device", moved, MOVED);
    root = compare_json(&own->report);
    devices = cJSON_GetObjectItemCaseSensitive(root, "devices");
    item = cJSON_GetArrayItem(devices, 1);
    assert_true(cJSON_IsNull(cJSON_GetObjectItemCaseSensitive(item, "machine_repeated_itself")));
    assert_true(cJSON_IsFalse(cJSON_GetObjectItemCaseSensitive(item, "same_device")));
    cJSON_Delete(root);
    close_pair(own);
}

/* Arithmetic on both processors took 1.53, 1.55 and 1.8 times a chain in the second file: in the last a core was shared. */
static void rows_that_shared_a_core_are_displaced(void **state) {
    (void)state;
    results_figure figures[2][3][3];
    results_row rows[2][3];
    static compare_case cases[3];
    static const double crowding[] = {1.53, 1.55, 1.8};
    for (int c = 0; c < 2; c++) {
        for (int i = 0; i < 3; i++) {
            const double chain = c == 0 ? 5000 : 5200;
            results_figure *const own = figures[c][i];
            own[0] = (results_figure){"handover_ns", 110};
            own[1] = (results_figure){"work_ns", 110 + chain * (c == 0 ? 1.53 : crowding[i])};
            own[2] = (results_figure){"chain_ns", chain};
            rows[c][i] = (results_row){.suite = "memory", .case_name = "read", .impl = "tandem"};
            rows[c][i].metrics = (results_figures){own, 3};
            cases[i].row = cases[i].cells[0].row = &rows[0][i];
            cases[i].cells[c].row = &rows[c][i];
        }
        cases[c].cells[1].ratio.ratio = 1.5;
    }
    cases[0].cells[1].ratio.ratio = 1.01;
    cases[2].cells[1].ratio.ratio = 0.6;
    const results_file file = {.rows = rows[1], .row_count = 3};
    compare_table table = {.cases = cases, .case_count = 3, .column_count = 2};
    table.columns[1] = (compare_column){.file = &file};
    const compare_agreement own = compare_agree(&table, 1, RATIO_MARGIN);
    assert_true(own.cases == 3 && own.within == 1 && own.displaced == 1);
    assert_true(own.placed_alike == 2 && own.placed_alike_within == 1);
    assert_true(own.placed == 3 && own.strays == 1);
}

/* ---- whether a machine repeated itself -------------------------------------------------------------- */

/* So many cases that are not Tandem's, so many of which moved by a tenth; Tandem's own never count. */
static int repeated(size_t controls, size_t moved_controls, double clock) {
    static const compare_agreement none = {.cases = 0};
    compare_agreement agreement = none;
    agreement.controls = controls;
    agreement.controls_within = controls - moved_controls;
    agreement.clock = clock;
    return compare_repeated(&agreement);
}

static void a_machine_repeats_itself_where_nothing_else_moved(void **state) {
    (void)state;
    assert_int_equal(repeated(20, 0, 1), 1);
    assert_int_equal(repeated(20, 1, 1.005), 1);
    assert_int_equal(repeated(20, 2, 1), 0);
    assert_int_equal(repeated(20, 0, NAN), 1); /* files of an earlier version */
    assert_int_equal(repeated(20, 0, 1.02), 0);
    assert_int_equal(repeated(20, 0, 0.98), 0);
    assert_int_equal(repeated(COMPARE_LEAST_CONTROLS - 1, 0, 1), -1);
    assert_int_equal(repeated(COMPARE_LEAST_CONTROLS - 1, 3, NAN), -1);
    assert_int_equal(repeated(0, 0, 1.02), 0); /* the clock alone says enough */
}

static void the_same_file_twice_repeats_itself(void **state) {
    (void)state;
    twice same[MOVED];
    for (int i = 0; i < MOVED; i++)
        same[i] = (twice){moved[i].impl, 1, 1};
    pair *const own = open_pair("a device", same, MOVED);
    const compare_agreement found = compare_agree(&own->table, 1, RATIO_MARGIN);
    assert_true(found.near[0] == MOVED && found.as_the_clock == 0);
    assert_true(found.within_at_one_clock == MOVED && found.clock == 1);
    assert_int_equal(compare_repeated(&found), 1);
    close_pair(own);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cases_are_counted_by_distance_control_and_clock),
        cmocka_unit_test(what_repeated_is_told_of_one_device),
        cmocka_unit_test(one_is_no_plural),
        cmocka_unit_test(notes_tell_of_one_device_what_moved),
        cmocka_unit_test(files_and_pages_have_the_same),
        cmocka_unit_test(rows_that_shared_a_core_are_displaced),
        cmocka_unit_test(a_machine_repeats_itself_where_nothing_else_moved),
        cmocka_unit_test(the_same_file_twice_repeats_itself),
    };
    return cmocka_run_group_tests_name("compare agree", tests, NULL, NULL);
}
