#include "bench/workers/probe_run.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/probe/probe_stream_args.h"

enum {
    P_WIDTH = 0,
    P_CHAINS = 1,
    P_GROUP = 2,
    P_GRID = 3,
    P_DTYPE = 4,
    GRID_OF_RUNS = 1,
    VECTORS_PER_PASS = 4 /* of PROBE_READ */
};

static const tdm_op ops[] = {
    [PROBE_FMA] = TDM_OP_PROBE_FMA,
    [PROBE_READ] = TDM_OP_PROBE_READ,
    [PROBE_LAUNCH] = TDM_OP_PROBE_LAUNCH,
};

/*
 * Of a device of cores: many short items, because a driver may hand the first of them out unevenly.
 * Of another: enough to hide the latency of memory and of multiply-adds.
 */
enum {
    CORE_FMA_GROUPS = 256,
    CORE_READ_BYTES = 256 << 10, /* of one item */
    GROUPS_PER_UNIT = 32,
    MAX_PASSES = 60000 /* llvmpipe ends loops silently after 65,535 */
};

static bool computes(const probe_case *item) {
    return item->kind == PROBE_FMA;
}

static const char *row_of_dtype(const void *problem, const tdm_variant *variant,
                                const tdm_device *device, char reason[TDM_REASON_TEXT]) {
    const probe_case *const item = problem;
    (void)device;
    if (!computes(item) || variant->parameters[P_DTYPE] == (int32_t)item->dtype)
        return NULL;
    snprintf(reason, TDM_REASON_TEXT, "not for %s", tdm_dtype_name(item->dtype));
    return reason;
}

/* What the rows of the case's dtype need; those of others are no reason. */
static tdm_status no_arithmetic(const tdm_device *device, const probe_case *item) {
    worker_text reasons = {.length = 0};
    for (int i = 0; i < tdm_variant_count; i++) {
        const tdm_variant *const row = &tdm_variants[i];
        char text[TDM_REASON_TEXT] = "";
        if (row->op != ops[item->kind] || row->parameters[P_DTYPE] != (int32_t)item->dtype)
            continue;
        const char *const reason =
            tdm_refuse_variant(device, row, "probe", row_of_dtype, item, NULL, 0, text);
        if (reason != NULL && strstr(reasons.text, reason) == NULL)
            worker_text_add(&reasons, "%s%s", reasons.length > 0 ? "; " : "", reason);
    }
    return tdm_fail(TDM_UNSUPPORTED, "probe: no row computes in %s: %s",
                    tdm_dtype_name(item->dtype), reasons.text);
}

static tdm_status choose_kernel(tdm_device *device, const probe_case *item, const char *forced,
                                probe_run *run) {
    const tdm_variant *variant;
    const tdm_status status = tdm_select_variant(device, ops[item->kind], "probe", forced,
                                                 row_of_dtype, item, NULL, 0, &variant);
    if (status == TDM_UNSUPPORTED && forced == NULL && computes(item))
        return no_arithmetic(device, item);
    TDM_TRY(status);
    TDM_TRY(tdm_device_kernel(device, variant, &run->kernel));
    run->width = variant->parameters[P_WIDTH];
    run->chains = variant->parameters[P_CHAINS];
    run->group = (uint32_t)variant->parameters[P_GROUP];
    const uint32_t limit = run->kernel->limits.max_group_items;
    if (limit > 0 && run->group > limit)
        run->group = limit;
    return TDM_OK;
}

static uint32_t units_of(const tdm_device *device) {
    return device->info.compute_units > 0 ? device->info.compute_units : 1;
}

static bool of_cores(const tdm_device *device) {
    return (device->info.capabilities & TDM_CAP_CPU_CORES) != 0;
}

