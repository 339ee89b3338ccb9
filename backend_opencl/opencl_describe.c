/* Describes a device: the reasons to refuse it, and every field of tdm_device_info. */
#include <stdio.h>
#include <string.h>

#include "backend_opencl/opencl_internal.h"

/* The smallest alignment of blocks in slabs: a cache line, and the widest vector. */
#define MIN_ALIGNMENT 64

static tdm_status refuse(const char *reason) {
    return tdm_fail(TDM_UNSUPPORTED, "%s", reason);
}

/* Refuses a device on which the kernel sources or the backend cannot be correct. */
static tdm_status check_usable(const tdm_opencl_api *api, const tdm_opencl_record *record) {
    const cl_device_id id = record->id;
    char version[OPENCL_TEXT], profile[OPENCL_TEXT];
    tdm_opencl_device_text(api, id, CL_DEVICE_VERSION, version, sizeof version);
    if (tdm_opencl_version_number(record->platform_version) < 12)
        return tdm_fail(TDM_UNSUPPORTED, "its platform supports \"%s\", OpenCL 1.2 is needed",
                        record->platform_version);
    if (tdm_opencl_version_number(version) < 12)
        return tdm_fail(TDM_UNSUPPORTED, "it supports \"%s\", OpenCL 1.2 is needed", version);
    const cl_ulong type = tdm_opencl_device_ulong(api, id, CL_DEVICE_TYPE);
    if (!(type & (CL_DEVICE_TYPE_CPU | CL_DEVICE_TYPE_GPU | CL_DEVICE_TYPE_ACCELERATOR)))
        return refuse("it is a custom device, which cannot run OpenCL C kernels");
    if (!tdm_opencl_device_uint(api, id, CL_DEVICE_AVAILABLE))
        return refuse("the driver reports that it is not available");
    if (!tdm_opencl_device_uint(api, id, CL_DEVICE_COMPILER_AVAILABLE))
        return refuse("it has no compiler for kernels");
    if (!tdm_opencl_device_uint(api, id, CL_DEVICE_ENDIAN_LITTLE))
        return refuse("it is big-endian");
    tdm_opencl_device_text(api, id, CL_DEVICE_PROFILE, profile, sizeof profile);
    if (strcmp(profile, "EMBEDDED_PROFILE") == 0 &&
        !tdm_opencl_has_token(record->extensions, "cles_khr_int64"))
        return refuse("it has no 64-bit integers (embedded profile without cles_khr_int64)");
    return TDM_OK;
}

/*
 * Returns the type by which kernels are chosen. A CPU comes first, because Oclgrind reports every
 * type at once.
 */
static tdm_device_type device_type(cl_ulong type) {
    if (type & CL_DEVICE_TYPE_CPU)
        return TDM_DEVICE_CPU;
    return type & CL_DEVICE_TYPE_GPU ? TDM_DEVICE_GPU : TDM_DEVICE_ACCELERATOR;
}

/* Returns the sub-group size if a vendor's extension reports it without a kernel, else 0. */
static uint32_t subgroup_size(const tdm_opencl_api *api, const tdm_opencl_record *record) {
    if (tdm_opencl_has_token(record->extensions, "cl_nv_device_attribute_query"))
        return tdm_opencl_device_uint(api, record->id, CL_DEVICE_WARP_SIZE_NV);
    if (tdm_opencl_has_token(record->extensions, "cl_amd_device_attribute_query"))
        return tdm_opencl_device_uint(api, record->id, CL_DEVICE_WAVEFRONT_WIDTH_AMD);
    return 0;
}

