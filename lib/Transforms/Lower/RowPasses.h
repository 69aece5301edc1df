//===- RowPasses.h - what each pass over a row computes -------------------===//

#ifndef TE_TRANSFORMS_LOWER_ROWPASSES_H
#define TE_TRANSFORMS_LOWER_ROWPASSES_H

#include "TEDialect/TERT/TERT.h"

#include "mlir/IR/AffineMap.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/SetVector.h"

namespace mlir::te {

/// The passes over a row that a body with reductions of rows needs. Each
/// reduces operands that depend on no other reduction, then on those of the
/// passes before; the last one writes the results. A value of an element is
/// computed by each pass that uses it, or by the first one and kept.
class RowPasses {
public:
  /// `maps` are those of all buffers. Values are kept if their code is large
  /// and `keepsValues` is set.
  RowPasses(Block &body, ArrayRef<AffineMap> maps, bool keepsValues);

  unsigned getLast() const { return last; }
  /// The reductions of `pass`.
  SmallVector<tert::RowReduceOp> reductionsOf(unsigned pass) const {
    return reductions[pass];
  }
  /// Whether `value` has one value in a row.
  bool isOfRow(Value value) const { return ofRow.contains(value); }
  /// The number of passes after which a value of the row can be computed.
  unsigned readyAfter(Value value) const { return ready.lookup(value); }
  /// Whether `pass` uses `value` of an element.
  bool uses(unsigned pass, Value value) const {
    return used[pass].contains(value);
  }
  /// Whether `value` of an element is kept after the first pass that uses it.
  bool isKept(Value value) const { return kept.contains(value); }

  /// The size of the code of one element in all passes.
  int64_t getCode() const { return code; }
  /// The most bits of an element that are kept between two passes: of inputs
  /// that are used later, and values.
  int64_t getKeptBits() const { return keptBits; }

private:
  void findUses(Block &body, unsigned pass, bool keepsValues);

  unsigned last = 0;
  llvm::DenseSet<Value> ofRow;
  llvm::DenseMap<Value, unsigned> ready, firstUse;
  SmallVector<SmallVector<tert::RowReduceOp>> reductions;
  SmallVector<llvm::DenseSet<Value>> used;
  llvm::SetVector<Value> kept;
  int64_t code = 0, keptBits = 0;
};

} // namespace mlir::te

#endif // TE_TRANSFORMS_LOWER_ROWPASSES_H
