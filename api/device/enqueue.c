/* Enqueues work on a stream, or records it in a graph. The stream first waits for other streams
 * that used the same memory before. */
#include <string.h>

#include "api/device/device_internal.h"
#include "api/device/graph.h"
#include "api/device/memory/memory_pool.h"

static void touch(tdm_command *command, tdm_block *block) {
    for (int i = 0; i < command->block_count; i++)
        if (command->blocks[i] == block)
            return;
    command->blocks[command->block_count++] = block;
}

tdm_status tdm_host_task_locked(tdm_stream *stream, const char *operation,
                                void (*function)(void *user), void *user) {
    const tdm_backend *const api = stream->device->api;
    if (api->host_task && (stream->device->info.capabilities & TDM_CAP_HOST_TASK))
        return api->host_task(stream->native, operation, function, user);
    const char *failed = NULL;
    const tdm_status status = api->stream_wait(stream->native, &failed);
    if (status != TDM_OK) {
        tdm_fail_prefix(status, "%s: failed after it was enqueued", failed ? failed : "stream");
        return tdm_stream_fail_locked(stream, status);
    }
    function(user);
    return TDM_OK;
}

static tdm_status call_rows(tdm_stream *stream, const tdm_command *command) {
    const tdm_backend *const api = stream->device->api;
    tdm_block *const block = command->blocks[0];
    tdm_bk_rows rows = command->as.rows.rows;
    rows.offset += block->offset;
    if (command->kind == TDM_COMMAND_WRITE_ROWS)
        return api->write_rows(stream->native, command->operation, block->memory, &rows,
                               command->as.rows.source);
    return api->read_rows(stream->native, command->operation, block->memory, &rows,
                          command->as.rows.target);
}

tdm_status tdm_command_give(const tdm_backend *api, tdm_bk_stream *stream,
                            const tdm_command *command) {
    tdm_block *const first = command->blocks[0];
    switch (command->kind) {
    case TDM_COMMAND_LAUNCH:
        return api->launch(stream, command->operation, command->as.launch.kernel->native,
                           &command->as.launch.launch);
    case TDM_COMMAND_COPY:
        return api->copy(stream, command->operation, command->as.copy.target->memory,
                         command->as.copy.target->offset + command->as.copy.target_offset,
                         command->as.copy.source->memory,
                         command->as.copy.source->offset + command->as.copy.source_offset,
                         command->as.copy.bytes);
    case TDM_COMMAND_FILL:
        return api->fill(stream, command->operation, first->memory,
                         first->offset + command->as.fill.offset, command->as.fill.bytes,
                         command->as.fill.pattern, command->as.fill.pattern_bytes);
    default:
        return tdm_fail(TDM_INTERNAL, "%s: unknown command %d", command->operation,
                        (int)command->kind);
    }
}

static tdm_status call_backend(tdm_stream *stream, const tdm_command *command) {
    const tdm_backend *const api = stream->device->api;
    tdm_block *const first = command->blocks[0];
    switch (command->kind) {
    case TDM_COMMAND_WRITE:
        return api->write(stream->native, command->operation, first->memory,
                          first->offset + command->as.host.offset, command->as.host.source,
                          command->as.host.bytes);
    case TDM_COMMAND_READ:
        return api->read(stream->native, command->operation, first->memory,
                         first->offset + command->as.host.offset, command->as.host.target,
                         command->as.host.bytes);
    case TDM_COMMAND_WRITE_ROWS:
    case TDM_COMMAND_READ_ROWS:
        return call_rows(stream, command);
    case TDM_COMMAND_HOST_TASK:
        return tdm_host_task_locked(stream, command->operation, command->as.task.function,
                                    command->as.task.user);
    case TDM_COMMAND_GRAPH:
        return api->graph_launch(stream->native, command->as.graph);
    case TDM_COMMAND_LAUNCH:
    case TDM_COMMAND_COPY:
    case TDM_COMMAND_FILL:
        break;
    }
    return tdm_command_give(api, stream->native, command);
}

