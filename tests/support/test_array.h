/*
 * A tensor of any layout inside a poisoned, fenced buffer, with its image on the host.
 *
 *      fence | offset | elements and the gaps between them | fence
 *
 * Everything starts out poisoned (NaN for floats, 0xa5 bytes for integers). After an operation,
 * test_array_fetch reads the whole buffer back and fails the running case if anything but the
 * layout's own elements changed. Rows of s4 are placed at whole bytes; what shares a byte with an element is a gap.
 */
#ifndef TANDEM_TESTS_SUPPORT_TEST_ARRAY_H
#define TANDEM_TESTS_SUPPORT_TEST_ARRAY_H

#include "tests/support/devices/test_devices.h"
#include "tests/support/test_data.h"

/* How a shape is laid out. */
typedef enum test_placement {
    TEST_DENSE,      /* row-major, no gaps */
    TEST_OFFSET,     /* dense, a few elements into its space: breaks vector alignment */
    TEST_PADDED,     /* row-major, each row longer than the shape */
    TEST_TRANSPOSED, /* the first dimension is the contiguous one */
    TEST_SPREAD,     /* every second element of the last dimension, with padding */
    TEST_PLACEMENTS
} test_placement;

const char *test_placement_name(test_placement placement);

typedef struct test_array {
    const test_device *device;
    tdm_layout layout;
    int64_t offset;         /* of the first element, from the buffer's start */
    size_t bytes;           /* of the whole buffer */
    unsigned char *image;   /* the buffer as it should be: poison and what was put */
    unsigned char *fetched; /* the buffer as it was read back */
    tdm_buffer *buffer;
    tdm_tensor *tensor;
} test_array;

/* Strides of a shape under a placement. */
void test_layout_place(tdm_layout *layout, tdm_dtype dtype, int rank, const int64_t *shape,
                       test_placement placement);

/* "[3, 1, 5]" of a shape, in a buffer of the caller. */
const char *test_shape_text(int rank, const int64_t *shape, char text[128]);

/* Create the buffer (not yet written) and the tensor. Fails the running case if it cannot. */
void test_array_create(test_array *array, const test_device *device, tdm_dtype dtype, int rank,
                       const int64_t *shape, test_placement placement);
void test_array_create_layout(test_array *array, const test_device *device,
                              const tdm_layout *layout, int64_t offset);
void test_array_destroy(test_array *array);

int64_t test_array_count(const test_array *array);

/* Put logical element `index` (row-major) into the image; get it from the image or as fetched. */
void test_array_put(test_array *array, int64_t index, double value);
double test_array_get(const test_array *array, int64_t index);
double test_array_fetched(const test_array *array, int64_t index);

/*
 * Whether the fetched element is a result of f32, rounded once to the array's floats. A device may flush what is not normal in
 * f32, and rusticl 22.3 fuses the operation before with its narrowing to f16: there it is a neighbour at times.
 */
bool test_array_is_rounded(const test_array *array, int64_t index, float result);

/* The element's bytes, for comparing bits. */
const void *test_array_bits(const test_array *array, int64_t index);
const void *test_array_fetched_bits(const test_array *array, int64_t index);

/* Put generated values everywhere, then send the image to the device. */
void test_array_fill(test_array *array, test_data_kind kind, uint64_t seed);
void test_array_send(test_array *array);

/* Read back after the stream's work and check the fences and gaps. */
void test_array_fetch(test_array *array);

/* As test_array_fetch; besides, no element may have changed: a refused call leaves its output
 * alone. */
void test_array_expect_unchanged(test_array *array);

#endif
