//===- HoistSlices.cpp - te-hoist-slices ----------------------------------===//
//
// A linear layer computes each row of its result from that row of its input, so
// a slice of rows of the result is the layer of a slice of the input.
//
//===----------------------------------------------------------------------===//

#include "TEDialect/IR/TE.h"
#include "TEDialect/Transforms/Import/Passes.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/Matchers.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

namespace mlir::te {
#define GEN_PASS_DEF_HOISTSLICESPASS
#include "TEDialect/Transforms/Import/Passes.h.inc"
} // namespace mlir::te

using namespace mlir;
using namespace mlir::te;

static RankedTensorType typeOf(Value value) {
  return cast<RankedTensorType>(value.getType());
}

static DenseElementsAttr splatOf(Value value) {
  DenseElementsAttr constant;
  return matchPattern(value, m_Constant(&constant)) && constant.isSplat()
             ? constant
             : DenseElementsAttr();
}

/// Whether `op` computes each element of its result from that of `value`.
static bool isElementwiseOf(Operation *op, Value value) {
  return op->getNumResults() == 1 && op->hasTrait<OpTrait::Elementwise>() &&
         isMemoryEffectFree(op) &&
         llvm::all_of(op->getOperands(), [&](Value operand) {
           return operand == value || splatOf(operand);
         });
}

/// `value` in `shape`, in row-major order.
static Value reshape(OpBuilder &b, Location loc, Value value,
                     ArrayRef<int64_t> shape) {
  RankedTensorType type = typeOf(value);
  if (type.getShape() == shape)
    return value;
  auto all = [](int64_t rank) {
    return SmallVector<ReassociationIndices>{
        llvm::to_vector(llvm::seq<int64_t>(rank))};
  };
  if (type.getRank() > 1)
    value = tensor::CollapseShapeOp::create(b, loc, value, all(type.getRank()));
  if (shape.size() > 1)
    value = tensor::ExpandShapeOp::create(b, loc, type.clone(shape), value,
                                          all(shape.size()));
  return value;
}

namespace {
/// A layer whose result is only read by a slice of its rows, behind elementwise
/// ops and reshapes.
struct SlicedLayer {
  explicit SlicedLayer(LinearOp layer) : layer(layer) {}

  LinearOp layer;
  SmallVector<Operation *> elementwise;
  tensor::ExtractSliceOp slice;

  bool match();
  void rewrite();
  int64_t getColumns() { return typeOf(layer.getY()).getDimSize(1); }
  int64_t getRows() { return slice.getType().getNumElements() / getColumns(); }

private:
  bool findRows();
  /// The rows of the layer, in the order of memory, and those of the slice.
  SmallVector<int64_t> shape, offsets, sizes;
};
} // namespace

/// Finds out which rows the slice has; false if it does not have whole rows.
bool SlicedLayer::findRows() {
  const int64_t columns = getColumns();
  if (columns == 0 || typeOf(layer.getX()).getDimSize(1) == 0 ||
      !slice.hasUnitStride() ||
      ShapedType::isDynamicShape(slice.getStaticOffsets()) ||
      slice.getType().getRank() != slice.getSourceType().getRank())
    return false;
  llvm::append_range(shape, slice.getSourceType().getShape());
  llvm::append_range(offsets, slice.getStaticOffsets());
  llvm::append_range(sizes, slice.getStaticSizes());
  // All of a dimension is a part of an element of the one before.
  while (shape.size() > 1 && sizes.back() == shape.back()) {
    const int64_t inner = shape.pop_back_val();
    offsets.pop_back();
    sizes.pop_back();
    for (SmallVector<int64_t> *each : {&shape, &offsets, &sizes})
      each->back() *= inner;
  }
  for (SmallVector<int64_t> *each : {&shape, &offsets, &sizes}) {
    if (each->back() % columns != 0)
      return false;
    each->back() /= columns;
  }
  return true;
}

bool SlicedLayer::match() {
  Value value = layer.getY();
  if (layer.getParallel())
    return false;
  while (value.hasOneUse()) {
    Operation *reader = *value.getUsers().begin();
    // Reshapes and the slice are created again, and would lose it.
    if (reader->hasAttr(kNoGradientAttr))
      return false;
    slice = dyn_cast<tensor::ExtractSliceOp>(reader);
    if (slice)
      return findRows() && getRows() * typeOf(layer.getX()).getDimSize(1) <
                               typeOf(layer.getY()).getNumElements();
    if (isElementwiseOf(reader, value))
      elementwise.push_back(reader);
    else if (!isa<tensor::ExpandShapeOp, tensor::CollapseShapeOp>(reader))
      return false;
    value = reader->getResult(0);
  }
  return false;
}

void SlicedLayer::rewrite() {
  OpBuilder b(slice);
  Location loc = slice.getLoc();
  Value x = layer.getX();
  const int64_t columns = getColumns(), inner = typeOf(x).getDimSize(1);
  shape.push_back(inner);
  offsets.push_back(0);
  sizes.push_back(inner);
  auto attributes = [&](ArrayRef<int64_t> values) {
    return getAsIndexOpFoldResult(b.getContext(), values);
  };
  x = tensor::ExtractSliceOp::create(
      b, loc, reshape(b, loc, x, shape), attributes(offsets), attributes(sizes),
      attributes(SmallVector<int64_t>(shape.size(), 1)));
  const SmallVector<int64_t> matrix = {getRows(), columns};

  IRMapping map;
  auto resized = [&](Operation *op) {
    Operation *made = b.clone(*op, map);
    made->getResult(0).setType(typeOf(op->getResult(0)).clone(matrix));
    return made->getResult(0);
  };
  x = reshape(b, loc, x, {getRows(), inner});
  Value y = resized(layer);
  // The weight may be the same value, and keeps its rows.
  y.getDefiningOp<LinearOp>().getXMutable().assign(x);
  for (Operation *op : elementwise) {
    for (Value operand : op->getOperands())
      if (DenseElementsAttr splat = splatOf(operand))
        map.map(operand,
                arith::ConstantOp::create(
                    b, loc, splat.resizeSplat(typeOf(operand).clone(matrix)))
                    .getResult());
      else
        map.map(operand, y);
    y = resized(op);
  }
  slice.replaceAllUsesWith(reshape(b, loc, y, slice.getType().getShape()));
}

namespace {
struct HoistSlices final : te::impl::HoistSlicesPassBase<HoistSlices> {
  using Base::Base;

  void runOnOperation() override {
    SmallVector<LinearOp> layers;
    getOperation().walk([&](LinearOp op) { layers.push_back(op); });
    for (LinearOp layer : layers) {
      SlicedLayer sliced(layer);
      if (!sliced.match())
        continue;
      sliced.rewrite();
      ++numHoisted;
      Operation *last = sliced.slice;
      while (last && isOpTriviallyDead(last)) {
        Operation *before = last == layer ? nullptr : producerOf(last);
        last->erase();
        last = before;
      }
    }
  }

  /// The op of the chain from the layer whose result `op` reads.
  static Operation *producerOf(Operation *op) {
    for (Value operand : op->getOperands())
      if (Operation *made = operand.getDefiningOp();
          made && !made->hasTrait<OpTrait::ConstantLike>())
        return made;
    return nullptr;
  }
};
} // namespace
