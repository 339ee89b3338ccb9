/*
 * A tensor of any layout inside a poisoned, fenced buffer, with its image on the host.
 *
 *      fence | offset | elements and the gaps between them | fence
 *
 * Everything starts out poisoned (NaN for floats, 0xa5 bytes for integers). After an operation,
 * test_array_fetch reads the whole buffer back. It fails the running case if anything but the
 * layout's own elements changed. Rows of s4 start at whole bytes. A nibble that shares a byte with
 * an element is a gap.
 */
#ifndef TANDEM_TESTS_SUPPORT_TEST_ARRAY_H
#define TANDEM_TESTS_SUPPORT_TEST_ARRAY_H

#include "tests/support/devices/test_devices.h"
#include "tests/support/test_data.h"

/* How a shape is laid out. */
typedef enum test_placement {
    TEST_DENSE,      /* row-major, no gaps */
    TEST_OFFSET,     /* dense, at an offset of a few elements: breaks vector alignment */
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
    unsigned char *image;   /* the expected buffer: poison and the values put */
    unsigned char *fetched; /* the buffer as it was read back */
    tdm_buffer *buffer;
    tdm_tensor *tensor;
} test_array;

/* Computes the strides of a shape under a placement. */
void test_layout_place(tdm_layout *layout, tdm_dtype dtype, int rank, const int64_t *shape,
                       test_placement placement);

/* Writes a shape as "[3,1,5]" into the caller's buffer and returns it. */
const char *test_shape_text(int rank, const int64_t *shape, char text[128]);

/* Creates the buffer (not yet written) and the tensor. Fails the running case if it cannot. */
void test_array_create(test_array *array, const test_device *device, tdm_dtype dtype, int rank,
                       const int64_t *shape, test_placement placement);
void test_array_create_layout(test_array *array, const test_device *device,
                              const tdm_layout *layout, int64_t offset);
void test_array_destroy(test_array *array);

int64_t test_array_count(const test_array *array);

/*
 * The first two access logical element `index` (row-major) of the image. The third reads it from
 * the fetched buffer.
 */
void test_array_put(test_array *array, int64_t index, double value);
double test_array_get(const test_array *array, int64_t index);
double test_array_fetched(const test_array *array, int64_t index);

/*
 * Returns true if the fetched element is an f32 result, rounded once to the array's float type. A
 * device may flush values that are denormal in f32. rusticl 22.3 fuses the preceding operation with
 * its narrowing to f16. Its result may then be a neighbouring f16 value.
 */
bool test_array_is_rounded(const test_array *array, int64_t index, float result);

/* Returns the element's bytes, for comparing bits. */
const void *test_array_bits(const test_array *array, int64_t index);
const void *test_array_fetched_bits(const test_array *array, int64_t index);

/* Puts generated values everywhere, then sends the image to the device. */
void test_array_fill(test_array *array, test_data_kind kind, uint64_t seed);
void test_array_send(test_array *array);

/* Reads back after the stream's work and checks the fences and gaps. */
void test_array_fetch(test_array *array);

/*
 * Like test_array_fetch, but no element may have changed: a refused call leaves its output alone.
 */
void test_array_expect_unchanged(test_array *array);

#endif