static void fill_texts(const tdm_opencl_api *api, const tdm_opencl_record *record,
                       tdm_device_info *info) {
    const cl_device_id id = record->id;
    tdm_opencl_device_text(api, id, CL_DEVICE_VENDOR, info->vendor, sizeof info->vendor);
    tdm_opencl_device_text(api, id, CL_DRIVER_VERSION, info->driver_version,
                           sizeof info->driver_version);
    tdm_opencl_device_text(api, id, CL_DEVICE_VERSION, info->api_version, sizeof info->api_version);
    tdm_opencl_device_text(api, id, CL_DEVICE_OPENCL_C_VERSION, info->kernel_language,
                           sizeof info->kernel_language);
    if (record->family->name[0])
        snprintf(info->driver_family, sizeof info->driver_family, "%s", record->family->name);
    else
        tdm_opencl_slug(record->platform_name, info->driver_family, sizeof info->driver_family);
}

#ifndef CL_DEVICE_BOARD_NAME_AMD
#define CL_DEVICE_BOARD_NAME_AMD 0x4038
#endif

/* AMD's drivers name the chip, as in "gfx942:sramecc+:xnack-". */
static void fill_board(const tdm_opencl_api *api, const tdm_opencl_record *record,
                       tdm_device_info *info) {
    if (tdm_opencl_has_token(record->extensions, "cl_amd_device_attribute_query"))
        tdm_opencl_device_text(api, record->id, CL_DEVICE_BOARD_NAME_AMD, info->board_name,
                               sizeof info->board_name);
}

#ifndef CL_DEVICE_PCI_BUS_INFO_KHR
#define CL_DEVICE_PCI_BUS_INFO_KHR 0x410F
#endif
/* Constants of cl_nv_device_attribute_query, which only NVIDIA's header has. */
enum {
    DEVICE_PCI_BUS_ID_NV = 0x4008,
    DEVICE_PCI_SLOT_ID_NV = 0x4009, /* device number times eight, plus the function */
    DEVICE_PCI_DOMAIN_ID_NV = 0x400A
};

static void fill_address(const tdm_opencl_api *api, const tdm_opencl_record *record,
                         tdm_device_info *info) {
    cl_uint at[4] = {0}; /* domain, bus, device, function (cl_device_pci_bus_info_khr) */
    cl_int code = CL_INVALID_VALUE;
    if (tdm_opencl_has_token(record->extensions, "cl_khr_pci_bus_info")) {
        code = tdm_opencl_query_device(api, record->id, CL_DEVICE_PCI_BUS_INFO_KHR, sizeof at, at,
                                       NULL);
    } else if (tdm_opencl_has_token(record->extensions, "cl_nv_device_attribute_query")) {
        const cl_uint slot = tdm_opencl_device_uint(api, record->id, DEVICE_PCI_SLOT_ID_NV);
        code = tdm_opencl_query_device(api, record->id, DEVICE_PCI_BUS_ID_NV, sizeof at[1], &at[1],
                                       NULL);
        at[0] = tdm_opencl_device_uint(api, record->id, DEVICE_PCI_DOMAIN_ID_NV);
        at[2] = slot >> 3;
        at[3] = slot & 7;
    }
    if (code == CL_SUCCESS)
        snprintf(info->pci_address, sizeof info->pci_address, "%04x:%02x:%02x.%x", at[0] & 0xffff,
                 at[1] & 0xff, at[2] & 0x1f, at[3] & 7);
}

