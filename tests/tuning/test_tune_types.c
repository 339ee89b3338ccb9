/* Tuning data of integers and quantized weights: rows of files, the nearest one, the file of the tuner. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "api/gemm/gemm_internal.h"
#include "bench/tune/tune_run.h"
#include "tests/support/test_folder.h"

static const tdm_device_info cpu = {
    .struct_size = sizeof cpu,
    .selector = "a/b/c d",
    .type = TDM_DEVICE_CPU,
    .capabilities =
        TDM_CAP_CPU_CORES | TDM_CAP_CORRECT_DIVIDE | TDM_CAP_HOST_AVX2 | TDM_CAP_HOST_ASSEMBLY,
    .max_group_items = 4096,
    .local_bytes = 1 << 20,
};

/* ---- rows of files -------------------------------------------------------------------------------- */

static tdm_tuning_outcome read_row(const char *text, tdm_tuning_row *row,
                                   char reason[TDM_TUNING_REASON]) {
    static char line[TDM_TUNING_LINE];
    snprintf(line, sizeof line, "%s", text);
    return tdm_tuning_row_read(line, row, reason);
}

static void every_operation_has_rows(void **state) {
    (void)state;
    static const struct {
        const char *text;
        tdm_op op;
        int quantize_a;
        tdm_dtype a, b;
    } rows[] = {
        {"any gemm f16 f16 nn 1x2x3x1 gemm_any_reference measured=1", TDM_OP_GEMM, 0, TDM_F16,
         TDM_F16},
        {"any gemm-3xtf32 f32 f32 nn 1x2x3x1 gemm_f32_3xtf32_64x64__tensor:split_k=3 measured=1",
         TDM_OP_GEMM, 0, TDM_F32, TDM_F32},
        {"any gemm-int u8 s8 nn 1x2x3x1 gemm_int_panel_8x8:row_items=3,pack_b=2 measured=1",
         TDM_OP_GEMM_INT, 0, TDM_U8, TDM_S8},
        {"any gemm-weights f32 s8 nt 1x2x3x1 gemm_s8_lines_8:col_items=3 measured=1",
         TDM_OP_GEMM_WEIGHTS, 0, TDM_F32, TDM_S8},
        {"any gemm-weights f16 s4 nt 1x2x3x1 gemm_f32_panel_8x8:row_items=3 not-measured",
         TDM_OP_GEMM_WEIGHTS, 0, TDM_F16, TDM_S4},
        {"any gemm-weights-a8 f32 s4 nt 1x2x3x1 gemm_s4_lines_8__vnni measured=1",
         TDM_OP_GEMM_WEIGHTS, 1, TDM_F32, TDM_S4},
        {"any gemm-weights-a8 bf16 s8 any *x*x*x1 gemm_int_panel_8x8 measured=1",
         TDM_OP_GEMM_WEIGHTS, 1, TDM_BF16, TDM_S8},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char reason[TDM_TUNING_REASON] = "", line[TDM_TUNING_LINE];
        tdm_tuning_row row;
        if (read_row(rows[i].text, &row, reason) != TDM_TUNING_OK)
            fail_msg("%s: %s", rows[i].text, reason);
        assert_int_equal(row.op, rows[i].op);
        assert_int_equal(row.quantize_a, rows[i].quantize_a);
        assert_int_equal(row.a, rows[i].a);
        assert_int_equal(row.b, rows[i].b);
        assert_true(tdm_tuning_row_write(&row, line));
        assert_string_equal(line, rows[i].text);
    }
    tdm_tuning_row row = {.device = "any", .op = TDM_OP_SOFTMAX};
    char line[TDM_TUNING_LINE];
    row.choice.variant = &tdm_variants[0];
    assert_false(tdm_tuning_row_write(&row, line));
}

