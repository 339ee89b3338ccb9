/* `tandem compare` of devices whose caches differ: main memory is that of each one's largest arrays, whatever their sizes. */
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

#include "bench/compare/compare_page.h"
#include "bench/compare/compare_report.h"

#define MIB 1048576.0

enum {
    SAMPLES = 5,
    MAX_ROWS = 8
};

/* A loop: FORM is its name with a %s for the size. */
typedef struct loop_row {
    const char *form;
    double mebibytes;
    double gbs; /* 0: skipped */
    const char *setting;
} loop_row;

typedef struct device_plan {
    const char *device;
    double cache_bytes; /* as the driver tells; 0: it does not */
    loop_row rows[MAX_ROWS];
} device_plan;

static cJSON *row_json(const loop_row *plan) {
    const double bytes = plan->mebibytes * MIB;
    const double seconds = bytes / plan->gbs * 1e-9;
    char digits[32];
    char name[64];
    cJSON *const row = cJSON_CreateObject();
    snprintf(digits, sizeof digits, "%.0f", bytes);
    const char *const mark = strstr(plan->form, "%s");
    snprintf(name, sizeof name, "%.*s%s%s", (int)(mark - plan->form), plan->form, digits, mark + 2);
    cJSON_AddStringToObject(row, "suite", "memory");
    cJSON_AddStringToObject(row, "case", name);
    cJSON_AddStringToObject(row, "impl", "tandem");
    cJSON_AddStringToObject(row, "status", plan->gbs > 0 ? "ok" : "skipped");
    cJSON_AddNumberToObject(cJSON_AddObjectToObject(row, "shape"), "bytes", bytes);
    if (plan->gbs > 0) {
        double raw[SAMPLES];
        for (int i = 0; i < SAMPLES; i++)
            raw[i] = seconds * (1 + 1e-4 * (i - 2));
        cJSON_AddItemToObject(row, "raw_s", cJSON_CreateDoubleArray(raw, SAMPLES));
        cJSON_AddNumberToObject(row, "median_s", seconds);
        cJSON_AddNumberToObject(row, "bytes", bytes);
    }
    if (!(plan->gbs > 0)) {
        cJSON_AddArrayToObject(row, "raw_s");
        cJSON_AddNullToObject(row, "median_s");
    }
    if (plan->setting != NULL)
        cJSON_AddNumberToObject(cJSON_AddObjectToObject(row, "metrics"), plan->setting, 1);
    return row;
}

static void read_plan(const device_plan *plan, results_file *file) {
    file_error error;
    cJSON *const root = cJSON_CreateObject();
    cJSON_AddStringToObject(root, "schema", "tandem-bench/1");
    cJSON_AddObjectToObject(root, "library");
    cJSON *const device = cJSON_AddObjectToObject(root, "device");
    cJSON_AddStringToObject(device, "name", plan->device);
    if (plan->cache_bytes > 0)
        cJSON_AddNumberToObject(device, "cache_bytes", plan->cache_bytes);
    cJSON *const rows = cJSON_AddArrayToObject(root, "results");
    for (int i = 0; i < MAX_ROWS && plan->rows[i].form != NULL; i++)
        cJSON_AddItemToArray(rows, row_json(&plan->rows[i]));
    char *const text = cJSON_PrintUnformatted(root);
    if (results_read_text(plan->device, text, strlen(text), file, &error) != 0)
        fail_msg("%s", error.text);
    free(text);
    cJSON_Delete(root);
}

typedef struct expected_ratio {
    const char *name;
    double ratio[2]; /* of the second and third device; 0: none */
} expected_ratio;

static void expect_case(const compare_case *item, const expected_ratio *expected, size_t others) {
    assert_string_equal(compare_case_name(item), expected->name);
    for (size_t c = 0; c < others; c++) {
        const double ratio = item->cells[c + 1].ratio.ratio;
        const double value = isnan(ratio) ? 0 : ratio;
        if (fabs(value - expected->ratio[c]) > 1e-6 * expected->ratio[c])
            fail_msg("%s of %zu has %g for %g", expected->name, c + 1, value, expected->ratio[c]);
    }
}

typedef struct compared {
    results_file files[3];
    size_t count;
    compare_table table;
} compared;

