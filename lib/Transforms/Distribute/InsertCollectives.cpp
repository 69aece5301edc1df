//===- InsertCollectives.cpp - te-insert-collectives ----------------------===//
//
// A parallel layer is a layer on the tensors of all its ranks. This file alone
// defines the collectives that this takes, for the forward and both gradients,
// in high precision. It does not depend on the recipe, because te-insert-casts
// moves casts before gathers if that is exact.
//
//===----------------------------------------------------------------------===//

#include "TEDialect/IR/TE.h"
#include "TEDialect/Transforms/Distribute/Passes.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "llvm/ADT/TypeSwitch.h"

namespace mlir::te {
#define GEN_PASS_DEF_INSERTCOLLECTIVESPASS
#include "TEDialect/Transforms/Distribute/Passes.h.inc"
} // namespace mlir::te

using namespace mlir;
using namespace mlir::te;

namespace {

/// Rewrites one parallel op.
class LayerSplitter {
public:
  LayerSplitter(Operation *op, ParallelAttr parallel)
      : op(op), parallel(parallel), builder(op),
        ranks(lookupGroup(op, parallel.getGroup()).getSize()) {}

  unsigned numCollectives = 0;

  void split(LinearOp linear) {
    Value x = gathersX() ? gather(linear.getX()) : linear.getX();
    // The bias is added to the sum and not to each summand.
    Value bias = parallel.isRow() && ranks > 1 ? Value() : linear.getBias();
    auto local = LinearOp::create(
        builder, op->getLoc(), rowsOf(linear.getY().getType(), rows(x)), x,
        linear.getW(), bias, /*parallel=*/ParallelAttr());
    Value y = parallel.isRow() ? reduce(local.getY()) : local.getY();
    if (linear.getBias() && !bias)
      y = BiasAddOp::create(builder, op->getLoc(), y.getType(), y,
                            linear.getBias());
    finish(local, y);
  }

  void split(LinearDgradOp dgrad) {
    Value dy = gathersDy() ? gather(dgrad.getDy()) : dgrad.getDy();
    auto local = LinearDgradOp::create(
        builder, op->getLoc(), rowsOf(dgrad.getDx().getType(), rows(dy)), dy,
        dgrad.getW(), /*parallel=*/ParallelAttr());
    finish(local, parallel.isColumn() ? reduce(local.getDx()) : local.getDx());
  }

  void split(LinearWgradOp wgrad) {
    Value dy = gathersDy() ? gather(wgrad.getDy()) : wgrad.getDy();
    Value x = gathersX() ? gather(wgrad.getX()) : wgrad.getX();
    auto local = LinearWgradOp::create(
        builder, op->getLoc(), wgrad.getDw().getType(), dy, x,
        wgrad.getAccumulate(), /*parallel=*/ParallelAttr());
    finish(local, local.getDw());
  }

private:
  bool gathersX() const {
    return parallel.isColumn() && parallel.getSequence() && ranks > 1;
  }
  bool gathersDy() const {
    return parallel.isRow() && parallel.getSequence() && ranks > 1;
  }

  static int64_t rows(Value value) {
    return cast<RankedTensorType>(value.getType()).getDimSize(0);
  }
  static RankedTensorType rowsOf(Type type, int64_t rows) {
    auto tensor = cast<RankedTensorType>(type);
    return tensor.clone({rows, tensor.getDimSize(1)});
  }

  Value gather(Value part) {
    ++numCollectives;
    return AllGatherOp::create(builder, op->getLoc(),
                               rowsOf(part.getType(), rows(part) * ranks), part,
                               parallel.getGroup(), /*axis=*/0);
  }

  /// The sum over the group, or this rank's part of its rows.
  Value reduce(Value summand) {
    if (ranks == 1)
      return summand;
    ++numCollectives;
    if (!parallel.getSequence())
      return AllReduceOp::create(builder, op->getLoc(), summand.getType(),
                                 summand, parallel.getGroup());
    return ReduceScatterOp::create(
        builder, op->getLoc(), rowsOf(summand.getType(), rows(summand) / ranks),
        summand, parallel.getGroup(), /*axis=*/0);
  }