static void fill_sizes(const tdm_opencl_api *api, cl_device_id id, tdm_device_info *info) {
    // Work is divided among this many units. If the driver does not report the number, one is
    // assumed.
    const uint32_t units = tdm_opencl_device_uint(api, id, CL_DEVICE_MAX_COMPUTE_UNITS);
    info->compute_units = units > 0 ? units : 1;
    info->clock_mhz = tdm_opencl_device_uint(api, id, CL_DEVICE_MAX_CLOCK_FREQUENCY);
    info->max_group_items =
        (uint32_t)tdm_opencl_device_size(api, id, CL_DEVICE_MAX_WORK_GROUP_SIZE);
    info->address_bits = tdm_opencl_device_uint(api, id, CL_DEVICE_ADDRESS_BITS);
    info->timer_ns =
        (uint32_t)tdm_opencl_device_size(api, id, CL_DEVICE_PROFILING_TIMER_RESOLUTION);
    info->global_bytes = tdm_opencl_device_ulong(api, id, CL_DEVICE_GLOBAL_MEM_SIZE);
    info->max_alloc_bytes = tdm_opencl_device_ulong(api, id, CL_DEVICE_MAX_MEM_ALLOC_SIZE);
    info->local_bytes = tdm_opencl_device_ulong(api, id, CL_DEVICE_LOCAL_MEM_SIZE);
    info->cache_bytes = tdm_opencl_device_ulong(api, id, CL_DEVICE_GLOBAL_MEM_CACHE_SIZE);
    info->vendor_id = tdm_opencl_device_uint(api, id, CL_DEVICE_VENDOR_ID);
    info->constant_bytes = tdm_opencl_device_ulong(api, id, CL_DEVICE_MAX_CONSTANT_BUFFER_SIZE);
    const uint32_t alignment = tdm_opencl_device_uint(api, id, CL_DEVICE_MEM_BASE_ADDR_ALIGN) / 8;
    info->alignment_bytes = alignment > MIN_ALIGNMENT ? alignment : MIN_ALIGNMENT;
    size_t items[16] = {0};
    if (tdm_opencl_query_device(api, id, CL_DEVICE_MAX_WORK_ITEM_SIZES, sizeof items, items,
                                NULL) == CL_SUCCESS)
        for (int i = 0; i < 3; i++)
            info->max_group[i] = (uint32_t)items[i];
}

static tdm_status describe(const tdm_opencl_api *api, tdm_opencl_record *record) {
    tdm_device_info *const info = &record->info;
    // A device without a name cannot be distinguished from another one.
    const cl_int code =
        tdm_opencl_device_text(api, record->id, CL_DEVICE_NAME, info->name, sizeof info->name);
    if (code != CL_SUCCESS)
        return tdm_opencl_fail(code, "its name", "clGetDeviceInfo");
    fill_texts(api, record, info);
    tdm_status status = check_usable(api, record);
    if (status != TDM_OK)
        return status;
    info->type = device_type(tdm_opencl_device_ulong(api, record->id, CL_DEVICE_TYPE));
    fill_sizes(api, record->id, info);
    fill_board(api, record, info);
    fill_address(api, record, info);
    // A driver that does not report these is broken: the core divides work and memory by them.
    if (info->max_group_items == 0 || info->max_group[0] == 0 || info->max_alloc_bytes == 0 ||
        info->global_bytes == 0)
        return tdm_fail(TDM_UNSUPPORTED,
                        "the driver reports no valid work-group size (%u) or memory size (%llu "
                        "bytes, allocations up to %llu)",
                        info->max_group_items, (unsigned long long)info->global_bytes,
                        (unsigned long long)info->max_alloc_bytes);
    record->queue_properties =
        tdm_opencl_device_ulong(api, record->id, CL_DEVICE_QUEUE_PROPERTIES) &
        CL_QUEUE_PROFILING_ENABLE;
    status = tdm_opencl_probe(api, record, &info->capabilities);
    if (status != TDM_OK)
        return status;
    if (info->capabilities & TDM_CAP_SUBGROUPS)
        info->subgroup_size = subgroup_size(api, record);
    return TDM_OK;
}

tdm_status tdm_opencl_describe(const tdm_opencl_api *api, tdm_opencl_record *record) {
    tdm_opencl_queries_begin();
    const tdm_status status = describe(api, record);
    const cl_int refusal = tdm_opencl_query_refusal();
    if (status != TDM_UNSUPPORTED || refusal == CL_SUCCESS)
        return status;
    // The reason may be that the driver did not answer a query, rather than a property of the
    // device.
    char reason[512];
    snprintf(reason, sizeof reason, "%s", tdm_last_detail());
    return tdm_fail(status, "%s (clGetDeviceInfo: %s (%d))", reason, tdm_opencl_error_name(refusal),
                    refusal);
}
