#include "bench/predict/predict_run.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/analysis/main_memory.h"
#include "bench/record/bench_statistics.h"

/* ---- memory ---------------------------------------------------------------------------------- */

/*
 * If no row reads from main memory, rows with at least this fraction of the largest working set are
 * used instead.
 */
#define MAIN_OF_LARGEST 0.5

/*
 * A working set counts as cached up to this fraction of the cache's size, because a cache is shared
 * with other work.
 */
#define CACHE_SHARE 0.75

static int order_points(const void *left, const void *right) {
    const predict_point *const a = left;
    const predict_point *const b = right;
    return (a->working_set > b->working_set) - (a->working_set < b->working_set);
}

/* Collects a point for each row that only reads, sorted by working set. Returns their count. */
static size_t collect_points(const results_file *file, double launch_s, double cache,
                             predict_point *points) {
    size_t count = 0;
    for (size_t i = 0; i < file->row_count; i++) {
        const results_row *const row = &file->rows[i];
        const double set = predict_reading_set(row);
        if (!(set > 0) || !(row->median_s > launch_s))
            continue;
        points[count++] = (predict_point){
            .working_set = set,
            .bytes_per_s = row->bytes / (row->median_s - launch_s),
            .is_cached = set <= CACHE_SHARE * cache,
        };
    }
    qsort(points, count, sizeof *points, order_points);
    return count;
}

/*
 * Sets the points of the profile for working sets below `from`. Adds a last point for main memory,
 * with the median speed of all other sets.
 */
static void set_curve(const predict_point *all, size_t count, double from, double *speeds,
                      predict_profile *profile) {
    size_t main_rows = 0;
    predict_point *const points = profile->points;
    for (size_t i = 0; i < count; i++) {
        if (all[i].working_set >= from)
            speeds[main_rows++] = all[i].bytes_per_s;
        else if (profile->point_count + 1 < PREDICT_MAX_POINTS)
            points[profile->point_count++] = all[i];
    }
    points[profile->point_count++] = (predict_point){
        .working_set = from, .bytes_per_s = summarize_samples(speeds, main_rows).median};
    /* A larger set is never read faster. If it seems so, the smaller set's row was disturbed. */
    for (size_t i = profile->point_count - 1; i-- > 0;)
        points[i].bytes_per_s = fmax(points[i].bytes_per_s, points[i + 1].bytes_per_s);
}

static int read_memory(const results_file *file, predict_profile *profile, file_error *error) {
    const double cache = main_memory_cache(file, 0);
    predict_point *const points = malloc((file->row_count + 1) * sizeof *points);
    double *const speeds = malloc((file->row_count + 1) * sizeof *speeds);
    const size_t count = points == NULL || speeds == NULL
                             ? 0
                             : collect_points(file, profile->launch_s, cache, points);
    if (count > 0) {
        const double largest = points[count - 1].working_set;
        const double from = main_memory_from(file, 0);
        set_curve(points, count, largest >= from ? from : MAIN_OF_LARGEST * largest, speeds,
                  profile);
    }
    const int out_of_memory = points == NULL || speeds == NULL;
    free(points);
    free(speeds);
    if (out_of_memory)
        return file_fail(error, "out of memory");
    return count > 0 ? 0
                     : file_fail(error,
                                 "%s has no rows for reading memory: run tandem report, or tandem "
                                 "bench memory --operation sweep,read",
                                 file_printable(file->name).text);
}

/* Returns the index of the first point that is not below the set, or of the last point. */
static size_t place_of(const predict_profile *profile, double working_set) {
    size_t above = 0;
    while (above + 1 < profile->point_count && profile->points[above].working_set < working_set)
        above++;
    return above;
}

/* Returns is_cached of the nearer one of the two points around the set. */
static int is_cached(const predict_profile *profile, double working_set) {
    const size_t above = place_of(profile, working_set);
    const predict_point *const high = &profile->points[above];
    const predict_point *const low = above == 0 ? high : high - 1;
    const int is_nearer_low =
        working_set * working_set < low->working_set * high->working_set || low == high;
    return is_nearer_low ? low->is_cached : high->is_cached;
}

