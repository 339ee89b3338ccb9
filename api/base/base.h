/* Basic helpers of the core: return on failure, checked sizes, struct versions, layouts, and
 * planted faults for tests. Nothing here is public. */
#ifndef TANDEM_API_BASE_BASE_H
#define TANDEM_API_BASE_BASE_H

#include <pthread.h>
#include <stdatomic.h>

#include "api/backend.h"

#include <tandem/tensor.h>

/* ---- return on failure: TDM_TRY without cleanup, TDM_TRY_GOTO with a `cleanup:` label -------- */

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

/* ---- structs that grow ----------------------------------------------------------------------- */

/*
 * Reads a caller's descriptor, whose first member is its size. Returns `given` itself if its size
 * is `known`. Otherwise copies it to `room` (`known` bytes) and zero-fills what a shorter one
 * lacks. The extra bytes of a longer one must be zero. Returns NULL with a detail if they are not,
 * or if no version can have this size; the status is then TDM_BAD_ARGUMENT.
 */
const void *tdm_struct_read(const char *operation, const char *name, const void *given,
                            size_t known, void *room);
/* Fails with TDM_BAD_ARGUMENT if no version of the output struct can have its struct_size. */
tdm_status tdm_struct_check_output(const char *operation, const char *name, const void *target,
                                   size_t known);
/* Fills an output struct with as much of `made` as it can hold, and zeros after that. */
void tdm_struct_write(const void *made, size_t known, void *target);

/* True for f32, f16 and bf16, the floats that kernels compute with. */
bool tdm_is_kernel_float(tdm_dtype dtype);

/* ---- layouts --------------------------------------------------------------------------------- */

/* Returns the number of elements. The layout was checked, so this cannot overflow. */
int64_t tdm_layout_elements(const tdm_layout *layout);
bool tdm_layout_is_contiguous(const tdm_layout *layout);
/* Checks rank, dtype, shape, strides ≥ 0, and that the extent does not overflow. `what` names the
 * argument in the detail. */
tdm_status tdm_layout_check(const tdm_layout *layout, const char *what);
/* Checks sub-byte elements: offset and strides must not split a storage unit, and only the fastest
 * dimension may have stride one. */
tdm_status tdm_layout_check_units(const tdm_layout *layout, int64_t offset, const char *what);
/* Returns the number of elements in memory from the first to the last one of the layout, both
 * included; 0 if the layout is empty. */
int64_t tdm_layout_extent(const tdm_layout *layout);
bool tdm_layout_same_shape(const tdm_layout *a, const tdm_layout *b);
bool tdm_layout_equal(const tdm_layout *a, const tdm_layout *b);
/* True if two different indices may name the same element (a stride of 0, interleaved rows).
 * Outputs with such a layout are refused. */
bool tdm_layout_self_overlaps(const tdm_layout *layout);
/* Writes "[2, 3, 4]" into text; returns text. */
#define TDM_SHAPE_TEXT 192
const char *tdm_layout_text(const tdm_layout *layout, char text[TDM_SHAPE_TEXT]);

/* Returns the innermost tag of the calling thread, or NULL. It is valid for the life of the
 * process. */
const char *tdm_memory_tag(void);

/* ---- for tests: faults in driver calls ------------------------------------------------------- */

/*
 * Fails the nth driver call from now (1 is the next one) whose name is `call` (NULL: any) with the
 * native `code`. If `sticky`, every later one fails too. tdm_fault_clear ends it and returns the
 * number of matching calls since.
 */
void tdm_fault_plant(const char *call, long nth, int code, bool sticky);
long tdm_fault_clear(void);

#endif
