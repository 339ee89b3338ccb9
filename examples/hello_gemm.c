/* D = relu(A * B + bias). Build: cc hello_gemm.c $(pkg-config --cflags --libs tandem) */
#include <stdio.h>
#include <tandem/tandem.h>

#define TRY(call)                                                                                  \
    if ((call) != TDM_OK) {                                                                        \
        fprintf(stderr, "hello_gemm: %s\n", tdm_last_detail());                                    \
        return 1;                                                                                  \
    }

int main(void) {
    const float a_host[2][3] = {{1, 2, 3}, {4, 5, 6}}, bias_host[2] = {-60, 100};
    const float b_host[3][2] = {{7, 8}, {9, 10}, {11, 12}};
    float d_host[2][2];
    tdm_context *context;
    tdm_device *device;
    tdm_stream *stream;
    tdm_tensor *a, *b, *bias, *d;
    TRY(tdm_context_create(NULL, &context));
    TRY(tdm_device_get(context, 0, &device));
    TRY(tdm_stream_create(device, &stream));
    TRY(tdm_tensor_from_host(stream, TDM_F32, 2, (const int64_t[]){2, 3}, a_host, &a));
    TRY(tdm_tensor_from_host(stream, TDM_F32, 2, (const int64_t[]){3, 2}, b_host, &b));
    TRY(tdm_tensor_from_host(stream, TDM_F32, 1, (const int64_t[]){2}, bias_host, &bias));
    TRY(tdm_tensor_create(device, TDM_F32, 2, (const int64_t[]){2, 2}, &d));
    const tdm_gemm_epilogue epilogue = {
        .struct_size = sizeof epilogue, .bias = bias, .activation = TDM_ACT_RELU};
    TRY(tdm_gemm(stream, 1.0f, a, b, 0.0f, NULL, d, &epilogue));
    TRY(tdm_tensor_read(stream, d, d_host, sizeof d_host, NULL));
    printf("%g %g\n%g %g\n", d_host[0][0], d_host[0][1], d_host[1][0], d_host[1][1]);
    tdm_tensor *const tensors[] = {a, b, bias, d};
    for (int i = 0; i < 4; i++)
        tdm_tensor_destroy(tensors[i]);
    tdm_stream_destroy(stream);
    tdm_device_release(device);
    tdm_context_destroy(context);
    return 0;
}
