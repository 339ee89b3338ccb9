#include "bench/workers/stream_run.h"

#include <stdlib.h>
#include <string.h>

enum {
    WALK_RUNS = 1,
    WORD = 4,
    CHASE_PASS = 16,          /* steps, of probe_chase.cl */
    CHASE_STATE = 2,          /* words: where the last call ended, and how many there were */
    SWEEP_GROUPS = 2,         /* of a compute unit that is no core */
    LARGEST_CHUNK = 256 * 32, /* words: items of a group by eight vectors of four elements */
    PLACES_AHEAD = 4096, /* bytes that prefetches of gather may be ahead: places are read there */
    LINE = 64,
    MAX_PASSES = 60000 /* llvmpipe ends loops silently after 65,535 */
};

/*
 * By occupancy: bytes of a run where each group takes one of its own, of which a gather has its share; groups of a compute unit elsewhere.
 */
static const int64_t run_bytes[] = {256 << 10, 2 << 20, 256 << 10, 64 << 10};
static const int64_t unit_groups[] = {8, 2, 8, 32};

static bool has_walk(const memory_case *item) {
    return item->operation != MEMORY_CHASE;
}

bool stream_row_does(const tdm_variant *row, memory_operation operation) {
    const bool reads = operation == MEMORY_SWEEP || operation == MEMORY_STRIDED;
    if (operation == MEMORY_CHASE)
        return row->op == TDM_OP_PROBE_CHASE;
    const int number = 1 + (int)(reads ? MEMORY_READ : operation);
    return row->op == TDM_OP_PROBE_STREAM && row->parameters[STREAM_P_OPERATION] == number &&
           (operation != MEMORY_STRIDED || row->parameters[STREAM_P_WIDTH] == 1);
}

static const char *supports(const void *problem, const tdm_variant *variant,
                            const tdm_device *device, char reason[TDM_REASON_TEXT]) {
    const memory_case *const item = problem;
    (void)device;
    (void)reason;
    return stream_row_does(variant, item->operation) ? NULL : "it is another operation";
}

static int units_of(const tdm_device *device) {
    return device->info.compute_units > 0 ? (int)device->info.compute_units : 1;
}

int stream_run_width(const stream_run *run) {
    return run->kernel->variant->parameters[STREAM_P_WIDTH];
}

static int sums_up(const memory_case *item) {
    return item->operation == MEMORY_READ || item->operation == MEMORY_STRIDED ||
           item->operation == MEMORY_SWEEP || item->operation == MEMORY_GATHER;
}

static int64_t stride_of(const memory_case *item) {
    return item->operation == MEMORY_STRIDED ? item->stride : 1;
}

/* Bytes of the array that a kernel walks through. */
static int64_t walked_bytes(const memory_case *item) {
    return item->operation == MEMORY_GATHER ? WORD * (int64_t)memory_index_count(item)
                                            : (int64_t)item->bytes;
}

/* How chunks are divided among groups, for arrays that are passed through once. */
static void walk_once(const tdm_device *device, const memory_case *item, int occupancy,
                      stream_run *run) {
    tdm_stream_arg *const walk = &run->walk;
    const int64_t chunk_bytes = walk->chunk * WORD;
    if (run->kernel->variant->parameters[STREAM_P_WALK] == WALK_RUNS) {
        const int64_t share = item->operation == MEMORY_GATHER ? MEMORY_GATHER_SHARE : 1;
        const int64_t wanted = tdm_ceil_div(run_bytes[occupancy] / share, chunk_bytes);
        const int64_t passes = wanted < MAX_PASSES ? wanted : MAX_PASSES;
        walk->passes = (int)passes;
        walk->first_chunk = passes;
        walk->next_chunk = 1;
        run->groups = (uint32_t)tdm_ceil_div(walk->chunks, passes);
    } else {
        const int64_t wanted = unit_groups[occupancy] * units_of(device);
        const int64_t least = tdm_ceil_div(walk->chunks, MAX_PASSES);
        const int64_t groups = wanted < least ? least : wanted;
        run->groups = (uint32_t)(groups < walk->chunks ? groups : walk->chunks);
        walk->passes = (int)tdm_ceil_div(walk->chunks, run->groups);
        walk->first_chunk = 1;
        walk->next_chunk = run->groups;
    }
}

