/* tdm_tensor_quantize_minmax: every variant on every device, bit for bit as the host reference.
 * ctest: device rusticl_in_ci timeout=240 cost=45 */
#include <float.h>
#include <math.h>
#include <stdlib.h>

#include "api/device/core.h"
#include "tests/support/devices/device_cases.h"
#include "tests/support/quant/quant_cases.h"

static const tdm_dtype code_dtypes[] = {TDM_S8, TDM_U8, TDM_S4};

enum {
    DATA_REALS, /* NaN, infinities and denormals among them */
    DATA_UNIT,
    DATA_WIDE,
    DATA_CONSTANT, /* 0, or one number of either sign, in each row */
    DATA_KINDS,
    DATA_LARGEST =
        DATA_KINDS, /* the largest finite numbers of either sign and small ones; in no sample */
    DATA_BANDS,     /* as fill_bands has them; in no sample */
    DATA_RUNS,      /* the same of rows; in no sample */
    DATA_NAN,       /* a NaN in a few rows and columns, and no infinity; in no sample */
    DATA_SIZES,     /* and from here on as fill_size has them; in no sample */
    DATA_PEAKS =
        DATA_SIZES +
        4 /* and from here on: one number of each row is the largest, at one of PEAKS places; in no sample */
};

enum {
    PEAKS = 5
};

#define DIMS(...) ((const int64_t[]){__VA_ARGS__})

/* ---- what the parameters should be ---- */

static tdm_quant_range range_of(const quant_carrier *carrier) {
    tdm_quant_range range = quant_full_range(carrier->codes.layout.dtype);
    if (!carrier->has_zero)
        range.low = -range.high;
    return range;
}

static void widen(tdm_quant_bounds *bounds, float value) {
    if (!isfinite(value))
        return;
    bounds->minimum = value < bounds->minimum ? value : bounds->minimum;
    bounds->maximum = value > bounds->maximum ? value : bounds->maximum;
}

static tdm_quant_parameters expected_parameters(const quant_carrier *carrier,
                                                tdm_quant_bounds bounds) {
    tdm_quant_parameters p =
        tdm_quant_derive_kept(carrier->has_zero ? TDM_QUANT_ASYMMETRIC : TDM_QUANT_SYMMETRIC,
                              bounds, range_of(carrier), carrier->scale.layout.dtype);
    if (!carrier->has_zero)
        p.zero_point = 0;
    return p;
}

/* ---- checks ---- */

static void check_entry(const quant_carrier *carrier, int64_t entry, tdm_quant_parameters p) {
    if (test_array_fetched(&carrier->scale, entry) != (double)p.scale ||
        (carrier->has_zero && test_array_fetched(&carrier->zero, entry) != p.zero_point))
        test_case_fail("entry %lld is scale %a, zero point %g, not %a, %d", (long long)entry,
                       test_array_fetched(&carrier->scale, entry),
                       carrier->has_zero ? test_array_fetched(&carrier->zero, entry) : 0.0,
                       (double)p.scale, p.zero_point);
}

static void check_code(const quant_carrier *carrier, const test_array *x, int64_t i,
                       tdm_quant_parameters p) {
    const tdm_quant_range range = range_of(carrier);
    const float value = (float)test_array_get(x, i);
    const int32_t actual = (int32_t)test_array_fetched(&carrier->codes, i);
    /* A device may take an f32 denormal for 0. */
    if (actual != tdm_quant_quantize(value, p, range) &&
        !(fabsf(value) < FLT_MIN && actual == tdm_quant_quantize(0.0f, p, range)))
        test_case_fail("element %lld: %a by scale %a, zero point %d became %d, not %d",
                       (long long)i, (double)value, (double)p.scale, p.zero_point, actual,
                       tdm_quant_quantize(value, p, range));
}

