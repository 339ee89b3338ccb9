#include "bench/analysis/cache_levels.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    LEAST_POINTS = 3 /* of a level but the first: fewer are on the way to the next */
};

/* What lies well within a cache and well beyond the one before it shows its rate. */
static const double within_cache = 0.8;
static const double beyond_cache = 1.4;

/* So many times the largest cache is memory's; `nearly`: sizes that are as large are meant. */
static const double memory_caches = 2;
static const double nearly = 0.999;

/* Where a level is so many times as fast as the next one its end can be told, and is if it is so small a share of the size. */
static const double clear_step = 1.4;
static const double little = 0.6;

/* In octaves: what another level must explain of the curve, and by how much levels differ. */
static const double price_of_level = 0.35;
static const double least_step = 0.13;

/* Points of a level are so near to their median on average; those of a slope are not. */
static const double flat = 0.12;

static int is_known(const cache_point *point) {
    return point->rate > 0 && isfinite(point->rate);
}

static int compare_doubles(const void *left, const void *right) {
    const double a = *(const double *)left;
    const double b = *(const double *)right;
    return (a > b) - (a < b);
}

/* Median of octaves[first … end-1], and the sum of distances from it. */
static double median_of(const double *octaves, int first, int end, double *distances) {
    double sorted[CACHE_MAX_POINTS];
    const int count = end - first;
    memcpy(sorted, octaves + first, (size_t)count * sizeof *sorted);
    qsort(sorted, (size_t)count, sizeof *sorted, compare_doubles);
    const double median = (sorted[(count - 1) / 2] + sorted[count / 2]) / 2;
    *distances = 0;
    for (int i = 0; i < count; i++)
        *distances += fabs(sorted[i] - median);
    return median;
}

/*
 * Pieces of one rate each that explain the curve best, each at a price: best[end] is the cost of the first `end` points, of which
 * the last piece begins at begin[end]. Returns the number of pieces, their first points in `firsts`.
 */
static int cut(const double *octaves, int count, int *firsts) {
    double best[CACHE_MAX_POINTS + 1] = {0};
    int begin[CACHE_MAX_POINTS + 1] = {0};
    int pieces = 0;
    for (int end = 1; end <= count; end++) {
        best[end] = INFINITY;
        for (int first = 0; first < end; first++) {
            double distances = 0;
            median_of(octaves, first, end, &distances);
            const double cost = best[first] + distances + price_of_level;
            if (cost >= best[end])
                continue;
            best[end] = cost;
            begin[end] = first;
        }
    }
    for (int end = count; end > 0; end = begin[end])
        firsts[pieces++] = begin[end];
    for (int i = 0; i < pieces / 2; i++) {
        const int kept = firsts[i];
        firsts[i] = firsts[pieces - 1 - i];
        firsts[pieces - 1 - i] = kept;
    }
    return pieces;
}

/* A piece of the curve. */
typedef struct curve_piece {
    int first;
    int last;
    double octaves;  /* the median */
    double distance; /* from it, on average */
} curve_piece;

/* It is no level of its own where it is short, steep (but at the end, where memory may be uneven) or no slower than the one before. */
static int is_level(const curve_piece *piece, const curve_piece *before, int at_end) {
    if (before == NULL)
        return 1;
    return piece->last - piece->first + 1 >= LEAST_POINTS && (piece->distance <= flat || at_end) &&
           before->octaves - piece->octaves >= least_step;
}

/*
 * Levels among the pieces; returns their number. What is none belongs to the level after it, or to the one before where the curve
 * comes back to that one's rate.
 */
static int choose_levels(const curve_piece *pieces, int count, int uneven_end,
                         curve_piece *levels) {
    int found = 0;
    int pending = -1; /* first point of pieces that are none */
    for (int i = 0; i < count; i++) {
        curve_piece *const before = found > 0 ? &levels[found - 1] : NULL;
        const int at_end = uneven_end && i + 1 == count;
        if (before != NULL && fabs(before->octaves - pieces[i].octaves) < least_step) {
            before->last = pieces[i].last;
            pending = -1;
        } else if (found < CACHE_MAX_LEVELS && is_level(&pieces[i], before, at_end)) {
            levels[found] = pieces[i];
            levels[found].first = pending < 0 ? pieces[i].first : pending;
            found++;
            pending = -1;
        } else if (pending < 0) {
            pending = pieces[i].first;
        }
    }
    if (pending >= 0)
        levels[found - 1].last = pieces[count - 1].last;
    return found;
}

/* The levels that the curve itself shows; `uneven_end`: it may end in memory. */
static int find_by_rate(const cache_point *points, int count, int uneven_end, cache_level *levels) {
    double octaves[CACHE_MAX_POINTS];
    int place[CACHE_MAX_POINTS] = {0};
    int firsts[CACHE_MAX_POINTS];
    curve_piece pieces[CACHE_MAX_POINTS];
    curve_piece found[CACHE_MAX_LEVELS] = {{0}};
    int known = 0;
    for (int i = 0; i < count && known < CACHE_MAX_POINTS; i++) {
        if (!is_known(&points[i]))
            continue;
        octaves[known] = log2(points[i].rate);
        place[known++] = i;
    }
    const int piece_count = cut(octaves, known, firsts);
    for (int i = 0; i < piece_count; i++) {
        const int end = i + 1 < piece_count ? firsts[i + 1] : known;
        double distances = 0;
        pieces[i] = (curve_piece){.first = firsts[i], .last = end - 1};
        pieces[i].octaves = median_of(octaves, firsts[i], end, &distances);
        pieces[i].distance = distances / (end - firsts[i]);
    }
    const int levels_found = choose_levels(pieces, piece_count, uneven_end, found);
    for (int l = 0; l < levels_found; l++)
        levels[l] = (cache_level){
            .first = l == 0 ? 0 : place[found[l].first],
            .bytes = points[place[found[l].last]].bytes,
            .rate = exp2(found[l].octaves),
        };
    return levels_found;
}

