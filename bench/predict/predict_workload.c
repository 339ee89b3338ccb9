#include <math.h>
#include <stdio.h>
#include <string.h>

#include "bench/cases/gemm_case.h"
#include "bench/predict/predict_run.h"

/* An amount is factor * batch^batches * context^contexts. */
typedef struct amount {
    double factor;
    int batches, contexts;
} amount;

#define N(factor)                                                                                  \
    { factor, 0, 0 }
#define B(factor)                                                                                  \
    { factor, 1, 0 }
#define C(factor)                                                                                  \
    { factor, 0, 1 }
#define BC(factor)                                                                                 \
    { factor, 1, 1 }
#define BCC(factor)                                                                                \
    { factor, 1, 2 }

/*
 * An operation of `count` equal calls: GEMMs of a dtype (NULL: that of the weights), or streams
 * that read and write bytes.
 */
typedef struct operation_row {
    const char *name;
    int count;
    amount m, n, k, batch; /* for a GEMM; the m of a stream is 0 */
    const char *dtype;
    amount reads, writes; /* for a stream */
    int resident;         /* 1: its data stays in memory between passes */
} operation_row;

#define WEIGHTS(name, count, m, n, k)                                                              \
    { name, count, m, N(n), N(k), N(1), NULL, N(0), N(0), 0 }
#define PRODUCT(name, count, batch, m, n, k, dtype)                                                \
    { name, count, m, n, k, batch, dtype, N(0), N(0), 0 }
#define STREAM(name, count, reads, writes, resident)                                               \
    { name, count, N(0), N(0), N(0), N(0), NULL, reads, writes, resident }

/* One pass: 12 layers of 768 over `batch` sequences of `context` tokens. */
static const operation_row bert_base[] = {
    WEIGHTS("queries, keys, values", 12, BC(1), 2304, 768),
    PRODUCT("scores", 12, B(12), C(1), C(1), N(64), "f32"),
    PRODUCT("weighted values", 12, B(12), C(1), N(64), C(1), "f32"),
    WEIGHTS("attention output", 12, BC(1), 768, 768),
    WEIGHTS("up", 12, BC(1), 3072, 768),
    WEIGHTS("down", 12, BC(1), 768, 3072),
    STREAM("softmax", 12, BCC(48), BCC(48), 0),
    STREAM("norms and residuals", 24, BC(6144), BC(3072), 0),
    STREAM("GELU", 12, BC(12288), BC(12288), 0),
};

/* The model of examples/digits, with widths 64, 256, 256 and 10, for `batch` images. */
static const operation_row digits[] = {
    WEIGHTS("first layer", 1, B(1), 256, 64),
    WEIGHTS("second layer", 1, B(1), 256, 256),
    WEIGHTS("output layer", 1, B(1), 10, 256),
    STREAM("softmax", 1, B(40), B(40), 0),
};

/*
 * One decoding step: 32 layers of 4096, 8 KV heads of 128 in f16, an inner width of 14336, a
 * vocabulary of 128256. Attention, norms and activations are counted by the bytes that they move.
 */
static const operation_row llama_decode[] = {
    WEIGHTS("queries, keys, values", 32, B(1), 6144, 4096),
    WEIGHTS("attention output", 32, B(1), 4096, 4096),
    WEIGHTS("gate and up", 32, B(1), 28672, 4096),
    WEIGHTS("down", 32, B(1), 4096, 14336),
    WEIGHTS("vocabulary", 1, B(1), 128256, 4096),
    STREAM("attention over keys and values", 32, BC(4096), B(16384), 1),
    STREAM("norms and residuals", 129, B(32768), B(16384), 0),
    STREAM("gate times up", 32, B(114688), B(57344), 0),
};

/* One pass over the prompts. The vocabulary layer runs only for the last token of each sequence. */
static const operation_row llama_prefill[] = {
    WEIGHTS("queries, keys, values", 32, BC(1), 6144, 4096),
    PRODUCT("scores", 32, B(32), C(1), C(1), N(128), "f16"),
    PRODUCT("weighted values", 32, B(32), C(1), N(128), C(1), "f16"),
    WEIGHTS("attention output", 32, BC(1), 4096, 4096),
    WEIGHTS("gate and up", 32, BC(1), 28672, 4096),
    WEIGHTS("down", 32, BC(1), 4096, 14336),
    WEIGHTS("vocabulary", 1, B(1), 128256, 4096),
    STREAM("softmax", 32, BCC(128), BCC(128), 0),
    STREAM("norms and residuals", 129, BC(32768), BC(16384), 0),
    STREAM("gate times up", 32, BC(114688), BC(57344), 0),
};

static const struct {
    const char *name, *title;
    int64_t batch, context;
    const char *weights;
    amount tokens;
    amount keys_and_values; /* in bytes */
    double embedding;       /* in bytes */
    const operation_row *operations;
    size_t count;
} rows[] = {
#define OPERATIONS(list) list, sizeof list / sizeof list[0]
    {"llama-3-8b-decode", "Llama 3 8B, decoding one token per sequence", 1, 1024, "f16", B(1),
     BC(131072), 128256.0 * 4096 * 2, OPERATIONS(llama_decode)},
    {"llama-3-8b-prefill", "Llama 3 8B, prefill of the prompt", 1, 512, "f16", BC(1), BC(131072),
     128256.0 * 4096 * 2, OPERATIONS(llama_prefill)},
    {"bert-base", "BERT base", 1, 128, "f32", BC(1), N(0), 30522.0 * 768 * 4,
     OPERATIONS(bert_base)},
    {"digits", "Handwritten digits", 1024, 1, "f32", B(1), N(0), 0, OPERATIONS(digits)},
};