/* Each group passes through a part of its own, again and again: what its unit's cache holds comes from there. */
static void walk_often(const tdm_device *device, const memory_case *item, stream_run *run) {
    tdm_stream_arg *const walk = &run->walk;
    const bool cores = (device->info.capabilities & TDM_CAP_CPU_CORES) != 0;
    const int64_t groups = (int64_t)units_of(device) * (cores ? 1 : SWEEP_GROUPS);
    run->groups = (uint32_t)(groups < walk->chunks ? groups : walk->chunks);
    const int64_t passes = tdm_ceil_div(walk->chunks, run->groups);
    walk->chunks = passes * run->groups;
    walk->passes = (int)passes;
    walk->first_chunk = passes;
    walk->next_chunk = 1;
    const int64_t once = walk->chunks * walk->chunk * WORD;
    const int64_t rounds = tdm_ceil_div(item->amount > 0 ? item->amount : once, once);
    const int64_t most = passes < MAX_PASSES ? MAX_PASSES / passes : 1;
    walk->rounds = (int)(rounds < most ? rounds : most);
}

/* What the kernel of a row cannot do. */
static tdm_status check_setting(const tdm_variant *row, const memory_case *item,
                                const memory_setting *setting) {
    const bool finds = item->operation == MEMORY_GATHER;
    if (setting->unroll == 8 && !row->parameters[STREAM_P_EIGHT])
        return tdm_fail(TDM_UNSUPPORTED, "probe: %s has no eight vectors at a time", row->name);
    if (finds && (setting->ahead > PLACES_AHEAD || setting->ahead % LINE != 0))
        return tdm_fail(TDM_UNSUPPORTED,
                        "probe: prefetches of gather are multiples of %d bytes up to %d ahead, not "
                        "%d",
                        LINE, PLACES_AHEAD, setting->ahead);
    if (item->bytes > INT64_MAX / 4 || (finds && item->bytes / WORD > INT32_MAX))
        return tdm_fail(TDM_UNSUPPORTED, "probe: %zu bytes are too many", item->bytes);
    return TDM_OK;
}

static tdm_status choose_walk(const tdm_device *device, const memory_case *item,
                              const memory_setting *setting, stream_run *run) {
    const tdm_variant *const row = run->kernel->variant;
    const int width = stream_run_width(run);
    const int unroll = setting->unroll > 0 ? setting->unroll : 1;
    const int64_t stride = stride_of(item);
    tdm_stream_arg *const walk = &run->walk;
    TDM_TRY(check_setting(row, item, setting));
    *walk = (tdm_stream_arg){
        .chunk = run->group * width * unroll * stride,
        .item = width * stride,
        .gap = run->group * width * stride,
        .rounds = 1,
        .unroll = unroll,
        .ahead = row->parameters[STREAM_P_PREFETCH] ? setting->ahead : 0,
        .scale = memory_scale,
    };
    walk->chunks = tdm_ceil_div(walked_bytes(item), walk->chunk * WORD);
    if (walk->chunks > INT32_MAX)
        return tdm_fail(TDM_UNSUPPORTED, "probe: %zu bytes are too many", item->bytes);
    if (item->operation == MEMORY_SWEEP)
        walk_often(device, item, run);
    else
        walk_once(device, item, setting->occupancy, run);
    run->words = walk->chunks * walk->chunk / stride;
    return TDM_OK;
}

