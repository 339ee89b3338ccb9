/* Every variant of gather and scatter is compared with a loop on the host on every device, bit for
 * bit. Tables are plain or quantized.
 * ctest: device timeout=240 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "api/device/core.h"
#include "tests/support/devices/device_cases.h"
#include "tests/support/devices/variant_cases.h"
#include "tests/support/quant/quant_carrier.h"
#include "tests/support/test_array.h"
#include "tests/support/test_case.h"

#define DIMS(...) ((const int64_t[]){__VA_ARGS__})

typedef struct gather_case {
    int rank;
    int64_t table[TDM_MAX_RANK];
    int axis;
    int index_rank;
    int64_t indices[TDM_MAX_RANK];
} gather_case;

/* Slow implementations use only the first ones. */
static const gather_case cases[] = {
    {2, {9, 37}, 0, 1, {5}},
    {2, {5, 7}, 1, 1, {21}},
    {3, {3, 6, 18}, 1, 2, {2, 3}},
    {2, {8, 48}, 0, 0, {0}},
    {1, {23}, 0, 2, {3, 17}},
    {8, {2, 1, 3, 1, 2, 1, 1, 5}, 2, 1, {4}},
    {3, {4, 3, 16}, 0, 2, {3, 2}},
    {3, {5, 2, 33}, 2, 1, {6}},
    {1, {4}, 0, 0, {0}},
    {2, {0, 20}, 0, 1, {3}},
    {2, {4, 0}, 0, 1, {3}},
    {2, {4, 20}, 0, 2, {3, 0}},
    {4, {2, 3, 5, 20}, 1, 3, {2, 1, 4}},
    {2, {40, 1031}, 0, 1, {300}},
    {2, {1009, 1}, 0, 1, {700}},
};

enum {
    CASES = sizeof cases / sizeof cases[0],
    SMALL_CASES = 6,
    DTYPES_OF_SIZE = 3
};

/* This table has the dtypes of each element size. */
static tdm_dtype dtype_of(int bytes, int which) {
    static const tdm_dtype dtypes[][DTYPES_OF_SIZE] = {{TDM_S8, TDM_U8, TDM_BOOL},
                                                       {TDM_F16, TDM_BF16, TDM_F16},
                                                       {TDM_F32, TDM_S32, TDM_F32},
                                                       {TDM_S64, TDM_F64, TDM_S64}};
    return dtypes[bytes == 1 ? 0 : bytes == 2 ? 1 : bytes == 4 ? 2 : 3][which];
}

static int64_t product(const int64_t *shape, int from, int to) {
    int64_t count = 1;
    for (int d = from; d < to; d++)
        count *= shape[d];
    return count;
}

static int output_shape(const gather_case *c, int64_t shape[TDM_MAX_RANK]) {
    int rank = 0;
    for (int d = 0; d < c->axis; d++)
        shape[rank++] = c->table[d];
    for (int d = 0; d < c->index_rank; d++)
        shape[rank++] = c->indices[d];
    for (int d = c->axis + 1; d < c->rank; d++)
        shape[rank++] = c->table[d];
    return rank;
}

/* Indices are in [-n, n). With `outside`, every third one is outside: just beyond the range, or far
 * beyond it. */
static void fill_indices(test_array *indices, int64_t n, bool outside, uint64_t seed) {
    test_random random = {seed};
    for (int64_t i = 0; i < test_array_count(indices); i++) {
        const int64_t beyond[] = {n, -n - 1, INT32_MAX, INT32_MIN};
        const bool is_outside = n == 0 || (outside && i % 3 == 1);
        const int64_t index = is_outside ? beyond[test_random_bits(&random) % 4]
                                         : test_random_int(&random, -n, n - 1);
        test_array_put(indices, i, (double)index);
    }
    test_array_send(indices);
}

/* Returns the row-major index in the table of an element of y, or -1 if its index is outside. */
static int64_t source_of(const gather_case *c, const test_array *indices, int64_t element) {
    const int64_t after = product(c->table, c->axis + 1, c->rank);
    const int64_t count = product(c->indices, 0, c->index_rank), n = c->table[c->axis];
    const int64_t index = (int64_t)test_array_get(indices, element / after % count);
    const int64_t position = index < 0 ? index + n : index;
    if (position < 0 || position >= n)
        return -1;
    return (element / (after * count) * n + position) * after + element % after;
}

