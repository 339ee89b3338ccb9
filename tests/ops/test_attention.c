/* Every variant of attention is compared with the oracle on every device: grouped heads, masks,
 * windows, lengths, paged and quantized caches.
 * ctest: device timeout=600 */
#include <math.h>
#include <stdlib.h>

#include <tandem/nn.h>

#include "api/device/core.h"
#include "tests/support/devices/device_cases.h"
#include "tests/support/devices/variant_cases.h"
#include "tests/support/oracle.h"
#include "tests/support/test_array.h"
#include "tests/support/test_case.h"

#define DIMS(...) ((const int64_t[]){__VA_ARGS__})

enum {
    PAGE = 16,
    UNUSED_PAGES = 2,
    ENOUGH_LOCAL = 256 << 10
};

typedef struct attention_shape {
    int64_t batch, heads, kv_heads, queries, keys, width, v_width;
} attention_shape;

/* Slow implementations use only the first shapes. */
static const attention_shape shapes[] = {
    {1, 1, 1, 1, 1, 1, 1},     {2, 4, 2, 5, 7, 8, 8},       {1, 6, 3, 1, 37, 16, 24},
    {2, 2, 1, 17, 33, 20, 12}, {1, 3, 3, 3, 0, 8, 8},       {2, 2, 2, 0, 5, 8, 8},
    {1, 8, 2, 3, 65, 40, 40},  {3, 8, 1, 1, 600, 64, 64},   {1, 2, 1, 70, 130, 64, 64},
    {2, 2, 1, 9, 300, 80, 96}, {1, 2, 2, 40, 40, 128, 128}, {1, 4, 1, 33, 100, 256, 72},
    {1, 1, 1, 2, 70, 300, 8},  {2, 3, 3, 2, 1100, 72, 64},  {1, 1, 1, 130, 257, 33, 130},
};

enum {
    SHAPES = sizeof shapes / sizeof shapes[0],
    SMALL_SHAPES = 7
};

/* Which keys a query sees. */
typedef struct visibility {
    const char *name;
    int causal;
    int64_t window, first_query;
} visibility;

static const visibility visibilities[] = {
    {"all", 0, 0, -1},           {"causal", 1, 0, -1}, {"causal from 0", 1, 0, 0},
    {"causal window", 1, 9, -1}, {"window", 0, 20, 3}, {"nothing", 0, 1, 100000},
};

typedef enum mask_kind {
    NO_MASK,
    FULL_MASK,
    SHARED_MASK, /* [1][1][queries][keys] */
    KEY_MASK,    /* [batch][1][1][keys] */
    MASKS
} mask_kind;

static const char *const mask_names[MASKS] = {"no", "full", "shared", "key"};
static const tdm_dtype types[] = {TDM_F32, TDM_F16, TDM_BF16, TDM_S8};

typedef struct problem {
    attention_shape s;
    tdm_dtype type, kv_type;
    visibility seen;
    mask_kind mask_kind;
    bool has_lengths, paged;
    int64_t group; /* elements that share a scale */
    tdm_attention_options options;
    test_array q, k, v, y, mask, lengths, table, k_scale, v_scale;
    tdm_tensor *k_quantized, *v_quantized;
} problem;

/* ---- the operands ---------------------------------------------------------------------------- */

static int64_t length_of(const problem *p, int64_t batch) {
    if (!p->has_lengths)
        return p->s.keys;
    return batch == 1 ? 0 : p->s.keys * 2 / 3;
}

/* Returns the page of the cache that holds page `index` of a sequence: they are in reverse order,
 * behind an unused one. */
static int64_t page_of(const problem *p, int64_t batch, int64_t index) {
    const int64_t pages = tdm_ceil_div(p->s.keys, PAGE);
    return p->s.batch * pages - 1 - (batch * pages + index) + UNUSED_PAGES / 2;
}

/* Returns the index of a row of k or v among all rows. */
static int64_t row_of_key(const problem *p, int64_t batch, int64_t kv_head, int64_t key) {
    if (!p->paged)
        return (batch * p->s.kv_heads + kv_head) * p->s.keys + key;
    return (page_of(p, batch, key / PAGE) * p->s.kv_heads + kv_head) * PAGE + key % PAGE;
}

