#include "bench/report/report_visits.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cjson/cJSON.h>

#include "bench/record/bench_statistics.h"
#include "bench/record/results_json.h"
#include "bench/report/batch_times.h"

enum {
    SAMPLES = 10,      /* of sampling_rule_full */
    MOST_VISITS = 100, /* that --visits takes */
    MOST_BATCHES = 640 /* of a row that are kept: 4 KB, a few MB of a report */
};

/* A visit that makes a median shorter by no more has told nothing new. */
static const double settled = 0.01;

/* Of processor_probe.h, in "metrics"; what was measured in other placements than the report's is kept in "elsewhere". */
static const char handover[] = "handover_ns";
static const char work[] = "work_ns";
static const char chain[] = "chain_ns";
static const char crowding[] = "crowding";
static const char elsewhere[] = "elsewhere";

/* Of a row, and later of its visits: batch_times.h. */
static const char batches_of_row[] = "batches";
static const char batch_unit[] = "batch_unit_s";

static const char *text_of(const cJSON *row, const char *key) {
    const char *const text = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(row, key));
    return text == NULL ? "" : text;
}

/* NaN where there is none. */
static double number_of(const cJSON *object, const char *key) {
    const cJSON *const item = cJSON_GetObjectItemCaseSensitive(object, key);
    return cJSON_IsNumber(item) ? item->valuedouble : NAN;
}

static void set_number(cJSON *object, const char *key, double value) {
    cJSON_DeleteItemFromObjectCaseSensitive(object, key);
    results_put_number(object, key, value);
}

/* ---- which rows are the same ------------------------------------------------------------------------- */

static int are_same(const cJSON *left, const cJSON *right) {
    static const char *const keys[] = {"suite", "case", "impl",   "variant",
                                       "dtype", "mode", "packing"};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (strcmp(text_of(left, keys[i]), text_of(right, keys[i])) != 0)
            return 0;
    return cJSON_Compare(cJSON_GetObjectItemCaseSensitive(left, "shape"),
                         cJSON_GetObjectItemCaseSensitive(right, "shape"), 1);
}

/* Both lists have their rows in one order, and some of them, like probes, several times. */
static cJSON *find(cJSON *from, const cJSON *row) {
    while (from != NULL && !are_same(from, row))
        from = from->next;
    return from;
}

static int is_ok(const cJSON *row) {
    return strcmp(text_of(row, "status"), "ok") == 0 && number_of(row, "median_s") > 0;
}

/* ---- samples ----------------------------------------------------------------------------------------- */

static cJSON *metrics_of(cJSON *row) {
    cJSON *const metrics = cJSON_GetObjectItemCaseSensitive(row, "metrics");
    return metrics != NULL ? metrics : cJSON_AddObjectToObject(row, "metrics");
}

/* NaN: not known, or of no one placement. */
static processor_state placement_of(const cJSON *row) {
    const cJSON *const metrics = cJSON_GetObjectItemCaseSensitive(row, "metrics");
    return (processor_state){number_of(metrics, handover), number_of(metrics, work),
                             number_of(metrics, chain)};
}

static size_t batches_kept(const cJSON *visits) {
    const cJSON *visit = NULL;
    size_t sum = 0;
    cJSON_ArrayForEach(visit, visits) sum +=
        (size_t)cJSON_GetArraySize(cJSON_GetObjectItemCaseSensitive(visit, batches_of_row));
    return sum;
}

/* One for each sample: of a visit that had no more, or for which no room is left. */
static void put_shortest(cJSON *visit, const cJSON *raw) {
    double values[SAMPLES];
    size_t count = 0;
    const cJSON *sample = NULL;
    cJSON_ArrayForEach(sample, raw) {
        if (count < SAMPLES)
            values[count++] = sample->valuedouble;
    }
    batch_times_put(visit, values, count);
}

