/* Rooflines of `tandem compare`: a chart for each precision that some device measured, each device's own limits in it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "bench/compare/compare_rooflines.h"
#include "tests/support/bench/html_check.h"

#define ROW(suite, name, dtype, shape, work, rate)                                                 \
    "{\"suite\":\"" suite "\",\"case\":\"" name                                                    \
    "\",\"impl\":\"tandem\",\"mode\":\"pipelined\",\"packing\":\"none\",\"samples\":2,\"raw_s\":"  \
    "[1e-3,1e-3],\"median_s\":1e-3,\"min_s\":1e-3,\"p5_s\":1e-3,\"p95_s\":1e-3,\"verified\":true," \
    "\"status\":\"ok\",\"dtype\":\"" dtype "\",\"shape\":{" shape "}," work "," rate "}"

#define READ                                                                                       \
    ROW("memory", "read 268435456", "f32", "\"bytes\":268435456", "\"bytes\":67108864",            \
        "\"gbs\":67.108864")
#define FMA ROW("compute", "fma f32", "f32", "\"steps\":16", "\"flops\":2e8", "\"gflops\":200")
#define DOT ROW("compute", "dot s8", "s8", "\"steps\":16", "\"flops\":8e8", "\"gflops\":800")
#define PRODUCT(name, dtype)                                                                       \
    ROW("gemm", name, dtype, "\"m\":64", "\"flops\":1e8,\"bytes\":1e6", "\"gflops\":100,\"gbs\":1")

static void read_rows_of(const char *device, double cache_bytes, const char *rows,
                         results_file *file) {
    char text[8192];
    file_error error;
    const int length = snprintf(
        text, sizeof text,
        "{\"schema\":\"tandem-report/1\",\"library\":{},\"created\":null,\"host\":{},\"device\":"
        "{\"name\":\"%s\",\"cache_bytes\":%.0f},\"environment\":{},\"results\":[%s]}",
        device, cache_bytes, rows);
    assert_in_range(length, 1, sizeof text - 1);
    if (results_read_text("test.json", text, (size_t)length, file, &error) != 0)
        fail_msg("%s", error.text);
}

static void read_rows(const char *device, const char *rows, results_file *file) {
    read_rows_of(device, 1048576, rows, file);
}

/* The charts of the columns, within a page, until the next one. */
static const char *draw(results_file *files, size_t count, const datasheet *sheet_of_last) {
    static const char before[] =
        "<!DOCTYPE html>\n<html lang=\"en\"><head><title>x</title></head><body>\n";
    static char page[1 << 18];
    compare_table table = {.column_count = count};
    FILE *const file = fmemopen(page, sizeof page, "w");
    assert_non_null(file);
    for (size_t c = 0; c < count; c++)
        table.columns[c] = (compare_column){.label = (char)('A' + c), .file = &files[c]};
    table.columns[count - 1].sheet = sheet_of_last;
    fputs(before, file);
    assert_int_equal(compare_rooflines_write(file, &table), 0);
    fputs("</body></html>\n", file);
    assert_int_equal(fclose(file), 0);
    html_check_page(page);
    for (size_t c = 0; c < count; c++)
        results_file_release(&files[c]);
    return page;
}

static void each_precision_that_was_measured_has_its_chart(void **state) {
    results_file files[2];
    (void)state;
    read_rows("One", READ "," FMA "," DOT "," PRODUCT("an f32 product", "f32"), &files[0]);
    read_rows("Other",
              READ "," PRODUCT("an integer product", "u8s8") "," PRODUCT("an f16 product", "f16"),
              &files[1]);
    const char *const page = draw(files, 2, NULL);
    const char *const f16 = strstr(page, "<h2>Rooflines of f16");
    const char *const integers = strstr(page, "<h2>Rooflines of s8");
    assert_non_null(f16);
    assert_non_null(integers);
    must_have(page, "Rooflines of f32");
    must_not_have(page, "Rooflines of bf16");
    must_not_have(page, "shares of the datasheets");
    must_have(integers, "A, s8 measured");
    must_have(integers, "an integer product");
    must_not_have(integers, "an f32 product");
    must_have(integers, "GOP/s");
    must_not_have(f16, "A, f16 measured");
}