/* Returns an element of k or v as the kernels see it. */
static double element(const problem *p, const test_array *array, const test_array *scale,
                      int64_t row, int64_t d) {
    const int64_t width = array->layout.shape[3];
    const double value = test_array_get(array, row * width + d);
    if (p->kv_type != TDM_S8)
        return value;
    return value * test_array_get(scale, row * scale->layout.shape[3] + d / p->group);
}

/* The scales are between 1/256 and 1/64, so that values are near 1. */
static void make_cache(const test_device *device, problem *p, test_array *array, test_array *scale,
                       tdm_tensor **quantized, int64_t width, test_placement placement,
                       uint64_t seed) {
    const int64_t pages = tdm_ceil_div(p->s.keys, PAGE) * p->s.batch + UNUSED_PAGES;
    const int64_t shape[] = {p->paged ? pages : p->s.batch, p->s.kv_heads,
                             p->paged ? PAGE : p->s.keys, width};
    const int64_t scales[] = {shape[0], shape[1], shape[2], tdm_ceil_div(width, p->group)};
    test_random random = {seed};
    test_array_create(array, device, p->kv_type, 4, shape, placement);
    test_array_create(scale, device, TDM_F16, 4, scales, placement);
    for (int64_t i = 0; i < test_array_count(array); i++)
        test_array_put(array, i,
                       p->kv_type == TDM_S8 ? (double)test_random_int(&random, -127, 127)
                                            : test_random_uniform(&random, -1, 1));
    for (int64_t i = 0; i < test_array_count(scale); i++)
        test_array_put(scale, i, test_random_uniform(&random, 0x1p-8, 0x1p-6));
    if (p->kv_type != TDM_S8)
        return;
    tdm_quantization quantization = TDM_QUANTIZATION_INIT;
    quantization.block[0] = quantization.block[1] = quantization.block[2] = 1;
    quantization.block[3] = p->group;
    quantization.scale = scale->tensor;
    TEST_OK(tdm_tensor_quantized(array->tensor, &quantization, quantized));
}

/* Makes the keys that a sequence does not have NaN, which must not reach a result. */
static void poison_unused(problem *p, test_array *array) {
    const int64_t width = array->layout.shape[3];
    if (p->kv_type == TDM_S8 || !p->has_lengths)
        return;
    for (int64_t b = 0; b < p->s.batch; b++)
        for (int64_t h = 0; h < p->s.kv_heads; h++)
            for (int64_t key = length_of(p, b); key < p->s.keys; key++)
                for (int64_t d = 0; d < width; d++)
                    test_array_put(array, row_of_key(p, b, h, key) * width + d, (double)NAN);
}

/* Returns the number of keys that a sequence can have. */
static int64_t mask_keys(const problem *p) {
    return p->paged ? tdm_ceil_div(p->s.keys, PAGE) * PAGE : p->s.keys;
}

static void make_mask(const test_device *device, problem *p, test_placement placement) {
    const attention_shape *const s = &p->s;
    const bool full = p->mask_kind == FULL_MASK, keys_only = p->mask_kind == KEY_MASK;
    const int64_t shape[] = {full || keys_only ? s->batch : 1, full ? s->heads : 1,
                             keys_only ? 1 : s->queries, mask_keys(p)};
    const tdm_dtype type = full ? TDM_F32 : keys_only ? TDM_F16 : TDM_BF16;
    test_random random = {17};
    test_array_create(&p->mask, device, type, 4, shape, placement);
    for (int64_t i = 0; i < test_array_count(&p->mask); i++)
        test_array_put(&p->mask, i,
                       test_random_int(&random, 0, 4) == 0 ? -(double)INFINITY
                                                           : test_random_uniform(&random, -2, 2));
    test_array_send(&p->mask);
    if (p->mask_kind != NO_MASK)
        p->options.mask = p->mask.tensor;
}

/* Table entries of pages that a sequence does not have are wrong, and must not be read. */
static void make_indices(const test_device *device, problem *p, test_placement placement) {
    const int64_t pages = tdm_ceil_div(p->s.keys, PAGE);
    test_array_create(&p->lengths, device, TDM_S32, 1, DIMS(p->s.batch), placement);
    test_array_create(&p->table, device, TDM_S32, 2, DIMS(p->s.batch, pages), placement);
    for (int64_t b = 0; b < p->s.batch; b++) {
        test_array_put(&p->lengths, b, (double)length_of(p, b));
        for (int64_t i = 0; i < pages; i++)
            test_array_put(&p->table, b * pages + i,
                           i * PAGE < length_of(p, b) ? (double)page_of(p, b, i) : 1e9);
    }
    test_array_send(&p->lengths);
    test_array_send(&p->table);
    if (p->has_lengths)
        p->options.lengths = p->lengths.tensor;
    if (p->paged)
        p->options.block_table = p->table.tensor;
}

