/* The kernel of mixed traffic of `tandem bench quant`: every row on every device, and a check that sees mistakes.
 * ctest: device */
#include <stdlib.h>
#include <string.h>

#include "bench/workers/mix_run.h"
#include "tests/support/devices/device_cases.h"

/* Fewer bytes than a step has, whole and broken numbers of steps, more than one group's. */
static const quant_case cases[] = {
    {.operation = QUANT_STREAM, .reads = 4, .writes = 1, .copied = 1, .seed = 1},
    {.operation = QUANT_STREAM, .reads = 4, .writes = 1, .copied = 300000, .seed = 2},
    {.operation = QUANT_STREAM, .reads = 1, .writes = 4, .copied = 40001, .seed = 3},
    {.operation = QUANT_STREAM, .reads = 4, .writes = 5, .copied = 20011, .seed = 4},
    {.operation = QUANT_STREAM, .reads = 1, .writes = 1, .copied = 12345, .seed = 5},
};

static int check(const quant_case *item, const void *output, size_t bytes) {
    double max_error = 0;
    worker_text reason = {.length = 0};
    return quant_case_check(item, output, bytes, &max_error, &reason);
}

/* A wrong last word, too few words and other data are seen. */
static void require_checked(const quant_case *item, uint32_t *output, size_t bytes) {
    quant_case other = *item;
    uint32_t *const last = output + bytes / 4 - 1;
    *last ^= 0x00400000;
    if (check(item, output, bytes) == 0)
        test_case_fail("a changed word was not seen");
    *last ^= 0x00400000;
    if (check(item, output, bytes - 4) == 0)
        test_case_fail("an output that is too short passes");
    other.seed++;
    if (check(&other, output, bytes) == 0)
        test_case_fail("the output passes for that of another seed");
}

/* `streams` as the size says it, and the other way. */
static void run_case(const test_device *device, const quant_case *item) {
    mix_run run;
    TEST_OK(mix_run_create(device->device, device->stream, item, &run));
    const size_t bytes = mix_run_output_bytes(&run);
    uint32_t *const output = malloc(bytes);
    assert_non_null(output);
    for (int turn = 0; turn < 2; turn++) {
        run.walk.streams ^= turn;
        memset(output, 0xA5, bytes);
        TEST_OK(tdm_buffer_write(device->stream, run.output, 0, output, bytes - 4));
        TEST_OK(tdm_stream_synchronize(device->stream));
        TEST_OK(mix_run_enqueue(&run, device->stream));
        TEST_OK(mix_run_output(&run, device->stream, output));
        if (check(item, output, bytes) != 0)
            test_case_fail("the output is wrong");
    }
    require_checked(item, output, bytes);
    free(output);
    mix_run_release(&run);
}

static void every_row(void **state) {
    (void)state;
    for (int d = 0; d < test_device_count(); d++)
        for (int v = 0; v < tdm_variant_count; v++)
            for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++) {
                const tdm_variant *const row = &tdm_variants[v];
                const quant_case *const item = &cases[c];
                if (row->op != TDM_OP_PROBE_MIX || !test_can_run(test_device_at(d), row))
                    continue;
                if (!test_case_begin(test_device_at(d), row->name, "%d:%d %lld", item->reads,
                                     item->writes, (long long)item->copied))
                    continue;
                tdm_force_variant(row->name);
                run_case(test_device_at(d), item);
                tdm_force_variant(NULL);
                test_case_end();
            }
    test_require_all_variants(TDM_OP_PROBE_MIX);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_row)};
    return cmocka_run_group_tests(tests, test_devices_setup, test_devices_teardown);
}
