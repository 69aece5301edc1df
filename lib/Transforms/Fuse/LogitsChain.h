//===- LogitsChain.h - what is between a head and its loss ----------------===//

#ifndef TE_TRANSFORMS_FUSE_LOGITSCHAIN_H
#define TE_TRANSFORMS_FUSE_LOGITSCHAIN_H

#include "TEDialect/IR/TE.h"

#include "mlir/IR/Matchers.h"

namespace mlir::te {

/// What is between a head and its loss, in the order of the program.
struct LogitsChain {
  Operation *fprop = nullptr;
  /// What computes the logits from the result of the GEMM, row by row: a
  /// factor, a soft cap, or the columns without padding.
  SmallVector<Operation *> before;
  CrossEntropyOp loss;
  // With a backward:
  CrossEntropyBackwardOp gradient;
  CrossEntropyWeightOp weight;
  /// The gradients of `before`.
  SmallVector<Operation *> after;
  SmallVector<QuantizeOp, 2> casts;
  SmallVector<Operation *, 1> dgrads;
  SmallVector<BiasGradOp, 1> biasGrads;

  Value logits() { return loss.getLogits(); }
  RankedTensorType type() {
    return cast<RankedTensorType>(loss.getLogits().getType());
  }
  /// The cotangent of the loss, or null if it is 1.
  Value dloss() {
    Value value = weight ? weight.getDloss() : Value();
    return value && !matchPattern(value, m_OneFloat()) ? value : Value();
  }
};

/// The chain that ends in `loss`, if it can be computed by rows; else `why`
/// says what is in the way. `anyScales` says that the target multiplies block
/// scales that are not powers of two.
FailureOr<LogitsChain> matchLogitsChain(CrossEntropyOp loss, bool anyScales,
                                        std::string &why);

/// `value` without the residuals that save it.
Value forwardValue(Value value);

/// The amax that the scale of `cast` is computed from by current scaling, or
/// null.
AmaxOp currentAmax(QuantizeOp cast);

/// The largest magnitude that `value`, the gradient of `chain` or what `after`
/// computes from it, can have as a multiple of that of the gradient; nullopt if
/// it is not known.
std::optional<double> boundOf(Value value, const LogitsChain &chain);

/// The value before `loss` that `value` is, or that it can be computed from
/// again; null if there is none. With a `builder`, the value is computed,
/// unless `computed` has it.
Value inForward(Value value, CrossEntropyOp loss, OpBuilder *builder,
                DenseMap<Value, Value> &computed);

} // namespace mlir::te

#endif // TE_TRANSFORMS_FUSE_LOGITSCHAIN_H
