/*
 * Threads that work together on the parts of a call: the caller's own thread and others that wait
 * for it.
 */
#ifndef TANDEM_BENCH_WORKERS_TEAM_H
#define TANDEM_BENCH_WORKERS_TEAM_H

#include <pthread.h>

typedef struct team team;

/*
 * Starts a team. Each team_run calls `work` for every part, 0 to count - 1. Returns NULL if memory
 * or threads are short.
 */
team *team_start(int count, void (*work)(void *user, int part), void *user);
void team_run(team *all);
void team_stop(team *all); /* NULL is accepted */

#endif
