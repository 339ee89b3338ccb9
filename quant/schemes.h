/*
 * This is a table of quantization formats: the dtype of a quantized value, its integer range, and
 * which elements share a scale.
 *
 *     real = scale * (q - zero_point)
 *
 * Storage and granularity are separate. Granularity is one block extent per dimension. It says how
 * many neighbours along that dimension share a scale (0: all of them). A scale tensor has
 * ceil(shape / block) entries per dimension, 1 if the block is 0, and none if the dimension is
 * empty.
 *
 *     per tensor                {0, 0}            one scale
 *     per axis 0 (channel, row) {1, 0}            shape[0] scales
 *     groups of G along axis 1  {1, G}            shape[0] x ceil(shape[1] / G) scales
 *
 * The last group along a dimension may be shorter. All functions are pure and thread-safe.
 */
#ifndef TANDEM_QUANT_SCHEMES_H
#define TANDEM_QUANT_SCHEMES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <tandem/dtype.h>
#include <tandem/status.h>

enum {
    TDM_QUANT_MAX_RANK = 8
};

/* This says why a function failed, in one sentence that names the argument and its value. It is ""
 * on success. */
typedef struct tdm_quant_reason {
    char text[192];
} tdm_quant_reason;

/* These are the integers that a quantized value may be. Both ends are included. */
typedef struct tdm_quant_range {
    int32_t low, high;
} tdm_quant_range;

/*
 * In a symmetric scheme, the range of real numbers is [-amax, amax]. The zero point is the middle
 * of the integers, which is 0 for signed ones and 128 for u8. In an asymmetric scheme, the range is
 * [min, max], widened to include 0. The zero point is the integer that stands for 0.
 */
typedef enum tdm_quant_symmetry {
    TDM_QUANT_SYMMETRIC = 1,
    TDM_QUANT_ASYMMETRIC = 2
} tdm_quant_symmetry;

/* This says which elements share a scale. PER_BLOCK means blocks of 32 along the last dimension, in
 * the layout of GGUF (quant_blocks.h). NONE is a float format without scales. */
typedef enum tdm_quant_granularity {
    TDM_QUANT_NONE = 0,
    TDM_QUANT_PER_TENSOR = 1,
    TDM_QUANT_PER_AXIS = 2,
    TDM_QUANT_PER_GROUP = 3,
    TDM_QUANT_PER_BLOCK = 4
} tdm_quant_granularity;

/*
 * The columns of the schemes are id, value (never changed), name, stored dtype, symmetry,
 * granularity, group, lowest and highest integer. The group is a default for PER_GROUP, fixed for
 * PER_BLOCK, and 0 otherwise.
 *
 * Symmetric ranges leave out the lowest integer, -128 or -8. Negating the data thus negates the
 * quantized values, and no step is wasted on one side. q4_0 uses -8 by its own definition. Weights
 * use s8 and s4. Activations use u8, or s8 over [-128, 127], and are asymmetric.
 */
