#include "bench/tune/tune_run.h"

#include <math.h>
#include <string.h>

#include "api/gemm/gemm_internal.h"

/* The largest m·n·k·batch for which the plain kernel is tried if other variants fit. */
static const double reference_work = 1e6;
/* The largest min(m, n) for which the GEMV family is tried. */
static const int64_t small_m_side = 64;
/* The smallest K of a split-K part that is tried. */
static const int64_t split_depth = 1024;

/*
 * The operation and the operand types whose variants are searched: those of the case, or those
 * after conversion of its operands.
 */
typedef struct tune_operands {
    tdm_op op;
    tdm_dtype a, b;
    int quantize_a, allows_3xtf32;
} tune_operands;

static int takes_types(const tdm_variant *row, const tune_operands *given) {
    const int32_t a = row->parameters[TDM_GEMM_P_A_TYPE];
    const int32_t b = row->parameters[TDM_GEMM_P_B_TYPE];
    if (row->op != given->op)
        return 0;
    if (tdm_gemm_is_3xtf32(row) && !given->allows_3xtf32)
        return 0;
    if (row->op == TDM_OP_GEMM_INT) /* its variants take both s8 and u8 */
        return 1;
    if (row->op == TDM_OP_GEMM_WEIGHTS && a != 0 &&
        (a == TDM_GEMM_QUANTIZED_A) != given->quantize_a)
        return 0;
    return (a <= 0 || a == (int32_t)given->a) && (b == 0 || b == (int32_t)given->b);
}

static int fits_device(const tdm_variant *row, const tdm_device_info *device) {
    return (row->requires & ~device->capabilities) == 0 &&
           (uint32_t)row->parameters[TDM_GEMM_P_ITEMS] <= device->max_group_items &&
           (uint64_t)row->parameters[TDM_GEMM_P_LOCAL_BYTES] <= device->local_bytes;
}

/* Fills in 0, 1, 2, 3, 4, 6, 8, 12, ... up to `greatest`. */
static int fill_values(int32_t values[TUNE_MAX_VALUES], int64_t greatest) {
    int count = 0;
    values[count++] = 0;
    for (int64_t power = 1; power <= greatest && count + 2 <= TUNE_MAX_VALUES; power *= 2) {
        values[count++] = (int32_t)power;
        if (power > 1 && power + power / 2 <= greatest)
            values[count++] = (int32_t)(power + power / 2);
    }
    return count;
}

static int64_t least(int64_t a, int64_t b) {
    return a < b ? a : b;
}

/* Returns the size of the side that work-groups divide. The GEMV family divides the longer side. */
static int64_t columns_of(const tdm_variant *row, const gemm_case *item) {
    return row->parameters[TDM_GEMM_P_FAMILY] == TDM_GEMM_SMALL_M && item->m > item->n ? item->m
                                                                                       : item->n;
}

/*
 * Returns the greatest value to try for a parameter. A side of D is not divided among more
 * work-items than it has tiles.
 */
static int64_t greatest_value(const tdm_variant *row, tdm_tune_parameter parameter,
                              const gemm_case *item) {
    const int64_t bound = tdm_tune_parameter_greatest(parameter);
    if (!tdm_gemm_takes(row, parameter))
        return 0;
    switch (parameter) {
    case TDM_TUNE_ROW_ITEMS:
        return least(bound, tdm_ceil_div(item->m, row->parameters[TDM_GEMM_P_ROWS]));
    case TDM_TUNE_COL_ITEMS:
        return least(bound,
                     tdm_ceil_div(columns_of(row, item), row->parameters[TDM_GEMM_P_COLUMNS]));
    case TDM_TUNE_SPLIT_K:
        return item->prepacked ? 0 : least(bound, item->k / split_depth);
    default:
        return bound;
    }
}

static void add_row(tune_space *space, const tdm_variant *variant, const gemm_case *item) {
    tune_row *const row = &space->rows[space->row_count++];
    row->variant = variant;
    for (int i = 0; i < TDM_TUNE_PARAMETERS; i++)
        row->value_count[i] =
            fill_values(row->values[i], greatest_value(variant, (tdm_tune_parameter)i, item));
}

/*
 * Returns 1 for variants that are fast only for little work or a short side, and take seconds
 * otherwise. The plain kernel for quantized weights is never tried, because the unpacked weights
 * have a plain kernel of their own.
 */
static int is_hopeless(const tune_space *space, const tdm_variant *row, const gemm_case *item) {
    const double work =
        (double)item->m * (double)item->n * (double)item->k * (double)gemm_case_batch(item);
    switch (row->parameters[TDM_GEMM_P_FAMILY]) {
    case TDM_GEMM_REFERENCE:
        return row->op == TDM_OP_GEMM_WEIGHTS || (space->row_count > 0 && work > reference_work);
    case TDM_GEMM_SMALL_M:
        return least(item->m, item->n) > small_m_side;
    default:
        return 0;
    }
}

static void add_rows(tune_space *space, const tdm_device_info *device, const gemm_case *item,
                     const tune_operands *given) {
    for (int i = 0; i < tdm_variant_count && space->row_count < TUNE_MAX_ROWS; i++) {
        const tdm_variant *const variant = &tdm_variants[i];
        if (takes_types(variant, given) && fits_device(variant, device) &&
            !is_hopeless(space, variant, item))
            add_row(space, variant, item);
    }
}

