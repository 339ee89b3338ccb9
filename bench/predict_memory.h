/* What serves a working set, and how fast, by the sweep of reading that a profile has. */
#ifndef BENCH_PREDICT_MEMORY_H
#define BENCH_PREDICT_MEMORY_H

#include "bench/predict_profile.h"

/* Fill in the speeds of main memory and of the last cache from the points, of which there is one at least. */
void predict_find_levels(predict_profile *profile);

/* The share that main memory serves: 0 of what the caches hold, 1 of what is far larger. */
double predict_main_share(const predict_profile *profile, double working_set);

/* The level of the nearest point of the sweep: 0 main memory. */
int predict_level(const predict_profile *profile, double working_set);

/* Speed of reading with this working set, the scale included. */
double predict_read_speed(const predict_profile *profile, double working_set);

#endif
