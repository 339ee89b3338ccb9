/* Tests the concatenation of tensors along a dimension, bit for bit.
 * ctest: device debug */
#include <string.h>

#include "api/device/core.h"
#include "tests/support/devices/device_cases.h"
#include "tests/support/test_array.h"
#include "tests/support/test_case.h"

#define DIMS(...) ((const int64_t[]){__VA_ARGS__})

enum {
    MOST_PARTS = 3
};

typedef struct concat_case {
    tdm_dtype dtype;
    int rank, axis, parts;
    int64_t sizes[MOST_PARTS]; /* of the parts along the axis */
    int64_t shape[3];          /* of y */
} concat_case;

static const concat_case cases[] = {
    {TDM_F32, 1, 0, 2, {3, 4}, {7}},        {TDM_F16, 2, 0, 3, {1, 0, 5}, {6, 9}},
    {TDM_BF16, 2, 1, 2, {16, 3}, {4, 19}},  {TDM_S64, 3, 1, 3, {2, 1, 3}, {2, 6, 5}},
    {TDM_U8, 3, 2, 2, {7, 33}, {3, 2, 40}}, {TDM_BOOL, 2, 1, 1, {5}, {2, 5}},
    {TDM_S4, 2, 0, 2, {2, 3}, {5, 8}},      {TDM_F32, 2, 1, 2, {0, 0}, {3, 0}},
};

enum {
    CASES = sizeof cases / sizeof cases[0]
};

/* Returns the element of the part that becomes an element of y, and which part that is. */
static int64_t origin_of(const concat_case *c, int64_t index, int *part) {
    int64_t inner = 1;
    for (int d = c->axis + 1; d < c->rank; d++)
        inner *= c->shape[d];
    const int64_t after = index % inner;
    int64_t along = index / inner % c->shape[c->axis];
    const int64_t before = index / inner / c->shape[c->axis];
    for (*part = 0; along >= c->sizes[*part]; (*part)++)
        along -= c->sizes[*part];
    return (before * c->sizes[*part] + along) * inner + after;
}

static void check(const concat_case *c, const test_array *y, const test_array *parts) {
    for (int64_t i = 0; i < test_array_count(y); i++) {
        int part;
        const int64_t from = origin_of(c, i, &part);
        const bool same =
            c->dtype == TDM_S4
                ? test_array_fetched(y, i) == test_array_get(&parts[part], from)
                : memcmp(test_array_fetched_bits(y, i), test_array_bits(&parts[part], from),
                         (size_t)tdm_dtype_info(c->dtype)->unit_bytes) == 0;
        if (!same)
            test_case_fail("element %lld is not element %lld of part %d", (long long)i,
                           (long long)from, part);
    }
}

static void run_case(const test_device *device, const concat_case *c, test_placement inputs,
                     test_placement output) {
    test_array parts[MOST_PARTS], y;
    const tdm_tensor *tensors[MOST_PARTS];
    test_array_create(&y, device, c->dtype, c->rank, c->shape, output);
    test_array_send(&y);
    for (int i = 0; i < c->parts; i++) {
        int64_t shape[3];
        memcpy(shape, c->shape, sizeof shape);
        shape[c->axis] = c->sizes[i];
        test_array_create(&parts[i], device, c->dtype, c->rank, shape, inputs);
        test_array_fill(&parts[i], TEST_DATA_ANY_BITS, 31 + (uint64_t)i);
        tensors[i] = parts[i].tensor;
    }
    TEST_OK(tdm_concat(device->stream, tensors, c->parts, c->axis, y.tensor));
    test_array_fetch(&y);
    check(c, &y, parts);
    test_case_end();
    for (int i = 0; i < c->parts; i++)
        test_array_destroy(&parts[i]);
    test_array_destroy(&y);
}

DEVICE_TEST(parts_are_joined) {
    const test_placement placements[][2] = {{TEST_DENSE, TEST_DENSE},
                                            {TEST_OFFSET, TEST_PADDED},
                                            {TEST_TRANSPOSED, TEST_DENSE},
                                            {TEST_SPREAD, TEST_TRANSPOSED}};
    for (int i = 0; i < CASES; i++)
        for (size_t k = 0; k < sizeof placements / sizeof *placements; k++) {
            const concat_case *const c = &cases[i];
            if (c->dtype == TDM_S4 && k > 1) // other strides split bytes
                continue;
            char text[128];
            if (test_case_begin(device, NULL, "%s %s axis %d x %s y %s", tdm_dtype_name(c->dtype),
                                test_shape_text(c->rank, c->shape, text), c->axis,
                                test_placement_name(placements[k][0]),
                                test_placement_name(placements[k][1])))
                run_case(device, c, placements[k][0], placements[k][1]);
        }
}

/* If a cache grows, the first part is already where it belongs. */
DEVICE_TEST(a_part_may_be_its_own_place) {
    test_array y, second;
    tdm_tensor *first;
    test_array_create(&y, device, TDM_F32, 2, DIMS(6, 5), TEST_DENSE);
    test_array_create(&second, device, TDM_F32, 2, DIMS(2, 5), TEST_DENSE);
    test_array_fill(&y, TEST_DATA_UNIT, 1);
    test_array_fill(&second, TEST_DATA_UNIT, 2);
    TEST_OK(tdm_tensor_slice(y.tensor, 0, 0, 4, 1, &first));
    const tdm_tensor *const parts[] = {first, second.tensor};
    TEST_OK(tdm_concat(device->stream, parts, 2, 0, y.tensor));
    test_array_fetch(&y);
    for (int64_t i = 0; i < 30; i++) {
        const double expected = i < 20 ? test_array_get(&y, i) : test_array_get(&second, i - 20);
        if (test_array_fetched(&y, i) != expected)
            test_case_fail("element %lld is %g, expected %g", (long long)i,
                           test_array_fetched(&y, i), expected);
    }
    tdm_tensor_destroy(first);
    test_array_destroy(&y);
    test_array_destroy(&second);
}

