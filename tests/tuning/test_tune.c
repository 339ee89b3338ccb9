/*
 * Tests the parts of `tandem tune`: the search space, the search, faulty workers, and the tuning
 * file.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "api/gemm/gemm_internal.h"
#include "bench/tune/tune_run.h"
#include "common/command/cli_options.h"
#include "tests/support/test_case.h"
#include "tests/support/test_folder.h"
#include "tests/support/test_program.h"

static char path[TEST_PATH];   /* of the tuning file */
static char script[TEST_PATH]; /* of the worker */

static int make_folder(void **state) {
    if (test_folder_make(state) != 0)
        return -1;
    test_folder_path(path, "sub/folder/tuning.txt");
    test_folder_path(script, "worker");
    return 0;
}

static char *read_file(const char *name) {
    static char text[8192];
    FILE *const file = fopen(name, "r");
    assert_non_null(file);
    text[fread(text, 1, sizeof text - 1, file)] = '\0';
    fclose(file);
    return text;
}

/* ---- the search space ---- */

static const tdm_device_info cpu = {
    .struct_size = sizeof cpu,
    .selector = "a/b/c d",
    .type = TDM_DEVICE_CPU,
    .capabilities = TDM_CAP_CPU_CORES | TDM_CAP_HOST_AVX2,
    .max_group_items = 4096,
    .local_bytes = 1 << 20,
};
static const gemm_case cube = {.types = GEMM_F32, .m = 512, .n = 512, .k = 512};

static int space_has(const tune_space *space, const char *name) {
    for (int i = 0; i < space->row_count; i++)
        if (strcmp(space->rows[i].variant->name, name) == 0)
            return 1;
    return 0;
}

#define CPU (TDM_CAP_CPU_CORES | TDM_CAP_CORRECT_DIVIDE | TDM_CAP_HOST_AVX2 | TDM_CAP_HOST_ASSEMBLY)
#define VNNI (CPU | TDM_CAP_HOST_AVX512 | TDM_CAP_HOST_VNNI)
#define TENSOR (TDM_CAP_CUDA | TDM_CAP_TENSOR_CORES | TDM_CAP_ASYNC_COPY)

/*
 * Each row lists variants that a device must try and must not try for a GEMM with B transposed. The
 * device is given by its capabilities, work-items per group and bytes of local memory.
 */