static void check(const gather_case *c, const test_array *table, const test_array *indices,
                  const test_array *y) {
    static const unsigned char all_set[8] = {255, 255, 255, 255, 255, 255, 255, 255};
    const size_t bytes = (size_t)tdm_dtype_info(y->layout.dtype)->unit_bytes;
    for (int64_t i = 0; i < test_array_count(y); i++) {
        const int64_t source = source_of(c, indices, i);
        const void *const expected = source < 0 ? all_set : test_array_bits(table, source);
        if (memcmp(test_array_fetched_bits(y, i), expected, bytes) != 0)
            test_case_fail("element %lld is not element %lld of the table", (long long)i,
                           (long long)source);
    }
}

enum {
    F_CASE,
    F_TABLE,
    F_INDICES,
    F_Y,
    F_DTYPE,
    F_INDEX_64,
    F_OUTSIDE,
    FACTORS
};

static void run_case(const test_device *device, const tdm_variant *variant, const gather_case *c,
                     const int row[]) {
    test_array table, indices, y;
    int64_t shape[TDM_MAX_RANK];
    const int rank = output_shape(c, shape);
    const tdm_dtype dtype = dtype_of(variant->parameters[0], row[F_DTYPE]);
    test_array_create(&table, device, dtype, c->rank, c->table, (test_placement)row[F_TABLE]);
    test_array_create(&indices, device, row[F_INDEX_64] ? TDM_S64 : TDM_S32, c->index_rank,
                      c->indices, (test_placement)row[F_INDICES]);
    test_array_create(&y, device, dtype, rank, shape, (test_placement)row[F_Y]);
    test_array_fill(&table, TEST_DATA_ANY_BITS, 31);
    fill_indices(&indices, c->table[c->axis], row[F_OUTSIDE] != 0, 5);
    test_array_send(&y);
    tdm_force_variant(variant->name);
    const tdm_status status =
        tdm_gather(device->stream, table.tensor, c->axis, indices.tensor, y.tensor);
    tdm_force_variant(NULL);
    // Variants with several lanes accept rows that are contiguous in the table and in y.
    const bool contiguous = row[F_TABLE] <= TEST_PADDED && row[F_Y] <= TEST_PADDED &&
                            c->axis < c->rank - 1 && c->table[c->rank - 1] > 1;
    if (status != TDM_UNSUPPORTED || variant->parameters[1] == 1 || contiguous) {
        TEST_OK(status);
        test_array_fetch(&y);
        check(c, &table, &indices, &y);
        if (test_array_count(&y) > 0)
            test_case_end();
    }
    test_array_destroy(&table);
    test_array_destroy(&indices);
    test_array_destroy(&y);
}

/* ---- scatter ---- */

/* Indices are distinct, some of them negative. With `outside`, or if there are no more, an index is
 * outside. */
static void fill_distinct_indices(test_array *indices, int64_t n, bool outside) {
    for (int64_t i = 0; i < test_array_count(indices); i++) {
        const int64_t position = n - 1 - i;
        const int64_t index = i % 2 == 0 ? position : position - n;
        const bool is_outside = position < 0 || (outside && i % 3 == 1);
        test_array_put(indices, i, (double)(!is_outside ? index : i % 2 == 0 ? n + i : -n - 1 - i));
    }
    test_array_send(indices);
}

static void check_scattered(const gather_case *c, const test_array *x, const test_array *indices,
                            const test_array *y) {
    const int64_t count = test_array_count(y);
    const size_t bytes = (size_t)tdm_dtype_info(y->layout.dtype)->unit_bytes;
    int64_t *const sources = malloc(((size_t)count + 1) * sizeof *sources);
    assert_non_null(sources);
    for (int64_t i = 0; i < count; i++)
        sources[i] = -1;
    for (int64_t i = 0; i < test_array_count(x); i++) {
        const int64_t target = source_of(c, indices, i);
        if (target >= 0)
            sources[target] = i;
    }
    for (int64_t i = 0; i < count; i++) {
        const void *const expected =
            sources[i] < 0 ? test_array_bits(y, i) : test_array_bits(x, sources[i]);
        if (memcmp(test_array_fetched_bits(y, i), expected, bytes) != 0)
            test_case_fail("element %lld is not element %lld of x", (long long)i,
                           (long long)sources[i]);
    }
    free(sources);
}

