/*
 * Tests the page and the charts of `tandem report` on known results. The HTML must be valid and
 * load nothing, texts must be escaped, and points placed correctly. Cache results must not count as
 * main memory.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cjson/cJSON.h>

#include "bench/analysis/main_memory.h"
#include "bench/report/report_parts.h"
#include "common/chart.h"
#include "common/html_text.h"
#include "tests/support/bench/html_check.h"
#include "tests/support/test_case.h"

enum {
    MAX_TEXT = 1 << 16
};

/* ---- results for the pages ---- */

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

static const char *cache_text = "null";

static void begin(text_maker *maker, const char *device) {
    maker->length = 0;
    add(maker,
        "{\"schema\":\"tandem-report/1\",\"library\":{\"version\":\"0.1.0\",\"commit\":null},"
        "\"created\":\"2026-11-22T00:00:00Z\",\"host\":{\"cpu\":\"A <CPU> & more\"},"
        "\"device\":{\"name\":\"%s\",\"global_bytes\":17179869184,\"cache_bytes\":%s},"
        "\"environment\":{\"governor\":null,\"data\":\"random\"},\"results\":[",
        device, cache_text);
}

/* Adds a row of two samples, both equal to `seconds`. */
static void add_row(text_maker *maker, const char *suite, const char *name, const char *impl,
                    const char *members, double seconds) {
    add(maker,
        "%s{\"suite\":\"%s\",\"case\":\"%s\",\"impl\":\"%s\",\"mode\":\"pipelined\","
        "\"packing\":\"none\",\"samples\":2,\"raw_s\":[%g,%g],\"median_s\":%g,\"min_s\":%g,"
        "\"p5_s\":%g,\"p95_s\":%g,\"verified\":true,\"status\":\"ok\",%s}",
        maker->text[maker->length - 1] == '[' ? "" : ",", suite, name, impl, seconds, seconds,
        seconds, seconds, seconds, seconds, members);
}

/* Returns the page of one device of the file. The caller frees it. */
static char *page_of(const char *text, size_t device) {
    results_file results;
    file_error error;
    char *page = NULL;
    size_t length = 0;
    if (results_read_text("test.json", text, strlen(text), &results, &error) != 0)
        fail_msg("%s", error.text);
    const report_device shown = {
        .file = &results, .device = device, .sheet = main_memory_sheet(&results, device)};
    FILE *const file = open_memstream(&page, &length);
    assert_non_null(file);
    assert_int_equal(report_page_write(file, &shown), 0);
    assert_int_equal(fclose(file), 0);
    results_file_release(&results);
    html_check_page(page);
    return page;
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
            "\"gbs\":10.48576",
            1e-4);
    add_row(&maker, "memory", "read 65536", "tandem",
            "\"dtype\":\"f32\",\"shape\":{\"bytes\":65536},\"bytes\":65536,"
            "\"gbs\":65.536",
            1e-6);
    add_row(&maker, "compute", "fma f32 16 steps", "tandem",
            "\"dtype\":\"f32\",\"shape\":{\"steps\":16},\"flops\":1e8,\"gflops\":100", 1e-3);
}

/* ---- pages ---- */

/* Checks that the page contains all texts up to NULL, except those prefixed with '!', which it must
 * not contain. */
static void check_page(const char *const *texts) {
    add(&maker, "]}");
    char *const page = page_of(maker.text, 0);
    for (; *texts != NULL; texts++) {
        if (**texts == '!')
            must_not_have(page, *texts + 1);
        else
            must_have(page, *texts);
    }
    free(page);
}

TEST(a_report_becomes_a_page) {
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
    static const char *const texts[] = {
        "<h1>A device</h1>",
        "<td>global_bytes</td><td>16 GiB</td>",
        "A &lt;CPU&gt; &amp; more",
        "Rows: 8, verified: 8, noisy: 0, skipped for lack of time: 0, failed: 0.",
        "<td>read 1 MiB</td>",
        "<td>read 64 KiB</td>",
        "<td class=\"number\">10.5 GB/s</td>",
        "<td class=\"number\">52.4 GFLOP/s</td><td class=\"number\">2.00x</td>",
        "<th class=\"number\">vs. onednn</th>",
        "arithmetic, f32",
        "<td>governor</td><td>–</td>",
        "!<td>scan 64 KiB</td>",
        "!main memory, reading", /* the cache size is unknown, so every set may be in the cache */
        "!class=\"line dashed",
        NULL};
    check_page(texts);
}

