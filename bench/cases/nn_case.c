#include "bench/cases/nn_case.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/cases/case_fields.h"
#include "common/random_fill.h"
#include "quant/number_formats.h"

enum {
    CHECKED_ROWS = 64, /* of NN_PREFILL */
    LARGEST_SIDE = 1 << 20,
    MOST_READS = 16, /* reads of the stream for each write */
    QUARTERS = 4
};

/* The epsilon of the worker's normalizations, and the base of its rotary embedding. */
static const double epsilon = 1e-5, rope_base = 10000;

static const char *const names[] = {"prefill", "decode", "rms",     "layer", "gather",  "scatter",
                                    "embed",   "rope",   "softmax", "where", "compare", "concat"};

static const case_field fields[] = {
    CASE_FIELD(nn_case, operation, NN_PREFILL, NN_CONCAT),
    CASE_FIELD(nn_case, dtype, 1, INT32_MAX),
    CASE_FIELD(nn_case, stored, 1, INT32_MAX),
    CASE_FIELD(nn_case, rows, 1, LARGEST_SIDE),
    CASE_FIELD(nn_case, columns, NN_GROUP, LARGEST_SIDE),
    CASE_FIELD(nn_case, heads, 1, LARGEST_SIDE),
    CASE_FIELD(nn_case, kv_heads, 1, LARGEST_SIDE),
    CASE_FIELD(nn_case, keys, 1, LARGEST_SIDE),
    CASE_FIELD(nn_case, seed, INT64_MIN, INT64_MAX),
};

void nn_case_write(const nn_case *item, worker_text *line) {
    case_fields_write(fields, sizeof fields / sizeof *fields, item, line);
}

int nn_case_read(const char *line, nn_case *item) {
    if (case_fields_read(fields, sizeof fields / sizeof *fields, line, item) != 0)
        return -1;
    return item->columns % NN_GROUP != 0 || item->heads % item->kv_heads != 0 ? -1 : 0;
}

int nn_operation_parse(const char *name, nn_operation *operation) {
    const int found = case_name_find(names, NN_CONCAT + 1, name);
    *operation = (nn_operation)(found < 0 ? 0 : found);
    return found < 0 ? -1 : 0;
}

int nn_case_is_attention(const nn_case *item) {
    return item->operation == NN_PREFILL || item->operation == NN_DECODE;
}

void nn_case_name(const nn_case *item, char *name, size_t size) {
    const char *const dtype = tdm_dtype_name(item->dtype);
    const char *const operation = names[item->operation];
    const long long rows = item->rows, columns = item->columns;
    if (item->operation == NN_PREFILL)
        snprintf(name, size, "%s %s %lldx%lldx%lld", operation, dtype, (long long)item->heads, rows,
                 columns);
    else if (item->operation == NN_DECODE)
        snprintf(name, size, "%s %s %s %lld/%lldx%lldx%lld %lld keys", operation, dtype,
                 tdm_dtype_name(item->stored), (long long)item->heads, (long long)item->kv_heads,
                 rows, columns, (long long)item->keys);
    else if (item->operation == NN_EMBED)
        snprintf(name, size, "%s %s %s %lldx%lld", operation, dtype, tdm_dtype_name(item->stored),
                 rows, columns);
    else
        snprintf(name, size, "%s %s %lldx%lld", operation, dtype, rows, columns);
}

/* ---- tensors --------------------------------------------------------------------------------- */

static nn_tensor matrix(tdm_dtype dtype, int64_t rows, int64_t columns) {
    return (nn_tensor){dtype, 2, {rows, columns}};
}

static nn_tensor vector(tdm_dtype dtype, int64_t count) {
    return (nn_tensor){dtype, 1, {count}};
}

int nn_case_tensors(const nn_case *item, nn_tensor tensors[NN_MAX_TENSORS]) {
    const nn_tensor whole = matrix(item->dtype, item->rows, item->columns);
    const nn_tensor half = matrix(item->dtype, item->rows, item->columns / 2);
    const nn_tensor indices = vector(TDM_S32, item->rows);
    nn_tensor *next = tensors;
    switch (item->operation) {
    case NN_PREFILL:
    case NN_DECODE:
        *next++ = (nn_tensor){item->dtype, 4, {1, item->heads, item->rows, item->columns}};
        *next++ = (nn_tensor){item->stored, 4, {1, item->kv_heads, item->keys, item->columns}};
        *next++ = tensors[1];
        *next++ = tensors[0];
        return (int)(next - tensors);
    case NN_RMS:
    case NN_LAYER:
        *next++ = whole;
        *next++ = vector(item->dtype, item->columns); /* the scale */
        break;
    case NN_GATHER:
    case NN_SCATTER:
        *next++ = whole;
        *next++ = indices;
        break;
    case NN_EMBED:
        *next++ = matrix(item->stored, item->rows, item->columns);
        *next++ = indices;
        break;
    case NN_ROPE:
        *next++ = whole;
        *next++ = indices; /* the positions */
        *next++ = matrix(TDM_F32, 3, item->columns / 2);
        break;
    case NN_WHERE:
        *next++ = matrix(TDM_BOOL, item->rows, item->columns);
        *next++ = whole;
        *next++ = whole;
        break;
    case NN_COMPARE:
        *next++ = whole;
        *next++ = whole;
        *next++ = matrix(TDM_BOOL, item->rows, item->columns);
        return (int)(next - tensors);
    case NN_CONCAT:
        *next++ = half;
        *next++ = half;
        break;
    default:
        *next++ = whole;
    }
    *next++ = whole;
    return (int)(next - tensors);
}

