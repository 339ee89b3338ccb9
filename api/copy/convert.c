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

tdm_status tdm_convert_prepare(tdm_device *device, const tdm_layout *target,
                               const tdm_layout *source) {
    tdm_loop loop;
    make_loop(&loop, target, source);
    return tdm_loop_prepare(device, TDM_OP_CONVERT, "convert", (int)source->dtype, &loop);
}

tdm_status tdm_convert_elements(tdm_stream *stream, const char *operation, const tdm_tensor *target,
                                const tdm_tensor *source) {
    tdm_loop loop;
    tdm_kernel *kernel;
    make_loop(&loop, &target->layout, &source->layout);
    TDM_TRY(tdm_loop_kernel(stream, TDM_OP_CONVERT, operation, (int)source->layout.dtype, &loop,
                            &kernel));
    const tdm_arg buffers[] = {tdm_arg_elements(source, 0), tdm_arg_elements(target, 0)};
    const tdm_arg type =
        tdm_arg_code((int)target->layout.dtype, (const tdm_tensor *const[]){target, source}, 2);
    return tdm_loop_enqueue(stream, operation, kernel, &loop, buffers, 2, &type);
}
