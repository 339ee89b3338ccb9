// Tests the simulated driver from a user's point of view: order, asynchrony, limits, and refused
// calls.
#include "tests/cuda/simulator_rig.h"
#include "tests/cuda_simulator/image.h"

#if defined(__SANITIZE_ADDRESS__)
#define HAS_FENCES 0
#else
#define HAS_FENCES 1
#endif

/* ---- kernels ---- */

static void add(int *data, long count, int what) {
    const tandem_sim_block *const b = tandem_sim_self->block;
    const long i = b->group[0] * b->size[0] + tandem_sim_self->item[0];
    if (i < count)
        data[i] += what;
}
TANDEM_SIM_REGISTER(add, "add", 0, 0, 0, 0);

static void add_in_pairs(int *data) {
    data[tandem_sim_self->item[0]] += tandem_sim_self->block->size[0];
}
TANDEM_SIM_REGISTER(add_in_pairs, "add_in_pairs", 2, 1, 1, 0);

static void only_on_10(int *data) {
    data[0] = 1;
}
TANDEM_SIM_REGISTER(only_on_10, "only_on_10", 0, 0, 0, 100);

static void hang(int *data) {
    if (data[0] == 0 && tandem_sim_self->item[0] == 0)
        return;
    tandem_sim_barrier(__LINE__);
}
TANDEM_SIM_REGISTER(hang, "hang", 0, 0, 0, 0);

struct blob {
    long v[4];
};
static void take_blob(long *out, const blob values, short tail) {
    out[0] = values.v[0] + values.v[3] + tail;
}
TANDEM_SIM_REGISTER(take_blob, "take_blob", 0, 0, 0, 0);

static void use_dynamic(int *out, long bytes) {
    char *const memory = static_cast<char *>(tandem_sim_dynamic_shared());
    memory[bytes - 1] = 7;
    out[0] = memory[bytes - 1];
}
TANDEM_SIM_REGISTER(use_dynamic, "use_dynamic", 0, 0, 0, 0);

static void declare_a_kilobyte(int *out) {
    static const char site = 0;
    out[0] = static_cast<char *>(tandem_sim_shared(&site, 1024)) != nullptr;
}
TANDEM_SIM_REGISTER(declare_a_kilobyte, "declare_a_kilobyte", 0, 0, 0, 0);

static void read_words(int *data, long first) {
    char *const at = reinterpret_cast<char *>(data) + first;
    tandem_sim_aligned(at, 16);
    at[0] = 1;
}
TANDEM_SIM_REGISTER(read_words, "read_words", 0, 0, 0, 0);

static std::atomic<bool> spinning, released;
static void spin(int *data) {
    spinning = true;
    while (!released.load())
        std::this_thread::yield();
    (void)data;
}
TANDEM_SIM_REGISTER(spin, "spin", 0, 0, 0, 0);

static const char stand_in[] =
    "TDM-STAND-IN\nadd\nadd_in_pairs\nonly_on_10\nhang\ntake_blob\nuse_dynamic\n"
    "declare_a_kilobyte\nread_words\nof_no_text\nspin\n";

/* ---- tests ---- */

TEST(work_runs_in_order) {
    const rig r(stand_in);
    for (int i = 0; i < 5; i++)
        OK(r.launch("add", 2, 128, 0, r.data, 250L, 1 << i));
    const std::vector<int> data = r.read();
    assert_int_equal(data[0], 31);
    assert_int_equal(data[249], 31);
    assert_int_equal(data[250], 0);
}

TEST(calls_do_not_wait) {
    const rig r(stand_in);
    gate g;
    CUevent event = nullptr;
    std::vector<int> host(256, -1);
    OK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    OK(cuEventQuery(event)); /* never recorded */
    OK(cuLaunchHostFunc(r.stream, gate::wait, &g));
    OK(r.launch("add", 2, 128, 0, r.data, 256L, 1));
    OK(cuMemcpyDtoHAsync_v2(host.data(), r.data, 1024, r.stream));
    OK(cuEventRecord(event, r.stream));
    assert_int_equal(cuEventQuery(event), CUDA_ERROR_NOT_READY);
    assert_int_equal(host[0], -1);
    g.open = true;
    OK(cuEventSynchronize(event));
    assert_int_equal(host[0], 1);
    OK(cuEventDestroy_v2(event));
}

