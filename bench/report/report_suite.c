#include "bench/report/report_suite.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cjson/cJSON.h>

#include "bench/bench_commands.h"
#include "bench/harness/bench_runner.h"

enum {
    ADDED_WORDS = 12, /* room for --device, --patience, --seconds, --json and the NULL */
    WORD_BYTES = 128
};

/*
 * The sampling time of each row, in seconds (--patience). It is less than the default, because a
 * report has some 330 rows and should take a few minutes.
 */
static const char patience[] = "0.15";

static int (*command_of(const char *name))(int argc, char **argv) {
    static const struct {
        const char *name;
        int (*run)(int argc, char **argv);
    } rows[] = {{"gemm", bench_gemm_command},           {"gemv", bench_gemv_command},
                {"memory", bench_memory_command},       {"quant", bench_quant_command},
                {"compute", bench_compute_command},     {"elementwise", bench_elementwise_command},
                {"outofcore", bench_outofcore_command}, {"launch", bench_launch_command}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (strcmp(rows[i].name, name) == 0)
            return rows[i].run;
    return bench_pool_command;
}

/* Returns the parsed standard output of the command, or NULL if it is not a results file. */
static cJSON *run_into(int (*run)(int argc, char **argv), int argc, char **argv, int *exit_code) {
    const int file = memfd_create("tandem-results", MFD_CLOEXEC);
    fflush(stdout);
    const int kept = dup(STDOUT_FILENO);
    if (file < 0 || kept < 0 || dup2(file, STDOUT_FILENO) < 0)
        return NULL;
    *exit_code = run(argc, argv);
    fflush(stdout);
    dup2(kept, STDOUT_FILENO);
    close(kept);
    const off_t size = lseek(file, 0, SEEK_END);
    char *const text = size > 0 ? malloc((size_t)size) : NULL;
    cJSON *const document = text != NULL && pread(file, text, (size_t)size, 0) == size
                                ? cJSON_ParseWithLength(text, (size_t)size)
                                : NULL;
    free(text);
    close(file);
    return document;
}

void report_suite_run(const report_suite *suite, const suite_task *task, suite_outcome *outcome) {
    static char words[REPORT_MAX_WORDS + ADDED_WORDS][WORD_BYTES];
    char *argv[REPORT_MAX_WORDS + ADDED_WORDS + 1];
    const char *const *const given = task->quick ? suite->quick : suite->words;
    int argc = 0;
    const double start = bench_now();
    *outcome = (suite_outcome){.exit_code = -1};
    snprintf(outcome->command, sizeof outcome->command, "tandem bench");
    for (const char *const *word = given + 1; *word != NULL; word++)
        snprintf(words[argc++], WORD_BYTES, "%s", *word);
    snprintf(words[argc++], WORD_BYTES, "--device");
    snprintf(words[argc++], WORD_BYTES, "%d", task->device);
    if (!task->quick) {
        snprintf(words[argc++], WORD_BYTES, "--patience");
        snprintf(words[argc++], WORD_BYTES, "%s", patience);
    }
    for (int i = 0; i < argc; i++) {
        const size_t used = strlen(outcome->command);
        snprintf(outcome->command + used, sizeof outcome->command - used, " %s", words[i]);
    }
    snprintf(words[argc++], WORD_BYTES, "--seconds=%.3f", task->budget_s);
    snprintf(words[argc++], WORD_BYTES, "--json=-");
    for (int i = 0; i < argc; i++)
        argv[i] = words[i];
    argv[argc] = NULL;
    outcome->document = run_into(command_of(words[0]), argc, argv, &outcome->exit_code);
    if (outcome->document == NULL && outcome->exit_code == 0)
        outcome->exit_code = -1;
    outcome->seconds = bench_now() - start;
}

void report_suite_release(suite_outcome *outcome) {
    cJSON_Delete(outcome->document);
    outcome->document = NULL;
}