/* The table of the case is y. */
static void run_scatter(const test_device *device, const tdm_variant *variant, const gather_case *c,
                        const int row[]) {
    test_array x, indices, y;
    int64_t shape[TDM_MAX_RANK];
    const int rank = output_shape(c, shape);
    const tdm_dtype dtype = dtype_of(variant->parameters[0], row[F_DTYPE]);
    test_array_create(&y, device, dtype, c->rank, c->table, (test_placement)row[F_TABLE]);
    test_array_create(&indices, device, row[F_INDEX_64] ? TDM_S64 : TDM_S32, c->index_rank,
                      c->indices, (test_placement)row[F_INDICES]);
    test_array_create(&x, device, dtype, rank, shape, (test_placement)row[F_Y]);
    test_array_fill(&x, TEST_DATA_ANY_BITS, 31);
    test_array_fill(&y, TEST_DATA_ANY_BITS, 32);
    fill_distinct_indices(&indices, c->table[c->axis], row[F_OUTSIDE] != 0);
    tdm_force_variant(variant->name);
    const tdm_status status =
        tdm_scatter(device->stream, x.tensor, c->axis, indices.tensor, y.tensor);
    tdm_force_variant(NULL);
    const bool contiguous = row[F_TABLE] <= TEST_PADDED && row[F_Y] <= TEST_PADDED &&
                            c->axis < c->rank - 1 && c->table[c->rank - 1] > 1;
    if (status != TDM_UNSUPPORTED || variant->parameters[1] == 1 || contiguous) {
        TEST_OK(status);
        test_array_fetch(&y);
        check_scattered(c, &x, &indices, &y);
        if (test_array_count(&x) > 0)
            test_case_end();
    }
    test_array_destroy(&x);
    test_array_destroy(&indices);
    test_array_destroy(&y);
}

static void one_case(const test_device *device, const tdm_variant *variant, const int row[]) {
    const gather_case *const c = &cases[row[F_CASE]];
    char table[128], indices[128];
    if (test_case_begin(device, variant->name, "%s %s axis %d by %s %s %s%s to %s",
                        test_shape_text(c->rank, c->table, table),
                        test_placement_name((test_placement)row[F_TABLE]), c->axis,
                        test_shape_text(c->index_rank, c->indices, indices),
                        test_placement_name((test_placement)row[F_INDICES]),
                        row[F_INDEX_64] ? "s64" : "s32", row[F_OUTSIDE] ? " some outside" : "",
                        test_placement_name((test_placement)row[F_Y]))) {
        if (variant->op == TDM_OP_SCATTER)
            run_scatter(device, variant, c, row);
        else
            run_case(device, variant, c, row);
    }
}

static void every_variant(tdm_op op) {
    const int levels[FACTORS] = {test_is_small() ? SMALL_CASES : CASES,
                                 TEST_PLACEMENTS,
                                 TEST_PLACEMENTS,
                                 TEST_PLACEMENTS,
                                 DTYPES_OF_SIZE,
                                 2,
                                 2};
    test_every_variant(op, FACTORS, levels, one_case);
}

TEST(every_variant_of_gather) {
    every_variant(TDM_OP_GATHER);
}

TEST(every_variant_of_scatter) {
    every_variant(TDM_OP_SCATTER);
}

/* ---- quantized tables ---- */

enum {
    Q_CASE,
    Q_TABLE,
    Q_PARAMETERS,
    Q_Y,
    Q_SHARING,
    Q_SCALE,
    Q_ZERO,
    Q_TYPE,
    Q_OUTSIDE,
    Q_FACTORS
};

static const tdm_dtype float_dtypes[] = {TDM_F32, TDM_F16, TDM_BF16};
static const tdm_dtype zero_dtypes[] = {TDM_DTYPE_NONE, TDM_S32, TDM_S8, TDM_U8};

