/* Integers whose storage type is a launch argument: quantized values and zero points. A kernel
 * source includes this after dialect.h. */
#ifndef TDM_INTEGERS_H
#define TDM_INTEGERS_H

#include "op_codes.h"

/* Returns element i of an s32, s8 or u8 array. Returns 0 for any other type, which stands for an
 * absent zero point. */
TDM_DEVICE int tdm_int_any(TDM_GLOBAL const void *p, int type, long i) {
    if (type == TDM_CODE_S32)
        return tdm_int_s32((TDM_GLOBAL const tdm_s32 *)p, i);
    if (type == TDM_CODE_S8)
        return tdm_int_s8((TDM_GLOBAL const tdm_s8 *)p, i);
    if (type == TDM_CODE_U8)
        return tdm_int_u8((TDM_GLOBAL const tdm_u8 *)p, i);
    return 0;
}

#endif
