/*
 * The peer of the memory suite's kernels: the loops of STREAM, a reading one and a writing one, by OpenMP on the host, compiled
 * with the flags of Tandem itself.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <omp.h>

#include "bench/memory_case.h"
#include "bench/worker_serve.h"

typedef struct stream_state {
    memory_case item;
    size_t count;
    float *a, *b, *c;
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
    own->a = own->b = own->c = NULL;
    own->count = 0;
}

static float *allocate(const stream_state *own) {
    return aligned_alloc(64, (own->count * sizeof(float) + 63) / 64 * 64);
}

/* Every thread touches first what it works on later. */
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
}

static worker_answer describe(void *state, const char *request, worker_text *reply) {
    stream_state *const own = state;
    if (memory_case_read(request, &own->item) != 0 ||
        !memory_operation_is_stream(own->item.operation)) {
        worker_text_set(reply, "these are no loops of STREAM");
        return WORKER_SKIP;
    }
    own->count = own->item.bytes / sizeof(float);
    omp_set_num_threads(own->item.threads);
    own->a = allocate(own);
    own->b = allocate(own);
    own->c = allocate(own);
    if (own->a == NULL || own->b == NULL || own->c == NULL) {
        worker_text_set(reply, "out of host memory");
        return WORKER_FAIL;
    }
    fill(own);
    worker_field_add(reply, "variant", "openmp");
    return WORKER_OK;
}

static void copy(long long count, float *restrict c, const float *restrict a) {
#pragma omp parallel for schedule(static)
    for (long long i = 0; i < count; i++)
        c[i] = a[i];
}

static void scale(long long count, float *restrict c, const float *restrict a, float s) {
#pragma omp parallel for schedule(static)
    for (long long i = 0; i < count; i++)
        c[i] = s * a[i];
}

static void add(long long count, float *restrict c, const float *restrict a,
                const float *restrict b) {
#pragma omp parallel for schedule(static)
    for (long long i = 0; i < count; i++)
        c[i] = a[i] + b[i];
}

static void triad(long long count, float *restrict c, const float *restrict a,
                  const float *restrict b, float s) {
#pragma omp parallel for schedule(static)
    for (long long i = 0; i < count; i++)
        c[i] = a[i] + s * b[i];
}

static void write_all(long long count, float *restrict c, float s) {
#pragma omp parallel for schedule(static)
    for (long long i = 0; i < count; i++)
        c[i] = s;
}

static uint32_t read_all(long long count, const uint32_t *restrict a) {
    uint32_t sum = 0;
#pragma omp parallel for schedule(static) reduction(+ : sum)
    for (long long i = 0; i < count; i++)
        sum += a[i];
    return sum;
}

static worker_answer enqueue(void *state, worker_text *reply) {
    stream_state *const own = state;
    const long long count = (long long)own->count;
    (void)reply;
    switch (own->item.operation) {
    case MEMORY_COPY:
        copy(count, own->c, own->a);
        break;
    case MEMORY_SCALE:
        scale(count, own->c, own->a, memory_scale);
        break;
    case MEMORY_ADD:
        add(count, own->c, own->a, own->b);
        break;
    case MEMORY_TRIAD:
        triad(count, own->c, own->a, own->b, memory_scale);
        break;
    case MEMORY_WRITE:
        write_all(count, own->c, memory_scale);
        break;
    default:
        own->sum = read_all(count, (const uint32_t *)(const void *)own->a);
    }
    return WORKER_OK;
}

static size_t output_bytes(void *state) {
    const stream_state *const own = state;
    if (own->item.operation == MEMORY_READ)
        return (MEMORY_HEAD_WORDS + 1) * sizeof(uint32_t);
    return own->count * sizeof(float);
}

static worker_answer output(void *state, void *bytes, worker_text *reply) {
    const stream_state *const own = state;
    const uint32_t sums[MEMORY_HEAD_WORDS + 1] = {
        (uint32_t)own->count, (uint32_t)((uint64_t)own->count >> 32), 1, 0, own->sum};
    (void)reply;
    if (own->item.operation == MEMORY_READ)
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