static void compare_plans(compared *all, const device_plan *plans, size_t count) {
    *all = (compared){.count = count};
    for (size_t i = 0; i < count; i++) {
        read_plan(&plans[i], &all->files[i]);
        assert_int_equal(compare_add_columns(&all->table, &all->files[i]), 0);
    }
    assert_int_equal(compare_match(&all->table, RATIO_MARGIN), 0);
}

static void release(compared *all) {
    compare_release(&all->table);
    for (size_t i = 0; i < all->count; i++)
        results_file_release(&all->files[i]);
}

static void expect_cases(const device_plan *plans, size_t count, const expected_ratio *expected,
                         size_t cases) {
    compared all;
    compare_plans(&all, plans, count);
    assert_int_equal(all.table.case_count, cases);
    for (size_t i = 0; i < cases; i++)
        expect_case(&all.table.cases[i], &expected[i], count - 1);
    release(&all);
}

#define EXPECT(plans, expected)                                                                    \
    expect_cases(plans, sizeof(plans) / sizeof *(plans), expected,                                 \
                 sizeof(expected) / sizeof *(expected))

/* 64 MiB fit an RTX 4090's cache of 72 MB: that case is the same, but tells nothing of memory. */
static void main_memory_is_compared_at_each_ones_size(void **state) {
    static const device_plan plans[] = {
        {"NVIDIA GeForce RTX 4090",
         0,
         {{"read %s", 64, 3000, "setting_best"},
          {"read %s", 288, 900, "setting_best"},
          {"read %s", 288, 800, "setting_default"},
          {"strided %s, stride 2", 288, 400, NULL},
          {"strided %s, stride 8", 288, 100, NULL},
          {"scan %s bytes", 288, 950, NULL}}},
        {"NVIDIA H100 80GB HBM3",
         0,
         {{"read %s", 64, 6000, "setting_best"},
          {"read %s", 200, 2700, "setting_best"},
          {"read %s", 200, 1600, "setting_default"},
          {"strided %s, stride 8", 200, 350, NULL},
          {"scan %s bytes", 200, 2850, NULL}}},
    };
    static const expected_ratio expected[] = {
        {"read 67108864", {2}},
        {"read beyond caches", {3}},
        {"read beyond caches", {2}},
        {"strided 301989888, stride 2", {0}},
        {"strided beyond caches, stride 8", {3.5}},
        {"scan beyond caches", {3}},
    };
    (void)state;
    EXPECT(plans, expected);
}

static void a_size_that_all_have_comes_first(void **state) {
    static const device_plan plans[] = {
        {"NVIDIA GeForce RTX 4090", 0, {{"read %s", 288, 900, NULL}, {"read %s", 1024, 950, NULL}}},
        {"NVIDIA H100 80GB HBM3", 0, {{"read %s", 200, 2700, NULL}, {"read %s", 1024, 2850, NULL}}},
    };
    static const expected_ratio expected[] = {
        {"read 301989888", {0}}, {"read 1073741824", {3}}, {"read 209715200", {0}}};
    (void)state;
    EXPECT(plans, expected);
}

/* Of the third device all but the least was skipped, of the second one the largest. */
static void what_a_cache_may_serve_is_no_main_memory(void **state) {
    static const device_plan plans[] = {
        {"One", 32 * MIB, {{"read %s", 128, 50, NULL}, {"write %s", 128, 40, NULL}}},
        {"Other",
         96 * MIB,
         {{"read %s", 384, 0, NULL}, {"read %s", 192, 100, NULL}, {"write %s", 190, 80, NULL}}},
        {"Third", 1 * MIB, {{"read %s", 1, 100, NULL}, {"read %s", 64, 0, NULL}}},
    };
    static const expected_ratio expected[] = {
        {"read beyond caches", {2, 0}}, {"write 134217728", {0, 0}}, {"read 402653184", {0, 0}},
        {"write 199229440", {0, 0}},    {"read 1048576", {0, 0}},    {"read 67108864", {0, 0}},
    };
    (void)state;
    EXPECT(plans, expected);
}

