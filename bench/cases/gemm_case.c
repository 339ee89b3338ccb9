#include "bench/cases/gemm_case.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/cases/case_fields.h"
#include "bench/record/environment_record.h"
#include "common/command/cli_options.h"
#include "common/random_fill.h"

enum {
    MAX_DIMENSION = 1 << 20,
    MAX_BATCH = 1 << 16
};

/* A matrix must fit in memory several times over. */
static const double max_elements = 1e9;

const char gemm_case_shape_rule[] =
    "give MxNxK, or BATCH*MxNxK, with sizes from 1 to 1048576, batches to 65536 and at most 10^9 "
    "elements in an operand";

tdm_dtype gemm_case_dtype(const gemm_case *item, op_gemm_operand operand) {
    const tdm_dtype d = gemm_types_dtype(item->types, OP_GEMM_D);
    if (operand == OP_GEMM_BIAS && item->epilogue.bias)
        return gemm_types_requantized(item->types) ? TDM_S32 : d;
    if (operand == OP_GEMM_RESIDUAL && item->epilogue.residual)
        return d;
    return gemm_types_dtype(item->types, operand);
}

op_gemm_case gemm_case_operation(const gemm_case *item) {
    return (op_gemm_case){
        .m = item->m,
        .n = item->n,
        .k = item->k,
        .dtype = {[OP_GEMM_A] = gemm_types_dtype(item->types, OP_GEMM_A),
                  [OP_GEMM_B] = gemm_types_dtype(item->types, OP_GEMM_B),
                  [OP_GEMM_D] = gemm_types_dtype(item->types, OP_GEMM_D),
                  [OP_GEMM_BIAS] = gemm_case_dtype(item, OP_GEMM_BIAS),
                  [OP_GEMM_RESIDUAL] = gemm_case_dtype(item, OP_GEMM_RESIDUAL)},
        .activation = item->epilogue.activation,
        .transpose_a = item->transpose_a,
        .transpose_b = item->transpose_b,
        .alpha = 1,
        .batch_rank = gemm_case_batch(item) > 1,
        .batch = {gemm_case_batch(item)},
        .allow_3xtf32 = gemm_types_allow_3xtf32(item->types),
        .seed = item->seed,
    };
}

static const case_field fields[] = {
    CASE_FIELD(gemm_case, types, GEMM_NO_TYPES + 1, GEMM_W4A8),
    CASE_FIELD(gemm_case, m, 1, MAX_DIMENSION),
    CASE_FIELD(gemm_case, n, 1, MAX_DIMENSION),
    CASE_FIELD(gemm_case, k, 1, MAX_DIMENSION),
    CASE_FIELD(gemm_case, batch, 0, MAX_BATCH),
    CASE_FIELD(gemm_case, transpose_a, 0, 1),
    CASE_FIELD(gemm_case, transpose_b, 0, 1),
    CASE_FIELD(gemm_case, prepacked, 0, 1),
    CASE_FIELD(gemm_case, rotate, 0, INT64_MAX),
    CASE_FIELD(gemm_case, way, GEMM_BY_PLAN, GEMM_BY_CALL),
    CASE_FIELD(gemm_case, budget, 0, INT64_MAX),
    CASE_FIELD(gemm_case, epilogue.bias, 0, 1),
    CASE_FIELD(gemm_case, epilogue.residual, 0, 1),
    CASE_FIELD(gemm_case, epilogue.activation, TDM_ACT_NONE, TDM_ACT_SILU),
    CASE_FIELD(gemm_case, seed, INT64_MIN, INT64_MAX),
};

void gemm_case_write(const gemm_case *item, worker_text *line) {
    case_fields_write(fields, sizeof fields / sizeof *fields, item, line);
}

int gemm_case_read(const char *line, gemm_case *item) {
    return case_fields_read(fields, sizeof fields / sizeof *fields, line, item);
}

int64_t gemm_case_batch(const gemm_case *item) {
    return item->batch > 1 ? item->batch : 1;
}

/*
 * Reads the digits before `separator`, or before the end of the text, as a number in range. Returns
 * -1 for anything else.
 */