#define TDM_QUANT_SCHEME_LIST(X)                                                                   \
    X(TDM_QUANT_F16, 1, "f16", TDM_F16, SYMMETRIC, NONE, 0, 0, 0)                                  \
    X(TDM_QUANT_BF16, 2, "bf16", TDM_BF16, SYMMETRIC, NONE, 0, 0, 0)                               \
    X(TDM_QUANT_S8_TENSOR, 10, "s8-tensor", TDM_S8, SYMMETRIC, PER_TENSOR, 0, -127, 127)           \
    X(TDM_QUANT_S8_CHANNEL, 11, "s8-channel", TDM_S8, SYMMETRIC, PER_AXIS, 0, -127, 127)           \
    X(TDM_QUANT_S8_GROUP, 12, "s8-group", TDM_S8, SYMMETRIC, PER_GROUP, 32, -127, 127)             \
    X(TDM_QUANT_S8_ACTIVATION, 13, "s8-activation", TDM_S8, ASYMMETRIC, PER_TENSOR, 0, -128, 127)  \
    X(TDM_QUANT_S8_ROW, 14, "s8-row", TDM_S8, ASYMMETRIC, PER_AXIS, 0, -128, 127)                  \
    X(TDM_QUANT_S8_ROW_SYMMETRIC, 15, "s8-row-symmetric", TDM_S8, SYMMETRIC, PER_AXIS, 0, -127,    \
      127)                                                                                         \
    X(TDM_QUANT_S8_GROUP_ZERO, 16, "s8-group-zero", TDM_S8, ASYMMETRIC, PER_GROUP, 32, -128, 127)  \
    X(TDM_QUANT_U8_ACTIVATION, 20, "u8-activation", TDM_U8, ASYMMETRIC, PER_TENSOR, 0, 0, 255)     \
    X(TDM_QUANT_U8_ROW, 21, "u8-row", TDM_U8, ASYMMETRIC, PER_AXIS, 0, 0, 255)                     \
    X(TDM_QUANT_U8_GROUP, 22, "u8-group", TDM_U8, ASYMMETRIC, PER_GROUP, 32, 0, 255)               \
    X(TDM_QUANT_S4_CHANNEL, 30, "s4-channel", TDM_S4, SYMMETRIC, PER_AXIS, 0, -7, 7)               \
    X(TDM_QUANT_S4_GROUP, 31, "s4-group", TDM_S4, SYMMETRIC, PER_GROUP, 32, -7, 7)                 \
    X(TDM_QUANT_S4_GROUP_ZERO, 32, "s4-group-zero", TDM_S4, ASYMMETRIC, PER_GROUP, 32, -8, 7)      \
    X(TDM_QUANT_S4_TENSOR, 33, "s4-tensor", TDM_S4, SYMMETRIC, PER_TENSOR, 0, -7, 7)               \
    X(TDM_QUANT_S4_CHANNEL_ZERO, 34, "s4-channel-zero", TDM_S4, ASYMMETRIC, PER_AXIS, 0, -8, 7)    \
    X(TDM_QUANT_S4_TENSOR_ZERO, 35, "s4-tensor-zero", TDM_S4, ASYMMETRIC, PER_TENSOR, 0, -8, 7)    \
    X(TDM_QUANT_Q8_0, 40, "q8_0", TDM_S8, SYMMETRIC, PER_BLOCK, 32, -127, 127)                     \
    X(TDM_QUANT_Q4_0, 41, "q4_0", TDM_S4, SYMMETRIC, PER_BLOCK, 32, -8, 7)

typedef enum tdm_quant_scheme_id {
#define TDM_QUANT_SCHEME_ENUM(id, value, text, dtype, symmetry, granularity, group, low, high)     \
    id = value,
    TDM_QUANT_SCHEME_LIST(TDM_QUANT_SCHEME_ENUM)
#undef TDM_QUANT_SCHEME_ENUM
} tdm_quant_scheme_id;

typedef struct tdm_quant_scheme {
    tdm_quant_scheme_id id;
    const char *name; /* e.g. "s4-group" */
    tdm_dtype dtype;  /* dtype of the quantized values */
    tdm_quant_symmetry symmetry;
    tdm_quant_granularity granularity;
    int64_t group;         /* elements per group or block; 0 for the other granularities */
    tdm_quant_range range; /* 0, 0 for float formats */
} tdm_quant_scheme;

/* These return the number of schemes, and the row at a position of the table or NULL. Rows have
 * static storage. */
size_t tdm_quant_scheme_count(void);
const tdm_quant_scheme *tdm_quant_scheme_at(size_t position);

/* These return the row of an id and the row of a name ("q4_0"), or NULL if there is none or the
 * name is NULL. */
const tdm_quant_scheme *tdm_quant_scheme_info(tdm_quant_scheme_id id);
const tdm_quant_scheme *tdm_quant_scheme_from_name(const char *name);

