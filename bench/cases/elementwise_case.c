#include "bench/cases/elementwise_case.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/cases/case_fields.h"
#include "common/op_elementwise.h"
#include "common/random_fill.h"
#include "quant/number_formats.h"

/*
 * Inputs repeat after this many elements, so that every element is checked at little cost. The
 * period is a prime.
 */
enum {
    PERIOD = 65521
};

static const struct {
    const char *name;
    elementwise_kind kind;
    int op;
} operations[] = {
#define UNARY_ROW(name, value, text, formula) {text, ELEMENTWISE_UNARY, name},
    TDM_UNARY_LIST(UNARY_ROW)
#undef UNARY_ROW
#define BINARY_ROW(name, value, text, formula) {text, ELEMENTWISE_BINARY, name},
        TDM_BINARY_LIST(BINARY_ROW)
#undef BINARY_ROW
            {"convert", ELEMENTWISE_CONVERT, 0},
};

enum {
    OPERATIONS = sizeof operations / sizeof operations[0]
};

int elementwise_operation_parse(const char *name, elementwise_case *item) {
    for (int i = 0; i < OPERATIONS; i++) {
        if (strcmp(operations[i].name, name) != 0)
            continue;
        item->kind = operations[i].kind;
        item->op = operations[i].op;
        return 0;
    }
    return -1;
}

static const char *operation_name(const elementwise_case *item) {
    for (int i = 0; i < OPERATIONS; i++)
        if (operations[i].kind == item->kind && operations[i].op == item->op)
            return operations[i].name;
    return "";
}

void elementwise_case_name(const elementwise_case *item, char *name, size_t size) {
    const int converts = item->kind == ELEMENTWISE_CONVERT;
    snprintf(name, size, "%s %s%s%s %lld", operation_name(item), tdm_dtype_name(item->dtype),
             converts ? " " : "", converts ? tdm_dtype_name(item->to) : "", (long long)item->count);
}

static const case_field fields[] = {
    CASE_FIELD(elementwise_case, kind, ELEMENTWISE_UNARY, ELEMENTWISE_CONVERT),
    CASE_FIELD(elementwise_case, op, 0, INT32_MAX),
    CASE_FIELD(elementwise_case, dtype, 1, INT32_MAX),
    CASE_FIELD(elementwise_case, to, 1, INT32_MAX),
    CASE_FIELD(elementwise_case, count, 1, INT64_MAX),
    CASE_FIELD(elementwise_case, seed, INT64_MIN, INT64_MAX),
};

void elementwise_case_write(const elementwise_case *item, worker_text *line) {
    case_fields_write(fields, sizeof fields / sizeof *fields, item, line);
}

int elementwise_case_read(const char *line, elementwise_case *item) {
    return case_fields_read(fields, sizeof fields / sizeof *fields, line, item);
}

/* ---- sizes ----------------------------------------------------------------------------------- */

int elementwise_case_inputs(const elementwise_case *item) {
    return item->kind == ELEMENTWISE_BINARY ? 2 : 1;
}

static size_t bytes_of(tdm_dtype dtype, int64_t count) {
    size_t bytes = 0;
    tdm_dtype_bytes(dtype, count, &bytes);
    return bytes;
}

size_t elementwise_case_input_bytes(const elementwise_case *item) {
    return bytes_of(item->dtype, item->count);
}

size_t elementwise_case_output_bytes(const elementwise_case *item) {
    return bytes_of(item->to, item->count);
}

double elementwise_case_traffic(const elementwise_case *item) {
    return elementwise_case_inputs(item) * (double)elementwise_case_input_bytes(item) +
           (double)elementwise_case_output_bytes(item);
}

quant_case elementwise_case_stream(const elementwise_case *item) {
    quant_case stream = {.operation = QUANT_STREAM,
                         .real = TDM_F32,
                         .codes = TDM_S8,
                         .rows = 1,
                         .columns = 2,
                         .seed = item->seed};
    const int read = elementwise_case_inputs(item) * (int)bytes_of(item->dtype, 1);
    const int written = (int)bytes_of(item->to, 1);
    const int both = read < written ? read : written; /* one divides the other */
    stream.reads = read / both;
    stream.writes = written / both;
    stream.copied = (int64_t)elementwise_case_traffic(item);
    return stream;
}

/* ---- contents -------------------------------------------------------------------------------- */

