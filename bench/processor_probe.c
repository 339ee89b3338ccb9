#include "bench/processor_probe.h"

#include <math.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <time.h>

enum {
    TRIES = 6, /* the shortest of them counts */
    ROUND_TRIPS = 32,
    WORK_STEPS = 10000,
    CHAINS = 4, /* independent of each other, so that a processor's units are the limit */
    LINE = 128  /* bytes; some processors fetch two lines of 64 at a time */
};

/* A partner that does not answer in this time is not running. */
static const double patience_s = 0.002;

/* Both figures vary by up to a third within one placement; between two of them one is 1.8 or 4 times the other. */
static const double apart = 1.5;

struct processor_probe {
    _Alignas(LINE) atomic_uint ball; /* odd: with the partner */
    _Alignas(LINE) atomic_int playing;
    atomic_int working; /* the partner works before it gives the ball back */
    pthread_mutex_t lock;
    pthread_cond_t changed;
    int called; /* for another game */
    int idle;
    int over;
    int processors[2];
    cpu_set_t allowed;
    pthread_t partner;
};

static double now_seconds(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

static void stay_on(int processor) {
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(processor, &set);
    sched_setaffinity(0, sizeof set, &set);
}

static unsigned work(unsigned seed) {
    uint32_t sums[CHAINS];
    uint32_t all = 0;
    for (uint32_t i = 0; i < CHAINS; i++)
        sums[i] = seed + i;
    for (int step = 0; step < WORK_STEPS; step++)
        for (int i = 0; i < CHAINS; i++)
            sums[i] = (sums[i] ^ sums[i] >> 7) + (sums[i] << 2);
    for (int i = 0; i < CHAINS; i++)
        all ^= sums[i];
    return all;
}

/* ---- the partner ------------------------------------------------------------------------------------- */

static void answer(processor_probe *probe) {
    while (atomic_load(&probe->playing)) {
        unsigned ball = atomic_load(&probe->ball);
        if (ball % 2 == 0)
            continue;
        if (atomic_load(&probe->working))
            ball += 2 * (work(ball) & 1); /* some even number: what is computed is needed */
        atomic_store(&probe->ball, ball + 1);
    }
}

static void *play(void *user) {
    processor_probe *const probe = user;
    stay_on(probe->processors[1]);
    pthread_mutex_lock(&probe->lock);
    for (;;) {
        probe->idle = 1;
        pthread_cond_broadcast(&probe->changed);
        while (!probe->called && !probe->over)
            pthread_cond_wait(&probe->changed, &probe->lock);
        if (probe->over)
            break;
        probe->called = probe->idle = 0;
        pthread_mutex_unlock(&probe->lock);
        answer(probe);
        pthread_mutex_lock(&probe->lock);
    }
    pthread_mutex_unlock(&probe->lock);
    return NULL;
}

/* ---- the asking thread --------------------------------------------------------------------------------- */

static void call_partner(processor_probe *probe) {
    pthread_mutex_lock(&probe->lock);
    while (!probe->idle)
        pthread_cond_wait(&probe->changed, &probe->lock);
    atomic_store(&probe->ball, 0);
    atomic_store(&probe->working, 0);
    atomic_store(&probe->playing, 1);
    probe->called = 1;
    probe->idle = 0;
    pthread_cond_broadcast(&probe->changed);
    pthread_mutex_unlock(&probe->lock);
}

/* Give the ball away, work as the partner does, and wait for it. 0, or -1 when it does not come back. */
static int pass(processor_probe *probe, int working) {
    const unsigned ball = atomic_load(&probe->ball) + 1;
    const double end = now_seconds() + patience_s;
    atomic_store(&probe->ball, ball);
    const unsigned worked = working ? work(ball) : 0;
    while (atomic_load(&probe->ball) == ball)
        if (now_seconds() > end)
            return -1;
    return worked == 1 && ball == 0 ? -1 : 0;
}

/* Seconds of a pass, the mean of so many; NaN when the partner does not answer. */
static double time_passes(processor_probe *probe, int count, int working) {
    const double start = now_seconds();
    for (int i = 0; i < count; i++)
        if (pass(probe, working) != 0)
            return NAN;
    return (now_seconds() - start) / count;
}

static double shortest(processor_probe *probe, int count, int working) {
    double least = NAN;
    atomic_store(&probe->working, working);
    for (int i = 0; i < TRIES; i++)
        least = fmin(least, time_passes(probe, count, working));
    return least;
}

processor_state processor_probe_read(processor_probe *probe) {
    processor_state state = {NAN, NAN};
    if (probe == NULL)
        return state;
    call_partner(probe);
    stay_on(probe->processors[0]);
    if (pass(probe, 0) == 0) {
        state.handover_ns = 1e9 * shortest(probe, ROUND_TRIPS, 0);
        state.work_ns = 1e9 * shortest(probe, 1, 1);
    }
    atomic_store(&probe->playing, 0);
    sched_setaffinity(0, sizeof probe->allowed, &probe->allowed);
    return state;
}

static int are_apart(double left, double right) {
    return fmax(left, right) > apart * fmin(left, right) && !isnan(left) && !isnan(right);
}

int processor_placements_differ(processor_state left, processor_state right) {
    return are_apart(left.handover_ns, right.handover_ns) || are_apart(left.work_ns, right.work_ns);
}

/* The first two that this thread may use. 0, or -1 where there are fewer. */
static int find_processors(processor_probe *probe) {
    int found = 0;
    if (sched_getaffinity(0, sizeof probe->allowed, &probe->allowed) != 0)
        return -1;
    for (int i = 0; i < CPU_SETSIZE && found < 2; i++)
        if (CPU_ISSET(i, &probe->allowed))
            probe->processors[found++] = i;
    return found == 2 ? 0 : -1;
}

processor_probe *processor_probe_open(void) {
    processor_probe *const probe = aligned_alloc(LINE, sizeof *probe);
    if (probe == NULL)
        return NULL;
    *probe =
        (processor_probe){.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};
    if (find_processors(probe) == 0 && pthread_create(&probe->partner, NULL, play, probe) == 0)
        return probe;
    free(probe);
    return NULL;
}

void processor_probe_close(processor_probe *probe) {
    if (probe == NULL)
        return;
    pthread_mutex_lock(&probe->lock);
    probe->over = 1;
    pthread_cond_broadcast(&probe->changed);
    pthread_mutex_unlock(&probe->lock);
    pthread_join(probe->partner, NULL);
    free(probe);
}