/* An RTX 4090 promises f32 and s8; the device without a sheet has no share of one. */
static void shares_are_of_devices_with_a_sheet(void **state) {
    results_file files[2];
    (void)state;
    read_rows("One", READ "," FMA, &files[0]);
    read_rows("NVIDIA GeForce RTX 4090", READ "," FMA, &files[1]);
    const char *const page = draw(files, 2, datasheet_find("NVIDIA GeForce RTX 4090"));
    const char *const shares = strstr(page, "Rooflines of f32, as shares of the datasheets");
    assert_non_null(shares);
    must_have(shares, "B, f32 measured");
    must_have(shares, "B, f32 of the datasheet");
    must_not_have(shares, "A, f32 measured");
    must_not_have(page, "<h2>Rooflines of s8");
}

#define SET(name, mebibytes)                                                                       \
    ROW("memory", name " " #mebibytes "M", "f32", "\"bytes\":" #mebibytes "e6",                    \
        "\"bytes\":" #mebibytes "e6", "\"gbs\":" #mebibytes)

static void memory_roof_is(double cache_bytes, const char *rows, double gbs) {
    results_file file;
    read_rows_of("One", cache_bytes, rows, &file);
    const compare_column column = {.label = 'A', .file = &file};
    const double roof = compare_memory_speed(&column, NULL);
    results_file_release(&file);
    if (roof != gbs)
        fail_msg("%g GB/s for %g of %s", roof, gbs, rows);
}

/* The smaller a set, the faster it is read. */
static void a_cache_is_no_main_memory(void **state) {
    static const char sweep[] = ROW("memory", "sweep read 90M", "f32", "\"bytes\":90e6",
                                    "\"bytes\":900e6", "\"gbs\":900,\"metrics\":{\"level\":0}");
    static const char cached[] = ROW("memory", "sweep read 160M", "f32", "\"bytes\":160e6",
                                     "\"bytes\":800e6", "\"gbs\":800,\"metrics\":{\"level\":3}");
    static const char fast[] =
        ROW("memory", "read 60M", "f32", "\"bytes\":60e6", "\"bytes\":2000e6", "\"gbs\":2000");
    char rows[4096];
    (void)state;
    snprintf(rows, sizeof rows, "%s,%s,%s,%s,%s", sweep, cached, fast, SET("read", 128),
             SET("scan", 120));
    memory_roof_is(32e6, rows, 128); /* twice the cache is not enough */
    memory_roof_is(22e6, rows, 900); /* here it is four times as much */
    memory_roof_is(50e6, rows, 128); /* nothing is as large: twice */
    memory_roof_is(200e6, rows, 0);  /* all of it may have come from the cache */
    memory_roof_is(0, rows, 900);    /* the cache is not known: not 60 MB, less than half of 128 */
    memory_roof_is(0, SET("write", 128), 0);
}

/* Main memory is another one there: a virtual machine's host moved the processors. */
static void rows_of_processors_elsewhere_are_no_roof(void **state) {
#define PLACED(name, gbs, handover)                                                                \
    ROW("memory", name, "f32", "\"bytes\":128e6", "\"bytes\":" gbs "e6",                           \
        "\"gbs\":" gbs ",\"metrics\":{\"handover_ns\":" handover ",\"work_ns\":8000}")
    (void)state;
    memory_roof_is(32e6,
                   PLACED("read 1", "50", "120") "," PLACED("scan 2", "55", "121") "," PLACED(
                       "scan 3", "85", "390"),
                   55);
    /* Nothing else was read. */
    memory_roof_is(32e6,
                   PLACED("copy 1", "40", "120") "," PLACED("copy 2", "40", "120") "," PLACED(
                       "read 1", "85", "390"),
                   85);
#undef PLACED
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_precision_that_was_measured_has_its_chart),
        cmocka_unit_test(shares_are_of_devices_with_a_sheet),
        cmocka_unit_test(a_cache_is_no_main_memory),
        cmocka_unit_test(rows_of_processors_elsewhere_are_no_roof),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
