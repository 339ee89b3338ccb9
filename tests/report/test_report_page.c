/*
 * The page and the charts of `tandem report`, from results that are known: valid HTML that loads nothing, every text escaped, points
 * where they belong.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "bench/report/report_page.h"
#include "common/chart.h"
#include "common/html_text.h"
#include "tests/support/bench/html_check.h"
#include "tests/support/bench/report_page_of.h"

enum {
    MAX_TEXT = 1 << 16
};

/* ---- results to make pages of ----------------------------------------------------------------------- */

typedef struct text_maker {
    char text[MAX_TEXT];
    size_t length;
} text_maker;

__attribute__((format(printf, 2, 3))) static void add(text_maker *maker, const char *format, ...) {
    va_list values;
    va_start(values, format);
    maker->length +=
        (size_t)vsnprintf(maker->text + maker->length, MAX_TEXT - maker->length, format, values);
    va_end(values);
    assert_true(maker->length < MAX_TEXT);
}

static void begin(text_maker *maker, const char *device) {
    maker->length = 0;
    add(maker,
        "{\"schema\":\"tandem-report/1\",\"library\":{\"version\":\"0.1.0\",\"commit\":null},"
        "\"created\":\"2026-11-22T00:00:00Z\",\"host\":{\"cpu\":\"A <CPU> & more\"},"
        "\"device\":{\"name\":\"%s\",\"global_bytes\":17179869184},"
        "\"environment\":{\"governor\":null,\"data\":\"random\"},\"results\":[",
        device);
}

/* A row of two samples; `seconds` is both of them. */
static void add_row(text_maker *maker, const char *suite, const char *name, const char *impl,
                    const char *members, double seconds) {
    add(maker,
        "%s{\"suite\":\"%s\",\"case\":\"%s\",\"impl\":\"%s\",\"mode\":\"pipelined\","
        "\"packing\":\"none\",\"samples\":2,\"raw_s\":[%g,%g],\"median_s\":%g,\"min_s\":%g,"
        "\"p5_s\":%g,\"p95_s\":%g,\"verified\":true,\"status\":\"ok\",%s}",
        maker->text[maker->length - 1] == '[' ? "" : ",", suite, name, impl, seconds, seconds,
        seconds, seconds, seconds, seconds, members);
}

static char *make_page(text_maker *maker) {
    add(maker, "]}");
    return report_page_of(maker->text, 0);
}

static text_maker maker;

static void add_limits(void) {
    add_row(&maker, "memory", "sweep read 4096", "tandem",
            "\"dtype\":\"f32\",\"shape\":{\"bytes\":4096},\"bytes\":4096,\"gbs\":40.96,"
            "\"metrics\":{\"level\":1}",
            1e-7);
    add_row(&maker, "memory", "sweep read 1048576", "tandem",
            "\"dtype\":\"f32\",\"shape\":{\"bytes\":1048576},\"bytes\":1048576,\"gbs\":10.48576,"
            "\"metrics\":{\"level\":0}",
            1e-4);
    add_row(&maker, "memory", "read 1048576", "tandem",
            "\"dtype\":\"f32\",\"shape\":{\"bytes\":1048576,\"width\":4},\"bytes\":1048576,"
            "\"gbs\":10.48576,\"metrics\":{\"setting_best\":1}",
            1e-4);
    add_row(&maker, "memory", "read 65536", "tandem",
            "\"dtype\":\"f32\",\"shape\":{\"bytes\":65536},\"bytes\":65536,"
            "\"gbs\":65.536,\"metrics\":{\"setting_default\":1}",
            1e-6);
    add_row(&maker, "compute", "fma f32 16 steps", "tandem",
            "\"dtype\":\"f32\",\"shape\":{\"steps\":16},\"flops\":1e8,\"gflops\":100", 1e-3);
}

/* ---- pages ------------------------------------------------------------------------------------------ */

