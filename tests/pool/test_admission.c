// Admission queries: a dry run predicts how the pool will answer a request. A request also has to
// fit the free memory that the driver reports.
// ctest: device debug
#include <stdlib.h>
#include <string.h>

#include "api/device/core.h"
#include "api/pool/pool_dry_run.h"
#include "tests/support/devices/device_cases.h"
#include "tests/support/devices/own_device.h"
#include "tests/support/drivers/driver_faults.h"
#include "tests/support/test_case.h"
#include "tests/support/test_data.h"
#include "tests/support/test_tree.h"

#define MIB ((size_t)1 << 20)
#define STREAMS 3
#define LIVE 48
#define ASKED 6

/* ---- the dry run against the pool, on a simulated device ------------------------------------- */

typedef struct world {
    tdm_pool *pool;
    test_random random;
    uint64_t passed[STREAMS + 1], sequence[STREAMS + 1];
    uint64_t capacity, used;
} world;

static tdm_status native_allocate(void *user, size_t bytes, tdm_bk_memory **memory) {
    world *const w = user;
    if (bytes > w->capacity - w->used)
        return tdm_fail(TDM_OUT_OF_DEVICE_MEMORY, "simulated");
    size_t *const block = malloc(sizeof *block);
    assert_non_null(block);
    *block = bytes;
    w->used += bytes;
    *memory = (tdm_bk_memory *)(void *)block;
    return TDM_OK;
}

static void native_release(void *user, tdm_bk_memory *memory) {
    ((world *)user)->used -= *(size_t *)(void *)memory;
    free(memory);
}

static bool has_passed(void *user, tdm_use use) {
    return ((world *)user)->passed[use.stream] >= use.sequence;
}

static void wait_for(void *user, tdm_use use) {
    world *const w = user;
    if (w->passed[use.stream] < use.sequence)
        w->passed[use.stream] = use.sequence;
}

static size_t random_size(world *w) {
    const int64_t octave = test_random_int(&w->random, 6, 22);
    return (size_t)test_random_int(&w->random, 1, (int64_t)1 << octave);
}

static void use_block(world *w, tdm_block *block) {
    const uint32_t stream = (uint32_t)test_random_int(&w->random, 1, STREAMS);
    assert_true(tdm_pool_prepare(&block, 1, stream, NULL, 0) >= 0);
    tdm_pool_record_use(&block, 1, (tdm_use){stream, ++w->sequence[stream]});
}

/* Adds all visible state of a pool to a hash. */
static void add_range(void *user, const tdm_slab_view *slab, const tdm_range_view *range) {
    uint64_t *const sum = user;
    const uint64_t words[] = {slab->number, slab->bytes,  range->offset,
                              range->bytes, range->state, range->generation};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        *sum = (*sum ^ words[i]) * UINT64_C(0x100000001b3);
}

static uint64_t look(tdm_pool *pool) {
    uint64_t sum = 14695981039346656037u;
    const tdm_pool_visitor visitor = {.range = add_range, .user = &sum};
    tdm_pool_visit(pool, &visitor);
    return sum;
}

/*
 * Makes some requests as a dry run, then makes them in earnest. Each request must end as predicted.
 * Returns the number of refusals.
 */
static int dry_run_then_allocate(world *w, tdm_block **made) {
    size_t sizes[ASKED];
    tdm_status expected[ASKED];
    uint64_t rounded[ASKED], grown;
    tdm_pool_dry_run *dry_run;
    const tdm_dry_run_limits limits = {.native_free = w->capacity - w->used};
    const uint32_t stream = (uint32_t)test_random_int(&w->random, 0, STREAMS);
    int refused = 0;
    const uint64_t before = look(w->pool), used = w->used;
    assert_int_equal(tdm_dry_run_begin(w->pool, &limits, &dry_run), TDM_OK);
    for (int i = 0; i < ASKED; i++) {
        sizes[i] = random_size(w) * (size_t)test_random_int(&w->random, 1, 3);
        expected[i] = tdm_dry_run_alloc(dry_run, sizes[i], stream, &rounded[i], &grown);
    }
    tdm_dry_run_end(dry_run);
    assert_true(look(w->pool) == before && w->used == used);
    for (int i = 0; i < ASKED; i++) {
        const tdm_status status = tdm_pool_alloc(w->pool, sizes[i], stream, &made[i]);
        if (status != expected[i])
            test_case_fail("%zu bytes: the dry run gave %s, the request %s: %s", sizes[i],
                           tdm_status_text(expected[i]), tdm_status_text(status),
                           tdm_last_detail());
        if (status == TDM_OK && made[i]->size != rounded[i])
            test_case_fail("%zu bytes take %llu, not %llu", sizes[i],
                           (unsigned long long)made[i]->size, (unsigned long long)rounded[i]);
        refused += status != TDM_OK;
    }
    return refused;
}

