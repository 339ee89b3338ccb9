/* GEMM of f32 on tensor cores, if the plan allows it. Each number is split into two tf32 numbers,
 * and three of the four partial products are added.
 *
 *   x (f32)      s eeeeeeee mmmmmmmmmm mmmmmmmmmmmmm
 *   big          s eeeeeeee mmmmmmmmmm 0000000000000   nearest with 10 bits, ties away from zero
 *   small        x − big, exact                        an instruction uses its first 10 bits
 *
 *   a·b = small_a·big_b + big_a·small_b + big_a·big_b + a term that is dropped
 *
 * They are added in this order. The instructions add the products of 8 steps of K, starting from 0.
 * Normal f32 additions, rounded to nearest, then add this sum to the earlier ones. An instruction
 * may truncate, and K / 8 truncations would accumulate. docs/numerics.md derives the error bound.
 *
 * Tiles (gemm_mma_tile.h, TK = 16) and fragments of D are those of gemm_mma.cu. A warp splits the
 * fragments that it has read: all of A's at once, then B's one by one.
 *
 *     registers:  A  WM / 16 · (4 big, 4 small)
 *                 B  4 big, 4 small
 *                 D  2 · WM / 16 · WN / 8 · 4 sums (block, total), WM / 8 · 4 sums of 8 steps
 *
 * The small part of an infinity or a NaN is NaN, and numbers next to the largest become infinite.
 * If a sum is not finite, the whole work-group therefore computes its sums again, and splits
 * numbers with `split_any`. That function splits an infinity into ±1 and ±infinity. Its product
 * with an infinity or a finite number of at least 2⁻¹³⁷ is then ±infinity, as in f32. Its product
 * with 0 is NaN, as in f32. With smaller numbers it is NaN too, because their big part is 0.
 *
 * GROUPS work-groups share the registers of a multiprocessor. gemm_mma_floats.h has the kernel. */
#define ELEMENT_BYTES 4
#include "gemm_mma_floats.h"

#define TF32_BITS 0xffffe000u /* bits of an f32 that tf32 keeps */
#define TF32_HALF 0x1000u     /* half a unit in the last place of tf32 */
/* Bits of two magnitudes: the smallest that rounds to infinity, and infinity itself. */
#define ROUNDS_UP_TO_INFINITY 0x7f7ff000u
#define INFINITE 0x7f800000u

struct tf32_pair {
    uint big, small;
};

TDM_DEVICE tf32_pair split_at(uint x, uint big) {
    return {big, tdm_float_bits(tdm_bits_float(x) - tdm_bits_float(big))};
}
TDM_DEVICE tf32_pair split(uint x) {
    return split_at(x, (x + TF32_HALF) & TF32_BITS);
}
/* Splits any number. Finite numbers that would round to infinity are truncated. */
TDM_DEVICE tf32_pair split_any(uint x) {
    const uint magnitude = x & 0x7fffffffu;
    if (magnitude >= INFINITE)
        return split_at(x, (x & 0x80000000u) | 0x3f800000u);
    return magnitude >= ROUNDS_UP_TO_INFINITY ? split_at(x, x & TF32_BITS) : split(x);
}

template <bool ANY_NUMBER> TDM_DEVICE tf32_pair split_one(uint x) {
    return ANY_NUMBER ? split_any(x) : split(x);
}

