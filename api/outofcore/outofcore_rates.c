/*
 * These functions measure the speed of copies and of GEMMs once per device. The device keeps the
 * results.
 *
 * GEMMs are measured on a piece of the problem, with its own types, layout and kernel. All operands
 * are zeros, which does not change the speed of the arithmetic.
 */
#include <string.h>
#include <time.h>

#include "api/device/memory/memory_pool.h"
#include "api/outofcore/outofcore_internal.h"

#define LINK_BYTES ((size_t)8 << 20)
#define HOST_BYTES ((size_t)32 << 20)
#define MIN_LINK_BYTES ((size_t)64 << 10) /* smaller copies do not show the rate */
#define SMALL_BYTES 4096
#define ROUNDS 4
#define PROBE_EXTENT 512
/* If the small piece takes less than SOON_S, a larger one is measured too. Packing and waiting then
 * have about the same share as in tiles. */
#define LARGE_EXTENT 1024
#define SOON_S 0.02
/* A round lasts about this long, but has at most 64 GEMMs. */
#define ROUND_S 0.004
#define PROBE_DEPTH 2048
#define MIN_PROBE_EXTENT 16
#define PROBE_TRIES 8
#define KNOWN_PRODUCTS 64
/* With this many rows or columns a GEMM reaches half its speed, because blocks and launches are not
 * full. */
#define HALF_SPEED 24.0
/* These rates are used if nothing can be measured. */
#define ASSUMED_BYTES_PER_S 5e9
#define ASSUMED_OPERATIONS_PER_S 2e10
#define ASSUMED_STEP_S 20e-6

/* These are the types, layout and size of a measured GEMM. */
typedef struct product_key {
    int op, a, b, d, quantize_a, allow_3xtf32, activation, a_along, b_along, d_along;
    int deep, large; /* size of the piece as powers of two: K, rows times columns */
    char variant[96];
} product_key;

typedef struct known_product {
    product_key key;
    double operations_per_s;
} known_product;

typedef struct known_rates {
    size_t link_bytes; /* of the measured copies, 0: none */
    tdm_outofcore_rates link;
    int overlap;
    int count;
    known_product products[KNOWN_PRODUCTS];
} known_rates;

/* Measurements disturb each other, so only one runs in the process. The mutex also guards every
 * device's `outofcore`. */
static pthread_mutex_t measuring = PTHREAD_MUTEX_INITIALIZER;

/* Starts a measurement. It suspends users' memory callbacks, which might drop data. Without memory
 * a measurement is skipped. */
static void begin_measuring(void) {
    pthread_mutex_lock(&measuring);
    tdm_memory_callbacks_hold(1);
}

static void end_measuring(void) {
    tdm_memory_callbacks_hold(-1);
    pthread_mutex_unlock(&measuring);
}

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

double tdm_ooc_efficiency(int64_t rows, int64_t columns) {
    const double m = rows > 0 ? (double)rows : 1.0, n = columns > 0 ? (double)columns : 1.0;
    return m / (m + HALF_SPEED) * (n / (n + HALF_SPEED));
}

/* ---- the link -------------------------------------------------------------------------------- */

typedef struct link_probe {
    tdm_stream *stream;
    tdm_buffer *buffer;
    unsigned char *host;
    size_t bytes; /* of one copy */
} link_probe;

/* Times one copy and a wait. The host address changes every round, so that it does not stay in a
 * cache. Returns seconds, or a negative number on failure. */
static double time_copy(const link_probe *probe, bool writes, size_t bytes, int round) {
    unsigned char *const host = probe->host + (size_t)round * LINK_BYTES % HOST_BYTES;
    const double start = now();
    tdm_status status = writes ? tdm_buffer_write(probe->stream, probe->buffer, 0, host, bytes)
                               : tdm_buffer_read(probe->stream, probe->buffer, 0, host, bytes);
    // Always wait for enqueued work: the host memory is freed afterwards.
    const tdm_status waited = tdm_stream_wait_always(probe->stream);
    if (status == TDM_OK)
        status = waited;
    return status == TDM_OK ? now() - start : -1.0;
}

/* Finds the fastest of several copies, after a warm-up. */
static bool fastest_copy(const link_probe *probe, bool writes, size_t bytes, double *seconds) {
    *seconds = -1.0;
    for (int round = 0; round <= ROUNDS; round++) {
        const double took = time_copy(probe, writes, bytes, round);
        if (took < 0.0)
            return false;
        if (round > 0 && (*seconds < 0.0 || took < *seconds))
            *seconds = took;
    }
    return *seconds > 0.0;
}

