#include "bench/cases/memory_case.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/command/cli_options.h"
#include "common/random_fill.h"

enum {
    MAX_THREADS = 1024,
    MAX_STRIDE = 1 << 20,
    CHASE_LINE_WORDS = 16, /* 64 bytes */
    CHASE_STEPS = 1 << 16, /* from memory */
    CHASE_CACHED_STEPS = 1 << 19,
    CHASE_CACHED_BYTES = 1 << 20,
    FORM_TEXT = 160
};

const float memory_scale = 0.7373046875f;

static const char *const operation_names[] = {
#define MEMORY_OPERATION_NAME(name, text) text,
    MEMORY_OPERATION_LIST(MEMORY_OPERATION_NAME)
#undef MEMORY_OPERATION_NAME
};

const char *memory_operation_name(memory_operation operation) {
    return operation_names[operation];
}

int memory_operation_parse(const char *name, memory_operation *operation) {
    for (int i = MEMORY_COPY; i <= MEMORY_BOTH; i++) {
        if (strcmp(name, memory_operation_name((memory_operation)i)) != 0)
            continue;
        *operation = (memory_operation)i;
        return 0;
    }
    return -1;
}

int memory_operation_is_kernel(memory_operation operation) {
    return operation <= MEMORY_SWEEP;
}

int memory_operation_is_stream(memory_operation operation) {
    return operation <= MEMORY_GATHER;
}

void memory_case_name(const memory_case *item, char name[MEMORY_MAX_NAME]) {
    const char *const operation = memory_operation_name(item->operation);
    const char *const place = item->pinned ? "pinned" : "pageable";
    switch (item->operation) {
    case MEMORY_STRIDED:
        snprintf(name, MEMORY_MAX_NAME, "%s %zu, stride %d", operation, item->bytes, item->stride);
        break;
    case MEMORY_SWEEP:
        snprintf(name, MEMORY_MAX_NAME, "%s read %zu", operation, item->bytes);
        break;
    case MEMORY_UPLOAD:
    case MEMORY_DOWNLOAD:
        snprintf(name, MEMORY_MAX_NAME, "%s %zu, %s", operation, item->bytes, place);
        break;
    case MEMORY_BOTH:
        snprintf(name, MEMORY_MAX_NAME, "upload and download %zu, both ways, %s", item->bytes,
                 place);
        break;
    default:
        snprintf(name, MEMORY_MAX_NAME, "%s %zu", operation, item->bytes);
    }
}

void memory_case_write(const memory_case *item, worker_text *line) {
    worker_field_add(line, "suite", "memory");
    worker_field_add(line, "operation", memory_operation_name(item->operation));
    worker_field_add_integer(line, "bytes", (int64_t)item->bytes);
    worker_field_add_integer(line, "seed", (int64_t)item->seed);
    worker_field_add_integer(line, "threads", item->threads);
    worker_field_add_integer(line, "stride", item->stride);
    worker_field_add_integer(line, "pinned", item->pinned);
    worker_field_add_integer(line, "amount", item->amount);
    worker_field_add(line, "row", item->setting.row);
    worker_field_add_integer(line, "unroll", item->setting.unroll);
    worker_field_add_integer(line, "occupancy", item->setting.occupancy);
    worker_field_add_integer(line, "ahead", item->setting.ahead);
}

static int is_setting(const memory_setting *setting) {
    const int unroll = setting->unroll;
    return (unroll == 0 || unroll == 1 || unroll == 4 || unroll == 8) && setting->occupancy >= 0 &&
           setting->occupancy <= 3 && setting->ahead >= 0;
}

static int read_setting(const char *line, memory_setting *setting) {
    worker_field(line, "row", setting->row, sizeof setting->row);
    setting->unroll = (int)worker_field_integer(line, "unroll", 0);
    setting->occupancy = (int)worker_field_integer(line, "occupancy", 0);
    setting->ahead = (int)worker_field_integer(line, "ahead", 0);
    return is_setting(setting) ? 0 : -1;
}