/*
 * Interpolates between the two points around the set in log-log space. Sets that are not cached are
 * `scale` times as fast.
 */
static double read_speed(const predict_profile *profile, double working_set, double scale) {
    const size_t above = place_of(profile, working_set);
    const predict_point *const high = &profile->points[above];
    const predict_point *const low = above == 0 ? high : high - 1;
    const double span = log(high->working_set / low->working_set);
    const double share =
        span > 0 ? fmin(1, fmax(0, log(working_set / low->working_set) / span)) : 1;
    const double speed = exp((1 - share) * log(low->bytes_per_s) + share * log(high->bytes_per_s));
    return is_cached(profile, working_set) ? speed : speed * scale;
}

double predict_read_speed(const predict_profile *profile, double working_set) {
    return read_speed(profile, working_set, profile->bandwidth_scale);
}

/* ---- one operation --------------------------------------------------------------------------- */

double predict_peak(const predict_profile *profile, const char *dtype) {
    double peak = NAN;
    if (profile->sheet != NULL)
        return 1e9 * datasheet_peak_gflops(profile->sheet, dtype);
    for (size_t i = 0; i < profile->rows.count; i++) {
        const predict_observation *const item = &profile->rows.items[i];
        if (!isnan(item->work.flops) && strcmp(item->work.dtype, dtype) == 0)
            peak = fmax(peak, item->work.flops / item->seconds); /* fmax ignores NaN */
    }
    return peak;
}

/*
 * Returns the times of arithmetic and memory at full speed. `scale` multiplies the speed of main
 * memory.
 */
static predict_estimate least_times(const predict_profile *profile, const predict_work *work,
                                    double scale) {
    return (predict_estimate){
        .compute_s = isnan(work->flops) ? 0 : work->flops / predict_peak(profile, work->dtype),
        .memory_s =
            (work->read_bytes + work->write_bytes) / read_speed(profile, work->working_set, scale),
        .launch_s = profile->launch_s,
        .is_cached = is_cached(profile, work->working_set),
    };
}

static double squared_log_ratio(double a, double b) {
    const double difference = log(a / b);
    return isnan(difference) ? 0 : difference * difference;
}

/* Returns how different two operations are, in m, n and k, working sets and write fractions. */
static double distance(const predict_profile *profile, const predict_work *a,
                       const predict_work *b) {
    const double main_set = profile->points[profile->point_count - 1].working_set;
    const double write_share = a->write_bytes / (a->read_bytes + a->write_bytes) -
                               b->write_bytes / (b->read_bytes + b->write_bytes);
    return squared_log_ratio(a->m, b->m) + squared_log_ratio(a->n, b->n) +
           squared_log_ratio(a->k, b->k) +
           /* All sets in main memory count as equally large. */
           squared_log_ratio(fmin(a->working_set, main_set), fmin(b->working_set, main_set)) +
           4 * write_share * write_share;
}

/*
 * This is added to each distance. It keeps one disturbed row from dominating if another row is
 * almost as near.
 */
#define MIN_DISTANCE 0.05

/*
 * The rows nearest to an operation, sorted by distance. A row's ratio is its measured time, without
 * the launch, divided by its time at full speed.
 */
typedef struct nearest_rows {
    double distance[PREDICT_NEAREST + 1]; /* one extra slot for the row that drops out */
    double log_ratio[PREDICT_NEAREST + 1];
    int count;
} nearest_rows;

static void add_row(nearest_rows *rows, double distance, double log_ratio) {
    int place = rows->count;
    for (; place > 0 && rows->distance[place - 1] > distance; place--) {
        rows->distance[place] = rows->distance[place - 1];
        rows->log_ratio[place] = rows->log_ratio[place - 1];
    }
    rows->distance[place] = distance;
    rows->log_ratio[place] = log_ratio;
    rows->count += rows->count < PREDICT_NEAREST;
}

/*
 * Returns the weighted geometric mean of the ratios of the nearest rows of a class. Rows of the
 * case `without` are excluded (NULL: none). Returns NaN if there are no rows.
 */
