/* Statistics of a pool: the listener that counts, and readers that never block it. */
#include <sched.h>
#include <string.h>

#include "api/base/base.h"
#include "api/pool/pool_statistics.h"

#define SLOTS (4 * TDM_STATISTIC_TAGS)
#define OTHER_TAGS (TDM_STATISTIC_TAGS - 1)

enum {
    CURRENT,
    PEAK,
    ALLOCATED,
    FREED
};

/* ---- the sequence lock ----------------------------------------------------------------------- */

static uint64_t write_begin(tdm_word *sequence) {
    for (;;) {
        uint64_t known = atomic_load_explicit(sequence, memory_order_relaxed);
        if (known % 2 == 0 &&
            atomic_compare_exchange_weak_explicit(sequence, &known, known + 1, memory_order_acquire,
                                                  memory_order_relaxed))
            return known + 2;
        sched_yield();
    }
}

static void write_end(tdm_word *sequence, uint64_t next) {
    atomic_store_explicit(sequence, next, memory_order_release);
}

/* A reader that sees the new value must also see the odd sequence, so this is a release store. */
static void put(tdm_word *word, uint64_t value) {
    atomic_store_explicit(word, value, memory_order_release);
}

static uint64_t get(const tdm_word *word) {
    return atomic_load_explicit(word, memory_order_acquire);
}

/* Copies `count` words of one moment. */
static bool read_words(const tdm_word *sequence, const tdm_word *words, int count, long attempts,
                       uint64_t *copy) {
    for (long i = 0; i < attempts; i++) {
        const uint64_t before = get(sequence);
        for (int j = 0; j < count; j++)
            copy[j] = get(&words[j]);
        if (before % 2 == 0 && atomic_load_explicit(sequence, memory_order_relaxed) == before)
            return true;
        sched_yield();
    }
    return false;
}

/* ---- counting -------------------------------------------------------------------------------- */

static void add(tdm_word *words, tdm_counter counter, uint64_t bytes) {
    tdm_word *const of = &words[4 * counter];
    const uint64_t now = get(&of[CURRENT]) + bytes;
    put(&of[CURRENT], now);
    put(&of[ALLOCATED], get(&of[ALLOCATED]) + bytes);
    if (now > get(&of[PEAK]))
        put(&of[PEAK], now);
}

static void subtract(tdm_word *words, tdm_counter counter, uint64_t bytes) {
    tdm_word *const of = &words[4 * counter];
    put(&of[CURRENT], get(&of[CURRENT]) - bytes);
    put(&of[FREED], get(&of[FREED]) + bytes);
}

static void set_to(tdm_word *words, tdm_counter counter, uint64_t now) {
    const uint64_t before = get(&words[4 * counter]);
    if (now > before)
        add(words, counter, now - before);
    else if (now < before)
        subtract(words, counter, before - now);
}

static void tally(tdm_word *words, tdm_tally which) {
    tdm_word *const word = &words[4 * TDM_COUNTERS + which];
    put(word, get(word) + 1);
}

/* Free bytes of a slab count only while the slab has live blocks. */
static uint64_t split_bytes(uint64_t slab_bytes, uint64_t live) {
    return live == 0 ? 0 : slab_bytes - live;
}

static void count_alloc(tdm_word *words, const tdm_pool_event *event) {
    add(words, TDM_COUNTER_requested, event->requested);
    add(words, TDM_COUNTER_allocated, event->bytes);
    add(words, TDM_COUNTER_blocks, 1);
    set_to(words, TDM_COUNTER_active, get(&words[4 * TDM_COUNTER_allocated]) + event->pending);
    const uint64_t before = split_bytes(event->slab_bytes, event->slab_live - event->bytes);
    const uint64_t after = split_bytes(event->slab_bytes, event->slab_live);
    set_to(words, TDM_COUNTER_inactive_split,
           get(&words[4 * TDM_COUNTER_inactive_split]) - before + after);
}

static void count_free(tdm_word *words, const tdm_pool_event *event) {
    subtract(words, TDM_COUNTER_requested, event->requested);
    subtract(words, TDM_COUNTER_allocated, event->bytes);
    subtract(words, TDM_COUNTER_blocks, 1);
    set_to(words, TDM_COUNTER_active, get(&words[4 * TDM_COUNTER_allocated]) + event->pending);
    const uint64_t before = split_bytes(event->slab_bytes, event->slab_live + event->bytes);
    const uint64_t after = split_bytes(event->slab_bytes, event->slab_live);
    set_to(words, TDM_COUNTER_inactive_split,
           get(&words[4 * TDM_COUNTER_inactive_split]) - before + after);
}

