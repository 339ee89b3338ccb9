/* A device for a pool without a device: native allocations are numbers, and every command has passed. */
#ifndef TANDEM_BENCH_TRACE_COUNTED_MEMORY_H
#define TANDEM_BENCH_TRACE_COUNTED_MEMORY_H

#include <stdatomic.h>

#include "api/pool/pool.h"

typedef struct counted_memory {
    atomic_ullong allocations; /* so far */
} counted_memory;

/* Without any bound; alignment 128. */
tdm_pool_upstream counted_upstream(counted_memory *memory);

/* Which allocation it was, from 1. */
unsigned long long counted_number(const tdm_bk_memory *memory);

#endif