int64_t nn_tensor_elements(const nn_tensor *tensor) {
    int64_t count = 1;
    for (int i = 0; i < tensor->rank; i++)
        count *= tensor->shape[i];
    return count;
}

size_t nn_tensor_bytes(const nn_tensor *tensor) {
    size_t bytes = 0;
    tdm_dtype_bytes(tensor->dtype, nn_tensor_elements(tensor), &bytes);
    return bytes;
}

static double stored_bytes(const nn_tensor *tensor) {
    const int64_t scales = tensor->dtype == TDM_S8 ? nn_tensor_elements(tensor) / NN_GROUP : 0;
    return (double)nn_tensor_bytes(tensor) + 4.0 * (double)scales;
}

double nn_case_flops(const nn_case *item) {
    const double queries = (double)item->rows;
    if (item->operation != NN_PREFILL)
        return 0;
    return 4 * queries * queries / 2 * (double)item->columns * (double)item->heads;
}

static double read_bytes(const nn_case *item) {
    nn_tensor tensors[NN_MAX_TENSORS];
    const int inputs = nn_case_tensors(item, tensors) - 1;
    double bytes = 0;
    for (int i = nn_case_is_attention(item) ? 1 : 0; i < inputs; i++)
        bytes += stored_bytes(&tensors[i]);
    return bytes;
}

static double written_bytes(const nn_case *item) {
    nn_tensor tensors[NN_MAX_TENSORS];
    const int inputs = nn_case_tensors(item, tensors) - 1;
    return nn_case_is_attention(item) ? 0 : stored_bytes(&tensors[inputs]);
}

double nn_case_traffic(const nn_case *item) {
    return item->operation == NN_PREFILL ? 0 : read_bytes(item) + written_bytes(item);
}

quant_case nn_case_stream(const nn_case *item) {
    const double written = written_bytes(item);
    const double ratio = written > 0 ? read_bytes(item) / written : MOST_READS;
    const long reads = lround(QUARTERS * fmin(ratio, MOST_READS));
    quant_case stream = {.operation = QUANT_STREAM,
                         .real = TDM_F32,
                         .codes = TDM_S8,
                         .rows = 1,
                         .columns = 2,
                         .seed = item->seed,
                         .copied = (int64_t)nn_case_traffic(item),
                         .reads = reads > 0 ? (int)reads : 1,
                         .writes = QUARTERS};
    while (stream.reads % 2 == 0 && stream.writes % 2 == 0) {
        stream.reads /= 2;
        stream.writes /= 2;
    }
    return stream;
}

/* ---- contents -------------------------------------------------------------------------------- */

/* Returns index i of a permutation of all rows, whose neighbours are far from each other. */
static int32_t index_at(const nn_case *item, int64_t i) {
    enum {
        STEP = 7901, /* a prime; another one if it divides the number of rows */
        OTHER_STEP = 7907
    };
    return (int32_t)(i * (item->rows % STEP != 0 ? STEP : OTHER_STEP) % item->rows);
}

void *nn_case_content(const nn_case *item, int number) {
    nn_tensor tensors[NN_MAX_TENSORS];
    const int is_output = number == nn_case_tensors(item, tensors) - 1, all_ones = 0xFF;
    const nn_tensor *const tensor = &tensors[number];
    const size_t bytes = nn_tensor_bytes(tensor), count = (size_t)nn_tensor_elements(tensor);
    const uint64_t seed = item->seed * NN_MAX_TENSORS + (uint64_t)number;
    unsigned char *const data = malloc(bytes);
    if (data == NULL)
        return NULL;
    if (is_output)
        memset(data, all_ones, bytes);
    else if (tdm_dtype_info(tensor->dtype)->kind == TDM_CLASS_FLOAT)
        random_fill_numbers(tensor->dtype, seed, data, count);
    else
        random_fill_bytes(seed, data, bytes);
    for (size_t i = 0; !is_output && tensor->dtype == TDM_BOOL && i < count; i++)
        data[i] &= 1;
    for (int64_t i = 0; !is_output && tensor->dtype == TDM_S32 && i < tensor->shape[0]; i++)
        ((int32_t *)(void *)data)[i] = index_at(item, i);
    return data;
}

