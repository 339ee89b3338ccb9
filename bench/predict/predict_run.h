/* A workload on a profile: its time, what limits it, whether it fits, what it costs. */
#ifndef TANDEM_BENCH_PREDICT_PREDICT_RUN_H
#define TANDEM_BENCH_PREDICT_PREDICT_RUN_H

#include "bench/predict/predict_profile.h"
#include "bench/predict/predict_workload.h"

typedef enum predict_limiter {
    LIMIT_LAUNCH,
    LIMIT_COMPUTE,
    LIMIT_MEMORY, /* main memory */
    LIMIT_CACHE,
    LIMIT_CAPACITY, /* what does not fit is brought from the host */
    PREDICT_LIMITERS
} predict_limiter;

/* "compute" … */
const char *predict_limiter_name(predict_limiter limiter);

typedef struct predict_prices {
    double price;      /* of the device; NaN: not given */
    double life_years; /* over which it is paid off */
    double use;        /* share of that time in which it works */
    double watts;      /* NaN: not known */
    double pue;        /* power of the site over power of its machines */
    double tariff;     /* per kWh; NaN: not given */
} predict_prices;

/* Cost of a second of work: price / (life · use) + W · PUE · tariff. What is not given counts nothing; NaN where nothing is. */
double predict_cost_per_second(const predict_prices *prices);

typedef struct predicted_operation {
    predict_estimate call; /* one call */
    double seconds;        /* all calls */
    predict_limiter limiter;
    const char *refusal; /* why there is no estimate, in the run's texts; NULL: there is one */
} predicted_operation;

typedef struct predict_run {
    const predict_profile *profile;
    const predict_workload *workload;
    predicted_operation operations[WORKLOAD_MAX_OPERATIONS];
    file_error refusals[WORKLOAD_MAX_OPERATIONS];
    size_t refused;
    double needed_bytes;
    double usable_bytes; /* NaN: not known */
    double spill_s;      /* for what does not fit; NaN: the speed from the host is not known */
    double seconds;      /* of a pass; NaN: an operation was refused, or spill_s is not known */
    double shares[PREDICT_LIMITERS];
    predict_limiter limiter;
    double turn; /* bandwidth ratio at which the limiter changes; NaN: none from 1/64 to 64 */
    double tokens_per_s;  /* NaN: the workload makes none */
    double decode_bound;  /* tokens per second that main memory allows; NaN: it reads no weights */
    double turning_batch; /* from which on reading weights takes less time than multiplying */
    double joules;        /* NaN: power is not known */
    double cost;          /* of a pass; NaN: no prices */
} predict_run;

/* The share of its size that the device's memory can hold. */
#define PREDICT_USABLE 0.95

/* Predict. `link_bytes_per_s` from the host where the profile has none; NaN: not known. `prices` has the device's price and power. */
void predict_run_fill(predict_run *run, const predict_profile *profile,
                      const predict_workload *workload, double link_bytes_per_s,
                      const predict_prices *prices);

#endif