/* ---- the oracle ------------------------------------------------------------------------------ */

static double mask_at(const problem *p, int64_t b, int64_t h, int64_t i, int64_t key) {
    const attention_shape *const s = &p->s;
    const int64_t keys = mask_keys(p);
    switch (p->mask_kind) {
    case FULL_MASK:
        return test_array_get(&p->mask, ((b * s->heads + h) * s->queries + i) * keys + key);
    case SHARED_MASK:
        return test_array_get(&p->mask, i * keys + key);
    case KEY_MASK:
        return test_array_get(&p->mask, b * keys + key);
    default:
        return 0;
    }
}

static bool sees(const problem *p, int64_t length, int64_t i, int64_t key) {
    const int64_t first = p->seen.first_query < 0 ? length - p->s.queries : p->seen.first_query;
    const int64_t distance = first + i - key;
    return key < length && !(p->seen.causal && distance < 0) &&
           (p->seen.window == 0 || llabs(distance) < p->seen.window);
}

typedef struct score {
    double value, error;
} score;

/* Returns a score and a bound of its error. u = 2^-24: a dot product of n terms has n roundings of
 * its absolute sum; each further step adds a few. */
static score score_of(const problem *p, int64_t b, int64_t h, int64_t i, int64_t key) {
    const attention_shape *const s = &p->s;
    const int64_t row = row_of_key(p, b, h / (s->heads / s->kv_heads), key);
    const double scale = p->options.scale != 0 ? p->options.scale : 1 / sqrt((double)s->width);
    double sum = 0, size = 0;
    for (int64_t d = 0; d < s->width; d++) {
        const double product =
            test_array_get(&p->q, ((b * s->heads + h) * s->queries + i) * s->width + d) *
            element(p, &p->k, &p->k_scale, row, d);
        sum += product;
        size += fabs(product);
    }
    score result = {sum * scale, ((double)s->width + 8) * 0x1p-24 * size * fabs(scale)};
    if (p->options.soft_cap > 0) {
        result.value = p->options.soft_cap * tanh(result.value / p->options.soft_cap);
        result.error += 12 * 0x1p-24 * p->options.soft_cap;
    }
    const double mask = mask_at(p, b, h, i, key);
    result.value += mask;
    result.error += isinf(mask) ? 0 : 4 * 0x1p-24 * (fabs(result.value) + fabs(mask));
    return result;
}

/* A weight has the relative error of its score and of the maximum, and 8 u for 2^x. The sums have
 * at most a rounding for each key. */
static void check_row(const problem *p, int64_t b, int64_t h, int64_t i, double *weights) {
    const attention_shape *const s = &p->s;
    const int64_t length = length_of(p, b);
    double largest = -(double)INFINITY, error = 0, total = 0;
    for (int64_t key = 0; key < s->keys; key++) {
        weights[key] = -(double)INFINITY;
        if (!sees(p, length, i, key))
            continue;
        const score one = score_of(p, b, h, i, key);
        weights[key] = one.value;
        largest = fmax(largest, one.value);
        error = fmax(error, one.error);
    }
    for (int64_t key = 0; key < s->keys; key++) {
        weights[key] = isinf(weights[key]) ? 0 : exp(weights[key] - largest);
        total += weights[key];
    }
    const int64_t kv_head = h / (s->heads / s->kv_heads);
    const double relative = 4 * error + ((double)s->keys + 40) * 0x1p-24;
    for (int64_t d = 0; d < s->v_width; d++) {
        double expected = 0, size = 0;
        for (int64_t key = 0; key < length; key++) {
            if (weights[key] == 0)
                continue;
            const double v = element(p, &p->v, &p->v_scale, row_of_key(p, b, kv_head, key), d);
            expected += weights[key] / total * v;
            size += weights[key] / total * fabs(v);
        }
        const double actual =
            test_array_fetched(&p->y, ((b * s->heads + h) * s->queries + i) * s->v_width + d);
        if (!oracle_matches(p->type, actual, expected, relative * size + 0x1p-126))
            test_case_fail("y[%lld][%lld][%lld][%lld] is %.9g, expected %.9g within %.3g",
                           (long long)b, (long long)h, (long long)i, (long long)d, actual, expected,
                           relative * size);
    }
}

