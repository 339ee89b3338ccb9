/* Splits work into a fixed number of shares, processed by as many threads as processors. */
#ifndef TANDEM_COMMON_PARALLEL_SHARES_H
#define TANDEM_COMMON_PARALLEL_SHARES_H

enum {
    PARALLEL_SHARES = 8 /* the same on every machine, so that sums by share are the same too */
};

/*
 * Calls work(context, share) once for each share, and returns when all are done. If a thread cannot
 * be created, the calling thread does its work.
 */
void parallel_shares(void (*work)(void *context, int share), void *context);

#endif
