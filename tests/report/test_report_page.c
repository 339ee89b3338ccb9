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
    must_have(page, "<td>read 1 MiB</td><td>best</td><td class=\"number\">10.49 GB/s</td>");
    must_have(page, "Best is the fastest of all forms of a kernel");
    /* What is not of the largest size, and readings as long as weights, are folded away. */
    const char *const folded = strstr(page, "<details><summary>Smaller sizes");
    assert_non_null(folded);
    must_have(folded, "<td>read 64 KiB</td><td>default</td>");
    must_have(folded, "<td>scan 64 KiB</td>");
    must_not_have(folded, "<td>read 1 MiB</td>");
    must_have(page, "<td class=\"number\">52.43 GFLOP/s</td><td class=\"number\">0.524</td>");
    must_have(page, "against onednn");
    must_have(page, "<td class=\"number\">2.00 ×</td>");
    must_have(page, "arithmetic, f32");
    must_have(page, "cache level 1, reading");
    /* What a cache gave is no speed of memory: a sixteenth of 10.49, not of 65.54. */
    must_have(page, "0.6554");
    must_not_have(page, "4.096<");
    must_have(page, "<td>governor</td><td>–</td>");
    must_not_have(page, "datasheet");
    must_not_have(page, "dashed s");
    must_not_have(page, "What failed");
    free(page);
}

static void elementwise_operations_have_a_table(void **state) {
    (void)state;
    begin(&maker, "A device");
    add_row(&maker, "elementwise", "gelu f32 1048576", "tandem",
            "\"dtype\":\"f32\",\"shape\":{\"count\":1048576},\"bytes\":8388608,\"gbs\":8.388608",
            1e-3);
    char *const page = make_page(&maker);
    must_have(page, "<h2>Elementwise operations</h2>");
    must_have(page, "gelu f32 1048576");
    must_have(page, "8.389 GB/s");
    free(page);
}

/* A ratio of two that ran in turn, the median of several visits, is not the ratio of their medians. */
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
    must_have(page, "<td>triad 1 MiB</td><td>best</td><td class=\"number\">31.46 GB/s</td>"
                    "<td class=\"number\">1.37 ×<div>stream</div></td>");
    must_have(page, "<td>default</td><td class=\"number\">15.73 GB/s</td>"
                    "<td class=\"number\">–</td>");
    must_have(page, "against tandem-copy");
    must_have(page, "Against another program");
    must_not_have(page, "of the roof"); /* none was measured */
    must_have(page, "<td class=\"number\">13 ×</td>");
    must_have(page, "<td class=\"number\">0.0043 ×</td>");
    must_not_have(page, "2.00 ×");
    must_not_have(page, "1.99");
    free(page);
}

/* What a device keeps up, and why not more; and what moved between visits. */
static void burst_and_sustained_stand_on_the_page(void **state) {
    (void)state;
    begin(&maker, "A device");
    add_row(&maker, "sustained", "sustained fma", "tandem",
            "\"shape\":{\"seconds\":4},\"flops\":1e9,\"gflops\":1000,\"metrics\":{\"burst_s\":1e-3,"
            "\"sustained_s\":1.25e-3,\"sustained_of_burst\":0.8,\"apart\":0.04},"
            "\"throttle_reasons\":\"power-cap\"",
            1e-3);
    add_row(&maker, "sustained", "sustained scan", "tandem",
            "\"shape\":{\"seconds\":4},\"bytes\":1e9,\"gbs\":1000,\"metrics\":{\"burst_s\":1e-3,"
            "\"sustained_s\":1e-3,\"sustained_of_burst\":1,\"apart\":0.01},"
            "\"throttle_reasons\":null",
            1e-3);
    add_row(&maker, "sustained", "sustained nothing", "tandem",
            "\"shape\":{\"seconds\":4},\"bytes\":1e9,\"gbs\":1000,\"metrics\":{\"burst_s\":0}",
            1e-3);
    char *const page = make_page(&maker);
    must_have(page,
              "<td>sustained nothing</td><td class=\"number\">4</td><td class=\"number\">–</td><td "
              "class=\"number\">–</td><td class=\"number\">–</td>");
    must_have(page, "<h2>Burst and sustained</h2>");
    must_have(page,
              "<td class=\"number\">1000 GFLOP/s</td><td class=\"number\">800 GFLOP/s</td><td "
              "class=\"number\">0.8</td><td>power-cap</td>");
    must_have(page, "<td class=\"number\">1000 GB/s</td><td class=\"number\">1000 GB/s</td>");
    must_have(page, "<td>not at all, or not told</td>");
    must_have(page, "1 moved by more than 3 %.");
    free(page);
}