/* The row's batches are the visit's from now on. */
static void move_batches(const cJSON *visits, cJSON *row, cJSON *visit) {
    cJSON *const batches = cJSON_DetachItemFromObjectCaseSensitive(row, batches_of_row);
    cJSON *const unit = cJSON_DetachItemFromObjectCaseSensitive(row, batch_unit);
    const size_t count = (size_t)cJSON_GetArraySize(batches);
    if (batches != NULL && batches_kept(visits) + count <= MOST_BATCHES) {
        cJSON_AddItemToObject(visit, batches_of_row, batches);
        cJSON_AddItemToObject(visit, batch_unit, unit);
        return;
    }
    put_shortest(visit, cJSON_GetObjectItemCaseSensitive(row, "raw_s"));
    if (batches != NULL)
        cJSON_AddNumberToObject(visit, "batches_taken", (double)count);
    cJSON_Delete(batches);
    cJSON_Delete(unit);
}

/* What stays of a visit. */
static void note_visit(cJSON *visits, cJSON *row) {
    const cJSON *const metrics = metrics_of(row);
    cJSON *const visit = cJSON_CreateObject();
    results_put_number(visit, "median_s", number_of(row, "median_s"));
    results_put_number(visit, "samples", number_of(row, "samples"));
    results_put_number(visit, "disturbed", number_of(metrics, "disturbed"));
    results_put_number(visit, "stolen", number_of(metrics, "stolen"));
    results_put_number(visit, chain, number_of(metrics, chain));
    results_put_number(visit, crowding, number_of(metrics, crowding));
    if (cJSON_HasObjectItem(metrics, "tandem_is"))
        results_put_number(visit, "tandem_is", number_of(metrics, "tandem_is"));
    move_batches(visits, row, visit);
    cJSON_AddItemToArray(visits, visit);
}

static int samples_dealt(const cJSON *visits) {
    const cJSON *visit = NULL;
    double sum = 0;
    cJSON_ArrayForEach(visit, visits) sum += number_of(visit, "samples");
    return (int)sum;
}

static void deal(cJSON *row, const cJSON *later, int dealt) {
    cJSON *const raw = cJSON_GetObjectItemCaseSensitive(row, "raw_s");
    const cJSON *const added = cJSON_GetObjectItemCaseSensitive(later, "raw_s");
    const cJSON *sample = NULL;
    cJSON_ArrayForEach(sample, added) {
        cJSON *const place = dealt < SAMPLES ? NULL : cJSON_GetArrayItem(raw, dealt % SAMPLES);
        dealt++;
        if (place == NULL)
            cJSON_AddItemToArray(raw, cJSON_CreateNumber(sample->valuedouble));
        else
            cJSON_SetNumberValue(place, fmin(place->valuedouble, sample->valuedouble));
    }
}

static sample_summary summarize(const cJSON *raw, int *count) {
    double values[2 * SAMPLES];
    const cJSON *sample = NULL;
    *count = 0;
    cJSON_ArrayForEach(sample, raw) {
        if (*count < 2 * SAMPLES)
            values[(*count)++] = sample->valuedouble;
    }
    return summarize_samples(values, (size_t)*count);
}

static sample_summary set_statistics(cJSON *row, int *count) {
    const sample_summary summary = summarize(cJSON_GetObjectItemCaseSensitive(row, "raw_s"), count);
    set_number(row, "samples", *count);
    set_number(row, "median_s", summary.median);
    set_number(row, "min_s", summary.minimum);
    set_number(row, "p5_s", summary.p5);
    set_number(row, "p95_s", summary.p95);
    set_number(row, "gflops", number_of(row, "flops") / summary.median * 1e-9);
    set_number(row, "gbs", number_of(row, "bytes") / summary.median * 1e-9);
    return summary;
}

/* ---- figures beside the samples ------------------------------------------------------------------------ */

