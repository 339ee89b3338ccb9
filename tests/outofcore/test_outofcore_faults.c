// Every driver call of an out-of-core GEMM fails once. The call then returns a status, nothing
// leaks, no part of the plan remains, and a retry succeeds.
// ctest: device rusticl_in_ci timeout=300
#include <string.h>

#include "api/device/core.h"
#include "tests/support/drivers/counted_host.h"
#include "tests/support/gemm/outofcore_trial.h"
#include "tests/support/test_case.h"

/* The codes are CL_OUT_OF_RESOURCES, CL_OUT_OF_HOST_MEMORY and CL_MEM_OBJECT_ALLOCATION_FAILURE. */
static const int codes[] = {-5, -6, -4};

static int setup(void **state) {
    if (!counted_host_install())
        return -1;
    return test_devices_setup(state);
}

/* ---- the job --------------------------------------------------------------------------------- */

/* One trial takes all of K at once, the other takes K in steps. */
static const outofcore_trial trials[] = {{.m = 70,
                                          .n = 66,
                                          .k = 40,
                                          .a = TDM_F32,
                                          .b = TDM_S8,
                                          .d = TDM_F32,
                                          .b_quant = OUTOFCORE_EACH,
                                          .c = TDM_F32,
                                          .bias = TDM_F32,
                                          .alpha = 1,
                                          .beta = 0.5f,
                                          .budget = 0.5,
                                          .tile_rows = 32,
                                          .tile_columns = 40,
                                          .measure = 1,
                                          .seed = 11},
                                         {.m = 30,
                                          .n = 26,
                                          .k = 200,
                                          .a = TDM_U8,
                                          .b = TDM_S8,
                                          .d = TDM_S8,
                                          .a_quant = OUTOFCORE_ONE,
                                          .b_quant = OUTOFCORE_EACH,
                                          .d_quant = OUTOFCORE_ONE,
                                          .bias = TDM_S32,
                                          .alpha = 1,
                                          .tile_rows = 15,
                                          .tile_columns = 26,
                                          .cuts_k = 1,
                                          .measure = 1,
                                          .seed = 12}};

static tdm_status attempt(const test_device *device, const tdm_outofcore_desc *desc,
                          const tdm_outofcore_args *args) {
    tdm_outofcore_plan *plan = NULL;
    tdm_outofcore_times times;
    tdm_status status = tdm_outofcore_plan_create(device->device, desc, &plan);
    if (status == TDM_OK)
        status = tdm_outofcore_plan_run(plan, device->stream, args);
    if (status == TDM_OK)
        status = tdm_stream_synchronize(device->stream);
    if (status == TDM_OK)
        status = tdm_outofcore_plan_measured(plan, &times, NULL);
    tdm_outofcore_plan_destroy(plan);
    if (status != TDM_OK)
        tdm_stream_synchronize(device->stream);
    tdm_stream_clear_failure(device->stream);
    return status;
}

typedef struct state_of {
    tdm_memory_stats memory;
    long blocks;
} state_of;

static state_of take_state(const test_device *device) {
    state_of s = {.memory = {.struct_size = sizeof s.memory}};
    TEST_OK(tdm_stream_synchronize(device->stream));
    TEST_OK(tdm_device_trim(device->device));
    TEST_OK(tdm_device_memory_stats(device->device, &s.memory));
    s.blocks = counted_host_live();
    return s;
}

static void expect_state(const test_device *device, const state_of *before, long nth) {
    const state_of after = take_state(device);
    if (after.memory.requested != before->memory.requested ||
        after.memory.live_blocks != before->memory.live_blocks)
        test_case_fail("call %ld: %llu bytes in %llu blocks, before %llu in %llu", nth,
                       (unsigned long long)after.memory.requested,
                       (unsigned long long)after.memory.live_blocks,
                       (unsigned long long)before->memory.requested,
                       (unsigned long long)before->memory.live_blocks);
}

typedef struct job {
    const test_device *device;
    outofcore_operands *operands;
    tdm_outofcore_desc desc;
    tdm_outofcore_args args;
} job;

