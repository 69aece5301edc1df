//===- StepConstraints.h - what every GEMM of a step demands --------------===//
//
// Lists, before anything is cast, what the quantised kernels will demand of
// each linear layer, its backward included: sizes, with the padding that fixes
// the whole step, and combinations that no kernel of the target has.
// te-check-constraints fails on what is violated, te-report-constraints prints
// it all.
//
//===----------------------------------------------------------------------===//

#ifndef TEDIALECT_ANALYSIS_STEPCONSTRAINTS_H
#define TEDIALECT_ANALYSIS_STEPCONSTRAINTS_H

#include "TEDialect/Analysis/QuantPolicy.h"

#include "mlir/IR/BuiltinOps.h"

#include <optional>

namespace mlir::te {

/// The strictest rule for one axis of one linear layer.
struct StepConstraint {
  std::string layer;
  /// A tensor that has this axis, as reports call it, and which of its axes.
  std::string tensor;
  StringRef tensorAxis;
  LinearSizes sizes;
  SizeRule rule;

  int64_t size() const { return rule.size(sizes); }
  /// The size with the zeros that casts have after the axis.
  int64_t padded() const {
    return ShapedType::isDynamic(size())
               ? size()
               : support::padded(size(), rule.multiple);
  }
};

/// A product that a layer's recipe asks for and that cannot be.
struct StepRefusal {
  Operation *op;
  std::string layer;
  /// All GEMMs of the layer that are refused for this reason.
  SmallVector<Gemm> gemms;
  /// The combination, the rule and the nearest supported combination.
  std::string reason;
  /// Whether the layer would run with `high_precision`.
  bool runsInHighPrecision;
};

/// The rows of one layer of groups, and what they are for.
struct StepGroups {
  std::string layer;
  int64_t rows, groups, alignment;
  /// Entries that te.permute brings, where it does, and the rows that take all
  /// of them however they fall.
  std::optional<int64_t> entries, enough;
};

struct StepConstraints {
  /// In program order.
  SmallVector<StepConstraint> sizes;
  SmallVector<StepRefusal> refusals;
  SmallVector<StepGroups> groups;
};

/// What a step is compiled for. Without a target only what no target has is
/// refused.
struct StepTarget {
  std::optional<support::Target> target;
  bool emulate = false;
};

/// Every constraint of `module`. A `te.linear` in a function that some `te.vjp`
/// differentiates counts with the backward GEMMs that the arguments in `wrt`
/// need.
StepConstraints collectStepConstraints(ModuleOp module, StepTarget target = {});

} // namespace mlir::te

#endif // TEDIALECT_ANALYSIS_STEPCONSTRAINTS_H
