#include "bench/cases/quant_case.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/random_fill.h"
#include "quant/number_formats.h"

enum {
    GROUP = 32,
    ZERO_POINT = 3,
    LARGEST_SIDE = 1 << 20
};

static const char *const operation_names[] = {"copy",       "quantize", "dynamic", "dequantize",
                                              "convert",    "widen",    "fake",    "mask",
                                              "requantize", "stream",   "pack",    "unpack"};
static const char *const blocks_names[] = {"tensor", "row", "column", "group", "band"};

static int find_name(const char *const *names, size_t count, const char *name) {
    for (size_t i = 0; i < count; i++)
        if (strcmp(names[i], name) == 0)
            return (int)i;
    return -1;
}

const char *quant_operation_name(quant_operation operation) {
    return operation_names[operation];
}

int quant_operation_parse(const char *name, quant_operation *operation) {
    const int found =
        find_name(operation_names, sizeof operation_names / sizeof *operation_names, name);
    if (found < 0)
        return -1;
    *operation = (quant_operation)found;
    return 0;
}

const char *quant_blocks_name(quant_blocks blocks) {
    return blocks_names[blocks];
}

int quant_blocks_parse(const char *name, quant_blocks *blocks) {
    const int found = find_name(blocks_names, sizeof blocks_names / sizeof *blocks_names, name);
    if (found < 0)
        return -1;
    *blocks = (quant_blocks)found;
    return 0;
}

/* A side from `least` on; `end` is what follows it, NULL when there is none. */
static int64_t side_parse(const char *text, long long least, char **end) {
    errno = 0;
    const long long side = strtoll(text, end, 10);
    if (*end == text || errno != 0 || side < least || side > LARGEST_SIDE)
        *end = NULL;
    return side;
}

int quant_shape_parse(const char *text, int64_t *rows, int64_t *columns) {
    char *end;
    const int64_t m = side_parse(text, 1, &end);
    if (!end || *end != 'x')
        return -1;
    const int64_t n = side_parse(end + 1, 2, &end);
    if (!end || *end != '\0' || n % 2 != 0)
        return -1;
    *rows = m;
    *columns = n;
    return 0;
}

int quant_case_has_blocks(const quant_case *item) {
    return item->operation != QUANT_CONVERT && item->operation != QUANT_WIDEN &&
           item->operation != QUANT_PACK && item->operation != QUANT_UNPACK;
}

static int64_t group_of(const quant_case *item) {
    return item->group > 0 ? item->group : GROUP;
}

/* What shares parameters, with a blank before it. */
static void name_blocks(const quant_case *item, char *name, size_t size) {
    const int sized = item->blocks == QUANT_GROUP || item->blocks == QUANT_BAND;
    if (!quant_case_has_blocks(item))
        name[0] = '\0';
    else if (sized && group_of(item) != GROUP)
        snprintf(name, size, " %s%lld", quant_blocks_name(item->blocks), (long long)group_of(item));
    else
        snprintf(name, size, " %s", quant_blocks_name(item->blocks));
}

void quant_case_name(const quant_case *item, char *name, size_t size) {
    char blocks[32];
    name_blocks(item, blocks, sizeof blocks);
    snprintf(name, size, "%s %s %s%s %lldx%lld", quant_operation_name(item->operation),
             tdm_dtype_name(item->real), tdm_dtype_name(item->codes), blocks, (long long)item->rows,
             (long long)item->columns);
}

void quant_case_write(const quant_case *item, worker_text *line) {
    worker_field_add(line, "suite", "quant");
    worker_field_add(line, "operation", quant_operation_name(item->operation));
    worker_field_add(line, "real", tdm_dtype_name(item->real));
    worker_field_add(line, "codes", tdm_dtype_name(item->codes));
    worker_field_add(line, "blocks", quant_blocks_name(item->blocks));
    worker_field_add_integer(line, "group", item->group);
    worker_field_add_integer(line, "rows", item->rows);
    worker_field_add_integer(line, "columns", item->columns);
    worker_field_add_integer(line, "seed", (int64_t)item->seed);
    worker_field_add_integer(line, "copied", item->copied);
    worker_field_add_integer(line, "reads", item->reads);
    worker_field_add_integer(line, "writes", item->writes);
}

