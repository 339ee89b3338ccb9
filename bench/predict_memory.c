#include "bench/predict_memory.h"

#include <math.h>

#include "bench/bench_statistics.h"

/* Of the sweep: what the largest point so many times exceeds is not main memory alone. */
#define LARGEST_SETS 2.0

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

/* The median speed of the points of a level from a working set on; NaN where it has none. */
static double level_speed(const predict_profile *profile, int level, double least) {
    double speeds[PREDICT_MAX_POINTS];
    size_t count = 0;
    for (size_t i = 0; i < profile->point_count; i++) {
        if (profile->points[i].level == level && profile->points[i].working_set >= least)
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
    const predict_point *const largest = &profile->points[profile->point_count - 1];
    profile->last_cache = 0;
    for (size_t i = 0; i < profile->point_count; i++) {
        if (profile->points[i].level > profile->last_cache)
            profile->last_cache = profile->points[i].level;
    }
    profile->main_bytes_per_s =
        level_speed(profile, largest->level, largest->working_set / LARGEST_SETS);
    profile->cache_bytes_per_s = profile->last_cache > 0
                                     ? level_speed(profile, profile->last_cache, 0)
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
