/* Contexts: they load the backends, list their devices and keep notes on what was skipped. */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "api/base/handles.h"
#include "api/base/host_memory.h"
#include "api/device/backends.h"
#include "api/device/core.h"
#include "api/device/device_internal.h"
#include "api/pool/monitor_page.h"

#ifdef TANDEM_HAVE_OPENCL
extern const tdm_backend tdm_opencl_backend;
#define OPENCL_BACKEND &tdm_opencl_backend
#else
#define OPENCL_BACKEND NULL
#endif
#ifdef TANDEM_HAVE_CUDA
extern const tdm_backend tdm_cuda_backend;
#define CUDA_BACKEND &tdm_cuda_backend
#else
#define CUDA_BACKEND NULL
#endif

const tdm_backend_row tdm_backend_rows[] = {
    {"cuda", CUDA_BACKEND},
    {"opencl", OPENCL_BACKEND},
};
const int tdm_backend_row_count = (int)(sizeof tdm_backend_rows / sizeof tdm_backend_rows[0]);

static void add_note(tdm_context *context, const char *backend, const char *text) {
    tdm_log(TDM_LOG_INFO, "driver", "%s: %s", backend, text);
    tdm_notes_add(&context->notes, "%s: %s", backend, text);
}

static bool is_row_name(const char *name, size_t length) {
    for (int i = 0; i < tdm_backend_row_count; i++)
        if (strlen(tdm_backend_rows[i].name) == length &&
            strncmp(tdm_backend_rows[i].name, name, length) == 0)
            return true;
    return false;
}

/* Adds a note for each name in the user's list that is not a backend. */
static void note_unknown_names(tdm_context *context, const char *list) {
    for (;;) {
        const size_t length = strcspn(list, ",");
        char name[64];
        snprintf(name, sizeof name, "\"%.*s\"", length < 32 ? (int)length : 32, list);
        if (!is_row_name(list, length))
            add_note(context, name, "no such backend; the backends are cuda and opencl");
        if (list[length] == '\0')
            return;
        list += length + 1;
    }
}

/* True if `name` is in the comma-separated list. */
static bool list_has(const char *list, const char *name) {
    while (*list) {
        const size_t length = strcspn(list, ",");
        if (length == strlen(name) && strncmp(list, name, length) == 0)
            return true;
        list += length + (list[length] == ',');
    }
    return false;
}

static tdm_status add_device(tdm_context *context, int backend, int index) {
    const tdm_loaded_backend *const loaded = &context->backends[backend];
    tdm_device_slot slot = {.backend = backend, .index = index};
    const tdm_status status = loaded->api->device_info(loaded->instance, index, &slot.info);
    if (status != TDM_OK) {
        add_note(context, loaded->api->name, tdm_last_detail());
        return TDM_OK;
    }
    slot.info.struct_size = sizeof slot.info;
    snprintf(slot.info.backend, sizeof slot.info.backend, "%s", loaded->api->name);
    snprintf(slot.info.selector, sizeof slot.info.selector, "%s/%s/%s", slot.info.backend,
             slot.info.driver_family, slot.info.name);
    tdm_device_slot *const devices =
        tdm_host_realloc(context->devices, (size_t)context->device_count * sizeof *devices,
                         (size_t)(context->device_count + 1) * sizeof *devices);
    if (!devices)
        return tdm_fail(TDM_OUT_OF_HOST_MEMORY,
                        "context_create: no host memory for the device list");
    context->devices = devices;
    devices[context->device_count++] = slot;
    return TDM_OK;
}

/* The process that opened the drivers of each row; 0: none. After a fork the child has them open
 * too. */
static atomic_long openers[sizeof tdm_backend_rows / sizeof tdm_backend_rows[0]];

/* Fails because the threads and locks of drivers do not survive a fork. The child's work might
 * never end. */
static tdm_status refuse_fork(const char *backend, long opener) {
    return tdm_fail(TDM_BAD_STATE,
                    "context_create: process %ld is a fork of process %ld, which had already "
                    "opened the %s drivers: create contexts in one of the two only, or fork first",
                    (long)getpid(), opener, backend);
}