int quant_case_from_line(const char *line, quant_case *item) {
    char operation[16], real[8], codes[8], blocks[16];
    worker_field(line, "operation", operation, sizeof operation);
    worker_field(line, "real", real, sizeof real);
    worker_field(line, "codes", codes, sizeof codes);
    worker_field(line, "blocks", blocks, sizeof blocks);
    item->real = tdm_dtype_from_name(real);
    item->codes = tdm_dtype_from_name(codes);
    item->group = worker_field_integer(line, "group", 0);
    item->rows = worker_field_integer(line, "rows", 0);
    item->columns = worker_field_integer(line, "columns", 0);
    item->seed = (uint64_t)worker_field_integer(line, "seed", 0);
    item->copied = worker_field_integer(line, "copied", 0);
    item->reads = (int)worker_field_integer(line, "reads", 0);
    item->writes = (int)worker_field_integer(line, "writes", 0);
    if (item->real == TDM_DTYPE_NONE || item->codes == TDM_DTYPE_NONE || item->rows < 1 ||
        item->columns < 1 || item->group < 0)
        return -1;
    return quant_operation_parse(operation, &item->operation) |
           quant_blocks_parse(blocks, &item->blocks);
}

int quant_case_has_zero(const quant_case *item) {
    return item->codes == TDM_U8;
}

