/* Tests tuning data: rows as text, device patterns, valid and hostile files, the nearest row. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "api/gemm/gemm_internal.h"
#include "api/tuning/tuning.h"
#include "tests/support/test_case.h"
#include "tests/support/test_folder.h"

static char path[TEST_PATH]; /* of the file that a case writes */

static int make_folder(void **state) {
    if (test_folder_make(state) != 0)
        return -1;
    test_folder_path(path, "tuning.txt");
    return 0;
}

/* ---- choices ---- */

TEST(a_choice_is_written_as_it_was_read) {
    static const char *const texts[] = {
        "gemm_any_reference",
        "gemm_any_reference:row_items=8",
        "gemm_any_reference:row_items=8,col_items=2",
        "gemm_any_reference:row_items=4096,col_items=4096,pack_b=2",
        "gemm_any_reference:pack_b=1",
    };
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        char reason[TDM_TUNING_REASON] = "", text[TDM_CHOICE_TEXT];
        tdm_choice choice;
        if (tdm_choice_read(texts[i], &choice, reason) != TDM_TUNING_OK)
            fail_msg("%s: %s", texts[i], reason);
        assert_string_equal(choice.variant->name, "gemm_any_reference");
        assert_string_equal(tdm_choice_write(&choice, text), texts[i]);
    }
    char reason[TDM_TUNING_REASON];
    tdm_choice choice;
    assert_int_equal(tdm_choice_read(texts[3], &choice, reason), TDM_TUNING_OK);
    assert_int_equal(choice.values[TDM_TUNE_ROW_ITEMS], 4096);
    assert_int_equal(choice.values[TDM_TUNE_COL_ITEMS], 4096);
    assert_int_equal(choice.values[TDM_TUNE_PACK_B], TDM_TUNE_PACK_INSIDE);
}

typedef struct refused_text {
    const char *text;
    tdm_tuning_outcome outcome;
    const char *reason;
} refused_text;

