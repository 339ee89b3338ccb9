/*
 * Tests the program as scripts see it, where no device matters: help, versions, exit codes,
 * messages, the cache.
 */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <tandem/status.h>

#include "build_info.h"
#include "tests/support/drivers/fake_driver.h"
#include "tests/support/test_case.h"
#include "tests/support/test_folder.h"
#include "tests/support/test_program.h"

static const char program[] = TANDEM_BINARY_DIR "/bin/tandem";

enum {
    PATIENCE_S = 60
};

/* These variables give the environment of a machine without any driver. */
static const char *const no_drivers[] = {
    "OCL_ICD_VENDORS=/nonexistent", "OPENCL_VENDOR_PATH=/nonexistent",
    "TANDEM_OPENCL_LIBRARY=/nonexistent/libOpenCL.so", "TANDEM_CACHE_DIR=off", NULL};

/* Expects an exit code, and a text on standard output or standard error. */
static void expect_with(const char *const *variables, const char *arguments, int exit_code,
                        const char *output, const char *errors) {
    test_program_result result = test_program_run(program, arguments, variables, PATIENCE_S);
    if (result.exit_code != exit_code ||
        (output != NULL && strstr(result.output, output) == NULL) ||
        (errors != NULL && strstr(result.errors, errors) == NULL))
        fail_msg("'tandem %s' gave %d\n-- output:\n%s-- errors:\n%s", arguments, result.exit_code,
                 result.output, result.errors);
    test_program_release(&result);
}

static void expect(const char *arguments, int exit_code, const char *output, const char *errors) {
    expect_with(NULL, arguments, exit_code, output, errors);
}

static const char *const commands[] = {
    "devices",       "bench gemm",      "bench memory", "bench gemv",
    "bench compute", "bench launch",    "bench quant",  "bench elementwise",
    "tune",          "quantize",        "infer",        "trace",
    "bench pool",    "bench outofcore", "monitor",      "report",
    "compare",       "predict",         "choices",      "completion",
    "bench nn"};

enum {
    COMMANDS = sizeof commands / sizeof commands[0]
};

TEST(every_command_helps) {
    static const char *const forms[] = {"%s --help", "%s -h", "help %s"};
    for (size_t i = 0; i < 3 * COMMANDS; i++) {
        char arguments[64];
        char usage[64];
        snprintf(arguments, sizeof arguments, forms[i % 3], commands[i / 3]);
        snprintf(usage, sizeof usage, "usage: tandem %s", commands[i / 3]);
        expect(arguments, 0, usage, NULL);
    }
    expect("--help", 0, "usage: tandem COMMAND", NULL);
    expect("-h", 0, "usage: tandem COMMAND", NULL);
    expect("bench --help", 0, "usage: tandem bench COMMAND", NULL);
    expect("bench -h", 0, "usage: tandem bench COMMAND", NULL);
}

TEST(every_command_has_a_version) {
    for (size_t i = 0; i < COMMANDS; i++) {
        char arguments[64];
        snprintf(arguments, sizeof arguments, "%s --version", commands[i]);
        expect(arguments, 0, tdm_version_text(), NULL);
    }
    expect("--version", 0, tdm_version_text(), NULL);
    expect("--version", 0, ", commit " TANDEM_BUILD_COMMIT ", backends opencl", NULL);
    expect("bench --version", 0, tdm_version_text(), NULL);
}

TEST(the_help_of_the_program_names_every_command) {
    static const char *const names[] = {"\n  devices ",  "\n  bench ", "\n  tune ",
                                        "\n  quantize ", "\n  infer ", "\n  trace ",
                                        "\n  monitor "};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        expect("--help", 0, names[i], NULL);
    test_program_result result = test_program_run(program, "--help", NULL, PATIENCE_S);
    assert_null(strstr(result.output, "_worker"));
    test_program_release(&result);
}

