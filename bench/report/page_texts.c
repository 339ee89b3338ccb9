#include "bench/report/page_texts.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* Whether a number would be a row of zeros, or of digits that no machine's has: those have an exponent. */
static int needs_exponent(double value) {
    return value >= 1e9 || (value > 0 && value < 0.005);
}

/* GPUs compute in T: "330 TOP/s" of 330500 GOP/s. */
static int is_of_tera(double value, const char *unit) {
    return value >= 1e4 && (strcmp(unit, "GFLOP/s") == 0 || strcmp(unit, "GOP/s") == 0);
}

void page_amount_text(double value, const char *unit, char *text, size_t size) {
    if (needs_exponent(value))
        snprintf(text, size, "%.2e %s", value, unit);
    else if (is_of_tera(value, unit))
        snprintf(text, size, "%.*f T%s", value >= 1e5 ? 0 : 1, value / 1000, unit + 1);
    else
        snprintf(text, size, "%.*f %s", value >= 100 ? 0 : value >= 10 ? 1 : 2, value, unit);
}

void page_share_text(double value, const char *unit, double share, char *text, size_t size) {
    char amount[48];
    if (isnan(value)) {
        snprintf(text, size, "-");
        return;
    }
    page_amount_text(value, unit, amount, sizeof amount);
    if (isnan(share))
        snprintf(text, size, "%s", amount);
    else
        snprintf(text, size, "%s (%.0f %%%s)", amount, 100 * share, share > 1 ? "!" : "");
}

void page_times_text(double ratio, int digits, char *text, size_t size) {
    const int more = ratio < 0.1; /* as many that count as those of 0.1 and more have */
    if (needs_exponent(ratio))
        snprintf(text, size, "%.*e", digits, ratio);
    else
        snprintf(text, size, "%.*f", digits + more, ratio);
}
