/*
 * Graphs: commands recorded from a stream. The driver replays them in one call if it can. Otherwise
 * they are enqueued one by one, which is the reference behaviour.
 */
#include <stdlib.h>
#include <string.h>

#include "api/device/device_internal.h"
#include "api/device/graph.h"
#include "api/device/memory/memory_pool.h"

struct tdm_graph {
    tdm_device *device; /* holds a reference */
    tdm_command *commands;
    int count, capacity;
    bool broken;          /* no host memory for a command, so the graph is incomplete */
    tdm_bk_graph *native; /* the driver's graph, or NULL */
    /* for the driver's graph: all blocks of the commands, each once, grouped by pool */
    tdm_block **blocks;
    int block_count;
};

static bool grow(tdm_graph *graph) {
    if (graph->count < graph->capacity)
        return true;
    const int capacity = graph->capacity ? 2 * graph->capacity : 16;
    tdm_command *const bigger = tdm_host_realloc(
        graph->commands, (size_t)graph->count * sizeof *bigger, (size_t)capacity * sizeof *bigger);
    if (!bigger)
        return false;
    graph->commands = bigger;
    graph->capacity = capacity;
    return true;
}

static size_t blob_room(uint32_t bytes) {
    return ((size_t)bytes + 15) / 16 * 16;
}

/* Returns the number of bytes that an argument points to and sets their address. It is 0 if the
 * argument holds its own value. */
static uint32_t referred_bytes(const tdm_arg *arg, const void **from) {
    const bool is_map = arg->kind == TDM_ARG_TENSOR_MAP;
    *from = is_map ? (const void *)arg->value.buffer.tensor_map : arg->value.blob;
    return is_map ? sizeof(tdm_bk_tensor_map) : arg->kind == TDM_ARG_BLOB ? arg->bytes : 0;
}

/* Copies the arguments and the bytes that they point to into one allocation. */
static tdm_arg *copy_args(const tdm_launch *launch) {
    const void *from;
    size_t bytes = (size_t)launch->arg_count * sizeof(tdm_arg);
    for (int i = 0; i < launch->arg_count; i++)
        bytes += blob_room(referred_bytes(&launch->args[i], &from));
    tdm_arg *const args = tdm_host_alloc(bytes);
    if (!args)
        return NULL;
    unsigned char *room = (unsigned char *)(args + launch->arg_count);
    for (int i = 0; i < launch->arg_count; i++) {
        args[i] = launch->args[i];
        const uint32_t referred = referred_bytes(&args[i], &from);
        if (referred == 0)
            continue;
        memcpy(room, from, referred);
        if (args[i].kind == TDM_ARG_BLOB)
            args[i].value.blob = room;
        else
            args[i].value.buffer.tensor_map = (const tdm_bk_tensor_map *)(void *)room;
        room += blob_room(referred);
    }
    return args;
}

static tdm_status fail_append(tdm_graph *graph, const tdm_command *command) {
    graph->broken = true;
    return tdm_fail(TDM_OUT_OF_HOST_MEMORY, "%s: no host memory to record it", command->operation);
}

tdm_status tdm_graph_append(tdm_graph *graph, const tdm_command *command) {
    if (!grow(graph))
        return fail_append(graph, command);
    tdm_command copy = *command;
    if (copy.kind == TDM_COMMAND_LAUNCH) {
        copy.as.launch.launch.args = copy_args(&command->as.launch.launch);
        if (!copy.as.launch.launch.args)
            return fail_append(graph, command);
    }
    for (int i = 0; i < copy.block_count; i++)
        tdm_block_retain(copy.blocks[i]);
    graph->commands[graph->count++] = copy;
    return TDM_OK;
}

/* ---- the driver's graph ---------------------------------------------------------------------- */

static int compare_blocks(const void *a, const void *b) {
    const tdm_block *const first = *(tdm_block *const *)a, *const second = *(tdm_block *const *)b;
    const uintptr_t left = (uintptr_t)first->pool, right = (uintptr_t)second->pool;
    if (left != right)
        return left < right ? -1 : 1;
    return first == second ? 0 : ((uintptr_t)first < (uintptr_t)second ? -1 : 1);
}

static bool collect_blocks(tdm_graph *graph) {
    size_t count = 0, kept = 0;
    for (int i = 0; i < graph->count; i++)
        count += (size_t)graph->commands[i].block_count;
    graph->blocks = tdm_host_calloc(count ? count : 1, sizeof(tdm_block *));
    if (!graph->blocks)
        return false;
    for (int i = 0; i < graph->count; i++)
        for (int j = 0; j < graph->commands[i].block_count; j++)
            graph->blocks[kept++] = graph->commands[i].blocks[j];
    qsort((void *)graph->blocks, kept, sizeof(tdm_block *), compare_blocks);
    for (size_t i = 0; i < kept; i++)
        if (i == 0 || graph->blocks[i] != graph->blocks[i - 1])
            graph->blocks[graph->block_count++] = graph->blocks[i];
    return true;
}

static tdm_status give_commands(tdm_bk_stream *stream, void *user) {
    const tdm_graph *const graph = user;
    for (int i = 0; i < graph->count; i++)
        TDM_TRY(tdm_command_give(graph->device->api, stream, &graph->commands[i]));
    return TDM_OK;
}