static tdm_block *const *blocks_of(const tdm_command *command) {
    return command->all_blocks ? command->all_blocks : command->blocks;
}

/* Makes the stream wait for the fences of other streams. A NULL entry needs no wait. The stream is
 * locked. */
static tdm_status insert_dependencies(tdm_stream *stream, tdm_fence *const *fences, int count) {
    for (int i = 0; i < count; i++)
        if (fences[i])
            TDM_TRY(stream->device->api->stream_wait_event(stream->native, fences[i]->native));
    return TDM_OK;
}

/* Records the use in each pool that owns blocks of the command. */
static void mark_uses(const tdm_command *command, tdm_use use) {
    tdm_block *const *const blocks = blocks_of(command);
    for (int first = 0, end; first < command->block_count; first = end) {
        end = first + 1;
        while (end < command->block_count && blocks[end]->pool == blocks[first]->pool)
            end++;
        tdm_pool_record_use(blocks + first, end - first, use);
    }
}

static tdm_status enqueue_locked(tdm_stream *stream, const tdm_command *command,
                                 tdm_fence *const *fences, int mark_count) {
    TDM_TRY(tdm_stream_failure_locked(stream));
    if (stream->recording && command->live_only)
        return tdm_fail(TDM_BAD_STATE, "%s: the stream is recording", command->operation);
    if (stream->recording)
        return tdm_graph_append(stream->recording, command);
    TDM_TRY(insert_dependencies(stream, fences, mark_count));
    const tdm_status status = call_backend(stream, command);
    if (status == TDM_DEVICE_LOST)
        return tdm_stream_fail_locked(stream, status);
    TDM_TRY(status);
    stream->sequence++;
    mark_uses(command, (tdm_use){.stream = stream->id, .sequence = stream->sequence});
    return TDM_OK;
}

/* Gets a fence of another stream for each dependency. It runs before this stream is locked, so that
 * two streams cannot wait for each other's lock. */
static tdm_status collect_fences(tdm_stream *stream, const tdm_use *dependencies, int count,
                                 tdm_fence **fences) {
    for (int i = 0; i < count; i++)
        TDM_TRY(tdm_device_fence(stream->device, dependencies[i], &fences[i]));
    return TDM_OK;
}

static tdm_status enqueue_behind_dependencies(tdm_stream *stream, const tdm_command *command,
                                              int dependency_count) {
    tdm_status status = TDM_OK;
    tdm_use *const dependencies = tdm_host_calloc((size_t)dependency_count, sizeof *dependencies);
    tdm_fence **const fences = tdm_host_calloc((size_t)dependency_count, sizeof(tdm_fence *));
    if (!dependencies || !fences) {
        status = tdm_fail(TDM_OUT_OF_HOST_MEMORY, "%s: no host memory for %d dependencies",
                          command->operation, dependency_count);
        goto cleanup;
    }
    // Since the first tdm_pool_prepare dependencies can only complete: their number cannot grow.
    const int count = tdm_pool_prepare(blocks_of(command), command->block_count, stream->id,
                                       dependencies, dependency_count);
    TDM_TRY_GOTO(collect_fences(stream, dependencies,
                                count < dependency_count ? count : dependency_count, fences));
    pthread_mutex_lock(&stream->lock);
    status = enqueue_locked(stream, command, fences, dependency_count);
    pthread_mutex_unlock(&stream->lock);

cleanup:
    for (int i = 0; fences && i < dependency_count; i++)
        tdm_fence_release(fences[i]);
    tdm_host_free((void *)fences);
    tdm_host_free(dependencies);
    return status;
}

static _Thread_local struct {
    const tdm_device *device; /* only compared, never dereferenced */
    uint32_t stream;
} recent;

uint32_t tdm_recent_stream(const tdm_device *device) {
    return recent.device == device ? recent.stream : 0;
}

