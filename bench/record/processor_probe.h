/*
 * How near each other two processors are now, and how fast.
 *
 * The processors of a virtual machine are threads of its host, which moves them: now two share a core and each computes at half its rate, now
 * they share a cache and the path to memory, now each has its own. A word then takes 115 or 510 ns to the other one and back, two threads read 41 or 90 GB/s from memory, and a launch that
 * wakes a thread takes longer or shorter, for a few seconds each, and nothing else tells. So this is asked around what is measured.
 *
 * How fast is the clock, too: it moves by some per cent within minutes, for heat and for what else the chip does, and a virtual machine
 * is not told. A chain of multiply-adds of which each needs the one before takes so many cycles whatever memory does; on a Zen 5 its time
 * followed that of reading in the first cache (correlation 0.96).
 */
#ifndef TANDEM_BENCH_RECORD_PROCESSOR_PROBE_H
#define TANDEM_BENCH_RECORD_PROCESSOR_PROBE_H

typedef struct processor_probe processor_probe;

typedef struct processor_state {
    double
        handover_ns; /* a word from the first processor that this thread may use to the second one and back */
    double work_ns;  /* some arithmetic on both at a time */
    double chain_ns; /* a fixed chain of arithmetic on each alone, the longer time of the two */
} processor_state;

/* NULL where there is no memory. */
processor_probe *processor_probe_open(void);

/*
 * About a tenth of a millisecond. NaN where something else kept one of the two from answering, and of NULL; where there is one
 * processor only, there is the chain alone.
 */
processor_state processor_probe_read(processor_probe *probe);

/* Whether the two are of two placements, by either figure; what is not known differs from nothing. */
int processor_placements_differ(processor_state left, processor_state right);

/*
 * How many times as long arithmetic takes on both at a time as a chain does on one of them alone: about the same on any clock, where each
 * has a core to itself (1.51 to 1.58 on a Zen 5), and more where they share one for part of the time (1.61 to 1.9) or all of it (2.75). NaN: not
 * known.
 */
double processor_crowding(processor_state state);

/* Whether one is more than the other by so much that a core was shared. */
int processor_is_crowded(double crowding, double than);

/* Whether a chain took longer than the best of its run by more than clocks move from turn to turn. What is not known is not slow. */
int processor_clock_is_slow(double chain_ns, double best_ns);

void processor_probe_close(processor_probe *probe);

#endif
