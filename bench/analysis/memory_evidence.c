#include "bench/analysis/memory_evidence.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/analysis/row_placement.h"
#include "bench/record/bench_statistics.h"

static const struct {
    const char *name;
    const char *suite;
    const char *start; /* of the case; NULL: any */
    double written;    /* share of the bytes */
} kinds[EVIDENCE_KINDS] = {
    [EVIDENCE_SWEEP] = {"sweep", "memory", "sweep read ", 0},
    [EVIDENCE_READ] = {"read", "memory", "read ", 0},
    [EVIDENCE_SCAN] = {"scan", "memory", "scan ", 0},
    [EVIDENCE_COPY] = {"copy", "memory", "copy ", 1.0 / 2},
    [EVIDENCE_SCALE] = {"scale", "memory", "scale ", 1.0 / 2},
    [EVIDENCE_ADD] = {"add", "memory", "add ", 1.0 / 3},
    [EVIDENCE_TRIAD] = {"triad", "memory", "triad ", 1.0 / 3},
    [EVIDENCE_WRITE] = {"write", "memory", "write ", 1},
    [EVIDENCE_GEMV] = {"gemv", "gemv", NULL, 0},
    [EVIDENCE_ELEMENTWISE] = {"elementwise", "elementwise", NULL, 0},
    [EVIDENCE_QUANT] = {"quant", "quant", NULL, 0},
};

const char *memory_evidence_name(evidence_kind kind) {
    return kinds[kind].name;
}

evidence_kind memory_evidence_kind(const results_row *row) {
    if (row->status != RESULT_OK || strcmp(row->impl, "tandem") != 0 || row->mode == NULL ||
        strcmp(row->mode, "pipelined") != 0 || !(row->bytes > 0))
        return EVIDENCE_KINDS;
    for (int i = 0; i < EVIDENCE_KINDS; i++) {
        const char *const start = kinds[i].start;
        if (strcmp(row->suite, kinds[i].suite) == 0 &&
            (start == NULL || strncmp(row->case_name, start, strlen(start)) == 0))
            return (evidence_kind)i;
    }
    return EVIDENCE_KINDS;
}

double memory_evidence_set(const results_row *row) {
    const evidence_kind kind = memory_evidence_kind(row);
    const double copies = results_figure_value(&row->shape, "copies_of_b");
    if (kind < EVIDENCE_READINGS)
        return results_figure_value(&row->shape, "bytes");
    return row->bytes * (copies > 1 ? copies : 1);
}

int memory_evidence_is_plain(const results_row *row) {
    return isnan(results_figure_value(&row->metrics, "setting_best")) ||
           !isnan(results_figure_value(&row->metrics, "setting_default"));
}

static int is_reading(const results_row *row) {
    return row->device == 0 && memory_evidence_kind(row) < EVIDENCE_READINGS;
}

/* The device's last cache, or the largest set that the sweep found in one; NaN: not known. */
static double last_cache(const results_file *file) {
    const results_facts *const device = &file->devices[0];
    const double plain = results_fact_number(device, "cache_bytes");
    const double told = isnan(plain) ? results_fact_number(device, "cache_bytes.value") : plain;
    double swept = NAN;
    for (size_t i = 0; i < file->row_count; i++) {
        const results_row *const row = &file->rows[i];
        if (is_reading(row) && results_figure_value(&row->metrics, "level") >= 1)
            swept = fmax(swept, memory_evidence_set(row));
    }
    return told > 0 ? told : swept;
}

double memory_evidence_from(const results_file *file) {
    const double from = EVIDENCE_CACHES * last_cache(file);
    double largest = NAN;
    for (size_t i = 0; i < file->row_count; i++) {
        if (is_reading(&file->rows[i]))
            largest = fmax(largest, memory_evidence_set(&file->rows[i]));
    }
    if (isnan(largest))
        return INFINITY;
    return largest >= from ? from : EVIDENCE_OF_LARGEST * largest;
}

/* ---- groups ---------------------------------------------------------------------------------------- */

static int is_best(const results_row *row) {
    return results_figure_value(&row->metrics, "setting_best") == 1;
}

/* The median speed of a kind's rows from a working set on, in a form; NaN where there are none. `speeds` has room for all rows. */
static double group_speed(const results_file *file, evidence_kind kind, double from,
                          int (*is_of_form)(const results_row *row), double *speeds,
                          size_t *count) {
    *count = 0;
    for (size_t i = 0; i < file->row_count; i++) {
        const results_row *const row = &file->rows[i];
        if (row->device == 0 && memory_evidence_kind(row) == kind &&
            memory_evidence_set(row) >= from && is_of_form(row))
            speeds[(*count)++] = row->bytes / row->median_s * 1e-9;
    }
    return *count > 0 ? summarize_samples(speeds, *count).median : NAN;
}

