/* Every variant of tdm_tensor_quantize_minmax gives the bits of the host reference on every device.
 * ctest: device rusticl_in_ci timeout=240 cost=45 */
#include <float.h>
#include <math.h>

#include "api/device/core.h"
#include "tests/support/devices/device_cases.h"
#include "tests/support/quant/quant_cases.h"
#include "tests/support/test_case.h"

static const tdm_dtype code_dtypes[] = {TDM_S8, TDM_U8, TDM_S4};
static const tdm_dtype real_dtypes[] = {TDM_F32, TDM_F16, TDM_BF16};

/* These are the contents of x. number_at() gives the numbers of the kinds from DATA_CONSTANT on. */
enum {
    DATA_DEQUANTIZED, /* includes NaN, infinities and denormals */
    DATA_UNIT,
    DATA_WIDE,
    DATA_CONSTANT, /* 0, or one number of either sign, in each row */
    DATA_KINDS,    /* samples of variants use the kinds above */
    DATA_LARGEST = DATA_KINDS,
    DATA_BANDS,
    DATA_RUNS,
    DATA_NAN,
    DATA_SIZES,
    DATA_PEAKS = DATA_SIZES + 4,
    PEAKS = 5
};

#define DIMS(...) ((const int64_t[]){__VA_ARGS__})

/* ---- data ---- */

/* Returns numbers of many sizes; the largest may be anywhere in its band. 64 bands form a block.
 * One block of four has some bands of zeros and of numbers too small for division by a reciprocal.
 * Another one contains infinities and NaN. */
static double in_band(int64_t band, int64_t at) {
    const int64_t block = band / 64 % 4;
    const double value = (double)((at * 37 + band * 11) % 311 - 125) * (double)(band % 37 + 1);
    if (block == 2 && band % 5 == 1 && at % 7 == band % 7)
        return at % 2 == 0 ? NAN : band % 2 == 0 ? -INFINITY : INFINITY;
    return value * (block != 1 || band % 16 != 5 ? 1 : band % 32 == 5 ? 0 : 0x1p-80);
}

static double number_at(int data, int64_t row, int64_t at, int64_t columns) {
    /*
     * The first three numbers are 127 times a scale. f16 rounds the first scale to 1/128 too small
     * and the second one nearly exactly. The third scale is too large for f16.
     */
    static const double largest[] = {127 * (0x1p-18 + 0.49 * 0x1p-24), 127 * 0x1.31p-17,
                                     127 * 140000.0, 1};
    const int64_t i = row * columns + at;
    const bool nan = (row % 9 == 2 && at == columns - 1) || (row % 9 == 7 && at == columns - 12) ||
                     (row % 13 == 5 && at % 97 == 21);
    const int peak = data - DATA_PEAKS;
    switch (data) {
    case DATA_CONSTANT:
        return (double)(row % 3 - 1) * 0.7;
    case DATA_LARGEST:
        return i % 7 == 3 ? (double)FLT_MAX : i % 5 == 2 ? -(double)FLT_MAX : 1;
    case DATA_BANDS:
        return in_band(at, row);
    case DATA_RUNS:
        return in_band(row, at);
    case DATA_NAN: /* NaN at the end of a row, in its last whole vector, or in the middle */
        return nan ? NAN : (double)((row * 29 + at * 7) % 83 - 37) / 64;
    case DATA_SIZES: /* numbers of one size; the largest magnitude is negative */
    case DATA_SIZES + 1:
    case DATA_SIZES + 2:
    case DATA_SIZES + 3:
        return largest[data - DATA_SIZES] *
               ((row + at) % 8 == 0 ? -1 : (double)((row * 37 + at * 11) % 61 - 30) / 31);
    // The largest number is the last one, which a vector or a strip may leave out, or one that some
    // work-item reads.
    default:
        return at == (peak == 0 ? columns - 1 : columns * peak / PEAKS + peak)
                   ? 2
                   : (double)(i % 13) / 16;
    }
}

static void fill(test_array *x, quant_carrier *carrier, int data) {
    const int64_t columns = x->layout.rank == 0 ? 1 : x->layout.shape[x->layout.rank - 1];
    if (data == DATA_UNIT || data == DATA_WIDE) {
        test_array_fill(x, data == DATA_UNIT ? TEST_DATA_UNIT : TEST_DATA_WIDE, 3);
    } else if (data == DATA_DEQUANTIZED) {
        quant_carrier_fill_parameters(carrier, 21);
        quant_fill_dequantized(x, carrier, 22);
    } else {
        for (int64_t i = 0; i < test_array_count(x); i++)
            test_array_put(x, i, number_at(data, i / columns, i % columns, columns));
        test_array_send(x);
    }
    quant_carrier_send(carrier);
}

