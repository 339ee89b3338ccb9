/* Tuning data of integers and quantized weights: rows of files, the nearest one, what the tuner may try, logs. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "api/gemm/gemm_internal.h"
#include "bench/tune/tune_file.h"
#include "bench/tune/tune_shapes.h"
#include "bench/tune/tune_space.h"
#include "common/command/cli_options.h"
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

typedef struct good_row {
    const char *text;
    tdm_op op;
    int quantize_a;
    tdm_dtype a, b;
} good_row;

static void every_operation_has_rows(void **state) {
    (void)state;
    static const good_row rows[] = {
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

typedef struct stale_row {
    const char *text, *reason;
} stale_row;

/* A library that does not know an operation, a type or a row passes the line over; so it reads files of later ones. */
static void rows_that_cannot_serve_are_stale(void **state) {
    (void)state;
    static const stale_row rows[] = {
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

/* ---- what it may try ------------------------------------------------------------------------------ */

static int space_has(const tune_space *space, const char *name) {
    for (int i = 0; i < space->row_count; i++)
        if (strcmp(space->rows[i].variant->name, name) == 0)
            return 1;
    return 0;
}

static int space_has_op(const tune_space *space, tdm_op op) {
    for (int i = 0; i < space->row_count; i++)
        if (space->rows[i].variant->op == op)
            return 1;
    return 0;
}

static const tune_space *space_for(const tdm_device_info *device, gemm_types types, int64_t m) {
    static tune_space space;
    const gemm_case item = {.types = types, .m = m, .n = 512, .k = 512, .transpose_b = 1};
    tune_space_fill(&space, device, &item);
    assert_in_range(space.row_count, 1, TUNE_MAX_ROWS - 1);
    return &space;
}

static void integers_try_what_the_device_can_run(void **state) {
    (void)state;
    const tune_space *space = space_for(&cpu, GEMM_U8S8, 512);
    assert_true(space_has(space, "gemm_int_panel_6x8__avx2"));
    assert_true(space_has(space, "gemm_int_panel_8x8"));
    assert_true(space_has(space, "gemm_int_tiled_64x64"));
    assert_false(space_has(space, "gemm_int_panel_6x64__vnni"));
    assert_false(space_has(space, "gemm_int_tiled_64x64__khr_dot"));
    assert_false(space_has(space, "gemm_int_any_reference"));
    assert_false(space_has_op(space, TDM_OP_GEMM) || space_has_op(space, TDM_OP_GEMM_WEIGHTS));
    for (int i = 0; i < space->row_count; i++) {
        const tune_row *const row = &space->rows[i];
        const int is_panel = row->variant->parameters[TDM_GEMM_P_FAMILY] == TDM_GEMM_PANEL;
        assert_int_equal(row->value_count[TDM_TUNE_ROW_ITEMS] > 1, is_panel);
        assert_int_equal(row->value_count[TDM_TUNE_PACK_B], is_panel ? 3 : 1);
        assert_int_equal(row->value_count[TDM_TUNE_SPLIT_K], 1);
    }
    tdm_device_info weak = cpu;
    weak.local_bytes = 12000;
    weak.max_group_items = 64;
    space = space_for(&weak, GEMM_S8, 512);
    assert_false(space_has(space, "gemm_int_panel_8x8"));
    assert_false(space_has(space, "gemm_int_tiled_64x64"));
    assert_true(space_has(space, "gemm_int_tiled_32x32"));
}

static void f32_is_split_where_that_is_allowed(void **state) {
    (void)state;
    tdm_device_info device = cpu;
    device.capabilities = TDM_CAP_CUDA | TDM_CAP_TENSOR_CORES | TDM_CAP_ASYNC_COPY;
    assert_false(space_has(space_for(&device, GEMM_F32, 512), "gemm_f32_3xtf32_64x64__tensor"));
    assert_false(space_has(space_for(&device, GEMM_W8, 512), "gemm_f32_3xtf32_64x64__tensor"));
    const tune_space *const space = space_for(&device, GEMM_3XTF32, 512);
    assert_true(space_has(space, "gemm_f32_3xtf32_64x64__tensor"));
    assert_true(space_has(space, "gemm_f32_simt_64x64__async"));
    assert_int_equal(gemm_types_for_tuning(GEMM_3XTF32), GEMM_3XTF32);
    assert_int_equal(gemm_types_for_tuning(GEMM_F32), GEMM_F32);
}

static void weights_try_both_ways(void **state) {
    (void)state;
    const tune_space *space = space_for(&cpu, GEMM_W8, 8);
    assert_true(space_has(space, "gemm_s8_lines_8"));
    assert_true(space_has(space, "gemm_f32_panel_6x16__avx2"));
    assert_false(space_has(space, "gemm_s4_lines_8"));
    assert_false(space_has(space, "gemm_f16_panel_6x16__avx2"));
    assert_false(space_has(space, "gemm_weights_any_reference"));
    assert_false(space_has_op(space, TDM_OP_GEMM_INT));
    space = space_for(&cpu, GEMM_W4, 8);
    assert_true(space_has(space, "gemm_s4_lines_8") && !space_has(space, "gemm_s8_lines_8"));
    space = space_for(&cpu, GEMM_W8, 512);
    assert_false(space_has(space, "gemm_s8_lines_8"));
    assert_true(space_has(space, "gemm_f32_panel_6x16__avx2"));
}

static void quantized_rows_of_a_try_integers(void **state) {
    (void)state;
    tdm_device_info fast = cpu;
    fast.capabilities |= TDM_CAP_HOST_AVX512 | TDM_CAP_HOST_VNNI;
    assert_false(space_has(space_for(&fast, GEMM_W8, 8), "gemm_s8_lines_8__vnni"));
    const tune_space *space = space_for(&fast, GEMM_W8A8, 8);
    assert_true(space_has(space, "gemm_s8_lines_8__vnni"));
    assert_true(space_has(space, "gemm_s8_lines_8"));
    assert_false(space_has(space, "gemm_s4_lines_8__vnni"));
    assert_true(space_has(space, "gemm_int_panel_6x64__vnni"));
    assert_true(space_has_op(space, TDM_OP_GEMM));
    space = space_for(&fast, GEMM_W4A8, 8);
    assert_true(space_has(space, "gemm_s4_lines_8__vnni"));
    assert_false(space_has_op(space, TDM_OP_GEMM_INT));
    assert_true(space_has_op(space, TDM_OP_GEMM));
}

/* ---- what it is given ----------------------------------------------------------------------------- */

static void every_type_can_be_asked_for(void **state) {
    (void)state;
    const char *names = gemm_types_choices;
    char name[16];
    int rows = 0;
    while (cli_next_word(&names, '|', name, sizeof name) == 1) {
        const gemm_types types = gemm_types_find(name);
        rows += gemm_types_for_tuning(types) == types;
    }
    names = tune_dtype_choices;
    while (cli_next_word(&names, '|', name, sizeof name) == 1) {
        const gemm_types types = gemm_types_find(name);
        assert_true(types != GEMM_NO_TYPES && gemm_types_for_tuning(types) == types);
        rows--;
    }
    assert_int_equal(rows, 0);
}

static void a_log_tells_the_types(void **state) {
    (void)state;
    static const gemm_types expected[] = {GEMM_U8S8, GEMM_S8,     GEMM_W8,  GEMM_W4,
                                          GEMM_W8A8, GEMM_3XTF32, GEMM_F32, GEMM_W4A8};
    char path[TEST_PATH];
    tune_cases cases = {.items = NULL};
    test_text_write(test_folder_path(path, "log.txt"),
                    "gemm: problem m=5 n=6 k=7 batch=1 a=u8 b=s8 d=s32 ta=0 tb=1\n"
                    "gemm: problem m=5 n=6 k=7 batch=1 a=u8 b=s8 d=u8 ta=0 tb=1\n" /* the same */
                    "gemm: problem m=5 n=6 k=7 batch=1 a=s8 b=s8 d=s32 ta=0 tb=1\n"
                    "gemm: problem m=5 n=6 k=7 batch=1 a=f32 b=s8 d=f32 ta=0 tb=1 group=7 qa=0\n"
                    "gemm: problem m=5 n=6 k=8 batch=1 a=f32 b=s4 d=f32 ta=0 tb=1 group=8 qa=0\n"
                    "gemm: problem m=5 n=6 k=7 batch=1 a=f32 b=s8 d=f32 ta=0 tb=1 group=7 qa=1\n"
                    "gemm: problem m=5 n=6 k=7 batch=1 a=f32 b=f32 d=f32 ta=0 tb=1 3xtf32=1\n"
                    "gemm: problem m=5 n=6 k=7 batch=1 a=f32 b=f32 d=f32 ta=0 tb=1\n"
                    "gemm: problem m=5 n=6 k=8 batch=1 a=f32 b=s4 d=f32 ta=0 tb=0 group=8 qa=1\n"
                    "gemm: problem m=5 n=6 k=7 batch=1 a=f16 b=s8 d=f32 ta=0 tb=1 group=7 qa=1\n"
                    "gemm: problem m=5 n=6 k=7 batch=1 a=s8 b=u8 d=s32 ta=0 tb=1\n"
                    "gemm: problem m=5 n=6 k=7 batch=1 a=none b=none d=s32 ta=0 tb=1\n"
                    "gemm: problem m=5 n=6 k=7 batch=1 a= b= d= qa=1\n"
                    "gemm: problem m=5 n=6 k=7 batch=99999 a=f32 b=f32 d=f32\n"
                    "gemm: problem m=99999999999999999999 n=6 k=7 batch=1 a=f32 b=f32 d=f32\n"
                    "gemm: problem\n"
                    "something else\n"
                    "gemm: problem m=5 n=6 k=7 batch=1 a=u8 b=s8 d=s32 ta=0 tb=0\n",
                    0600);
    assert_int_equal(tune_cases_read_log("test", path, &cases), 0);
    assert_int_equal(cases.left_out, 6);
    assert_int_equal(cases.count, 9);
    for (size_t i = 0; i < sizeof expected / sizeof expected[0]; i++) {
        assert_int_equal(cases.items[i].types, expected[i]);
        assert_int_equal(cases.items[i].transpose_b, i < 7);
    }
    assert_int_equal(cases.items[8].types, GEMM_U8S8); /* in the other layout */
    test_text_write(path, "nothing\n", 0600);
    tune_cases_release(&cases);
    assert_int_equal(tune_cases_read_log("test", path, &cases), CLI_EXIT_FAILED);
    tune_cases_release(&cases);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_operation_has_rows),
        cmocka_unit_test(rows_that_cannot_serve_are_stale),
        cmocka_unit_test(mixed_up_rows_are_survived),
        cmocka_unit_test(operations_do_not_share_rows),
        cmocka_unit_test(rows_of_operations_stand_side_by_side),
        cmocka_unit_test(integers_try_what_the_device_can_run),
        cmocka_unit_test(f32_is_split_where_that_is_allowed),
        cmocka_unit_test(weights_try_both_ways),
        cmocka_unit_test(quantized_rows_of_a_try_integers),
        cmocka_unit_test(every_type_can_be_asked_for),
        cmocka_unit_test(a_log_tells_the_types),
    };
    return cmocka_run_group_tests(tests, test_folder_make, test_folder_remove);
}
