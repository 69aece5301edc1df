//===- Differentiation.h - what an op's derivative rule may ask -----------===//
//
// Reverse mode on a straight line of ops: each rule reads the cotangents of its
// results and adds cotangents to its operands. Forward values needed later are
// requested as residuals, which gives them a name and makes them the only
// values that cross from forward to backward. A rule may put another op in
// place of its own, to get one more result; it leaves the old one without
// users.
//
//===----------------------------------------------------------------------===//

#ifndef TEDIALECT_IR_DIFFERENTIATION_H
#define TEDIALECT_IR_DIFFERENTIATION_H

#include "mlir/IR/Value.h"
#include "llvm/ADT/StringRef.h"

namespace mlir::te {

class AdjointContext {
public:
  virtual ~AdjointContext() = default;

  /// The cotangent of a forward value, or null when nothing depends on it.
  virtual Value get(Value primal) = 0;

  /// True when some requested gradient depends on `primal`; rules skip work for
  /// operands that do not.
  virtual bool wants(Value primal) = 0;

  /// Adds `cotangent` (same type as `primal`) to what `primal` has so far.
  virtual void add(Value primal, Value cotangent) = 0;

  /// `primal` as the backward may use it. Function arguments and constants are
  /// returned as they are; everything else goes through one `te.residual`.
  /// `name` is the role of `primal` in the op, such as "x"; the residual is
  /// called "<layer>.<name>".
  virtual Value residual(Value primal, llvm::StringRef name) = 0;
};

} // namespace mlir::te

#endif // TEDIALECT_IR_DIFFERENTIATION_H