/* ---- cases ---- */

/* Returns the number of dimensions along which several elements share parameters. */
static int shared_dimensions(const quant_case *c) {
    int64_t block[TDM_MAX_RANK];
    int shared = 0;
    quant_sharing_blocks(c->sharing, c->shape->rank, block);
    for (int d = 0; d < c->shape->rank; d++)
        shared += c->shape->shape[d] > 1 && block[d] != 1 ? 1 : 0;
    return shared;
}

static tdm_dtype zero_for(tdm_dtype codes, tdm_dtype zero) {
    if (zero == TDM_DTYPE_NONE)
        return codes == TDM_U8 ? TDM_U8 : zero;
    return zero == TDM_S32 || zero == codes || (codes == TDM_S4 && zero == TDM_S8) ? zero : TDM_S32;
}

/* With a limited loop trip count, long groups are too long for one work-item of the device. */
static bool must_run(const test_device *device, const tdm_variant *variant, const quant_case *c) {
    const bool long_loops = (device->info.capabilities & TDM_CAP_UNLIMITED_LOOPS) != 0;
    return (long_loops || c->shape->rank != 2 || c->shape->shape[1] < 30000) &&
           (variant->parameters[1] == 1 && c->codes != TDM_S4 && shared_dimensions(c) <= 1);
}

static void dynamic_case(const test_device *device, const tdm_variant *variant, const quant_case *c,
                         tdm_dtype from) {
    quant_carrier carrier;
    test_array x;
    const op_shape *const shape = c->shape;
    quant_carrier_create(&carrier, device, c->codes, shape->rank, shape->shape, c->y, c->sharing,
                         c->scale, zero_for(c->codes, c->zero), c->parameters);
    test_array_create(&x, device, from, shape->rank, shape->shape, c->x);
    fill(&x, &carrier, c->last);
    tdm_force_variant(variant ? variant->name : NULL);
    const tdm_status status = tdm_tensor_quantize_minmax(device->stream, x.tensor, carrier.tensor);
    tdm_force_variant(NULL);
    const bool must = !variant || must_run(device, variant, c);
    const bool odd = shared_dimensions(c) > 1 && c->sharing != SHARE_ALL;
    if (status != TDM_UNSUPPORTED || (must && !odd)) {
        TEST_OK(status);
        quant_carrier_check_derived(&carrier, &x);
        if (variant && test_array_count(&x) > 0)
            test_case_end();
    }
    test_array_destroy(&x);
    quant_carrier_destroy(&carrier);
}

static void one_dynamic(const test_device *device, const tdm_variant *variant, const int row[]) {
    quant_case c;
    quant_case_read(&c, row, code_dtypes);
    if (quant_case_begin(device, variant, &c))
        dynamic_case(device, variant, &c, (tdm_dtype)variant->parameters[0]);
}

TEST(every_dynamic) {
    quant_every_variant_and(TDM_OP_QUANTIZE_DYNAMIC, 3, DATA_KINDS, one_dynamic);
}

/* A whole tensor takes two launches: one for the ranges of parts and one that combines them. */
static void one_range(const test_device *device, const tdm_variant *variant, const int row[]) {
    quant_case c;
    quant_case_read(&c, row, code_dtypes);
    static const op_shape long_row = {1, {40013}}, grid = {2, {211, 257}}, little = {2, {33, 67}};
    c.sharing = SHARE_ALL;
    if (c.shape->rank < 2)
        c.shape = test_is_small() ? &little : &long_row;
    else if (variant->op == TDM_OP_QUANTIZE_JOIN)
        c.shape = test_is_small() ? &little : &grid;
    if (quant_case_begin(device, variant, &c))
        dynamic_case(device, variant, &c,
                     variant->parameters[0] == 0 ? TDM_F32 : (tdm_dtype)variant->parameters[0]);
}

TEST(every_range) {
    quant_every_variant_and(TDM_OP_QUANTIZE_RANGE, 3, DATA_KINDS, one_range);
    quant_every_variant_and(TDM_OP_QUANTIZE_JOIN, 3, DATA_KINDS, one_range);
}

/* ---- forms with code of their own on CPU cores ---- */

typedef struct form {
    op_shape shape;
    quant_sharing sharing;
} form;

/* Rows and groups are whole cache lines, whole vectors or neither. Matrices with parameters by
 * column are read row by row, in one strip and in several. Groups along columns end with a shorter
 * one. Several work-items or work-groups share some parameters. */