  void finish(Operation *local, Value result) {
    local->setDiscardableAttrs(op->getDiscardableAttrDictionary());
    op->getResult(0).replaceAllUsesWith(result);
    op->erase();
  }

  Operation *op;
  ParallelAttr parallel;
  OpBuilder builder;
  int64_t ranks;
};

/// `value` in f32. If it has no other reader, its own op computes it in f32.
Value widen(OpBuilder &builder, Value value) {
  auto type = cast<RankedTensorType>(value.getType());
  auto wide = type.clone(builder.getF32Type());
  Operation *made = value.getDefiningOp();
  auto product = [&](auto wgrad) {
    return wgrad && !wgrad.getAccumulate() && value.hasOneUse();
  };
  if (auto wgrad = dyn_cast_or_null<LinearWgradOp>(made); product(wgrad)) {
    wgrad.getDw().setType(wide);
    return value;
  }
  if (auto wgrad = dyn_cast_or_null<GroupedLinearWgradOp>(made);
      product(wgrad)) {
    wgrad.getDw().setType(wide);
    return value;
  }
  // The gradient of a flat shard is a view of the result of the GEMM.
  if (auto flat = dyn_cast_or_null<tensor::CollapseShapeOp>(made);
      flat && value.hasOneUse()) {
    builder.setInsertionPoint(flat);
    Value source = widen(builder, flat.getSrc());
    builder.setInsertionPointAfter(flat);
    Value result = tensor::CollapseShapeOp::create(
        builder, flat.getLoc(), wide, source, flat.getReassociationAttr());
    return result;
  }
  return arith::ExtFOp::create(builder, value.getLoc(), wide, value);
}

/// Computes a sum over ranks in f32 if the sum is widened afterwards, so that
/// the gradient of a master weight is never rounded.
template <typename SumOp, typename CreateFn>
bool widenSum(arith::ExtFOp widened, CreateFn create) {
  auto sum = widened.getIn().getDefiningOp<SumOp>();
  if (!sum || !sum.getY().hasOneUse() ||
      !getElementTypeOrSelf(widened.getType()).isF32())
    return false;
  OpBuilder builder(sum);
  Value x = widen(builder, sum.getX());
  builder.setInsertionPoint(sum);
  widened.replaceAllUsesWith(create(builder, sum, x).getResult());
  widened.erase();
  Operation *made = sum.getX().getDefiningOp();
  sum.erase();
  // A view of the op that now has an f32 result.
  if (made && isOpTriviallyDead(made))
    made->erase();
  return true;
}

struct InsertCollectives final
    : te::impl::InsertCollectivesPassBase<InsertCollectives> {
  using Base::Base;

  void runOnOperation() override {
    SmallVector<Operation *> layers;
    SmallVector<arith::ExtFOp> widened;
    getOperation().walk([&](arith::ExtFOp op) { widened.push_back(op); });
    for (arith::ExtFOp op : widened)
      numWidened +=
          widenSum<ReduceScatterOp>(
              op,
              [&](OpBuilder &b, ReduceScatterOp sum, Value x) {
                return ReduceScatterOp::create(b, sum.getLoc(), op.getType(), x,
                                               sum.getGroup(), sum.getAxis());
              }) ||
          widenSum<AllReduceOp>(
              op, [&](OpBuilder &b, AllReduceOp sum, Value x) {
                return AllReduceOp::create(b, sum.getLoc(), op.getType(), x,
                                           sum.getGroup());
              });
    getOperation().walk([&](Operation *op) {
      if (isa<LinearOp, LinearDgradOp, LinearWgradOp>(op))
        layers.push_back(op);
    });
    for (Operation *op : layers)
      llvm::TypeSwitch<Operation *>(op)
          .Case<LinearOp, LinearDgradOp, LinearWgradOp>([&](auto layer) {
            if (ParallelAttr parallel = layer.getParallelAttr()) {
              LayerSplitter splitter(layer, parallel);
              splitter.split(layer);
              numCollectives += splitter.numCollectives;
            }
          });
  }
};

} // namespace
