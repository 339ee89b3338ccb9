#include "bench/workers/toolkit_library.h"

#include <dlfcn.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    MAX_PATH = 4096
};

/*
 * Patterns of the folders that may hold a library. With a variable, they are appended to each
 * folder of its list.
 */
static const struct {
    const char *variable, *folders;
} places[] = {
    {"TANDEM_CUBLAS_PATH", "/"},
    {NULL, ""}, /* the dynamic loader's own search */
    {"CUDA_HOME", "/lib64/"},
    {"CUDA_HOME", "/targets/*/lib/"},
    {"CUDA_PATH", "/lib64/"},
    {"CUDA_PATH", "/targets/*/lib/"},
    {"PATH", "/../lib/python3*/*-packages/nvidia/*/lib/"},
    {"PATH", "/../local/lib/python3*/*-packages/nvidia/*/lib/"},
    {NULL, "/usr/local/cuda*/lib64/"},
    {NULL, "/usr/local/cuda*/targets/*/lib/"},
};

/*
 * Opens the file in one of the folders that match the pattern. The last match is tried first,
 * because it is the newest toolkit's.
 */
static void *open_in(const char *below, const char *folders, const char *file) {
    char pattern[MAX_PATH];
    glob_t found;
    void *handle = NULL;
    const int length = snprintf(pattern, sizeof pattern, "%s%s%s", below, folders, file);
    if (length < 0 || length >= (int)sizeof pattern || glob(pattern, 0, NULL, &found) != 0)
        return NULL;
    for (size_t i = found.gl_pathc; i > 0 && handle == NULL; i--)
        handle = dlopen(found.gl_pathv[i - 1], RTLD_NOW | RTLD_LOCAL);
    globfree(&found);
    return handle;
}

static void *open_at(size_t place, const char *file) {
    const char *const variable = places[place].variable;
    char *rest = NULL;
    void *handle = NULL;
    if (variable == NULL)
        return places[place].folders[0] == '\0' ? dlopen(file, RTLD_NOW | RTLD_LOCAL)
                                                : open_in("", places[place].folders, file);
    const char *const value = getenv(variable);
    char *const list = strdup(value != NULL ? value : "");
    for (char *folder = list != NULL ? strtok_r(list, ":", &rest) : NULL;
         folder != NULL && handle == NULL; folder = strtok_r(NULL, ":", &rest))
        handle = open_in(folder, places[place].folders, file);
    free(list);
    return handle;
}

static void *find_library(const toolkit_library *library) {
    void *handle = NULL;
    for (size_t place = 0; place < sizeof places / sizeof *places; place++)
        for (int back = 0; back < 2 && handle == NULL; back++) {
            char file[64];
            snprintf(file, sizeof file, "lib%s.so.%d", library->name, library->version - back);
            handle = open_at(place, file);
        }
    return handle;
}

const char *toolkit_library_open(const toolkit_library *library, void *functions) {
    static char reason[512];
    const char *const value = getenv(library->variable);
    const char *const named = value != NULL && value[0] != '\0' ? value : NULL;
    void *const handle =
        named != NULL ? dlopen(named, RTLD_NOW | RTLD_LOCAL) : find_library(library);
    if (handle == NULL && named != NULL) {
        snprintf(reason, sizeof reason, "%s: %s", library->variable, dlerror());
        return reason;
    }
    if (handle == NULL) {
        snprintf(reason, sizeof reason,
                 "there is no lib%s.so.%d; %s can name the file, TANDEM_CUBLAS_PATH the folders",
                 library->name, library->version, library->variable);
        return reason;
    }
    for (int i = 0; library->functions[i] != NULL; i++) {
        void *const function = dlsym(handle, library->functions[i]);
        if (function == NULL) {
            snprintf(reason, sizeof reason, "lib%s.so has no %s", library->name,
                     library->functions[i]);
            return reason;
        }
        memcpy((char *)functions + (size_t)i * sizeof function, &function, sizeof function);
    }
    return NULL;
}