static const form forms[] = {
    {{2, {3, 640}}, SHARE_VECTORS},
    {{2, {67, 130}}, SHARE_COLUMNS},
    {{2, {6, 150}}, SHARE_FIRST_GROUPS},
    {{2, {9, 176}}, SHARE_BANDS},
    {{2, {9, 176}}, SHARE_ROWS},
    {{2, {3, 5003}}, SHARE_ROWS},
    {{2, {2, 1024}}, SHARE_ROWS},
    {{1, {18001}}, SHARE_ALL},
    {{2, {129, 140}}, SHARE_ALL},
    {{2, {131, 530}}, SHARE_COLUMNS}, /* slow implementations stop before this one */
    {{3, {67, 5, 826}}, SHARE_FIRST},
    {{2, {70, 1190}}, SHARE_BANDS},
    {{2, {41, 2300}}, SHARE_BANDS},
    {{2, {300, 330}}, SHARE_TALL_BANDS},
    {{2, {260, 620}}, SHARE_TALL_BANDS},
    {{2, {11, 311}}, SHARE_ROWS},
    {{2, {70, 128}}, SHARE_ROWS},
    {{2, {70, 128}}, SHARE_VECTORS},
};

enum {
    FORMS = sizeof forms / sizeof *forms,
    SMALL_FORMS = 9
};

/* Draws types and layouts at random, except where the data is meant for particular ones. */
static quant_case case_of(const form *f, int data, test_random *random) {
    static const tdm_dtype scales[] = {TDM_F32, TDM_F16, TDM_BF16};
    static const tdm_dtype zeros[] = {TDM_DTYPE_NONE, TDM_S8, TDM_S32};
    static const test_placement sources[] = {TEST_DENSE,  TEST_DENSE,      TEST_PADDED,
                                             TEST_OFFSET, TEST_TRANSPOSED, TEST_SPREAD};
    quant_case c = {.shape = &f->shape,
                    .sharing = f->sharing,
                    .codes = code_dtypes[test_random_int(random, 0, 2)],
                    .scale = scales[test_random_int(random, 0, 2)],
                    .zero = zeros[test_random_int(random, 0, 2)],
                    .x = sources[test_random_int(random, 0, 5)],
                    .y = (test_placement)test_random_int(random, TEST_DENSE, TEST_PADDED),
                    .parameters = test_random_int(random, 0, 2) == 0 ? TEST_SPREAD : TEST_DENSE,
                    .last = data};
    if (data >= DATA_SIZES && test_random_int(random, 0, 2) > 0) {
        c.codes = TDM_S8;
        c.scale = TDM_F16;
        c.zero = TDM_DTYPE_NONE;
    }
    /* The nearest bf16 scale, multiplied by 255, is infinite. */
    if (data == DATA_LARGEST && test_random_int(random, 0, 2) == 0) {
        c.codes = TDM_U8;
        c.scale = TDM_BF16;
    }
    return c;
}

DEVICE_TEST(forms_of_their_own) {
    test_random random = {20261129};
    const int count = test_is_small() ? SMALL_FORMS : FORMS;
    for (int i = 0; i < count * DATA_PEAKS; i++) {
        const quant_case c = case_of(&forms[i % count], i / count, &random);
        const tdm_dtype dequantized = real_dtypes[test_random_int(&random, 0, 2)];
        if (!test_is_small() || i % 2 == 0)
            dynamic_case(device, NULL, &c, dequantized);
    }
}

/* Each worker gets more rows than one block of short groups. Row lengths are half a cache line,
 * whole lines, whole vectors and less; some rows are long. */
DEVICE_TEST(rows_after_rows) {
    static const int64_t lengths[] = {32, 64, 128, 16, 48, 96, 160, 224, 256, 30, 300};
    test_random random = {20261130};
    const int64_t units = device->info.compute_units < 16 ? device->info.compute_units : 16;
    const int64_t rows = test_is_small() ? 70 : 149 * 4 * units + 19;
    const int count = (int)(sizeof lengths / sizeof lengths[0]);
    for (int i = 0; i < (test_is_small() ? 3 : 6 * count); i++) {
        const form f = {{2, {rows, lengths[i % count]}}, SHARE_ROWS};
        const quant_case c = case_of(&f, i % 7 == 5 ? DATA_LARGEST : DATA_RUNS, &random);
        dynamic_case(device, NULL, &c, real_dtypes[i / count % 3]);
    }
}

/* ---- recorded -------------------------------------------------------------------------------- */

/* A recorded call allocates no memory. Columns and a long row take one launch instead of several. A
 * matrix is refused. */
