/* `tandem compare` shows results of several devices side by side. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cjson/cJSON.h>

#include "bench/bench_commands.h"
#include "bench/compare/compare_table.h"
#include "bench/record/results_json.h"
#include "common/command/cli_options.h"

static const char command_name[] = "tandem compare";

typedef struct compare_options {
    const char *json;
    const char *html;
    double margin; /* in percent */
    int force;
} compare_options;

typedef struct compare_state {
    results_file files[COMPARE_MAX_COLUMNS];
    size_t file_count;
    compare_table table;
} compare_state;

static int fail(const char *reason) {
    fprintf(stderr, "%s: %s\n", command_name, reason);
    return CLI_EXIT_FAILED;
}

static int read_files(compare_state *state, char **paths, size_t count) {
    file_error error;
    for (size_t i = 0; i < count; i++) {
        if (results_read(paths[i], &state->files[i], &error) != 0)
            return fail(error.text);
        state->file_count++;
    }
    for (size_t i = 0; i < count; i++) {
        if (compare_add_columns(&state->table, &state->files[i]) != 0)
            return fail("the files describe more than ten devices");
    }
    if (state->table.column_count < 2)
        return fail("the files describe only one device, at least two are needed");
    return CLI_EXIT_OK;
}

/*
 * Refuses files whose figures are not comparable, and prints the reasons on stderr. Returns the
 * exit code.
 */
static int check_facts(const compare_state *state, int force) {
    const report_device *const columns = state->table.columns;
    compare_difference item = {.next = 0};
    int refused = 0;
    while (!force && compare_next_difference(&state->table, &item)) {
        refused++;
        fprintf(stderr, "%s: %s has %s %s '%s', and %s has '%s'\n", command_name,
                columns[0].file->name, item.place, item.key, item.base,
                columns[item.column].file->name, item.other);
    }
    return refused == 0 ? CLI_EXIT_OK
                        : fail("these results are not comparable; --force compares them anyway");
}

static int write_report(const compare_state *state, const compare_options *options) {
    int code = CLI_EXIT_OK;
    if (options->json != NULL) {
        cJSON *const json = compare_json(&state->table);
        if (results_write_json(json, command_name, options->json) != 0)
            code = CLI_EXIT_FAILED;
        cJSON_Delete(json);
    }
    if (options->html != NULL && report_save_page(command_name, options->html, compare_page_write,
                                                  &state->table) != CLI_EXIT_OK)
        code = CLI_EXIT_FAILED;
    if (!results_is_stdout(options->json) && !results_is_stdout(options->html))
        compare_print(&state->table, stdout);
    return code;
}

static int run_with(compare_state *state, const compare_options *options, char **paths,
                    size_t count) {
    const int refused = report_check_outputs(command_name, options->json, options->html,
                                             (const char *const *)paths, count);
    if (refused != CLI_EXIT_OK)
        return refused;
    state->table.margin = options->margin / 100;
    int code = read_files(state, paths, count);
    if (code == CLI_EXIT_OK)
        code = check_facts(state, options->force);
    if (code != CLI_EXIT_OK)
        return code;
    if (compare_match(&state->table) != 0)
        return fail("out of memory");
    if (state->table.matched == 0)
        return fail("no case was measured successfully on two devices");
    return write_report(state, options);
}

int compare_command(int argc, char **argv) {
    compare_options given = {.margin = 100 * RATIO_MARGIN};
    const cli_option options[] = {
        CLI_JSON_OPTION(&given.json),
        {"html", CLI_TEXT, &given.html, "FILE",
         "write a page with the rooflines of all devices, - for stdout", NULL, 0, 0},
        {"margin", CLI_NUMBER, &given.margin, "PERCENT",
         "speeds that differ by at most this much count as the same; 3 by default", NULL, 0, 100},
        {"force", CLI_FLAG, &given.force, NULL,
         "compare even if the library's version or the data pattern differs", NULL, 0, 0},
    };
    const cli_command command = {
        .name = command_name,
        .summary = "compare the results of several devices",
        .arguments = "FILE FILE [FILE...]",
        .min_arguments = 1,
        .max_arguments = COMPARE_MAX_COLUMNS,
        CLI_OPTIONS(options),
        .notes = "A file with several devices gets one column per device. docs/compare.md explains "
                 "the verdicts.",
    };
    int first = 0;
    const cli_outcome outcome = cli_parse(&command, argc, argv, &first);
    if (outcome != CLI_RUN)
        return cli_exit_code(outcome);
    compare_state *const state = calloc(1, sizeof *state);
    if (state == NULL)
        return fail("out of memory");
    const int code = run_with(state, &given, argv + first, (size_t)(argc - first));
    compare_release(&state->table);
    for (size_t i = 0; i < state->file_count; i++)
        results_file_release(&state->files[i]);
    free(state);
    return code;
}
