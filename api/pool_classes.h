/*
 * Size classes of the pool: eight per power of two, in units of 256 bytes (or of the device's
 * alignment, where larger). Rounding up to a class wastes at most 12.5 %, 6 % on average.
 */
#ifndef TANDEM_API_POOL_CLASSES_H
#define TANDEM_API_POOL_CLASSES_H

#include <stdint.h>

#define TDM_POOL_UNIT 256u
#define TDM_POOL_LARGEST (UINT64_C(1) << 48)
#define TDM_POOL_CLASSES 312
/* Classes up to here are carved from slabs; larger blocks are native allocations of their own. */
#define TDM_POOL_SLAB_CLASS_LIMIT (UINT64_C(1) << 20)

/* Smallest class that holds `bytes` (≥ 1). */
int tdm_class_of(uint64_t bytes, uint64_t unit);

/* Largest class whose blocks are no larger than `bytes` (≥ one unit). */
int tdm_class_below(uint64_t bytes, uint64_t unit);

/* Bytes of a class's blocks. */
uint64_t tdm_class_bytes(int size_class, uint64_t unit);

/* Blocks per slab: half a mebibyte's worth, between 4 and 64. */
int tdm_class_slab_blocks(uint64_t class_bytes);

#endif
