/* `tandem report`: everything the program measures of a device, as one results file and one page. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cjson/cJSON.h>
#include <tandem/tandem.h>

#include "bench/bench_commands.h"
#include "bench/bench_settings.h"
#include "bench/device_pick.h"
#include "bench/output_file.h"
#include "bench/progress.h"
#include "bench/report_page.h"
#include "bench/report_suite.h"
#include "bench/results_json.h"
#include "bench/stolen_time.h"

static const char command_name[] = "tandem report";

typedef struct report_options {
    const char *device;
    const char *from;
    const char *json;
    const char *html;
    const char *suites;
    double budget_s; /* of all suites together; 0: the default */
    int quick;
} report_options;

/* What all suites together may take, and what is left beside them for the page and for the case at hand when time is over. */
static const double full_budget_s = 300;
static const double quick_budget_s = 55;
static const double reserve_s = 3;
static const double least_budget_s = 1;

/* A suite whose time is over has the case at hand to end, and its rows to print. */
static const double suite_grace_s = 30;

/* Of several forms each, so that predictions have something to be fitted to and something to be tried on. */
#define PRODUCTS                                                                                   \
    "256x256x256,384x1024x384,64x1024x1024,1024x64x1024,768x768x768,512x512x512,1024x1024x1024,"   \
    "2048x2048x2048,128x768x3072,128x3072x768"
static const char products[] = PRODUCTS;
static const char f32_products[] = PRODUCTS ",4096x4096x4096";
static const char quantized_products[] =
    "256x768x768,384x1024x512,64x1024x1024,512x512x512,1024x1024x1024,2048x2048x2048,"
    "128x4096x4096";
static const char row_products[] =
    "1x2048x2048,1x1024x8192,1x4096x4096,1x11008x4096,1x4096x11008,2x4096x4096,4x2048x4096,"
    "8x2048x2048,8x4096x4096";

/* Loops within the caches and beyond, for predictions. */
#define LOOPS(size, seconds)                                                                       \
    {                                                                                              \
        "loops", seconds, 0,                                                                       \
            {"bench",     "memory",  "--operation", "copy,scale,add,triad,read,write",             \
             "--setting", "default", "--bytes",     size},                                         \
        {                                                                                          \
            NULL                                                                                   \
        }                                                                                          \
    }

/*
 * In the order in which they run; what is nearest to the limits first, and within a suite what the page needs most. The seconds are
 * those of PoCL on two cores.
 */
static const report_suite suites[] = {
    {"memory",
     58,
     2,
     {"bench", "memory", "--operation",
      "read,triad,sweep,copy,gather,chase,write,scale,add,strided"},
     {"bench", "memory", "--quick", "--operation",
      "copy,triad,read,write,gather,chase,sweep,upload,download", "--host", "pinned", "--setting",
      "default"}},
    {"copies",
     12,
     0,
     {"bench", "memory", "--operation", "upload,download,both,buffer", "--bytes", "64M"},
     {NULL}},
    {"compute", 18, 7, {"bench", "compute"}, {"bench", "compute", "--quick"}},
    {"launch", 5, 2, {"bench", "launch"}, {"bench", "launch", "--quick"}},
    {"gemm",
     24,
     5,
     {"bench", "gemm", "--dtype", "f32", "--shapes", f32_products},
     {"bench", "gemm", "--quick", "--dtype", "f32,f16", "--shapes", "512x512x512"}},
    {"gemm-16bit", 19, 0, {"bench", "gemm", "--dtype", "f16,bf16", "--shapes", products}, {NULL}},
    {"gemm-quantized",
     23,
     7,
     {"bench", "gemm", "--dtype", "u8s8,s8,w8,w4", "--layout", "nt", "--shapes",
      quantized_products},
     {"bench", "gemm", "--quick", "--dtype", "u8s8,w8,w4", "--layout", "nt", "--shapes",
      "512x512x512"}},
    {"gemv",
     36,
     5,
     {"bench", "gemv", "--dtype", "f32,f16,w8,w4", "--roof", "memory", "--shapes", row_products},
     {"bench", "gemv", "--quick", "--dtype", "f32,w8,w4", "--roof", "memory", "--shapes",
      "1x4096x4096"}},
    LOOPS("64K", 2),
    LOOPS("256K", 2),
    LOOPS("1M", 3),
    LOOPS("4M", 3),
    LOOPS("16M", 4),
    LOOPS("64M", 8),
    {"quant",
     35,
     6,
     {"bench", "quant", "--shape", "4096x4096", "--operation",
      "quantize,dynamic,dequantize,requantize,convert,widen", "--blocks", "tensor,row,group"},
     {"bench", "quant", "--quick"}},
    {"pool",
     19,
     2,
     {"bench", "pool", "--order", "lifo,random", "--live", "1000,100000", "--trace",
      "prefill,decode,growing,training,log,pareto"},
     {"bench", "pool", "--quick", "--live", "1000"}},
    {"outofcore",
     13,
     0,
     {"bench", "outofcore", "--samples", "5", "--shapes", "3072x3072x3072"},
     {NULL}},
};