static void count_event(tdm_word *words, const tdm_pool_event *event) {
    switch (event->kind) {
    case TDM_POOL_EVENT_ALLOC:
        count_alloc(words, event);
        break;
    case TDM_POOL_EVENT_FREE:
        count_free(words, event);
        break;
    case TDM_POOL_EVENT_SLAB_ALLOC:
        add(words, TDM_COUNTER_reserved, event->bytes);
        add(words, TDM_COUNTER_slabs, 1);
        break;
    case TDM_POOL_EVENT_SLAB_FREE:
        subtract(words, TDM_COUNTER_reserved, event->bytes);
        subtract(words, TDM_COUNTER_slabs, 1);
        break;
    case TDM_POOL_EVENT_RETRY:
        tally(words, TDM_TALLY_retries);
        break;
    case TDM_POOL_EVENT_FAILURE:
        tally(words, TDM_TALLY_failures);
        break;
    case TDM_POOL_EVENT_USE:
        break;
    }
    tally(words, TDM_TALLY_events);
}

/* ---- tags ------------------------------------------------------------------------------------ */

static unsigned slot_of(const char *key) {
    const uint64_t bits = (uint64_t)(uintptr_t)key * UINT64_C(0x9E3779B97F4A7C15);
    return (unsigned)(bits >> 40) % SLOTS;
}

static void put_text(tdm_tag_words *tag, const char *text) {
    uint64_t copy[TDM_MEMORY_TAG_BYTES / 8] = {0};
    memcpy(copy, text, strnlen(text, TDM_MEMORY_TAG_BYTES - 1));
    for (int i = 0; i < TDM_MEMORY_TAG_BYTES / 8; i++)
        put(&tag->words[TDM_TAG_TEXT + i], copy[i]);
}

/* Returns the entry of a tag. A new tag gets an entry while there are free ones. */
static tdm_tag_words *find_tag(tdm_pool_statistics *statistics, const char *key) {
    unsigned slot = slot_of(key);
    while (statistics->tag_slots[slot]) {
        const int index = statistics->tag_slots[slot] - 1;
        if (statistics->tag_keys[index] == key)
            return &statistics->shared->tags[index];
        slot = (slot + 1) % SLOTS;
    }
    tdm_statistic_words *const shared = statistics->shared;
    const uint64_t count = get(&shared->tag_count);
    if (count >= OTHER_TAGS) {
        if (count == OTHER_TAGS) {
            put_text(&shared->tags[OTHER_TAGS], "(other tags)");
            put(&shared->tag_count, count + 1);
        }
        return &shared->tags[OTHER_TAGS];
    }
    statistics->tag_keys[count] = key;
    statistics->tag_slots[slot] = (uint16_t)(count + 1);
    put_text(&shared->tags[count], key ? key : "");
    put(&shared->tag_count, count + 1);
    return &shared->tags[count];
}

/* `now` points to the quantity; its peak is the next word. */
static void tag_add(tdm_word *now, uint64_t by) {
    const uint64_t value = get(now) + by;
    put(now, value);
    if (value > get(now + 1))
        put(now + 1, value);
}

static void tag_subtract(tdm_word *now, uint64_t by) {
    put(now, get(now) - by);
}

static bool is_of_block(const tdm_pool_event *event) {
    return event->kind == TDM_POOL_EVENT_ALLOC || event->kind == TDM_POOL_EVENT_FREE;
}

static void count_in_tag(tdm_tag_words *tag, const tdm_pool_event *event) {
    if (event->kind == TDM_POOL_EVENT_ALLOC) {
        tag_add(&tag->words[TDM_TAG_BYTES], event->bytes);
        tag_add(&tag->words[TDM_TAG_BLOCKS], 1);
        put(&tag->words[TDM_TAG_ALLOCATIONS], get(&tag->words[TDM_TAG_ALLOCATIONS]) + 1);
    } else {
        tag_subtract(&tag->words[TDM_TAG_BYTES], event->bytes);
        tag_subtract(&tag->words[TDM_TAG_BLOCKS], 1);
    }
}

/* Counts the leading events that have the tag of the first one. Returns their number. */
static int count_tag(tdm_pool_statistics *statistics, const tdm_pool_event *events, int count) {
    int counted = 0;
    if (!is_of_block(&events[0]))
        return 1;
    tdm_tag_words *const tag = find_tag(statistics, events[0].tag);
    const uint64_t next = write_begin(&tag->sequence);
    for (; counted < count && is_of_block(&events[counted]) && events[counted].tag == events[0].tag;
         counted++)
        count_in_tag(tag, &events[counted]);
    write_end(&tag->sequence, next);
    return counted;
}

/* ---- the listener ---------------------------------------------------------------------------- */

