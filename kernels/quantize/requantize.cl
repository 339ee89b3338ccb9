/* y = zero_y + rint(clamp((x - zero_x) · (scale_x / scale_y), low - zero_y, high - zero_y)).
 *
 * Defines: DT the source's type (s8, u8, s4, s32), N vector width, TDM_BUILT_IN_DIVIDE as in
 * divide.h. quant_rows.h describes rows and parameters. */
#include "kernels/dialect/dialect.h"
#define TDM_SOURCE_CODES
#define TDM_TARGET_CODES
#include "quant_rows.h"

TDM_INLINE I tdm_made_code(V v, tdm_parameters p, tdm_traversal w) {
    const F wanted = tdm_real(v, p.scale, p.from_zero);
    return tdm_rounded_code(tdm_between(wanted, p.low, p.high), p.zero);
}
