/*
 * The library's tables of kernels: the embedded kernel sources and the variants.
 *
 * A kernel is its source plus one row of a table FOLDER/NAME_variants.cmake.
 */
#ifndef TANDEM_KERNEL_INDEX_H
#define TANDEM_KERNEL_INDEX_H

#include <stddef.h>
#include <stdint.h>

// A kernel source with its includes inlined, as cmake/embed_kernels.cmake writes it.
typedef struct tdm_embedded_source {
    const char *file;
    const char *text;
    size_t length; // without the terminating zero
} tdm_embedded_source;

extern const tdm_embedded_source tdm_embedded_sources[];
extern const size_t tdm_embedded_source_count;

// The CUDA image of one kernel source, with all of its variants.
// cmake/cuda_images.cmake builds it.
typedef struct tdm_kernel_image {
    const char *source;              // file of the row
    const unsigned char *data, *end; // a fat binary, aligned to 16 bytes
    // 1: no compiler was found; data is "TDM-STAND-IN\n" and the names of the rows, one per line
    int stand_in;
} tdm_kernel_image;

extern const tdm_kernel_image tdm_kernel_images[];
extern const int tdm_kernel_image_count;

// For example "80;90a;75-ptx"; empty if the images are stand-ins.
extern const char *const tdm_kernel_image_architectures;
extern const int tdm_kernel_image_version; /* CUDA version, major * 1000 + minor * 10, or 0 */

// The operation of a kernel. Variants of one op are adjacent, in order of preference.
#define TDM_OP_LIST(X)                                                                             \
    X(GEMM)                                                                                        \
    X(GEMM_PACK)                                                                                   \
    X(GEMM_REDUCE)                                                                                 \
    X(GEMM_INT)                                                                                    \
    X(GEMM_INT_PACK)                                                                               \
    X(GEMM_WEIGHTS)                                                                                \
    X(GEMM_WEIGHTS_UNPACK)                                                                         \
    X(GEMM_QUANTIZE_ROWS)                                                                          \
    X(UNARY)                                                                                       \
    X(BINARY)                                                                                      \
    X(CONVERT)                                                                                     \
    X(CONVERT_S64)                                                                                 \
    X(COMPARE)                                                                                     \
    X(WHERE)                                                                                       \
    X(QUANTIZE)                                                                                    \
    X(QUANTIZE_DYNAMIC)                                                                            \
    X(QUANTIZE_RANGE)                                                                              \
    X(QUANTIZE_JOIN)                                                                               \
    X(QUANTIZE_RANGE_COLUMNS)                                                                      \
    X(QUANTIZE_JOIN_COLUMNS)                                                                       \
    X(DEQUANTIZE)                                                                                  \
    X(REQUANTIZE)                                                                                  \
    X(FAKE_QUANTIZE)                                                                               \
    X(COPY)                                                                                        \
    X(FILL)                                                                                        \
    X(GATHER)                                                                                      \
    X(SCATTER)                                                                                     \
    X(GATHER_QUANTIZED)                                                                            \
    X(REDUCE)                                                                                      \
    X(ARGMAX)                                                                                      \
    X(TOP_K)                                                                                       \
    X(CUMULATIVE_SUM)                                                                              \
    X(SOFTMAX)                                                                                     \
    X(NORM)                                                                                        \
    X(ROPE)                                                                                        \
    X(ATTENTION)                                                                                   \
    X(ATTENTION_JOIN)                                                                              \
    X(PROBE_FMA)                                                                                   \
    X(PROBE_STREAM)                                                                                \
    X(PROBE_CHASE)                                                                                 \
    X(PROBE_MIX)                                                                                   \
    X(PROBE_LAUNCH)

typedef enum tdm_op {
#define TDM_OP_ENUM(name) TDM_OP_##name,
    TDM_OP_LIST(TDM_OP_ENUM)
#undef TDM_OP_ENUM
    TDM_OP_COUNT
} tdm_op;

#define TDM_VARIANT_PARAMETERS 8

// One kernel variant.
typedef struct tdm_variant {
    const char *name; // also the entry point: unique in the library, `op_dtypes_tile__arch`
    tdm_op op;
    const char *source;                         // file of tdm_embedded_sources
    const char *defines;                        // "-DMR=6 -DNR=16"
    uint32_t requires;                          // bits of tdm_capability that the device must have
    const char *target;                         // clang target for the syntax check of its source
    int32_t parameters[TDM_VARIANT_PARAMETERS]; // each op defines their meaning
} tdm_variant;

extern const tdm_variant tdm_variants[];
extern const int tdm_variant_count;

// One row of tuning.def, as strings. api/tuning/tuning.h describes the fields.
typedef struct tdm_shipped_tuning {
    const char *device; // device class or pattern
    tdm_op op;
    const char *a, *b;  // storage types
    const char *layout; // "nn", "nt", "tn", "tt", "any"
    const char *shape;  // "512x512x512x1", * for any size
    const char *choice; // "variant:name=value,..."
    uint64_t ns;        // duration of one run, 0: not measured
} tdm_shipped_tuning;

extern const tdm_shipped_tuning tdm_shipped_tunings[];
extern const int tdm_shipped_tuning_count;

// Returns the row of that name, or NULL.
const tdm_variant *tdm_variant_find(const char *name);

// Returns the embedded source of a file, or NULL.
const tdm_embedded_source *tdm_embedded_source_find(const char *file);

// Returns the image of a kernel source, or NULL if none of its rows is for CUDA.
const tdm_kernel_image *tdm_kernel_image_find(const char *source);

#endif