static int64_t parse_size(const char **rest, char separator, int64_t largest) {
    char number[16];
    char *end = NULL;
    if (cli_next_word(rest, separator, number, sizeof number) != 1)
        return -1;
    if (number[0] < '0' || number[0] > '9')
        return -1;
    const int64_t size = strtoll(number, &end, 10);
    return *end == '\0' && size >= 1 && size <= largest ? size : -1;
}

int gemm_case_parse_shape(const char *word, gemm_case *item) {
    const char *rest = word;
    item->batch = strchr(word, '*') == NULL ? 1 : parse_size(&rest, '*', MAX_BATCH);
    item->m = parse_size(&rest, 'x', MAX_DIMENSION);
    item->n = parse_size(&rest, 'x', MAX_DIMENSION);
    item->k = parse_size(&rest, 'x', MAX_DIMENSION);
    if (rest != NULL || item->batch < 0 || item->m < 0 || item->n < 0 || item->k < 0)
        return -1;
    for (int operand = OP_GEMM_A; operand <= OP_GEMM_D; operand++) {
        if ((double)gemm_case_elements(item, (op_gemm_operand)operand) > max_elements)
            return -1;
    }
    return 0;
}

/* Writes "+bias+residual+gelu" after a blank, or "" if there is no epilogue. */
static void write_epilogue(const gemm_case *item, char *text, size_t size) {
    static const char *const activations[] = {
#define ACTIVATION_NAME(name, value, text) [value] = "+" text,
        TDM_ACTIVATION_LIST(ACTIVATION_NAME)
#undef ACTIVATION_NAME
    };
    const gemm_case_epilogue *const e = &item->epilogue;
    const int any = e->bias || e->residual || e->activation != TDM_ACT_NONE;
    snprintf(text, size, "%s%s%s%s", any ? " " : "", e->bias ? "+bias" : "",
             e->residual ? "+residual" : "",
             e->activation != TDM_ACT_NONE ? activations[e->activation] : "");
}

void gemm_case_name(const gemm_case *item, char *text, size_t size) {
    char batch[24] = "";
    char copies[24] = "";
    char epilogue[32];
    if (gemm_case_batch(item) > 1)
        snprintf(batch, sizeof batch, "%lld*", (long long)gemm_case_batch(item));
    if (gemm_case_copies(item) > 1)
        snprintf(copies, sizeof copies, ", %d Bs", gemm_case_copies(item));
    write_epilogue(item, epilogue, sizeof epilogue);
    snprintf(text, size, "%s %s%lldx%lldx%lld %c%c%s%s", gemm_types_name(item->types), batch,
             (long long)item->m, (long long)item->n, (long long)item->k,
             item->transpose_a ? 't' : 'n', item->transpose_b ? 't' : 'n', copies, epilogue);
}

size_t gemm_case_elements(const gemm_case *item, op_gemm_operand operand) {
    const size_t m = (size_t)item->m, n = (size_t)item->n, k = (size_t)item->k;
    if (operand == OP_GEMM_BIAS)
        return n;
    return (size_t)gemm_case_batch(item) * (operand == OP_GEMM_A   ? m * k
                                            : operand == OP_GEMM_B ? k * n
                                                                   : m * n);
}

size_t gemm_case_bytes(const gemm_case *item, op_gemm_operand operand) {
    const tdm_dtype_traits *const dtype = tdm_dtype_info(gemm_case_dtype(item, operand));
    if (dtype == NULL)
        return 0;
    const size_t unit = (size_t)dtype->elements_per_unit;
    return (gemm_case_elements(item, operand) + unit - 1) / unit * (size_t)dtype->unit_bytes;
}

int gemm_case_copies(const gemm_case *item) {
    const int64_t bytes = (int64_t)gemm_case_bytes(item, OP_GEMM_B);
    const int64_t copies = item->rotate <= 0 || bytes <= 0 ? 1 : (item->rotate + bytes - 1) / bytes;
    return copies < GEMM_CASE_MAX_COPIES ? (int)copies : GEMM_CASE_MAX_COPIES;
}

