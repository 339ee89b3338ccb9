/* Whether what the kernels and copies of the memory suite left behind is right. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "bench/cases/memory_case.h"
#include "common/random_fill.h"

/* Element i of c; `other`: where the sum is rounded once instead of twice. */
static float expected_element(const memory_case *item, size_t i, float *other) {
    const float s = memory_scale;
    float value = 0;
    switch (item->operation) {
    case MEMORY_COPY:
        value = memory_a(item, i);
        break;
    case MEMORY_SCALE:
        value = s * memory_a(item, i);
        break;
    case MEMORY_ADD:
        value = memory_a(item, i) + memory_b(item, i);
        break;
    case MEMORY_TRIAD: {
        const float product = s * memory_b(item, i);
        *other = fmaf(s, memory_b(item, i), memory_a(item, i));
        return memory_a(item, i) + product;
    }
    default:
        value = s;
    }
    *other = value;
    return value;
}

static int check_elements(const memory_case *item, const void *output, size_t bytes,
                          double *max_error, worker_text *reason) {
    const size_t count = item->bytes / sizeof(float);
    *max_error = 0;
    if (bytes != count * sizeof(float)) {
        worker_text_set(reason, "the output has %zu bytes, not %zu", bytes, count * sizeof(float));
        return -1;
    }
    for (size_t i = 0; i < count; i++) {
        float got = 0;
        float other = 0;
        const float expected = expected_element(item, i, &other);
        memcpy(&got, (const char *)output + i * sizeof got, sizeof got);
        if (got == expected || got == other)
            continue;
        worker_text_set(reason, "element %zu is %.9g, should be %.9g", i, (double)got,
                        (double)expected);
        return -1;
    }
    return 0;
}

static uint32_t word_of(const memory_case *item, size_t i) {
    const float value = memory_a(item, i);
    uint32_t word = 0;
    memcpy(&word, &value, sizeof word);
    return word;
}

/* Place of the i-th word that is read. */
static size_t place_of(const memory_case *item, size_t i) {
    if (item->operation == MEMORY_GATHER)
        return memory_index(item, i);
    return item->operation == MEMORY_STRIDED ? i * (size_t)item->stride : i;
}

static size_t least_count(const memory_case *item) {
    const size_t words = item->bytes / sizeof(uint32_t);
    if (item->operation == MEMORY_GATHER)
        return memory_index_count(item);
    return item->operation == MEMORY_STRIDED ? words / (size_t)item->stride : words;
}

static int check_sums(const memory_case *item, const void *output, size_t bytes, double *max_error,
                      worker_text *reason) {
    uint32_t head[MEMORY_HEAD_WORDS];
    uint32_t sum = 0;
    *max_error = 0;
    if (bytes <= sizeof head || bytes % sizeof head[0] != 0) {
        worker_text_set(reason, "the output has %zu bytes", bytes);
        return -1;
    }
    memcpy(head, output, sizeof head);
    const uint64_t count = head[0] | (uint64_t)head[1] << 32;
    if (count < least_count(item) || count > 2 * least_count(item) + (1 << 24) || head[2] < 1) {
        worker_text_set(reason, "%llu words were read, %zu are asked for",
                        (unsigned long long)count, least_count(item));
        return -1;
    }
    for (uint64_t i = 0; i < count; i++)
        sum += word_of(item, place_of(item, i));
    sum *= head[2];
    for (size_t at = sizeof head; at < bytes; at += sizeof sum) {
        uint32_t part = 0;
        memcpy(&part, (const char *)output + at, sizeof part);
        sum -= part;
    }
    if (sum == 0)
        return 0;
    worker_text_set(reason, "the sum is wrong by %u", sum);
    return -1;
}

/* Where the walk is after so many steps from place 0: it is a circle through all lines. -1 when memory is short. */
static int32_t walked_to(const memory_case *item, uint64_t steps) {
    int32_t place = 0;
    int32_t *const words = malloc(item->bytes < 4 ? 4 : item->bytes);
    if (words == NULL || memory_chase_fill(item, words) != 0) {
        free(words);
        return -1;
    }
    for (uint64_t left = steps % memory_chase_lines(item); left > 0; left--)
        place = words[place];
    free(words);
    return place;
}

static int check_chase(const memory_case *item, const void *output, size_t bytes, double *max_error,
                       worker_text *reason) {
    int32_t got[2] = {-1, 0}; /* place, calls */
    *max_error = 0;
    if (bytes == sizeof got)
        memcpy(got, output, sizeof got);
    if (got[1] < 1) {
        worker_text_set(reason, "the walk was never made");
        return -1;
    }
    const int32_t place = walked_to(item, (uint64_t)got[1] * (uint64_t)memory_chase_steps(item));
    if (place < 0) {
        worker_text_set(reason, "out of host memory");
        return -1;
    }
    if (got[0] == place)
        return 0;
    worker_text_set(reason, "the walk ends at %d, should end at %d after %d calls", got[0], place,
                    got[1]);
    return -1;
}

static int check_bytes(const memory_case *item, const unsigned char *got, worker_text *reason) {
    for (size_t i = 0; i < item->bytes; i += 8) {
        const uint64_t expected = random_bits(item->seed, i / 8);
        const size_t left = item->bytes - i;
        if (memcmp(got + i, &expected, left < 8 ? left : 8) == 0)
            continue;
        worker_text_set(reason, "a byte in %zu to %zu differs from the source", i, i + 7);
        return -1;
    }
    return 0;
}

static int check_copy(const memory_case *item, const void *output, size_t bytes, double *max_error,
                      worker_text *reason) {
    const size_t copies = item->operation == MEMORY_BOTH ? 2 : 1;
    *max_error = 0;
    if (bytes != copies * item->bytes) {
        worker_text_set(reason, "the output has %zu bytes, not %zu", bytes, copies * item->bytes);
        return -1;
    }
    for (size_t copy = 0; copy < copies; copy++)
        if (check_bytes(item, (const unsigned char *)output + copy * item->bytes, reason) != 0)
            return -1;
    return 0;
}

int memory_case_check(const void *user, const void *output, size_t bytes, double *max_error,
                      worker_text *reason) {
    const memory_case *const item = user;
    switch (item->operation) {
    case MEMORY_COPY:
    case MEMORY_SCALE:
    case MEMORY_ADD:
    case MEMORY_TRIAD:
    case MEMORY_WRITE:
        return check_elements(item, output, bytes, max_error, reason);
    case MEMORY_READ:
    case MEMORY_STRIDED:
    case MEMORY_GATHER:
    case MEMORY_SWEEP:
        return check_sums(item, output, bytes, max_error, reason);
    case MEMORY_CHASE:
        return check_chase(item, output, bytes, max_error, reason);
    default:
        return check_copy(item, output, bytes, max_error, reason);
    }
}
