/* `tandem monitor` shows the memory pools of running processes, live. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#include <cjson/cJSON.h>

#include "bench/bench_commands.h"
#include "bench/record/results_json.h"
#include "cli/monitor/monitor.h"
#include "common/command/cli_options.h"

static const char command_name[] = "tandem monitor";

enum {
    MAX_FOLDER = 4096,
    TAGS_OF_ONE = 10,
    TAGS_OF_MANY = 3
};

typedef struct monitor_run {
    char folder_name[MAX_FOLDER];
    int folder;
    uint64_t process; /* 0: all */
    int64_t interval_ms;
    int once;
    const char *json;
    monitor_process *copy; /* buffer for one process */
} monitor_run;

/* Reads the next showable process from `index` on into run->copy. Returns its index, or -1. */
static int next_process(const monitor_run *run, const uint64_t *processes, int count, int index) {
    for (; index < count; index++)
        if (monitor_read(run->folder, processes[index], run->copy) == NULL)
            return index;
    return -1;
}

static int list_processes(const monitor_run *run, uint64_t *processes) {
    if (run->process == 0)
        return monitor_list(run->folder, processes, MONITOR_MAX_PROCESSES);
    processes[0] = run->process;
    return 1;
}

/* Returns the size of the terminal, or 24 rows of 80 columns if it is not known. */
static struct winsize terminal_size(void) {
    struct winsize size = {0};
    if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_row == 0 || size.ws_col == 0)
        size = (struct winsize){.ws_row = 24, .ws_col = 80};
    return size;
}

/* Clears the terminal and prints as much of the text as fits. */
static void show_text(const char *text, const struct winsize *size) {
    fputs("\033[H", stdout);
    for (int row = 1; row < size->ws_row && *text != '\0'; row++) {
        const int length = (int)strcspn(text, "\n");
        printf("%.*s\033[K\n", length < size->ws_col ? length : size->ws_col, text);
        text += length + (text[length] == '\n');
    }
    fputs("\033[J", stdout);
    fflush(stdout);
}

static void draw_processes(const monitor_run *run, FILE *file, int wide) {
    uint64_t processes[MONITOR_MAX_PROCESSES];
    const int count = list_processes(run, processes);
    int shown = 0;
    for (int i = next_process(run, processes, count, 0); i >= 0;
         i = next_process(run, processes, count, i + 1), shown++)
        monitor_draw(file, run->copy, wide, run->process == 0 ? TAGS_OF_MANY : TAGS_OF_ONE);
    if (shown == 0)
        fprintf(file, "no process publishes its memory in %s\n", run->folder_name);
}

static void draw(const monitor_run *run) {
    const struct winsize size = terminal_size();
    char *text = NULL;
    size_t bytes = 0;
    FILE *const file = open_memstream(&text, &bytes);
    if (file == NULL)
        return;
    fprintf(file, "%s: %s; Ctrl-C ends it\n", command_name, run->folder_name);
    draw_processes(run, file, size.ws_col);
    if (fclose(file) == 0)
        show_text(text, &size);
    free(text);
}

static int write_json(const monitor_run *run) {
    uint64_t processes[MONITOR_MAX_PROCESSES];
    const int count = list_processes(run, processes);
    cJSON *const root = cJSON_CreateObject();
    cJSON_AddStringToObject(root, "schema", "tandem-monitor/1");
    cJSON *const list = cJSON_AddArrayToObject(root, "processes");
    for (int i = next_process(run, processes, count, 0); i >= 0;
         i = next_process(run, processes, count, i + 1))
        cJSON_AddItemToArray(list, monitor_json(run->copy));
    const int failed = results_write_json(root, command_name, run->json);
    cJSON_Delete(root);
    return failed ? CLI_EXIT_FAILED : CLI_EXIT_OK;
}

/* Returns 0 once the requested process has ended. */
static int goes_on(const monitor_run *run) {
    return run->process == 0 || monitor_read(run->folder, run->process, run->copy) == NULL;
}

/* Runs until a signal arrives or the process ends. */
static void show_live(const monitor_run *run) {
    const struct timespec interval = {.tv_sec = run->interval_ms / 1000,
                                      .tv_nsec = run->interval_ms % 1000 * 1000000};
    const int is_terminal = isatty(STDOUT_FILENO);
    if (is_terminal)
        fputs("\033[2J", stdout);
    do {
        if (is_terminal) {
            draw(run);
        } else {
            draw_processes(run, stdout, 80);
            fflush(stdout);
        }
        nanosleep(&interval, NULL);
    } while (goes_on(run));
}

static int show(const monitor_run *run) {
    const char *const refusal =
        run->process == 0 ? NULL : monitor_read(run->folder, run->process, run->copy);
    if (refusal != NULL) {
        fprintf(stderr, "%s: process %" PRIu64 ": %s\n", command_name, run->process, refusal);
        return CLI_EXIT_FAILED;
    }
    if (run->json != NULL)
        return write_json(run);
    if (run->once)
        draw_processes(run, stdout, 80);
    else
        show_live(run);
    return CLI_EXIT_OK;
}

static int open_and_show(monitor_run *run) {
    if (!tdm_monitor_folder(run->folder_name, sizeof run->folder_name)) {
        fprintf(stderr, "%s: TANDEM_MONITOR names no folder and XDG_RUNTIME_DIR is not set\n",
                command_name);
        return CLI_EXIT_FAILED;
    }
    run->folder = monitor_open_folder(run->folder_name);
    if (run->folder < 0) {
        fprintf(stderr, "%s: cannot read '%s': %s\n", command_name, run->folder_name,
                strerror(errno));
        return CLI_EXIT_FAILED;
    }
    run->copy = malloc(sizeof *run->copy);
    const int code = run->copy == NULL ? CLI_EXIT_FAILED : show(run);
    free(run->copy);
    close(run->folder);
    return code;
}

/* Returns the process number, or 0 if the text is not one. */
static uint64_t parse_process(const char *text) {
    const size_t length = strlen(text);
    if (length == 0 || length > 18 || strspn(text, "0123456789") != length)
        return 0;
    return strtoull(text, NULL, 10);
}

int monitor_command(int argc, char **argv) {
    monitor_run run = {.interval_ms = 500};
    int first = 0;
    const cli_option options[] = {
        {"interval", CLI_COUNT, &run.interval_ms, "MS", "milliseconds between two updates", NULL,
         20, 3600000},
        {"once", CLI_FLAG, &run.once, NULL, "print once and exit", NULL, 0, 0},
        CLI_JSON_OPTION(&run.json),
    };
    const cli_command command = {
        .name = command_name,
        .summary = "show the memory pools of running processes, live",
        .arguments = "[PID]",
        .max_arguments = 1,
        CLI_OPTIONS(options),
        .notes =
            "Shows your processes that were started with TANDEM_MONITOR=1 (their pages are in\n"
            "XDG_RUNTIME_DIR) or with TANDEM_MONITOR=FOLDER; set the same FOLDER here.\n"
            "It ends with Ctrl-C or with the process PID. --json prints once.",
    };
    const cli_outcome outcome = cli_parse(&command, argc, argv, &first);
    if (outcome != CLI_RUN)
        return cli_exit_code(outcome);
    if (first < argc) {
        run.process = parse_process(argv[first]);
        if (run.process == 0)
            return cli_refuse(command_name, "'%s' is not a process id", argv[first]);
    }
    if (results_check_path(command_name, run.json) != 0)
        return CLI_EXIT_FAILED;
    return open_and_show(&run);
}
