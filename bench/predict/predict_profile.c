#include "bench/predict/predict_profile.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/analysis/sheet_share.h"
#include "bench/predict/predict_fit.h"
#include "bench/predict/predict_memory.h"
#include "bench/predict/predict_rows.h"
#include "bench/record/bench_statistics.h"

/* Rounds of dividing products into those that arithmetic and those that memory binds, and fitting each. */
enum {
    ROUNDS = 6
};

/* In the order of predict_class.moves. */
enum {
    MOVE_FIXED,
    MOVE_READ_CACHE,
    MOVE_WRITE_CACHE,
    MOVE_READ_MAIN,
    MOVE_WRITE_MAIN,
    MOVE_LONG_ROWS
};

/* In the order of predict_class.terms. */
enum {
    TERM_FLOPS,
    TERM_SHAPE,
    TERM_FIXED
};

/* Where the time of arithmetic adds to that of memory, its terms stand behind those of memory; the fixed time is one. */
enum {
    ADDED_TERMS = TERM_FIXED,
    ALL_TERMS = PREDICT_MOVES + ADDED_TERMS
};

/* Of so many rows that a level of memory serves, alone or in parts, its costs can be told; beside costs of arithmetic of so many. */
#define LEAST_OF_LEVEL 1.0
#define LEAST_BESIDE 2.0

/* Rows from which on a fixed time is fitted, and what the shape costs. */
enum {
    LEAST_OF_FIXED = 5,
    LEAST_OF_SHAPE = 6
};

/* Of few rows or columns, weights in longer rows than this may come slower from main memory: from between 6144 and 7500 on, of w8. */
#define LONG_ROW 7000.0

/* Whether a class is one of few rows or columns. */
static int is_of_few_rows(const predict_work *work) {
    return fmin(work->m, work->n) <= PREDICT_FEW_ROWS;
}

/* ---- memory ---------------------------------------------------------------------------------------- */

static predict_regime regime_of(const predict_profile *profile, const predict_class *fitted,
                                const predict_work *work) {
    const int level = predict_level(profile, work->working_set);
    return level == 0 || level == profile->last_cache || fitted->one_cache ? REGIME_OUTER
                                                                           : REGIME_INNER_CACHES;
}

/*
 * The bytes that each number of a class's moves is for; the first is a fixed time. Bytes of a set that the sweep reads faster than from
 * the last cache count as fewer.
 */
static void move_terms(const predict_profile *profile, const predict_work *work, double *terms) {
    const double main_share = predict_main_share(profile, work->working_set);
    const double cache_share = main_share > 0 ? 1 - main_share
                                              : profile->cache_bytes_per_s /
                                                    predict_read_speed(profile, work->working_set);
    terms[MOVE_FIXED] = 1;
    terms[MOVE_READ_CACHE] = cache_share * work->read_bytes;
    terms[MOVE_WRITE_CACHE] = cache_share * work->write_bytes;
    terms[MOVE_READ_MAIN] = main_share * work->read_bytes;
    terms[MOVE_WRITE_MAIN] = main_share * work->write_bytes;
    terms[MOVE_LONG_ROWS] = is_of_few_rows(work) && work->k > LONG_ROW ? terms[MOVE_READ_MAIN] : 0;
}

/* ---- one class ------------------------------------------------------------------------------------- */