/* The best that any visit saw of a limit, and the row's share of that. */
static void take_limit(cJSON *row, const cJSON *mine, const cJSON *other, const char *limit,
                       const char *share, const char *rate) {
    const double best = fmax(number_of(mine, limit), number_of(other, limit));
    cJSON *const metrics = metrics_of(row);
    if (!(best > 0))
        return;
    set_number(metrics, limit, best);
    set_number(metrics, share, number_of(row, rate) / best);
}

/* Times that are the median in another unit. */
static void scale_times(cJSON *metrics, double factor) {
    static const char *const keys[] = {"latency_ns", "command_s"};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (cJSON_HasObjectItem(metrics, keys[i]))
            set_number(metrics, keys[i], factor * number_of(metrics, keys[i]));
}

static int ascending(const void *left, const void *right) {
    const double a = *(const double *)left;
    const double b = *(const double *)right;
    return (a > b) - (a < b);
}

/* The median, NaN of none. */
static double middle_of(double *values, int count) {
    qsort(values, (size_t)count, sizeof *values, ascending);
    return count == 0 ? NAN : values[count / 2];
}

/* Medians of the visits' batches, medians of visits, and what was stolen; a visit may not tell some of it. */
static void set_visits(cJSON *metrics, const cJSON *visits, double median) {
    double batches[MOST_VISITS] = {0};
    double least = INFINITY;
    double most = 0;
    double stolen = 0;
    int told = 0;
    int disturbed = 0;
    const cJSON *visit = NULL;
    cJSON_ArrayForEach(visit, visits) {
        const double own = number_of(visit, "median_s");
        const double batch = own * number_of(visit, "disturbed");
        const double taken = number_of(visit, "stolen");
        least = fmin(least, own);
        most = fmax(most, own);
        stolen += isnan(taken) ? 0 : taken;
        told += !isnan(taken);
        if (!isnan(batch) && disturbed < MOST_VISITS)
            batches[disturbed++] = batch;
    }
    set_number(metrics, "disturbed", middle_of(batches, disturbed) / median);
    set_number(metrics, "stolen", told == 0 ? NAN : stolen / told);
    set_number(metrics, "visits", cJSON_GetArraySize(visits));
    set_number(metrics, "apart", most / least - 1);
}

/* A ratio of two rows that were measured in turn is of one visit; of several the median. */
static void set_ratio(cJSON *metrics, const cJSON *visits) {
    double ratios[MOST_VISITS] = {0};
    int count = 0;
    const cJSON *visit = NULL;
    cJSON_ArrayForEach(visit, visits) {
        const double ratio = number_of(visit, "tandem_is");
        if (!isnan(ratio) && count < MOST_VISITS)
            ratios[count++] = ratio;
    }
    if (count > 0)
        set_number(metrics, "tandem_is", summarize_samples(ratios, (size_t)count).median);
}

static double fastest_of(const cJSON *visits) {
    const cJSON *visit = NULL;
    double fastest = INFINITY;
    cJSON_ArrayForEach(visit, visits) fastest = fmin(fastest, number_of(visit, "median_s"));
    return fastest;
}

static void mark_noise(cJSON *metrics, const sample_summary *summary, int count) {
    cJSON_DeleteItemFromObjectCaseSensitive(metrics, "noisy");
    if (count >= NOISY_LEAST_SAMPLES && summary->middle > noisy_middle)
        set_number(metrics, "noisy", summary->middle);
}

