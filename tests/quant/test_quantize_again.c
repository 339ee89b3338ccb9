/* Every variant of tdm_tensor_requantize and tdm_tensor_fake_quantize gives the bits of the host
 * reference on every device.
 * ctest: device rusticl_in_ci timeout=240 cost=50 */
#include <float.h>
#include <math.h>

#include "api/device/core.h"
#include "quant/number_formats.h"
#include "tests/support/devices/device_cases.h"
#include "tests/support/quant/quant_cases.h"
#include "tests/support/test_case.h"

static const tdm_dtype code_dtypes[] = {TDM_S8, TDM_U8, TDM_S4};

/* ---- requantize ---- */

/* The source and the target have blocks of their own. */
typedef struct pair {
    quant_carrier from, to;
} pair;

static int32_t requantized(const pair *p, int64_t i) {
    const tdm_quant_parameters from = quant_carrier_parameters(&p->from, i);
    const tdm_quant_parameters to = quant_carrier_parameters(&p->to, i);
    const int32_t code = (int32_t)test_array_get(&p->from.codes, i) - from.zero_point;
    const tdm_quant_parameters by = {.scale = to.scale == 0.0f ? 0.0f : from.scale / to.scale,
                                     .zero_point = to.zero_point};
    return tdm_quant_requantize(code, by, quant_full_range(p->to.codes.layout.dtype));
}

/* Multipliers below the normal numbers may be flushed, or rounded twice. Returns true if the
 * multiplier is such a number and the result is that of a multiplier of 0. */
static bool is_flushed(const pair *p, int64_t i, double actual) {
    const tdm_quant_parameters from = quant_carrier_parameters(&p->from, i);
    const tdm_quant_parameters to = quant_carrier_parameters(&p->to, i);
    return to.scale != 0.0f && fabsf(from.scale / to.scale) < FLT_MIN && actual == to.zero_point;
}

static void check_codes(const pair *p) {
    for (int64_t i = 0; i < test_array_count(&p->to.codes); i++) {
        const double actual = test_array_fetched(&p->to.codes, i);
        const int32_t expected = requantized(p, i);
        if ((int32_t)actual != expected && !is_flushed(p, i, actual))
            test_case_fail("element %lld: code %g from scale %a zero %d to scale %a zero %d became "
                           "%g, not %d",
                           (long long)i, test_array_get(&p->from.codes, i),
                           (double)quant_carrier_parameters(&p->from, i).scale,
                           quant_carrier_parameters(&p->from, i).zero_point,
                           (double)quant_carrier_parameters(&p->to, i).scale,
                           quant_carrier_parameters(&p->to, i).zero_point, actual, expected);
    }
}

/* Fills the source with random bits. Three of four s32 values are then replaced by sums up to 3000
 * in magnitude, which the multiplier brings into range. */
static void fill_sums(pair *p) {
    test_random random = {31};
    test_array *const codes = &p->from.codes;
    test_array_fill(codes, TEST_DATA_ANY_BITS, 30);
    for (int64_t i = 0; codes->layout.dtype == TDM_S32 && i < test_array_count(codes); i++)
        if (test_random_bits(&random) % 4 != 0)
            test_array_put(codes, i, (double)test_random_int(&random, -3000, 3000));
    test_array_send(codes);
}

/* Requantizes as `c` describes; its `last` is the sharing of the source. If `variant` is NULL, the
 * library chooses one. If `plain`, the scales allow kernels to multiply by reciprocals. */
