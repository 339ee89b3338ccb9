#include "bench/predict/predict_memory.h"

#include <math.h>
#include <stdlib.h>

#include "bench/analysis/memory_evidence.h"
#include "bench/analysis/row_placement.h"
#include "bench/record/bench_statistics.h"

/* The two points about a working set, the share of the way to the second (by logarithms), and the nearer. */
typedef struct place {
    const predict_point *low;
    const predict_point *high;
    const predict_point *nearer;
    double share;
} place;

static place find_place(const predict_profile *profile, double working_set) {
    const predict_point *const points = profile->points;
    size_t above = 0;
    while (above < profile->point_count && points[above].working_set < working_set)
        above++;
    place found;
    found.high = &points[above < profile->point_count ? above : above - 1];
    found.low = above == 0 ? found.high : &points[above - 1];
    const double span = log(found.high->working_set / found.low->working_set);
    found.share = span > 0 ? log(working_set / found.low->working_set) / span : 0;
    found.nearer = found.share > 0.5 ? found.high : found.low;
    return found;
}

static double swept_speed(const place *at) {
    return exp((1 - at->share) * log(at->low->bytes_per_s) +
               at->share * log(at->high->bytes_per_s));
}

/* The median speed of the points of a level; NaN where it has none. */
static double level_speed(const predict_profile *profile, int level) {
    double speeds[PREDICT_MAX_POINTS];
    size_t count = 0;
    for (size_t i = 0; i < profile->point_count; i++) {
        if (profile->points[i].level == level)
            speeds[count++] = profile->points[i].bytes_per_s;
    }
    return summarize_samples(speeds, count).median;
}

/* What disturbs only slows, and a larger set is never read faster: where the sweep says so, the smaller one was disturbed. */
static void mend_points(predict_profile *profile) {
    for (size_t i = profile->point_count; i-- > 1;) {
        predict_point *const smaller = &profile->points[i - 1];
        smaller->bytes_per_s = fmax(smaller->bytes_per_s, profile->points[i].bytes_per_s);
    }
}

void predict_find_levels(predict_profile *profile) {
    mend_points(profile);
    profile->last_cache = 0;
    for (size_t i = 0; i < profile->point_count; i++) {
        if (profile->points[i].level > profile->last_cache)
            profile->last_cache = profile->points[i].level;
    }
    profile->cache_bytes_per_s = profile->last_cache > 0 ? level_speed(profile, profile->last_cache)
                                                         : profile->main_bytes_per_s;
}

int predict_level(const predict_profile *profile, double working_set) {
    return find_place(profile, working_set).nearer->level;
}

double predict_main_share(const predict_profile *profile, double working_set) {
    const place at = find_place(profile, working_set);
    const double cache_s = 1 / profile->cache_bytes_per_s;
    const double main_s = 1 / profile->main_bytes_per_s;
    if (!(main_s > cache_s))
        return 1;
    return fmin(1, fmax(0, (1 / swept_speed(&at) - cache_s) / (main_s - cache_s)));
}

double predict_read_speed(const predict_profile *profile, double working_set) {
    const place at = find_place(profile, working_set);
    const double speed = swept_speed(&at);
    const double share = predict_main_share(profile, working_set);
    /* Of the time, what main memory takes; a scale of the bandwidth is one of main memory. */
    const double of_main = share == 1 ? 1 : fmin(1, share * speed / profile->main_bytes_per_s);
    return speed / (1 - of_main + of_main / profile->bandwidth_scale);
}

/* ---- rows of reading ------------------------------------------------------------------------------- */

/* A cache shares itself with what else runs, so a set of nearly its size is one of main memory, whatever a sweep makes of it. */
#define CACHE_SHARE 0.75

static int is_level(double labelled) {
    return labelled >= 0 && labelled < PREDICT_LEVELS;
}

static int level_of(double labelled, double working_set, double cache_bytes) {
    if (cache_bytes > 0 && working_set > CACHE_SHARE * cache_bytes)
        return 0;
    return is_level(labelled) ? (int)labelled : cache_bytes > 0;
}

typedef struct reading {
    predict_point point;
    int is_swept;
    int is_scan;
    int is_in_cache; /* so the sweep says */
    int elsewhere;
} reading;

typedef struct reading_list {
    reading *items; /* by their working sets */
    size_t count;
} reading_list;

static int is_held_out(const predict_observations *list, const results_row *row, int without) {
    for (size_t i = 0; i < list->count; i++) {
        if (list->items[i].row == row)
            return list->items[i].fold == without;
    }
    return 0;
}

static int order_readings(const void *left, const void *right) {
    const predict_point *const a = &((const reading *)left)->point;
    const predict_point *const b = &((const reading *)right)->point;
    return (a->working_set > b->working_set) - (a->working_set < b->working_set);
}

