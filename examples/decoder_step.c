/*
 * Runs one block of a small decoder, token by token, on the device. It has 4-bit weights, an f16 KV
 * cache and grouped queries. Each position's result is compared with a double-precision
 * computation.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tandem/tandem.h>

enum {
    WIDTH = 256,
    HEADS = 8,
    KV_HEADS = 2,
    GROUP = HEADS / KV_HEADS,
    HEAD = WIDTH / HEADS
};
enum {
    KV_WIDTH = KV_HEADS * HEAD,
    HIDDEN = 512,
    POSITIONS = 16
};

static const double epsilon = 1e-5;
static tdm_device *device;
static tdm_stream *stream;

static void check(tdm_status status) {
    if (status == TDM_OK)
        return;
    fprintf(stderr, "decoder_step: %s\n", tdm_last_detail());
    exit(1);
}

/* ---- tensors --------------------------------------------------------------------------------- */

static tdm_tensor *make(tdm_dtype dtype, int rank, int64_t first, int64_t second) {
    const int64_t shape[2] = {first, second};
    tdm_tensor *tensor;
    check(tdm_tensor_create(device, dtype, rank, shape, &tensor));
    return tensor;
}

static tdm_tensor *reshaped(const tdm_tensor *tensor, int64_t heads, int64_t positions) {
    const int64_t shape[4] = {1, heads, positions, HEAD};
    tdm_tensor *view;
    check(tdm_tensor_reshape(tensor, 4, shape, &view));
    return view;
}

static void fill_at_random(float *values, int count, float scale) {
    static unsigned state = 1;
    for (int i = 0; i < count; i++) {
        state = state * 1664525u + 1013904223u;
        values[i] = scale * ((float)(state >> 8) / 8388608.0f - 1);
    }
}

/*
 * The weight W of y = x * W^T: 4-bit, [outputs][inputs], with a scale per 32 inputs. `host` holds
 * the dequantized weights.
 */
typedef struct weight {
    int outputs, inputs;
    tdm_tensor *codes, *transposed;
    float *host;
} weight;

static weight make_weight(int outputs, int inputs) {
    weight w = {outputs, inputs, NULL, NULL, NULL};
    const size_t bytes = (size_t)outputs * (size_t)inputs * sizeof(float);
    tdm_tensor *const numbers = make(TDM_F32, 2, outputs, inputs);
    w.host = malloc(bytes);
    if (!w.host)
        exit(1);
    fill_at_random(w.host, outputs * inputs, 1.7f / sqrtf((float)inputs));
    check(tdm_tensor_write(stream, w.host, bytes, NULL, numbers));
    check(tdm_tensor_create_quantized(device, TDM_S4, 2, (const int64_t[]){outputs, inputs},
                                      (const int64_t[]){1, 32}, TDM_F16, TDM_DTYPE_NONE, &w.codes));
    check(tdm_tensor_quantize_minmax(stream, numbers, w.codes));
    check(tdm_tensor_dequantize(stream, w.codes, numbers));
    check(tdm_tensor_read(stream, numbers, w.host, bytes, NULL));
    // The view keeps the scales and groups.
    check(tdm_tensor_transpose(w.codes, NULL, &w.transposed));
    tdm_tensor_destroy(numbers);
    return w;
}

static void free_weight(weight *w) {
    tdm_tensor_destroy(w->codes);
    tdm_tensor_destroy(w->transposed);
    free(w->host);
}

static struct {
    weight query, key, value, output, gate, up, down;
    float gain_host[WIDTH];
    tdm_tensor *gain, *frequencies, *position;
    tdm_tensor *keys, *values; /* the cache, [1][heads][positions][head] of f16 */
    tdm_tensor *length;        /* positions of the cache that have values */
    tdm_tensor *x, *normal;    /* the residual stream; the normalized values */
    tdm_tensor *q, *k, *v, *attended;
    tdm_tensor *query_heads, *attended_heads; /* views of q and attended, [1][heads][1][head] */
    tdm_tensor *gated;
} m;

/* ---- the step -------------------------------------------------------------------------------- */

static void multiply(const tdm_tensor *x, const weight *w, tdm_tensor *y,
                     const tdm_tensor *residual) {
    const tdm_gemm_epilogue epilogue = {.struct_size = sizeof epilogue, .residual = residual};
    check(tdm_gemm(stream, 1, x, w->transposed, 0, NULL, y, &epilogue));
}

/* Computes the gated linear unit y = silu(x · w) · up, SwiGLU. */
static void gate(const tdm_tensor *x, const weight *w, const tdm_tensor *up, tdm_tensor *y) {
    const tdm_gemm_epilogue epilogue = {
        .struct_size = sizeof epilogue, .activation = TDM_ACT_SILU, .residual = up, .gated = 1};
    check(tdm_gemm(stream, 1, x, w->transposed, 0, NULL, y, &epilogue));
}

