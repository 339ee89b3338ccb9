#include "quant/error_measures.h"

#include <math.h>

static void add_pair(tdm_quant_error *error, double x, double y) {
    if (!isfinite(x) || !isfinite(y)) {
        error->nonfinite++;
        return;
    }
    const double difference = y - x;
    error->pairs++;
    error->signal += x * x;
    error->actual += y * y;
    error->product += x * y;
    error->noise += difference * difference;
    error->max_error = fmax(error->max_error, fabs(difference));
}

void tdm_quant_error_add(tdm_quant_error *error, const float *reference, const float *approximation,
                         size_t count) {
    for (size_t i = 0; i < count; i++)
        add_pair(error, (double)reference[i], (double)approximation[i]);
}

void tdm_quant_error_add_f64(tdm_quant_error *error, const double *reference,
                             const float *approximation, size_t count) {
    for (size_t i = 0; i < count; i++)
        add_pair(error, reference[i], (double)approximation[i]);
}

void tdm_quant_error_merge(tdm_quant_error *into, const tdm_quant_error *from) {
    into->pairs += from->pairs;
    into->nonfinite += from->nonfinite;
    into->signal += from->signal;
    into->actual += from->actual;
    into->product += from->product;
    into->noise += from->noise;
    into->max_error = fmax(into->max_error, from->max_error);
}

double tdm_quant_error_nmse(const tdm_quant_error *error) {
    if (error->noise == 0.0) {
        return 0.0;
    }
    return error->signal == 0.0 ? HUGE_VAL : error->noise / error->signal;
}

double tdm_quant_error_sqnr(const tdm_quant_error *error) {
    return error->noise == 0.0 ? HUGE_VAL : 10.0 * log10(error->signal / error->noise);
}

double tdm_quant_error_cosine(const tdm_quant_error *error) {
    if (error->signal == 0.0 || error->actual == 0.0) {
        return error->signal == error->actual ? 1.0 : 0.0;
    }
    return error->product / (sqrt(error->signal) * sqrt(error->actual));
}

double tdm_quant_error_rms(const tdm_quant_error *error) {
    return error->pairs == 0 ? 0.0 : sqrt(error->noise / (double)error->pairs);
}