static void random_step(world *w, tdm_block **live) {
    const int i = (int)test_random_int(&w->random, 0, LIVE - 1);
    const uint32_t stream = (uint32_t)test_random_int(&w->random, 1, STREAMS);
    if (live[i]) {
        if (test_random_int(&w->random, 0, 1))
            use_block(w, live[i]);
        tdm_block_release(live[i]);
        live[i] = NULL;
    } else if (tdm_pool_alloc(w->pool, random_size(w), stream, &live[i]) == TDM_OK) {
        use_block(w, live[i]);
    }
    if (test_random_int(&w->random, 0, 3) == 0)
        w->passed[stream] = w->sequence[stream];
}

static void run_world(uint64_t seed, uint64_t budget, uint64_t capacity, bool direct) {
    world w = {.random = {seed}, .capacity = capacity};
    tdm_memory_account account = {0};
    atomic_store(&account.bound, budget + budget / 8);
    const tdm_pool_upstream upstream = {.user = &w,
                                        .allocate = native_allocate,
                                        .release = native_release,
                                        .passed = has_passed,
                                        .wait = wait_for,
                                        .max_allocation = 8 * MIB,
                                        .alignment = 128,
                                        .budget = budget,
                                        .account = &account,
                                        .direct = direct};
    assert_int_equal(tdm_pool_create(&upstream, &w.pool), TDM_OK);
    tdm_block *live[LIVE] = {NULL}, *made[ASKED];
    int refused = 0;
    const int rounds = test_is_small() ? 40 : 300;
    for (int round = 0; round < rounds; round++) {
        for (int i = 0; i < 20; i++)
            random_step(&w, live);
        refused += dry_run_then_allocate(&w, made);
        for (int i = 0; i < ASKED; i++)
            tdm_block_release(made[i]);
    }
    // Both outcomes must have occurred often.
    assert_true(refused > rounds / 20 && refused < rounds * ASKED * 9 / 10);
    for (int i = 0; i < LIVE; i++)
        tdm_block_release(live[i]);
    tdm_pool_destroy(w.pool);
    assert_int_equal(w.used, 0);
}

TEST(the_dry_run_tells_the_truth) {
    if (!test_case_begin(test_device_at(0), NULL, "the_dry_run_tells_the_truth"))
        return;
    run_world(1, 10 * MIB, 1024 * MIB, false);
    run_world(2, 1024 * MIB, 9 * MIB, false);
    run_world(3, 9 * MIB + 4096, 10 * MIB, false);
    run_world(4, 9 * MIB, 1024 * MIB, true);
    test_case_end();
}

/* ---- devices --------------------------------------------------------------------------------- */

static tdm_fit_report ask(const own_device *own, const tdm_fit_request *request) {
    tdm_fit_report report = {.struct_size = sizeof report};
    tdm_memory_info before = {.struct_size = sizeof before}, after = before;
    TEST_OK(tdm_device_memory_info(own->device, &before));
    TEST_OK(tdm_device_would_fit(own->device, request, &report));
    TEST_OK(tdm_device_memory_info(own->device, &after));
    assert_memory_equal(&before, &after, sizeof before);
    return report;
}

/*
 * A list of tensors and buffers within the bound fits. For a longer list the report states what is
 * missing. Idle memory that another pool caches counts as available.
 */
