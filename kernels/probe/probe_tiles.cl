/* probe_fma.cl for x86 cores with AMX. y = the sums of CHAINS tiles of 16×16 words, modulo 2^32.
 * Each tile took `steps` steps x ← x + A·B of 32768 operations.
 *
 * A is 16×64 bytes; each group of four bytes equals the argument a. B is 64×16 bytes in 16 quads of
 * 16 columns. The words of B come after the starts of the chains. The loop is a function of its own
 * with the instruction's target, and gets plain pointers, as in gemm_int_panel_amx.cl.
 *
 * Defines: CHAINS, which is 4. Between two steps of a chain there are three steps of other
 * chains. */
#include "kernels/dialect/dialect.h"
#include "kernels/dialect/tile_registers.h"

#define TILE 256
#define ROW REGISTER_BYTES
#define A 4
#define B 5

__attribute__((noinline, target("amx-tile,amx-int8"))) void
take_steps(const int *starts, int a, int steps, int *y) {
    int words[CHAINS * TILE] __attribute__((aligned(64)));
    for (int i = 0; i < TILE; i++)
        words[i] = a;
    TAKE_REGISTERS
    __builtin_ia32_tileloadd64(0, starts, ROW);
    __builtin_ia32_tileloadd64(1, starts + TILE, ROW);
    __builtin_ia32_tileloadd64(2, starts + 2 * TILE, ROW);
    __builtin_ia32_tileloadd64(3, starts + 3 * TILE, ROW);
    __builtin_ia32_tileloadd64(A, words, ROW);
    __builtin_ia32_tileloadd64(B, starts + CHAINS * TILE, ROW);
    TDM_NO_UNROLL for (int step = 0; step < steps; step++) {
        __builtin_ia32_tdpbssd(0, A, B);
        __builtin_ia32_tdpbssd(1, A, B);
        __builtin_ia32_tdpbssd(2, A, B);
        __builtin_ia32_tdpbssd(3, A, B);
    }
    __builtin_ia32_tilestored64(0, words, ROW);
    __builtin_ia32_tilestored64(1, words + TILE, ROW);
    __builtin_ia32_tilestored64(2, words + 2 * TILE, ROW);
    __builtin_ia32_tilestored64(3, words + 3 * TILE, ROW);
    __builtin_ia32_tilerelease();
    for (int i = 0; i < TILE; i++) {
        int sum = words[i];
        for (int c = 1; c < CHAINS; c++)
            sum = tdm_add_wrap(1, sum, words[c * TILE + i]);
        y[i] = sum;
    }
}

TDM_KERNEL(TDM_ENTRY)
(TDM_GLOBAL const int *starts, long starts_offset, TDM_GLOBAL int *y, long y_offset, int a,
 int steps) {
    TDM_ITEM_BEGIN;
    take_steps((const int *)(size_t)(starts + starts_offset), a, steps,
               (int *)(size_t)(y + y_offset + tdm_global_x() * TILE));
}