static tdm_status requantize_case(const test_device *device, const tdm_variant *variant,
                                  const quant_case *c, tdm_dtype from, tdm_dtype from_zero,
                                  bool plain) {
    pair p;
    const op_shape *const shape = c->shape;
    quant_carrier_create(&p.from, device, from, shape->rank, shape->shape, c->x,
                         (quant_sharing)c->last, c->scale,
                         from == TDM_S32 ? TDM_DTYPE_NONE : from_zero, c->parameters);
    quant_carrier_create(&p.to, device, c->codes, shape->rank, shape->shape, c->y, c->sharing,
                         TDM_F32, c->zero, c->parameters);
    (plain ? quant_carrier_fill_plain : quant_carrier_fill_parameters)(&p.from, 11);
    (plain ? quant_carrier_fill_plain : quant_carrier_fill_parameters)(&p.to, 12);
    fill_sums(&p);
    tdm_force_variant(variant ? variant->name : NULL);
    const tdm_status status = tdm_tensor_requantize(device->stream, p.from.tensor, p.to.tensor);
    tdm_force_variant(NULL);
    if (status == TDM_OK) {
        test_array_fetch(&p.to.codes);
        check_codes(&p);
    }
    quant_carrier_destroy(&p.from);
    quant_carrier_destroy(&p.to);
    return status;
}

static void one_requantize(const test_device *device, const tdm_variant *variant, const int row[]) {
    quant_case c;
    quant_case_read(&c, row, code_dtypes);
    if (!quant_case_begin(device, variant, &c))
        return;
    const tdm_status status =
        requantize_case(device, variant, &c, (tdm_dtype)variant->parameters[0], c.zero, false);
    const bool simple = c.last == SHARE_ALL || c.last == SHARE_ROWS;
    if (status != TDM_UNSUPPORTED || (simple && quant_case_must_run(variant, &c)) ||
        variant->parameters[1] == 1) {
        TEST_OK(status);
        if (!quant_case_is_empty(&c))
            test_case_end();
    }
}

TEST(every_requantize) {
    quant_every_variant_and(TDM_OP_REQUANTIZE, 3, SHARINGS, one_requantize);
}

/* CPU cores handle these strips and groups specially: an odd number of them, and groups that begin
 * together. Others are s4 blocks that split bytes, and more columns than a strip has. */
DEVICE_TEST(strips_and_groups) {
    static const quant_sharing sharings[] = {SHARE_ALL, SHARE_ROWS, SHARE_COLUMNS, SHARE_VECTORS};
    static const struct {
        op_shape shape;
        quant_sharing from, to;
    } forms[] = {
        {{2, {3, 96}}, SHARE_VECTORS, SHARE_VECTORS},
        {{2, {3, 100}}, SHARE_VECTORS, SHARE_LAST_GROUPS},
        {{2, {3, 100}}, SHARE_LAST_GROUPS, SHARE_VECTORS},
        {{2, {3, 130}}, SHARE_ODD, SHARE_ALL},
        {{2, {3, 130}}, SHARE_ODD, SHARE_COLUMNS},
        {{2, {5, 8226}}, SHARE_ALL, SHARE_COLUMNS},
    };
    static const tdm_dtype from_codes[] = {TDM_S4, TDM_S32, TDM_S8, TDM_U8};
    static const tdm_dtype zeros[] = {TDM_DTYPE_NONE, TDM_S32};
    test_random random = {20261129};
    for (int i = 0; i < 16 + 4 * 6; i++) {
        const int f = (i - 16) / 4;
        const bool vectors = i % 4 == 3 || i / 4 == 3;
        const op_shape grid = {
            2, {test_is_small() ? 5 : 37, (test_is_small() ? 96 : 640) + (vectors ? 0 : 6)}};
        // The blocks of an s4 target may not split bytes.
        const bool parts_bytes = i >= 16 && forms[f].from == SHARE_ODD;
        const quant_case c = {.shape = i < 16 ? &grid : &forms[f].shape,
                              .codes =
                                  code_dtypes[test_random_int(&random, 0, parts_bytes ? 1 : 2)],
                              .sharing = i < 16 ? sharings[i / 4] : forms[f].to,
                              .scale = TDM_F32,
                              .zero = zeros[test_random_int(&random, 0, 1)],
                              .last = i < 16 ? (int)sharings[i % 4] : (int)forms[f].from};
        const tdm_dtype from = from_codes[(i + i / 4 * (i < 16)) % 4];
        const tdm_dtype from_zero = zeros[test_random_int(&random, 0, 1)];
        if (!test_is_small() || c.shape->shape[1] < 8000)
            TEST_OK(requantize_case(device, NULL, &c, from, from_zero, i % 3 != 0));
    }
}