static bool time_link(const link_probe *probe, tdm_outofcore_rates *link) {
    double in, out, step;
    if (!fastest_copy(probe, true, probe->bytes, &in) ||
        !fastest_copy(probe, false, probe->bytes, &out) ||
        !fastest_copy(probe, true, SMALL_BYTES, &step))
        return false;
    link->step_s = step;
    link->in_bytes_per_s = (double)probe->bytes / (in > 2.0 * step ? in - step : in);
    link->out_bytes_per_s = (double)probe->bytes / (out > 2.0 * step ? out - step : out);
    return true;
}

static bool measure_link(tdm_device *device, size_t bytes, tdm_outofcore_rates *link) {
    link_probe probe = {.stream = NULL, .bytes = bytes};
    bool measured = false;
    probe.host = tdm_host_alloc(HOST_BYTES);
    if (probe.host)
        memset(probe.host, 0, HOST_BYTES);
    if (probe.host && tdm_stream_create(device, &probe.stream) == TDM_OK &&
        tdm_buffer_create_for(device, probe.stream->id, bytes, &probe.buffer) == TDM_OK)
        measured = time_link(&probe, link);
    tdm_buffer_destroy(probe.buffer);
    tdm_stream_destroy(probe.stream);
    tdm_host_free(probe.host);
    return measured;
}

/* Measures the link with copies as large as the budget allows. It measures again if earlier copies
 * were less than half as large. */
static bool know_link(tdm_device *device, uint64_t budget, known_rates *known) {
    const size_t bytes = budget < LINK_BYTES ? (size_t)budget : LINK_BYTES;
    tdm_outofcore_rates link = {0};
    if (known->link_bytes >= bytes / 2 && known->link_bytes > 0)
        return true;
    if (bytes >= MIN_LINK_BYTES && measure_link(device, bytes, &link)) {
        known->link = link;
        known->link_bytes = bytes;
    }
    return known->link_bytes > 0;
}

/* ---- GEMMs ----------------------------------------------------------------------------------- */

/* This is a piece of the problem that is measured with its own operands. */
typedef struct product_probe {
    tdm_ooc_problem problem;
    int64_t m, n, k;
    tdm_stream *streams[2];
    tdm_gemm_plan *plan;
    tdm_ooc_places places;
    tdm_buffer *link;
    unsigned char *host;
    double operations;
} product_probe;

static tdm_status zeroed(tdm_device *device, tdm_stream *stream, uint64_t bytes,
                         tdm_buffer **buffer) {
    static const unsigned char zero[8];
    const size_t whole = ((size_t)bytes + sizeof zero) / sizeof zero * sizeof zero;
    TDM_TRY(tdm_buffer_create_for(device, stream->id, whole, buffer));
    return tdm_enqueue_fill(stream, "outofcore: measuring", (*buffer)->block, 0, whole, zero,
                            sizeof zero);
}

static tdm_status place_operands(tdm_device *device, product_probe *probe) {
    tdm_stream *const stream = probe->streams[0];
    for (int i = 0; i < TDM_OOC_MATRICES; i++)
        if (probe->problem.operands[i].present)
            TDM_TRY(zeroed(device, stream, probe->problem.operands[i].slot_bytes,
                           &probe->places.matrix[i]));
    for (int i = 0; i < TDM_OOC_CONSTANTS; i++)
        if (probe->problem.constants[i].layout.dtype != TDM_DTYPE_NONE)
            TDM_TRY(zeroed(device, stream, probe->problem.constants[i].bytes,
                           &probe->places.constant[i]));
    if (probe->plan->workspace_bytes > 0)
        TDM_TRY(tdm_buffer_create_for(device, stream->id, (size_t)probe->plan->workspace_bytes,
                                      &probe->places.workspace));
    return tdm_stream_wait_always(stream);
}

static int64_t at_most(int64_t extent, int64_t most) {
    return extent < most ? extent : most;
}

/* Returns the bytes of the piece's operands and parameters. */
static uint64_t probe_bytes(product_probe *probe) {
    tdm_ooc_problem *const p = &probe->problem;
    uint64_t bytes = 0;
    tdm_ooc_arrange(p, probe->m, probe->n, probe->k);
    for (int i = 0; i < TDM_OOC_MATRICES; i++)
        bytes += p->operands[i].present ? p->operands[i].slot_bytes : 0;
    for (int i = 0; i < TDM_OOC_CONSTANTS; i++)
        bytes += p->constants[i].bytes;
    return bytes;
}

