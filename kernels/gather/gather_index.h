/* Reads an index of gather. A kernel source includes this after dialect.h. */
#ifndef TDM_GATHER_INDEX_H
#define TDM_GATHER_INDEX_H

#include "gather_args.h"

/* Returns the position along the axis that element i of the indices selects, or -1 if the index is
 * outside of the table. A negative index counts from the end. */
TDM_DEVICE long tdm_gather_position(TDM_GLOBAL const void *indices, long i, tdm_gather_arg arg) {
    const long index = arg.indices_64 ? ((TDM_GLOBAL const long *)indices)[i]
                                      : (long)tdm_int_s32((TDM_GLOBAL const tdm_s32 *)indices, i);
    const long position = index < 0 ? index + arg.count : index;
    return position >= 0 && position < arg.count ? position : -1;
}

#endif
