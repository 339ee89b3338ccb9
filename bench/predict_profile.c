#include "bench/predict_profile.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/predict_fit.h"
#include "bench/predict_rows.h"

/* Rounds of dividing products into those that arithmetic and those that memory binds, and fitting each. */
enum {
    ROUNDS = 6
};

/* ---- memory ---------------------------------------------------------------------------------------- */

double predict_read_speed(const predict_profile *profile, double working_set, int *level) {
    const predict_point *const points = profile->points;
    size_t above = 0;
    while (above < profile->point_count && points[above].working_set < working_set)
        above++;
    const predict_point *const high = &points[above < profile->point_count ? above : above - 1];
    const predict_point *const low = above == 0 ? high : &points[above - 1];
    const double span = log(high->working_set / low->working_set);
    const double share = span > 0 ? log(working_set / low->working_set) / span : 0;
    const predict_point *const nearer = share > 0.5 ? high : low;
    const double speed = exp((1 - share) * log(low->bytes_per_s) + share * log(high->bytes_per_s));
    if (level != NULL)
        *level = nearer->level;
    /* A scale of the bandwidth is one of main memory. */
    return nearer->level == 0 ? speed * profile->bandwidth_scale : speed;
}

static predict_regime regime_of(const predict_profile *profile, const predict_class *fitted,
                                int level) {
    int last = 0;
    for (size_t i = 0; i < profile->point_count; i++)
        last = profile->points[i].level > last ? profile->points[i].level : last;
    if (level == 0)
        return REGIME_MAIN;
    return level == last || fitted->one_cache ? REGIME_LAST_CACHE : REGIME_INNER_CACHES;
}

/* ---- one class ------------------------------------------------------------------------------------- */

/* What each term costs a call, in seconds. */
static void term_costs(const predict_work *work, double peak, double costs[PREDICT_TERMS]) {
    const double plain = work->flops / peak;
    costs[0] = plain;
    costs[1] = plain / work->m;
    costs[2] = plain / work->n;
    costs[3] = plain / work->k;
    costs[4] = 1;
}

static double compute_time(const predict_class *fitted, const predict_work *work) {
    double costs[PREDICT_TERMS];
    double seconds = 0;
    if (!(fitted->peak > 0))
        return 0;
    term_costs(work, fitted->peak, costs);
    for (int t = 0; t < PREDICT_TERMS; t++)
        seconds += fitted->terms[t] * costs[t];
    return seconds;
}

static double memory_time(const predict_profile *profile, const predict_class *fitted,
                          const predict_work *work, int *level) {
    const double speed = predict_read_speed(profile, work->working_set, level);
    const predict_regime regime = regime_of(profile, fitted, *level);
    if (fitted->moving[regime] == 0)
        return (work->read_bytes + work->write_bytes) / speed;
    const double *const moves = fitted->moves[regime];
    const double bytes_s = moves[1] * work->read_bytes + moves[2] * work->write_bytes;
    return moves[0] + bytes_s / (regime == REGIME_MAIN ? profile->bandwidth_scale : 1);
}

static predict_estimate estimate_work(const predict_profile *profile, const predict_class *fitted,
                                      const predict_work *work) {
    predict_estimate estimate = {.launch_s = profile->launch_s};
    estimate.compute_s = compute_time(fitted, work);
    estimate.memory_s = memory_time(profile, fitted, work, &estimate.level);
    estimate.seconds = estimate.launch_s + fmax(estimate.compute_s, estimate.memory_s);
    return estimate;
}

static int is_of(const predict_observation *item, const char *key, int without) {
    return item->fold != without && strcmp(item->work.key, key) == 0;
}

enum {
    BOUND_BY_ARITHMETIC = PREDICT_REGIMES
};

/* What binds a row, by the fit so far: a regime of memory, or arithmetic. */
static int bound_of(const predict_profile *profile, const predict_class *fitted,
                    const predict_work *work) {
    const predict_estimate now = estimate_work(profile, fitted, work);
    return now.compute_s > now.memory_s ? BOUND_BY_ARITHMETIC
                                        : (int)regime_of(profile, fitted, now.level);
}

static void fill_equation(const predict_profile *profile, const predict_class *fitted,
                          const predict_observation *item, int bound, fit_equation *equation) {
    *equation = (fit_equation){.fixed = profile->launch_s, .target = item->seconds};
    if (bound == BOUND_BY_ARITHMETIC) {
        term_costs(&item->work, fitted->peak, equation->terms);
        return;
    }
    equation->terms[0] = 1;
    equation->terms[1] = item->work.read_bytes;
    equation->terms[2] = item->work.write_bytes;
}