enum {
    SUITE_COUNT = sizeof suites / sizeof suites[0]
};

typedef struct report_run {
    const report_options *options;
    cJSON *root; /* the first suite's document, with the rows of all */
    cJSON *steps;
    int failures;
    int missing;       /* rows that there was no time for */
    double deadline_s; /* of bench_now: of all suites */
    double expected_s; /* of all suites that are wanted, as their rows say */
    double done_s;     /* the part of it that is done */
    double taken_s;    /* what that part took */
    const report_suite *present;
} report_run;

/* Facts that an earlier suite's environment lacks. */
static void merge_environment(const cJSON *into, cJSON *from) {
    cJSON *const known = cJSON_GetObjectItemCaseSensitive(into, "environment");
    cJSON *const offered = cJSON_GetObjectItemCaseSensitive(from, "environment");
    cJSON *item = offered == NULL ? NULL : offered->child;
    while (known != NULL && item != NULL) {
        cJSON *const next = item->next;
        if (!cJSON_HasObjectItem(known, item->string)) {
            cJSON *const moved = cJSON_DetachItemViaPointer(offered, item);
            cJSON_AddItemToObject(known, moved->string, moved);
        }
        item = next;
    }
}

static void merge_rows(const cJSON *into, const cJSON *from) {
    cJSON *const known = cJSON_GetObjectItemCaseSensitive(into, "results");
    cJSON *const offered = cJSON_GetObjectItemCaseSensitive(from, "results");
    while (known != NULL && offered != NULL && offered->child != NULL)
        cJSON_AddItemToArray(known, cJSON_DetachItemViaPointer(offered, offered->child));
}

/* Rows of a suite with a member that begins so. */
static int count_rows(const suite_outcome *outcome, const char *name, const char *start) {
    const cJSON *const rows = cJSON_GetObjectItemCaseSensitive(outcome->document, "results");
    const cJSON *row = NULL;
    int count = 0;
    cJSON_ArrayForEach(row, rows) {
        const char *const text = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(row, name));
        count += text != NULL && strncmp(text, start, strlen(start)) == 0;
    }
    return count;
}

/* A suite that there was no time for has not failed, though it measured nothing of Tandem. */
static int has_failed(const suite_outcome *outcome) {
    return outcome->exit_code != 0 && (count_rows(outcome, "reason", bench_time_is_over) == 0 ||
                                       count_rows(outcome, "status", "failed") > 0);
}

static void add_step(report_run *run, const report_suite *suite, const suite_task *task,
                     const suite_outcome *outcome) {
    const int missing = count_rows(outcome, "reason", bench_time_is_over);
    cJSON *const step = cJSON_CreateObject();
    results_put_text(step, "suite", suite->name);
    results_put_text(step, "command", outcome->command);
    cJSON_AddNumberToObject(step, "exit", outcome->exit_code);
    results_put_number(step, "seconds", outcome->seconds);
    results_put_number(step, "budget_s", task->budget_s);
    cJSON_AddNumberToObject(step, "rows_without_time", missing);
    results_put_text(step, "message", outcome->exit_code == 0 ? NULL : outcome->message);
    cJSON_AddItemToArray(run->steps, step);
    run->missing += missing;
}

static void take_outcome(report_run *run, const report_suite *suite, const suite_task *task,
                         suite_outcome *outcome) {
    add_step(run, suite, task, outcome);
    if (has_failed(outcome)) {
        run->failures++;
        progress_clear();
        fprintf(stderr, "%s: %s failed: %s\n", command_name, outcome->command,
                outcome->message[0] == '\0' ? "no reason given" : outcome->message);
    }
    if (run->root == NULL) {
        run->root = outcome->document;
        outcome->document = NULL;
    } else if (outcome->document != NULL) {
        merge_environment(run->root, outcome->document);
        merge_rows(run->root, outcome->document);
    }
    report_suite_release(outcome);
}

