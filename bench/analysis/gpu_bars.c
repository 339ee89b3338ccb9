/*
 * The hidden command `tandem _bars FOLDER`: what a run of bench/gpu_suite reached of each bar. Reads the folder's results and its
 * summary.txt, writes bars.md and bars.json. A bar whose step left no figure has none, and says why.
 */
#include <cjson/cJSON.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/analysis/gpu_bars.h"
#include "bench/bench_commands.h"
#include "bench/protocol/worker_protocol.h"
#include "bench/record/results_json.h"
#include "common/cli_options.h"
#include "common/plural.h"
#include "formats/json_file.h"
#include "formats/output_file.h"

/* ---- what the steps left ---------------------------------------------------------------------------------- */

/* The results of a step, NULL where there are none. */
static cJSON *results_of(const char *folder, const char *step) {
    char path[4096];
    file_error error;
    const int length = snprintf(path, sizeof path, "%s/%s.json", folder, step);
    return length > 0 && length < (int)sizeof path ? json_file_read(path, &error) : NULL;
}

static const char *text_of(const cJSON *object, const char *key) {
    const char *const text = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(object, key));
    return text != NULL ? text : "";
}

static double number_of(const cJSON *object, const char *key) {
    const cJSON *const item = cJSON_GetObjectItemCaseSensitive(object, key);
    return cJSON_IsNumber(item) ? item->valuedouble : (double)NAN;
}

/* Of a row that was measured and found right; NaN otherwise. */
static double median_of(const cJSON *row) {
    const int right = strcmp(text_of(row, "status"), "ok") == 0 &&
                      cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(row, "verified"));
    return right ? number_of(row, "median_s") : (double)NAN;
}

/* Whether the row is one of those that the bar looks at, as far as case and types go. */
static int is_of(const gpu_bar *bar, const cJSON *row) {
    const size_t length = strlen(bar->begins);
    return strcmp(text_of(row, "suite"), bar->suite) == 0 &&
           strncmp(text_of(row, "case"), bar->begins, length) == 0 &&
           strcmp(text_of(row, "mode"), "pipelined") == 0;
}

/* The median of the row of `impl` with the same case as this one. */
static double beside(const cJSON *results, const cJSON *row, const char *impl) {
    const cJSON *other;
    cJSON_ArrayForEach(other, results) {
        if (strcmp(text_of(other, "impl"), impl) == 0 &&
            strcmp(text_of(other, "case"), text_of(row, "case")) == 0 &&
            strcmp(text_of(other, "mode"), text_of(row, "mode")) == 0 &&
            strcmp(text_of(other, "packing"), text_of(row, "packing")) == 0)
            return median_of(other);
    }
    return (double)NAN;
}

/* The median of Tandem's row of the same shape in another step's results. */
static double of_same_shape(const cJSON *results, const gpu_bar *bar, const cJSON *row) {
    static const char *const sides[] = {"m", "n", "k"};
    const cJSON *other;
    cJSON_ArrayForEach(other, results) {
        int same =
            strcmp(text_of(other, "impl"), "tandem") == 0 &&
            strncmp(text_of(other, "case"), bar->other_begins, strlen(bar->other_begins)) == 0;
        for (int i = 0; i < 3 && same; i++)
            same = number_of(cJSON_GetObjectItemCaseSensitive(other, "shape"), sides[i]) ==
                   number_of(cJSON_GetObjectItemCaseSensitive(row, "shape"), sides[i]);
        if (same)
            return median_of(other);
    }
    return (double)NAN;
}

/* The highest rate among rows of that implementation whose cases begin so; NaN: there is none. */
static double best_rate(const cJSON *results, const char *impl, const char *begins) {
    const cJSON *row;
    double best = (double)NAN;
    cJSON_ArrayForEach(row, results) {
        if (strcmp(text_of(row, "impl"), impl) == 0 && isfinite(median_of(row)) &&
            strncmp(text_of(row, "case"), begins, strlen(begins)) == 0)
            best = fmax(best, number_of(row, "gbs"));
    }
    return best;
}

/* ---- a bar ------------------------------------------------------------------------------------------------- */

