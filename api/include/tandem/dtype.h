/* The data types are the rows of one table. A dtype defines only how an element is stored.
 * Quantization parameters (scales, zero points, axis, group) belong to the tensor. */
#ifndef TANDEM_DTYPE_H
#define TANDEM_DTYPE_H

#include <tandem/status.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * The columns are the name, the value, the text, bits per element, elements per storage unit, bytes
 * per storage unit, and the class. Values never change. Classes are F float, S signed integer, U
 * unsigned integer, B boolean.
 *
 * A storage unit is the smallest addressable piece. It holds two elements of s4, and one element of
 * every other dtype. The s4 element at an even index is in the low half of the byte. Host memory
 * holds f16 and bf16 as 16-bit patterns. A bf16 is the upper half of an f32.
 *
 * f64 and f8e4m3 have rows so that files with them can be described. s64 and bool are for indices
 * and masks: comparisons, selection, copies, conversions and gather take them. A bool is stored as
 * 0 or 1. Operations without a kernel for a dtype return TDM_UNSUPPORTED, and the detail text names
 * the dtype.
 */
#define TDM_DTYPE_LIST(X)                                                                          \
    X(TDM_F32, 1, "f32", 32, 1, 4, F)                                                              \
    X(TDM_F16, 2, "f16", 16, 1, 2, F)                                                              \
    X(TDM_BF16, 3, "bf16", 16, 1, 2, F)                                                            \
    X(TDM_F64, 4, "f64", 64, 1, 8, F)                                                              \
    X(TDM_F8E4M3, 5, "f8e4m3", 8, 1, 1, F)                                                         \
    X(TDM_S32, 16, "s32", 32, 1, 4, S)                                                             \
    X(TDM_S8, 17, "s8", 8, 1, 1, S)                                                                \
    X(TDM_U8, 18, "u8", 8, 1, 1, U)                                                                \
    X(TDM_S4, 19, "s4", 4, 2, 1, S)                                                                \
    X(TDM_S64, 20, "s64", 64, 1, 8, S)                                                             \
    X(TDM_BOOL, 32, "bool", 8, 1, 1, B)

typedef enum tdm_dtype {
    TDM_DTYPE_NONE = 0,
#define TDM_DTYPE_ENUM(name, value, text, bits, per_unit, unit_bytes, kind) name = value,
    TDM_DTYPE_LIST(TDM_DTYPE_ENUM)
#undef TDM_DTYPE_ENUM
} tdm_dtype;

typedef enum tdm_dtype_class {
    TDM_CLASS_FLOAT = 1,
    TDM_CLASS_SIGNED = 2,
    TDM_CLASS_UNSIGNED = 3,
    TDM_CLASS_BOOL = 4
} tdm_dtype_class;

typedef struct tdm_dtype_traits {
    tdm_dtype dtype;
    const char *name;      /* "f32" */
    int bits;              /* bits per element */
    int elements_per_unit; /* elements in one storage unit */
    int unit_bytes;        /* bytes of one storage unit */
    tdm_dtype_class kind;
} tdm_dtype_traits;

/* Returns the traits of a dtype, or NULL if the value is not a dtype. Static storage. Thread-safe.
 * Since 0.1. */
TDM_API const tdm_dtype_traits *tdm_dtype_info(tdm_dtype dtype);

/* Returns the name of a dtype ("f32"), or "unknown" if the value is not a dtype. Thread-safe. Since
 * 0.1. */
TDM_API const char *tdm_dtype_name(tdm_dtype dtype);

/* Returns the dtype with this name ("bf16"), or TDM_DTYPE_NONE for NULL or an unknown name.
 * Thread-safe. Since 0.1. */
TDM_API tdm_dtype tdm_dtype_from_name(const char *name);

/*
 * Sets *bytes to the size of `elements` contiguous elements, rounded up to a whole storage unit.
 * Statuses: TDM_BAD_DTYPE, TDM_BAD_ARGUMENT (negative count, NULL bytes), TDM_BAD_SHAPE (overflow).
 * Thread-safe. Since 0.1.
 */
TDM_API tdm_status tdm_dtype_bytes(tdm_dtype dtype, int64_t elements, size_t *bytes);

#ifdef __cplusplus
}
#endif

#endif
