/* These functions copy between GGUF blocks in host memory and quantized tensors. On the device,
 * quantized values and scales are in separate buffers. */
#include <tandem/quant.h>

#include "api/base/handles.h"
#include "api/tensor/tensor_internal.h"
#include "quant/quant_blocks.h"

/* A piece has at most this many elements, which limits the host memory in use. It is a multiple of
 * two blocks. */
#define PIECE_ELEMENTS ((int64_t)1 << 20)

typedef struct format_row {
    const char *name;
    tdm_dtype codes;
    int64_t bytes; /* bytes of a block */
} format_row;

static const format_row formats[] = {
    [TDM_BLOCKS_Q8_0] = {"q8_0", TDM_S8, TDM_QUANT_Q8_0_BYTES},
    [TDM_BLOCKS_Q4_0] = {"q4_0", TDM_S4, TDM_QUANT_Q4_0_BYTES},
};

/* This is a copy in progress. Pieces are whole rows, or parts of long rows. */
typedef struct passage {
    const char *operation;
    const char *argument, *scale; /* names of the tensor and of its scale */
    tdm_stream *stream;
    const tdm_tensor *tensor;
    const format_row *format;
    tdm_block_format kind;
    const unsigned char *from; /* blocks to read, or NULL */
    unsigned char *to;         /* blocks to write, or NULL */
    int64_t rows, columns;
    void *codes; /* quantized values of a piece */
    uint16_t *scales;
    size_t codes_bytes, scales_bytes;
} passage;

/* ---- checks ---------------------------------------------------------------------------------- */

static tdm_status check_parameters(const passage *p) {
    const tdm_tensor *const tensor = p->tensor;
    const int last = tensor->layout.rank - 1;
    if (tensor->layout.dtype != p->format->codes)
        return tdm_fail(TDM_BAD_DTYPE, "%s: the tensor is %s, but %s holds %s", p->operation,
                        tdm_dtype_name(tensor->layout.dtype), p->format->name,
                        tdm_dtype_name(p->format->codes));
    if (!tensor->scale || tensor->scale->layout.dtype != TDM_F16 || tensor->zero_point)
        return tdm_fail(TDM_UNSUPPORTED,
                        "%s: the tensor has %s, but %s needs f16 scales and no zero points",
                        p->operation,
                        !tensor->scale       ? "no quantization parameters"
                        : tensor->zero_point ? "zero points"
                                             : tdm_dtype_name(tensor->scale->layout.dtype),
                        p->format->name);
    for (int d = 0; d < last; d++)
        if (tensor->block[d] != 1 && tensor->layout.shape[d] != 1)
            return tdm_fail(
                TDM_UNSUPPORTED,
                "%s: %lld rows of the tensor share a scale, but every row has its own in %s",
                p->operation, (long long)tensor->block[d], p->format->name);
    if (tensor->block[last] != TDM_QUANT_BLOCK_ELEMENTS &&
        !(tensor->block[last] == 0 && tensor->layout.shape[last] == TDM_QUANT_BLOCK_ELEMENTS))
        return tdm_fail(TDM_UNSUPPORTED,
                        "%s: %lld elements of a row share a scale, but blocks of %s have 32",
                        p->operation, (long long)tensor->block[last], p->format->name);
    return TDM_OK;
}

static tdm_status check(passage *p, tdm_block_format format, const void *host, size_t host_bytes) {
    TDM_TRY(tdm_check_tensor(p->operation, p->argument, p->stream, p->tensor));
    TDM_TRY(tdm_refuse_recording(p->stream, p->operation));
    if ((int)format < 0 || (size_t)format >= sizeof formats / sizeof *formats)
        return tdm_fail(TDM_BAD_ARGUMENT, "%s: format is %d, which is unknown", p->operation,
                        (int)format);
    p->kind = format;
    p->format = &formats[format];
    const tdm_layout *const layout = &p->tensor->layout;
    if (layout->rank < 1 || layout->rank > 2)
        return tdm_fail(TDM_BAD_SHAPE, "%s: the rank of the tensor is %d, must be 1 or 2",
                        p->operation, layout->rank);
    TDM_TRY(check_parameters(p));
    if (p->from) {
        TDM_TRY(tdm_check_output(p->operation, p->argument, p->stream, p->tensor));
        TDM_TRY(tdm_check_last_unit(p->operation, p->argument, p->tensor));
        TDM_TRY(tdm_check_output(p->operation, p->scale, p->stream, p->tensor->scale));
    }
    p->columns = layout->shape[layout->rank - 1];
    p->rows = layout->rank == 2 ? layout->shape[0] : 1;
    if (p->columns % TDM_QUANT_BLOCK_ELEMENTS != 0)
        return tdm_fail(TDM_BAD_SHAPE,
                        "%s: rows of %lld elements are not a multiple of the block size 32",
                        p->operation, (long long)p->columns);
    const int64_t blocks = tdm_layout_elements(layout) / TDM_QUANT_BLOCK_ELEMENTS;
    const uint64_t needed = (uint64_t)blocks * (uint64_t)p->format->bytes;
    if (host_bytes < needed)
        return tdm_fail(TDM_BAD_SHAPE,
                        "%s: host_bytes is %zu, but %lld blocks of %s have %llu bytes",
                        p->operation, host_bytes, (long long)blocks, p->format->name,
                        (unsigned long long)needed);
    if (!host && needed > 0)
        return tdm_fail(TDM_BAD_ARGUMENT, "%s: host is NULL", p->operation);
    return TDM_OK;
}

/* ---- pieces ---------------------------------------------------------------------------------- */

