/*
 * These functions run an out-of-core plan. They enqueue the steps of the schedule in three queues,
 * with events between them. The host waits only after a failure.
 */
#include <stdio.h>
#include <string.h>

#include "api/outofcore/outofcore_internal.h"

/* ---- steps ----------------------------------------------------------------------------------- */

static tdm_status load_constants(const tdm_outofcore_plan *plan, const tdm_ooc_inputs *in) {
    for (int i = 0; i < TDM_OOC_CONSTANTS; i++) {
        const tdm_ooc_constant *const c = &plan->problem.constants[i];
        size_t bytes;
        if (c->buffer)
            TDM_TRY(tdm_enqueue_write(plan->streams[TDM_OOC_IN], "outofcore: loading parameters",
                                      c->buffer->block, 0, tdm_ooc_constant_memory(in, i, &bytes),
                                      c->bytes));
    }
    return TDM_OK;
}

/* Sets the operand's tile for the GEMM of a step. */
static void place_matrix(const tdm_outofcore_plan *plan, const tdm_ooc_inputs *in, int name,
                         const tdm_ooc_step *step, tdm_ooc_places *places) {
    const tdm_ooc_operand *const o = &plan->problem.operands[name];
    const int slot = name == TDM_OOC_A   ? step->a_slot
                     : name == TDM_OOC_B ? step->b_slot
                                         : step->d_slot;
    if (!o->present)
        return;
    places->matrix[name] = o->buffers[slot];
    if (!o->on_device)
        return;
    const tdm_ooc_area area = tdm_ooc_area_of(&plan->problem, (tdm_ooc_name)name, step);
    places->matrix[name] = in->matrix[name]->tensor->buffer;
    places->matrix_offset[name] = in->matrix[name]->tensor->offset + area.matrix +
                                  area.row * o->row + area.column * o->column;
}

static void place_constant(const tdm_outofcore_plan *plan, const tdm_ooc_inputs *in, int name,
                           const tdm_ooc_step *step, tdm_ooc_places *places) {
    const tdm_ooc_constant *const c = &plan->problem.constants[name];
    if (c->layout.dtype == TDM_DTYPE_NONE)
        return;
    places->constant[name] = c->buffer;
    places->constant_offset[name] =
        tdm_ooc_constant_offset(&plan->problem, (tdm_ooc_constant_name)name, step);
    if (!c->on_device)
        return;
    const tdm_tensor *const tensor = tdm_ooc_constant_tensor(in, name);
    places->constant[name] = tensor->buffer;
    places->constant_offset[name] += tensor->offset;
}

/* Replaces C and D by the partial tile between steps of K. Only the first GEMM has the bias, and
 * only the last one the residual. */
static void place_partial(const tdm_outofcore_plan *plan, const tdm_ooc_step *step,
                          tdm_ooc_places *places) {
    if (!step->first) {
        places->matrix[TDM_OOC_C] = plan->partial;
        places->matrix_offset[TDM_OOC_C] = 0;
        places->constant[TDM_OOC_BIAS] = NULL;
    }
    if (!step->last) {
        places->matrix[TDM_OOC_D] = plan->partial;
        places->matrix_offset[TDM_OOC_D] = 0;
        places->matrix[TDM_OOC_RESIDUAL] = NULL;
    }
}

static tdm_status multiply(const tdm_outofcore_plan *plan, const tdm_ooc_inputs *in,
                           const tdm_ooc_step *step) {
    tdm_ooc_places places;
    memset(&places, 0, sizeof places);
    for (int i = 0; i < TDM_OOC_MATRICES; i++)
        place_matrix(plan, in, i, step, &places);
    for (int i = 0; i < TDM_OOC_CONSTANTS; i++)
        place_constant(plan, in, i, step, &places);
    place_partial(plan, step, &places);
    places.workspace = plan->workspace;
    const bool last_rows = step->rows != plan->choice.tile_rows,
               last_columns = step->columns != plan->choice.tile_columns;
    const tdm_ooc_part part = step->first  ? TDM_OOC_FIRST
                              : step->last ? TDM_OOC_LAST
                                           : TDM_OOC_MIDDLE;
    return tdm_ooc_multiply(plan->products[last_rows][last_columns][part],
                            plan->streams[TDM_OOC_COMPUTE], &places);
}

