/* What serves a working set, and how fast, by the rows of reading that a profile has. */
#ifndef TANDEM_BENCH_PREDICT_PREDICT_MEMORY_H
#define TANDEM_BENCH_PREDICT_PREDICT_MEMORY_H

#include "bench/predict/predict_rows.h"

/*
 * The points and the speeds of main memory and of the last cache. Main memory's is the median of all rows that only read, with sets that
 * no cache holds: the sweep, reading, and the scans beside products. Without rows from elsewhere in the machine, and without those of the
 * fold `without` (-1: with all). 0, or -1 with the reason.
 */
int predict_read_memory(const predict_observations *list, int without, predict_profile *profile,
                        file_error *error);

/* Fill in the speed of the last cache from the points, of which there is one at least. */
void predict_find_levels(predict_profile *profile);

/* The share that main memory serves: 0 of what the caches hold, 1 of what is far larger. */
double predict_main_share(const predict_profile *profile, double working_set);

/* The level of the nearest point of the sweep: 0 main memory. */
int predict_level(const predict_profile *profile, double working_set);

/* Speed of reading with this working set, the scale included. */
double predict_read_speed(const predict_profile *profile, double working_set);

#endif
