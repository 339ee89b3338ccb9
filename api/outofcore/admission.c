/* These functions predict if allocations would fit. They use the device's free memory and a dry run
 * of a pool. */
#include <string.h>

#include "api/device/device_internal.h"
#include "api/device/memory/memory_pool.h"
#include "api/gemm/gemm_internal.h"
#include "api/pool/pool_dry_run.h"

/* ---- free memory ----------------------------------------------------------------------------- */

/* Reads the driver's free bytes. Returns false if the driver does not report them. */
static bool ask_driver(tdm_device *device, uint64_t *bytes) {
    return device->api->memory_free_bytes &&
           device->api->memory_free_bytes(device->native, bytes) == TDM_OK;
}

tdm_status tdm_device_memory_info(tdm_device *device, tdm_memory_info *info) {
    if (!device || !info)
        return tdm_fail(TDM_BAD_ARGUMENT, "device_memory_info: %s is NULL",
                        device ? "info" : "device");
    TDM_TRY(tdm_struct_check_output("device_memory_info", "info", info, sizeof *info));
    tdm_memory_info now = {.total_bytes = device->info.global_bytes,
                           .reserved_bytes = atomic_load(&device->account.reserved),
                           .in_use_bytes = tdm_device_bytes_in_use(device)};
    now.free_known = ask_driver(device, &now.free_bytes);
    tdm_struct_write(&now, sizeof now, info);
    return TDM_OK;
}

/* ---- would it fit ---------------------------------------------------------------------------- */

typedef struct question {
    tdm_pool_dry_run *dry_run;
    uint32_t stream;
    tdm_fit_report report;
} question;

static void add_request(question *q, size_t bytes) {
    tdm_fit_report *const report = &q->report;
    uint64_t rounded, grown;
    const tdm_status status = tdm_dry_run_alloc(q->dry_run, bytes, q->stream, &rounded, &grown);
    if (__builtin_add_overflow(report->needed_bytes, rounded, &report->needed_bytes))
        report->needed_bytes = UINT64_MAX;
    if (status == TDM_OK) {
        report->cached_bytes += rounded - grown;
        return;
    }
    report->fits = 0;
    report->missing_count++;
    if (bytes > report->largest_missing_bytes)
        report->largest_missing_bytes = bytes;
}

static tdm_status add_plan(question *q, const tdm_device *device, const tdm_gemm_plan *plan,
                           int index) {
    if (!plan)
        return tdm_fail(TDM_BAD_ARGUMENT, "device_would_fit: plan %d is NULL", index);
    TDM_TRY(tdm_check_device("device_would_fit", "the plan", plan->device, "the device", device));
    if (plan->desc.packed_b) {
        int64_t bytes;
        TDM_TRY(tdm_gemm_packed_bytes(plan, &bytes));
        add_request(q, (size_t)bytes);
    }
    if (plan->workspace_bytes)
        add_request(q, (size_t)plan->workspace_bytes);
    return TDM_OK;
}

static tdm_status add_layout(question *q, const tdm_layout *layout) {
    size_t bytes;
    TDM_TRY(tdm_layout_check(layout, "device_would_fit"));
    TDM_TRY(tdm_dtype_bytes(layout->dtype, tdm_layout_extent(layout), &bytes));
    add_request(q, bytes);
    return TDM_OK;
}

static tdm_status add_all(question *q, const tdm_device *device, const tdm_fit_request *request) {
    for (int i = 0; i < request->layout_count; i++)
        TDM_TRY(add_layout(q, &request->layouts[i]));
    for (int i = 0; i < request->size_count; i++)
        add_request(q, request->sizes[i]);
    for (int i = 0; i < request->plan_count; i++)
        TDM_TRY(add_plan(q, device, request->plans[i], i));
    return TDM_OK;
}

static tdm_status check_list(const char *name, const void *list, int count) {
    return count < 0 || (count > 0 && !list)
               ? tdm_fail(TDM_BAD_ARGUMENT,
                          "device_would_fit: %s is NULL or its count %d is negative", name, count)
               : TDM_OK;
}

static tdm_status check_request(const tdm_device *device, const tdm_fit_request *request) {
    TDM_TRY(check_list("layouts", request->layouts, request->layout_count));
    TDM_TRY(check_list("sizes", request->sizes, request->size_count));
    TDM_TRY(check_list("plans", (const void *)request->plans, request->plan_count));
    if (request->pool)
        return tdm_check_device("device_would_fit", "the pool",
                                tdm_memory_pool_device(request->pool), "the device", device);
    return TDM_OK;
}

tdm_status tdm_device_would_fit(tdm_device *device, const tdm_fit_request *request,
                                tdm_fit_report *report) {
    if (!device || !request || !report)
        return tdm_fail(TDM_BAD_ARGUMENT, "device_would_fit: %s is NULL",
                        !device    ? "device"
                        : !request ? "request"
                                   : "report");
    TDM_TRY(tdm_struct_check_output("device_would_fit", "report", report, sizeof *report));
    tdm_fit_request room;
    request = tdm_struct_read("device_would_fit", "request", request, sizeof room, &room);
    if (!request)
        return TDM_BAD_ARGUMENT;
    TDM_TRY(check_request(device, request));
    tdm_memory_pool *const chosen = request->pool ? request->pool : tdm_memory_pool_current(device);
    tdm_pool *const pool = chosen ? tdm_memory_pool_of(chosen) : device->pool;
    uint64_t native_free = 0;
    const bool reported = ask_driver(device, &native_free);
    const tdm_dry_run_limits limits = {.native_free = reported ? native_free : UINT64_MAX,
                                       .relief = tdm_device_trimmable(device, pool)};
    question q = {.stream = tdm_recent_stream(device),
                  .report = {.struct_size = sizeof q.report, .fits = 1}};
    tdm_status status = tdm_dry_run_begin(pool, &limits, &q.dry_run);
    if (status != TDM_OK)
        return tdm_fail_prefix(status, "device_would_fit");
    q.report.available_bytes = tdm_dry_run_room(q.dry_run);
    status = add_all(&q, device, request);
    q.report.grown_bytes = tdm_dry_run_native(q.dry_run);
    tdm_dry_run_end(q.dry_run);
    if (status == TDM_OK)
        *report = q.report;
    return status;
}