/* Chooses the largest piece within an extent and a number of bytes. Returns false if it is too
 * small to be useful. */
static bool fit_probe(product_probe *probe, const tdm_ooc_problem *problem, int64_t extent,
                      uint64_t bytes) {
    probe->problem = *problem;
    probe->m = at_most(problem->m, extent);
    probe->n = at_most(problem->n, extent);
    probe->k = at_most(problem->k, PROBE_DEPTH);
    while (probe_bytes(probe) > bytes) {
        int64_t *longest = probe->m > probe->n ? &probe->m : &probe->n;
        if (probe->k > *longest)
            longest = &probe->k;
        if (*longest <= MIN_PROBE_EXTENT)
            return false;
        *longest = (*longest + 1) / 2;
    }
    probe->operations = 2.0 * (double)probe->m * (double)probe->n * (double)probe->k;
    return true;
}

/* Chooses the piece and builds its plan. The workspace counts too, and is known only after
 * the plan is built. */
static tdm_status plan_probe(tdm_device *device, const tdm_ooc_problem *problem, int64_t extent,
                             uint64_t bytes, product_probe *probe) {
    uint64_t room = bytes;
    for (int try = 0; try < PROBE_TRIES && fit_probe(probe, problem, extent, room); try++) {
        tdm_gemm_desc desc;
        TDM_TRY(tdm_ooc_tile_desc(&probe->problem, probe->m, probe->n, probe->k, true, &desc));
        TDM_TRY(tdm_gemm_plan_build(device, &desc, false, &probe->plan));
        if (probe_bytes(probe) + probe->plan->workspace_bytes <= bytes)
            return TDM_OK;
        tdm_gemm_plan_destroy(probe->plan);
        probe->plan = NULL;
        room /= 2;
    }
    return tdm_fail(TDM_OVER_BUDGET, "outofcore: no GEMM for measuring rates fits in %llu bytes",
                    (unsigned long long)bytes);
}

static tdm_status open_probe(tdm_device *device, product_probe *probe) {
    for (int i = 0; i < 2; i++)
        TDM_TRY(tdm_stream_create(device, &probe->streams[i]));
    return place_operands(device, probe);
}

static void close_probe(product_probe *probe) {
    for (int i = 0; i < TDM_OOC_MATRICES; i++)
        tdm_buffer_destroy(probe->places.matrix[i]);
    for (int i = 0; i < TDM_OOC_CONSTANTS; i++)
        tdm_buffer_destroy(probe->places.constant[i]);
    tdm_buffer_destroy(probe->places.workspace);
    tdm_buffer_destroy(probe->link);
    for (int i = 0; i < 2; i++)
        tdm_stream_destroy(probe->streams[i]);
    tdm_host_free(probe->host);
    tdm_gemm_plan_destroy(probe->plan);
}

/* Returns the seconds of `count` GEMMs one after the other, or a negative number on failure. */
static double time_products(const product_probe *probe, int count) {
    const double start = now();
    tdm_status status = TDM_OK;
    for (int i = 0; i < count && status == TDM_OK; i++)
        status = tdm_ooc_multiply(probe->plan, probe->streams[0], &probe->places);
    const tdm_status waited = tdm_stream_wait_always(probe->streams[0]);
    return status == TDM_OK && waited == TDM_OK ? now() - start : -1.0;
}

/*
 * Returns the seconds of a GEMM in the fastest of several rounds. Many devices run a kernel
 * at two speeds, warm and cold. Rounds are long enough for the warm speed, and for a wait to
 * be a small share.
 */
static double measure_products(const product_probe *probe) {
    const double first = time_products(probe, 1);
    const int count =
        first > 0.0 && first < ROUND_S ? (int)at_most((int64_t)(ROUND_S / first), 64) : 1;
    double best = -1.0;
    for (int round = 0; round < ROUNDS && first >= 0.0; round++) {
        const double took = time_products(probe, count);
        if (took < 0.0)
            return -1.0;
        if (best < 0.0 || took < best)
            best = took;
    }
    return best / count;
}

