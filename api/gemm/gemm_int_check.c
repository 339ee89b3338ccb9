/*
 * This is a self-check of integer GEMM kernels. Before a kernel is used on a device, it computes
 * one small GEMM of known result. Some drivers silently miscompile such kernels. The check uses
 * zero points of both operands and a bias, because drivers have miscompiled those parts.
 */
#include <stdalign.h>
#include <stdio.h>
#include <string.h>

#include "api/gemm/gemm_internal.h"

/* These sizes leave partial tiles with most tile sizes. N and K are multiples of the 16 bytes that
 * some kernels copy at a time. */
enum {
    M = 33,
    N = 48,
    K = 80
};

/* This is the content of the device buffer. */
typedef struct check_data {
    alignas(64) uint8_t a[M][K];
    alignas(64) int8_t b[K][N];
    alignas(64) int32_t bias[N];
    alignas(64) int32_t d[M][N];
    alignas(64) float scale[1];
    alignas(64) uint8_t a_zero[1];
    alignas(64) int8_t b_zero[N];
} check_data;

enum {
    A,
    B,
    BIAS,
    D,
    SCALE,
    A_ZERO,
    B_ZERO,
    TENSORS
};

static const struct {
    tdm_dtype dtype;
    size_t place; /* bytes from the buffer's start */
    int rank;
    int64_t shape[2];
} tensors[TENSORS] = {
    [A] = {TDM_U8, offsetof(check_data, a), 2, {M, K}},
    [B] = {TDM_S8, offsetof(check_data, b), 2, {K, N}},
    [BIAS] = {TDM_S32, offsetof(check_data, bias), 1, {N}},
    [D] = {TDM_S32, offsetof(check_data, d), 2, {M, N}},
    [SCALE] = {TDM_F32, offsetof(check_data, scale), 2, {1, 1}},
    [A_ZERO] = {TDM_U8, offsetof(check_data, a_zero), 2, {1, 1}},
    [B_ZERO] = {TDM_S8, offsetof(check_data, b_zero), 2, {1, N}},
};

typedef struct check_run {
    tdm_device *device;
    tdm_stream *stream;
    tdm_buffer *buffer, *workspace;
    tdm_tensor *tensor[TENSORS];
    tdm_tensor *a, *b; /* quantized operands with their parameters */
    tdm_gemm_plan *plan;
} check_run;

static void fill(check_data *data) {
    memset(data, 0, sizeof *data);
    for (int i = 0; i < M * K; i++)
        data->a[i / K][i % K] = (uint8_t)(i * 37 + 11);
    for (int i = 0; i < K * N; i++)
        data->b[i / N][i % N] = (int8_t)((i * 73 + 5) % 256 - 128);
    for (int j = 0; j < N; j++) {
        data->bias[j] = 1000 * j - 20000;
        data->b_zero[j] = (int8_t)(3 * j - 60);
    }
    for (int i = 0; i < M * N; i++)
        data->d[i / N][i % N] = 0x5a5a5a5a;
    data->scale[0] = 1.0f;
    data->a_zero[0] = 119;
}

static int32_t right_sum(const check_data *data, int i, int j) {
    int32_t sum = data->bias[j];
    for (int p = 0; p < K; p++)
        sum += (data->a[i][p] - data->a_zero[0]) * (data->b[p][j] - data->b_zero[j]);
    return sum;
}

static tdm_status make_operand(check_run *run, int codes, int zero_point, bool each_column,
                               tdm_tensor **operand) {
    tdm_quantization quantization = TDM_QUANTIZATION_INIT;
    tdm_tensor *scale = NULL;
    const int64_t shape[2] = {1, each_column ? N : 1}, strides[2] = {0, 0};
    TDM_TRY(tdm_tensor_view(run->tensor[SCALE], 2, shape, strides, 0, &scale));
    quantization.scale = scale;
    quantization.zero_point = run->tensor[zero_point];
    quantization.block[1] = each_column ? 1 : 0;
    const tdm_status status = tdm_tensor_quantized(run->tensor[codes], &quantization, operand);
    tdm_tensor_destroy(scale);
    return status;
}

static tdm_status make_operands(check_run *run, const check_data *data) {
    TDM_TRY(tdm_buffer_create(run->device, sizeof *data, &run->buffer));
    for (int t = 0; t < TENSORS; t++) {
        tdm_layout layout;
        const int64_t size = tdm_dtype_info(tensors[t].dtype)->unit_bytes;
        TDM_TRY(
            tdm_layout_contiguous(tensors[t].dtype, tensors[t].rank, tensors[t].shape, &layout));
        TDM_TRY(tdm_tensor_on_buffer(run->buffer, (int64_t)tensors[t].place / size, &layout,
                                     &run->tensor[t]));
    }
    TDM_TRY(make_operand(run, A, A_ZERO, false, &run->a));
    TDM_TRY(make_operand(run, B, B_ZERO, true, &run->b));
    return tdm_buffer_write(run->stream, run->buffer, 0, data, sizeof *data);
}

