//===- Results.h - results that instruments add to a step -----------------===//

#ifndef TE_TRANSFORMS_INSTRUMENT_RESULTS_H
#define TE_TRANSFORMS_INSTRUMENT_RESULTS_H

#include "mlir/Dialect/Func/IR/FuncOps.h"

#include <string>

namespace mlir::te {

/// Whether a step runs `function`: it has a body of one block and is not
/// private. Functions that were inlined everywhere are private.
bool isStep(func::FuncOp function);

/// Returns `base`, or `base.<n>`, so that no argument and no result of
/// `function` has that name.
std::string uniqueName(func::FuncOp function, StringRef base);

/// Adds `value` as the last result, called `name`. `probe` describes its
/// elements or rows.
void addResult(func::FuncOp function, StringRef name, Value value,
               ArrayAttr probe);

} // namespace mlir::te

#endif // TE_TRANSFORMS_INSTRUMENT_RESULTS_H
