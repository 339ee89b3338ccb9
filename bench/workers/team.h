/*
 * The threads of a team compute the parts of a call together. The caller's own thread is one of
 * them, and the others wait for it between calls.
 */
#ifndef TANDEM_BENCH_WORKERS_TEAM_H
#define TANDEM_BENCH_WORKERS_TEAM_H

#include <pthread.h>

typedef struct team team;

/*
 * Starts a team of `count` threads, including the caller's. Each team_run calls `work` once for
 * every part from 0 to count - 1, each part in its own thread. Returns NULL if there is not enough
 * memory or a thread cannot be started.
 */
team *team_start(int count, void (*work)(void *user, int part), void *user);
void team_run(team *all);
void team_stop(team *all); /* NULL is accepted */

#endif