static void check(const problem *p) {
    double *const weights = calloc((size_t)p->s.keys + 1, sizeof *weights);
    for (int64_t b = 0; b < p->s.batch; b++)
        for (int64_t h = 0; h < p->s.heads; h++)
            for (int64_t i = 0; i < p->s.queries; i++)
                check_row(p, b, h, i, weights);
    free(weights);
}

/* ---- every variant --------------------------------------------------------------------------- */

enum {
    F_SHAPE,
    F_Q, /* placements */
    F_K,
    F_V,
    F_Y,
    F_TYPE,
    F_KV_TYPE,
    F_SEEN,
    F_MASK,
    F_LENGTHS,
    F_PAGED,
    F_CAP,
    F_GROUP,
    FACTORS
};

static void make_problem(const test_device *device, problem *p, const int row[]) {
    const attention_shape *const s = &p->s;
    const test_placement q = (test_placement)row[F_Q];
    test_array_create(&p->q, device, p->type, 4, DIMS(s->batch, s->heads, s->queries, s->width), q);
    test_array_create(&p->y, device, p->type, 4, DIMS(s->batch, s->heads, s->queries, s->v_width),
                      (test_placement)row[F_Y]);
    make_cache(device, p, &p->k, &p->k_scale, &p->k_quantized, s->width, (test_placement)row[F_K],
               3);
    make_cache(device, p, &p->v, &p->v_scale, &p->v_quantized, s->v_width, (test_placement)row[F_V],
               5);
    poison_unused(p, &p->k);
    poison_unused(p, &p->v);
    test_array_fill(&p->q, TEST_DATA_UNIT, 7);
    test_array *const all[] = {&p->q, &p->y, &p->k, &p->v, &p->k_scale, &p->v_scale};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        test_array_send(all[i]);
    make_mask(device, p, q);
    make_indices(device, p, q);
}

static void destroy(problem *p) {
    test_array *const all[] = {&p->q,       &p->y,       &p->k,    &p->v,    &p->k_scale,
                               &p->v_scale, &p->lengths, &p->mask, &p->table};
    tdm_tensor_destroy(p->k_quantized);
    tdm_tensor_destroy(p->v_quantized);
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        test_array_destroy(all[i]);
}

static void one_case(const test_device *device, const tdm_variant *variant, const int row[]) {
    problem p = {.s = shapes[row[F_SHAPE]],
                 .type = types[row[F_TYPE]],
                 .kv_type = types[row[F_KV_TYPE]],
                 .seen = visibilities[row[F_SEEN]],
                 .mask_kind = (mask_kind)row[F_MASK],
                 .has_lengths = row[F_LENGTHS] != 0,
                 .paged = row[F_PAGED] != 0,
                 .group = row[F_GROUP] == 0   ? 32
                          : row[F_GROUP] == 1 ? 8
                                              : 1000,
                 .options = TDM_ATTENTION_OPTIONS_INIT};
    const attention_shape *const s = &p.s;
    // A page table gives the sequences whole pages.
    if (p.paged)
        p.has_lengths = true;
    if (!test_case_begin(
            device, variant->name,
            "%lldx%lldx%lld queries %lld keys %lld width %lld %lld %s cache %s groups %lld q %s "
            "k %s v %s y %s sees %s %s mask%s%s%s",
            (long long)s->batch, (long long)s->heads, (long long)s->kv_heads, (long long)s->queries,
            (long long)s->keys, (long long)s->width, (long long)s->v_width, tdm_dtype_name(p.type),
            tdm_dtype_name(p.kv_type), (long long)p.group,
            test_placement_name((test_placement)row[F_Q]),
            test_placement_name((test_placement)row[F_K]),
            test_placement_name((test_placement)row[F_V]),
            test_placement_name((test_placement)row[F_Y]), p.seen.name, mask_names[p.mask_kind],
            p.has_lengths ? " lengths" : "", p.paged ? " paged" : "", row[F_CAP] ? " cap" : ""))
        return;
    p.options.causal = p.seen.causal;
    p.options.window = p.seen.window;
    p.options.first_query = p.seen.first_query;
    p.options.soft_cap = row[F_CAP] ? 0.75 : 0;
    p.options.scale = row[F_CAP] == 2 ? -0.5 : 0;
    make_problem(device, &p, row);
    tdm_force_variant(variant->name);
    const tdm_status status =
        tdm_attention(device->stream, p.q.tensor, p.k_quantized ? p.k_quantized : p.k.tensor,
                      p.v_quantized ? p.v_quantized : p.v.tensor, &p.options, p.y.tensor);
    tdm_force_variant(NULL);
    const int most = variant->parameters[2];
    const bool fits = most == 0 || (s->width <= most && s->v_width <= most);
    // Forms 1 and 2 need local memory; 2 takes few rows.
    const bool may_refuse =
        variant->parameters[0] == 2 ||
        (variant->parameters[0] == 1 && device->info.local_bytes < ENOUGH_LOCAL);
    if (status != TDM_UNSUPPORTED || (fits && !may_refuse)) {
        TEST_OK(status);
        test_array_fetch(&p.y);
        check(&p);
        if (test_array_count(&p.y) > 0)
            test_case_end();
    }
    destroy(&p);
}

