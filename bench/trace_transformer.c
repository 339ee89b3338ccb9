/*
 * The transformers: decoder layers with grouped-query attention and a gated feed-forward part, as a framework runs
 * them op by op. Every op allocates its result (and scratch memory where kernels need some), and an operand is freed
 * after its last reader was enqueued.
 */
#include "bench/trace_transformer.h"

#include <stdlib.h>

#define NO_BLOCK UINT32_MAX

/* The host enqueues an op about so fast. */
static const uint64_t op_ns = 5000;

enum {
    MAX_OPERANDS = 6,
    LAYER_WEIGHTS = 9,
    MAX_KEPT = 16
};

typedef struct transformer {
    const trace_settings *settings;
    trace_data *trace;
    uint64_t element;
    uint64_t head; /* elements of a head */
    uint64_t tokens;
    uint32_t compute, communicate, copy; /* streams */
    uint32_t tag;                        /* of what is allocated now */
    uint32_t weights; /* first of them, LAYER_WEIGHTS per layer, embedding first; NO_BLOCK: none */
    uint64_t *seen;   /* streams that used a block, as bits */
    size_t seen_capacity;
} transformer;

/* ---- ops -------------------------------------------------------------------------------------------- */

static uint32_t allocate(transformer *model, uint64_t bytes, uint32_t stream) {
    return trace_alloc(model->trace, bytes, stream, model->tag);
}

static uint32_t tensor(transformer *model, uint64_t elements) {
    return allocate(model, elements * model->element, model->compute);
}

/* The op reads or writes the block: noted where the stream had not used it yet. */
static void touch(transformer *model, uint32_t block, uint32_t stream) {
    if (block == NO_BLOCK || model->trace->short_of_memory)
        return;
    if (block >= model->seen_capacity) {
        const size_t capacity = 2 * ((size_t)block + 128);
        uint64_t *const seen = realloc(model->seen, capacity * sizeof *seen);
        if (seen == NULL) {
            model->trace->short_of_memory = 1;
            return;
        }
        for (size_t i = model->seen_capacity; i < capacity; i++)
            seen[i] = 0;
        model->seen = seen;
        model->seen_capacity = capacity;
    }
    if (!(model->seen[block] >> stream & 1))
        trace_use(model->trace, block, stream);
    model->seen[block] |= UINT64_C(1) << stream;
}

static void release(transformer *model, uint32_t block) {
    if (block != NO_BLOCK)
        trace_free(model->trace, block);
}

/* One op on a stream with at most three operands. */
static void run_on(transformer *model, uint32_t stream, uint32_t a, uint32_t b, uint32_t c) {
    model->trace->time_ns += op_ns;
    touch(model, a, stream);
    touch(model, b, stream);
    touch(model, c, stream);
}

static void run(transformer *model, uint32_t a, uint32_t b, uint32_t c) {
    run_on(model, model->compute, a, b, c);
}

/* A product with a weight; long sums are split, which takes scratch memory of two partial results. */
static uint32_t multiply(transformer *model, uint32_t input, uint32_t weight, uint64_t rows,
                         uint64_t columns) {
    const uint32_t output = tensor(model, rows * columns);
    if (rows >= 128) {
        run(model, input, weight, output);
        return output;
    }
    const uint32_t scratch = allocate(model, 2 * 4 * rows * columns, model->compute);
    run(model, input, weight, scratch);
    run(model, scratch, output, NO_BLOCK);
    release(model, scratch);
    return output;
}

static uint32_t weight_of(const transformer *model, int64_t layer, int which) {
    return model->weights == NO_BLOCK
               ? NO_BLOCK
               : model->weights + 1 + (uint32_t)(layer * LAYER_WEIGHTS + which);
}

static uint64_t weight_elements(const transformer *model, int which) {
    const trace_settings *const s = model->settings;
    const uint64_t hidden = (uint64_t)s->hidden;
    const uint64_t shared = (uint64_t)s->kv_heads * model->head;
    switch (which) {
    case 0: /* before attention */
    case 5: /* before the feed-forward part */
        return hidden;
    case 1: /* queries */
    case 4: /* out of attention */
        return hidden * hidden;
    case 2: /* keys */
    case 3: /* values */
        return hidden * shared;
    default: /* gate, up, down */
        return hidden * (uint64_t)s->inner;
    }
}

