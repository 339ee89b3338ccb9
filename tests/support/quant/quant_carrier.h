/*
 * A quantized tensor for tests: codes, scales and zero points in fenced buffers of any layout, and the parameters
 * of each element.
 */
#ifndef TANDEM_TESTS_SUPPORT_QUANT_QUANT_CARRIER_H
#define TANDEM_TESTS_SUPPORT_QUANT_QUANT_CARRIER_H

#include "quant/quant_reference.h"
#include "tests/support/test_array.h"

/* Which elements share parameters. Groups are even, for s4, and do not divide the usual shapes. */
typedef enum quant_sharing {
    SHARE_ALL,
    SHARE_ROWS,         /* the last dimension whole, the others one by one */
    SHARE_COLUMNS,      /* the last dimension one by one, the others whole */
    SHARE_LAST_GROUPS,  /* 6 along the last dimension, the others one by one */
    SHARE_FIRST_GROUPS, /* 4 along the first dimension, the others one by one */
    SHARE_NONE,
    SHARE_TILES, /* 2 along each dimension but the last, 4 along that */
    SHARINGS,
    /* In no sample: */
    SHARE_VECTORS = SHARINGS, /* 32 along the last dimension, the others one by one */
    SHARE_FIRST,              /* the first dimension whole, the others one by one */
    SHARE_ODD,       /* 33 along the last dimension, the others one by one: no target of s4 */
    SHARE_BANDS,     /* 32 along the first dimension, the others one by one */
    SHARE_TALL_BANDS /* 256 likewise */
} quant_sharing;

const char *quant_sharing_name(quant_sharing sharing);

/* Blocks of a shape. */
void quant_sharing_blocks(quant_sharing sharing, int rank, int64_t block[TDM_MAX_RANK]);

typedef struct quant_carrier {
    test_array codes, scale, zero; /* zero is not created where there is none */
    bool has_zero;
    int64_t block[TDM_MAX_RANK];
    tdm_tensor *tensor;
} quant_carrier;

/* Poisoned, nothing sent yet. zero: TDM_DTYPE_NONE for none. Parameters are placed as `parameters` says. */
void quant_carrier_create(quant_carrier *carrier, const test_device *device, tdm_dtype dtype,
                          int rank, const int64_t *shape, test_placement placement,
                          quant_sharing sharing, tdm_dtype scale, tdm_dtype zero,
                          test_placement parameters);
void quant_carrier_destroy(quant_carrier *carrier);

/*
 * Scales of every sort, among them 0, negative ones, powers of two, which make ties, and the ends of the range;
 * zero points anywhere in the range of the codes that their dtype has, its ends among them. Sends both.
 */
void quant_carrier_fill_parameters(quant_carrier *carrier, uint64_t seed);

/* Scales that may be replaced by their reciprocals: positive, neither tiny nor huge, of any significand. Sends both. */
void quant_carrier_fill_plain(quant_carrier *carrier, uint64_t seed);

/* Send the image of codes and parameters. */
void quant_carrier_send(quant_carrier *carrier);

/* Parameters of a logical element, from the images. */
tdm_quant_parameters quant_carrier_parameters(const quant_carrier *carrier, int64_t index);

/* Entry of the parameters that serves a logical element. */
int64_t quant_carrier_entry(const quant_carrier *carrier, int64_t index);

/* Fetches the codes and compares them with the host's of x in `range`; fails the case at another. */
void quant_carrier_check_codes(quant_carrier *carrier, const test_array *x, tdm_quant_range range);

/* The same of codes by range: parameters and codes must be those that the host derives from x. The image gets the parameters. */
void quant_carrier_check_derived(quant_carrier *carrier, const test_array *x);

/* All the integers of s8, u8, s4. */
tdm_quant_range quant_full_range(tdm_dtype dtype);

/*
 * Real numbers around what the carrier's parameters reach: multiples and halves of its scales, their neighbours, far
 * beyond, and NaN, infinities, zeros and denormals. x has the carrier's shape. Sends it.
 */
void quant_fill_reals(test_array *x, const quant_carrier *carrier, uint64_t seed);

#endif
