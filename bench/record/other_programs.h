/* Processor time that other programs took while one measured, for what a disturbed run is worth. */
#ifndef TANDEM_BENCH_RECORD_OTHER_PROGRAMS_H
#define TANDEM_BENCH_RECORD_OTHER_PROGRAMS_H

typedef struct processor_use {
    double all;  /* ticks of all processors since the start of the system; NaN: not known */
    double busy; /* of these, neither idle nor given to others by a host */
    double own;  /* ticks of this process and of its children that have ended */
} processor_use;

/* From a file like /proc/stat, with own ticks that are known; tests give theirs. */
processor_use processor_use_in(const char *path, double own);
processor_use processor_use_now(void);

/*
 * The share of all processors' time, 0 to 1, that neither this process nor those of its children that ended in between took. NaN where the
 * system does not tell. In a container /proc/stat is often that of the whole machine.
 */
double others_share(const processor_use *before, const processor_use *after);

#endif
