#include "bench/report/report_page.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "bench/analysis/main_memory.h"
#include "bench/harness/bench_runner.h"
#include "bench/record/machine_busy.h"
#include "bench/report/page_head.h"
#include "bench/report/report_parts.h"
#include "bench/report/rooflines.h"
#include "common/html_text.h"
#include "common/plural.h"
#include "formats/utf8_text.h"

static const char *device_name(const results_file *results) {
    const char *const name = results_device_name(&results->devices[0]);
    return name == NULL ? "a device without a name" : name;
}

static void write_head(FILE *file, const results_file *results) {
    char title[256];
    snprintf(title, sizeof title, "Tandem report: %s", device_name(results));
    utf8_trim(title);
    page_write_head(file, title);
    fputs("<header>\n<h1>", file);
    html_text(file, device_name(results));
    fputs("</h1>\n<p>", file);
    const char *const version = results_fact_text(&results->library, "version");
    const char *const commit = results_fact_text(&results->library, "commit");
    html_format(file, "Measured by Tandem %s%s%s%s, %s.",
                version == NULL ? "of an unknown version" : version, commit == NULL ? "" : " (",
                commit == NULL ? "" : commit, commit == NULL ? "" : ")",
                results->created == NULL ? "at an unknown time" : results->created);
    fputs("</p>\n", file);
}

typedef struct row_counts {
    size_t rows;
    size_t verified;
    size_t noisy;
    size_t skipped;
    size_t failed;
} row_counts;

static row_counts count_rows(const results_file *results) {
    row_counts counts = {.rows = 0};
    for (size_t i = 0; i < results->row_count; i++) {
        const results_row *const row = &results->rows[i];
        counts.rows++;
        counts.verified += row->verified == 1;
        counts.noisy += results_row_is_noisy(row) != 0;
        counts.skipped += row->status == RESULT_SKIPPED;
        counts.failed += row->status == RESULT_FAILED;
    }
    return counts;
}

static void write_counts(FILE *file, const results_file *results) {
    const row_counts counts = count_rows(results);
    fputs("<p>", file);
    html_format(file,
                "%zu row%s; the output of %zu was compared with an oracle and is right; %zu %s "
                "noisy, %zu %s skipped.",
                counts.rows, plural_s(counts.rows), counts.verified, counts.noisy,
                plural_are(counts.noisy), counts.skipped, plural_were(counts.skipped));
    const double others = results_fact_number(&results->environment, "others_of_run");
    if (others > machine_busy_much)
        html_format(file, " The machine was busy: others took %.0f %% of the processors' time.",
                    100 * others);
    if (counts.failed > 0) {
        fputs(" <span class=\"bad\">", file);
        html_format(file, "%zu failed.", counts.failed);
        fputs("</span>", file);
    }
    fputs("</p>\n", file);
}

/* A page is of one device. */
static void write_others(FILE *file, const results_file *results) {
    if (results->device_count < 2)
        return;
    fputs("<p>", file);
    html_format(file, "The file has rows of %zu devices. This page is of one alone, not of",
                results->device_count);
    for (size_t i = 1; i < results->device_count; i++) {
        const char *const name = results_fact_text(&results->devices[i], "selector");
        html_format(file, "%s %s", i == 1 ? "" : ",", name == NULL ? "one without a name" : name);
    }
    fputs(": <code>tandem report --from FILE --device NAME</code> makes theirs, <code>tandem "
          "compare</code> puts them side by side.</p>\n",
          file);
}

static void write_failures(FILE *file, const results_file *results) {
    int written = 0;
    for (size_t i = 0; i < results->row_count; i++) {
        const results_row *const row = &results->rows[i];
        if (row->status != RESULT_FAILED)
            continue;
        if (written++ == 0)
            fputs("<section>\n<h2>What failed</h2>\n<ul>\n", file);
        fputs("<li>", file);
        html_format(file, "%s, %s, %s: %s", row->suite, row->case_name, row->impl,
                    row->reason == NULL ? "no reason given" : row->reason);
        fputs("</li>\n", file);
    }
    if (written > 0)
        fputs("</ul>\n</section>\n", file);
}

static int had_no_time(const results_row *row) {
    return row->status == RESULT_SKIPPED && row->reason != NULL &&
           strncmp(row->reason, bench_time_is_over, strlen(bench_time_is_over)) == 0;
}

/* What a suite left out, from its first row on. */
static void write_missing_of(FILE *file, const results_file *results, size_t first) {
    const char *const suite = results->rows[first].suite;
    size_t missing = 0;
    size_t all = 0;
    for (size_t i = 0; i < results->row_count; i++) {
        const results_row *const row = &results->rows[i];
        if (strcmp(row->suite, suite) != 0)
            continue;
        all++;
        missing += (size_t)had_no_time(row);
        if (i < first && had_no_time(row))
            return; /* it was written there */
    }
    fputs("<li>", file);
    html_format(file, "%s: %zu of %zu row%s, the first of them %s", suite, missing, all,
                plural_s(all), results->rows[first].case_name);
    fputs("</li>\n", file);
}

/* A report of a slow device ends in time: what that leaves out is not to be taken for what the device cannot do. */
static void write_missing(FILE *file, const results_file *results) {
    int written = 0;
    for (size_t i = 0; i < results->row_count; i++) {
        if (!had_no_time(&results->rows[i]))
            continue;
        if (written++ == 0)
            fputs("<section>\n<h2>What there was no time for</h2>\n<ul>\n", file);
        write_missing_of(file, results, i);
    }
    if (written > 0)
        fputs("</ul>\n</section>\n", file);
}

static int write_page(FILE *file, const results_file *results) {
    const report_device device = {.file = results, .sheet = main_memory_sheet(results, 0)};
    write_head(file, results);
    write_counts(file, results);
    write_others(file, results);
    fputs("</header>\n", file);
    write_failures(file, results);
    write_missing(file, results);
    report_write_card(file, &device);
    const int failed =
        report_write_memory(file, results) != 0 || rooflines_write(file, &device, 1) != 0;
    report_write_tables(file, results);
    report_write_environment(file, results);
    fputs("<footer><p class=\"small\">Medians; bands and ranges are the 5th to the 95th percentile "
          "of "
          "the samples. A figure without a mark is measured; dashed lines are not.</p></footer>\n"
          "</body>\n</html>\n",
          file);
    return failed ? -1 : 0;
}

int report_page_write(FILE *file, const results_file *results) {
    results_file first = *results;
    first.row_count = 0;
    first.rows = malloc((results->row_count + 1) * sizeof *first.rows);
    for (size_t i = 0; first.rows != NULL && i < results->row_count; i++) {
        if (results->rows[i].device == 0)
            first.rows[first.row_count++] = results->rows[i];
    }
    const int status = first.rows == NULL ? -1 : write_page(file, &first);
    free(first.rows);
    return status;
}