static tdm_status load(const tdm_outofcore_plan *plan, const tdm_ooc_inputs *in, tdm_ooc_name name,
                       const tdm_ooc_step *step) {
    const tdm_ooc_area area = tdm_ooc_area_of(&plan->problem, name, step);
    const int slot = name == TDM_OOC_A   ? step->a_slot
                     : name == TDM_OOC_B ? step->b_slot
                                         : step->d_slot;
    return tdm_ooc_load(plan->streams[TDM_OOC_IN], &plan->problem.operands[name], slot, &area,
                        in->matrix[name]->memory, in->pageable[name] ? plan->ring_in : NULL);
}

static tdm_status enqueue_step(const tdm_outofcore_plan *plan, const tdm_ooc_inputs *in,
                               const tdm_ooc_step *step) {
    switch (step->kind) {
    case TDM_OOC_LOAD_CONSTANTS:
        return load_constants(plan, in);
    case TDM_OOC_LOAD_A:
        return load(plan, in, TDM_OOC_A, step);
    case TDM_OOC_LOAD_B:
        return load(plan, in, TDM_OOC_B, step);
    case TDM_OOC_LOAD_C:
        return load(plan, in, TDM_OOC_C, step);
    case TDM_OOC_LOAD_RESIDUAL:
        return load(plan, in, TDM_OOC_RESIDUAL, step);
    case TDM_OOC_MULTIPLY:
        return multiply(plan, in, step);
    case TDM_OOC_STORE:
        break;
    }
    const tdm_ooc_area area = tdm_ooc_area_of(&plan->problem, TDM_OOC_D, step);
    return tdm_ooc_store(plan->streams[TDM_OOC_OUT], &plan->problem.operands[TDM_OOC_D],
                         step->d_slot, &area, in->d_memory,
                         in->pageable[TDM_OOC_D] ? plan->ring_out : NULL);
}

/* ---- the run --------------------------------------------------------------------------------- */

enum {
    MAX_STREAMS = TDM_OOC_ENGINES + 2
};

/* Collects the streams of the plan and of its rings. */
static int streams_of(const tdm_outofcore_plan *plan, tdm_stream *streams[MAX_STREAMS]) {
    int count = 0;
    for (int i = 0; i < TDM_OOC_ENGINES; i++)
        streams[count++] = plan->streams[i];
    if (plan->ring_in)
        streams[count++] = tdm_staging_ring_stream(plan->ring_in);
    if (plan->ring_out)
        streams[count++] = tdm_staging_ring_stream(plan->ring_out);
    return count;
}

/* Makes every stream wait for the caller's stream and the previous run. */
static tdm_status join_behind(const tdm_outofcore_plan *plan, tdm_event *event) {
    tdm_stream *streams[MAX_STREAMS];
    const int count = streams_of(plan, streams);
    for (int i = 0; i < count; i++) {
        TDM_TRY(tdm_stream_wait_event(streams[i], event));
        if (plan->previous)
            TDM_TRY(tdm_stream_wait_event(streams[i], plan->previous));
    }
    return TDM_OK;
}

/* Makes the caller's stream wait for all streams. */
static tdm_status join_ahead(tdm_outofcore_plan *plan, tdm_stream *stream) {
    tdm_event *event = NULL;
    tdm_stream *streams[MAX_STREAMS];
    const int count = streams_of(plan, streams);
    for (int i = 0; i < count; i++) {
        TDM_TRY(tdm_event_record(streams[i], &event));
        const tdm_status status = tdm_stream_wait_event(stream, event);
        tdm_event_destroy(event);
        TDM_TRY(status);
    }
    TDM_TRY(tdm_event_record(stream, &event));
    tdm_event_destroy(plan->previous);
    plan->previous = event;
    return TDM_OK;
}

