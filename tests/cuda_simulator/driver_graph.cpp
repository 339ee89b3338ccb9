/* This file implements stream capture and graphs. A graph replays the captured commands in the
 * order of the calls. */
#include "tests/cuda_simulator/driver_state.h"

/* Returns the captures in progress; needs the lock of sim_get(). */
static std::vector<CUgraph> &captures() {
    static std::vector<CUgraph> *const list = new std::vector<CUgraph>;
    return *list;
}

/* Returns an error if a capture is in progress that forbids unordered calls. A thread-local capture
 * forbids them to its own thread, a global one to all threads, a relaxed one to none. */
CUresult sim_forbidden_in_capture() {
    const std::lock_guard<std::mutex> held(sim_get().lock);
    for (const CUgraph graph : captures()) {
        const bool own = graph->origin->capture_thread == std::this_thread::get_id();
        if (graph->mode == CU_STREAM_CAPTURE_MODE_GLOBAL ||
            (graph->mode == CU_STREAM_CAPTURE_MODE_THREAD_LOCAL && own)) {
            graph->lost = graph->lost || own;
            return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
        }
    }
    return CUDA_SUCCESS;
}

CUresult cuStreamBeginCapture_v2(CUstream handle, CUstreamCaptureMode mode) {
    CUcontext context = nullptr;
    CUresult state = sim_context(&context);
    if (state != CUDA_SUCCESS)
        return state;
    if (handle == nullptr)
        return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    std::shared_ptr<CUstream_st> stream;
    state = sim_stream_of(handle, context, &stream);
    if (state != CUDA_SUCCESS || mode > CU_STREAM_CAPTURE_MODE_RELAXED)
        return state != CUDA_SUCCESS ? state : static_cast<CUresult>(CUDA_ERROR_INVALID_VALUE);
    std::shared_ptr<CUgraph_st> graph = std::make_shared<CUgraph_st>();
    graph->mode = mode;
    graph->origin = stream.get();
    const std::lock_guard<std::mutex> held(sim_get().lock);
    if (stream->capture != nullptr)
        return CUDA_ERROR_ILLEGAL_STATE;
    stream->capture = sim_get().graphs.add(graph);
    stream->capture_thread = std::this_thread::get_id();
    captures().push_back(graph.get());
    return CUDA_SUCCESS;
}

static void leave_capture(CUgraph graph) {
    for (const std::shared_ptr<CUstream_st> &stream : sim_get().streams.all())
        if (stream->capture == graph)
            stream->capture = nullptr;
    std::vector<CUgraph> &list = captures();
    for (size_t i = 0; i < list.size(); i++) {
        if (list[i] == graph) {
            list.erase(list.begin() + static_cast<std::ptrdiff_t>(i));
            break;
        }
    }
}

CUresult cuStreamEndCapture(CUstream handle, CUgraph *graph) {
    CUcontext context = nullptr;
    CUresult state = sim_context(&context);
    std::shared_ptr<CUstream_st> stream;
    state = state == CUDA_SUCCESS ? sim_stream_of(handle, context, &stream) : state;
    if (state != CUDA_SUCCESS)
        return state;
    *graph = nullptr;
    const std::lock_guard<std::mutex> held(sim_get().lock);
    const CUgraph captured = stream->capture;
    if (captured == nullptr || captured->origin != stream.get())
        return captured == nullptr ? CUDA_ERROR_ILLEGAL_STATE : CUDA_ERROR_STREAM_CAPTURE_UNMATCHED;
    if (captured->mode != CU_STREAM_CAPTURE_MODE_RELAXED &&
        stream->capture_thread != std::this_thread::get_id())
        return CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD;
    leave_capture(captured);
    if (captured->lost) {
        sim_get().graphs.take(captured);
        return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    }
    *graph = captured;
    return CUDA_SUCCESS;
}

CUresult cuGraphInstantiateWithFlags(CUgraphExec *executable, CUgraph handle,
                                     unsigned long long flags) {
    CUcontext context = nullptr;
    const CUresult state = sim_context(&context);
    if (state != CUDA_SUCCESS)
        return state;
    const std::shared_ptr<CUgraph_st> graph = sim_get().graphs.find(handle);
    if (graph == nullptr || flags != 0)
        return graph == nullptr ? CUDA_ERROR_INVALID_HANDLE : CUDA_ERROR_INVALID_VALUE;
    std::shared_ptr<CUgraphExec_st> fresh = std::make_shared<CUgraphExec_st>();
    fresh->commands = std::make_shared<std::vector<sim_command>>(graph->commands);
    *executable = sim_get().executables.add(fresh);
    return CUDA_SUCCESS;
}

CUresult cuGraphLaunch(CUgraphExec handle, CUstream stream_handle) {
    CUcontext context = nullptr;
    CUresult state = sim_context(&context);
    std::shared_ptr<CUstream_st> stream;
    state = state == CUDA_SUCCESS ? sim_stream_of(stream_handle, context, &stream) : state;
    if (state != CUDA_SUCCESS)
        return state;
    const std::shared_ptr<CUgraphExec_st> executable = sim_get().executables.find(handle);
    if (executable == nullptr)
        return CUDA_ERROR_INVALID_HANDLE;
    const std::shared_ptr<std::vector<sim_command>> commands = executable->commands;
    return sim_enqueue(stream.get(), {[commands](sim_worker &worker) -> CUresult {
                                          for (const sim_command &command : *commands) {
                                              const CUresult result = command.run(worker);
                                              if (result != CUDA_SUCCESS)
                                                  return result;
                                          }
                                          return CUDA_SUCCESS;
                                      },
                                      false});
}

CUresult cuGraphExecDestroy(CUgraphExec executable) {
    return sim_get().executables.take(executable) != nullptr ? CUDA_SUCCESS
                                                             : CUDA_ERROR_INVALID_HANDLE;
}

CUresult cuGraphDestroy(CUgraph graph) {
    return sim_get().graphs.take(graph) != nullptr ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}
