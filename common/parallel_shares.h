/* Work cut into a fixed number of shares, done by as many threads as there are processors. */
#ifndef TANDEM_COMMON_PARALLEL_SHARES_H
#define TANDEM_COMMON_PARALLEL_SHARES_H

enum {
    PARALLEL_SHARES = 8 /* the same on every machine, so that sums by share are too */
};

/* Call work(context, share) once for each share; returns when all are done. Where threads cannot be had, the
 * caller's does their work. */
void parallel_shares(void (*work)(void *context, int share), void *context);

#endif