/* Returns 1 if copies in one queue overlap GEMMs in another, and -1 if they do not. */
static int measure_overlap(tdm_device *device, product_probe *probe, double product_s, size_t bytes,
                           double copy_s) {
    probe->host = tdm_host_calloc(1, bytes);
    if (!probe->host || product_s <= 0.0 || copy_s <= 0.0 ||
        tdm_buffer_create_for(device, probe->streams[1]->id, bytes, &probe->link) != TDM_OK)
        return -1;
    const int copies = product_s > copy_s ? (int)at_most((int64_t)(product_s / copy_s), 64) : 1,
              products = copy_s > product_s ? (int)at_most((int64_t)(copy_s / product_s), 64) : 1;
    const double shorter = (double)copies * copy_s < (double)products * product_s
                               ? (double)copies * copy_s
                               : (double)products * product_s,
                 sum = (double)copies * copy_s + (double)products * product_s;
    const double start = now();
    tdm_status status = TDM_OK;
    for (int i = 0; i < copies && status == TDM_OK; i++)
        status = tdm_buffer_write(probe->streams[1], probe->link, 0, probe->host, bytes);
    if (status == TDM_OK)
        status = tdm_stream_flush(probe->streams[1]);
    const double products_s = status == TDM_OK ? time_products(probe, products) : -1.0;
    const tdm_status waited = tdm_stream_wait_always(probe->streams[1]);
    if (products_s < 0.0 || waited != TDM_OK)
        return -1;
    return sum - (now() - start) > 0.5 * shorter ? 1 : -1;
}

/* ---- stored measurements --------------------------------------------------------------------- */

static int direction(const tdm_ooc_operand *o) {
    return o->column == 1 ? 1 : o->row == 1 ? 2 : 0;
}

static int octaves(int64_t value) {
    int count = 0;
    for (; value > 1; value /= 2)
        count++;
    return count;
}

static product_key key_of(const product_probe *probe) {
    const tdm_ooc_problem *const p = &probe->problem;
    product_key key;
    memset(&key, 0, sizeof key);
    key.op = (int)p->op;
    key.a = (int)p->desc.a.dtype;
    key.b = (int)p->desc.b.dtype;
    key.d = (int)p->desc.d.dtype;
    key.quantize_a = p->desc.quantize_a != 0;
    key.allow_3xtf32 = p->desc.allow_3xtf32 != 0;
    key.activation = (int)p->desc.activation;
    key.a_along = direction(&p->operands[TDM_OOC_A]);
    key.b_along = direction(&p->operands[TDM_OOC_B]);
    key.d_along = direction(&p->operands[TDM_OOC_D]);
    // Short sums and small pieces, which a small budget leads to, have other speeds.
    key.deep = octaves(probe->k);
    key.large = octaves(probe->m * probe->n);
    memcpy(key.variant, p->variant, sizeof key.variant);
    return key;
}

static double known_product_rate(const known_rates *known, const product_key *key) {
    for (int i = 0; i < known->count; i++)
        if (memcmp(&known->products[i].key, key, sizeof *key) == 0)
            return known->products[i].operations_per_s;
    return 0.0;
}

/* Adds a measurement. The oldest one is dropped if the table is full. */
static void note_product(known_rates *known, const product_key *key, double operations_per_s) {
    if (known->count == KNOWN_PRODUCTS) {
        memmove(known->products, known->products + 1,
                (KNOWN_PRODUCTS - 1) * sizeof known->products[0]);
        known->count--;
    }
    known->products[known->count++] =
        (known_product){.key = *key, .operations_per_s = operations_per_s};
}

/*
 * Measures the GEMM of a piece and gets its rate. Returns its seconds, or a negative number on
 * failure. `link_bytes` is the size of copies that test for overlap, or 0 if overlap is not
 * measured.
 */
static double measure_piece(tdm_device *device, const tdm_ooc_problem *problem, int64_t extent,
                            uint64_t bytes, size_t link_bytes, known_rates *known, double *rate) {
    double seconds = -1.0;
    product_probe probe;
    memset(&probe, 0, sizeof probe);
    if (plan_probe(device, problem, extent, bytes, &probe) == TDM_OK &&
        open_probe(device, &probe) == TDM_OK) {
        seconds = measure_products(&probe);
        if (link_bytes > 0)
            known->overlap = measure_overlap(device, &probe, seconds, link_bytes,
                                             (double)link_bytes / known->link.in_bytes_per_s);
    }
    if (seconds > 0.0 && probe.operations > 0.0)
        *rate = probe.operations / seconds / tdm_ooc_efficiency(probe.m, probe.n);
    close_probe(&probe);
    return seconds;
}