static void make_weights(transformer *model) {
    const trace_settings *const s = model->settings;
    const uint64_t table = (uint64_t)s->vocabulary * (uint64_t)s->hidden;
    model->weights = NO_BLOCK;
    if (s->no_weights)
        return;
    model->tag = trace_tag(model->trace, "weights");
    const uint32_t first = tensor(model, table);
    for (int64_t layer = 0; layer < s->layers; layer++)
        for (int which = 0; which < LAYER_WEIGHTS; which++)
            tensor(model, weight_elements(model, which));
    tensor(model, table);
    /* They come from the host. */
    for (uint32_t block = first; block < (uint32_t)model->trace->block_count; block++)
        run_on(model, model->copy, block, NO_BLOCK, NO_BLOCK);
    model->weights = first;
}

static transformer begin(const trace_settings *settings, trace_data *trace) {
    transformer model = {
        .settings = settings,
        .trace = trace,
        .element = (uint64_t)settings->element_bytes,
        .head = (uint64_t)(settings->hidden / settings->heads),
        .tokens = (uint64_t)(settings->batch * settings->sequence),
        .compute = 1,
        .communicate = settings->streams >= 2 ? 2 : 1,
        .copy = settings->streams >= 3 ? 3 : 1,
    };
    make_weights(&model);
    return model;
}

static void finish(transformer *model) {
    free(model->seen);
}

/* ---- a layer ------------------------------------------------------------------------------------------ */

/* What a layer's forward pass leaves to its backward pass; without a place to keep them they are freed. */
typedef struct kept_blocks {
    uint32_t blocks[MAX_KEPT];
    int count;
} kept_blocks;

static void done_with(transformer *model, uint32_t block, kept_blocks *kept) {
    if (kept != NULL && kept->count < MAX_KEPT)
        kept->blocks[kept->count++] = block;
    else
        release(model, block);
}

/* Keys and values of a layer, as attention reads them. */
typedef struct key_values {
    uint32_t keys, values;
    uint64_t positions;
} key_values;

static uint32_t normalize(transformer *model, uint32_t input, uint32_t weight, uint64_t rows) {
    const uint32_t output = tensor(model, rows * (uint64_t)model->settings->hidden);
    const uint32_t scale = allocate(model, 4 * rows, model->compute);
    run(model, input, scale, NO_BLOCK);
    run(model, input, weight, output);
    touch(model, scale, model->compute);
    release(model, scale);
    return output;
}

/* softmax(Q K') V; with the scores as a tensor, or in one kernel with the sums of its rows beside. */
static uint32_t attend(transformer *model, uint32_t queries, const key_values *stored,
                       uint64_t rows, kept_blocks *kept) {
    const trace_settings *const s = model->settings;
    const uint64_t heads = (uint64_t)s->heads;
    const uint32_t output = tensor(model, rows * (uint64_t)s->hidden);
    if (!s->materialize) {
        const uint32_t sums = allocate(model, 4 * rows * heads, model->compute);
        run(model, queries, stored->keys, sums);
        run(model, stored->values, output, NO_BLOCK);
        done_with(model, sums, kept);
        return output;
    }
    const uint32_t scores = tensor(model, rows * heads * stored->positions);
    run(model, queries, stored->keys, scores);
    const uint32_t weights = tensor(model, rows * heads * stored->positions);
    run(model, scores, weights, NO_BLOCK);
    release(model, scores);
    run(model, weights, stored->values, output);
    done_with(model, weights, kept);
    return output;
}

/* The sum over all parts of a model that is spread over several devices, in place. */
static void reduce(transformer *model, uint32_t block) {
    if (model->communicate != model->compute)
        run_on(model, model->communicate, block, NO_BLOCK, NO_BLOCK);
}

/*
 * Attention of `rows` tokens; `store` makes their keys and values part of what is attended to, and gives that. Returns the sum
 * of input and result; the input is the caller's.
 */
typedef key_values (*key_value_store)(transformer *model, int64_t layer, uint32_t keys,
                                      uint32_t values, kept_blocks *kept);

static uint32_t attention(transformer *model, int64_t layer, uint32_t input, uint64_t rows,
                          key_value_store store, kept_blocks *kept) {
    const trace_settings *const s = model->settings;
    const uint64_t hidden = (uint64_t)s->hidden;
    const uint64_t shared = (uint64_t)s->kv_heads * model->head;
    const uint32_t normal = normalize(model, input, weight_of(model, layer, 0), rows);
    const uint32_t raw_queries = multiply(model, normal, weight_of(model, layer, 1), rows, hidden);
    const uint32_t raw_keys = multiply(model, normal, weight_of(model, layer, 2), rows, shared);
    const uint32_t values = multiply(model, normal, weight_of(model, layer, 3), rows, shared);
    done_with(model, normal, kept);
    const uint32_t queries = tensor(model, rows * hidden); /* turned by their positions */
    run(model, raw_queries, queries, NO_BLOCK);
    release(model, raw_queries);
    const uint32_t keys = tensor(model, rows * shared);
    run(model, raw_keys, keys, NO_BLOCK);
    release(model, raw_keys);
    const key_values stored = store(model, layer, keys, values, kept);
    const uint32_t mixed = attend(model, queries, &stored, rows, kept);
    done_with(model, queries, kept);
    const uint32_t output = multiply(model, mixed, weight_of(model, layer, 4), rows, hidden);
    done_with(model, mixed, kept);
    reduce(model, output);
    const uint32_t sum = tensor(model, rows * hidden);
    run(model, input, output, sum);
    release(model, output);
    return sum;
}

