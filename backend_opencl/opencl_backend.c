/* The backend's vtable. */
#include "backend_opencl/opencl_internal.h"

extern const tdm_backend tdm_opencl_backend;

const tdm_backend tdm_opencl_backend = {
    .name = "opencl",

    .open = tdm_opencl_open,
    .close = tdm_opencl_close,
    .device_count = tdm_opencl_device_count,
    .note = tdm_opencl_note,
    .device_info = tdm_opencl_device_info,

    .device_open = tdm_opencl_device_open,
    .device_close = tdm_opencl_device_close,

    .memory_alloc = tdm_opencl_memory_alloc,
    .memory_free = tdm_opencl_memory_free,
    .memory_wrap = tdm_opencl_memory_wrap,
    .memory_free_bytes = tdm_opencl_memory_free_bytes,
    .memory_host_address = tdm_opencl_memory_host_address,

    .stream_create = tdm_opencl_stream_create,
    .stream_destroy = tdm_opencl_stream_destroy,
    .stream_flush = tdm_opencl_stream_flush,
    .stream_wait = tdm_opencl_stream_wait,

    .event_record = tdm_opencl_event_record,
    .event_destroy = tdm_opencl_event_destroy,
    .event_query = tdm_opencl_event_query,
    .event_wait = tdm_opencl_event_wait,
    .event_elapsed = tdm_opencl_event_elapsed,
    .stream_wait_event = tdm_opencl_stream_wait_event,

    .write = tdm_opencl_write,
    .read = tdm_opencl_read,
    .write_rows = tdm_opencl_write_rows,
    .read_rows = tdm_opencl_read_rows,
    .copy = tdm_opencl_copy,
    .fill = tdm_opencl_fill,
    .launch = tdm_opencl_launch,
    .host_task = tdm_opencl_host_task,

    .kernel_build = tdm_opencl_kernel_build,
    .kernel_release = tdm_opencl_kernel_release,
    .kernel_limits = tdm_opencl_kernel_limits,

    .native = tdm_opencl_native,
};