/* Enqueues a step after its dependencies. Events are recorded around it if they are used. */
static tdm_status run_step(tdm_outofcore_plan *plan, const tdm_ooc_inputs *in, int number) {
    const tdm_ooc_step *const step = &plan->schedule.steps[number];
    tdm_stream *const stream = plan->streams[step->engine];
    for (int i = 0; i < step->dependency_count; i++)
        TDM_TRY(tdm_stream_wait_event(stream, plan->record.ends[step->dependencies[i]]));
    if (plan->measures)
        TDM_TRY(tdm_event_record(stream, &plan->record.starts[number]));
    TDM_TRY(enqueue_step(plan, in, step));
    if (step->awaited || plan->measures)
        TDM_TRY(tdm_event_record(stream, &plan->record.ends[number]));
    return TDM_OK;
}

static void close_rings(tdm_outofcore_plan *plan) {
    tdm_staging_ring_close(plan->ring_in);
    tdm_staging_ring_close(plan->ring_out);
    plan->ring_in = plan->ring_out = NULL;
}

/* Finds operands in pageable memory and opens rings for them. Without pinned memory, the driver
 * copies directly. */
static void open_rings(tdm_outofcore_plan *plan, tdm_ooc_inputs *in) {
    tdm_device *const device = plan->device;
    for (int i = 0; i < TDM_OOC_MATRICES; i++) {
        const tdm_ooc_operand *const o = &plan->problem.operands[i];
        tdm_staging_ring **const ring = i == TDM_OOC_D ? &plan->ring_out : &plan->ring_in;
        in->pageable[i] = o->slots > 0 && tdm_staging_ring_wanted(
                                              device, tdm_ooc_memory_of(in, i),
                                              i == TDM_OOC_D ? in->d_bytes : in->matrix[i]->bytes);
        if (in->pageable[i] && !*ring &&
            tdm_staging_ring_open(device, TDM_STAGING_PIECE_BYTES, ring) != TDM_OK)
            *ring = NULL;
    }
}

static tdm_status run_all(tdm_outofcore_plan *plan, tdm_stream *stream, const tdm_ooc_inputs *in) {
    tdm_stream *streams[MAX_STREAMS];
    const int count = streams_of(plan, streams);
    for (int i = 0; i < count; i++)
        TDM_TRY(tdm_stream_clear_failure(streams[i])); // failure of an earlier run
    TDM_TRY(tdm_event_record(stream, &plan->record.first));
    TDM_TRY(join_behind(plan, plan->record.first));
    for (int i = 0; i < plan->schedule.count; i++)
        TDM_TRY(run_step(plan, in, i));
    return join_ahead(plan, stream);
}

static tdm_status open_record(tdm_outofcore_plan *plan) {
    tdm_ooc_record *const record = &plan->record;
    const size_t count = (size_t)plan->schedule.count + 1;
    tdm_ooc_record_release(plan);
    record->ends = tdm_host_calloc(count, sizeof(tdm_event *));
    record->starts = plan->measures ? tdm_host_calloc(count, sizeof(tdm_event *)) : NULL;
    if (record->ends && (record->starts || !plan->measures))
        return TDM_OK;
    return tdm_fail(TDM_OUT_OF_HOST_MEMORY, "outofcore: no host memory for %zu events", count);
}

/* Waits, so that nothing touches the caller's memory after a failed call returns. It keeps the
 * status and its detail. */
static tdm_status fail_after_wait(tdm_outofcore_plan *plan, tdm_status status) {
    char detail[512];
    snprintf(detail, sizeof detail, "%s", tdm_last_detail());
    tdm_stream *streams[MAX_STREAMS];
    const int count = streams_of(plan, streams);
    for (int i = 0; i < count; i++)
        tdm_stream_wait_always(streams[i]);
    close_rings(plan);
    return tdm_fail(status, "%s", detail);
}

