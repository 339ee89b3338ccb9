/* The kernels of `tandem bench memory`: every row on every device, in all settings, and a check that sees mistakes.
 * ctest: device */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/workers/stream_run.h"
#include "bench/workers/transfer_run.h"
#include "tests/support/devices/device_cases.h"

static const memory_case cases[] = {
    {.operation = MEMORY_COPY, .bytes = 100004, .seed = 3},
    {.operation = MEMORY_SCALE, .bytes = 40, .seed = 4},
    {.operation = MEMORY_ADD, .bytes = 100000, .seed = 5},
    {.operation = MEMORY_TRIAD, .bytes = 65536, .seed = 6},
    {.operation = MEMORY_WRITE, .bytes = 70000, .seed = 7},
    {.operation = MEMORY_READ, .bytes = 300000, .seed = 8},
    {.operation = MEMORY_READ, .bytes = 1, .seed = 8},
    {.operation = MEMORY_STRIDED, .bytes = 100000, .stride = 8, .seed = 9},
    {.operation = MEMORY_STRIDED, .bytes = 4100, .stride = 2, .seed = 9},
    {.operation = MEMORY_SWEEP, .bytes = 20000, .amount = 100000, .seed = 10},
    {.operation = MEMORY_GATHER, .bytes = 50000, .seed = 11},
    {.operation = MEMORY_GATHER, .bytes = 1, .seed = 11},
    {.operation = MEMORY_GATHER, .bytes = 300000, .seed = 12},
    {.operation = MEMORY_CHASE, .bytes = 5000, .amount = 96, .seed = 12},
};

static const tdm_op ops[] = {TDM_OP_PROBE_STREAM, TDM_OP_PROBE_CHASE};

static int check(const memory_case *item, const void *output, size_t bytes) {
    double max_error = 0;
    worker_text reason = {.length = 0};
    return memory_case_check(item, output, bytes, &max_error, &reason);
}

static void require_right(const memory_case *item, const void *output, size_t bytes) {
    double max_error = 0;
    worker_text reason = {.length = 0};
    if (memory_case_check(item, output, bytes, &max_error, &reason) != 0)
        test_case_fail("%s", reason.text);
}

/* A wrong last word, too few bytes and other data are seen. */
static void require_checked(const memory_case *item, uint32_t *output, size_t bytes) {
    memory_case other = *item;
    uint32_t *const last = output + bytes / 4 - 1;
    if (bytes < 4)
        return;
    *last ^= 0x00400000;
    if (check(item, output, bytes) == 0)
        test_case_fail("a changed word was not seen");
    *last ^= 0x00400000;
    if (check(item, output, bytes - 4) == 0)
        test_case_fail("an output that is too short passes");
    other.seed++;
    if (item->operation != MEMORY_WRITE && item->bytes > 4 && check(&other, output, bytes) == 0)
        test_case_fail("the output passes for that of another seed");
}

static void run_once(const test_device *device, const memory_case *item, stream_run *run) {
    const size_t bytes = stream_run_output_bytes(run, item);
    uint32_t *const output = malloc(bytes + 4);
    assert_non_null(output);
    TEST_OK(stream_run_enqueue(run, item, device->stream));
    TEST_OK(stream_run_output(run, item, device->stream, output));
    require_right(item, output, bytes);
    require_checked(item, output, bytes);
    if ((double)stream_run_work(run, item) <
        (item->operation == MEMORY_CHASE ? 4 : memory_case_traffic(item)))
        test_case_fail("the work is %lld", (long long)stream_run_work(run, item));
    free(output);
}

/* The arrays are the same for all settings of a row: what a setting leaves unwritten, the one before wrote. */
static void run_settings(const test_device *device, const tdm_variant *row, memory_case item) {
    static const memory_setting settings[] = {
        {.unroll = 1, .occupancy = 1}, {.unroll = 4, .occupancy = 2, .ahead = 8192},
        {.unroll = 4, .occupancy = 3}, {.unroll = 8, .occupancy = 1, .ahead = 512},
        {.unroll = 0, .occupancy = 0},
    };
    for (size_t s = 0; s < sizeof settings / sizeof settings[0]; s++) {
        stream_run run;
        if (settings[s].unroll == 8 && !row->parameters[STREAM_P_EIGHT])
            continue;
        item.setting = settings[s];
        if (item.operation == MEMORY_GATHER && item.setting.ahead > 4096)
            item.setting.ahead = 4096;
        snprintf(item.setting.row, sizeof item.setting.row, "%s", row->name);
        TEST_OK(stream_run_create(device->device, device->stream, &item, &run));
        run_once(device, &item, &run);
        stream_run_release(&run);
    }
}