static const struct {
    uint32_t capabilities, items;
    uint64_t local_bytes;
    gemm_types types;
    int64_t m, n, k;
    const char *tried, *not_tried;
} spaces[] = {
    {CPU, 4096, 1 << 20, GEMM_F32, 512, 512, 512,
     "gemm_f32_panel_6x16__avx2 gemm_f32_tiled_128x128",
     "gemm_f32_panel_12x32__avx512 gemm_f16_panel_6x16__avx2 gemm_any_reference "
     "gemm_f32_small_m_16__avx2"},
    {CPU, 128, 1 << 20, GEMM_F32, 512, 512, 512, "gemm_f32_tiled_32x32", "gemm_f32_tiled_128x128"},
    {CPU, 128, 1024, GEMM_F32, 512, 512, 512, "", "gemm_f32_tiled_32x32"},
    {CPU, 4096, 1 << 20, GEMM_F32, 512, 4, 512, "gemm_f32_small_m_16__avx2", ""},
    {CPU, 4096, 1 << 20, GEMM_F16, 4, 4, 4, "gemm_any_reference gemm_f16_panel_8x8", ""},
    {CPU, 4096, 1 << 20, GEMM_U8S8, 512, 512, 512,
     "gemm_int_panel_6x8__avx2 gemm_int_panel_8x8 gemm_int_tiled_64x64",
     "gemm_int_panel_6x64__vnni gemm_int_tiled_64x64__khr_dot gemm_int_any_reference "
     "gemm_f32_panel_8x8 gemm_s8_lines_8"},
    {CPU, 64, 12000, GEMM_S8, 512, 512, 512, "gemm_int_tiled_32x32",
     "gemm_int_panel_8x8 gemm_int_tiled_64x64"},
    /* f32 operands are split into three TF32 products only if the case allows it. */
    {TENSOR, 4096, 1 << 20, GEMM_F32, 512, 512, 512, "", "gemm_f32_3xtf32_64x64__tensor"},
    {TENSOR, 4096, 1 << 20, GEMM_W8, 512, 512, 512, "", "gemm_f32_3xtf32_64x64__tensor"},
    {TENSOR, 4096, 1 << 20, GEMM_3XTF32, 512, 512, 512,
     "gemm_f32_3xtf32_64x64__tensor gemm_f32_simt_64x64__async", ""},
    /* Weights are multiplied as they are, or unpacked first. */
    {CPU, 4096, 1 << 20, GEMM_W8, 8, 512, 512, "gemm_s8_lines_8 gemm_f32_panel_6x16__avx2",
     "gemm_s4_lines_8 gemm_f16_panel_6x16__avx2 gemm_weights_any_reference gemm_int_panel_8x8"},
    {CPU, 4096, 1 << 20, GEMM_W4, 8, 512, 512, "gemm_s4_lines_8", "gemm_s8_lines_8"},
    {CPU, 4096, 1 << 20, GEMM_W8, 512, 512, 512, "gemm_f32_panel_6x16__avx2", "gemm_s8_lines_8"},
    /* If rows of A are quantized, integer kernels are tried too. */
    {VNNI, 4096, 1 << 20, GEMM_W8, 8, 512, 512, "", "gemm_s8_lines_8__vnni"},
    {VNNI, 4096, 1 << 20, GEMM_W8A8, 8, 512, 512,
     "gemm_s8_lines_8__vnni gemm_s8_lines_8 gemm_int_panel_6x64__vnni gemm_f32_panel_8x8",
     "gemm_s4_lines_8__vnni"},
    {VNNI, 4096, 1 << 20, GEMM_W4A8, 8, 512, 512, "gemm_s4_lines_8__vnni gemm_f32_panel_8x8",
     "gemm_int_panel_8x8"},
};

TEST(only_rows_that_can_run_are_tried) {
    static tune_space space;
    for (size_t i = 0; i < sizeof spaces / sizeof spaces[0]; i++) {
        tdm_device_info device = cpu;
        const gemm_case item = {.types = spaces[i].types,
                                .m = spaces[i].m,
                                .n = spaces[i].n,
                                .k = spaces[i].k,
                                .transpose_b = 1};
        device.capabilities = spaces[i].capabilities;
        device.max_group_items = spaces[i].items;
        device.local_bytes = spaces[i].local_bytes;
        tune_space_fill(&space, &device, &item);
        assert_in_range(space.row_count, 1, TUNE_MAX_ROWS - 1);
        for (int wanted = 0; wanted < 2; wanted++) {
            const char *names = wanted ? spaces[i].tried : spaces[i].not_tried;
            char name[64];
            while (cli_next_word(&names, ' ', name, sizeof name) == 1)
                if (space_has(&space, name) != wanted)
                    fail_msg("space %zu: %s %s", i, name, wanted ? "is missing" : "is tried");
        }
    }
}

/* Integer panel kernels vary the rows per work-item and the packing, which has three values. Other
 * integer kernels vary neither. */
TEST(integers_have_their_parameters) {
    static tune_space space;
    const gemm_case item = {.types = GEMM_U8S8, .m = 512, .n = 512, .k = 512};
    tune_space_fill(&space, &cpu, &item);
    for (int i = 0; i < space.row_count; i++) {
        const tune_row *const row = &space.rows[i];
        const int is_panel = row->variant->parameters[TDM_GEMM_P_FAMILY] == TDM_GEMM_PANEL;
        assert_int_equal(row->value_count[TDM_TUNE_ROW_ITEMS] > 1, is_panel);
        assert_int_equal(row->value_count[TDM_TUNE_PACK_B], is_panel ? 3 : 1);
        assert_int_equal(row->value_count[TDM_TUNE_SPLIT_K], 1);
    }
}

