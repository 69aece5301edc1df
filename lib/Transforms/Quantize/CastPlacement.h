//===- CastPlacement.h - where the casts of operands go -------------------===//
//
// The casts of forward tensors that the backward needs are computed in the
// forward and pass through a te.residual, so that exactly these casts are
// saved. If the layer read a residual of the tensor, the cast goes directly
// before that residual. If it read a value directly (function arguments need no
// residual), the cast goes next to the forward layer that reads the same value.
// Other casts go before their reader. A cast is created at every use; cse
// merges equal casts.
//
//===----------------------------------------------------------------------===//

#ifndef TE_TRANSFORMS_QUANTIZE_CASTPLACEMENT_H
#define TE_TRANSFORMS_QUANTIZE_CASTPLACEMENT_H

#include "OperandCasts.h"
#include "PassBoundary.h"

#include "llvm/ADT/SetVector.h"

namespace mlir::te {

/// Whether a GEMM reads the row usage of `operand` directly, although it
/// contracts the columns. Precondition: the target contracts 8-bit operands
/// along any axis.
bool readsRowsAsColumns(const Operand &operand, const QuantPolicy &policy);

class CastPlacement {
public:
  /// Layers of `function` must be replaced in the order of the program, those
  /// of the forward first. With `anyLayout`, GEMMs contract 8-bit operands
  /// along any axis.
  CastPlacement(func::FuncOp function, OperandCasts &casts, DelayedSlots &slots,
                bool anyLayout)
      : casts(casts), slots(slots), boundary(function), anyLayout(anyLayout) {}

  /// Casts `operand` for the layer `user`. A forward tensor is cast in the
  /// forward and saved, others are cast at `user`. Casts are gathered at
  /// `user`.
  Value castFor(Operation *user, const Operand &operand, const Layer &layer);

  /// Dequantises the cast of `operand` that the forward reads, for `user`.
  Value dequantizedFor(Operation *user, const Operand &operand,
                       const Layer &layer);

  /// Creates the slot of delayed scaling that the cast of `operand` for `user`
  /// would have, if any.
  void measureFor(Operation *user, const Operand &operand, const Layer &layer);

  /// Records that the forward layer `gemm` became `product`, before the layer
  /// is erased.
  void replacedForward(const LayerGemm &gemm, Operation *product);

  /// Erases the residuals that lost their last reader.
  void eraseUnusedResiduals();

private:
  /// Does what `castFor` does, for this rank's part only.
  Value castPartFor(Operation *user, const Operand &operand,
                    const Layer &layer);

  struct Reader {
    Operation *op = nullptr;
    /// The number of the layer that `op` replaced.
    unsigned number = 0;
  };

  OperandCasts &casts;
  DelayedSlots &slots;
  PassBoundary boundary;
  bool anyLayout;
  /// The first forward GEMM that reads a value with given group sizes.
  DenseMap<std::pair<Value, Value>, Reader> forwardReaders;
  llvm::SetVector<Operation *> replacedResiduals;
};

} // namespace mlir::te

#endif // TE_TRANSFORMS_QUANTIZE_CASTPLACEMENT_H