/* Returns the zero point of a symmetric scheme: 0 for signed ranges, 128 for [0, 255]. */
int32_t tdm_quant_middle(tdm_quant_range range);

/* This describes a quantized tensor: its contiguous row-major shape, its blocks, and its
 * integers. */
typedef struct tdm_quant_spec {
    int rank; /* 0 (one element) to TDM_QUANT_MAX_RANK */
    int64_t shape[TDM_QUANT_MAX_RANK];
    int64_t blocks[TDM_QUANT_MAX_RANK]; /* elements that share a scale; 0: the whole dimension */
    tdm_dtype dtype;                    /* dtype of the quantized values: s8, u8 or s4 */
    tdm_quant_range range;              /* within the range of the dtype */
    tdm_dtype scale_dtype; /* dtype of derived scales: f16, bf16, or f32 (also for NONE) */
} tdm_quant_spec;

/*
 * Set the block extents of the three usual granularities, `rank` entries each. Return false, and
 * the reason, for a rank out of [0, 8], an axis out of [0, rank), or a group below 1.
 */
bool tdm_quant_blocks_per_tensor(int rank, int64_t *blocks, tdm_quant_reason *reason);
bool tdm_quant_blocks_per_axis(int rank, int axis, int64_t *blocks, tdm_quant_reason *reason);
bool tdm_quant_blocks_per_group(int rank, int axis, int64_t group, int64_t *blocks,
                                tdm_quant_reason *reason);

/*
 * Fills a spec for a scheme. `axis` is the dimension that has a scale per index (PER_AXIS) or is
 * divided into groups (PER_GROUP). Other schemes ignore it, and a block scheme uses the last
 * dimension. `group` is the number of elements per group, or 0 for the scheme's default. Float
 * schemes and shapes that tdm_quant_spec_check refuses are refused; a block scheme needs a last
 * dimension that 32 divides. Returns TDM_OK, TDM_BAD_ARGUMENT, TDM_BAD_SHAPE or TDM_BAD_DTYPE.
 * reason may be NULL.
 */
tdm_status tdm_quant_spec_make(const tdm_quant_scheme *scheme, int rank, const int64_t *shape,
                               int axis, int64_t group, tdm_quant_spec *spec,
                               tdm_quant_reason *reason);

/*
 * Checks that every field is valid. The rank is supported, extents and blocks are not negative, and
 * the element count fits int64_t. The dtype is s8, u8 or s4. The range has at least two integers
 * and is within the dtype's. scale_dtype is f32, f16, bf16 or none. Returns TDM_OK, TDM_BAD_SHAPE,
 * TDM_BAD_DTYPE or TDM_BAD_ARGUMENT; reason may be NULL. Every function below and in
 * quant_reference.h expects a spec that passed.
 */
tdm_status tdm_quant_spec_check(const tdm_quant_spec *spec, tdm_quant_reason *reason);

/* Returns the number of elements of the tensor; 1 for rank 0. */
int64_t tdm_quant_element_count(const tdm_quant_spec *spec);

/* These return the shape of the scale tensor, `rank` entries, and the number of scales. */
void tdm_quant_scale_shape(const tdm_quant_spec *spec, int64_t *scale_shape);
int64_t tdm_quant_scale_count(const tdm_quant_spec *spec);

/* Returns the index of the scale of an element, in row-major order of the scale tensor. */
int64_t tdm_quant_scale_index(const tdm_quant_spec *spec, const int64_t *at);

/*
 * Calls visit for runs of elements that are contiguous in memory, in memory order, until every
 * element was visited. Element first + i, 0 <= i < count, has the scale `scale` + i * step. step is
 * 0, or 1 if the last dimension has a scale for each index. A scale may serve several runs.
 */
typedef void (*tdm_quant_run_visitor)(void *user, int64_t first, int64_t count, int64_t scale,
                                      int64_t step);
void tdm_quant_for_each_run(const tdm_quant_spec *spec, tdm_quant_run_visitor visit, void *user);

#endif
