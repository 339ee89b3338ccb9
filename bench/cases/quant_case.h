/* One case of the quant suite, as parent and workers see it: a matrix of reals in [-1, 1), and its codes. */
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
    QUANT_CONVERT,    /* reals to the integers of the codes' type */
    QUANT_WIDEN,      /* those integers to reals */
    QUANT_FAKE,       /* reals to the reals that their codes stand for, without a mask */
    QUANT_MASK,       /* the same, and which of them were not saturated */
    QUANT_REQUANTIZE, /* sums of s32, which stand where the reals would, to codes */
    QUANT_STREAM,     /* their traffic alone: quant_case_stream */
    QUANT_PACK,       /* codes of s8, which stand where the reals would, to s4, saturated */
    QUANT_UNPACK      /* and back */
} quant_operation;

/* Which elements share parameters. */
typedef enum quant_blocks {
    QUANT_TENSOR,
    QUANT_ROW,
    QUANT_COLUMN,
    QUANT_GROUP, /* `group` of a row */
    QUANT_BAND   /* `group` of a column */
} quant_blocks;

typedef struct quant_case {
    quant_operation operation;
    tdm_dtype real, codes;
    quant_blocks blocks;
    int64_t group; /* elements of a group or a band; 0 stands for 32 */
    int64_t rows, columns;
    uint64_t seed;
    int64_t copied;    /* bytes that QUANT_STREAM moves */
    int reads, writes; /* QUANT_STREAM: so many bytes are read for so many written */
} quant_case;

/* "quantize" … and "row" …; -1 where a name is none. */
int quant_operation_parse(const char *name, quant_operation *operation);
int quant_blocks_parse(const char *name, quant_blocks *blocks);

/* Whether elements share parameters: conversions know none. */
int quant_case_has_blocks(const quant_case *item);

/* "8192x4096"; -1 when it is none, or a row of s4 would end inside a byte. */
int quant_shape_parse(const char *text, int64_t *rows, int64_t *columns);

/* "quantize f32 s8 row 8192x4096"; groups and bands of other than 32 are "group64", "band128" */
void quant_case_name(const quant_case *item, char *name, size_t size);

void quant_case_write(const quant_case *item, worker_text *line);
int quant_case_from_line(const char *line, quant_case *item);

/* Shape, blocks and range for the host reference; symmetric without zero points, which u8 alone has. */
tdm_quant_spec quant_case_spec(const quant_case *item);
int quant_case_has_zero(const quant_case *item);

enum {
    QUANT_ZERO_POINT = 3 /* each, of u8 */
};

/* The scale of the sums of requantize. */
#define QUANT_CASE_SUM_SCALE 0.01f

/* Bytes that a call must read and write, parameters included: the source twice where the range of all is needed before the first code. */
double quant_case_traffic(const quant_case *item);

/*
 * What reads and writes as many bytes as the operation does, in steps of `reads` and `writes` lines; quant_case_stream_steps
 * says how many come closest where a line has `line` words.
 */
quant_case quant_case_stream(const quant_case *item);
int64_t quant_case_stream_steps(const quant_case *item, int line);

/* What is read and what is written, a mask behind it: their types and bytes. */
tdm_dtype quant_case_source_dtype(const quant_case *item);
tdm_dtype quant_case_target_dtype(const quant_case *item);
size_t quant_case_source_bytes(const quant_case *item);
size_t quant_case_target_bytes(const quant_case *item);
size_t quant_case_mask_bytes(const quant_case *item);

/* The contents, each NULL when memory is short; release with free. */
void *quant_case_source(const quant_case *item);
float *quant_case_scales(const quant_case *item);

/* For bench_runner.h: every byte of the output must be what the host reference says. */
int quant_case_check(const void *user, const void *output, size_t bytes, double *max_error,
                     worker_text *reason);

#endif