/* Returns an element of an input before it is rounded to its type. */
static double number(const elementwise_case *item, int input, size_t place) {
    const double x = (double)random_number(2 * item->seed + (uint64_t)input, place);
    if (item->kind == ELEMENTWISE_UNARY &&
        (item->op == TDM_SQRT || item->op == TDM_RSQRT || item->op == TDM_LOG))
        return fabs(x) + 1.0 / 64;
    if (item->kind == ELEMENTWISE_BINARY && item->op == TDM_POW && input == 0)
        return fabs(x) + 1.0 / 64;
    if (item->kind == ELEMENTWISE_BINARY && item->op == TDM_DIV && input == 1)
        return x < 0 ? x - 0.5 : x + 0.5;
    return x;
}

void *elementwise_case_input(const elementwise_case *item, int input) {
    const size_t bytes = elementwise_case_input_bytes(item);
    const size_t period = bytes_of(item->dtype, PERIOD);
    unsigned char *const data = malloc(bytes > 0 ? bytes : 1);
    if (data == NULL)
        return NULL;
    for (size_t i = 0; i < PERIOD && i < (size_t)item->count; i++)
        tdm_number_set(item->dtype, data, i, number(item, input, i));
    for (size_t at = period; at < bytes; at += period)
        memcpy(data + at, data, bytes - at < period ? bytes - at : period);
    return data;
}

/* ---- the check ------------------------------------------------------------------------------- */

/*
 * The exact result and the range of allowed results. Rounding is monotone, so a correct result lies
 * between the rounded ends of the error interval.
 */
typedef struct allowed {
    double value, least, most;
} allowed;

static double rounded(tdm_dtype dtype, double x) {
    unsigned char bytes[8];
    tdm_number_set(dtype, bytes, 0, x);
    return tdm_number_get(dtype, bytes, 0);
}

static double binary_value(tdm_binary op, double a, double b) {
    return op == TDM_ADD   ? a + b
           : op == TDM_SUB ? a - b
           : op == TDM_MUL ? a * b
           : op == TDM_DIV ? a / b
           : op == TDM_MIN ? fmin(a, b)
           : op == TDM_MAX ? fmax(a, b)
                           : pow(a, b);
}

static allowed allowed_at(const elementwise_case *item, size_t place) {
    double x[2] = {0, 0}, bound = 0;
    for (int i = 0; i < elementwise_case_inputs(item); i++)
        x[i] = rounded(item->dtype, number(item, i, place));
    double value = x[0];
    if (item->kind == ELEMENTWISE_UNARY) {
        value = op_unary_value((tdm_unary)item->op, x[0]);
        bound = item->op == TDM_SQRT ? op_divide_bound(item->to, value)
                                     : op_unary_bound((tdm_unary)item->op, x[0], value);
    } else if (item->kind == ELEMENTWISE_BINARY) {
        value = binary_value((tdm_binary)item->op, x[0], x[1]);
        bound = item->op == TDM_DIV   ? op_divide_bound(item->to, value)
                : item->op == TDM_POW ? op_pow_bound(value)
                                      : 0;
    }
    return (allowed){value, rounded(item->to, value - bound), rounded(item->to, value + bound)};
}

int elementwise_case_check(const void *user, const void *output, size_t bytes, double *max_error,
                           worker_text *reason) {
    const elementwise_case *const item = user;
    int result = 0;
    *max_error = 0;
    if (bytes != elementwise_case_output_bytes(item))
        return CASE_WRONG(reason, "the output has %zu bytes", bytes);
    allowed *const table = malloc(PERIOD * sizeof *table);
    if (table == NULL)
        return CASE_WRONG(reason, "out of host memory");
    for (size_t i = 0; i < PERIOD; i++)
        table[i] = allowed_at(item, i);
    for (size_t i = 0; i < (size_t)item->count && result == 0; i++) {
        const allowed *const expected = &table[i % PERIOD];
        const double got = tdm_number_get(item->to, output, i);
        const int right = got >= expected->least && got <= expected->most; /* false for a NaN */
        *max_error = right ? fmax(*max_error, fabs(got - expected->value)) : (double)NAN;
        if (!right)
            result = CASE_WRONG(reason, "element %zu is %.9g, not %.9g", i, got, expected->value);
    }
    free(table);
    return result;
}
