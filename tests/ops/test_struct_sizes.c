/* Structs of programs that were built with other versions of the library: shorter ones and longer ones.
 * ctest: device */
#include <stdlib.h>
#include <string.h>

#include "tests/support/devices/device_cases.h"
#include "tests/support/test_data.h"

/* A struct of a later version: what this one knows, and more. */
typedef union later {
    char bytes[8192];
    size_t struct_size;
    tdm_gemm_desc gemm;
    tdm_outofcore_desc outofcore;
    tdm_memory_stats stats;
    tdm_device_info info;
    tdm_context_options options;
} later;

static tdm_gemm_desc small_gemm(void) {
    tdm_gemm_desc desc = TDM_GEMM_DESC_INIT;
    const int64_t shape[] = {4, 4};
    tdm_layout *const layouts[] = {&desc.a, &desc.b, &desc.d};
    for (int i = 0; i < 3; i++)
        TEST_OK(tdm_layout_contiguous(TDM_F32, 2, shape, layouts[i]));
    return desc;
}

static void plan_is_made(const test_device *device, const tdm_gemm_desc *desc) {
    tdm_gemm_plan *plan = NULL;
    TEST_OK(tdm_gemm_plan_create(device->device, desc, &plan));
    tdm_gemm_plan_destroy(plan);
}

DEVICE_TEST(longer_descriptions_are_read_where_the_rest_is_zero) {
    later given = {.gemm = small_gemm()};
    tdm_gemm_plan *plan = NULL;
    given.struct_size = sizeof given.gemm + 64;
    plan_is_made(device, &given.gemm);
    given.bytes[sizeof given.gemm + 17] = 1;
    TEST_REFUSED(tdm_gemm_plan_create(device->device, &given.gemm, &plan), TDM_BAD_ARGUMENT,
                 "of desc is set");
    assert_null(plan);
    given.struct_size = sizeof given.gemm + 16;
    plan_is_made(device, &given.gemm); // what is set lies behind it
}

/* The description ends at the end of a block of malloc's, so that sanitizers see a read beyond. */
DEVICE_TEST(shorter_descriptions_are_filled_with_zeros) {
    const tdm_gemm_desc whole = small_gemm();
    const size_t size = offsetof(tdm_gemm_desc, activation) / sizeof(size_t) * sizeof(size_t);
    void *volatile block = malloc(size); // volatile: compilers warn of structs without their end
    tdm_gemm_desc *const shorter = block;
    assert_non_null(shorter);
    memcpy(shorter, &whole, size);
    shorter->struct_size = size;
    plan_is_made(device, shorter);
    free(shorter);
}

DEVICE_TEST(sizes_that_no_version_has_are_refused) {
    static const size_t sizes[] = {0,
                                   1,
                                   7,
                                   sizeof(tdm_gemm_desc) - 1,
                                   sizeof(tdm_gemm_desc) + 1,
                                   (size_t)1 << 20,
                                   SIZE_MAX,
                                   SIZE_MAX - 7};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        tdm_gemm_desc desc = small_gemm();
        tdm_gemm_plan *plan = NULL;
        desc.struct_size = sizes[i];
        TEST_REFUSED(tdm_gemm_plan_create(device->device, &desc, &plan), TDM_BAD_ARGUMENT,
                     "struct_size of desc");
        tdm_memory_stats stats = {.struct_size = sizes[i] == sizeof desc + 1 ? 3 : sizes[i]};
        if (stats.struct_size != sizeof desc - 1)
            TEST_REFUSED(tdm_device_memory_stats(device->device, &stats), TDM_BAD_ARGUMENT,
                         "struct_size of stats");
    }
}

DEVICE_TEST(a_description_within_another_may_grow_at_its_end) {
    later given = {.outofcore = TDM_OUTOFCORE_DESC_INIT};
    tdm_outofcore_plan *plan = NULL;
    given.outofcore.gemm = small_gemm();
    given.outofcore.budget_bytes = 1 << 20;
    given.outofcore.struct_size += 32;
    given.outofcore.gemm.struct_size += 32;
    TEST_OK(tdm_outofcore_plan_create(device->device, &given.outofcore, &plan));
    tdm_outofcore_plan_destroy(plan);
    given.bytes[sizeof given.outofcore + 5] = 1;
    TEST_REFUSED(tdm_outofcore_plan_create(device->device, &given.outofcore, &plan),
                 TDM_BAD_ARGUMENT, "of desc is set");
    given.outofcore.struct_size = sizeof given.outofcore;
    TEST_REFUSED(tdm_outofcore_plan_create(device->device, &given.outofcore, &plan),
                 TDM_BAD_ARGUMENT, "struct_size of desc.gemm");
}

DEVICE_TEST(structs_to_be_filled_end_where_the_caller_says) {
    later got;
    memset(&got, 0x5A, sizeof got);
    got.struct_size = sizeof got.info + 24;
    TEST_OK(tdm_device_describe(device->device, &got.info));
    assert_int_equal(got.struct_size, sizeof got.info + 24);
    assert_int_equal(got.info.compute_units, device->info.compute_units);
    for (size_t i = sizeof got.info; i < sizeof got; i++)
        assert_int_equal(got.bytes[i], i < sizeof got.info + 24 ? 0 : 0x5A);
    memset(&got, 0x5A, sizeof got);
    got.struct_size = 2 * sizeof(size_t);
    TEST_OK(tdm_device_memory_stats(device->device, &got.stats));
    for (size_t i = 2 * sizeof(size_t); i < sizeof got; i++)
        assert_int_equal(got.bytes[i], 0x5A);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(longer_descriptions_are_read_where_the_rest_is_zero),
        cmocka_unit_test(shorter_descriptions_are_filled_with_zeros),
        cmocka_unit_test(sizes_that_no_version_has_are_refused),
        cmocka_unit_test(a_description_within_another_may_grow_at_its_end),
        cmocka_unit_test(structs_to_be_filled_end_where_the_caller_says),
    };
    return cmocka_run_group_tests(tests, test_devices_setup, test_devices_teardown);
}