/* Checks a choice. Writing and reading it as text must give the same choice. */
static void expect_sound(const tune_space *space, const tdm_choice *choice) {
    char text[TDM_CHOICE_TEXT];
    char reason[TDM_TUNING_REASON] = "";
    tdm_choice again;
    assert_true(space_has(space, choice->variant->name));
    if (tdm_choice_read(tdm_choice_write(choice, text), &again, reason) != TDM_TUNING_OK)
        fail_msg("%s: %s", text, reason);
    assert_true(tune_choice_equal(choice, &again));
    for (int i = 0; i < TDM_TUNE_PARAMETERS; i++)
        assert_true(choice->values[i] == 0 ||
                    tdm_gemm_takes(choice->variant, (tdm_tune_parameter)i));
}

/* ---- the search ---- */

/* On this device a formula gives the times, with a minimum at one point. One variant fails, and
 * some are refused. */
typedef struct formula {
    const char *row; /* the fastest variant */
    int32_t rows, columns;
    int calls, left;
    const char *failing; /* this variant fails */
} formula;

static double apart(int32_t value, int32_t wanted) {
    return fabs(log2((double)(value > 0 ? value : 1)) - log2((double)wanted));
}

static tune_verdict evaluate(void *user, const tdm_choice *choice, double limit, double *seconds) {
    formula *const own = user;
    own->calls++;
    own->left--;
    (void)limit;
    if (strcmp(choice->variant->name, own->failing) == 0)
        return TUNE_FAILED;
    if (choice->variant->parameters[TDM_GEMM_P_FAMILY] == TDM_GEMM_TILED)
        return TUNE_REFUSED;
    *seconds = 1 + (strcmp(choice->variant->name, own->row) != 0 ? 5 : 0) +
               apart(choice->values[TDM_TUNE_ROW_ITEMS], own->rows) +
               apart(choice->values[TDM_TUNE_COL_ITEMS], own->columns) +
               (choice->values[TDM_TUNE_PACK_B] == TDM_TUNE_PACK_INSIDE ? 0 : 0.5);
    return TUNE_MEASURED;
}

static double trials_left(void *user) {
    return ((const formula *)user)->left;
}

static void search_for(formula *device, tune_search *search) {
    static tune_space space;
    tune_space_fill(&space, &cpu, &cube);
    *search = (tune_search){
        .space = &space, .measure = evaluate, .user = device, .seconds_left = trials_left};
    tune_search_run(search);
    assert_int_equal(device->calls, search->trials);
}

TEST(the_search_finds_the_bottom) {
    static tune_search search;
    formula device = {.row = "gemm_f32_panel_4x24__avx2",
                      .rows = 12,
                      .columns = 4,
                      .left = 10000,
                      .failing = "gemm_f32_panel_8x8"};
    search_for(&device, &search);
    assert_true(search.best >= 0);
    const tdm_choice *const best = &search.tried[search.best];
    assert_string_equal(best->variant->name, "gemm_f32_panel_4x24__avx2");
    assert_int_equal(best->values[TDM_TUNE_ROW_ITEMS], 12);
    assert_int_equal(best->values[TDM_TUNE_COL_ITEMS], 4);
    assert_int_equal(best->values[TDM_TUNE_PACK_B], TDM_TUNE_PACK_INSIDE);
    assert_true(search.seconds[search.best] == 1.0);
    assert_true(search.failures > 0);
    for (int i = 0; i < search.trials; i++) {
        expect_sound(search.space, &search.tried[i]);
        for (int j = 0; j < i; j++)
            assert_false(tune_choice_equal(&search.tried[i], &search.tried[j]));
    }
}

TEST(the_search_ends_with_its_time) {
    static tune_search search;
    for (int left = 0; left < 20; left++) {
        formula device = {.row = "gemm_f32_panel_6x16__avx2",
                          .rows = 8,
                          .columns = 1,
                          .left = left,
                          .failing = "gemm_f32_panel_4x24__avx2"};
        search_for(&device, &search);
        assert_int_equal(search.trials, left);
        assert_int_equal(search.best >= 0, left > 0);
    }
}

/* ---- faulty workers ---- */

/*
 * This worker is a shell script that reads which variant to run. Two variants work, at different
 * speeds. The others fail in different ways.
 */