/* The next number of a list with colons; -1 where there is none. */
static int next_number(const char **list) {
    char word[16];
    char *end = word;
    if (cli_next_word(list, ':', word, sizeof word) != 1)
        return -1;
    const long number = strtol(word, &end, 10);
    return end == word || *end != '\0' || number < 0 || number > INT_MAX ? -1 : (int)number;
}

/* "read=probe_read_f32_x16:4:3:8192"; 0, or -1. */
static int read_form(const char *word, memory_operation *operation, memory_setting *setting) {
    char name[16];
    const char *rest = word;
    *setting = (memory_setting){.unroll = 0};
    if (cli_next_word(&rest, '=', name, sizeof name) != 1 ||
        memory_operation_parse(name, operation) != 0 || !memory_operation_is_stream(*operation) ||
        cli_next_word(&rest, ':', setting->row, sizeof setting->row) != 1)
        return -1;
    setting->unroll = next_number(&rest);
    setting->occupancy = next_number(&rest);
    setting->ahead = next_number(&rest);
    return is_setting(setting) && rest == NULL ? 0 : -1;
}

int memory_setting_given(const char *forms, memory_operation operation, int number,
                         memory_setting *setting) {
    char word[FORM_TEXT];
    while (forms != NULL && cli_next_word(&forms, ',', word, sizeof word) == 1) {
        memory_operation found = MEMORY_COPY;
        if (read_form(word, &found, setting) == 0 && found == operation && number-- == 0)
            return 0;
    }
    return -1;
}

const char *memory_forms_wrong(const char *forms) {
    char word[FORM_TEXT];
    int found = 0;
    while (forms != NULL && (found = cli_next_word(&forms, ',', word, sizeof word)) == 1) {
        memory_operation operation = MEMORY_COPY;
        memory_setting setting;
        if (read_form(word, &operation, &setting) != 0)
            return "it wants OPERATION=ROW:UNROLL:OCCUPANCY:AHEAD, of copy to gather, and commas";
    }
    return found < 0 ? "a word of it is too long" : NULL;
}

int memory_case_read(const char *line, memory_case *item) {
    char name[16];
    const int64_t bytes = worker_field_integer(line, "bytes", 0);
    const int64_t threads = worker_field_integer(line, "threads", 0);
    const int64_t stride = worker_field_integer(line, "stride", 0);
    worker_field(line, "operation", name, sizeof name);
    item->bytes = (size_t)bytes;
    item->seed = (uint64_t)worker_field_integer(line, "seed", 0);
    item->threads = (int)threads;
    item->stride = stride < 1 ? 1 : (int)stride;
    item->pinned = (int)worker_field_integer(line, "pinned", 0);
    item->amount = worker_field_integer(line, "amount", 0);
    if (bytes < 1 || threads < 1 || threads > MAX_THREADS || stride > MAX_STRIDE)
        return -1;
    if (read_setting(line, &item->setting) != 0)
        return -1;
    return memory_operation_parse(name, &item->operation);
}

double memory_case_traffic(const memory_case *item) {
    static const double times[] = {
        [MEMORY_COPY] = 2,     [MEMORY_SCALE] = 2, [MEMORY_ADD] = 3,    [MEMORY_TRIAD] = 3,
        [MEMORY_READ] = 1,     [MEMORY_WRITE] = 1, [MEMORY_BUFFER] = 2, [MEMORY_UPLOAD] = 1,
        [MEMORY_DOWNLOAD] = 1, [MEMORY_BOTH] = 2,
    };
    return times[item->operation] * (double)item->bytes;
}

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

size_t memory_chase_lines(const memory_case *item) {
    return (words_of(item) + CHASE_LINE_WORDS - 1) / CHASE_LINE_WORDS;
}

/* Sattolo's shuffle: of all permutations those of one circle. */
int memory_chase_fill(const memory_case *item, int32_t *words) {
    const size_t lines = memory_chase_lines(item);
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
    memset(words, 0, words_of(item) * sizeof *words);
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
