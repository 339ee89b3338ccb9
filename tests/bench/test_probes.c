/* Tests the kernels that only measure: every variant on every device. The checks of their outputs
 * must detect mistakes.
 * ctest: device */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/harness/bench_runner.h"
#include "bench/workers/mix_run.h"
#include "bench/workers/probe_run.h"
#include "bench/workers/stream_run.h"
#include "tests/support/devices/device_cases.h"
#include "tests/support/test_case.h"

#define OF_DTYPE(type)                                                                             \
    {.kind = PROBE_FMA, .dtype = (type), .steps = 1, .seed = 3}, {                                 \
        .kind = PROBE_FMA, .dtype = (type), .steps = 50, .seed = 4                                 \
    }

static const probe_case probes[] = {
    OF_DTYPE(TDM_F32),
    OF_DTYPE(TDM_F16),
    OF_DTYPE(TDM_BF16),
    OF_DTYPE(TDM_S8),
    {.kind = PROBE_LAUNCH, .seed = 7},
};

static const memory_case streams[] = {
    {.operation = MEMORY_COPY, .bytes = 100004, .seed = 3},
    {.operation = MEMORY_SCALE, .bytes = 40, .seed = 4},
    {.operation = MEMORY_ADD, .bytes = 100000, .seed = 5},
    {.operation = MEMORY_TRIAD, .bytes = 65536, .seed = 6},
    {.operation = MEMORY_WRITE, .bytes = 70000, .seed = 7},
    {.operation = MEMORY_READ, .bytes = 300000, .seed = 8},
    {.operation = MEMORY_READ, .bytes = 1, .seed = 8},
    {.operation = MEMORY_SWEEP, .bytes = 20000, .amount = 100000, .seed = 10},
    {.operation = MEMORY_GATHER, .bytes = 1, .seed = 11},
    {.operation = MEMORY_GATHER, .bytes = 300000, .seed = 12},
    {.operation = MEMORY_CHASE, .bytes = 5000, .amount = 96, .seed = 12},
};

/* These sizes are less than a step, whole and partial numbers of steps, and more than one
 * work-group. */
static const quant_case mixes[] = {
    {.operation = QUANT_STREAM, .reads = 4, .writes = 1, .copied = 1, .seed = 1},
    {.operation = QUANT_STREAM, .reads = 4, .writes = 1, .copied = 300000, .seed = 2},
    {.operation = QUANT_STREAM, .reads = 1, .writes = 4, .copied = 40001, .seed = 3},
    {.operation = QUANT_STREAM, .reads = 4, .writes = 5, .copied = 20011, .seed = 4},
};

static int check(bench_verifier verify, const void *item, const void *output, size_t bytes,
                 worker_text *reason) {
    double max_error = 0;
    return verify(item, output, bytes, &max_error, reason);
}

/* Checks that the right output passes, and that wrong ones do not. Wrong are a changed word at
 * `place` or at the end, a single word, and the output of `other` (NULL: none). */
static void require_checked(bench_verifier verify, const void *item, const void *other,
                            size_t place, uint32_t *output, size_t bytes) {
    const size_t places[] = {place, bytes / sizeof *output - 1};
    worker_text reason = {.length = 0};
    if (check(verify, item, output, bytes, &reason) != 0)
        test_case_fail("%s", reason.text);
    for (size_t i = 0; i < 2; i++) {
        output[places[i]] ^= 0x00400000;
        if (check(verify, item, output, bytes, &reason) == 0)
            test_case_fail("a changed word %zu was not seen", places[i]);
        output[places[i]] ^= 0x00400000;
    }
    if (check(verify, item, output, sizeof *output, &reason) == 0)
        test_case_fail("an output of one word passes");
    if (other != NULL && check(verify, other, output, bytes, &reason) == 0)
        test_case_fail("the output passes for that of another case");
}

static uint32_t *allocate(size_t bytes) {
    uint32_t *const output = malloc(bytes);
    assert_non_null(output);
    return output;
}

