/* These functions launch the kernels that convert between dtypes. */
#include "api/tensor/strided_loop.h"

static bool is_odd_stride(const tdm_loop *loop, int operand) {
    for (int d = 0; d < loop->rank; d++)
        if (loop->strides[operand].v[d] % 2 != 0)
            return true;
    return false;
}

static void make_loop(tdm_loop *loop, const tdm_layout *target, const tdm_layout *source) {
    tdm_loop_make(loop, target, &source, 1);
    if (target->dtype == TDM_S4)
        loop->unit = 2;
    loop->narrow = source->dtype == TDM_S4 && is_odd_stride(loop, 1);
}

/* Kernels of s64, and those to bool, are another op. */
static tdm_op op_of(tdm_dtype target, tdm_dtype source) {
    return target == TDM_S64 || target == TDM_BOOL || source == TDM_S64 ? TDM_OP_CONVERT_S64
                                                                        : TDM_OP_CONVERT;
}

/* A bool is stored as 0 or 1, so it is read as a u8. */
static int storage_of(tdm_dtype source) {
    return (int)(source == TDM_BOOL ? TDM_U8 : source);
}

tdm_status tdm_convert_prepare(tdm_device *device, const tdm_layout *target,
                               const tdm_layout *source) {
    tdm_loop loop;
    make_loop(&loop, target, source);
    return tdm_loop_prepare(device, op_of(target->dtype, source->dtype), "convert",
                            storage_of(source->dtype), &loop);
}

tdm_status tdm_convert_elements(tdm_stream *stream, const char *operation, const tdm_tensor *target,
                                const tdm_tensor *source) {
    const tdm_dtype to = target->layout.dtype, from = source->layout.dtype;
    const tdm_op op = op_of(to, from);
    tdm_loop loop;
    tdm_kernel *kernel;
    make_loop(&loop, &target->layout, &source->layout);
    TDM_TRY(tdm_loop_kernel(stream, op, operation, storage_of(from), &loop, &kernel));
    const tdm_arg buffers[] = {tdm_arg_elements(source, 0), tdm_arg_elements(target, 0)};
    const tdm_arg type =
        op == TDM_OP_CONVERT_S64
            ? tdm_arg_s32((int32_t)to)
            : tdm_arg_code((int)to, (const tdm_tensor *const[]){target, source}, 2);
    return tdm_loop_enqueue(stream, operation, kernel, &loop, buffers, 2, &type);
}
