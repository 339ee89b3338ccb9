#include "bench/workers/team.h"

#include <stdlib.h>

typedef struct team_member {
    team *all;
    int part;
    pthread_t thread;
} team_member;

struct team {
    void (*work)(void *user, int part);
    void *user;
    int count, quits;
    pthread_barrier_t begin, end;
    team_member members[]; /* the first is the caller */
};

static void *serve(void *user) {
    const team_member *const member = user;
    team *const all = member->all;
    for (;;) {
        pthread_barrier_wait(&all->begin);
        if (all->quits)
            return NULL;
        all->work(all->user, member->part);
        pthread_barrier_wait(&all->end);
    }
}

team *team_start(int count, void (*work)(void *user, int part), void *user) {
    team *const all = calloc(1, sizeof *all + (size_t)count * sizeof all->members[0]);
    if (all == NULL)
        return NULL;
    all->work = work;
    all->user = user;
    pthread_barrier_init(&all->begin, NULL, (unsigned)count);
    pthread_barrier_init(&all->end, NULL, (unsigned)count);
    for (all->count = 1; all->count < count; all->count++) {
        team_member *const member = &all->members[all->count];
        *member = (team_member){.all = all, .part = all->count};
        if (pthread_create(&member->thread, NULL, serve, member) != 0)
            return NULL; /* threads that already wait end with the process */
    }
    return all;
}

void team_run(team *all) {
    pthread_barrier_wait(&all->begin);
    all->work(all->user, 0);
    pthread_barrier_wait(&all->end);
}

void team_stop(team *all) {
    if (all == NULL)
        return;
    all->quits = 1;
    pthread_barrier_wait(&all->begin);
    for (int i = 1; i < all->count; i++)
        pthread_join(all->members[i].thread, NULL);
    pthread_barrier_destroy(&all->begin);
    pthread_barrier_destroy(&all->end);
    free(all);
}
