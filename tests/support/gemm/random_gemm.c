#include "tests/support/gemm/random_gemm.h"

#include <stdio.h>
#include <string.h>

#include "api/gemm/gemm_internal.h"

static const int64_t float_types[] = {TDM_F32, TDM_F16, TDM_BF16};

static bool chance(random_gemm *p, int percent) {
    return random_chance(&p->random, percent);
}

static int64_t draw(random_gemm *p, int64_t low, int64_t high) {
    return test_random_int(&p->random, low, high);
}

bool random_gemm_has(const random_operand *o) {
    return o->tensor != NULL;
}

bool random_gemm_is_float(tdm_dtype dtype) {
    return tdm_dtype_info(dtype)->kind == TDM_CLASS_FLOAT;
}

const char *random_gemm_text(const random_gemm *p, char text[RANDOM_GEMM_TEXT]) {
    const random_operand *const operands[] = {&p->a, &p->b, &p->c, &p->d, &p->residual};
    const tdm_gemm_desc *const desc = &p->desc;
    int used =
        snprintf(text, RANDOM_GEMM_TEXT, "TANDEM_TEST_SEED=%llu m%lld n%lld k%lld",
                 (unsigned long long)p->seed, (long long)p->m, (long long)p->n, (long long)p->k);
    for (int i = 0; i < 5; i++) {
        if (!random_gemm_has(operands[i]))
            continue;
        used += snprintf(text + used, RANDOM_GEMM_TEXT - (size_t)used, " %c ", "abcdr"[i]);
        used += random_operand_text(operands[i], text + used, RANDOM_GEMM_TEXT - (size_t)used);
    }
    snprintf(text + used, RANDOM_GEMM_TEXT - (size_t)used,
             " transposed %d%d group %lld quantize_a %d bias %s alpha %g beta %g activation %d%s "
             "packed %d 3xtf32 %d recorded %d variant %s",
             desc->transpose_a, desc->transpose_b, (long long)p->group, desc->quantize_a,
             tdm_dtype_name(desc->bias.dtype), (double)desc->alpha, (double)desc->beta,
             (int)desc->activation, desc->gated ? " gated" : "", desc->packed_b, desc->allow_3xtf32,
             p->recorded, desc->variant != NULL ? desc->variant : "chosen");
    return text;
}

/* ---- drawing ---- */

static void draw_sizes(random_gemm *p) {
    static const int64_t lengths[] = {1,  1,  2,  3,  4,  5,  7,  8,  9,  12, 15, 16,
                                      17, 20, 31, 32, 33, 37, 48, 63, 64, 65, 70};
    static const int64_t depths[] = {1,   2,   3,   4,   7,   8,   15,  16,  17, 31,
                                     32,  33,  45,  48,  63,  64,  65,  67,  96, 97,
                                     100, 128, 129, 130, 160, 200, 256, 257, 320};
    p->batch.rank = chance(p, 60) ? (int)draw(p, 1, RANDOM_BATCH_RANK) : 0;
    p->entries = 1;
    for (int d = 0; d < p->batch.rank; d++)
        p->entries *= p->batch.shape[d] = draw(p, 1, 3);
    p->m = chance(p, 2) ? 0 : RANDOM_OF(&p->random, lengths);
    p->n = chance(p, 2) ? 0 : RANDOM_OF(&p->random, lengths);
    p->k = chance(p, 2) ? 0 : RANDOM_OF(&p->random, depths);
    if (p->entries > 6) {
        p->m = p->m > 20 ? 20 : p->m;
        p->n = p->n > 20 ? 20 : p->n;
    }
}

static void draw_types(random_gemm *p, tdm_dtype *a, tdm_dtype *b, tdm_dtype *d) {
    static const int64_t results[] = {TDM_S32, TDM_S32, TDM_S8, TDM_U8, TDM_F32};
    const tdm_dtype one = (tdm_dtype)RANDOM_OF(&p->random, float_types);
    const tdm_dtype other = (tdm_dtype)RANDOM_OF(&p->random, float_types);
    *a = one;
    *b = chance(p, 75) ? one : other;
    *d = chance(p, 70) ? TDM_F32 : (tdm_dtype)RANDOM_OF(&p->random, float_types);
    if (p->kind == RANDOM_INTEGERS) {
        *a = chance(p, 50) ? TDM_S8 : TDM_U8;
        *b = TDM_S8;
        *d = (tdm_dtype)RANDOM_OF(&p->random, results);
    } else if (p->kind == RANDOM_WEIGHTS)
        *b = chance(p, 50) ? TDM_S8 : TDM_S4;
}

static void create(random_gemm *p, random_operand *o, tdm_dtype dtype, int64_t rows,
                   int64_t columns, bool may_share) {
    const int64_t matrix[2] = {rows, columns};
    random_operand_create(o, p->device, &p->random, &p->batch, dtype, matrix, may_share);
}

