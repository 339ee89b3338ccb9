/*
 * Generates the trace of a transformer that a framework runs op by op. Its decoder layers have
 * grouped-query attention and a gated feed-forward part. Every op allocates its result, and scratch
 * memory if its kernels need some. An operand is freed after its last reader is enqueued.
 */
#include "bench/trace/trace_data.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define NO_BLOCK UINT32_MAX

/* The approximate time in which the host enqueues an op. */
static const uint64_t op_ns = 5000;

/* ---- a layer, as a table --------------------------------------------------------------------- */

typedef enum tensor {
    NO_TENSOR,
    INPUT,
    NORMAL,
    RAW_QUERIES,
    RAW_KEYS,
    VALUES,
    QUERIES,
    KEYS,
    MIXED,
    PROJECTED,
    MIDDLE,
    NORMAL_MIDDLE,
    GATE,
    UP,
    ACTIVE,
    PRODUCT,
    DOWN,
    OUTPUT,
    TENSORS
} tensor;

/* The number of columns of a tensor, or of rows of a weight. The rows of a tensor are tokens. */
typedef enum width {
    NONE, /* no weight */
    ONE,  /* one scale per column */
    HIDDEN,
    SHARED,
    INNER
} width;

typedef struct layer_op {
    tensor output;
    width columns;
    tensor operands[3];
    width weight_rows;
    int is_reduced; /* 1: the result is summed over all devices that share the model */
} layer_op;

static const layer_op ops[] = {
    {NORMAL, HIDDEN, {INPUT}, ONE, 0},         {RAW_QUERIES, HIDDEN, {NORMAL}, HIDDEN, 0},
    {RAW_KEYS, SHARED, {NORMAL}, HIDDEN, 0},   {VALUES, SHARED, {NORMAL}, HIDDEN, 0},
    {QUERIES, HIDDEN, {RAW_QUERIES}, NONE, 0}, /* with the rotary embedding */
    {KEYS, SHARED, {RAW_KEYS}, NONE, 0},       {MIXED, HIDDEN, {QUERIES, KEYS, VALUES}, NONE, 0},
    {PROJECTED, HIDDEN, {MIXED}, HIDDEN, 1},   {MIDDLE, HIDDEN, {INPUT, PROJECTED}, NONE, 0},
    {NORMAL_MIDDLE, HIDDEN, {MIDDLE}, ONE, 0}, {GATE, INNER, {NORMAL_MIDDLE}, HIDDEN, 0},
    {UP, INNER, {NORMAL_MIDDLE}, HIDDEN, 0},   {ACTIVE, INNER, {GATE}, NONE, 0},
    {PRODUCT, INNER, {ACTIVE, UP}, NONE, 0},   {DOWN, HIDDEN, {PRODUCT}, INNER, 1},
    {OUTPUT, HIDDEN, {MIDDLE, DOWN}, NONE, 0},
};

enum {
    OPS = sizeof ops / sizeof ops[0],
    MAX_WEIGHTS = TRACE_MAX_LAYERS * OPS
};

static int reads(const layer_op *op, tensor which) {
    return op->operands[0] == which || op->operands[1] == which || op->operands[2] == which;
}

static int is_last_reader(int index, tensor which) {
    for (int later = index + 1; later < OPS; later++)
        if (reads(&ops[later], which))
            return 0;
    return 1;
}

/* ---- the state of the model ------------------------------------------------------------------ */

/* The keys and values of a layer. */
typedef struct cache {
    uint32_t keys, values;
    uint64_t positions; /* 0: empty */
} cache;

typedef struct transformer {
    const trace_settings *settings;
    trace_data *trace;
    uint32_t tag;                  /* of the next allocations */
    uint32_t table, head;          /* the embedding, and the matrix that computes the scores */
    uint32_t weights[MAX_WEIGHTS]; /* of layer l and op i: [l * OPS + i] */
    cache caches[TRACE_MAX_LAYERS];
} transformer;

/* Communication between devices, and copies from and to the host, have streams of their own. */
enum {
    COMPUTE = 1,
    COMMUNICATE,
    COPY
};

