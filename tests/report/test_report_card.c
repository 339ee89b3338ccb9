/* The device's card of `tandem report`: what was measured at best beside the datasheet, link and power, and what a cache may have served. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cjson/cJSON.h>
#include <cmocka.h>

#include "bench/analysis/main_memory.h"
#include "bench/record/results_json.h"
#include "tests/support/bench/html_check.h"
#include "tests/support/bench/report_page_of.h"

/* A row of two samples of a millisecond. */
#define ROW(suite, name, dtype, impl, work)                                                        \
    "{\"suite\":\"" suite "\",\"case\":\"" name "\",\"impl\":\"" impl "\",\"dtype\":\"" dtype      \
    "\",\"mode\":\"pipelined\",\"status\":\"ok\",\"median_s\":0.001,\"raw_s\":[0.001,0.001]," work \
    "}"

#define KERNEL(name, size, bytes)                                                                  \
    ROW("memory", name, "f32", "tandem", "\"shape\":{\"bytes\":" size "},\"bytes\":" bytes)

#define FILE_OF(device, environment, rows)                                                         \
    "{\"schema\":\"tandem-report/1\",\"device\":{" device "},\"environment\":{" environment        \
    "},\"results\":[" rows "]}"

static const char known[] = FILE_OF(
    "\"name\":\"NVIDIA GeForce RTX 4090\",\"type\":\"gpu\",\"cache_bytes\":75497472",
    "\"pcie_generation\":4,\"pcie_width\":8,\"pcie_generation_most\":4,\"pcie_width_most\":16,"
    "\"power_limit_w\":300,\"power_limit_default_w\":450",
    KERNEL("read 1073741824", "1073741824", "907200000") ","           /* 90 % */
    KERNEL("read 1048576", "1048576", "3000000000") ","                /* a cache's */
    KERNEL("triad 1073741824", "1073741824", "1058400000") ","         /* 105 % */
    KERNEL("write 1048576", "1048576", "2000000000") ","               /* nothing larger */
    KERNEL("sweep read 4096", "4096", "4000000000") ","                /* looks for caches */
    ROW("compute", "fma f32", "f32", "tandem", "\"flops\":8.26e9") "," /* 10 % */
    ROW("compute", "dot s8", "s8", "tandem", "\"flops\":6.61e10") "," ROW(
        "gemm", "f16 square", "f16", "tandem", "\"flops\":1.32e11") "," /* 80 % */
    ROW("gemm", "f16 other", "f16", "tandem",
        "\"flops\":1e10") "," ROW("gemm", "f16 square", "f16", "cublas", "\"flops\":1.6e11"));

static const char unknown[] = FILE_OF("\"name\":\"A processor\",\"type\":\"cpu\"",
                                      "\"cpu_cache_bytes\":33554432,\"power_limit_w\":null",
                                      KERNEL("read 1048576", "1048576", "50000000"));

static void a_card_has_measured_and_promised(void **state) {
    static const char *const parts[] = {
        "<dt>link</dt><dd>PCIe 4 x8 (of PCIe 4 x16)</dd>",
        "<dt>power limit</dt><dd>300 W (450 W by default)</dd>",
        "<tr><td>main memory, reading</td><td class=\"number\">907 GB/s (90 %)</td></tr>",
        "<tr><td>main memory, triad</td><td class=\"number bad\">1058 GB/s (105 %!)</td></tr>",
        "<tr><td>arithmetic, f32</td><td class=\"number\">8260 GFLOP/s (10 %)</td></tr>",
        "<tr><td>arithmetic, s8</td><td class=\"number\">66.1 TOP/s (10 %)</td></tr>",
        "<tr><td>products, f16</td><td class=\"number\">132 TFLOP/s (80 %)</td></tr>",
        "Shares are of the datasheet: RTX 4090, GDDR6X, 1008 GB/s (",
    };
    (void)state;
    char *const page = report_page_of(known, 0);
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        must_have(page, parts[i]);
    must_not_have(page, "main memory, writing"); /* a cache may have served it */
    free(page);
}

static void a_device_without_a_sheet_has_a_card(void **state) {
    (void)state;
    char *const page = report_page_of(unknown, 0);
    must_not_have(page, "main memory, reading");
    must_have(page, "Measured by Tandem of an unknown version, at an unknown time.");
    assert_null(strstr(page, "<dt>link</dt>"));
    assert_null(strstr(page, "<dt>power limit</dt>"));
    free(page);
}

/* Any number may stand in a file. */
static void a_card_has_room_for_any_number(void **state) {
    static const char absurd[] =
        FILE_OF("\"name\":\"A processor\",\"type\":\"cpu\"",
                "\"pcie_generation\":1e200,\"pcie_width\":1e200,\"pcie_width_most\":1e300,"
                "\"power_limit_w\":1e300,\"power_limit_default_w\":1e299",
                KERNEL("read 1048576", "1048576", "50000000"));
    (void)state;
    char *const page = report_page_of(absurd, 0);
    must_have(page, "<dt>link</dt><dd>PCIe 1e+200 x1e+200 (of PCIe 1e+200 x1e+300)</dd>");
    must_have(page, "<dt>power limit</dt><dd>1e+300 W (1e+299 W by default)</dd>");
    free(page);
}

/* MI300X's driver tells the second cache alone: a bench that goes by it would measure the last one, and its file say so. */
static void a_device_here_has_the_cache_of_its_file(void **state) {
    static const struct {
        tdm_device_type type;
        const char *board;
        uint64_t driver;
        double expected; /* 0: not known */
    } rows[] = {
        {TDM_DEVICE_GPU, "AMD Instinct MI300X", 4 << 20, 256e6},
        {TDM_DEVICE_GPU, "NVIDIA GeForce RTX 4090", 72 << 20, 72 << 20},
        {TDM_DEVICE_GPU, "nobody's", 4 << 20, 4 << 20},
        {TDM_DEVICE_GPU, "nobody's", 0, 0},
        {TDM_DEVICE_CPU, "nobody's", 1ULL << 40, 1ULL << 40},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        tdm_device_info info = {.type = rows[i].type, .cache_bytes = rows[i].driver};
        results_file results;
        file_error error;
        char text[4096];
        snprintf(info.board_name, sizeof info.board_name, "%s", rows[i].board);
        const double own = main_memory_cache_here(&info);
        assert_true(rows[i].expected > 0 ? own == rows[i].expected : isnan(own));
        cJSON *const device = results_device_json(&info);
        char *const told = cJSON_PrintUnformatted(device);
        snprintf(text, sizeof text, "{\"schema\":\"tandem-bench/1\",\"device\":%s,\"results\":[]}",
                 told);
        assert_int_equal(results_read_text("own", text, strlen(text), &results, &error), 0);
        const double in_file = main_memory_cache(&results, 0);
        assert_true(in_file == (isnan(own) ? MAIN_MEMORY_UNKNOWN_CACHE : own));
        results_file_release(&results);
        free(told);
        cJSON_Delete(device);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_card_has_measured_and_promised),
        cmocka_unit_test(a_device_without_a_sheet_has_a_card),
        cmocka_unit_test(a_card_has_room_for_any_number),
        cmocka_unit_test(a_device_here_has_the_cache_of_its_file),
    };
    return cmocka_run_group_tests_name("report card", tests, NULL, NULL);
}
