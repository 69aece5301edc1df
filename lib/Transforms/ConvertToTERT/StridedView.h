//===- StridedView.h - where the elements of a view are stored ------------===//
//
// A view of a row-major tensor that moves no element: reshapes, transposes,
// slices and broadcasts. A launch reads it in place.
//
//===----------------------------------------------------------------------===//

#ifndef TE_TRANSFORMS_CONVERTTOTERT_STRIDEDVIEW_H
#define TE_TRANSFORMS_CONVERTTOTERT_STRIDEDVIEW_H

#include "mlir/IR/AffineMap.h"
#include "mlir/IR/Value.h"
#include "llvm/ADT/SmallVector.h"

#include <optional>

namespace mlir::te {

/// Each dimension of the view is a list of (size, stride), outermost first. An
/// element repeats along a stride of 0.
class StridedView {
public:
  /// All elements of a tensor, in order.
  explicit StridedView(ArrayRef<int64_t> shape);

  /// The view that the result of `op` is, if its operand is this view: a
  /// reshape, tensor.extract_slice, linalg.transpose or linalg.broadcast. None
  /// if a dimension of it would not be a list of sizes and strides.
  std::optional<StridedView> of(Operation *op) const;

  /// The elements of the view lie among the `getExtent()` elements of the
  /// tensor from `getOffset()` on.
  int64_t getOffset() const { return offset; }
  int64_t getExtent() const;

  /// From the number of an element of the view to its number among these.
  AffineMap getMap(MLIRContext *context) const;

private:
  struct Term {
    int64_t size, stride;
  };
  using Dimension = SmallVector<Term, 2>;

  /// The terms of all dimensions. Neighbours that form one run are joined.
  SmallVector<Term> getTerms() const;
  std::optional<StridedView> reshape(ArrayRef<int64_t> shape) const;
  std::optional<StridedView> slice(ArrayRef<int64_t> offsets,
                                   ArrayRef<int64_t> sizes) const;

  SmallVector<Dimension> dimensions;
  int64_t offset = 0;
  bool isEmpty;
};

/// Whether the result of `op` has elements of its operand at other places:
/// tensor.extract_slice, linalg.transpose and linalg.broadcast. A reader that
/// cannot follow the places needs a copy.
bool movesElements(Operation *op);

/// The operand whose elements the result of `op` has; null unless `op` is a
/// reshape of tensor or `movesElements`.
Value getSourceOfView(Operation *op);

} // namespace mlir::te

#endif // TE_TRANSFORMS_CONVERTTOTERT_STRIDEDVIEW_H