static tdm_status build_native(tdm_graph *graph) {
    const tdm_backend *const api = graph->device->api;
    if (!api->graph_create)
        return tdm_fail(TDM_UNSUPPORTED, "the backend has no graphs");
    // The library promises that a host task runs even if the device is lost; a driver does not.
    for (int i = 0; i < graph->count; i++)
        if (graph->commands[i].kind == TDM_COMMAND_HOST_TASK)
            return tdm_fail(TDM_UNSUPPORTED, "command %d is a host task", i);
    if (!collect_blocks(graph))
        return tdm_fail(TDM_OUT_OF_HOST_MEMORY, "no host memory");
    return api->graph_create(graph->device->native, give_commands, graph, &graph->native);
}

static void make_native(tdm_graph *graph) {
    if (graph->count == 0)
        return;
    const tdm_status status = build_native(graph);
    tdm_log(TDM_LOG_DEBUG, "dispatch", "graph of %d commands: replayed by the %s%s", graph->count,
            status == TDM_OK ? "driver" : "library: ", status == TDM_OK ? "" : tdm_last_detail());
}

static tdm_status launch_native(const tdm_graph *graph, tdm_stream *stream) {
    const tdm_command command = {.kind = TDM_COMMAND_GRAPH,
                                 .operation = "graph_launch",
                                 .live_only = true,
                                 .all_blocks = graph->blocks,
                                 .block_count = graph->block_count,
                                 .as.graph = graph->native};
    return tdm_command_enqueue(stream, &command);
}

/* ---- recording ------------------------------------------------------------------------------- */

tdm_status tdm_stream_begin_recording(tdm_stream *stream) {
    if (!stream)
        return tdm_fail(TDM_BAD_ARGUMENT, "stream_begin_recording: stream is NULL");
    tdm_graph *const graph = tdm_host_calloc(1, sizeof *graph);
    if (!graph)
        return tdm_fail(TDM_OUT_OF_HOST_MEMORY, "stream_begin_recording: no host memory");
    graph->device = stream->device;
    tdm_device_retain(graph->device);
    pthread_mutex_lock(&stream->lock);
    tdm_status status = tdm_stream_failure_locked(stream);
    if (status == TDM_OK && stream->recording)
        status = tdm_fail(TDM_BAD_STATE, "stream_begin_recording: the stream is recording already");
    if (status == TDM_OK)
        stream->recording = graph;
    pthread_mutex_unlock(&stream->lock);
    if (status != TDM_OK)
        tdm_graph_destroy(graph);
    return status;
}

tdm_status tdm_stream_end_recording(tdm_stream *stream, tdm_graph **graph) {
    if (!graph)
        return tdm_fail(TDM_BAD_ARGUMENT, "stream_end_recording: graph is NULL");
    *graph = NULL;
    if (!stream)
        return tdm_fail(TDM_BAD_ARGUMENT, "stream_end_recording: stream is NULL");
    pthread_mutex_lock(&stream->lock);
    tdm_graph *const recorded = stream->recording;
    stream->recording = NULL;
    pthread_mutex_unlock(&stream->lock);
    if (!recorded)
        return tdm_fail(TDM_BAD_STATE, "stream_end_recording: the stream is not recording");
    if (recorded->broken) {
        tdm_graph_destroy(recorded);
        return tdm_fail(TDM_OUT_OF_HOST_MEMORY,
                        "stream_end_recording: no host memory to record a command");
    }
    make_native(recorded);
    *graph = recorded;
    return TDM_OK;
}

/* ---- replay ---------------------------------------------------------------------------------- */

static tdm_status replay(const tdm_graph *graph, tdm_stream *stream) {
    for (int i = 0; i < graph->count; i++) {
        const tdm_status status = tdm_command_enqueue(stream, &graph->commands[i]);
        if (status != TDM_OK)
            return tdm_fail_prefix(status, "graph_launch: command %d of %d", i, graph->count);
    }
    return TDM_OK;
}

tdm_status tdm_graph_launch(tdm_graph *graph, tdm_stream *stream) {
    if (!graph || !stream)
        return tdm_fail(TDM_BAD_ARGUMENT, "graph_launch: %s is NULL", graph ? "stream" : "graph");
    TDM_TRY(
        tdm_check_device("graph_launch", "the graph", graph->device, "the stream", stream->device));
    TDM_TRY(tdm_refuse_recording(stream, "graph_launch"));
    if (!graph->native)
        return replay(graph, stream);
    const tdm_status status = launch_native(graph, stream);
    if (status == TDM_OK || status == TDM_DEVICE_LOST)
        return status;
    tdm_log(TDM_LOG_DEBUG, "dispatch",
            "graph of %d commands: this launch is replayed by the library: %s", graph->count,
            tdm_last_detail());
    return replay(graph, stream);
}

int tdm_graph_command_count(const tdm_graph *graph) {
    return graph ? graph->count : 0;
}

void tdm_graph_destroy(tdm_graph *graph) {
    if (!graph)
        return;
    for (int i = 0; i < graph->count; i++) {
        tdm_command *const command = &graph->commands[i];
        if (command->kind == TDM_COMMAND_LAUNCH)
            tdm_host_free((void *)command->as.launch.launch.args);
        for (int j = 0; j < command->block_count; j++)
            tdm_block_release(command->blocks[j]);
    }
    if (graph->native)
        graph->device->api->graph_destroy(graph->native);
    tdm_host_free((void *)graph->blocks);
    tdm_host_free(graph->commands);
    tdm_device_reap_pools(graph->device);
    tdm_device_release(graph->device);
    tdm_host_free(graph);
}