/* The page shows the ratio of interleaved runs, not the ratio of their medians. */
TEST(ratios_are_those_measured_in_turn) {
    static const char *const texts[] = {"<td class=\"number\">1.37x</td>", "vs. tandem-stream",
                                        "<td class=\"number\">4.30e-03x</td>", NULL};
    begin(&maker, "A device");
    add_row(&maker, "memory", "triad 1048576", "tandem",
            "\"shape\":{\"bytes\":1048576,\"width\":4},\"bytes\":3145728,\"gbs\":31.45728", 1e-4);
    add_row(&maker, "memory", "triad 1048576", "stream",
            "\"shape\":{\"bytes\":1048576},\"bytes\":3145728,\"gbs\":15.72864,"
            "\"metrics\":{\"tandem_is\":1.37}",
            2e-4);
    add_row(&maker, "quant", "quantize f32 s8 row 8x8", "tandem",
            "\"shape\":{\"rows\":8},\"bytes\":320,\"gbs\":0.032", 1e-5);
    add_row(&maker, "quant", "quantize f32 s8 row 8x8", "tandem-stream",
            "\"shape\":{\"rows\":8},\"bytes\":320,\"gbs\":16,\"metrics\":{\"tandem_is\":0.0043}",
            2e-8);
    check_page(texts);
}

/* Traces show their figures next to their time. */
TEST(rows_have_their_own_figures) {
    static const char *const texts[] = {
        "1.014 times the lower bound", "<td class=\"number\">3.50 ns</td>", "<td>noisy</td>", NULL};
    begin(&maker, "A device");
    add_row(&maker, "pool", "trace prefill", "tandem",
            "\"shape\":{\"events\":4294},\"metrics\":{\"reserved_over_bound\":1.0141263}", 6e-8);
    add_row(&maker, "memory", "chase 1048576", "tandem",
            "\"shape\":{\"bytes\":1048576},\"metrics\":{\"latency_ns\":3.5,\"noisy\":0.07}", 1e-3);
    check_page(texts);
}

/* The datasheet of an H100 PCIe has 2000 GB/s of memory and about 50 TFLOP/s of f32. */
TEST(a_known_device_stands_beside_its_sheet) {
    static const char *const texts[] = {
        "f32 datasheet",
        "class=\"line dashed",
        "%!)</td>",
        "<td>above the datasheet peak</td>",
        "<td>above the datasheet peak, quick</td>",
        "Percentages are of the datasheet: H100 PCIe, HBM2e, 2000 GB/s (",
        NULL};
    begin(&maker, "NVIDIA H100 PCIe");
    add_limits();
    add_row(&maker, "memory", "copy 1073741824", "tandem",
            "\"dtype\":\"f32\",\"shape\":{\"bytes\":1073741824},\"bytes\":4e9,\"gbs\":4000", 1e-3);
    add_row(&maker, "gemm", "f32 64x64x64 nn", "tandem",
            "\"dtype\":\"f32\",\"shape\":{\"m\":64},\"flops\":1e12,\"bytes\":49152,"
            "\"gflops\":1e6,\"gbs\":0.049152,\"note\":\"quick\"",
            1e-3);
    check_page(texts);
}

/* The page shows failures, and counts rows that were skipped for lack of time. A missing peer is
 * not counted. */
TEST(what_is_missing_stands_on_the_page) {
    static const char *const texts[] = {
        "failed: gemm, f32 &lt;1&gt;, tandem: wrong &amp; late</p>",
        "Rows: 3, verified: 0, noisy: 0, skipped for lack of time: 1, failed: 1.", NULL};
    static const char *const rows[][2] = {
        {"failed", "wrong & late"},
        {"skipped", "the suite's time is over, the case was not started"},
        {"skipped", "no worker program"}};
    begin(&maker, "A device");
    for (size_t i = 0; i < 3; i++)
        add(&maker,
            "%s{\"suite\":\"gemm\",\"case\":\"f32 <1>\",\"impl\":\"tandem\",\"raw_s\":[],"
            "\"shape\":{},\"status\":\"%s\",\"reason\":\"%s\"}",
            i == 0 ? "" : ",", rows[i][0], rows[i][1]);
    check_page(texts);
}