typedef struct evidence {
    const char *folder;
    const cJSON *file;    /* of the bar's step, NULL: none */
    const cJSON *results; /* rows of the bar's step, NULL: none */
    const cJSON *others;  /* rows of its other step */
} evidence;

/* What one row says of the bar; NaN: nothing. */
static double figure_of(const gpu_bar *bar, const evidence *e, const cJSON *row) {
    const double own = median_of(row);
    switch (bar->kind) {
    case GPU_BAR_RATIO:
    case GPU_BAR_MEAN:
        return beside(e->results, row, bar->other) / own;
    case GPU_BAR_ACROSS:
        return of_same_shape(e->others, bar, row) / own;
    case GPU_BAR_METRIC:
        return isfinite(own)
                   ? number_of(cJSON_GetObjectItemCaseSensitive(row, "metrics"), bar->other)
                   : (double)NAN;
    case GPU_BAR_MEMBER:
        return isfinite(own) ? number_of(row, bar->other) : (double)NAN;
    case GPU_BAR_BEST:
        return number_of(row, "gbs") / best_rate(e->others, "tandem", bar->other_begins);
    case GPU_BAR_STEP:
    case GPU_BAR_AGREE:
        break;
    }
    return (double)NAN;
}

/* Among all cases the worst or the best, or the mean of them. */
typedef struct finding {
    double value; /* NaN: none */
    int cases;
    int without; /* rows that gave no figure */
    char worst[96];
    char reason[240]; /* of the first row without a figure */
} finding;

/* Of rates the highest counts. */
static int counts_more(const gpu_bar *bar, double value, double than) {
    return bar->at_most || bar->kind == GPU_BAR_BEST ? value > than : value < than;
}

static void take(const gpu_bar *bar, const cJSON *row, double value, finding *found,
                 double *log_sum) {
    *log_sum += log(value);
    if (found->cases++ == 0 || counts_more(bar, value, found->value)) {
        found->value = value;
        snprintf(found->worst, sizeof found->worst, "%s", text_of(row, "case"));
    }
}

/* Why a row has no figure: its own reason, or that of what stands beside it. */
static void note_reason(const gpu_bar *bar, const evidence *e, const cJSON *row, finding *found) {
    const cJSON *other = row;
    if (found->without++ > 0)
        return;
    if (isfinite(median_of(row)) && bar->other_step != NULL) {
        snprintf(found->reason, sizeof found->reason, "%s has nothing beside it", bar->other_step);
        return;
    }
    if (isfinite(median_of(row)))
        cJSON_ArrayForEach(other, e->results) {
            if (strcmp(text_of(other, "impl"), bar->other) == 0 && is_of(bar, other))
                break;
        }
    snprintf(found->reason, sizeof found->reason, "%s %s: %s", text_of(other, "impl"),
             text_of(other, "case"), text_of(other, "reason"));
}

/* The first device of a comparison is what the second is compared with. */
static finding find_agreement(const gpu_bar *bar, const evidence *e) {
    const cJSON *const devices = cJSON_GetObjectItemCaseSensitive(e->file, "devices");
    const cJSON *const second = cJSON_GetArrayItem(devices, 1);
    const double whole = number_of(second, bar->begins);
    finding found = {.value = number_of(second, bar->other) / whole};
    if (isfinite(found.value))
        found.cases = (int)whole;
    return found;
}

static finding find(const gpu_bar *bar, const evidence *e) {
    finding found = {.value = (double)NAN};
    double log_sum = 0;
    const cJSON *row;
    cJSON_ArrayForEach(row, e->results) {
        if (strcmp(text_of(row, "impl"), bar->impl) != 0 || !is_of(bar, row))
            continue;
        const double value = figure_of(bar, e, row);
        if (isfinite(value))
            take(bar, row, value, &found, &log_sum);
        else
            note_reason(bar, e, row, &found);
    }
    if (bar->kind == GPU_BAR_MEAN && found.cases > 0)
        found.value = exp(log_sum / found.cases);
    return found;
}

