#include "bench/tune/tune_space.h"

#include <string.h>

#include "api/gemm/gemm_internal.h"
#include "common/random_fill.h"

/* m·n·k·batch up to which the plain kernel is worth a try. */
static const double reference_work = 1e6;
/* The shorter of m and n up to which the skinny family is. */
static const int64_t skinny_side = 64;
/* Least steps of K in a part that are worth a try. */
static const int64_t split_depth = 1024;

/* What the rows of an operation are given: A and B of the case, or what those become first. */
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
    if (row->op == TDM_OP_GEMM_INT) /* whose rows take s8 and u8 */
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

/* 0, 1, 2, 3, 4, 6, 8, 12, ... up to `greatest`. */
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

/* The skinny family divides the long side, whichever it is. */
static int64_t columns_of(const tdm_variant *row, const gemm_case *item) {
    return row->parameters[TDM_GEMM_P_FAMILY] == TDM_GEMM_SKINNY && item->m > item->n ? item->m
                                                                                      : item->n;
}

/* No more parts than there are tiles to divide. */
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
 * Some rows win where next to nothing is to do, or where one side is short, and take seconds where much is. Of quantized weights
 * the plain kernel is a last resort: what was unpacked has its own.
 */
static int is_hopeless(const tune_space *space, const tdm_variant *row, const gemm_case *item) {
    const double work =
        (double)item->m * (double)item->n * (double)item->k * (double)gemm_case_batch(item);
    switch (row->parameters[TDM_GEMM_P_FAMILY]) {
    case TDM_GEMM_REFERENCE:
        return row->op == TDM_OP_GEMM_WEIGHTS || (space->row_count > 0 && work > reference_work);
    case TDM_GEMM_SKINNY:
        return least(item->m, item->n) > skinny_side;
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

static int64_t row_size(const tune_row *row) {
    int64_t size = 1;
    for (int i = 0; i < TDM_TUNE_PARAMETERS; i++)
        size *= row->value_count[i];
    return size;
}

int64_t tune_space_size(const tune_space *space) {
    int64_t size = 0;
    for (int i = 0; i < space->row_count; i++)
        size += row_size(&space->rows[i]);
    return size;
}

int tune_choice_equal(const tdm_choice *a, const tdm_choice *b) {
    return a->variant == b->variant && memcmp(a->values, b->values, sizeof a->values) == 0;
}

tdm_choice tune_space_random(const tune_space *space, uint64_t random) {
    int64_t total = 0;
    int chosen = 0;
    for (int i = 0; i < space->row_count; i++)
        total += row_size(&space->rows[i]);
    int64_t place = (int64_t)(random_bits(random, 0) % (uint64_t)(total > 0 ? total : 1));
    while (chosen + 1 < space->row_count && place >= row_size(&space->rows[chosen]))
        place -= row_size(&space->rows[chosen++]);
    const tune_row *const row = &space->rows[chosen];
    tdm_choice choice = {.variant = row->variant};
    for (int i = 0; i < TDM_TUNE_PARAMETERS; i++) {
        choice.values[i] = row->values[i][place % row->value_count[i]];
        place /= row->value_count[i];
    }
    return choice;
}

static const tune_row *row_of(const tune_space *space, const tdm_variant *variant) {
    for (int i = 0; i < space->row_count; i++) {
        if (space->rows[i].variant == variant)
            return &space->rows[i];
    }
    return NULL;
}

/* Place of the greatest value of the row that is not above `value`. */
static int place_of(const tune_row *row, int parameter, int32_t value) {
    int place = 0;
    while (place + 1 < row->value_count[parameter] && row->values[parameter][place + 1] <= value)
        place++;
    return place;
}

static int step_parameters(const tune_row *row, const tdm_choice *choice, tdm_choice *neighbours,
                           int room) {
    int count = 0;
    for (int i = 0; i < TDM_TUNE_PARAMETERS; i++) {
        const int place = place_of(row, i, choice->values[i]);
        for (int step = -1; step <= 1; step += 2) {
            const int next = place + step;
            if (next < 0 || next >= row->value_count[i] || count == room)
                continue;
            neighbours[count] = *choice;
            neighbours[count++].values[i] = row->values[i][next];
        }
    }
    return count;
}

/* The same parameters with another row, as far as it takes them. */
static tdm_choice move_to(const tune_row *row, const tdm_choice *choice) {
    tdm_choice moved = {.variant = row->variant};
    for (int i = 0; i < TDM_TUNE_PARAMETERS; i++)
        moved.values[i] = row->values[i][place_of(row, i, choice->values[i])];
    return moved;
}

int tune_space_neighbours(const tune_space *space, const tdm_choice *choice, tdm_choice *neighbours,
                          int room) {
    const tune_row *const own = row_of(space, choice->variant);
    int count = own == NULL ? 0 : step_parameters(own, choice, neighbours, room);
    for (int i = 0; i < space->row_count && count < room; i++) {
        if (&space->rows[i] != own)
            neighbours[count++] = move_to(&space->rows[i], choice);
    }
    return count;
}
