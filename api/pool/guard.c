/* Red zones and poison; guard.h describes them. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "api/base/base.h"
#include "api/base/handles.h"
#include "api/pool/guard.h"

/* Limit on the bytes that are checked behind the end of a request. */
#define ZONE_LIMIT 4096
/* Freed memory is checked up to this distance from both ends of a range. */
#define FREED_LIMIT ((uint64_t)512 << 10)
#define CHUNK 65536

/* Elements of f16, bf16 and f32 are NaN with this pattern. Elements of s8 are -5 or -1. */
static const unsigned char freed_pattern[8] = {0xFB, 0xFF, 0xFB, 0xFF, 0xFB, 0xFF, 0xFB, 0xFF};
static const unsigned char fresh_pattern[8] = {0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF};

typedef struct guarded {
    tdm_block *block;
    const void *site;
    struct guarded *next, *previous;
} guarded;

struct tdm_guard {
    tdm_pool_debug_hooks hooks;
    tdm_guard_access access;
    pthread_mutex_t lock; /* leaf lock: all members below, and the access */
    guarded *live;
    uint64_t reports;
    bool aborts;
    bool blind; /* a driver call failed: the contents of freed memory are unknown */
    unsigned char chunk[CHUNK];
};

static void zone_pattern(uint64_t generation, unsigned char pattern[8]) {
    const uint64_t mixed = (generation + 1) * UINT64_C(0x9E3779B97F4A7C15);
    for (int i = 0; i < 8; i++)
        pattern[i] = (unsigned char)(mixed >> (8 * i));
}

/* ---- memory, in chunks ----------------------------------------------------------------------- */

/* Returns the offset of the first byte that differs from the pattern, or `bytes` if none does.
 * `phase` is the position in the pattern at `start`. Unreadable memory counts as unchanged. */
static uint64_t first_change(tdm_guard *guard, tdm_bk_memory *memory, uint64_t start,
                             uint64_t phase, uint64_t bytes, const unsigned char pattern[8],
                             uint64_t *changed) {
    uint64_t first = bytes;
    *changed = 0;
    for (uint64_t done = 0; done < bytes; done += CHUNK) {
        const uint64_t count = bytes - done < CHUNK ? bytes - done : CHUNK;
        if (guard->access.read(guard->access.user, memory, start + done, guard->chunk,
                               (size_t)count) != TDM_OK)
            return bytes;
        for (uint64_t i = 0; i < count; i++) {
            if (guard->chunk[i] == pattern[(phase + done + i) % 8])
                continue;
            if (first == bytes)
                first = done + i;
            ++*changed;
        }
    }
    return first;
}

/* Writes the pattern from position `phase` on, at any alignment. */
static tdm_status write_pattern(tdm_guard *guard, tdm_bk_memory *memory, uint64_t start,
                                uint64_t phase, uint64_t bytes, const unsigned char pattern[8]) {
    for (uint64_t i = 0; i < bytes; i++)
        guard->chunk[i] = pattern[(phase + i) % 8];
    return bytes
               ? guard->access.write(guard->access.user, memory, start, guard->chunk, (size_t)bytes)
               : TDM_OK;
}

static void fill_freed(tdm_guard *guard, tdm_bk_memory *memory, uint64_t start, uint64_t bytes) {
    if (guard->access.fill(guard->access.user, memory, start, (size_t)bytes, freed_pattern) !=
        TDM_OK)
        guard->blind = true;
}

/* ---- reports --------------------------------------------------------------------------------- */

__attribute__((format(printf, 2, 3))) static void report(tdm_guard *guard, const char *format,
                                                         ...) {
    char text[TDM_SITE_TEXT + 384];
    va_list values;
    va_start(values, format);
    vsnprintf(text, sizeof text, format, values);
    va_end(values);
    guard->reports++;
    tdm_log(TDM_LOG_ERROR, "pool", "debug: %s", text);
    if (guard->aborts) {
        fprintf(stderr, "tandem: %s; aborting because TANDEM_POOL contains abort\n", text);
        abort();
    }
}

static void describe(const guarded *entry, char *text, size_t text_bytes) {
    const tdm_block *const block = entry->block;
    char site[TDM_SITE_TEXT];
    snprintf(text, text_bytes, "block %" PRIu64 " (%" PRIu64 " bytes, tag %s, allocated at %s)",
             block->generation, block->requested, block->tag ? block->tag : "none",
             tdm_site_text(entry->site, site));
}

static void report_zone(tdm_guard *guard, const guarded *entry, const char *side, uint64_t distance,
                        uint64_t changed) {
    char text[TDM_SITE_TEXT + 192];
    describe(entry, text, sizeof text);
    report(guard, "%" PRIu64 " bytes were written outside %s, the first %" PRIu64 " bytes %s",
           changed, text, distance, side);
}

/* Bytes from the end of the request to the end of the zone behind it, at most ZONE_LIMIT. */
static uint64_t rear_bytes(const tdm_guard *guard, const tdm_block *block) {
    const uint64_t bytes = block->size + guard->hooks.after - block->requested;
    return bytes < ZONE_LIMIT ? bytes : ZONE_LIMIT;
}

static void check_zones(tdm_guard *guard, const guarded *entry, bool repair) {
    const tdm_block *const block = entry->block;
    const uint64_t before = guard->hooks.before, rear = rear_bytes(guard, block);
    const uint64_t end = block->offset + block->requested;
    unsigned char pattern[8];
    uint64_t changed;
    zone_pattern(block->generation, pattern);
    uint64_t first =
        first_change(guard, block->memory, block->offset - before, 0, before, pattern, &changed);
    if (first < before) {
        report_zone(guard, entry, "before its start", before - first, changed);
        if (repair)
            write_pattern(guard, block->memory, block->offset - before, 0,
                          before < CHUNK ? before : CHUNK, pattern);
    }
    first = first_change(guard, block->memory, end, block->requested, rear, pattern, &changed);
    if (first < rear) {
        report_zone(guard, entry, "after its end", first, changed);
        if (repair)
            write_pattern(guard, block->memory, end, block->requested, rear, pattern);
    }
}