static void count_events(void *user, const tdm_pool_event *events, int count) {
    tdm_pool_statistics *const statistics = user;
    tdm_statistic_words *const shared = statistics->shared;
    const uint64_t next = write_begin(&shared->sequence);
    for (int i = 0; i < count; i++)
        count_event(shared->words, &events[i]);
    write_end(&shared->sequence, next);
    for (int i = 0; i < count;)
        i += count_tag(statistics, &events[i], count - i);
}

void tdm_pool_statistics_event(tdm_pool_statistics *statistics, const tdm_pool_event *event) {
    if (event->kind != TDM_POOL_EVENT_USE)
        count_events(statistics, event, 1);
}

static void on_event(void *user, const tdm_pool_event *event) {
    tdm_pool_statistics_event(user, event);
}

tdm_status tdm_pool_statistics_open(tdm_pool *pool, tdm_statistic_words *words,
                                    tdm_pool_statistics **statistics) {
    *statistics = NULL;
    tdm_pool_statistics *const opened = tdm_host_calloc(1, sizeof *opened);
    tdm_statistic_words *const shared = words ? words : tdm_host_calloc(1, sizeof *shared);
    if (!opened || !shared) {
        tdm_host_free(opened);
        if (!words)
            tdm_host_free(shared);
        return tdm_fail(TDM_OUT_OF_HOST_MEMORY, "pool: no host memory for statistics");
    }
    opened->listener =
        (tdm_pool_listener){.event = on_event, .events = count_events, .user = opened};
    opened->pool = pool;
    opened->shared = shared;
    opened->own_words = !words;
    if (pool)
        tdm_pool_listen(pool, &opened->listener);
    *statistics = opened;
    return TDM_OK;
}

void tdm_pool_statistics_close(tdm_pool_statistics *statistics) {
    if (!statistics)
        return;
    if (statistics->pool)
        tdm_pool_unlisten(statistics->pool, &statistics->listener);
    if (statistics->own_words)
        tdm_host_free(statistics->shared);
    tdm_host_free(statistics);
}

void tdm_pool_statistics_reset_peaks(tdm_pool_statistics *statistics) {
    if (statistics->pool)
        tdm_pool_catch_up(statistics->pool);
    tdm_statistic_words *const shared = statistics->shared;
    uint64_t next = write_begin(&shared->sequence);
    for (int i = 0; i < TDM_COUNTERS; i++)
        put(&shared->words[4 * i + PEAK], get(&shared->words[4 * i + CURRENT]));
    write_end(&shared->sequence, next);
    const uint64_t count = get(&shared->tag_count);
    for (uint64_t i = 0; i < count; i++) {
        tdm_tag_words *const tag = &shared->tags[i];
        next = write_begin(&tag->sequence);
        put(&tag->words[TDM_TAG_BYTES_PEAK], get(&tag->words[TDM_TAG_BYTES]));
        put(&tag->words[TDM_TAG_BLOCKS_PEAK], get(&tag->words[TDM_TAG_BLOCKS]));
        write_end(&tag->sequence, next);
    }
}

void tdm_pool_statistics_set_budget(tdm_pool_statistics *statistics, uint64_t bytes) {
    tdm_statistic_words *const shared = statistics->shared;
    const uint64_t next = write_begin(&shared->sequence);
    put(&shared->words[4 * TDM_COUNTERS + TDM_TALLY_budget], bytes);
    write_end(&shared->sequence, next);
}

/* ---- reading --------------------------------------------------------------------------------- */

bool tdm_statistic_read(const tdm_statistic_words *words, long attempts,
                        tdm_statistic_values *values) {
    return read_words(&words->sequence, words->words, TDM_STATISTIC_WORDS, attempts, values->words);
}

bool tdm_statistic_read_tag(const tdm_statistic_words *words, int index, long attempts,
                            tdm_memory_tag_usage *usage) {
    if (index < 0 || index >= TDM_STATISTIC_TAGS || (uint64_t)index >= get(&words->tag_count))
        return false;
    const tdm_tag_words *const tag = &words->tags[index];
    uint64_t copy[TDM_TAG_WORDS];
    if (!read_words(&tag->sequence, tag->words, TDM_TAG_WORDS, attempts, copy))
        return false;
    *usage = (tdm_memory_tag_usage){.bytes = copy[TDM_TAG_BYTES],
                                    .bytes_peak = copy[TDM_TAG_BYTES_PEAK],
                                    .blocks = copy[TDM_TAG_BLOCKS],
                                    .blocks_peak = copy[TDM_TAG_BLOCKS_PEAK],
                                    .allocations = copy[TDM_TAG_ALLOCATIONS]};
    memcpy(usage->tag, &copy[TDM_TAG_TEXT], sizeof usage->tag);
    usage->tag[sizeof usage->tag - 1] = '\0';
    return true;
}