/* What summary.txt says of a step: "ok", "FAILED", …, and the rest of its line; "" where it has none. */
static void read_step(const char *folder, const char *step, char state[16], char text[200]) {
    char path[4096], line[512], name[64];
    state[0] = text[0] = '\0';
    snprintf(path, sizeof path, "%s/summary.txt", folder);
    FILE *const file = fopen(path, "r");
    while (file != NULL && fgets(line, sizeof line, file) != NULL) {
        int end = 0;
        if (sscanf(line, "%15s %*s %63s %n", state, name, &end) == 2 && strcmp(name, step) == 0) {
            line[strcspn(line, "\n")] = '\0';
            snprintf(text, 200, "%s", line + end);
            break;
        }
        state[0] = '\0';
    }
    if (file != NULL)
        fclose(file);
}

typedef struct verdict {
    char measured[64]; /* "": nothing */
    const char *met; /* "yes", "no", "in part": what was measured is enough, but not all was; "" */
    char note[600];
} verdict;

static void judge_step(const gpu_bar *bar, const char *state, const char *text, verdict *v) {
    const int ran =
        strcmp(state, "ok") == 0 || strcmp(state, "FAILED") == 0 || strcmp(state, "TIMEOUT") == 0;
    const int saw_nothing = strstr(text, "refused by this machine") != NULL ||
                            strstr(text, "programs ended in time") != NULL;
    const int whole =
        strstr(text, "had no time") == NULL || strstr(text, ", 0 had no time") != NULL;
    if (ran && !saw_nothing) {
        snprintf(v->measured, sizeof v->measured, "%s", state);
        v->met = strcmp(state, "ok") != 0 ? "no" : whole ? "yes" : "in part";
    }
    snprintf(v->note, sizeof v->note, "%s%s%s", bar->step, text[0] != '\0' ? ": " : "", text);
}

static void judge_figure(const gpu_bar *bar, const evidence *e, const char *state, const char *text,
                         verdict *v) {
    const finding found = bar->kind == GPU_BAR_AGREE ? find_agreement(bar, e) : find(bar, e);
    if (found.cases == 0) {
        snprintf(v->note, sizeof v->note, "%s: %s", bar->step,
                 found.reason[0] != '\0' ? found.reason
                 : text[0] != '\0'       ? text
                                         : "it has no row of this");
        return;
    }
    const double shown = found.value * bar->scale;
    snprintf(v->measured, sizeof v->measured, "%.3g%s%s", shown, bar->unit[0] != '\0' ? " " : "",
             bar->unit);
    const int compares = bar->kind == GPU_BAR_AGREE;
    const int is_enough = bar->at_most ? shown <= bar->limit : shown >= bar->limit;
    v->met = !is_enough ? "no" : found.without > 0 ? "in part" : "yes";
    const int wrote = snprintf(
        v->note, sizeof v->note, "%s: %s%d case%s%s%s%s", bar->step,
        bar->kind == GPU_BAR_MEAN ? "mean of " : "", found.cases, plural_s((size_t)found.cases),
        compares                    ? ""
        : bar->kind == GPU_BAR_BEST ? ", best "
                                    : ", worst ",
        found.worst, strcmp(state, "ok") == 0 ? "" : ", the step did not end well");
    if (found.without > 0 && wrote > 0 && wrote < (int)sizeof v->note)
        snprintf(v->note + wrote, sizeof v->note - (size_t)wrote, "; %d have no figure: %s",
                 found.without, found.reason);
}

/* Of a step that ran: what an earlier run into the folder left of one that was skipped since is not this run's. */
static cJSON *results_of_run(const char *folder, const char *step) {
    char state[16], text[200];
    read_step(folder, step, state, text);
    return strcmp(state, "skipped") == 0 ? NULL : results_of(folder, step);
}

/* Whether the step, NULL for none, ran with shapes that are not the bar's. */
static int was_quick(const char *folder, const char *step) {
    char state[16], text[200] = "";
    if (step != NULL)
        read_step(folder, step, state, text);
    return strstr(text, GPU_BARS_QUICK) != NULL;
}

