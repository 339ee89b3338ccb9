/* Quantizes: y = saturate(rint(x / scale) + zero), where y is s8, u8 or s4.
 *
 * A variant defines DT (the type of x), N (the vector width) and, where divide.h allows it,
 * TDM_BUILT_IN_DIVIDE. quant_rows.h describes the rows and the parameters. */
#include "kernels/dialect/dialect.h"
#define TDM_TARGET_CODES
#define TDM_BOUND_DEQUANTIZED
#define TDM_CODES_OF_HALVES
#include "quant_rows.h"

TDM_INLINE I tdm_made_code(V v, tdm_parameters p, tdm_traversal w) {
    const tdm_quant_side side = w.arg.target;
    const tdm_multiplier m = {p.correction, p.reciprocal, p.low, p.high, p.zero};
    if (p.products)
        return tdm_code_by_products(v, m);
    return tdm_code(v, tdm_quantizer_make(p.scale, p.zero, side.low, side.high));
}
