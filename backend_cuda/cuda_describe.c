/* Describes a device: the reasons to refuse it, and every field of tdm_device_info. */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend_cuda/cuda_internal.h"

/* The alignment of cuMemAlloc. */
#define ALIGNMENT 256
/* The resolution of cuEventElapsedTime, as its documentation states it. */
#define TIMER_NS 500
#define NVIDIA 0x10de
/*
 * Compute capabilities times ten: the oldest that the library supports, the first with asynchronous
 * copies, and the only one with the instructions of 9.0a.
 */
#define MIN_ARCHITECTURE 75
#define ASYNC_COPY_ARCHITECTURE 80
#define WGMMA_ARCHITECTURE 90

#define SIMULATOR_NAME "Tandem simulator"

/* The device attributes that are queried: field, attribute, and whether the driver must know it. */
#define ATTRIBUTE_LIST(X)                                                                          \
    X(major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, REQUIRED)                               \
    X(minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, REQUIRED)                               \
    X(mode, CU_DEVICE_ATTRIBUTE_COMPUTE_MODE, REQUIRED)                                            \
    X(units, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, REQUIRED)                                   \
    X(group_items, CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK, REQUIRED)                            \
    X(group_x, CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X, REQUIRED)                                      \
    X(group_y, CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y, REQUIRED)                                      \
    X(group_z, CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z, REQUIRED)                                      \
    X(warp, CU_DEVICE_ATTRIBUTE_WARP_SIZE, REQUIRED)                                               \
    X(local_bytes, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, REQUIRED)                \
    X(constant_bytes, CU_DEVICE_ATTRIBUTE_TOTAL_CONSTANT_MEMORY, REQUIRED)                         \
    X(pitch, CU_DEVICE_ATTRIBUTE_MAX_PITCH, REQUIRED)                                              \
    X(integrated, CU_DEVICE_ATTRIBUTE_INTEGRATED, REQUIRED)                                        \
    X(unified_addresses, CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING, REQUIRED)                         \
    X(clock_khz, CU_DEVICE_ATTRIBUTE_CLOCK_RATE, OPTIONAL)                                         \
    X(memory_khz, CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE, OPTIONAL)                                 \
    X(bus_bits, CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH, OPTIONAL)                             \
    X(cache_bytes, CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE, OPTIONAL)                                    \
    X(unit_items, CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR, OPTIONAL)                    \
    X(ecc, CU_DEVICE_ATTRIBUTE_ECC_ENABLED, OPTIONAL)

typedef struct device_answers {
#define FIELD(field, attribute, need) int field;
    ATTRIBUTE_LIST(FIELD)
#undef FIELD
} device_answers;

/* Queries one attribute of a device. An optional attribute that the driver does not know is 0. */
static CUresult ask(const tdm_cuda_api *api, CUdevice id, CUdevice_attribute attribute,
                    bool optional, int *value) {
    const CUresult code = CUDA_CALL(api, cuDeviceGetAttribute, value, attribute, id);
    if (code == CUDA_SUCCESS)
        return CUDA_SUCCESS;
    *value = 0;
    return optional && code == CUDA_ERROR_INVALID_VALUE ? CUDA_SUCCESS : code;
}