/* An item reads a run of its own. */
static tdm_status grid_of_runs(const probe_case *item, probe_run *run) {
    const int64_t step = (int64_t)VECTORS_PER_PASS * run->width;
    run->gap = run->width;
    run->step = step;
    run->passes = (int)(CORE_READ_BYTES / 4 / step);
    run->first = run->passes * step;
    const int64_t groups = tdm_ceil_div(item->bytes, 4 * run->first * run->group);
    if (groups > INT32_MAX)
        return tdm_fail(TDM_UNSUPPORTED, "probe: %lld bytes are too many", (long long)item->bytes);
    run->groups = (uint32_t)groups;
    return TDM_OK;
}

/* Items that stand beside each other read beside each other. */
static tdm_status grid_of_strides(const probe_case *item, const tdm_device *device,
                                  probe_run *run) {
    run->groups = units_of(device) * GROUPS_PER_UNIT;
    const int64_t items = (int64_t)run->groups * run->group;
    run->first = run->width;
    run->gap = items * run->width;
    run->step = VECTORS_PER_PASS * run->gap;
    const int64_t passes = tdm_ceil_div(item->bytes, 4 * run->step);
    if (passes > MAX_PASSES)
        return tdm_fail(TDM_UNSUPPORTED, "probe: %lld bytes are too many", (long long)item->bytes);
    run->passes = (int)passes;
    return TDM_OK;
}

static tdm_status choose_grid(const tdm_device *device, const probe_case *item, probe_run *run) {
    const int32_t *const row = run->kernel->variant->parameters;
    run->groups = 1;
    if (item->kind == PROBE_LAUNCH)
        return TDM_OK;
    if (item->kind == PROBE_READ)
        return row[P_GRID] == GRID_OF_RUNS ? grid_of_runs(item, run)
                                           : grid_of_strides(item, device, run);
    if (item->steps > MAX_PASSES)
        return tdm_fail(TDM_UNSUPPORTED, "probe: %lld steps are too many", (long long)item->steps);
    run->groups = units_of(device) * (of_cores(device) ? CORE_FMA_GROUPS : GROUPS_PER_UNIT);
    return TDM_OK;
}

static int64_t words_read(const probe_run *run) {
    return (int64_t)run->groups * run->group * run->passes * VECTORS_PER_PASS * run->width;
}

static bool in_tiles(const probe_run *run) {
    return run->width == PROBE_TILE_WORDS;
}

static size_t input_bytes(const probe_run *run, const probe_case *item) {
    if (item->kind == PROBE_READ)
        return 4 * (size_t)words_read(run);
    return 4 * (size_t)run->width * (size_t)(run->chains + in_tiles(run));
}

/* What steps are taken from repeats itself. */
static void fill_input(const probe_case *item, uint32_t *words, size_t count) {
    for (size_t i = 0; i < count; i++) {
        if (item->kind == PROBE_READ)
            words[i] = probe_read_word(item, i);
        else
            words[i] = i < PROBE_PERIOD ? probe_word(item, i) : words[i - PROBE_PERIOD];
    }
}

static tdm_status create_input(tdm_device *device, tdm_stream *stream, const probe_case *item,
                               probe_run *run) {
    if (item->kind == PROBE_LAUNCH)
        return TDM_OK;
    const size_t bytes = input_bytes(run, item);
    TDM_TRY(tdm_buffer_create(device, bytes, &run->input));
    uint32_t *const data = malloc(bytes);
    if (data == NULL)
        return tdm_fail(TDM_OUT_OF_HOST_MEMORY, "probe: no host memory for %zu bytes", bytes);
    fill_input(item, data, bytes / sizeof *data);
    tdm_status status = tdm_buffer_write(stream, run->input, 0, data, bytes);
    if (status == TDM_OK)
        status = tdm_stream_synchronize(stream);
    free(data);
    return status;
}

static size_t value_bytes(const probe_run *run) {
    return (size_t)run->groups * run->group * (size_t)run->width * 4;
}