static void results_without_rows_are_a_page_too(void **state) {
    (void)state;
    begin(&maker, "A device");
    char *const page = make_page(&maker);
    must_have(page, "Speed by working set: no row of this report has a point of it.");
    must_have(page, "0 rows");
    must_not_have(page, "<svg");
    must_not_have(page, "Best is the fastest");
    must_not_have(page, "Against another");
    free(page);
}

static void a_known_device_stands_beside_its_sheet(void **state) {
    (void)state;
    begin(&maker, "NVIDIA H100 PCIe");
    add_limits();
    char *const page = make_page(&maker);
    must_have(page, "datasheet, memory");
    must_have(page, "datasheet, f32");
    must_have(page, "class=\"line dashed");
    free(page);
}

/* Beside a sheet, too, a ridge is where what was measured meets; a precision has one colour, the slopes others. */
static void ridges_are_measured_and_colours_are_precisions(void **state) {
    (void)state;
    begin(&maker, "NVIDIA H100 PCIe");
    add_limits();
    add_row(&maker, "memory", "read 104857600", "tandem",
            "\"dtype\":\"f32\",\"shape\":{\"bytes\":104857600},\"bytes\":104857600,"
            "\"gbs\":10.48576",
            1e-2);
    add_row(&maker, "compute", "fma bf16 16 steps", "tandem",
            "\"dtype\":\"bf16\",\"shape\":{\"steps\":16},\"flops\":2e8,\"gflops\":200", 1e-3);
    add_row(&maker, "compute", "dot s8 16 steps", "tandem",
            "\"dtype\":\"s8\",\"shape\":{\"steps\":16},\"flops\":4e8,\"gflops\":400", 1e-3);
    add_row(&maker, "gemm", "bf16 64x64x64 nn", "tandem",
            "\"dtype\":\"bf16\",\"shape\":{\"m\":64},\"flops\":524288,\"bytes\":24576,"
            "\"gflops\":52.4288,\"gbs\":2.4576",
            1e-5);
    add_row(&maker, "gemm", "w8a8 64x64x64 nn", "tandem",
            "\"dtype\":\"w8a8\",\"shape\":{\"m\":64},\"flops\":524288,\"bytes\":24576,"
            "\"gflops\":52.4288,\"gbs\":2.4576",
            1e-5);
    char *const page = make_page(&maker);
    must_have(page, "<td>ridge, f32</td><td class=\"number\">9.537</td>");
    must_have(page, "<td>ridge, bf16</td><td class=\"number\">19.07</td>");
    must_have(page, "<td>ridge, s8</td><td class=\"number\">38.15</td>");
    must_have(page, "class=\"line solid s0\""); /* f32 */
    must_have(page, "class=\"line solid s2\""); /* bf16 */
    must_have(page, "class=\"point s2\"");
    must_have(page, "class=\"line solid s8\""); /* memory */
    must_not_have(page, "class=\"point s8\"");
    const char *const integers = strstr(page, "<h3>Integers</h3>");
    assert_non_null(integers);
    must_have(integers, "w8a8 64x64x64 nn</title>");
    free(page);
}

