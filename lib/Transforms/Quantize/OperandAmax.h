//===- OperandAmax.h - the amax of an operand of a GEMM -------------------===//

#ifndef TE_TRANSFORMS_QUANTIZE_OPERANDAMAX_H
#define TE_TRANSFORMS_QUANTIZE_OPERANDAMAX_H

#include "LayerGemms.h"

namespace mlir::te {

/// Creates max |x| of `source`, which replaces the operand's value: one amax
/// for each group, over all parts of a gathered operand. `recipe` is the recipe
/// of the layer.
Value createAmax(OpBuilder &builder, Value source, const Operand &operand,
                 RecipeAttr recipe);

/// Creates the maximum of `amax` over the process group `group`, for a layer of
/// `recipe`.
Value reduceAmax(OpBuilder &builder, Value amax, int64_t group,
                 RecipeAttr recipe);

} // namespace mlir::te

#endif // TE_TRANSFORMS_QUANTIZE_OPERANDAMAX_H
