#include "tests/support/test_array.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/device/core.h"
#include "quant/number_formats.h"
#include "quant/quant_reference.h"

enum {
    FENCE_ELEMENTS = 64,
    OFFSET_ELEMENTS = 5,
    PADDING = 3
};

static const char *const placement_names[TEST_PLACEMENTS] = {"dense", "offset", "padded",
                                                             "transposed", "spread"};

const char *test_placement_name(test_placement placement) {
    return placement_names[placement];
}

/* Rounds up so that no storage unit of the dtype is split. */
static int64_t whole_units(tdm_dtype dtype, int64_t elements) {
    const int64_t per_unit = tdm_dtype_info(dtype)->elements_per_unit;
    return (elements + per_unit - 1) / per_unit * per_unit;
}

void test_layout_place(tdm_layout *layout, tdm_dtype dtype, int rank, const int64_t *shape,
                       test_placement placement) {
    *layout = (tdm_layout){.dtype = dtype, .rank = rank};
    int64_t stride = placement == TEST_SPREAD ? 2 : 1;
    for (int i = 0; i < rank; i++) {
        const int d = placement == TEST_TRANSPOSED ? i : rank - 1 - i;
        layout->shape[d] = shape[d];
        layout->strides[d] = stride;
        stride *= shape[d] > 0 ? shape[d] : 1;
        const bool padded = placement == TEST_PADDED || placement == TEST_SPREAD;
        stride += padded && i == 0 ? PADDING : 0;
        stride = whole_units(dtype, stride);
    }
}

const char *test_shape_text(int rank, const int64_t *shape, char text[128]) {
    size_t used = (size_t)snprintf(text, 128, "[");
    for (int d = 0; d < rank && used < 100; d++) {
        used += (size_t)snprintf(text + used, 128 - used, d > 0 ? ",%lld" : "%lld",
                                 (long long)shape[d]);
    }
    snprintf(text + used, 128 - used, "]");
    return text;
}

static size_t unit_bytes(const test_array *array) {
    return (size_t)tdm_dtype_info(array->layout.dtype)->unit_bytes;
}

static bool is_packed(const test_array *array) {
    return tdm_dtype_info(array->layout.dtype)->elements_per_unit > 1;
}

int64_t test_array_count(const test_array *array) {
    int64_t count = 1;
    for (int d = 0; d < array->layout.rank; d++)
        count *= array->layout.shape[d];
    return count;
}

/* Returns the number of elements from the first one to the last one, both included. */
static int64_t extent_of(const tdm_layout *layout) {
    int64_t last = 0;
    for (int d = 0; d < layout->rank; d++) {
        if (layout->shape[d] == 0)
            return 0;
        last += (layout->shape[d] - 1) * layout->strides[d];
    }
    return last + 1;
}

/*
 * Returns the offset of logical element `index` in the buffer, in elements. Oracles call this for
 * most elements, so the function skips the divisions for dense arrays.
 */
static size_t place_of(const test_array *array, int64_t index) {
    int64_t place = array->offset;
    if (tdm_layout_is_contiguous(&array->layout))
        return (size_t)(place + index);
    for (int d = array->layout.rank - 1; d >= 0; d--) {
        place += index % array->layout.shape[d] * array->layout.strides[d];
        index /= array->layout.shape[d];
    }
    return (size_t)place;
}

static void poison(test_array *array) {
    const tdm_dtype_class kind = tdm_dtype_info(array->layout.dtype)->kind;
    memset(array->image, kind == TDM_CLASS_FLOAT ? 0xff : 0xa5, array->bytes);
}

void test_array_create_layout(test_array *array, const test_device *device,
                              const tdm_layout *layout, int64_t offset) {
    *array = (test_array){.device = device, .layout = *layout, .offset = FENCE_ELEMENTS + offset};
    array->bytes = (size_t)(2 * FENCE_ELEMENTS + offset + extent_of(layout)) * unit_bytes(array);
    array->image = malloc(array->bytes);
    array->fetched = malloc(array->bytes);
    if (array->image == NULL || array->fetched == NULL)
        test_case_fail("no host memory for %zu bytes", array->bytes);
    poison(array);
    TEST_OK(tdm_buffer_create(device->device, array->bytes, &array->buffer));
    TEST_OK(tdm_tensor_on_buffer(array->buffer, array->offset, layout, &array->tensor));
}

void test_array_create(test_array *array, const test_device *device, tdm_dtype dtype, int rank,
                       const int64_t *shape, test_placement placement) {
    tdm_layout layout;
    test_layout_place(&layout, dtype, rank, shape, placement);
    const int64_t offset = whole_units(dtype, OFFSET_ELEMENTS);
    test_array_create_layout(array, device, &layout, placement == TEST_OFFSET ? offset : 0);
}

void test_array_destroy(test_array *array) {
    tdm_tensor_destroy(array->tensor);
    tdm_buffer_destroy(array->buffer);
    free(array->image);
    free(array->fetched);
    *array = (test_array){0};
}