static tdm_status ask_all(const tdm_cuda_api *api, CUdevice id, device_answers *answers) {
    enum {
        REQUIRED,
        OPTIONAL
    };
#define ASK(field, attribute, need)                                                                \
    {                                                                                              \
        const CUresult code = ask(api, id, attribute, (need) == OPTIONAL, &answers->field);        \
        if (code != CUDA_SUCCESS)                                                                  \
            return tdm_cuda_fail(code, #attribute, "cuDeviceGetAttribute");                        \
    }
    ATTRIBUTE_LIST(ASK)
#undef ASK
    return TDM_OK;
}

/* Refuses a device on which the kernels or the backend cannot be correct. */
static tdm_status check_usable(const tdm_cuda_record *record, const tdm_cuda_images *images,
                               int driver, const device_answers *answers) {
    const int architecture = answers->major * 10 + answers->minor;
    if (answers->mode == CU_COMPUTEMODE_PROHIBITED)
        return tdm_fail(TDM_UNSUPPORTED, "its compute mode prohibits contexts (nvidia-smi -c 0)");
    if (architecture < MIN_ARCHITECTURE)
        return tdm_fail(TDM_UNSUPPORTED, "it has compute capability %d.%d, %d.%d is needed",
                        answers->major, answers->minor, MIN_ARCHITECTURE / 10,
                        MIN_ARCHITECTURE % 10);
    if (!answers->unified_addresses)
        return tdm_fail(TDM_UNSUPPORTED, "it has no unified addressing of host and device memory");
    if (!record->simulated && images->architectures[0] == '\0')
        return tdm_fail(TDM_UNSUPPORTED, "this build of the library contains no CUDA kernels (nvcc "
                                         "was not found or was disabled when it was built)");
    return tdm_cuda_images_check(images, driver, architecture);
}

static uint32_t capabilities_of(const tdm_cuda_api *api, const device_answers *answers,
                                const tdm_cuda_images *images) {
    const int driver = api->version;
    const int architecture = answers->major * 10 + answers->minor;
    uint32_t bits = TDM_CAP_CUDA | TDM_CAP_LOCAL_MEMORY | TDM_CAP_PROFILING |
                    TDM_CAP_FP16_ARITHMETIC | TDM_CAP_FP64 | TDM_CAP_SUBGROUPS | TDM_CAP_INT8_DOT |
                    TDM_CAP_CORRECT_DIVIDE | TDM_CAP_HOST_TASK | TDM_CAP_UNLIMITED_LOOPS |
                    TDM_CAP_SLABS | TDM_CAP_TENSOR_CORES; // all from MIN_ARCHITECTURE on
    if (answers->integrated)
        bits |= TDM_CAP_UNIFIED_MEMORY;
    // Code for older devices lacks the asynchronous-copy variants, and a newer device may run such
    // code.
    if (tdm_cuda_images_reach(images, driver, architecture, ASYNC_COPY_ARCHITECTURE))
        bits |= TDM_CAP_ASYNC_COPY;
    // Only devices of compute capability 9.0 have the instructions of 9.0a.
    if (architecture == WGMMA_ARCHITECTURE && api->cuTensorMapEncodeTiled &&
        tdm_cuda_images_hold(images, driver, "90a"))
        bits |= TDM_CAP_WGMMA;
    return bits;
}

/*
 * Reads the driver's own version number, which libcuda does not report. The line is "NVRM version:
 * NVIDIA UNIX x86_64 Kernel Module 580.65.06 ...".
 */
static bool read_driver_number(char *text, size_t bytes) {
    char line[256];
    FILE *const file = fopen("/proc/driver/nvidia/version", "re");
    if (!file)
        return false;
    const char *const found = fgets(line, sizeof line, file);
    fclose(file);
    for (const char *word = found; word && *word; word += strcspn(word, " ")) {
        word += strspn(word, " ");
        const size_t length = strcspn(word, " \n");
        if (length > 0 && strspn(word, "0123456789.") == length && memchr(word, '.', length)) {
            snprintf(text, bytes, "%.*s", (int)length, word);
            return true;
        }
    }
    return false;
}

static void fill_texts(const tdm_cuda_api *api, const device_answers *answers, bool simulated,
                       tdm_device_info *info) {
    snprintf(info->driver_family, sizeof info->driver_family, "%s",
             simulated ? "simulator" : "nvidia");
    snprintf(info->vendor, sizeof info->vendor, "%s", simulated ? "Tandem" : "NVIDIA Corporation");
    snprintf(info->api_version, sizeof info->api_version, "CUDA %d.%d", api->version / 1000,
             api->version % 1000 / 10);
    snprintf(info->kernel_language, sizeof info->kernel_language, "compute capability %d.%d",
             answers->major, answers->minor);
    if (simulated || !read_driver_number(info->driver_version, sizeof info->driver_version))
        snprintf(info->driver_version, sizeof info->driver_version, "%s", info->api_version);
}

/*
 * Fills in the PCI address. A device without one is usable; only programs that identify the device
 * elsewhere need its address.
 */
static void fill_address(const tdm_cuda_api *api, CUdevice id, tdm_device_info *info) {
    char text[32] = "";
    if (!api->cuDeviceGetPCIBusId ||
        CUDA_CALL(api, cuDeviceGetPCIBusId, text, (int)sizeof text, id) != CUDA_SUCCESS)
        return;
    text[sizeof text - 1] = '\0';
    if (strlen(text) >= sizeof info->pci_address)
        return;
    for (size_t i = 0; text[i]; i++)
        info->pci_address[i] = (char)tolower((unsigned char)text[i]);
}

static void fill_numbers(const device_answers *answers, tdm_device_info *info) {
    info->type = TDM_DEVICE_GPU;
    info->compute_units = (uint32_t)answers->units;
    info->clock_mhz = (uint32_t)answers->clock_khz / 1000;
    info->max_group_items = (uint32_t)answers->group_items;
    info->max_group[0] = (uint32_t)answers->group_x;
    info->max_group[1] = (uint32_t)answers->group_y;
    info->max_group[2] = (uint32_t)answers->group_z;
    info->alignment_bytes = ALIGNMENT;
    info->address_bits = 64;
    info->subgroup_size = (uint32_t)answers->warp;
    info->timer_ns = TIMER_NS;
    info->local_bytes = (uint64_t)answers->local_bytes;
    info->cache_bytes = (uint64_t)answers->cache_bytes;
    info->constant_bytes = (uint64_t)answers->constant_bytes;
    info->architecture = (uint32_t)(answers->major * 10 + answers->minor);
    info->unit_items = (uint32_t)answers->unit_items;
    info->memory_clock_mhz = (uint32_t)answers->memory_khz / 1000;
    info->memory_bus_bits = (uint32_t)answers->bus_bits;
    info->error_correction = answers->ecc ? 2 : 1;
}

tdm_status tdm_cuda_describe(const tdm_cuda_api *api, tdm_cuda_record *record) {
    tdm_device_info *const info = &record->info;
    device_answers answers = {0};
    size_t bytes = 0;
    // A device without a name cannot be distinguished from another one.
    CUDA_TRY("its name", api, cuDeviceGetName, info->name, (int)sizeof info->name, record->id);
    record->simulated = strncmp(info->name, SIMULATOR_NAME, strlen(SIMULATOR_NAME)) == 0;
    // The simulator has no images; it finds kernels by their names.
    const tdm_cuda_images images = {record->simulated ? "" : tdm_prebuilt_architectures(),
                                    record->simulated ? 0 : tdm_prebuilt_version()};
    tdm_status status = ask_all(api, record->id, &answers);
    if (status == TDM_OK)
        status = check_usable(record, &images, api->version, &answers);
    if (status != TDM_OK)
        return status;
    CUDA_TRY("its memory", api, cuDeviceTotalMem, &bytes, record->id);
    fill_texts(api, &answers, record->simulated, info);
    fill_numbers(&answers, info);
    fill_address(api, record->id, info);
    info->vendor_id = NVIDIA;
    info->global_bytes = bytes;
    info->max_alloc_bytes = bytes;
    info->capabilities = capabilities_of(api, &answers, &images);
    record->lacks_ptx = tdm_cuda_images_lack_ptx(&images, api->version);
    record->most_pitch = (uint64_t)answers.pitch;
    // The core divides work and memory by these numbers.
    if (bytes == 0 || answers.units <= 0 || answers.group_items <= 0 || answers.pitch <= 0)
        return tdm_fail(TDM_UNSUPPORTED,
                        "the driver reports no valid memory size (%zu bytes), compute units (%d) "
                        "or group size (%d)",
                        bytes, answers.units, answers.group_items);
    return TDM_OK;
}
