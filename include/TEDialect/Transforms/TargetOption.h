//===- TargetOption.h - the option 'target' of a pass ---------------------===//

#ifndef TEDIALECT_TRANSFORMS_TARGETOPTION_H
#define TEDIALECT_TRANSFORMS_TARGETOPTION_H

#include "TEDialect/Support/SupportTable.h"

#include "mlir/IR/Diagnostics.h"

namespace mlir::te {

/// Fails, without a location, unless `target` is known; the error lists the
/// targets.
inline LogicalResult checkTargetOption(MLIRContext *context,
                                       llvm::StringRef pass,
                                       llvm::StringRef target) {
  if (te_table::parseTarget({target.data(), target.size()}))
    return success();
  return emitError(UnknownLoc::get(context))
         << pass << ": " << te_table::refuseTargetName(target.str());
}

} // namespace mlir::te

#endif // TEDIALECT_TRANSFORMS_TARGETOPTION_H