/* What each term of arithmetic costs a call, in seconds. */
static void term_costs(const predict_work *work, double peak, double *costs) {
    const double plain = work->flops / peak;
    costs[TERM_FLOPS] = plain;
    costs[TERM_SHAPE] = is_of_few_rows(work) ? 0 : plain / work->m;
    costs[TERM_FIXED] = 1;
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

/* Fills in memory_s, main_s and level. */
static void estimate_memory(const predict_profile *profile, const predict_class *fitted,
                            const predict_work *work, predict_estimate *estimate) {
    const predict_regime regime = regime_of(profile, fitted, work);
    const int level = predict_level(profile, work->working_set);
    if (fitted->moving[regime] == 0) {
        const double bytes = work->read_bytes + work->write_bytes;
        estimate->memory_s = bytes / predict_read_speed(profile, work->working_set);
        estimate->main_s =
            fmin(estimate->memory_s, predict_main_share(profile, work->working_set) * bytes /
                                         (profile->main_bytes_per_s * profile->bandwidth_scale));
    } else {
        const double *const moves = fitted->moves[regime];
        double terms[PREDICT_MOVES];
        move_terms(profile, work, terms);
        estimate->main_s = (moves[MOVE_READ_MAIN] * terms[MOVE_READ_MAIN] +
                            moves[MOVE_WRITE_MAIN] * terms[MOVE_WRITE_MAIN] +
                            moves[MOVE_LONG_ROWS] * terms[MOVE_LONG_ROWS]) /
                           profile->bandwidth_scale;
        estimate->memory_s = moves[MOVE_FIXED] + moves[MOVE_READ_CACHE] * terms[MOVE_READ_CACHE] +
                             moves[MOVE_WRITE_CACHE] * terms[MOVE_WRITE_CACHE] + estimate->main_s;
    }
    estimate->level =
        level == 0 && 2 * estimate->main_s < estimate->memory_s ? profile->last_cache : level;
}

static predict_estimate estimate_work(const predict_profile *profile, const predict_class *fitted,
                                      const predict_work *work) {
    predict_estimate estimate = {.launch_s = profile->launch_s};
    estimate.compute_s = compute_time(fitted, work);
    estimate.adds = fitted->adds;
    estimate_memory(profile, fitted, work, &estimate);
    estimate.seconds =
        estimate.launch_s + (fitted->adds ? estimate.compute_s + estimate.memory_s
                                          : fmax(estimate.compute_s, estimate.memory_s));
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
                                        : (int)regime_of(profile, fitted, work);
}

static void fill_equation(const predict_profile *profile, const predict_class *fitted,
                          const predict_observation *item, int bound, fit_equation *equation) {
    *equation = (fit_equation){.fixed = profile->launch_s, .target = item->seconds};
    if (bound == BOUND_BY_ARITHMETIC)
        term_costs(&item->work, fitted->peak, equation->terms);
    else
        move_terms(profile, &item->work, equation->terms);
}

/*
 * Of few rows only what they can tell: with as many unknowns as rows a fit goes through every one of them and misses the next.
 * What a class leaves out costs nothing there.
 */
static void leave_out(fit_equation *equations, size_t count, int term, size_t least) {
    for (size_t i = 0; i < count && count < least; i++)
        equations[i].terms[term] = 0;
}

/* How many of the rows main memory serves, alone or in parts. */
static double rows_of_main(const fit_equation *equations, size_t count) {
    double of_main = 0;
    for (size_t i = 0; i < count; i++) {
        const double *const terms = equations[i].terms;
        const double main_bytes = terms[MOVE_READ_MAIN] + terms[MOVE_WRITE_MAIN];
        of_main += main_bytes / (main_bytes + terms[MOVE_READ_CACHE] + terms[MOVE_WRITE_CACHE]);
    }
    return of_main;
}

/*
 * What a byte costs in main memory, as a multiple of `in_caches`, what it costs there: an operation that takes longer than memory does
 * goes on as before, any other takes as long as memory. At most what the sweep says.
 */
static double ratio_of(const predict_profile *profile, double in_caches) {
    const double swept = profile->cache_bytes_per_s / profile->main_bytes_per_s;
    return in_caches > 0 ? fmin(swept, fmax(1, 1 / (profile->main_bytes_per_s * in_caches)))
                         : swept;
}

/*
 * Where one side has almost no rows, what a byte costs there follows from the other one: by the sweep in the caches; in main memory as above,
 * by rounds. Behind the equations there is room for as many.
 */
static void fit_tied(const predict_profile *profile, fit_equation *equations, size_t count,
                     int terms, int by_caches, double moves[FIT_MAX_TERMS]) {
    fit_equation *const tied = equations + count;
    double reading = profile->cache_bytes_per_s / profile->main_bytes_per_s;
    double writing = reading;
    for (int round = 0; round < (by_caches ? ROUNDS : 1); round++) {
        for (size_t i = 0; i < count; i++) {
            double *const bytes = tied[i].terms;
            tied[i] = equations[i];
            bytes[MOVE_READ_CACHE] += reading * bytes[MOVE_READ_MAIN];
            bytes[MOVE_WRITE_CACHE] += writing * bytes[MOVE_WRITE_MAIN];
            bytes[MOVE_READ_MAIN] = bytes[MOVE_WRITE_MAIN] = 0;
        }
        fit_factors(tied, count, terms, moves);
        moves[MOVE_READ_MAIN] = reading * moves[MOVE_READ_CACHE];
        moves[MOVE_WRITE_MAIN] = writing * moves[MOVE_WRITE_CACHE];
        reading = ratio_of(profile, moves[MOVE_READ_CACHE]);
        writing = ratio_of(profile, moves[MOVE_WRITE_CACHE]);
    }
}

/* The factors of what memory costs, and behind them those of the terms of arithmetic that add to it. */
static void fit_moves(const predict_profile *profile, fit_equation *equations, size_t count,
                      int terms, double moves[FIT_MAX_TERMS]) {
    const double of_main = rows_of_main(equations, count);
    const double of_caches = (double)count - of_main;
    const double least = terms > PREDICT_MOVES ? LEAST_BESIDE : LEAST_OF_LEVEL;
    leave_out(equations, count, MOVE_FIXED, LEAST_OF_FIXED);
    leave_out(equations, count, MOVE_LONG_ROWS, LEAST_OF_SHAPE);
    if (of_main >= least && of_caches >= least)
        fit_factors(equations, count, terms, moves);
    else
        fit_tied(profile, equations, count, terms, of_caches > of_main, moves);
}

/* Fit what is bound alike: first sort the rows by what binds them, then fit each kind. */
static void fit_round(const predict_profile *profile, const predict_observations *list, int without,
                      predict_class *fitted, fit_equation *equations) {
    const predict_class before = *fitted;
    for (int bound = 0; bound <= BOUND_BY_ARITHMETIC; bound++) {
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
        double factors[FIT_MAX_TERMS];
        if (bound == BOUND_BY_ARITHMETIC) {
            leave_out(equations, count, TERM_SHAPE, LEAST_OF_SHAPE);
            leave_out(equations, count, TERM_FIXED, LEAST_OF_FIXED);
            fit_factors(equations, count, PREDICT_TERMS, factors);
            memcpy(fitted->terms, factors, sizeof fitted->terms);
        } else {
            fit_moves(profile, equations, count, PREDICT_MOVES, factors);
            memcpy(fitted->moves[bound], factors, sizeof fitted->moves[bound]);
        }
    }
}

/* Fit products whose arithmetic takes its time beside that of memory, not behind it. */
static void fit_sum(const predict_profile *profile, const predict_observations *list, int without,
                    predict_class *fitted, fit_equation *equations) {
    double factors[FIT_MAX_TERMS];
    size_t count = 0;
    fitted->adds = 1;
    fitted->one_cache = 1;
    for (size_t i = 0; i < list->count; i++) {
        const predict_observation *const item = &list->items[i];
        double costs[PREDICT_TERMS];
        if (!is_of(item, fitted->key, without))
            continue;
        fill_equation(profile, fitted, item, REGIME_OUTER, &equations[count]);
        term_costs(&item->work, fitted->peak, costs);
        memcpy(equations[count].terms + PREDICT_MOVES, costs, ADDED_TERMS * sizeof *costs);
        count++;
    }
    leave_out(equations, count, PREDICT_MOVES + TERM_SHAPE, LEAST_OF_SHAPE);
    fit_moves(profile, equations, count, ALL_TERMS, factors);
    fitted->moving[REGIME_OUTER] = count;
    memcpy(fitted->moves[REGIME_OUTER], factors, sizeof fitted->moves[REGIME_OUTER]);
    memcpy(fitted->terms, factors + PREDICT_MOVES, ADDED_TERMS * sizeof *factors);
    fitted->terms[TERM_FIXED] = 0;
}

static int is_of_products(const predict_observations *list, const char *key) {
    for (size_t i = 0; i < list->count; i++) {
        if (is_of(&list->items[i], key, -1))
            return !isnan(list->items[i].work.flops);
    }
    return 0;
}

/* The greatest rate of products of a class's dtype outside a fold, whatever their number of rows. */
static double dtype_peak(const predict_observations *list, const char *key, int without) {
    double peak = 0;
    const char *const dtype = strchr(key, ' ');
    for (size_t i = 0; i < list->count; i++) {
        const predict_work *const work = &list->items[i].work;
        const char *const other = strchr(work->key, ' ');
        if (dtype == NULL || other == NULL || isnan(work->flops) ||
            list->items[i].fold == without ||
            strncmp(dtype, other, 1 + strcspn(dtype + 1, " ") + 1) != 0)
            continue;
        peak = fmax(peak, work->flops / list->items[i].seconds);
    }
    return peak;
}

/* Whether the last cache or those before it serve so few rows that these cannot be fitted by themselves. */
static int has_one_cache(const predict_profile *profile, const predict_observations *list,
                         int without, const predict_class *fitted) {
    size_t of_last = 0;
    size_t of_inner = 0;
    for (size_t i = 0; i < list->count; i++) {
        const int level = predict_level(profile, list->items[i].work.working_set);
        if (level == 0 || !is_of(&list->items[i], fitted->key, without))
            continue;
        of_last += level == profile->last_cache;
        of_inner += level != profile->last_cache;
    }
    return of_last < PREDICT_LEAST_ROWS || of_inner < PREDICT_LEAST_ROWS;
}

/* The sum of the errors of the rows that a class was fitted to. */
static double misfit(const predict_profile *profile, const predict_observations *list, int without,
                     const predict_class *fitted) {
    double sum = 0;
    for (size_t i = 0; i < list->count; i++) {
        const predict_observation *const item = &list->items[i];
        if (is_of(item, fitted->key, without))
            sum += fabs(estimate_work(profile, fitted, &item->work).seconds / item->seconds - 1);
    }
    return sum;
}

/*
 * Fit the class of fitted->key to all rows but those of a fold (-1: to all). Whether a device does arithmetic while it waits for memory is
 * what explains the rows better; there are as many numbers to either.
 */
static void fit_class(const predict_profile *profile, const predict_observations *list, int without,
                      predict_class *fitted, fit_equation *equations) {
    fitted->peak = dtype_peak(list, fitted->key, without);
    fitted->adds = 0;
    memset(fitted->moving, 0, sizeof fitted->moving);
    fitted->one_cache = has_one_cache(profile, list, without, fitted);
    memset(fitted->terms, 0, sizeof fitted->terms);
    fitted->terms[TERM_FLOPS] = 1;
    predict_class sum = *fitted;
    for (int round = 0; round < ROUNDS; round++)
        fit_round(profile, list, without, fitted, equations);
    if (!is_of_products(list, fitted->key))
        return;
    fit_sum(profile, list, without, &sum, equations);
    if (misfit(profile, list, without, &sum) < misfit(profile, list, without, fitted))
        *fitted = sum;
}

/* ---- the device ------------------------------------------------------------------------------------ */

/* Launches and memory, by all rows but those of a fold. 0, or -1 with the reason. */
static int read_device(const predict_observations *list, int without, predict_profile *profile,
                       file_error *error) {
    double fastest = INFINITY;
    for (size_t i = 0; i < list->count; i++) {
        if (list->items[i].fold != without)
            fastest = fmin(fastest, list->items[i].seconds);
    }
    profile->launch_s = fmin(predict_launch(list->file), fastest);
    return predict_read_memory(list, without, profile, error);
}

/* ---- error ----------------------------------------------------------------------------------------- */

/* Predict each fold from the others. Adds to *sum and returns how many rows were predicted. */
static size_t hold_out(const predict_profile *profile, const predict_observations *list,
                       predict_class *fitted, fit_equation *equations, double *sum) {
    predict_profile seen = *profile;
    double total = 0;
    double leaning = 0;
    size_t count = 0;
    file_error unused;
    fitted->worst = 0;
    for (int fold = 0; fold < PREDICT_FOLDS; fold++) {
        predict_class partial = *fitted;
        size_t left = 0;
        for (size_t i = 0; i < list->count; i++)
            left += is_of(&list->items[i], fitted->key, fold);
        if (left + 1 < PREDICT_LEAST_ROWS || read_device(list, fold, &seen, &unused) != 0)
            continue;
        fit_class(&seen, list, fold, &partial, equations);
        for (size_t i = 0; i < list->count; i++) {
            const predict_observation *const item = &list->items[i];
            if (item->fold != fold || strcmp(item->work.key, fitted->key) != 0)
                continue;
            const double predicted = estimate_work(&seen, &partial, &item->work).seconds;
            const double error = fabs(predicted - item->seconds) / item->seconds;
            leaning += (predicted - item->seconds) / item->seconds;
            fitted->worst = fmax(fitted->worst, error);
            total += error;
            count++;
        }
    }
    fitted->error = count > 0 ? total / (double)count : NAN;
    fitted->leaning = count > 0 ? leaning / (double)count : NAN;
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
    double *const watts = calloc(file->row_count + 1, sizeof *watts);
    size_t count = 0;
    for (size_t i = 0; watts != NULL && i < file->row_count; i++) {
        const double value = results_figure_value(&file->rows[i].metrics, "power_w");
        if (value > 0)
            watts[count++] = value;
    }
    const double median = count > 0 ? summarize_samples(watts, count).median : NAN;
    free(watts);
    return median;
}

/* What the device told of its memory; where the file does not have it, the datasheet's GB. */
static int find_capacity(const results_file *file, predict_profile *profile, file_error *error) {
    if (predict_device_bytes(file, "global_bytes", &profile->capacity_bytes, error) != 0)
        return -1;
    const datasheet *const sheet = sheet_of(file, 0);
    profile->capacity_of_sheet = isnan(profile->capacity_bytes) && sheet != NULL;
    if (profile->capacity_of_sheet)
        profile->capacity_bytes = 1e9 * sheet->values[DATASHEET_CAPACITY_GB].value;
    return 0;
}

int predict_profile_fit(const results_file *file, predict_profile *profile, file_error *error) {
    predict_observations list = {.items = NULL};
    *profile = (predict_profile){.name = file->name, .bandwidth_scale = 1};
    if (find_capacity(file, profile, error) != 0)
        return -1;
    profile->link_bytes_per_s = predict_link(file, &profile->link_memory);
    profile->watts = median_watts(file);
    profile->above_sheet = sheet_share_count(file, 0);
    fit_equation *equations = NULL;
    int status = predict_observe(file, &list);
    if (status == 0)
        equations = malloc((2 * list.count + 1) * sizeof *equations); /* fit_tied() takes a half */
    if (equations == NULL)
        status = file_fail(error, "out of memory");
    else
        status = read_device(&list, -1, profile, error);
    if (status == 0 && memory_evidence_find(file, &profile->evidence) != 0)
        status = file_fail(error, "out of memory");
    if (status == 0) {
        profile->elsewhere = list.elsewhere;
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
    profile->main_bytes_per_s = profile->points[0].bytes_per_s;
    predict_find_levels(profile);
    profile->capacity_bytes = 1e9 * sheet->values[DATASHEET_CAPACITY_GB].value;
    profile->capacity_of_sheet = 1;
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
