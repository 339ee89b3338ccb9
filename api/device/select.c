/* Selection of a kernel variant: ordered rows, a predicate, and a reason for every refusal. */
#include <stdio.h>
#include <string.h>

#include "api/device/core.h"

/* Bytes for the reasons in the error detail when no row is left. */
#define REASONS_TEXT 1024

static _Thread_local const char *forced_name;

void tdm_force_variant(const char *name) {
    forced_name = name;
}

/* Returns a reason such as "the device lacks avx512" for the first missing capability, or NULL. */
static const char *missing_capability(const tdm_device *device, const tdm_variant *variant,
                                      char reason[TDM_REASON_TEXT]) {
    const uint32_t missing = variant->requires & ~device->info.capabilities;
    if (!missing)
        return NULL;
    const char *const name = tdm_capability_name(missing & (~missing + 1));
    snprintf(reason, TDM_REASON_TEXT, "the device lacks %s", name ? name : "a capability");
    return reason;
}

const char *tdm_refuse_long_loop(const tdm_device *device, int64_t elements,
                                 char reason[TDM_REASON_TEXT]) {
    if ((device->info.capabilities & TDM_CAP_UNLIMITED_LOOPS) ||
        elements <= TDM_SHORT_LOOP_ELEMENTS)
        return NULL;
    snprintf(
        reason, TDM_REASON_TEXT,
        "the device ends loops after 65535 passes, %lld elements are too many for one work-item",
        (long long)elements);
    return reason;
}

static void note_refusal(const char *operation, const tdm_variant *variant, const char *reason,
                         char *refusals, size_t refusals_bytes) {
    tdm_log(TDM_LOG_DEBUG, "dispatch", "%s: %s refused: %s", operation, variant->name, reason);
    if (!refusals)
        return;
    const size_t used = strlen(refusals);
    if (used < refusals_bytes)
        snprintf(refusals + used, refusals_bytes - used, "%s: %s\n", variant->name, reason);
}

/* Adds a reason to the list in the error detail, each once. */
static void list_reason(char list[REASONS_TEXT], const char *reason) {
    const size_t used = strlen(list);
    if (!strstr(list, reason))
        snprintf(list + used, REASONS_TEXT - used, "%s%s", used ? "; " : "", reason);
}

const char *tdm_forced_variant(tdm_op op) {
    const tdm_variant *const row = forced_name ? tdm_variant_find(forced_name) : NULL;
    return row && row->op == op ? forced_name : NULL;
}

const char *tdm_refuse_variant(const tdm_device *device, const tdm_variant *variant,
                               const char *operation, tdm_supports supports, const void *problem,
                               char *refusals, size_t refusals_bytes, char text[TDM_REASON_TEXT]) {
    const char *reason = missing_capability(device, variant, text);
    if (!reason)
        reason = supports(problem, variant, device, text);
    if (reason)
        note_refusal(operation, variant, reason, refusals, refusals_bytes);
    return reason;
}

tdm_status tdm_select_variant(const tdm_device *device, tdm_op op, const char *operation,
                              const char *forced, tdm_supports supports, const void *problem,
                              char *refusals, size_t refusals_bytes, const tdm_variant **variant) {
    *variant = NULL;
    const char *const name = forced ? forced : tdm_forced_variant(op);
    char text[TDM_REASON_TEXT] = "", reasons[REASONS_TEXT] = "";
    for (int i = 0; i < tdm_variant_count; i++) {
        const tdm_variant *const row = &tdm_variants[i];
        if (row->op != op || (name && strcmp(row->name, name) != 0))
            continue;
        const char *const reason = tdm_refuse_variant(device, row, operation, supports, problem,
                                                      refusals, refusals_bytes, text);
        if (!reason) {
            tdm_log(TDM_LOG_DEBUG, "dispatch", "%s: %s chosen", operation, row->name);
            *variant = row;
            return TDM_OK;
        }
        list_reason(reasons, reason);
    }
    if (name)
        return tdm_fail(TDM_UNSUPPORTED, "%s: variant %s: %s", operation, name,
                        reasons[0] ? reasons : "unknown variant");
    return tdm_fail(TDM_UNSUPPORTED, "%s: no kernel supports these operands: %s", operation,
                    reasons);
}

tdm_status tdm_select_preferred(const tdm_device *device, tdm_op op, const char *operation,
                                tdm_supports supports, const void *problem, bool *apply_preferences,
                                const tdm_variant **variant) {
    *apply_preferences = true;
    const tdm_status status =
        tdm_select_variant(device, op, operation, NULL, supports, problem, NULL, 0, variant);
    if (status != TDM_UNSUPPORTED)
        return status;
    *apply_preferences = false;
    return tdm_select_variant(device, op, operation, NULL, supports, problem, NULL, 0, variant);
}
