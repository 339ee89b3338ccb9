/* One processor for each thread of a driver or a library that multiplies on CPUs. */
#ifndef TANDEM_BENCH_RECORD_THREAD_PLACEMENT_H
#define TANDEM_BENCH_RECORD_THREAD_PLACEMENT_H

/*
 * Ask PoCL and OpenMP to keep each of their threads on a processor of its own, in this process and in those it starts: left alone,
 * Linux often lets two threads that are woken for each launch share one processor while another idles, and for the whole life of the
 * process. Variables that the user has set stand, and nothing is asked where this process may not use every processor: PoCL
 * counts processors from 0 and would leave the user's choice; nor of PoCL where the user wants more threads of it. To be called before any thread is started or driver loaded.
 */
void thread_placement_ask(void);

#endif
