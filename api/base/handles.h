/*
 * Debug mode: every buffer and tensor that a caller holds is on a list, so that a handle that was destroyed, or never was
 * one, is refused with a sentence instead of being followed, and so that leaks can be listed with where they come from.
 *
 * A handle that was destroyed keeps its host memory for a while (the last TDM_HANDLES_KEPT of them), for as long as the
 * address must not name something else. Without a context in debug mode each check is one relaxed load.
 */
#ifndef TANDEM_API_BASE_HANDLES_H
#define TANDEM_API_BASE_HANDLES_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#include <tandem/memory.h>

#define TDM_HANDLES_KEPT 4096
#define TDM_SITE_TEXT 320

typedef enum tdm_handle_kind {
    TDM_HANDLE_BUFFER = 1,
    TDM_HANDLE_TENSOR
} tdm_handle_kind;

extern atomic_int tdm_handles_watched; /* contexts in debug mode */

static inline bool tdm_handles_on(void) {
    return atomic_load_explicit(&tdm_handles_watched, memory_order_relaxed) != 0;
}

/* A context begins or ends. One without debug mode makes unknown handles legal: they may be its own. */
void tdm_handles_context(int change, bool debug);

/* +1, then -1: meanwhile the calling thread uses tensors of the library's own, which are on no list. */
void tdm_handles_own(int change);

/* ---- what objects tell ------------------------------------------------------------------------------ */

void tdm_handle_note(tdm_handle_kind kind, const void *handle, const tdm_context *context,
                     size_t bytes, uint64_t life, const char *tag);
/* The object is gone: keeps the memory, which was host memory, and frees it in its time. True when it did; the caller
 * frees it otherwise. */
bool tdm_handle_forget(const void *handle);
/* The caller's own reference is given back; false, with an error in the log, when it was before or this is no handle. */
bool tdm_handle_give_back(tdm_handle_kind kind, const void *handle, const char *function);

/* ---- checks: what is refused is in the detail text, and in the log where there is no status ---------------- */

tdm_status tdm_handle_verify(tdm_handle_kind kind, const void *handle, const char *function,
                             const char *argument);
bool tdm_handle_usable(tdm_handle_kind kind, const void *handle, const char *function);

/* "function: argument is a tensor that was destroyed", or TDM_OK; NULL is for the caller to refuse. */
static inline tdm_status tdm_handle_check(tdm_handle_kind kind, const void *handle,
                                          const char *function, const char *argument) {
    return tdm_handles_on() && handle ? tdm_handle_verify(kind, handle, function, argument)
                                      : TDM_OK;
}

/* Is the handle neither NULL nor destroyed? For functions without a status. */
static inline bool tdm_handle_alive(tdm_handle_kind kind, const void *handle,
                                    const char *function) {
    return handle && (!tdm_handles_on() || tdm_handle_usable(kind, handle, function));
}

/* Lists what callers still hold of a context in the log; returns how many. */
int tdm_handles_report(const tdm_context *context);

/* ---- sites: the place in the caller's program that called the library --------------------------------------- */

/* The outermost function that says where it was called from counts; the value goes back to tdm_site_leave. */
const void *tdm_site_enter(const void *address);
void tdm_site_leave(const void *outer);
const void *tdm_site_current(void);
#define TDM_SITE_ENTER() tdm_site_enter(__builtin_return_address(0))

/* "program(function+0x12) [0x...]" into text; returns text. */
const char *tdm_site_text(const void *site, char text[TDM_SITE_TEXT]);

#endif
