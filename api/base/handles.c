/* The list of live and recently destroyed handles of contexts in debug mode. */
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include "api/base/base.h"
#include "api/base/handles.h"

#define BUCKETS 4096
#define LISTED 20

atomic_int tdm_handles_watched;

typedef enum handle_state {
    LIVE,
    GIVEN_BACK,
    DESTROYED
} handle_state;

typedef struct handle_entry {
    const void *handle;
    tdm_handle_kind kind;
    handle_state state;
    const tdm_context *context; /* compared, never dereferenced */
    size_t bytes;
    uint64_t generation;
    const char *tag;
    const void *site;
    struct handle_entry *next; /* next entry in the bucket */
} handle_entry;

static struct {
    pthread_mutex_t lock;
    int plain_contexts; /* contexts without debug mode; their handles are not listed */
    /* an entry was lost for lack of host memory, so unknown handles may be valid */
    bool incomplete;
    handle_entry *buckets[BUCKETS];
    void *kept[TDM_HANDLES_KEPT]; /* memory of destroyed handles, a ring buffer */
    size_t kept_next;
} list = {.lock = PTHREAD_MUTEX_INITIALIZER};

static const char *const kind_names[] = {"", "buffer", "tensor"};

/* ---- the list -------------------------------------------------------------------------------- */

static handle_entry **link_of(const void *handle) {
    const uint64_t bits = (uint64_t)(uintptr_t)handle * UINT64_C(0x9E3779B97F4A7C15);
    handle_entry **link = &list.buckets[(bits >> 40) % BUCKETS];
    while (*link && (*link)->handle != handle)
        link = &(*link)->next;
    return link;
}

static void drop(handle_entry **link) {
    handle_entry *const entry = *link;
    *link = entry->next;
    tdm_host_free(entry);
}

/* Frees the memory of a destroyed handle and its entry. */
static void release_kept(void *memory) {
    handle_entry **const link = link_of(memory);
    if (*link)
        drop(link);
    tdm_host_free(memory);
}

static void empty_list(void) {
    list.incomplete = false;
    for (size_t i = 0; i < TDM_HANDLES_KEPT; i++) {
        if (list.kept[i])
            release_kept(list.kept[i]);
        list.kept[i] = NULL;
    }
    for (int i = 0; i < BUCKETS; i++)
        while (list.buckets[i])
            drop(&list.buckets[i]);
}

void tdm_handles_context(int change, bool debug) {
    pthread_mutex_lock(&list.lock);
    if (!debug)
        list.plain_contexts += change;
    else if (atomic_fetch_add(&tdm_handles_watched, change) + change == 0)
        empty_list();
    pthread_mutex_unlock(&list.lock);
}

static _Thread_local int own_tensors;

void tdm_handles_own(int change) {
    own_tensors += change;
}

void tdm_handle_note(tdm_handle_kind kind, const void *handle, const tdm_context *context,
                     size_t bytes, uint64_t generation, const char *tag) {
    handle_entry *const entry = tdm_host_calloc(1, sizeof *entry);
    if (!entry) {
        pthread_mutex_lock(&list.lock);
        list.incomplete = true;
        pthread_mutex_unlock(&list.lock);
        return;
    }
    *entry = (handle_entry){.handle = handle,
                            .kind = kind,
                            .context = context,
                            .bytes = bytes,
                            .generation = generation,
                            .tag = tag,
                            .site = tdm_site_current()};
    pthread_mutex_lock(&list.lock);
    handle_entry **const link = link_of(handle);
    entry->next = *link ? (*link)->next : NULL;
    if (*link)
        tdm_host_free(*link);
    *link = entry;
    pthread_mutex_unlock(&list.lock);
}

bool tdm_handle_forget(const void *handle) {
    pthread_mutex_lock(&list.lock);
    handle_entry *const entry = *link_of(handle);
    if (entry) {
        entry->state = DESTROYED;
        void **const place = &list.kept[list.kept_next++ % TDM_HANDLES_KEPT];
        if (*place)
            release_kept(*place);
        *place = (void *)(uintptr_t)handle;
    }
    pthread_mutex_unlock(&list.lock);
    return entry != NULL;
}

/* ---- checks ---------------------------------------------------------------------------------- */

/* Writes the handle's fault, as words after "is", or "" if it is valid. With `given_back`, the
 * caller's reference to a valid handle is then marked as released. */