/* `later` is ok, and so is the row. */
static void pool(cJSON *row, cJSON *later) {
    cJSON *visits = cJSON_GetObjectItemCaseSensitive(row, "visits");
    int count = 0;
    if (number_of(row, "samples") > SAMPLES || number_of(later, "samples") > SAMPLES)
        return;
    if (visits == NULL) {
        visits = cJSON_AddArrayToObject(row, "visits");
        note_visit(visits, row);
    }
    const double known = fmax(placement_of(row).handover_ns, placement_of(later).handover_ns);
    const double before = fastest_of(visits);
    const double own = number_of(later, "median_s");
    deal(row, later, samples_dealt(visits));
    note_visit(visits, later);
    const sample_summary summary = set_statistics(row, &count);
    cJSON *const mine = cJSON_DetachItemFromObjectCaseSensitive(row, "metrics");
    cJSON *const other = cJSON_DetachItemFromObjectCaseSensitive(later, "metrics");
    const int is_faster = own < before;
    cJSON_AddItemToObject(row, "metrics", cJSON_Duplicate(is_faster ? other : mine, 1));
    take_limit(row, mine, other, "peak_gflops", "of_peak", "gflops");
    take_limit(row, mine, other, "read_gbs", "of_read", "gbs");
    scale_times(metrics_of(row), summary.median / (is_faster ? own : before));
    set_visits(metrics_of(row), visits, summary.median);
    set_ratio(metrics_of(row), visits);
    if (isnan(placement_of(row).handover_ns))
        set_number(metrics_of(row), handover, known);
    mark_noise(metrics_of(row), &summary, count);
    cJSON_Delete(mine);
    cJSON_Delete(other);
}

/* ---- placements of the processors ---------------------------------------------------------------------- */

static int is_placed(const cJSON *row, processor_state placement) {
    return !processor_placements_differ(placement_of(row), placement);
}

/* The row, or what it keeps of another placement; NULL: nothing yet of this one. */
static cJSON *find_placement(cJSON *row, processor_state placement) {
    const cJSON *const others = cJSON_GetObjectItemCaseSensitive(row, elsewhere);
    cJSON *other = NULL;
    if (is_placed(row, placement))
        return row;
    cJSON_ArrayForEach(other, others) if (is_placed(other, placement)) return other;
    return NULL;
}

/* Both are ok. Times of two placements are two things, and are not taken together. */
static void pool_placed(cJSON *row, cJSON *later) {
    cJSON *const place = find_placement(row, placement_of(later));
    if (place != NULL) {
        pool(place, later);
        return;
    }
    cJSON *others = cJSON_GetObjectItemCaseSensitive(row, elsewhere);
    if (others == NULL)
        others = cJSON_AddArrayToObject(row, elsewhere);
    cJSON_AddItemToArray(others, cJSON_Duplicate(later, 1));
}

/* Put what the row keeps of the placement in its place. Returns the row that stands there now. */
static cJSON *change_places(cJSON *rows, cJSON *row, cJSON *other) {
    cJSON *const others = cJSON_DetachItemFromObjectCaseSensitive(row, elsewhere);
    cJSON_DetachItemViaPointer(others, other);
    cJSON_AddItemToArray(others, cJSON_Duplicate(row, 1));
    cJSON_AddItemToObject(other, elsewhere, others);
    cJSON_ReplaceItemViaPointer(rows, row, other);
    return other;
}

/* What another placement is told by: the row says the rest. */
static void shorten_others(cJSON *row) {
    static const char *const kept[] = {"samples",      "raw_s",    "median_s",
                                       batches_of_row, batch_unit, "visits"};
    cJSON *const others = cJSON_DetachItemFromObjectCaseSensitive(row, elsewhere);
    const cJSON *other = NULL;
    if (others == NULL)
        return;
    cJSON *const list = cJSON_AddArrayToObject(row, elsewhere);
    cJSON_ArrayForEach(other, others) {
        cJSON *const told = cJSON_CreateObject();
        results_put_number(told, handover, placement_of(other).handover_ns);
        results_put_number(told, work, placement_of(other).work_ns);
        results_put_number(told, chain, placement_of(other).chain_ns);
        for (size_t i = 0; i < sizeof kept / sizeof *kept; i++)
            if (cJSON_HasObjectItem(other, kept[i]))
                cJSON_AddItemToObject(
                    told, kept[i],
                    cJSON_Duplicate(cJSON_GetObjectItemCaseSensitive(other, kept[i]), 1));
        cJSON_AddItemToArray(list, told);
    }
    cJSON_Delete(others);
}