static const char worker_text_of_shell[] =
    "#!/bin/sh\n"
    "echo 'ready protocol=1 impl=fake'\n"
    "variant=none\n"
    "while read -r word rest; do case $word in\n"
    "describe)\n"
    "  variant=gemm_f32_panel_6x16__avx2; time=2e-3\n"
    "  case $rest in *variant=*) variant=${rest##*variant=}; variant=${variant%% *} ;; esac\n"
    "  case $variant in\n"
    "  gemm_f32_panel_8x8) kill -SEGV $$ ;;\n"
    "  gemm_f32_tiled_128x128) sleep 100 ;;\n"
    "  gemm_f32_tiled_64x64) echo 'fail the compiler says no' ; continue ;;\n"
    "  gemm_f32_tiled_32x32) echo 'skip not for this' ; continue ;;\n"
    "  gemm_f32_panel_4x24__avx2) time=1e-3 ;;\n"
    "  gemm_f32_panel_4x24__avx2:*) time=9e-3 ;;\n"
    "  esac\n"
    "  echo \"ok variant=$variant\" ;;\n"
    "run) n=${rest#samples=}; n=${n%% *}; line=ok\n"
    "  while [ $n -gt 0 ]; do line=\"$line $time\"; n=$((n - 1)); done; echo \"$line\" ;;\n"
    "result) case $variant in *row_items*) out=wrong ;; *) out=right ;; esac\n"
    "  cat \"${0%/*}/$out\" >/dev/fd/3; echo \"ok bytes=$(wc -c <\"${0%/*}/right\")\" ;;\n"
    "quit) exit 0 ;;\n"
    "esac; done\n";

static int verify_ok(const void *user, const void *bytes, size_t size, double *max_error,
                     worker_text *reason) {
    (void)user;
    *max_error = 0;
    if (size == 2 && memcmp(bytes, "ok", 2) == 0)
        return 0;
    worker_text_set(reason, "not ok");
    return -1;
}

/* Writes the right and the wrong output that the worker returns. */
static void write_outputs(const void *right, const void *wrong, size_t bytes) {
    char name[TEST_PATH];
    test_file_write(test_folder_path(name, "right"), right, bytes);
    test_file_write(test_folder_path(name, "wrong"), wrong, bytes);
}

static tune_bench make_bench(void) {
    test_text_write(script, worker_text_of_shell, 0700);
    write_outputs("ok", "no", 2);
    return (tune_bench){.program = script,
                        .request = "suite=gemm",
                        .verify = verify_ok,
                        .timeout_s = 0.5 * test_time_factor(),
                        .sample_seconds = 0.002,
                        .samples = 2};
}

typedef struct sick_choice {
    const char *text;
    tune_verdict verdict;
    const char *reason;
} sick_choice;

TEST(a_sick_candidate_is_noted_and_survived) {
    static const sick_choice rows[] = {
        {"gemm_f32_panel_8x8", TUNE_FAILED, "died of signal 11"},
        {"gemm_f32_tiled_128x128", TUNE_FAILED, "no answer within "},
        {"gemm_f32_tiled_64x64", TUNE_FAILED, "the compiler says no"},
        {"gemm_f32_tiled_32x32", TUNE_REFUSED, "not for this"},
        {"gemm_f32_panel_6x16__avx2:row_items=2", TUNE_FAILED, "wrong result: not ok"},
    };
    tune_bench bench = make_bench();
    tdm_choice good;
    char reason[TDM_TUNING_REASON];
    double seconds = 0;
    assert_int_equal(tdm_choice_read("gemm_f32_panel_6x16__avx2", &good, reason), TDM_TUNING_OK);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        tdm_choice choice;
        assert_int_equal(tdm_choice_read(rows[i].text, &choice, reason), TDM_TUNING_OK);
        const tune_verdict verdict = tune_bench_measure(&bench, &choice, INFINITY, &seconds);
        if (verdict != rows[i].verdict || strstr(bench.reason.text, rows[i].reason) == NULL)
            fail_msg("%s: %d, %s", rows[i].text, (int)verdict, bench.reason.text);
        /* The failure must not affect the next measurement. */
        assert_int_equal(tune_bench_measure(&bench, &good, INFINITY, &seconds), TUNE_MEASURED);
        assert_true(fabs(seconds - 2e-3) < 1e-9);
    }
    tune_bench_close(&bench);
    bench.program = "/nonexistent/worker";
    assert_int_equal(tune_bench_measure(&bench, &good, INFINITY, &seconds), TUNE_FAILED);
    assert_non_null(strstr(bench.reason.text, "cannot start"));
}

