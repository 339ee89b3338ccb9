/* What `tandem compare` tells of how far two runs agree (compare_agree.h). */
#include <math.h>
#include <stdarg.h>
#include <string.h>

#include <cjson/cJSON.h>

#include "bench/compare/compare_agree.h"
#include "bench/compare/compare_report.h"
#include "bench/record/results_json.h"
#include "common/plural.h"

/* Less of the processors' time is not told of. */
static const double much_of_run = 0.05;

static int is_repeated(const compare_report *report, size_t column) {
    return compare_is_same_device(report->table, column);
}

static double percent(size_t part, size_t whole) {
    return whole == 0 ? 0 : 100 * (double)part / (double)whole;
}

/* Append to a text. */
__attribute__((format(printf, 3, 4))) static void append(char *text, size_t size,
                                                         const char *format, ...) {
    const size_t used = strlen(text);
    va_list values;
    va_start(values, format);
    vsnprintf(text + used, size - used, format, values);
    va_end(values);
}

/* Whether the machine moved between two runs, as far as what ran beside a case can tell. */
static void append_movers(const compare_agreement *own, char *text, size_t size) {
    const size_t differing = own->cases - own->within;
    if (differing > 0)
        append(text, size,
               "; of the %zu other%s, what ran beside %s moved alike in %zu, not in %zu, and "
               "nothing ran beside %zu",
               differing, plural_s(differing), differing == 1 ? "it" : "them", own->alike,
               own->unlike, own->unjudged);
}

/* What else the processors did meanwhile, where it was much. */
static void append_disturbers(const results_facts *environment, char *text, size_t size) {
    const double others = results_fact_number(environment, "others_of_run");
    const double stolen = results_fact_number(environment, "stolen_of_run");
    if (others > much_of_run)
        append(text, size, ", other programs took %.0f %% of the processors' time", 100 * others);
    if (stolen > much_of_run)
        append(text, size, ", the host gave %.0f %% of the processors' time to others",
               100 * stolen);
}

static void agreement_text(const compare_report *report, size_t column,
                           const compare_agreement *own, char *text, size_t size) {
    snprintf(text, size, "%c: %zu of %zu row%s %s marked noisy (%.1f %%)",
             report->table->columns[column].label, own->noisy, own->rows, plural_s(own->rows),
             plural_are(own->noisy), percent(own->noisy, own->rows));
    append_disturbers(&report->table->columns[column].file->environment, text, size);
    if (own->visited > 0)
        append(text, size, ", visits of %zu of %zu were more than %.3g %% apart", own->moved,
               own->visited, 100 * report->margin);
    if (is_repeated(report, column)) {
        append(text, size,
               "; medians of %zu of %zu case%s are within %.3g %% of those of A (%.1f %%)",
               own->within, own->cases, plural_s(own->cases), 100 * report->margin,
               percent(own->within, own->cases));
        append_movers(own, text, size);
    }
}

/* Whether figures that should agree had a chance to. */
static void displaced_text(const compare_report *report, size_t column,
                           const compare_agreement *own, char *text, size_t size) {
    text[0] = '\0';
    if (!is_repeated(report, column) || own->displaced == 0)
        return;
    append(text, size,
           "%c: in %zu of the others the processors were placed differently, or a core was shared",
           report->table->columns[column].label, own->displaced);
    if (own->placed_alike > 0)
        append(text, size, "; of %zu case%s without that %zu %s within %.3g %% (%.1f %%)",
               own->placed_alike, plural_s(own->placed_alike), own->placed_alike_within,
               plural_are(own->placed_alike_within), 100 * report->margin,
               percent(own->placed_alike_within, own->placed_alike));
}

static void quiet_text(const compare_report *report, size_t column, const compare_agreement *own,
                       char *text, size_t size) {
    const int quiet = compare_was_quiet(own);
    text[0] = '\0';
    if (quiet < 0)
        return;
    append(text, size,
           "%c: the machine was %s: other programs took %.1f %% of the processors' time",
           report->table->columns[column].label, quiet ? "quiet" : "not quiet", 100 * own->others);
    if (!isnan(own->stolen))
        append(text, size, ", the host gave %.1f %% to others", 100 * own->stolen);
    if (own->placed > 0)
        append(text, size, ", %zu of %zu row%s met the processors elsewhere than most", own->strays,
               own->placed, plural_s(own->placed));
}

static void distances_text(const compare_report *report, size_t column,
                           const compare_agreement *own, char *text, size_t size) {
    text[0] = '\0';
    if (!is_repeated(report, column) || own->cases == 0)
        return;
    append(text, size, "%c: of %zu case%s", report->table->columns[column].label, own->cases,
           plural_s(own->cases));
    for (int i = 0; i < COMPARE_DISTANCES; i++)
        append(text, size, "%s %.1f %% are within %.3g %%", i == 0 ? "" : ",",
               percent(own->near[i], own->cases), 100 * compare_distances[i]);
}

static void clock_text(const compare_report *report, size_t column, const compare_agreement *own,
                       char *text, size_t size) {
    text[0] = '\0';
    if (!is_repeated(report, column) || own->clocked == 0)
        return;
    append(text, size,
           "%c: the clock was %.3f times as fast as A's; of %zu case%s without %.3g %% that "
           "%s of it %zu moved as the clock did, and with all divided by it %zu of %zu %s within "
           "(%.1f %%)",
           report->table->columns[column].label, own->clock, own->clocked_beyond,
           plural_s(own->clocked_beyond), 100 * report->margin,
           own->clocked_beyond == 1 ? "tells" : "tell", own->as_the_clock, own->within_at_one_clock,
           own->clocked, plural_are(own->within_at_one_clock),
           percent(own->within_at_one_clock, own->clocked));
}

