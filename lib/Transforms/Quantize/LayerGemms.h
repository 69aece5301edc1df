//===- LayerGemms.h - the GEMMs of linear layers and what they read -------===//
//
// A linear layer, its dgrad and its wgrad, of matrices or of groups of rows,
// are one GEMM each. describeLayerGemm gives all of them one form: two operands
// with a role and a contracted axis, a bias, sizes. It only reads the program.
// The two functions below it build the product that replaces such a GEMM.
//
//===----------------------------------------------------------------------===//

#ifndef TE_TRANSFORMS_QUANTIZE_LAYERGEMMS_H
#define TE_TRANSFORMS_QUANTIZE_LAYERGEMMS_H

#include "TEDialect/Analysis/QuantPolicy.h"

#include "mlir/Dialect/Tensor/IR/Tensor.h"

namespace mlir::te {

/// A tensor that a GEMM reads and the usage it reads it in. A tensor in group
/// layout has the sizes of its groups, as the forward made them; a stack of
/// weights has three axes.
struct Operand {
  Value value;
  TensorRole role;
  unsigned contract;
  Value groupSizes = {};
  int64_t alignment = 0;
  /// Where `value` is this rank's part: the op that gathers the parts.
  AllGatherOp gather = {};
  /// Where the part is a flat shard: the view that makes a matrix of the
  /// gathered parts.
  tensor::ExpandShapeOp view = {};
  /// Whether it is a weight that is stored as [K, N], and not as [N, K].
  bool isTransposed = false;

  ArrayRef<int64_t> shape() const {
    return cast<ShapedType>(value.getType()).getShape();
  }
  /// The axis that the first GEMM which reads it contracts.
  unsigned firstAxis() const { return isTransposed ? 0 : 1; }
  /// The GEMM that reads it in this usage.
  Gemm reader() const {
    return readerOf(role, contract == firstAxis() ? 1 : 0);
  }
  /// What the GEMM reads, in high precision.
  Value whole() const;

  bool isStack() const { return shape().size() == 3; }
  bool hasGroups() const { return groupSizes || isStack(); }
  /// The shape of what there is one of for each group; empty without groups.
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
  /// The operand of the product itself; null where there are no groups.
  Value groupSizes = {};
  /// What a wgrad is added to, or null.
  Value accumulate = {};
  /// Whether the weight is stored as [K, N]: then a wgrad is of x and dy.
  bool isTransposed = false;

  int64_t alignment() const { return sizes.m; }
  /// The operand that the forward reads, too.
  const Operand &ofForward() const {
    return isTransposed && gemm == Gemm::Wgrad ? a : b;
  }
};

/// A linear layer as reports call it, and what its recipe asks for.
struct Layer {
  std::string name;
  QuantPolicy policy;
};

/// Whether `op` is a GEMM of a linear layer, in the forward or in the backward.
bool isForwardLayer(Operation *op);
bool isBackwardLayer(Operation *op);

/// The GEMM that `op` is. Precondition: one of the above.
LayerGemm describeLayerGemm(Operation *op);

/// Why `gemm` cannot run in `mode` as `policy` asks, or empty: a size that a
/// quantised kernel does not take, an alignment of groups, or types. With
/// dequantised operands the sizes are those of the forward, whose casts are
/// read.
std::string refuseMode(const LayerGemm &gemm, const QuantPolicy &policy,
                       OperandMode mode);

/// The product of the casts `a` and `b` in place of `gemm`, at the builder's
/// position.
Operation *createScaledGemm(OpBuilder &builder, Location loc,
                            const LayerGemm &gemm, Value a, Value b,
                            bool fastAccumulation);

/// The product of `a` and `b` in high precision in place of `gemm`.
Operation *createPlainGemm(OpBuilder &builder, Location loc,
                           const LayerGemm &gemm, Value a, Value b);

} // namespace mlir::te

#endif // TE_TRANSFORMS_QUANTIZE_LAYERGEMMS_H