TEST(the_best_is_compared_with_the_librarys_own_choice) {
    tune_bench bench = make_bench();
    tune_comparison comparison;
    tdm_choice best;
    char reason[TDM_TUNING_REASON];
    assert_int_equal(tdm_choice_read("gemm_f32_panel_4x24__avx2", &best, reason), TDM_TUNING_OK);
    assert_int_equal(tune_bench_compare(&bench, &best, &comparison), 0);
    assert_true(fabs(comparison.own_s - 2e-3) < 1e-9);
    assert_true(fabs(comparison.tuned_s - 1e-3) < 1e-9);
    assert_string_equal(comparison.own_variant, "gemm_f32_panel_6x16__avx2");
    assert_int_equal(tdm_choice_read("gemm_f32_panel_8x8", &best, reason), TDM_TUNING_OK);
    assert_int_equal(tune_bench_compare(&bench, &best, &comparison), -1);
    assert_non_null(strstr(bench.reason.text, "died of signal 11"));
    tune_bench_close(&bench);
}

/*
 * Prepares a complete run of one problem with the faulty worker. The folder of the tuning file does
 * not exist yet.
 */
static tune_run make_run(double seconds) {
    return (tune_run){.command = "test",
                      .device = "a/b/c%20d",
                      .info = &cpu,
                      .device_fields = "index=0",
                      .bench = make_bench(),
                      .file = tune_file_open("test", path),
                      .deadline = tune_clock() + seconds,
                      .notes = stderr};
}

static void close_run(tune_run *run) {
    gemm_oracle_release(&run->oracle);
    tune_bench_close(&run->bench);
    tune_file_close(run->file);
}

/* Writes the correct D of a case as the right output, and zeros as the wrong one. */
static void write_product(const gemm_case *item) {
    float *const a = gemm_case_create(item, OP_GEMM_A);
    float *const b = gemm_case_create(item, OP_GEMM_B);
    float *const d = calloc(2 * gemm_case_elements(item, OP_GEMM_D), sizeof *d);
    assert_true(a != NULL && b != NULL && d != NULL);
    for (int64_t i = 0; i < item->m; i++)
        for (int64_t j = 0; j < item->n; j++)
            for (int64_t p = 0; p < item->k; p++)
                d[i * item->n + j] += a[i * item->k + p] * b[p * item->n + j];
    write_outputs(d, d + gemm_case_elements(item, OP_GEMM_D), gemm_case_bytes(item, OP_GEMM_D));
    free(a);
    free(b);
    free(d);
}

TEST(a_problem_is_tuned_among_sick_candidates) {
    static const char *const notes_of[] = {
        "gemm_f32_panel_8x8 failed: the worker died of signal 11",
        "gemm_f32_tiled_128x128 failed: no answer within ",
        "gemm_f32_tiled_64x64 failed: the compiler says no",
    };
    const gemm_case small = {.types = GEMM_F32, .m = 8, .n = 8, .k = 8};
    tune_run run = make_run(60);
    tune_outcome outcome;
    char *notes = NULL;
    size_t size = 0;
    run.notes = open_memstream(&notes, &size);
    assert_non_null(run.notes);
    write_product(&small);
    assert_int_equal(tune_run_case(&run, &small, 1, &outcome), 0);
    assert_int_equal(fclose(run.notes), 0);
    if (outcome.status != TUNE_DONE)
        fail_msg("%s\n%s", outcome.reason, notes);
    assert_string_equal(outcome.choice, "gemm_f32_panel_4x24__avx2");
    assert_true(outcome.failures >= 3);
    for (size_t i = 0; i < sizeof notes_of / sizeof notes_of[0]; i++)
        if (strstr(notes, notes_of[i]) == NULL)
            fail_msg("'%s' is missing in\n%s", notes_of[i], notes);
    assert_non_null(strstr(notes, "failed: wrong result: "));
    assert_non_null(strstr(read_file(path), "a/b/c%20d gemm f32 f32 nn 8x8x8x1 "
                                            "gemm_f32_panel_4x24__avx2 measured=1000000\n"));
    free(notes);
    assert_int_equal(tune_run_case(&run, &small, 1, &outcome), 0);
    assert_int_equal(outcome.status, TUNE_SKIPPED);
    close_run(&run);
    unlink(path);
}

