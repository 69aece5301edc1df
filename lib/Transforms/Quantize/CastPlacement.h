//===- CastPlacement.h - where the casts of operands go -------------------===//
//
// What the backward needs of a forward tensor is made in the forward and passes
// through a te.residual, so that exactly that is saved: where the layer read a
// residual of the tensor, the cast goes right before that residual; where it
// read a value directly (function arguments need no residual), next to the
// forward layer that reads the same value. Other casts go before their reader.
// Every cast is created where it is needed, however often; cse merges them.
//
//===----------------------------------------------------------------------===//

#ifndef TE_TRANSFORMS_QUANTIZE_CASTPLACEMENT_H
#define TE_TRANSFORMS_QUANTIZE_CASTPLACEMENT_H

#include "OperandCasts.h"
#include "PassBoundary.h"

#include "llvm/ADT/SetVector.h"

namespace mlir::te {

/// Whether a product takes the rows of `operand`, of which it contracts
/// columns, as they are. Precondition: the target contracts 8-bit operands
/// along any axis.
bool readsRowsAsColumns(const Operand &operand, const QuantPolicy &policy);

class CastPlacement {
public:
  /// Layers of `function` are replaced in the order of the program, those of
  /// the forward first. With `anyLayout` products contract 8-bit operands along
  /// any axis.
  CastPlacement(func::FuncOp function, OperandCasts &casts, DelayedSlots &slots,
                bool anyLayout)
      : casts(casts), slots(slots), boundary(function), anyLayout(anyLayout) {}

  /// `operand` cast for the layer `user`: in the forward and saved when it is a
  /// forward tensor, else at `user`; gathered at `user`.
  Value castFor(Operation *user, const Operand &operand, const Layer &layer);

  /// `operand`, dequantised from the cast that the forward reads, for `user`.
  Value dequantizedFor(Operation *user, const Operand &operand,
                       const Layer &layer);

  /// Gives `operand` the slot of delayed scaling that its cast for `user` would
  /// have, where it would have one.
  void measureFor(Operation *user, const Operand &operand, const Layer &layer);

  /// Remembers that the forward layer `gemm` became `product`, before the layer
  /// is erased.
  void replacedForward(const LayerGemm &gemm, Operation *product);

  /// Erases the residuals that lost their last reader.
  void eraseUnusedResiduals();

private:
  /// As `castFor`, of this rank's part only.
  Value castPartFor(Operation *user, const Operand &operand,
                    const Layer &layer);

  struct Reader {
    Operation *op = nullptr;
    /// Of the layer that it replaced.
    unsigned number = 0;
  };

  OperandCasts &casts;
  DelayedSlots &slots;
  PassBoundary boundary;
  bool anyLayout;
  /// The first forward GEMM that reads a value in groups of some sizes.
  DenseMap<std::pair<Value, Value>, Reader> forwardReaders;
  llvm::SetVector<Operation *> replacedResiduals;
};

} // namespace mlir::te

#endif // TE_TRANSFORMS_QUANTIZE_CASTPLACEMENT_H
