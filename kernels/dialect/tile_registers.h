/* The tile registers of x86 cores with AMX, for gemm_int_panel_amx.cl and probe_tiles.cl. */
#ifndef TDM_TILE_REGISTERS_H
#define TDM_TILE_REGISTERS_H

#define REGISTER_ROWS 16
#define REGISTER_BYTES 64 /* per row */

/* The memory that ldtilecfg reads. */
typedef struct {
    uchar palette, start_row, reserved[14];
    ushort row_bytes[16];
    uchar rows[16];
} register_shapes;

/* Configures all eight registers at full size and zeroes them. __builtin_ia32_tilerelease releases
 * them. */
#define TAKE_REGISTERS                                                                             \
    {                                                                                              \
        register_shapes all __attribute__((aligned(64))) = {1};                                    \
        TDM_UNROLL for (int t = 0; t < 8; t++) {                                                   \
            all.row_bytes[t] = REGISTER_BYTES;                                                     \
            all.rows[t] = REGISTER_ROWS;                                                           \
        }                                                                                          \
        __builtin_ia32_tile_loadconfig(&all);                                                      \
    }

#endif