float *nn_case_scales(const nn_tensor *tensor) {
    const int64_t count = nn_tensor_elements(tensor) / NN_GROUP;
    float *const scales = malloc((size_t)count * sizeof *scales);
    for (int64_t i = 0; scales != NULL && i < count; i++)
        scales[i] = (1.0f + (float)(i % 16) / 64.0f) / 160.0f; /* the values are within [-1, 1] */
    return scales;
}

/* ---- the check ------------------------------------------------------------------------------- */

/* The inputs in host memory; scales are those of s8 tensors. */
typedef struct host_inputs {
    nn_tensor tensors[NN_MAX_TENSORS];
    void *data[NN_MAX_TENSORS];
    float *scales[NN_MAX_TENSORS];
    int count; /* tensors, without the output */
} host_inputs;

static double element(tdm_dtype dtype, const void *data, const float *scales, int64_t i) {
    if (dtype == TDM_BOOL)
        return ((const unsigned char *)data)[i];
    if (dtype == TDM_S8 && scales != NULL)
        return ((const int8_t *)data)[i] * (double)scales[i / NN_GROUP];
    return tdm_number_get(dtype, data, (size_t)i);
}

static double input(const host_inputs *in, int number, int64_t i) {
    return element(in->tensors[number].dtype, in->data[number], in->scales[number], i);
}

static void expect_attention(const nn_case *item, const host_inputs *in, int64_t row,
                             double *expected) {
    const int64_t width = item->columns, head = row / item->rows;
    const int64_t first = head / (item->heads / item->kv_heads) * item->keys;
    const int64_t seen = item->keys - item->rows + row % item->rows + 1;
    double sum = 0;
    memset(expected, 0, (size_t)width * sizeof *expected);
    for (int64_t j = first; j < first + seen; j++) {
        double score = 0;
        for (int64_t d = 0; d < width; d++)
            score += input(in, 0, row * width + d) * input(in, 1, j * width + d);
        const double weight = exp(score / sqrt((double)width));
        sum += weight;
        for (int64_t d = 0; d < width; d++)
            expected[d] += weight * input(in, 2, j * width + d);
    }
    for (int64_t d = 0; d < width; d++)
        expected[d] /= sum;
}

static void expect_norm(const nn_case *item, const host_inputs *in, int64_t row, double *expected) {
    const int64_t width = item->columns;
    double mean = 0, squares = 0;
    for (int64_t i = 0; i < width && item->operation == NN_LAYER; i++)
        mean += input(in, 0, row * width + i) / (double)width;
    for (int64_t i = 0; i < width; i++) {
        expected[i] = input(in, 0, row * width + i) - mean;
        squares += expected[i] * expected[i];
    }
    for (int64_t i = 0; i < width; i++)
        expected[i] *= input(in, 1, i) / sqrt(squares / (double)width + epsilon);
}

static void expect_softmax(const nn_case *item, const host_inputs *in, int64_t row,
                           double *expected) {
    double sum = 0;
    for (int64_t i = 0; i < item->columns; i++)
        sum += expected[i] = exp(input(in, 0, row * item->columns + i));
    for (int64_t i = 0; i < item->columns; i++)
        expected[i] /= sum;
}

/* The pairs are halves: elements i and i + columns / 2. */
static void expect_rope(const nn_case *item, const host_inputs *in, int64_t row, double *expected) {
    const int64_t pairs = item->columns / 2, first = row * item->columns;
    for (int64_t i = 0; i < pairs; i++) {
        const double angle = input(in, 1, row) * pow(rope_base, -(double)i / (double)pairs);
        const double a = input(in, 0, first + i), b = input(in, 0, first + pairs + i);
        expected[i] = a * cos(angle) - b * sin(angle);
        expected[pairs + i] = b * cos(angle) + a * sin(angle);
    }
}

/* Computes element i of the operations that move or compare elements. `source` is its input. */
static double moved_element(const nn_case *item, const host_inputs *in, int64_t source, int64_t i) {
    const int64_t half = item->columns / 2, row = i / item->columns, column = i % item->columns;
    switch (item->operation) {
    case NN_WHERE:
        return input(in, 0, i) != 0 ? input(in, 1, i) : input(in, 2, i);
    case NN_COMPARE:
        return input(in, 0, i) < input(in, 1, i);
    case NN_CONCAT:
        return input(in, column / half == 0 ? 0 : 1, row * half + column % half);
    default:
        return input(in, 0, source * item->columns + column);
    }
}