tdm_status tdm_outofcore_plan_run(tdm_outofcore_plan *plan, tdm_stream *stream,
                                  const tdm_outofcore_args *args) {
    if (!plan || !stream || !args)
        return tdm_fail(TDM_BAD_ARGUMENT, "outofcore: %s is NULL",
                        !plan     ? "plan"
                        : !stream ? "stream"
                                  : "args");
    tdm_outofcore_args room;
    args = tdm_struct_read("outofcore", "args", args, sizeof room, &room);
    if (!args)
        return TDM_BAD_ARGUMENT;
    tdm_ooc_inputs in = tdm_ooc_inputs_of(args);
    TDM_TRY(tdm_ooc_check_run(plan, stream, &in));
    pthread_mutex_lock(&plan->lock);
    open_rings(plan, &in);
    tdm_status status = open_record(plan);
    if (status == TDM_OK) {
        status = run_all(plan, stream, &in);
        if (status != TDM_OK) {
            fail_after_wait(plan, status);
            // All work is done, and later runs must not inherit the failure.
            tdm_event_destroy(plan->previous);
            plan->previous = NULL;
        }
    }
    plan->record.complete = status == TDM_OK;
    if (status != TDM_OK || !plan->measures)
        tdm_ooc_record_release(plan);
    pthread_mutex_unlock(&plan->lock);
    return status;
}

tdm_status tdm_ooc_run_in_place(tdm_outofcore_plan *plan, tdm_stream *stream,
                                const tdm_outofcore_args *args) {
    const tdm_ooc_inputs in = tdm_ooc_inputs_of(args);
    TDM_TRY(tdm_ooc_check_run(plan, stream, &in));
    TDM_TRY(tdm_ooc_schedule_plan(plan));
    for (int i = 0; i < plan->schedule.count; i++)
        TDM_TRY(multiply(plan, &in, &plan->schedule.steps[i]));
    return TDM_OK;
}

/* ---- measured times -------------------------------------------------------------------------- */

static tdm_status add_up(const tdm_outofcore_plan *plan, tdm_outofcore_times *times,
                         int *from_device) {
    double busy[TDM_OOC_ENGINES] = {0}, nanoseconds = 0.0;
    for (int i = 0; i < plan->schedule.count; i++) {
        TDM_TRY(tdm_event_elapsed(plan->record.starts[i], plan->record.ends[i], &nanoseconds,
                                  from_device));
        busy[plan->schedule.steps[i].engine] += 1e-9 * nanoseconds;
    }
    TDM_TRY(tdm_event_elapsed(plan->record.first, plan->previous, &nanoseconds, from_device));
    const double total = 1e-9 * nanoseconds;
    *times = (tdm_outofcore_times){busy[TDM_OOC_IN], busy[TDM_OOC_COMPUTE], busy[TDM_OOC_OUT],
                                   total, tdm_ooc_overlap(busy, total)};
    return TDM_OK;
}

tdm_status tdm_outofcore_plan_measured(tdm_outofcore_plan *plan, tdm_outofcore_times *times,
                                       int *from_device) {
    if (!plan || !times)
        return tdm_fail(TDM_BAD_ARGUMENT, "outofcore_plan_measured: %s is NULL",
                        plan ? "times" : "plan");
    memset(times, 0, sizeof *times);
    pthread_mutex_lock(&plan->lock);
    tdm_status status = TDM_OK;
    if (!plan->record.complete || !plan->measures)
        status =
            tdm_fail(TDM_BAD_STATE, "outofcore_plan_measured: %s",
                     plan->measures ? "the plan has not run" : "the plan was made without measure");
    if (status == TDM_OK)
        status = tdm_event_wait(plan->previous);
    if (status == TDM_OK)
        status = add_up(plan, times, from_device);
    pthread_mutex_unlock(&plan->lock);
    return status;
}