void tune_space_fill(tune_space *space, const tdm_device_info *device, const gemm_case *item) {
    const tune_operands own = {.op = gemm_types_op(item->types),
                               .a = gemm_types_dtype(item->types, OP_GEMM_A),
                               .b = gemm_types_dtype(item->types, OP_GEMM_B),
                               .quantize_a = gemm_types_dynamic(item->types),
                               .allows_3xtf32 = gemm_types_allow_3xtf32(item->types)};
    static const tune_operands integers = {.op = TDM_OP_GEMM_INT, .a = TDM_S8, .b = TDM_S8};
    static const tune_operands floats = {.op = TDM_OP_GEMM, .a = TDM_F32, .b = TDM_F32};
    space->row_count = 0;
    add_rows(space, device, item, &own);
    if (own.op == TDM_OP_GEMM_WEIGHTS && own.quantize_a && own.b == TDM_S8)
        add_rows(space, device, item, &integers);
    if (own.op == TDM_OP_GEMM_WEIGHTS)
        add_rows(space, device, item, &floats);
}

int tune_choice_equal(const tdm_choice *a, const tdm_choice *b) {
    return a->variant == b->variant && memcmp(a->values, b->values, sizeof a->values) == 0;
}

static const tune_row *row_of(const tune_space *space, const tdm_variant *variant) {
    for (int i = 0; i < space->row_count; i++) {
        if (space->rows[i].variant == variant)
            return &space->rows[i];
    }
    return NULL;
}

/* Returns the index of the row's largest value that is not above `value`. */
static int place_of(const tune_row *row, int parameter, int32_t value) {
    int place = 0;
    while (place + 1 < row->value_count[parameter] && row->values[parameter][place + 1] <= value)
        place++;
    return place;
}

/* Moves a choice to another row. Values that this row does not have are rounded down. */
static tdm_choice move_to(const tune_row *row, const tdm_choice *choice) {
    tdm_choice moved = {.variant = row->variant};
    for (int i = 0; i < TDM_TUNE_PARAMETERS; i++)
        moved.values[i] = row->values[i][place_of(row, i, choice->values[i])];
    return moved;
}

/* ---- the search ------------------------------------------------------------------------------ */

enum {
    MAX_STARTS = 16
};

/* A choice this much slower than the best one needs no exact time. */
static const double slow_factor = 1.5;
/* Changes are tried from choices within this factor of the best, the error of a time. */
static const double near_factor = 1.03;

static int was_tried(const tune_search *search, const tdm_choice *choice) {
    for (int i = 0; i < search->trials; i++) {
        if (tune_choice_equal(&search->tried[i], choice))
            return 1;
    }
    return 0;
}

static int is_over(const tune_search *search) {
    return search->trials == TUNE_MAX_TRIALS || search->seconds_left(search->user) <= 0;
}

static double best_seconds(const tune_search *search) {
    return search->best < 0 ? INFINITY : search->seconds[search->best];
}

/* Measures a choice that was not tried yet. */
static void try_choice(tune_search *search, const tdm_choice *choice) {
    if (is_over(search) || was_tried(search, choice))
        return;
    const double before = best_seconds(search);
    const int place = search->trials++;
    double seconds = NAN;
    search->tried[place] = *choice;
    const tune_verdict verdict =
        search->measure(search->user, choice, slow_factor * before, &seconds);
    search->seconds[place] = verdict == TUNE_MEASURED ? seconds : NAN;
    search->failures += verdict == TUNE_FAILED;
    if (verdict == TUNE_MEASURED && seconds < before)
        search->best = place;
    if (search->progress != NULL)
        search->progress(search->user, search);
}

/* Returns the best choice from which no changes were tried, if near enough to the best, or -1. */
static int next_start(const tune_search *search, const unsigned char stepped[TUNE_MAX_TRIALS]) {
    int next = -1;
    for (int i = 0; i < search->trials; i++) {
        /* This condition is false for NaN. */
        if (!stepped[i] && search->seconds[i] <= near_factor * best_seconds(search) &&
            (next < 0 || search->seconds[i] < search->seconds[next]))
            next = i;
    }
    return next;
}

/* Tries each parameter at every value, and each other row. */
static void try_changes(tune_search *search, const tdm_choice *from) {
    const tune_row *const own = row_of(search->space, from->variant);
    for (int i = 0; i < TDM_TUNE_PARAMETERS; i++)
        for (int value = 0; value < own->value_count[i]; value++) {
            tdm_choice changed = *from;
            changed.values[i] = own->values[i][value];
            try_choice(search, &changed);
        }
    for (int i = 0; i < search->space->row_count; i++) {
        const tdm_choice moved = move_to(&search->space->rows[i], from);
        try_choice(search, &moved);
    }
}

void tune_search_run(tune_search *search) {
    unsigned char stepped[TUNE_MAX_TRIALS] = {0};
    search->trials = 0;
    search->failures = 0;
    search->best = -1;
    for (int i = 0; i < search->space->row_count; i++)
        try_choice(search, &(tdm_choice){.variant = search->space->rows[i].variant});
    for (int starts = 0; starts < MAX_STARTS && !is_over(search); starts++) {
        const int start = next_start(search, stepped);
        if (start < 0)
            return;
        stepped[start] = 1;
        const tdm_choice from = search->tried[start];
        try_changes(search, &from);
    }
}
