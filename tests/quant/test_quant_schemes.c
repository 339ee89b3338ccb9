/*
 * Tests the table of schemes, blocks and specs: the scale of each element, and the refused specs.
 */
#include <string.h>

#include "quant/schemes.h"
#include "tests/support/test_case.h"

TEST(test_every_scheme_is_found_and_sound) {
    assert_true(tdm_quant_scheme_count() >= 20);
    for (size_t i = 0; i < tdm_quant_scheme_count(); i++) {
        const tdm_quant_scheme *const scheme = tdm_quant_scheme_at(i);
        assert_ptr_equal(tdm_quant_scheme_info(scheme->id), scheme);
        assert_ptr_equal(tdm_quant_scheme_from_name(scheme->name), scheme);
        const bool grouped = scheme->granularity == TDM_QUANT_PER_GROUP ||
                             scheme->granularity == TDM_QUANT_PER_BLOCK;
        assert_true(grouped ? scheme->group == 32 : scheme->group == 0);
        const int64_t shape[2] = {64, 96};
        tdm_quant_spec spec;
        const tdm_status status = tdm_quant_spec_make(scheme, 2, shape, 0, 0, &spec, NULL);
        if (scheme->granularity == TDM_QUANT_NONE) {
            assert_int_equal(status, TDM_BAD_DTYPE);
            continue;
        }
        assert_int_equal(status, TDM_OK);
        const int32_t middle = tdm_quant_middle(scheme->range);
        assert_int_equal(middle, scheme->dtype == TDM_U8 ? 128 : 0);
        assert_true(scheme->symmetry == TDM_QUANT_ASYMMETRIC || scheme->id == TDM_QUANT_Q4_0 ||
                    scheme->range.low + scheme->range.high == 2 * middle);
    }
    assert_null(tdm_quant_scheme_at(tdm_quant_scheme_count()));
    assert_null(tdm_quant_scheme_from_name("s9"));
    assert_null(tdm_quant_scheme_from_name(NULL));
    assert_null(tdm_quant_scheme_info((tdm_quant_scheme_id)99));
}

/* A case is a shape with blocks, and the shape of the scales that results from them. */
typedef struct block_case {
    int rank;
    int64_t shape[4], blocks[4], scale_shape[4];
} block_case;

static const block_case block_cases[] = {
    {2, {5, 7}, {0, 0}, {1, 1}},
    {2, {5, 7}, {1, 0}, {5, 1}},
    {2, {5, 7}, {0, 1}, {1, 7}},
    {2, {5, 7}, {1, 3}, {5, 3}},
    {2, {70, 3}, {32, 1}, {3, 3}},
    {2, {64, 3}, {32, 1}, {2, 3}},
    {2, {5, 7}, {2, 3}, {3, 3}},
    {2, {5, 7}, {100, 7}, {1, 1}},
    {2, {0, 7}, {0, 1}, {0, 7}},
    {2, {7, 0}, {1, 0}, {7, 0}},
    {1, {33}, {32}, {2}},
    {1, {1}, {0}, {1}},
    {0, {0}, {0}, {0}},
    {3, {2, 3, 5}, {0, 1, 0}, {1, 3, 1}},
    {4, {2, 3, 4, 5}, {1, 2, 0, 4}, {2, 2, 1, 2}},
};

static tdm_quant_spec spec_of(const block_case *c) {
    tdm_quant_spec spec = {.rank = c->rank, .dtype = TDM_S8, .range = {-127, 127}};
    for (int i = 0; i < c->rank; i++) {
        spec.shape[i] = c->shape[i];
        spec.blocks[i] = c->blocks[i];
    }
    return spec;
}

/* Records the scale with which each element was visited. */
typedef struct visits {
    int64_t scale[256];
    int64_t next;
} visits;

static void remember(void *user, int64_t first, int64_t count, int64_t scale, int64_t step) {
    visits *const seen = user;
    assert_int_equal(first, seen->next);
    assert_true(count > 0);
    for (int64_t i = first; i < first + count; i++)
        seen->scale[i] = scale + (i - first) * step;
    seen->next = first + count;
}

/* Returns the scale's index by the definition: at[i] / block[i], in row-major order of the
 * scales. */
static int64_t scale_by_definition(const block_case *c, int64_t element) {
    int64_t index = 0, stride = 1;
    for (int i = c->rank - 1; i >= 0; i--) {
        const int64_t at = element % c->shape[i];
        element /= c->shape[i];
        index += (c->blocks[i] == 0 ? 0 : at / c->blocks[i]) * stride;
        stride *= c->scale_shape[i];
    }
    return index;
}

TEST(test_blocks_say_which_scale) {
    for (size_t n = 0; n < sizeof block_cases / sizeof block_cases[0]; n++) {
        const block_case *const c = &block_cases[n];
        const tdm_quant_spec spec = spec_of(c);
        int64_t shape[TDM_QUANT_MAX_RANK], scales = 1, elements = 1;
        assert_int_equal(tdm_quant_spec_check(&spec, NULL), TDM_OK);
        tdm_quant_scale_shape(&spec, shape);
        for (int i = 0; i < c->rank; i++) {
            assert_int_equal(shape[i], c->scale_shape[i]);
            scales *= shape[i];
            elements *= c->shape[i];
        }
        assert_int_equal(tdm_quant_scale_count(&spec), scales);
        assert_int_equal(tdm_quant_element_count(&spec), elements);
        visits seen = {.next = 0};
        tdm_quant_for_each_run(&spec, remember, &seen);
        assert_int_equal(seen.next, elements);
        for (int64_t e = 0; e < elements; e++) {
            int64_t at[TDM_QUANT_MAX_RANK], rest = e;
            for (int i = c->rank - 1; i >= 0; i--) {
                at[i] = rest % c->shape[i];
                rest /= c->shape[i];
            }
            assert_int_equal(tdm_quant_scale_index(&spec, at), scale_by_definition(c, e));
            assert_int_equal(seen.scale[e], scale_by_definition(c, e));
        }
    }
}

