/* Observation of one pool: statistics, the ring of events, the section of the monitor page. */
#ifndef TANDEM_API_POOL_OBSERVATION_H
#define TANDEM_API_POOL_OBSERVATION_H

#include "api/pool/pool_ring.h"
#include "api/pool/pool_statistics.h"

typedef struct tdm_observation {
    tdm_pool *pool;
    tdm_pool_statistics *statistics;
    tdm_pool_ring ring;
    tdm_statistic_words *section; /* section of the monitor page, or NULL */
} tdm_observation;

/* Starts observing a pool, before its first allocation. A monitor shows `name`. */
tdm_status tdm_observation_open(tdm_pool *pool, const char *name, tdm_observation **observation);
/* Copies the pool's budget into the statistics, after it was changed. */
void tdm_observation_refresh(tdm_observation *observation);
/* Stops observing, before the pool is destroyed. NULL is accepted. */
void tdm_observation_close(tdm_observation *observation);

/* Fills a report. It sets all fields except struct_size. */
void tdm_observation_report(const tdm_observation *observation, tdm_memory_report *report);
int tdm_observation_tags(const tdm_observation *observation, tdm_memory_tag_usage *usage,
                         int capacity);

#endif
