/* Threads that work on the parts of a call together: the caller's own and others that wait for it. */
#ifndef TANDEM_BENCH_WORKERS_TEAM_H
#define TANDEM_BENCH_WORKERS_TEAM_H

#include <pthread.h>

typedef struct team team;

/* `work` of each part, 0 to count - 1, in each call of team_run. NULL when memory or threads are short. */
team *team_start(int count, void (*work)(void *user, int part), void *user);
void team_run(team *all);
void team_stop(team *all); /* NULL is fine */

#endif
