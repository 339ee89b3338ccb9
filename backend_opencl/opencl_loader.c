/* Opens the driver with dlopen and looks up its functions. */
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "backend_opencl/drivers/driver_check.h"

/* The ICD loader first, then the paths of Android vendors' drivers, 64-bit and 32-bit. */
static const char *const usual_files[] = {
    "libOpenCL.so.1",
    "libOpenCL.so",
#if UINTPTR_MAX > UINT32_MAX
    "/vendor/lib64/libOpenCL.so",
    "/system/vendor/lib64/libOpenCL.so",
    "/system/lib64/libOpenCL.so",
    "/vendor/lib64/egl/libGLES_mali.so",
#else
    "/vendor/lib/libOpenCL.so", "/system/vendor/lib/libOpenCL.so",
    "/system/lib/libOpenCL.so", "/vendor/lib/egl/libGLES_mali.so",
#endif
};

/*
 * Looks up one function. POSIX makes the data pointer of dlsym usable as a function pointer, but
 * ISO C has no cast for it.
 */
static bool look_up(void *library, const char *name, void *target) {
    void *const found = dlsym(library, name);
    memcpy(target, &found, sizeof found);
    return found != NULL;
}

/* Fills the table. Returns the name of the first required function that is missing, or NULL. */
static const char *look_up_all(void *library, tdm_opencl_api *api) {
    enum {
        OPTIONAL,
        REQUIRED
    };
    const char *missing = NULL;
#define OPENCL_FUNCTION(name, need, since)                                                         \
    if (!look_up(library, #name, &api->name) && (need) == REQUIRED && !missing)                    \
        missing = #name;
#include "backend_opencl/opencl_functions.def"
#undef OPENCL_FUNCTION
    return missing;
}

/* Returns the path of the library that was opened under the name `file`. */
static const char *path_of(const tdm_opencl_api *api, const char *file) {
    Dl_info info;
    void *address;
    memcpy(&address, &api->clGetPlatformIDs, sizeof address);
    return dladdr(address, &info) && info.dli_fname && *info.dli_fname ? info.dli_fname : file;
}

static tdm_status open_file(const char *file, tdm_opencl_api *api, tdm_notes *notes) {
    tdm_status status = tdm_driver_check_load(file);
    if (status != TDM_OK)
        return status;
    void *const library = dlopen(file, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (!library) {
        const char *const reason = dlerror();
        return tdm_fail(TDM_NO_DEVICE, "%s", reason ? reason : "dlopen failed");
    }
    const char *const missing = look_up_all(library, api);
    if (missing) {
        dlclose(library);
        return tdm_fail(TDM_NO_DEVICE, "%s is not an OpenCL driver: it lacks %s", file, missing);
    }
    status = tdm_driver_check_platforms(path_of(api, file), api, notes);
    if (status != TDM_OK) {
        dlclose(library);
        return status;
    }
    api->library = library;
    tdm_log(TDM_LOG_DEBUG, "driver", "opencl: loaded %s", file);
    return TDM_OK;
}

/* Uses a preloaded tool such as Oclgrind, which is meant to take the place of the ICD loader. */
static bool take_preloaded(tdm_opencl_api *api) {
    const char *const preload = tdm_environment("LD_PRELOAD", true);
    if (!preload || !*preload || look_up_all(RTLD_DEFAULT, api) != NULL)
        return false;
    tdm_log(TDM_LOG_DEBUG, "driver", "opencl: using the functions of LD_PRELOAD=%s", preload);
    return true;
}

tdm_status tdm_opencl_load(tdm_opencl_api *api, tdm_notes *notes) {
    *api = (tdm_opencl_api){0};
    const char *const named = tdm_environment("TANDEM_OPENCL_LIBRARY", true);
    if (named && *named) {
        const tdm_status status = open_file(named, api, notes);
        return status == TDM_OK ? TDM_OK
                                : tdm_fail_prefix(status, "TANDEM_OPENCL_LIBRARY=%s", named);
    }
    if (take_preloaded(api))
        return TDM_OK;
    char first_reason[512] = "";
    for (size_t i = 0; i < sizeof usual_files / sizeof usual_files[0]; i++) {
        const tdm_status status = open_file(usual_files[i], api, notes);
        if (status != TDM_NO_DEVICE)
            return status;
        // Only the first reason is kept: later files usually do not exist either.
        if (i == 0)
            snprintf(first_reason, sizeof first_reason, "%s", tdm_last_detail());
    }
    return tdm_fail(
        TDM_NO_DEVICE,
        "no driver: %s; install an ICD loader (ocl-icd-libopencl1 on Debian) and a driver "
        "(pocl-opencl-icd runs on the CPU), or name one in TANDEM_OPENCL_LIBRARY",
        first_reason);
}

/*
 * All serial drivers share one lock, because the state of such a driver is global. The lock is
 * recursive, because a driver may call back.
 */
static pthread_mutex_t serial_lock;

static void make_serial_lock(void) {
    pthread_mutexattr_t attributes;
    pthread_mutexattr_init(&attributes);
    pthread_mutexattr_settype(&attributes, PTHREAD_MUTEX_RECURSIVE);
    pthread_mutex_init(&serial_lock, &attributes);
    pthread_mutexattr_destroy(&attributes);
}

void tdm_opencl_call_begin(const tdm_opencl_api *api) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    if (!api->serial)
        return;
    pthread_once(&once, make_serial_lock);
    pthread_mutex_lock(&serial_lock);
}

void tdm_opencl_call_end(const tdm_opencl_api *api) {
    if (api->serial)
        pthread_mutex_unlock(&serial_lock);
}

void tdm_opencl_unload(tdm_opencl_api *api) {
    if (api->library)
        dlclose(api->library);
    api->library = NULL;
}