/*
 * Of few rows only what they can tell: with as many unknowns as rows a fit goes through every one of them and misses the next.
 * What a class leaves out costs nothing there.
 */
static void leave_out(fit_equation *equations, size_t count, int bound) {
    static const size_t least_of_move[PREDICT_MOVES] = {4, 1, 1};
    static const size_t least_of_term[PREDICT_TERMS] = {1, 7, 7, 7, 4};
    const size_t *const least = bound == BOUND_BY_ARITHMETIC ? least_of_term : least_of_move;
    const int terms = bound == BOUND_BY_ARITHMETIC ? PREDICT_TERMS : PREDICT_MOVES;
    for (int t = 0; t < terms; t++) {
        for (size_t i = 0; i < count && count < least[t]; i++)
            equations[i].terms[t] = 0;
    }
}

/* Fit what is bound alike: first sort the rows by what binds them, then fit each kind. */
static void fit_round(const predict_profile *profile, const predict_observations *list, int without,
                      predict_class *fitted, fit_equation *equations) {
    const predict_class before = *fitted;
    for (int bound = 0; bound <= BOUND_BY_ARITHMETIC; bound++) {
        double factors[FIT_MAX_TERMS];
        size_t count = 0;
        for (size_t i = 0; i < list->count; i++) {
            const predict_observation *const item = &list->items[i];
            if (is_of(item, fitted->key, without) &&
                bound_of(profile, &before, &item->work) == bound)
                fill_equation(profile, &before, item, bound, &equations[count++]);
        }
        if (bound < BOUND_BY_ARITHMETIC)
            fitted->moving[bound] = count;
        if (count == 0)
            continue;
        leave_out(equations, count, bound);
        fit_factors(equations, count, bound == BOUND_BY_ARITHMETIC ? PREDICT_TERMS : PREDICT_MOVES,
                    factors);
        if (bound == BOUND_BY_ARITHMETIC)
            memcpy(fitted->terms, factors, sizeof fitted->terms);
        else
            memcpy(fitted->moves[bound], factors, sizeof fitted->moves[bound]);
    }
}

/* The greatest rate of products of a class's dtype, whatever their number of rows. */
static double dtype_peak(const predict_observations *list, const char *key) {
    double peak = 0;
    const char *const dtype = strchr(key, ' ');
    for (size_t i = 0; i < list->count; i++) {
        const predict_work *const work = &list->items[i].work;
        const char *const other = strchr(work->key, ' ');
        if (dtype == NULL || other == NULL || isnan(work->flops) ||
            strncmp(dtype, other, 1 + strcspn(dtype + 1, " ") + 1) != 0)
            continue;
        peak = fmax(peak, work->flops / list->items[i].seconds);
    }
    return peak;
}

/* Whether either kind of caches serves so few rows that it cannot be fitted by itself. */
static int has_one_cache(const predict_profile *profile, const predict_observations *list,
                         int without, const predict_class *fitted) {
    const predict_class apart = {.one_cache = 0};
    size_t served[PREDICT_REGIMES] = {0};
    for (size_t i = 0; i < list->count; i++) {
        int level = 0;
        if (!is_of(&list->items[i], fitted->key, without))
            continue;
        predict_read_speed(profile, list->items[i].work.working_set, &level);
        served[regime_of(profile, &apart, level)]++;
    }
    return served[REGIME_LAST_CACHE] < PREDICT_LEAST_ROWS ||
           served[REGIME_INNER_CACHES] < PREDICT_LEAST_ROWS;
}

/* Fit the class of fitted->key to all rows but those of a fold (-1: to all). */
static void fit_class(const predict_profile *profile, const predict_observations *list, int without,
                      predict_class *fitted, fit_equation *equations) {
    fitted->peak = dtype_peak(list, fitted->key);
    memset(fitted->moving, 0, sizeof fitted->moving);
    fitted->one_cache = has_one_cache(profile, list, without, fitted);
    memset(fitted->terms, 0, sizeof fitted->terms);
    fitted->terms[0] = 1;
    for (int round = 0; round < ROUNDS; round++)
        fit_round(profile, list, without, fitted, equations);
}

/* ---- error ----------------------------------------------------------------------------------------- */