/* Computes normal = x / sqrt(mean of x^2 + epsilon) * gain. */
static void normalize(void) {
    tdm_norm_operands operands = TDM_NORM_OPERANDS_INIT;
    operands.scale = m.gain;
    check(tdm_norm(stream, TDM_NORM_RMS, m.x, (float)epsilon, &operands, m.normal));
}

/* Turns the pairs (2i, 2i + 1) of each head in place. x is [1][heads * HEAD]. */
static void rotate(tdm_tensor *x, int heads) {
    tdm_tensor *const rows = reshaped(x, heads, 1);
    check(tdm_rope(stream, TDM_ROPE_INTERLEAVED, rows, m.position, m.frequencies, rows));
    tdm_tensor_destroy(rows);
}

/* Stores x, rounded to f16, at position `position` of the cache. */
static void store(tdm_tensor *cache, int position, const tdm_tensor *x) {
    tdm_tensor *const entry = reshaped(x, KV_HEADS, 1), *place;
    check(tdm_tensor_slice(cache, 2, position, position + 1, 1, &place));
    check(tdm_tensor_convert(stream, entry, place));
    tdm_tensor_destroy(place);
    tdm_tensor_destroy(entry);
}

/* Computes the attention of the new query over the first `length` positions of the cache. */
static void attend(int length) {
    tdm_attention_options options = TDM_ATTENTION_OPTIONS_INIT;
    options.lengths = m.length;
    check(tdm_tensor_fill(stream, length, m.length));
    check(tdm_attention(stream, m.query_heads, m.keys, m.values, &options, m.attended_heads));
}

static void step(int position) {
    normalize();
    multiply(m.normal, &m.query, m.q, NULL);
    multiply(m.normal, &m.key, m.k, NULL);
    multiply(m.normal, &m.value, m.v, NULL);
    check(tdm_tensor_fill(stream, position, m.position));
    rotate(m.q, HEADS);
    rotate(m.k, KV_HEADS);
    store(m.keys, position, m.k);
    store(m.values, position, m.v);
    attend(position + 1);
    multiply(m.attended, &m.output, m.x, m.x); // D may be the residual
    normalize();
    multiply(m.normal, &m.up, m.gated, NULL);
    gate(m.normal, &m.gate, m.gated, m.gated);
    multiply(m.gated, &m.down, m.x, m.x);
}

/* ---- the double-precision reference ---------------------------------------------------------- */

static double keys_host[KV_HEADS][POSITIONS][HEAD], values_host[KV_HEADS][POSITIONS][HEAD];

static void multiply_host(const double *x, const weight *w, double *y) {
    for (int j = 0; j < w->outputs; j++) {
        y[j] = 0;
        for (int i = 0; i < w->inputs; i++)
            y[j] += x[i] * (double)w->host[j * w->inputs + i];
    }
}

static void normalize_host(const double *x, double *y) {
    double mean = 0;
    for (int i = 0; i < WIDTH; i++)
        mean += x[i] * x[i] / WIDTH;
    for (int i = 0; i < WIDTH; i++)
        y[i] = x[i] / sqrt(mean + epsilon) * (double)m.gain_host[i];
}

static void rotate_host(double *x, int heads, int position) {
    for (int i = 0; i < heads * HEAD; i += 2) {
        const double angle = position / pow(10000, i % HEAD / (double)HEAD);
        const double a = x[i], b = x[i + 1];
        x[i] = a * cos(angle) - b * sin(angle);
        x[i + 1] = b * cos(angle) + a * sin(angle);
    }
}

static void attend_host(const double *q, int head, int length, double *y) {
    double scores[POSITIONS], sum = 0;
    for (int p = 0; p < length; p++) {
        scores[p] = 0;
        for (int i = 0; i < HEAD; i++)
            scores[p] += q[i] * keys_host[head / GROUP][p][i] / sqrt(HEAD);
        scores[p] = exp(scores[p]);
        sum += scores[p];
    }
    for (int i = 0; i < HEAD; i++) {
        y[i] = 0;
        for (int p = 0; p < length; p++)
            y[i] += scores[p] / sum * values_host[head / GROUP][p][i];
    }
}

static void step_host(int position, double *x) {
    double normal[WIDTH], q[WIDTH], k[KV_WIDTH], v[KV_WIDTH], y[WIDTH], gated[HIDDEN],
        upper[HIDDEN];
    normalize_host(x, normal);
    multiply_host(normal, &m.query, q);
    multiply_host(normal, &m.key, k);
    multiply_host(normal, &m.value, v);
    rotate_host(q, HEADS, position);
    rotate_host(k, KV_HEADS, position);
    for (int i = 0; i < KV_WIDTH; i++) {
        keys_host[i / HEAD][position][i % HEAD] = k[i];
        values_host[i / HEAD][position][i % HEAD] = v[i];
    }
    for (int head = 0; head < HEADS; head++)
        attend_host(q + head * HEAD, head, position + 1, normal + head * HEAD);
    multiply_host(normal, &m.output, y);
    for (int i = 0; i < WIDTH; i++)
        x[i] += y[i];
    normalize_host(x, normal);
    multiply_host(normal, &m.gate, gated);
    multiply_host(normal, &m.up, upper);
    for (int i = 0; i < HIDDEN; i++)
        gated[i] *= upper[i] / (1 + exp(-gated[i]));
    multiply_host(gated, &m.down, y);
    for (int i = 0; i < WIDTH; i++)
        x[i] += y[i];
}