/* Multiply-accumulates 8 steps of K. ANY_NUMBER also allows numbers that are not finite. */
template <bool ANY_NUMBER>
TDM_DEVICE void add_products(mma_sums &acc, const uint (&x)[A_FRAGMENTS][4],
                             const uint (&y)[B_PAIRS][4]) {
    uint big[A_FRAGMENTS][4], small[A_FRAGMENTS][4];
    TDM_UNROLL for (int i = 0; i < A_FRAGMENTS; i++) TDM_UNROLL for (int q = 0; q < 4; q++) {
        const tf32_pair part = split_one<ANY_NUMBER>(x[i][q]);
        big[i][q] = part.big;
        small[i][q] = part.small;
    }
    TDM_UNROLL for (int j = 0; j < B_PAIRS; j++) {
        float sum[A_FRAGMENTS][2][4] = {};
        tf32_pair b[4];
        TDM_UNROLL for (int q = 0; q < 4; q++) b[q] = split_one<ANY_NUMBER>(y[j][q]);
        TDM_UNROLL for (int i = 0; i < A_FRAGMENTS; i++) TDM_UNROLL for (int h = 0; h < 2; h++)
            tdm_matrices_tf32(sum[i][h], small[i], b[2 * h].big, b[2 * h + 1].big);
        TDM_UNROLL for (int i = 0; i < A_FRAGMENTS; i++) TDM_UNROLL for (int h = 0; h < 2; h++)
            tdm_matrices_tf32(sum[i][h], big[i], b[2 * h].small, b[2 * h + 1].small);
        TDM_UNROLL for (int i = 0; i < A_FRAGMENTS; i++) TDM_UNROLL for (int h = 0; h < 2; h++)
            tdm_matrices_tf32(sum[i][h], big[i], b[2 * h].big, b[2 * h + 1].big);
        TDM_UNROLL for (int i = 0; i < A_FRAGMENTS; i++) TDM_UNROLL for (int h = 0; h < 2; h++)
            TDM_UNROLL for (int q = 0; q < 4; q++) acc[i][2 * j + h][q] += sum[i][h][q];
    }
}

/* Returns true if a warp of the work-group has a sum that is not finite. Overwrites the tiles. */
TDM_DEVICE bool group_exceeds(const mma_sums &acc, tdm_u8 *tiles, const mma_position &at) {
    uint *const votes = (uint *)tiles;
    bool own = false, any = false;
    TDM_UNROLL for (int i = 0; i < A_FRAGMENTS; i++)
        TDM_UNROLL for (int j = 0; j < 2 * B_PAIRS; j++) TDM_UNROLL for (int x = 0; x < 4; x++)
            own |= (tdm_float_bits(acc[i][j][x]) & 0x7fffffffu) >= INFINITE;
    const uint vote = tdm_warp_ballot(own);
    if (at.lane == 0)
        votes[at.warp] = vote;
    tdm_barrier();
    TDM_UNROLL for (int w = 0; w < ITEMS / 32; w++) any |= votes[w] != 0;
    tdm_barrier();
    return any;
}

/* Adds the sums of a block of TDM_SUM_BLOCK steps of K to `total`, and clears them. */
TDM_DEVICE void end_block(mma_sums &total, mma_sums &acc) {
    TDM_UNROLL for (int i = 0; i < A_FRAGMENTS; i++)
        TDM_UNROLL for (int j = 0; j < 2 * B_PAIRS; j++) TDM_UNROLL for (int x = 0; x < 4; x++) {
            total[i][j][x] += acc[i][j][x];
            acc[i][j][x] = 0.0f;
        }
}

/* Adds the products of 8 steps of K to a block that has `steps` steps. Returns its new number of
 * steps: 0 after the end of a block. */
template <bool ANY_NUMBER>
TDM_DEVICE int add_steps(mma_sums &total, mma_sums &acc, int steps,
                         const uint (&x)[A_FRAGMENTS][4], const uint (&y)[B_PAIRS][4]) {
    add_products<ANY_NUMBER>(acc, x, y);
    if (steps + 8 < TDM_SUM_BLOCK)
        return steps + 8;
    end_block(total, acc);
    return 0;
}

TDM_DEVICE void mma_sum_products(mma_sums &total, const mma_source &from_a,
                                 const mma_source &from_b, tdm_u8 *tiles, long k,
                                 const mma_position &at) {
    mma_sums acc;
    int steps = 0;
    mma_clear(total);
    mma_clear(acc);
    /* Load and multiply-accumulate, assuming finite numbers. */
    mma_main_loop(from_a, from_b, tiles, k, at.warp, at.lane,
             [&](const uint(&x)[A_FRAGMENTS][4], const uint(&y)[B_PAIRS][4]) {
                 steps = add_steps<false>(total, acc, steps, x, y);
             });
    end_block(total, acc);
    if (!group_exceeds(total, tiles, at))
        return;
    /* Load and multiply-accumulate again: some number or sum is not finite. */
    mma_clear(total);
    mma_clear(acc);
    steps = 0;
    mma_main_loop_as<ANY, ANY>(from_a, from_b, tiles, k, at.warp, at.lane,
                          [&](const uint(&x)[A_FRAGMENTS][4], const uint(&y)[B_PAIRS][4]) {
                              steps = add_steps<true>(total, acc, steps, x, y);
                          });
    end_block(total, acc);
}
