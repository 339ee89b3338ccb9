/*
 * What all of the core uses: returning on failure, checked sizes, layouts, and faults that tests plant.
 * Nothing of this is public.
 */
#ifndef TANDEM_API_BASE_BASE_H
#define TANDEM_API_BASE_BASE_H

#include <pthread.h>
#include <stdatomic.h>

#include "api/backend.h"

#include <tandem/tensor.h>

/* ---- returning on failure: TDM_TRY where nothing is to clean up, TDM_TRY_GOTO with `cleanup:` */

#define TDM_TRY(expression)                                                                        \
    do {                                                                                           \
        const tdm_status try_status_ = (expression);                                               \
        if (try_status_ != TDM_OK)                                                                 \
            return try_status_;                                                                    \
    } while (0)

/* Needs a local `tdm_status status`. */
#define TDM_TRY_GOTO(expression)                                                                   \
    do {                                                                                           \
        status = (expression);                                                                     \
        if (status != TDM_OK)                                                                      \
            goto cleanup;                                                                          \
    } while (0)

/* ---- checked sizes --------------------------------------------------------------------------- */

static inline bool tdm_mul_overflows(int64_t a, int64_t b, int64_t *product) {
    return __builtin_mul_overflow(a, b, product);
}

static inline bool tdm_add_overflows(int64_t a, int64_t b, int64_t *sum) {
    return __builtin_add_overflow(a, b, sum);
}

static inline int64_t tdm_ceil_div(int64_t a, int64_t b) {
    return a / b + (a % b != 0);
}

/* ---- structs that grow ------------------------------------------------------------------------ */

/*
 * A descriptor of a caller, which begins with its size: `given` itself where that is `known`, the size here; otherwise `room`, of
 * `known` bytes, with what a shorter one lacks as zeros. What a longer one has more must be zero. NULL and a detail where it is
 * not, or where the size is none that a version could have: TDM_BAD_ARGUMENT.
 */
const void *tdm_struct_read(const char *operation, const char *name, const void *given,
                            size_t known, void *room);
/* Refuse a struct to be filled whose size, as the caller has set it, no version could have: TDM_BAD_ARGUMENT. */
tdm_status tdm_struct_check_output(const char *operation, const char *name, const void *target,
                                   size_t known);
/* Fill such a struct: as much of `made` as it has room for, and zeros behind. */
void tdm_struct_write(const void *made, size_t known, void *target);

/* ---- layouts */

/* Elements of a layout; the layout was checked, so this cannot overflow. */
int64_t tdm_layout_elements(const tdm_layout *layout);
bool tdm_layout_is_contiguous(const tdm_layout *layout);
/* Rank, dtype, shape, strides ≥ 0, extent without overflow. `what` names the argument in the
 * detail. */
tdm_status tdm_layout_check(const tdm_layout *layout, const char *what);
/* Sub-byte elements: offset and strides must not split a storage unit, only the fastest dimension may step by one. */
tdm_status tdm_layout_check_units(const tdm_layout *layout, int64_t offset, const char *what);
/* Elements from the first to one past the last that the layout touches; 0 when empty. */
int64_t tdm_layout_extent(const tdm_layout *layout);
bool tdm_layout_same_shape(const tdm_layout *a, const tdm_layout *b);
bool tdm_layout_equal(const tdm_layout *a, const tdm_layout *b);
/* True when two different indices may name the same element (a stride of 0, interleaved rows):
 * refused for outputs. */
bool tdm_layout_self_overlaps(const tdm_layout *layout);
/* "[2, 3, 4]" into text; returns text. */
#define TDM_SHAPE_TEXT 192
const char *tdm_layout_text(const tdm_layout *layout, char text[TDM_SHAPE_TEXT]);

/* The innermost tag of the calling thread, or NULL; valid for the life of the process. */
const char *tdm_memory_tag(void);

/* ---- for tests: faults in driver calls */

/*
 * Fail the nth driver call from now (1 is the next one) whose name is `call` (NULL: any) with the
 * native `code`; every later one too when `sticky`. tdm_fault_clear ends it and returns how many
 * matching calls were seen since.
 */
void tdm_fault_plant(const char *call, long nth, int code, bool sticky);
long tdm_fault_clear(void);

#endif