static uint64_t columns(const transformer *model, width which) {
    const trace_settings *const s = model->settings;
    const int64_t widths[] = {0, 1, s->hidden, s->shared, s->inner};
    return (uint64_t)widths[which];
}

static uint64_t token_rows(const transformer *model, uint64_t positions) {
    return (uint64_t)model->settings->batch * positions;
}

static uint32_t allocate(transformer *model, uint64_t bytes) {
    return trace_alloc(model->trace, bytes, COMPUTE, model->tag);
}

/* Allocates a tensor in f16. */
static uint32_t allocate_tensor(transformer *model, uint64_t elements) {
    return allocate(model, 2 * elements);
}

static void release(transformer *model, uint32_t block) {
    if (block != NO_BLOCK)
        trace_free(model->trace, block);
}

/* Lets the stream use the block. Only its first use of the block is recorded as an event. */
static void use(transformer *model, uint32_t block, uint32_t stream) {
    if (block == NO_BLOCK || model->trace->short_of_memory)
        return;
    trace_block *const used = &model->trace->blocks[block];
    if (!(used->seen >> stream & 1))
        trace_use(model->trace, block, stream);
    used->seen = (uint8_t)(used->seen | 1 << stream);
}

/* Enqueues one kernel or copy with at most three operands. */
static void run_on(transformer *model, uint32_t stream, uint32_t a, uint32_t b, uint32_t c) {
    model->trace->time_ns += op_ns;
    use(model, a, stream);
    use(model, b, stream);
    use(model, c, stream);
}

static void run(transformer *model, uint32_t a, uint32_t b, uint32_t c) {
    run_on(model, COMPUTE, a, b, c);
}

/* Allocates the weights, or no blocks if the trace has no weights. */
static void make_weights(transformer *model) {
    const trace_settings *const s = model->settings;
    const uint64_t table = (uint64_t)(s->vocabulary * s->hidden);
    model->tag = trace_tag(model->trace, "weights");
    model->table = s->no_weights ? NO_BLOCK : allocate_tensor(model, table);
    for (int64_t i = 0; i < s->layers * OPS; i++) {
        const width rows = ops[i % OPS].weight_rows;
        const uint64_t elements = columns(model, rows) * columns(model, ops[i % OPS].columns);
        model->weights[i] =
            elements == 0 || s->no_weights ? NO_BLOCK : allocate_tensor(model, elements);
    }
    model->head = s->no_weights ? NO_BLOCK : allocate_tensor(model, table);
    /* The weights are copied from the host. */
    for (uint32_t block = 0; block < (uint32_t)model->trace->block_count; block++)
        run_on(model, COPY, block, NO_BLOCK, NO_BLOCK);
}

/* ---- ops ------------------------------------------------------------------------------------- */

/*
 * Runs one op. A GEMM with few rows splits its long sums, which needs scratch memory for two
 * partial results.
 */
static uint32_t run_op(transformer *model, int64_t layer, int index, uint64_t rows,
                       const uint32_t *tensors) {
    const layer_op *const op = &ops[index];
    const uint64_t elements = rows * columns(model, op->columns);
    const uint32_t output = allocate_tensor(model, elements);
    const int is_split = op->weight_rows > ONE && rows < 128;
    const uint32_t scratch = is_split ? allocate(model, 2 * 4 * elements) : NO_BLOCK;
    run(model, tensors[op->operands[0]], tensors[op->operands[1]], tensors[op->operands[2]]);
    run(model, model->weights[layer * OPS + index], scratch, output);
    release(model, scratch);
    if (op->is_reduced)
        run_on(model, COMMUNICATE, output, NO_BLOCK, NO_BLOCK);
    return output;
}

static uint32_t append(transformer *model, uint32_t old, uint32_t added, uint64_t positions) {
    const uint32_t output =
        allocate_tensor(model, token_rows(model, positions) * columns(model, SHARED));
    run(model, old, added, output);
    release(model, old);
    release(model, added);
    return output;
}