static void draw_matrices(random_gemm *p) {
    tdm_gemm_desc *const desc = &p->desc;
    tdm_dtype a = TDM_DTYPE_NONE, b = TDM_DTYPE_NONE, d = TDM_DTYPE_NONE;
    draw_types(p, &a, &b, &d);
    desc->transpose_a = chance(p, 25);
    desc->transpose_b = chance(p, 35);
    create(p, &p->a, a, desc->transpose_a ? p->k : p->m, desc->transpose_a ? p->m : p->k, true);
    create(p, &p->b, b, desc->transpose_b ? p->n : p->k, desc->transpose_b ? p->k : p->n, true);
    create(p, &p->d, d, p->m, p->n, false);
    desc->allow_3xtf32 = a == TDM_F32 && b == TDM_F32 && chance(p, 40);
}

static void fill_floats(random_gemm *p) {
    random_array_fill(&p->a.data, &p->random, -4, 4);
    random_array_fill(&p->b.data, &p->random, -4, 4);
}

static random_parameters parameters_of(random_gemm *p, tdm_dtype dtype, int vary) {
    const tdm_dtype zero = chance(p, 50) ? TDM_S32 : dtype;
    const bool is_unsigned = dtype == TDM_U8;
    return (random_parameters){.vary = vary,
                               .zero = chance(p, 60) ? zero : TDM_DTYPE_NONE,
                               .zero_low = is_unsigned ? 0 : INT8_MIN,
                               .zero_high = is_unsigned ? UINT8_MAX : INT8_MAX,
                               .by_entry = true,
                               .scale_low = -2};
}

static void fill_integers(random_gemm *p) {
    const tdm_dtype a = p->a.data.layout.dtype, d = p->d.data.layout.dtype;
    random_array_fill(&p->a.data, &p->random, a == TDM_S8 ? INT8_MIN : 0,
                      a == TDM_S8 ? INT8_MAX : UINT8_MAX);
    random_array_fill(&p->b.data, &p->random, INT8_MIN, INT8_MAX);
    random_parameters of_a = parameters_of(p, a, p->desc.transpose_a ? 1 : 2);
    random_parameters of_b = parameters_of(p, TDM_S8, p->desc.transpose_b ? 2 : 1);
    if (chance(p, 70))
        random_operand_quantize(&p->a, &p->random, &of_a);
    if (chance(p, 70))
        random_operand_quantize(&p->b, &p->random, &of_b);
    if (d != TDM_S8 && d != TDM_U8)
        return;
    random_parameters of_d = parameters_of(p, d, 1);
    of_d.zero = of_d.zero != TDM_DTYPE_NONE ? TDM_S32 : TDM_DTYPE_NONE;
    of_d.by_entry = false;
    of_d.scale_low = 6;
    of_d.scale_high = 12;
    random_operand_quantize(&p->d, &p->random, &of_d);
}

/* The largest magnitude in each row is 127, so the quantized values equal the elements. */
static void fill_rows_to_quantize(random_gemm *p) {
    random_array_fill(&p->a.data, &p->random, -9, 9);
    for (int64_t e = 0; e < p->entries && p->k > 0; e++)
        for (int64_t i = 0; i < p->m; i++) {
            const int64_t at = draw(p, 0, p->k - 1);
            const bool t = p->desc.transpose_a;
            test_array_put(&p->a.data, random_operand_index(&p->a, e, t ? at : i, t ? i : at),
                           chance(p, 50) ? 127 : -127);
        }
    test_array_send(&p->a.data);
}

static void fill_weights(random_gemm *p) {
    static const int64_t groups[] = {0, 0, 32, 64, 16, 128, 20, 48, 8, 96};
    const tdm_dtype zero = chance(p, 50) ? TDM_S8 : TDM_S32;
    const bool four_bits = p->b.data.layout.dtype == TDM_S4;
    p->group = RANDOM_OF(&p->random, groups);
    random_array_fill(&p->b.data, &p->random, four_bits ? -8 : -9, four_bits ? 7 : 9);
    const random_parameters of_b = {.vary = p->desc.transpose_b ? 2 : 1,
                                    .group = p->group,
                                    .zero = chance(p, 50) ? zero : TDM_DTYPE_NONE,
                                    .zero_low = -8,
                                    .zero_high = 7,
                                    .by_entry = true,
                                    .scale_low = -2};
    random_operand_quantize(&p->b, &p->random, &of_b);
    p->desc.quantize_a = chance(p, 30);
    if (p->desc.quantize_a)
        fill_rows_to_quantize(p);
    else
        random_array_fill(&p->a.data, &p->random, -3, 3);
}