static void check_dequantized(const gather_case *c, const quant_carrier *table,
                              const test_array *indices, const test_array *y) {
    for (int64_t i = 0; i < test_array_count(y); i++) {
        const int64_t source = source_of(c, indices, i);
        const double actual = test_array_fetched(y, i);
        if (source < 0) {
            if (!isnan(actual))
                test_case_fail("element %lld is %g, its index is outside", (long long)i, actual);
            continue;
        }
        const float expected = tdm_quant_dequantize((int32_t)test_array_get(&table->codes, source),
                                                    quant_carrier_parameters(table, source));
        if (!test_array_is_rounded(y, i, expected))
            test_case_fail("element %lld is %a, element %lld of the table is %a", (long long)i,
                           actual, (long long)source, (double)expected);
    }
}

static void run_quantized(const test_device *device, const tdm_variant *variant,
                          const gather_case *c, const int row[]) {
    quant_carrier table;
    test_array indices, y;
    int64_t shape[TDM_MAX_RANK];
    const int rank = output_shape(c, shape);
    const quant_sharing sharing = (quant_sharing)row[Q_SHARING];
    quant_carrier_create(&table, device, (tdm_dtype)variant->parameters[0], c->rank, c->table,
                         (test_placement)row[Q_TABLE], sharing, float_dtypes[row[Q_SCALE]],
                         zero_dtypes[row[Q_ZERO]], (test_placement)row[Q_PARAMETERS]);
    test_array_create(&indices, device, row[Q_SCALE] == 1 ? TDM_S64 : TDM_S32, c->index_rank,
                      c->indices, TEST_DENSE);
    test_array_create(&y, device, float_dtypes[row[Q_TYPE]], rank, shape, (test_placement)row[Q_Y]);
    test_array_fill(&table.codes, TEST_DATA_UNIT, 17);
    quant_carrier_fill_parameters(&table, 3);
    fill_indices(&indices, c->table[c->axis], row[Q_OUTSIDE] != 0, 5);
    test_array_send(&y);
    tdm_force_variant(variant->name);
    const tdm_status status =
        tdm_gather(device->stream, table.tensor, c->axis, indices.tensor, y.tensor);
    tdm_force_variant(NULL);
    const bool contiguous = row[Q_TABLE] <= TEST_PADDED && row[Q_Y] <= TEST_PADDED &&
                            c->axis < c->rank - 1 && c->table[c->rank - 1] > 1;
    const bool by_vectors =
        sharing == SHARE_ALL || sharing == SHARE_ROWS || sharing == SHARE_VECTORS;
    if (status != TDM_UNSUPPORTED || variant->parameters[1] == 1 || (contiguous && by_vectors)) {
        TEST_OK(status);
        test_array_fetch(&y);
        check_dequantized(c, &table, &indices, &y);
        if (test_array_count(&y) > 0)
            test_case_end();
    }
    quant_carrier_destroy(&table);
    test_array_destroy(&indices);
    test_array_destroy(&y);
}

static void one_quantized_case(const test_device *device, const tdm_variant *variant,
                               const int row[]) {
    const gather_case *const c = &cases[row[Q_CASE]];
    const tdm_dtype zero = zero_dtypes[row[Q_ZERO]];
    char table[128], indices[128];
    if (test_case_begin(
            device, variant->name, "%s %s %s %s by %s, axis %d by %s%s, scale %s zero %s to %s %s",
            test_shape_text(c->rank, c->table, table),
            test_placement_name((test_placement)row[Q_TABLE]),
            test_placement_name((test_placement)row[Q_PARAMETERS]),
            tdm_dtype_name((tdm_dtype)variant->parameters[0]),
            quant_sharing_name((quant_sharing)row[Q_SHARING]), c->axis,
            test_shape_text(c->index_rank, c->indices, indices),
            row[Q_OUTSIDE] ? " some outside" : "", tdm_dtype_name(float_dtypes[row[Q_SCALE]]),
            zero == TDM_DTYPE_NONE ? "none" : tdm_dtype_name(zero),
            tdm_dtype_name(float_dtypes[row[Q_TYPE]]),
            test_placement_name((test_placement)row[Q_Y])))
        run_quantized(device, variant, c, row);
}

