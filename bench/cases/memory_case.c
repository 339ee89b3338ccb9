#include "bench/cases/memory_case.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/cases/case_fields.h"
#include "common/random_fill.h"

enum {
    MAX_THREADS = 1024,
    CHASE_LINE_WORDS = 16,        /* 64 bytes */
    CHASE_STEPS = 1 << 16,        /* of a call, if the chain does not fit into a cache */
    CHASE_CACHED_STEPS = 1 << 19, /* of a call, for at most CHASE_CACHED_BYTES */
    CHASE_CACHED_BYTES = 1 << 20
};

const float memory_scale = 0.7373046875f;

static const char *const operation_names[] = {
#define MEMORY_OPERATION_NAME(name, text) text,
    MEMORY_OPERATION_LIST(MEMORY_OPERATION_NAME)
#undef MEMORY_OPERATION_NAME
};

static const case_field fields[] = {
    CASE_FIELD(memory_case, operation, MEMORY_COPY, MEMORY_DOWNLOAD),
    CASE_FIELD(memory_case, bytes, 1, INT64_MAX),
    CASE_FIELD(memory_case, seed, INT64_MIN, INT64_MAX),
    CASE_FIELD(memory_case, threads, 1, MAX_THREADS),
    CASE_FIELD(memory_case, pinned, 0, 1),
    CASE_FIELD(memory_case, amount, 0, INT64_MAX),
};

void memory_case_write(const memory_case *item, worker_text *line) {
    case_fields_write(fields, sizeof fields / sizeof *fields, item, line);
}

int memory_case_read(const char *line, memory_case *item) {
    return case_fields_read(fields, sizeof fields / sizeof *fields, line, item);
}

const char *memory_operation_name(memory_operation operation) {
    return operation_names[operation];
}

int memory_operation_parse(const char *name, memory_operation *operation) {
    const int found = case_name_find(operation_names, MEMORY_DOWNLOAD + 1, name);
    *operation = (memory_operation)(found < 0 ? 0 : found);
    return found < 0 ? -1 : 0;
}

int memory_operation_is_kernel(memory_operation operation) {
    return operation <= MEMORY_SWEEP;
}

int memory_operation_is_stream(memory_operation operation) {
    return operation <= MEMORY_GATHER;
}

int memory_operation_sums(memory_operation operation) {
    return operation == MEMORY_READ || operation == MEMORY_GATHER || operation == MEMORY_SWEEP;
}

void memory_case_name(const memory_case *item, char name[MEMORY_MAX_NAME]) {
    const memory_operation operation = item->operation;
    const char *const host = operation <= MEMORY_BUFFER ? ""
                             : item->pinned             ? ", pinned"
                                                        : ", pageable";
    snprintf(name, MEMORY_MAX_NAME, "%s%s %zu%s", memory_operation_name(operation),
             operation == MEMORY_SWEEP ? " read" : "", item->bytes, host);
}

double memory_case_traffic(const memory_case *item) {
    static const double times[MEMORY_DOWNLOAD + 1] = {
        [MEMORY_COPY] = 2,   [MEMORY_SCALE] = 2,  [MEMORY_ADD] = 3,
        [MEMORY_TRIAD] = 3,  [MEMORY_READ] = 1,   [MEMORY_WRITE] = 1,
        [MEMORY_BUFFER] = 2, [MEMORY_UPLOAD] = 1, [MEMORY_DOWNLOAD] = 1,
    };
    return times[item->operation] * (double)item->bytes;
}

/* ---- data ---- */

float memory_a(const memory_case *item, size_t i) {
    return random_number(item->seed, i);
}

float memory_b(const memory_case *item, size_t i) {
    return random_number(item->seed + 1, i);
}

static size_t words_of(const memory_case *item) {
    return item->bytes < 4 ? 1 : item->bytes / 4;
}

uint32_t memory_index(const memory_case *item, size_t i) {
    return (uint32_t)(random_bits(item->seed + 2, i) % words_of(item));
}

size_t memory_index_count(const memory_case *item) {
    return words_of(item) / MEMORY_GATHER_SHARE + 1;
}

int memory_chase_steps(const memory_case *item) {
    if (item->amount > 0)
        return (int)(item->amount < CHASE_CACHED_STEPS ? item->amount : CHASE_CACHED_STEPS);
    return item->bytes <= CHASE_CACHED_BYTES ? CHASE_CACHED_STEPS : CHASE_STEPS;
}

static size_t chase_lines(const memory_case *item) {
    return (words_of(item) + CHASE_LINE_WORDS - 1) / CHASE_LINE_WORDS;
}