static uint32_t feed_forward(transformer *model, int64_t layer, uint32_t input, uint64_t rows,
                             kept_blocks *kept) {
    const uint64_t hidden = (uint64_t)model->settings->hidden;
    const uint64_t inner = (uint64_t)model->settings->inner;
    const uint32_t normal = normalize(model, input, weight_of(model, layer, 5), rows);
    const uint32_t gate = multiply(model, normal, weight_of(model, layer, 6), rows, inner);
    const uint32_t up = multiply(model, normal, weight_of(model, layer, 7), rows, inner);
    done_with(model, normal, kept);
    const uint32_t active = tensor(model, rows * inner);
    run(model, gate, active, NO_BLOCK);
    done_with(model, gate, kept);
    const uint32_t product = tensor(model, rows * inner);
    run(model, active, up, product);
    done_with(model, active, kept);
    done_with(model, up, kept);
    const uint32_t output = multiply(model, product, weight_of(model, layer, 8), rows, hidden);
    done_with(model, product, kept);
    reduce(model, output);
    const uint32_t sum = tensor(model, rows * hidden);
    run(model, input, output, sum);
    release(model, output);
    return sum;
}

/* One layer on `rows` tokens; the input is freed unless it is kept by the caller. */
static uint32_t run_layer(transformer *model, int64_t layer, uint32_t input, uint64_t rows,
                          key_value_store store, kept_blocks *kept, int keep_input) {
    const uint32_t middle = attention(model, layer, input, rows, store, kept);
    if (!keep_input)
        release(model, input);
    const uint32_t output = feed_forward(model, layer, middle, rows, kept);
    done_with(model, middle, kept);
    return output;
}

static uint32_t embed(transformer *model, uint64_t rows) {
    const uint32_t ids = allocate(model, 4 * rows, model->copy);
    run_on(model, model->copy, ids, NO_BLOCK, NO_BLOCK);
    const uint32_t output = tensor(model, rows * (uint64_t)model->settings->hidden);
    run(model, ids, model->weights, output);
    release(model, ids);
    return output;
}

/* The scores of the next token for the last position of every sequence, to the host. */
static void predict(transformer *model, uint32_t input, uint64_t rows) {
    const trace_settings *const s = model->settings;
    const uint32_t normal = normalize(model, input, NO_BLOCK, rows);
    release(model, input);
    const uint32_t head = model->weights == NO_BLOCK ? NO_BLOCK : weight_of(model, s->layers, 0);
    const uint32_t scores =
        multiply(model, normal, head, (uint64_t)s->batch, (uint64_t)s->vocabulary);
    release(model, normal);
    run_on(model, model->copy, scores, NO_BLOCK, NO_BLOCK);
    release(model, scores);
}

/* ---- prefill ------------------------------------------------------------------------------------------- */

/* The cache of a prompt is what the layer made. */
static key_values keep_all(transformer *model, int64_t layer, uint32_t keys, uint32_t values,
                           kept_blocks *kept) {
    (void)layer;
    (void)kept;
    return (key_values){keys, values, (uint64_t)model->settings->sequence};
}

void trace_build_prefill(const trace_settings *settings, trace_data *trace) {
    transformer model = begin(settings, trace);
    for (int64_t step = 0; step < settings->steps; step++) {
        const uint32_t first = (uint32_t)trace->block_count;
        model.tag = trace_tag(trace, "prefill");
        uint32_t state = embed(&model, model.tokens);
        for (int64_t layer = 0; layer < settings->layers; layer++)
            state = run_layer(&model, layer, state, model.tokens, keep_all, NULL, 0);
        predict(&model, state, model.tokens);
        /* The prompt was answered elsewhere: its cache goes. */
        for (uint32_t block = first; block < (uint32_t)trace->block_count; block++)
            if (trace->blocks[block].live)
                release(&model, block);
    }
    finish(&model);
}

/* ---- decoding ------------------------------------------------------------------------------------------- */