static void run_probe(const test_device *device, const tdm_variant *row, const void *user) {
    const probe_case *const item = user;
    probe_case other = *item, longer = *item;
    probe_run run;
    TEST_OK(probe_run_create(device->device, device->stream, item, row->name, &run));
    TEST_OK(probe_run_enqueue(&run, item, device->stream));
    const size_t bytes = probe_run_output_bytes(&run);
    uint32_t *const output = allocate(bytes);
    TEST_OK(probe_run_output(&run, device->stream, output));
    if ((probe_run_work(&run, item) > 0) != (item->kind != PROBE_LAUNCH))
        test_case_fail("the work is %lld", (long long)probe_run_work(&run, item));
    other.seed++;
    longer.steps++;
    require_checked(probe_case_check, item, &other, PROBE_HEAD_WORDS, output, bytes);
    if (item->steps > 0)
        require_checked(probe_case_check, item, &longer, PROBE_HEAD_WORDS, output, bytes);
    free(output);
    probe_run_release(&run);
}

static void run_stream_once(const test_device *device, const memory_case *item,
                            const stream_form *form) {
    memory_case other = *item;
    stream_run run;
    TEST_OK(stream_run_create(device->device, device->stream, item, form, &run));
    TEST_OK(stream_run_enqueue(&run, item, device->stream));
    const size_t bytes = stream_run_output_bytes(&run, item);
    uint32_t *const output = allocate(bytes);
    TEST_OK(stream_run_output(&run, item, device->stream, output));
    other.seed++;
    const int tells = item->operation != MEMORY_WRITE && item->bytes > 4;
    require_checked(memory_case_check, item, tells ? &other : NULL, bytes / sizeof *output - 1,
                    output, bytes);
    if ((double)stream_run_work(&run, item) <
        (item->operation == MEMORY_CHASE ? 4 : memory_case_traffic(item)))
        test_case_fail("the work is %lld", (long long)stream_run_work(&run, item));
    free(output);
    stream_run_release(&run);
}

static void run_stream(const test_device *device, const tdm_variant *row, const void *user) {
    const memory_case *const item = user;
    const stream_form forms[] = {
        {row->name, 1, 0}, {row->name, 4, 4096}, {row->name, 8, 512}, {row->name, 4, 0}};
    for (size_t i = 0; i < sizeof forms / sizeof forms[0]; i++)
        if (forms[i].unroll < 8 || row->parameters[STREAM_P_EIGHT])
            run_stream_once(device, item, &forms[i]);
}

/* Runs twice. The first run uses non-temporal stores as the size requires; the second inverts that
 * and prefetches. */
static void run_mix(const test_device *device, const tdm_variant *row, const void *user) {
    const quant_case *const item = user;
    quant_case other = *item;
    mix_run run;
    other.seed++;
    tdm_force_variant(row->name);
    TEST_OK(mix_run_create(device->device, device->stream, item, &run));
    tdm_force_variant(NULL);
    const size_t bytes = mix_run_output_bytes(&run);
    uint32_t *const output = allocate(bytes);
    for (int turn = 0; turn < 2; turn++) {
        run.traversal.streams ^= turn;
        run.traversal.ahead = turn && row->parameters[MIX_P_PREFETCH] ? 4096 : 0;
        memset(output, 0xA5, bytes);
        TEST_OK(tdm_buffer_write(device->stream, run.output, 0, output, bytes - 4));
        TEST_OK(tdm_stream_synchronize(device->stream));
        TEST_OK(mix_run_enqueue(&run, device->stream));
        TEST_OK(mix_run_output(&run, device->stream, output));
        require_checked(quant_case_check, item, &other, 1, output, bytes);
    }
    free(output);
    mix_run_release(&run);
}

static bool is_of_probe(const tdm_variant *row, const void *user) {
    static const tdm_op ops[] = {TDM_OP_PROBE_FMA, TDM_OP_PROBE_LAUNCH};
    enum {
        P_DTYPE = 4
    };
    const probe_case *const item = user;
    return row->op == ops[item->kind] &&
           (row->parameters[P_DTYPE] == 0 || row->parameters[P_DTYPE] == (int)item->dtype);
}