static void one_row_is_no_plural(void **state) {
    (void)state;
    begin(&maker, "A device");
    add_row(&maker, "compute", "fma f32 16 steps", "tandem",
            "\"dtype\":\"f32\",\"shape\":{\"steps\":16},\"flops\":1e8,\"gflops\":100,\"note\":"
            "\"noisy\"",
            1e-3);
    char *const page = make_page(&maker);
    must_have(page, "1 row; the output of 1 was compared with an oracle and is right; 1 is noisy, "
                    "0 were skipped.");
    free(page);
}

static void add_set(const char *name, int megabytes, double gbs, const char *metrics) {
    char members[256];
    char words[64];
    snprintf(words, sizeof words, "%s %d000000", name, megabytes);
    snprintf(
        members, sizeof members,
        "\"dtype\":\"f32\",\"shape\":{\"bytes\":%de6},\"bytes\":%ge6,\"gbs\":%g,\"metrics\":{%s}",
        megabytes, gbs, gbs, metrics);
    add_row(&maker, "memory", words, "tandem", members, 1e-3);
}

/* The cache of an H100 PCIe has 50 MB: sets of 200 and more are main memory's, whatever reads them and however large the largest is. */
static void the_slope_is_of_sets_that_no_cache_serves(void **state) {
    (void)state;
    begin(&maker, "NVIDIA H100 PCIe");
    add_set("read", 190, 90, "");
    add_set("read", 260, 40, "");
    add_set("scan", 210, 50, "");
    add_set("sweep read", 800, 45, "\"level\":0");
    add_set("sweep read", 850, 95, "\"level\":2");
    add_row(&maker, "compute", "fma f32 16 steps", "tandem",
            "\"dtype\":\"f32\",\"shape\":{\"steps\":16},\"flops\":1e8,\"gflops\":100", 1e-3);
    char *const page = make_page(&maker);
    must_have(page, "<td>ridge, f32</td><td class=\"number\">2</td>");
    must_have(page, "cache level 2, reading");
    free(page);
}

static void add_rung(const char *dtype, double of_peak) {
    char members[256];
    snprintf(members, sizeof members,
             "\"dtype\":\"%s\",\"shape\":{\"intensity\":64},\"flops\":1e8,\"gflops\":100,"
             "\"metrics\":{\"of_peak\":%g}",
             dtype, of_peak);
    add_row(&maker, "compute", "a step of the ladder", "tandem", members, 1e-3);
}

/* The ladder reaches too little of bf16, enough of f32; an H100 PCIe's sheet promises more of f32 than that. */
static void arithmetic_that_is_not_reached_is_a_lower_bound(void **state) {
    (void)state;
    for (int known = 0; known < 2; known++) {
        begin(&maker, known ? "NVIDIA H100 PCIe" : "A device");
        add_limits();
        add_rung("bf16", 0.5);
        add_rung("bf16", 0.94);
        add_rung("f32", 0.5);
        add_rung("f32", 0.96);
        char *const page = make_page(&maker);
        must_have(page, "arithmetic, bf16 (lower bound)");
        if (known)
            must_have(page, "arithmetic, f32 (lower bound)");
        else
            must_not_have(page, "arithmetic, f32 (lower bound)");
        free(page);
    }
}

