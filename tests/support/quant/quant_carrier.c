#include "tests/support/quant/quant_carrier.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>

/*
 * These are the block sizes along the first dimension, the last one and all others. The first
 * dimension has a size of its own only if `first` differs from `others`. A size of 0 stands for the
 * whole dimension.
 */
static const struct {
    const char *name;
    int first, last, others;
} sharings[] = {
    [SHARE_ALL] = {"all", 0, 0, 0},
    [SHARE_ROWS] = {"rows", 1, 0, 1},
    [SHARE_COLUMNS] = {"columns", 0, 1, 0},
    [SHARE_LAST_GROUPS] = {"last groups", 1, 6, 1},
    [SHARE_FIRST_GROUPS] = {"first groups", 4, 1, 1},
    [SHARE_NONE] = {"none", 1, 1, 1},
    [SHARE_TILES] = {"tiles", 2, 4, 2},
    [SHARE_VECTORS] = {"vectors", 1, 32, 1},
    [SHARE_FIRST] = {"first", 0, 1, 1},
    [SHARE_ODD] = {"odd groups", 1, 33, 1},
    [SHARE_BANDS] = {"bands", 32, 1, 1},
    [SHARE_TALL_BANDS] = {"tall bands", 256, 1, 1},
};

const char *quant_sharing_name(quant_sharing sharing) {
    return sharings[sharing].name;
}

void quant_sharing_blocks(quant_sharing sharing, int rank, int64_t block[TDM_MAX_RANK]) {
    const int first = sharings[sharing].first, others = sharings[sharing].others;
    for (int d = 0; d < TDM_MAX_RANK; d++)
        block[d] = d == 0 && first != others ? first
                   : d == rank - 1           ? sharings[sharing].last
                                             : others;
}

void quant_carrier_create(quant_carrier *carrier, const test_device *device, tdm_dtype dtype,
                          int rank, const int64_t *shape, test_placement placement,
                          quant_sharing sharing, tdm_dtype scale, tdm_dtype zero,
                          test_placement parameters) {
    *carrier = (quant_carrier){.has_zero = zero != TDM_DTYPE_NONE};
    int64_t counts[TDM_MAX_RANK];
    quant_sharing_blocks(sharing, rank, carrier->block);
    for (int d = 0; d < rank; d++) {
        const int64_t block = carrier->block[d];
        counts[d] = block == 0 ? 1 : (shape[d] + block - 1) / block;
    }
    test_array_create(&carrier->codes, device, dtype, rank, shape, placement);
    test_array_create(&carrier->scale, device, scale, rank, counts, parameters);
    if (carrier->has_zero)
        test_array_create(&carrier->zero, device, zero, rank, counts, parameters);
    tdm_quantization quantization = TDM_QUANTIZATION_INIT;
    for (int d = 0; d < rank; d++)
        quantization.block[d] = carrier->block[d];
    quantization.scale = carrier->scale.tensor;
    quantization.zero_point = carrier->has_zero ? carrier->zero.tensor : NULL;
    TEST_OK(tdm_tensor_quantized(carrier->codes.tensor, &quantization, &carrier->tensor));
}

void quant_carrier_destroy(quant_carrier *carrier) {
    tdm_tensor_destroy(carrier->tensor);
    test_array_destroy(&carrier->codes);
    test_array_destroy(&carrier->scale);
    if (carrier->has_zero)
        test_array_destroy(&carrier->zero);
}

tdm_quant_range quant_full_range(tdm_dtype dtype) {
    return dtype == TDM_S8   ? (tdm_quant_range){-128, 127}
           : dtype == TDM_U8 ? (tdm_quant_range){0, 255}
                             : (tdm_quant_range){-8, 7};
}

static double some_scale(tdm_dtype dtype, test_random *random) {
    const bool narrow = dtype == TDM_F16;
    switch (test_random_bits(random) % 10) {
    case 0:
        return 0.0;
    case 1:
        return -0.375;
    case 2:
        return narrow ? 0x1p-14 : (double)FLT_MIN;
    case 3:
        return narrow ? 65504.0 : 0x1.8p119;
    case 4:
    case 5:
    case 6:
        return ldexp(1.0, (int)test_random_int(random, -9, 3));
    default:
        return test_random_uniform(random, 0.001, 0.1);
    }
}

static int32_t some_zero(tdm_dtype dtype, tdm_quant_range range, test_random *random) {
    const int32_t low = dtype == TDM_U8 && range.low < 0 ? 0 : range.low;
    const int32_t high = dtype == TDM_S8 && range.high > 127 ? 127 : range.high;
    const uint64_t which = test_random_bits(random) % 4;
    return which == 0 ? low : which == 1 ? high : (int32_t)test_random_int(random, low, high);
}

void quant_carrier_fill_parameters(quant_carrier *carrier, uint64_t seed) {
    test_random random = {seed};
    const tdm_quant_range range = quant_full_range(carrier->codes.layout.dtype);
    for (int64_t i = 0; i < test_array_count(&carrier->scale); i++) {
        test_array_put(&carrier->scale, i, some_scale(carrier->scale.layout.dtype, &random));
        if (carrier->has_zero)
            test_array_put(&carrier->zero, i,
                           some_zero(carrier->zero.layout.dtype, range, &random));
    }
    quant_carrier_send(carrier);
}

void quant_carrier_fill_plain(quant_carrier *carrier, uint64_t seed) {
    test_random random = {seed};
    const int most = carrier->scale.layout.dtype == TDM_F16 ? 8 : 58;
    quant_carrier_fill_parameters(carrier, seed);
    for (int64_t i = 0; i < test_array_count(&carrier->scale); i++) {
        const double significand =
            1.0 + (double)test_random_int(&random, 0, (1 << 23) - 1) * 0x1p-23;
        test_array_put(&carrier->scale, i,
                       ldexp(significand, (int)test_random_int(&random, -most, most)));
    }
    quant_carrier_send(carrier);
}