/* Returns the submatrix of `rows` rows from `row` on and `columns` columns from `column` on,
 * without parameters. */
static tdm_tensor part_of(const tdm_tensor *tensor, int64_t row, int64_t rows, int64_t column,
                          int64_t columns) {
    tdm_tensor part = *tensor;
    const int last = tensor->layout.rank - 1;
    part.scale = part.zero_point = NULL;
    if (last == 1) {
        part.layout.shape[0] = rows;
        part.offset += row * tensor->layout.strides[0];
    }
    part.layout.shape[last] = columns;
    part.offset += column * tensor->layout.strides[last];
    return part;
}

static tdm_status move(const passage *p, tdm_tensor *part, void *host, size_t bytes) {
    tdm_handles_own(1);
    const tdm_status status = p->from ? tdm_tensor_write(p->stream, host, bytes, NULL, part)
                                      : tdm_tensor_read(p->stream, part, host, bytes, NULL);
    tdm_handles_own(-1);
    return status;
}

/* Converts `columns` elements of row `row` of the tensor, from `column` on. It converts between
 * blocks in host memory and row `at` of the piece. */
static void convert_row(const passage *p, int64_t row, int64_t at, int64_t column,
                        int64_t columns) {
    const int64_t first = (row * p->columns + column) / TDM_QUANT_BLOCK_ELEMENTS * p->format->bytes;
    const size_t count = (size_t)(columns / TDM_QUANT_BLOCK_ELEMENTS);
    uint16_t *const scales = p->scales + (size_t)at * count;
    void *const codes =
        (char *)p->codes + at * (p->format->codes == TDM_S4 ? columns / 2 : columns);
    if (p->kind == TDM_BLOCKS_Q8_0 && p->from)
        tdm_quant_q8_0_split(p->from + first, count, scales, codes);
    else if (p->kind == TDM_BLOCKS_Q8_0)
        tdm_quant_q8_0_join(scales, codes, count, p->to + first);
    else if (p->from)
        tdm_quant_q4_0_split(p->from + first, count, scales, codes);
    else
        tdm_quant_q4_0_join(scales, codes, count, p->to + first);
}

static tdm_status move_piece(const passage *p, int64_t row, int64_t rows, int64_t column,
                             int64_t columns) {
    tdm_tensor codes = part_of(p->tensor, row, rows, column, columns);
    tdm_tensor scales = part_of(p->tensor->scale, row, rows, column / TDM_QUANT_BLOCK_ELEMENTS,
                                columns / TDM_QUANT_BLOCK_ELEMENTS);
    for (int64_t i = 0; p->from && i < rows; i++)
        convert_row(p, row + i, i, column, columns);
    TDM_TRY(move(p, &codes, p->codes, p->codes_bytes));
    TDM_TRY(move(p, &scales, p->scales, p->scales_bytes));
    for (int64_t i = 0; p->to && i < rows; i++)
        convert_row(p, row + i, i, column, columns);
    return TDM_OK;
}

static int64_t least(int64_t a, int64_t b) {
    return a < b ? a : b;
}

/* Copies all pieces. Rows of s4 are copied in pairs, because two rows share bytes if the first
 * dimension is the contiguous one. */
static tdm_status move_pieces(const passage *p) {
    const int64_t together = p->format->codes == TDM_S4 && p->rows > 1 ? 2 : 1;
    const int64_t width = least(p->columns, PIECE_ELEMENTS / together);
    const int64_t step = PIECE_ELEMENTS / width / together * together;
    for (int64_t row = 0; row < p->rows; row += step)
        for (int64_t column = 0; column < p->columns; column += width)
            TDM_TRY(move_piece(p, row, least(step, p->rows - row), column,
                               least(width, p->columns - column)));
    return TDM_OK;
}

static tdm_status copy(passage *p, tdm_block_format format, const void *host, size_t host_bytes) {
    TDM_TRY(check(p, format, host, host_bytes));
    const int64_t elements = p->rows * p->columns;
    const size_t most = (size_t)(elements < PIECE_ELEMENTS ? elements : PIECE_ELEMENTS);
    if (elements == 0)
        return TDM_OK;
    p->codes_bytes = p->format->codes == TDM_S4 ? most / 2 : most;
    p->scales_bytes = most / TDM_QUANT_BLOCK_ELEMENTS * sizeof *p->scales;
    p->codes = tdm_host_alloc(p->codes_bytes);
    p->scales = tdm_host_alloc(p->scales_bytes);
    const tdm_status status =
        p->codes && p->scales ? move_pieces(p)
                              : tdm_fail(TDM_OUT_OF_HOST_MEMORY, "%s: no host memory for %zu bytes",
                                         p->operation, p->codes_bytes + p->scales_bytes);
    tdm_host_free(p->codes);
    tdm_host_free(p->scales);
    return status;
}

tdm_status tdm_tensor_write_blocks(tdm_stream *stream, tdm_block_format format, const void *host,
                                   size_t host_bytes, tdm_tensor *target) {
    passage p = {.operation = "tensor_write_blocks",
                 .argument = "target",
                 .scale = "target's scale",
                 .stream = stream,
                 .tensor = target,
                 .from = host};
    return copy(&p, format, host, host_bytes);
}

tdm_status tdm_tensor_read_blocks(tdm_stream *stream, const tdm_tensor *source,
                                  tdm_block_format format, void *host, size_t host_bytes) {
    passage p = {.operation = "tensor_read_blocks",
                 .argument = "source",
                 .scale = "source's scale",
                 .stream = stream,
                 .tensor = source,
                 .to = host};
    return copy(&p, format, host, host_bytes);
}