/* The cache of a layer, which grows with every token by being copied into a larger one. */
typedef struct decoder {
    transformer model; /* first */
    key_values *cache;
} decoder;

static uint32_t append(transformer *model, uint32_t old, uint32_t added, uint64_t positions) {
    const trace_settings *const s = model->settings;
    const uint32_t output =
        tensor(model, (uint64_t)s->batch * positions * (uint64_t)s->kv_heads * model->head);
    run(model, old, added, output);
    release(model, old);
    release(model, added);
    return output;
}

static key_values grow_cache(transformer *model, int64_t layer, uint32_t keys, uint32_t values,
                             kept_blocks *kept) {
    (void)kept;
    key_values *const own = &((decoder *)model)->cache[layer];
    own->positions++;
    const uint32_t tag = model->tag;
    model->tag = trace_tag(model->trace, "kv cache");
    own->keys = append(model, own->keys, keys, own->positions);
    own->values = append(model, own->values, values, own->positions);
    model->tag = tag;
    return *own;
}

void trace_build_decode(const trace_settings *settings, trace_data *trace) {
    decoder own = {.model = begin(settings, trace)};
    transformer *const model = &own.model;
    const uint64_t rows = (uint64_t)settings->batch;
    own.cache = calloc((size_t)settings->layers, sizeof *own.cache);
    if (own.cache == NULL) {
        trace->short_of_memory = 1;
        finish(model);
        return;
    }
    model->tag = trace_tag(trace, "kv cache");
    for (int64_t layer = 0; layer < settings->layers; layer++) {
        const uint64_t elements = model->tokens * (uint64_t)settings->kv_heads * model->head;
        own.cache[layer].keys = tensor(model, elements);
        own.cache[layer].values = tensor(model, elements);
        own.cache[layer].positions = (uint64_t)settings->sequence;
        run(model, own.cache[layer].keys, own.cache[layer].values, NO_BLOCK);
    }
    model->tag = trace_tag(trace, "decode");
    for (int64_t step = 0; step < settings->steps; step++) {
        uint32_t state = embed(model, rows);
        for (int64_t layer = 0; layer < settings->layers; layer++)
            state = run_layer(model, layer, state, rows, grow_cache, NULL, 0);
        predict(model, state, rows);
    }
    free(own.cache);
    finish(model);
}

/* ---- growing batches ------------------------------------------------------------------------------------ */

void trace_build_growing(const trace_settings *settings, trace_data *trace) {
    transformer model = begin(settings, trace);
    for (int64_t step = 0; step < settings->steps; step++) {
        const uint32_t first = (uint32_t)trace->block_count;
        model.tokens = (uint64_t)((settings->batch + step) * settings->sequence);
        model.tag = trace_tag(trace, "batch");
        uint32_t state = embed(&model, model.tokens);
        for (int64_t layer = 0; layer < settings->layers; layer++)
            state = run_layer(&model, layer, state, model.tokens, keep_all, NULL, 0);
        predict(&model, state, model.tokens);
        for (uint32_t block = first; block < (uint32_t)trace->block_count; block++)
            if (trace->blocks[block].live)
                release(&model, block);
    }
    finish(&model);
}

/* ---- training ------------------------------------------------------------------------------------------- */

static key_values keep_for_backward(transformer *model, int64_t layer, uint32_t keys,
                                    uint32_t values, kept_blocks *kept) {
    (void)layer;
    if (kept != NULL) {
        done_with(model, keys, kept);
        done_with(model, values, kept);
    }
    return (key_values){keys, values, (uint64_t)model->settings->sequence};
}

/* The forward pass of a layer without anything kept: its keys and values are freed by a second walk. */
static uint32_t forward(transformer *model, int64_t layer, uint32_t input) {
    const uint32_t first = (uint32_t)model->trace->block_count;
    const uint32_t output =
        run_layer(model, layer, input, model->tokens, keep_for_backward, NULL, 1);
    for (uint32_t block = first; block < (uint32_t)model->trace->block_count; block++)
        if (block != output && model->trace->blocks[block].live)
            release(model, block);
    return output;
}

/* The gradient of one op: of its kept operand, in as many bytes, which replaces the gradient of its result. */
static uint32_t step_back(transformer *model, uint32_t gradient, uint32_t operand,
                          uint32_t weight) {
    const uint32_t output = allocate(model, model->trace->blocks[operand].bytes, model->compute);
    run(model, gradient, operand, output);
    touch(model, weight, model->compute);
    release(model, gradient);
    release(model, operand);
    return output;
}

