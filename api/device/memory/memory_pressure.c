/*
 * These functions respond to a pool that is short of memory. The device releases the cached memory
 * of all its pools to the driver. If there is none, it calls the user's callbacks.
 */
#include "api/device/device_internal.h"
#include "api/device/memory/memory_pool.h"

struct tdm_memory_callback_entry {
    tdm_memory_callback function;
    void *user;
    /* threads inside it; protected by the device's callbacks_lock, like the list */
    int running;
    bool removed;
    tdm_memory_callback_entry *next;
};

/* Callbacks that the calling thread is inside of. A callback that allocates must not be called
 * again by its own allocation. */
static _Thread_local int callback_depth;

/* ---- the list -------------------------------------------------------------------------------- */

tdm_status tdm_device_add_memory_callback(tdm_device *device, tdm_memory_callback function,
                                          void *user) {
    if (!device || !function)
        return tdm_fail(TDM_BAD_ARGUMENT, "device_add_memory_callback: %s is NULL",
                        device ? "function" : "device");
    tdm_memory_callback_entry *const entry = tdm_host_calloc(1, sizeof *entry);
    if (!entry)
        return tdm_fail(TDM_OUT_OF_HOST_MEMORY, "device_add_memory_callback: no host memory");
    entry->function = function;
    entry->user = user;
    pthread_mutex_lock(&device->callbacks_lock);
    tdm_memory_callback_entry **link = &device->callbacks;
    while (*link)
        link = &(*link)->next;
    *link = entry;
    pthread_mutex_unlock(&device->callbacks_lock);
    return TDM_OK;
}

static tdm_memory_callback_entry **find_entry(tdm_device *device, tdm_memory_callback function,
                                              const void *user) {
    tdm_memory_callback_entry **link = &device->callbacks;
    while (*link && ((*link)->removed || (*link)->function != function || (*link)->user != user))
        link = &(*link)->next;
    return link;
}

/* Frees removed entries that are not running. The list is locked. */
static void sweep_removed(tdm_device *device) {
    for (tdm_memory_callback_entry **link = &device->callbacks; *link;) {
        tdm_memory_callback_entry *const entry = *link;
        if (entry->removed && entry->running == 0) {
            *link = entry->next;
            tdm_host_free(entry);
        } else {
            link = &entry->next;
        }
    }
}

tdm_status tdm_device_remove_memory_callback(tdm_device *device, tdm_memory_callback function,
                                             void *user) {
    if (!device || !function)
        return tdm_fail(TDM_BAD_ARGUMENT, "device_remove_memory_callback: %s is NULL",
                        device ? "function" : "device");
    pthread_mutex_lock(&device->callbacks_lock);
    tdm_memory_callback_entry *const entry = *find_entry(device, function, user);
    if (entry) {
        entry->removed = true;
        entry->running++; // keeps it in the list while this thread waits
        while (entry->running > 1 && callback_depth == 0)
            pthread_cond_wait(&device->callbacks_change, &device->callbacks_lock);
        entry->running--;
        sweep_removed(device);
    }
    pthread_mutex_unlock(&device->callbacks_lock);
    return entry ? TDM_OK
                 : tdm_fail(TDM_BAD_STATE,
                            "device_remove_memory_callback: the callback is not registered");
}

void tdm_device_callbacks_close(tdm_device *device) {
    for (tdm_memory_callback_entry *entry = device->callbacks, *next; entry; entry = next) {
        next = entry->next;
        tdm_host_free(entry);
    }
    device->callbacks = NULL;
}

/* ---- freeing memory elsewhere ---------------------------------------------------------------- */

/* Calls one callback after another until one has freed something. None runs with a lock held. */
static bool ask_callbacks(tdm_device *device, uint64_t bytes) {
    bool freed = false;
    pthread_mutex_lock(&device->callbacks_lock);
    for (tdm_memory_callback_entry *entry = device->callbacks; entry && !freed;
         entry = entry->next) {
        if (entry->removed)
            continue;
        entry->running++;
        pthread_mutex_unlock(&device->callbacks_lock);
        callback_depth++;
        freed = entry->function(entry->user, bytes) != 0;
        callback_depth--;
        pthread_mutex_lock(&device->callbacks_lock);
        entry->running--;
        pthread_cond_broadcast(&device->callbacks_change);
    }
    sweep_removed(device);
    pthread_mutex_unlock(&device->callbacks_lock);
    return freed;
}

void tdm_memory_callbacks_hold(int change) {
    callback_depth += change;
}

bool tdm_device_relieve(void *user, uint64_t bytes, int attempt) {
    (void)attempt;
    tdm_device *const device = user;
    if (tdm_device_trim_pools(device) > 0)
        return true;
    if (callback_depth > 0 || !ask_callbacks(device, bytes))
        return false;
    // A callback may have freed memory of a pool other than the one that allocates.
    tdm_device_trim_pools(device);
    return true;
}