/* Paper unfolds no table and shows no title of a point: numbers stand beside points, and what they mean below. */
static void points_have_names_in_print(void **state) {
    (void)state;
    begin(&maker, "A device");
    add_limits();
    add_row(&maker, "memory", "triad 1048576", "tandem",
            "\"dtype\":\"f32\",\"shape\":{\"bytes\":1048576},\"bytes\":3145728,"
            "\"gbs\":31.45728,\"metrics\":{\"setting_best\":1}",
            1e-4);
    add_row(&maker, "memory", "triad 65536", "tandem",
            "\"dtype\":\"f32\",\"shape\":{\"bytes\":65536},\"bytes\":196608,"
            "\"gbs\":1.96608,\"metrics\":{\"setting_best\":1}",
            1e-4);
    add_row(&maker, "gemm", "f32 64x64x64 nn", "tandem",
            "\"dtype\":\"f32\",\"shape\":{\"m\":64},\"flops\":524288,\"bytes\":49152,"
            "\"gflops\":52.4288,\"gbs\":4.9152",
            1e-5);
    add_row(&maker, "quant", "quantize f32 s8 tensor 64x1024", "tandem",
            "\"dtype\":\"f32s8\",\"shape\":{\"rows\":64,\"columns\":1024},\"bytes\":327680,"
            "\"gbs\":32.768",
            1e-5);
    char *const page = make_page(&maker);
    const char *const chart = strstr(page, "<h3>Floating point</h3>");
    assert_non_null(chart);
    must_have(chart, "<p><strong>f32</strong> 1: f32 64x64x64 nn, 52.43</p>");
    must_have(chart, "<p><strong>loops of f32</strong> 2: triad 1048576, 5.243</p>");
    must_have(chart,
              "<p><strong>quantization</strong> 3: quantize f32 s8 tensor 64x1024, 13.11</p>");
    must_have(chart, "<p>ridge, f32: 9.537</p>");
    must_have(chart, ">3</text>");
    must_have(chart, "<td>3: quantize f32 s8 tensor 64x1024</td>");
    must_not_have(chart, "triad 65536,");
    must_have(page, "@media print{.key{display:block");
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
    must_have(page, "<span class=\"bad\">2 are above the device&#39;s datasheet");
    must_have(page, "<td>above the datasheet: 2");
    must_have(page, "<td>quick, above the datasheet: ");
    free(page);
}

static void a_trace_shows_what_it_reserved(void **state) {
    (void)state;
    begin(&maker, "A device");
    add_row(&maker, "pool", "lifo 100", "tandem", "\"shape\":{\"live\":100}", 6e-8);
    add_row(&maker, "pool", "trace prefill", "tandem",
            "\"shape\":{\"events\":4294},\"metrics\":{\"peak_reserved\":2418278400,"
            "\"lower_bound\":2384592896,\"reserved_over_bound\":1.0141263}",
            6e-8);
    add_row(&maker, "pool", "trace log", "tandem",
            "\"shape\":{\"events\":1},\"metrics\":{\"peak_reserved\":2418278400,"
            "\"lower_bound\":null,\"reserved_over_bound\":1.5}",
            6e-8);
    char *const page = make_page(&maker);
    must_have(page, "<td>trace prefill</td><td class=\"number\">2.252 GiB</td><td "
                    "class=\"number\">2.221 GiB</td><td class=\"number\">1.014</td><td "
                    "class=\"number\">60 ns</td>");
    must_have(page, "<td>trace log</td><td class=\"number\">2.252 GiB</td><td "
                    "class=\"number\">–</td><td class=\"number\">1.500</td>");
    must_not_have(page, "<td>trace prefill</td><td class=\"number\">60 ns</td>");
    must_have(page, "<td>lifo 100</td><td class=\"number\">60 ns</td>");
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
        cmocka_unit_test(elementwise_operations_have_a_table),
        cmocka_unit_test(ratios_are_those_measured_in_turn),
        cmocka_unit_test(burst_and_sustained_stand_on_the_page),
        cmocka_unit_test(results_without_rows_are_a_page_too),
        cmocka_unit_test(a_known_device_stands_beside_its_sheet),
        cmocka_unit_test(ridges_are_measured_and_colours_are_precisions),
        cmocka_unit_test(one_row_is_no_plural),
        cmocka_unit_test(the_slope_is_of_sets_that_no_cache_serves),
        cmocka_unit_test(arithmetic_that_is_not_reached_is_a_lower_bound),
        cmocka_unit_test(points_have_names_in_print),
        cmocka_unit_test(what_is_above_the_datasheet_is_flagged),
        cmocka_unit_test(a_trace_shows_what_it_reserved),
        cmocka_unit_test(a_failure_stands_on_the_page),
        cmocka_unit_test(what_there_was_no_time_for_stands_on_the_page),
        cmocka_unit_test(other_peoples_texts_cannot_leave_theirs),
        cmocka_unit_test(bytes_that_are_no_text_are_replaced),
        cmocka_unit_test(points_stand_where_they_belong),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
