/* Rooflines of report and compare: a chart for each precision that some device measured, each device's own limits in it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "bench/analysis/main_memory.h"
#include "bench/report/rooflines.h"
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
    report_device devices[2];
    FILE *const file = fmemopen(page, sizeof page, "w");
    assert_non_null(file);
    for (size_t c = 0; c < count; c++)
        devices[c] = (report_device){.label = count == 1 ? 0 : (char)('A' + c), .file = &files[c]};
    devices[count - 1].sheet = sheet_of_last;
    fputs(before, file);
    assert_int_equal(rooflines_write(file, devices, count), 0);
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
    const char *const f16 = strstr(page, "<h2>Roofline of f16");
    const char *const integers = strstr(page, "<h2>Roofline of s8");
    assert_non_null(f16);
    assert_non_null(integers);
    must_have(page, "Roofline of f32");
    must_not_have(page, "Roofline of bf16");
    must_have(integers, "A, s8 measured");
    must_have(integers, "an integer product");
    must_not_have(integers, "an f32 product");
    must_have(integers, "GOP/s");
    must_not_have(f16, "A, f16 measured");
}

/* An RTX 4090 promises f32 and s8. */
static void datasheets_are_dashed(void **state) {
    results_file files[2];
    (void)state;
    read_rows("One", READ "," FMA, &files[0]);
    read_rows("NVIDIA GeForce RTX 4090", READ "," FMA, &files[1]);
    const char *const page = draw(files, 2, datasheet_find("NVIDIA GeForce RTX 4090"));
    must_have(page, "B, f32 of the datasheet");
    must_not_have(page, "A, f32 of the datasheet");
    must_not_have(page, "<h2>Roofline of s8");
}

/* Each slope and each level line stands where its rates meet: 200 GFLOP/s over 67.1 GB/s. */
static void a_device_alone_has_slopes_of_its_caches(void **state) {
    static const char swept[] = ROW("memory", "sweep read 4096", "f32", "\"bytes\":4096",
                                    "\"bytes\":4096e3", "\"gbs\":4.096,\"metrics\":{\"level\":2}");
    char rows[4096];
    results_file file;
    (void)state;
    snprintf(rows, sizeof rows, "%s,%s,%s", READ, FMA, swept);
    read_rows("One", rows, &file);
    const char *const page = draw(&file, 1, NULL);
    must_have(page, "cache level 2, reading");
    must_not_have(page, "cache level 1, reading");
    must_have(page, "2.98");  /* the ridge */
    must_have(page, "48.83"); /* that of the cache */
}

#define SET(name, mebibytes)                                                                       \
    ROW("memory", name " " #mebibytes "M", "f32", "\"bytes\":" #mebibytes "e6",                    \
        "\"bytes\":" #mebibytes "e6", "\"gbs\":" #mebibytes)

static void memory_roof_is(double cache_bytes, const char *rows, double gbs) {
    results_file file;
    read_rows_of("One", cache_bytes, rows, &file);
    const results_row *const row = main_memory_fastest(&file, 0, NULL);
    const double roof = row == NULL ? 0 : row->gbs;
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
    memory_roof_is(32e6, rows, 800); /* four times the cache and more: the rest is smaller */
    memory_roof_is(22e6, rows, 900);
    memory_roof_is(50e6, rows, 0); /* nothing is as large */
    memory_roof_is(0, rows, 0);    /* the cache is not known */
    memory_roof_is(0, SET("write", 128), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_precision_that_was_measured_has_its_chart),
        cmocka_unit_test(datasheets_are_dashed),
        cmocka_unit_test(a_device_alone_has_slopes_of_its_caches),
        cmocka_unit_test(a_cache_is_no_main_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