static int is_wanted(const report_run *run, const report_suite *suite) {
    const int given = run->options->quick ? suite->quick[0] != NULL : 1;
    return given &&
           (run->options->suites == NULL || cli_list_has(run->options->suites, suite->name));
}

static double expected_seconds(const report_run *run, const report_suite *suite) {
    return run->options->quick ? suite->quick_seconds : suite->seconds;
}

/* The suites done so far say how fast this machine is beside the one that the rows' seconds are of. */
static void show_progress(void *user, double seconds) {
    const report_run *const run = user;
    const double expected = expected_seconds(run, run->present);
    const double slowness = run->done_s > 0 ? run->taken_s / run->done_s : 1;
    const double done = run->done_s + fmin(expected, seconds / slowness);
    progress_bar(done / run->expected_s, slowness * (run->expected_s - done), run->present->name);
}

/* A suite's share of the time that is left: by what it and those behind it are expected to take. */
static double budget_of(const report_run *run, const report_suite *suite) {
    const double left = run->deadline_s - bench_now();
    const double share = expected_seconds(run, suite) / (run->expected_s - run->done_s);
    return fmax(least_budget_s, share * left);
}

static void run_suite(report_run *run, const report_suite *suite, int device) {
    suite_outcome outcome;
    const suite_task task = {.device = device,
                             .quick = run->options->quick,
                             .budget_s = budget_of(run, suite),
                             .grace_s = suite_grace_s,
                             .watcher = show_progress,
                             .user = run};
    run->present = suite;
    show_progress(run, 0);
    report_suite_run(suite, &task, &outcome);
    run->done_s += expected_seconds(run, suite);
    run->taken_s += outcome.seconds;
    take_outcome(run, suite, &task, &outcome);
}

static double whole_budget(const report_options *options) {
    if (options->budget_s > 0)
        return options->budget_s;
    return options->quick ? quick_budget_s : full_budget_s;
}

static int run_suites(report_run *run, int device) {
    run->deadline_s = bench_now() + fmax(0, whole_budget(run->options) - reserve_s);
    for (int i = 0; i < SUITE_COUNT; i++)
        run->expected_s += is_wanted(run, &suites[i]) ? expected_seconds(run, &suites[i]) : 0;
    for (int i = 0; i < SUITE_COUNT; i++)
        if (is_wanted(run, &suites[i]))
            run_suite(run, &suites[i], device);
    progress_clear();
    if (run->missing > 0)
        fprintf(stderr, "%s: there was no time for %d rows, which say so; --seconds gives more\n",
                command_name, run->missing);
    if (run->root != NULL)
        return CLI_EXIT_OK;
    fprintf(stderr, "%s: no suite gave a result\n", command_name);
    return CLI_EXIT_FAILED;
}

/* What a suite said of its own time is told for all of them. */
static void tell_stolen(const report_run *run, const processor_time *opened) {
    cJSON *const environment = cJSON_GetObjectItemCaseSensitive(run->root, "environment");
    const processor_time now = processor_time_now();
    cJSON_DeleteItemFromObjectCaseSensitive(environment, "stolen_of_run");
    results_put_number(environment, "stolen_of_run", stolen_share(opened, &now));
}

static int measure(report_run *run) {
    const processor_time opened = processor_time_now();
    tdm_context *context = NULL;
    tdm_device_info info;
    int index = 0;
    int code = device_pick(command_name, run->options->device, &context, &index, &info);
    if (code != CLI_EXIT_OK)
        return code;
    tdm_context_destroy(context);
    run->steps = cJSON_CreateArray();
    code = run_suites(run, index);
    if (code != CLI_EXIT_OK)
        return code;
    cJSON_ReplaceItemInObjectCaseSensitive(run->root, "schema",
                                           cJSON_CreateString("tandem-report/1"));
    cJSON_AddItemToObject(run->root, "suites", run->steps);
    tell_stolen(run, &opened);
    run->steps = NULL;
    return CLI_EXIT_OK;
}