TEST(a_choice_that_cannot_be_is_refused_with_the_reason) {
    static const refused_text rows[] = {
        {"", TDM_TUNING_STALE, "unknown variant: ''"},
        {"gemm_f99_panel", TDM_TUNING_STALE, "unknown variant: 'gemm_f99_panel'"},
        {"gemm_any_reference:", TDM_TUNING_CORRUPT, "a parameter must be NAME=VALUE"},
        {"gemm_any_reference:row_items", TDM_TUNING_CORRUPT, "a parameter must be NAME=VALUE"},
        {"gemm_any_reference:row_items=", TDM_TUNING_STALE, "out of range: 'row_items='"},
        {"gemm_any_reference:row_items=0", TDM_TUNING_STALE, "out of range"},
        {"gemm_any_reference:row_items=-1", TDM_TUNING_STALE, "out of range"},
        {"gemm_any_reference:row_items=+1", TDM_TUNING_STALE, "out of range"},
        {"gemm_any_reference:row_items=08", TDM_TUNING_STALE, "out of range"},
        {"gemm_any_reference:row_items=8x", TDM_TUNING_STALE, "out of range"},
        {"gemm_any_reference:row_items=4097", TDM_TUNING_STALE, "out of range"},
        {"gemm_any_reference:row_items=4294967297", TDM_TUNING_STALE, "out of range"},
        {"gemm_any_reference:row_items=18446744073709551617", TDM_TUNING_STALE, "out of range"},
        {"gemm_any_reference:pack_b=3", TDM_TUNING_STALE, "out of range: 'pack_b=3'"},
        {"gemm_any_reference:colour=3", TDM_TUNING_STALE, "unknown parameter: 'colour'"},
        {"gemm_any_reference:row_items=2,row_items=2", TDM_TUNING_CORRUPT, "given twice"},
        {"gemm_any_reference:row_items=2,", TDM_TUNING_CORRUPT, "a parameter must be NAME=VALUE"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char reason[TDM_TUNING_REASON] = "";
        tdm_choice choice;
        const tdm_tuning_outcome outcome = tdm_choice_read(rows[i].text, &choice, reason);
        if (outcome != rows[i].outcome || !strstr(reason, rows[i].reason) || choice.variant)
            fail_msg("'%s' gave %d: %s", rows[i].text, (int)outcome, reason);
    }
    char text[400], reason[TDM_TUNING_REASON];
    tdm_choice choice;
    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    assert_int_equal(tdm_choice_read(text, &choice, reason), TDM_TUNING_CORRUPT);
}

/* ---- rows ---- */

static tdm_tuning_outcome read_row(const char *text, tdm_tuning_row *row,
                                   char reason[TDM_TUNING_REASON]) {
    static char line[TDM_TUNING_LINE];
    snprintf(line, sizeof line, "%s", text);
    return tdm_tuning_row_read(line, row, reason);
}

TEST(every_operation_has_rows) {
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

/*
 * A library skips rows with an operation, dtype or variant that it does not know. It can therefore
 * read files of later versions.
 */
TEST(rows_that_cannot_serve_are_stale) {
    static const struct {
        const char *text, *reason;
    } rows[] = {
        {"any gemm-int f32 s8 nn 1x1x1 gemm_int_panel_8x8 measured=1",
         "does not support this type of A: 'f32'"},
        {"any gemm-int s8 f16 nn 1x1x1 gemm_int_panel_8x8 measured=1",
         "does not support this type of B: 'f16'"},
        {"any gemm s8 s8 nn 1x1x1 gemm_int_panel_8x8 measured=1",
         "does not support this type of A: 's8'"},
        {"any gemm-3xtf32 f16 f32 nn 1x1x1 gemm_any_reference measured=1",
         "supports only f32: 'f16'"},
        {"any gemm-3xtf32 f32 bf16 nn 1x1x1 gemm_any_reference measured=1",
         "supports only f32: 'bf16'"},
        {"any gemm f32 s8 nn 1x1x1 gemm_any_reference measured=1",
         "does not support this type of B: 's8'"},
        {"any gemm-weights s8 s8 nn 1x1x1 gemm_s8_lines_8 measured=1",
         "does not support this type of A: 's8'"},
        {"any gemm-weights f32 f32 nn 1x1x1 gemm_s8_lines_8 measured=1",
         "does not support this type of B: 'f32'"},
        {"any gemm-weights f32 s8 nn 1x1x1 gemm_int_panel_8x8 measured=1", "another operation"},
        {"any gemm-weights-a8 f32 s8 nn 1x1x1 gemm_pack_f32_w8 measured=1", "another operation"},
        {"any gemm-int s8 s8 nn 1x1x1 gemm_any_reference measured=1", "another operation"},
        {"any gemm f32 f32 nn 1x1x1 gemm_s8_lines_8 measured=1", "another operation"},
        {"any gemm-int8 s8 s8 nn 1x1x1 gemm_int_panel_8x8 measured=1",
         "the operation cannot be tuned"},
        {"any gemm-weights- f32 s8 nn 1x1x1 gemm_s8_lines_8 measured=1",
         "the operation cannot be tuned"},
        {"any GEMM-INT s8 s8 nn 1x1x1 gemm_int_panel_8x8 measured=1",
         "the operation cannot be tuned"},
        {"any gemm-weights f32 s9 nn 1x1x1 gemm_s8_lines_8 measured=1", "unknown dtype: 's9'"},
        {"any gemm f32 f32 nn 1x1x1 gemm_f32_of_tomorrow measured=1",
         "unknown variant: 'gemm_f32_"},
        {"any gemm f32 f32 nn 1x1x1 gemm_any_reference:row_items=5000 measured=1", "out of range"},
        {"any gemm f32 f32 nn 1x1x1 gemm_any_reference:depth=2 measured=1", "parameter: 'depth'"},
        {"any gemm f32 f32 nn 1x1x1 softmax_f32_x1 measured=1", "unknown variant"},
        {"any gemm-weights none s8 nn 1x1x1 gemm_s8_lines_8 measured=1", "unknown dtype: 'none'"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char reason[TDM_TUNING_REASON] = "";
        tdm_tuning_row row;
        if (read_row(rows[i].text, &row, reason) != TDM_TUNING_STALE ||
            strstr(reason, rows[i].reason) == NULL)
            fail_msg("%s: '%s'", rows[i].text, reason);
    }
}

/*
 * The words of a valid row are shuffled. The row is read, stale, or corrupt with a reason, and the
 * reader never crashes (sanitizers check this).
 */
TEST(mixed_up_rows_are_survived) {
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

/* ---- devices ---- */

static const tdm_device_info cpu_device = {
    .struct_size = sizeof cpu_device,
    .selector = "opencl/pocl/pthread-AMD EPYC*4 100%",
    .type = TDM_DEVICE_CPU,
    .capabilities = TDM_CAP_CPU_CORES | TDM_CAP_HOST_AVX2 | TDM_CAP_HOST_AVX512 | TDM_CAP_HOST_BF16,
};
static const tdm_device_info gpu_device = {
    .struct_size = sizeof gpu_device,
    .selector = "opencl/rusticl/Mali-G610 (Panfrost)",
    .type = TDM_DEVICE_GPU,
    .vendor_id = 0x13b5,
};

TEST(devices_are_matched_by_class_and_pattern) {
    static const struct {
        const char *device;
        bool valid, fits_cpu, fits_gpu;
    } rows[] = {
        {"any", true, true, true},
        {"cpu", true, true, false},
        {"cpu-avx2", true, true, false},
        {"cpu-avx512", true, true, false},
        {"cpu-avx512-bf16", true, true, false},
        {"gpu", true, false, true},
        {"gpu:0x13b5", true, false, true},
        {"gpu:0x13b", true, false, false},
        {"gpu:0x", false, false, false},
        {"gpu:0x113b5113b5", false, false, false},
        {"gpu:13b5", false, false, false},
        {"pocl", false, false, false},
        {"", false, false, false},
        {"*/*", true, true, true},
        {"*/*mali*", true, false, true},
        {"*/*MALI-g*", true, false, true},
        {"opencl/rusticl/Mali-G610%20(Panfrost)", true, false, true},
        {"opencl/rusticl/Mali-G610%20(Panfrost", true, false, false},
        {"pencl/rusticl/Mali-G610%20(Panfrost)", true, false, false},
        {"opencl/pocl/*", true, true, false},
        {"opencl/pocl/pthread-AMD%20EPYC%2A4%20100%25", true, true, false},
        {"opencl/pocl/pthread-AMD%20EPYC%2A*%25", true, true, false},
        {"opencl/pocl/pthread-AMD%20EPYC%2A*%24", true, false, false},
        {"*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a/b", true, false, false},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const char *const device = rows[i].device;
        if (tdm_tuning_device_is_valid(device) != rows[i].valid)
            fail_msg("'%s' is taken for %s", device, rows[i].valid ? "nonsense" : "a device");
        if ((tdm_tuning_device_rank(device, &cpu_device) > 0) != rows[i].fits_cpu)
            fail_msg("'%s' and the CPU", device);
        if ((tdm_tuning_device_rank(device, &gpu_device) > 0) != rows[i].fits_gpu)
            fail_msg("'%s' and the GPU", device);
    }
}

TEST(closer_devices_rank_higher) {
    static const char *const cpu[] = {"any",     "cpu", "cpu-avx2", "cpu-avx512", "cpu-avx512-bf16",
                                      "*/pocl/*"};
    static const char *const gpu[] = {"any", "gpu", "gpu:0x13b5", "*/*mali*"};
    for (int i = 1; i < 6; i++)
        assert_true(tdm_tuning_device_rank(cpu[i], &cpu_device) >
                    tdm_tuning_device_rank(cpu[i - 1], &cpu_device));
    for (int i = 1; i < 4; i++)
        assert_true(tdm_tuning_device_rank(gpu[i], &gpu_device) >
                    tdm_tuning_device_rank(gpu[i - 1], &gpu_device));
}

TEST(a_device_is_written_so_that_it_fits_itself_alone) {
    char text[TDM_TUNING_DEVICE_TEXT];
    assert_true(tdm_tuning_device_write(&cpu_device, text));
    assert_string_equal(text, "opencl/pocl/pthread-AMD%20EPYC%2A4%20100%25");
    tdm_device_info other = cpu_device;
    snprintf(other.selector, sizeof other.selector, "opencl/pocl/pthread-AMD EPYC 4 100%%");
    assert_true(tdm_tuning_device_rank(text, &cpu_device) > 0);
    assert_int_equal(tdm_tuning_device_rank(text, &other), 0);
    memset(other.selector, '*', sizeof other.selector - 1); /* the longest selector */
    assert_true(tdm_tuning_device_write(&other, text));
    assert_true(tdm_tuning_device_rank(text, &other) > 0);
}

/* ---- shipped rows ---- */

static bool fits_type(int32_t wanted, tdm_dtype type) {
    return wanted == 0 || wanted == (int32_t)type;
}

TEST(every_shipped_row_is_sound) {
    assert_true(tdm_shipped_tuning_count > 0);
    for (int i = 0; i < tdm_shipped_tuning_count; i++) {
        char reason[TDM_TUNING_REASON] = "";
        tdm_tuning_row row;
        if (tdm_tuning_shipped_read(&tdm_shipped_tunings[i], &row, reason) != TDM_TUNING_OK)
            fail_msg("row %d: %s", i, reason);
        const int32_t *const p = row.choice.variant->parameters;
        if (!fits_type(p[TDM_GEMM_P_A_TYPE], row.a) || !fits_type(p[TDM_GEMM_P_B_TYPE], row.b))
            fail_msg("row %d: %s does not take its types", i, row.choice.variant->name);
    }
}

static tdm_tuning_query query_of(int64_t m, int64_t n, int64_t k, int64_t batch) {
    return (tdm_tuning_query){
        .op = TDM_OP_GEMM, .a = TDM_F32, .b = TDM_F32, .shape = {m, n, k, batch}};
}

static const char *shipped_choice(tdm_device_info info) {
    info.struct_size = sizeof info;
    setenv("TANDEM_TUNING_FILE", "off", 1);
    tdm_tuning_table *const table = tdm_tuning_open(&info);
    const tdm_tuning_query query = query_of(1024, 1024, 1024, 1);
    const tdm_tuning_row *const row = tdm_tuning_find(table, &query);
    const char *const name = row ? row->choice.variant->name : "none";
    tdm_tuning_close(table);
    return name;
}

TEST(kinds_of_devices_have_their_shipped_rows) {
    const tdm_device_info nothing = {.selector = "a/b/c", .type = TDM_DEVICE_OTHER};
    tdm_device_info info = cpu_device;
    assert_string_equal(shipped_choice(info), "gemm_f32_panel_6x64__avx512");
    info.capabilities &= ~(uint32_t)TDM_CAP_HOST_AVX512;
    assert_string_equal(shipped_choice(info), "gemm_f32_panel_6x16__avx2");
    info.capabilities &= ~(uint32_t)TDM_CAP_HOST_AVX2;
    assert_string_equal(shipped_choice(info), "gemm_f32_panel_8x8");
    assert_string_equal(shipped_choice(gpu_device), "gemm_f32_tiled_32x32");
    info = (tdm_device_info){.selector = "a/b/c", .type = TDM_DEVICE_GPU};
    assert_string_equal(shipped_choice(info), "gemm_f32_tiled_64x64");
    info.vendor_id = 0x10de;
    assert_string_equal(shipped_choice(info), "gemm_f32_tiled_128x128");
    info.vendor_id = 0x1002;
    assert_string_equal(shipped_choice(info), "gemm_f32_tiled_128x128");
    info.vendor_id = 0x8086;
    assert_string_equal(shipped_choice(info), "gemm_f32_tiled_64x64");
    snprintf(info.selector, sizeof info.selector, "opencl/qualcomm/QUALCOMM Adreno(TM) 740");
    assert_string_equal(shipped_choice(info), "gemm_f32_tiled_64x64_single");
    assert_string_equal(shipped_choice(nothing), "none");
}

/* ---- files ---- */

static void write_bytes(const char *bytes, size_t count) {
    unlink(path);
    test_file_write(path, bytes, count);
    assert_int_equal(chmod(path, 0600), 0);
}

static void write_text(const char *text) {
    write_bytes(text, strlen(text));
}

#define HEADER "tandem-tuning 1\n"
#define ROW(device, shape, choice) device " gemm f32 f32 any " shape " " choice " measured=1000\n"

TEST(a_file_gives_its_rows) {
    write_text(
        HEADER "# a comment\n\n   \n  # another\n" ROW("any", "8x9x10", "gemm_any_reference") ROW(
            "*/pocl/*", "1x*x3x96",
            "gemm_any_reference:row_items=2") "cpu  gemm f16   bf16 tn 1x1x1x1 gemm_any_reference "
                                              "not-measured"); /* no newline */
    tdm_tuning_file file;
    assert_int_equal(tdm_tuning_file_read(path, &file), TDM_TUNING_FILE_READ);
    assert_string_equal(file.message, "");
    assert_int_equal(file.count, 3);
    assert_int_equal(file.stale, 0);
    const tdm_tuning_row *const row = &file.rows[1];
    assert_string_equal(row->device, "*/pocl/*");
    assert_int_equal(row->line, 7);
    assert_int_equal(row->ns, 1000);
    assert_int_equal(row->shape[TDM_TUNING_M], 1);
    assert_int_equal(row->shape[TDM_TUNING_N], 0);
    assert_int_equal(row->shape[TDM_TUNING_K], 3);
    assert_int_equal(row->shape[TDM_TUNING_BATCH], 96);
    assert_int_equal(row->choice.values[TDM_TUNE_ROW_ITEMS], 2);
    assert_int_equal(file.rows[0].shape[TDM_TUNING_BATCH], 1);
    assert_int_equal(file.rows[2].ns, 0);
    assert_int_equal(file.rows[2].b, TDM_BF16);
    assert_int_equal(file.rows[2].layout, tdm_tuning_layout(true, false));
    assert_int_equal(row->layout, TDM_TUNING_LAYOUT_ANY);
    char line[TDM_TUNING_LINE];
    assert_true(tdm_tuning_row_write(row, line));
    assert_string_equal(line, "*/pocl/* gemm f32 f32 any 1x*x3x96 gemm_any_reference:row_items=2 "
                              "measured=1000");
    tdm_tuning_file_release(&file);
}

static const refused_text bad_files[] = {
    {"", 0, ": line 1: the first line is not"},
    {"\n" HEADER, 0, ": line 1: the first line is not"},
    {"tandem-tuning\n", 0, ": line 1: the first line is not"},
    {"tandem-tuning 2\n", 0, ": line 1: the file has a format version"},
    {"tandem-tuning 1 \n", 0, ": line 1: the file has a format version"},
    {"tandem-tuning 11\n", 0, ": line 1: the file has a format version"},
    {"\xef\xbb\xbf" HEADER, 0, ": line 1: the first line is not"},
    {"tandem-tuning 1\r\n", 0, ": line 1: the line contains a control character"},
    {HEADER "x\ty\n", 0, ": line 2: the line contains a control character"},
    {HEADER "any\n", 0, ": line 2: the row has 1 fields, must have 8"},
    {HEADER "\n\nany gemm f32 f32 nn 1x1x1 gemm_any_reference\n", 0,
     ": line 4: the row has 7 fields"},
    {HEADER "any gemm f32 f32 nn 1x1x1 gemm_any_reference measured=1 more\n", 0,
     ": line 2: the row has too many fields: 'more'"},
    {HEADER ROW("everywhere", "1x1x1", "gemm_any_reference"), 0,
     ": line 2: the device is neither a class nor a pattern: 'everywhere'"},
    {HEADER "any gemm f32 f32 xn 1x1x1 gemm_any_reference measured=1\n", 0,
     ": line 2: the layout is not one of nn, nt, tn, tt, any: 'xn'"},
    {HEADER ROW("any", "1x1", "gemm_any_reference"), 0, ": line 2: the shape is not"},
    {HEADER ROW("any", "1x1x1x1x1", "gemm_any_reference"), 0, ": line 2: the shape is not"},
    {HEADER ROW("any", "1x1x0", "gemm_any_reference"), 0, ": line 2: the shape is not"},
    {HEADER ROW("any", "1x1x-1", "gemm_any_reference"), 0, ": line 2: the shape is not"},
    {HEADER ROW("any", "1x1x", "gemm_any_reference"), 0, ": line 2: the shape is not"},
    {HEADER ROW("any", "1x1x99999999999999999999", "gemm_any_reference"), 0,
     ": line 2: the shape is not"},
    {HEADER ROW("any", "1x1x9999999999999999", "gemm_any_reference"), 0,
     ": line 2: the shape is not"},
    {HEADER "any gemm f32 f32 nn 1x1x1 gemm_any_reference measured=0\n", 0,
     ": line 2: the time is neither"},
    {HEADER "any gemm f32 f32 nn 1x1x1 gemm_any_reference measured=1e3\n", 0,
     ": line 2: the time is neither"},
    {HEADER "any gemm f32 f32 nn 1x1x1 gemm_any_reference measured=\n", 0,
     ": line 2: the time is neither"},
    {HEADER "any gemm f32 f32 nn 1x1x1 gemm_any_reference measured=99999999999999999999\n", 0,
     ": line 2: the time is neither"},
    {HEADER "any gemm f32 f32 nn 1x1x1 gemm_any_reference fast\n", 0,
     ": line 2: the time is neither"},
    {HEADER ROW("any", "1x1x1", "gemm_any_reference") "garbage\n", 0,
     ": line 3: the row has 1 fields"},
    {HEADER ROW("any", "1x1x1", "gemm_any_reference:row_items=1,row_items=1"), 0,
     ": line 2: the parameter is given twice"},
};

static void expect_refused(const char *reason) {
    tdm_tuning_file file;
    const tdm_tuning_file_state state = tdm_tuning_file_read(path, &file);
    if (state != TDM_TUNING_FILE_REFUSED || !strstr(file.message, reason))
        fail_msg("expected '%s', got %d: %s", reason, (int)state, file.message);
    assert_true(strncmp(file.message, path, strlen(path)) == 0);
    assert_int_equal(file.count, 0);
    assert_null(file.text);
    assert_null(file.rows);
}

TEST(a_corrupt_file_is_refused_with_line_and_reason) {
    for (size_t i = 0; i < sizeof bad_files / sizeof bad_files[0]; i++) {
        write_text(bad_files[i].text);
        expect_refused(bad_files[i].reason);
    }
    static const char zeros[] = HEADER "any\0gemm\n";
    write_bytes(zeros, sizeof zeros - 1);
    expect_refused("zero bytes");
}

TEST(rows_of_another_library_are_passed_over) {
    tdm_tuning_file file;
    write_text(HEADER ROW("any", "1x1x1", "gemm_f32_of_tomorrow")
                   ROW("any", "2x2x2", "gemm_any_reference"));
    assert_int_equal(tdm_tuning_file_read(path, &file), TDM_TUNING_FILE_READ);
    assert_true(file.count == 1 && file.stale == 1);
    assert_non_null(strstr(file.message, ": line 2: "));
    assert_non_null(strstr(file.message, "unknown variant: 'gemm_f32_of_tomorrow'"));
    tdm_tuning_file_release(&file);
}

TEST(a_file_that_is_too_large_is_refused) {
    char *const bytes = malloc(TDM_TUNING_MAX_BYTES + 1);
    assert_non_null(bytes);
    memset(bytes, '#', TDM_TUNING_MAX_BYTES + 1);
    const size_t header = (size_t)snprintf(bytes, TDM_TUNING_MAX_BYTES, "%s", HEADER);
    bytes[header] = '#';
    write_bytes(bytes, TDM_TUNING_MAX_BYTES + 1);
    expect_refused("larger than 1 MiB");
    write_bytes(bytes, TDM_TUNING_MAX_BYTES); /* one endless line */
    expect_refused(": line 2: the line is too long");
    memset(bytes + header, '\n', TDM_TUNING_MAX_BYTES - header);
    tdm_tuning_file file;
    write_bytes(bytes, TDM_TUNING_MAX_BYTES); /* a million empty lines contain no row */
    assert_int_equal(tdm_tuning_file_read(path, &file), TDM_TUNING_FILE_READ);
    assert_int_equal(file.count, 0);
    tdm_tuning_file_release(&file);
    size_t used = header;
    for (int i = 0; i < TDM_TUNING_MAX_ROWS; i++)
        used += (size_t)snprintf(bytes + used, TDM_TUNING_MAX_BYTES - used, "%s",
                                 ROW("any", "2x2x2", "gemm_any_reference"));
    write_bytes(bytes, used);
    assert_int_equal(tdm_tuning_file_read(path, &file), TDM_TUNING_FILE_READ);
    assert_int_equal(file.count, TDM_TUNING_MAX_ROWS);
    tdm_tuning_file_release(&file);
    used += (size_t)snprintf(bytes + used, TDM_TUNING_MAX_BYTES - used, "%s",
                             ROW("any", "2x2x2", "gemm_any_reference"));
    write_bytes(bytes, used);
    expect_refused(": line 4098: the file has too many rows");
    free(bytes);
}

/* The reader refuses or reads files of random bytes, and never crashes (sanitizers check this). */
TEST(a_file_of_random_bytes_is_survived) {
    static const char good[] = HEADER ROW("*/pocl/*", "1x*x3x96", "gemm_any_reference:row_items=2")
        ROW("cpu", "64x64x64", "gemm_any_reference");
    uint32_t seed = 20240607;
    for (int round = 0; round < 400; round++) {
        char bytes[sizeof good];
        memcpy(bytes, good, sizeof good);
        for (int i = 0; i <= round % 4; i++) {
            seed = seed * 1664525u + 1013904223u;
            bytes[(seed >> 8) % (sizeof good - 1)] = (char)(seed >> 24);
        }
        write_bytes(bytes, (size_t)(round % 5 == 0 ? seed % sizeof good : sizeof good - 1));
        tdm_tuning_file file;
        if (tdm_tuning_file_read(path, &file) == TDM_TUNING_FILE_REFUSED)
            assert_string_not_equal(file.message, "");
        tdm_tuning_file_release(&file);
    }
}

TEST(what_is_no_private_file_is_refused) {
    tdm_tuning_file file;
    unlink(path);
    assert_int_equal(tdm_tuning_file_read(path, &file), TDM_TUNING_FILE_ABSENT);
    assert_int_equal(tdm_tuning_file_read("", &file), TDM_TUNING_FILE_ABSENT);
    assert_int_equal(mkdir(path, 0700), 0);
    expect_refused("not a regular file");
    assert_int_equal(rmdir(path), 0);
    assert_int_equal(mkfifo(path, 0600), 0);
    expect_refused("not a regular file");
    unlink(path);
    assert_int_equal(symlink(path, path), 0);
    expect_refused("symbolic links");
    unlink(path);
    assert_int_equal(symlink("/dev/zero", path), 0);
    expect_refused("not a regular file");
    write_text(HEADER);
    assert_int_equal(chmod(path, 0620), 0);
    expect_refused("other users may write to the file");
    assert_int_equal(chmod(path, 0602), 0);
    expect_refused("other users may write to the file");
    assert_int_equal(chmod(path, 0644), 0);
    assert_int_equal(tdm_tuning_file_read(path, &file), TDM_TUNING_FILE_READ);
    tdm_tuning_file_release(&file);
    if (geteuid() != 0) { /* only root can change a file's owner, and root reads every file */
        assert_int_equal(chmod(path, 0200), 0);
        expect_refused("ermission");
        return;
    }
    assert_int_equal(chown(path, 65534, 65534), 0);
    expect_refused("the file belongs to another user");
}

/* ---- the path of the user's file ---- */

static void set_variable(const char *name, const char *value) {
    if (value)
        setenv(name, value, 1);
    else
        unsetenv(name);
}

static void expect_path(const char *own, const char *config, const char *home, const char *expected,
                        bool named) {
    bool is_named;
    set_variable("TANDEM_TUNING_FILE", own);
    set_variable("XDG_CONFIG_HOME", config);
    set_variable("HOME", home);
    char *const found = tdm_tuning_path(&is_named);
    assert_string_equal(found ? found : "none", expected ? expected : "none");
    assert_int_equal(is_named, named);
    tdm_host_free(found);
}

TEST(the_users_file_has_its_place) {
    char *const home = strdup(getenv("HOME") ? getenv("HOME") : "/");
    expect_path("mine.txt", "/config", "/home/me", "mine.txt", true);
    expect_path("off", "/config", "/home/me", NULL, true);
    expect_path(NULL, "/config", "/home/me", "/config/tandem/tuning.txt", false);
    expect_path("", "", "/home/me", "/home/me/.config/tandem/tuning.txt", false);
    expect_path(NULL, "relative", "/home/me", "/home/me/.config/tandem/tuning.txt", false);
    expect_path(NULL, NULL, "relative", NULL, false);
    expect_path(NULL, NULL, NULL, NULL, false);
    setenv("HOME", home, 1);
    free(home);
}

/* ---- the nearest row ---- */

/* Returns the line of the row that is found in the user's file for a shape. Returns 0 for a shipped
 * row and -1 for none. */
static int found_line(const tdm_device_info *info, tdm_tuning_query query) {
    setenv("TANDEM_TUNING_FILE", path, 1);
    tdm_tuning_table *const table = tdm_tuning_open(info);
    assert_non_null(table);
    const tdm_tuning_row *const row = tdm_tuning_find(table, &query);
    const int line = row ? row->line : -1;
    tdm_tuning_close(table);
    return line;
}

TEST(the_nearest_row_is_found) {
    write_text(HEADER ROW("cpu", "100x100x100", "gemm_any_reference") /* line 2 */
               ROW("cpu", "200x100x100", "gemm_any_reference")        /* 3 */
               ROW("cpu", "100x100x100x64", "gemm_any_reference")     /* 4 */
               ROW("cpu", "10000x*x*", "gemm_any_reference")          /* 5 */
               ROW("cpu", "10000x10000x10000", "gemm_any_reference")  /* 6 */
               ROW("gpu", "100x100x100", "gemm_any_reference")        /* 7 */
               ROW("cpu-avx2", "3000x3x2", "gemm_any_reference")      /* 8 */
               ROW("cpu", "3000x3x3", "gemm_any_reference"));         /* 9 */
    const tdm_device_info *const cpu = &cpu_device;
    assert_int_equal(found_line(cpu, query_of(100, 100, 100, 1)), 2);
    assert_int_equal(found_line(cpu, query_of(141, 100, 100, 1)), 2); /* factor below √2 */
    assert_int_equal(found_line(cpu, query_of(142, 100, 100, 1)), 3);
    assert_int_equal(found_line(cpu, query_of(400, 100, 100, 1)), 3);
    assert_int_equal(found_line(cpu, query_of(401, 100, 100, 1)), 0); /* too far from every row */
    assert_int_equal(found_line(cpu, query_of(50, 50, 50, 1)), 2);
    assert_int_equal(found_line(cpu, query_of(49, 50, 50, 1)), 0);
    assert_int_equal(found_line(cpu, query_of(100, 100, 100, 40)), 4);
    assert_int_equal(found_line(cpu, query_of(9000, 9000, 9000, 1)), 6); /* a row with "*" is far */
    assert_int_equal(found_line(cpu, query_of(9000, 2, 700000, 1)), 5);
    assert_int_equal(found_line(cpu, query_of(3000, 3, 3, 1)), 8); /* the more specific device */
    assert_int_equal(found_line(cpu, query_of(0, 0, 0, 0)), 0);
    assert_int_equal(found_line(&gpu_device, query_of(100, 100, 100, 1)), 7);
    tdm_tuning_query query = query_of(100, 100, 100, 1);
    query.b = TDM_F16;
    assert_int_equal(found_line(cpu, query), -1); /* no shipped row either */
}

/*
 * Rows for another layout are not used. Among the others, a row that names the layout comes first.
 */
TEST(the_layout_counts) {
    write_text(HEADER ROW(
        "cpu", "100x100x100",
        "gemm_any_reference") "cpu gemm f32 f32 nt 100x100x100 gemm_any_reference measured=1\n"
                              "cpu gemm f32 f32 tn 500x500x500 gemm_any_reference measured=1\n");
    tdm_tuning_query query = query_of(100, 100, 100, 1);
    assert_int_equal(found_line(&cpu_device, query), 2);
    query.layout = tdm_tuning_layout(false, true);
    assert_int_equal(found_line(&cpu_device, query), 3);
    query.layout = tdm_tuning_layout(true, true);
    assert_int_equal(found_line(&cpu_device, query), 2);
    query = query_of(500, 500, 500, 1);
    assert_int_equal(found_line(&cpu_device, query), 0);
    query.layout = tdm_tuning_layout(true, false);
    assert_int_equal(found_line(&cpu_device, query), 4);
}

TEST(operations_do_not_share_rows) {
    static const struct {
        tdm_op op;
        int quantize_a;
        tdm_dtype a, b;
        int line;
    } rows[] = {
        {TDM_OP_GEMM_INT, 0, TDM_S8, TDM_S8, 2},
        {TDM_OP_GEMM_INT, 0, TDM_U8, TDM_S8, 3},
        {TDM_OP_GEMM_WEIGHTS, 0, TDM_F32, TDM_S8, 4},
        {TDM_OP_GEMM_WEIGHTS, 1, TDM_F32, TDM_S8, 5},
        {TDM_OP_GEMM_WEIGHTS, 0, TDM_F32, TDM_S4, 6},
        {TDM_OP_GEMM_WEIGHTS, 1, TDM_F32, TDM_S4, -1},
        {TDM_OP_GEMM_WEIGHTS, 0, TDM_F16, TDM_S8, -1},
        {TDM_OP_GEMM, 0, TDM_F32, TDM_F32, 0},
    };
    write_text(HEADER "cpu gemm-int s8 s8 any 8x64x64 gemm_int_panel_8x8 measured=1\n"
                      "cpu gemm-int u8 s8 any 8x64x64 gemm_int_panel_8x8 measured=1\n"
                      "cpu gemm-weights f32 s8 any 8x64x64 gemm_s8_lines_8 measured=1\n"
                      "cpu gemm-weights-a8 f32 s8 any 8x64x64 gemm_s8_lines_8 measured=1\n"
                      "cpu gemm-weights f32 s4 any 8x64x64 gemm_s4_lines_8 measured=1\n"
                      "cpu gemm-3xtf32 f32 f32 any 8x64x64 gemm_any_reference measured=1\n");
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        tdm_tuning_query query = query_of(8, 64, 64, 1);
        query.op = rows[i].op;
        query.quantize_a = rows[i].quantize_a != 0;
        query.a = rows[i].a;
        query.b = rows[i].b;
        assert_int_equal(found_line(&cpu_device, query), rows[i].line);
    }
}

/* A refused file leaves the shipped rows in use, and its reason is logged once. */
static char logged[1024];
static int log_lines;

static void keep_log(void *user, tdm_log_level level, const char *topic, const char *message) {
    (void)user;
    if (strcmp(topic, "tuning") != 0 || level > TDM_LOG_WARNING)
        return;
    log_lines++;
    snprintf(logged, sizeof logged, "%s", message);
}

static void expect_log(const char *text) {
    log_lines = 0;
    logged[0] = '\0';
    tdm_set_log(keep_log, NULL);
    assert_int_equal(found_line(&cpu_device, query_of(100, 100, 100, 1)), 0);
    tdm_set_log(NULL, NULL);
    assert_int_equal(log_lines, text ? 1 : 0);
    if (text && !strstr(logged, text))
        fail_msg("expected '%s' in '%s'", text, logged);
}

TEST(a_refused_file_leaves_the_shipped_rows) {
    write_text(bad_files[0].text);
    expect_log(bad_files[0].reason);
    write_text(HEADER ROW("any", "100x100x100", "gemm_gone") ROW("any", "1x1x1", "gemm_gone"));
    expect_log("line 2: unknown variant: 'gemm_gone'; rows skipped: 2");
    write_text(HEADER);
    expect_log(NULL);
    unlink(path);
    expect_log("there is no such file");
}

TEST_MAIN(make_folder, test_folder_remove)
