//===- FuseNormAdd.cpp - additions in the norms beside them ---------------===//
//
// The residual connections of a transformer are sums that a norm reads next, or
// sums of what a norm gives, and in the backward sums of what the gradient of a
// norm gives. Norms and their gradients take the other summand. A norm that
// makes a summand adds rather than one that reads the sum: it need not store
// what it adds.
//
//===----------------------------------------------------------------------===//

#include "TEDialect/IR/TE.h"
#include "TEDialect/Transforms/Fuse/Passes.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Remarks.h"

namespace mlir::te {
#define GEN_PASS_DEF_FUSENORMADDPASS
#include "TEDialect/Transforms/Fuse/Passes.h.inc"
} // namespace mlir::te

using namespace mlir;
using namespace mlir::te;

/// The state of a copy of `op`.
template <typename Op> static OperationState stateOf(Op op) {
  OperationState state(op.getLoc(), op->getName());
  state.addOperands(op->getOperands());
  state.addAttributes(llvm::to_vector(op->getDiscardableAttrs()));
  state.getOrAddProperties<typename Op::Properties>() = op.getProperties();
  state.addTypes(op->getResultTypes());
  return state;
}

/// Whether an op before `op`, or in another block, reads `value`.
static bool isReadBefore(Value value, Operation *op) {
  return llvm::any_of(value.getUsers(), [&](Operation *user) {
    return user != op &&
           (user->getBlock() != op->getBlock() || user->isBeforeInBlock(op));
  });
}

namespace {
struct FuseNormAdd final : te::impl::FuseNormAddPassBase<FuseNormAdd> {
  using Base::Base;

  void runOnOperation() override {
    SmallVector<arith::AddFOp> additions;
    getOperation().walk([&](arith::AddFOp op) { additions.push_back(op); });
    for (arith::AddFOp add : additions)
      numFused += fuseGradient<RmsNormBackwardOp>(add) ||
                  fuseGradient<LayerNormBackwardOp>(add) ||
                  fuseNorm<RmsNormOp>(add) || fuseNorm<LayerNormOp>(add) ||
                  fuseSum<RmsNormOp>(add) || fuseSum<LayerNormOp>(add);
  }

  static void decline(arith::AddFOp add, StringRef reason) {
    remark::missed(add.getLoc(),
                   remark::RemarkOpts::name("norm-add").category("fuse"))
        << reason;
  }

  /// Fuses a sum with the norm that reads it.
  template <typename NormOp> bool fuseSum(arith::AddFOp add) {
    NormOp norm;
    for (Operation *user : add->getUsers())
      if (auto found = dyn_cast<NormOp>(user);
          found && found.getX() == add.getResult() && !found.getAddend() &&
          found->getBlock() == add->getBlock() &&
          (!norm || found->isBeforeInBlock(norm)))
        norm = found;
    if (!norm)
      return false;
    if (isReadBefore(add, norm)) {
      decline(add, "the sum is read before the norm");
      return false;
    }
    OperationState state = stateOf(norm);
    state.addTypes(add.getType());
    auto &properties = state.getOrAddProperties<typename NormOp::Properties>();
    properties.resultSegmentSizes.back() = 1;
    OpBuilder builder(norm);
    auto fused = cast<NormOp>(builder.create(state));
    fused.getXMutable().assign(add.getLhs());
    fused.getAddendMutable().assign(add.getRhs());
    norm->replaceAllUsesWith(fused->getResults().drop_back());
    norm.erase();
    add.replaceAllUsesWith(fused.getSum());
    add.erase();
    return true;
  }

  /// Where `op`, which makes a summand of `add`, can add `other`: at `op`
  /// itself or, if that is later, after what makes `other`. Null, with a
  /// remark, if another result of `op` is read before.
  static Operation *placeOf(arith::AddFOp add, Operation *op, Value other) {
    Operation *maker = other.getDefiningOp();
    if (!maker || maker->getBlock() != add->getBlock() ||
        !op->isBeforeInBlock(maker))
      return op;
    Operation *place = maker->getNextNode();
    auto isRead = [&](Value result) { return isReadBefore(result, place); };
    if (llvm::none_of(op->getResults().drop_front(), isRead))
      return place;
    decline(add, "the other summand is computed after another result of the "
                 "norm is read");
    return nullptr;
  }

  /// Fuses a sum with the norm that is one of its summands.
  template <typename NormOp> bool fuseNorm(arith::AddFOp add) {
    for (auto [mine, other] : {std::pair(add.getLhs(), add.getRhs()),
                               std::pair(add.getRhs(), add.getLhs())}) {
      auto norm = mine.getDefiningOp<NormOp>();
      if (!norm || mine != norm.getY() || norm.getBase() || norm.getAmax() ||
          norm == other.getDefiningOp() || norm->getBlock() != add->getBlock())
        continue;
      if (!mine.hasOneUse()) {
        decline(add, "the norm has other uses");
        continue;
      }
      Operation *place = placeOf(add, norm, other);
      if (!place)
        continue;
      OpBuilder builder(place);
      auto fused = cast<NormOp>(builder.create(stateOf(norm)));
      fused.getBaseMutable().assign(other);
      add.replaceAllUsesWith(fused.getY());
      add.erase();
      norm->replaceAllUsesWith(fused->getResults());
      norm.erase();
      return true;
    }
    return false;
  }

  /// Fuses a sum with the gradient of a norm that is one of its summands.
  template <typename BackwardOp> bool fuseGradient(arith::AddFOp add) {
    for (auto [mine, other] : {std::pair(add.getLhs(), add.getRhs()),
                               std::pair(add.getRhs(), add.getLhs())}) {
      auto backward = mine.getDefiningOp<BackwardOp>();
      if (!backward || mine != backward.getDx() || backward.getAddend() ||
          backward.getAmax() || mine == other ||
          backward->getBlock() != add->getBlock())
        continue;
      if (!mine.hasOneUse()) {
        decline(add, "the gradient of the norm has other uses");
        continue;
      }
      Operation *place = placeOf(add, backward, other);
      if (!place)
        continue;
      OpBuilder builder(place);
      auto fused = cast<BackwardOp>(builder.create(stateOf(backward)));
      fused.getAddendMutable().assign(other);
      add.replaceAllUsesWith(fused.getDx());
      add.erase();
      backward->replaceAllUsesWith(fused->getResults());
      backward.erase();
      return true;
    }
    return false;
  }
};
} // namespace