/* Median rate of the points above `low` and up to `high` bytes; 0 where there is none. */
static double rate_within(const cache_point *points, int count, double low, double high) {
    double rates[CACHE_MAX_POINTS];
    double distances = 0;
    int known = 0;
    for (int i = 0; i < count && known < CACHE_MAX_POINTS; i++) {
        if (is_known(&points[i]) && points[i].bytes > low && points[i].bytes <= high)
            rates[known++] = points[i].rate;
    }
    return known == 0 ? 0 : median_of(rates, 0, known, &distances);
}

/* First point of more than so many bytes; `count` where there is none. */
static int first_above(const cache_point *points, int count, double bytes) {
    int first = 0;
    while (first < count && points[first].bytes <= bytes)
        first++;
    return first;
}

/* A level for each cache. */
static int take_hints(const cache_point *points, int count, const cache_hints *hints,
                      cache_level *levels) {
    double low = 0;
    for (int l = 0; l < hints->count; l++) {
        const double high = hints->bytes[l];
        double rate = rate_within(points, count, beyond_cache * low, within_cache * high);
        if (rate <= 0)
            rate = rate_within(points, count, low, high);
        levels[l] =
            (cache_level){.first = first_above(points, count, low), .bytes = high, .rate = rate};
        low = high;
    }
    return hints->count;
}

/* Up to which working set each level's rate is nearer than the next one's. */
static void find_ends(const cache_point *points, int count, cache_level *levels, int found) {
    for (int l = 0; l + 1 < found; l++) {
        const double middle = sqrt(levels[l].rate * levels[l + 1].rate);
        if (!(levels[l].rate > clear_step * levels[l + 1].rate) || !(middle > 0))
            continue;
        for (int i = 0; i < count; i++)
            if (is_known(&points[i]) && points[i].rate >= middle)
                levels[l].until = points[i].bytes;
    }
}

int cache_levels_find(const cache_point *points, int count, const cache_hints *hints,
                      cache_level levels[CACHE_MAX_LEVELS]) {
    const double largest = hints->count > 0 ? hints->bytes[hints->count - 1] : INFINITY;
    const double memory = rate_within(points, count, nearly * memory_caches * largest, INFINITY);
    const int cached = memory > 0 ? first_above(points, count, largest) : count;
    if (rate_within(points, count, 0, INFINITY) <= 0)
        return 0;
    int found = hints->complete && hints->count > 0
                    ? take_hints(points, count, hints, levels)
                    : find_by_rate(points, cached, memory <= 0, levels);
    if (found > 0 && memory <= 0)
        levels[found - 1].is_cut = 1;
    found = found < CACHE_MAX_LEVELS ? found : CACHE_MAX_LEVELS - 1;
    if (memory > 0)
        levels[found++] = (cache_level){
            .first = cached, .bytes = points[count - 1].bytes, .rate = memory, .is_memory = 1};
    if (hints->complete)
        find_ends(points, count, levels, found);
    return found;
}

int cache_level_of(const cache_level *levels, int count, int point) {
    int level = 0;
    while (level + 1 < count && levels[level + 1].first <= point)
        level++;
    return level;
}

/* "64 KiB", "1.5 MiB" */
static int write_bytes(double bytes, char *text, size_t size) {
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    int unit = 0;
    while (bytes >= 1024 && unit < 4) {
        bytes /= 1024;
        unit++;
    }
    return snprintf(text, size, "%.4g %s", bytes, units[unit]);
}

/* "L2 2 MiB 200 GB/s" with what one should know of it. */
static void write_level(const cache_level *level, int number, char *text, size_t size) {
    char bytes[32];
    char until[48] = "";
    write_bytes(level->until, bytes, sizeof bytes);
    if (level->until > 0 && level->until < little * level->bytes)
        snprintf(until, sizeof until, " to %s", bytes);
    write_bytes(level->bytes, bytes, sizeof bytes);
    if (level->is_memory)
        snprintf(text, size, "memory %.3g GB/s", level->rate);
    else if (level->rate <= 0)
        snprintf(text, size, "L%d %s not reached", number, bytes);
    else
        snprintf(text, size, "L%d %s %.3g GB/s%s", number, bytes, level->rate, until);
}

void cache_levels_describe(const cache_level *levels, int count, char *text, size_t size) {
    size_t used = 0;
    text[0] = '\0';
    for (int l = 0; l < count && used < size; l++) {
        char level[160];
        write_level(&levels[l], l + 1, level, sizeof level);
        const int wrote = snprintf(text + used, size - used, "%s%s", l == 0 ? "" : ", ", level);
        used += wrote > 0 ? (size_t)wrote : 0;
    }
    if (count > 0 && levels[count - 1].is_cut && used < size)
        snprintf(text + used, size - used, ", memory not reached");
}