static tdm_status make_plan(check_run *run, const char *variant) {
    tdm_gemm_desc desc = TDM_GEMM_DESC_INIT;
    size_t workspace;
    desc.a = run->tensor[A]->layout;
    desc.b = run->tensor[B]->layout;
    desc.d = run->tensor[D]->layout;
    desc.bias = run->tensor[BIAS]->layout;
    desc.variant = variant;
    TDM_TRY(tdm_tensor_quant_layout(run->a, &desc.a_quant));
    TDM_TRY(tdm_tensor_quant_layout(run->b, &desc.b_quant));
    TDM_TRY(tdm_gemm_plan_build(run->device, &desc, false, &run->plan));
    TDM_TRY(tdm_gemm_plan_workspace_size(run->plan, &workspace));
    return workspace ? tdm_buffer_create(run->device, workspace, &run->workspace) : TDM_OK;
}

static tdm_status multiply(check_run *run, check_data *data) {
    tdm_gemm_args args = TDM_GEMM_ARGS_INIT;
    args.a = run->a;
    args.b = run->b;
    args.bias = run->tensor[BIAS];
    args.d = run->tensor[D];
    args.workspace = run->workspace;
    TDM_TRY(tdm_gemm_plan_run(run->plan, run->stream, &args));
    return tdm_buffer_read(run->stream, run->buffer, offsetof(check_data, d), data->d,
                           sizeof data->d);
}

static void close_run(check_run *run) {
    tdm_gemm_plan_destroy(run->plan);
    tdm_tensor_destroy(run->a);
    tdm_tensor_destroy(run->b);
    for (int t = 0; t < TENSORS; t++)
        tdm_tensor_destroy(run->tensor[t]);
    tdm_buffer_destroy(run->workspace);
    tdm_buffer_destroy(run->buffer);
    tdm_stream_destroy(run->stream);
}

/* True if every sum is right. The first wrong sum becomes the error detail and is logged. */
static bool compare(const tdm_device *device, const char *variant, const check_data *data) {
    for (int i = 0; i < M; i++)
        for (int j = 0; j < N; j++) {
            const int32_t right = right_sum(data, i, j);
            if (data->d[i][j] == right)
                continue;
            tdm_set_detail(
                "%s: wrong on %s with driver %s: D[%d][%d] of a test GEMM is %d, should be %d",
                variant, device->info.selector, device->info.driver_version, i, j,
                (int)data->d[i][j], (int)right);
            tdm_log(TDM_LOG_WARNING, "dispatch", "%s; the kernel is not used", tdm_last_detail());
            return false;
        }
    return true;
}

/* Prevents the plan of the check from starting another check. */
static _Thread_local bool is_checking;

tdm_status tdm_gemm_int_check(tdm_device *device, tdm_kernel *kernel) {
    const char *const variant = kernel->variant->name;
    const int known = atomic_load(&kernel->verdict);
    if (is_checking || known == TDM_KERNEL_RIGHT)
        return TDM_OK;
    if (known == TDM_KERNEL_WRONG)
        return tdm_fail(TDM_BUILD_FAILED, "%s: this driver compiles the kernel incorrectly",
                        variant);
    check_run run = {.device = device};
    check_data *const data = tdm_host_alloc(sizeof *data);
    if (!data)
        return tdm_fail(TDM_OUT_OF_HOST_MEMORY, "%s: no host memory to check the kernel", variant);
    fill(data);
    is_checking = true;
    tdm_status status = tdm_stream_create(device, &run.stream);
    if (status == TDM_OK)
        status = make_operands(&run, data);
    if (status == TDM_OK)
        status = make_plan(&run, variant);
    const bool takes_it = status != TDM_UNSUPPORTED;
    if (status == TDM_OK)
        status = multiply(&run, data);
    is_checking = false;
    // The driver may still read `data`, so this always waits for the stream.
    if (run.stream) {
        const tdm_status waited = tdm_stream_wait_always(run.stream);
        status = status == TDM_OK ? waited : status;
    }
    if (!takes_it) {
        atomic_store(&kernel->verdict, TDM_KERNEL_RIGHT); // The kernel is for other problems only.
        status = TDM_OK;
    } else if (status == TDM_OUT_OF_DEVICE_MEMORY) {
        status = TDM_OK; // The next plan can check it.
    } else if (status == TDM_OK) {
        const bool right = compare(device, variant, data);
        atomic_store(&kernel->verdict, right ? TDM_KERNEL_RIGHT : TDM_KERNEL_WRONG);
        status = right ? TDM_OK : TDM_BUILD_FAILED;
    }
    close_run(&run);
    tdm_host_free(data);
    return status;
}