static verdict judge(const gpu_bar *bar, const char *folder) {
    char state[16], text[200];
    verdict v = {.met = ""};
    read_step(folder, bar->step, state, text);
    if (state[0] == '\0') {
        snprintf(v.note, sizeof v.note, "%s: it was not asked for", bar->step);
        return v;
    }
    if (bar->kind == GPU_BAR_STEP) {
        judge_step(bar, state, text, &v);
    } else {
        cJSON *const own = results_of_run(folder, bar->step);
        cJSON *const others =
            bar->other_step != NULL ? results_of_run(folder, bar->other_step) : NULL;
        const evidence e = {.folder = folder,
                            .file = own,
                            .results = cJSON_GetObjectItemCaseSensitive(own, "results"),
                            .others = cJSON_GetObjectItemCaseSensitive(others, "results")};
        judge_figure(bar, &e, state, text, &v);
        cJSON_Delete(own);
        cJSON_Delete(others);
    }
    if (v.met[0] != '\0' && (was_quick(folder, bar->step) || was_quick(folder, bar->other_step))) {
        const size_t used = strlen(v.note);
        v.met = "";
        snprintf(v.note + used, sizeof v.note - used, "; small shapes %s", GPU_BARS_QUICK);
    }
    return v;
}

/* ---- the two files ------------------------------------------------------------------------------------------ */

/* The device of the first step that left results, and when they were made. */
static void describe(const char *folder, worker_text *heading) {
    for (int i = 0; i < gpu_bar_count; i++) {
        cJSON *const file =
            gpu_bars[i].kind == GPU_BAR_STEP ? NULL : results_of(folder, gpu_bars[i].step);
        const cJSON *const device = cJSON_GetObjectItemCaseSensitive(file, "device");
        if (device != NULL)
            worker_text_set(heading, "%s, driver %s, %s", text_of(device, "name"),
                            text_of(device, "driver"), text_of(file, "created"));
        cJSON_Delete(file);
        if (heading->length > 0)
            return;
    }
    worker_text_set(heading, "no step left results");
}

/* A cell of a table in Markdown. */
static void write_cell(FILE *file, const char *text) {
    fputs("| ", file);
    for (; *text != '\0'; text++) {
        if (*text == '|')
            fputc('\\', file);
        fputc(*text, file);
    }
    fputc(' ', file);
}

static void add_row(FILE *file, cJSON *rows, const gpu_bar *bar, const verdict *v) {
    cJSON *const row = cJSON_CreateObject();
    write_cell(file, bar->part);
    write_cell(file, bar->text);
    write_cell(file, v->measured);
    write_cell(file, v->met);
    write_cell(file, v->note);
    fputs("|\n", file);
    results_put_text(row, "part", bar->part);
    results_put_text(row, "bar", bar->text);
    results_put_text(row, "measured", v->measured);
    results_put_text(row, "met", v->met);
    results_put_text(row, "note", v->note);
    cJSON_AddItemToArray(rows, row);
}

/* 0, or -1 with the reason on standard error. */
static int write_text(const char *folder, const char *name, const char *text) {
    char path[4096];
    file_error error;
    snprintf(path, sizeof path, "%s/%s", folder, name);
    if (text != NULL && output_file_write(path, text, strlen(text), &error) == 0)
        return 0;
    fprintf(stderr, "tandem _bars: cannot write %s\n", path);
    return -1;
}

static int write_bars(const char *folder) {
    char *table = NULL;
    size_t size = 0;
    worker_text heading = {.length = 0};
    FILE *const file = open_memstream(&table, &size);
    if (file == NULL)
        return -1;
    cJSON *const root = cJSON_CreateObject();
    cJSON *const rows = cJSON_CreateArray();
    describe(folder, &heading);
    fprintf(file, "%s\n\n| part | bar | measured | met | from |\n|---|---|---|---|---|\n",
            heading.text);
    for (int i = 0; i < gpu_bar_count; i++) {
        const verdict v = judge(&gpu_bars[i], folder);
        add_row(file, rows, &gpu_bars[i], &v);
    }
    results_put_text(root, "measured_on", heading.text);
    cJSON_AddItemToObject(root, "bars", rows);
    char *const json = results_json_text(root);
    fclose(file);
    const int result = write_text(folder, "bars.md", table) | write_text(folder, "bars.json", json);
    free(table);
    free(json);
    cJSON_Delete(root);
    return result;
}

int gpu_bars_command(int argc, char **argv) {
    if (argc != 2)
        return cli_refuse("tandem _bars", "the folder of a run of bench/gpu_suite is needed");
    return write_bars(argv[1]) == 0 ? CLI_EXIT_OK : CLI_EXIT_FAILED;
}
