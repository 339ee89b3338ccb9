#include "bench/compare/compare_agree.h"

#include <math.h>
#include <string.h>

#include "bench/record/bench_statistics.h"

const double compare_distances[COMPARE_DISTANCES] = {0.01, 0.03, 0.05, 0.1};

static int is_within(double ratio, double margin) {
    return ratio <= 1 + margin && ratio >= 1 / (1 + margin);
}

/* Of Tandem's own code: another of its rows moves as the row itself does, whatever the machine did. */
static int is_own(const results_row *row) {
    static const char *const others[] = {"alone", "in-core", "in-core-copied"};
    if (strncmp(row->impl, "tandem", 6) == 0)
        return 1;
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (strcmp(row->impl, others[i]) == 0)
            return 1;
    return 0;
}

static int are_same(const char *left, const char *right) {
    return left == NULL || right == NULL ? left == right : strcmp(left, right) == 0;
}

/* In one case, by another implementation. */
static int is_beside(const results_row *left, const results_row *right) {
    return !(is_own(left) && is_own(right)) && are_same(left->suite, right->suite) &&
           are_same(left->case_name, right->case_name) && are_same(left->mode, right->mode) &&
           are_same(left->packing, right->packing) && !are_same(left->impl, right->impl);
}

const char *compare_moved_with(const compare_table *table, size_t index, size_t column,
                               double margin, int *others) {
    const compare_case *const item = &table->cases[index];
    const double own = item->cells[column].ratio.ratio;
    *others = 0;
    if (isnan(own) || is_within(own, margin))
        return NULL;
    for (size_t i = 0; i < table->case_count; i++) {
        const double ratio = table->cases[i].cells[column].ratio.ratio;
        if (isnan(ratio) || !is_beside(item->row, table->cases[i].row))
            continue;
        *others = 1;
        if (!is_within(ratio, margin) && fabs(log(own) - log(ratio)) <= fabs(log(own)) / 2)
            return table->cases[i].row->impl;
    }
    return NULL;
}

/* NaN: not told. */
static processor_state placement_of(const results_row *row) {
    if (row == NULL)
        return (processor_state){NAN, NAN, NAN};
    return (processor_state){results_figure_value(&row->metrics, "handover_ns"),
                             results_figure_value(&row->metrics, "work_ns"),
                             results_figure_value(&row->metrics, "chain_ns")};
}

/* Whether two rows were measured with the processors placed otherwise, or a core shared in one of them. */
static int are_displaced(const results_row *left, const results_row *right) {
    const processor_state a = placement_of(left);
    const processor_state b = placement_of(right);
    const double crowding[] = {processor_crowding(a), processor_crowding(b)};
    return processor_placements_differ(a, b) || processor_is_crowded(crowding[0], crowding[1]) ||
           processor_is_crowded(crowding[1], crowding[0]);
}

/* Returns whether the processors were placed otherwise. */
static int agree_placed(const compare_case *item, size_t column, double margin,
                        compare_agreement *agreement) {
    const results_row *const base = item->cells[0].row;
    const results_row *const other = item->cells[column].row;
    const int displaced = are_displaced(base, other);
    if (!displaced && !isnan(placement_of(base).handover_ns) &&
        !isnan(placement_of(other).handover_ns)) {
        agreement->placed_alike++;
        agreement->placed_alike_within += is_within(item->cells[column].ratio.ratio, margin);
    }
    return displaced;
}

static void agree_cases(const compare_table *table, size_t column, double margin,
                        compare_agreement *agreement) {
    for (size_t i = 0; i < table->case_count; i++) {
        const double ratio = table->cases[i].cells[column].ratio.ratio;
        int others = 0;
        if (isnan(ratio))
            continue;
        agreement->cases++;
        agreement->within += is_within(ratio, margin);
        const int displaced = agree_placed(&table->cases[i], column, margin, agreement);
        if (is_within(ratio, margin))
            continue;
        agreement->displaced += displaced;
        if (compare_moved_with(table, i, column, margin, &others) != NULL)
            agreement->alike++;
        else if (others)
            agreement->unlike++;
        else
            agreement->unjudged++;
    }
}

/* How many times as fast as the first column's the clock was; NaN: not known. */
static double clock_ratio(const compare_case *item, size_t column) {
    return placement_of(item->cells[0].row).chain_ns /
           placement_of(item->cells[column].row).chain_ns;
}

/* By distance, of what is not Tandem's, and as far as the clock explains it. */
static void agree_case(const compare_case *item, size_t column, double margin,
                       compare_agreement *agreement) {
    const double ratio = item->cells[column].ratio.ratio;
    const double clock = clock_ratio(item, column);
    const int within = is_within(ratio, margin);
    const int at_one_clock = is_within(ratio / clock, margin);
    for (int i = 0; i < COMPARE_DISTANCES; i++)
        agreement->near[i] += is_within(ratio, compare_distances[i]);
    agreement->controls += !is_own(item->row);
    agreement->controls_within += !is_own(item->row) && within;
    if (isnan(clock))
        return;
    agreement->clocked++;
    agreement->clocked_beyond += !within;
    agreement->as_the_clock += !within && at_one_clock;
    agreement->within_at_one_clock += at_one_clock;
}

