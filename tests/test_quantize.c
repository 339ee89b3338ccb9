/* tdm_quantize and tdm_dequantize: every variant on every device, bit for bit as the host reference.
 * ctest: device timeout=240 */
#include <float.h>
#include <math.h>
#include <string.h>

#include "api/core.h"
#include "quant/number_formats.h"
#include "tests/support/device_cases.h"
#include "tests/support/quant_carrier.h"
#include "tests/support/quant_cases.h"
#include "tests/support/variant_cases.h"

static const tdm_dtype code_dtypes[] = {TDM_S8, TDM_U8, TDM_S4};

/* ---- quantize ---- */

/* A device may take an f32 denormal for 0. */
static bool is_code(double actual, float x, tdm_quant_parameters parameters,
                    tdm_quant_range range) {
    if ((int32_t)actual == tdm_quant_quantize(x, parameters, range))
        return true;
    return fabsf(x) < FLT_MIN && (int32_t)actual == tdm_quant_quantize(0.0f, parameters, range);
}

static void check_codes(const test_array *x, const quant_carrier *carrier) {
    const tdm_quant_range range = quant_full_range(carrier->codes.layout.dtype);
    for (int64_t i = 0; i < test_array_count(x); i++) {
        const tdm_quant_parameters parameters = quant_carrier_parameters(carrier, i);
        const float value = (float)test_array_get(x, i);
        const double actual = test_array_fetched(&carrier->codes, i);
        if (!is_code(actual, value, parameters, range))
            test_case_fail("element %lld: %.9g (%a) by scale %a, zero point %d became %g, not %d",
                           (long long)i, (double)value, (double)value, (double)parameters.scale,
                           parameters.zero_point, actual,
                           tdm_quant_quantize(value, parameters, range));
    }
}

static void quantize_case(const test_device *device, const tdm_variant *variant,
                          const quant_case *c) {
    quant_carrier carrier;
    test_array x;
    const op_shape *const shape = c->shape;
    quant_carrier_create(&carrier, device, c->codes, shape->rank, shape->shape, c->y, c->sharing,
                         c->scale, c->zero, c->parameters);
    quant_carrier_fill_parameters(&carrier, 5);
    test_array_create(&x, device, (tdm_dtype)variant->parameters[0], shape->rank, shape->shape,
                      c->x);
    quant_fill_reals(&x, &carrier, 6);
    tdm_force_variant(variant->name);
    const tdm_status status = tdm_quantize(device->stream, carrier.tensor, x.tensor);
    tdm_force_variant(NULL);
    if (status != TDM_UNSUPPORTED || quant_case_must_run(variant, c)) {
        TEST_OK(status);
        test_array_fetch(&carrier.codes);
        check_codes(&x, &carrier);
        test_array_expect_unchanged(&carrier.scale);
        if (test_array_count(&x) > 0)
            test_case_end();
    }
    test_array_destroy(&x);
    quant_carrier_destroy(&carrier);
}

static void one_quantize(const test_device *device, const tdm_variant *variant, const int row[]) {
    quant_case c;
    quant_case_read(&c, row, code_dtypes);
    if (quant_case_begin(device, variant, &c))
        quantize_case(device, variant, &c);
}

static void every_quantize(void **state) {
    (void)state;
    quant_every_variant(TDM_OP_QUANTIZE, 3, one_quantize);
}

/* ---- dequantize ---- */

static const tdm_dtype real_dtypes[] = {TDM_F32, TDM_F16, TDM_BF16};

/* f32 results may be flushed; rusticl 22.3 fuses the product with its narrowing to f16, half a step. */
static bool is_real(tdm_dtype dtype, double actual, float expected) {
    unsigned char bytes[8];
    tdm_number_set(dtype, bytes, 0, (double)expected);
    const double rounded = tdm_number_get(dtype, bytes, 0);
    if (actual == rounded || (isnan(actual) && isnan(rounded)))
        return true;
    if (dtype == TDM_F16 &&
        fabs(actual - (double)expected) <= fabs(rounded - (double)expected) * 1.001)
        return true;
    return actual == 0 && dtype != TDM_F16 && fabsf(expected) < FLT_MIN;
}

static void check_reals(const quant_carrier *carrier, const test_array *y) {
    for (int64_t i = 0; i < test_array_count(y); i++) {
        const tdm_quant_parameters parameters = quant_carrier_parameters(carrier, i);
        const int32_t code = (int32_t)test_array_get(&carrier->codes, i);
        const float expected = tdm_quant_dequantize(code, parameters);
        const double actual = test_array_fetched(y, i);
        if (!is_real(y->layout.dtype, actual, expected))
            test_case_fail("element %lld: code %d by scale %a, zero point %d became %a, not %a",
                           (long long)i, code, (double)parameters.scale, parameters.zero_point,
                           actual, (double)expected);
    }
}

static void dequantize_case(const test_device *device, const tdm_variant *variant, quant_case *c) {
    quant_carrier carrier;
    test_array y;
    const op_shape *const shape = c->shape;
    const tdm_dtype codes = (tdm_dtype)variant->parameters[0], reals = c->codes;
    c->codes = codes;
    c->zero = codes == TDM_S32 ? TDM_DTYPE_NONE : c->zero;
    quant_carrier_create(&carrier, device, codes, shape->rank, shape->shape, c->x, c->sharing,
                         c->scale, c->zero, c->parameters);
    quant_carrier_fill_parameters(&carrier, 7);
    test_array_fill(&carrier.codes, TEST_DATA_ANY_BITS, 8);
    test_array_create(&y, device, reals, shape->rank, shape->shape, c->y);
    test_array_send(&y);
    tdm_force_variant(variant->name);
    const tdm_status status = tdm_dequantize(device->stream, y.tensor, carrier.tensor);
    tdm_force_variant(NULL);
    if (status != TDM_UNSUPPORTED || quant_case_must_run(variant, c)) {
        TEST_OK(status);
        test_array_fetch(&y);
        check_reals(&carrier, &y);
        if (test_array_count(&y) > 0)
            test_case_end();
    }
    test_array_destroy(&y);
    quant_carrier_destroy(&carrier);
}

static void one_dequantize(const test_device *device, const tdm_variant *variant, const int row[]) {
    quant_case c;
    quant_case_read(&c, row, real_dtypes);
    if (quant_case_begin(device, variant, &c))
        dequantize_case(device, variant, &c);
}

static void every_dequantize(void **state) {
    (void)state;
    quant_every_variant(TDM_OP_DEQUANTIZE, 3, one_dequantize);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_quantize),
        cmocka_unit_test(every_dequantize),
    };
    return cmocka_run_group_tests_name("quantize", tests, test_devices_setup,
                                       test_devices_teardown);
}