TEST(every_variant_of_quantized_tables) {
    const int levels[Q_FACTORS] = {test_is_small() ? SMALL_CASES : CASES,
                                   TEST_PLACEMENTS,
                                   TEST_PLACEMENTS,
                                   TEST_PLACEMENTS,
                                   SHARE_VECTORS + 1,
                                   3,
                                   4,
                                   3,
                                   2};
    test_every_variant(TDM_OP_GATHER_QUANTIZED, Q_FACTORS, levels, one_quantized_case);
}

/* If y has the dtype of a quantized table, it gets the stored integers. */
DEVICE_TEST(stored_integers_are_gathered) {
    static const gather_case c = {2, {9, 37}, 0, 1, {5}};
    quant_carrier table;
    test_array indices, y;
    quant_carrier_create(&table, device, TDM_S8, 2, c.table, TEST_DENSE, SHARE_ROWS, TDM_F16,
                         TDM_DTYPE_NONE, TEST_DENSE);
    test_array_create(&indices, device, TDM_S32, 1, c.indices, TEST_DENSE);
    test_array_create(&y, device, TDM_S8, 2, DIMS(5, 37), TEST_DENSE);
    test_array_fill(&table.codes, TEST_DATA_ANY_BITS, 8);
    quant_carrier_fill_parameters(&table, 3);
    fill_indices(&indices, 9, true, 1);
    test_array_send(&y);
    TEST_OK(tdm_gather(device->stream, table.tensor, 0, indices.tensor, y.tensor));
    test_array_fetch(&y);
    check(&c, &table.codes, &indices, &y);
    quant_carrier_destroy(&table);
    test_array_destroy(&indices);
    test_array_destroy(&y);
}

DEVICE_TEST(misuse_of_quantized_tables_is_refused) {
    quant_carrier table, sums;
    test_array indices, y;
    quant_carrier_create(&table, device, TDM_S4, 2, DIMS(4, 6), TEST_DENSE, SHARE_NONE, TDM_F32,
                         TDM_S32, TEST_DENSE);
    quant_carrier_create(&sums, device, TDM_S32, 2, DIMS(4, 6), TEST_DENSE, SHARE_ALL, TDM_F32,
                         TDM_DTYPE_NONE, TEST_DENSE);
    test_array_create(&indices, device, TDM_S32, 1, DIMS(4), TEST_DENSE);
    test_array_create(&y, device, TDM_F32, 2, DIMS(4, 6), TEST_DENSE);
    tdm_tensor *zeros;
    const tdm_layout floats = {TDM_F32, 2, {4, 6}, {6, 1}};
    TEST_OK(tdm_tensor_on_buffer(tdm_tensor_buffer(table.zero.tensor),
                                 tdm_tensor_offset(table.zero.tensor), &floats, &zeros));
    tdm_stream *const s = device->stream;
    tdm_tensor *const k = indices.tensor;
    TEST_REFUSED(tdm_gather(s, sums.tensor, 0, k, y.tensor), TDM_UNSUPPORTED,
                 "no kernel for a quantized table of s32");
    TEST_REFUSED(tdm_gather(s, table.codes.tensor, 0, k, y.tensor), TDM_BAD_DTYPE,
                 "table is s4 but y is f32");
    TEST_REFUSED(tdm_gather(s, table.tensor, 0, k, table.scale.tensor), TDM_BAD_ARGUMENT,
                 "y overlaps the scales");
    TEST_REFUSED(tdm_gather(s, table.tensor, 0, k, zeros), TDM_BAD_ARGUMENT,
                 "y overlaps the zero points");
    tdm_tensor_destroy(zeros);
    quant_carrier_destroy(&table);
    quant_carrier_destroy(&sums);
    test_array_destroy(&indices);
    test_array_destroy(&y);
}

/* ---- other properties ---- */