static void every_row(void **state) {
    (void)state;
    for (int d = 0; d < test_device_count(); d++)
        for (int v = 0; v < tdm_variant_count; v++)
            for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++) {
                const tdm_variant *const row = &tdm_variants[v];
                if (!stream_row_does(row, cases[c].operation) ||
                    !test_can_run(test_device_at(d), row))
                    continue;
                if (!test_case_begin(test_device_at(d), row->name, "%s %zu",
                                     memory_operation_name(cases[c].operation), cases[c].bytes))
                    continue;
                run_settings(test_device_at(d), row, cases[c]);
                test_case_end();
            }
    for (size_t i = 0; i < sizeof ops / sizeof ops[0]; i++)
        test_require_all_variants(ops[i]);
}

/* What is found can run, is of the operation, and gives the right result in arrays that others have used. */
DEVICE_TEST(the_fastest_setting_is_one_that_works) {
    static const struct {
        memory_case item;
        const char *row;
    } found[] = {
        {{.operation = MEMORY_TRIAD, .bytes = 40000, .seed = 2}, "probe_triad_"},
        {{.operation = MEMORY_STRIDED, .bytes = 40000, .stride = 32, .seed = 2},
         "probe_read_f32_x1"},
        {{.operation = MEMORY_GATHER, .bytes = 40000, .seed = 2}, "probe_gather_"},
    };
    for (size_t i = 0; i < sizeof found / sizeof found[0]; i++) {
        const memory_case *const item = &found[i].item;
        memory_setting best;
        stream_run run;
        TEST_OK(stream_run_create(device->device, device->stream, item, &run));
        TEST_OK(stream_run_find(device->device, device->stream, item, &best, &run));
        if (best.row[0] != '\0' && strncmp(best.row, found[i].row, strlen(found[i].row)) != 0)
            test_case_fail("it is %s", best.row);
        run_once(device, item, &run);
        stream_run_release(&run);
    }
}

/* Calls go round the whole circle: one that began anew each time would stay in a cache, however large the array. */
DEVICE_TEST(a_chase_goes_on_where_the_last_call_ended) {
    const memory_case item = {
        .operation = MEMORY_CHASE, .bytes = 64 * 101, .amount = 32, .seed = 3};
    bool seen[101] = {false};
    stream_run run;
    TEST_OK(stream_run_create(device->device, device->stream, &item, &run));
    for (int call = 1; call <= 101; call++) {
        int32_t state[2];
        TEST_OK(stream_run_enqueue(&run, &item, device->stream));
        TEST_OK(stream_run_output(&run, &item, device->stream, state));
        require_right(&item, state, sizeof state);
        if (state[1] != call || state[0] % 16 != 0 || state[0] / 16 >= 101 || seen[state[0] / 16])
            test_case_fail("call %d ends at word %d, the %d-th", call, state[0], state[1]);
        seen[state[0] / 16] = true;
    }
    stream_run_release(&run);
}

/* Each word of a list is of one case: strided has as many as there are strides. */
static void forms_are_of_their_cases(void **state) {
    (void)state;
    static const char forms[] = "strided=one:1:1:0,read=two:4:2:0,strided=three:8:3:64";
    memory_setting setting;
    assert_int_equal(memory_setting_given(forms, MEMORY_STRIDED, 0, &setting), 0);
    assert_string_equal(setting.row, "one");
    assert_int_equal(memory_setting_given(forms, MEMORY_STRIDED, 1, &setting), 0);
    assert_string_equal(setting.row, "three");
    assert_int_equal(setting.unroll, 8);
    assert_int_equal(memory_setting_given(forms, MEMORY_STRIDED, 2, &setting), -1);
    assert_int_equal(memory_setting_given(forms, MEMORY_READ, 0, &setting), 0);
    assert_string_equal(setting.row, "two");
    assert_int_equal(memory_setting_given(forms, MEMORY_GATHER, 0, &setting), -1);
    assert_int_equal(memory_setting_given(NULL, MEMORY_READ, 0, &setting), -1);
}

