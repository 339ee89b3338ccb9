/*
 * The block formats of GGUF files, bit for bit: 32 elements each.
 *
 *     q8_0, 34 bytes:  d (f16, little endian), 32 x int8            x = d * q
 *     q4_0, 18 bytes:  d (f16, little endian), 16 bytes of nibbles  x = d * (q - 8)
 *                      byte j: element j in the low nibble, element j + 16 in the high nibble
 *
 * Encoding is in f32, each step rounded separately, as in ggml's reference. Builds of ggml that
 * fuse multiply and add may differ by one quantization step at a tie.
 *     q8_0   d = amax / 127;  q = round(x * (1 / d)), halves away from 0
 *     q4_0   d = m / -8, m the first element of largest magnitude, with its sign;
 *            q = min(15, truncate(x * (1 / d) + 8.5))
 * If d is 0, 0 replaces 1 / d. The quantized values come from the f32 d; the file holds d rounded
 * to f16. If 1 / d overflows, the quantized values are those of 0. A block of zeros in q4_0 has d =
 * -0.
 *
 * All functions are pure and thread-safe; nothing need be aligned.
 */
#ifndef TANDEM_QUANT_QUANT_BLOCKS_H
#define TANDEM_QUANT_QUANT_BLOCKS_H

#include <stddef.h>
#include <stdint.h>

enum {
    TDM_QUANT_BLOCK_ELEMENTS = 32,
    TDM_QUANT_Q8_0_BYTES = 34,
    TDM_QUANT_Q4_0_BYTES = 18
};

/*
 * Encodes `blocks` blocks. Returns how many were written. There are fewer than `blocks` if the next
 * one holds NaN or an infinity, or needs a d beyond the largest finite f16 (65504). Nothing of that
 * block is written.
 */
size_t tdm_quant_q8_0_encode(const float *x, size_t blocks, void *encoded);
size_t tdm_quant_q4_0_encode(const float *x, size_t blocks, void *encoded);

/* Decodes `blocks` blocks: d widened to f32, one product per element, rounded once. */
void tdm_quant_q8_0_decode(const void *encoded, size_t blocks, float *x);
void tdm_quant_q4_0_decode(const void *encoded, size_t blocks, float *x);

/*
 * These convert between the file's blocks and the arrays that devices read, with scales and
 * quantized values in separate arrays. Scales are f16 bits, one per block. Values are s8 for q8_0
 * (32 bytes per block). For q4_0 they are s4 packed as in quant_reference.h (16 bytes per block); q
 * - 8 is an s4, in element order. Both directions keep every bit.
 */
void tdm_quant_q8_0_split(const void *encoded, size_t blocks, uint16_t *scales, int8_t *quants);
void tdm_quant_q8_0_join(const uint16_t *scales, const int8_t *quants, size_t blocks,
                         void *encoded);
void tdm_quant_q4_0_split(const void *encoded, size_t blocks, uint16_t *scales, uint8_t *quants);
void tdm_quant_q4_0_join(const uint16_t *scales, const uint8_t *quants, size_t blocks,
                         void *encoded);

#endif
