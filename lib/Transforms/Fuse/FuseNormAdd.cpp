//===- FuseNormAdd.cpp - additions in the norms beside them ---------------===//
//
// The residual connections of a transformer are sums that a norm reads next,
// and in the backward sums with what the gradient of a norm gives. Both kinds
// of norms take the other summand as their last operand.
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

/// The state of `op` with `addend` as its last operand, as it is declared.
template <typename Op> static OperationState withAddend(Op op, Value addend) {
  OperationState state(op.getLoc(), op->getName());
  state.addOperands(op->getOperands());
  state.addOperands(addend);
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
    OperationState state = withAddend(norm, add.getRhs());
    state.operands.front() = add.getLhs();
    state.addTypes(add.getType());
    auto &properties = state.getOrAddProperties<typename NormOp::Properties>();
    properties.resultSegmentSizes.back() = 1;
    OpBuilder builder(norm);
    auto fused = cast<NormOp>(builder.create(state));
    norm->replaceAllUsesWith(fused->getResults().drop_back());
    norm.erase();
    add.replaceAllUsesWith(fused.getSum());
    add.erase();
    return true;
  }

  /// Fuses a sum with the gradient of a norm that is one of its summands.
  template <typename BackwardOp> bool fuseGradient(arith::AddFOp add) {
    for (auto [mine, other] : {std::pair(add.getLhs(), add.getRhs()),
                               std::pair(add.getRhs(), add.getLhs())}) {
      auto backward = mine.getDefiningOp<BackwardOp>();
      if (!backward || mine != backward.getDx() || backward.getAddend() ||
          mine == other || backward->getBlock() != add->getBlock())
        continue;
      if (!mine.hasOneUse()) {
        decline(add, "the gradient of the norm has other uses");
        continue;
      }
      // Where both are known: at the gradient, or after the other summand.
      Operation *maker = other.getDefiningOp();
      Operation *place = backward;
      if (maker && maker->getBlock() == add->getBlock() &&
          backward->isBeforeInBlock(maker))
        place = maker->getNextNode();
      if (place != backward && llvm::any_of(backward->getResults().drop_front(),
                                            [&](Value gradient) {
                                              return isReadBefore(gradient,
                                                                  place);
                                            })) {
        decline(add,
                "the other summand is computed after a parameter's gradient "
                "is read");
        continue;
      }
      OpBuilder builder(place);
      auto fused =
          cast<BackwardOp>(builder.create(withAddend(backward, other)));
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