/*
 * Appends a layer's new keys and values to its cache, by copying both into a larger one. The cache
 * replaces the new tensors.
 */
static void store(transformer *model, cache *own, uint64_t rows, uint32_t *tensors) {
    const uint32_t tag = model->tag;
    const int is_empty = own->positions == 0;
    own->positions += rows / (uint64_t)model->settings->batch;
    model->tag = trace_tag(model->trace, "kv cache");
    own->keys = append(model, is_empty ? NO_BLOCK : own->keys, tensors[KEYS], own->positions);
    own->values = append(model, is_empty ? NO_BLOCK : own->values, tensors[VALUES], own->positions);
    model->tag = tag;
    tensors[KEYS] = own->keys;
    tensors[VALUES] = own->values;
}

/*
 * Runs one layer on the rows of tensors[INPUT], up to tensors[OUTPUT]. The tensors between them are
 * freed after their last readers; the caller frees the input.
 */
static void run_layer(transformer *model, int64_t layer, uint64_t rows, cache *own,
                      uint32_t *tensors) {
    for (int i = 0; i < OPS; i++) {
        if (ops[i].output == MIXED)
            store(model, own, rows, tensors);
        tensors[ops[i].output] = run_op(model, layer, i, rows, tensors);
        for (tensor each = INPUT + 1; each < TENSORS; each++) {
            const int is_cached = each == KEYS || each == VALUES;
            if (reads(&ops[i], each) && is_last_reader(i, each) && !is_cached)
                release(model, tensors[each]);
        }
    }
}

static uint32_t embed(transformer *model, uint64_t rows) {
    const uint32_t ids = trace_alloc(model->trace, 4 * rows, COPY, model->tag);
    run_on(model, COPY, ids, NO_BLOCK, NO_BLOCK);
    const uint32_t output = allocate_tensor(model, rows * columns(model, HIDDEN));
    run(model, ids, model->table, output);
    release(model, ids);
    return output;
}

/*
 * Computes the scores of the next token for the last position of every sequence, and copies them to
 * the host.
 */
static void predict(transformer *model, uint32_t state) {
    const trace_settings *const s = model->settings;
    const uint32_t scores = allocate_tensor(model, (uint64_t)(s->batch * s->vocabulary));
    run(model, state, model->head, scores);
    release(model, state);
    run_on(model, COPY, scores, NO_BLOCK, NO_BLOCK);
    release(model, scores);
}

static void infer(transformer *model, uint64_t positions) {
    const uint64_t rows = token_rows(model, positions);
    uint32_t state = embed(model, rows);
    for (int64_t layer = 0; layer < model->settings->layers; layer++) {
        uint32_t tensors[TENSORS] = {[NO_TENSOR] = NO_BLOCK, [INPUT] = state};
        run_layer(model, layer, rows, &model->caches[layer], tensors);
        release(model, state);
        state = tensors[OUTPUT];
    }
    predict(model, state);
}

/* Runs a prompt for every sequence of the batch, then single tokens. */
static void build_inference(transformer *model) {
    model->tag = trace_tag(model->trace, "prompt");
    infer(model, (uint64_t)model->settings->sequence);
    model->tag = trace_tag(model->trace, "token");
    for (int64_t step = 0; step < model->settings->steps && !model->trace->short_of_memory; step++)
        infer(model, 1);
}

int trace_generate(const trace_settings *settings, trace_data *trace) {
    static transformer own;
    *trace = (trace_data){.events = NULL};
    snprintf(trace->comment, sizeof trace->comment,
             "generated: inference, layers %" PRId64 ", batch %" PRId64 ", sequence %" PRId64
             ", steps %" PRId64 "%s",
             settings->layers, settings->batch, settings->sequence, settings->steps,
             settings->no_weights ? ", no weights" : "");
    own = (transformer){.settings = settings, .trace = trace};
    make_weights(&own);
    build_inference(&own);
    if (!trace->short_of_memory)
        return 0;
    trace_release(trace);
    return -1;
}