/* Every so many entries, and their codes. */
static void check_some(quant_carrier *carrier, const test_array *x, int64_t apart) {
    const int64_t count = test_array_count(x), entries = test_array_count(&carrier->scale);
    tdm_quant_bounds *const bounds = calloc((size_t)entries + 1, sizeof *bounds);
    tdm_quant_parameters *const p = calloc((size_t)entries + 1, sizeof *p);
    assert_non_null(bounds);
    assert_non_null(p);
    test_array_fetch(&carrier->codes);
    test_array_fetch(&carrier->scale);
    if (carrier->has_zero)
        test_array_fetch(&carrier->zero);
    for (int64_t i = 0; i < count; i++)
        widen(&bounds[quant_carrier_entry(carrier, i)], (float)test_array_get(x, i));
    for (int64_t entry = 0; entry < entries; entry += apart) {
        p[entry] = expected_parameters(carrier, bounds[entry]);
        check_entry(carrier, entry, p[entry]);
    }
    for (int64_t i = 0; i < count; i++) {
        const int64_t entry = quant_carrier_entry(carrier, i);
        if (entry % apart == 0)
            check_code(carrier, x, i, p[entry]);
    }
    free(bounds);
    free(p);
}

/* All of few entries, else a sample. */
static void check(quant_carrier *carrier, const test_array *x) {
    const int64_t entries = test_array_count(&carrier->scale);
    check_some(carrier, x, entries < 64 ? 1 : entries / 31);
}

/* ---- cases ---- */

/* Columns, or rows, of many sizes, whose largest number is anywhere, and among blocks of 64 of them one with some of 0 and of numbers
 * too small for quotients by products, and one with infinities and NaN. */
static void fill_bands(test_array *x, bool rows) {
    const int64_t columns = x->layout.shape[1];
    for (int64_t i = 0; i < test_array_count(x); i++) {
        const int64_t band = rows ? i / columns : i % columns,
                      at = rows ? i % columns : i / columns;
        const int64_t block = band / 64 % 4;
        double value = (double)((at * 37 + band * 11) % 311 - 125) * (double)(band % 37 + 1);
        if (block == 1 && band % 16 == 5)
            value *= band % 32 == 5 ? 0 : 0x1p-80;
        if (block == 2 && band % 5 == 1 && at % 7 == band % 7)
            value = at % 2 == 0 ? (double)NAN : band % 2 == 0 ? -INFINITY : INFINITY;
        test_array_put(x, i, value);
    }
    test_array_send(x);
}

/* Numbers of one size, the greatest negative: scales that f16 keeps 1/128 too small, near enough and too large for it, and others. */
static void fill_size(test_array *x, int size) {
    static const double largest[] = {127 * (0x1p-18 + 0.49 * 0x1p-24), 127 * 0x1.31p-17,
                                     127 * 140000.0, 1};
    const int64_t columns = x->layout.shape[1];
    for (int64_t i = 0; i < test_array_count(x); i++) {
        const int64_t row = i / columns, column = i % columns;
        const double part = (double)((row * 37 + column * 11) % 61 - 30) / 31;
        test_array_put(x, i, largest[size] * ((row + column) % 8 == 0 ? -1 : part));
    }
    test_array_send(x);
}

/* At the end of a row, in its last whole vector, and in the midst. */
static void fill_nan(test_array *x) {
    const int64_t columns = x->layout.shape[1];
    for (int64_t i = 0; i < test_array_count(x); i++) {
        const int64_t row = i / columns, column = i % columns;
        const bool nan = (row % 9 == 2 && column == columns - 1) ||
                         (row % 9 == 7 && column == columns - 12) ||
                         (row % 13 == 5 && column % 97 == 21);
        test_array_put(x, i, nan ? (double)NAN : (double)((row * 29 + column * 7) % 83 - 37) / 64);
    }
    test_array_send(x);
}