static tdm_dtype draw_bias_type(random_gemm *p, bool floats) {
    if (!chance(p, 35))
        return TDM_DTYPE_NONE;
    return !floats || (p->kind == RANDOM_INTEGERS && chance(p, 50)) ? TDM_S32 : TDM_F32;
}

static void draw_bias(random_gemm *p, bool floats) {
    tdm_layout layout = {.dtype = draw_bias_type(p, floats), .rank = 1};
    if (layout.dtype == TDM_DTYPE_NONE)
        return;
    layout.shape[0] = p->n;
    layout.strides[0] = chance(p, 70) ? 1 : 2;
    test_array_create_layout(&p->bias, p->device, &layout, draw(p, 0, 9));
    random_array_fill(&p->bias, &p->random, -500, 500);
    p->desc.bias = layout;
}

static void draw_epilogue(random_gemm *p) {
    tdm_gemm_desc *const desc = &p->desc;
    const tdm_dtype d = p->d.data.layout.dtype;
    const bool floats = random_gemm_is_float(d);
    if (floats && chance(p, 40))
        desc->alpha = chance(p, 50) ? -0.5f : 2.0f;
    if (chance(p, 30)) {
        desc->beta = floats && chance(p, 50) ? 0.5f : 1.0f;
        create(p, &p->c, floats ? TDM_F32 : TDM_S32, p->m, p->n, true);
        random_array_fill(&p->c.data, &p->random, -1000, 1000);
        desc->c = p->c.data.layout;
    }
    if (floats && chance(p, 25)) {
        create(p, &p->residual, TDM_F32, p->m, p->n, true);
        desc->gated = chance(p, 40);
        const int most = desc->gated ? 4 : 1000;
        random_array_fill(&p->residual.data, &p->random, -most, most);
        desc->residual = p->residual.data.layout;
    }
    draw_bias(p, floats);
    desc->activation = d != TDM_S32 && chance(p, 25) ? TDM_ACT_RELU : TDM_ACT_NONE;
}

/*
 * Draws a variant that the device can run, often with a split K. A later check decides if it
 * accepts the problem.
 */
static void draw_variant(random_gemm *p) {
    static const tdm_op ops[] = {TDM_OP_GEMM, TDM_OP_GEMM_INT, TDM_OP_GEMM_WEIGHTS};
    if (chance(p, 40))
        return;
    const tdm_op op = p->kind == RANDOM_WEIGHTS && chance(p, 30) ? TDM_OP_GEMM : ops[p->kind];
    const char *name = NULL;
    for (int i = 0, seen = 0; i < tdm_variant_count; i++)
        if (tdm_variants[i].op == op && test_can_run(p->device, &tdm_variants[i]))
            name = draw(p, 0, seen++) == 0 ? tdm_variants[i].name : name;
    if (name == NULL)
        return;
    snprintf(p->variant, sizeof p->variant, "%s", name);
    if (chance(p, 50))
        snprintf(p->variant, sizeof p->variant, "%s:split_k=%d", name, (int)draw(p, 1, 9));
    p->desc.variant = p->variant;
}

void random_gemm_draw(random_gemm *p, const test_device *device, random_gemm_kind kind,
                      uint64_t seed) {
    static void (*const fill[])(random_gemm *) = {fill_floats, fill_integers, fill_weights};
    *p = (random_gemm){.device = device, .kind = kind, .seed = seed, .desc = TDM_GEMM_DESC_INIT};
    p->random.state = seed * 7919 + (uint64_t)kind;
    (void)test_random_bits(&p->random);
    draw_sizes(p);
    draw_matrices(p);
    fill[kind](p);
    test_array_send(&p->d.data);
    draw_epilogue(p);
    p->desc.a = p->a.data.layout;
    p->desc.b = p->b.data.layout;
    p->desc.d = p->d.data.layout;
    TEST_OK(tdm_tensor_quant_layout(p->a.tensor, &p->desc.a_quant));
    TEST_OK(tdm_tensor_quant_layout(p->b.tensor, &p->desc.b_quant));
    TEST_OK(tdm_tensor_quant_layout(p->d.tensor, &p->desc.d_quant));
    p->desc.packed_b = chance(p, 35);
    p->recorded = chance(p, 20);
    draw_variant(p);
}

void random_gemm_drop(random_gemm *p) {
    random_operand *const operands[] = {&p->a, &p->b, &p->c, &p->d, &p->residual};
    tdm_packed_destroy(p->packed);
    tdm_buffer_destroy(p->workspace);
    tdm_gemm_plan_destroy(p->plan);
    for (int i = 0; i < 5; i++)
        if (random_gemm_has(operands[i]))
            random_operand_destroy(operands[i]);
    if (p->bias.tensor != NULL)
        test_array_destroy(&p->bias);
}
