/* Size class arithmetic; pool_classes.h says the scheme. */
#include "api/pool_classes.h"

/* Classes 0…7 are 1…8 units; then every power of two 2^s, s ≥ 3, is followed by eight steps of 2^(s-3). */
int tdm_class_of(uint64_t bytes, uint64_t unit) {
    const uint64_t units = (bytes + unit - 1) / unit;
    if (units <= 8)
        return (int)units - 1;
    const int s = 63 - __builtin_clzll(units);
    const uint64_t step = UINT64_C(1) << (s - 3);
    const uint64_t steps = (units - (UINT64_C(1) << s) + step - 1) / step;
    return 8 + (s - 3) * 8 + (int)steps - 1;
}

int tdm_class_below(uint64_t bytes, uint64_t unit) {
    const int above = tdm_class_of(bytes, unit);
    return tdm_class_bytes(above, unit) <= bytes || above == 0 ? above : above - 1;
}

uint64_t tdm_class_bytes(int size_class, uint64_t unit) {
    if (size_class < 8)
        return (uint64_t)(size_class + 1) * unit;
    const int s = (size_class - 8) / 8 + 3;
    const uint64_t steps = (uint64_t)((size_class - 8) % 8 + 1);
    return ((UINT64_C(1) << s) + steps * (UINT64_C(1) << (s - 3))) * unit;
}

int tdm_class_slab_blocks(uint64_t class_bytes) {
    const uint64_t blocks = (UINT64_C(1) << 19) / class_bytes;
    return blocks < 4 ? 4 : blocks > 64 ? 64 : (int)blocks;
}