static int visits_of(const cJSON *row) {
    const int count = cJSON_GetArraySize(cJSON_GetObjectItemCaseSensitive(row, "visits"));
    return count == 0 ? 1 : count;
}

static void add_figure(double figure, int times, sample_series *figures) {
    for (int i = 0; i < times && !isnan(figure); i++)
        series_add(figures, figure, 0); /* one less, where memory is short */
}

static void add_placement(const cJSON *row, sample_series *handovers, sample_series *works) {
    const processor_state placement = placement_of(row);
    add_figure(placement.handover_ns, visits_of(row), handovers);
    add_figure(placement.work_ns, visits_of(row), works);
}

void report_visits_placements(const cJSON *rows, sample_series *handovers, sample_series *works) {
    const cJSON *row = NULL;
    cJSON_ArrayForEach(row, rows) {
        const cJSON *const others = cJSON_GetObjectItemCaseSensitive(row, elsewhere);
        const cJSON *other = NULL;
        add_placement(row, handovers, works);
        cJSON_ArrayForEach(other, others) add_placement(other, handovers, works);
    }
}

double report_visits_misplaced(const cJSON *rows, processor_state placement) {
    cJSON *row = NULL;
    int count = 0;
    int missing = 0;
    cJSON_ArrayForEach(row, rows) {
        count += is_ok(row);
        missing += is_ok(row) && find_placement(row, placement) == NULL;
    }
    return count == 0 ? 0 : (double)missing / count;
}

/* ---- the pace ------------------------------------------------------------------------------------------ */

static report_pace pace_of(const cJSON *figures) {
    return (report_pace){number_of(figures, chain), number_of(figures, crowding)};
}

static void add_pace(report_pace pace, sample_series *chains, sample_series *crowds) {
    add_figure(pace.chain_ns, 1, chains);
    add_figure(pace.crowding, 1, crowds);
}

void report_visits_paces(const cJSON *rows, sample_series *chains, sample_series *crowds) {
    const cJSON *row = NULL;
    cJSON_ArrayForEach(row, rows) {
        const cJSON *const visits = cJSON_GetObjectItemCaseSensitive(row, "visits");
        const cJSON *visit = NULL;
        if (visits == NULL)
            add_pace(pace_of(cJSON_GetObjectItemCaseSensitive(row, "metrics")), chains, crowds);
        cJSON_ArrayForEach(visit, visits) add_pace(pace_of(visit), chains, crowds);
    }
}

static int is_slow(report_pace pace, report_pace best) {
    return processor_clock_is_slow(pace.chain_ns, best.chain_ns) ||
           processor_is_crowded(pace.crowding, best.crowding);
}

/* Whether no visit was without. */
static int was_slowed(const cJSON *row, report_pace best) {
    const cJSON *const visits = cJSON_GetObjectItemCaseSensitive(row, "visits");
    const cJSON *visit = NULL;
    int slowed = is_slow(pace_of(cJSON_GetObjectItemCaseSensitive(row, "metrics")), best);
    cJSON_ArrayForEach(visit, visits) slowed = slowed && is_slow(pace_of(visit), best);
    return slowed;
}

double report_visits_slowed(const cJSON *rows, report_pace best) {
    const cJSON *row = NULL;
    int count = 0;
    int slow = 0;
    cJSON_ArrayForEach(row, rows) {
        count += is_ok(row);
        slow += is_ok(row) && was_slowed(row, best);
    }
    return count == 0 ? 0 : (double)slow / count;
}

/* ---- the report's placement ---------------------------------------------------------------------------- */

void report_visits_place(cJSON *rows, processor_state placement) {
    cJSON *row = NULL;
    for (row = rows->child; row != NULL; row = row->next) {
        cJSON *const other = find_placement(row, placement);
        if (other != NULL && other != row)
            row = change_places(rows, row, other);
        shorten_others(row);
    }
}

