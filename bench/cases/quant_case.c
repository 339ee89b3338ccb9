#include "bench/cases/quant_case.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/cases/case_fields.h"
#include "common/random_fill.h"
#include "quant/number_formats.h"

enum {
    GROUP = 32,
    LARGEST_SIDE = 1 << 20,
    OPERATIONS = QUANT_UNPACK + 1
};

static const char *const operation_names[] = {"quantize", "dynamic", "dequantize", "convert",
                                              "widen",    "fake",    "mask",       "requantize",
                                              "stream",   "pack",    "unpack"};
static const char *const blocks_names[] = {"tensor", "row", "column", "group", "band"};

static const case_field fields[] = {
    CASE_FIELD(quant_case, operation, QUANT_QUANTIZE, QUANT_UNPACK),
    CASE_FIELD(quant_case, real, 1, INT32_MAX),
    CASE_FIELD(quant_case, codes, 1, INT32_MAX),
    CASE_FIELD(quant_case, blocks, QUANT_TENSOR, QUANT_BAND),
    CASE_FIELD(quant_case, group, 0, LARGEST_SIDE),
    CASE_FIELD(quant_case, rows, 1, LARGEST_SIDE),
    CASE_FIELD(quant_case, columns, 1, LARGEST_SIDE),
    CASE_FIELD(quant_case, seed, INT64_MIN, INT64_MAX),
    CASE_FIELD(quant_case, copied, 0, INT64_MAX),
    CASE_FIELD(quant_case, reads, 0, INT32_MAX),
    CASE_FIELD(quant_case, writes, 0, INT32_MAX),
};

void quant_case_write(const quant_case *item, worker_text *line) {
    case_fields_write(fields, sizeof fields / sizeof *fields, item, line);
}

int quant_case_from_line(const char *line, quant_case *item) {
    return case_fields_read(fields, sizeof fields / sizeof *fields, line, item);
}

int quant_operation_parse(const char *name, quant_operation *operation) {
    const int found = case_name_find(operation_names, OPERATIONS, name);
    *operation = (quant_operation)(found < 0 ? 0 : found);
    return found < 0 ? -1 : 0;
}

int quant_blocks_parse(const char *name, quant_blocks *blocks) {
    const int found = case_name_find(blocks_names, QUANT_BAND + 1, name);
    *blocks = (quant_blocks)(found < 0 ? 0 : found);
    return found < 0 ? -1 : 0;
}

/* Parses a side of at least `least`. Sets `end` to what follows it, or to NULL if invalid. */
static int64_t side_parse(const char *text, long long least, char **end) {
    errno = 0;
    const long long side = strtoll(text, end, 10);
    if (*end == text || errno != 0 || side < least || side > LARGEST_SIDE)
        *end = NULL;
    return side;
}

int quant_shape_parse(const char *text, int64_t *rows, int64_t *columns) {
    char *end;
    *rows = side_parse(text, 1, &end);
    if (end == NULL || *end != 'x')
        return -1;
    *columns = side_parse(end + 1, 2, &end);
    return end == NULL || *end != '\0' || *columns % 2 != 0 ? -1 : 0;
}

/* ---- what an operation does ---- */

static int from_codes(const quant_case *item) {
    return item->operation == QUANT_DEQUANTIZE || item->operation == QUANT_WIDEN ||
           item->operation == QUANT_UNPACK;
}

static int from_and_to_dequantized(const quant_case *item) {
    return item->operation == QUANT_FAKE || item->operation == QUANT_MASK;
}

/* True if the range of all elements is needed before the first one can be quantized. */
static int reads_twice(const quant_case *item) {
    return item->operation == QUANT_DYNAMIC &&
           (item->blocks == QUANT_TENSOR || item->blocks == QUANT_COLUMN);
}

int quant_case_has_blocks(const quant_case *item) {
    return item->operation != QUANT_CONVERT && item->operation != QUANT_WIDEN &&
           item->operation != QUANT_PACK && item->operation != QUANT_UNPACK;
}

int quant_case_has_zero(const quant_case *item) {
    return item->codes == TDM_U8;
}

static int64_t group_of(const quant_case *item) {
    return item->group > 0 ? item->group : GROUP;
}

void quant_case_name(const quant_case *item, char *name, size_t size) {
    char blocks[32] = "";
    const int sized = item->blocks == QUANT_GROUP || item->blocks == QUANT_BAND;
    if (quant_case_has_blocks(item) && sized && group_of(item) != GROUP)
        snprintf(blocks, sizeof blocks, " %s%lld", blocks_names[item->blocks],
                 (long long)group_of(item));
    else if (quant_case_has_blocks(item))
        snprintf(blocks, sizeof blocks, " %s", blocks_names[item->blocks]);
    snprintf(name, size, "%s %s %s%s %lldx%lld", operation_names[item->operation],
             tdm_dtype_name(item->real), tdm_dtype_name(item->codes), blocks, (long long)item->rows,
             (long long)item->columns);
}