tdm_status probe_run_create(tdm_device *device, tdm_stream *stream, const probe_case *item,
                            const char *forced, probe_run *run) {
    memset(run, 0, sizeof *run);
    TDM_TRY(choose_kernel(device, item, forced, run));
    TDM_TRY(choose_grid(device, item, run));
    TDM_TRY(create_input(device, stream, item, run));
    return tdm_buffer_create(device, value_bytes(run), &run->output);
}

void probe_run_release(probe_run *run) {
    tdm_buffer_destroy(run->input);
    tdm_buffer_destroy(run->output);
    memset(run, 0, sizeof *run);
}

static int add_constants(const probe_case *item, tdm_arg *args) {
    uint32_t words[PROBE_CONSTANTS] = {0};
    const int count = probe_constants(item, words);
    for (int i = 0; i < count; i++) {
        float number;
        memcpy(&number, &words[i], sizeof number);
        args[i] = item->dtype == TDM_F32 ? tdm_arg_f32(number) : tdm_arg_s32((int32_t)words[i]);
    }
    return count;
}

/* The same walk as probe_stream.cl has it. */
static tdm_stream_arg read_walk(const probe_run *run) {
    const bool runs = run->kernel->variant->parameters[P_GRID] == GRID_OF_RUNS;
    const int64_t line = (int64_t)run->group * run->width;
    return (tdm_stream_arg){
        .chunk = VECTORS_PER_PASS * line,
        .item = run->width,
        .gap = line,
        .chunks = (int64_t)run->groups * run->passes,
        .first_chunk = runs ? run->passes : 1,
        .next_chunk = runs ? 1 : run->groups,
        .passes = run->passes,
        .rounds = 1,
        .unroll = VECTORS_PER_PASS,
    };
}

tdm_status probe_run_enqueue(const probe_run *run, const probe_case *item, tdm_stream *stream) {
    const tdm_stream_arg walk = read_walk(run);
    tdm_arg args[10];
    int count = 0;
    if (run->input != NULL)
        args[count++] = tdm_arg_block(run->input->block, 0, 4);
    args[count++] = tdm_arg_block(run->output->block, 0, 4);
    if (computes(item))
        count += add_constants(item, args + count);
    if (item->kind == PROBE_READ)
        args[count++] = tdm_arg_blob(&walk, sizeof walk);
    if (computes(item))
        args[count++] = tdm_arg_s32((int32_t)item->steps);
    if (item->kind == PROBE_LAUNCH)
        args[count++] = tdm_arg_s32(probe_launch_value(item));
    const tdm_launch launch = {.args = args,
                               .arg_count = count,
                               .groups = {run->groups, 1, 1},
                               .group = {run->group, 1, 1}};
    return tdm_enqueue_launch(stream, "probe", run->kernel, &launch);
}

int64_t probe_run_work(const probe_run *run, const probe_case *item) {
    if (item->kind == PROBE_LAUNCH)
        return 0;
    if (item->kind == PROBE_READ)
        return 4 * words_read(run);
    const int64_t quads = in_tiles(run) ? PROBE_TILE_ROWS : 1;
    return quads * probe_word_operations(item->dtype) * item->steps * run->chains * run->width *
           run->group * run->groups;
}

static const size_t head_bytes = PROBE_HEAD_WORDS * sizeof(uint32_t);

size_t probe_run_output_bytes(const probe_run *run) {
    return run->output == NULL ? 0 : head_bytes + value_bytes(run);
}

tdm_status probe_run_output(const probe_run *run, const probe_case *item, tdm_stream *stream,
                            void *bytes) {
    const int64_t second = item->kind == PROBE_READ ? words_read(run) : run->chains;
    const uint32_t head[PROBE_HEAD_WORDS] = {(uint32_t)run->width, (uint32_t)second};
    memcpy(bytes, head, head_bytes);
    TDM_TRY(tdm_buffer_read(stream, run->output, 0, (char *)bytes + head_bytes, value_bytes(run)));
    return tdm_stream_synchronize(stream);
}
