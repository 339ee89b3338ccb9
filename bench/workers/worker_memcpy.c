/*
 * The baseline for the memory suite's copies: memcpy in host memory, divided among the threads of
 * the case.
 */
#include <stdlib.h>
#include <string.h>

#include "bench/cases/memory_case.h"
#include "bench/workers/team.h"
#include "bench/workers/worker_tandem.h"

typedef struct memcpy_state {
    worker_device device; /* must be the first member, see worker_tandem.h */
    memory_case item;
    unsigned char *source, *target;
    team *threads;
} memcpy_state;

static int read_case(void *state, const char *request) {
    return memory_case_read(request, &((memcpy_state *)state)->item);
}

static void copy_part(void *state, int part) {
    const memcpy_state *const own = state;
    const size_t parts = (size_t)own->item.threads, size = own->item.bytes / parts;
    const size_t start = size * (size_t)part;
    memcpy(own->target + start, own->source + start,
           (size_t)part + 1 == parts ? own->item.bytes - start : size);
}

static void release(void *state) {
    memcpy_state *const own = state;
    team_stop(own->threads);
    free(own->source);
    free(own->target);
}

static tdm_status prepare(void *state, const char *request, worker_text *reply) {
    memcpy_state *const own = state;
    (void)request;
    (void)reply;
    own->source = memory_case_source(&own->item);
    own->target = memory_case_target(&own->item);
    if (own->source == NULL || own->target == NULL)
        return TDM_OUT_OF_HOST_MEMORY;
    own->threads = team_start(own->item.threads, copy_part, own);
    return own->threads == NULL ? TDM_OUT_OF_HOST_MEMORY : TDM_OK;
}

static tdm_status enqueue(void *state) {
    team_run(((memcpy_state *)state)->threads);
    return TDM_OK;
}

static size_t output_bytes(const void *state) {
    return ((const memcpy_state *)state)->item.bytes;
}

static tdm_status output(void *state, void *bytes) {
    const memcpy_state *const own = state;
    memcpy(bytes, own->target, own->item.bytes);
    return TDM_OK;
}

const tandem_worker worker_memcpy = {"memcpy", sizeof(memcpy_state), read_case, prepare, enqueue,
                                     NULL,     output_bytes,         output,    release, NULL};
