/* Processor time that others took while one measured: the one mark of a machine that was busy. */
#ifndef TANDEM_BENCH_RECORD_MACHINE_BUSY_H
#define TANDEM_BENCH_RECORD_MACHINE_BUSY_H

/* Figures of a run on a machine that was busy for more than this share are worth little. */
extern const double machine_busy_much;

typedef struct machine_use {
    double all;  /* ticks of all processors since the start of the system; NaN: not known */
    double busy; /* of these, not idle; what a host gave to other guests counts as busy */
    double own;  /* ticks of this process and of its children that have ended */
} machine_use;

/* From a file like /proc/stat, with own ticks that are known; tests give theirs. */
machine_use machine_use_in(const char *path, double own);
machine_use machine_use_now(void);

/*
 * The share of all processors' time, 0 to 1, that neither this process nor those of its children
 * that ended in between took. NaN where the system does not tell. In a container /proc/stat is
 * often that of the whole machine.
 */
double machine_busy_share(const machine_use *before, const machine_use *after);

#endif
