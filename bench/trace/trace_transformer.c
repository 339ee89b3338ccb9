/*
 * The transformers: decoder layers with grouped-query attention and a gated feed-forward part, as a framework runs
 * them op by op. Every op allocates its result (and scratch memory where kernels need some), and an operand is freed
 * after its last reader was enqueued.
 */
#include <stdlib.h>

#include "bench/trace/trace_layers.h"

/* The host enqueues an op about so fast. */
static const uint64_t op_ns = 5000;

/* ---- ops -------------------------------------------------------------------------------------------- */

uint32_t transformer_allocate(transformer *model, uint64_t bytes, uint32_t stream) {
    return trace_alloc(model->trace, bytes, stream, model->tag);
}

uint32_t transformer_tensor(transformer *model, uint64_t elements) {
    return transformer_allocate(model, elements * model->element, model->compute);
}

/* The op reads or writes the block: noted where the stream had not used it yet. */
void transformer_touch(transformer *model, uint32_t block, uint32_t stream) {
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

void transformer_release(transformer *model, uint32_t block) {
    if (block != NO_BLOCK)
        trace_free(model->trace, block);
}

/* One op on a stream with at most three operands. */
static void run_on(transformer *model, uint32_t stream, uint32_t a, uint32_t b, uint32_t c) {
    model->trace->time_ns += op_ns;
    transformer_touch(model, a, stream);
    transformer_touch(model, b, stream);
    transformer_touch(model, c, stream);
}

void transformer_run(transformer *model, uint32_t a, uint32_t b, uint32_t c) {
    run_on(model, model->compute, a, b, c);
}

/* A product with a weight; long sums are split, which takes scratch memory of two partial results. */
static uint32_t multiply(transformer *model, uint32_t input, uint32_t weight, uint64_t rows,
                         uint64_t columns) {
    const uint32_t output = transformer_tensor(model, rows * columns);
    if (rows >= 128) {
        transformer_run(model, input, weight, output);
        return output;
    }
    const uint32_t scratch = transformer_allocate(model, 2 * 4 * rows * columns, model->compute);
    transformer_run(model, input, weight, scratch);
    transformer_run(model, scratch, output, NO_BLOCK);
    transformer_release(model, scratch);
    return output;
}

uint32_t transformer_weight(const transformer *model, int64_t layer, int which) {
    return model->weights == NO_BLOCK
               ? NO_BLOCK
               : model->weights + 1 + (uint32_t)(layer * LAYER_WEIGHTS + which);
}

uint64_t transformer_weight_elements(const transformer *model, int which) {
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
    const uint32_t first = transformer_tensor(model, table);
    for (int64_t layer = 0; layer < s->layers; layer++)
        for (int which = 0; which < LAYER_WEIGHTS; which++)
            transformer_tensor(model, transformer_weight_elements(model, which));
    transformer_tensor(model, table);
    /* They come from the host. */
    for (uint32_t block = first; block < (uint32_t)model->trace->block_count; block++)
        run_on(model, model->copy, block, NO_BLOCK, NO_BLOCK);
    model->weights = first;
}

transformer transformer_begin(const trace_settings *settings, trace_data *trace) {
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

void transformer_finish(transformer *model) {
    free(model->seen);
}

/* ---- a layer ------------------------------------------------------------------------------------------ */

void transformer_done_with(transformer *model, uint32_t block, kept_blocks *kept) {
    if (kept != NULL && kept->count < MAX_KEPT)
        kept->blocks[kept->count++] = block;
    else
        transformer_release(model, block);
}

static uint32_t normalize(transformer *model, uint32_t input, uint32_t weight, uint64_t rows) {
    const uint32_t output = transformer_tensor(model, rows * (uint64_t)model->settings->hidden);
    const uint32_t scale = transformer_allocate(model, 4 * rows, model->compute);
    transformer_run(model, input, scale, NO_BLOCK);
    transformer_run(model, input, weight, output);
    transformer_touch(model, scale, model->compute);
    transformer_release(model, scale);
    return output;
}

/* softmax(Q K') V; with the scores as a tensor, or in one kernel with the sums of its rows beside. */
static uint32_t attend(transformer *model, uint32_t queries, const key_values *stored,
                       uint64_t rows, kept_blocks *kept) {
    const trace_settings *const s = model->settings;
    const uint64_t heads = (uint64_t)s->heads;
    const uint32_t output = transformer_tensor(model, rows * (uint64_t)s->hidden);
    if (!s->materialize) {
        const uint32_t sums = transformer_allocate(model, 4 * rows * heads, model->compute);
        transformer_run(model, queries, stored->keys, sums);
        transformer_run(model, stored->values, output, NO_BLOCK);
        transformer_done_with(model, sums, kept);
        return output;
    }
    const uint32_t scores = transformer_tensor(model, rows * heads * stored->positions);
    transformer_run(model, queries, stored->keys, scores);
    const uint32_t weights = transformer_tensor(model, rows * heads * stored->positions);
    transformer_run(model, scores, weights, NO_BLOCK);
    transformer_release(model, scores);
    transformer_run(model, weights, stored->values, output);
    transformer_done_with(model, weights, kept);
    return output;
}

/* The sum over all parts of a model that is spread over several devices, in place. */
void transformer_reduce(transformer *model, uint32_t block) {
    if (model->communicate != model->compute)
        run_on(model, model->communicate, block, NO_BLOCK, NO_BLOCK);
}

/* Attention of `rows` tokens; returns the sum of input and result. The input is the caller's. */
static uint32_t attention(transformer *model, int64_t layer, uint32_t input, uint64_t rows,
                          key_value_store store, kept_blocks *kept) {
    const trace_settings *const s = model->settings;
    const uint64_t hidden = (uint64_t)s->hidden;
    const uint64_t shared = (uint64_t)s->kv_heads * model->head;
    const uint32_t normal = normalize(model, input, transformer_weight(model, layer, 0), rows);
    const uint32_t raw_queries =
        multiply(model, normal, transformer_weight(model, layer, 1), rows, hidden);
    const uint32_t raw_keys =
        multiply(model, normal, transformer_weight(model, layer, 2), rows, shared);
    const uint32_t values =
        multiply(model, normal, transformer_weight(model, layer, 3), rows, shared);
    transformer_done_with(model, normal, kept);
    const uint32_t queries =
        transformer_tensor(model, rows * hidden); /* turned by their positions */
    transformer_run(model, raw_queries, queries, NO_BLOCK);
    transformer_release(model, raw_queries);
    const uint32_t keys = transformer_tensor(model, rows * shared);
    transformer_run(model, raw_keys, keys, NO_BLOCK);
    transformer_release(model, raw_keys);
    const key_values stored = store(model, layer, keys, values, kept);
    const uint32_t mixed = attend(model, queries, &stored, rows, kept);
    transformer_done_with(model, queries, kept);
    const uint32_t output =
        multiply(model, mixed, transformer_weight(model, layer, 4), rows, hidden);
    transformer_done_with(model, mixed, kept);
    transformer_reduce(model, output);
    const uint32_t sum = transformer_tensor(model, rows * hidden);
    transformer_run(model, input, output, sum);
    transformer_release(model, output);
    return sum;
}

static uint32_t feed_forward(transformer *model, int64_t layer, uint32_t input, uint64_t rows,
                             kept_blocks *kept) {
    const uint64_t hidden = (uint64_t)model->settings->hidden;
    const uint64_t inner = (uint64_t)model->settings->inner;
    const uint32_t normal = normalize(model, input, transformer_weight(model, layer, 5), rows);
    const uint32_t gate = multiply(model, normal, transformer_weight(model, layer, 6), rows, inner);
    const uint32_t up = multiply(model, normal, transformer_weight(model, layer, 7), rows, inner);
    transformer_done_with(model, normal, kept);
    const uint32_t active = transformer_tensor(model, rows * inner);
    transformer_run(model, gate, active, NO_BLOCK);
    transformer_done_with(model, gate, kept);
    const uint32_t product = transformer_tensor(model, rows * inner);
    transformer_run(model, active, up, product);
    transformer_done_with(model, active, kept);
    transformer_done_with(model, up, kept);
    const uint32_t output =
        multiply(model, product, transformer_weight(model, layer, 8), rows, hidden);
    transformer_done_with(model, product, kept);
    transformer_reduce(model, output);
    const uint32_t sum = transformer_tensor(model, rows * hidden);
    transformer_run(model, input, output, sum);
    transformer_release(model, output);
    return sum;
}

/* One layer on `rows` tokens; the input is freed unless it is kept by the caller. */
uint32_t transformer_layer(transformer *model, int64_t layer, uint32_t input, uint64_t rows,
                           key_value_store store, kept_blocks *kept, int keep_input) {
    const uint32_t middle = attention(model, layer, input, rows, store, kept);
    if (!keep_input)
        transformer_release(model, input);
    const uint32_t output = feed_forward(model, layer, middle, rows, kept);
    transformer_done_with(model, middle, kept);
    return output;
}

uint32_t transformer_embed(transformer *model, uint64_t rows) {
    const uint32_t ids = transformer_allocate(model, 4 * rows, model->copy);
    run_on(model, model->copy, ids, NO_BLOCK, NO_BLOCK);
    const uint32_t output = transformer_tensor(model, rows * (uint64_t)model->settings->hidden);
    transformer_run(model, ids, model->weights, output);
    transformer_release(model, ids);
    return output;
}

/* The scores of the next token for the last position of every sequence, to the host. */
static void predict(transformer *model, uint32_t input, uint64_t rows) {
    const trace_settings *const s = model->settings;
    const uint32_t normal = normalize(model, input, NO_BLOCK, rows);
    transformer_release(model, input);
    const uint32_t head =
        model->weights == NO_BLOCK ? NO_BLOCK : transformer_weight(model, s->layers, 0);
    const uint32_t scores =
        multiply(model, normal, head, (uint64_t)s->batch, (uint64_t)s->vocabulary);
    transformer_release(model, normal);
    run_on(model, model->copy, scores, NO_BLOCK, NO_BLOCK);
    transformer_release(model, scores);
}

/* ---- prefill ------------------------------------------------------------------------------------------- */

/* The cache of a prompt is what the layer made. */
static key_values keep_all(transformer *model, int64_t layer, uint32_t keys, uint32_t values,
                           kept_blocks *kept) {
    (void)layer;
    (void)kept;
    return (key_values){keys, values, (uint64_t)model->settings->sequence};
}

/* One batch of prompts after the other, each so many sequences larger. */
static void run_prompts(const trace_settings *settings, trace_data *trace, int64_t growth,
                        const char *tag) {
    transformer model = transformer_begin(settings, trace);
    for (int64_t step = 0; step < settings->steps; step++) {
        const uint32_t first = (uint32_t)trace->block_count;
        model.tokens = (uint64_t)((settings->batch + growth * step) * settings->sequence);
        model.tag = trace_tag(trace, tag);
        uint32_t state = transformer_embed(&model, model.tokens);
        for (int64_t layer = 0; layer < settings->layers; layer++)
            state = transformer_layer(&model, layer, state, model.tokens, keep_all, NULL, 0);
        predict(&model, state, model.tokens);
        /* The prompts were answered elsewhere: their caches go. */
        for (uint32_t block = first; block < (uint32_t)trace->block_count; block++)
            if (trace->blocks[block].live)
                transformer_release(&model, block);
    }
    transformer_finish(&model);
}

void trace_build_prefill(const trace_settings *settings, trace_data *trace) {
    run_prompts(settings, trace, 0, "prefill");
}

void trace_build_growing(const trace_settings *settings, trace_data *trace) {
    run_prompts(settings, trace, 1, "batch");
}

/* ---- decoding ------------------------------------------------------------------------------------------- */

/* The cache of a layer, which grows with every token by being copied into a larger one. */
typedef struct decoder {
    transformer model; /* first */
    key_values *cache;
} decoder;

static uint32_t append(transformer *model, uint32_t old, uint32_t added, uint64_t positions) {
    const trace_settings *const s = model->settings;
    const uint32_t output = transformer_tensor(model, (uint64_t)s->batch * positions *
                                                          (uint64_t)s->kv_heads * model->head);
    transformer_run(model, old, added, output);
    transformer_release(model, old);
    transformer_release(model, added);
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
    decoder own = {.model = transformer_begin(settings, trace)};
    transformer *const model = &own.model;
    const uint64_t rows = (uint64_t)settings->batch;
    own.cache = calloc((size_t)settings->layers, sizeof *own.cache);
    if (own.cache == NULL) {
        trace->short_of_memory = 1;
        transformer_finish(model);
        return;
    }
    model->tag = trace_tag(trace, "kv cache");
    for (int64_t layer = 0; layer < settings->layers; layer++) {
        const uint64_t elements = model->tokens * (uint64_t)settings->kv_heads * model->head;
        own.cache[layer].keys = transformer_tensor(model, elements);
        own.cache[layer].values = transformer_tensor(model, elements);
        own.cache[layer].positions = (uint64_t)settings->sequence;
        transformer_run(model, own.cache[layer].keys, own.cache[layer].values, NO_BLOCK);
    }
    model->tag = trace_tag(trace, "decode");
    for (int64_t step = 0; step < settings->steps; step++) {
        uint32_t state = transformer_embed(model, rows);
        for (int64_t layer = 0; layer < settings->layers; layer++)
            state = transformer_layer(model, layer, state, rows, grow_cache, NULL, 0);
        predict(model, state, rows);
    }
    free(own.cache);
    transformer_finish(model);
}
