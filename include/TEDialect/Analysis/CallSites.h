//===- CallSites.h - what callers pass to private functions ---------------===//
//
// A program may have its layers in private functions that the entry calls or
// differentiates. Before these are inlined, a message about a layer has to name
// the argument of the entry, as states and reports do.
//
//===----------------------------------------------------------------------===//

#ifndef TEDIALECT_ANALYSIS_CALLSITES_H
#define TEDIALECT_ANALYSIS_CALLSITES_H

#include "TEDialect/IR/TE.h"

#include "mlir/IR/BuiltinOps.h"
#include "llvm/ADT/DenseMap.h"

namespace mlir::te {

class CallSites {
public:
  explicit CallSites(ModuleOp module);

  /// What `value` is where the first caller of its private function passes it,
  /// and so on, as far out as that is an argument with a `te.name`. `value`
  /// itself if there is none, or if it is not an argument, nor a copy, cast or
  /// usage of one.
  Value outermost(Value value) const;

private:
  /// The operands that the first call of a private function passes.
  llvm::DenseMap<Operation *, OperandRange> passed;
};

} // namespace mlir::te

#endif // TEDIALECT_ANALYSIS_CALLSITES_H