TEST(streams_wait_for_events) {
    const rig r(stand_in);
    gate g;
    CUstream other = nullptr;
    CUevent event = nullptr, later = nullptr;
    OK(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
    OK(cuEventCreate(&event, CU_EVENT_DEFAULT));
    OK(cuEventCreate(&later, CU_EVENT_DEFAULT));
    OK(cuLaunchHostFunc(r.stream, gate::wait, &g));
    OK(r.launch("add", 1, 1, 0, r.data, 1L, 5));
    OK(cuEventRecord(event, r.stream));
    OK(cuStreamWaitEvent(other, event, 0));
    OK(cuMemcpyDtoDAsync_v2(r.data + 4, r.data, 4, other));
    OK(cuEventRecord(later, other));
    assert_int_equal(cuEventQuery(later), CUDA_ERROR_NOT_READY);
    float milliseconds = 0;
    assert_int_equal(cuEventElapsedTime(&milliseconds, event, later), CUDA_ERROR_NOT_READY);
    g.open = true;
    OK(cuStreamSynchronize(other));
    OK(cuEventElapsedTime(&milliseconds, event, later));
    assert_true(milliseconds >= 0);
    assert_int_equal(r.read()[1], 5);
    OK(cuStreamDestroy_v2(other));
    assert_int_equal(cuStreamSynchronize(other), CUDA_ERROR_INVALID_HANDLE);
}

TEST(wrong_ranges_are_refused) {
    const rig r(stand_in);
    char host[2048] = {0};
    assert_int_equal(cuMemcpyHtoDAsync_v2(r.data + 4, host, 1024, r.stream),
                     CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuMemcpyDtoHAsync_v2(host, r.data - 4, 4, r.stream), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuMemsetD32Async(r.data + 2, 0, 1, r.stream), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuMemsetD8Async(r.data, 0, 1025, r.stream), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuMemFree_v2(r.data + 256), CUDA_ERROR_INVALID_VALUE);
    CUdeviceptr fresh = 0;
    OK(cuMemAlloc_v2(&fresh, 1));
    OK(cuMemFree_v2(fresh));
    assert_int_equal(cuMemFree_v2(fresh), CUDA_ERROR_INVALID_VALUE);
    OK(cuStreamSynchronize(r.stream));
}

TEST(rows_are_copied) {
    const rig r(stand_in);
    std::vector<int> host(6 * 5);
    for (size_t i = 0; i < host.size(); i++)
        host[i] = static_cast<int>(i) + 1;
    CUDA_MEMCPY2D copy = CUDA_MEMCPY2D();
    copy.srcMemoryType = CU_MEMORYTYPE_HOST;
    copy.srcHost = host.data();
    copy.srcPitch = 6 * 4;
    copy.srcXInBytes = 4;
    copy.dstMemoryType = CU_MEMORYTYPE_DEVICE;
    copy.dstDevice = r.data;
    copy.dstPitch = 16 * 4;
    copy.WidthInBytes = 3 * 4;
    copy.Height = 5;
    OK(cuMemcpy2DAsync_v2(&copy, r.stream));
    const std::vector<int> data = r.read();
    for (size_t row = 0; row < 5; row++)
        for (size_t i = 0; i < 16; i++)
            assert_int_equal(data[row * 16 + i], i < 3 ? host[row * 6 + 1 + i] : 0);
    copy.WidthInBytes = 6 * 4;
    assert_int_equal(cuMemcpy2DAsync_v2(&copy, r.stream), CUDA_ERROR_INVALID_VALUE);
    copy.WidthInBytes = 3 * 4;
    copy.Height = 17;
    assert_int_equal(cuMemcpy2DAsync_v2(&copy, r.stream), CUDA_ERROR_INVALID_VALUE);
}

TEST(wrong_pointers_lose_the_device) {
    int host = 0;
    {
        const rig r(stand_in);
        const CUfunction add_function = r.function("add");
        int *on_host = &host;
        long count = 1;
        int what = 1;
        void *values[] = {&on_host, &count, &what};
        OK(cuLaunchKernel(add_function, 1, 1, 1, 1, 1, 1, 0, r.stream, values, nullptr));
        assert_int_equal(cuStreamSynchronize(r.stream), CUDA_ERROR_ILLEGAL_ADDRESS);
        CUdeviceptr fresh = 0;
        assert_int_equal(cuMemAlloc_v2(&fresh, 16), CUDA_ERROR_ILLEGAL_ADDRESS);
    }
    assert_int_equal(host, 0);
    {
        const rig r(stand_in);
        gate g;
        CUdeviceptr fresh = 0;
        OK(cuMemAlloc_v2(&fresh, 16));
        OK(cuLaunchHostFunc(r.stream, gate::wait, &g));
        OK(r.launch("add", 1, 1, 0, fresh, 1L, 1));
        std::thread opener = g.open_soon();
        assert_int_equal(cuMemFree_v2(fresh), CUDA_ERROR_ILLEGAL_ADDRESS);
        opener.join();
        assert_int_equal(cuStreamSynchronize(r.stream), CUDA_ERROR_ILLEGAL_ADDRESS);
    }
    const rig r(stand_in); /* a new context works */
    OK(r.launch("add", 1, 1, 0, r.data, 1L, 1));
    assert_int_equal(r.read()[0], 1);
}

TEST(writes_behind_the_end_lose_the_device) {
#if HAS_FENCES
    const rig r(stand_in);
    OK(r.launch("add", 1, 1024, 0, r.data, 257L, 1));
    assert_int_equal(cuStreamSynchronize(r.stream), CUDA_ERROR_ILLEGAL_ADDRESS);
#endif
}

TEST(deadlocks_lose_the_device) {
    const rig r(stand_in);
    gate g;
    CUevent event = nullptr;
    OK(cuEventCreate(&event, CU_EVENT_DEFAULT));
    // The gate delays the failure, so that the calls below cannot report it already.
    OK(cuLaunchHostFunc(r.stream, gate::wait, &g));
    OK(r.launch("hang", 1, 32, 0, r.data));
    OK(r.launch("add", 1, 1, 0, r.data, 1L, 1));
    OK(cuEventRecord(event, r.stream));
    g.open = true;
    assert_int_equal(cuEventSynchronize(event), CUDA_ERROR_LAUNCH_FAILED);
    assert_int_equal(cuStreamSynchronize(r.stream), CUDA_ERROR_LAUNCH_FAILED);
    CUdeviceptr fresh = 0;
    assert_int_equal(cuMemAlloc_v2(&fresh, 16), CUDA_ERROR_LAUNCH_FAILED);
}

TEST(wrong_shapes_are_refused) {
    const rig r(stand_in);
    const CUfunction f = r.function("add");
    long count = 1;
    int what = 1;
    CUdeviceptr data = r.data;
    void *values[] = {&data, &count, &what};
    const unsigned shapes[][6] = {
        {0, 1, 1, 1, 1, 1},   {1, 65536, 1, 1, 1, 1}, {1, 1, 65536, 1, 1, 1}, {1, 1, 1, 1025, 1, 1},
        {1, 1, 1, 32, 33, 1}, {1, 1, 1, 1, 1, 65},    {1, 1, 1, 1, 0, 1}};
    for (const unsigned(&s)[6] : shapes) {
        assert_int_equal(
            cuLaunchKernel(f, s[0], s[1], s[2], s[3], s[4], s[5], 0, r.stream, values, nullptr),
            CUDA_ERROR_INVALID_VALUE);
    }
    assert_int_equal(r.launch("add_in_pairs", 1, 4, 0, r.data), CUDA_ERROR_INVALID_VALUE);
    OK(r.launch("add_in_pairs", 1, 2, 0, r.data));
    assert_int_equal(r.read()[1], 2);
}

TEST(parameters_are_taken_at_the_call) {
    const rig r(stand_in);
    gate g;
    blob values = {{1, 2, 3, 40}};
    OK(cuLaunchHostFunc(r.stream, gate::wait, &g));
    OK(r.launch("take_blob", 1, 1, 0, r.data, values, static_cast<short>(100)));
    values.v[0] = -1;
    g.open = true;
    assert_int_equal(r.read()[0], 141);
}

TEST(dynamic_shared_memory_is_limited) {
    const rig r(stand_in);
    OK(r.launch("use_dynamic", 1, 1, 48 * 1024, r.data, 48L * 1024));
    assert_int_equal(r.launch("use_dynamic", 1, 1, 48 * 1024 + 1, r.data, 1L),
                     CUDA_ERROR_INVALID_VALUE);
    const CUfunction f = r.function("use_dynamic");
    assert_int_equal(
        cuFuncSetAttribute(f, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 228 * 1024),
        CUDA_ERROR_INVALID_VALUE);
    OK(cuFuncSetAttribute(f, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 227 * 1024));
    OK(r.launch("use_dynamic", 1, 1, 227 * 1024, r.data, 227L * 1024));
    assert_int_equal(r.read()[0], 7);
}

/* A block may have 48 KiB of shared memory, or 227 KiB on request. Declared memory counts. */
TEST(declared_shared_memory_counts) {
    const unsigned kilobyte = 1024;
    {
        const rig r(stand_in); /* the size is unknown before the first run */
        OK(r.launch("declare_a_kilobyte", 1, 1, 48 * kilobyte, r.data));
        assert_int_equal(cuStreamSynchronize(r.stream), CUDA_ERROR_LAUNCH_FAILED);
    }
    const rig r(stand_in);
    const CUfunction f = r.function("declare_a_kilobyte");
    const CUfunction_attribute most = CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
    int bytes = 0;
    OK(r.launch("declare_a_kilobyte", 1, 1, 47 * kilobyte, r.data));
    assert_int_equal(r.read()[0], 1);
    OK(cuFuncGetAttribute(&bytes, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, f));
    assert_int_equal(bytes, kilobyte);
    OK(cuFuncGetAttribute(&bytes, most, f));
    assert_int_equal(bytes, 47 * kilobyte);
    assert_int_equal(r.launch("declare_a_kilobyte", 1, 1, 47 * kilobyte + 1, r.data),
                     CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuFuncSetAttribute(f, most, 227 * kilobyte), CUDA_ERROR_INVALID_VALUE);
    OK(cuFuncSetAttribute(f, most, 226 * kilobyte));
    OK(r.launch("declare_a_kilobyte", 1, 1, 226 * kilobyte, r.data));
    assert_int_equal(r.launch("declare_a_kilobyte", 1, 1, 226 * kilobyte + 1, r.data),
                     CUDA_ERROR_INVALID_VALUE);
    OK(cuStreamSynchronize(r.stream));
}

TEST(misaligned_accesses_lose_the_device) {
    const rig r(stand_in);
    OK(r.launch("read_words", 1, 1, 0, r.data, 16L));
    OK(cuStreamSynchronize(r.stream));
    OK(r.launch("read_words", 1, 1, 0, r.data, 8L));
    assert_int_equal(cuStreamSynchronize(r.stream), CUDA_ERROR_MISALIGNED_ADDRESS);
}

TEST(only_living_contexts_are_entered) {
    CUcontext context = nullptr, popped = nullptr;
    OK(cuInit(0));
    OK(cuDevicePrimaryCtxRetain(&context, 0));
    OK(cuCtxPushCurrent_v2(context));
    OK(cuCtxPopCurrent_v2(&popped));
    assert_true(popped == context);
    assert_int_equal(cuCtxPopCurrent_v2(&popped), CUDA_ERROR_INVALID_CONTEXT);
    OK(cuDevicePrimaryCtxRelease_v2(0));
    assert_int_equal(cuCtxPushCurrent_v2(context), CUDA_ERROR_INVALID_CONTEXT);
    assert_int_equal(cuCtxPushCurrent_v2(nullptr), CUDA_ERROR_INVALID_CONTEXT);
    CUctx_st stranger;
    assert_int_equal(cuCtxPushCurrent_v2(&stranger), CUDA_ERROR_INVALID_CONTEXT);
}

TEST(entries_are_found_where_they_fit) {
    const rig r(stand_in);
    CUfunction found = nullptr;
    assert_int_equal(cuModuleGetFunction(&found, r.module, "only_on_10"), CUDA_ERROR_NOT_FOUND);
    assert_int_equal(cuModuleGetFunction(&found, r.module, "of_no_text"), CUDA_ERROR_NOT_FOUND);
    CUmodule other = nullptr;
    OK(cuModuleLoadDataEx(&other, "TDM-STAND-IN\nadd_in_pairs\n", 0, nullptr, nullptr));
    assert_int_equal(cuModuleGetFunction(&found, other, "add"), CUDA_ERROR_NOT_FOUND);
    OK(cuModuleGetFunction(&found, other, "add_in_pairs"));
    OK(cuModuleUnload(other));
    assert_int_equal(cuModuleGetFunction(&found, other, "add_in_pairs"), CUDA_ERROR_INVALID_HANDLE);
}

/* Builds a fat binary of headers only. Kinds and architectures alternate in the list. */
static std::vector<unsigned char> fat(const std::vector<int> &kinds_and_architectures) {
    std::vector<unsigned char> image(16 + kinds_and_architectures.size() / 2 * 64, 0);
    const uint32_t magic = 0xba55ed50u;
    const uint16_t version = 1, header = 16;
    const uint64_t bytes = image.size() - 16;
    memcpy(&image[0], &magic, 4);
    memcpy(&image[4], &version, 2);
    memcpy(&image[6], &header, 2);
    memcpy(&image[8], &bytes, 8);
    for (size_t i = 0; i < kinds_and_architectures.size(); i += 2) {
        const size_t at = 16 + i / 2 * 64;
        const uint16_t kind = static_cast<uint16_t>(kinds_and_architectures[i]);
        const uint32_t entry_header = 64,
                       architecture = static_cast<uint32_t>(kinds_and_architectures[i + 1]);
        memcpy(&image[at], &kind, 2);
        memcpy(&image[at + 4], &entry_header, 4);
        memcpy(&image[at + 28], &architecture, 4);
    }
    return image;
}

TEST(images_must_fit) {
    const rig r(stand_in);
    CUmodule module = nullptr;
    const int ptx = 1, elf = 2;
    const struct {
        std::vector<int> parts;
        CUresult wanted;
    } rows[] = {{{elf, 80, elf, 90}, CUDA_SUCCESS},
                {{elf, 80, ptx, 75}, CUDA_SUCCESS},
                {{elf, 80}, CUDA_ERROR_NO_BINARY_FOR_GPU},
                {{elf, 100, ptx, 100}, CUDA_ERROR_NO_BINARY_FOR_GPU},
                {{}, CUDA_ERROR_NO_BINARY_FOR_GPU}};
    for (const auto &row : rows) {
        const std::vector<unsigned char> image = fat(row.parts);
        char text[128] = "";
        CUjit_option names[] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
        void *values[] = {text, reinterpret_cast<void *>(sizeof text)};
        assert_int_equal(cuModuleLoadDataEx(&module, image.data(), 2, names, values), row.wanted);
        assert_int_equal(text[0] != '\0', row.wanted != CUDA_SUCCESS);
    }
    assert_int_equal(cuModuleLoadDataEx(&module, "no image of any kind", 0, nullptr, nullptr),
                     CUDA_ERROR_INVALID_IMAGE);
}

/* Orin runs only its own machine code, or PTX that the driver translates. */
TEST(systems_on_chips_run_their_own_code) {
    const int ptx = 1, elf = 2;
    const auto runs = [](const std::vector<int> &parts, int architecture) {
        sim_image image;
        bool is_image = false;
        return sim_image_read(fat(parts).data(), architecture, &image, &is_image).empty();
    };
    assert_false(runs({elf, 80, elf, 86}, 87));
    assert_true(runs({elf, 80, elf, 87}, 87));
    assert_true(runs({elf, 80, ptx, 75}, 87));
    assert_false(runs({elf, 87}, 89));
    assert_true(runs({elf, 86}, 89));
}

/* The library has no image for a device before compute capability 7.5. A list of names that stands
 * in for an image is refused there, too. */
TEST(stand_ins_are_for_devices_of_images) {
    sim_image image;
    bool is_image = false;
    assert_true(sim_image_read(stand_in, 75, &image, &is_image).empty());
    assert_false(sim_image_read(stand_in, 70, &image, &is_image).empty());
    assert_true(is_image);
}

static CUresult inside;
static void call_the_driver(void *user) {
    CUdeviceptr fresh = 0;
    (void)user;
    inside = cuMemAlloc_v2(&fresh, 16);
}
TEST(host_functions_may_not_call) {
    const rig r(stand_in);
    OK(cuLaunchHostFunc(r.stream, call_the_driver, nullptr));
    OK(cuStreamSynchronize(r.stream));
    assert_int_equal(inside, CUDA_ERROR_NOT_PERMITTED);
}

TEST(calls_need_a_context) {
    OK(cuInit(0));
    CUdeviceptr fresh = 0;
    assert_int_equal(cuMemAlloc_v2(&fresh, 16), CUDA_ERROR_INVALID_CONTEXT);
    assert_int_equal(cuCtxPopCurrent_v2(nullptr), CUDA_ERROR_INVALID_CONTEXT);
    CUdevice device = 0;
    assert_int_equal(cuDeviceGet(&device, 1), CUDA_ERROR_INVALID_DEVICE);
}

TEST(graphs_are_replayed) {
    const rig r(stand_in);
    CUgraph graph = nullptr;
    CUgraphExec executable = nullptr;
    CUstream other = nullptr;
    CUevent fork = nullptr, join = nullptr;
    OK(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
    OK(cuEventCreate(&fork, CU_EVENT_DISABLE_TIMING));
    OK(cuEventCreate(&join, CU_EVENT_DISABLE_TIMING));
    OK(cuStreamBeginCapture_v2(r.stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
    OK(r.launch("add", 1, 1, 0, r.data, 1L, 1));
    OK(cuEventRecord(fork, r.stream));
    OK(cuStreamWaitEvent(other, fork, 0));
    OK(cuMemcpyDtoDAsync_v2(r.data + 4, r.data, 4, other));
    OK(cuEventRecord(join, other));
    OK(cuStreamWaitEvent(r.stream, join, 0));
    OK(cuStreamEndCapture(r.stream, &graph));
    assert_int_equal(r.read()[0], 0); /* nothing has run */
    OK(cuGraphInstantiateWithFlags(&executable, graph, 0));
    OK(cuGraphDestroy(graph));
    for (int i = 0; i < 3; i++)
        OK(cuGraphLaunch(executable, r.stream));
    const std::vector<int> data = r.read();
    assert_int_equal(data[0], 3);
    assert_int_equal(data[1], 3);
    OK(cuGraphExecDestroy(executable));
    assert_int_equal(cuGraphLaunch(executable, r.stream), CUDA_ERROR_INVALID_HANDLE);
}

TEST(captures_forbid_what_waits) {
    const rig r(stand_in);
    CUgraph graph = nullptr;
    CUdeviceptr fresh = 0;
    OK(cuStreamBeginCapture_v2(r.stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    OK(cuMemAlloc_v2(&fresh, 16));
    OK(cuStreamEndCapture(r.stream, &graph));
    OK(cuGraphDestroy(graph));
    OK(cuStreamBeginCapture_v2(r.stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
    assert_int_equal(cuMemAlloc_v2(&fresh, 16), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    assert_int_equal(cuStreamEndCapture(r.stream, &graph), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    OK(cuStreamBeginCapture_v2(r.stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    assert_int_equal(cuStreamSynchronize(r.stream), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    assert_int_equal(cuStreamEndCapture(r.stream, &graph), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    assert_int_equal(r.read()[0], 0);
}

/* ---- memory: how much there is, when it is freed, and what must not be freed ---- */

TEST(memory_runs_out) {
    const rig r(stand_in);
    size_t free_before = 0, free_after = 0, total = 0;
    OK(cuMemGetInfo_v2(&free_before, &total));
    assert_int_equal(free_before, total - 1024);
    CUdeviceptr a = 0, b = 0;
    assert_int_equal(cuMemAlloc_v2(&a, free_before + 1), CUDA_ERROR_OUT_OF_MEMORY);
    assert_int_equal(cuMemAlloc_v2(&a, 0), CUDA_ERROR_INVALID_VALUE);
    OK(cuMemAlloc_v2(&a, free_before - 10));
    assert_int_equal(cuMemAlloc_v2(&b, 11), CUDA_ERROR_OUT_OF_MEMORY);
    OK(cuMemFree_v2(a));
    OK(cuMemGetInfo_v2(&free_after, &total));
    assert_int_equal(free_after, free_before);
}

TEST(pinned_memory_is_known) {
    const rig r(stand_in);
    void *host = nullptr;
    CUdeviceptr same = 0, base = 0;
    unsigned type = 0;
    size_t bytes = 0;
    OK(cuMemHostAlloc(&host, 100, CU_MEMHOSTALLOC_PORTABLE));
    OK(cuMemHostGetDevicePointer_v2(&same, host, 0));
    OK(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, same));
    assert_int_equal(type, CU_MEMORYTYPE_HOST);
    OK(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, r.data + 8));
    assert_int_equal(type, CU_MEMORYTYPE_DEVICE);
    OK(cuMemGetAddressRange_v2(&base, &bytes, r.data + 8));
    assert_int_equal(base, r.data);
    assert_int_equal(bytes, 1024);
    assert_int_equal(cuMemFree_v2(same), CUDA_ERROR_INVALID_VALUE);
    OK(cuMemFreeHost(host));
    assert_int_equal(cuMemFreeHost(host), CUDA_ERROR_INVALID_VALUE);
}

/* Freeing also waits for work of destroyed streams, even if that work does not use the freed
 * memory. */
TEST(freeing_waits_for_all_work) {
    const rig r(stand_in);
    for (const bool pinned : {false, true}) {
        gate g;
        CUstream other = nullptr;
        CUdeviceptr fresh = 0;
        void *host = nullptr;
        OK(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
        OK(cuMemAlloc_v2(&fresh, 16));
        OK(cuMemHostAlloc(&host, 16, CU_MEMHOSTALLOC_PORTABLE));
        OK(cuLaunchHostFunc(other, gate::wait, &g));
        OK(cuStreamDestroy_v2(other));
        std::thread opener = g.open_soon();
        OK(pinned ? cuMemFreeHost(host) : cuMemFree_v2(fresh));
        assert_true(g.open);
        opener.join();
        OK(pinned ? cuMemFree_v2(fresh) : cuMemFreeHost(host));
    }
}

TEST(pinned_memory_in_use_may_not_be_freed) {
    const rig r(stand_in);
    gate g;
    void *host = nullptr;
    OK(cuMemHostAlloc(&host, 16, CU_MEMHOSTALLOC_PORTABLE));
    OK(cuLaunchHostFunc(r.stream, gate::wait, &g));
    OK(cuMemcpyDtoHAsync_v2(host, r.data, 16, r.stream));
    std::thread opener = g.open_soon();
    assert_int_equal(cuMemFreeHost(host), CUDA_ERROR_ILLEGAL_ADDRESS);
    opener.join();
}

TEST(memory_of_a_running_kernel_may_not_be_freed) {
    const rig r(stand_in);
    CUdeviceptr fresh = 0;
    spinning = released = false;
    OK(cuMemAlloc_v2(&fresh, 16));
    OK(r.launch("spin", 1, 1, 0, fresh));
    while (!spinning)
        std::this_thread::yield();
    std::thread releaser([] {
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
        released = true;
    });
    assert_int_equal(cuMemFree_v2(fresh), CUDA_ERROR_ILLEGAL_ADDRESS);
    releaser.join();
}

TEST_MAIN(set_device_of_tests, NULL)
