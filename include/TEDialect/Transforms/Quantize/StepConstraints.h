//===- StepConstraints.h - size rules of every GEMM of a step -------------===//
//
// Lists, before anything is cast, what the quantised kernels will demand of the
// sizes of each linear layer, its backward included. te-check-constraints
// fails on the violated rows, te-report-constraints prints them all.
//
//===----------------------------------------------------------------------===//

#ifndef TEDIALECT_TRANSFORMS_QUANTIZE_STEPCONSTRAINTS_H
#define TEDIALECT_TRANSFORMS_QUANTIZE_STEPCONSTRAINTS_H

#include "TEDialect/Transforms/Quantize/QuantPolicy.h"

#include "mlir/IR/BuiltinOps.h"

namespace mlir::te {

/// The strictest rule for one axis of one linear layer.
struct StepConstraint {
  Operation *op;
  std::string layer;
  /// A tensor that has this axis, as reports call it, and which of its axes.
  std::string tensor;
  StringRef tensorAxis;
  LinearSizes sizes;
  SizeRule rule;

  bool holds() const { return rule.holds(sizes); }
};

/// True when `linear` has a bias that its recipe's product cannot add: that of
/// an f16 layer.
bool breaksBiasRule(LinearOp linear);

/// Every constraint of `module`, in program order. A `te.linear` in a function
/// that some `te.vjp` differentiates counts with the backward GEMMs that the
/// arguments in `wrt` need.
SmallVector<StepConstraint> collectStepConstraints(ModuleOp module);

} // namespace mlir::te

#endif // TEDIALECT_TRANSFORMS_QUANTIZE_STEPCONSTRAINTS_H