static size_t rows_elsewhere(const results_file *file, evidence_kind kind, double from,
                             processor_state usual) {
    size_t count = 0;
    for (size_t i = 0; i < file->row_count; i++) {
        const results_row *const row = &file->rows[i];
        count += row->device == 0 && memory_evidence_kind(row) == kind &&
                 memory_evidence_set(row) >= from && memory_evidence_is_plain(row) &&
                 row_is_elsewhere(row, usual);
    }
    return count;
}

static evidence_group find_group(const results_file *file, evidence_kind kind, double from,
                                 processor_state usual, double *speeds) {
    evidence_group group;
    size_t best_rows;
    const double best = group_speed(file, kind, from, is_best, speeds, &best_rows);
    group.gbs = group_speed(file, kind, from, memory_evidence_is_plain, speeds, &group.rows);
    group.elsewhere = rows_elsewhere(file, kind, from, usual);
    group.most =
        kind >= EVIDENCE_GEMV ? INFINITY : (1 + kinds[kind].written) * fmax(group.gbs, best);
    return group;
}

/* ---- comparison ------------------------------------------------------------------------------------ */

static void compare(memory_evidence *evidence, evidence_kind slow, double slow_gbs,
                    evidence_kind fast, double fast_gbs) {
    const double apart = fast_gbs / slow_gbs;
    if (!(apart >= 1) || apart <= evidence->apart)
        return;
    evidence->slow = slow;
    evidence->fast = fast;
    evidence->slow_gbs = slow_gbs;
    evidence->fast_gbs = fast_gbs;
    evidence->apart = apart;
}

/* What reads is compared with each other, what does more with the slowest and the fastest of that. */
static void compare_groups(memory_evidence *evidence) {
    const evidence_group *const groups = evidence->groups;
    int least = 0;
    int most = 0;
    for (int i = 1; i < EVIDENCE_READINGS; i++) {
        least = isnan(groups[least].gbs) || groups[i].gbs < groups[least].gbs ? i : least;
        most = isnan(groups[most].most) || groups[i].most > groups[most].most ? i : most;
    }
    for (int i = 0; i < EVIDENCE_KINDS; i++) {
        const evidence_kind kind = (evidence_kind)i;
        if (i < EVIDENCE_READINGS) {
            compare(evidence, (evidence_kind)least, groups[least].gbs, kind, groups[i].gbs);
            continue;
        }
        compare(evidence, (evidence_kind)most, groups[most].most, kind, groups[i].gbs);
        compare(evidence, kind, groups[i].most, (evidence_kind)least, groups[least].gbs);
    }
}

int memory_evidence_find(const results_file *file, memory_evidence *evidence) {
    const double from = memory_evidence_from(file);
    const processor_state usual = row_usual_placement(file);
    double *const speeds = malloc((file->row_count + 1) * sizeof *speeds);
    *evidence = (memory_evidence){.apart = NAN};
    if (speeds == NULL)
        return -1;
    for (int i = 0; i < EVIDENCE_KINDS; i++)
        evidence->groups[i] = find_group(file, (evidence_kind)i, from, usual, speeds);
    compare_groups(evidence);
    free(speeds);
    return 0;
}

int memory_evidence_contradicts(const memory_evidence *evidence) {
    return evidence->apart > EVIDENCE_APART;
}

/* ---- text ------------------------------------------------------------------------------------------ */

/* ", read 50.8 (2 rows)" */
static void add_group(const memory_evidence *evidence, int kind, char *text, size_t size) {
    const evidence_group *const group = &evidence->groups[kind];
    const size_t length = strlen(text);
    char elsewhere[64] = "";
    if (group->rows == 0)
        return;
    if (group->elsewhere > 0)
        snprintf(elsewhere, sizeof elsewhere, ", %zu with the processors elsewhere",
                 group->elsewhere);
    snprintf(text + length, size - length, "%s%s %.3g (%zu row%s%s)", length == 0 ? "" : ", ",
             kinds[kind].name, group->gbs, group->rows, group->rows == 1 ? "" : "s", elsewhere);
}

void memory_evidence_text(const memory_evidence *evidence, char *text, size_t size) {
    char all[EVIDENCE_TEXT - 400] = "";
    text[0] = '\0';
    if (!memory_evidence_contradicts(evidence))
        return;
    for (int i = 0; i < EVIDENCE_KINDS; i++)
        add_group(evidence, i, all, sizeof all);
    snprintf(text, size,
             "main memory gave %.3g GB/s to %s and %.3g to %s, %.4g times as much, where one "
             "machine differs by at most %.3g: it changed while it was measured, so measure again. "
             "In GB/s: %s",
             evidence->slow_gbs, kinds[evidence->slow].name, evidence->fast_gbs,
             kinds[evidence->fast].name, evidence->apart, EVIDENCE_APART, all);
}
