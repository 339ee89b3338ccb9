/*
 * Elementwise work on tensors of any strides, brought to the form the kernels take
 * (kernels/elementwise/strided_rows.h):
 * dimensions sorted by the output's strides, neighbours merged, the last one split off as the row.
 */
#ifndef TANDEM_API_TENSOR_STRIDED_LOOP_H
#define TANDEM_API_TENSOR_STRIDED_LOOP_H

#include "api/tensor/tensor_internal.h"

/* A kernel's tdm_dims. */
typedef struct tdm_loop_dims {
    int64_t v[TDM_MAX_RANK];
} tdm_loop_dims;

#define TDM_LOOP_OPERANDS 6

/* Operand 0 is the output. */
typedef struct tdm_loop {
    int operands;
    int rank; /* outer dimensions */
    tdm_loop_dims shape;
    tdm_loop_dims strides[TDM_LOOP_OPERANDS];
    int64_t rows;  /* product of the outer dimensions */
    int64_t inner; /* elements of a row */
    int64_t step[TDM_LOOP_OPERANDS];
    int unit; /* elements of the output that one work-item must do together, from the row's start */
    bool narrow; /* vectors would begin inside a storage unit */
} tdm_loop;

/* Dimensions of a list: those of a tensor, each of which may have been split in two. */
#define TDM_LIST_RANK (2 * TDM_MAX_RANK)

/*
 * A list of dimensions with up to TDM_LOOP_OPERANDS strides each; the outermost first.
 * Dimensions of one element are left out when they are added.
 */
typedef struct tdm_dim_list {
    int operands;
    int rank;
    int64_t shape[TDM_LIST_RANK];
    int64_t strides[TDM_LOOP_OPERANDS][TDM_LIST_RANK];
} tdm_dim_list;

void tdm_dim_list_add(tdm_dim_list *list, int64_t size, const int64_t strides[TDM_LOOP_OPERANDS]);
/* Order by the strides of operand `by`, the largest first. Not to be used where the order of
 * elements counts. */
void tdm_dim_list_sort(tdm_dim_list *list, int by);
/* Make one dimension of neighbours that every operand walks as one. */
void tdm_dim_list_merge(tdm_dim_list *list);
int64_t tdm_dim_list_elements(const tdm_dim_list *list);

/*
 * Take the last dimension off: its size (1 when there is none) and its strides (1 where there is
 * none, so that a
 * single element counts as contiguous).
 */
int64_t tdm_dim_list_pop(tdm_dim_list *list, int64_t steps[TDM_LOOP_OPERANDS]);

/* The list's shape, or one operand's strides, as a kernel argument: at most TDM_MAX_RANK dimensions. */
tdm_loop_dims tdm_dim_list_shape(const tdm_dim_list *list);
tdm_loop_dims tdm_dim_list_strides(const tdm_dim_list *list, int operand);

/* Strides of `from` walked in the shape of `to`: 0 where it repeats. False when it does not
 * broadcast. */
bool tdm_broadcast_strides(const tdm_layout *from, const tdm_layout *to,
                           int64_t strides[TDM_MAX_RANK]);

/* Loop over the output's shape; inputs (operands 1 …) are broadcast to it, which must be possible.
 * */
void tdm_loop_make(tdm_loop *loop, const tdm_layout *output, const tdm_layout *const *inputs,
                   int input_count);

/* Loop over a list of at most TDM_MAX_RANK + 1 dimensions; operand 0 is the output. */
void tdm_loop_of_list(tdm_loop *loop, const tdm_dim_list *list);

/* Row of an op for a loop: the tables kernels/FOLDER/NAME_variants.cmake say what p0 (storage) and p1 (width) of these ops mean. */
tdm_status tdm_loop_kernel(tdm_stream *stream, tdm_op op, const char *operation, int storage,
                           const tdm_loop *loop, tdm_kernel **kernel);

/* Build it now, for plans whose runs must not. */
tdm_status tdm_loop_prepare(tdm_device *device, tdm_op op, const char *operation, int storage,
                            const tdm_loop *loop);

/* Work-groups for a loop; *span receives the elements of a row that one work-item does. */
void tdm_loop_grid(const tdm_device *device, const tdm_kernel *kernel, const tdm_loop *loop,
                   tdm_launch *launch, int64_t *span);

/* Enqueue a kernel of the form (buffers…, shape, strides of each, rank, rows, inner, steps, span,
 * extra). Buffers and
 * operands come in the kernel's order: inputs first, the output last. extra may be NULL. */
tdm_status tdm_loop_enqueue(tdm_stream *stream, const char *operation, tdm_kernel *kernel,
                            const tdm_loop *loop, const tdm_arg *buffers, int buffer_count,
                            const tdm_arg *extra);

/* A tensor's buffer argument `offset` elements after its start, counted in elements also where a storage unit has several. */
tdm_arg tdm_arg_elements(const tdm_tensor *tensor, int64_t offset);

/* tdm_tensor_convert without its checks, of equal types too (s4 to s4). */
tdm_status tdm_convert_elements(tdm_stream *stream, const char *operation, const tdm_tensor *target,
                                const tdm_tensor *source);

/* Build what tdm_tensor_convert, or tdm_tensor_copy of equal types, takes for tensors of these layouts. */
tdm_status tdm_convert_prepare(tdm_device *device, const tdm_layout *target,
                               const tdm_layout *source);
tdm_status tdm_copy_prepare(tdm_device *device, const tdm_layout *target, const tdm_layout *source);

/* ---- parts of the grid that other operations use ---- */

/* Work-items that keep the device busy, where each does at least `grain` of `work` steps. */
int64_t tdm_worker_count(const tdm_device *device, int64_t work, int64_t grain);

/* Group and groups along x for `items` work-items that loop if there are fewer of them: one per
 * group on CPU cores,
 * a power of two up to `widest` elsewhere. */
void tdm_grid_items(const tdm_device *device, const tdm_kernel *kernel, int64_t items,
                    uint32_t widest, tdm_launch *launch);

/* Bytes of the last cache that the device's cores may count on, 0 where it tells none: a virtual machine of a few cores tells the whole cache of
 * the processor that they are lent from. */
double tdm_cache_in_reach(const tdm_device *device);

/* Whether operands of so many bytes together do not fit into that cache: what is written should go past it then. */
bool tdm_exceeds_caches(const tdm_device *device, double bytes);
/* The same of tensors, at least one. */
bool tdm_exceed_caches(const tdm_tensor *const *tensors, int count);

/* The code of an operation or a type as a kernel argument, with what these operands say of the caches. */
tdm_arg tdm_arg_code(int code, const tdm_tensor *const *tensors, int count);

/* Largest power of two that both the device and the kernel allow as a group's size, at most
 * `widest`. */
uint32_t tdm_group_size(const tdm_device *device, const tdm_kernel *kernel, uint32_t widest);

#endif