TEST(every_variant) {
    const int levels[FACTORS] = {test_is_small() ? SMALL_SHAPES : SHAPES,
                                 TEST_PLACEMENTS,
                                 TEST_PLACEMENTS,
                                 TEST_PLACEMENTS,
                                 TEST_PLACEMENTS,
                                 3,
                                 4,
                                 sizeof visibilities / sizeof *visibilities,
                                 MASKS,
                                 2,
                                 2,
                                 3,
                                 3};
    test_every_variant(TDM_OP_ATTENTION, FACTORS, levels, one_case);
}

/* ---- memory and recording -------------------------------------------------------------------- */

/* A tensor of 16384 × 16384 scores has a GiB. Attention allocates nothing. */
DEVICE_TEST(long_sequences_need_no_matrix_of_scores) {
    const int64_t n = test_is_small() ? 64 : 16384;
    tdm_tensor *q, *y;
    tdm_memory_stats stats;
    TEST_OK(tdm_tensor_create(device->device, TDM_F16, 4, DIMS(1, 1, n, 8), &q));
    TEST_OK(tdm_tensor_create(device->device, TDM_F16, 4, DIMS(1, 1, n, 8), &y));
    TEST_OK(tdm_tensor_fill(device->stream, 0.5, q));
    tdm_attention_options options = TDM_ATTENTION_OPTIONS_INIT;
    options.causal = 1;
    TEST_OK(tdm_attention(device->stream, q, q, q, &options, y));
    TEST_OK(tdm_stream_synchronize(device->stream));
    stats.struct_size = sizeof stats;
    TEST_OK(tdm_device_reset_peaks(device->device));
    TEST_OK(tdm_device_memory_stats(device->device, &stats));
    const uint64_t before = stats.requested_peak;
    TEST_OK(tdm_attention(device->stream, q, q, q, &options, y));
    TEST_OK(tdm_stream_synchronize(device->stream));
    TEST_OK(tdm_device_memory_stats(device->device, &stats));
    const uint64_t most = (uint64_t)n * 8 * sizeof(float);
    if (stats.requested_peak - before > most)
        test_case_fail("attention of %lld positions allocated %llu bytes, at most %llu are right",
                       (long long)n, (unsigned long long)(stats.requested_peak - before),
                       (unsigned long long)most);
    tdm_tensor_destroy(q);
    tdm_tensor_destroy(y);
}