TEST(misuse_is_refused_with_a_sentence) {
    static const struct {
        const char *arguments;
        const char *sentence;
    } rows[] = {
        {"", "a command is missing: devices, bench, report, compare, "},
        {"nonsense", "unknown command 'nonsense'; choose one of devices, bench, report, compare, "},
        {"bench", "a command is missing: gemm, gemv, memory, quant, elementwise, nn, compute, "
                  "pool, outofcore, "
                  "launch"},
        {"bench speed", "unknown command 'speed'; choose one of gemm, gemv, memory, quant, "
                        "elementwise, nn, compute, pool, outofcore, launch"},
        {"tune --shapes 8x8", "--shapes does not take '8x8': give MxNxK"},
        {"tune --dtype f64", "--dtype does not take 'f64': choose among"},
        {"bench gemm --variant gemm_any_reference:weight=2", "unknown parameter: 'weight'"},
        {"devices --nonsense", "unknown option '--nonsense'; it takes --device, --json"},
        {"devices extra", "unexpected argument 'extra'"},
        {"bench gemm --dtype f64", "--dtype does not take 'f64': choose among"},
        {"bench gemm --layout n", "--layout does not take 'n'"},
        {"bench gemm --vs mkl", "openblas|onednn|clblast|cublas|cublaslt"},
        {"bench gemm --shapes 12x12", "--shapes does not take '12x12': give MxNxK"},
        {"bench gemm --shapes 1x2x3x4", "--shapes does not take '1x2x3x4'"},
        {"bench gemm --shapes 1x2x0", "--shapes does not take '1x2x0'"},
        {"bench gemm --shapes 1x2x-3", "--shapes does not take '1x2x-3'"},
        {"bench gemm --shapes 1x2x3y", "--shapes does not take '1x2x3y'"},
        {"bench gemm --shapes 8x8x8,", "--shapes does not take ''"},
        {"bench gemm --shapes 1000000x1000000x1", "at most 10^9 elements"},
        {"bench gemm --shapes 0*8x8x8", "or BATCH*MxNxK"},
        {"bench gemm --set cubes",
         "squares|tails|bert|llama8b|llama70b|deepseek|large|attention|gemv|all"},
        {"bench gemm --set bert --shapes 8x8x8", "give --set or --shapes, not both"},
        {"bench gemm --set bert --m 1,x", "--m does not take '1,x': give numbers of rows"},
        {"bench gemm --m 4 --shapes 8x8x8", "--m needs the shapes of --set"},
        {"bench gemm --m 4", "--m needs the shapes of --set"},
        {"choices --device MI300X", "choose one of A100-40 SXM, A100-80 SXM, H100 SXM"},
        {"choices --shapes 8x8", "--shapes does not take '8x8'"},
        {"choices --set bert --shapes 8x8x8", "give --set or --shapes, not both"},
        {"bench gemm --roof disk", "compute|memory|none"},
        {"bench gemm --samples 0", "--samples does not take '0'"},
        {"bench gemv --layout tn", "--layout does not take 'tn'"},
        {"bench gemv --shapes 4x4", "--shapes does not take '4x4'"},
        {"bench compute --dtype f64", "f32|f16|bf16|s8"},
        {"bench compute --steps 99999999", "--steps does not take '99999999'"},
        {"bench launch --operation copy", "kernel|list|gemm"},
        {"bench gemm --variant nonsense", "unknown variant: 'nonsense'"},
        {"bench gemm --timeout 0", "--timeout does not take '0'"},
        {"bench memory --bytes 0", "--bytes does not take '0'"},
        {"bench memory --operation swap", "swap"},
        {"bench quant --shape 4x3", "--shape does not take '4x3'"},
        {"bench nn --shape 4x48", "--shape does not take '4x48'"},
        {"bench nn --keys 8,0",
         "--queries and --keys take numbers within 1 and 1048576, not '8,0'"},
        {"devices --device=", "--device does not take '': it is empty"},
        {"bench gemm --device=", "--device does not take '': it is empty"},
        {"infer --device= x", "--device does not take '': it is empty"},
        {"help nosuch",
         "unknown command 'nosuch'; choose one of devices, bench, report, compare, "},
        {"help bench nosuch",
         "unknown command 'nosuch'; choose one of gemm, gemv, memory, quant, elementwise, "
         "nn, compute, pool, outofcore, launch"},
        {"bench pool --live 10,0", "--live does not take '10,0': give whole numbers"},
        {"bench outofcore --budget 0", "a budget must be above 0"},
        {"bench pool --threads 65", "--threads does not take '65'"},
        {"bench pool --trace resnet", "bare-inference"},
        {"trace x --budget 0", "--budget does not take '0'"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        expect(rows[i].arguments, 2, NULL, rows[i].sentence);
}

TEST(a_mistyped_word_has_a_suggestion) {
    expect("quantise", 2, NULL, "unknown command 'quantise'; did you mean 'quantize'?");
    expect("help devcies", 2, NULL, "did you mean 'devices'?");
    expect("bench gem", 2, NULL, "unknown command 'gem'; did you mean 'gemm'?");
    expect("bench gemm --dtpe f32", 2, NULL, "unknown option '--dtpe'; did you mean '--dtype'?");
    expect("devices --jsn=x", 2, NULL, "did you mean '--json'?");
    expect("q", 2, NULL, "unknown command 'q'; choose one of");
}

/* Queries the completion function in the way that bash does. */
TEST(bash_completes) {
    static const char script[] = "source <(%s completion bash)\n"
                                 "try() { COMP_WORDS=(\"$@\") COMP_CWORD=$(($# - 1)); _tandem; "
                                 "echo \"[${COMPREPLY[*]}]\"; }\n"
                                 "try tandem quan\n"
                                 "try tandem help bench ge\n"
                                 "try tandem bench gemm --dtyp\n"
                                 "try tandem bench gemm --dtype f32,b\n"
                                 "try tandem completion ''\n"
                                 "try tandem infer ''\n"
                                 "try tandem _\n";
    char path[] = "/tmp/tandem-test-XXXXXX";
    FILE *const file = fdopen(mkstemp(path), "w");
    assert_non_null(file);
    fprintf(file, script, program);
    fclose(file);
    test_program_result result = test_program_run("/bin/bash", path, NULL, PATIENCE_S);
    unlink(path);
    assert_string_equal(result.output,
                        "[quantize]\n[gemm gemv]\n[--dtype]\n[f32,bf16]\n[bash zsh]\n[]\n[]\n");
    test_program_release(&result);
    expect("completion zsh", 0, "('tandem bench') reply=('gemm:", NULL);
    expect("completion fish", 2, NULL, "choose bash or zsh");
}

/* Every command has an entry in the manual page, and no line of text starts a roff request. */
TEST(the_manual_has_every_command) {
    static const char *const requests[] = {".TH ",  ".SH ",  ".SS ",  ".TP\n", ".B ", ".BR ",
                                           ".PP\n", ".nf\n", ".fi\n", ".br\n", ".ad "};
    test_program_result result = test_program_run(program, "_manual", NULL, PATIENCE_S);
    assert_int_equal(result.exit_code, 0);
    for (size_t i = 0; i < COMMANDS; i++) {
        char heading[64];
        snprintf(heading, sizeof heading, "\n.SS tandem %s\n", commands[i]);
        assert_non_null(strstr(result.output, heading));
    }
    for (const char *line = result.output; line != NULL && *line != '\0';) {
        int known = *line != '.' && *line != '\'';
        for (size_t i = 0; i < sizeof requests / sizeof requests[0]; i++)
            known |= strncmp(line, requests[i], strlen(requests[i])) == 0;
        assert_true(known);
        line = strchr(line, '\n');
        line = line == NULL ? NULL : line + 1;
    }
    test_program_release(&result);
}

/* Without any driver, `devices` still reports that there is no device, and gives the reason. */
TEST(a_device_that_is_not_there_has_its_own_exit_code) {
    static const struct {
        const char *arguments;
        const char *sentence;
    } rows[] = {
        {"devices", "tandem devices: no device was found"},
        {"devices --device 0", "no device matches '0'"},
        {"devices --json -", "tandem devices: no device was found"},
        {"bench gemm", "tandem bench gemm: no device was found"},
        {"infer " TANDEM_SOURCE_DIR "/examples/digits --images 2 --precision f32",
         "tandem infer: no device was found"},
        {"bench memory --device pocl", "tandem bench memory: no device matches 'pocl'"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        test_program_result result =
            test_program_run(program, rows[i].arguments, no_drivers, PATIENCE_S);
        if (result.exit_code != 3 || strstr(result.errors, rows[i].sentence) == NULL)
            fail_msg("'tandem %s' gave %d: %s", rows[i].arguments, result.exit_code, result.errors);
        if (strcmp(rows[i].arguments, "devices") == 0)
            assert_non_null(strstr(result.output, "cuda: "));
        test_program_release(&result);
    }
}

/*
 * The table shows the memory and cache data of a CUDA driver. It shows a dash for data that neither
 * the driver nor a datasheet has.
 */
TEST(devices_tells_of_memory) {
    static const struct {
        const char *name, *correction, *unknown; /* number of an unanswered attribute */
        const char *header, *cells;
    } rows[] = {
        {"Tandem simulator, NVIDIA H200", "1", "-1", " memory type  memory MHz  ECC   cache ",
         " HBM3e              3201  on   50 MiB "},
        {"Tandem simulator, a fake", "0", "-1", " memory type  memory MHz  ECC   cache ",
         " -                  3201  off  50 MiB "},
        {"Tandem simulator, a fake", "0", "38", " memory type  memory MHz  ECC  cache ",
         " -                  3201  off      - "},
        {"Tandem simulator, a fake", "0", "36", " memory type  memory MHz  ECC   cache ",
         " -                     -  off  50 MiB "},
    };
    void *folder = NULL;
    char library[TEST_PATH];
    char driver[TEST_PATH + 32];
    assert_int_equal(test_folder_make(&folder), 0);
    fake_driver_compile("complete.so", "fake_cuda.c fake_cuda_stubs.c");
    snprintf(driver, sizeof driver, "TANDEM_CUDA_LIBRARY=%s",
             test_folder_path(library, "complete.so"));
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        setenv("FAKE_NAME", rows[i].name, 1);
        setenv("FAKE_ECC", rows[i].correction, 1);
        setenv("FAKE_UNKNOWN_ATTRIBUTE", rows[i].unknown, 1);
        const char *const variables[] = {driver, no_drivers[0], no_drivers[1], no_drivers[2], NULL};
        expect_with(variables, "devices", 0, rows[i].header, NULL);
        expect_with(variables, "devices", 0, rows[i].cells, NULL);
    }
    unsetenv("FAKE_NAME");
    unsetenv("FAKE_ECC");
    unsetenv("FAKE_UNKNOWN_ATTRIBUTE");
    test_folder_remove(&folder);
}

/* The error about the file is reported before the missing drivers. */
TEST(results_that_cannot_be_written_are_refused_at_once) {
    static const char *const json_commands[] = {"devices", "bench gemm", "bench memory",
                                                "infer /nonexistent"};
    static const struct {
        const char *path;
        const char *reason;
    } paths[] = {
        {"/nonexistent/folder/r.json", "No such file or directory"},
        {"/tmp", "Is a directory"},
        {"/dev/null/r.json", "Not a directory"},
    };
    for (size_t i = 0; i < 4 * (sizeof paths / sizeof paths[0]); i++) {
        char arguments[128];
        char expected[256];
        const char *const command = json_commands[i % 4];
        snprintf(arguments, sizeof arguments, "%s --json %s", command, paths[i / 4].path);
        snprintf(expected, sizeof expected, "tandem %.*s: cannot write '%s': %s\n",
                 (int)strcspn(command, "/") - (strchr(command, '/') != NULL), command,
                 paths[i / 4].path, paths[i / 4].reason);
        test_program_result result = test_program_run(program, arguments, no_drivers, PATIENCE_S);
        if (result.exit_code != 1 || strcmp(result.errors, expected) != 0 || result.output[0])
            fail_msg("'tandem %s' gave %d: %s%s", arguments, result.exit_code, result.output,
                     result.errors);
        test_program_release(&result);
    }
}

static void put_file(const char *folder, const char *name) {
    char path[256];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *const file = fopen(path, "w");
    assert_non_null(file);
    fputs("0123456789", file);
    fclose(file);
}

static void remove_file(const char *folder, const char *name) {
    char path[256];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    assert_int_equal(unlink(path), 0);
}

static int count_files(const char *folder) {
    DIR *const entries = opendir(folder);
    int count = 0;
    assert_non_null(entries);
    for (struct dirent *entry = readdir(entries); entry != NULL; entry = readdir(entries))
        count += entry->d_name[0] != '.';
    closedir(entries);
    return count;
}

/* A command that fails later leaves no new file, and keeps an existing one unchanged. */
TEST(a_failed_command_leaves_no_results) {
    static const struct {
        const char *command;
        int exit_code;
    } rows[] = {{"bench gemm", 3}, {"bench memory", 3}, {"infer /nonexistent", 2}};
    char folder[] = "/tmp/tandem-test-XXXXXX";
    struct stat file;
    assert_non_null(mkdtemp(folder));
    put_file(folder, "old.json");
    for (size_t i = 0; i < 2 * (sizeof rows / sizeof rows[0]); i++) {
        char arguments[128];
        char old[64];
        snprintf(arguments, sizeof arguments, "%s --json %s/%s.json", rows[i / 2].command, folder,
                 i % 2 == 0 ? "new" : "old");
        snprintf(old, sizeof old, "%s/old.json", folder);
        expect_with(no_drivers, arguments, rows[i / 2].exit_code, NULL, NULL);
        assert_int_equal(count_files(folder), 1);
        assert_int_equal(stat(old, &file), 0);
        assert_int_equal(file.st_size, 10);
    }
    remove_file(folder, "old.json");
    assert_int_equal(rmdir(folder), 0);
}

/* Standard output is a device that is always full, then closed. */
TEST(lost_output_is_a_failure) {
    static const struct {
        const char *output;
        const char *sentence;
    } outputs[] = {
        {"/dev/full", "tandem: cannot write standard output: No space left on device\n"},
        {NULL, "tandem: cannot write standard output: Bad file descriptor\n"},
    };
    static const struct {
        const char *arguments;
        int exit_code;
        const char *sentence; /* NULL: that of `outputs` */
    } rows[] = {
        {"--help", 1, NULL},       {"--version", 1, NULL}, {"bench gemm --help", 1, NULL},
        {"infer --help", 1, NULL}, {"devices", 3, NULL},   {"devices --json -", 3, NULL},
    };
    for (size_t i = 0; i < 2 * (sizeof rows / sizeof rows[0]); i++) {
        const char *const arguments = rows[i / 2].arguments;
        const char *const sentence =
            rows[i / 2].sentence ? rows[i / 2].sentence : outputs[i % 2].sentence;
        test_program_result result = test_program_run_into(outputs[i % 2].output, program,
                                                           arguments, no_drivers, PATIENCE_S);
        const char *const reported = strstr(result.errors, "cannot write");
        if (result.exit_code != rows[i / 2].exit_code || strstr(result.errors, sentence) == NULL ||
            strstr(reported + 1, "cannot write") != NULL)
            fail_msg("'tandem %s' to %s gave %d: %s", arguments,
                     outputs[i % 2].output == NULL ? "nothing" : outputs[i % 2].output,
                     result.exit_code, result.errors);
        test_program_release(&result);
    }
}

TEST_MAIN(NULL, NULL)
