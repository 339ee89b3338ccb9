/* Everything that looks at one pool: statistics, the ring of events, the section of the monitor page. */
#ifndef TANDEM_API_POOL_OBSERVATION_H
#define TANDEM_API_POOL_OBSERVATION_H

#include "api/pool/pool_ring.h"
#include "api/pool/pool_statistics.h"

struct tdm_observation {
    tdm_pool *pool;
    tdm_pool_statistics *statistics;
    tdm_pool_ring ring;
    tdm_statistic_words *section; /* of the monitor page, or NULL */
};

/* Look at a pool that has handed out nothing yet. `name` is what a monitor calls it. */
tdm_status tdm_observation_open(tdm_pool *pool, const char *name, tdm_observation **observation);
/* The pool's budget was changed. */
void tdm_observation_refresh(tdm_observation *observation);
/* Before the pool is destroyed; NULL is accepted. */
void tdm_observation_close(tdm_observation *observation);

/* All fields but struct_size. */
void tdm_observation_report(const tdm_observation *observation, tdm_memory_report *report);
int tdm_observation_tags(const tdm_observation *observation, tdm_memory_tag_usage *usage,
                         int capacity);

/* ---- snapshot of a device (memory_snapshot.c) and its text ------------------------------------- */

/* A JSON text that grows; without host memory it stays broken and finish gives NULL. */
typedef struct tdm_json {
    char *text;
    size_t bytes, capacity;
    bool broken, separated; /* separated: no comma is due before the next item */
} tdm_json;

/* `name` NULL: an item of a list, or the whole. */
void tdm_json_open(tdm_json *json, const char *name, char bracket);
void tdm_json_close(tdm_json *json, char bracket);
void tdm_json_number(tdm_json *json, const char *name, uint64_t value);
void tdm_json_fraction(tdm_json *json, const char *name, double value);
/* What is no UTF-8 becomes U+FFFD, byte by byte; NULL becomes null. */
void tdm_json_string(tdm_json *json, const char *name, const char *value);
/* The text, in host memory of the caller's; NULL where it is broken. */
char *tdm_json_finish(tdm_json *json, size_t *bytes);

#endif
