/*
 * The block formats of GGUF files, bit for bit: 32 elements each.
 *
 *     q8_0, 34 bytes:  d (half, little endian), 32 x int8           x = d * q
 *     q4_0, 18 bytes:  d (half, little endian), 16 bytes of nibbles  x = d * (q - 8)
 *                      byte j: element j in the low nibble, element j + 16 in the high nibble
 *
 * Encoding, in f32, each step rounded on its own, as ggml's reference does it (builds of ggml that
 * fuse multiply and add may differ by one quant at a tie):
 *     q8_0   d = amax / 127;  q = round(x * (1 / d)), halves away from 0
 *     q4_0   d = m / -8, m the first element of largest magnitude, with its sign;
 *            q = min(15, truncate(x * (1 / d) + 8.5))
 * with 0 for 1 / d where d is 0. The quants come from the f32 d, the file holds it rounded to half.
 * Where 1 / d overflows, the quants are those of 0. A block of zeros in q4_0 has d = -0.
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
 * Encode `blocks` blocks. Returns how many were written: fewer than `blocks` when the next one holds
 * NaN or an infinity, or needs a d beyond the largest finite half (65504); nothing of it is written.
 */
size_t tdm_quant_q8_0_encode(const float *x, size_t blocks, void *encoded);
size_t tdm_quant_q4_0_encode(const float *x, size_t blocks, void *encoded);

/* Decode `blocks` blocks: d widened to f32, one product per element, rounded once. */
void tdm_quant_q8_0_decode(const void *encoded, size_t blocks, float *x);
void tdm_quant_q4_0_decode(const void *encoded, size_t blocks, float *x);

/*
 * Between the file's blocks and the arrays that devices read: scales (half bits, one per block) and
 * quants apart, s8 for q8_0 (32 bytes per block), s4 packed as in quant_reference.h for q4_0 (16
 * bytes per block; its q - 8 is an s4, in order of the elements). Both ways keep every bit.
 */
void tdm_quant_q8_0_split(const void *encoded, size_t blocks, uint16_t *scales, int8_t *quants);
void tdm_quant_q8_0_join(const uint16_t *scales, const int8_t *quants, size_t blocks,
                         void *encoded);
void tdm_quant_q4_0_split(const void *encoded, size_t blocks, uint16_t *scales, uint8_t *quants);
void tdm_quant_q4_0_join(const uint16_t *scales, const uint8_t *quants, size_t blocks,
                         void *encoded);

#endif