/* A library that does not know an operation, a type or a row passes the line over; so it reads files of later ones. */
static void rows_that_cannot_serve_are_stale(void **state) {
    (void)state;
    static const struct {
        const char *text, *reason;
    } rows[] = {
        {"any gemm-int f32 s8 nn 1x1x1 gemm_int_panel_8x8 measured=1", "takes no such A: 'f32'"},
        {"any gemm-int s8 f16 nn 1x1x1 gemm_int_panel_8x8 measured=1", "takes no such B: 'f16'"},
        {"any gemm s8 s8 nn 1x1x1 gemm_int_panel_8x8 measured=1", "takes no such A: 's8'"},
        {"any gemm-3xtf32 f16 f32 nn 1x1x1 gemm_any_reference measured=1", "f32 alone: 'f16'"},
        {"any gemm-3xtf32 f32 bf16 nn 1x1x1 gemm_any_reference measured=1", "f32 alone: 'bf16'"},
        {"any gemm f32 s8 nn 1x1x1 gemm_any_reference measured=1", "takes no such B: 's8'"},
        {"any gemm-weights s8 s8 nn 1x1x1 gemm_s8_lines_8 measured=1", "takes no such A: 's8'"},
        {"any gemm-weights f32 f32 nn 1x1x1 gemm_s8_lines_8 measured=1", "takes no such B: 'f32'"},
        {"any gemm-weights f32 s8 nn 1x1x1 gemm_int_panel_8x8 measured=1", "another operation"},
        {"any gemm-weights-a8 f32 s8 nn 1x1x1 gemm_pack_f32_w8 measured=1", "another operation"},
        {"any gemm-int s8 s8 nn 1x1x1 gemm_any_reference measured=1", "another operation"},
        {"any gemm f32 f32 nn 1x1x1 gemm_s8_lines_8 measured=1", "another operation"},
        {"any gemm-int8 s8 s8 nn 1x1x1 gemm_int_panel_8x8 measured=1", "nothing is tuned for"},
        {"any gemm-weights- f32 s8 nn 1x1x1 gemm_s8_lines_8 measured=1", "nothing is tuned for"},
        {"any GEMM-INT s8 s8 nn 1x1x1 gemm_int_panel_8x8 measured=1", "nothing is tuned for"},
        {"any gemm-weights f32 s9 nn 1x1x1 gemm_s8_lines_8 measured=1", "no such dtype: 's9'"},
        {"any gemm f32 f32 nn 1x1x1 gemm_f32_of_tomorrow measured=1",
         "no such variant: 'gemm_f32_"},
        {"any gemm f32 f32 nn 1x1x1 gemm_any_reference:row_items=5000 measured=1", "out of range"},
        {"any gemm f32 f32 nn 1x1x1 gemm_any_reference:depth=2 measured=1", "parameter: 'depth'"},
        {"any gemm f32 f32 nn 1x1x1 softmax_f32_x1 measured=1", "no such variant"},
        {"any gemm-weights none s8 nn 1x1x1 gemm_s8_lines_8 measured=1", "no such dtype: 'none'"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char reason[TDM_TUNING_REASON] = "";
        tdm_tuning_row row;
        if (read_row(rows[i].text, &row, reason) != TDM_TUNING_STALE ||
            strstr(reason, rows[i].reason) == NULL)
            fail_msg("%s: '%s'", rows[i].text, reason);
    }
}

/* Words of a good row in any place: read, stale or corrupt with a reason, never a crash (the sanitizers look on). */
static void mixed_up_rows_are_survived(void **state) {
    (void)state;
    static const char *const words[] = {"any",
                                        "gemm",
                                        "gemm-int",
                                        "gemm-weights",
                                        "gemm-weights-a8",
                                        "gemm-weights-a8-a8",
                                        "s8",
                                        "u8",
                                        "s4",
                                        "f32",
                                        "bool",
                                        "none",
                                        "nt",
                                        "1x2x3",
                                        "*x*x*x*",
                                        "gemm_int_panel_8x8",
                                        "gemm_s4_lines_8",
                                        "gemm_f32_tiled_",
                                        "a/b/%c",
                                        "not-measured",
                                        "measured=7",
                                        "",
                                        "#",
                                        "\x01"};
    uint32_t seed = 7;
    for (int round = 0; round < 20000; round++) {
        char line[TDM_TUNING_LINE] = "any", reason[TDM_TUNING_REASON] = "";
        size_t length = strlen(line);
        tdm_tuning_row row;
        for (int i = 0; i < 7; i++) {
            seed = seed * 1664525u + 1013904223u;
            const char *const word = words[(seed >> 10) % (sizeof words / sizeof words[0])];
            length += (size_t)snprintf(line + length, sizeof line - length, " %s", word);
        }
        if (tdm_tuning_row_read(line, &row, reason) == TDM_TUNING_OK)
            assert_string_equal(row.device, "any");
        else
            assert_string_not_equal(reason, "");
    }
}

/* ---- the nearest row ------------------------------------------------------------------------------ */

#define HEADER "tandem-tuning 1\n"

static int found_line(tdm_op op, int quantize_a, tdm_dtype a, tdm_dtype b) {
    const tdm_tuning_query query = {.op = op,
                                    .quantize_a = quantize_a != 0,
                                    .a = a,
                                    .b = b,
                                    .layout = tdm_tuning_layout(false, true),
                                    .shape = {8, 64, 64, 1}};
    tdm_tuning_table *const table = tdm_tuning_open(&cpu);
    assert_non_null(table);
    const tdm_tuning_row *const row = tdm_tuning_find(table, &query);
    const int line = row ? row->line : -1;
    tdm_tuning_close(table);
    return line;
}

static void operations_do_not_share_rows(void **state) {
    (void)state;
    char path[TEST_PATH];
    test_text_write(test_folder_path(path, "tuning.txt"),
                    HEADER "cpu gemm-int s8 s8 any 8x64x64 gemm_int_panel_8x8 measured=1\n"
                           "cpu gemm-int u8 s8 any 8x64x64 gemm_int_panel_8x8 measured=1\n"
                           "cpu gemm-weights f32 s8 any 8x64x64 gemm_s8_lines_8 measured=1\n"
                           "cpu gemm-weights-a8 f32 s8 any 8x64x64 gemm_s8_lines_8 measured=1\n"
                           "cpu gemm-weights f32 s4 any 8x64x64 gemm_s4_lines_8 measured=1\n"
                           "cpu gemm-3xtf32 f32 f32 any 8x64x64 gemm_any_reference measured=1\n",
                    0600);
    setenv("TANDEM_TUNING_FILE", path, 1);
    assert_int_equal(found_line(TDM_OP_GEMM_INT, 0, TDM_S8, TDM_S8), 2);
    assert_int_equal(found_line(TDM_OP_GEMM_INT, 0, TDM_U8, TDM_S8), 3);
    assert_int_equal(found_line(TDM_OP_GEMM_WEIGHTS, 0, TDM_F32, TDM_S8), 4);
    assert_int_equal(found_line(TDM_OP_GEMM_WEIGHTS, 1, TDM_F32, TDM_S8), 5);
    assert_int_equal(found_line(TDM_OP_GEMM_WEIGHTS, 0, TDM_F32, TDM_S4), 6);
    assert_int_equal(found_line(TDM_OP_GEMM_WEIGHTS, 1, TDM_F32, TDM_S4), -1);
    assert_int_equal(found_line(TDM_OP_GEMM_WEIGHTS, 0, TDM_F16, TDM_S8), -1);
    assert_int_not_equal(found_line(TDM_OP_GEMM, 0, TDM_F32, TDM_F32), 7);
    setenv("TANDEM_TUNING_FILE", "off", 1);
}

/* ---- the user's file ------------------------------------------------------------------------------ */

static void rows_of_operations_stand_side_by_side(void **state) {
    (void)state;
    static const char *const texts[] = {
        "any gemm-int s8 s8 nn 1x2x3x1 gemm_int_panel_8x8 measured=1",
        "any gemm-weights f32 s8 nn 1x2x3x1 gemm_s8_lines_8 measured=2",
        "any gemm-weights-a8 f32 s8 nn 1x2x3x1 gemm_int_panel_8x8 measured=3",
    };
    char path[TEST_PATH], line[TDM_TUNING_LINE], reason[TDM_TUNING_REASON];
    tune_file *const file = tune_file_open("test", test_folder_path(path, "new.txt"));
    assert_non_null(file);
    for (int i = 0; i < 6; i++) {
        tdm_tuning_row row;
        snprintf(line, sizeof line, "%s", texts[i % 3]);
        assert_int_equal(tdm_tuning_row_read(line, &row, reason), TDM_TUNING_OK);
        assert_int_equal(tune_file_has(file, &row), i / 3);
        assert_int_equal(tune_file_put(file, &row), 0);
    }
    tune_file_close(file);
    tdm_tuning_file read;
    assert_int_equal(tdm_tuning_file_read(path, &read), TDM_TUNING_FILE_READ);
    assert_int_equal(read.count, 3);
    tdm_tuning_file_release(&read);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_operation_has_rows),
        cmocka_unit_test(rows_that_cannot_serve_are_stale),
        cmocka_unit_test(mixed_up_rows_are_survived),
        cmocka_unit_test(operations_do_not_share_rows),
        cmocka_unit_test(rows_of_operations_stand_side_by_side),
    };
    return cmocka_run_group_tests(tests, test_folder_make, test_folder_remove);
}