DEVICE_TEST(recorded_calls) {
    static const form recorded[] = {
        {{2, {131, 530}}, SHARE_COLUMNS}, {{1, {18001}}, SHARE_ALL}, {{2, {129, 140}}, SHARE_ALL}};
    for (int i = 0; i < 3; i++) {
        const op_shape *const shape = &recorded[i].shape;
        quant_carrier carrier;
        test_array x;
        tdm_graph *graph;
        quant_carrier_create(&carrier, device, TDM_U8, shape->rank, shape->shape, TEST_DENSE,
                             recorded[i].sharing, TDM_F32, TDM_U8, TEST_DENSE);
        test_array_create(&x, device, TDM_F32, shape->rank, shape->shape, TEST_DENSE);
        fill(&x, &carrier, DATA_DEQUANTIZED);
        TEST_OK(tdm_stream_begin_recording(device->stream));
        const tdm_status status =
            tdm_tensor_quantize_minmax(device->stream, x.tensor, carrier.tensor);
        TEST_OK(tdm_stream_end_recording(device->stream, &graph));
        const bool short_loops = (device->info.capabilities & TDM_CAP_UNLIMITED_LOOPS) == 0;
        if (status == TDM_OK) {
            test_array_expect_unchanged(&carrier.codes);
            assert_int_equal(tdm_graph_command_count(graph), 1);
            TEST_OK(tdm_graph_launch(graph, device->stream));
            quant_carrier_check_derived(&carrier, &x);
        }
        if (i == 2 ? status != TDM_BAD_STATE
                   : status != TDM_OK && !(status == TDM_UNSUPPORTED && short_loops))
            test_case_fail("form %d: %s", i, tdm_last_detail());
        tdm_graph_destroy(graph);
        test_array_destroy(&x);
        quant_carrier_destroy(&carrier);
    }
}

/* The largest number is put where each work-item in turn reads it, for every row of the table. */
static void peaks_of(const test_device *device, const tdm_variant *variant) {
    static const op_shape rows = {2, {3, 5003}}, even_rows = {2, {2, 1024}}, tensor = {1, {18001}};
    const bool whole = variant->op != TDM_OP_QUANTIZE_DYNAMIC;
    for (int i = 0; i < 2 * PEAKS; i++) {
        const quant_case c = {.shape = whole        ? &tensor
                                       : i % 2 == 0 ? &rows
                                                    : &even_rows,
                              .sharing = whole ? SHARE_ALL : SHARE_ROWS,
                              .codes = TDM_S8,
                              .scale = TDM_F32,
                              .zero = i % 2 == 0 ? TDM_DTYPE_NONE : TDM_S32,
                              .last = DATA_PEAKS + i / 2};
        if (quant_case_begin(device, variant, &c))
            dynamic_case(device, variant, &c, (tdm_dtype)variant->parameters[0]);
    }
}

TEST(the_largest_number_is_anywhere) {
    test_each_variant(TDM_OP_QUANTIZE_DYNAMIC, NULL, peaks_of);
    test_each_variant(TDM_OP_QUANTIZE_RANGE, NULL, peaks_of);
}

/* Empty blocks still have parameters: those of a block of zeros. */
DEVICE_TEST(empty_blocks) {
    static const op_shape no_rows = {2, {0, 6}}, no_columns = {2, {6, 0}},
                          no_middle = {3, {2, 0, 5}};
    const struct {
        const op_shape *shape;
        quant_sharing sharing;
        int64_t entries;
    } rows[] = {
        {&no_rows, SHARE_COLUMNS, 6}, {&no_rows, SHARE_ALL, 1},    {&no_rows, SHARE_ROWS, 0},
        {&no_columns, SHARE_ROWS, 6}, {&no_columns, SHARE_ALL, 1}, {&no_columns, SHARE_COLUMNS, 0},
        {&no_middle, SHARE_ALL, 1},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        for (int type = 0; type < 3; type++) {
            quant_carrier carrier;
            test_array x;
            const op_shape *const shape = rows[i].shape;
            const tdm_dtype codes = code_dtypes[type];
            quant_carrier_create(&carrier, device, codes, shape->rank, shape->shape, TEST_DENSE,
                                 rows[i].sharing, TDM_F32,
                                 codes == TDM_S4 ? TDM_DTYPE_NONE : TDM_S32, TEST_PADDED);
            test_array_create(&x, device, TDM_F32, shape->rank, shape->shape, TEST_DENSE);
            assert_int_equal(test_array_count(&carrier.scale), rows[i].entries);
            for (int64_t e = 0; e < rows[i].entries; e++) {
                test_array_put(&carrier.scale, e, 7.5);
                if (carrier.has_zero)
                    test_array_put(&carrier.zero, e, 9);
            }
            quant_carrier_send(&carrier);
            TEST_OK(tdm_tensor_quantize_minmax(device->stream, x.tensor, carrier.tensor));
            quant_carrier_check_derived(&carrier, &x);
            test_array_destroy(&x);
            quant_carrier_destroy(&carrier);
        }
}

TEST_MAIN(test_devices_setup, test_devices_teardown)
