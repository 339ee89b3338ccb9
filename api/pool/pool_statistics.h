/*
 * Statistics of a pool, kept up to date by a listener: counters of current, peak and cumulative
 * bytes, and usage per tag.
 *
 * The counters are a block of words protected by a sequence lock, so they can lie in memory that
 * another process only reads (monitor_page.h). A writer makes the sequence odd, writes, and makes
 * it even. A reader that saw an odd or changed sequence reads again. Every access is atomic. The
 * odd sequence also excludes other writers.
 */
#ifndef TANDEM_API_POOL_POOL_STATISTICS_H
#define TANDEM_API_POOL_POOL_STATISTICS_H

#include <stdatomic.h>
#include <stdbool.h>

#include "api/pool/pool_events.h"

#include <tandem/memory.h>

/* Quantities with current, peak, allocated and freed values, in the order of their words. */
#define TDM_COUNTER_LIST(X)                                                                        \
    X(requested)                                                                                   \
    X(allocated)                                                                                   \
    X(reserved)                                                                                    \
    X(active)                                                                                      \
    X(inactive_split)                                                                              \
    X(blocks)                                                                                      \
    X(slabs)

/* Plain words that follow them. */
#define TDM_TALLY_LIST(X)                                                                          \
    X(retries)                                                                                     \
    X(failures)                                                                                    \
    X(budget)                                                                                      \
    X(events)

typedef enum tdm_counter {
#define TDM_COUNTER_ENUM(name) TDM_COUNTER_##name,
    TDM_COUNTER_LIST(TDM_COUNTER_ENUM)
#undef TDM_COUNTER_ENUM
    TDM_COUNTERS
} tdm_counter;

typedef enum tdm_tally {
#define TDM_TALLY_ENUM(name) TDM_TALLY_##name,
    TDM_TALLY_LIST(TDM_TALLY_ENUM)
#undef TDM_TALLY_ENUM
    TDM_TALLIES
} tdm_tally;

#define TDM_STATISTIC_WORDS (4 * TDM_COUNTERS + TDM_TALLIES)
/* Number of entries for tags. The last entry counts all later tags. */
#define TDM_STATISTIC_TAGS 128

typedef _Atomic uint64_t tdm_word;

/* Words of one tag: allocated bytes and blocks with their peaks, the total number of allocations,
 * then the tag's text. */
enum {
    TDM_TAG_BYTES,
    TDM_TAG_BYTES_PEAK,
    TDM_TAG_BLOCKS,
    TDM_TAG_BLOCKS_PEAK,
    TDM_TAG_ALLOCATIONS,
    TDM_TAG_TEXT,
    TDM_TAG_WORDS = TDM_TAG_TEXT + TDM_MEMORY_TAG_BYTES / 8
};

typedef struct tdm_tag_words {
    tdm_word sequence;
    tdm_word words[TDM_TAG_WORDS];
} tdm_tag_words;

/* The shared words. Their layout is part of the monitor page's version. */
typedef struct tdm_statistic_words {
    tdm_word sequence;
    tdm_word words[TDM_STATISTIC_WORDS];
    tdm_word tag_count;
    tdm_tag_words tags[TDM_STATISTIC_TAGS];
} tdm_statistic_words;

typedef struct tdm_pool_statistics {
    tdm_pool_listener listener;
    tdm_pool *pool;
    tdm_statistic_words *shared;
    bool own_words; /* `shared` is host memory owned by this object */
    const char *tag_keys[TDM_STATISTIC_TAGS];
    uint16_t tag_slots[4 * TDM_STATISTIC_TAGS]; /* hash of the key → entry + 1, 0: empty */
} tdm_pool_statistics;

/* Counters as plain numbers. */
typedef struct tdm_statistic_values {
    uint64_t words[TDM_STATISTIC_WORDS];
} tdm_statistic_values;

/* Starts listening to a pool, before its first allocation. `words`, all zero, receives the counts;
 * NULL: host memory. */
tdm_status tdm_pool_statistics_open(tdm_pool *pool, tdm_statistic_words *words,
                                    tdm_pool_statistics **statistics);
/* NULL is accepted. The pool must still exist. */
void tdm_pool_statistics_close(tdm_pool_statistics *statistics);

/* Handles one event; tests feed events of their own. */
void tdm_pool_statistics_event(tdm_pool_statistics *statistics, const tdm_pool_event *event);

/* Sets the peaks to the current values. */
void tdm_pool_statistics_reset_peaks(tdm_pool_statistics *statistics);
void tdm_pool_statistics_set_budget(tdm_pool_statistics *statistics, uint64_t bytes);

/*
 * Copies the counters of one moment. `attempts` limits the number of tries, because a writer may
 * disturb each of them. Returns false if all were disturbed, which a page of another process can
 * cause forever.
 */
bool tdm_statistic_read(const tdm_statistic_words *words, long attempts,
                        tdm_statistic_values *values);

/* Copies the counters of tag `index` in the same way. It also returns false if there is no such
 * tag. The text is always terminated. */
bool tdm_statistic_read_tag(const tdm_statistic_words *words, int index, long attempts,
                            tdm_memory_tag_usage *usage);

static inline uint64_t tdm_statistic_current(const tdm_statistic_values *values,
                                             tdm_counter counter) {
    return values->words[4 * counter];
}

#endif