void test_array_put(test_array *array, int64_t index, double value) {
    const size_t place = place_of(array, index);
    if (is_packed(array))
        tdm_quant_set(array->layout.dtype, array->image, (int64_t)place, (int32_t)value);
    else
        tdm_number_set(array->layout.dtype, array->image, place, value);
}

static double number_in(const test_array *array, const unsigned char *image, int64_t index) {
    const size_t place = place_of(array, index);
    return is_packed(array) ? (double)tdm_quant_get(array->layout.dtype, image, (int64_t)place)
                            : tdm_number_get(array->layout.dtype, image, place);
}

double test_array_get(const test_array *array, int64_t index) {
    return number_in(array, array->image, index);
}

double test_array_fetched(const test_array *array, int64_t index) {
    return number_in(array, array->fetched, index);
}

bool test_array_is_rounded(const test_array *array, int64_t index, float result) {
    unsigned char bytes[8];
    const tdm_dtype dtype = array->layout.dtype;
    const double actual = test_array_fetched(array, index);
    tdm_number_set(dtype, bytes, 0, (double)result);
    const double rounded = tdm_number_get(dtype, bytes, 0);
    if (actual == rounded || (isnan(actual) && isnan(rounded)))
        return true;
    if (dtype == TDM_F16)
        return strcmp(array->device->info.driver_family, "rusticl") == 0 &&
               fabs(actual - rounded) <= fmax(fabs(rounded) * 0x1p-10, 0x1p-24);
    return actual == 0 && fabsf(result) < FLT_MIN;
}

const void *test_array_bits(const test_array *array, int64_t index) {
    return array->image + place_of(array, index) * unit_bytes(array);
}

const void *test_array_fetched_bits(const test_array *array, int64_t index) {
    return array->fetched + place_of(array, index) * unit_bytes(array);
}

/* Fills with random nibbles, whatever the kind of the data is. */
static void fill_packed(test_array *array, uint64_t seed) {
    test_random random = {seed};
    for (int64_t i = 0; i < test_array_count(array); i++)
        test_array_put(array, i, (double)test_random_int(&random, -8, 7));
    test_array_send(array);
}

/*
 * Values are generated densely, so that every placement of a shape holds the same logical values.
 */
void test_array_fill(test_array *array, test_data_kind kind, uint64_t seed) {
    if (is_packed(array)) {
        fill_packed(array, seed);
        return;
    }
    const size_t count = (size_t)test_array_count(array);
    const size_t unit = unit_bytes(array);
    unsigned char *const values = malloc(count * unit + 1);
    if (values == NULL)
        test_case_fail("no host memory for %zu elements", count);
    test_data_fill(array->layout.dtype, values, count, kind, seed);
    for (size_t i = 0; i < count; i++)
        memcpy(array->image + place_of(array, (int64_t)i) * unit, values + i * unit, unit);
    free(values);
    test_array_send(array);
}

void test_array_send(test_array *array) {
    TEST_OK(tdm_buffer_write(array->device->stream, array->buffer, 0, array->image, array->bytes));
    TEST_OK(tdm_stream_synchronize(array->device->stream));
}

static void read_back(test_array *array) {
    TEST_OK(tdm_buffer_read(array->device->stream, array->buffer, 0, array->fetched, array->bytes));
    TEST_OK(tdm_stream_synchronize(array->device->stream));
}

static void expect_same_bytes(const test_array *array, const unsigned char *expected) {
    for (size_t i = 0; i < array->bytes; i++) {
        if (array->fetched[i] != expected[i]) {
            const long long element = (long long)(i / unit_bytes(array)) - array->offset;
            test_case_fail(
                "place %lld, counted from the tensor's first element, was 0x%02x and became "
                "0x%02x",
                element, expected[i], array->fetched[i]);
        }
    }
}

void test_array_fetch(test_array *array) {
    read_back(array);
    /*
     * The layout's own elements may differ: copy them as fetched. All other bytes must be
     * unchanged.
     */
    unsigned char *const expected = malloc(array->bytes);
    if (expected == NULL)
        test_case_fail("no host memory for %zu bytes", array->bytes);
    memcpy(expected, array->image, array->bytes);
    const size_t unit = unit_bytes(array);
    const int64_t count = test_array_count(array);
    for (int64_t i = 0; i < count; i++) {
        const size_t place = place_of(array, i), at = place * unit;
        if (is_packed(array))
            tdm_quant_set(array->layout.dtype, expected, (int64_t)place,
                          tdm_quant_get(array->layout.dtype, array->fetched, (int64_t)place));
        else
            memcpy(expected + at, array->fetched + at, unit);
    }
    expect_same_bytes(array, expected);
    free(expected);
}

void test_array_expect_unchanged(test_array *array) {
    read_back(array);
    expect_same_bytes(array, array->image);
}
