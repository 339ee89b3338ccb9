/* Made by make_quant_vectors.py; floats are bit patterns. Do not edit. */
/* clang-format off */
#ifndef TANDEM_TESTS_VECTOR_RANGES_H
#define TANDEM_TESTS_VECTOR_RANGES_H

#include <stdint.h>

/* What the field `range` of the rows counts. */
static const struct { int32_t low, high; } vector_ranges[] = {{-127, 127}, {-128, 127}, {0, 255}, {-7, 7}, {-8, 7}};

#endif