tdm_quant_spec quant_case_spec(const quant_case *item) {
    const int64_t group = group_of(item);
    const int64_t blocks[][2] = {{0, 0}, {1, 0}, {0, 1}, {1, group}, {group, 1}};
    tdm_quant_spec spec = {.rank = 2, .dtype = item->codes, .shape = {item->rows, item->columns}};
    memcpy(spec.blocks, blocks[item->blocks], sizeof blocks[0]);
    const int32_t high = item->codes == TDM_U8 ? 255 : item->codes == TDM_S8 ? 127 : 7;
    const int32_t low = item->codes == TDM_U8              ? 0
                        : item->operation == QUANT_DYNAMIC ? -high
                                                           : -high - 1;
    spec.range = (tdm_quant_range){low, high};
    return spec;
}

/* ---- sizes ---- */

static size_t elements_of(const quant_case *item) {
    return (size_t)item->rows * (size_t)item->columns;
}

static size_t bytes_of(tdm_dtype dtype, size_t elements) {
    size_t bytes = 0;
    tdm_dtype_bytes(dtype, (int64_t)elements, &bytes);
    return bytes;
}

tdm_dtype quant_case_source_dtype(const quant_case *item) {
    return from_codes(item) ? item->codes : item->real;
}

tdm_dtype quant_case_target_dtype(const quant_case *item) {
    return from_codes(item) || from_and_to_dequantized(item) ? item->real : item->codes;
}

size_t quant_case_source_bytes(const quant_case *item) {
    return bytes_of(quant_case_source_dtype(item), elements_of(item));
}

size_t quant_case_target_bytes(const quant_case *item) {
    return bytes_of(quant_case_target_dtype(item), elements_of(item));
}

size_t quant_case_mask_bytes(const quant_case *item) {
    return item->operation == QUANT_MASK ? elements_of(item) : 0;
}

double quant_case_traffic(const quant_case *item) {
    const tdm_quant_spec spec = quant_case_spec(item);
    const double each = 4.0 + (quant_case_has_zero(item) ? 1.0 : 0.0);
    const double parameters =
        quant_case_has_blocks(item) ? each * (double)tdm_quant_scale_count(&spec) : 0.0;
    return (reads_twice(item) ? 2.0 : 1.0) * (double)quant_case_source_bytes(item) +
           (double)(quant_case_target_bytes(item) + quant_case_mask_bytes(item)) + parameters;
}

quant_case quant_case_stream(const quant_case *item) {
    quant_case stream = *item;
    /* The ratio is first computed from the bits of an element, and then reduced. */
    stream.reads =
        (int)bytes_of(quant_case_source_dtype(item), 2) * 4 * (reads_twice(item) ? 2 : 1);
    stream.writes = (int)bytes_of(quant_case_target_dtype(item), 2) * 4 +
                    (item->operation == QUANT_MASK ? 8 : 0);
    while (stream.reads % 2 == 0 && stream.writes % 2 == 0) {
        stream.reads /= 2;
        stream.writes /= 2;
    }
    stream.operation = QUANT_STREAM;
    stream.copied = (int64_t)quant_case_traffic(item);
    return stream;
}

int64_t quant_case_stream_steps(const quant_case *item, int line) {
    const int64_t step = (int64_t)(item->reads + item->writes) * line * (int64_t)sizeof(int32_t);
    const int64_t steps = (item->copied + step / 2) / step;
    return steps > 0 ? steps : 1;
}

/* ---- contents ---- */

static void *allocate(size_t bytes) {
    return calloc(1, bytes > 0 ? bytes : 1);
}

void *quant_case_source(const quant_case *item) {
    const tdm_dtype dtype = quant_case_source_dtype(item);
    const size_t bytes = quant_case_source_bytes(item);
    void *const data = allocate(bytes);
    if (data == NULL)
        return NULL;
    if (tdm_dtype_info(dtype)->kind == TDM_CLASS_FLOAT)
        random_fill_numbers(dtype, item->seed, data, elements_of(item));
    else
        random_fill_bytes(item->seed, data, bytes);
    /*
     * The sums are small, so that their real values (times QUANT_CASE_SUM_SCALE) are near [-1, 1].
     */
    for (size_t i = 0; item->operation == QUANT_REQUANTIZE && i < elements_of(item); i++)
        ((int32_t *)data)[i] %= 128;
    return data;
}

/*
 * Returns the scales, which differ slightly from block to block. With them, the quantized values
 * use their whole range.
 */
float *quant_case_scales(const quant_case *item) {
    const tdm_quant_spec spec = quant_case_spec(item);
    const int64_t count = tdm_quant_scale_count(&spec);
    float *const scales = allocate((size_t)count * sizeof *scales);
    for (int64_t i = 0; scales != NULL && i < count; i++)
        scales[i] = (1.0f + (float)(i % 16) / 64.0f) / (float)spec.range.high;
    return scales;
}

static int32_t *zeros_of(const quant_case *item) {
    const tdm_quant_spec spec = quant_case_spec(item);
    const int64_t count = tdm_quant_scale_count(&spec);
    int32_t *const zeros = allocate((size_t)count * sizeof *zeros);
    for (int64_t i = 0; zeros != NULL && i < count; i++)
        zeros[i] = quant_case_has_zero(item) ? QUANT_ZERO_POINT : 0;
    return zeros;
}