/* The low 32 bits of these s64 indices would be inside. */
DEVICE_TEST(large_indices_are_outside) {
    test_array table, y;
    tdm_tensor *indices;
    const int64_t given[] = {1LL << 32, -(1LL << 32), INT64_MIN, INT64_MAX, -1, 0};
    test_array_create(&table, device, TDM_S32, 1, DIMS(3), TEST_DENSE);
    test_array_create(&y, device, TDM_S32, 1, DIMS(6), TEST_DENSE);
    test_array_fill(&table, TEST_DATA_SMALL_INTEGER, 4);
    test_array_put(&table, 0, 70);
    test_array_put(&table, 2, 72);
    test_array_send(&table);
    test_array_send(&y);
    TEST_OK(tdm_tensor_from_host(device->stream, TDM_S64, 1, DIMS(6), given, &indices));
    TEST_OK(tdm_gather(device->stream, table.tensor, 0, indices, y.tensor));
    test_array_fetch(&y);
    for (int i = 0; i < 6; i++)
        assert_true(test_array_fetched(&y, i) == (i < 4 ? -1.0 : i == 4 ? 72.0 : 70.0));
    tdm_tensor_destroy(indices);
    test_array_destroy(&table);
    test_array_destroy(&y);
}

/* Every launch of a graph reads the indices anew. */
DEVICE_TEST(a_recorded_gather_is_replayed) {
    static const gather_case c = {2, {9, 37}, 0, 1, {5}};
    test_array table, indices, y;
    tdm_graph *graph;
    test_array_create(&table, device, TDM_F32, 2, c.table, TEST_DENSE);
    test_array_create(&indices, device, TDM_S32, 1, c.indices, TEST_DENSE);
    test_array_create(&y, device, TDM_F32, 2, DIMS(5, 37), TEST_DENSE);
    test_array_fill(&table, TEST_DATA_ANY_BITS, 8);
    fill_indices(&indices, 9, false, 1);
    test_array_send(&y);
    TEST_OK(tdm_gather(device->stream, table.tensor, 0, indices.tensor, y.tensor));
    TEST_OK(tdm_stream_begin_recording(device->stream));
    TEST_OK(tdm_gather(device->stream, table.tensor, 0, indices.tensor, y.tensor));
    TEST_OK(tdm_stream_end_recording(device->stream, &graph));
    for (uint64_t launch = 0; launch < 2; launch++) {
        fill_indices(&indices, 9, launch == 1, 10 + launch);
        TEST_OK(tdm_graph_launch(graph, device->stream));
        test_array_fetch(&y);
        check(&c, &table, &indices, &y);
    }
    tdm_graph_destroy(graph);
    test_array_destroy(&table);
    test_array_destroy(&indices);
    test_array_destroy(&y);
}

