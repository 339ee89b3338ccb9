/*
 * Computes a linear layer, y = x * W^T + b, with W stored as in frameworks, [outputs][inputs]. W is
 * in f32, 8 bits and 4 bits. It is quantized on the device and packed once, and can then be
 * multiplied many times. The example prints the bytes of each form and its error relative to f32.
 */
#include <math.h>
#include <stdio.h>
#include <tandem/tandem.h>

#define TRY(call)                                                                                  \
    do {                                                                                           \
        status = (call);                                                                           \
        if (status != TDM_OK)                                                                      \
            goto done;                                                                             \
    } while (0)

enum {
    ROWS = 4,
    INPUTS = 256,
    OUTPUTS = 192
};

/* The tensors that all forms of the layer share. */
typedef struct operands {
    tdm_device *device;
    tdm_stream *stream;
    tdm_tensor *x, *weights, *bias, *y;
} operands;

/* One form of the weights. `group` inputs of an output share a scale; 0: all of them. */
typedef struct form {
    const char *name;
    tdm_dtype dtype;
    int64_t group;
    int quantize_x; /* 1: rows of x become s8 in the call */
} form;

static const form forms[] = {{"f32", TDM_F32, 0, 0},
                             {"s8, a scale per output", TDM_S8, 0, 0},
                             {"s4, a scale per 32 inputs", TDM_S4, 32, 0},
                             {"the same, x in s8", TDM_S4, 32, 1}};

static float results[sizeof forms / sizeof *forms][ROWS * OUTPUTS];

/* Makes the quantized weights of this form, with scales, in *made. */
static tdm_status quantize_weights(const operands *o, const form *f, tdm_tensor **made) {
    const int64_t shape[2] = {OUTPUTS, INPUTS}, block[2] = {1, f->group};
    tdm_status status = tdm_tensor_create_quantized(o->device, f->dtype, 2, shape, block, TDM_F16,
                                                    TDM_DTYPE_NONE, made);
    return status == TDM_OK ? tdm_tensor_quantize_minmax(o->stream, o->weights, *made) : status;
}

/* Makes a plan for these operands. Its B, `weights`, will be passed packed. */
static tdm_status make_plan(const operands *o, const form *f, const tdm_tensor *weights,
                            tdm_gemm_plan **plan) {
    tdm_gemm_desc desc = TDM_GEMM_DESC_INIT;
    tdm_status status;
    TRY(tdm_tensor_layout(o->x, &desc.a));
    TRY(tdm_tensor_layout(weights, &desc.b));
    // Without this layout, the quantized values would be plain integers.
    TRY(tdm_tensor_quant_layout(weights, &desc.b_quant));
    TRY(tdm_tensor_layout(o->bias, &desc.bias));
    TRY(tdm_tensor_layout(o->y, &desc.d));
    desc.transpose_b = 1; // B is [N][K]
    desc.quantize_a = f->quantize_x;
    desc.packed_b = 1;
    status = tdm_gemm_plan_create(o->device, &desc, plan);
done:
    return status;
}

static tdm_status run_form(const operands *o, const form *f, float *result) {
    tdm_tensor *codes = NULL;
    tdm_gemm_plan *plan = NULL;
    tdm_packed *packed = NULL;
    tdm_buffer *workspace = NULL;
    size_t bytes = 0;
    tdm_status status;
    if (f->dtype != TDM_F32)
        TRY(quantize_weights(o, f, &codes));
    const tdm_tensor *const weights = codes ? codes : o->weights;
    TRY(make_plan(o, f, weights, &plan));
    TRY(tdm_gemm_pack_b(plan, o->stream, weights, &packed));
    TRY(tdm_gemm_plan_workspace_size(plan, &bytes));
    if (bytes > 0)
        TRY(tdm_buffer_create(o->device, bytes, &workspace));
    tdm_gemm_args args = TDM_GEMM_ARGS_INIT;
    args.a = o->x;
    args.packed_b = packed;
    args.bias = o->bias;
    args.d = o->y;
    args.workspace = workspace;
    // This can be repeated: it allocates and builds nothing.
    TRY(tdm_gemm_plan_run(plan, o->stream, &args));
    TRY(tdm_tensor_read(o->stream, o->y, result, sizeof results[0], NULL)); // waits
done:
    tdm_buffer_destroy(workspace);
    tdm_packed_destroy(packed);
    tdm_gemm_plan_destroy(plan);
    tdm_tensor_destroy(codes);
    return status;
}