TEST(test_granularities) {
    int64_t blocks[3] = {-1, -1, -1};
    tdm_quant_reason reason;
    assert_true(tdm_quant_blocks_per_tensor(3, blocks, &reason));
    assert_true(blocks[0] == 0 && blocks[1] == 0 && blocks[2] == 0);
    assert_string_equal(reason.text, "");
    assert_true(tdm_quant_blocks_per_axis(3, 1, blocks, NULL));
    assert_true(blocks[0] == 0 && blocks[1] == 1 && blocks[2] == 0);
    assert_true(tdm_quant_blocks_per_group(3, 2, 64, blocks, NULL));
    assert_true(blocks[0] == 1 && blocks[1] == 1 && blocks[2] == 64);
    assert_false(tdm_quant_blocks_per_tensor(9, blocks, &reason));
    assert_non_null(strstr(reason.text, "rank is 9"));
    assert_false(tdm_quant_blocks_per_axis(3, 3, blocks, &reason));
    assert_non_null(strstr(reason.text, "axis is 3"));
    assert_false(tdm_quant_blocks_per_axis(3, -1, blocks, &reason));
    assert_false(tdm_quant_blocks_per_group(3, 0, 0, blocks, &reason));
    assert_non_null(strstr(reason.text, "group is 0"));
}

TEST(test_schemes_make_specs) {
    const int64_t shape[2] = {48, 100}, whole[2] = {48, 96}, negative[2] = {48, -1};
    tdm_quant_spec spec;
    tdm_quant_reason reason;
    const tdm_quant_scheme *const group = tdm_quant_scheme_info(TDM_QUANT_S4_GROUP);
    assert_int_equal(tdm_quant_spec_make(group, 2, shape, 1, 0, &spec, NULL), TDM_OK);
    assert_int_equal(tdm_quant_scale_count(&spec), 48 * 4);
    assert_int_equal(tdm_quant_spec_make(group, 2, shape, 0, 128, &spec, NULL), TDM_OK);
    assert_int_equal(tdm_quant_scale_count(&spec), 100);
    assert_int_equal(tdm_quant_spec_make(group, 2, shape, 2, 0, &spec, &reason), TDM_BAD_ARGUMENT);
    assert_int_equal(tdm_quant_spec_make(group, 2, shape, 1, -3, &spec, &reason), TDM_BAD_ARGUMENT);
    assert_int_equal(tdm_quant_spec_make(group, 2, negative, 1, 0, &spec, &reason), TDM_BAD_SHAPE);
    assert_non_null(strstr(reason.text, "dimension 1 is -1"));
    assert_int_equal(spec.rank, 0);
    const tdm_quant_scheme *const block = tdm_quant_scheme_info(TDM_QUANT_Q4_0);
    assert_int_equal(tdm_quant_spec_make(block, 2, whole, 0, 7, &spec, NULL), TDM_OK);
    assert_int_equal(tdm_quant_scale_count(&spec), 48 * 3);
    assert_int_equal(tdm_quant_spec_make(block, 2, shape, 0, 0, &spec, &reason), TDM_BAD_SHAPE);
    assert_non_null(strstr(reason.text, "100"));
}

TEST(test_bad_specs_are_refused) {
    static const int64_t huge = INT64_C(1) << 32;
    const struct {
        tdm_quant_spec spec;
        tdm_status status;
        const char *part;
    } rows[] = {
        {{2, {4, 4}, {1, 0}, TDM_S4, {-7, 7}, TDM_DTYPE_NONE}, TDM_OK, ""},
        {{2, {4, 4}, {1, 0}, TDM_S4, {-7, 7}, TDM_BF16}, TDM_OK, ""},
        {{2, {4, 4}, {1, 0}, TDM_S4, {-9, 7}, TDM_F32},
         TDM_BAD_ARGUMENT,
         "range is [-9, 7], must be within"},
        {{2, {4, 4}, {1, 0}, TDM_S4, {3, 3}, TDM_F32}, TDM_BAD_ARGUMENT, "range is [3, 3]"},
        {{2, {4, 4}, {1, 0}, TDM_F32, {-7, 7}, TDM_F32}, TDM_BAD_DTYPE, ""},
        {{2, {4, 4}, {1, -1}, TDM_S4, {-7, 7}, TDM_F32}, TDM_BAD_ARGUMENT, "-1"},
        {{9, {4, 4}, {1, 0}, TDM_S4, {-7, 7}, TDM_F32}, TDM_BAD_SHAPE, "9"},
        {{2, {huge, huge}, {1, 0}, TDM_S4, {-7, 7}, TDM_F32}, TDM_BAD_SHAPE, "overflow"},
        {{2, {4, 4}, {1, 0}, TDM_S4, {-7, 7}, TDM_S8}, TDM_BAD_DTYPE, "must be f32, f16 or"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        tdm_quant_reason reason = {"left over"};
        assert_int_equal(tdm_quant_spec_check(&rows[i].spec, &reason), rows[i].status);
        if (!strstr(reason.text, rows[i].part) || (rows[i].status == TDM_OK && reason.text[0]))
            fail_msg("row %zu: the reason is \"%s\"", i, reason.text);
    }
}

TEST_MAIN(NULL, NULL)