TEST(a_problem_whose_results_are_wrong_is_broken_and_not_written) {
    const gemm_case small = {.types = GEMM_F32, .m = 8, .n = 8, .k = 8};
    tune_run run = make_run(20);
    tune_outcome outcome;
    assert_non_null(run.file);
    assert_int_equal(tune_run_case(&run, &small, 1, &outcome), 0);
    assert_int_equal(outcome.status, TUNE_BROKEN);
    assert_true(outcome.trials > 0);
    assert_non_null(strstr(outcome.reason, "nothing could be measured"));
    assert_int_equal(access(path, F_OK), -1);
    close_run(&run);
}

/* ---- the tuning file ---- */

static tdm_tuning_row row_for(int64_t m, const char *choice, uint64_t ns) {
    char reason[TDM_TUNING_REASON];
    tdm_tuning_row row = {.device = "a/b/c%20d",
                          .op = TDM_OP_GEMM,
                          .a = TDM_F32,
                          .b = TDM_F32,
                          .shape = {m, 2, 3, 1},
                          .ns = ns};
    assert_int_equal(tdm_choice_read(choice, &row.choice, reason), TDM_TUNING_OK);
    return row;
}

static int put(int64_t m, const char *choice, uint64_t ns) {
    const tdm_tuning_row row = row_for(m, choice, ns);
    tune_file *const file = tune_file_open("test", path);
    if (file == NULL)
        return -1;
    const int status = tune_file_put(file, &row);
    if (status == 0)
        assert_true(tune_file_has(file, &row));
    tune_file_close(file);
    return status;
}

TEST(rows_are_added_and_replaced_and_the_rest_stays) {
    unlink(path);
    assert_int_equal(put(1, "gemm_any_reference", 10), 0);
    struct stat status;
    assert_int_equal(stat(path, &status), 0);
    assert_int_equal(status.st_mode & 0022, 0); /* otherwise the library would refuse it */
    assert_int_equal(put(2, "gemm_any_reference:row_items=2", 20), 0);
    FILE *const file = fopen(path, "a");
    assert_non_null(file);
    fputs("# mine\nany gemm f32 f32 any *x*x* gemm_of_tomorrow not-measured\n"
          "a/b/c%20d gemm f32 f32 nn 4x2x3x1 gemm_of_tomorrow measured=1\n"
          "a/b/c%20d gemm f32 f32 nn 5x2x3x1 gemm_any_reference not-measured\n",
          file);
    assert_int_equal(fclose(file), 0);
    const tdm_tuning_row four = row_for(4, "gemm_any_reference", 1);
    const tdm_tuning_row five = row_for(5, "gemm_any_reference", 1);
    tune_file *const opened = tune_file_open("test", path);
    assert_non_null(opened);
    assert_false(tune_file_has(opened, &four)); /* written by another library version */
    assert_false(tune_file_has(opened, &five)); /* not measured */
    tune_file_close(opened);
    assert_int_equal(put(1, "gemm_f32_tiled_32x32", 5), 0);
    assert_int_equal(put(4, "gemm_any_reference", 7), 0);
    const char *const text = read_file(path);
    assert_true(strncmp(text, "tandem-tuning 1\n# ", 18) == 0);
    const char *const rest = strchr(text + 17, '\n') + 1;
    assert_string_equal(
        rest, "a/b/c%20d gemm f32 f32 nn 2x2x3x1 gemm_any_reference:row_items=2 measured=20\n"
              "# mine\nany gemm f32 f32 any *x*x* gemm_of_tomorrow not-measured\n"
              "a/b/c%20d gemm f32 f32 nn 5x2x3x1 gemm_any_reference not-measured\n"
              "a/b/c%20d gemm f32 f32 nn 1x2x3x1 gemm_f32_tiled_32x32 measured=5\n"
              "a/b/c%20d gemm f32 f32 nn 4x2x3x1 gemm_any_reference measured=7\n");
    /* No temporary file may be left. */
    char name[TEST_PATH];
    assert_int_equal(test_folder_count(test_folder_path(name, "sub/folder")), 1);
}