static void fill(test_array *x, quant_carrier *carrier, int data) {
    if (data == DATA_UNIT)
        test_array_fill(x, TEST_DATA_UNIT, 3);
    else if (data == DATA_WIDE)
        test_array_fill(x, TEST_DATA_WIDE, 4);
    else if (data == DATA_REALS) {
        quant_carrier_fill_parameters(carrier, 21);
        quant_fill_reals(x, carrier, 22);
    } else if (data == DATA_LARGEST) {
        for (int64_t i = 0; i < test_array_count(x); i++)
            test_array_put(x, i, i % 7 == 3 ? (double)FLT_MAX : i % 5 == 2 ? -(double)FLT_MAX : 1);
        test_array_send(x);
    } else if (data == DATA_BANDS || data == DATA_RUNS) {
        fill_bands(x, data == DATA_RUNS);
    } else if (data == DATA_NAN) {
        fill_nan(x);
    } else if (data >= DATA_SIZES && data < DATA_PEAKS) {
        fill_size(x, data - DATA_SIZES);
    } else if (data >= DATA_PEAKS) {
        /* The last one, which a vector or a strip may leave out, and such as one item or another of a group looks at. */
        const int64_t row = x->layout.shape[x->layout.rank - 1], at = data - DATA_PEAKS;
        const int64_t peak = at == 0 ? row - 1 : row * at / PEAKS + at;
        for (int64_t i = 0; i < test_array_count(x); i++)
            test_array_put(x, i, i % row == peak ? 2 : (double)(i % 13) / 16);
        test_array_send(x);
    } else {
        const int64_t row = x->layout.rank == 0 ? 1 : x->layout.shape[x->layout.rank - 1];
        for (int64_t i = 0; i < test_array_count(x); i++)
            test_array_put(x, i, (double)(i / row % 3 - 1) * 0.7);
        test_array_send(x);
    }
    quant_carrier_send(carrier);
}

/* Dimensions of which several elements share parameters. */
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