tdm_status stream_run_set(tdm_device *device, const memory_case *item,
                          const memory_setting *setting, stream_run *run) {
    const tdm_op op = has_walk(item) ? TDM_OP_PROBE_STREAM : TDM_OP_PROBE_CHASE;
    const tdm_variant *variant = NULL;
    const char *const forced = setting->row[0] == '\0' ? NULL : setting->row;
    TDM_TRY(tdm_select_variant(device, op, "probe", forced, supports, item, NULL, 0, &variant));
    TDM_TRY(tdm_device_kernel(device, variant, &run->kernel));
    const uint32_t limit = run->kernel->limits.max_group_items;
    run->group = (uint32_t)variant->parameters[STREAM_P_GROUP];
    if (limit > 0 && run->group > limit)
        run->group = limit;
    run->groups = 1;
    run->passes = memory_chase_steps(item) / CHASE_PASS;
    return has_walk(item) ? choose_walk(device, item, setting, run) : TDM_OK;
}

/* ---- arrays ---- */

typedef void (*fill_function)(const memory_case *item, size_t count, void *data);

static void fill_a(const memory_case *item, size_t count, void *data) {
    for (size_t i = 0; i < count; i++)
        ((float *)data)[i] = memory_a(item, i);
}

static void fill_b(const memory_case *item, size_t count, void *data) {
    for (size_t i = 0; i < count; i++)
        ((float *)data)[i] = memory_b(item, i);
}

static void fill_indices(const memory_case *item, size_t count, void *data) {
    for (size_t i = 0; i < count; i++)
        ((uint32_t *)data)[i] = memory_index(item, i);
}

/* A chase begins at place 0, and was not called. */
static void fill_start(const memory_case *item, size_t count, void *data) {
    (void)item;
    memset(data, 0, count * WORD);
}

/* Not a number anywhere: what is not written shows. */
static void fill_poison(const memory_case *item, size_t count, void *data) {
    (void)item;
    memset(data, 0xFF, count * WORD);
}

static tdm_status create_array(tdm_device *device, tdm_stream *stream, const memory_case *item,
                               fill_function fill, size_t words, tdm_buffer **buffer) {
    const size_t bytes = words * WORD;
    TDM_TRY(tdm_buffer_create(device, bytes, buffer));
    void *const data = malloc(bytes);
    if (data == NULL)
        return tdm_fail(TDM_OUT_OF_HOST_MEMORY, "probe: no host memory for %zu bytes", bytes);
    tdm_status status = TDM_OK;
    if (fill != NULL)
        fill(item, words, data);
    else if (memory_chase_fill(item, data) != 0)
        status =
            tdm_fail(TDM_OUT_OF_HOST_MEMORY, "probe: no host memory for %zu lines", bytes / 64);
    if (status == TDM_OK)
        status = tdm_buffer_write(stream, *buffer, 0, data, bytes);
    const tdm_status waited = tdm_stream_synchronize(stream);
    free(data);
    return status == TDM_OK ? waited : status;
}

/* Words of an array with room for the last chunk of any setting, and for places that are looked up early. */
static size_t padded_words(const memory_case *item, const stream_run *run) {
    const size_t stride = (size_t)stride_of(item);
    const size_t words = (size_t)tdm_ceil_div(walked_bytes(item), WORD) + LARGEST_CHUNK * stride +
                         PLACES_AHEAD / WORD;
    const size_t taken = (size_t)run->words * stride;
    return taken > words ? taken : words;
}

static tdm_status create_circle(tdm_device *device, tdm_stream *stream, const memory_case *item,
                                stream_run *run) {
    const size_t words = item->bytes < WORD ? 1 : item->bytes / WORD;
    TDM_TRY(create_array(device, stream, item, NULL, words, &run->a));
    return create_array(device, stream, item, fill_start, CHASE_STATE, &run->c);
}