static double ratio_of(const predict_profile *profile, const char *key, const predict_work *work,
                       const char *without) {
    nearest_rows rows = {.count = 0};
    double sum = 0;
    double weights = 0;
    for (size_t i = 0; i < profile->rows.count; i++) {
        const predict_observation *const item = &profile->rows.items[i];
        if (strcmp(item->work.key, key) != 0 ||
            (without != NULL && strcmp(item->row->case_name, without) == 0))
            continue;
        const predict_estimate least = least_times(profile, &item->work, 1);
        /* The launch time may be that of this row. At least 1 % of it counts as the row's own. */
        const double own_s = fmax(item->seconds - profile->launch_s, 0.01 * item->seconds);
        add_row(&rows, distance(profile, work, &item->work) + MIN_DISTANCE,
                log(own_s / (least.compute_s + least.memory_s)));
    }
    for (int i = 0; i < rows.count; i++) {
        const double weight = pow(rows.distance[i], -1.5);
        sum += weight * rows.log_ratio[i];
        weights += weight;
    }
    return exp(sum / weights);
}

static predict_estimate estimate_by(const predict_profile *profile, const predict_class *measured,
                                    const predict_work *work, const char *without) {
    predict_estimate estimate = least_times(profile, work, profile->bandwidth_scale);
    const double ratio = ratio_of(profile, measured->key, work, without);
    estimate.compute_s *= ratio;
    estimate.memory_s *= ratio;
    estimate.seconds = estimate.launch_s + estimate.compute_s + estimate.memory_s;
    estimate.measured = measured;
    return estimate;
}

/* ---- classes --------------------------------------------------------------------------------- */

static const predict_class *find_class(const predict_profile *profile, const char *key) {
    for (size_t i = 0; i < profile->class_count; i++) {
        if (strcmp(profile->classes[i].key, key) == 0)
            return &profile->classes[i];
    }
    return NULL;
}

static double amount_of_work(const predict_work *work) {
    return isnan(work->flops) ? work->read_bytes + work->write_bytes : work->flops;
}

static void collect_class(predict_profile *profile, const char *key) {
    predict_class *const added = &profile->classes[profile->class_count++];
    *added = (predict_class){.least_work = INFINITY, .least_side = INFINITY};
    snprintf(added->key, sizeof added->key, "%s", key);
    for (size_t i = 0; i < profile->rows.count; i++) {
        const predict_work *const work = &profile->rows.items[i].work;
        if (strcmp(work->key, key) != 0)
            continue;
        added->rows++;
        added->least_work = fmin(added->least_work, amount_of_work(work));
        added->most_work = fmax(added->most_work, amount_of_work(work));
        added->least_side = fmin(added->least_side, fmin(work->m, fmin(work->n, work->k)));
    }
}

/*
 * Finds the mean error of a class, by predicting each of its rows from its rows of other cases.
 * Adds the errors to `sum`.
 */
static void find_error(predict_profile *profile, predict_class *of, double *sum) {
    double own = 0;
    size_t count = 0;
    for (size_t i = 0; i < profile->rows.count && of->rows >= PREDICT_MIN_ROWS; i++) {
        const predict_observation *const item = &profile->rows.items[i];
        if (strcmp(item->work.key, of->key) != 0)
            continue;
        const predict_estimate estimate =
            estimate_by(profile, of, &item->work, item->row->case_name);
        const double error = fabs(estimate.seconds / item->seconds - 1);
        if (isnan(error))
            continue;
        own += error;
        count++;
    }
    of->error = count > 0 ? own / (double)count : NAN;
    profile->compared += count;
    *sum += own;
}

/* ---- the profile ----------------------------------------------------------------------------- */

/* Returns the memory size that the device reported, or else that of the datasheet, or NaN. */
static double find_capacity(const results_file *file) {
    const double reported = results_get_number(file->devices[0], "global_bytes");
    const datasheet *const sheet = main_memory_sheet(file, 0);
    if (reported > 0)
        return reported;
    return sheet != NULL ? 1e9 * sheet->values[DATASHEET_CAPACITY_GB] : NAN;
}