/* Measures the rate of GEMMs, and tests if copies overlap them. All buffers of a measurement
 * together stay within the budget. */
static void learn_products(tdm_device *device, const tdm_ooc_problem *problem, uint64_t budget,
                           known_rates *known, tdm_outofcore_rates *rates) {
    const uint64_t share = budget / 4 < LINK_BYTES ? budget / 4 : LINK_BYTES;
    const bool asks = rates->overlap == 0 && known->overlap == 0 && known->link_bytes > 0 &&
                      share >= MIN_LINK_BYTES;
    const size_t link_bytes = asks ? (size_t)share : 0;
    const uint64_t bytes = budget - link_bytes;
    product_probe largest;
    double rate = 0.0;
    memset(&largest, 0, sizeof largest);
    if (!fit_probe(&largest, problem, LARGE_EXTENT, bytes))
        return;
    const product_key key = key_of(&largest);
    const bool wants = rates->operations_per_s <= 0.0;
    if (asks || (wants && known_product_rate(known, &key) <= 0.0)) {
        const double seconds =
            measure_piece(device, problem, PROBE_EXTENT, bytes, link_bytes, known, &rate);
        const bool grows = largest.m > PROBE_EXTENT || largest.n > PROBE_EXTENT;
        if (grows && seconds > 0.0 && seconds < SOON_S)
            measure_piece(device, problem, LARGE_EXTENT, bytes, 0, known, &rate);
        if (rate > 0.0)
            note_product(known, &key, rate);
    }
    if (wants)
        rates->operations_per_s = known_product_rate(known, &key);
}

static void learn(tdm_device *device, const tdm_ooc_problem *problem, uint64_t budget,
                  known_rates *known, tdm_outofcore_rates *rates) {
    const bool wants_link = rates->in_bytes_per_s <= 0.0 || rates->out_bytes_per_s <= 0.0 ||
                            rates->step_s <= 0.0,
               wants_overlap = rates->overlap == 0 && known->overlap == 0;
    const bool knows_link = (wants_link || wants_overlap) && know_link(device, budget, known);
    if (rates->operations_per_s <= 0.0 || wants_overlap)
        learn_products(device, problem, budget, known, rates);
    if (knows_link && rates->in_bytes_per_s <= 0.0)
        rates->in_bytes_per_s = known->link.in_bytes_per_s;
    if (knows_link && rates->out_bytes_per_s <= 0.0)
        rates->out_bytes_per_s = known->link.out_bytes_per_s;
    if (knows_link && rates->step_s <= 0.0)
        rates->step_s = known->link.step_s;
    if (rates->overlap == 0)
        rates->overlap = known->overlap;
}

double tdm_ooc_in_rate(tdm_device *device, uint64_t budget) {
    double rate = ASSUMED_BYTES_PER_S;
    begin_measuring();
    if (!device->outofcore)
        device->outofcore = tdm_host_calloc(1, sizeof(known_rates));
    known_rates *const known = device->outofcore;
    if (known && know_link(device, budget, known))
        rate = known->link.in_bytes_per_s;
    end_measuring();
    return rate;
}

static void assume(double *rate, double value) {
    if (*rate <= 0.0)
        *rate = value;
}

void tdm_ooc_rates_complete(tdm_device *device, const tdm_ooc_problem *problem, uint64_t budget,
                            tdm_outofcore_rates *rates) {
    const bool complete = rates->in_bytes_per_s > 0.0 && rates->out_bytes_per_s > 0.0 &&
                          rates->operations_per_s > 0.0 && rates->step_s > 0.0 &&
                          rates->overlap != 0;
    if (!complete && problem->operations > 0.0) {
        begin_measuring();
        if (!device->outofcore)
            device->outofcore = tdm_host_calloc(1, sizeof(known_rates));
        if (device->outofcore)
            learn(device, problem, budget, device->outofcore, rates);
        end_measuring();
    }
    assume(&rates->in_bytes_per_s, ASSUMED_BYTES_PER_S);
    assume(&rates->out_bytes_per_s, ASSUMED_BYTES_PER_S);
    assume(&rates->operations_per_s, ASSUMED_OPERATIONS_PER_S);
    assume(&rates->step_s, ASSUMED_STEP_S);
    if (rates->overlap == 0)
        rates->overlap = -1;
}