/* The keys of one query are split, and the graph keeps the memory of the parts. */
DEVICE_TEST(a_recorded_call_gives_the_same) {
    enum {
        KEYS = 700,
        WIDTH = 8
    };
    test_array q, k, y;
    float first[WIDTH], replayed[WIDTH];
    tdm_graph *graph;
    tdm_stream *const s = device->stream;
    test_array_create(&q, device, TDM_F32, 4, DIMS(1, 1, 1, WIDTH), TEST_DENSE);
    test_array_create(&k, device, TDM_F32, 4, DIMS(1, 1, KEYS, WIDTH), TEST_DENSE);
    test_array_create(&y, device, TDM_F32, 4, DIMS(1, 1, 1, WIDTH), TEST_DENSE);
    test_array_fill(&q, TEST_DATA_UNIT, 1);
    test_array_fill(&k, TEST_DATA_UNIT, 2);
    TEST_OK(tdm_attention(s, q.tensor, k.tensor, k.tensor, NULL, y.tensor));
    TEST_OK(tdm_tensor_read(s, y.tensor, first, sizeof first, NULL));
    TEST_OK(tdm_stream_begin_recording(s));
    TEST_OK(tdm_attention(s, q.tensor, k.tensor, k.tensor, NULL, y.tensor));
    TEST_OK(tdm_stream_end_recording(s, &graph));
    for (int run = 0; run < 2; run++) {
        TEST_OK(tdm_tensor_fill(s, 9, y.tensor));
        TEST_OK(tdm_graph_launch(graph, s));
        TEST_OK(tdm_tensor_read(s, y.tensor, replayed, sizeof replayed, NULL));
        for (int d = 0; d < WIDTH; d++)
            if (first[d] != replayed[d])
                test_case_fail("element %d is %.9g, %.9g before", d, (double)replayed[d],
                               (double)first[d]);
    }
    tdm_graph_destroy(graph);
    test_array_destroy(&q);
    test_array_destroy(&k);
    test_array_destroy(&y);
}

/* ---- special values -------------------------------------------------------------------------- */

/* A page that the table gives wrongly makes every result of a row NaN. */
DEVICE_TEST(wrong_pages_give_nan) {
    const int32_t pages[2] = {0, 5}, lengths[1] = {20};
    float y[2][8];
    tdm_tensor *q, *cache, *table, *length, *result;
    tdm_stream *const s = device->stream;
    TEST_OK(tdm_tensor_create(device->device, TDM_F32, 4, DIMS(1, 1, 2, 8), &q));
    TEST_OK(tdm_tensor_create(device->device, TDM_F32, 4, DIMS(1, 1, 2, 8), &result));
    TEST_OK(tdm_tensor_create(device->device, TDM_F32, 4, DIMS(2, 1, 16, 8), &cache));
    TEST_OK(tdm_tensor_create(device->device, TDM_S32, 2, DIMS(1, 2), &table));
    TEST_OK(tdm_tensor_create(device->device, TDM_S32, 1, DIMS(1), &length));
    TEST_OK(tdm_tensor_fill(s, 1, q));
    TEST_OK(tdm_tensor_fill(s, 1, cache));
    TEST_OK(tdm_tensor_write(s, pages, sizeof pages, NULL, table));
    TEST_OK(tdm_tensor_write(s, lengths, sizeof lengths, NULL, length));
    tdm_attention_options options = TDM_ATTENTION_OPTIONS_INIT;
    options.block_table = table;
    options.lengths = length;
    options.causal = 1;
    options.first_query = 15;
    // The first query sees the first page alone.
    TEST_OK(tdm_attention(s, q, cache, cache, &options, result));
    TEST_OK(tdm_tensor_read(s, result, y, sizeof y, NULL));
    for (int d = 0; d < 8; d++)
        if (y[0][d] == y[0][d] && fabsf(y[0][d] - 1) > 1e-5F)
            test_case_fail("y[0][%d] is %g", d, (double)y[0][d]);
        else if (y[1][d] == y[1][d])
            test_case_fail("y[1][%d] is %g, must be NaN", d, (double)y[1][d]);
    tdm_tensor *const all[] = {q, cache, table, length, result};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        tdm_tensor_destroy(all[i]);
}

/* ---- misuse ---------------------------------------------------------------------------------- */