/* ---- fake-quantize ---- */

typedef struct fake {
    quant_carrier like;
    test_array x, y, mask;
} fake;

enum {
    NO_MASK,
    WITH_MASK,
    IN_PLACE,
    FAKE_KINDS
};

static bool is_fake(const fake *f, int64_t i, const test_array *y, float x, bool masked) {
    const tdm_quant_parameters parameters = quant_carrier_parameters(&f->like, i);
    const tdm_quant_range range = quant_full_range(f->like.codes.layout.dtype);
    bool pass;
    const float expected = tdm_quant_fake(x, parameters, range, &pass);
    if (masked && test_array_fetched(&f->mask, i) != (pass ? 1.0 : 0.0))
        return false;
    return test_array_is_rounded(y, i, expected);
}

static void check_fake(const fake *f, const test_array *y, bool masked) {
    for (int64_t i = 0; i < test_array_count(y); i++) {
        const float x = (float)test_array_get(&f->x, i);
        /* A device may treat an f32 denormal as 0. */
        if (!is_fake(f, i, y, x, masked) && !(fabsf(x) < FLT_MIN && is_fake(f, i, y, 0.0f, masked)))
            test_case_fail(
                "element %lld: %a by scale %a, zero point %d became %a, mask %g", (long long)i,
                (double)x, (double)quant_carrier_parameters(&f->like, i).scale,
                quant_carrier_parameters(&f->like, i).zero_point, test_array_fetched(y, i),
                masked ? test_array_fetched(&f->mask, i) : -1.0);
    }
}

static void fake_case(const test_device *device, const tdm_variant *variant, quant_case *c) {
    fake f;
    const op_shape *const shape = c->shape;
    const tdm_dtype from = (tdm_dtype)variant->parameters[0];
    static const tdm_dtype targets[] = {TDM_F32, TDM_F16, TDM_BF16};
    const int kind = c->last % FAKE_KINDS;
    quant_carrier_create(&f.like, device, c->codes, shape->rank, shape->shape, TEST_DENSE,
                         c->sharing, c->scale, c->zero, c->parameters);
    quant_carrier_fill_parameters(&f.like, 13);
    test_array_create(&f.x, device, from, shape->rank, shape->shape, c->x);
    test_array_create(&f.y, device, targets[c->last / FAKE_KINDS], shape->rank, shape->shape, c->y);
    test_array_create(&f.mask, device, TDM_U8, shape->rank, shape->shape, c->y);
    quant_fill_dequantized(&f.x, &f.like, 14);
    test_array_send(&f.y);
    test_array_send(&f.mask);
    test_array *const y = kind == IN_PLACE ? &f.x : &f.y;
    tdm_force_variant(variant->name);
    const tdm_status status =
        tdm_tensor_fake_quantize(device->stream, f.x.tensor, f.like.tensor, y->tensor,
                                 kind == WITH_MASK ? f.mask.tensor : NULL);
    tdm_force_variant(NULL);
    if (status != TDM_UNSUPPORTED || quant_case_must_run(variant, c)) {
        TEST_OK(status);
        test_array_fetch(y);
        test_array_fetch(&f.mask);
        check_fake(&f, y, kind == WITH_MASK);
        if (kind != WITH_MASK)
            test_array_expect_unchanged(&f.mask);
        test_array_expect_unchanged(&f.like.codes);
        if (test_array_count(y) > 0)
            test_case_end();
    }
    test_array_destroy(&f.x);
    test_array_destroy(&f.y);
    test_array_destroy(&f.mask);
    quant_carrier_destroy(&f.like);
}

static void one_fake(const test_device *device, const tdm_variant *variant, const int row[]) {
    quant_case c;
    quant_case_read(&c, row, code_dtypes);
    if (quant_case_begin(device, variant, &c))
        fake_case(device, variant, &c);
}

TEST(every_fake) {
    quant_every_variant_and(TDM_OP_FAKE_QUANTIZE, 3, 3 * FAKE_KINDS, one_fake);
}

TEST_MAIN(test_devices_setup, test_devices_teardown)