int predict_profile_read(const results_file *file, predict_profile *profile, file_error *error) {
    double sum = 0;
    *profile = (predict_profile){.name = file->name,
                                 .capacity_bytes = find_capacity(file),
                                 .launch_s = predict_launch(file),
                                 .watts = predict_watts(file),
                                 .bandwidth_scale = 1};
    if (predict_observe(file, &profile->rows) != 0)
        return file_fail(error, "out of memory");
    for (size_t i = 0; i < profile->rows.count; i++)
        profile->launch_s = fmin(profile->launch_s, profile->rows.items[i].seconds);
    if (read_memory(file, profile, error) != 0) {
        predict_profile_release(profile);
        return -1;
    }
    for (size_t i = 0; i < profile->rows.count; i++) {
        const char *const key = profile->rows.items[i].work.key;
        if (find_class(profile, key) == NULL && profile->class_count < PREDICT_MAX_CLASSES)
            collect_class(profile, key);
    }
    for (size_t i = 0; i < profile->class_count; i++)
        find_error(profile, &profile->classes[i], &sum);
    profile->error = profile->compared > 0 ? sum / (double)profile->compared : NAN;
    return 0;
}

void predict_profile_from_sheet(const datasheet *sheet, predict_profile *profile) {
    *profile = (predict_profile){.name = sheet->name,
                                 .sheet = sheet,
                                 .point_count = 1,
                                 .capacity_bytes = 1e9 * sheet->values[DATASHEET_CAPACITY_GB],
                                 .watts = sheet->values[DATASHEET_BOARD_WATTS],
                                 .error = NAN,
                                 .bandwidth_scale = 1};
    profile->points[0] =
        (predict_point){.working_set = 1, .bytes_per_s = 1e9 * sheet->values[DATASHEET_DRAM_GBS]};
}

void predict_profile_release(predict_profile *profile) {
    free(profile->rows.items);
    profile->rows = (predict_observations){.items = NULL};
}

/* ---- predictions ----------------------------------------------------------------------------- */

static int sheet_time(const predict_profile *profile, const predict_work *work,
                      predict_estimate *estimate, file_error *error) {
    *estimate = least_times(profile, work, profile->bandwidth_scale);
    if (isnan(estimate->compute_s))
        return file_fail(error, "the datasheet of %s has no rate for %s", profile->name,
                         work->dtype);
    estimate->seconds = estimate->launch_s + fmax(estimate->compute_s, estimate->memory_s);
    return 0;
}

static int check_range(const predict_profile *profile, const predict_class *measured,
                       const predict_work *work, file_error *error) {
    const double amount = amount_of_work(work);
    const char *const unit = isnan(work->flops) ? "bytes" : "operations";
    if (amount > PREDICT_UPWARD * measured->most_work ||
        amount < PREDICT_DOWNWARD * measured->least_work)
        return file_fail(
            error,
            "%s: %.3g %s of '%s' are outside the measured range: its rows have %.3g to %.3g (up to "
            "%g times the largest and %g of the smallest are predicted)",
            profile->name, amount, unit, measured->key, measured->least_work, measured->most_work,
            PREDICT_UPWARD, PREDICT_DOWNWARD);
    const double side = fmin(work->m, fmin(work->n, work->k));
    if (side < PREDICT_DOWNWARD * measured->least_side)
        return file_fail(
            error, "%s: a side of %.0f is outside the measured range: the smallest of '%s' is %.0f",
            profile->name, side, measured->key, measured->least_side);
    return 0;
}

int predict_time(const predict_profile *profile, const predict_work *work,
                 predict_estimate *estimate, file_error *error) {
    if (profile->sheet != NULL)
        return sheet_time(profile, work, estimate, error);
    const predict_class *const measured = find_class(profile, work->key);
    const size_t own_rows = measured == NULL ? 0 : measured->rows;
    if (own_rows < PREDICT_MIN_ROWS)
        return file_fail(error, "%s has %zu rows of '%s', but %d are needed", profile->name,
                         own_rows, work->key, PREDICT_MIN_ROWS);
    if (check_range(profile, measured, work, error) != 0)
        return -1;
    *estimate = estimate_by(profile, measured, work, NULL);
    return 0;
}