TEST(other_peoples_texts_cannot_leave_theirs) {
    static const char *const texts[] = {"&lt;script&gt;", "!<b>", "!<u>", "!<img", NULL};
    begin(&maker, "x</title><script>alert(1)</script>\\\" onload=\\\"y");
    add_row(&maker, "gemm", "</td><img>'\\\"&amp;", "tandem",
            "\"dtype\":\"<b>\",\"shape\":{},\"flops\":1e6,\"bytes\":1e3,\"gflops\":1,"
            "\"gbs\":0.001,\"note\":\"noisy <i>\",\"variant\":\"<u>\"",
            1e-3);
    check_page(texts);
}

/* The rows are of two devices, but a page shows one. */
TEST(a_page_is_of_one_device) {
    static const char text[] =
        "{\"schema\":\"tandem-bench/1\",\"devices\":[{\"name\":\"One\",\"selector\":\"x/y/One\"},"
        "{\"name\":\"gfx2\",\"board_name\":\"Two\",\"selector\":\"x/y/Two\"}],\"results\":["
        "{\"suite\":\"gemm\",\"case\":\"first case\",\"impl\":\"tandem\",\"device\":\"x/y/One\","
        "\"status\":\"failed\",\"reason\":\"no\",\"raw_s\":[]},"
        "{\"suite\":\"gemm\",\"case\":\"second case\",\"impl\":\"tandem\",\"device\":\"x/y/Two\","
        "\"status\":\"failed\",\"reason\":\"no\",\"raw_s\":[]}]}";
    for (size_t device = 0; device < 2; device++) {
        char *const page = page_of(text, device);
        must_have(page, device == 0 ? "<h1>One</h1>" : "<h1>Two</h1>");
        must_have(page, "Rows: 1, ");
        assert_true((strstr(page, "first case") != NULL) == (device == 0));
        assert_true((strstr(page, "second case") != NULL) == (device == 1));
        free(page);
    }
}

/* ---- main memory ---- */

/*
 * Checks the fastest main-memory read rate for this cache size. `sets` lists MB per set and GB/s.
 */
static void main_memory_is(const char *cache_bytes, double gbs) {
    static const double sets[][2] = {{90, 900}, {160, 800}, {60, 2000}, {128, 128}};
    results_file file;
    file_error error;
    cache_text = cache_bytes;
    begin(&maker, "A device");
    cache_text = "null";
    for (size_t i = 0; i < sizeof sets / sizeof *sets; i++) {
        char members[128];
        snprintf(members, sizeof members, "\"shape\":{\"bytes\":%ge6},\"bytes\":%ge6", sets[i][0],
                 sets[i][1]);
        add_row(&maker, "memory", i < 2 ? "sweep read 1M" : "read 1M", "tandem", members, 1e-3);
    }
    add_row(&maker, "memory", "write 1M", "tandem", "\"shape\":{\"bytes\":512e6},\"bytes\":9000e6",
            1e-3);
    add(&maker, "]}");
    assert_int_equal(results_read_text("own", maker.text, maker.length, &file, &error), 0);
    const results_row *const row = main_memory_fastest(&file, 0, NULL);
    const double found = row == NULL ? 0 : row->gbs;
    results_file_release(&file);
    if (fabs(found - gbs) > 1e-6 * gbs)
        fail_msg("%g GB/s for %s", found, cache_bytes);
}

/* The smaller sets are in a cache and must not count, although they are faster. */
TEST(a_cache_is_no_main_memory) {
    main_memory_is("32e6", 800); /* at least four times the cache; the other sets are smaller */
    main_memory_is("22e6", 900);
    main_memory_is("50e6", 0); /* no set is large enough */
    main_memory_is("null", 0); /* the cache size is unknown */
}

/*
 * MI300X's driver reports only the second-level cache. With that size, a benchmark would measure
 * the last-level cache as main memory. Its results file would show that as main memory, too.
 */
