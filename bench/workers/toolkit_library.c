#include "bench/workers/toolkit_library.h"

#include <dlfcn.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    MAX_PATH = 4096,
    MAX_LINKS = 8
};

/* ---- folders, as patterns -------------------------------------------------------------------------- */

typedef struct search {
    const toolkit_library *library;
    void *found;
} search;

/* The library of this version in the folders of the pattern; the last folder, so of the newest toolkit, first. */
static void try_version(search *s, const char *folders, int version) {
    char pattern[MAX_PATH];
    glob_t files;
    const int length =
        snprintf(pattern, sizeof pattern, "%s/lib%s.so.%d", folders, s->library->name, version);
    if (length < 0 || length >= (int)sizeof pattern || glob(pattern, 0, NULL, &files) != 0)
        return;
    for (size_t i = files.gl_pathc; i > 0 && s->found == NULL; i--)
        s->found = dlopen(files.gl_pathv[i - 1], RTLD_NOW | RTLD_LOCAL);
    globfree(&files);
}

static void try_folders(search *s, const char *folders) {
    for (int back = 0; back < 2 && s->found == NULL; back++)
        try_version(s, folders, s->library->version - back);
}

static void try_below(search *s, const char *folder, const char *below) {
    char folders[MAX_PATH];
    const int length = snprintf(folders, sizeof folders, "%s%s", folder, below);
    if (s->found == NULL && length > 0 && length < (int)sizeof folders)
        try_folders(s, folders);
}

static void try_toolkit(search *s, const char *folder) {
    try_below(s, folder, "/lib64");
    try_below(s, folder, "/targets/*/lib");
    try_below(s, folder, "/lib");
}

/* Packages of the Python whose programs are in this folder. */
static void try_packages(search *s, const char *folder) {
    try_below(s, folder, "/../lib/python3*/*-packages/nvidia/*/lib");
    try_below(s, folder, "/../local/lib/python3*/*-packages/nvidia/*/lib");
}

/* The same of what its python3 is a link to, and so on: a virtual environment may be known by links from elsewhere alone. */
static void try_links(search *s, const char *folder) {
    char path[MAX_PATH], target[MAX_PATH];
    int length = snprintf(path, sizeof path, "%s/python3", folder);
    for (int i = 0; i < MAX_LINKS && length > 0 && length < MAX_PATH; i++) {
        const ssize_t bytes = readlink(path, target, sizeof target - 1);
        if (bytes <= 0)
            return;
        target[bytes] = '\0';
        *strrchr(path, '/') = '\0';
        char *const next = strdup(path);
        if (next == NULL)
            return;
        length = target[0] == '/' ? snprintf(path, sizeof path, "%s", target)
                                  : snprintf(path, sizeof path, "%s/%s", next, target);
        free(next);
        snprintf(target, sizeof target, "%s", path);
        *strrchr(target, '/') = '\0';
        try_packages(s, target);
    }
}

static void try_program_folder(search *s, const char *folder) {
    try_packages(s, folder);
    try_links(s, folder);
}

/* Each part of a variable like PATH. */
static void try_each(search *s, const char *variable,
                     void (*try_one)(search *s, const char *folder)) {
    const char *const list = getenv(variable);
    char *const parts = strdup(list != NULL ? list : "");
    char *rest = NULL;
    for (char *part = parts != NULL ? strtok_r(parts, ":", &rest) : NULL;
         part != NULL && s->found == NULL; part = strtok_r(NULL, ":", &rest))
        try_one(s, part);
    free(parts);
}

/* ---- the library ------------------------------------------------------------------------------------- */

static void *find_library(const toolkit_library *library) {
    search s = {.library = library};
    char file[64];
    try_each(&s, "TANDEM_CUBLAS_PATH", try_folders);
    for (int back = 0; back < 2 && s.found == NULL; back++) {
        snprintf(file, sizeof file, "lib%s.so.%d", library->name, library->version - back);
        s.found = dlopen(file, RTLD_NOW | RTLD_LOCAL);
    }
    try_each(&s, "CUDA_HOME", try_toolkit);
    try_each(&s, "CUDA_PATH", try_toolkit);
    try_each(&s, "PATH", try_program_folder);
    try_toolkit(&s, "/usr/local/cuda");
    try_toolkit(&s, "/usr/local/cuda-*");
    return s.found;
}

const char *toolkit_library_open(const toolkit_library *library, void *functions) {
    static char reason[512];
    const char *const named = getenv(library->variable);
    void *const handle = named != NULL && named[0] != '\0' ? dlopen(named, RTLD_NOW | RTLD_LOCAL)
                                                           : find_library(library);
    if (handle == NULL && named != NULL && named[0] != '\0') {
        snprintf(reason, sizeof reason, "%s: %s", library->variable, dlerror());
        return reason;
    }
    if (handle == NULL) {
        snprintf(
            reason, sizeof reason,
            "there is no lib%s.so.%d on this machine; %s may name the file, TANDEM_CUBLAS_PATH "
            "folders",
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
