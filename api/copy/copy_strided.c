/* These functions copy, convert and fill tensors. Dense tensors may use the driver's own copy and
 * fill. All others use a kernel. */
#include <string.h>

#include "api/tensor/strided_loop.h"
#include "kernels/elementwise/fill_args.h"
#include "quant/number_formats.h"

/* These are the range of s4, and the storage parameter of its fill variants. */
enum {
    S4_LOW = -8,
    S4_HIGH = 7,
    STORAGE_S4 = 0
};

/* True for sub-byte dtypes. The copy kernels move whole bytes only. Such tensors are converted to
 * their own dtype, unless they are one dense run. */
static bool is_packed(tdm_dtype dtype) {
    return tdm_dtype_info(dtype)->elements_per_unit > 1;
}

tdm_status tdm_check_same_elements(const char *operation, const tdm_tensor *target,
                                   const tdm_tensor *source) {
    if (!tdm_layout_same_shape(&target->layout, &source->layout)) {
        char from[TDM_SHAPE_TEXT], to[TDM_SHAPE_TEXT];
        return tdm_fail(TDM_BAD_SHAPE, "%s: source has shape %s but target %s", operation,
                        tdm_layout_text(&source->layout, from),
                        tdm_layout_text(&target->layout, to));
    }
    if (target->layout.dtype != source->layout.dtype)
        return tdm_fail(TDM_BAD_DTYPE, "%s: source is %s but target is %s, use tdm_tensor_convert",
                        operation, tdm_dtype_name(source->layout.dtype),
                        tdm_dtype_name(target->layout.dtype));
    return TDM_OK;
}

static tdm_status check_copy(const tdm_stream *stream, const tdm_tensor *target,
                             const tdm_tensor *source) {
    TDM_TRY(tdm_check_output("copy", "target", stream, target));
    TDM_TRY(tdm_check_tensor("copy", "source", stream, source));
    TDM_TRY(tdm_check_same_elements("copy", target, source));
    return tdm_check_overlap("copy", "target", target, "source", source, true);
}

static uint64_t byte_offset(const tdm_tensor *tensor) {
    return (uint64_t)tensor->offset * (uint64_t)tdm_dtype_info(tensor->layout.dtype)->bits / 8;
}

/* True if every operand of the loop is one contiguous run. */
static bool is_one_run(const tdm_loop *loop) {
    bool dense = loop->rows == 1;
    for (int o = 0; o < loop->operands; o++)
        dense = dense && (loop->inner == 1 || loop->step[o] == 1);
    return dense;
}

/* True if the elements fill whole storage units. A driver's copy of an odd number of s4 would
 * overwrite the other half of the last byte. */
static bool has_whole_units(tdm_dtype dtype, int64_t elements) {
    return elements % tdm_dtype_info(dtype)->elements_per_unit == 0;
}

/* On CPU cores the driver copies with one core, through the caches. PoCL reaches 18 GB/s, and the
 * kernel reaches 43 GB/s on two cores. Below KERNEL_COPY_BYTES a launch costs more than it
 * saves. */
enum {
    KERNEL_COPY_BYTES = 1 << 20,
    WORD_BYTES = 4
};

static bool driver_copies(const tdm_device *device, size_t bytes) {
    return (device->info.capabilities & TDM_CAP_CPU_CORES) == 0 || bytes < KERNEL_COPY_BYTES;
}

/* Copies elements of `unit_bytes`. Both sides must be aligned to it. */
static tdm_status copy_by_kernel(tdm_stream *stream, const tdm_tensor *target,
                                 const tdm_tensor *source, const tdm_loop *loop, int unit_bytes) {
    tdm_kernel *kernel;
    TDM_TRY(tdm_loop_kernel(stream, TDM_OP_COPY, "copy", unit_bytes, loop, &kernel));
    const tdm_arg buffers[] = {
        tdm_arg_block(source->buffer->block, (int64_t)byte_offset(source), unit_bytes),
        tdm_arg_block(target->buffer->block, (int64_t)byte_offset(target), unit_bytes)};
    const double bytes = (double)(loop->rows * loop->inner) * unit_bytes;
    const tdm_arg streams = tdm_arg_s32(tdm_exceeds_caches(stream->device, 2 * bytes));
    return tdm_loop_enqueue(stream, "copy", kernel, loop, buffers, 2, &streams);
}

/* Makes a loop over one run of words, from element 0 of all operands. */
static void loop_of_words(tdm_loop *loop, size_t bytes, int word, int operands) {
    tdm_dim_list words = {.operands = operands};
    tdm_dim_list_add(&words, (int64_t)(bytes / (size_t)word),
                     (const int64_t[TDM_LOOP_OPERANDS]){1, 1});
    tdm_loop_of_list(loop, &words);
}

/*
 * Copies one dense run. On CPU cores a kernel copies long runs, in words unless a variant is
 * forced. The driver copies all other runs. It also copies if the stream records and the kernel is
 * not built yet.
 */
