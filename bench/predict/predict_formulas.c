#include "bench/predict/predict_formulas.h"

#include <math.h>

#define SECONDS_PER_YEAR (365.25 * 24 * 3600)
#define JOULES_PER_KWH 3.6e6

double predict_bandwidth(double bytes, double fixed_s, double bytes_per_s) {
    return bytes / (fixed_s + bytes / bytes_per_s);
}

double predict_kv_bytes(double layers, double kv_heads, double head_size, double number_bytes) {
    return 2 * layers * kv_heads * head_size * number_bytes;
}

double predict_decode_bound(double batch, double bytes_per_s, double weight_bytes,
                            double kv_bytes) {
    return batch * bytes_per_s / (weight_bytes + batch * kv_bytes);
}

double predict_what_if(double share, double k) {
    return 1 / ((1 - share) + share / k);
}

double predict_turning_batch(double operations_per_s, double weight_bytes, double bytes_per_s) {
    return operations_per_s * weight_bytes / (2 * bytes_per_s);
}

double predict_spill_s(double needed_bytes, double usable_bytes, double link_bytes_per_s) {
    return needed_bytes > usable_bytes ? (needed_bytes - usable_bytes) / link_bytes_per_s : 0;
}

static double energy_cost(const predict_prices *prices) {
    return prices->watts * prices->pue * prices->tariff / JOULES_PER_KWH;
}

double predict_cost_per_second(const predict_prices *prices) {
    const double energy = energy_cost(prices);
    const double device = prices->price / (prices->life_years * SECONDS_PER_YEAR * prices->use);
    if (isnan(device) || isnan(energy))
        return isnan(device) ? energy : device;
    return device + energy;
}

double predict_break_even_price(const predict_prices *prices, double seconds, double other_cost) {
    const double energy = energy_cost(prices);
    const double left = other_cost / seconds - (isnan(energy) ? 0 : energy);
    return left > 0 ? left * prices->life_years * SECONDS_PER_YEAR * prices->use : NAN;
}

int predict_is_pareto(const double *seconds, const double *costs, size_t count, size_t index) {
    for (size_t i = 0; i < count; i++) {
        const int compared = !isnan(costs[i]) && !isnan(costs[index]);
        const int no_dearer = !compared || costs[i] <= costs[index];
        const int cheaper = compared && costs[i] < costs[index];
        if (i != index && seconds[i] <= seconds[index] && no_dearer &&
            (seconds[i] < seconds[index] || cheaper))
            return 0;
    }
    return 1;
}
