/* Geometric means of `tandem compare`: only of cases that one thing bounds. */
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

#include "bench/compare/compare_bound.h"
#include "bench/compare/compare_page.h"
#include "bench/compare/compare_report.h"

/* A case of both files, so many times as fast in the second; `members` are its shape, what it counts, dtype and mode. */
typedef struct bound_case {
    const char *suite;
    const char *name;
    const char *members;
    double ratio;
    compare_bound bound;
} bound_case;

#define SET(megabytes) "\"shape\":{\"bytes\":" #megabytes "e6},\"bytes\":1e9"
#define MOVED(megabytes) "\"shape\":{\"rows\":8},\"bytes\":" #megabytes "e6"
#define COMPUTED(dtype) "\"dtype\":\"" dtype "\",\"shape\":{\"m\":8},\"flops\":1e9,\"bytes\":1e6"

/* The largest caches are 32 and 60 MB. */
static const bound_case cases[] = {
    {"memory", "read 1", SET(8), 2, BOUND_CACHES},
    {"memory", "sweep read 2", SET(32), 8, BOUND_CACHES},
    {"memory", "read 3", SET(33), 5, BOUND_NONE},  /* a cache of the second alone */
    {"memory", "read 4", SET(64), 5, BOUND_NONE},  /* ... which serves half of it here */
    {"memory", "read 5", SET(119), 5, BOUND_NONE}, /* less than twice */
    {"memory", "scan 6", SET(120), 3, BOUND_MAIN_MEMORY},
    {"memory", "gather 7", SET(800), 3, BOUND_MAIN_MEMORY},
    {"memory", "chase 8", SET(16), 1.5, BOUND_CACHE_LATENCY},
    {"memory", "chase 9", SET(256), 0.5, BOUND_MEMORY_LATENCY},
    {"memory", "chase 10", SET(64), 5, BOUND_NONE},
    {"memory", "upload 11, pinned", SET(64), 4, BOUND_LINK},
    {"memory", "download 12, pinned", SET(8), 4, BOUND_LINK},
    {"gemv", "13", "\"shape\":{\"m\":1,\"copies_of_b\":16},\"bytes\":8e6,\"flops\":1e6", 3,
     BOUND_MAIN_MEMORY},
    {"gemv", "14", "\"shape\":{\"m\":1},\"bytes\":8e6,\"flops\":1e6", 2, BOUND_CACHES},
    {"quant", "quantize 15", MOVED(130), 3, BOUND_MAIN_MEMORY},
    {"elementwise", "gelu 16", MOVED(4), 2, BOUND_CACHES},
    {"elementwise", "gelu 17", "\"shape\":{\"count\":8}", 2, BOUND_NONE}, /* of nobody knows what */
    {"compute", "fma 18", COMPUTED("f32"), 1.1, BOUND_ARITHMETIC},
    {"compute", "fma 19", "\"dtype\":\"f32\",\"shape\":{\"intensity\":4},\"flops\":1e9", 5,
     BOUND_NONE},
    {"gemm", "20", COMPUTED("f32"), 1.1, BOUND_ARITHMETIC},
    {"gemm", "21", COMPUTED("s8"), 9, BOUND_ARITHMETIC},
    {"sustained", "sustained fma 22", COMPUTED("f32"), 1.1, BOUND_ARITHMETIC},
    {"sustained", "sustained scan 23", SET(256), 3, BOUND_MAIN_MEMORY},
    {"launch", "kernel", "\"mode\":\"pipelined\"", 2, BOUND_CALLS},
    {"launch", "kernel", "\"mode\":\"waited\"", 7, BOUND_CALLS},
    {"pool", "lifo 24", "\"mode\":\"pipelined\"", 2, BOUND_CALLS},
};

enum {
    CASES = sizeof cases / sizeof *cases
};

typedef struct pair {
    results_file files[2];
    compare_table table;
} pair;

static void read_file(results_file *file, int second) {
    static char text[16384];
    file_error error;
    size_t used = (size_t)snprintf(
        text, sizeof text,
        "{\"schema\":\"tandem-bench/1\",\"device\":{\"name\":\"%s\",\"cache_bytes\":%s},"
        "\"results\":[",
        second ? "Other" : "One", second ? "60e6" : "32e6");
    for (int i = 0; i < CASES; i++) {
        const double seconds = 1e-3 / (second ? cases[i].ratio : 1);
        used += (size_t)snprintf(
            text + used, sizeof text - used,
            "%s{\"suite\":\"%s\",\"case\":\"%s\",\"impl\":\"tandem\",\"status\":\"ok\",\"median_s\""
            ":%.9g,\"raw_s\":[%.9g,%.9g,%.9g,%.9g,%.9g],%s}",
            i == 0 ? "" : ",", cases[i].suite, cases[i].name, seconds, seconds, seconds, seconds,
            seconds, seconds, cases[i].members);
        assert_true(used < sizeof text - 4);
    }
    used += (size_t)snprintf(text + used, sizeof text - used, "]}");
    if (results_read_text("made", text, used, file, &error) != 0)
        fail_msg("%s", error.text);
}