static tdm_status load_backend(tdm_context *context, const tdm_backend_row *row) {
    atomic_long *const opener = &openers[row - tdm_backend_rows];
    if (!row->backend) {
        add_note(context, row->name, "not in this build");
        return TDM_OK;
    }
    tdm_loaded_backend *const loaded = &context->backends[context->backend_count];
    loaded->api = row->backend;
    const long before = atomic_load(opener);
    if (before != 0 && before != (long)getpid())
        return refuse_fork(row->name, before);
    // It is set before the drivers are opened, because another thread may fork meanwhile.
    atomic_store(opener, (long)getpid());
    const tdm_status status = row->backend->open(&loaded->instance);
    const int count = status == TDM_OK ? row->backend->device_count(loaded->instance) : 0;
    if (before == 0 && count == 0)
        atomic_store(opener, 0);
    if (status != TDM_OK) {
        add_note(context, row->name, tdm_last_detail());
        return status == TDM_OUT_OF_HOST_MEMORY ? status : TDM_OK;
    }
    const int backend = context->backend_count++;
    const char *note;
    for (int i = 0; (note = row->backend->note(loaded->instance, i)) != NULL; i++)
        add_note(context, row->name, note);
    for (int i = 0; i < count; i++)
        TDM_TRY(add_device(context, backend, i));
    return TDM_OK;
}

static void context_free(tdm_context *context) {
    for (int i = 0; i < context->backend_count; i++)
        context->backends[i].api->close(context->backends[i].instance);
    tdm_notes_free(&context->notes);
    tdm_host_free(context->devices);
    tdm_host_free(context->memory_trace);
    pthread_mutex_destroy(&context->lock);
    tdm_handles_context(-1, context->debug_pool);
    tdm_monitor_release();
    tdm_host_free(context);
    tdm_host_context_count(-1);
}

/* True if TANDEM_POOL, a comma-separated list, contains this word. */
static bool pool_mode(const char *mode) {
    const char *const pool = tdm_environment("TANDEM_POOL", false);
    return pool && list_has(pool, mode);
}

/* Copies the path, because the environment may change. If host memory is short, the context records
 * no trace. */
static char *memory_trace_wanted(void) {
    const char *const path = tdm_environment("TANDEM_MEMORY_TRACE", true);
    return path && *path ? tdm_host_strdup(path) : NULL;
}

tdm_status tdm_device_info_copy(const tdm_device_info *source, tdm_device_info *target) {
    TDM_TRY(tdm_struct_check_output("device_info", "info", target, sizeof *source));
    tdm_struct_write(source, sizeof *source, target);
    return TDM_OK;
}

tdm_status tdm_context_create(const tdm_context_options *options, tdm_context **context) {
    if (!context)
        return tdm_fail(TDM_BAD_ARGUMENT, "context_create: context is NULL");
    *context = NULL;
    tdm_context_options room;
    if (options) {
        options = tdm_struct_read("context_create", "options", options, sizeof room, &room);
        if (!options)
            return TDM_BAD_ARGUMENT;
    }
    tdm_context *const created = tdm_host_calloc(1, sizeof *created);
    if (!created)
        return tdm_fail(TDM_OUT_OF_HOST_MEMORY, "context_create: no host memory");
    tdm_host_context_count(1);
    atomic_store(&created->references, 1);
    pthread_mutex_init(&created->lock, NULL);
    created->pool_budget = options ? options->pool_budget_bytes : 0;
    created->staging_budget = options ? options->staging_budget_bytes : 0;
    created->direct_pool = (options && options->direct_pool) || pool_mode("direct");
    created->debug_pool = (options && options->debug_pool) || pool_mode("debug");
    created->debug_aborts = created->debug_pool && pool_mode("abort");
    tdm_handles_context(1, created->debug_pool);
    tdm_monitor_retain();
    created->memory_trace = memory_trace_wanted();
    if (options && options->backends)
        note_unknown_names(created, options->backends);
    for (int i = 0; i < tdm_backend_row_count; i++) {
        const tdm_backend_row *const row = &tdm_backend_rows[i];
        if (options && options->backends && !list_has(options->backends, row->name))
            continue;
        const tdm_status status = load_backend(created, row);
        if (status != TDM_OK) {
            context_free(created);
            return status;
        }
    }
    *context = created;
    return TDM_OK;
}

void tdm_context_retain(tdm_context *context) {
    atomic_fetch_add(&context->references, 1);
}

