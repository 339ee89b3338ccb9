/* Rows along one axis, which a work-group traverses: cumulative sums and top-k. */
#ifndef TDM_SCAN_ROWS_H
#define TDM_SCAN_ROWS_H

#include "api/tensor/strided_loop.h"

typedef struct scan_rows {
    const char *operation;
    int storage;                     /* dtype of the first operand */
    int64_t iterations;              /* of all work-items of a row together */
    int64_t count;                   /* elements of the first operand along the axis */
    int64_t step[TDM_LOOP_OPERANDS]; /* strides along the axis */
    tdm_loop_dims shape, strides[TDM_LOOP_OPERANDS]; /* of the other dimensions */
    int rank;
    int64_t rows;
} scan_rows;

/* Checks that the tensors exist and that the axis is one of x. */
tdm_status tdm_scan_check_axis(const char *operation, const tdm_tensor *x, int axis);

/* Sets everything but `iterations`. The operands have one shape, but for the axis. */
void tdm_scan_rows_make(scan_rows *rows, const char *operation, const tdm_tensor *const *operands,
                        int count, int axis);

/* Selects the kernel of `op` and enqueues it with one work-group per row. */
tdm_status tdm_scan_rows_enqueue(tdm_stream *stream, const scan_rows *rows, tdm_op op,
                                 const tdm_arg *args, int arg_count);

#endif