/* ---- visits ---------------------------------------------------------------------------------------------- */

/* A wrong result counts whenever it came; one that there was no time for is taken from the visit that had it. */
static cJSON *take_row(cJSON *rows, cJSON *row, cJSON *later) {
    if (is_ok(row) && is_ok(later)) {
        pool_placed(row, later);
        return row;
    }
    if (is_ok(row) ? strcmp(text_of(later, "status"), "failed") != 0
                   : strcmp(text_of(row, "status"), "failed") == 0)
        return row;
    cJSON *const taken = cJSON_Duplicate(later, 1);
    if (taken == NULL)
        return row;
    cJSON_ReplaceItemViaPointer(rows, row, taken);
    return taken;
}

double report_visits_merge(cJSON *rows, cJSON *visit) {
    cJSON *at = rows->child;
    int known = 0;
    int shorter = 0;
    while (visit->child != NULL) {
        cJSON *const later = cJSON_DetachItemViaPointer(visit, visit->child);
        cJSON *const row = find(at, later);
        if (row == NULL) {
            cJSON_AddItemToArray(rows, later);
            continue;
        }
        const double before = number_of(row, "median_s");
        cJSON *const taken = take_row(rows, row, later);
        known++;
        shorter += number_of(taken, "median_s") < (1 - settled) * before;
        at = taken->next;
        cJSON_Delete(later);
    }
    return known == 0 ? 0 : (double)shorter / known;
}

/* ---- settings of the memory suite ---------------------------------------------------------------------- */

static int is_setting(cJSON *row, const char *which) {
    return number_of(metrics_of(row), which) > 0;
}

/* Another setting in the same case. */
static cJSON *find_partner(cJSON *rows, const cJSON *row) {
    cJSON *other = NULL;
    cJSON_ArrayForEach(other, rows) {
        if (other != row && is_ok(other) && !is_setting(other, "setting_default") &&
            strcmp(text_of(other, "impl"), "tandem") == 0 &&
            strcmp(text_of(other, "case"), text_of(row, "case")) == 0 &&
            strcmp(text_of(other, "mode"), text_of(row, "mode")) == 0)
            return other;
    }
    return NULL;
}

/* ---- the top of the ladders ---------------------------------------------------------------------------- */

static int is_rung(const cJSON *row) {
    return is_ok(row) && strcmp(text_of(row, "suite"), "compute") == 0 &&
           strstr(text_of(row, "case"), " intensity ") != NULL;
}

/* Each visit had a fastest rung, and rows have their figures from different visits. */
static void mark_peaks(cJSON *rows) {
    cJSON *row = NULL;
    cJSON_ArrayForEach(row, rows) {
        cJSON *other = NULL;
        int is_peak = is_rung(row);
        if (!is_peak)
            continue;
        cJSON_ArrayForEach(other, rows) {
            if (is_rung(other) && strcmp(text_of(other, "dtype"), text_of(row, "dtype")) == 0 &&
                number_of(other, "gflops") > number_of(row, "gflops"))
                is_peak = 0;
        }
        cJSON_DeleteItemFromObjectCaseSensitive(metrics_of(row), "peak");
        if (is_peak)
            set_number(metrics_of(row), "peak", 1);
    }
}

void report_visits_finish(cJSON *rows) {
    cJSON *row = NULL;
    mark_peaks(rows);
    cJSON_ArrayForEach(row, rows) {
        if (!is_ok(row) || !is_setting(row, "setting_default"))
            continue;
        cJSON *const partner = find_partner(rows, row);
        if (partner == NULL)
            continue;
        const int is_best = number_of(row, "median_s") < number_of(partner, "median_s");
        cJSON_DeleteItemFromObjectCaseSensitive(metrics_of(row), "setting_best");
        cJSON_DeleteItemFromObjectCaseSensitive(metrics_of(partner), "setting_best");
        set_number(metrics_of(is_best ? row : partner), "setting_best", 1);
    }
}