void tdm_context_release(tdm_context *context) {
    if (context && atomic_fetch_sub(&context->references, 1) == 1)
        context_free(context);
}

void tdm_context_destroy(tdm_context *context) {
    if (context && context->debug_pool)
        tdm_handles_report(context);
    tdm_context_release(context);
}

int tdm_context_device_count(const tdm_context *context) {
    return context ? context->device_count : 0;
}

int tdm_context_note_count(const tdm_context *context) {
    return context ? context->notes.count : 0;
}

const char *tdm_context_note(const tdm_context *context, int index) {
    return context ? tdm_notes_at(&context->notes, index) : NULL;
}

/* Writes ": " and the notes, to explain why a context has no devices. The text is empty if there
 * are devices or no notes. */
static const char *why_none(const tdm_context *context, char *text, size_t bytes) {
    size_t used = 0;
    text[0] = '\0';
    for (int i = 0; context->device_count == 0 && i < context->notes.count && used < bytes; i++)
        used += (size_t)snprintf(text + used, bytes - used, "%s%s", i ? "; " : ": ",
                                 tdm_notes_at(&context->notes, i));
    return text;
}

tdm_status tdm_context_no_device(const tdm_context *context, const char *operation, int index) {
    char why[1536];
    const int count = context->device_count;
    if (count == 0)
        return tdm_fail(TDM_NO_DEVICE, "%s: index is %d, there are no devices%s", operation, index,
                        why_none(context, why, sizeof why));
    return tdm_fail(TDM_NO_DEVICE, "%s: index is %d, there %s %d device%s", operation, index,
                    count == 1 ? "is" : "are", count, count == 1 ? "" : "s");
}

tdm_status tdm_context_device_info(const tdm_context *context, int index, tdm_device_info *info) {
    if (!context || !info)
        return tdm_fail(TDM_BAD_ARGUMENT, "context_device_info: %s is NULL",
                        context ? "info" : "context");
    if (index < 0 || index >= context->device_count)
        return tdm_context_no_device(context, "context_device_info", index);
    return tdm_device_info_copy(&context->devices[index].info, info);
}

/* True if `text` contains `part`, ignoring case. */
static bool contains(const char *text, const char *part) {
    const size_t length = strlen(part);
    for (; *text; text++)
        if (strncasecmp(text, part, length) == 0)
            return true;
    return length == 0;
}

tdm_status tdm_context_find_device(const tdm_context *context, const char *selector, int *index) {
    if (!context || !selector || !index)
        return tdm_fail(TDM_BAD_ARGUMENT, "context_find_device: %s is NULL",
                        !context    ? "context"
                        : !selector ? "selector"
                                    : "index");
    *index = -1;
    char *end;
    const long number = strtol(selector, &end, 10);
    if (end != selector && *end == '\0' && number >= 0 && number < context->device_count) {
        *index = (int)number;
        return TDM_OK;
    }
    // A number is an index, never part of a name.
    const bool is_number = end != selector && *end == '\0';
    for (int i = 0; i < context->device_count; i++)
        if (!is_number && *selector && contains(context->devices[i].info.selector, selector)) {
            *index = i;
            return TDM_OK;
        }
    char list[1024] = "none", why[1536];
    size_t used = 0;
    for (int i = 0; i < context->device_count && used < sizeof list; i++)
        used += (size_t)snprintf(list + used, sizeof list - used, "%s%d=%s", i ? ", " : "", i,
                                 context->devices[i].info.selector);
    return tdm_fail(TDM_NO_DEVICE, "context_find_device: no device matches \"%s\"; devices: %s%s",
                    selector, list, why_none(context, why, sizeof why));
}

static int device_number(const tdm_device *device) {
    return (int)(device->slot - device->context->devices);
}

tdm_status tdm_check_device(const char *operation, const char *what, const tdm_device *device,
                            const char *other, const tdm_device *expected) {
    if (device == expected)
        return TDM_OK;
    if (device->context != expected->context)
        return tdm_fail(TDM_BAD_ARGUMENT, "%s: %s is on device %s of another context than %s",
                        operation, what, device->info.selector, other);
    return tdm_fail(TDM_BAD_ARGUMENT, "%s: %s is on device %d (%s), %s on device %d (%s)",
                    operation, what, device_number(device), device->info.selector, other,
                    device_number(expected), expected->info.selector);
}