DEVICE_TEST(copies_arrive) {
    static const memory_operation operations[] = {MEMORY_BUFFER, MEMORY_UPLOAD, MEMORY_DOWNLOAD,
                                                  MEMORY_BOTH};
    for (int i = 0; i < 8; i++) {
        const memory_case item = {
            .operation = operations[i / 2], .bytes = 30001, .pinned = i % 2, .seed = (uint64_t)i};
        const size_t bytes = transfer_run_output_bytes(&item);
        unsigned char *const output = malloc(bytes);
        transfer_run run;
        assert_non_null(output);
        TEST_OK(transfer_run_create(device->device, device->stream, &item, &run));
        for (int call = 0; call < 2; call++)
            TEST_OK(transfer_run_enqueue(&run, &item, device->stream));
        TEST_OK(transfer_run_wait(&run, device->stream));
        TEST_OK(transfer_run_output(&run, &item, device->stream, output));
        require_right(&item, output, bytes);
        output[bytes - 1] ^= 1;
        if (check(&item, output, bytes) == 0)
            test_case_fail("a changed byte was not seen");
        if (check(&item, output, bytes - 1) == 0)
            test_case_fail("an output that is too short passes");
        transfer_run_release(&run);
        free(output);
    }
}

DEVICE_TEST(too_much_is_refused) {
    const memory_case huge = {.operation = MEMORY_READ, .bytes = (size_t)1 << 60};
    stream_run run;
    TEST_REFUSED(stream_run_create(device->device, device->stream, &huge, &run), TDM_UNSUPPORTED,
                 "bytes are too many");
    stream_run_release(&run);
}

/* A prefetch of gather reads places where it looks ahead; eight at a time are code of their own. */
DEVICE_TEST(settings_that_a_kernel_has_not_are_refused) {
    static const struct {
        memory_operation operation;
        memory_setting setting;
        const char *reason;
    } wrong[] = {
        {MEMORY_TRIAD, {.unroll = 8}, "has no eight vectors at a time"},
        {MEMORY_GATHER, {.ahead = 4096 + 64}, "up to 4096 ahead, not 4160"},
        {MEMORY_GATHER, {.ahead = 40}, "multiples of 64 bytes"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        const memory_case item = {
            .operation = wrong[i].operation, .bytes = 4000, .setting = wrong[i].setting};
        stream_run run;
        TEST_REFUSED(stream_run_create(device->device, device->stream, &item, &run),
                     TDM_UNSUPPORTED, wrong[i].reason);
        stream_run_release(&run);
    }
}

static void requests_carry_the_case(void **state) {
    (void)state;
    for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++) {
        worker_text line = {.length = 0};
        memory_case written = cases[c];
        memory_case read;
        written.threads = 2;
        written.pinned = c % 2 == 0;
        written.setting =
            (memory_setting){.row = "some row", .unroll = 4, .occupancy = 3, .ahead = 64};
        memory_case_write(&written, &line);
        assert_int_equal(memory_case_read(line.text, &read), 0);
        assert_int_equal(read.operation, written.operation);
        assert_int_equal(read.bytes, written.bytes);
        assert_int_equal(read.seed, written.seed);
        assert_int_equal(read.pinned, written.pinned);
        assert_int_equal(read.amount, written.amount);
        assert_string_equal(read.setting.row, "some row");
        assert_int_equal(read.setting.unroll, 4);
        assert_int_equal(read.setting.occupancy, 3);
        assert_int_equal(read.setting.ahead, 64);
    }
    static const char *const bad[] = {
        "operation=copy bytes=0 threads=1", "operation=copy bytes=8 threads=0",
        "operation=walk bytes=8 threads=1", "operation=copy bytes=8 threads=1 unroll=3",
        "operation=copy bytes=8 threads=1 occupancy=4"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        memory_case read;
        assert_int_not_equal(memory_case_read(bad[i], &read), 0);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_row),
        cmocka_unit_test(the_fastest_setting_is_one_that_works),
        cmocka_unit_test(a_chase_goes_on_where_the_last_call_ended),
        cmocka_unit_test(copies_arrive),
        cmocka_unit_test(too_much_is_refused),
        cmocka_unit_test(settings_that_a_kernel_has_not_are_refused),
        cmocka_unit_test(forms_are_of_their_cases),
        cmocka_unit_test(requests_carry_the_case),
    };
    return cmocka_run_group_tests(tests, test_devices_setup, test_devices_teardown);
}
