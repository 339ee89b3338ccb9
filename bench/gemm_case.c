#include "bench/gemm_case.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/cli_options.h"
#include "bench/environment_record.h"
#include "bench/random_fill.h"
#include "quant/number_formats.h"

enum {
    MAX_DIMENSION = 1 << 20,
    MAX_BATCH = 1 << 16
};

/* A matrix must fit in memory several times over. */
static const double max_elements = 1e9;

const char gemm_case_shape_rule[] =
    "give MxNxK, or BATCH*MxNxK, with sizes from 1 to 1048576, batches to 65536 and at most 10^9 "
    "elements in an operand";

op_gemm_case gemm_case_operation(const gemm_case *item) {
    return (op_gemm_case){
        .m = item->m,
        .n = item->n,
        .k = item->k,
        .dtype = {[OP_GEMM_A] = item->dtype, [OP_GEMM_B] = item->dtype, [OP_GEMM_D] = item->dtype},
        .transpose_a = item->transpose_a,
        .transpose_b = item->transpose_b,
        .alpha = 1,
        .batch_rank = gemm_case_batch(item) > 1,
        .batch = {gemm_case_batch(item)},
        .seed = item->seed,
    };
}

void gemm_case_write(const gemm_case *item, worker_text *line) {
    worker_field_add(line, "suite", "gemm");
    worker_field_add(line, "dtype", tdm_dtype_name(item->dtype));
    worker_field_add_integer(line, "m", item->m);
    worker_field_add_integer(line, "n", item->n);
    worker_field_add_integer(line, "k", item->k);
    worker_field_add_integer(line, "batch", gemm_case_batch(item));
    worker_field_add_integer(line, "ta", item->transpose_a);
    worker_field_add_integer(line, "tb", item->transpose_b);
    worker_field_add(line, "packing", item->prepacked ? "prepacked" : "inside");
    worker_field_add(line, "mode", item->waited ? "waited" : "pipelined");
    worker_field_add_integer(line, "seed", (int64_t)item->seed);
}

static int dimension_ok(int64_t value) {
    return value >= 1 && value <= MAX_DIMENSION;
}

int gemm_case_read(const char *line, gemm_case *item) {
    char dtype[16];
    char packing[16];
    char mode[16];
    worker_field(line, "dtype", dtype, sizeof dtype);
    worker_field(line, "packing", packing, sizeof packing);
    worker_field(line, "mode", mode, sizeof mode);
    *item = (gemm_case){
        .dtype = tdm_dtype_from_name(dtype),
        .m = worker_field_integer(line, "m", 0),
        .n = worker_field_integer(line, "n", 0),
        .k = worker_field_integer(line, "k", 0),
        .batch = worker_field_integer(line, "batch", 1),
        .transpose_a = worker_field_integer(line, "ta", 0) != 0,
        .transpose_b = worker_field_integer(line, "tb", 0) != 0,
        .prepacked = strcmp(packing, "prepacked") == 0,
        .waited = strcmp(mode, "waited") == 0,
        .seed = (uint64_t)worker_field_integer(line, "seed", 0),
    };
    const int shape_ok = dimension_ok(item->m) && dimension_ok(item->n) && dimension_ok(item->k);
    return shape_ok && item->batch >= 1 && item->batch <= MAX_BATCH && tdm_number_known(item->dtype)
               ? 0
               : -1;
}

int64_t gemm_case_batch(const gemm_case *item) {
    return item->batch > 1 ? item->batch : 1;
}

/* The digits before `separator`, or before the end of the text, as a number in range; -1 for anything else. */
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

void gemm_case_name(const gemm_case *item, char *text, size_t size) {
    char batch[24] = "";
    if (gemm_case_batch(item) > 1)
        snprintf(batch, sizeof batch, "%lld*", (long long)gemm_case_batch(item));
    snprintf(text, size, "%s %s%lldx%lldx%lld %c%c", tdm_dtype_name(item->dtype), batch,
             (long long)item->m, (long long)item->n, (long long)item->k,
             item->transpose_a ? 't' : 'n', item->transpose_b ? 't' : 'n');
}

size_t gemm_case_matrix(const gemm_case *item, op_gemm_operand operand) {
    const size_t m = (size_t)item->m;
    const size_t n = (size_t)item->n;
    const size_t k = (size_t)item->k;
    return operand == OP_GEMM_A ? m * k : operand == OP_GEMM_B ? k * n : m * n;
}

size_t gemm_case_elements(const gemm_case *item, op_gemm_operand operand) {
    return (size_t)gemm_case_batch(item) * gemm_case_matrix(item, operand);
}

size_t gemm_case_bytes(const gemm_case *item, op_gemm_operand operand) {
    return gemm_case_elements(item, operand) * (size_t)tdm_dtype_info(item->dtype)->unit_bytes;
}

double gemm_case_operand_bytes(const gemm_case *item) {
    return (double)(gemm_case_bytes(item, OP_GEMM_A) + gemm_case_bytes(item, OP_GEMM_B) +
                    gemm_case_bytes(item, OP_GEMM_D));
}

int gemm_case_fits(const gemm_case *item, int processes, uint64_t max_alloc_bytes,
                   worker_text *reason) {
    const double largest = (double)gemm_case_bytes(item, OP_GEMM_B);
    const double needed = processes * (gemm_case_operand_bytes(item) + largest);
    const double available = (double)environment_available_bytes();
    if (available > 0 && needed > available) {
        worker_text_set(reason, "%d processes need %.1f GB, %.1f GB of memory are available",
                        processes, needed * 1e-9, available * 1e-9);
        return 0;
    }
    if (max_alloc_bytes > 0 && largest > (double)max_alloc_bytes) {
        worker_text_set(reason, "B has %.1f GB, the device allocates at most %.1f GB at a time",
                        largest * 1e-9, (double)max_alloc_bytes * 1e-9);
        return 0;
    }
    return 1;
}

void gemm_case_fill(const gemm_case *item, op_gemm_operand operand, void *data) {
    random_fill_numbers(item->dtype, OP_GEMM_OPERANDS * item->seed + operand, data,
                        gemm_case_elements(item, operand));
}

void *gemm_case_create(const gemm_case *item, op_gemm_operand operand) {
    void *const data = aligned_alloc(64, (gemm_case_bytes(item, operand) + 63) / 64 * 64);
    if (data == NULL)
        return NULL;
    if (operand == OP_GEMM_D)
        memset(data, 0xFF, gemm_case_bytes(item, operand)); /* NaN in every float dtype */
    else
        gemm_case_fill(item, operand, data);
    return data;
}