static double value_of(const amount *size, const predict_workload *workload) {
    return size->factor * pow(workload->batch, size->batches) *
           pow(workload->context, size->contexts);
}

static double bits_of(tdm_dtype dtype) {
    const tdm_dtype_traits *const traits = tdm_dtype_info(dtype);
    return traits == NULL ? 0 : traits->bits;
}

/* Returns the bytes of one matrix of an operand, including the scales of B. */
static double operand_bytes(const predict_work *work, gemm_types types, op_gemm_operand operand) {
    const double rows_of = operand == OP_GEMM_B ? work->k : work->m;
    const double columns = operand == OP_GEMM_A ? work->k : work->n;
    const double group = (double)gemm_types_group(types);
    double bits = bits_of(gemm_types_dtype(types, operand)) * rows_of * columns;
    if (operand == OP_GEMM_B)
        bits +=
            bits_of(gemm_types_scale(types)) * columns * (group > 0 ? ceil(rows_of / group) : 1);
    return bits / 8;
}

static void fill_product(const operation_row *row, gemm_types weights,
                         const predict_workload *workload, workload_operation *operation) {
    predict_work *const work = &operation->work;
    const gemm_types types = row->dtype == NULL ? weights : gemm_types_find(row->dtype);
    const double batch = value_of(&row->batch, workload);
    work->dtype = gemm_types_name(types);
    work->m = value_of(&row->m, workload);
    work->n = value_of(&row->n, workload);
    work->k = value_of(&row->k, workload);
    const double b_bytes = batch * operand_bytes(work, types, OP_GEMM_B);
    work->flops = 2 * work->m * work->n * work->k * batch;
    work->read_bytes = b_bytes + batch * (operand_bytes(work, types, OP_GEMM_A) +
                                          operand_bytes(work, types, OP_GEMM_D));
    operation->weight_bytes = row->dtype == NULL ? b_bytes : 0;
    predict_product_key(work->key, work->m, work->n, work->dtype);
}

static void fill_operation(const operation_row *row, gemm_types weights, predict_workload *workload,
                           workload_operation *operation) {
    *operation = (workload_operation){.count = row->count, .resident = row->resident};
    predict_work *const work = &operation->work;
    snprintf(operation->name, sizeof operation->name, "%s", row->name);
    *work = (predict_work){.m = NAN, .n = NAN, .k = NAN, .flops = NAN};
    if (row->m.factor > 0) {
        fill_product(row, weights, workload, operation);
    } else {
        snprintf(work->key, sizeof work->key, "stream");
        work->read_bytes = value_of(&row->reads, workload);
        work->write_bytes = value_of(&row->writes, workload);
    }
    workload->weight_bytes += operation->count * operation->weight_bytes;
}

/*
 * Sets the working set of each operation. For operations on weights it is all weights. For those on
 * keys and values it is the weights and all resident data. Other operations have only their own
 * bytes, which were touched just before.
 */
static void set_working_sets(predict_workload *workload) {
    for (size_t i = 0; i < workload->operation_count; i++) {
        workload_operation *const operation = &workload->operations[i];
        predict_work *const work = &operation->work;
        work->working_set = work->read_bytes + work->write_bytes;
        if (operation->weight_bytes > 0)
            work->working_set = fmax(work->working_set, workload->weight_bytes);
        if (operation->resident)
            work->working_set =
                fmax(work->working_set, workload->weight_bytes + workload->resident_bytes);
    }
}

int predict_workload_make(const char *name, const workload_settings *settings,
                          predict_workload *workload, file_error *error) {
    size_t at = 0;
    while (at < sizeof rows / sizeof rows[0] && strcmp(rows[at].name, name) != 0)
        at++;
    if (at == sizeof rows / sizeof rows[0])
        return file_fail(error, "there is no workload '%s'", file_printable(name).text);
    const char *const weights = settings->weights != NULL ? settings->weights : rows[at].weights;
    const gemm_types types = gemm_types_find(weights);
    if (types == GEMM_NO_TYPES)
        return file_fail(error, "the dtype '%s' is not one of %s", file_printable(weights).text,
                         gemm_types_choices);
    *workload = (predict_workload){
        .batch = (double)(settings->batch > 0 ? settings->batch : rows[at].batch),
        .context = (double)(settings->context > 0 ? settings->context : rows[at].context),
        .operation_count = rows[at].count};
    snprintf(workload->name, sizeof workload->name, "%s", rows[at].title);
    workload->tokens = value_of(&rows[at].tokens, workload);
    workload->kv_bytes = value_of(&rows[at].keys_and_values, workload);
    workload->resident_bytes = workload->kv_bytes + rows[at].embedding;
    for (size_t i = 0; i < rows[at].count; i++)
        fill_operation(&rows[at].operations[i], types, workload, &workload->operations[i]);
    set_working_sets(workload);
    return 0;
}
