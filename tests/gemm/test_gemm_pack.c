/*
 * The packing kernels by themselves: every element where the layout says, zeros past the matrix, the rest untouched.
 */
// ctest: device
#include <stdio.h>

#include "api/gemm/gemm_internal.h"
#include "quant/number_formats.h"
#include "tests/support/test_array.h"

/* A source of depth×lines under a placement, packed in one batch of `batch`. */
typedef struct pack_case {
    int64_t depth, lines, batch;
    test_placement placement;
    int lines_first; /* the source is stored as lines×depth */
} pack_case;

/* Depths around the eight rows of one step, and beyond one item's share. */
static const int64_t depths[] = {1, 7, 8, 9, 1500};

static void expect_panels(const pack_case *c, int width, const test_array *source,
                          const test_array *packed) {
    const int64_t panels = tdm_ceil_div(c->lines, width);
    for (int64_t z = 0; z < c->batch; z++)
        for (int64_t q = 0; q < panels; q++)
            for (int64_t p = 0; p < c->depth; p++)
                for (int64_t w = 0; w < width; w++) {
                    const int64_t line = q * width + w;
                    const int64_t from = c->lines_first ? line * c->depth + p : p * c->lines + line;
                    const double expected =
                        line < c->lines ? test_array_get(source, z * c->depth * c->lines + from)
                                        : 0;
                    const double got =
                        test_array_fetched(packed, ((z * panels + q) * c->depth + p) * width + w);
                    if (got != expected)
                        test_case_fail(
                            "batch %lld, panel %lld, depth %lld, line %lld is %g, must be %g",
                            (long long)z, (long long)q, (long long)p, (long long)w, got, expected);
                }
}

static void run(const test_device *device, const tdm_variant *row, const pack_case *c) {
    const int width = row->parameters[TDM_PACK_P_WIDTH];
    const tdm_dtype source_type = (tdm_dtype)row->parameters[TDM_PACK_P_SOURCE];
    const tdm_dtype panel_type = (tdm_dtype)row->parameters[TDM_PACK_P_PANELS];
    const int64_t panels = tdm_ceil_div(c->lines, width);
    const int64_t shape[3] = {c->batch, c->lines_first ? c->lines : c->depth,
                              c->lines_first ? c->depth : c->lines};
    const int64_t packed_shape[4] = {c->batch, panels, c->depth, width};
    test_array source, packed;
    test_array_create(&source, device, source_type, 3, shape, c->placement);
    test_array_create(&packed, device, panel_type, 4, packed_shape, TEST_DENSE);
    test_array_fill(&source, TEST_DATA_UNIT, 42);
    test_array_send(&packed);
    tdm_gemm_packing packing = {.width = width,
                                .unit_bytes = tdm_dtype_info(panel_type)->unit_bytes,
                                .lines = c->lines,
                                .z_elements = panels * width * c->depth,
                                .z_stride = panels * width * c->depth,
                                .z_count = c->batch};
    TEST_OK(tdm_device_kernel(device->device, row, &packing.kernel));
    const int64_t *const strides = source.layout.strides;
    const tdm_gemm_pack_job job = {.packing = &packing,
                                   .source = source.tensor,
                                   .depth = c->depth,
                                   .depth_stride = strides[c->lines_first ? 2 : 1],
                                   .line_stride = strides[c->lines_first ? 1 : 2],
                                   .z_stride = strides[0],
                                   .target = packed.buffer->block,
                                   .target_offset = (uint64_t)(packed.offset * packing.unit_bytes)};
    TEST_OK(tdm_gemm_enqueue_pack(device->stream, &job));
    test_array_fetch(&packed);
    expect_panels(c, width, &source, &packed);
    test_array_destroy(&source);
    test_array_destroy(&packed);
}

static void run_row(const test_device *device, const tdm_variant *row) {
    const int width = row->parameters[TDM_PACK_P_WIDTH];
    const int64_t lines[] = {1, width - 1, width, 2 * width + 1};
    int number = 0;
    for (int d = 0; d < (test_is_small() ? 4 : 5); d++)
        for (int l = 0; l < 4; l++)
            for (int first = 0; first < 2; first++, number++) {
                const pack_case c = {depths[d], lines[l], 1 + number % 2,
                                     (test_placement)(number % TEST_PLACEMENTS), first};
                if (!test_case_begin(device, row->name, "depth %d lines %d batch %d %s%s",
                                     (int)c.depth, (int)c.lines, (int)c.batch,
                                     test_placement_name(c.placement), first ? " lines first" : ""))
                    continue;
                run(device, row, &c);
                test_case_end();
            }
}

static void every_packing(void **state) {
    (void)state;
    for (int d = 0; d < test_device_count(); d++)
        for (int i = 0; i < tdm_variant_count; i++)
            if (tdm_variants[i].op == TDM_OP_GEMM_PACK &&
                test_can_run(test_device_at(d), &tdm_variants[i]))
                run_row(test_device_at(d), &tdm_variants[i]);
    test_require_all_variants(TDM_OP_GEMM_PACK);
}

/* Devices that run no packing kernel still pack weights, as dense copies. */
static void weights_can_be_packed_everywhere(void **state) {
    (void)state;
    for (int d = 0; d < test_device_count(); d++) {
        const test_device *const device = test_device_at(d);
        tdm_gemm_desc desc = TDM_GEMM_DESC_INIT;
        tdm_gemm_plan *plan = NULL;
        if (!test_case_begin(device, NULL, "packed weights"))
            continue;
        TEST_OK(tdm_layout_contiguous(TDM_F32, 2, (const int64_t[]){3, 4}, &desc.a));
        TEST_OK(tdm_layout_contiguous(TDM_F32, 2, (const int64_t[]){4, 5}, &desc.b));
        TEST_OK(tdm_layout_contiguous(TDM_F32, 2, (const int64_t[]){3, 5}, &desc.d));
        desc.packed_b = 1;
        TEST_OK(tdm_gemm_plan_create(device->device, &desc, &plan));
        test_array b;
        tdm_packed *packed = NULL;
        test_array_create_layout(&b, device, &desc.b, 0);
        test_array_fill(&b, TEST_DATA_UNIT, 1);
        TEST_OK(tdm_gemm_pack_b(plan, device->stream, b.tensor, &packed));
        assert_non_null(tdm_packed_layout(packed));
        assert_true(tdm_packed_bytes(packed) >= 4 * 5 * sizeof(float));
        TEST_OK(tdm_stream_synchronize(device->stream));
        tdm_packed_destroy(packed);
        tdm_gemm_plan_destroy(plan);
        test_array_destroy(&b);
        test_case_end();
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_packing),
        cmocka_unit_test(weights_can_be_packed_everywhere),
    };
    return cmocka_run_group_tests(tests, test_devices_setup, test_devices_teardown);
}