static pair *open_pair(void) {
    pair *const own = calloc(1, sizeof *own);
    assert_non_null(own);
    for (int i = 0; i < 2; i++) {
        read_file(&own->files[i], i);
        assert_int_equal(compare_add_columns(&own->table, &own->files[i]), 0);
    }
    assert_int_equal(compare_match(&own->table, RATIO_MARGIN), 0);
    assert_int_equal(own->table.case_count, CASES);
    return own;
}

static void close_pair(pair *own) {
    compare_release(&own->table);
    for (int i = 0; i < 2; i++)
        results_file_release(&own->files[i]);
    free(own);
}

static void each_case_has_what_bounds_it(void **state) {
    (void)state;
    pair *const own = open_pair();
    for (int i = 0; i < CASES; i++) {
        const compare_case *const item = &own->table.cases[i];
        assert_string_equal(item->row->case_name, cases[i].name);
        if (compare_bound_of(&own->table, item, 1) != cases[i].bound)
            fail_msg("%s has bound %d", cases[i].name, compare_bound_of(&own->table, item, 1));
        if (!(fabs(item->cells[1].ratio.ratio - cases[i].ratio) < 1e-6))
            fail_msg("%s has ratio %g", cases[i].name, item->cells[1].ratio.ratio);
    }
    close_pair(own);
}

static void means_are_of_one_bound(void **state) {
    (void)state;
    static const struct {
        const char *name;
        double ratio;
        size_t cases;
    } expected[] = {
        {"memory (caches), tandem", 4, 2},
        {"memory (main memory), tandem", 3, 2},
        {"memory (latency of caches), tandem", 1.5, 1},
        {"memory (latency of main memory), tandem", 0.5, 1},
        {"memory (to and from the host), tandem", 4, 2},
        {"gemv (main memory), tandem", 3, 1},
        {"gemv (caches), tandem", 2, 1},
        {"quant (main memory), tandem", 3, 1},
        {"elementwise (caches), tandem", 2, 1},
        {"compute (arithmetic, f32), tandem", 1.1, 1},
        {"gemm (arithmetic, f32), tandem", 1.1, 1},
        {"gemm (arithmetic, s8), tandem", 9, 1},
        {"sustained (arithmetic, f32), tandem", 1.1, 1},
        {"sustained (main memory), tandem", 3, 1},
        {"launch (pipelined), tandem", 2, 1},
        {"launch (waited), tandem", 7, 1},
        {"pool, tandem", 2, 1},
    };
    pair *const own = open_pair();
    assert_int_equal(own->table.mean_count, sizeof expected / sizeof *expected);
    for (size_t i = 0; i < own->table.mean_count; i++) {
        const compare_mean *const mean = &own->table.means[i];
        char name[COMPARE_MEAN_NAME];
        compare_mean_name(mean, name, sizeof name);
        assert_string_equal(name, expected[i].name);
        assert_int_equal(mean->cases, expected[i].cases);
        assert_true(fabs(mean->mean.ratio - expected[i].ratio) < 1e-6);
    }
    close_pair(own);
}

static const char *text_member(const cJSON *object, const char *key) {
    return cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(object, key));
}

static void table_page_and_file_tell_the_bounds(void **state) {
    (void)state;
    static const char unbound[] = "6 ratios are in no mean: of sets that a cache serves in part or "
                                  "on one device alone, or of steps from memory to arithmetic";
    pair *const own = open_pair();
    const compare_differences none = {.count = 0};
    const compare_report report = {&own->table, &none, RATIO_MARGIN};
    for (int page = 0; page < 2; page++) {
        char *text = NULL;
        size_t size = 0;
        FILE *const file = open_memstream(&text, &size);
        if (page)
            assert_int_equal(compare_page_write(file, &report), 0);
        else
            compare_print(&report, file);
        assert_int_equal(fclose(file), 0);
        assert_non_null(strstr(text, unbound));
        assert_non_null(strstr(text, page ? "<li>gemm (arithmetic, s8), tandem: B is 9.000x [9.000,"
                                            " 9.000] as fast as A over 1 case: FASTER</li>"
                                          : "gemm (arithmetic, s8), tandem: B is 9.000x [9.000, "
                                            "9.000] as fast as A, geometric mean of 1 case: "));
        assert_non_null(strstr(text, page ? "over 2 cases: " : "mean of 2 cases: "));
        assert_null(strstr(text, "1 cases"));
        free(text);
    }
    cJSON *const root = compare_json(&report);
    const cJSON *const means = cJSON_GetObjectItem(root, "geometric_means");
    assert_string_equal(text_member(cJSON_GetArrayItem(means, 0), "bound"), "caches");
    assert_string_equal(text_member(cJSON_GetArrayItem(means, 11), "dtype"), "s8");
    assert_string_equal(text_member(cJSON_GetArrayItem(means, 15), "mode"), "waited");
    assert_null(text_member(cJSON_GetArrayItem(means, 15), "bound"));
    assert_null(text_member(cJSON_GetArrayItem(means, 0), "dtype"));
    cJSON_Delete(root);
    close_pair(own);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_case_has_what_bounds_it),
        cmocka_unit_test(means_are_of_one_bound),
        cmocka_unit_test(table_page_and_file_tell_the_bounds),
    };
    return cmocka_run_group_tests_name("compare bound", tests, NULL, NULL);
}