/* ---- levels of memory ---------------------------------------------------------------------------------- */

static int is_sweep_point(const cJSON *row) {
    return is_ok(row) && strcmp(text_of(row, "impl"), "tandem") == 0 &&
           strcmp(text_of(row, "mode"), "pipelined") == 0 &&
           strncmp(text_of(row, "case"), "sweep read ", 11) == 0;
}

void report_visits_levels(cJSON *rows, const cache_hints *hints, char *text, size_t size) {
    cache_point curve[CACHE_MAX_POINTS] = {{0, 0}};
    cache_level levels[CACHE_MAX_LEVELS];
    cJSON *points[CACHE_MAX_POINTS];
    int count = 0;
    cJSON *row = NULL;
    text[0] = '\0';
    cJSON_ArrayForEach(row, rows) {
        if (!is_sweep_point(row) || count == CACHE_MAX_POINTS)
            continue;
        const cJSON *const shape = cJSON_GetObjectItemCaseSensitive(row, "shape");
        curve[count] = (cache_point){number_of(shape, "bytes"),
                                     1e-9 * number_of(row, "bytes") / number_of(row, "p5_s")};
        points[count++] = row;
    }
    const int level_count = cache_levels_find(curve, count, hints, levels);
    for (int i = 0; i < count && level_count > 0; i++) {
        const int level = cache_level_of(levels, level_count, i);
        set_number(metrics_of(points[i]), "level", levels[level].is_memory ? 0 : level + 1);
    }
    if (level_count > 0)
        cache_levels_describe(levels, level_count, text, size);
}

/* The row of a case that was not its default: what was looked for, whichever of the two was faster in the end. */
static int was_found(cJSON *rows, cJSON *row) {
    if (!is_ok(row) || strcmp(text_of(row, "impl"), "tandem") != 0 ||
        !cJSON_HasObjectItem(cJSON_GetObjectItemCaseSensitive(row, "shape"), "occupancy"))
        return 0;
    return is_setting(row, "setting_default") ? find_partner(rows, row) == NULL : 1;
}

void report_visits_forms(cJSON *rows, char *text, unsigned long size) {
    cJSON *row = NULL;
    size_t used = 0;
    text[0] = '\0';
    cJSON_ArrayForEach(row, rows) {
        const cJSON *const shape = cJSON_GetObjectItemCaseSensitive(row, "shape");
        const char *const name = text_of(row, "case");
        const char *const variant = text_of(row, "variant");
        if (!was_found(rows, row))
            continue;
        const int wrote = snprintf(text + used, size - used, "%s%.*s=%.*s:%.0f:%.0f:%.0f",
                                   used == 0 ? "" : ",", (int)strcspn(name, " "), name,
                                   (int)strcspn(variant, ":"), variant, number_of(shape, "unroll"),
                                   number_of(shape, "occupancy"), number_of(shape, "ahead"));
        if (wrote < 0 || (size_t)wrote >= size - used) {
            text[used] = '\0';
            return;
        }
        used += (size_t)wrote;
    }
}

int report_visits_reference(const cJSON *row, double *first, double *last) {
    const cJSON *const visits = cJSON_GetObjectItemCaseSensitive(row, "visits");
    const int count = cJSON_GetArraySize(visits);
    const double bytes = number_of(row, "bytes");
    if (!is_ok(row) || strcmp(text_of(row, "impl"), "stream") != 0 ||
        strncmp(text_of(row, "case"), "read ", 5) != 0)
        return -1;
    *first = *last = 1e-9 * bytes / number_of(row, "median_s");
    if (count == 0)
        return 0;
    *first = 1e-9 * bytes / number_of(cJSON_GetArrayItem(visits, 0), "median_s");
    *last = 1e-9 * bytes / number_of(cJSON_GetArrayItem(visits, count - 1), "median_s");
    return 0;
}