/* Reports writes to the range after it was freed. */
static void check_freed(tdm_guard *guard, const guarded *entry, uint64_t start, uint64_t bytes) {
    const uint64_t head = bytes < FREED_LIMIT ? bytes : FREED_LIMIT;
    const uint64_t tail = bytes - head < FREED_LIMIT ? bytes - head : FREED_LIMIT;
    tdm_bk_memory *const memory = entry->block->memory;
    uint64_t changed, more,
        at = first_change(guard, memory, start, 0, head, freed_pattern, &changed);
    const uint64_t late =
        first_change(guard, memory, start + bytes - tail, bytes - tail, tail, freed_pattern, &more);
    if (changed + more == 0 || guard->blind)
        return;
    if (at == head)
        at = bytes - tail + late;
    report(guard,
           "%" PRIu64 " bytes were written in freed memory, the first at byte %" PRIu64
           " of the native allocation; seen when block %" PRIu64 " was allocated there",
           changed + more, start + at, entry->block->generation);
}

/* ---- the hooks ------------------------------------------------------------------------------- */

/* Writes the zones and the poison of a new allocation generation. */
static tdm_status paint(tdm_guard *guard, const tdm_block *block) {
    const tdm_guard_access *const access = &guard->access;
    const uint64_t whole = block->requested / 8 * 8;
    unsigned char pattern[8];
    zone_pattern(block->generation, pattern);
    TDM_TRY(access->fill(access->user, block->memory, block->offset - guard->hooks.before,
                         (size_t)(guard->hooks.before + block->size + guard->hooks.after),
                         pattern));
    if (whole)
        TDM_TRY(
            access->fill(access->user, block->memory, block->offset, (size_t)whole, fresh_pattern));
    return write_pattern(guard, block->memory, block->offset + whole, 0, block->requested - whole,
                         fresh_pattern);
}

static void generation_begins(void *user, struct tdm_block *block) {
    tdm_guard *const guard = user;
    guarded *const entry = tdm_host_calloc(1, sizeof *entry);
    if (!entry)
        return; // The block stays unchecked, as after a failure of the driver below.
    entry->block = block;
    entry->site = tdm_site_current();
    pthread_mutex_lock(&guard->lock);
    check_freed(guard, entry, block->offset - guard->hooks.before,
                guard->hooks.before + block->size + guard->hooks.after);
    if (paint(guard, block) == TDM_OK) {
        entry->next = guard->live;
        if (entry->next)
            entry->next->previous = entry;
        guard->live = entry;
        block->debug = entry;
    }
    pthread_mutex_unlock(&guard->lock);
    if (!block->debug)
        tdm_host_free(entry);
}

static void generation_ends(void *user, struct tdm_block *block) {
    tdm_guard *const guard = user;
    guarded *const entry = block->debug;
    pthread_mutex_lock(&guard->lock);
    if (entry) {
        check_zones(guard, entry, false);
        if (entry->previous)
            entry->previous->next = entry->next;
        else
            guard->live = entry->next;
        if (entry->next)
            entry->next->previous = entry->previous;
    }
    fill_freed(guard, block->memory, block->offset - guard->hooks.before,
               guard->hooks.before + block->size + guard->hooks.after);
    pthread_mutex_unlock(&guard->lock);
    block->debug = NULL;
    tdm_host_free(entry);
}

void tdm_guard_fill_native(tdm_guard *guard, tdm_bk_memory *memory, size_t bytes) {
    pthread_mutex_lock(&guard->lock);
    fill_freed(guard, memory, 0, bytes / 8 * 8);
    pthread_mutex_unlock(&guard->lock);
}

/* ---- the guard ------------------------------------------------------------------------------- */

tdm_status tdm_guard_create(const tdm_guard_access *access, uint64_t zone, tdm_guard **guard) {
    *guard = NULL;
    tdm_guard *const created = tdm_host_calloc(1, sizeof *created);
    if (!created)
        return tdm_fail(TDM_OUT_OF_HOST_MEMORY, "debug: no host memory for a guard");
    created->access = *access;
    created->hooks = (tdm_pool_debug_hooks){.user = created,
                                            .before = zone,
                                            .after = zone,
                                            .begin = generation_begins,
                                            .end = generation_ends};
    pthread_mutex_init(&created->lock, NULL);
    *guard = created;
    return TDM_OK;
}

void tdm_guard_destroy(tdm_guard *guard) {
    if (!guard)
        return;
    pthread_mutex_destroy(&guard->lock);
    tdm_host_free(guard);
}

void tdm_guard_abort_on_report(tdm_guard *guard) {
    guard->aborts = true;
}

const tdm_pool_debug_hooks *tdm_guard_hooks(const tdm_guard *guard) {
    return guard ? &guard->hooks : NULL;
}

uint64_t tdm_guard_check(tdm_guard *guard) {
    pthread_mutex_lock(&guard->lock);
    const uint64_t before = guard->reports;
    for (const guarded *each = guard->live; each; each = each->next)
        check_zones(guard, each, true);
    const uint64_t found = guard->reports - before;
    pthread_mutex_unlock(&guard->lock);
    return found;
}

uint64_t tdm_guard_reports(tdm_guard *guard) {
    pthread_mutex_lock(&guard->lock);
    const uint64_t reports = guard->reports;
    pthread_mutex_unlock(&guard->lock);
    return reports;
}