/* `sources` has the row that scatter writes to each row of the output. */
static void expect_row(const nn_case *item, const host_inputs *in, const int32_t *sources,
                       int64_t row, double *expected) {
    if (nn_case_is_attention(item))
        expect_attention(item, in, row, expected);
    else if (item->operation == NN_RMS || item->operation == NN_LAYER)
        expect_norm(item, in, row, expected);
    else if (item->operation == NN_SOFTMAX)
        expect_softmax(item, in, row, expected);
    else if (item->operation == NN_ROPE)
        expect_rope(item, in, row, expected);
    else
        for (int64_t i = 0; i < item->columns; i++)
            expected[i] = moved_element(item, in, sources[row], row * item->columns + i);
}

/* Returns the largest error of an element: that of f32 arithmetic, and one rounding to `dtype`. */
static double allowed_error(const nn_case *item, double expected) {
    const double size = fabs(expected);
    const double rounding = tdm_number_roundoff(item->dtype) *
                            fmax(size, tdm_number_min_normal(item->dtype)) * (1 + 1e-3);
    switch (item->operation) {
    case NN_PREFILL:
    case NN_DECODE:
    case NN_ROPE:
        return rounding + 4e-6; /* values are of a size near 1 */
    case NN_RMS:
    case NN_LAYER:
        return rounding + 1e-5 * size + 1e-6;
    case NN_SOFTMAX:
        return rounding + 1e-5 * size;
    case NN_EMBED:
        return rounding + 2e-7 * size;
    default:
        return 0;
    }
}

static int check_row(const nn_case *item, const void *output, int64_t row, const double *expected,
                     double *max_error, worker_text *reason) {
    const tdm_dtype dtype = item->operation == NN_COMPARE ? TDM_BOOL : item->dtype;
    for (int64_t i = 0; i < item->columns; i++) {
        const double got = element(dtype, output, NULL, row * item->columns + i);
        const double error = fabs(got - expected[i]);
        if (!(error <= allowed_error(item, expected[i]))) /* true for a NaN */
            return CASE_WRONG(reason, "element %lld of row %lld is %.9g, not %.9g", (long long)i,
                              (long long)row, got, expected[i]);
        *max_error = fmax(*max_error, error);
    }
    return 0;
}

static int check_range(const nn_case *item, const void *output, int64_t count,
                       worker_text *reason) {
    for (int64_t i = 0; i < count; i++)
        if (!(fabs(element(item->dtype, output, NULL, i)) <= 1))
            return CASE_WRONG(reason, "element %lld is outside of [-1, 1]", (long long)i);
    return 0;
}

static int check_rows(const nn_case *item, const host_inputs *in, const void *output,
                      double *max_error, worker_text *reason) {
    const int64_t rows = item->heads * item->rows;
    const int64_t checked =
        item->operation == NN_PREFILL && rows > CHECKED_ROWS ? CHECKED_ROWS : rows;
    double *const expected = malloc((size_t)item->columns * sizeof *expected);
    int32_t *const sources = calloc((size_t)rows, sizeof *sources);
    int result = expected == NULL || sources == NULL ? CASE_WRONG(reason, "out of host memory") : 0;
    for (int64_t i = 0; result == 0 && i < item->rows; i++)
        if (item->operation == NN_SCATTER)
            sources[index_at(item, i)] = (int32_t)i;
        else
            sources[i] = index_at(item, i);
    for (int64_t i = 0; result == 0 && i < checked; i++) {
        const int64_t row = checked == rows ? i : i * (rows - 1) / (checked - 1);
        expect_row(item, in, sources, row, expected);
        result = check_row(item, output, row, expected, max_error, reason);
    }
    if (result == 0 && checked < rows)
        result = check_range(item, output, rows * item->columns, reason);
    free(expected);
    free(sources);
    return result;
}

int nn_case_check(const void *user, const void *output, size_t bytes, double *max_error,
                  worker_text *reason) {
    const nn_case *const item = user;
    host_inputs in = {.count = 0};
    int complete = 1;
    in.count = nn_case_tensors(item, in.tensors) - 1;
    *max_error = 0;
    if (bytes != nn_tensor_bytes(&in.tensors[in.count]))
        return CASE_WRONG(reason, "the output has %zu bytes", bytes);
    for (int i = 0; i < in.count; i++) {
        const int has_scales = in.tensors[i].dtype == TDM_S8;
        in.data[i] = nn_case_content(item, i);
        in.scales[i] = has_scales ? nn_case_scales(&in.tensors[i]) : NULL;
        complete &= in.data[i] != NULL && (!has_scales || in.scales[i] != NULL);
    }
    const int result = complete ? check_rows(item, &in, output, max_error, reason)
                                : CASE_WRONG(reason, "out of host memory");
    for (int i = 0; i < in.count; i++) {
        free(in.data[i]);
        free(in.scales[i]);
    }
    return result;
}