/* 512 MB are beyond any cache, where neither a driver nor a datasheet tells of one. */
static void a_cache_that_is_not_known_is_the_largest_there_is(void **state) {
    static const device_plan plans[] = {
        {"One",
         0,
         {{"read %s", 480, 50, NULL}, {"write %s", 500, 40, NULL}, {"write %s", 500, 40, NULL}}},
        {"Other", 1 * MIB, {{"read %s", 64, 100, NULL}, {"write %s", 64, 80, NULL}}},
        {"Third", 1 * MIB, {{"read %s", 64, 25, NULL}, {"write %s", 500, 20, NULL}}},
    };
    static const expected_ratio expected[] = {
        {"read 503316480", {0, 0}},
        {"write beyond caches", {2, 0.5}},
        {"read 67108864", {0, 0}},
    };
    (void)state;
    EXPECT(plans, expected);
}

static void sizes_stand_in_the_notes_and_in_the_file(void **state) {
    static const device_plan plans[] = {
        {"NVIDIA GeForce RTX 4090", 0, {{"read %s", 288, 900, NULL}}},
        {"NVIDIA H100 80GB HBM3", 0, {{"read %s", 200, 2700, NULL}}},
    };
    compared all;
    char note[80];
    (void)state;
    compare_plans(&all, plans, 2);
    const compare_differences none = {.count = 0};
    const compare_report report = {&all.table, &none, RATIO_MARGIN};
    compare_note_text(&report, 0, 1, note, sizeof note);
    assert_string_equal(note, "200 MiB");
    cJSON *const root = compare_json(&report);
    const cJSON *const item = cJSON_GetArrayItem(cJSON_GetObjectItem(root, "cases"), 0);
    const cJSON *const cell = cJSON_GetArrayItem(cJSON_GetObjectItem(item, "cells"), 1);
    assert_string_equal(cJSON_GetStringValue(cJSON_GetObjectItem(item, "case")),
                        "read beyond caches");
    assert_null(cJSON_GetObjectItem(cJSON_GetObjectItem(item, "shape"), "bytes"));
    assert_true(cJSON_GetObjectItem(cell, "set_bytes")->valuedouble == 200 * MIB);
    cJSON_Delete(root);
    release(&all);
}

/* The second case was skipped by both, or failed with one of them; the third was skipped by one. */
static void what_all_skipped_is_left_out(void **state) {
    static const device_plan plans[] = {
        {"One",
         1 * MIB,
         {{"read %s", 64, 50, NULL}, {"write %s", 64, 0, NULL}, {"copy %s", 64, 0, NULL}}},
        {"Other",
         1 * MIB,
         {{"read %s", 64, 50, NULL}, {"write %s", 64, 0, NULL}, {"copy %s", 64, 40, NULL}}},
    };
    static char text[8192];
    compared all;
    (void)state;
    compare_plans(&all, plans, 2);
    const compare_differences none = {.count = 0};
    const compare_report report = {&all.table, &none, RATIO_MARGIN};
    for (int failed = 0; failed < 2; failed++) {
        all.files[0].rows[1].status = failed ? RESULT_FAILED : RESULT_SKIPPED;
        for (int page = 0; page < 2; page++) {
            FILE *const file = fmemopen(text, sizeof text, "w");
            assert_non_null(file);
            if (page)
                assert_int_equal(compare_page_write(file, &report), 0);
            else
                compare_print(&report, file);
            assert_int_equal(fclose(file), 0);
            assert_true((strstr(text, "write 6") != NULL) == failed);
            assert_true((strstr(text, "1 case that every device skipped or has not") != NULL) !=
                        failed);
            assert_non_null(strstr(text, "copy 6"));
        }
    }
    cJSON *const root = compare_json(&report);
    assert_int_equal(cJSON_GetArraySize(cJSON_GetObjectItem(root, "cases")), 3);
    cJSON_Delete(root);
    release(&all);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(main_memory_is_compared_at_each_ones_size),
        cmocka_unit_test(a_size_that_all_have_comes_first),
        cmocka_unit_test(what_a_cache_may_serve_is_no_main_memory),
        cmocka_unit_test(a_cache_that_is_not_known_is_the_largest_there_is),
        cmocka_unit_test(sizes_stand_in_the_notes_and_in_the_file),
        cmocka_unit_test(what_all_skipped_is_left_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