TEST(rows_of_operations_stand_side_by_side) {
    static const char *const texts[] = {
        "any gemm-int s8 s8 nn 1x2x3x1 gemm_int_panel_8x8 measured=1",
        "any gemm-weights f32 s8 nn 1x2x3x1 gemm_s8_lines_8 measured=2",
        "any gemm-weights-a8 f32 s8 nn 1x2x3x1 gemm_int_panel_8x8 measured=3",
    };
    char new_path[TEST_PATH], line[TDM_TUNING_LINE], reason[TDM_TUNING_REASON];
    tune_file *const file = tune_file_open("test", test_folder_path(new_path, "new.txt"));
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
    assert_int_equal(tdm_tuning_file_read(new_path, &read), TDM_TUNING_FILE_READ);
    assert_int_equal(read.count, 3);
    tdm_tuning_file_release(&read);
}

TEST(a_link_stays_a_link) {
    char target[TEST_PATH];
    struct stat status;
    test_text_write(test_folder_path(target, "elsewhere.txt"), "tandem-tuning 1\n", 0600);
    unlink(path);
    assert_int_equal(symlink(target, path), 0);
    assert_int_equal(put(1, "gemm_any_reference", 10), 0);
    assert_int_equal(lstat(path, &status), 0);
    assert_true(S_ISLNK(status.st_mode));
    assert_non_null(strstr(read_file(target), "1x2x3x1"));
    unlink(path);
}

/* ---- the arguments ---- */

TEST(shapes_come_from_lists_and_sets) {
    static const char *const bad[] = {"", "7x8", "1x1x1,", "1x1x2000000"};
    tune_cases cases = {.items = NULL};
    assert_int_equal(
        tune_cases_add("test", NULL, tune_default_shapes, "f32,f16,bf16", "nn", &cases), 0);
    assert_int_equal(cases.count, 3 * 16);
    assert_int_equal(tune_cases_add("test", NULL, "128x128x128,7x8x9,7x8x9", "f32", NULL, &cases),
                     0);
    assert_int_equal(cases.count, 3 * 16 + 1);
    const gemm_case *const last = &cases.items[cases.count - 1];
    assert_true(last->m == 7 && last->n == 8 && last->k == 9 && last->types == GEMM_F32);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        if (tune_cases_add("test", NULL, bad[i], "f32", "nn", &cases) != CLI_EXIT_USAGE)
            fail_msg("'%s' was taken", bad[i]);
    tune_cases_release(&cases);
    /* A set defines its layouts, unless others are given. */
    assert_int_equal(tune_cases_add("test", "bert,squares", NULL, "f32,bf16", NULL, &cases), 0);
    int bert = 0, squares = 0;
    for (int i = 0; i < cases.count; i++) {
        const gemm_case *const item = &cases.items[i];
        bert += item->m == 512 && item->n == 3072 && item->k == 768 && item->transpose_b;
        squares += item->m == 384 && !item->transpose_b;
    }
    assert_true(bert == 2 && squares == 2);
    tune_cases_release(&cases);
    assert_int_equal(tune_cases_add("test", "all", NULL, "f32", "tt", &cases), 0);
    for (int i = 0; i < cases.count; i++)
        assert_true(cases.items[i].transpose_a && cases.items[i].transpose_b);
    tune_cases_release(&cases);
}

TEST(every_type_can_be_asked_for) {
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

TEST(a_problem_that_does_not_fit_is_skipped) {
    const gemm_case large = {.types = GEMM_F32, .m = 1000, .n = 1000, .k = 1000};
    tdm_device_info weak = cpu;
    weak.max_alloc_bytes = 1000000;
    tune_run run = make_run(20);
    tune_outcome outcome;
    run.info = &weak;
    assert_int_equal(tune_run_case(&run, &large, 1, &outcome), 0);
    assert_int_equal(outcome.status, TUNE_SKIPPED);
    assert_non_null(strstr(outcome.reason, "one allocation of the device"));
    close_run(&run);
}

TEST_MAIN(make_folder, test_folder_remove)
