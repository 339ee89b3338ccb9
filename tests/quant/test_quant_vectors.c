/* The formulas of quant/ give, bit for bit, the results that another program computed in exact
 * fractions (vectors/make_quant_vectors.py). */
#include <math.h>
#include <string.h>

#include "quant/number_formats.h"
#include "quant/quant_blocks.h"
#include "quant/quant_reference.h"
#include "tests/support/test_case.h"
#include "tests/vectors/quant_vectors.h"

#define COUNT(rows) (sizeof(rows) / sizeof(rows)[0])

static float f32_of(uint32_t bits) {
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

static uint32_t bits_of(float x) {
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

static tdm_quant_range range_of(int id) {
    return (tdm_quant_range){vector_ranges[id].low, vector_ranges[id].high};
}

TEST(test_quantize_dequantize_fake) {
    for (size_t i = 0; i < COUNT(vectors_quantize); i++) {
        const vector_quantize *const row = &vectors_quantize[i];
        const tdm_quant_parameters parameters = {f32_of(row->scale), row->zero_point};
        const tdm_quant_range range = range_of(row->range);
        bool pass = row->pass == 0;
        const int32_t q = tdm_quant_quantize(f32_of(row->x), parameters, range);
        const float fake = tdm_quant_fake(f32_of(row->x), parameters, range, &pass);
        const uint32_t back = bits_of(tdm_quant_dequantize(row->q, parameters));
        if (q != row->q || back != row->dequantized || bits_of(fake) != row->dequantized ||
            pass != (row->pass != 0)) {
            fail_msg("row %zu gives %d and 0x%08x, fake %a, pass %d", i, q, back, (double)fake,
                     pass);
        }
    }
}

TEST(test_requantize) {
    for (size_t i = 0; i < COUNT(vectors_requantize); i++) {
        const vector_requantize *const row = &vectors_requantize[i];
        const tdm_quant_parameters parameters = {f32_of(row->multiplier), row->zero_point};
        const int32_t q = tdm_quant_requantize(row->acc, parameters, range_of(row->range));
        if (q != row->q)
            fail_msg("row %zu: %d * %a + %d gives %d, not %d", i, row->acc,
                     (double)parameters.scale, row->zero_point, q, row->q);
    }
}

TEST(test_derive) {
    for (size_t i = 0; i < COUNT(vectors_derive); i++) {
        const vector_derive *const row = &vectors_derive[i];
        const tdm_quant_bounds bounds = {f32_of(row->minimum), f32_of(row->maximum)};
        const tdm_quant_range range = range_of(row->range);
        const tdm_quant_parameters p = tdm_quant_derive(
            row->symmetric != 0 ? TDM_QUANT_SYMMETRIC : TDM_QUANT_ASYMMETRIC, bounds, range);
        if (bits_of(p.scale) != row->scale || p.zero_point != row->zero_point)
            fail_msg("row %zu: [%a, %a] to [%d, %d] gives %a, %d, not %a, %d", i,
                     (double)bounds.minimum, (double)bounds.maximum, range.low, range.high,
                     (double)p.scale, p.zero_point, (double)f32_of(row->scale), row->zero_point);
        /* For any range, the parameters are legal, and they represent 0 exactly. */
        assert_true(tdm_quant_parameters_check(p, range, 0, NULL));
        assert_int_equal(tdm_quant_quantize(0.0f, p, range), p.zero_point);
        assert_true(tdm_quant_dequantize(p.zero_point, p) == 0.0f);
    }
}

/* Decodes the expected bytes by the definition of the formats. */
TEST(test_blocks) {
    for (size_t i = 0; i < COUNT(vectors_blocks); i++) {
        const uint8_t *const q8_0 = vectors_blocks[i].q8_0, *const q4_0 = vectors_blocks[i].q4_0;
        const float d8 = tdm_f32_from_f16((uint16_t)(q8_0[0] + 256 * q8_0[1]));
        const float d4 = tdm_f32_from_f16((uint16_t)(q4_0[0] + 256 * q4_0[1]));
        float x[TDM_QUANT_BLOCK_ELEMENTS], y[TDM_QUANT_BLOCK_ELEMENTS];
        uint8_t made8[TDM_QUANT_Q8_0_BYTES + 1], made4[TDM_QUANT_Q4_0_BYTES + 1];
        for (int j = 0; j < TDM_QUANT_BLOCK_ELEMENTS; j++)
            x[j] = f32_of(vectors_blocks[i].x[j]);
        /* The offset of one byte shows that nothing requires alignment. */
        assert_int_equal(tdm_quant_q8_0_encode(x, 1, made8 + 1), 1);
        assert_int_equal(tdm_quant_q4_0_encode(x, 1, made4 + 1), 1);
        assert_memory_equal(made8 + 1, q8_0, TDM_QUANT_Q8_0_BYTES);
        assert_memory_equal(made4 + 1, q4_0, TDM_QUANT_Q4_0_BYTES);
        tdm_quant_q8_0_decode(q8_0, 1, x);
        tdm_quant_q4_0_decode(q4_0, 1, y);
        for (int j = 0; j < TDM_QUANT_BLOCK_ELEMENTS; j++) {
            const int nibble = j < 16 ? q4_0[2 + j] % 16 : q4_0[2 + j % 16] / 16;
            const int s8 = q8_0[2 + j] < 128 ? q8_0[2 + j] : q8_0[2 + j] - 256;
            assert_int_equal(bits_of(x[j]), bits_of((float)s8 * d8));
            assert_int_equal(bits_of(y[j]), bits_of((float)(nibble - 8) * d4));
        }
    }
}

TEST(test_kept) {
    for (size_t i = 0; i < COUNT(vectors_kept); i++) {
        const vector_kept *const row = &vectors_kept[i];
        const tdm_quant_bounds bounds = {f32_of(row->minimum), f32_of(row->maximum)};
        const tdm_quant_range range = range_of(row->range);
        const tdm_quant_symmetry symmetry =
            row->symmetric != 0 ? TDM_QUANT_SYMMETRIC : TDM_QUANT_ASYMMETRIC;
        const struct {
            tdm_dtype dtype;
            uint32_t scale;
            int zero_point;
        } formats[] = {{TDM_F16, row->f16_scale, row->f16_zero_point},
                       {TDM_BF16, row->bf16_scale, row->bf16_zero_point}};
        for (size_t f = 0; f < COUNT(formats); f++) {
            const tdm_quant_parameters p =
                tdm_quant_derive_kept(symmetry, bounds, range, formats[f].dtype);
            if (bits_of(p.scale) != formats[f].scale || p.zero_point != formats[f].zero_point)
                fail_msg("row %zu in %s gives %a, %d", i, tdm_dtype_name(formats[f].dtype),
                         (double)p.scale, p.zero_point);
        }
    }
}

/* The index is `scale_format` of a row. */
static const tdm_dtype scale_formats[] = {TDM_F32, TDM_F16, TDM_BF16};

TEST(test_dynamic_rows) {
    for (size_t i = 0; i < COUNT(vectors_dynamic); i++) {
        const vector_dynamic *const row = &vectors_dynamic[i];
        const tdm_quant_range range = range_of(row->range);
        const tdm_dtype dtype = range.high > 127 ? TDM_U8 : range.high > 7 ? TDM_S8 : TDM_S4;
        const tdm_quant_spec spec = {.rank = 2,
                                     .shape = {1, 11},
                                     .blocks = {1, 0},
                                     .dtype = dtype,
                                     .range = range,
                                     .scale_dtype = scale_formats[row->scale_format]};
        float x[11], scale = NAN;
        int32_t zero_point = 12345;
        uint8_t quants[11];
        memset(quants, 0xa5, sizeof quants);
        for (int j = 0; j < 11; j++)
            x[j] = f32_of(row->x[j]);
        assert_int_equal(tdm_quant_spec_check(&spec, NULL), TDM_OK);
        tdm_quant_dynamic_tensor(&spec,
                                 row->symmetric != 0 ? TDM_QUANT_SYMMETRIC : TDM_QUANT_ASYMMETRIC,
                                 TDM_F32, x, &scale, &zero_point, quants);
        assert_int_equal(bits_of(scale), row->scale);
        assert_int_equal(zero_point, row->zero_point);
        for (int j = 0; j < 11; j++)
            if (tdm_quant_get(dtype, quants, j) != row->q[j])
                fail_msg("row %zu: element %d, %a, is %d, not %d", i, j, (double)x[j],
                         tdm_quant_get(dtype, quants, j), row->q[j]);
    }
}

TEST(test_narrow) {
    for (size_t i = 0; i < COUNT(vectors_narrow); i++) {
        const vector_narrow *const row = &vectors_narrow[i];
        const float x = f32_of(row->x);
        assert_int_equal(tdm_quant_narrow(TDM_F16, x, false), row->f16);
        assert_int_equal(tdm_quant_narrow(TDM_F16, x, true), row->f16_saturated);
        assert_int_equal(tdm_quant_narrow(TDM_BF16, x, false), row->bf16);
        assert_int_equal(tdm_quant_narrow(TDM_BF16, x, true), row->bf16_saturated);
    }
}

TEST(test_pack_s4) {
    for (size_t i = 0; i < COUNT(vectors_pack_s4); i++) {
        const vector_pack_s4 *const row = &vectors_pack_s4[i];
        const size_t count = (size_t)row->count;
        const size_t bytes = (count + 1) / 2;
        uint8_t packed[4];
        int8_t values[8];
        memset(packed, 0xa5, sizeof packed);
        memset(values, 0x55, sizeof values);
        tdm_quant_pack_s4(row->values, count, packed);
        assert_memory_equal(packed, row->packed, bytes);
        assert_int_equal(packed[bytes], 0xa5);
        tdm_quant_unpack_s4(row->packed, count, values);
        for (size_t j = 0; j < count; j++) {
            const int32_t v = tdm_quant_get(TDM_S8, row->values, (int64_t)j);
            assert_int_equal(values[j], v < -8 ? -8 : v > 7 ? 7 : v);
        }
        assert_int_equal(values[count], 0x55);
    }
}

TEST_MAIN(NULL, NULL)
