/* The backend's vtable. */
#include "backend_cuda/cuda_internal.h"

extern const tdm_backend tdm_cuda_backend;

const tdm_backend tdm_cuda_backend = {
    .name = "cuda",

    .open = tdm_cuda_open,
    .close = tdm_cuda_close,
    .device_count = tdm_cuda_device_count,
    .note = tdm_cuda_note,
    .device_info = tdm_cuda_device_info,

    .device_open = tdm_cuda_device_open,
    .device_close = tdm_cuda_device_close,

    .memory_alloc = tdm_cuda_memory_alloc,
    .memory_free = tdm_cuda_memory_free,
    .memory_wrap = tdm_cuda_memory_wrap,
    .memory_free_bytes = tdm_cuda_memory_free_bytes,
    .memory_host_address = tdm_cuda_memory_host_address,

    .stream_create = tdm_cuda_stream_create,
    .stream_destroy = tdm_cuda_stream_destroy,
    .stream_flush = tdm_cuda_stream_flush,
    .stream_wait = tdm_cuda_stream_wait,

    .event_record = tdm_cuda_event_record,
    .event_destroy = tdm_cuda_event_destroy,
    .event_query = tdm_cuda_event_query,
    .event_wait = tdm_cuda_event_wait,
    .event_elapsed = tdm_cuda_event_elapsed,
    .stream_wait_event = tdm_cuda_stream_wait_event,

    .write = tdm_cuda_write,
    .read = tdm_cuda_read,
    .write_rows = tdm_cuda_write_rows,
    .read_rows = tdm_cuda_read_rows,
    .copy = tdm_cuda_copy,
    .fill = tdm_cuda_fill,
    .launch = tdm_cuda_launch,
    .host_task = tdm_cuda_host_task,

    .graph_create = tdm_cuda_graph_create,
    .graph_launch = tdm_cuda_graph_launch,
    .graph_destroy = tdm_cuda_graph_destroy,

    .kernel_build = tdm_cuda_kernel_build,
    .kernel_release = tdm_cuda_kernel_release,
    .kernel_limits = tdm_cuda_kernel_limits,
    .kernel_occupancy = tdm_cuda_kernel_occupancy,
    .kernel_clusters = tdm_cuda_kernel_clusters,

    .native = tdm_cuda_native,
};