static int fail(const char *text) {
    fprintf(stderr, "%s: %s\n", command_name, text);
    return CLI_EXIT_FAILED;
}

/* The page in memory, so that a file of it appears whole or not at all. */
static int write_page(const results_file *results, const char *path) {
    char *text = NULL;
    size_t length = 0;
    file_error error;
    FILE *const page = open_memstream(&text, &length);
    if (page == NULL)
        return fail("out of memory");
    int failed = report_page_write(page, results) != 0 || ferror(page);
    failed |= fclose(page) != 0;
    if (failed)
        file_error_set(&error, "out of memory");
    else
        failed = output_file_write(path, text, length, &error) != 0;
    free(text);
    return failed ? fail(error.text) : CLI_EXIT_OK;
}

/* The page is made from the file's own text: what it shows is what others can read. */
static int publish(const report_run *run) {
    results_file results;
    file_error error;
    char *const text = cJSON_Print(run->root);
    if (text == NULL)
        return fail("out of memory");
    int code = CLI_EXIT_OK;
    if (results_write_json(run->root, command_name, run->options->json) != 0)
        code = CLI_EXIT_FAILED;
    if (results_read_text(run->options->json, text, strlen(text), &results, &error) != 0) {
        code = fail(error.text);
    } else {
        if (write_page(&results, run->options->html) != CLI_EXIT_OK)
            code = CLI_EXIT_FAILED;
        results_file_release(&results);
    }
    free(text);
    return code;
}

static int report_measured(const report_options *options) {
    report_run run = {.options = options};
    if (results_check_path(command_name, options->json) != 0 ||
        results_check_path(command_name, options->html) != 0)
        return CLI_EXIT_FAILED;
    int code = measure(&run);
    if (code == CLI_EXIT_OK)
        code = publish(&run);
    if (code == CLI_EXIT_OK && run.failures > 0)
        code = CLI_EXIT_FAILED;
    if (code == CLI_EXIT_OK)
        printf("%s and %s are written\n", options->json, options->html);
    cJSON_Delete(run.root);
    cJSON_Delete(run.steps);
    return code;
}

static int report_from_file(const report_options *options) {
    results_file results;
    file_error error;
    if (results_check_path(command_name, options->html) != 0)
        return CLI_EXIT_FAILED;
    if (results_read(options->from, &results, &error) != 0)
        return fail(error.text);
    const int code = write_page(&results, options->html);
    results_file_release(&results);
    if (code == CLI_EXIT_OK)
        printf("%s is written\n", options->html);
    return code;
}

int report_command(int argc, char **argv) {
    report_options given = {.json = "tandem-report.json", .html = "tandem-report.html"};
    const cli_option options[] = {
        CLI_DEVICE_OPTION(&given.device),
        {"suite", CLI_CHOICES, &given.suites, "LIST", "some of the suites; all by default",
         "memory|copies|compute|launch|gemm|gemm-16bit|gemm-quantized|gemv|quant|pool|outofcore|"
         "loops",
         0, 0},
        {"from", CLI_TEXT, &given.from, "FILE", "measure nothing: the page of this results file",
         NULL, 0, 0},
        {"json", CLI_TEXT, &given.json, "FILE", "the results; tandem-report.json by default", NULL,
         0, 0},
        {"html", CLI_TEXT, &given.html, "FILE", "the page; tandem-report.html by default", NULL, 0,
         0},
        {"seconds", CLI_NUMBER, &given.budget_s, "SECONDS",
         "what the suites may take together; 300 by default, 55 of --quick", NULL, 1, 1e6},
        BENCH_QUICK_OPTION(&given.quick),
    };
    const cli_command command = {
        .name = command_name,
        .summary = "measure a device from all sides: one results file and one page",
        .options = options,
        .option_count = sizeof options / sizeof options[0],
        .notes =
            "The page loads nothing from elsewhere. The suites are those of tandem bench, whose "
            "command\n"
            "lines stand in the results file; a suite that fails is told, and the others go on. On "
            "a slow\n"
            "device each has its share of the time, and rows that did not come to their turn say "
            "so.",
    };
    const cli_outcome outcome = cli_parse(&command, argc, argv, NULL);
    if (outcome != CLI_RUN)
        return cli_exit_code(outcome);
    return given.from != NULL ? report_from_file(&given) : report_measured(&given);
}
