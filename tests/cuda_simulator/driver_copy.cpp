/* This file implements copies and fills in stream order. A copy reads pageable memory at the call,
 * as a driver may do. */
#include "tests/cuda_simulator/driver_state.h"

namespace {

void *pointer(CUdeviceptr address) {
    return reinterpret_cast<void *>(static_cast<uintptr_t>(address));
}

CUresult begin(CUstream handle, std::shared_ptr<CUstream_st> *stream) {
    CUcontext context = nullptr;
    const CUresult state = sim_context(&context);
    return state == CUDA_SUCCESS ? sim_stream_of(handle, context, stream) : state;
}

/* A side is the source or the target of a copy of rows. */
struct side {
    bool owned; /* it belongs to an allocation: device memory or pinned memory */
    char *first;
    size_t pitch;
    bool live(size_t bytes, size_t rows) const {
        const size_t all = (rows - 1) * pitch + bytes;
        return !owned ||
               sim_memory_holds(static_cast<CUdeviceptr>(reinterpret_cast<uintptr_t>(first)), all);
    }
};

using bytes_taken = std::shared_ptr<std::vector<char>>;

/* Copies the pageable memory that a command reads, unless a graph will read it at each launch. */
bytes_taken take_pageable(CUstream stream, side *from, size_t bytes, size_t rows) {
    if (from->owned)
        return nullptr;
    {
        const std::lock_guard<std::mutex> held(sim_get().lock);
        if (stream->capture != nullptr)
            return nullptr;
    }
    const bytes_taken taken = std::make_shared<std::vector<char>>(bytes * rows);
    for (size_t r = 0; r < rows; r++)
        memcpy(taken->data() + r * bytes, from->first + r * from->pitch, bytes);
    *from = side{false, taken->data(), bytes};
    return taken;
}

CUresult freed(const char *what) {
    sim_log("%s: its memory was freed before it was done", what);
    return CUDA_ERROR_ILLEGAL_ADDRESS;
}

CUresult enqueue_rows(const std::shared_ptr<CUstream_st> &stream, const char *what, side to,
                      side from, size_t bytes, size_t rows) {
    if (!to.live(bytes, rows) || !from.live(bytes, rows) || to.first == nullptr ||
        from.first == nullptr) {
        sim_log("%s: %zu rows of %zu bytes from %p to %p are not in one allocation of the device",
                what, rows, bytes, static_cast<void *>(from.first), static_cast<void *>(to.first));
        return CUDA_ERROR_INVALID_VALUE;
    }
    const bytes_taken taken = take_pageable(stream.get(), &from, bytes, rows);
    return sim_enqueue(stream.get(), {[=](sim_worker &) -> CUresult {
                                          (void)taken; // lives as long as the command
                                          if (!to.live(bytes, rows) || !from.live(bytes, rows))
                                              return freed(what);
                                          for (size_t r = 0; r < rows; r++)
                                              memcpy(to.first + r * to.pitch,
                                                     from.first + r * from.pitch, bytes);
                                          return to.live(bytes, rows) && from.live(bytes, rows)
                                                     ? static_cast<CUresult>(CUDA_SUCCESS)
                                                     : freed(what);
                                      },
                                      false});
}

side device_side(CUdeviceptr address) {
    return side{true, static_cast<char *>(pointer(address)), 0};
}

side host_side(const void *host) {
    return side{sim_memory_holds(reinterpret_cast<uintptr_t>(host), 1),
                static_cast<char *>(const_cast<void *>(host)), 0};
}

CUresult copy(const char *what, side to, side from, size_t bytes, CUstream handle) {
    std::shared_ptr<CUstream_st> stream;
    const CUresult state = begin(handle, &stream);
    if (state != CUDA_SUCCESS || bytes == 0)
        return state;
    return enqueue_rows(stream, what, to, from, bytes, 1);
}

template <typename T>
CUresult fill(const char *what, CUdeviceptr target, size_t pitch, T value, size_t width,
              size_t height, CUstream handle) {
    std::shared_ptr<CUstream_st> stream;
    const CUresult state = begin(handle, &stream);
    if (state != CUDA_SUCCESS || width == 0 || height == 0)
        return state;
    if (target % sizeof(T) != 0 || pitch % sizeof(T) != 0 ||
        (height > 1 && pitch < width * sizeof(T)))
        return CUDA_ERROR_INVALID_VALUE;
    const size_t all = (height - 1) * pitch + width * sizeof(T);
    if (!sim_memory_holds(target, all)) {
        sim_log("%s: %zu bytes are not in one allocation of the device", what, all);
        return CUDA_ERROR_INVALID_VALUE;
    }
    return sim_enqueue(stream.get(), {[=](sim_worker &) -> CUresult {
                                          if (!sim_memory_holds(target, all))
                                              return freed(what);
                                          char *row = static_cast<char *>(pointer(target));
                                          for (size_t r = 0; r < height; r++, row += pitch)
                                              for (size_t i = 0; i < width; i++)
                                                  memcpy(row + i * sizeof(T), &value, sizeof(T));
                                          return sim_memory_holds(target, all)
                                                     ? static_cast<CUresult>(CUDA_SUCCESS)
                                                     : freed(what);
                                      },
                                      false});
}

bool side_of(CUmemorytype type, const void *host, CUdeviceptr device, size_t x, size_t y,
             size_t pitch, side *result) {
    if (type != CU_MEMORYTYPE_HOST && type != CU_MEMORYTYPE_DEVICE)
        return false;
    *result = type == CU_MEMORYTYPE_HOST ? host_side(host) : device_side(device);
    result->first += y * pitch + x;
    result->pitch = pitch;
    return true;
}

} // namespace

CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr target, const void *source, size_t bytes,
                              CUstream stream) {
    return copy("cuMemcpyHtoDAsync", device_side(target), host_side(source), bytes, stream);
}

CUresult cuMemcpyDtoHAsync_v2(void *target, CUdeviceptr source, size_t bytes, CUstream stream) {
    return copy("cuMemcpyDtoHAsync", host_side(target), device_side(source), bytes, stream);
}

CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr target, CUdeviceptr source, size_t bytes,
                              CUstream stream) {
    return copy("cuMemcpyDtoDAsync", device_side(target), device_side(source), bytes, stream);
}

CUresult cuMemcpy2DAsync_v2(const CUDA_MEMCPY2D *rows, CUstream handle) {
    std::shared_ptr<CUstream_st> stream;
    const CUresult state = begin(handle, &stream);
    if (state != CUDA_SUCCESS)
        return state;
    side from, to;
    if (!side_of(rows->srcMemoryType, rows->srcHost, rows->srcDevice, rows->srcXInBytes, rows->srcY,
                 rows->srcPitch, &from) ||
        !side_of(rows->dstMemoryType, rows->dstHost, rows->dstDevice, rows->dstXInBytes, rows->dstY,
                 rows->dstPitch, &to))
        return CUDA_ERROR_INVALID_VALUE;
    if (rows->WidthInBytes == 0 || rows->Height == 0)
        return CUDA_SUCCESS;
    if (rows->srcXInBytes + rows->WidthInBytes > rows->srcPitch ||
        rows->dstXInBytes + rows->WidthInBytes > rows->dstPitch || rows->srcPitch > 0x7fffffff ||
        rows->dstPitch > 0x7fffffff) {
        sim_log("cuMemcpy2DAsync: pitches %zu and %zu for rows of %zu bytes", rows->srcPitch,
                rows->dstPitch, rows->WidthInBytes);
        return CUDA_ERROR_INVALID_VALUE;
    }
    return enqueue_rows(stream, "cuMemcpy2DAsync", to, from, rows->WidthInBytes, rows->Height);
}

CUresult cuMemsetD8Async(CUdeviceptr target, unsigned char value, size_t count, CUstream stream) {
    return fill("cuMemsetD8Async", target, 0, value, count, 1, stream);
}

CUresult cuMemsetD16Async(CUdeviceptr target, unsigned short value, size_t count, CUstream stream) {
    return fill("cuMemsetD16Async", target, 0, value, count, 1, stream);
}

CUresult cuMemsetD32Async(CUdeviceptr target, unsigned int value, size_t count, CUstream stream) {
    return fill("cuMemsetD32Async", target, 0, value, count, 1, stream);
}

CUresult cuMemsetD2D32Async(CUdeviceptr target, size_t pitch, unsigned int value, size_t width,
                            size_t height, CUstream stream) {
    return fill("cuMemsetD2D32Async", target, pitch, value, width, height, stream);
}
