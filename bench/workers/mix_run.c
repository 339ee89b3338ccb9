#include "bench/workers/mix_run.h"

#include <stdlib.h>
#include <string.h>

#include "api/tensor/strided_loop.h"
#include "common/random_fill.h"

enum {
    TRAVERSAL_RUNS = 1,
    WORD = 4,
    RUN_BYTES = 256 << 10, /* contiguous bytes of a group */
    UNIT_GROUPS = 32,      /* per compute unit, if the groups' steps interleave */
    MAX_LOOPS = 60000      /* llvmpipe silently ends loops after 65,535 passes in all */
};

static int lines_of_step(const tdm_mix_arg *traversal) {
    return traversal->reads + traversal->writes;
}

static int64_t step_bytes(const mix_run *run) {
    return (int64_t)lines_of_step(&run->traversal) * run->line * WORD;
}

static int64_t written_words(const mix_run *run) {
    return run->traversal.steps * run->traversal.writes * run->line;
}

static void choose_traversal(const tdm_device *device, mix_run *run) {
    tdm_mix_arg *const traversal = &run->traversal;
    if (run->kernel->variant->parameters[MIX_P_TRAVERSAL] == TRAVERSAL_RUNS) {
        const int64_t passes = tdm_ceil_div(RUN_BYTES, step_bytes(run));
        traversal->passes = (int)passes;
        traversal->first_step = passes;
        traversal->next_step = 1;
        run->groups = (uint32_t)tdm_ceil_div(traversal->steps, passes);
        return;
    }
    const int64_t wanted = (int64_t)UNIT_GROUPS * device->info.compute_units;
    const int64_t least =
        tdm_ceil_div(traversal->steps, MAX_LOOPS / (lines_of_step(traversal) + 1));
    const int64_t groups = wanted < least ? least : wanted;
    run->groups = (uint32_t)(groups < traversal->steps ? groups : traversal->steps);
    traversal->passes = (int)tdm_ceil_div(traversal->steps, run->groups);
    traversal->first_step = 1;
    traversal->next_step = run->groups;
}

static const char *supports(const void *problem, const tdm_variant *variant,
                            const tdm_device *device, char reason[TDM_REASON_TEXT]) {
    (void)problem;
    (void)variant;
    (void)device;
    (void)reason;
    return NULL;
}

static tdm_status choose_kernel(tdm_device *device, const quant_case *item, mix_run *run) {
    const tdm_variant *variant = NULL;
    TDM_TRY(tdm_select_variant(device, TDM_OP_PROBE_MIX, "probe", NULL, supports, item, NULL, 0,
                               &variant));
    TDM_TRY(tdm_device_kernel(device, variant, &run->kernel));
    const uint32_t limit = run->kernel->limits.max_group_items;
    run->group = (uint32_t)variant->parameters[MIX_P_GROUP];
    if (limit > 0 && run->group > limit)
        run->group = limit;
    run->line = (int)run->group * variant->parameters[MIX_P_WIDTH];
    run->traversal = (tdm_mix_arg){
        .steps = quant_case_stream_steps(item, run->line),
        .reads = item->reads,
        .writes = item->writes,
        .streams = tdm_exceeds_caches(device, (double)item->copied),
    };
    choose_traversal(device, run);
    return TDM_OK;
}

static tdm_status create_arrays(tdm_device *device, tdm_stream *stream, const quant_case *item,
                                mix_run *run) {
    const size_t read = (size_t)(run->traversal.steps * run->traversal.reads * run->line) * WORD;
    const size_t written = (size_t)written_words(run) * WORD;
    const size_t larger = read > written ? read : written;
    TDM_TRY(tdm_buffer_create(device, read, &run->input));
    TDM_TRY(tdm_buffer_create(device, written, &run->output));
    unsigned char *const data = malloc(larger);
    if (data == NULL)
        return tdm_fail(TDM_OUT_OF_HOST_MEMORY, "probe: no host memory for %zu bytes", larger);
    memset(data, 0xFF, written);
    tdm_status status = tdm_buffer_write(stream, run->output, 0, data, written);
    if (status == TDM_OK)
        status = tdm_stream_synchronize(stream);
    random_fill_bytes(item->seed, data, read);
    if (status == TDM_OK)
        status = tdm_buffer_write(stream, run->input, 0, data, read);
    if (status == TDM_OK)
        status = tdm_stream_synchronize(stream);
    free(data);
    return status;
}

tdm_status mix_run_create(tdm_device *device, tdm_stream *stream, const quant_case *item,
                          mix_run *run) {
    memset(run, 0, sizeof *run);
    TDM_TRY(choose_kernel(device, item, run));
    return create_arrays(device, stream, item, run);
}

void mix_run_release(mix_run *run) {
    tdm_buffer_destroy(run->input);
    tdm_buffer_destroy(run->output);
    memset(run, 0, sizeof *run);
}

tdm_status mix_run_enqueue(const mix_run *run, tdm_stream *stream) {
    const tdm_arg args[] = {tdm_arg_block(run->input->block, 0, WORD),
                            tdm_arg_block(run->output->block, 0, WORD),
                            tdm_arg_blob(&run->traversal, sizeof run->traversal)};
    const tdm_launch launch = {
        .args = args, .arg_count = 3, .groups = {run->groups, 1, 1}, .group = {run->group, 1, 1}};
    return tdm_enqueue_launch(stream, "probe", run->kernel, &launch);
}

size_t mix_run_output_bytes(const mix_run *run) {
    return run->output == NULL ? 0 : (size_t)(1 + written_words(run)) * WORD;
}

tdm_status mix_run_output(const mix_run *run, tdm_stream *stream, void *bytes) {
    const uint32_t line = (uint32_t)run->line;
    memcpy(bytes, &line, WORD);
    TDM_TRY(tdm_buffer_read(stream, run->output, 0, (char *)bytes + WORD,
                            mix_run_output_bytes(run) - WORD));
    return tdm_stream_synchronize(stream);
}