static bool is_of_stream(const tdm_variant *row, const void *user) {
    return stream_row_does(row, ((const memory_case *)user)->operation);
}

static bool is_of_mix(const tdm_variant *row, const void *user) {
    (void)user;
    return row->op == TDM_OP_PROBE_MIX;
}

TEST(every_row) {
    static const struct {
        const void *cases;
        size_t bytes, size; /* of all cases, of one case */
        bool (*takes)(const tdm_variant *row, const void *item);
        void (*run)(const test_device *device, const tdm_variant *row, const void *item);
    } kinds[] = {{probes, sizeof probes, sizeof *probes, is_of_probe, run_probe},
                 {streams, sizeof streams, sizeof *streams, is_of_stream, run_stream},
                 {mixes, sizeof mixes, sizeof *mixes, is_of_mix, run_mix}};
    static const tdm_op ops[] = {TDM_OP_PROBE_FMA, TDM_OP_PROBE_LAUNCH, TDM_OP_PROBE_STREAM,
                                 TDM_OP_PROBE_CHASE, TDM_OP_PROBE_MIX};
    for (int d = 0; d < test_device_count(); d++)
        for (int v = 0; v < tdm_variant_count; v++)
            for (size_t k = 0; k < sizeof kinds / sizeof kinds[0]; k++)
                for (size_t at = 0; at < kinds[k].bytes; at += kinds[k].size) {
                    const tdm_variant *const row = &tdm_variants[v];
                    const void *const item = (const char *)kinds[k].cases + at;
                    if (!kinds[k].takes(row, item) || !test_can_run(test_device_at(d), row) ||
                        !test_case_begin(test_device_at(d), row->name, "case %zu of kind %zu",
                                         at / kinds[k].size, k))
                        continue;
                    kinds[k].run(test_device_at(d), row, item);
                    test_case_end();
                }
    for (size_t i = 0; i < sizeof ops / sizeof ops[0]; i++)
        test_require_all_variants(ops[i]);
}

/* Calls traverse the whole circle. A call that restarted each time would stay in a cache, however
 * large the array is. */
DEVICE_TEST(a_chase_goes_on_where_the_last_call_ended) {
    const memory_case item = {
        .operation = MEMORY_CHASE, .bytes = 64 * 101, .amount = 32, .seed = 3};
    bool seen[101] = {false};
    worker_text reason = {.length = 0};
    stream_run run;
    TEST_OK(stream_run_create(device->device, device->stream, &item, NULL, &run));
    for (int call = 1; call <= 101; call++) {
        int32_t state[2];
        TEST_OK(stream_run_enqueue(&run, &item, device->stream));
        TEST_OK(stream_run_output(&run, &item, device->stream, state));
        if (check(memory_case_check, &item, state, sizeof state, &reason) != 0 ||
            state[1] != call || state[0] % 16 != 0 || state[0] / 16 >= 101 || seen[state[0] / 16])
            test_case_fail("call %d ends at word %d, the %d-th", call, state[0], state[1]);
        seen[state[0] / 16] = true;
    }
    stream_run_release(&run);
}

/* Requests that would silently give wrong results or overflow are refused. */
DEVICE_TEST(too_much_is_refused) {
    probe_run run;
    stream_run stream;
    const probe_case long_chain = {.kind = PROBE_FMA, .dtype = TDM_F32, .steps = 100000};
    const memory_case array = {.operation = MEMORY_READ, .bytes = (size_t)1 << 60};
    TEST_REFUSED(probe_run_create(device->device, device->stream, &long_chain, NULL, &run),
                 TDM_UNSUPPORTED, "steps are too many");
    TEST_REFUSED(stream_run_create(device->device, device->stream, &array, NULL, &stream),
                 TDM_UNSUPPORTED, "bytes are too many");
}

TEST_MAIN(test_devices_setup, test_devices_teardown)
