/* How far two columns of a comparison agree, and what that says of the machine. */
#ifndef TANDEM_BENCH_COMPARE_COMPARE_AGREE_H
#define TANDEM_BENCH_COMPARE_COMPARE_AGREE_H

#include "bench/analysis/row_placement.h"
#include "bench/compare/compare_table.h"

enum {
    COMPARE_DISTANCES = 4,
    COMPARE_LEAST_CONTROLS = 5
};

/* 1, 3, 5 and 10 %. */
extern const double compare_distances[COMPARE_DISTANCES];

/* How well a column repeats the first one, where both are of one device: two runs of one machine should agree. */
typedef struct compare_agreement {
    size_t cases;                   /* with a ratio */
    size_t within;                  /* whose ratio is within the margin */
    size_t near[COMPARE_DISTANCES]; /* ... within so much */
    size_t controls;                /* cases that run no code of Tandem's, */
    size_t controls_within;         /* ... those within the margin */
    size_t clocked;                 /* cases with a chain (processor_probe.h) in both columns, */
    size_t clocked_beyond;          /* ... those without the margin, */
    size_t
        as_the_clock; /* ... of them those that are within it when divided by the ratio of the chains */
    size_t within_at_one_clock; /* of `clocked`, those within the margin so divided */
    double
        clock; /* how many times as fast as the first column's, the median of cases; NaN: not known */
    size_t noisy; /* rows of the column that are marked so, of `rows` that are ok */
    size_t rows;
    size_t
        moved; /* rows whose visits (report_visits.h) were further apart than the margin, of `visited` */
    size_t visited;
    size_t
        alike; /* cases without the margin beside which another implementation moved as they did, */
    size_t unlike;   /* ... beside which none of the others did, */
    size_t unjudged; /* ... beside which nothing else ran */
    size_t
        displaced; /* cases without the margin whose processors were placed differently (processor_probe.h) */
    size_t placed_alike;        /* cases whose processors are known to have been placed alike, */
    size_t placed_alike_within; /* ... those within the margin */
    size_t placed;              /* rows of the column that say where the processors were, */
    size_t strays;              /* ... of them those that were measured elsewhere than most */
    double others; /* share of the processors' time that other programs had; NaN: not known */
    double stolen; /* ... that the host gave to other guests */
} compare_agreement;

/* What "one quiet machine" means: others have no more of it, and no more rows were measured elsewhere. -1: the file does not tell. */
#define COMPARE_QUIET_OTHERS 0.02
#define COMPARE_QUIET_STOLEN 0.01
#define COMPARE_QUIET_STRAYS 0.05
int compare_was_quiet(const compare_agreement *agreement);

/*
 * Whether the machine repeated itself, by what tells nothing of Tandem: as many of the cases that run none of its code agree as are to agree
 * of all rows, and the clock is the same. -1: there are too few such cases to say so.
 */
#define COMPARE_REPEATED_CONTROLS 0.95
#define COMPARE_REPEATED_CLOCK 0.01
int compare_repeated(const compare_agreement *agreement);

/* Whether a column is of the first one's device: of another, no figure has to agree. Not for the first one. */
int compare_is_same_device(const compare_table *table, size_t column);

/* Of a column, with the margin that it was matched with; of the first, the rows alone. */
compare_agreement compare_agree(const compare_table *table, size_t column, double margin);

/*
 * Whether the machine moved or the row alone: of a case whose ratio is without the margin, the implementation measured beside it, in turn
 * and in the same case, that accounts for at least half of the ratio's logarithm. NULL where none does; *others says whether there were any.
 */
const char *compare_moved_with(const compare_table *table, size_t index, size_t column,
                               double margin, int *others);

#endif
