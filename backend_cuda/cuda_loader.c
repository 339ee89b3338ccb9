/* Opens the driver with dlopen, looks up its functions, and initialises it. */
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include "backend_cuda/cuda_calls.h"

#define DEFAULT_FILE "libcuda.so.1"

/*
 * Looks up one function. POSIX lets a pointer from dlsym be used as a function pointer, but ISO C
 * has no cast for it.
 */
static bool look_up(void *library, const char *name, void *target) {
    void *const found = dlsym(library, name);
    memcpy(target, &found, sizeof found);
    return found != NULL;
}

/* Fills the table. Returns the name of the first required function that is missing, or NULL. */
static const char *look_up_all(void *library, tdm_cuda_api *api) {
    enum {
        OPTIONAL,
        REQUIRED
    };
    const char *missing = NULL;
#define CUDA_FUNCTION(name, symbol, need, since, parameters)                                       \
    if (!look_up(library, #symbol, &api->name) && (need) == REQUIRED && !missing)                  \
        missing = #symbol;
#include "backend_cuda/cuda_functions.def"
#undef CUDA_FUNCTION
    return missing;
}

/* Checks the driver's version before its missing functions, because the version explains more than
 * their names. */
static tdm_status check_version(tdm_cuda_api *api, const char *file, const char *missing) {
    if (missing && !api->cuDriverGetVersion)
        return tdm_fail(TDM_NO_DEVICE, "%s is not a CUDA driver: it lacks %s", file, missing);
    CUDA_TRY("the driver's version", api, cuDriverGetVersion, &api->version);
    if (api->version < CUDA_MIN_VERSION)
        return tdm_fail(TDM_NO_DEVICE,
                        "the driver is too old: it offers CUDA %d.%d, %d.%d is needed (driver 450 "
                        "or newer)",
                        api->version / 1000, api->version % 1000 / 10, CUDA_MIN_VERSION / 1000,
                        CUDA_MIN_VERSION % 1000 / 10);
    if (missing)
        return tdm_fail(TDM_NO_DEVICE, "%s offers CUDA %d.%d but lacks %s", file,
                        api->version / 1000, api->version % 1000 / 10, missing);
    return TDM_OK;
}

static tdm_status open_file(const char *file, tdm_cuda_api *api) {
    void *const library = dlopen(file, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (!library) {
        const char *const reason = dlerror();
        return tdm_fail(TDM_NO_DEVICE, "%s", reason ? reason : "dlopen failed");
    }
    const tdm_status status = check_version(api, file, look_up_all(library, api));
    if (status != TDM_OK) {
        dlclose(library);
        return status;
    }
    api->library = library;
    tdm_cuda_errors_query(api);
    tdm_log(TDM_LOG_DEBUG, "driver", "cuda: loaded %s, CUDA %d.%d", file, api->version / 1000,
            api->version % 1000 / 10);
    return TDM_OK;
}

/* Returns a hint for a driver that cuInit cannot initialise, or NULL. */
static const char *hint_for(CUresult code) {
    switch (code) {
    case CUDA_ERROR_NO_DEVICE:
        return "it finds no GPU: check that one is installed, that it is visible to this process "
               "(containers, CUDA_VISIBLE_DEVICES), and that the nvidia kernel module is loaded";
    case CUDA_ERROR_STUB_LIBRARY:
        return "the file is the CUDA toolkit's stub library, not a driver";
    case CUDA_ERROR_SYSTEM_NOT_READY:
        return "a service that the GPUs need has not started; with NVSwitch it is "
               "nvidia-fabricmanager";
    case CUDA_ERROR_SYSTEM_DRIVER_MISMATCH:
        return "the driver library and the kernel module have different versions; a reboot loads "
               "the matching module";
    case CUDA_ERROR_UNKNOWN:
        return "the nvidia kernel module does not answer: check that it is loaded and that this "
               "user may open /dev/nvidia*";
    default:
        return NULL;
    }
}

static tdm_status initialise(tdm_cuda_api *api) {
    const CUresult code = CUDA_CALL(api, cuInit, 0);
    if (code == CUDA_SUCCESS)
        return TDM_OK;
    const char *const hint = hint_for(code);
    return tdm_fail(TDM_NO_DEVICE, "the driver does not start: cuInit: %s (%u)%s%s",
                    tdm_cuda_error_name(code), code, hint ? "; " : "", hint ? hint : "");
}

/* Loads the file that TANDEM_CUDA_LIBRARY names, or DEFAULT_FILE. */
static tdm_status load_file(tdm_cuda_api *api) {
    const char *const named = tdm_environment("TANDEM_CUDA_LIBRARY", true);
    if (named && *named) {
        const tdm_status status = open_file(named, api);
        return status == TDM_OK ? TDM_OK : tdm_fail_prefix(status, "TANDEM_CUDA_LIBRARY=%s", named);
    }
    const tdm_status status = open_file(DEFAULT_FILE, api);
    if (status == TDM_OK || api->cuDriverGetVersion)
        return status;
    char reason[512];
    snprintf(reason, sizeof reason, "%s", tdm_last_detail());
    return tdm_fail(TDM_NO_DEVICE,
                    "no driver: %s; NVIDIA's driver contains the file (libcuda1 on Debian), or "
                    "name another in TANDEM_CUDA_LIBRARY",
                    reason);
}

tdm_status tdm_cuda_load(tdm_cuda_api *api) {
    *api = (tdm_cuda_api){0};
    tdm_status status = load_file(api);
    if (status == TDM_OK)
        status = initialise(api);
    if (status != TDM_OK)
        tdm_cuda_unload(api);
    return status;
}

void tdm_cuda_unload(tdm_cuda_api *api) {
    if (api->library)
        dlclose(api->library);
    api->library = NULL;
}