static void a_report_becomes_a_page(void **state) {
    (void)state;
    begin(&maker, "A device");
    add_limits();
    add_row(&maker, "gemm", "f32 64x64x64 nn", "tandem",
            "\"dtype\":\"f32\",\"shape\":{\"m\":64},\"flops\":524288,\"bytes\":49152,"
            "\"gflops\":52.4288,\"gbs\":4.9152,\"metrics\":{\"of_peak\":0.524}",
            1e-5);
    add_row(&maker, "gemm", "f32 64x64x64 nn", "onednn",
            "\"dtype\":\"f32\",\"shape\":{\"m\":64},\"flops\":524288,\"bytes\":49152,"
            "\"gflops\":26.2144,\"gbs\":2.4576",
            2e-5);
    add_row(&maker, "memory", "scan 65536 bytes", "tandem",
            "\"dtype\":\"s32\",\"shape\":{\"bytes\":65536},\"bytes\":65536,\"gbs\":65.536", 1e-6);
    char *const page = make_page(&maker);
    must_have(page, "<h1>A device</h1>");
    must_have(page, "<dt>memory</dt><dd>16 GiB</dd>");
    must_have(page, "A &lt;CPU&gt; &amp; more");
    must_have(page, "8 rows; the output of 8 was compared");
    must_have(page, "<td>read 1 MiB (best form)</td>");
    must_have(page, "<td>read 64 KiB (default form)</td>");
    must_have(page, "<td class=\"number\">10.49 GB/s</td>");
    must_not_have(page, "<td>scan 64 KiB</td>");
    must_have(page, "<td class=\"number\">52.43 GFLOP/s</td><td class=\"number\">0.524</td>");
    must_have(page, "against onednn");
    must_have(page, "<td class=\"number\">2.00 ×</td>");
    must_have(page, "arithmetic, f32");
    must_have(page, "cache level 1, reading");
    must_not_have(page,
                  "main memory, reading"); /* no set is four times a cache that is not known */
    must_have(page, "<td>governor</td><td>–</td>");
    must_not_have(page, "class=\"line dashed");
    must_not_have(page, "What failed");
    free(page);
}

/* A ratio of two that ran in turn is not the ratio of their medians. */
static void ratios_are_those_measured_in_turn(void **state) {
    (void)state;
    begin(&maker, "A device");
    add_row(&maker, "memory", "triad 1048576", "tandem",
            "\"shape\":{\"bytes\":1048576,\"width\":4},\"bytes\":3145728,\"gbs\":31.45728,"
            "\"metrics\":{\"setting_best\":1}",
            1e-4);
    add_row(&maker, "memory", "triad 1048576", "stream",
            "\"shape\":{\"bytes\":1048576},\"bytes\":3145728,\"gbs\":15.72864,"
            "\"metrics\":{\"tandem_is\":1.37}",
            2e-4);
    add_row(&maker, "memory", "triad 1048576", "tandem",
            "\"shape\":{\"bytes\":1048576,\"width\":1},\"bytes\":3145728,\"gbs\":15.72864,"
            "\"metrics\":{\"setting_default\":1,\"tandem_is\":1.99}",
            2e-4);
    add_row(&maker, "quant", "quantize f32 s8 row 8x8", "tandem",
            "\"shape\":{\"rows\":8},\"bytes\":320,\"gbs\":0.032", 1e-5);
    add_row(&maker, "quant", "quantize f32 s8 row 8x8", "tandem-stream",
            "\"shape\":{\"rows\":8},\"bytes\":320,\"gbs\":16,\"metrics\":{\"tandem_is\":0.0043}",
            2e-8);
    add_row(&maker, "quant", "quantize f32 s8 row 8x8", "tandem-copy",
            "\"shape\":{\"rows\":8},\"bytes\":320,\"gbs\":0.016,\"metrics\":{\"tandem_is\":12.6}",
            2e-5);
    char *const page = make_page(&maker);
    must_have(page, "<td>triad 1 MiB (best form)</td>");
    must_have(page, "<td class=\"number\">1.37 ×</td>");
    must_have(page, "against tandem-copy");
    must_not_have(page, "of the roof"); /* none was measured */
    must_have(page, "<td class=\"number\">13 ×</td>");
    must_have(page, "<td class=\"number\">0.0043 ×</td>");
    must_not_have(page, "2.00 ×");
    free(page);
}

/* Power, traces and sustained cases say what they are about beside their time. */
static void rows_tell_what_they_are_about(void **state) {
    (void)state;
    begin(&maker, "A device");
    add_row(&maker, "sustained", "sustained fma", "tandem",
            "\"shape\":{\"seconds\":4},\"flops\":1e9,\"gflops\":1000,\"metrics\":{"
            "\"sustained_of_burst\":0.8,\"pj_per_flop\":2.5},\"throttle_reasons\":\"power-cap\"",
            1e-3);
    add_row(&maker, "pool", "trace prefill", "tandem",
            "\"shape\":{\"events\":4294},\"metrics\":{\"reserved_over_bound\":1.0141263}", 6e-8);
    add_row(&maker, "memory", "chase 1048576", "tandem",
            "\"shape\":{\"bytes\":1048576},\"metrics\":{\"latency_ns\":3.5,\"noisy\":0.07}", 1e-3);
    char *const page = make_page(&maker);
    must_have(page, "0.800 of the rate at first, clocks held down: power-cap");
    must_have(page, "<td class=\"number\">2.5 pJ an operation</td>");
    must_have(page, "1.014 of the least");
    must_have(page, "<td class=\"number\">3.5 ns a load</td>");
    must_have(page, "<td>noisy</td>");
    must_have(page, "1 is noisy");
    free(page);
}