DEVICE_TEST(misuse_is_refused) {
    test_array table, indices, y, halves, nibbles;
    test_array_create(&table, device, TDM_F32, 2, DIMS(4, 6), TEST_DENSE);
    test_array_create(&indices, device, TDM_S32, 1, DIMS(4), TEST_DENSE);
    test_array_create(&y, device, TDM_F32, 2, DIMS(4, 6), TEST_DENSE);
    test_array_create(&halves, device, TDM_F16, 2, DIMS(4, 6), TEST_DENSE);
    test_array_create(&nibbles, device, TDM_S4, 2, DIMS(4, 6), TEST_DENSE);
    test_array_send(&table);
    test_array_send(&indices);
    test_array_send(&y);
    tdm_tensor *part, *repeated, *eight_dimensions, *bits, *nibbles_of_y;
    TEST_OK(tdm_tensor_slice(y.tensor, 1, 0, 5, 1, &part));
    TEST_OK(tdm_tensor_view(y.tensor, 2, DIMS(4, 6), DIMS(0, 1), 0, &repeated));
    TEST_OK(tdm_tensor_reshape(indices.tensor, 8, DIMS(1, 1, 1, 1, 1, 1, 1, 4), &eight_dimensions));
    TEST_OK(tdm_tensor_create(device->device, TDM_S4, 2, DIMS(4, 6), &nibbles_of_y));
    const tdm_layout own_memory = {TDM_F32, 2, {4, 6}, {6, 1}};
    tdm_tensor *whole;
    TEST_OK(tdm_tensor_create(device->device, TDM_S32, 1, DIMS(24), &whole));
    TEST_OK(tdm_tensor_on_buffer(tdm_tensor_buffer(whole), 0, &own_memory, &bits));
    tdm_tensor *first_four;
    TEST_OK(tdm_tensor_slice(whole, 0, 0, 4, 1, &first_four));
    tdm_stream *const s = device->stream;
    tdm_tensor *const t = table.tensor, *const k = indices.tensor;
    TEST_REFUSED(tdm_gather(s, t, 2, k, y.tensor), TDM_BAD_ARGUMENT, "the rank of table, 2");
    TEST_REFUSED(tdm_gather(s, t, -1, k, y.tensor), TDM_BAD_ARGUMENT, "axis -1");
    TEST_REFUSED(tdm_gather(s, t, 0, k, part), TDM_BAD_SHAPE,
                 "y has shape [4, 5], this table and these indices need [4, 6]");
    TEST_REFUSED(tdm_gather(s, t, 0, eight_dimensions, y.tensor), TDM_BAD_SHAPE,
                 "9 dimensions, at most 8");
    TEST_REFUSED(tdm_gather(s, t, 0, k, halves.tensor), TDM_BAD_DTYPE, "table is f32 but y is f16");
    TEST_REFUSED(tdm_gather(s, nibbles.tensor, 0, k, nibbles_of_y), TDM_UNSUPPORTED,
                 "no kernel writes s4");
    TEST_REFUSED(tdm_gather(s, t, 0, t, y.tensor), TDM_BAD_SHAPE, "need [4, 6, 6]");
    tdm_tensor *floats;
    TEST_OK(tdm_tensor_view(t, 1, DIMS(4), DIMS(1), 0, &floats));
    TEST_REFUSED(tdm_gather(s, t, 0, floats, y.tensor), TDM_UNSUPPORTED,
                 "indices are f32; s32 and s64");
    TEST_REFUSED(tdm_gather(s, t, 0, k, repeated), TDM_BAD_ARGUMENT,
                 "elements of the output y overlap");
    TEST_REFUSED(tdm_gather(s, t, 0, k, t), TDM_BAD_ARGUMENT, "the output y overlaps table");
    TEST_REFUSED(tdm_gather(s, t, 0, first_four, bits), TDM_BAD_ARGUMENT, "y overlaps indices");
    TEST_REFUSED(tdm_gather(s, NULL, 0, k, y.tensor), TDM_BAD_ARGUMENT, "gather: table is NULL");
    TEST_REFUSED(tdm_gather(s, t, 0, NULL, y.tensor), TDM_BAD_ARGUMENT, "indices is NULL");
    TEST_REFUSED(tdm_gather(s, t, 0, k, NULL), TDM_BAD_ARGUMENT, "gather: y is NULL");
    TEST_REFUSED(tdm_gather(NULL, t, 0, k, y.tensor), TDM_BAD_ARGUMENT, "stream is NULL");
    TEST_REFUSED(tdm_scatter(s, y.tensor, 2, k, t), TDM_BAD_ARGUMENT, "the rank of y, 2");
    TEST_REFUSED(tdm_scatter(s, part, 0, k, t), TDM_BAD_SHAPE,
                 "x has shape [4, 5], this y and these indices need [4, 6]");
    TEST_REFUSED(tdm_scatter(s, halves.tensor, 0, k, t), TDM_BAD_DTYPE, "y is f32 but x is f16");
    TEST_REFUSED(tdm_scatter(s, y.tensor, 0, floats, t), TDM_UNSUPPORTED, "scatter: indices are");
    TEST_REFUSED(tdm_scatter(s, y.tensor, 0, k, repeated), TDM_BAD_ARGUMENT, "of the output y");
    TEST_REFUSED(tdm_scatter(s, t, 0, k, t), TDM_BAD_ARGUMENT, "the output y overlaps x");
    TEST_REFUSED(tdm_scatter(s, t, 0, first_four, bits), TDM_BAD_ARGUMENT, "y overlaps indices");
    TEST_REFUSED(tdm_scatter(s, NULL, 0, k, t), TDM_BAD_ARGUMENT, "scatter: x is NULL");
    test_array_expect_unchanged(&y);
    test_array_expect_unchanged(&table);
    tdm_tensor *const made[] = {part,  repeated, eight_dimensions, bits,
                                whole, floats,   first_four,       nibbles_of_y};
    for (size_t i = 0; i < sizeof made / sizeof made[0]; i++)
        tdm_tensor_destroy(made[i]);
    test_array_destroy(&table);
    test_array_destroy(&indices);
    test_array_destroy(&y);
    test_array_destroy(&halves);
    test_array_destroy(&nibbles);
}

TEST_MAIN(test_devices_setup, test_devices_teardown)