static void agree_clock(const compare_table *table, size_t column, double margin,
                        compare_agreement *agreement) {
    sample_series clocks = {.count = 0};
    for (size_t i = 0; i < table->case_count; i++) {
        const compare_case *const item = &table->cases[i];
        const double ratio = item->cells[column].ratio.ratio;
        if (isnan(ratio))
            continue;
        agree_case(item, column, margin, agreement);
        if (!isnan(clock_ratio(item, column)))
            series_add(&clocks, clock_ratio(item, column), 0); /* one less, where memory is short */
    }
    agreement->clock = summarize_samples(clocks.values, clocks.count).median;
    series_release(&clocks);
}

static int is_placed(const compare_column *column, const results_row *row) {
    return row->device == column->device && row->status == RESULT_OK &&
           !isnan(placement_of(row).handover_ns);
}

/* Where the processors were for most rows of a column; NaN: not told. */
static processor_state most_placed(const compare_column *column) {
    sample_series handovers = {.count = 0};
    sample_series works = {.count = 0};
    for (size_t i = 0; i < column->file->row_count; i++) {
        const processor_state placement = placement_of(&column->file->rows[i]);
        if (!is_placed(column, &column->file->rows[i]))
            continue;
        series_add(&handovers, placement.handover_ns, 0); /* one less, where memory is short */
        if (!isnan(placement.work_ns))
            series_add(&works, placement.work_ns, 0);
    }
    const processor_state most = {summarize_samples(handovers.values, handovers.count).median,
                                  summarize_samples(works.values, works.count).median, NAN};
    series_release(&handovers);
    series_release(&works);
    return most;
}

/* The least of its rows but a twentieth. NaN: none tells. */
static double least_crowding(const compare_column *column) {
    sample_series crowding = {.count = 0};
    for (size_t i = 0; i < column->file->row_count; i++) {
        const double own = processor_crowding(placement_of(&column->file->rows[i]));
        if (is_placed(column, &column->file->rows[i]) && !isnan(own))
            series_add(&crowding, own, 0); /* one less, where memory is short */
    }
    const double least = summarize_samples(crowding.values, crowding.count).p5;
    series_release(&crowding);
    return least;
}

static void count_strays(const compare_column *column, compare_agreement *agreement) {
    const processor_state most = most_placed(column);
    const double least = least_crowding(column);
    for (size_t i = 0; i < column->file->row_count; i++) {
        const results_row *const row = &column->file->rows[i];
        if (!is_placed(column, row))
            continue;
        const processor_state own = placement_of(row);
        agreement->placed++;
        agreement->strays += processor_placements_differ(own, most) ||
                             processor_is_crowded(processor_crowding(own), least);
    }
}

int compare_was_quiet(const compare_agreement *agreement) {
    if (isnan(agreement->others))
        return -1;
    return agreement->others <= COMPARE_QUIET_OTHERS &&
           !(agreement->stolen > COMPARE_QUIET_STOLEN) &&
           (double)agreement->strays <= COMPARE_QUIET_STRAYS * (double)agreement->placed;
}

int compare_repeated(const compare_agreement *agreement) {
    const int has_controls = agreement->controls >= COMPARE_LEAST_CONTROLS;
    const double least = COMPARE_REPEATED_CONTROLS * (double)agreement->controls;
    if (has_controls && (double)agreement->controls_within < least)
        return 0;
    if (!isnan(agreement->clock) && !is_within(agreement->clock, COMPARE_REPEATED_CLOCK))
        return 0;
    return has_controls ? 1 : -1;
}

int compare_is_same_device(const compare_table *table, size_t column) {
    return column > 0 && strcmp(compare_device_name(&table->columns[0]),
                                compare_device_name(&table->columns[column])) == 0;
}

compare_agreement compare_agree(const compare_table *table, size_t column, double margin) {
    const compare_column *const own = &table->columns[column];
    compare_agreement agreement = {.cases = 0};
    agree_cases(table, column, margin, &agreement);
    agree_clock(table, column, margin, &agreement);
    count_strays(own, &agreement);
    agreement.others = results_fact_number(&own->file->environment, "others_of_run");
    agreement.stolen = results_fact_number(&own->file->environment, "stolen_of_run");
    for (size_t i = 0; i < own->file->row_count; i++) {
        const results_row *const row = &own->file->rows[i];
        const double apart = results_figure_value(&row->metrics, "apart");
        if (row->device != own->device || row->status != RESULT_OK)
            continue;
        agreement.rows++;
        agreement.noisy += results_row_is_noisy(row) != 0;
        agreement.visited += !isnan(apart);
        agreement.moved += apart > margin;
    }
    return agreement;
}
