/*
 * Handle checks and leak reports of debug mode. Every buffer and tensor that a caller holds is in a
 * list. A handle that was destroyed, or is not from this library, is refused with a message instead
 * of being dereferenced. Leaks are listed with the place where they were created.
 *
 * The host memory of the last TDM_HANDLES_KEPT destroyed handles is kept, so that their addresses
 * are not reused. Without a context in debug mode each check costs one relaxed load.
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

extern atomic_int tdm_handles_watched; /* number of contexts in debug mode */

static inline bool tdm_handles_on(void) {
    return atomic_load_explicit(&tdm_handles_watched, memory_order_relaxed) != 0;
}

/* Counts a context that begins (+1) or ends (-1). While a context without debug mode exists,
 * unknown handles are legal, because they may belong to it. */
void tdm_handles_context(int change, bool debug);

/* Call it with +1, later with -1. Between these calls the thread uses internal tensors, which are
 * not listed. */
void tdm_handles_own(int change);

/* ---- registration ---------------------------------------------------------------------------- */

void tdm_handle_note(tdm_handle_kind kind, const void *handle, const tdm_context *context,
                     size_t bytes, uint64_t generation, const char *tag);
/* Marks the object as destroyed and keeps its host memory, to be freed later. Returns false if the
 * object is not listed; the caller then frees it. */
bool tdm_handle_forget(const void *handle);
/* Records that the caller's own reference was released. Returns false, with an error in the log, if
 * it was released before or the handle is invalid. */
bool tdm_handle_give_back(tdm_handle_kind kind, const void *handle, const char *function);

/* ---- checks: a fault goes to the detail text, or to the log if there is no status ------------ */

tdm_status tdm_handle_verify(tdm_handle_kind kind, const void *handle, const char *function,
                             const char *argument);
bool tdm_handle_usable(tdm_handle_kind kind, const void *handle, const char *function);

/* Returns TDM_OK, or fails with "function: argument is a tensor that was destroyed". NULL is not
 * checked here. */
static inline tdm_status tdm_handle_check(tdm_handle_kind kind, const void *handle,
                                          const char *function, const char *argument) {
    return tdm_handles_on() && handle ? tdm_handle_verify(kind, handle, function, argument)
                                      : TDM_OK;
}

/* True if the handle is not NULL and, in debug mode, valid. Functions without a status use it. */
static inline bool tdm_handle_alive(tdm_handle_kind kind, const void *handle,
                                    const char *function) {
    return handle && (!tdm_handles_on() || tdm_handle_usable(kind, handle, function));
}

/* Lists in the log the handles of a context that callers still hold. Returns their number. */
int tdm_handles_report(const tdm_context *context);

/* ---- sites: the address in the caller's program that called the library ---------------------- */

/* Sets the current site. Only the outermost call has an effect. Pass the returned value to
 * tdm_site_leave. */
const void *tdm_site_enter(const void *address);
void tdm_site_leave(const void *outer);
const void *tdm_site_current(void);
#define TDM_SITE_ENTER() tdm_site_enter(__builtin_return_address(0))

/* Writes "program(function+0x12)" into text; returns text. */
const char *tdm_site_text(const void *site, char text[TDM_SITE_TEXT]);

#endif
