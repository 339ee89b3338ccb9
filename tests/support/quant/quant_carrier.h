/*
 * A carrier is a quantized tensor for tests. It has quantized values, scales and zero points in
 * fenced buffers of any layout, and it knows the parameters of each element.
 */
#ifndef TANDEM_TESTS_SUPPORT_QUANT_QUANT_CARRIER_H
#define TANDEM_TESTS_SUPPORT_QUANT_QUANT_CARRIER_H

#include "quant/quant_reference.h"
#include "tests/support/test_array.h"

/*
 * This enum states which elements share parameters. Along a dimension, all elements share them
 * ("whole"), none do ("one by one"), or groups of a size do. Group sizes are even, for s4, and do
 * not divide the usual shapes.
 */
typedef enum quant_sharing {
    SHARE_ALL,
    SHARE_ROWS,         /* the last dimension whole, the others one by one */
    SHARE_COLUMNS,      /* the last dimension one by one, the others whole */
    SHARE_LAST_GROUPS,  /* 6 along the last dimension, the others one by one */
    SHARE_FIRST_GROUPS, /* 4 along the first dimension, the others one by one */
    SHARE_NONE,
    SHARE_TILES, /* 2 along each dimension but the last, 4 along that */
    SHARINGS,
    /* The sample does not contain these: */
    SHARE_VECTORS = SHARINGS, /* 32 along the last dimension, the others one by one */
    SHARE_FIRST,              /* the first dimension whole, the others one by one */
    SHARE_ODD,       /* 33 along the last dimension, the others one by one: no target of s4 */
    SHARE_BANDS,     /* 32 along the first dimension, the others one by one */
    SHARE_TALL_BANDS /* 256 along the first dimension, the others one by one */
} quant_sharing;

const char *quant_sharing_name(quant_sharing sharing);

/* Sets the block sizes along the dimensions of a shape. */
void quant_sharing_blocks(quant_sharing sharing, int rank, int64_t block[TDM_MAX_RANK]);

typedef struct quant_carrier {
    test_array codes, scale, zero; /* zero is not created without zero points */
    bool has_zero;
    int64_t block[TDM_MAX_RANK];
    tdm_tensor *tensor;
} quant_carrier;

/*
 * Creates poisoned arrays and sends nothing. `zero` is the dtype of the zero points, or
 * TDM_DTYPE_NONE. `parameters` is the placement of scales and zero points.
 */
void quant_carrier_create(quant_carrier *carrier, const test_device *device, tdm_dtype dtype,
                          int rank, const int64_t *shape, test_placement placement,
                          quant_sharing sharing, tdm_dtype scale, tdm_dtype zero,
                          test_placement parameters);
void quant_carrier_destroy(quant_carrier *carrier);

/*
 * Writes and sends scales and zero points. Scales include 0, negative ones, powers of two (which
 * make ties) and the ends of the range. Zero points include the ends of the range of the quantized
 * values, as far as their dtype can hold them.
 */
void quant_carrier_fill_parameters(quant_carrier *carrier, uint64_t seed);

/*
 * Like quant_carrier_fill_parameters, with scales that allow multiplying by reciprocals: positive,
 * neither tiny nor huge, with any significand.
 */
void quant_carrier_fill_plain(quant_carrier *carrier, uint64_t seed);

/* Sends the images of quantized values and parameters. */
void quant_carrier_send(quant_carrier *carrier);

/* Returns the parameters of a logical element, from the images. */
tdm_quant_parameters quant_carrier_parameters(const quant_carrier *carrier, int64_t index);

/* Returns the index of the parameters of a logical element. */
int64_t quant_carrier_entry(const quant_carrier *carrier, int64_t index);

/*
 * Fetches the quantized values and compares them with the host's result for x in `range`. Fails the
 * case if one differs.
 */
void quant_carrier_check_codes(quant_carrier *carrier, const test_array *x, tdm_quant_range range);

/*
 * Like quant_carrier_check_codes, for parameters that the device derived from the range of x. They
 * must equal those that the host derives. The image gets the parameters.
 */
void quant_carrier_check_derived(quant_carrier *carrier, const test_array *x);

/* Returns the full range of s8, u8 or s4. */
tdm_quant_range quant_full_range(tdm_dtype dtype);

/*
 * Fills x with numbers around the range that the carrier can represent, and sends it. They are
 * multiples and halves of its scales, their neighbours, values far beyond, NaN, infinities, zeros
 * and denormals. x has the carrier's shape.
 */
void quant_fill_dequantized(test_array *x, const quant_carrier *carrier, uint64_t seed);

#endif
