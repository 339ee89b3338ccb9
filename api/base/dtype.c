/* The table of dtypes. */
#include <string.h>

#include "api/base/base.h"

#define CLASS_F TDM_CLASS_FLOAT
#define CLASS_S TDM_CLASS_SIGNED
#define CLASS_U TDM_CLASS_UNSIGNED
#define CLASS_B TDM_CLASS_BOOL

static const tdm_dtype_traits rows[] = {
#define ROW(name, value, text, bits, per_unit, unit_bytes, kind)                                   \
    {name, text, bits, per_unit, unit_bytes, CLASS_##kind},
    TDM_DTYPE_LIST(ROW)
#undef ROW
};

#define ROW_COUNT (sizeof rows / sizeof rows[0])

const tdm_dtype_traits *tdm_dtype_info(tdm_dtype dtype) {
    for (size_t i = 0; i < ROW_COUNT; i++)
        if (rows[i].dtype == dtype)
            return &rows[i];
    return NULL;
}

const char *tdm_dtype_name(tdm_dtype dtype) {
    const tdm_dtype_traits *const traits = tdm_dtype_info(dtype);
    return traits ? traits->name : "unknown";
}

tdm_dtype tdm_dtype_from_name(const char *name) {
    for (size_t i = 0; name && i < ROW_COUNT; i++)
        if (strcmp(rows[i].name, name) == 0)
            return rows[i].dtype;
    return TDM_DTYPE_NONE;
}

tdm_status tdm_dtype_bytes(tdm_dtype dtype, int64_t elements, size_t *bytes) {
    if (!bytes)
        return tdm_fail(TDM_BAD_ARGUMENT, "dtype_bytes: bytes is NULL");
    *bytes = 0;
    const tdm_dtype_traits *const traits = tdm_dtype_info(dtype);
    if (!traits)
        return tdm_fail(TDM_BAD_DTYPE, "dtype_bytes: dtype %d is unknown", (int)dtype);
    if (elements < 0)
        return tdm_fail(TDM_BAD_ARGUMENT, "dtype_bytes: elements is %lld", (long long)elements);
    const int64_t units =
        elements / traits->elements_per_unit + (elements % traits->elements_per_unit != 0);
    int64_t size;
    if (__builtin_mul_overflow(units, (int64_t)traits->unit_bytes, &size) ||
        (uint64_t)size > SIZE_MAX)
        return tdm_fail(TDM_BAD_SHAPE, "dtype_bytes: %lld elements of %s overflow",
                        (long long)elements, traits->name);
    *bytes = (size_t)size;
    return TDM_OK;
}

bool tdm_is_kernel_float(tdm_dtype dtype) {
    return dtype == TDM_F32 || dtype == TDM_F16 || dtype == TDM_BF16;
}