/* ---- the check ---- */

/* Computes the expected output with the host reference. */
static void expect(const quant_case *item, const void *source, float *scales, int32_t *zeros,
                   void *expected) {
    const tdm_quant_spec spec = quant_case_spec(item);
    switch (item->operation) {
    case QUANT_QUANTIZE:
        tdm_quant_quantize_tensor(&spec, item->real, source, scales, zeros, expected);
        break;
    case QUANT_DYNAMIC:
        tdm_quant_dynamic_tensor(
            &spec, quant_case_has_zero(item) ? TDM_QUANT_ASYMMETRIC : TDM_QUANT_SYMMETRIC,
            item->real, source, scales, zeros, expected);
        break;
    case QUANT_DEQUANTIZE:
        tdm_quant_dequantize_tensor(&spec, source, scales, zeros, item->real, expected);
        break;
    case QUANT_FAKE:
    case QUANT_MASK:
        tdm_quant_fake_tensor(&spec, item->real, source, scales, zeros, expected,
                              item->operation == QUANT_MASK
                                  ? (uint8_t *)expected + quant_case_target_bytes(item)
                                  : NULL);
        break;
    case QUANT_REQUANTIZE:
        for (int64_t i = 0; i < tdm_quant_scale_count(&spec); i++)
            scales[i] = QUANT_CASE_SUM_SCALE / scales[i];
        tdm_quant_requantize_tensor(&spec, source, scales, zeros, expected);
        break;
    case QUANT_CONVERT:
        for (size_t i = 0; i < elements_of(item); i++)
            tdm_quant_set(item->codes, expected, (int64_t)i,
                          tdm_int_from_f64(tdm_number_get(item->real, source, i), spec.range.low,
                                           spec.range.high));
        break;
    case QUANT_WIDEN:
        for (size_t i = 0; i < elements_of(item); i++)
            tdm_number_set(item->real, expected, i,
                           (double)tdm_quant_get(item->codes, source, (int64_t)i));
        break;
    case QUANT_PACK:
        tdm_quant_pack_s4(source, elements_of(item), expected);
        break;
    case QUANT_UNPACK:
        tdm_quant_unpack_s4(source, elements_of(item), expected);
        break;
    default:
        memcpy(expected, source, quant_case_target_bytes(item));
    }
}

/*
 * A step reads some lines and adds them up word by word. Each output line w of the step must be
 * that sum plus w.
 */
static int check_stream(const quant_case *item, const uint32_t *output, size_t bytes,
                        worker_text *reason) {
    const size_t words = bytes / sizeof *output;
    if (words == 0 || output[0] == 0 || output[0] > words)
        return CASE_WRONG(reason, "the output has no valid size");
    const size_t line = output[0], reads = (size_t)item->reads, writes = (size_t)item->writes;
    const size_t steps = (size_t)quant_case_stream_steps(item, (int)line);
    if (bytes != (1 + steps * writes * line) * sizeof *output)
        return CASE_WRONG(reason, "the output has %zu bytes", bytes);
    uint32_t *const input = allocate(steps * reads * line * sizeof *input);
    if (input == NULL)
        return CASE_WRONG(reason, "out of host memory");
    random_fill_bytes(item->seed, input, steps * reads * line * sizeof *input);
    size_t wrong = 0;
    for (size_t i = 0; i < steps * line; i++) {
        const size_t step = i / line, word = i % line;
        uint32_t sum = 0;
        for (size_t r = 0; r < reads; r++)
            sum += input[(step * reads + r) * line + word];
        for (size_t w = 0; w < writes; w++)
            wrong += output[1 + (step * writes + w) * line + word] != sum + (uint32_t)w;
    }
    free(input);
    return wrong > 0 ? CASE_WRONG(reason, "%zu words of the output are wrong", wrong) : 0;
}

int quant_case_check(const void *user, const void *output, size_t bytes, double *max_error,
                     worker_text *reason) {
    const quant_case *const item = user;
    const size_t wanted = quant_case_target_bytes(item) + quant_case_mask_bytes(item);
    int result = 0;
    *max_error = 0;
    if (item->operation == QUANT_STREAM)
        return check_stream(item, output, bytes, reason);
    if (bytes != wanted)
        return CASE_WRONG(reason, "the output has %zu bytes, not %zu", bytes, wanted);
    unsigned char *const expected = allocate(bytes);
    void *const source = quant_case_source(item);
    float *const scales = quant_case_scales(item);
    int32_t *const zeros = zeros_of(item);
    if (expected == NULL || source == NULL || scales == NULL || zeros == NULL) {
        result = CASE_WRONG(reason, "out of host memory");
    } else {
        const unsigned char *const got = output;
        expect(item, source, scales, zeros, expected);
        for (size_t i = 0; i < bytes && result == 0; i++)
            if (expected[i] != got[i])
                result = CASE_WRONG(reason, "byte %zu of the output is 0x%02x, not 0x%02x", i,
                                    got[i], expected[i]);
    }
    free(expected);
    free(source);
    free(scales);
    free(zeros);
    return result;
}