/* Parameters that belong to groups of 32 rows do not limit where the parts begin. */
DEVICE_TEST(quantized_values_are_copied) {
    tdm_tensor *y;
    test_array parts[2];
    int8_t seen[40];
    TEST_OK(tdm_tensor_create_quantized(device->device, TDM_S8, 2, DIMS(40, 1), DIMS(32, 1),
                                        TDM_F32, TDM_DTYPE_NONE, &y));
    test_array_create(&parts[0], device, TDM_S8, 2, DIMS(5, 1), TEST_DENSE);
    test_array_create(&parts[1], device, TDM_S8, 2, DIMS(35, 1), TEST_DENSE);
    test_array_fill(&parts[0], TEST_DATA_ANY_BITS, 1);
    test_array_fill(&parts[1], TEST_DATA_ANY_BITS, 2);
    const tdm_tensor *const tensors[] = {parts[0].tensor, parts[1].tensor};
    TEST_OK(tdm_concat(device->stream, tensors, 2, 0, y));
    TEST_OK(tdm_tensor_read(device->stream, y, seen, sizeof seen, NULL));
    for (int i = 0; i < 40; i++) {
        const double expected =
            i < 5 ? test_array_get(&parts[0], i) : test_array_get(&parts[1], i - 5);
        if ((double)seen[i] != expected)
            test_case_fail("element %d is %d, expected %g", i, seen[i], expected);
    }
    tdm_tensor_destroy(y);
    test_array_destroy(&parts[0]);
    test_array_destroy(&parts[1]);
}

DEVICE_TEST(misuse_is_refused) {
    test_array y, a, other;
    test_array_create(&y, device, TDM_F32, 2, DIMS(4, 6), TEST_DENSE);
    test_array_create(&a, device, TDM_F32, 2, DIMS(2, 6), TEST_DENSE);
    test_array_create(&other, device, TDM_F16, 2, DIMS(2, 6), TEST_DENSE);
    test_array_send(&y);
    tdm_tensor *narrow, *wide, *overlapping;
    TEST_OK(tdm_tensor_create(device->device, TDM_F32, 2, DIMS(2, 5), &narrow));
    TEST_OK(tdm_tensor_create(device->device, TDM_F32, 2, DIMS(3, 6), &wide));
    TEST_OK(tdm_tensor_slice(y.tensor, 0, 1, 3, 1, &overlapping));
    tdm_stream *const s = device->stream;
    const tdm_tensor *parts[] = {a.tensor, a.tensor};
    TEST_REFUSED(tdm_concat(s, NULL, 2, 0, y.tensor), TDM_BAD_ARGUMENT, "parts is NULL");
    TEST_REFUSED(tdm_concat(s, parts, 0, 0, y.tensor), TDM_BAD_ARGUMENT, "count must be at least");
    TEST_REFUSED(tdm_concat(s, parts, 2, 2, y.tensor), TDM_BAD_ARGUMENT, "the rank of y, 2");
    TEST_REFUSED(tdm_concat(s, parts, 2, -1, y.tensor), TDM_BAD_ARGUMENT, "axis -1");
    TEST_REFUSED(tdm_concat(s, parts, 2, 0, NULL), TDM_BAD_ARGUMENT, "y is NULL");
    TEST_REFUSED(tdm_concat(s, parts, 1, 0, y.tensor), TDM_BAD_SHAPE,
                 "the parts have 2 elements on axis 0, y has 4");
    parts[1] = NULL;
    TEST_REFUSED(tdm_concat(s, parts, 2, 0, y.tensor), TDM_BAD_ARGUMENT, "parts[1] is NULL");
    parts[1] = other.tensor;
    TEST_REFUSED(tdm_concat(s, parts, 2, 0, y.tensor), TDM_BAD_DTYPE, "parts[1] is f16 but y is");
    parts[1] = narrow;
    TEST_REFUSED(tdm_concat(s, parts, 2, 0, y.tensor), TDM_BAD_SHAPE,
                 "parts[1] has shape [2, 5], y [4, 6]");
    parts[1] = wide;
    TEST_REFUSED(tdm_concat(s, parts, 2, 0, y.tensor), TDM_BAD_SHAPE,
                 "up to parts[1] exceed y on axis 0, of size 4");
    parts[1] = overlapping;
    TEST_REFUSED(tdm_concat(s, parts, 2, 0, y.tensor), TDM_BAD_ARGUMENT,
                 "the output y overlaps parts[1]");
    test_array_expect_unchanged(&y);
    tdm_tensor_destroy(narrow);
    tdm_tensor_destroy(wide);
    tdm_tensor_destroy(overlapping);
    test_array_destroy(&y);
    test_array_destroy(&a);
    test_array_destroy(&other);
}

TEST_MAIN(test_devices_setup, test_devices_teardown)
