/*
 * These functions prepare elementwise work on tensors of any strides, in the form that kernels read
 * (kernels/elementwise/strided_rows.h). Dimensions are sorted by the output's strides, neighbours
 * are merged, and the last dimension is split off as the row.
 */
#ifndef TANDEM_API_TENSOR_STRIDED_LOOP_H
#define TANDEM_API_TENSOR_STRIDED_LOOP_H

#include "api/tensor/tensor_internal.h"

/* This is a tdm_dims argument of a kernel. */
typedef struct tdm_loop_dims {
    int64_t v[TDM_MAX_RANK];
} tdm_loop_dims;

#define TDM_LOOP_OPERANDS 6

/* This is a loop over rows. Operand 0 is the output. */
typedef struct tdm_loop {
    int operands;
    int rank; /* outer dimensions */
    tdm_loop_dims shape;
    tdm_loop_dims strides[TDM_LOOP_OPERANDS];
    int64_t rows;  /* product of the outer dimensions */
    int64_t inner; /* elements of a row */
    int64_t step[TDM_LOOP_OPERANDS];
    int unit;    /* elements of an output storage unit, which one work-item must write together */
    bool narrow; /* vectors would begin inside a storage unit */
} tdm_loop;

/* A list has the dimensions of a tensor, each of which may be split in two. */
#define TDM_LIST_RANK (2 * TDM_MAX_RANK)

/* This is a list of dimensions, outermost first. Each has up to TDM_LOOP_OPERANDS strides.
 * Dimensions of one element are not added. */
typedef struct tdm_dim_list {
    int operands;
    int rank;
    int64_t shape[TDM_LIST_RANK];
    int64_t strides[TDM_LOOP_OPERANDS][TDM_LIST_RANK];
} tdm_dim_list;

void tdm_dim_list_add(tdm_dim_list *list, int64_t size, const int64_t strides[TDM_LOOP_OPERANDS]);
/* Sorts by the strides of operand `by`, largest first. Do not use it where the order of elements
 * matters. */
void tdm_dim_list_sort(tdm_dim_list *list, int by);
/* Merges neighbouring dimensions that every operand can traverse as one. */
void tdm_dim_list_merge(tdm_dim_list *list);
int64_t tdm_dim_list_elements(const tdm_dim_list *list);

/* Removes the last dimension and returns its size (1 if there is none). Its strides are 1 if there
 * is none, so that a single element counts as contiguous. */
int64_t tdm_dim_list_pop(tdm_dim_list *list, int64_t steps[TDM_LOOP_OPERANDS]);

/* Returns the list's shape, or one operand's strides, as a kernel argument: at most TDM_MAX_RANK
 * dimensions. */
tdm_loop_dims tdm_dim_list_shape(const tdm_dim_list *list);
tdm_loop_dims tdm_dim_list_strides(const tdm_dim_list *list, int operand);

/* Gets the strides of `from` when it is traversed in the shape of `to`. A stride is 0 where `from`
 * repeats. Returns false if `from` does not broadcast. */
bool tdm_broadcast_strides(const tdm_layout *from, const tdm_layout *to,
                           int64_t strides[TDM_MAX_RANK]);

/* Makes a loop over the output's shape. Inputs are operands 1 and up. They are broadcast to that
 * shape, which must be possible. */
void tdm_loop_make(tdm_loop *loop, const tdm_layout *output, const tdm_layout *const *inputs,
                   int input_count);

/* Makes a loop over a list of at most TDM_MAX_RANK + 1 dimensions. Operand 0 is the output. */
void tdm_loop_of_list(tdm_loop *loop, const tdm_dim_list *list);

/* Selects and builds the kernel of an op for a loop. Its table of variants explains p0 (storage)
 * and p1 (width) of these ops. */
tdm_status tdm_loop_kernel(tdm_stream *stream, tdm_op op, const char *operation, int storage,
                           const tdm_loop *loop, tdm_kernel **kernel);

/* Builds the kernel now, for plans whose runs must not build. */
tdm_status tdm_loop_prepare(tdm_device *device, tdm_op op, const char *operation, int storage,
                            const tdm_loop *loop);

/* Sets the work-groups for a loop. *span is the number of elements of a row per work-item. */
void tdm_loop_grid(const tdm_device *device, const tdm_kernel *kernel, const tdm_loop *loop,
                   tdm_launch *launch, int64_t *span);

/*
 * Enqueues a kernel with the arguments (buffers…, shape, strides of each, rank, rows, inner, steps,
 * span, extra). Buffers and operands are in the kernel's order: inputs first, output last. extra
 * may be NULL.
 */
tdm_status tdm_loop_enqueue(tdm_stream *stream, const char *operation, tdm_kernel *kernel,
                            const tdm_loop *loop, const tdm_arg *buffers, int buffer_count,
                            const tdm_arg *extra);

/* Returns a tensor's buffer argument, `offset` elements after its start. Offsets count elements
 * even if a storage unit holds several. */
tdm_arg tdm_arg_elements(const tdm_tensor *tensor, int64_t offset);

/* Converts like tdm_tensor_convert, without its checks. Equal dtypes are allowed (s4 to s4). */
tdm_status tdm_convert_elements(tdm_stream *stream, const char *operation, const tdm_tensor *target,
                                const tdm_tensor *source);

/* Build the kernels that tdm_tensor_convert, or tdm_tensor_copy for equal dtypes, needs for tensors
 * of these layouts. */
tdm_status tdm_convert_prepare(tdm_device *device, const tdm_layout *target,
                               const tdm_layout *source);
tdm_status tdm_copy_prepare(tdm_device *device, const tdm_layout *target, const tdm_layout *source);

/* ---- grid helpers for other operations ------------------------------------------------------- */

/* Returns the number of work-items that keep the device busy, each with at least `grain` of `work`
 * steps. */
int64_t tdm_worker_count(const tdm_device *device, int64_t work, int64_t grain);

/* Sets group size and groups along x for `items` work-items. If fewer work-items are launched, each
 * one loops over several items. A group is one work-item on CPU cores, elsewhere a power of two up
 * to `widest`. */
void tdm_grid_items(const tdm_device *device, const tdm_kernel *kernel, int64_t items,
                    uint32_t widest, tdm_launch *launch);

/*
 * Returns the bytes of the last-level cache that the device's cores can use; 0: unknown. A virtual
 * machine of a few cores reports the whole cache of the processor that it shares. The value is
 * therefore limited per core.
 */
double tdm_cache_in_reach(const tdm_device *device);

/* True if operands of this total size do not fit into that cache. Outputs should then use
 * non-temporal stores. */
bool tdm_exceeds_caches(const tdm_device *device, double bytes);
/* True if the tensors together (at least one) do not fit into that cache. */
bool tdm_exceed_caches(const tdm_tensor *const *tensors, int count);

/* Returns the code of an operation or type as a kernel argument. The argument also encodes if these
 * operands exceed the caches. */
tdm_arg tdm_arg_code(int code, const tdm_tensor *const *tensors, int count);

/* Returns the largest power of two that the device and the kernel allow as group size, at most
 * `widest`. */
uint32_t tdm_group_size(const tdm_device *device, const tdm_kernel *kernel, uint32_t widest);

#endif