/* Predict each fold from the others. Adds to *sum and returns how many rows were predicted. */
static size_t hold_out(const predict_profile *profile, const predict_observations *list,
                       predict_class *fitted, fit_equation *equations, double *sum) {
    double total = 0;
    size_t count = 0;
    fitted->worst = 0;
    for (int fold = 0; fold < PREDICT_FOLDS; fold++) {
        predict_class partial = *fitted;
        size_t left = 0;
        for (size_t i = 0; i < list->count; i++)
            left += is_of(&list->items[i], fitted->key, fold);
        if (left + 1 < PREDICT_LEAST_ROWS)
            continue;
        fit_class(profile, list, fold, &partial, equations);
        for (size_t i = 0; i < list->count; i++) {
            const predict_observation *const item = &list->items[i];
            if (item->fold != fold || strcmp(item->work.key, fitted->key) != 0)
                continue;
            const double predicted = estimate_work(profile, &partial, &item->work).seconds;
            const double error = fabs(predicted - item->seconds) / item->seconds;
            fitted->worst = fmax(fitted->worst, error);
            total += error;
            count++;
        }
    }
    fitted->error = count > 0 ? total / (double)count : NAN;
    *sum += total;
    return count;
}

/* ---- the profile ----------------------------------------------------------------------------------- */

static predict_class *find_class(const predict_profile *profile, const char *key) {
    for (size_t i = 0; i < profile->class_count; i++) {
        if (strcmp(profile->classes[i].key, key) == 0)
            return (predict_class *)&profile->classes[i];
    }
    return NULL;
}

static double amount_of_work(const predict_work *work) {
    return isnan(work->flops) ? work->read_bytes + work->write_bytes : work->flops;
}

static void widen_range(predict_class *fitted, const predict_work *work) {
    const double amount = amount_of_work(work);
    fitted->rows++;
    fitted->least_work = fmin(fitted->least_work, amount);
    fitted->most_work = fmax(fitted->most_work, amount);
    if (!isnan(work->m))
        fitted->least_side = fmin(fitted->least_side, fmin(work->m, fmin(work->n, work->k)));
}

static void collect_classes(const predict_observations *list, predict_profile *profile) {
    for (size_t i = 0; i < list->count; i++) {
        const predict_work *const work = &list->items[i].work;
        predict_class *fitted = find_class(profile, work->key);
        if (fitted == NULL) {
            if (profile->class_count == PREDICT_MAX_CLASSES)
                continue;
            fitted = &profile->classes[profile->class_count++];
            *fitted = (predict_class){.least_work = INFINITY, .least_side = INFINITY};
            snprintf(fitted->key, sizeof fitted->key, "%s", work->key);
        }
        widen_range(fitted, work);
    }
}

static void fit_classes(const predict_observations *list, predict_profile *profile,
                        fit_equation *equations) {
    double sum = 0;
    for (size_t i = 0; i < profile->class_count; i++) {
        predict_class *const fitted = &profile->classes[i];
        profile->held_out += hold_out(profile, list, fitted, equations, &sum);
        fit_class(profile, list, -1, fitted, equations);
    }
    profile->error = profile->held_out > 0 ? sum / (double)profile->held_out : NAN;
}

static double median_watts(const results_file *file) {
    double sum = 0;
    size_t count = 0;
    for (size_t i = 0; i < file->row_count; i++) {
        const double watts = results_figure_value(&file->rows[i].metrics, "power_w");
        sum += watts > 0 ? watts : 0;
        count += watts > 0;
    }
    return count > 0 ? sum / (double)count : NAN;
}

static double fastest(const predict_observations *list) {
    double least = INFINITY;
    for (size_t i = 0; i < list->count; i++)
        least = fmin(least, list->items[i].seconds);
    return least;
}

int predict_profile_fit(const results_file *file, predict_profile *profile, file_error *error) {
    predict_observations list = {NULL, 0};
    *profile = (predict_profile){.name = file->name, .bandwidth_scale = 1};
    profile->capacity_bytes = results_fact_number(&file->devices[0], "global_bytes");
    profile->link_bytes_per_s = predict_link(file);
    profile->watts = median_watts(file);
    fit_equation *equations = NULL;
    int status = predict_observe(file, &list);
    if (status == 0)
        equations = malloc((list.count + 1) * sizeof *equations);
    if (equations == NULL) {
        status = file_fail(error, "out of memory");
    } else {
        profile->launch_s = fmin(predict_launch(file), fastest(&list));
        status = predict_read_points(file, profile->launch_s, profile, error);
    }
    if (status == 0) {
        collect_classes(&list, profile);
        fit_classes(&list, profile, equations);
    }
    free(equations);
    free(list.items);
    return status;
}

