/* Host allocations through the user's hooks, and access to the environment. */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/base/host_memory.h"

#include "api/base/base.h"

static tdm_host_allocator hooks;
static atomic_int contexts;

tdm_status tdm_set_host_allocator(const tdm_host_allocator *allocator) {
    tdm_host_allocator room;
    if (allocator) {
        allocator =
            tdm_struct_read("set_host_allocator", "allocator", allocator, sizeof room, &room);
        if (!allocator)
            return TDM_BAD_ARGUMENT;
    }
    if (allocator && (!allocator->allocate || !allocator->release))
        return tdm_fail(TDM_BAD_ARGUMENT, "set_host_allocator: %s is NULL",
                        allocator->allocate ? "release" : "allocate");
    if (atomic_load(&contexts) != 0)
        return tdm_fail(TDM_BAD_STATE, "set_host_allocator: %d contexts exist, there must be none",
                        atomic_load(&contexts));
    hooks = allocator ? *allocator : (tdm_host_allocator){0};
    return TDM_OK;
}

void tdm_host_context_count(int change) {
    atomic_fetch_add(&contexts, change);
}

void *tdm_host_alloc(size_t bytes) {
    const size_t size = bytes ? bytes : 1;
    return hooks.allocate ? hooks.allocate(hooks.user, size) : malloc(size);
}

void *tdm_host_calloc(size_t count, size_t bytes) {
    size_t size;
    if (__builtin_mul_overflow(count, bytes, &size))
        return NULL;
    void *const pointer = tdm_host_alloc(size);
    if (pointer)
        memset(pointer, 0, size);
    return pointer;
}

void *tdm_host_realloc(void *pointer, size_t old_bytes, size_t bytes) {
    void *const bigger = tdm_host_alloc(bytes);
    if (!bigger)
        return NULL;
    if (pointer)
        memcpy(bigger, pointer, old_bytes < bytes ? old_bytes : bytes);
    tdm_host_free(pointer);
    return bigger;
}

char *tdm_host_strdup(const char *text) {
    const size_t size = strlen(text) + 1;
    char *const copy = tdm_host_alloc(size);
    if (copy)
        memcpy(copy, text, size);
    return copy;
}

void tdm_host_free(void *pointer) {
    if (!pointer)
        return;
    if (hooks.release)
        hooks.release(hooks.user, pointer);
    else
        free(pointer);
}

const char *tdm_environment(const char *name, bool secure) {
#if defined(__GLIBC__) || defined(__linux__)
    return secure ? secure_getenv(name) : getenv(name);
#else
    return secure ? NULL : getenv(name);
#endif
}

static char *join(const char *base, const char *folder, const char *rest) {
    const size_t bytes = strlen(base) + strlen(folder) + strlen(rest) + 1;
    char *const path = tdm_host_alloc(bytes);
    if (path)
        snprintf(path, bytes, "%s%s%s", base, folder, rest);
    return path;
}

char *tdm_user_path(const char *own, const char *xdg, const char *folder, const char *rest) {
    const char *const named = tdm_environment(own, true);
    if (named && *named)
        return strcmp(named, "off") == 0 ? NULL : tdm_host_strdup(named);
    // The XDG specification says that relative paths are ignored.
    const char *const user = tdm_environment(xdg, true);
    if (user && *user == '/')
        return join(user, "", rest);
    const char *const home = tdm_environment("HOME", true);
    return home && *home == '/' ? join(home, folder, rest) : NULL;
}
