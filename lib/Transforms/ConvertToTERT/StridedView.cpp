//===- StridedView.cpp - where the elements of a view are stored ----------===//

#include "StridedView.h"

#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

using namespace mlir;
using namespace mlir::te;

bool te::movesElements(Operation *op) {
  return isa_and_nonnull<linalg::BroadcastOp, linalg::TransposeOp,
                         tensor::ExtractSliceOp>(op);
}

Value te::getSourceOfView(Operation *op) {
  return movesElements(op) || isa_and_nonnull<tensor::CollapseShapeOp,
                                              tensor::ExpandShapeOp>(op)
             ? op->getOperand(0)
             : Value();
}

StridedView::StridedView(ArrayRef<int64_t> shape)
    : dimensions(shape.size()), isEmpty(llvm::is_contained(shape, 0)) {
  int64_t stride = 1;
  for (int64_t i = shape.size(); i-- > 0; stride *= shape[i])
    if (shape[i] != 1)
      dimensions[i].push_back({shape[i], stride});
}

static SmallVector<int64_t> sorted(ArrayRef<int64_t> numbers) {
  auto result = llvm::to_vector(numbers);
  llvm::sort(result);
  return result;
}

std::optional<StridedView> StridedView::of(Operation *op) const {
  auto shape = cast<ShapedType>(op->getResult(0).getType()).getShape();
  if (isEmpty || llvm::is_contained(shape, 0)) {
    return StridedView(0);
  }
  if (auto transpose = dyn_cast<linalg::TransposeOp>(op)) {
    StridedView view = *this;
    for (auto [axis, from] : llvm::enumerate(transpose.getPermutation()))
      view.dimensions[axis] = dimensions[from];
    return view;
  }
  if (auto broadcast = dyn_cast<linalg::BroadcastOp>(op)) {
    StridedView view = *this;
    for (int64_t axis : sorted(broadcast.getDimensions()))
      view.dimensions.insert(view.dimensions.begin() + axis,
                             shape[axis] == 1 ? Dimension()
                                              : Dimension{{shape[axis], 0}});
    return view;
  }
  if (auto extract = dyn_cast<tensor::ExtractSliceOp>(op))
    return slice(extract.getStaticOffsets(), extract.getStaticSizes());
  return reshape(shape);
}

std::optional<StridedView> StridedView::reshape(ArrayRef<int64_t> shape) const {
  SmallVector<Term> pending = getTerms();
  std::reverse(pending.begin(), pending.end());
  StridedView view = *this;
  view.dimensions.assign(shape.size(), {});
  for (auto [dimension, size] : llvm::zip_equal(view.dimensions, shape))
    for (int64_t wanted = size; wanted > 1;) {
      Term term = pending.pop_back_val();
      if (wanted % term.size == 0) {
        dimension.push_back(term);
        wanted /= term.size;
      } else if (term.size % wanted == 0) {
        const int64_t rest = term.size / wanted;
        dimension.push_back({wanted, term.stride * rest});
        pending.push_back({rest, term.stride});
        wanted = 1;
      } else {
        return std::nullopt;
      }
    }
  return view;
}

std::optional<StridedView> StridedView::slice(ArrayRef<int64_t> offsets,
                                              ArrayRef<int64_t> sizes) const {
  StridedView view = *this;
  for (auto [dimension, first, size] :
       llvm::zip_equal(view.dimensions, offsets, sizes)) {
    int64_t whole = 1;
    for (const Term &term : dimension)
      whole *= term.size;
    if (size == whole)
      continue;
    if (dimension.size() != 1)
      return std::nullopt;
    view.offset += first * dimension.front().stride;
    if (size == 1)
      dimension.clear();
    else
      dimension.front().size = size;
  }
  return view;
}

auto StridedView::getTerms() const -> SmallVector<Term> {
  SmallVector<Term> terms;
  for (const Dimension &dimension : dimensions)
    for (const Term &term : dimension)
      if (!terms.empty() && terms.back().stride == term.size * term.stride)
        terms.back() = {terms.back().size * term.size, term.stride};
      else
        terms.push_back(term);
  return terms;
}

int64_t StridedView::getExtent() const {
  if (isEmpty)
    return 0;
  int64_t last = 0;
  for (const Dimension &dimension : dimensions)
    for (const Term &term : dimension)
      last += (term.size - 1) * term.stride;
  return last + 1;
}

AffineMap StridedView::getMap(MLIRContext *context) const {
  const AffineExpr element = getAffineDimExpr(0, context);
  // Nothing is read from a view without elements.
  if (isEmpty)
    return AffineMap::getMultiDimIdentityMap(1, context);
  AffineExpr place = getAffineConstantExpr(0, context);
  SmallVector<Term> terms = getTerms();
  int64_t below = 1;
  for (auto [i, term] : llvm::enumerate(llvm::reverse(terms))) {
    AffineExpr index = element.floorDiv(below);
    if (i + 1 < terms.size())
      index = index % term.size;
    place = place + index * term.stride;
    below *= term.size;
  }
  return AffineMap::get(1, 0, place);
}
