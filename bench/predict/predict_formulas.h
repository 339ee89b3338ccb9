/*
 * The formulas of `tandem predict` that need no profile. Bytes and operations are of one pass, rates per second, times in seconds.
 */
#ifndef TANDEM_BENCH_PREDICT_PREDICT_FORMULAS_H
#define TANDEM_BENCH_PREDICT_PREDICT_FORMULAS_H

#include <stddef.h>

/* Speed of moving `bytes` in one call that costs `fixed_s` besides: V / (a + V / b). */
double predict_bandwidth(double bytes, double fixed_s, double bytes_per_s);

/* Keys and values that a token of context takes: 2 · layers · heads of keys and values · size of a head · bytes of a number. */
double predict_kv_bytes(double layers, double kv_heads, double head_size, double number_bytes);

/* The most tokens per second that memory allows: batch · B / (weights read + batch · keys and values). */
double predict_decode_bound(double batch, double bytes_per_s, double weight_bytes, double kv_bytes);

/* Speed-up where memory becomes k times as fast and the share f of the time is bound by it: 1 / ((1 - f) + f / k). */
double predict_what_if(double share, double k);

/* Batch from which on reading weights of so many bytes each takes less time than multiplying by them: P · bytes / (2 · B). */
double predict_turning_batch(double operations_per_s, double weight_bytes, double bytes_per_s);

/* Time to bring what does not fit from the host in every pass; 0 where all fits. */
double predict_spill_s(double needed_bytes, double usable_bytes, double link_bytes_per_s);

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

/*
 * The price at which a device that takes `seconds` for a pass costs as much per pass as one that costs `other_cost` for it. NaN
 * where its power alone costs more.
 */
double predict_break_even_price(const predict_prices *prices, double seconds, double other_cost);

/* Whether choice `index` of `count` is on the Pareto front: none is faster and cheaper at once. NaN costs are on it by time alone. */
int predict_is_pareto(const double *seconds, const double *costs, size_t count, size_t index);

#endif