void predict_profile_from_sheet(const datasheet *sheet, predict_profile *profile) {
    *profile = (predict_profile){.name = sheet->name, .sheet = sheet, .bandwidth_scale = 1};
    profile->points[0] = (predict_point){
        .working_set = 1, .bytes_per_s = 1e9 * sheet->values[DATASHEET_DRAM_GBS].value};
    profile->point_count = 1;
    profile->capacity_bytes = 1e9 * sheet->values[DATASHEET_CAPACITY_GB].value;
    profile->link_bytes_per_s = NAN;
    profile->watts = sheet->values[DATASHEET_BOARD_WATTS].value;
    profile->error = NAN;
}

double predict_peak(const predict_profile *profile, const char *dtype) {
    double peak = NAN;
    char middle[PREDICT_MAX_KEY];
    if (profile->sheet != NULL)
        return 1e9 * datasheet_peak_gflops(profile->sheet, dtype);
    snprintf(middle, sizeof middle, " %s ", dtype);
    for (size_t i = 0; i < profile->class_count; i++) {
        const predict_class *const each = &profile->classes[i];
        if (each->peak > 0 && strstr(each->key, middle) != NULL)
            peak = fmax(peak, each->peak); /* fmax passes over NaN */
    }
    return peak;
}

/* ---- one operation --------------------------------------------------------------------------------- */

static int sheet_time(const predict_profile *profile, const predict_work *work,
                      predict_estimate *estimate, file_error *error) {
    predict_class bound = {.terms = {1}};
    if (!isnan(work->flops)) {
        bound.peak = predict_peak(profile, work->dtype);
        if (isnan(bound.peak))
            return file_fail(error, "the datasheet of %s has no rate of %s", profile->name,
                             work->dtype);
    }
    *estimate = estimate_work(profile, &bound, work);
    return 0;
}

static int check_range(const predict_profile *profile, const predict_class *fitted,
                       const predict_work *work, file_error *error) {
    const double amount = amount_of_work(work);
    const char *const unit = isnan(work->flops) ? "bytes" : "operations";
    if (amount > PREDICT_UPWARD * fitted->most_work ||
        amount < PREDICT_DOWNWARD * fitted->least_work)
        return file_fail(error,
                         "%s: %.3g %s of '%s' were not tested: its rows have %.3g to %.3g "
                         "(up to %g times the largest and %g of the smallest are predicted)",
                         profile->name, amount, unit, fitted->key, fitted->least_work,
                         fitted->most_work, PREDICT_UPWARD, PREDICT_DOWNWARD);
    const double side = fmin(work->m, fmin(work->n, work->k));
    if (side < PREDICT_DOWNWARD * fitted->least_side)
        return file_fail(error, "%s: a side of %.0f was not tested: the smallest of '%s' is %.0f",
                         profile->name, side, fitted->key, fitted->least_side);
    return 0;
}

/* The class of a key, or of the same products with B packed at the other time; NULL where neither has enough rows. */
static const predict_class *fitted_class(const predict_profile *profile, const char *key) {
    static const char *const packings[] = {" prepacked", " inside"};
    const predict_class *const exact = find_class(profile, key);
    if (exact != NULL && exact->rows >= PREDICT_LEAST_ROWS)
        return exact;
    for (int i = 0; i < 2; i++) {
        char other[PREDICT_MAX_KEY];
        const char *const end = strstr(key, packings[i]);
        if (end == NULL)
            continue;
        snprintf(other, sizeof other, "%.*s%s", (int)(end - key), key, packings[1 - i]);
        const predict_class *const stand_in = find_class(profile, other);
        return stand_in != NULL && stand_in->rows >= PREDICT_LEAST_ROWS ? stand_in : NULL;
    }
    return NULL;
}

static size_t rows_of(const predict_profile *profile, const char *key) {
    const predict_class *const fitted = find_class(profile, key);
    return fitted == NULL ? 0 : fitted->rows;
}

int predict_time(const predict_profile *profile, const predict_work *work,
                 predict_estimate *estimate, file_error *error) {
    if (profile->sheet != NULL)
        return sheet_time(profile, work, estimate, error);
    const predict_class *const fitted = fitted_class(profile, work->key);
    if (fitted == NULL)
        return file_fail(error, "%s has %zu rows of '%s', and %d are needed", profile->name,
                         rows_of(profile, work->key), work->key, PREDICT_LEAST_ROWS);
    if (check_range(profile, fitted, work, error) != 0)
        return -1;
    *estimate = estimate_work(profile, fitted, work);
    estimate->key = fitted->key;
    return 0;
}
