#include "bench/tune/tune_search.h"

#include <math.h>

#include "common/random_fill.h"

enum {
    RANDOM_TRIALS = 32,
    MAX_STARTS = 16,
    MAX_NEIGHBOURS = 2 * TDM_TUNE_PARAMETERS + TUNE_MAX_ROWS
};

/* A choice this much slower than the best one needs no exact time. */
static const double slow_factor = 1.5;
/* Steps are tried from choices that are no slower than this: times are that uncertain. */
static const double near_factor = 1.03;

static int was_tried(const tune_search *search, const tdm_choice *choice) {
    for (int i = 0; i < search->trials; i++) {
        if (tune_choice_equal(&search->tried[i], choice))
            return 1;
    }
    return 0;
}

static int is_over(const tune_search *search) {
    return search->trials == TUNE_MAX_TRIALS || search->seconds_left(search->user) <= 0;
}

static double best_seconds(const tune_search *search) {
    return search->best < 0 ? INFINITY : search->seconds[search->best];
}

/* Measure a choice that was not tried yet. */
static void try_choice(tune_search *search, const tdm_choice *choice) {
    if (is_over(search) || was_tried(search, choice))
        return;
    const double before = best_seconds(search);
    const int place = search->trials++;
    double seconds = NAN;
    search->tried[place] = *choice;
    const tune_verdict verdict =
        search->measure(search->user, choice, slow_factor * before, &seconds);
    search->seconds[place] = verdict == TUNE_MEASURED ? seconds : NAN;
    search->failures += verdict == TUNE_FAILED;
    if (verdict == TUNE_MEASURED && seconds < before)
        search->best = place;
    if (search->progress != NULL)
        search->progress(search->user, search);
}

static void try_rows(tune_search *search) {
    for (int i = 0; i < search->space->row_count; i++) {
        const tdm_choice choice = {.variant = search->space->rows[i].variant};
        try_choice(search, &choice);
    }
}

static void try_by_chance(tune_search *search) {
    const int64_t size = tune_space_size(search->space);
    const int trials = size < RANDOM_TRIALS ? (int)size : RANDOM_TRIALS;
    for (int i = 0; i < trials && !is_over(search); i++) {
        const tdm_choice choice =
            tune_space_random(search->space, random_bits(search->seed, (uint64_t)i));
        try_choice(search, &choice);
    }
}

/* The best choice that no steps were tried from, where it is near enough to the best of all; -1 for none. */
static int next_start(const tune_search *search, const unsigned char stepped[TUNE_MAX_TRIALS]) {
    int next = -1;
    for (int i = 0; i < search->trials; i++) {
        /* Written so that NaN is never taken. */
        if (!stepped[i] && search->seconds[i] <= near_factor * best_seconds(search) &&
            (next < 0 || search->seconds[i] < search->seconds[next]))
            next = i;
    }
    return next;
}

static void try_steps(tune_search *search) {
    unsigned char stepped[TUNE_MAX_TRIALS] = {0};
    for (int starts = 0; starts < MAX_STARTS && !is_over(search); starts++) {
        tdm_choice neighbours[MAX_NEIGHBOURS];
        const int start = next_start(search, stepped);
        if (start < 0)
            return;
        stepped[start] = 1;
        const int count =
            tune_space_neighbours(search->space, &search->tried[start], neighbours, MAX_NEIGHBOURS);
        for (int i = 0; i < count; i++)
            try_choice(search, &neighbours[i]);
    }
}

void tune_search_run(tune_search *search) {
    search->trials = 0;
    search->failures = 0;
    search->best = -1;
    if (search->space->row_count == 0)
        return;
    try_rows(search);
    try_by_chance(search);
    try_steps(search);
}
