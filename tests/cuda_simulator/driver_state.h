/*
 * This header declares the state of the simulated driver: devices with their contexts, memory,
 * streams, and the handles that it returned. */
#ifndef TANDEM_TESTS_CUDA_SIMULATOR_DRIVER_STATE_H
#define TANDEM_TESTS_CUDA_SIMULATOR_DRIVER_STATE_H

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "backend_cuda/cuda_api.h"
#include "tests/cuda_simulator/scheduler.h"

#define SIM_EXPORT extern "C" __attribute__((visibility("default")))
#define CUDA_FUNCTION(name, symbol, need, since, parameters) SIM_EXPORT CUresult symbol parameters;
#include "backend_cuda/cuda_functions.def"
#undef CUDA_FUNCTION

/* Prints one line to stderr; TANDEM_SIMULATOR_LOG=off silences it. */
void sim_log(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* ---- the simulated devices ---- */

struct sim_machine {
    int devices;
    int major, minor; /* compute capability */
    size_t memory;    /* bytes of each device */
    int architecture() const {
        return major * 10 + minor;
    }
    size_t shared_default() const {
        return 48 * 1024;
    }
    size_t shared_most() const; /* the most bytes that a block may request */
};
const sim_machine &sim_machine_get();

enum {
    SIM_VERSION = 13000,
    SIM_MULTIPROCESSORS = 4,
    // A cluster's blocks share the first three multiprocessors; the fourth stands alone.
    SIM_CLUSTER_REACH = 3,
    SIM_BLOCK_THREADS = 1024,
    SIM_MULTIPROCESSOR_THREADS = 2048,
    SIM_GRID_YZ = 65535
};

/* ---- memory ---- */

struct sim_allocation {
    size_t bytes;
    bool host;
    CUcontext context;
};

/* Finds the allocation that holds `bytes` bytes from an address on; returns false if there is none.
 * `base` may be NULL. */
bool sim_memory_find(CUdeviceptr address, size_t bytes, sim_allocation *found, CUdeviceptr *base);
inline bool sim_memory_holds(CUdeviceptr address, size_t bytes) {
    return sim_memory_find(address, bytes, nullptr, nullptr);
}
/* Returns false if something has written behind the end of an allocation. (AddressSanitizer finds
 * that itself.) */
bool sim_memory_unharmed(CUdeviceptr address);
void sim_memory_release_all(CUcontext context);

/* ---- contexts ---- */

struct CUctx_st {
    int device = 0;
    int retained = 0;
    std::atomic<CUresult> error{CUDA_SUCCESS}; /* sticky */
    CUstream null_stream = nullptr;
};

/* Every function of the driver calls this first. It returns the current context, or the error that
 * a call has to return now. */
CUresult sim_context(CUcontext *context);
/* True while the thread runs a host function of the user for a stream. Such a function may not call
 * the driver. */
extern thread_local bool sim_in_host_function;
/* Call this before an operation that a capture forbids. It invalidates a capture of the calling
 * thread and returns the error. */
CUresult sim_forbidden_in_capture();

/* ---- streams and events ---- */

struct sim_record { /* one recording of an event in a stream */
    bool done = false;
    std::chrono::steady_clock::time_point time;
    const void *capture = nullptr; /* the graph that it belongs to */
};

struct CUevent_st {
    unsigned flags = 0;
    std::shared_ptr<sim_record> record; /* the latest recording */
};

struct sim_command {
    std::function<CUresult(sim_worker &)> run;
    bool always; /* it also runs in a context that has failed */
};

struct CUgraph_st {
    std::vector<sim_command> commands;
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
    CUstream origin = nullptr;
    bool lost = false;
};

struct CUgraphExec_st {
    std::shared_ptr<std::vector<sim_command>> commands;
};

struct CUstream_st {
    CUcontext context = nullptr;
    unsigned flags = 0;
    std::mutex lock;
    std::condition_variable more, idle;
    std::deque<sim_command> queue;
    bool busy = false, closed = false;
    CUgraph capture = nullptr; /* guarded by the lock of sim_get() */
    std::thread::id capture_thread;
};

/* Appends a command to the stream, or to the graph that it captures. */
CUresult sim_enqueue(CUstream stream, sim_command command);
/* Returns the stream of a handle; NULL stands for the context's own stream. */
CUresult sim_stream_of(CUstream handle, CUcontext context, std::shared_ptr<CUstream_st> *stream);
CUresult sim_stream_open(CUcontext context, unsigned flags, CUstream *stream);
/* Waits for all work of a context, including that of destroyed streams. */
void sim_streams_drain_all(CUcontext context);
void sim_streams_release_all(CUcontext context);

/* ---- handles ---- */

/* This table holds the live objects of one kind. A wrong handle therefore gives an error instead of
 * a crash. */
template <typename T> class sim_handles {
  public:
    T *add(std::shared_ptr<T> object) {
        const std::lock_guard<std::mutex> held(lock_);
        T *const handle = object.get();
        objects_[handle] = std::move(object);
        return handle;
    }
    std::shared_ptr<T> find(T *handle) {
        const std::lock_guard<std::mutex> held(lock_);
        const auto at = objects_.find(handle);
        return at == objects_.end() ? nullptr : at->second;
    }
    std::shared_ptr<T> take(T *handle) {
        const std::lock_guard<std::mutex> held(lock_);
        const auto at = objects_.find(handle);
        if (at == objects_.end())
            return nullptr;
        std::shared_ptr<T> object = at->second;
        objects_.erase(at);
        return object;
    }
    std::vector<std::shared_ptr<T>> all() {
        const std::lock_guard<std::mutex> held(lock_);
        std::vector<std::shared_ptr<T>> list;
        for (const auto &row : objects_)
            list.push_back(row.second);
        return list;
    }

  private:
    std::mutex lock_;
    std::map<T *, std::shared_ptr<T>> objects_;
};

struct CUfunc_st {
    const tandem_sim_kernel *kernel;
    CUcontext context;
    std::atomic<int>
        asked_for; /* bytes of dynamic shared memory that launches were allowed; -1: the default */
    std::atomic<int> static_bytes; /* declared bytes, as far as runs have shown */
};

struct CUmod_st {
    CUcontext context;
    bool named;                  /* the image lists its entries */
    std::set<std::string> names; /* names of these entries */
    std::mutex lock;
    std::map<std::string, std::shared_ptr<CUfunc_st>> functions;
};

/* This object is never destroyed, because stream threads may still run when the process ends. */
struct sim_objects {
    sim_handles<CUstream_st> streams;
    sim_handles<CUstream_st> leaving; /* destroyed streams whose work is not finished */
    sim_handles<CUevent_st> events;
    sim_handles<CUmod_st> modules;
    sim_handles<CUfunc_st> functions;
    sim_handles<CUgraph_st> graphs;
    sim_handles<CUgraphExec_st> executables;
    std::mutex lock; /* for captures, contexts and event records */
    std::condition_variable recorded;
    bool initialized = false;
    std::vector<std::unique_ptr<CUctx_st>> contexts; /* one for each device */
};
sim_objects &sim_get();

#endif
