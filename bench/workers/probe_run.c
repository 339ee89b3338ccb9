#include "bench/workers/probe_run.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    P_WIDTH = 0,
    P_CHAINS = 1,
    P_GROUP = 2,
    P_DTYPE = 4
};

static const tdm_op ops[] = {
    [PROBE_FMA] = TDM_OP_PROBE_FMA,
    [PROBE_LAUNCH] = TDM_OP_PROBE_LAUNCH,
};

/*
 * The numbers of work-groups of PROBE_FMA per compute unit. CPU cores get many short work-groups,
 * because a driver may distribute the first ones unevenly. Other devices get enough to hide the
 * latency of multiply-adds.
 */
enum {
    CORE_FMA_GROUPS = 256,
    GROUPS_PER_UNIT = 32,
    MAX_STEPS = 60000 /* llvmpipe silently ends loops after 65,535 passes */
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

/*
 * Fails with the reasons of all kernel variants of the case's dtype. Variants of other dtypes are
 * left out.
 */
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
    return tdm_fail(TDM_UNSUPPORTED, "probe: no kernel variant computes in %s: %s",
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

static tdm_status choose_grid(const tdm_device *device, const probe_case *item, probe_run *run) {
    if (item->steps > MAX_STEPS)
        return tdm_fail(TDM_UNSUPPORTED, "probe: %lld steps are too many", (long long)item->steps);
    run->groups = computes(item)
                      ? units_of(device) * (of_cores(device) ? CORE_FMA_GROUPS : GROUPS_PER_UNIT)
                      : 1;
    return TDM_OK;
}

static bool in_tiles(const probe_run *run) {
    return run->width == PROBE_TILE_WORDS;
}

/*
 * Returns the bytes of the chains' start words. For tile registers, the words of the tile B follow
 * them.
 */
static size_t input_bytes(const probe_run *run) {
    return 4 * (size_t)run->width * (size_t)(run->chains + in_tiles(run));
}

static tdm_status create_input(tdm_device *device, tdm_stream *stream, const probe_case *item,
                               probe_run *run) {
    if (item->kind == PROBE_LAUNCH)
        return TDM_OK;
    const size_t bytes = input_bytes(run);
    TDM_TRY(tdm_buffer_create(device, bytes, &run->input));
    uint32_t *const data = malloc(bytes);
    if (data == NULL)
        return tdm_fail(TDM_OUT_OF_HOST_MEMORY, "probe: no host memory for %zu bytes", bytes);
    for (size_t i = 0; i < bytes / sizeof *data; i++)
        data[i] = probe_word(item, i);
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

tdm_status probe_run_enqueue(const probe_run *run, const probe_case *item, tdm_stream *stream) {
    tdm_arg args[10];
    int count = 0;
    if (run->input != NULL)
        args[count++] = tdm_arg_block(run->input->block, 0, 4);
    args[count++] = tdm_arg_block(run->output->block, 0, 4);
    if (computes(item))
        count += add_constants(item, args + count);
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
    const int64_t quads = in_tiles(run) ? PROBE_TILE_ROWS : 1;
    return quads * probe_word_operations(item->dtype) * item->steps * run->chains * run->width *
           run->group * run->groups;
}

static const size_t head_bytes = PROBE_HEAD_WORDS * sizeof(uint32_t);

size_t probe_run_output_bytes(const probe_run *run) {
    return run->output == NULL ? 0 : head_bytes + value_bytes(run);
}

tdm_status probe_run_output(const probe_run *run, tdm_stream *stream, void *bytes) {
    const uint32_t head[PROBE_HEAD_WORDS] = {(uint32_t)run->width, (uint32_t)run->chains};
    memcpy(bytes, head, head_bytes);
    TDM_TRY(tdm_buffer_read(stream, run->output, 0, (char *)bytes + head_bytes, value_bytes(run)));
    return tdm_stream_synchronize(stream);
}