DEVICE_TEST(lists) {
    own_device own = own_device_open(device, 8 * MIB);
    const size_t zones = own_device_zones(&own);
    tdm_layout layouts[2];
    const int64_t shape[2] = {1024, 1024};
    TEST_OK(tdm_layout_contiguous(TDM_F32, 2, shape, &layouts[0]));
    TEST_OK(tdm_layout_contiguous(TDM_S8, 2, shape, &layouts[1]));
    size_t sizes[2] = {2 * MIB, MIB};
    tdm_fit_request request = {.struct_size = sizeof request,
                               .layouts = layouts,
                               .layout_count = 2,
                               .sizes = sizes,
                               .size_count = 1};
    tdm_fit_report report = ask(&own, &request);
    assert_true(report.fits && report.missing_count == 0 && report.largest_missing_bytes == 0);
    assert_int_equal(report.needed_bytes, 7 * MIB + 3 * zones);
    assert_int_equal(report.available_bytes, 8 * MIB);
    assert_int_equal(report.cached_bytes, 0);
    assert_true(report.grown_bytes >= 7 * MIB && report.grown_bytes <= 8 * MIB);
    sizes[0] = 4 * MIB;
    request.size_count = 2;
    report = ask(&own, &request);
    assert_false(report.fits);
    assert_int_equal(report.missing_count, 1);
    assert_int_equal(report.largest_missing_bytes, 4 * MIB);
    // Idle memory in the cache of another pool is available; memory that the pool uses is not.
    tdm_memory_pool *pool;
    tdm_buffer *kept;
    TEST_OK(tdm_memory_pool_create(own.device, NULL, &pool));
    TEST_OK(tdm_buffer_create_in(pool, 5 * MIB, &kept));
    request = (tdm_fit_request){.struct_size = sizeof request, .sizes = sizes, .size_count = 1};
    assert_false(ask(&own, &request).fits);
    tdm_buffer_destroy(kept);
    report = ask(&own, &request);
    assert_true(report.fits && report.available_bytes == 8 * MIB);
    request.pool = pool;
    report = ask(&own, &request);
    const bool caches = device->info.capabilities & TDM_CAP_SLABS;
    assert_true(report.fits && report.cached_bytes == (caches ? 4 * MIB + zones : 0));
    assert_int_equal(report.grown_bytes == 0, caches);
    tdm_memory_pool_destroy(pool);
    own_device_close(&own);
}

/* The report for a plan matches the later allocations: the packed B and the workspace. */
DEVICE_TEST(plans) {
    own_device own = own_device_open(device, 0);
    tdm_gemm_desc desc = TDM_GEMM_DESC_INIT;
    const int64_t a[2] = {128, 256}, b[2] = {256, 192}, d[2] = {128, 192};
    TEST_OK(tdm_layout_contiguous(TDM_F32, 2, a, &desc.a));
    TEST_OK(tdm_layout_contiguous(TDM_F32, 2, b, &desc.b));
    TEST_OK(tdm_layout_contiguous(TDM_F32, 2, d, &desc.d));
    desc.packed_b = 1;
    tdm_gemm_plan *plan;
    TEST_OK(tdm_gemm_plan_create(own.device, &desc, &plan));
    const tdm_gemm_plan *const plans[] = {plan};
    tdm_fit_request request = {.struct_size = sizeof request, .plans = plans, .plan_count = 1};
    const tdm_fit_report report = ask(&own, &request);
    size_t workspace = 0;
    TEST_OK(tdm_gemm_plan_workspace_size(plan, &workspace));
    tdm_tensor *tensor;
    tdm_packed *packed;
    TEST_OK(tdm_tensor_create(own.device, TDM_F32, 2, b, &tensor));
    TEST_OK(tdm_gemm_pack_b(plan, own.stream, tensor, &packed));
    assert_true(report.fits);
    assert_in_range(report.needed_bytes, tdm_packed_bytes(packed) + workspace,
                    tdm_packed_bytes(packed) + workspace + 2 * 4096);
    TEST_OK(tdm_stream_synchronize(own.stream));
    tdm_packed_destroy(packed);
    tdm_tensor_destroy(tensor);
    TEST_OK(tdm_device_trim(own.device));
    TEST_OK(tdm_device_set_memory_budget(own.device, 4096));
    assert_false(ask(&own, &request).fits);
    tdm_gemm_plan_destroy(plan);
    own_device_close(&own);
}

