/* This file implements streams and events. Each stream is a thread that runs its commands in order,
 * later than they were enqueued. */
#include "tests/cuda_simulator/driver_state.h"

/* ---- the thread of a stream ---- */

static void work(std::shared_ptr<CUstream_st> stream) {
    sim_worker worker;
    std::unique_lock<std::mutex> held(stream->lock);
    for (;;) {
        while (stream->queue.empty() && !stream->closed)
            stream->more.wait(held);
        if (stream->queue.empty()) {
            sim_get().leaving.take(stream.get());
            return;
        }
        sim_command command = std::move(stream->queue.front());
        stream->queue.pop_front();
        stream->busy = true;
        held.unlock();
        if (command.always || stream->context->error.load() == CUDA_SUCCESS) {
            const CUresult result = command.run(worker);
            CUresult none = CUDA_SUCCESS;
            if (result != CUDA_SUCCESS)
                stream->context->error.compare_exchange_strong(none, result);
        }
        command.run = nullptr; /* release what it holds before the stream is idle */
        held.lock();
        stream->busy = false;
        if (stream->queue.empty())
            stream->idle.notify_all();
    }
}

CUresult sim_stream_open(CUcontext context, unsigned flags, CUstream *handle) {
    std::shared_ptr<CUstream_st> stream = std::make_shared<CUstream_st>();
    stream->context = context;
    stream->flags = flags;
    try {
        std::thread(work, stream).detach();
    } catch (const std::exception &) {
        return CUDA_ERROR_OPERATING_SYSTEM;
    }
    *handle = sim_get().streams.add(stream);
    return CUDA_SUCCESS;
}

static void close_stream(CUstream_st *stream) {
    const std::lock_guard<std::mutex> held(stream->lock);
    stream->closed = true;
    stream->more.notify_all();
}

static void drain(CUstream_st *stream) {
    std::unique_lock<std::mutex> held(stream->lock);
    while (stream->busy || !stream->queue.empty())
        stream->idle.wait(held);
}

void sim_streams_drain_all(CUcontext context) {
    for (sim_handles<CUstream_st> *const streams : {&sim_get().streams, &sim_get().leaving}) {
        for (const std::shared_ptr<CUstream_st> &stream : streams->all())
            if (stream->context == context)
                drain(stream.get());
    }
}

void sim_streams_release_all(CUcontext context) {
    sim_streams_drain_all(context);
    for (const std::shared_ptr<CUstream_st> &stream : sim_get().streams.all()) {
        if (stream->context == context) {
            close_stream(stream.get());
            sim_get().streams.take(stream.get());
        }
    }
}

