/*
 * Time that a virtual machine's processors were ready to run in and its host gave to others. What a system does not tell is NaN, never 0.
 */
#ifndef TANDEM_BENCH_RECORD_STOLEN_TIME_H
#define TANDEM_BENCH_RECORD_STOLEN_TIME_H

typedef struct processor_time {
    double all, stolen; /* ticks of all processors since the start of the system */
} processor_time;

/* From a file like /proc/stat; tests give their own. */
processor_time processor_time_in(const char *path);
processor_time processor_time_now(void);

/* The stolen share, 0 to 1, of what passed between two of them; NaN where none did. {0, 0}: since the start of the system. */
double stolen_share(const processor_time *before, const processor_time *after);

#endif