double gemm_case_operand_bytes(const gemm_case *item) {
    const double scales = (double)(gemm_case_groups(item) * item->n);
    const int of_scale = gemm_types_quantized(item->types, OP_GEMM_B)
                             ? tdm_dtype_info(gemm_types_scale(item->types))->unit_bytes
                             : 0;
    return (double)(gemm_case_bytes(item, OP_GEMM_A) + gemm_case_bytes(item, OP_GEMM_B) +
                    gemm_case_bytes(item, OP_GEMM_D) + gemm_case_bytes(item, OP_GEMM_BIAS) +
                    gemm_case_bytes(item, OP_GEMM_RESIDUAL)) +
           scales * of_scale;
}

int gemm_case_fits(const gemm_case *item, int processes, const tdm_device_info *info,
                   worker_text *reason) {
    const double b = (double)gemm_case_bytes(item, OP_GEMM_B);
    const double copies = gemm_case_copies(item); /* each copy is packed as well */
    const double needed = processes * (gemm_case_operand_bytes(item) + (2 * copies - 1) * b);
    const int is_host = (info->capabilities & TDM_CAP_CPU_CORES) != 0;
    const struct {
        const char *of;
        double needed, limit; /* limit 0: no limit */
    } limits[] = {{"available memory", needed, (double)environment_available_bytes()},
                  {"the device", needed, is_host ? 0 : (double)info->global_bytes},
                  {"one allocation of the device", b, (double)info->max_alloc_bytes}};
    for (size_t i = 0; i < sizeof limits / sizeof limits[0]; i++) {
        if (limits[i].limit <= 0 || limits[i].needed <= limits[i].limit)
            continue;
        worker_text_set(reason, "%.1f GB are needed, more than the %.1f GB of %s",
                        limits[i].needed * 1e-9, limits[i].limit * 1e-9, limits[i].of);
        return 0;
    }
    return 1;
}

static int is_float(tdm_dtype dtype) {
    return tdm_dtype_info(dtype)->kind == TDM_CLASS_FLOAT;
}

void gemm_case_fill(const gemm_case *item, op_gemm_operand operand, void *data) {
    const tdm_dtype dtype = gemm_case_dtype(item, operand);
    const uint64_t seed = OP_GEMM_OPERANDS * item->seed + operand;
    const size_t count = gemm_case_elements(item, operand);
    if (is_float(dtype))
        random_fill_numbers(dtype, seed, data, count);
    else
        random_fill_bytes(seed, data, gemm_case_bytes(item, operand));
    /* The magnitude of an s32 bias stays below 2^15. */
    for (size_t i = 0; dtype == TDM_S32 && i < count; i++)
        ((int32_t *)data)[i] %= 32768;
}

int64_t gemm_case_groups(const gemm_case *item) {
    const int64_t group = gemm_types_group(item->types);
    return group == 0 ? 1 : (item->k + group - 1) / group;
}

float gemm_case_scale(const gemm_case *item, op_gemm_operand operand, int64_t group,
                      int64_t column) {
    static const float least = 1.0f / 256;
    if (operand == OP_GEMM_A)
        return least;
    if (operand == OP_GEMM_D)
        return least * (float)sqrt((double)item->k);
    const uint64_t bits =
        random_bits(item->seed + 3000, (uint64_t)(group * item->n + column)) % 1024;
    return least * (1 + (float)bits / 1024); /* exact in f16 as well */
}

int32_t gemm_case_zero_point(const gemm_case *item, op_gemm_operand operand) {
    if (!gemm_types_quantized(item->types, operand))
        return 0;
    const int is_signed = gemm_types_dtype(item->types, operand) == TDM_S8;
    if (operand == OP_GEMM_A)
        return is_signed ? 0 : 117;
    return operand == OP_GEMM_D ? (is_signed ? -8 : 120) : 0;
}

void *gemm_case_create(const gemm_case *item, op_gemm_operand operand) {
    const size_t bytes = gemm_case_bytes(item, operand);
    const int nan = 0xFF, least = 0x80; /* the value of every byte */
    void *const data = aligned_alloc(64, (bytes + 63) / 64 * 64);
    if (data == NULL)
        return NULL;
    if (operand == OP_GEMM_D)
        memset(data, is_float(gemm_case_dtype(item, operand)) ? nan : least, bytes);
    else
        gemm_case_fill(item, operand, data);
    return data;
}
