/*
 * The peer of the memory suite's kernels: OpenMP loops on the host, compiled with Tandem's own
 * flags. They are the loops of STREAM, a writing loop, and loops that read in order and at random
 * indices.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <omp.h>

#include "bench/cases/memory_case.h"
#include "bench/protocol/worker_serve.h"

typedef struct stream_state {
    memory_case item;
    size_t count; /* elements of an array */
    float *a, *b, *c;
    uint32_t *places; /* gather only, else NULL */
    uint32_t sum;
} stream_state;

static void identify(void *state, worker_text *reply) {
    (void)state;
    char version[32];
    snprintf(version, sizeof version, "%d", _OPENMP);
    worker_field_add(reply, "version", version);
    worker_field_add_integer(reply, "threads", omp_get_max_threads());
}

static void release(void *state) {
    stream_state *const own = state;
    free(own->a);
    free(own->b);
    free(own->c);
    free(own->places);
    own->a = own->b = own->c = NULL;
    own->places = NULL;
    own->count = 0;
}

/* Allocates `count` words. */
static void *allocate(size_t count) {
    return aligned_alloc(64, (count * sizeof(float) + 63) / 64 * 64);
}

static size_t place_count(const stream_state *own) {
    return own->item.operation == MEMORY_GATHER ? memory_index_count(&own->item) : 0;
}

/* Fills the arrays. Every thread first touches the pages that it uses later. */
static void fill(stream_state *own) {
    const long long count = (long long)own->count;
    float *const a = own->a;
    float *const b = own->b;
    float *const c = own->c;
#pragma omp parallel for schedule(static)
    for (long long i = 0; i < count; i++) {
        a[i] = memory_a(&own->item, (size_t)i);
        b[i] = memory_b(&own->item, (size_t)i);
        c[i] = -1;
    }
    const long long places = (long long)place_count(own);
#pragma omp parallel for schedule(static)
    for (long long i = 0; i < places; i++)
        own->places[i] = memory_index(&own->item, (size_t)i);
}

/* Returns the number of words that are added up. */
static size_t word_count(const stream_state *own) {
    return own->places != NULL ? place_count(own) : own->count;
}

static int sums_up(const stream_state *own) {
    const memory_operation operation = own->item.operation;
    return operation == MEMORY_READ || operation == MEMORY_GATHER;
}

static int64_t work_of(const stream_state *own) {
    const size_t words = own->places != NULL ? 2 * word_count(own) : word_count(own);
    return sums_up(own) ? (int64_t)(words * sizeof(uint32_t))
                        : (int64_t)memory_case_traffic(&own->item);
}

static worker_answer describe(void *state, const char *request, worker_text *reply) {
    stream_state *const own = state;
    if (memory_case_read(request, &own->item) != 0 ||
        !memory_operation_is_stream(own->item.operation)) {
        worker_text_set(reply, "the operation is not a loop of STREAM");
        return WORKER_SKIP;
    }
    own->count = own->item.bytes / sizeof(float);
    omp_set_num_threads(own->item.threads);
    own->a = allocate(own->count);
    own->b = allocate(own->count);
    own->c = allocate(own->count);
    own->places = place_count(own) > 0 ? allocate(place_count(own)) : NULL;
    if (own->a == NULL || own->b == NULL || own->c == NULL ||
        (own->places == NULL && place_count(own) > 0)) {
        worker_text_set(reply, "out of host memory");
        return WORKER_FAIL;
    }
    fill(own);
    worker_field_add(reply, "variant", "openmp");
    worker_field_add_integer(reply, "work", work_of(own));
    return WORKER_OK;
}

/* LOOP runs `statement` for each i below `count`. SUM adds up `word` for each i below `words`. */
#define LOOP(statement)                                                                            \
    _Pragma("omp parallel for schedule(static)") for (long long i = 0; i < count; i++) statement

#define SUM(word)                                                                                  \
    _Pragma("omp parallel for schedule(static) reduction(+ : sum)") for (long long i = 0;          \
                                                                         i < words; i++) sum +=    \
        word

static worker_answer enqueue(void *state, worker_text *reply) {
    stream_state *const own = state;
    const long long count = (long long)own->count, words = (long long)word_count(own);
    const float *restrict const a = own->a;
    const float *restrict const b = own->b;
    float *restrict const c = own->c;
    const uint32_t *const bits = (const void *)own->a;
    const uint32_t *const places = own->places;
    const float s = memory_scale;
    uint32_t sum = 0;
    (void)reply;
    switch (own->item.operation) {
    case MEMORY_COPY:
        LOOP(c[i] = a[i]);
        break;
    case MEMORY_SCALE:
        LOOP(c[i] = s * a[i]);
        break;
    case MEMORY_ADD:
        LOOP(c[i] = a[i] + b[i]);
        break;
    case MEMORY_TRIAD:
        LOOP(c[i] = a[i] + s * b[i]);
        break;
    case MEMORY_WRITE:
        LOOP(c[i] = s);
        break;
    case MEMORY_GATHER:
        SUM(bits[places[i]]);
        break;
    default:
        SUM(bits[i]);
    }
    own->sum = sum;
    return WORKER_OK;
}

static size_t output_bytes(void *state) {
    const stream_state *const own = state;
    if (sums_up(own))
        return (MEMORY_HEAD_WORDS + 1) * sizeof(uint32_t);
    return own->count * sizeof(float);
}

static worker_answer output(void *state, void *bytes, worker_text *reply) {
    const stream_state *const own = state;
    const uint64_t words = word_count(own);
    const uint32_t sums[MEMORY_HEAD_WORDS + 1] = {(uint32_t)words, (uint32_t)(words >> 32), 1, 0,
                                                  own->sum};
    (void)reply;
    if (sums_up(own))
        memcpy(bytes, sums, sizeof sums);
    else
        memcpy(bytes, own->c, own->count * sizeof(float));
    return WORKER_OK;
}

int main(void) {
    static const worker_implementation stream = {
        .name = "stream",
        .identify = identify,
        .describe = describe,
        .enqueue = enqueue,
        .output_bytes = output_bytes,
        .output = output,
        .release = release,
    };
    stream_state state = {.count = 0};
    return worker_serve(&stream, &state);
}
