#include "bench/record/processor_probe.h"

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
    CHAIN_STEPS = 5000,
    CHAINS = 4, /* independent of each other, so that a processor's units are the limit */
    LINE = 128  /* bytes; some processors fetch two lines of 64 at a time */
};

/* A partner that does not answer in this time is not running. */
static const double patience_s = 0.002;

/* Both figures vary by up to a third within one placement; between two of them one is 1.8 or 4 times the other. */
static const double apart = 1.5;

/* On a quiet machine nineteen of twenty chains are within 2.4 % of each other (two cores of a Zen 5, 10,904 chains in 15 s). */
static const double slow_clock = 1.02;

/* Of 318 figures of two reports 285 were 1.51 to 1.58, the others 1.61 and more (Zen 5, two cores of a virtual machine). */
static const double crowded = 1.055;

/* Known when the program runs only: a compiler could join steps of a chain of constants. */
static volatile uint32_t chain_factor = 1664525;
static volatile uint32_t chain_end;

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
    int count; /* of them: 1 or 2 */
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

/* Nanoseconds of the chain on this processor. */
static double time_chain(int processor) {
    const uint32_t factor = chain_factor;
    double least = NAN;
    stay_on(processor);
    for (int i = 0; i < TRIES; i++) {
        uint32_t link = chain_end;
        const double start = now_seconds();
        for (uint32_t step = 0; step < CHAIN_STEPS; step++)
            link = link * factor + 1013904223u;
        chain_end = link;
        least = fmin(least, now_seconds() - start);
    }
    return 1e9 * least;
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

/* What both tell together, from the first of them. */
static void play_with_partner(processor_probe *probe, processor_state *state) {
    call_partner(probe);
    stay_on(probe->processors[0]);
    if (pass(probe, 0) == 0) {
        state->handover_ns = 1e9 * shortest(probe, ROUND_TRIPS, 0);
        state->work_ns = 1e9 * shortest(probe, 1, 1);
    }
    atomic_store(&probe->playing, 0);
}

/* The partner sleeps while the chain runs in its place. */
processor_state processor_probe_read(processor_probe *probe) {
    processor_state state = {NAN, NAN, NAN};
    if (probe == NULL)
        return state;
    state.chain_ns = time_chain(probe->processors[probe->count - 1]);
    if (probe->count > 1) {
        state.chain_ns = fmax(state.chain_ns, time_chain(probe->processors[0]));
        play_with_partner(probe, &state);
    }
    sched_setaffinity(0, sizeof probe->allowed, &probe->allowed);
    return state;
}

static int are_apart(double left, double right) {
    return fmax(left, right) > apart * fmin(left, right) && !isnan(left) && !isnan(right);
}

int processor_placements_differ(processor_state left, processor_state right) {
    return are_apart(left.handover_ns, right.handover_ns) || are_apart(left.work_ns, right.work_ns);
}

double processor_crowding(processor_state state) {
    return (state.work_ns - state.handover_ns) / state.chain_ns;
}

int processor_is_crowded(double crowding, double than) {
    return crowding > crowded * than;
}

int processor_clock_is_slow(double chain_ns, double best_ns) {
    return chain_ns > slow_clock * best_ns;
}

/* The first two that this thread may use, or the one. */
static void find_processors(processor_probe *probe) {
    if (sched_getaffinity(0, sizeof probe->allowed, &probe->allowed) != 0)
        return;
    for (int i = 0; i < CPU_SETSIZE && probe->count < 2; i++)
        if (CPU_ISSET(i, &probe->allowed))
            probe->processors[probe->count++] = i;
}

processor_probe *processor_probe_open(void) {
    processor_probe *const probe = aligned_alloc(LINE, sizeof *probe);
    if (probe == NULL)
        return NULL;
    *probe =
        (processor_probe){.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};
    find_processors(probe);
    if (probe->count == 2 && pthread_create(&probe->partner, NULL, play, probe) != 0)
        probe->count = 1;
    if (probe->count > 0)
        return probe;
    free(probe);
    return NULL;
}

void processor_probe_close(processor_probe *probe) {
    if (probe == NULL)
        return;
    if (probe->count > 1) {
        pthread_mutex_lock(&probe->lock);
        probe->over = 1;
        pthread_cond_broadcast(&probe->changed);
        pthread_mutex_unlock(&probe->lock);
        pthread_join(probe->partner, NULL);
    }
    free(probe);
}
