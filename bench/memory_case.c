#include "bench/memory_case.h"

#include <stdlib.h>
#include <string.h>

#include "bench/random_fill.h"

enum {
    MAX_THREADS = 1024
};

static const char *const operation_names[] = {"copy", "write", "read"};

const char *memory_operation_name(memory_operation operation) {
    return operation_names[operation];
}

int memory_operation_parse(const char *name, memory_operation *operation) {
    for (int i = MEMORY_COPY; i <= MEMORY_READ; i++) {
        if (strcmp(name, operation_names[i]) != 0)
            continue;
        *operation = (memory_operation)i;
        return 0;
    }
    return -1;
}

void memory_case_write(const memory_case *item, worker_text *line) {
    worker_field_add(line, "suite", "memory");
    worker_field_add(line, "operation", memory_operation_name(item->operation));
    worker_field_add_integer(line, "bytes", (int64_t)item->bytes);
    worker_field_add_integer(line, "seed", (int64_t)item->seed);
    worker_field_add_integer(line, "threads", item->threads);
}

int memory_case_read(const char *line, memory_case *item) {
    char name[16];
    const int64_t bytes = worker_field_integer(line, "bytes", 0);
    const int64_t threads = worker_field_integer(line, "threads", 0);
    worker_field(line, "operation", name, sizeof name);
    item->bytes = (size_t)bytes;
    item->seed = (uint64_t)worker_field_integer(line, "seed", 0);
    item->threads = (int)threads;
    if (bytes < 1 || threads < 1 || threads > MAX_THREADS)
        return -1;
    return memory_operation_parse(name, &item->operation);
}

double memory_case_traffic(const memory_case *item) {
    return (item->operation == MEMORY_COPY ? 2.0 : 1.0) * (double)item->bytes;
}

static void *allocate(const memory_case *item) {
    return item->bytes > SIZE_MAX - 63 ? NULL : aligned_alloc(64, (item->bytes + 63) / 64 * 64);
}

void *memory_case_source(const memory_case *item) {
    void *const data = allocate(item);
    if (data != NULL)
        random_fill_bytes(item->seed, data, item->bytes);
    return data;
}

void *memory_case_target(const memory_case *item) {
    void *const data = allocate(item);
    /*
     * Pages that were never written are all one zero page: reading them would be measured as too
     * fast.
     */
    if (data != NULL)
        memset(data, 0xA5, item->bytes);
    return data;
}

int memory_case_check(const void *user, const void *output, size_t bytes, double *max_error,
                      worker_text *reason) {
    const memory_case *const item = user;
    const unsigned char *const got = output;
    *max_error = 0;
    if (bytes != item->bytes) {
        worker_text_set(reason, "the output has %zu bytes, not %zu", bytes, item->bytes);
        return -1;
    }
    for (size_t i = 0; i < bytes; i += 8) {
        const uint64_t expected = random_bits(item->seed, i / 8);
        if (memcmp(got + i, &expected, bytes - i < 8 ? bytes - i : 8) != 0) {
            worker_text_set(reason, "a byte in %zu to %zu differs from the source", i, i + 7);
            return -1;
        }
    }
    return 0;
}
