/* y = scale · (x - zero), in f32, f16 or bf16.
 *
 * Defines: DT the source's type (s8, u8, s4, s32), N vector width. quant_rows.h describes rows and
 * parameters. */
#include "kernels/dialect/dialect.h"
#define TDM_SOURCE_CODES
#include "quant_rows.h"

TDM_INLINE F tdm_made_real(V v, tdm_parameters p) {
    return tdm_real(v, p.scale, p.zero);
}

TDM_INLINE void tdm_put(V v, tdm_parameters p, tdm_traversal w, long y, long mask, int left,
                        int type) {
    tdm_store_dequantized(type, tdm_made_real(v, p), w.y, y, left);
}