static tdm_status enqueue_once(tdm_stream *stream, const tdm_command *command) {
    recent.device = stream->device;
    recent.stream = stream->id;
    const int dependency_count =
        tdm_pool_prepare(blocks_of(command), command->block_count, stream->id, NULL, 0);
    if (dependency_count < 0)
        return tdm_fail(TDM_OUT_OF_HOST_MEMORY, "%s: no host memory", command->operation);
    if (dependency_count > 0)
        return enqueue_behind_dependencies(stream, command, dependency_count);
    pthread_mutex_lock(&stream->lock);
    const tdm_status status = enqueue_locked(stream, command, NULL, 0);
    pthread_mutex_unlock(&stream->lock);
    return status;
}

tdm_status tdm_command_enqueue(tdm_stream *stream, const tdm_command *command) {
    const tdm_status status = enqueue_once(stream, command);
    // Some drivers allocate device memory only when work is enqueued. Unused memory of the pools
    // is released to make room.
    if (status == TDM_OUT_OF_DEVICE_MEMORY && tdm_device_trim_pools(stream->device) > 0)
        return enqueue_once(stream, command);
    return status;
}

/* ---- arguments ------------------------------------------------------------------------------- */

tdm_arg tdm_arg_block(tdm_block *block, int64_t byte_offset, int unit_bytes) {
    return (tdm_arg){.kind = TDM_ARG_BUFFER,
                     .value.buffer = {.memory = block->memory,
                                      .offset = ((int64_t)block->offset + byte_offset) / unit_bytes,
                                      .block = block}};
}

/* ---- functions for operations ---------------------------------------------------------------- */

tdm_status tdm_enqueue_launch(tdm_stream *stream, const char *operation, tdm_kernel *kernel,
                              const tdm_launch *launch) {
    tdm_command command = {.kind = TDM_COMMAND_LAUNCH, .operation = operation};
    command.as.launch.kernel = kernel;
    command.as.launch.launch = *launch;
    if (launch->arg_count > TDM_MAX_ARGS)
        return tdm_fail(TDM_INTERNAL, "%s: %d kernel arguments, at most %d are supported",
                        operation, launch->arg_count, TDM_MAX_ARGS);
    for (int i = 0; i < launch->arg_count; i++)
        if (launch->args[i].kind == TDM_ARG_BUFFER || launch->args[i].kind == TDM_ARG_TENSOR_MAP)
            touch(&command, launch->args[i].value.buffer.block);
    return tdm_command_enqueue(stream, &command);
}

/* Copies from or to the host are not recorded, because the host memory may be gone at replay.
 * `host_block` is the block that contains the host memory, or NULL. */
static tdm_status enqueue_host_copy(tdm_stream *stream, tdm_command *command, tdm_block *block,
                                    uint64_t offset, size_t bytes, tdm_block *host_block) {
    TDM_TRY(tdm_refuse_recording(stream, command->operation));
    if (bytes == 0)
        return TDM_OK;
    touch(command, block);
    if (host_block)
        touch(command, host_block);
    command->as.host.offset = offset;
    command->as.host.bytes = bytes;
    command->live_only = true;
    return tdm_command_enqueue(stream, command);
}

tdm_status tdm_enqueue_write_from(tdm_stream *stream, const char *operation, tdm_block *target,
                                  uint64_t offset, const void *host, size_t bytes,
                                  tdm_block *host_block) {
    tdm_command command = {.kind = TDM_COMMAND_WRITE, .operation = operation};
    command.as.host.source = host;
    return enqueue_host_copy(stream, &command, target, offset, bytes, host_block);
}

tdm_status tdm_enqueue_read_into(tdm_stream *stream, const char *operation, tdm_block *source,
                                 uint64_t offset, void *host, size_t bytes, tdm_block *host_block) {
    tdm_command command = {.kind = TDM_COMMAND_READ, .operation = operation};
    command.as.host.target = host;
    return enqueue_host_copy(stream, &command, source, offset, bytes, host_block);
}