static tdm_status copy_run(tdm_stream *stream, const tdm_tensor *target, const tdm_tensor *source,
                           size_t bytes, int unit_bytes) {
    const uint64_t to = byte_offset(target), from = byte_offset(source);
    const int word =
        unit_bytes < WORD_BYTES && !tdm_forced_variant(TDM_OP_COPY) ? WORD_BYTES : unit_bytes;
    if (!driver_copies(stream->device, bytes) && (to | from | bytes) % (uint64_t)word == 0) {
        tdm_loop loop;
        loop_of_words(&loop, bytes, word, 2);
        const tdm_status status = copy_by_kernel(stream, target, source, &loop, word);
        if (status != TDM_BAD_STATE)
            return status;
    }
    return tdm_enqueue_copy(stream, "copy", target->buffer->block, to, source->buffer->block, from,
                            bytes);
}

tdm_status tdm_tensor_copy(tdm_stream *stream, const tdm_tensor *source, tdm_tensor *target) {
    TDM_TRY(check_copy(stream, target, source));
    const int64_t elements = tdm_layout_elements(&target->layout);
    if (elements == 0 || tdm_same_view(target, source))
        return TDM_OK;

    const tdm_dtype dtype = target->layout.dtype;
    tdm_loop loop;
    tdm_loop_make(&loop, &target->layout, (const tdm_layout *const[]){&source->layout}, 1);
    size_t bytes;
    const int unit_bytes = tdm_dtype_info(dtype)->unit_bytes;
    TDM_TRY(tdm_dtype_bytes(dtype, elements, &bytes));
    if (has_whole_units(dtype, elements) && is_one_run(&loop))
        return copy_run(stream, target, source, bytes, unit_bytes);
    if (is_packed(dtype))
        return tdm_convert_elements(stream, "copy", target, source);
    return copy_by_kernel(stream, target, source, &loop, unit_bytes);
}

tdm_status tdm_copy_prepare(tdm_device *device, const tdm_layout *target,
                            const tdm_layout *source) {
    tdm_loop loop;
    tdm_loop_make(&loop, target, &source, 1);
    if (has_whole_units(target->dtype, tdm_layout_elements(target)) && is_one_run(&loop))
        return TDM_OK; // the driver copies if no kernel is built
    return is_packed(target->dtype)
               ? tdm_convert_prepare(device, target, source)
               : tdm_loop_prepare(device, TDM_OP_COPY, "copy",
                                  tdm_dtype_info(target->dtype)->unit_bytes, &loop);
}

/* Fills s4 elements that are not a run of whole bytes. */
static tdm_status fill_nibbles(tdm_stream *stream, const tdm_tensor *target, tdm_loop *loop,
                               int64_t pattern) {
    tdm_kernel *kernel;
    TDM_TRY(tdm_loop_kernel(stream, TDM_OP_FILL, "fill", STORAGE_S4, loop, &kernel));
    const tdm_fill_arg fill = {pattern, 0};
    const tdm_arg buffer = tdm_arg_elements(target, 0), arg = tdm_arg_blob(&fill, sizeof fill);
    loop->unit = 2;
    return tdm_loop_enqueue(stream, "fill", kernel, loop, &buffer, 1, &arg);
}

static tdm_status fill_by_kernel(tdm_stream *stream, const tdm_tensor *target, const tdm_loop *loop,
                                 int64_t pattern, int unit_bytes) {
    tdm_kernel *kernel;
    TDM_TRY(tdm_loop_kernel(stream, TDM_OP_FILL, "fill", unit_bytes, loop, &kernel));
    const double bytes = (double)(loop->rows * loop->inner) * unit_bytes;
    const tdm_fill_arg fill = {pattern, tdm_exceeds_caches(stream->device, bytes)};
    const tdm_arg buffer =
        tdm_arg_block(target->buffer->block, (int64_t)byte_offset(target), unit_bytes);
    const tdm_arg arg = tdm_arg_blob(&fill, sizeof fill);
    return tdm_loop_enqueue(stream, "fill", kernel, loop, &buffer, 1, &arg);
}

/* Repeats the bits of an element of `unit_bytes` to fill a word. Returns false if the element is
 * longer than a word and its words differ. */
static bool word_of(int64_t pattern, int unit_bytes, int64_t *word) {
    const uint64_t bits = (uint64_t)pattern;
    const uint64_t byte = bits & 0xFF, half = bits & 0xFFFF, low = bits & 0xFFFFFFFF;
    const uint64_t of_units = unit_bytes == 1   ? byte * 0x01010101
                              : unit_bytes == 2 ? half * 0x00010001
                                                : low;
    *word = (int64_t)of_units;
    return unit_bytes <= WORD_BYTES || bits >> 32 == low;
}

/* Fills one run, like copy_run. The driver fills it, or on CPU cores a kernel fills long runs in
 * words. */