/* ---- the program ----------------------------------------------------------------------------- */

static void make_model(void) {
    m.query = make_weight(WIDTH, WIDTH);
    m.key = make_weight(KV_WIDTH, WIDTH);
    m.value = make_weight(KV_WIDTH, WIDTH);
    m.output = make_weight(WIDTH, WIDTH);
    m.gate = make_weight(HIDDEN, WIDTH);
    m.up = make_weight(HIDDEN, WIDTH);
    m.down = make_weight(WIDTH, HIDDEN);
    fill_at_random(m.gain_host, WIDTH, 1);
    const tdm_rope_desc rope = TDM_ROPE_DESC_INIT;
    m.frequencies = make(TDM_F32, 2, 3, HEAD / 2);
    check(tdm_rope_frequencies(stream, &rope, m.frequencies));
    m.gain = make(TDM_F32, 1, WIDTH, 0);
    check(tdm_tensor_write(stream, m.gain_host, sizeof m.gain_host, NULL, m.gain));
}

static void make_places(void) {
    const int64_t cache[4] = {1, KV_HEADS, POSITIONS, HEAD};
    check(tdm_tensor_create(device, TDM_F16, 4, cache, &m.keys));
    check(tdm_tensor_create(device, TDM_F16, 4, cache, &m.values));
    m.length = make(TDM_S32, 1, 1, 0);
    m.position = make(TDM_S32, 0, 0, 0);
    m.x = make(TDM_F32, 2, 1, WIDTH);
    m.normal = make(TDM_F32, 2, 1, WIDTH);
    m.q = make(TDM_F32, 2, 1, WIDTH);
    m.k = make(TDM_F32, 2, 1, KV_WIDTH);
    m.v = make(TDM_F32, 2, 1, KV_WIDTH);
    m.attended = make(TDM_F32, 2, 1, WIDTH);
    m.query_heads = reshaped(m.q, HEADS, 1);
    m.attended_heads = reshaped(m.attended, HEADS, 1);
    m.gated = make(TDM_F32, 2, 1, HIDDEN);
}

static void free_all(void) {
    weight *const weights[] = {&m.query, &m.key, &m.value, &m.output, &m.gate, &m.up, &m.down};
    tdm_tensor *const tensors[] = {
        m.gain,           m.frequencies, m.position, m.keys, m.values, m.x,
        m.normal,         m.q,           m.k,        m.v,    m.length, m.attended,
        m.attended_heads, m.query_heads, m.gated};
    for (size_t i = 0; i < sizeof weights / sizeof *weights; i++)
        free_weight(weights[i]);
    for (size_t i = 0; i < sizeof tensors / sizeof *tensors; i++)
        tdm_tensor_destroy(tensors[i]);
}

/* Returns the largest difference, relative to this position's largest double-precision value. */
static double run_position(int position) {
    float token[WIDTH], got[WIDTH];
    double exact[WIDTH], difference = 0, greatest = 0;
    fill_at_random(token, WIDTH, 1); // a row of the embedding
    for (int i = 0; i < WIDTH; i++)
        exact[i] = (double)token[i];
    check(tdm_tensor_write(stream, token, sizeof token, NULL, m.x));
    step(position);
    step_host(position, exact);
    check(tdm_tensor_read(stream, m.x, got, sizeof got, NULL));
    for (int i = 0; i < WIDTH; i++) {
        difference = fmax(difference, fabs((double)got[i] - exact[i]));
        greatest = fmax(greatest, fabs(exact[i]));
    }
    return difference / greatest;
}

/* Uses the first device, or the one that the argument names: "pocl", "opencl/rusticl", "0". */
int main(int argc, char **argv) {
    tdm_context *context;
    int index = 0;
    double worst = 0;
    check(tdm_context_create(NULL, &context));
    if (argc > 1)
        check(tdm_context_find_device(context, argv[1], &index));
    check(tdm_device_get(context, index, &device));
    check(tdm_stream_create(device, &stream));
    make_model();
    make_places();
    for (int position = 0; position < POSITIONS; position++)
        worst = fmax(worst, run_position(position));
    printf("%d positions: greatest difference %.0e of the greatest number\n", POSITIONS, worst);
    free_all();
    tdm_stream_destroy(stream);
    tdm_device_release(device);
    tdm_context_destroy(context);
    return !(worst < 1e-3); // with keys and values in f16, the error is 5e-4
}