CUresult sim_stream_of(CUstream handle, CUcontext context, std::shared_ptr<CUstream_st> *stream) {
    if (handle == nullptr) {
        const std::lock_guard<std::mutex> held(sim_get().lock);
        if (context->null_stream == nullptr) {
            const CUresult result = sim_stream_open(context, 0, &context->null_stream);
            if (result != CUDA_SUCCESS)
                return result;
        }
        handle = context->null_stream;
    }
    *stream = sim_get().streams.find(handle);
    if (*stream == nullptr) {
        sim_log("a stream that is not one, or was destroyed");
        return CUDA_ERROR_INVALID_HANDLE;
    }
    return (*stream)->context == context ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

CUresult sim_enqueue(CUstream stream, sim_command command) {
    {
        const std::lock_guard<std::mutex> held(sim_get().lock);
        if (stream->capture != nullptr) {
            if (stream->capture->lost)
                return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
            stream->capture->commands.push_back(std::move(command));
            return CUDA_SUCCESS;
        }
    }
    const std::lock_guard<std::mutex> held(stream->lock);
    stream->queue.push_back(std::move(command));
    stream->more.notify_one();
    return CUDA_SUCCESS;
}

/* ---- streams ---- */

CUresult cuStreamCreate(CUstream *stream, unsigned int flags) {
    CUcontext context = nullptr;
    const CUresult state = sim_context(&context);
    if (state != CUDA_SUCCESS)
        return state;
    if ((flags & ~static_cast<unsigned>(CU_STREAM_NON_BLOCKING)) != 0)
        return CUDA_ERROR_INVALID_VALUE;
    return sim_stream_open(context, flags, stream);
}

/* Work that was enqueued before the call still runs. */
CUresult cuStreamDestroy_v2(CUstream handle) {
    CUcontext context = nullptr;
    const CUresult state = sim_context(&context);
    if (state != CUDA_SUCCESS && context == nullptr)
        return state;
    const std::shared_ptr<CUstream_st> stream = sim_get().streams.take(handle);
    if (stream == nullptr) {
        sim_log("a stream was destroyed that is not one, or for the second time");
        return CUDA_ERROR_INVALID_HANDLE;
    }
    sim_get().leaving.add(stream);
    close_stream(stream.get());
    return state;
}

CUresult cuStreamSynchronize(CUstream handle) {
    CUcontext context = nullptr;
    CUresult state = sim_context(&context);
    std::shared_ptr<CUstream_st> stream;
    state = state == CUDA_SUCCESS ? sim_stream_of(handle, context, &stream) : state;
    if (state != CUDA_SUCCESS)
        return state;
    {
        const std::lock_guard<std::mutex> held(sim_get().lock);
        if (stream->capture != nullptr) {
            stream->capture->lost = true;
            return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
        }
    }
    drain(stream.get());
    return context->error.load();
}

/* ---- events ---- */

static CUresult event_of(CUevent handle, std::shared_ptr<CUevent_st> *event) {
    *event = sim_get().events.find(handle);
    return *event != nullptr ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

CUresult cuEventCreate(CUevent *event, unsigned int flags) {
    CUcontext context = nullptr;
    const CUresult state = sim_context(&context);
    if (state != CUDA_SUCCESS)
        return state;
    if ((flags & ~(CU_EVENT_BLOCKING_SYNC | CU_EVENT_DISABLE_TIMING | 0u)) != 0)
        return CUDA_ERROR_INVALID_VALUE;
    std::shared_ptr<CUevent_st> fresh = std::make_shared<CUevent_st>();
    fresh->flags = flags;
    *event = sim_get().events.add(fresh);
    return CUDA_SUCCESS;
}

CUresult cuEventDestroy_v2(CUevent event) {
    return sim_get().events.take(event) != nullptr ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

CUresult cuEventRecord(CUevent handle, CUstream stream_handle) {
    CUcontext context = nullptr;
    CUresult state = sim_context(&context);
    std::shared_ptr<CUstream_st> stream;
    std::shared_ptr<CUevent_st> event;
    state = state == CUDA_SUCCESS ? sim_stream_of(stream_handle, context, &stream) : state;
    state = state == CUDA_SUCCESS ? event_of(handle, &event) : state;
    if (state != CUDA_SUCCESS)
        return state;
    const std::shared_ptr<sim_record> record = std::make_shared<sim_record>();
    {
        const std::lock_guard<std::mutex> held(sim_get().lock);
        record->capture = stream->capture;
        event->record = record;
        if (stream->capture != nullptr) /* an edge of the graph, which is in order anyway */
            return stream->capture->lost ? CUDA_ERROR_STREAM_CAPTURE_INVALIDATED : CUDA_SUCCESS;
    }
    return sim_enqueue(stream.get(), {[record](sim_worker &) -> CUresult {
                                          const std::lock_guard<std::mutex> held(sim_get().lock);
                                          record->time = std::chrono::steady_clock::now();
                                          record->done = true;
                                          sim_get().recorded.notify_all();
                                          return CUDA_SUCCESS;
                                      },
                                      true});
}

CUresult cuStreamWaitEvent(CUstream stream_handle, CUevent handle, unsigned int flags) {
    CUcontext context = nullptr;
    CUresult state = sim_context(&context);
    std::shared_ptr<CUstream_st> stream;
    std::shared_ptr<CUevent_st> event;
    state = state == CUDA_SUCCESS ? sim_stream_of(stream_handle, context, &stream) : state;
    state = state == CUDA_SUCCESS ? event_of(handle, &event) : state;
    if (state != CUDA_SUCCESS || flags != 0)
        return state != CUDA_SUCCESS ? state : static_cast<CUresult>(CUDA_ERROR_INVALID_VALUE);
    std::shared_ptr<sim_record> record;
    {
        const std::lock_guard<std::mutex> held(sim_get().lock);
        record = event->record;
        if (record == nullptr)
            return CUDA_SUCCESS;
        if (record->capture != nullptr && stream->capture == nullptr) {
            const std::shared_ptr<CUgraph_st> graph =
                sim_get().graphs.find(static_cast<CUgraph>(const_cast<void *>(record->capture)));
            if (graph == nullptr)
                return CUDA_ERROR_CAPTURED_EVENT;
            stream->capture = graph.get(); /* the other stream joins the capture */
            return CUDA_SUCCESS;
        }
        if (stream->capture != nullptr) {
            if (record->capture == stream->capture)
                return CUDA_SUCCESS;
            stream->capture->lost = true;
            return CUDA_ERROR_STREAM_CAPTURE_ISOLATION;
        }
    }
    return sim_enqueue(stream.get(), {[record](sim_worker &) -> CUresult {
                                          std::unique_lock<std::mutex> held(sim_get().lock);
                                          while (!record->done)
                                              sim_get().recorded.wait(held);
                                          return CUDA_SUCCESS;
                                      },
                                      true});
}

static CUresult event_state(CUevent handle, bool wait) {
    CUcontext context = nullptr;
    CUresult state = sim_context(&context);
    std::shared_ptr<CUevent_st> event;
    state = state == CUDA_SUCCESS ? event_of(handle, &event) : state;
    if (state != CUDA_SUCCESS)
        return state;
    std::unique_lock<std::mutex> held(sim_get().lock);
    const std::shared_ptr<sim_record> record = event->record;
    if (record != nullptr && record->capture != nullptr)
        return CUDA_ERROR_CAPTURED_EVENT;
    while (wait && record != nullptr && !record->done)
        sim_get().recorded.wait(held);
    if (context->error.load() != CUDA_SUCCESS)
        return context->error.load();
    return record == nullptr || record->done ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

CUresult cuEventQuery(CUevent event) {
    return event_state(event, false);
}

CUresult cuEventSynchronize(CUevent event) {
    return event_state(event, true);
}

CUresult cuEventElapsedTime(float *milliseconds, CUevent start_handle, CUevent end_handle) {
    CUcontext context = nullptr;
    CUresult state = sim_context(&context);
    std::shared_ptr<CUevent_st> start, end;
    state = state == CUDA_SUCCESS ? event_of(start_handle, &start) : state;
    state = state == CUDA_SUCCESS ? event_of(end_handle, &end) : state;
    if (state != CUDA_SUCCESS)
        return state;
    const std::lock_guard<std::mutex> held(sim_get().lock);
    if (((start->flags | end->flags) & CU_EVENT_DISABLE_TIMING) != 0 || start->record == nullptr ||
        end->record == nullptr)
        return CUDA_ERROR_INVALID_HANDLE;
    if (!start->record->done || !end->record->done)
        return CUDA_ERROR_NOT_READY;
    *milliseconds =
        std::chrono::duration<float, std::milli>(end->record->time - start->record->time).count();
    return CUDA_SUCCESS;
}

/* ---- functions of the host ---- */

CUresult cuLaunchHostFunc(CUstream handle, CUhostFn function, void *user) {
    CUcontext context = nullptr;
    CUresult state = sim_context(&context);
    std::shared_ptr<CUstream_st> stream;
    state = state == CUDA_SUCCESS ? sim_stream_of(handle, context, &stream) : state;
    if (state != CUDA_SUCCESS)
        return state;
    if (function == nullptr)
        return CUDA_ERROR_INVALID_VALUE;
    return sim_enqueue(stream.get(), {[function, user](sim_worker &) -> CUresult {
                                          sim_in_host_function = true;
                                          function(user);
                                          sim_in_host_function = false;
                                          return CUDA_SUCCESS;
                                      },
                                      false});
}
