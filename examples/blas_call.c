/*
 * Makes the equivalent of a CLBlast or cuBLAS call with Tandem. Order, transposes, leading
 * dimensions, offsets and strided batches become layouts of tensors on the same buffers, and no
 * element is copied. The example tries all of them on small integers, for which products are exact.
 */
#include <stdio.h>
#include <tandem/tandem.h>

enum order {
    ROW_MAJOR,
    COLUMN_MAJOR
};

/* A matrix as in BLAS. All numbers are in elements. */
typedef struct matrix {
    tdm_buffer *buffer;
    int64_t offset;
    int64_t leading; /* from one row (column-major: column) to the next */
    int64_t step;    /* from one matrix of the batch to the next */
    int transposed;
} matrix;

/* Makes a tensor of op(X), which is rows x columns; X is row-major. */
static tdm_status as_tensor(const matrix *x, int64_t batch, int64_t rows, int64_t columns,
                            tdm_tensor **tensor) {
    const tdm_layout layout = {
        .dtype = TDM_F32,
        .rank = 3,
        .shape = {batch, rows, columns},
        .strides = {x->step, x->transposed ? 1 : x->leading, x->transposed ? x->leading : 1}};
    return tdm_tensor_on_buffer(x->buffer, x->offset, &layout, tensor);
}

/*
 * Computes
 *   C = alpha * op(A) * op(B) + beta * C
 * Column-major matrices are computed as C' = op(B)' * op(A)', whose memory is that of row-major
 * ones. (The strides of a column-major C would also work, but the kernels write such a C more
 * slowly.)
 */
static tdm_status sgemm(tdm_stream *stream, enum order order, int64_t batch, int64_t m, int64_t n,
                        int64_t k, float alpha, const matrix *a, const matrix *b, float beta,
                        const matrix *c) {
    if (order == COLUMN_MAJOR)
        return sgemm(stream, ROW_MAJOR, batch, n, m, k, alpha, b, a, beta, c);
    tdm_tensor *ta = NULL, *tb = NULL, *tc = NULL;
    tdm_status status = as_tensor(a, batch, m, k, &ta);
    if (status == TDM_OK)
        status = as_tensor(b, batch, k, n, &tb);
    if (status == TDM_OK)
        status = as_tensor(c, batch, m, n, &tc);
    if (status == TDM_OK)
        status = tdm_gemm(stream, alpha, ta, tb, beta, tc, tc, NULL);
    tdm_tensor_destroy(ta); // allowed while the GEMM is running
    tdm_tensor_destroy(tb);
    tdm_tensor_destroy(tc);
    return status;
}

enum {
    BATCH = 2,
    M = 17,
    N = 23,
    K = 31,
    LEADING = 40,
    STEP = LEADING * LEADING,
    SIZE = 5 + BATCH * STEP
};
static float a_host[SIZE], b_host[SIZE], c_host[SIZE], d_host[SIZE];

/* Returns the offset of element (row, column) of op(X). */
static int64_t place(enum order order, const matrix *x, int64_t entry, int64_t row,
                     int64_t column) {
    const int by_rows = (order == ROW_MAJOR) != (x->transposed != 0);
    return x->offset + entry * x->step + (by_rows ? row : column) * x->leading +
           (by_rows ? column : row);
}

static int64_t count_wrong(enum order order, const matrix *a, const matrix *b, const matrix *c) {
    int64_t wrong = 0;
    for (int64_t e = 0; e < BATCH; e++)
        for (int64_t i = 0; i < M; i++)
            for (int64_t j = 0; j < N; j++) {
                const int64_t at = place(order, c, e, i, j);
                float sum = 0;
                for (int64_t p = 0; p < K; p++)
                    sum += a_host[place(order, a, e, i, p)] * b_host[place(order, b, e, p, j)];
                wrong += d_host[at] != 2 * sum - c_host[at];
            }
    return wrong;
}

static tdm_status try_one(tdm_stream *stream, enum order order, const matrix *a, const matrix *b,
                          const matrix *c, int64_t *wrong) {
    tdm_status status = tdm_buffer_write(stream, c->buffer, 0, c_host, sizeof c_host);
    if (status == TDM_OK)
        status = sgemm(stream, order, BATCH, M, N, K, 2, a, b, -1, c);
    if (status == TDM_OK)
        status = tdm_buffer_read(stream, c->buffer, 0, d_host, sizeof d_host); // enqueues only
    if (status == TDM_OK)
        status = tdm_stream_synchronize(stream);
    if (status == TDM_OK)
        *wrong += count_wrong(order, a, b, c);
    return status;
}

static tdm_status try_all(tdm_device *device, int64_t *wrong) {
    matrix a = {.offset = 5, .leading = LEADING, .step = STEP};
    matrix b = {.offset = 3, .leading = LEADING, .step = STEP};
    matrix c = {.offset = 1, .leading = LEADING, .step = STEP};
    tdm_stream *stream = NULL;
    tdm_status status = tdm_stream_create(device, &stream);
    if (status == TDM_OK)
        status = tdm_buffer_create(device, sizeof a_host, &a.buffer);
    if (status == TDM_OK)
        status = tdm_buffer_create(device, sizeof b_host, &b.buffer);
    if (status == TDM_OK)
        status = tdm_buffer_create(device, sizeof c_host, &c.buffer);
    if (status == TDM_OK)
        status = tdm_buffer_write(stream, a.buffer, 0, a_host, sizeof a_host);
    if (status == TDM_OK)
        status = tdm_buffer_write(stream, b.buffer, 0, b_host, sizeof b_host);
    for (int i = 0; i < 8 && status == TDM_OK; i++) {
        a.transposed = i & 1;
        b.transposed = i & 2;
        status = try_one(stream, i & 4 ? COLUMN_MAJOR : ROW_MAJOR, &a, &b, &c, wrong);
    }
    tdm_buffer_destroy(a.buffer);
    tdm_buffer_destroy(b.buffer);
    tdm_buffer_destroy(c.buffer);
    tdm_stream_destroy(stream);
    return status;
}

int main(void) {
    for (int i = 0; i < SIZE; i++) {
        a_host[i] = (float)(i % 7 - 3);
        b_host[i] = (float)(i % 5 - 2);
        c_host[i] = (float)(i % 11 - 5);
    }
    int64_t wrong = 0;
    tdm_context *context = NULL;
    tdm_device *device = NULL;
    tdm_status status = tdm_context_create(NULL, &context);
    if (status == TDM_OK)
        status = tdm_device_get(context, 0, &device);
    if (status == TDM_OK)
        status = try_all(device, &wrong);
    tdm_device_release(device);
    tdm_context_destroy(context);
    if (status != TDM_OK) {
        fprintf(stderr, "blas_call: %s\n", tdm_last_detail());
        return 1;
    }
    printf("8 calls of %d products: %lld elements differ\n", BATCH, (long long)wrong);
    return wrong != 0;
}