/* Nobody is to take an unquiet machine's differences for those of what was measured. */
static void repeated_text(const compare_report *report, size_t column, const compare_agreement *own,
                          char *text, size_t size) {
    const int repeated = compare_repeated(own);
    text[0] = '\0';
    if (!is_repeated(report, column) || repeated < 0)
        return;
    append(text, size, "%c: the machine %s itself:", report->table->columns[column].label,
           repeated ? "repeated" : "did not repeat");
    if (own->controls > 0)
        append(text, size,
               " of %zu case%s that %s no code of Tandem's %zu %s within %.3g %% (%.1f %%)",
               own->controls, plural_s(own->controls), own->controls == 1 ? "runs" : "run",
               own->controls_within, plural_are(own->controls_within), 100 * report->margin,
               percent(own->controls_within, own->controls));
    if (!isnan(own->clock))
        append(text, size, "%s its clock differed by %.1f %%", own->controls > 0 ? "," : "",
               100 * fabs(own->clock - 1));
    if (!repeated)
        append(text, size, "; what else differs need not be the work of either run");
}

void compare_tell_agreement(const compare_report *report, compare_line *tell, void *user) {
    static void (*const texts[])(const compare_report *, size_t, const compare_agreement *, char *,
                                 size_t) = {agreement_text, distances_text, displaced_text,
                                            clock_text,     quiet_text,     repeated_text};
    for (size_t c = 0; c < report->table->column_count; c++) {
        const compare_agreement own = compare_agree(report->table, c, report->margin);
        for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
            char text[512];
            texts[i](report, c, &own, text, sizeof text);
            if (text[0] != '\0')
                tell(user, text);
        }
    }
}

/* Of the first column null: it is compared with nothing. */
static void put_count(cJSON *item, const char *key, size_t column, size_t count) {
    results_put_number(item, key, column == 0 ? NAN : (double)count);
}

static void add_repetition_json(cJSON *item, const compare_report *report, size_t column,
                                const compare_agreement *own) {
    const int repeated = is_repeated(report, column) ? compare_repeated(own) : -1;
    cJSON *const list = cJSON_AddArrayToObject(item, "distances");
    for (int i = 0; i < COMPARE_DISTANCES && column > 0; i++) {
        cJSON *const distance = cJSON_CreateObject();
        cJSON_AddNumberToObject(distance, "within", compare_distances[i]);
        cJSON_AddNumberToObject(distance, "cases", (double)own->near[i]);
        cJSON_AddItemToArray(list, distance);
    }
    put_count(item, "controls", column, own->controls);
    put_count(item, "controls_within_margin", column, own->controls_within);
    results_put_number(item, "clock_ratio", column == 0 ? NAN : own->clock);
    put_count(item, "cases_clocked", column, own->clocked);
    put_count(item, "cases_clocked_without_margin", column, own->clocked_beyond);
    put_count(item, "cases_as_the_clock_moved", column, own->as_the_clock);
    put_count(item, "cases_within_at_one_clock", column, own->within_at_one_clock);
    if (repeated >= 0)
        cJSON_AddBoolToObject(item, "machine_repeated_itself", repeated);
    else
        cJSON_AddNullToObject(item, "machine_repeated_itself");
}

void compare_add_agreement(cJSON *item, const compare_report *report, size_t column) {
    const compare_agreement found = compare_agree(report->table, column, report->margin);
    const compare_agreement *const own = &found;
    cJSON_AddNumberToObject(item, "rows", (double)own->rows);
    cJSON_AddNumberToObject(item, "noisy_rows", (double)own->noisy);
    if (column > 0)
        cJSON_AddBoolToObject(item, "same_device", is_repeated(report, column));
    else
        cJSON_AddNullToObject(item, "same_device");
    put_count(item, "cases_compared", column, own->cases);
    put_count(item, "cases_within_margin", column, own->within);
    put_count(item, "cases_moved_alike", column, own->alike);
    put_count(item, "cases_moved_alone", column, own->unlike);
    put_count(item, "cases_with_nothing_beside", column, own->unjudged);
    const results_facts *const environment = &report->table->columns[column].file->environment;
    results_put_number(item, "others_of_run", results_fact_number(environment, "others_of_run"));
    results_put_number(item, "stolen_of_run", results_fact_number(environment, "stolen_of_run"));
    cJSON_AddNumberToObject(item, "rows_visited", (double)own->visited);
    cJSON_AddNumberToObject(item, "rows_moved", (double)own->moved);
    put_count(item, "cases_displaced", column, own->displaced);
    put_count(item, "cases_placed_alike", column, own->placed_alike);
    put_count(item, "cases_placed_alike_within_margin", column, own->placed_alike_within);
    cJSON_AddNumberToObject(item, "rows_placed", (double)own->placed);
    cJSON_AddNumberToObject(item, "rows_placed_elsewhere", (double)own->strays);
    if (compare_was_quiet(own) >= 0)
        cJSON_AddBoolToObject(item, "quiet", compare_was_quiet(own));
    else
        cJSON_AddNullToObject(item, "quiet");
    add_repetition_json(item, report, column, own);
}