static void results_without_rows_are_a_page_too(void **state) {
    (void)state;
    begin(&maker, "A device");
    char *const page = make_page(&maker);
    must_have(page, "Speed by working set: no row of this report has a point of it.");
    must_have(page, "0 rows");
    must_not_have(page, "<svg");
    free(page);
}

static void a_known_device_stands_beside_its_sheet(void **state) {
    (void)state;
    begin(&maker, "NVIDIA H100 PCIe");
    add_limits();
    char *const page = make_page(&maker);
    must_have(page, "f32 of the datasheet");
    must_have(page, "class=\"line dashed");
    free(page);
}

/* An H100 PCIe has 2000 GB/s of memory and some 50 TFLOP/s of f32. */
static void what_is_above_the_datasheet_is_flagged(void **state) {
    (void)state;
    begin(&maker, "NVIDIA H100 PCIe");
    add_limits();
    add_row(&maker, "memory", "copy 1073741824", "tandem",
            "\"dtype\":\"f32\",\"shape\":{\"bytes\":1073741824},\"bytes\":4e9,\"gbs\":4000", 1e-3);
    add_row(&maker, "gemm", "f32 64x64x64 nn", "tandem",
            "\"dtype\":\"f32\",\"shape\":{\"m\":64},\"flops\":1e12,\"bytes\":49152,"
            "\"gflops\":1e6,\"gbs\":0.049152,\"note\":\"quick\"",
            1e-3);
    char *const page = make_page(&maker);
    must_have(page, "<td class=\"number bad\">");
    must_have(page, "<td>above the datasheet: 2");
    must_have(page, "<td>quick, above the datasheet: ");
    free(page);
}

static void a_failure_stands_on_the_page(void **state) {
    (void)state;
    begin(&maker, "A device");
    add(&maker, "{\"suite\":\"gemm\",\"case\":\"f32 <1>\",\"impl\":\"tandem\",\"raw_s\":[],"
                "\"shape\":{},\"status\":\"failed\",\"reason\":\"wrong & late\"}");
    char *const page = make_page(&maker);
    must_have(page, "<h2>What failed</h2>");
    must_have(page, "gemm, f32 &lt;1&gt;, tandem: wrong &amp; late");
    must_have(page, "<span class=\"bad\">1 failed.</span>");
    free(page);
}

/* Two suites were cut off, one of them in two places; a peer that is not there is another matter. */
static void what_there_was_no_time_for_stands_on_the_page(void **state) {
    (void)state;
    static const char *const cases[][3] = {
        {"gemm", "f32 <2>", "the suite's time is over, it was not begun"},
        {"gemm", "f32 3", "the suite's time is over, prepare: no answer within 3 s"},
        {"quant", "mask", "the suite's time is over, it was not begun"},
        {"quant", "fake", "no worker program"}};
    begin(&maker, "A device");
    add_row(&maker, "gemm", "f32 1", "tandem",
            "\"dtype\":\"f32\",\"shape\":{},\"flops\":1e6,\"gflops\":1", 1e-3);
    for (size_t i = 0; i < 4; i++)
        add(&maker,
            ",{\"suite\":\"%s\",\"case\":\"%s\",\"impl\":\"tandem\",\"raw_s\":[],"
            "\"shape\":{},\"status\":\"skipped\",\"reason\":\"%s\"}",
            cases[i][0], cases[i][1], cases[i][2]);
    char *const page = make_page(&maker);
    must_have(page, "<h2>What there was no time for</h2>\n<ul>\n"
                    "<li>gemm: 2 of 3 rows, the first of them f32 &lt;2&gt;</li>\n"
                    "<li>quant: 1 of 2 rows, the first of them mask</li>\n</ul>");
    must_not_have(page, "What failed");
    free(page);
}

static void other_peoples_texts_cannot_leave_theirs(void **state) {
    (void)state;
    begin(&maker, "x</title><script>alert(1)</script>\\\" onload=\\\"y");
    add_row(&maker, "gemm", "</td><img>'\\\"&amp;", "tandem",
            "\"dtype\":\"<b>\",\"shape\":{},\"flops\":1e6,\"bytes\":1e3,\"gflops\":1,"
            "\"gbs\":0.001,\"note\":\"noisy <i>\",\"variant\":\"<u>\"",
            1e-3);
    char *const page = make_page(&maker);
    must_have(page, "&lt;script&gt;");
    must_not_have(page, "<b>");
    must_not_have(page, "<u>");
    must_not_have(page, "<img");
    free(page);
}