tdm_quant_spec quant_case_spec(const quant_case *item) {
    const int64_t group = group_of(item);
    const int64_t blocks[][2] = {{0, 0}, {1, 0}, {0, 1}, {1, group}, {group, 1}};
    tdm_quant_spec spec = {.rank = 2, .dtype = item->codes};
    spec.shape[0] = item->rows;
    spec.shape[1] = item->columns;
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

size_t quant_case_real_bytes(const quant_case *item) {
    return bytes_of(item->real, elements_of(item));
}

size_t quant_case_code_bytes(const quant_case *item) {
    return bytes_of(item->codes, elements_of(item));
}

static int writes_reals(const quant_case *item) {
    return item->operation == QUANT_DEQUANTIZE || item->operation == QUANT_WIDEN ||
           item->operation == QUANT_FAKE || item->operation == QUANT_MASK ||
           item->operation == QUANT_UNPACK;
}

size_t quant_case_mask_bytes(const quant_case *item) {
    return item->operation == QUANT_MASK ? elements_of(item) : 0;
}

/* Whether the range of all is needed before the first code. */
static int reads_twice(const quant_case *item) {
    return item->operation == QUANT_DYNAMIC &&
           (item->blocks == QUANT_TENSOR || item->blocks == QUANT_COLUMN);
}

double quant_case_operands(const quant_case *item) {
    const tdm_quant_spec spec = quant_case_spec(item);
    const double each = 4.0 + (quant_case_has_zero(item) ? 1.0 : 0.0);
    const double parameters =
        quant_case_has_blocks(item) ? each * (double)tdm_quant_scale_count(&spec) : 0.0;
    const double real = (double)quant_case_real_bytes(item);
    const double code = (double)quant_case_code_bytes(item);
    const int fake = item->operation == QUANT_FAKE || item->operation == QUANT_MASK;
    return real + parameters + (fake ? real : code) + (double)quant_case_mask_bytes(item);
}

double quant_case_traffic(const quant_case *item) {
    return quant_case_operands(item) +
           (reads_twice(item) ? (double)quant_case_real_bytes(item) : 0.0);
}

quant_case quant_case_copy(const quant_case *item) {
    quant_case copy = *item;
    copy.operation = QUANT_COPY;
    copy.copied =
        (int64_t)(quant_case_traffic(item) / 2.0 / sizeof(float)) * (int64_t)sizeof(float);
    return copy;
}

static int bits_of(tdm_dtype dtype) {
    return (int)(bytes_of(dtype, 2) * 4);
}

quant_case quant_case_stream(const quant_case *item) {
    quant_case stream = *item;
    const int real = bits_of(item->real), code = bits_of(item->codes);
    const int fake = item->operation == QUANT_FAKE || item->operation == QUANT_MASK;
    const int from_codes = item->operation == QUANT_DEQUANTIZE || item->operation == QUANT_WIDEN ||
                           item->operation == QUANT_UNPACK;
    int reads = from_codes ? code : real;
    int writes = fake || from_codes ? real : code;
    if (reads_twice(item))
        reads *= 2;
    if (item->operation == QUANT_MASK)
        writes += 8;
    while (reads % 2 == 0 && writes % 2 == 0) {
        reads /= 2;
        writes /= 2;
    }
    stream.reads = reads;
    stream.writes = writes;
    stream.operation = QUANT_STREAM;
    stream.copied = (int64_t)quant_case_traffic(item);
    return stream;
}

int64_t quant_case_stream_steps(const quant_case *item, int line) {
    const int64_t step = (int64_t)(item->reads + item->writes) * line * (int64_t)sizeof(int32_t);
    const int64_t steps = (item->copied + step / 2) / step;
    return steps > 0 ? steps : 1;
}

size_t quant_case_output_bytes(const quant_case *item) {
    if (item->operation == QUANT_COPY)
        return (size_t)item->copied;
    return writes_reals(item) ? quant_case_real_bytes(item) + quant_case_mask_bytes(item)
                              : quant_case_code_bytes(item);
}

/* ---- contents ---- */

static void *allocate(size_t bytes) {
    return malloc(bytes > 0 ? bytes : 1);
}

void *quant_case_reals(const quant_case *item) {
    void *const data = allocate(quant_case_real_bytes(item));
    if (data != NULL && item->real == TDM_S8)
        random_fill_bytes(item->seed, data, quant_case_real_bytes(item));
    else if (data != NULL)
        random_fill_numbers(item->real, item->seed, data, elements_of(item));
    return data;
}

void *quant_case_codes(const quant_case *item) {
    void *const data = allocate(quant_case_code_bytes(item));
    if (data != NULL)
        random_fill_bytes(item->seed + 1, data, quant_case_code_bytes(item));
    return data;
}

/* About what a product of many codes has. */
int32_t *quant_case_sums(const quant_case *item) {
    int32_t *const sums = allocate(elements_of(item) * sizeof *sums);
    if (sums != NULL)
        random_fill_bytes(item->seed + 2, sums, elements_of(item) * sizeof *sums);
    for (size_t i = 0; sums != NULL && i < elements_of(item); i++)
        sums[i] %= 128;
    return sums;
}

/* Such that the reals use the whole range, a little different for each. */
float *quant_case_scales(const quant_case *item) {
    const tdm_quant_spec spec = quant_case_spec(item);
    const int64_t count = tdm_quant_scale_count(&spec);
    float *const scales = allocate((size_t)count * sizeof *scales);
    for (int64_t i = 0; scales != NULL && i < count; i++)
        scales[i] = (1.0f + (float)(i % 16) / 64.0f) / (float)spec.range.high;
    return scales;
}

int32_t *quant_case_zeros(const quant_case *item) {
    const tdm_quant_spec spec = quant_case_spec(item);
    const int64_t count = tdm_quant_scale_count(&spec);
    int32_t *const zeros = allocate((size_t)count * sizeof *zeros);
    for (int64_t i = 0; zeros != NULL && i < count; i++)
        zeros[i] = quant_case_has_zero(item) ? ZERO_POINT : 0;
    return zeros;
}

/* ---- the check ---- */

/* What the operation should write, by the host reference. */
static int expect(const quant_case *item, const void *reals, const void *codes, float *scales,
                  int32_t *zeros, void *expected) {
    const tdm_quant_spec spec = quant_case_spec(item);
    switch (item->operation) {
    case QUANT_QUANTIZE:
        tdm_quant_quantize_tensor(&spec, item->real, reals, scales, zeros, expected);
        return 0;
    case QUANT_DYNAMIC:
        tdm_quant_dynamic_tensor(
            &spec, quant_case_has_zero(item) ? TDM_QUANT_ASYMMETRIC : TDM_QUANT_SYMMETRIC,
            item->real, reals, scales, zeros, expected);
        return 0;
    case QUANT_DEQUANTIZE:
        tdm_quant_dequantize_tensor(&spec, codes, scales, zeros, item->real, expected);
        return 0;
    case QUANT_FAKE:
    case QUANT_MASK:
        tdm_quant_fake_tensor(&spec, item->real, reals, scales, zeros, expected,
                              item->operation == QUANT_MASK
                                  ? (uint8_t *)expected + quant_case_real_bytes(item)
                                  : NULL);
        return 0;
    case QUANT_REQUANTIZE:
        for (int64_t i = 0; i < tdm_quant_scale_count(&spec); i++)
            scales[i] = QUANT_CASE_SUM_SCALE / scales[i];
        tdm_quant_requantize_tensor(&spec, reals, scales, zeros, expected);
        return 0;
    case QUANT_CONVERT:
        for (size_t i = 0; i < elements_of(item); i++)
            tdm_quant_set(item->codes, expected, (int64_t)i,
                          tdm_int_from_f64(tdm_number_get(item->real, reals, i), spec.range.low,
                                           spec.range.high));
        return 0;
    case QUANT_WIDEN:
        for (size_t i = 0; i < elements_of(item); i++)
            tdm_number_set(item->real, expected, i,
                           (double)tdm_quant_get(item->codes, codes, (int64_t)i));
        return 0;
    case QUANT_PACK:
        tdm_quant_pack_s4(reals, elements_of(item), expected);
        return 0;
    case QUANT_UNPACK:
        tdm_quant_unpack_s4(codes, elements_of(item), expected);
        return 0;
    default:
        random_fill_bytes(item->seed, expected, quant_case_output_bytes(item));
        return 0;
    }
}

static int compare(const unsigned char *expected, const unsigned char *output, size_t bytes,
                   worker_text *reason) {
    for (size_t i = 0; i < bytes; i++) {
        if (expected[i] == output[i])
            continue;
        worker_text_set(reason, "byte %zu of the output is 0x%02x, not 0x%02x", i, output[i],
                        expected[i]);
        return -1;
    }
    return 0;
}

/* Line w of a step is w more than the sum of the lines that the step reads. */
static int check_stream(const quant_case *item, const uint32_t *output, size_t bytes,
                        worker_text *reason) {
    const size_t words = bytes / sizeof *output;
    if (words == 0 || output[0] == 0 || output[0] > words)
        return (worker_text_set(reason, "the output has no line"), -1);
    const size_t line = output[0], reads = (size_t)item->reads, writes = (size_t)item->writes;
    const size_t steps = (size_t)quant_case_stream_steps(item, (int)line);
    if (bytes != (1 + steps * writes * line) * sizeof *output)
        return (worker_text_set(reason, "the output has %zu bytes", bytes), -1);
    uint32_t *const input = allocate(steps * reads * line * sizeof *input);
    if (input == NULL)
        return (worker_text_set(reason, "out of host memory"), -1);
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
    if (wrong > 0)
        worker_text_set(reason, "%zu words of the output are wrong", wrong);
    return wrong > 0 ? -1 : 0;
}

int quant_case_check(const void *user, const void *output, size_t bytes, double *max_error,
                     worker_text *reason) {
    const quant_case *const item = user;
    *max_error = 0;
    if (item->operation == QUANT_STREAM)
        return check_stream(item, output, bytes, reason);
    if (bytes != quant_case_output_bytes(item)) {
        worker_text_set(reason, "the output has %zu bytes, not %zu", bytes,
                        quant_case_output_bytes(item));
        return -1;
    }
    void *const expected = allocate(bytes);
    void *const reals = item->operation == QUANT_REQUANTIZE ? (void *)quant_case_sums(item)
                                                            : quant_case_reals(item);
    void *const codes = quant_case_codes(item);
    float *const scales = quant_case_scales(item);
    int32_t *const zeros = quant_case_zeros(item);
    int result = -1;
    if (expected == NULL || reals == NULL || codes == NULL || scales == NULL || zeros == NULL)
        worker_text_set(reason, "out of host memory");
    else
        result = expect(item, reals, codes, scales, zeros, expected) |
                 compare(expected, output, bytes, reason);
    free(expected);
    free(reals);
    free(codes);
    free(scales);
    free(zeros);
    return result;
}