DEVICE_TEST(misuse_is_refused) {
    tdm_stream *const s = device->stream;
    tdm_tensor *q, *k, *v, *y, *small, *half, *integers, *three, *five, *plain, *batch, *table;
    struct {
        tdm_tensor **tensor;
        tdm_dtype dtype;
        int rank;
        int64_t shape[4];
    } const all[] = {{&q, TDM_F32, 4, {2, 4, 3, 8}},     {&k, TDM_F32, 4, {2, 2, 5, 8}},
                     {&v, TDM_F32, 4, {2, 2, 5, 6}},     {&y, TDM_F32, 4, {2, 4, 3, 6}},
                     {&small, TDM_F32, 4, {2, 2, 4, 8}}, {&half, TDM_F16, 4, {2, 4, 3, 6}},
                     {&integers, TDM_S32, 1, {2}},       {&three, TDM_F32, 3, {2, 4, 3}},
                     {&five, TDM_F32, 4, {2, 3, 5, 8}},  {&plain, TDM_S8, 4, {2, 2, 5, 8}},
                     {&batch, TDM_S32, 1, {3}},          {&table, TDM_S32, 2, {2, 1}}};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        TEST_OK(tdm_tensor_create(device->device, all[i].dtype, all[i].rank, all[i].shape,
                                  all[i].tensor));
    TEST_REFUSED(tdm_attention(s, NULL, k, v, NULL, y), TDM_BAD_ARGUMENT, "q is NULL");
    TEST_REFUSED(tdm_attention(s, q, NULL, v, NULL, y), TDM_BAD_ARGUMENT, "k is NULL");
    TEST_REFUSED(tdm_attention(s, q, k, NULL, NULL, y), TDM_BAD_ARGUMENT, "v is NULL");
    TEST_REFUSED(tdm_attention(s, q, k, v, NULL, NULL), TDM_BAD_ARGUMENT, "y is NULL");
    TEST_REFUSED(tdm_attention(s, three, k, v, NULL, y), TDM_BAD_SHAPE, "q has rank 3");
    TEST_REFUSED(tdm_attention(s, q, v, v, NULL, y), TDM_BAD_SHAPE,
                 "k has shape [2, 2, 5, 6], but dimension 3 must be 8, the width of q");
    TEST_REFUSED(tdm_attention(s, q, small, v, NULL, y), TDM_BAD_SHAPE, "dimension 2 must be 4");
    TEST_REFUSED(tdm_attention(s, q, five, v, NULL, y), TDM_BAD_SHAPE, "the heads of k");
    TEST_REFUSED(tdm_attention(s, q, five, five, NULL, q), TDM_BAD_SHAPE,
                 "the 4 heads of q are no multiple of k's 3");
    TEST_REFUSED(tdm_attention(s, q, k, k, NULL, y), TDM_BAD_SHAPE, "the width of v");
    TEST_REFUSED(tdm_attention(s, q, k, v, NULL, half), TDM_BAD_DTYPE, "q is f32 but y is f16");
    TEST_REFUSED(tdm_attention(s, q, plain, v, NULL, y), TDM_UNSUPPORTED, "k is s8 without scales");
    TEST_REFUSED(tdm_attention(s, q, k, k, NULL, q), TDM_BAD_ARGUMENT, "y overlaps q");
#define REFUSED_WITH(field, value, status, text)                                                   \
    do {                                                                                           \
        tdm_attention_options options = TDM_ATTENTION_OPTIONS_INIT;                                \
        options.field = value;                                                                     \
        TEST_REFUSED(tdm_attention(s, q, k, v, &options, y), status, text);                        \
    } while (0)
    REFUSED_WITH(scale, (double)NAN, TDM_BAD_ARGUMENT, "scale is");
    REFUSED_WITH(soft_cap, -1, TDM_BAD_ARGUMENT, "soft_cap is -1");
    REFUSED_WITH(causal, 2, TDM_BAD_ARGUMENT, "causal is 2");
    REFUSED_WITH(window, -3, TDM_BAD_ARGUMENT, "window is -3");
    REFUSED_WITH(first_query, -2, TDM_BAD_ARGUMENT, "first_query is -2");
    REFUSED_WITH(struct_size, 3, TDM_BAD_ARGUMENT, "struct_size of options is 3");
    REFUSED_WITH(mask, q, TDM_BAD_SHAPE, "mask of shape [2, 4, 3, 8] does not broadcast");
    REFUSED_WITH(mask, integers, TDM_UNSUPPORTED, "mask is s32");
    REFUSED_WITH(lengths, three, TDM_BAD_DTYPE, "lengths is f32, must be s32");
    REFUSED_WITH(lengths, batch, TDM_BAD_SHAPE, "the batch of q");
    REFUSED_WITH(block_table, integers, TDM_BAD_SHAPE, "block_table has rank 1");
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        tdm_tensor_destroy(*all[i].tensor);
}

TEST_MAIN(test_devices_setup, test_devices_teardown)
