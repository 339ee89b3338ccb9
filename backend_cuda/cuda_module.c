/* Modules: the prebuilt kernels of one kernel source, loaded at first use. */
#include <string.h>

#include "backend_cuda/cuda_internal.h"

#define LOG_BYTES 4096

/* Removes line ends from the driver's log. The log is filled if the driver had to compile PTX. */
static const char *tidy(char *log) {
    log[LOG_BYTES - 1] = '\0';
    for (char *c = log; *c; c++)
        if (*c == '\n' || *c == '\r')
            *c = ' ';
    return log;
}

static tdm_status refusal(const tdm_bk_device *device, const tdm_kernel_source *source,
                          CUresult code, char *log) {
    const tdm_device_info *const info = &device->record->info;
    const tdm_status status = tdm_cuda_status(code);
    return tdm_fail(status == TDM_INTERNAL || status == TDM_UNSUPPORTED ? TDM_BUILD_FAILED : status,
                    "%s: cuModuleLoadDataEx: %s (%u); the library's kernels are for %s, the device "
                    "has compute capability %u.%u, the driver offers %s%s%s",
                    source->entry, tdm_cuda_error_name(code), code,
                    source->prebuilt->stand_in ? "nothing" : tdm_prebuilt_architectures(),
                    info->architecture / 10, info->architecture % 10, info->api_version,
                    log[0] ? ": " : "", tidy(log));
}

static tdm_status load(const tdm_bk_device *device, const tdm_kernel_source *source,
                       CUmodule *module) {
    char log[LOG_BYTES] = "";
    CUjit_option names[] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
    void *values[] = {log, (void *)(uintptr_t)sizeof log};
    const CUresult code = CUDA_CALL(device->api, cuModuleLoadDataEx, module, source->prebuilt->data,
                                    2, names, values);
    return code == CUDA_SUCCESS ? TDM_OK : refusal(device, source, code, log);
}

/*
 * Returns the source's module. The caller holds the lock, so that two kernels of a source do not
 * load it twice.
 */
static tdm_status get_locked(tdm_bk_device *device, const tdm_kernel_source *source,
                             CUmodule *module) {
    for (tdm_cuda_module *m = device->modules; m; m = m->next)
        if (m->image == source->prebuilt->data) {
            *module = m->module;
            return TDM_OK;
        }
    tdm_cuda_module *const loaded = tdm_host_calloc(1, sizeof *loaded);
    if (!loaded)
        return tdm_fail(TDM_OUT_OF_HOST_MEMORY, "%s: no host memory", source->entry);
    const tdm_status status = load(device, source, &loaded->module);
    if (status != TDM_OK) {
        tdm_host_free(loaded);
        return status;
    }
    loaded->image = source->prebuilt->data;
    loaded->next = device->modules;
    device->modules = loaded;
    *module = loaded->module;
    return TDM_OK;
}

tdm_status tdm_cuda_module_get(tdm_bk_device *device, const tdm_kernel_source *source,
                               CUmodule *module) {
    if (!source->prebuilt)
        return tdm_fail(TDM_BUILD_FAILED,
                        "%s: the library contains no CUDA image of this kernel, and kernel source "
                        "is not compiled at run time",
                        source->entry);
    pthread_mutex_lock(&device->modules_lock);
    const tdm_status status = get_locked(device, source, module);
    pthread_mutex_unlock(&device->modules_lock);
    return status;
}

void tdm_cuda_modules_unload(tdm_bk_device *device, bool entered) {
    while (device->modules) {
        tdm_cuda_module *const first = device->modules;
        device->modules = first->next;
        if (entered)
            CUDA_RELEASE(device->api, cuModuleUnload, first->module);
        tdm_host_free(first);
    }
}