DEVICE_TEST(wrong_arguments) {
    tdm_fit_report report = {.struct_size = sizeof report};
    tdm_fit_request request = {.struct_size = sizeof request};
    tdm_memory_info info = {.struct_size = 1};
    const tdm_gemm_plan *const plans[] = {NULL};
    TEST_OK(tdm_device_would_fit(device->device, &request, &report));
    assert_true(report.fits && report.needed_bytes == 0);
    TEST_REFUSED(tdm_device_would_fit(NULL, &request, &report), TDM_BAD_ARGUMENT, "device");
    TEST_REFUSED(tdm_device_would_fit(device->device, NULL, &report), TDM_BAD_ARGUMENT, "request");
    TEST_REFUSED(tdm_device_would_fit(device->device, &request, NULL), TDM_BAD_ARGUMENT, "report");
    request.size_count = 1;
    TEST_REFUSED(tdm_device_would_fit(device->device, &request, &report), TDM_BAD_ARGUMENT,
                 "sizes");
    request.size_count = 0;
    request.plans = plans;
    request.plan_count = 1;
    TEST_REFUSED(tdm_device_would_fit(device->device, &request, &report), TDM_BAD_ARGUMENT,
                 "plan 0 is NULL");
    request.struct_size = 3;
    TEST_REFUSED(tdm_device_would_fit(device->device, &request, &report), TDM_BAD_ARGUMENT,
                 "is 3, but this library's struct");
    TEST_REFUSED(tdm_device_memory_info(device->device, &info), TDM_BAD_ARGUMENT, "struct_size");
    TEST_REFUSED(tdm_device_memory_info(NULL, &info), TDM_BAD_ARGUMENT, "device");
    const size_t sizes[2] = {SIZE_MAX, SIZE_MAX - 1};
    request = (tdm_fit_request){.struct_size = sizeof request, .sizes = sizes, .size_count = 2};
    TEST_OK(tdm_device_would_fit(device->device, &request, &report));
    assert_true(!report.fits && report.needed_bytes == UINT64_MAX && report.missing_count == 2);
}

/* ---- free memory reported by the driver ------------------------------------------------------ */

/* The driver may report its free memory, fail, or report an impossible value. */
TEST(free_memory) {
    static const struct {
        const char *kib;
        uint64_t bytes; /* 0: unknown */
    } rows[] = {{NULL, 0},    {"5120,1024", 5 * MIB},  {"0,0", 0},
                {"error", 0}, {"99999999999999,1", 0}, {"18446744073709551615,1", 0}};
    char driver[TEST_TREE_PATH];
    const char *const file = getenv("TANDEM_OPENCL_LIBRARY");
    if (test_runs_on_cuda() || !test_case_begin(test_device_at(0), NULL, "free_memory"))
        return;
    if (file)
        setenv("COUNTING_TARGET", file, 1);
    setenv("TANDEM_OPENCL_LIBRARY", test_tree_build(driver, "lib/" TANDEM_COUNTING_DRIVER), 1);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        unsetenv("COUNTING_FREE_KIB");
        if (rows[i].kib)
            setenv("COUNTING_FREE_KIB", rows[i].kib, 1);
        own_device own = own_device_open(test_device_at(0), 0);
        tdm_memory_info info = {.struct_size = sizeof info};
        TEST_OK(tdm_device_memory_info(own.device, &info));
        const bool known = rows[i].bytes || (rows[i].kib && strcmp(rows[i].kib, "0,0") == 0);
        if ((info.free_known != 0) != known || info.free_bytes != rows[i].bytes)
            test_case_fail("%s: known %d, %llu bytes", rows[i].kib ? rows[i].kib : "(untold)",
                           info.free_known, (unsigned long long)info.free_bytes);
        assert_int_equal(info.total_bytes, test_device_at(0)->info.global_bytes);
        // A request must fit the driver's free memory, whatever the budget is.
        const size_t sizes[1] = {6 * MIB};
        const tdm_fit_request request = {
            .struct_size = sizeof request, .sizes = sizes, .size_count = 1};
        tdm_fit_report report = {.struct_size = sizeof report};
        TEST_OK(tdm_device_would_fit(own.device, &request, &report));
        assert_int_equal(report.fits, !known);
        own_device_close(&own);
    }
    unsetenv("COUNTING_FREE_KIB");
    file ? setenv("TANDEM_OPENCL_LIBRARY", file, 1) : unsetenv("TANDEM_OPENCL_LIBRARY");
    test_case_end();
}

TEST_MAIN(test_devices_setup, test_devices_teardown)
