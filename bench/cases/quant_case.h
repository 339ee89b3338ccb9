/*
 * One case of the quant suite, for parent and workers: a matrix of real values in [-1, 1), and its
 * quantized values.
 */
#ifndef TANDEM_BENCH_CASES_QUANT_CASE_H
#define TANDEM_BENCH_CASES_QUANT_CASE_H

#include <stddef.h>
#include <stdint.h>

#include <tandem/dtype.h>

#include "bench/protocol/worker_protocol.h"
#include "quant/quant_reference.h"

typedef enum quant_operation {
    QUANT_QUANTIZE,
    QUANT_DYNAMIC,
    QUANT_DEQUANTIZE,
    QUANT_CONVERT,    /* rounds real values to integers of the quantized type */
    QUANT_WIDEN,      /* converts those integers to real values */
    QUANT_FAKE,       /* quantizes and dequantizes, without a mask */
    QUANT_MASK,       /* as QUANT_FAKE, with a mask of the values that did not saturate */
    QUANT_REQUANTIZE, /* `real` is s32: requantizes integer sums */
    QUANT_STREAM,     /* only moves bytes; see quant_case_stream */
    QUANT_PACK,       /* `real` is s8: packs it to saturated s4 */
    QUANT_UNPACK      /* unpacks s4 to s8 */
} quant_operation;

/* The elements that share parameters. */
typedef enum quant_blocks {
    QUANT_TENSOR,
    QUANT_ROW,
    QUANT_COLUMN,
    QUANT_GROUP, /* `group` elements of a row */
    QUANT_BAND   /* `group` elements of a column */
} quant_blocks;

typedef struct quant_case {
    quant_operation operation;
    tdm_dtype real, codes;
    quant_blocks blocks;
    int64_t group; /* elements of a group or a band; 0 means 32 */
    int64_t rows, columns;
    uint64_t seed;
    int64_t copied;    /* bytes that QUANT_STREAM moves */
    int reads, writes; /* QUANT_STREAM: the ratio of bytes read to bytes written */
} quant_case;

/* Parse names like "quantize" and "row". They return -1 for an unknown name. */
int quant_operation_parse(const char *name, quant_operation *operation);
int quant_blocks_parse(const char *name, quant_blocks *blocks);

/* True if the operation has quantization parameters. Plain conversions have none. */
int quant_case_has_blocks(const quant_case *item);

/*
 * Parses a shape like "8192x4096". Returns -1 if it is invalid, or if a row of s4 would end inside
 * a byte.
 */
int quant_shape_parse(const char *text, int64_t *rows, int64_t *columns);

/*
 * Writes the case's name: "quantize f32 s8 row 8192x4096". Groups and bands of a size other than 32
 * are "group64", "band128".
 */
void quant_case_name(const quant_case *item, char *name, size_t size);

void quant_case_write(const quant_case *item, worker_text *line);
int quant_case_from_line(const char *line, quant_case *item);

/*
 * Returns shape, blocks and range for the host reference. Only u8 has zero points; other types are
 * symmetric.
 */
tdm_quant_spec quant_case_spec(const quant_case *item);
int quant_case_has_zero(const quant_case *item);

enum {
    QUANT_ZERO_POINT = 3 /* the zero point of every u8 block */
};

/* The scale of the sums of QUANT_REQUANTIZE. */
#define QUANT_CASE_SUM_SCALE 0.01f

/*
 * Returns the bytes that a call must read and write, including parameters. The source counts twice
 * if the range of all elements is needed first.
 */
double quant_case_traffic(const quant_case *item);

/*
 * quant_case_stream returns the case that moves as many bytes as the operation. Each of its steps
 * reads `reads` lines and writes `writes` lines. quant_case_stream_steps returns the number of
 * steps that comes closest to those bytes if a line has `line` words.
 */
quant_case quant_case_stream(const quant_case *item);
int64_t quant_case_stream_steps(const quant_case *item, int line);

/* Return the types and bytes of the input and the output. A mask follows the output. */
tdm_dtype quant_case_source_dtype(const quant_case *item);
tdm_dtype quant_case_target_dtype(const quant_case *item);
size_t quant_case_source_bytes(const quant_case *item);
size_t quant_case_target_bytes(const quant_case *item);
size_t quant_case_mask_bytes(const quant_case *item);

/* Return the input and the scales, or NULL if memory is short. Release with free. */
void *quant_case_source(const quant_case *item);
float *quant_case_scales(const quant_case *item);

/*
 * Checks an output; it is a bench_verifier (bench_runner.h). Every byte of the output must equal
 * the host reference.
 */
int quant_case_check(const void *user, const void *output, size_t bytes, double *max_error,
                     worker_text *reason);

#endif
