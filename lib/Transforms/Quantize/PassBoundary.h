//===- PassBoundary.h - where values cross into the backward --------------===//
//
// A value of the forward that the backward reads passes through a te.residual.
// All residuals of one backward are together, before its first op. A new
// residual goes after the last residual between the two ops that it connects.
//
// Layers and residuals are numbered in one walk, and the last residual is
// remembered, so that finding the place takes constant time. A search from each
// backward op would take time quadratic in the number of layers, and so would
// asking MLIR for the order of ops while ops are inserted.
//
//===----------------------------------------------------------------------===//

#ifndef TE_TRANSFORMS_QUANTIZE_PASSBOUNDARY_H
#define TE_TRANSFORMS_QUANTIZE_PASSBOUNDARY_H

#include "TEDialect/IR/TE.h"

#include "mlir/Interfaces/FunctionInterfaces.h"

namespace mlir::te {

class PassBoundary {
public:
  /// Numbers the layers of `function`, which must be replaced in the order of
  /// the program.
  explicit PassBoundary(FunctionOpInterface function);

  /// The number of the layer `op`, which was in the function at first.
  unsigned numberOf(Operation *op) const { return places.at(op).number; }

  /// Saves `value`, which the layer with the number `forward` computed, for the
  /// layer `backward` of the same block under `name`. Preconditions: the
  /// forward layer is before the backward one; calls are in program order of
  /// `backward`.
  Value save(Value value, unsigned forward, Operation *backward,
             StringAttr name);

private:
  struct Place {
    unsigned number;
    /// The last residual before it in its block, or null.
    ResidualOp residual;
    unsigned residualNumber;
  };
  struct Last {
    ResidualOp residual;
    unsigned number = 0;
  };

  DenseMap<Operation *, Place> places;
  /// The last residual so far in each block, including those that save() added.
  DenseMap<Block *, Last> last;
};

} // namespace mlir::te

#endif // TE_TRANSFORMS_QUANTIZE_PASSBOUNDARY_H
