#include "bench/report/batch_times.h"

#include <math.h>

#include <cjson/cJSON.h>

enum {
    DIGITS = 4
};

/* The power of ten that leaves so many digits before the point. */
static double unit_of(double seconds) {
    return pow(10, floor(log10(seconds)) - (DIGITS - 1));
}

/* Of the shortest, so that no other has fewer digits; NAN where one is no time. */
static double choose_unit(const double *seconds, size_t count) {
    double shortest = INFINITY;
    for (size_t i = 0; i < count; i++) {
        if (!(seconds[i] > 0) || !isfinite(seconds[i]))
            return NAN;
        shortest = fmin(shortest, seconds[i]);
    }
    return count == 0 ? NAN : unit_of(shortest);
}

void batch_times_put(cJSON *object, const double *seconds, size_t count) {
    const double unit = choose_unit(seconds, count);
    if (isnan(unit))
        return;
    cJSON *const list = cJSON_AddArrayToObject(object, "batches");
    for (size_t i = 0; i < count; i++) {
        const double own = unit_of(seconds[i]);
        const double units_of_own =
            round(own / unit); /* 1, or 10, 100, … where it is that much longer */
        cJSON_AddItemToArray(list, cJSON_CreateNumber(round(seconds[i] / own) * units_of_own));
    }
    cJSON_AddNumberToObject(object, "batch_unit_s", unit);
}
