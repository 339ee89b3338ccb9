#include "common/parallel_shares.h"

#include <pthread.h>
#include <unistd.h>

typedef struct worker {
    void (*work)(void *context, int share);
    void *context;
    int first;
    int step;
} worker;

static void *run(void *argument) {
    const worker *const self = argument;
    for (int share = self->first; share < PARALLEL_SHARES; share += self->step)
        self->work(self->context, share);
    return NULL;
}

void parallel_shares(void (*work)(void *context, int share), void *context) {
    worker workers[PARALLEL_SHARES];
    pthread_t threads[PARALLEL_SHARES];
    int started[PARALLEL_SHARES] = {0};
    const long processors = sysconf(_SC_NPROCESSORS_ONLN);
    const int count = processors < 1                 ? 1
                      : processors > PARALLEL_SHARES ? PARALLEL_SHARES
                                                     : (int)processors;
    for (int i = 0; i < count; i++)
        workers[i] = (worker){work, context, i, count};
    for (int i = 1; i < count; i++)
        started[i] = pthread_create(&threads[i], NULL, run, &workers[i]) == 0;
    for (int i = 0; i < count; i++)
        if (!started[i])
            run(&workers[i]);
    for (int i = 1; i < count; i++)
        if (started[i])
            pthread_join(threads[i], NULL);
}