/* Whether there is more than scans, which are of sets that no cache holds. */
static int has_curve(const reading_list *readings) {
    size_t others = 0;
    for (size_t i = 0; i < readings->count; i++)
        others += !readings->items[i].is_scan;
    return others > 0;
}

static void collect_readings(const predict_observations *list, int without, double launch_s,
                             double cache, reading_list *readings) {
    const processor_state usual = row_usual_placement(list->file);
    for (size_t i = 0; i < list->file->row_count; i++) {
        const results_row *const row = &list->file->rows[i];
        const double set = memory_evidence_set(row);
        const double level = results_figure_value(&row->metrics, "level");
        if (memory_evidence_kind(row) >= EVIDENCE_READINGS || !memory_evidence_is_plain(row) ||
            !(set > 0) || !(row->median_s > launch_s) || is_held_out(list, row, without))
            continue;
        readings->items[readings->count++] = (reading){
            .point = {.working_set = set,
                      .bytes_per_s = row->bytes / (row->median_s - launch_s),
                      .level = level_of(level, set, cache)},
            .is_swept = memory_evidence_kind(row) == EVIDENCE_SWEEP,
            .is_scan = memory_evidence_kind(row) == EVIDENCE_SCAN,
            .is_in_cache = is_level(level) && level >= 1,
            .elsewhere = row_is_elsewhere(row, usual),
        };
    }
    qsort(readings->items, readings->count, sizeof *readings->items, order_readings);
}

/*
 * The curve below main memory: the sweep, and above its largest set what else was read. What was read from elsewhere in the machine has
 * other caches and another way to memory, and says nothing of it.
 */
static void add_curve(const reading_list *readings, double from, predict_profile *profile) {
    double swept = 0;
    for (size_t i = 0; i < readings->count; i++) {
        const reading *const item = &readings->items[i];
        if (item->is_swept && !item->elsewhere)
            swept = item->point.working_set;
    }
    for (size_t i = 0; i < readings->count; i++) {
        const reading *const item = &readings->items[i];
        profile->has_levels |= item->is_in_cache;
        if (profile->point_count + 1 < PREDICT_MAX_POINTS && !item->elsewhere &&
            item->point.working_set < from && (item->is_swept || item->point.working_set > swept))
            profile->points[profile->point_count++] = item->point;
    }
}

/* The median speed of the rows from a set on that were or were not elsewhere, as a point at the least of their sets. Its rows' count. */
static size_t find_main(const reading_list *readings, double from, int elsewhere, double *speeds,
                        predict_point *point) {
    size_t count = 0;
    for (size_t i = readings->count; i-- > 0;) {
        const reading *const item = &readings->items[i];
        if (item->point.working_set < from || item->elsewhere != elsewhere)
            continue;
        if (count == 0)
            *point = item->point;
        point->working_set = item->point.working_set;
        speeds[count++] = item->point.bytes_per_s;
    }
    if (count > 0)
        point->bytes_per_s = summarize_samples(speeds, count).median;
    return count;
}

static void fill_points(const reading_list *readings, double from, double *speeds,
                        predict_profile *profile) {
    const double largest = readings->items[readings->count - 1].point.working_set;
    const double least = largest >= from ? from : EVIDENCE_OF_LARGEST * largest;
    predict_point point = {0};
    profile->main_rows = find_main(readings, least, 0, speeds, &point);
    profile->main_elsewhere = profile->main_rows == 0;
    if (profile->main_elsewhere)
        profile->main_rows = find_main(readings, least, 1, speeds, &point);
    add_curve(readings, least, profile);
    profile->points[profile->point_count++] = point;
    profile->main_bytes_per_s = point.bytes_per_s;
    predict_find_levels(profile);
}

int predict_read_memory(const predict_observations *list, int without, predict_profile *profile,
                        file_error *error) {
    const results_file *const file = list->file;
    double cache = NAN;
    if (predict_device_bytes(file, "cache_bytes", &cache, error) != 0)
        return -1;
    reading_list readings = {malloc((file->row_count + 1) * sizeof *readings.items), 0};
    double *const speeds = malloc((file->row_count + 1) * sizeof *speeds);
    int status = 0;
    profile->point_count = 0;
    if (readings.items == NULL || speeds == NULL) {
        status = file_fail(error, "out of memory");
    } else {
        collect_readings(list, without, profile->launch_s, cache, &readings);
        if (readings.count > 0 && (without >= 0 || has_curve(&readings)))
            fill_points(&readings, memory_evidence_from(file), speeds, profile);
        else
            status = file_fail(error,
                               "%s has no rows of reading memory: run tandem report, or tandem "
                               "bench memory --operation sweep,read",
                               file_printable(file->name).text);
    }
    free(readings.items);
    free(speeds);
    return status;
}