static tdm_status create_arrays(tdm_device *device, tdm_stream *stream, const memory_case *item,
                                stream_run *run) {
    const size_t words = padded_words(item, run);
    const memory_operation operation = item->operation;
    if (operation == MEMORY_GATHER) {
        TDM_TRY(create_array(device, stream, item, fill_indices, words, &run->a));
        TDM_TRY(create_array(device, stream, item, fill_a, item->bytes / WORD + 1, &run->b));
    } else if (operation != MEMORY_WRITE) {
        TDM_TRY(create_array(device, stream, item, fill_a, words, &run->a));
    }
    if (operation == MEMORY_ADD || operation == MEMORY_TRIAD)
        TDM_TRY(create_array(device, stream, item, fill_b, words, &run->b));
    return create_array(device, stream, item, fill_poison, words, &run->c);
}

tdm_status stream_run_create(tdm_device *device, tdm_stream *stream, const memory_case *item,
                             stream_run *run) {
    memset(run, 0, sizeof *run);
    TDM_TRY(stream_run_set(device, item, &item->setting, run));
    return has_walk(item) ? create_arrays(device, stream, item, run)
                          : create_circle(device, stream, item, run);
}

void stream_run_release(stream_run *run) {
    tdm_buffer_destroy(run->a);
    tdm_buffer_destroy(run->b);
    tdm_buffer_destroy(run->c);
    memset(run, 0, sizeof *run);
}

/* ---- running ---- */

tdm_status stream_run_enqueue(const stream_run *run, const memory_case *item, tdm_stream *stream) {
    tdm_arg args[9];
    int count = 0;
    if (run->a != NULL)
        args[count++] = tdm_arg_block(run->a->block, 0, WORD);
    if (run->b != NULL)
        args[count++] = tdm_arg_block(run->b->block, 0, WORD);
    args[count++] = tdm_arg_block(run->c->block, 0, WORD);
    if (has_walk(item))
        args[count++] = tdm_arg_blob(&run->walk, sizeof run->walk);
    else
        args[count++] = tdm_arg_s32(run->passes);
    const tdm_launch launch = {.args = args,
                               .arg_count = count,
                               .groups = {run->groups, 1, 1},
                               .group = {run->group, 1, 1}};
    return tdm_enqueue_launch(stream, "probe", run->kernel, &launch);
}

int64_t stream_run_work(const stream_run *run, const memory_case *item) {
    if (item->operation == MEMORY_CHASE)
        return (int64_t)WORD * memory_chase_steps(item);
    if (item->operation == MEMORY_GATHER)
        return 2 * WORD * run->words;
    if (sums_up(item))
        return WORD * run->words * run->walk.rounds;
    return (int64_t)memory_case_traffic(item);
}

int64_t stream_run_items(const stream_run *run) {
    return (int64_t)run->groups * run->group;
}

size_t stream_run_output_bytes(const stream_run *run, const memory_case *item) {
    if (run->c == NULL)
        return 0;
    if (item->operation == MEMORY_CHASE)
        return CHASE_STATE * (size_t)WORD;
    if (!sums_up(item))
        return item->bytes / WORD * WORD;
    return WORD *
           (MEMORY_HEAD_WORDS + (size_t)stream_run_items(run) * (size_t)stream_run_width(run));
}

tdm_status stream_run_output(const stream_run *run, const memory_case *item, tdm_stream *stream,
                             void *bytes) {
    size_t skipped = 0;
    if (sums_up(item)) {
        const uint32_t head[MEMORY_HEAD_WORDS] = {(uint32_t)run->words,
                                                  (uint32_t)((uint64_t)run->words >> 32),
                                                  (uint32_t)run->walk.rounds, 0};
        memcpy(bytes, head, sizeof head);
        skipped = sizeof head;
    }
    TDM_TRY(tdm_buffer_read(stream, run->c, 0, (char *)bytes + skipped,
                            stream_run_output_bytes(run, item) - skipped));
    return tdm_stream_synchronize(stream);
}
