/*
 * This is a user's program. It fills a tensor on the first device, adds it to itself and reads it
 * back. It builds as C11 and as C++.
 */
#include <stdio.h>

#include <tandem/cuda.h>
#include <tandem/opencl.h>
#include <tandem/tandem.h>

static int failed(const char *call, tdm_status status) {
    printf("%s: %s: %s\n", call, tdm_status_text(status), tdm_last_detail());
    return 1;
}

/* The initialisers are macros, which C and C++ must both accept. */
static int initialisers_are_right(void) {
    const tdm_gemm_desc desc = TDM_GEMM_DESC_INIT;
    const tdm_gemm_args args = TDM_GEMM_ARGS_INIT;
    const tdm_observer_desc observer = TDM_OBSERVER_DESC_INIT;
    const tdm_quantization quantization = TDM_QUANTIZATION_INIT;
    const tdm_outofcore_desc outofcore = TDM_OUTOFCORE_DESC_INIT;
    const tdm_outofcore_args sources = TDM_OUTOFCORE_ARGS_INIT;
    const tdm_memory_trace_options trace = TDM_MEMORY_TRACE_OPTIONS_INIT;
    return desc.struct_size == sizeof desc && desc.alpha == 1.0f && desc.beta == 0.0f &&
           args.struct_size == sizeof args && args.d == NULL &&
           observer.struct_size == sizeof observer && observer.axis == -1 &&
           observer.channels == 1 && quantization.struct_size == sizeof quantization &&
           quantization.scale == NULL && outofcore.struct_size == sizeof outofcore &&
           outofcore.gemm.alpha == 1.0f && sources.struct_size == sizeof sources &&
           trace.struct_size == sizeof trace && trace.path == NULL;
}

static int name_device(tdm_context *context) {
    tdm_device_info info;
    info.struct_size = sizeof info;
    const tdm_status status = tdm_context_device_info(context, 0, &info);
    if (status != TDM_OK)
        return failed("tdm_context_device_info", status);
    printf("consumer of tandem %s: ok on %s\n", tdm_version_text(), info.selector);
    return 0;
}

static int fill_and_read(tdm_device *device) {
    const int64_t shape[2] = {3, 4};
    float values[12] = {0};
    tdm_stream *stream = NULL;
    tdm_tensor *tensor = NULL;
    tdm_status status = tdm_stream_create(device, &stream);
    if (status == TDM_OK)
        status = tdm_tensor_create(device, TDM_F32, 2, shape, &tensor);
    if (status == TDM_OK)
        status = tdm_tensor_fill(stream, 2.5, tensor);
    if (status == TDM_OK)
        status = tdm_binary_op(stream, TDM_ADD, tensor, tensor, tensor); // a kernel
    if (status == TDM_OK)
        status = tdm_tensor_read(stream, tensor, values, sizeof values, NULL);
    tdm_tensor_destroy(tensor);
    tdm_stream_destroy(stream);
    if (status != TDM_OK)
        return failed("fill, add and read", status);
    for (int i = 0; i < 12; i++)
        if (values[i] != 5.0f) {
            printf("element %d is %g, not 5\n", i, (double)values[i]);
            return 1;
        }
    return 0;
}

int main(void) {
    tdm_context *context = NULL;
    tdm_device *device = NULL;
    tdm_status status = tdm_context_create(NULL, &context);
    if (status != TDM_OK)
        return failed("tdm_context_create", status);
    if (tdm_version() != TDM_VERSION_NUMBER) {
        printf("headers of %d, library %s\n", TDM_VERSION_NUMBER, tdm_version_text());
        return 1;
    }
    if (!initialisers_are_right()) {
        printf("an initialiser is wrong\n");
        return 1;
    }
    status = tdm_device_get(context, 0, &device);
    int result = status == TDM_OK ? fill_and_read(device) : failed("tdm_device_get", status);
    tdm_device_release(device);
    if (result == 0)
        result = name_device(context);
    tdm_context_destroy(context);
    return result;
}