/* Long groups are too long for one item of a device with short loops. */
static bool must_run(const test_device *device, const tdm_variant *variant, const quant_case *c) {
    const bool long_loops = (device->info.capabilities & TDM_CAP_LONG_LOOPS) != 0;
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
        if (c->last >= DATA_BANDS && c->last < DATA_PEAKS)
            check_some(&carrier, &x, 1);
        else
            check(&carrier, &x);
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

static void every_dynamic(void **state) {
    (void)state;
    quant_every_variant_and(TDM_OP_QUANTIZE_DYNAMIC, 3, DATA_KINDS, one_dynamic);
}

/* Whole tensors go through a launch for the range and one that joins. */
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

static void every_range(void **state) {
    (void)state;
    quant_every_variant_and(TDM_OP_QUANTIZE_RANGE, 3, DATA_KINDS, one_range);
    quant_every_variant_and(TDM_OP_QUANTIZE_JOIN, 3, DATA_KINDS, one_range);
}

/* ---- forms of their own on CPU cores ---- */

/* Groups of whole vectors, and columns of matrices that are read row by row. */
static void groups_and_columns_of(const test_device *device, const quant_case *like) {
    static const op_shape groups = {2, {3, 640}}, matrix = {2, {131, 530}},
                          batch = {3, {67, 5, 826}}, little = {2, {67, 130}};
    static const tdm_dtype reals[] = {TDM_F32, TDM_F16, TDM_BF16};
    for (int i = 0; i < 3; i++) {
        quant_case c = *like;
        c.codes = code_dtypes[i];
        c.last = i;
        c.shape = &groups;
        c.sharing = SHARE_VECTORS;
        dynamic_case(device, NULL, &c, reals[(i + like->last) % 3]);
        c.shape = test_is_small() ? &little : &matrix;
        c.sharing = SHARE_COLUMNS;
        dynamic_case(device, NULL, &c, reals[(i + like->last) % 3]);
    }
    quant_case c = *like;
    c.shape = &batch;
    c.sharing = SHARE_FIRST;
    if (!test_is_small())
        dynamic_case(device, NULL, &c, reals[like->last]);
}

DEVICE_TEST(groups_and_columns) {
    const quant_case cases[] = {
        {.scale = TDM_F32, .zero = TDM_DTYPE_NONE, .codes = TDM_S8, .last = DATA_REALS},
        {.scale = TDM_F16, .zero = TDM_S32, .codes = TDM_U8, .last = DATA_UNIT},
        {.scale = TDM_BF16, .zero = TDM_S8, .codes = TDM_S8, .last = DATA_WIDE, .x = TEST_PADDED},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        groups_and_columns_of(device, &cases[i]);
}

/* Columns that stand apart in the source, and lie together in the target; and parameters that stand apart. */
DEVICE_TEST(columns_with_gaps) {
    static const op_shape matrix = {2, {131, 530}}, little = {2, {64, 1024}};
    static const test_placement placements[] = {TEST_DENSE, TEST_TRANSPOSED, TEST_SPREAD};
    static const tdm_dtype reals[] = {TDM_F32, TDM_F16, TDM_BF16};
    for (int i = 0; i < (test_is_small() ? 3 : 6); i++) {
        const quant_case c = {.shape = test_is_small() ? &little : &matrix,
                              .sharing = SHARE_COLUMNS,
                              .codes = code_dtypes[i % 3],
                              .scale = TDM_F32,
                              .zero = TDM_S32,
                              .x = placements[i % 3],
                              .parameters = i % 3 == 0 ? TEST_SPREAD : TEST_DENSE,
                              .last = DATA_WIDE};
        dynamic_case(device, NULL, &c, reals[(i + i / 3) % 3]);
    }
}

/* Groups along columns: strips of several widths, what is left of them, a last group that is shorter, and parameters of each kind. */
DEVICE_TEST(groups_along_columns) {
    static const op_shape bands = {2, {70, 1190}}, tall = {2, {300, 330}}, little = {2, {6, 150}};
    static const tdm_dtype reals[] = {TDM_F32, TDM_F16, TDM_BF16};
    static const tdm_dtype zeros[] = {TDM_DTYPE_NONE, TDM_S8, TDM_S32};
    static const tdm_dtype scales[] = {TDM_F32, TDM_F32, TDM_F16};
    for (int i = 0; i < (test_is_small() ? 3 : 18); i++) {
        const quant_case c = {.shape = test_is_small() ? &little
                                       : i % 6 < 3     ? &bands
                                                       : &tall,
                              .sharing = test_is_small() ? SHARE_FIRST_GROUPS
                                         : i % 6 < 3     ? SHARE_BANDS
                                                         : SHARE_TALL_BANDS,
                              .codes = code_dtypes[i % 3],
                              .scale = scales[i / 3 % 3],
                              .zero = zeros[i / 6],
                              .y = i % 2 == 0 ? TEST_DENSE : TEST_PADDED,
                              .parameters = i < 15 ? TEST_DENSE : TEST_SPREAD,
                              .last = DATA_BANDS};
        dynamic_case(device, NULL, &c, reals[(i + i / 3) % 3]);
    }
}

/* More rows for each worker than one block of short groups: of half a line, of lines, of both, of vectors and of less, then long ones. */
DEVICE_TEST(rows_after_rows) {
    static const int64_t lengths[] = {32, 64, 128, 16, 48, 96, 160, 224, 256, 30, 300};
    static const tdm_dtype reals[] = {TDM_F32, TDM_F16, TDM_BF16};
    static const tdm_dtype scales[] = {TDM_F32, TDM_F32, TDM_F16};
    const int64_t units = device->info.compute_units < 16 ? device->info.compute_units : 16;
    const int count = (int)(sizeof lengths / sizeof lengths[0]);
    for (int i = 0; i < (test_is_small() ? 3 : 6 * count); i++) {
        const op_shape shape = {2,
                                {test_is_small() ? 70 : 149 * 4 * units + 19, lengths[i % count]}};
        const int kind = i / count;
        const quant_case c = {.shape = &shape,
                              .sharing = SHARE_ROWS,
                              .codes = code_dtypes[(i + kind / 3) % 3],
                              .scale = scales[(i + kind) % 3],
                              .zero = (i + kind) % 2 == 0 ? TDM_DTYPE_NONE : TDM_S8,
                              .x = i % 5 == 3 ? TEST_PADDED : TEST_DENSE,
                              .y = i % 4 == 3 ? TEST_PADDED : TEST_DENSE,
                              .last = i % 7 == 5 ? DATA_LARGEST : DATA_RUNS};
        dynamic_case(device, NULL, &c, reals[kind % 3]);
    }
}

/* Columns in several strips, and rows and groups of whole lines, of whole vectors and of neither: codes that need no bounds of their
 * own, and such as do. */
static void finite_case(const test_device *device, int form, int parameters, int data) {
    static const op_shape bands = {2, {41, 2300}}, rows = {2, {11, 311}}, wide = {2, {70, 128}},
                          tall = {2, {260, 620}}, little = {2, {9, 176}};
    static const op_shape *const shapes[] = {&bands, &rows, &wide, &wide, &tall};
    static const quant_sharing sharings[] = {SHARE_BANDS, SHARE_ROWS, SHARE_VECTORS, SHARE_ROWS,
                                             SHARE_TALL_BANDS};
    static const tdm_dtype reals[] = {TDM_F16, TDM_BF16, TDM_F32};
    static const tdm_dtype scales[] = {TDM_F16, TDM_BF16, TDM_F32};
    const bool odd = (form + data) % 2 != 0;
    const tdm_dtype zeros[] = {TDM_DTYPE_NONE, TDM_S8, odd ? TDM_S32 : TDM_DTYPE_NONE};
    const quant_case c = {.shape = test_is_small() ? &little : shapes[form],
                          .sharing = sharings[form],
                          .codes = code_dtypes[parameters == 1 && odd ? 0 : parameters],
                          .scale = scales[parameters],
                          .zero = zeros[parameters],
                          .y = odd ? TEST_DENSE : TEST_PADDED,
                          .last = data};
    dynamic_case(device, NULL, &c, reals[(form + parameters + data) % 3]);
}

DEVICE_TEST(numbers_of_one_size) {
    for (int form = 0; form < (test_is_small() ? 3 : 5); form++)
        for (int size = 0; size < 4; size++)
            finite_case(device, form, 0, DATA_SIZES + size);
    for (int form = 0; form < (test_is_small() ? 0 : 5); form++)
        for (int parameters = 1; parameters < 3; parameters++)
            finite_case(device, form, parameters, DATA_SIZES + (form + parameters) % 4);
}

DEVICE_TEST(nan_among_finite_numbers) {
    for (int form = 0; form < (test_is_small() ? 3 : 5); form++)
        for (int parameters = 0; parameters < 3; parameters++)
            finite_case(device, form, parameters, DATA_NAN);
}

/* Numbers whose range is beyond what f32 holds, in each of the forms. */
DEVICE_TEST(largest_numbers) {
    static const op_shape rows = {2, {5, 70}}, groups = {2, {5, 64}}, matrix = {2, {131, 530}},
                          tensor = {2, {129, 140}};
    const struct {
        const op_shape *shape;
        quant_sharing sharing;
    } forms[] = {{&rows, SHARE_ROWS},
                 {&groups, SHARE_VECTORS},
                 {&tensor, SHARE_ALL},
                 {test_is_small() ? &rows : &matrix, SHARE_COLUMNS}};
    for (int i = 0; i < 12; i++) {
        /* The scale in bf16 that is nearest is infinite 255 times. */
        const bool narrow = i % 3 == 2;
        const quant_case c = {.shape = forms[i / 3].shape,
                              .sharing = forms[i / 3].sharing,
                              .codes = narrow ? TDM_U8 : TDM_S8,
                              .scale = narrow ? TDM_BF16 : TDM_F32,
                              .zero = narrow       ? TDM_U8
                                      : i % 3 == 0 ? TDM_DTYPE_NONE
                                                   : TDM_S8,
                              .last = DATA_LARGEST};
        dynamic_case(device, NULL, &c, TDM_F32);
    }
}

/* ---- recorded -------------------------------------------------------------------------------- */

/* A recorded call takes no memory: of columns and of a long row it is one launch, which else are several. */
static void recorded_case(const test_device *device, const op_shape *shape, quant_sharing sharing) {
    quant_carrier carrier;
    test_array x;
    tdm_graph *graph;
    quant_carrier_create(&carrier, device, TDM_U8, shape->rank, shape->shape, TEST_DENSE, sharing,
                         TDM_F32, TDM_U8, TEST_DENSE);
    test_array_create(&x, device, TDM_F32, shape->rank, shape->shape, TEST_DENSE);
    fill(&x, &carrier, DATA_REALS);
    TEST_OK(tdm_stream_begin_recording(device->stream));
    const tdm_status status = tdm_tensor_quantize_minmax(device->stream, x.tensor, carrier.tensor);
    TEST_OK(tdm_stream_end_recording(device->stream, &graph));
    if (status == TDM_OK) {
        test_array_expect_unchanged(&carrier.codes);
        assert_int_equal(tdm_graph_command_count(graph), 1);
        TEST_OK(tdm_graph_launch(graph, device->stream));
        check(&carrier, &x);
    } else if (status != TDM_UNSUPPORTED || (device->info.capabilities & TDM_CAP_LONG_LOOPS) != 0) {
        test_case_fail("%s", tdm_last_detail());
    }
    tdm_graph_destroy(graph);
    test_array_destroy(&x);
    quant_carrier_destroy(&carrier);
}

DEVICE_TEST(recorded_calls) {
    static const op_shape columns = {2, {131, 530}}, row = {1, {18001}}, matrix = {2, {129, 140}};
    recorded_case(device, &columns, SHARE_COLUMNS);
    recorded_case(device, &row, SHARE_ALL);
    quant_carrier carrier;
    test_array x;
    quant_carrier_create(&carrier, device, TDM_S8, 2, matrix.shape, TEST_DENSE, SHARE_ALL, TDM_F32,
                         TDM_DTYPE_NONE, TEST_DENSE);
    test_array_create(&x, device, TDM_F32, 2, matrix.shape, TEST_DENSE);
    tdm_graph *graph;
    TEST_OK(tdm_stream_begin_recording(device->stream));
    TEST_REFUSED(tdm_tensor_quantize_minmax(device->stream, x.tensor, carrier.tensor),
                 TDM_BAD_STATE, "quantize_minmax");
    TEST_OK(tdm_stream_end_recording(device->stream, &graph));
    tdm_graph_destroy(graph);
    test_array_destroy(&x);
    quant_carrier_destroy(&carrier);
}

/* Groups and tensors that several items and several work-groups share, with and without ends of fewer elements than a vector. */
DEVICE_TEST(shared_by_items) {
    static const op_shape rows = {2, {3, 5003}}, even_rows = {2, {2, 1024}}, tensor = {1, {18001}},
                          matrix = {2, {129, 140}};
    static const op_shape *const shapes[] = {&rows, &even_rows, &tensor, &matrix};
    static const tdm_dtype reals[] = {TDM_F32, TDM_F16, TDM_BF16};
    for (int i = 0; i < 12; i++) {
        const op_shape *const shape = shapes[i % 4];
        quant_case c = {.shape = shape,
                        .sharing = i % 4 < 2 ? SHARE_ROWS : SHARE_ALL,
                        .codes = code_dtypes[i % 3],
                        .scale = TDM_F32,
                        .zero = i % 2 == 0 ? TDM_DTYPE_NONE : TDM_S32,
                        .x = i < 4   ? TEST_DENSE
                             : i < 8 ? TEST_PADDED
                                     : TEST_OFFSET,
                        .y = i < 8 ? TEST_DENSE : TEST_OFFSET,
                        .last = i % DATA_CONSTANT};
        if (c.codes == TDM_S4 && shape->shape[shape->rank - 1] % 2 != 0 && shape->rank > 1)
            c.codes = TDM_S8; /* rows would share bytes */
        dynamic_case(device, NULL, &c, reals[i / 4]);
    }
}

/* Whichever item looks at the largest number, in every row of the table. */
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

static void the_largest_number_is_anywhere(void **state) {
    (void)state;
    for (int d = 0; d < test_device_count(); d++)
        for (int v = 0; v < tdm_variant_count; v++) {
            const tdm_variant *const variant = &tdm_variants[v];
            if ((variant->op == TDM_OP_QUANTIZE_DYNAMIC || variant->op == TDM_OP_QUANTIZE_RANGE) &&
                test_can_run(test_device_at(d), variant))
                peaks_of(test_device_at(d), variant);
        }
}

/* Blocks that hold nothing have parameters all the same: those of a block of zeros. */
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
            check(&carrier, &x);
            test_array_destroy(&x);
            quant_carrier_destroy(&carrier);
        }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_dynamic),       cmocka_unit_test(every_range),
        cmocka_unit_test(groups_and_columns),  cmocka_unit_test(columns_with_gaps),
        cmocka_unit_test(largest_numbers),     cmocka_unit_test(recorded_calls),
        cmocka_unit_test(shared_by_items),     cmocka_unit_test(the_largest_number_is_anywhere),
        cmocka_unit_test(empty_blocks),        cmocka_unit_test(groups_along_columns),
        cmocka_unit_test(numbers_of_one_size), cmocka_unit_test(nan_among_finite_numbers),
        cmocka_unit_test(rows_after_rows),
    };
    return cmocka_run_group_tests_name("quantize dynamic", tests, test_devices_setup,
                                       test_devices_teardown);
}
