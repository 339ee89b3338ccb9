/*
 * Encodes and decodes the block formats q8_0 and q4_0 of GGUF files, bit for bit. A block has 32
 * elements.
 *
 *     q8_0, 34 bytes:  d (f16, little endian), 32 x int8            x = d * q
 *     q4_0, 18 bytes:  d (f16, little endian), 16 bytes of nibbles  x = d * (q - 8)
 *                      byte j: element j in the low nibble, element j + 16 in the high nibble
 *
 * The encoder computes in f32 and rounds each step separately, like ggml's reference. Builds of
 * ggml that fuse multiply and add may differ by one quantization step at a tie.
 *     q8_0   d = amax / 127;  q = round(x * (1 / d)), halves away from 0
 *     q4_0   d = m / -8, where m is the first element of largest magnitude, with its sign;
 *            q = min(15, truncate(x * (1 / d) + 8.5))
 * If d is 0 or 1 / d overflows, the encoder uses 0 in place of 1 / d. It computes q from the f32 d,
 * but stores d rounded to f16. For a block of zeros in q4_0, d is -0.
 *
 * All functions are thread-safe and keep no state. Encoded blocks need no alignment.
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
 * Encode up to `blocks` blocks, and return how many were written. They stop at the first block that
 * holds a NaN or an infinity, or whose d rounds to infinity in f16. Nothing of that block is
 * written.
 */
size_t tdm_quant_q8_0_encode(const float *x, size_t blocks, void *encoded);
size_t tdm_quant_q4_0_encode(const float *x, size_t blocks, void *encoded);

/*
 * Decode `blocks` blocks. d is converted to f32 and multiplied by each integer, which is exact.
 */
void tdm_quant_q8_0_decode(const void *encoded, size_t blocks, float *x);
void tdm_quant_q4_0_decode(const void *encoded, size_t blocks, float *x);

/*
 * These convert between the file's blocks and the arrays that devices read. Devices read scales and
 * quantized values from separate arrays. Scales are the bits of f16, one per block. Values of q8_0
 * are s8 (32 bytes per block). Values of q4_0 are q - 8 as s4 in element order, packed as in
 * quant_reference.h (16 bytes per block). Both directions keep every bit.
 */
void tdm_quant_q8_0_split(const void *encoded, size_t blocks, uint16_t *scales, int8_t *quants);
void tdm_quant_q8_0_join(const uint16_t *scales, const int8_t *quants, size_t blocks,
                         void *encoded);
void tdm_quant_q4_0_split(const void *encoded, size_t blocks, uint16_t *scales, uint8_t *quants);
void tdm_quant_q4_0_join(const uint16_t *scales, const uint8_t *quants, size_t blocks,
                         void *encoded);

#endif