void quant_carrier_send(quant_carrier *carrier) {
    test_array_send(&carrier->codes);
    test_array_send(&carrier->scale);
    if (carrier->has_zero)
        test_array_send(&carrier->zero);
}

int64_t quant_carrier_entry(const quant_carrier *carrier, int64_t index) {
    const tdm_layout *const codes = &carrier->codes.layout;
    int64_t entry = 0, step = 1;
    for (int d = codes->rank - 1; d >= 0; d--) {
        const int64_t block = carrier->block[d] == 0 ? codes->shape[d] : carrier->block[d];
        entry += index % codes->shape[d] / block * step;
        step *= carrier->scale.layout.shape[d];
        index /= codes->shape[d];
    }
    return entry;
}

tdm_quant_parameters quant_carrier_parameters(const quant_carrier *carrier, int64_t index) {
    const int64_t entry = quant_carrier_entry(carrier, index);
    return (tdm_quant_parameters){
        .scale = (float)test_array_get(&carrier->scale, entry),
        .zero_point = carrier->has_zero ? (int32_t)test_array_get(&carrier->zero, entry) : 0};
}

void quant_carrier_check_codes(quant_carrier *carrier, const test_array *x, tdm_quant_range range) {
    test_array_fetch(&carrier->codes);
    for (int64_t i = 0; i < test_array_count(x); i++) {
        const tdm_quant_parameters parameters = quant_carrier_parameters(carrier, i);
        const float value = (float)test_array_get(x, i);
        const int32_t expected = tdm_quant_quantize(value, parameters, range);
        const double actual = test_array_fetched(&carrier->codes, i);
        const bool may_flush = fabsf(value) < FLT_MIN;
        if (actual != expected &&
            !(may_flush && actual == tdm_quant_quantize(0.0f, parameters, range)))
            test_case_fail("element %lld: %a by scale %a, zero point %d became %g, not %d",
                           (long long)i, (double)value, (double)parameters.scale,
                           parameters.zero_point, actual, expected);
    }
}

/*
 * Checks a fetched entry. A device may return a quotient just below the smallest normal number as
 * that number or as 0.
 */
static void check_entry(const quant_carrier *carrier, int64_t entry, tdm_quant_parameters p) {
    const double scale = test_array_fetched(&carrier->scale, entry);
    const double zero = carrier->has_zero ? test_array_fetched(&carrier->zero, entry) : 0.0;
    const bool at_edge = scale + (double)p.scale == (double)FLT_MIN;
    if (!at_edge && (scale != (double)p.scale || zero != p.zero_point))
        test_case_fail("entry %lld is scale %a, zero point %g, not %a, %d", (long long)entry, scale,
                       zero, (double)p.scale, p.zero_point);
}

void quant_carrier_check_derived(quant_carrier *carrier, const test_array *x) {
    const int64_t entries = test_array_count(&carrier->scale);
    tdm_quant_range range = quant_full_range(carrier->codes.layout.dtype);
    range.low = carrier->has_zero ? range.low : -range.high;
    tdm_quant_bounds *const bounds = calloc((size_t)entries + 1, sizeof *bounds);
    assert_non_null(bounds);
    test_array_fetch(&carrier->scale);
    if (carrier->has_zero)
        test_array_fetch(&carrier->zero);
    for (int64_t i = 0; i < test_array_count(x); i++) {
        tdm_quant_bounds *const own = &bounds[quant_carrier_entry(carrier, i)];
        const float value = (float)test_array_get(x, i);
        if (isfinite(value))
            *own = (tdm_quant_bounds){fminf(own->minimum, value), fmaxf(own->maximum, value)};
    }
    for (int64_t entry = 0; entry < entries; entry++) {
        tdm_quant_parameters p =
            tdm_quant_derive_kept(carrier->has_zero ? TDM_QUANT_ASYMMETRIC : TDM_QUANT_SYMMETRIC,
                                  bounds[entry], range, carrier->scale.layout.dtype);
        p.zero_point = carrier->has_zero ? p.zero_point : 0;
        check_entry(carrier, entry, p);
        test_array_put(&carrier->scale, entry, test_array_fetched(&carrier->scale, entry));
        if (carrier->has_zero)
            test_array_put(&carrier->zero, entry, test_array_fetched(&carrier->zero, entry));
    }
    free(bounds);
    quant_carrier_check_codes(carrier, x, range);
}

static double some_real(double scale, test_random *random) {
    static const double special[] = {NAN,    HUGE_VAL, -HUGE_VAL, 0.0,      -0.0,   1e-40,
                                     -3e-39, 3e38,     -3e38,     0x1p-149, 65504.0};
    const double k = (double)test_random_int(random, -300, 300);
    const uint64_t bits = test_random_bits(random);
    const double value = (k + (bits & 1 ? 0.5 : 0.0)) * scale;
    switch (bits / 2 % 8) {
    case 0:
        return special[test_random_bits(random) % (sizeof special / sizeof special[0])];
    case 1:
        return (double)nextafterf((float)value, HUGE_VALF);
    case 2:
        return (double)nextafterf((float)value, -HUGE_VALF);
    case 3:
        return test_random_uniform(random, -140.0, 260.0) * scale;
    default:
        return value;
    }
}

void quant_fill_dequantized(test_array *x, const quant_carrier *carrier, uint64_t seed) {
    test_random random = {seed};
    for (int64_t i = 0; i < test_array_count(x); i++)
        test_array_put(x, i,
                       some_real((double)quant_carrier_parameters(carrier, i).scale, &random));
    test_array_send(x);
}
