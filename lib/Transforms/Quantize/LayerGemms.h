//===- LayerGemms.h - the GEMMs of linear layers and their operands -------===//
//
// A linear layer, its dgrad and its wgrad, of matrices or of groups of rows,
// are one GEMM each. describeLayerGemm describes all of them in one form: two
// operands with a role and a contracted axis, a bias, and sizes. It does not
// change the program. The two functions after it build the op that replaces
// such a GEMM.
//
//===----------------------------------------------------------------------===//

#ifndef TE_TRANSFORMS_QUANTIZE_LAYERGEMMS_H
#define TE_TRANSFORMS_QUANTIZE_LAYERGEMMS_H

#include "TEDialect/Analysis/QuantPolicy.h"

#include "mlir/Dialect/Tensor/IR/Tensor.h"

#include <array>

namespace mlir::te {

/// A tensor that a GEMM reads, and the usage in which it reads it. A tensor in
/// group layout has the sizes of its groups, as the forward computed them; a
/// stack of weights has three axes.
struct Operand {
  Value value;
  TensorRole role;
  unsigned contract;
  Value groupSizes = {};
  int64_t alignment = 0;
  /// If `value` is this rank's part: the op that gathers the parts.
  AllGatherOp gather = {};
  /// If the part is a flat shard: the view of the gathered parts as a matrix.
  tensor::ExpandShapeOp view = {};
  /// Whether it is a weight that is stored as [K, N], and not as [N, K].
  bool isTransposed = false;
  /// How many zeros its casts have after each of its last two axes. A tensor
  /// with padding is cast after it is gathered.
  std::array<int64_t, 2> padding = {0, 0};

  ArrayRef<int64_t> shape() const {
    return cast<ShapedType>(value.getType()).getShape();
  }
  bool isPadded() const { return padding[0] || padding[1]; }
  /// The shape of its casts, which is `shape()` with the padding.
  SmallVector<int64_t, 3> castShape() const;
  /// The axis that the first GEMM which reads it contracts.
  unsigned firstAxis() const { return isTransposed ? 0 : 1; }
  /// The GEMM that reads it in this usage.
  Gemm reader() const {
    return readerOf(role, contract == firstAxis() ? 1 : 0);
  }
  /// The whole tensor that the GEMM reads, in high precision.
  Value whole() const;

  bool isStack() const { return shape().size() == 3; }
  bool hasGroups() const { return groupSizes || isStack(); }
  /// The shape of a value with one element for each group; empty without
  /// groups.
  SmallVector<int64_t, 1> perGroup() const;
};

/// One GEMM of a linear layer before it is rewritten.
struct LayerGemm {
  Operation *op;
  Gemm gemm;
  Operand a, b;
  Value bias;
  /// With groups, M is the alignment: all their sizes are multiples of it.
  LinearSizes sizes;
  /// The sizes that the GEMM reads; null without groups.
  Value groupSizes = {};
  /// The tensor that a wgrad is added to, or null.
  Value accumulate = {};
  /// Whether the weight is stored as [K, N]: then a wgrad is of x and dy.
  bool isTransposed = false;

  int64_t alignment() const { return sizes.m; }
  /// The operand that the forward reads as well.
  const Operand &ofForward() const {
    return isTransposed && gemm == Gemm::Wgrad ? a : b;
  }
};

/// The name of a linear layer in reports, and the policy of its recipe.
struct Layer {
  std::string name;
  QuantPolicy policy;
};

/// Whether `op` is a GEMM of a linear layer, in the forward or in the backward.
bool isForwardLayer(Operation *op);
bool isBackwardLayer(Operation *op);

/// Describes the GEMM `op`. Precondition: `op` is a forward or backward layer.
LayerGemm describeLayerGemm(Operation *op);

/// Returns why `gemm` cannot run in `mode` under `policy`, or "". The reason is
/// an alignment of groups, or types. With dequantised operands, the alignment
/// counts for the forward, because its casts are read.
std::string refuseMode(const LayerGemm &gemm, const QuantPolicy &policy,
                       OperandMode mode);

/// Creates the GEMM of the casts `a` and `b` that replaces `gemm`, at the
/// builder's position. If an operand has padding, so has the result.
Operation *createScaledGemm(OpBuilder &builder, Location loc,
                            const LayerGemm &gemm, Value a, Value b,
                            bool fastAccumulation);

/// Creates the GEMM of `a` and `b` in high precision that replaces `gemm`.
Operation *createPlainGemm(OpBuilder &builder, Location loc,
                           const LayerGemm &gemm, Value a, Value b);

} // namespace mlir::te

#endif // TE_TRANSFORMS_QUANTIZE_LAYERGEMMS_H