static void find_fault(tdm_handle_kind kind, const void *handle, bool given_back, char *text,
                       size_t text_bytes) {
    const char *const name = kind_names[kind];
    char site[TDM_SITE_TEXT];
    text[0] = '\0';
    pthread_mutex_lock(&list.lock);
    handle_entry *const entry = *link_of(handle);
    if (!entry && list.plain_contexts == 0 && !list.incomplete && own_tensors == 0)
        snprintf(text, text_bytes, "not a %s of this library", name);
    else if (entry && entry->kind != kind)
        snprintf(text, text_bytes, "a %s, not a %s", kind_names[entry->kind], name);
    else if (entry && (entry->state == DESTROYED || (given_back && entry->state == GIVEN_BACK)))
        snprintf(text, text_bytes, "a %s that was destroyed (block %llu, tag %s, created at %s)",
                 name, (unsigned long long)entry->generation, entry->tag ? entry->tag : "none",
                 tdm_site_text(entry->site, site));
    else if (entry && given_back)
        entry->state = GIVEN_BACK;
    pthread_mutex_unlock(&list.lock);
}

bool tdm_handle_give_back(tdm_handle_kind kind, const void *handle, const char *function) {
    char fault[TDM_SITE_TEXT + 192];
    find_fault(kind, handle, true, fault, sizeof fault);
    if (fault[0]) {
        tdm_log(TDM_LOG_ERROR, "pool", "debug: %s: this is %s", function, fault);
        return false;
    }
    return true;
}

tdm_status tdm_handle_verify(tdm_handle_kind kind, const void *handle, const char *function,
                             const char *argument) {
    char fault[TDM_SITE_TEXT + 192];
    find_fault(kind, handle, false, fault, sizeof fault);
    return fault[0] ? tdm_fail(TDM_BAD_ARGUMENT, "%s: %s is %s", function, argument, fault)
                    : TDM_OK;
}

bool tdm_handle_usable(tdm_handle_kind kind, const void *handle, const char *function) {
    char fault[TDM_SITE_TEXT + 192];
    find_fault(kind, handle, false, fault, sizeof fault);
    if (fault[0])
        tdm_log(TDM_LOG_ERROR, "pool", "debug: %s: this is %s", function, fault);
    return !fault[0];
}

/* ---- leaks ----------------------------------------------------------------------------------- */

static void report_one(const handle_entry *entry) {
    char site[TDM_SITE_TEXT];
    tdm_log(TDM_LOG_WARNING, "pool",
            "debug: never destroyed: a %s of %zu bytes (block %llu, tag %s), created at %s",
            kind_names[entry->kind], entry->bytes, (unsigned long long)entry->generation,
            entry->tag ? entry->tag : "none", tdm_site_text(entry->site, site));
}

int tdm_handles_report(const tdm_context *context) {
    int count = 0;
    uint64_t bytes = 0;
    pthread_mutex_lock(&list.lock);
    for (int i = 0; i < BUCKETS; i++)
        for (const handle_entry *entry = list.buckets[i]; entry; entry = entry->next) {
            if (entry->context != context || entry->state != LIVE)
                continue;
            if (count++ < LISTED)
                report_one(entry);
            bytes += entry->bytes;
        }
    pthread_mutex_unlock(&list.lock);
    if (count > 0)
        tdm_log(TDM_LOG_WARNING, "pool",
                "debug: the context is closed but %d buffers and tensors of %llu bytes are still "
                "alive%s",
                count, (unsigned long long)bytes,
                count > LISTED ? "; the first 20 are listed above" : "");
    return count;
}

/* ---- sites ----------------------------------------------------------------------------------- */

static _Thread_local const void *current_site;

const void *tdm_site_enter(const void *address) {
    const void *const outer = current_site;
    if (!outer)
        current_site = address;
    return outer;
}

void tdm_site_leave(const void *outer) {
    current_site = outer;
}

const void *tdm_site_current(void) {
    return current_site;
}

const char *tdm_site_text(const void *site, char text[TDM_SITE_TEXT]) {
    Dl_info info;
    if (!site) {
        snprintf(text, TDM_SITE_TEXT, "an unknown location");
        return text;
    }
    // The call instruction is before the return address.
    const char *const address = (const char *)site - 1;
    if (!dladdr(address, &info) || !info.dli_fname) {
        snprintf(text, TDM_SITE_TEXT, "%p", (const void *)address);
        return text;
    }
    const char *const slash = strrchr(info.dli_fname, '/');
    const char *const base =
        info.dli_sname ? (const char *)info.dli_saddr : (const char *)info.dli_fbase;
    snprintf(text, TDM_SITE_TEXT, "%.120s(%.150s+0x%zx)", slash ? slash + 1 : info.dli_fname,
             info.dli_sname ? info.dli_sname : "", (size_t)(address - base));
    return text;
}
