/*
 * The peer of the memory suite: memcpy from one block of host memory to another, cut among as many
 * threads as the device has compute units. All three operations are this same copy.
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "bench/cases/memory_case.h"
#include "bench/protocol/worker_serve.h"
#include "bench/workers/worker_tandem.h"

typedef struct memcpy_state memcpy_state;

typedef struct memcpy_thread {
    memcpy_state *state;
    pthread_t thread;
    int number;
} memcpy_thread;

struct memcpy_state {
    memory_case item;
    unsigned char *source;
    unsigned char *target;
    memcpy_thread *threads; /* the main thread copies too: one fewer than item.threads */
    int thread_count;
    pthread_mutex_t lock;
    pthread_cond_t begin;
    pthread_cond_t end;
    uint64_t round; /* raised to begin a call */
    int busy;       /* threads still copying */
    int quit;
};

static void copy_part(const memcpy_state *own, int part) {
    const size_t parts = (size_t)own->item.threads;
    const size_t start = own->item.bytes / parts * (size_t)part;
    const size_t end =
        (size_t)part + 1 == parts ? own->item.bytes : own->item.bytes / parts * ((size_t)part + 1);
    memcpy(own->target + start, own->source + start, end - start);
}

static void *thread_main(void *argument) {
    const memcpy_thread *const thread = argument;
    memcpy_state *const own = thread->state;
    uint64_t seen = 0;
    pthread_mutex_lock(&own->lock);
    for (;;) {
        while (own->round == seen && !own->quit)
            pthread_cond_wait(&own->begin, &own->lock);
        if (own->quit)
            break;
        seen = own->round;
        pthread_mutex_unlock(&own->lock);
        copy_part(own, thread->number);
        pthread_mutex_lock(&own->lock);
        if (--own->busy == 0)
            pthread_cond_signal(&own->end);
    }
    pthread_mutex_unlock(&own->lock);
    return NULL;
}

static void release(void *state) {
    memcpy_state *const own = state;
    pthread_mutex_lock(&own->lock);
    own->quit = 1;
    pthread_cond_broadcast(&own->begin);
    pthread_mutex_unlock(&own->lock);
    for (int i = 0; i < own->thread_count; i++)
        pthread_join(own->threads[i].thread, NULL);
    free(own->threads);
    free(own->source);
    free(own->target);
    own->threads = NULL;
    own->thread_count = 0;
    own->source = NULL;
    own->target = NULL;
    own->round = 0;
    own->quit = 0;
}

static int start_threads(memcpy_state *own) {
    const int wanted = own->item.threads - 1;
    own->threads = calloc((size_t)wanted + 1, sizeof *own->threads);
    if (own->threads == NULL)
        return -1;
    for (int i = 0; i < wanted; i++) {
        own->threads[i].state = own;
        own->threads[i].number = i + 1;
        if (pthread_create(&own->threads[i].thread, NULL, thread_main, &own->threads[i]) != 0)
            return -1;
        own->thread_count++;
    }
    return 0;
}

static worker_answer describe(void *state, const char *request, worker_text *reply) {
    memcpy_state *const own = state;
    if (memory_case_read(request, &own->item) != 0) {
        worker_text_set(reply, "the case cannot be read");
        return WORKER_FAIL;
    }
    own->source = memory_case_source(&own->item);
    own->target = memory_case_target(&own->item);
    if (own->source == NULL || own->target == NULL || start_threads(own) != 0) {
        worker_text_set(reply, "out of host memory or threads");
        return WORKER_FAIL;
    }
    return WORKER_OK;
}

static worker_answer enqueue(void *state, worker_text *reply) {
    (void)reply;
    memcpy_state *const own = state;
    pthread_mutex_lock(&own->lock);
    own->busy = own->thread_count;
    own->round++;
    pthread_cond_broadcast(&own->begin);
    pthread_mutex_unlock(&own->lock);
    copy_part(own, 0);
    pthread_mutex_lock(&own->lock);
    while (own->busy > 0)
        pthread_cond_wait(&own->end, &own->lock);
    pthread_mutex_unlock(&own->lock);
    return WORKER_OK;
}

static size_t output_bytes(void *state) {
    const memcpy_state *const own = state;
    return own->target == NULL ? 0 : own->item.bytes;
}

static worker_answer output(void *state, void *bytes, worker_text *reply) {
    (void)reply;
    const memcpy_state *const own = state;
    memcpy(bytes, own->target, own->item.bytes);
    return WORKER_OK;
}

int worker_memcpy(void) {
    static const worker_implementation implementation = {
        .name = "memcpy",
        .describe = describe,
        .enqueue = enqueue,
        .output_bytes = output_bytes,
        .output = output,
        .release = release,
    };
    memcpy_state state = {
        .lock = PTHREAD_MUTEX_INITIALIZER,
        .begin = PTHREAD_COND_INITIALIZER,
        .end = PTHREAD_COND_INITIALIZER,
    };
    return worker_serve(&implementation, &state);
}