static tdm_status make_operands(operands *o) {
    static float x[ROWS * INPUTS], weights[OUTPUTS * INPUTS], bias[OUTPUTS];
    const int64_t x_shape[2] = {ROWS, INPUTS}, w_shape[2] = {OUTPUTS, INPUTS},
                  y_shape[2] = {ROWS, OUTPUTS};
    unsigned state = 1;
    for (int i = 0; i < ROWS * INPUTS + OUTPUTS * INPUTS; i++) {
        state = state * 1664525u + 1013904223u;
        float *const value = i < ROWS * INPUTS ? &x[i] : &weights[i - ROWS * INPUTS];
        *value = (float)(state >> 8) / 8388608.0f - 1; // uniform in [-1, 1)
    }
    tdm_status status;
    TRY(tdm_stream_create(o->device, &o->stream));
    TRY(tdm_tensor_create(o->device, TDM_F32, 2, x_shape, &o->x));
    TRY(tdm_tensor_create(o->device, TDM_F32, 2, w_shape, &o->weights));
    TRY(tdm_tensor_create(o->device, TDM_F32, 1, w_shape, &o->bias));
    TRY(tdm_tensor_create(o->device, TDM_F32, 2, y_shape, &o->y));
    TRY(tdm_tensor_write(o->stream, x, sizeof x, NULL, o->x));
    TRY(tdm_tensor_write(o->stream, weights, sizeof weights, NULL, o->weights));
    TRY(tdm_tensor_write(o->stream, bias, sizeof bias, NULL, o->bias));
done:
    return status;
}

/* Returns the energy (sum of squares) of the error, relative to that of the exact result. */
static double share_of_error(const float *y, const float *exact) {
    double error = 0, energy = 0;
    for (int i = 0; i < ROWS * OUTPUTS; i++) {
        error += ((double)y[i] - (double)exact[i]) * ((double)y[i] - (double)exact[i]);
        energy += (double)exact[i] * (double)exact[i];
    }
    return error / energy;
}

/* Returns the bytes of quantized values and scales, or of f32. */
static size_t bytes_of(const form *f) {
    size_t codes = 0, scales = 0;
    tdm_dtype_bytes(f->dtype, OUTPUTS * INPUTS, &codes);
    if (f->dtype != TDM_F32)
        tdm_dtype_bytes(TDM_F16, OUTPUTS * (f->group ? INPUTS / f->group : 1), &scales);
    return codes + scales;
}

static tdm_status run(operands *o) {
    tdm_status status;
    TRY(make_operands(o));
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        TRY(run_form(o, &forms[i], results[i]));
        printf("%-26s %6zu bytes, error %.1e of the result's energy\n", forms[i].name,
               bytes_of(&forms[i]), share_of_error(results[i], results[0]));
    }
done:
    tdm_tensor_destroy(o->x);
    tdm_tensor_destroy(o->weights);
    tdm_tensor_destroy(o->bias);
    tdm_tensor_destroy(o->y);
    tdm_stream_destroy(o->stream);
    return status;
}

/* Uses the first device, or the one that the argument names: "pocl", "opencl/rusticl", "0". */
int main(int argc, char **argv) {
    operands o = {NULL, NULL, NULL, NULL, NULL, NULL};
    tdm_context *context = NULL;
    tdm_status status;
    int index = 0;
    TRY(tdm_context_create(NULL, &context));
    if (argc > 1)
        TRY(tdm_context_find_device(context, argv[1], &index));
    TRY(tdm_device_get(context, index, &o.device));
    TRY(run(&o));
done:
    if (status != TDM_OK)
        fprintf(stderr, "quantized_linear: %s\n", tdm_last_detail());
    for (int i = 0; status == TDM_NO_DEVICE && i < tdm_context_note_count(context); i++)
        fprintf(stderr, "%s\n", tdm_context_note(context, i)); // why there is no device
    tdm_device_release(o.device);
    tdm_context_destroy(context);
    return status != TDM_OK || share_of_error(results[1], results[0]) > 1e-4 ||
           share_of_error(results[2], results[0]) > 1e-2 ||
           share_of_error(results[3], results[0]) > 1e-2;
}