tdm_status tdm_enqueue_write(tdm_stream *stream, const char *operation, tdm_block *target,
                             uint64_t offset, const void *host, size_t bytes) {
    return tdm_enqueue_write_from(stream, operation, target, offset, host, bytes, NULL);
}

tdm_status tdm_enqueue_read(tdm_stream *stream, const char *operation, tdm_block *source,
                            uint64_t offset, void *host, size_t bytes) {
    return tdm_enqueue_read_into(stream, operation, source, offset, host, bytes, NULL);
}

static tdm_status enqueue_rows(tdm_stream *stream, tdm_command *command, tdm_block *block,
                               const tdm_bk_rows *rows) {
    TDM_TRY(tdm_refuse_recording(stream, command->operation));
    if (rows->rows == 0 || rows->bytes == 0)
        return TDM_OK;
    touch(command, block);
    command->as.rows.rows = *rows;
    command->live_only = true;
    return tdm_command_enqueue(stream, command);
}

tdm_status tdm_enqueue_write_rows(tdm_stream *stream, const char *operation, tdm_block *target,
                                  const tdm_bk_rows *rows, const void *host) {
    tdm_command command = {.kind = TDM_COMMAND_WRITE_ROWS, .operation = operation};
    command.as.rows.source = host;
    return enqueue_rows(stream, &command, target, rows);
}

tdm_status tdm_enqueue_read_rows(tdm_stream *stream, const char *operation, tdm_block *source,
                                 const tdm_bk_rows *rows, void *host) {
    tdm_command command = {.kind = TDM_COMMAND_READ_ROWS, .operation = operation};
    command.as.rows.target = host;
    return enqueue_rows(stream, &command, source, rows);
}

tdm_status tdm_enqueue_copy(tdm_stream *stream, const char *operation, tdm_block *target,
                            uint64_t target_offset, tdm_block *source, uint64_t source_offset,
                            size_t bytes) {
    if (bytes == 0)
        return TDM_OK;
    tdm_command command = {.kind = TDM_COMMAND_COPY, .operation = operation};
    touch(&command, target);
    touch(&command, source);
    command.as.copy.target = target;
    command.as.copy.source = source;
    command.as.copy.target_offset = target_offset;
    command.as.copy.source_offset = source_offset;
    command.as.copy.bytes = bytes;
    return tdm_command_enqueue(stream, &command);
}

tdm_status tdm_enqueue_fill(tdm_stream *stream, const char *operation, tdm_block *target,
                            uint64_t offset, size_t bytes, const void *pattern,
                            size_t pattern_bytes) {
    if (bytes == 0)
        return TDM_OK;
    tdm_command command = {.kind = TDM_COMMAND_FILL, .operation = operation};
    if (pattern_bytes > sizeof command.as.fill.pattern)
        return tdm_fail(TDM_INTERNAL, "%s: the pattern has %zu bytes, which is not supported",
                        operation, pattern_bytes);
    touch(&command, target);
    command.as.fill.offset = offset;
    command.as.fill.bytes = bytes;
    command.as.fill.pattern_bytes = pattern_bytes;
    memcpy(command.as.fill.pattern, pattern, pattern_bytes);
    return tdm_command_enqueue(stream, &command);
}

tdm_status tdm_enqueue_host_task(tdm_stream *stream, const char *operation,
                                 void (*function)(void *user), void *user) {
    tdm_command command = {
        .kind = TDM_COMMAND_HOST_TASK, .operation = operation, .live_only = true};
    command.as.task.function = function;
    command.as.task.user = user;
    return tdm_command_enqueue(stream, &command);
}

tdm_status tdm_stream_host_task(tdm_stream *stream, void (*function)(void *user), void *user) {
    if (!stream || !function)
        return tdm_fail(TDM_BAD_ARGUMENT, "stream_host_task: %s is NULL",
                        stream ? "function" : "stream");
    tdm_command command = {.kind = TDM_COMMAND_HOST_TASK, .operation = "host_task"};
    command.as.task.function = function;
    command.as.task.user = user;
    return tdm_command_enqueue(stream, &command);
}