/* Fills the words by Sattolo's shuffle, which gives only permutations of a single cycle. */
int memory_chase_fill(const memory_case *item, int32_t *words) {
    const size_t lines = chase_lines(item);
    memset(words, 0, words_of(item) * sizeof *words);
    uint32_t *const order = malloc(lines * sizeof *order);
    if (order == NULL)
        return -1;
    for (size_t i = 0; i < lines; i++)
        order[i] = (uint32_t)i;
    for (size_t i = lines; i-- > 1;) {
        const size_t other = random_bits(item->seed, i) % i;
        const uint32_t kept = order[i];
        order[i] = order[other];
        order[other] = kept;
    }
    for (size_t i = 0; i < lines; i++)
        words[i * CHASE_LINE_WORDS] = (int32_t)(order[i] * CHASE_LINE_WORDS);
    free(order);
    return 0;
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

/*
 * Every page is written. Pages that were never written all map to one zero page, and reading them
 * would seem too fast.
 */
void *memory_case_target(const memory_case *item) {
    void *const data = allocate(item);
    if (data != NULL)
        memset(data, 0xA5, item->bytes);
    return data;
}

/* ---- checks ---- */

/* Returns element i of c. With `is_fused`, a triad's sum is rounded once instead of twice. */
static float expected_element(const memory_case *item, size_t i, int is_fused) {
    const float s = memory_scale;
    if (item->operation == MEMORY_WRITE)
        return s;
    if (item->operation == MEMORY_SCALE)
        return s * memory_a(item, i);
    if (item->operation == MEMORY_ADD)
        return memory_a(item, i) + memory_b(item, i);
    if (item->operation == MEMORY_COPY)
        return memory_a(item, i);
    const float product = s * memory_b(item, i);
    return is_fused ? fmaf(s, memory_b(item, i), memory_a(item, i)) : memory_a(item, i) + product;
}

static int check_elements(const memory_case *item, const void *output, size_t bytes,
                          worker_text *reason) {
    const size_t count = item->bytes / sizeof(float);
    if (bytes != count * sizeof(float))
        return CASE_WRONG(reason, "the output has %zu bytes, not %zu", bytes, item->bytes);
    for (size_t i = 0; i < count; i++) {
        float got = 0;
        memcpy(&got, (const char *)output + i * sizeof got, sizeof got);
        const float expected = expected_element(item, i, 0);
        if (got != expected && got != expected_element(item, i, 1))
            return CASE_WRONG(reason, "element %zu is %.9g, should be %.9g", i, (double)got,
                              (double)expected);
    }
    return 0;
}

/* Returns the i-th word that the kernel reads. */
static uint32_t read_word(const memory_case *item, size_t i) {
    const size_t place = item->operation == MEMORY_GATHER ? memory_index(item, i) : i;
    const float value = memory_a(item, place);
    uint32_t word = 0;
    memcpy(&word, &value, sizeof word);
    return word;
}

static size_t least_count(const memory_case *item) {
    return item->operation == MEMORY_GATHER ? memory_index_count(item)
                                            : item->bytes / sizeof(uint32_t);
}

static int check_sums(const memory_case *item, const void *output, size_t bytes,
                      worker_text *reason) {
    uint32_t head[MEMORY_HEAD_WORDS];
    uint32_t sum = 0;
    if (bytes <= sizeof head || bytes % sizeof head[0] != 0)
        return CASE_WRONG(reason, "the output has %zu bytes", bytes);
    memcpy(head, output, sizeof head);
    const uint64_t count = head[0] | (uint64_t)head[1] << 32;
    if (count < least_count(item) || count > 2 * least_count(item) + (1 << 24) || head[2] < 1)
        return CASE_WRONG(reason, "%llu words were read, should be about %zu",
                          (unsigned long long)count, least_count(item));
    for (uint64_t i = 0; i < count; i++)
        sum += read_word(item, i);
    sum *= head[2];
    for (size_t at = sizeof head; at < bytes; at += sizeof sum) {
        uint32_t part = 0;
        memcpy(&part, (const char *)output + at, sizeof part);
        sum -= part;
    }
    return sum == 0 ? 0 : CASE_WRONG(reason, "the sum is wrong by %u", sum);
}

static int check_chase(const memory_case *item, const void *output, size_t bytes,
                       worker_text *reason) {
    int32_t got[2] = {-1, 0}; /* index, calls */
    int32_t place = 0;
    if (bytes == sizeof got)
        memcpy(got, output, sizeof got);
    if (got[1] < 1)
        return CASE_WRONG(reason, "the pointer chase did not run");
    int32_t *const words = malloc(words_of(item) * sizeof *words);
    if (words == NULL || memory_chase_fill(item, words) != 0) {
        free(words);
        return CASE_WRONG(reason, "out of host memory");
    }
    const uint64_t steps = (uint64_t)got[1] * (uint64_t)memory_chase_steps(item);
    for (uint64_t left = steps % chase_lines(item); left > 0; left--)
        place = words[place];
    free(words);
    if (got[0] == place)
        return 0;
    return CASE_WRONG(reason, "the pointer chase ends at %d, should end at %d after %d calls",
                      got[0], place, got[1]);
}

static int check_copy(const memory_case *item, const unsigned char *output, size_t bytes,
                      worker_text *reason) {
    if (bytes != item->bytes)
        return CASE_WRONG(reason, "the output has %zu bytes, not %zu", bytes, item->bytes);
    uint64_t expected = 0;
    for (size_t i = 0; i < bytes; i++) {
        if (i % 8 == 0)
            expected = random_bits(item->seed, i / 8);
        if (output[i] != ((const unsigned char *)&expected)[i % 8])
            return CASE_WRONG(reason, "byte %zu differs from the source", i);
    }
    return 0;
}

int memory_case_check(const void *user, const void *output, size_t bytes, double *max_error,
                      worker_text *reason) {
    const memory_case *const item = user;
    *max_error = 0;
    if (item->operation == MEMORY_CHASE)
        return check_chase(item, output, bytes, reason);
    if (memory_operation_sums(item->operation))
        return check_sums(item, output, bytes, reason);
    return memory_operation_is_kernel(item->operation) ? check_elements(item, output, bytes, reason)
                                                       : check_copy(item, output, bytes, reason);
}
