//===- ZeroPadding.h - rows between groups that are zeros -----------------===//

#ifndef TE_TRANSFORMS_QUANTIZE_ZEROPADDING_H
#define TE_TRANSFORMS_QUANTIZE_ZEROPADDING_H

#include "mlir/IR/Value.h"

namespace mlir::te {

/// The value of the forward that te.residual, an identity, saves.
Value behindResiduals(Value value);

/// Whether the rows of `value` outside the groups are known to be zeros: the
/// ops of groups write zeros there, and many ops keep them.
bool hasZeroPadding(Value value, Value groupSizes, int64_t alignment);

} // namespace mlir::te

#endif // TE_TRANSFORMS_QUANTIZE_ZEROPADDING_H