TEST(a_device_here_has_the_cache_of_its_file) {
    static const struct {
        tdm_device_type type;
        const char *board;
        uint64_t driver;
        double expected; /* 0: unknown */
    } rows[] = {
        {TDM_DEVICE_GPU, "AMD Instinct MI300X", 4 << 20, 256e6},
        {TDM_DEVICE_GPU, "NVIDIA GeForce RTX 4090", 72 << 20, 72 << 20},
        {TDM_DEVICE_GPU, "nobody's", 4 << 20, 4 << 20},
        {TDM_DEVICE_GPU, "nobody's", 0, 0},
        {TDM_DEVICE_CPU, "nobody's", 1ULL << 40, 1ULL << 40},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        tdm_device_info info = {.type = rows[i].type, .cache_bytes = rows[i].driver};
        results_file results;
        file_error error;
        snprintf(info.board_name, sizeof info.board_name, "%s", rows[i].board);
        const double own = main_memory_cache_here(&info);
        assert_true(rows[i].expected > 0 ? own == rows[i].expected : isnan(own));
        cJSON *const device = results_device_json(&info);
        char *const reported = cJSON_PrintUnformatted(device);
        maker.length = 0;
        add(&maker, "{\"schema\":\"tandem-bench/1\",\"device\":%s,\"results\":[]}", reported);
        assert_int_equal(results_read_text("own", maker.text, maker.length, &results, &error), 0);
        const double in_file = main_memory_cache(&results, 0);
        assert_true(in_file == (isnan(own) ? MAIN_MEMORY_UNKNOWN_CACHE : own));
        results_file_release(&results);
        free(reported);
        cJSON_Delete(device);
    }
}

/* ---- texts and charts ---- */

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

TEST(bytes_that_are_no_text_are_replaced) {
    char *const text = text_of(write_bytes_of_all_kinds);
    assert_string_equal(
        text,
        "a&lt;b&gt;&amp;&quot;&#39;\xef\xbf\xbd \xef\xbf\xbd\xc3\xa4\xef\xbf\xbd\xe2\x80\x93");
    free(text);
}

/* Both axes span three decades. The chart adds a twentieth of the span at each end. */
static void write_known_chart(FILE *file) {
    chart_plot chart = {.title = "T", .description = "D", .x_label = "x", .y_label = "y"};
    chart_begin_series(&chart, "a & b", CHART_POINTS, 0);
    chart_add(&chart, 1, 10, "first");
    chart_add(&chart, 1000, 10000, "last");
    chart_add(&chart, NAN, 5, "no place");
    chart_add(&chart, 5, INFINITY, "no height");
    chart_write(file, &chart);
    chart_release(&chart);
}

TEST(points_stand_where_they_belong) {
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

/* Writes the rooflines of two devices. The RTX 4090 has a datasheet rate for f32. Only the other
 * device has an integer GEMM. */
static void write_rooflines(FILE *file) {
    static const char *const names[] = {"One", "NVIDIA GeForce RTX 4090"};
    results_file files[2];
    report_device devices[2];
    file_error error;
    for (int i = 0; i < 2; i++) {
        begin(&maker, names[i]);
        add_row(&maker, "memory", "read 1M", "tandem",
                "\"shape\":{\"bytes\":2e9},\"bytes\":67108864", 1e-3);
        add_row(&maker, "compute", "fma f32", "tandem", "\"dtype\":\"f32\",\"flops\":2e8", 1e-3);
        if (i == 0)
            add_row(&maker, "gemm", "an integer product", "tandem",
                    "\"dtype\":\"u8s8\",\"flops\":1e8,\"bytes\":1e6", 1e-3);
        add(&maker, "]}");
        assert_int_equal(results_read_text("own", maker.text, maker.length, &files[i], &error), 0);
        devices[i] = (report_device){
            .label = (char)('A' + i), .file = &files[i], .sheet = datasheet_find(names[i])};
    }
    assert_int_equal(charts_write_rooflines(file, devices, 2), 0);
    for (int i = 0; i < 2; i++)
        results_file_release(&files[i]);
}

/* The ridge is where both rates meet: 200 GFLOP/s over 67.1 GB/s. */
TEST(each_precision_that_was_measured_has_its_roofline) {
    char *const text = text_of(write_rooflines);
    html_check_elements(text);
    must_have(text, "<h2>Roofline of s8");
    must_have(text, "GOP/s");
    must_not_have(text, "B s8 measured");
    must_have(text, "<title>an integer product</title>");
    must_have(text, "A f32 measured");
    must_have(text, "B f32 datasheet");
    must_not_have(text, "A f32 datasheet");
    must_not_have(text, "Roofline of f16");
    free(text);
}

TEST_MAIN(NULL, NULL)