static job open_job(const test_device *device, const outofcore_trial *trial) {
    job j = {.device = device, .operands = outofcore_operands_create(device, trial)};
    outofcore_operands_describe(j.operands, &j.desc);
    outofcore_operands_args(j.operands, &j.args);
    const uint64_t least = outofcore_least_budget(device, j.desc);
    if (j.desc.budget_bytes < least)
        j.desc.budget_bytes = least;
    TEST_OK(attempt(device, &j.desc, &j.args));
    outofcore_operands_check(j.operands);
    return j;
}

/* After a failure the state is as before, and the same call succeeds. */
static void retry(const job *j, const state_of *before, long nth) {
    expect_state(j->device, before, nth);
    outofcore_operands_reset(j->operands);
    const tdm_status status = attempt(j->device, &j->desc, &j->args);
    if (status != TDM_OK)
        test_case_fail("call %ld: the retry fails: %s", nth, tdm_last_detail());
    outofcore_operands_check(j->operands);
    expect_state(j->device, before, nth);
}

static long step_for(const test_device *device) {
    return test_is_small() || !(device->info.capabilities & TDM_CAP_CPU_CORES) ? 17 : 1;
}

static void fail_every_driver_call(const test_device *device, const outofcore_trial *trial,
                                   long step) {
    job j = open_job(device, trial);
    const state_of before = take_state(device);
    outofcore_operands_reset(j.operands);
    tdm_fault_plant(NULL, -1, 0, false);
    TEST_OK(attempt(device, &j.desc, &j.args));
    const long calls = tdm_fault_clear();
    long noticed = 0;
    assert_true(calls > 50);
    for (long nth = 1; nth <= calls; nth += step) {
        outofcore_operands_reset(j.operands);
        tdm_fault_plant(NULL, nth, codes[nth % 3], false);
        const tdm_status status = attempt(device, &j.desc, &j.args);
        tdm_fault_clear();
        noticed += status != TDM_OK;
        if (status == TDM_OK)
            outofcore_operands_check(j.operands);
        else
            retry(&j, &before, nth);
    }
    assert_true(noticed * step >= calls / 8);
    outofcore_operands_destroy(j.operands);
}

/*
 * The trials run as on a device that shares the host's memory. They also run as on one that copies
 * pageable memory through pinned pieces.
 */
TEST(every_driver_call_fails_once) {
    for (int d = 0; d < 2 * test_device_count(); d++) {
        const test_device *const device = test_device_at(d / 2);
        const bool staged = d % 2, given = device->device->stages_copies;
        if (!test_case_begin(device, NULL, "every_driver_call_fails_once %d", staged))
            continue;
        device->device->stages_copies = staged;
        fail_every_driver_call(device, &trials[0], step_for(device) * (staged ? 3 : 1));
        fail_every_driver_call(device, &trials[1], step_for(device) * (staged ? 11 : 3));
        device->device->stages_copies = given;
        test_case_end();
    }
}

TEST(every_host_allocation_fails_once) {
    for (int d = 0; d < 2 * test_device_count(); d++) {
        const test_device *const device = test_device_at(d / 2);
        if (!test_case_begin(device, NULL, "every_host_allocation_fails_once %d", d % 2))
            continue;
        job j = open_job(device, &trials[d % 2]);
        const state_of before = take_state(device);
        const long step = step_for(device);
        long nth = 1, failed = 0;
        for (bool fires = true; fires; nth += step) {
            outofcore_operands_reset(j.operands);
            counted_host_fail_at(nth);
            const tdm_status status = attempt(device, &j.desc, &j.args);
            fires = counted_host_recover();
            failed += status != TDM_OK;
            if (status == TDM_OK)
                outofcore_operands_check(j.operands);
            else
                retry(&j, &before, nth);
        }
        assert_true(failed > 0);
        if (take_state(device).blocks > before.blocks + 64) // the pool keeps some for itself
            test_case_fail("%ld host blocks, before %ld", take_state(device).blocks, before.blocks);
        outofcore_operands_destroy(j.operands);
        test_case_end();
    }
}

TEST_MAIN(setup, test_devices_teardown)