/* Recompute the layer from its kept input, then go back through it; returns the gradient of the input. */
static uint32_t backward(transformer *model, int64_t layer, uint32_t input, uint32_t gradient,
                         const uint32_t *weight_gradients) {
    kept_blocks kept = {.count = 0};
    model->tag = trace_tag(model->trace, "recomputed");
    const uint32_t output =
        run_layer(model, layer, input, model->tokens, keep_for_backward, &kept, 1);
    release(model, output);
    model->tag = trace_tag(model->trace, "backward");
    for (int i = kept.count - 1; i >= 0; i--) {
        const int which = i % LAYER_WEIGHTS;
        gradient = step_back(model, gradient, kept.blocks[i], weight_of(model, layer, which));
        touch(model, weight_gradients[layer * LAYER_WEIGHTS + which], model->compute);
    }
    for (int which = 0; which < LAYER_WEIGHTS; which++)
        reduce(model, weight_gradients[layer * LAYER_WEIGHTS + which]);
    return step_back(model, gradient, input, NO_BLOCK);
}

/* The probabilities of all tokens in f32, a part of them at a time, and the gradient of the last state. */
static uint32_t loss(transformer *model, uint32_t state) {
    const uint64_t parts = 8;
    const uint64_t rows = model->tokens / parts + 1;
    const uint64_t vocabulary = (uint64_t)model->settings->vocabulary;
    const uint32_t gradient = tensor(model, model->tokens * (uint64_t)model->settings->hidden);
    model->tag = trace_tag(model->trace, "loss");
    for (uint64_t part = 0; part < parts; part++) {
        const uint32_t scores = tensor(model, rows * vocabulary);
        run(model, state, scores, NO_BLOCK);
        const uint32_t exact = allocate(model, 4 * rows * vocabulary, model->compute);
        run(model, scores, exact, NO_BLOCK);
        run(model, exact, gradient, scores);
        release(model, exact);
        release(model, scores);
    }
    release(model, state);
    return gradient;
}

static void train_step(transformer *model, uint32_t *inputs, const uint32_t *gradients) {
    const trace_settings *const s = model->settings;
    model->tag = trace_tag(model->trace, "forward");
    uint32_t state = embed(model, model->tokens);
    for (int64_t layer = 0; layer < s->layers; layer++) {
        inputs[layer] = state;
        state = forward(model, layer, state);
    }
    uint32_t gradient = loss(model, state);
    for (int64_t layer = s->layers - 1; layer >= 0; layer--)
        gradient = backward(model, layer, inputs[layer], gradient, gradients);
    release(model, gradient);
}

/* Two moments in f32 for every weight; the update takes scratch memory of the weight's size in f32. */
static void update_weights(transformer *model, uint32_t *moments, const uint32_t *gradients) {
    const int64_t count = model->settings->layers * LAYER_WEIGHTS;
    model->tag = trace_tag(model->trace, "optimizer");
    for (int64_t i = 0; i < count; i++) {
        const int which = (int)(i % LAYER_WEIGHTS);
        const uint64_t bytes = 4 * weight_elements(model, which);
        for (int64_t each = 2 * i; each < 2 * i + 2; each++)
            if (moments[each] == NO_BLOCK)
                moments[each] = allocate(model, bytes, model->compute);
        const uint32_t scratch = allocate(model, bytes, model->compute);
        run(model, gradients[i], moments[2 * i], scratch);
        run(model, moments[2 * i + 1], scratch, weight_of(model, i / LAYER_WEIGHTS, which));
        release(model, scratch);
    }
}

void trace_build_training(const trace_settings *settings, trace_data *trace) {
    transformer model = begin(settings, trace);
    const size_t layers = (size_t)settings->layers;
    const size_t weights = layers * LAYER_WEIGHTS;
    uint32_t *const blocks = malloc((layers + 3 * weights) * sizeof *blocks);
    if (blocks == NULL) {
        trace->short_of_memory = 1;
        finish(&model);
        return;
    }
    uint32_t *const gradients = blocks + layers;
    uint32_t *const moments = gradients + weights;
    model.tag = trace_tag(trace, "gradients");
    for (size_t i = 0; i < weights; i++)
        gradients[i] = settings->no_weights
                           ? NO_BLOCK
                           : tensor(&model, weight_elements(&model, (int)(i % LAYER_WEIGHTS)));
    for (size_t i = 0; i < 2 * weights; i++)
        moments[i] = NO_BLOCK;
    for (int64_t step = 0; step < settings->steps && !trace->short_of_memory; step++) {
        train_step(&model, blocks, gradients);
        if (!settings->no_weights)
            update_weights(&model, moments, gradients);
    }
    free(blocks);
    finish(&model);
}