static tdm_status fill_run(tdm_stream *stream, const tdm_tensor *target, size_t bytes,
                           int64_t pattern, int unit_bytes) {
    const uint64_t to = byte_offset(target);
    int64_t word;
    if (!driver_copies(stream->device, bytes) && (to | bytes) % WORD_BYTES == 0 &&
        word_of(pattern, unit_bytes, &word)) {
        tdm_loop loop;
        loop_of_words(&loop, bytes, WORD_BYTES, 1);
        const tdm_status status = fill_by_kernel(stream, target, &loop, word, WORD_BYTES);
        if (status != TDM_BAD_STATE)
            return status;
    }
    return tdm_enqueue_fill(stream, "fill", target->buffer->block, to, bytes, &pattern,
                            (size_t)unit_bytes);
}

/* Returns the element in the low bytes of an integer, because Tandem runs on little-endian hosts
 * only. An s4 element is in both halves of a byte. */
static int64_t pattern_of(tdm_dtype dtype, double value) {
    int64_t pattern = 0;
    int8_t code;
    if (dtype == TDM_S4) {
        tdm_number_set(TDM_S8, &code, 0, value);
        code = code < S4_LOW ? S4_LOW : code > S4_HIGH ? S4_HIGH : code;
        return (code & 0xF) * 0x11;
    }
    tdm_number_set(dtype, &pattern, 0, value);
    return pattern;
}

tdm_status tdm_tensor_fill(tdm_stream *stream, double value, tdm_tensor *target) {
    TDM_TRY(tdm_check_output("fill", "target", stream, target));
    const tdm_dtype dtype = target->layout.dtype;
    if (!tdm_number_known(dtype) && dtype != TDM_S4)
        return tdm_fail(
            TDM_UNSUPPORTED,
            "fill: target is %s; f32, f16, bf16, f64, s32, s8, u8, s4, s64 and bool are "
            "supported",
            tdm_dtype_name(dtype));
    const int64_t elements = tdm_layout_elements(&target->layout);
    if (elements == 0)
        return TDM_OK;

    const int unit_bytes = tdm_dtype_info(dtype)->unit_bytes;
    const int64_t pattern = pattern_of(dtype, value);
    tdm_loop loop;
    tdm_loop_make(&loop, &target->layout, NULL, 0);
    if (has_whole_units(dtype, elements) && is_one_run(&loop)) {
        size_t bytes;
        TDM_TRY(tdm_dtype_bytes(dtype, elements, &bytes));
        return fill_run(stream, target, bytes, pattern, unit_bytes);
    }
    return is_packed(dtype) ? fill_nibbles(stream, target, &loop, pattern)
                            : fill_by_kernel(stream, target, &loop, pattern, unit_bytes);
}

static bool is_convertible(tdm_dtype dtype) {
    switch (dtype) {
    case TDM_F32:
    case TDM_F16:
    case TDM_BF16:
    case TDM_S32:
    case TDM_S8:
    case TDM_U8:
    case TDM_S4:
    case TDM_S64:
    case TDM_BOOL:
        return true;
    default:
        return false;
    }
}

static tdm_status check_dtype(const char *argument, tdm_dtype dtype) {
    if (is_convertible(dtype))
        return TDM_OK;
    return tdm_fail(
        TDM_UNSUPPORTED,
        "convert: %s is %s; f32, f16, bf16, s32, s8, u8, s4, s64 and bool are supported", argument,
        tdm_dtype_name(dtype));
}

/* No kernel converts between s4 and a dtype that has the reference kernels alone. */
static tdm_status check_pair(tdm_dtype source, tdm_dtype target) {
    const tdm_dtype other = source == TDM_S4 ? target : source;
    if ((source != TDM_S4 && target != TDM_S4) || (other != TDM_S64 && other != TDM_BOOL))
        return TDM_OK;
    return tdm_fail(TDM_UNSUPPORTED, "convert: no kernel from %s to %s; convert to s8 first",
                    tdm_dtype_name(source), tdm_dtype_name(target));
}

tdm_status tdm_tensor_convert(tdm_stream *stream, const tdm_tensor *source, tdm_tensor *target) {
    TDM_TRY(tdm_check_output("convert", "target", stream, target));
    TDM_TRY(tdm_check_tensor("convert", "source", stream, source));
    if (!tdm_layout_same_shape(&target->layout, &source->layout)) {
        char from[TDM_SHAPE_TEXT], to[TDM_SHAPE_TEXT];
        return tdm_fail(TDM_BAD_SHAPE, "convert: source has shape %s but target %s",
                        tdm_layout_text(&source->layout, from),
                        tdm_layout_text(&target->layout, to));
    }
    TDM_TRY(check_dtype("source", source->layout.dtype));
    TDM_TRY(check_dtype("target", target->layout.dtype));
    TDM_TRY(check_pair(source->layout.dtype, target->layout.dtype));
    if (source->layout.dtype == target->layout.dtype)
        return tdm_tensor_copy(stream, source, target);
    TDM_TRY(tdm_check_overlap("convert", "target", target, "source", source, false));
    if (tdm_layout_elements(&target->layout) == 0)
        return TDM_OK;

    return tdm_convert_elements(stream, "convert", target, source);
}
