/*
 * Graphs: the work that is enqueued during a stream capture becomes one launch.
 *
 * The capture is relaxed: other threads are not restricted, and nothing waits or allocates during
 * the capture.
 */
#include "backend_cuda/cuda_internal.h"

/* The version that introduced the newest of the graph functions. */
#define GRAPHS_VERSION 11040

static bool has_graphs(const tdm_cuda_api *api) {
    return api->cuStreamBeginCapture && api->cuStreamEndCapture && api->cuGraphInstantiate &&
           api->cuGraphLaunch && api->cuGraphExecDestroy && api->cuGraphDestroy;
}

static tdm_status begin_capture(const tdm_bk_stream *stream) {
    const tdm_status status = tdm_cuda_enter(stream->device, "graph");
    if (status != TDM_OK)
        return status;
    const CUresult code = CUDA_CALL(stream->device->api, cuStreamBeginCapture, stream->stream,
                                    CU_STREAM_CAPTURE_MODE_RELAXED);
    tdm_cuda_leave(stream->device);
    return code == CUDA_SUCCESS ? TDM_OK : tdm_cuda_fail(code, "graph", "cuStreamBeginCapture");
}

/*
 * Ends the capture even if a fault is injected, because a stream in capture cannot even be
 * destroyed. The caller has made the device's context current.
 */
static CUresult end_capture(const tdm_bk_stream *stream, CUgraph *graph) {
    const int fault = tdm_fault("cuStreamEndCapture");
    const CUresult code = stream->device->api->cuStreamEndCapture(stream->stream, graph);
    return fault != 0 ? (CUresult)fault : code;
}

static CUresult instantiate(const tdm_bk_device *device, CUgraph graph, CUgraphExec *executable) {
    return CUDA_CALL(device->api, cuGraphInstantiate, executable, graph, 0);
}

/*
 * Ends the capture and instantiates the captured graph. If `status` is a failure it only ends the
 * capture, and returns `status`.
 */
static tdm_status finish(const tdm_bk_stream *stream, tdm_status status, tdm_bk_graph *graph) {
    const tdm_bk_device *const device = stream->device;
    CUgraph captured = NULL;
    const CUresult entered = tdm_cuda_enter_always(device);
    if (entered != CUDA_SUCCESS)
        return status != TDM_OK ? status : tdm_cuda_fail(entered, "graph", "cuCtxPushCurrent");
    const CUresult ended = end_capture(stream, &captured);
    const CUresult code = status != TDM_OK || ended != CUDA_SUCCESS
                              ? ended
                              : instantiate(device, captured, &graph->executable);
    if (captured)
        CUDA_RELEASE(device->api, cuGraphDestroy, captured);
    tdm_cuda_leave(device);
    if (status != TDM_OK || code == CUDA_SUCCESS)
        return status;
    return tdm_cuda_fail(code, "graph",
                         ended != CUDA_SUCCESS ? "cuStreamEndCapture" : "cuGraphInstantiate");
}

static tdm_status capture(tdm_bk_stream *stream,
                          tdm_status (*enqueue)(tdm_bk_stream *stream, void *user), void *user,
                          tdm_bk_graph *graph) {
    tdm_status status = begin_capture(stream);
    if (status != TDM_OK)
        return status;
    status = finish(stream, enqueue(stream, user), graph);
    graph->names = stream->names;
    tdm_cuda_stream_forget(stream, CUDA_SUCCESS);
    return status;
}

tdm_status tdm_cuda_graph_create(tdm_bk_device *device,
                                 tdm_status (*enqueue)(tdm_bk_stream *stream, void *user),
                                 void *user, tdm_bk_graph **graph) {
    if (!has_graphs(device->api))
        return tdm_fail(TDM_UNSUPPORTED, "graphs need CUDA %d.%d, the driver offers %d.%d",
                        GRAPHS_VERSION / 1000, GRAPHS_VERSION % 1000 / 10,
                        device->api->version / 1000, device->api->version % 1000 / 10);
    tdm_bk_graph *const created = tdm_host_calloc(1, sizeof *created);
    if (!created)
        return tdm_fail(TDM_OUT_OF_HOST_MEMORY, "graph: no host memory");
    created->device = device;
    tdm_bk_stream *stream = NULL;
    tdm_status status = tdm_cuda_stream_create(device, &stream);
    if (status == TDM_OK) {
        status = capture(stream, enqueue, user, created);
        tdm_cuda_stream_destroy(stream);
    }
    if (status != TDM_OK) {
        tdm_host_free(created);
        return status;
    }
    *graph = created;
    return TDM_OK;
}

tdm_status tdm_cuda_graph_launch(tdm_bk_stream *stream, tdm_bk_graph *graph) {
    const tdm_status status = tdm_cuda_enter(stream->device, "graph");
    if (status != TDM_OK)
        return status;
    const CUresult code =
        CUDA_CALL(stream->device->api, cuGraphLaunch, graph->executable, stream->stream);
    tdm_cuda_leave(stream->device);
    if (code != CUDA_SUCCESS)
        return tdm_cuda_enqueue_fail(stream, code, "graph", "cuGraphLaunch");
    tdm_cuda_stream_note_all(stream, &graph->names);
    return TDM_OK;
}

/* Destroys the graph, which may still run: the driver keeps what it needs. */
void tdm_cuda_graph_destroy(tdm_bk_graph *graph) {
    if (tdm_cuda_enter_always(graph->device) == CUDA_SUCCESS) {
        CUDA_RELEASE(graph->device->api, cuGraphExecDestroy, graph->executable);
        tdm_cuda_leave(graph->device);
    }
    tdm_host_free(graph);
}
