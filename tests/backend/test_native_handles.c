// Tests the native OpenCL handles of the library's objects, and buffers that wrap native memory.
// ctest: device opencl
#include <string.h>

#include "api/device/core.h"
#include "backend_opencl/opencl_api.h"
#include "tests/support/devices/device_cases.h"
#include "tests/support/test_case.h"

#include <tandem/opencl.h>

DEVICE_TEST(native_handles) {
    tdm_opencl_api cl;
    TEST_OK(tdm_opencl_load(&cl, NULL));
    cl_platform_id platform;
    cl_device_id id;
    cl_context context;
    cl_command_queue queue;
    TEST_OK(tdm_opencl_handles_of_device(device->device, &platform, &id, &context));
    TEST_OK(tdm_opencl_handles_of_device(device->device, NULL, NULL, NULL));
    TEST_OK(tdm_opencl_queue_of_stream(device->stream, &queue));
    char name[256] = "";
    assert_int_equal(cl.clGetDeviceInfo(id, CL_DEVICE_NAME, sizeof name, name, NULL), CL_SUCCESS);
    assert_non_null(strstr(name, device->info.name));

    cl_int code;
    const cl_mem memory = cl.clCreateBuffer(context, CL_MEM_READ_WRITE, 64, NULL, &code);
    assert_int_equal(code, CL_SUCCESS);
    tdm_buffer *buffer, *own;
    TEST_REFUSED(tdm_buffer_from_opencl(device->device, memory, 65, &buffer), TDM_BAD_ARGUMENT,
                 "64 bytes, not 65");
    assert_null(buffer);
    TEST_REFUSED(tdm_buffer_from_opencl(device->device, NULL, 64, &buffer), TDM_BAD_ARGUMENT,
                 "memory is NULL");
    TEST_REFUSED(tdm_buffer_from_opencl(device->device, memory, 0, &buffer), TDM_BAD_ARGUMENT,
                 "bytes is 0");
    TEST_OK(tdm_buffer_from_opencl(device->device, memory, 64, &buffer));
    cl_uint held = 0, left = 0;
    uint32_t written[16], read[16] = {0};
    for (uint32_t i = 0; i < 16; i++)
        written[i] = 3 * i + 1;
    TEST_OK(tdm_buffer_write(device->stream, buffer, 0, written, 64));
    // The read uses the stream's own queue, so it runs after the write.
    assert_int_equal(cl.clEnqueueReadBuffer(queue, memory, CL_TRUE, 0, 64, read, 0, NULL, NULL),
                     CL_SUCCESS);
    assert_memory_equal(read, written, sizeof read);
    cl.clGetMemObjectInfo(memory, CL_MEM_REFERENCE_COUNT, sizeof held, &held, NULL);
    tdm_buffer_destroy(buffer);
    cl.clGetMemObjectInfo(memory, CL_MEM_REFERENCE_COUNT, sizeof left, &left, NULL);
    assert_true(left < held); // drivers may hold more references for a while

    TEST_OK(tdm_buffer_create(device->device, 64, &own));
    cl_mem own_memory;
    size_t offset;
    TEST_OK(tdm_opencl_memory_of_buffer(own, &own_memory, &offset));
    TEST_OK(tdm_buffer_write(device->stream, own, 0, written, 64));
    memset(read, 0, sizeof read);
    assert_int_equal(
        cl.clEnqueueReadBuffer(queue, own_memory, CL_TRUE, offset, 64, read, 0, NULL, NULL),
        CL_SUCCESS);
    assert_memory_equal(read, written, sizeof read);
    tdm_buffer_destroy(own);
    cl.clReleaseMemObject(memory);
    tdm_opencl_unload(&cl);
}

/*
 * A program may get a stream's queue, and enqueue and flush commands on it directly.
 * tdm_stream_synchronize must then wait for these commands, too.
 */
DEVICE_TEST(queue_that_was_handed_out) {
    const size_t bytes = test_is_small() ? 1u << 18 : 1u << 24;
    tdm_opencl_api cl;
    TEST_OK(tdm_opencl_load(&cl, NULL));
    tdm_stream *stream;
    cl_context context;
    cl_command_queue queue;
    TEST_OK(tdm_stream_create(device->device, &stream));
    TEST_OK(tdm_opencl_handles_of_device(device->device, NULL, NULL, &context));
    TEST_OK(tdm_opencl_queue_of_stream(stream, &queue));
    cl_int code;
    const cl_mem memory = cl.clCreateBuffer(context, CL_MEM_READ_WRITE, bytes, NULL, &code);
    assert_int_equal(code, CL_SUCCESS);
    const int32_t pattern = 0x12345678;
    for (int round = 0; round < 3; round++) {
        TEST_OK(tdm_stream_synchronize(stream));
        cl_event event;
        for (int i = 0; i < 4; i++)
            assert_int_equal(cl.clEnqueueFillBuffer(queue, memory, &pattern, sizeof pattern, 0,
                                                    bytes, 0, NULL, i == 3 ? &event : NULL),
                             CL_SUCCESS);
        assert_int_equal(cl.clFlush(queue), CL_SUCCESS);
        tdm_fault_plant("clEnqueueMarkerWithWaitList", -1, 0, false);
        TEST_OK(tdm_stream_synchronize(stream));
        assert_true(tdm_fault_clear() >= 1);
        cl_int state = CL_QUEUED;
        assert_int_equal(
            cl.clGetEventInfo(event, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof state, &state, NULL),
            CL_SUCCESS);
        cl.clReleaseEvent(event);
        assert_int_equal(state, CL_COMPLETE);
    }
    tdm_stream_destroy(stream);
    cl.clReleaseMemObject(memory);
    tdm_opencl_unload(&cl);
}

DEVICE_TEST(foreign_context) {
    tdm_opencl_api cl;
    TEST_OK(tdm_opencl_load(&cl, NULL));
    cl_device_id id;
    cl_int code;
    TEST_OK(tdm_opencl_handles_of_device(device->device, NULL, &id, NULL));
    const cl_context context = cl.clCreateContext(NULL, 1, &id, NULL, NULL, &code);
    assert_int_equal(code, CL_SUCCESS);
    const cl_mem memory = cl.clCreateBuffer(context, CL_MEM_READ_WRITE, 64, NULL, &code);
    assert_int_equal(code, CL_SUCCESS);
    tdm_buffer *buffer;
    TEST_REFUSED(tdm_buffer_from_opencl(device->device, memory, 64, &buffer), TDM_BAD_ARGUMENT,
                 "another cl_context");
    cl.clReleaseMemObject(memory);
    cl.clReleaseContext(context);
    tdm_opencl_unload(&cl);
}

TEST_MAIN(test_devices_setup, test_devices_teardown)
