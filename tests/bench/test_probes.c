/* The probes of the benchmarks: every variant on every device, and a check that sees mistakes.
 * ctest: device */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "bench/workers/probe_run.h"
#include "tests/support/devices/device_cases.h"

#define OF_DTYPE(type)                                                                             \
    {.kind = PROBE_FMA, .dtype = (type), .steps = 1, .seed = 3},                                   \
        {.kind = PROBE_FMA, .dtype = (type), .steps = 50, .seed = 4},                              \
        {.kind = PROBE_LADDER, .dtype = (type), .bytes = 100000, .steps = 1, .seed = 3},           \
        {.kind = PROBE_LADDER, .dtype = (type), .bytes = 100000, .steps = 20, .seed = 4}, {        \
        .kind = PROBE_LADDER, .dtype = (type), .bytes = 100000, .share = 8, .seed = 4              \
    }

static const probe_case cases[] = {
    OF_DTYPE(TDM_F32),
    OF_DTYPE(TDM_F16),
    OF_DTYPE(TDM_BF16),
    OF_DTYPE(TDM_S8),
    {.kind = PROBE_READ, .bytes = 1, .seed = 5},
    {.kind = PROBE_READ, .bytes = 1000000, .seed = 6},
    {.kind = PROBE_LAUNCH, .seed = 7},
};

static const tdm_op ops[] = {TDM_OP_PROBE_FMA, TDM_OP_PROBE_LADDER, TDM_OP_PROBE_READ,
                             TDM_OP_PROBE_LAUNCH};

static int takes_case(const tdm_variant *row, const probe_case *item) {
    enum {
        P_DTYPE = 4
    };
    return row->op == ops[item->kind] &&
           (row->parameters[P_DTYPE] == 0 || row->parameters[P_DTYPE] == (int)item->dtype);
}

static int check(const probe_case *item, const void *output, size_t bytes, worker_text *reason) {
    double max_error = 0;
    return probe_case_check(item, output, bytes, &max_error, reason);
}

/* Each word that is not as it should be must be seen: a value, or the lanes and words of the head. */
static void require_checked(const probe_case *item, uint32_t *output, size_t bytes) {
    const size_t words = bytes / sizeof *output;
    const size_t first = item->kind == PROBE_LADDER ? PROBE_WALK_WORDS : 0;
    const size_t places[] = {PROBE_HEAD_WORDS + first, words - 1};
    worker_text reason = {.length = 0};
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
        const uint32_t kept = output[places[i]];
        output[places[i]] ^= 0x00400000;
        if (check(item, output, bytes, &reason) == 0)
            test_case_fail("a changed word %zu of %zu was not seen", places[i], words);
        output[places[i]] = kept;
    }
    probe_case other = *item;
    other.seed++;
    if (check(&other, output, bytes, &reason) == 0)
        test_case_fail("the output passes for that of another seed");
    if (check(item, output, sizeof *output, &reason) == 0)
        test_case_fail("an output without values passes");
    if (item->steps == 0)
        return;
    other = *item;
    other.steps++;
    if (check(&other, output, bytes, &reason) == 0)
        test_case_fail("a step too few was not seen");
}

static void run_probe(const test_device *device, const tdm_variant *row, const probe_case *item) {
    probe_run run;
    worker_text reason = {.length = 0};
    TEST_OK(probe_run_create(device->device, device->stream, item, row->name, &run));
    TEST_OK(probe_run_enqueue(&run, item, device->stream));
    const size_t bytes = probe_run_output_bytes(&run);
    uint32_t *const output = malloc(bytes);
    assert_non_null(output);
    TEST_OK(probe_run_output(&run, item, device->stream, output));
    if (check(item, output, bytes, &reason) != 0)
        test_case_fail("%s", reason.text);
    if ((probe_run_work(&run, item) > 0) != (item->kind != PROBE_LAUNCH))
        test_case_fail("the work is %lld", (long long)probe_run_work(&run, item));
    require_checked(item, output, bytes);
    free(output);
    probe_run_release(&run);
}

static void every_probe(void **state) {
    (void)state;
    for (int d = 0; d < test_device_count(); d++)
        for (int v = 0; v < tdm_variant_count; v++)
            for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++) {
                const tdm_variant *const row = &tdm_variants[v];
                if (!takes_case(row, &cases[c]) || !test_can_run(test_device_at(d), row))
                    continue;
                if (!test_case_begin(test_device_at(d), row->name, "%s %d",
                                     probe_kind_name(cases[c].kind), (int)c))
                    continue;
                run_probe(test_device_at(d), row, &cases[c]);
                test_case_end();
            }
    for (size_t i = 0; i < sizeof ops / sizeof ops[0]; i++)
        test_require_all_variants(ops[i]);
}

/* What one call would do wrong silently, or overflow, is refused. */
DEVICE_TEST(too_much_is_refused) {
    probe_run run;
    const probe_case long_chain = {.kind = PROBE_FMA, .dtype = TDM_F32, .steps = 100000};
    TEST_REFUSED(probe_run_create(device->device, device->stream, &long_chain, NULL, &run),
                 TDM_UNSUPPORTED, "steps are too many");
    probe_run_release(&run);
    const probe_case huge = {.kind = PROBE_READ, .bytes = INT64_C(1) << 60};
    TEST_REFUSED(probe_run_create(device->device, device->stream, &huge, NULL, &run),
                 TDM_UNSUPPORTED, "bytes are too many");
    probe_run_release(&run);
}

DEVICE_TEST(requests_carry_the_case) {
    (void)device;
    for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++) {
        worker_text line = {.length = 0};
        probe_case read;
        probe_case_write(&cases[c], &line);
        assert_int_equal(probe_case_read(line.text, &read), 0);
        assert_int_equal(read.kind, cases[c].kind);
        assert_int_equal(read.dtype, cases[c].dtype);
        assert_int_equal(read.bytes, cases[c].bytes);
        assert_int_equal(read.steps, cases[c].steps);
        assert_int_equal(read.seed, cases[c].seed);
    }
    static const char *const bad[] = {"kind=fma dtype=f32 steps=0",
                                      "kind=fma dtype=u8 steps=1",
                                      "kind=ladder steps=1 bytes=1",
                                      "kind=read bytes=0",
                                      "kind=walk bytes=1",
                                      "kind=fma dtype=f32 steps=99999999999",
                                      "bytes=1"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        probe_case read;
        if (probe_case_read(bad[i], &read) == 0)
            test_case_fail("'%s' was accepted", bad[i]);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_probe),
        cmocka_unit_test(too_much_is_refused),
        cmocka_unit_test(requests_carry_the_case),
    };
    return cmocka_run_group_tests(tests, test_devices_setup, test_devices_teardown);
}