/* Rows of two devices: the page is of one, and tells of the other. */
static void a_page_is_of_one_device(void **state) {
    static const char text[] =
        "{\"schema\":\"tandem-bench/1\",\"devices\":[{\"name\":\"One\",\"selector\":\"x/y/One\"},"
        "{\"name\":\"gfx2\",\"board_name\":\"Two\",\"selector\":\"x/y/Two\"}],\"results\":["
        "{\"suite\":\"gemm\",\"case\":\"first case\",\"impl\":\"tandem\",\"device\":\"x/y/One\","
        "\"status\":\"failed\",\"reason\":\"no\",\"raw_s\":[]},"
        "{\"suite\":\"gemm\",\"case\":\"second case\",\"impl\":\"tandem\",\"device\":\"x/y/Two\","
        "\"status\":\"failed\",\"reason\":\"no\",\"raw_s\":[]},"
        "{\"suite\":\"gemm\",\"case\":\"third case\",\"impl\":\"tandem\",\"device\":\"x/y/Two\","
        "\"status\":\"failed\",\"reason\":\"no\",\"raw_s\":[]}]}";
    (void)state;
    for (size_t device = 0; device < 2; device++) {
        char *const page = report_page_of(text, device);
        must_have(page, device == 0 ? "<h1>One</h1>" : "<h1>Two</h1>");
        must_have(page, device == 0 ? "1 row; " : "2 rows; ");
        must_have(page, device == 0 ? "not of x/y/Two: " : "not of x/y/One: ");
        assert_true((strstr(page, "first case") != NULL) == (device == 0));
        assert_true((strstr(page, "third case") != NULL) == (device == 1));
        free(page);
    }
}

/* ---- texts and charts ------------------------------------------------------------------------------- */

static char *text_of(void (*write)(FILE *file)) {
    char *text = NULL;
    size_t length = 0;
    FILE *const file = open_memstream(&text, &length);
    assert_non_null(file);
    write(file);
    assert_int_equal(fclose(file), 0);
    return text;
}

static void write_bytes_of_all_kinds(FILE *file) {
    html_text(file, "a<b>&\"'\x01\n\xff\xc3\xa4\xc3");
    html_text(file, NULL);
}

static void bytes_that_are_no_text_are_replaced(void **state) {
    (void)state;
    char *const text = text_of(write_bytes_of_all_kinds);
    assert_string_equal(
        text,
        "a&lt;b&gt;&amp;&quot;&#39;\xef\xbf\xbd \xef\xbf\xbd\xc3\xa4\xef\xbf\xbd\xe2\x80\x93");
    free(text);
}

/* Three decades on both axes: round_out adds a twentieth at each end. */
static void write_known_chart(FILE *file) {
    static const chart_point points[] = {
        {1, 10, NAN, NAN, "first"},
        {1000, 10000, NAN, NAN, "last"},
        {NAN, 5, NAN, NAN, "no place"},
        {5, INFINITY, NAN, NAN, "no height"},
    };
    const chart_series series = {"a & b", CHART_POINTS, 0, points, sizeof points / sizeof *points};
    const chart_plot chart = {
        .title = "T",
        .description = "D",
        .x_label = "x",
        .y_label = "y",
        .series = &series,
        .series_count = 1,
    };
    chart_write(file, &chart);
}

static void points_stand_where_they_belong(void **state) {
    (void)state;
    char *const text = text_of(write_known_chart);
    html_check_elements(text);
    /* x: 52 + 396·(0.15/3.3), 52 + 396·(3.15/3.3); y: 276 − 254·(0.15/3.3), 276 − 254·(3.15/3.3) */
    must_have(text, "d=\"M70.0 264.5m");
    must_have(text, "d=\"M430.0 33.5m");
    must_have(text, "<title>first</title>");
    must_have(text, "a &amp; b");
    must_not_have(text, "no place");
    must_not_have(text, "no height");
    must_not_have(text, "nan");
    free(text);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_report_becomes_a_page),
        cmocka_unit_test(a_page_is_of_one_device),
        cmocka_unit_test(ratios_are_those_measured_in_turn),
        cmocka_unit_test(rows_tell_what_they_are_about),
        cmocka_unit_test(results_without_rows_are_a_page_too),
        cmocka_unit_test(a_known_device_stands_beside_its_sheet),
        cmocka_unit_test(what_is_above_the_datasheet_is_flagged),
        cmocka_unit_test(a_failure_stands_on_the_page),
        cmocka_unit_test(what_there_was_no_time_for_stands_on_the_page),
        cmocka_unit_test(other_peoples_texts_cannot_leave_theirs),
        cmocka_unit_test(bytes_that_are_no_text_are_replaced),
        cmocka_unit_test(points_stand_where_they_belong),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
