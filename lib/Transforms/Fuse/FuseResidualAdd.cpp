//===- FuseResidualAdd.cpp - residuals in the matmul's epilogue -----------===//
//
// A block-scaled matmul is defined to round its result before it adds
// `accumulate`, which is what a separate addition of the rounded result does. A
// per-tensor matmul adds in f32 and rounds once, so it is not fused.
//
//===----------------------------------------------------------------------===//

#include "TEDialect/IR/TE.h"
#include "TEDialect/Transforms/Fuse/Passes.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Remarks.h"

namespace mlir::te {
#define GEN_PASS_DEF_FUSERESIDUALADDPASS
#include "TEDialect/Transforms/Fuse/Passes.h.inc"
} // namespace mlir::te

using namespace mlir;
using namespace mlir::te;

/// Why an addition cannot be fused into the epilogue of `product`; empty if it
/// can.
static StringRef whyNot(ScaledMatmulOp product) {
  auto scheme = cast<ScaledType>(product.getA().getType()).getScheme();
  if (scheme == Scheme::PerTensor)
    return "a per-tensor matmul does not round before the addition";
  if (scheme != Scheme::Block1x128)
    return "only matmuls whose 'a' has 1x128 blocks round before they add";
  if (product.getOut().getType().getElementType().isF16())
    return "an f16 matmul does not round before the addition on every target";
  if (!product->hasOneUse())
    return "the result of the matmul has other uses";
  if (product.getAccumulate() || product.getBias())
    return "the matmul has an epilogue already";
  return {};
}

namespace {
struct FuseResidualAdd final
    : te::impl::FuseResidualAddPassBase<FuseResidualAdd> {
  using Base::Base;

  void runOnOperation() override {
    SmallVector<arith::AddFOp> additions;
    getOperation().walk([&](arith::AddFOp op) { additions.push_back(op); });
    for (arith::AddFOp add : additions) {
      std::pair inOrder{add.getLhs(), add.getRhs()};
      std::pair swapped{add.getRhs(), add.getLhs()};
      // If both summands are matmuls, the later one adds, so that neither
      // moves.
      if (isLater(add.getRhs(), add.getLhs()))
        std::swap(inOrder, swapped);
      for (auto [mine, other] : {inOrder, swapped}) {
        auto product = mine.getDefiningOp<ScaledMatmulOp>();
        if (product && fuse(add, product, other))
          break;
      }
    }
  }

  /// True if both are computed in one block, and `a` after `b`.
  static bool isLater(Value a, Value b) {
    Operation *aMaker = a.getDefiningOp(), *bMaker = b.getDefiningOp();
    return aMaker && bMaker && aMaker != bMaker &&
           aMaker->getBlock() == bMaker->getBlock() &&
           bMaker->isBeforeInBlock(aMaker);
  }

  bool fuse(arith::AddFOp add, ScaledMatmulOp product, Value other) {
    if (StringRef reason = whyNot(product); !reason.empty()) {
      remark::missed(add.getLoc(),
                     remark::RemarkOpts::name("residual-add").category("fuse"))
          << reason;
      return false;
    }
    // Place the matmul as early as possible, so that its operands are not alive
    // for longer than before.
    OpBuilder builder(product);
    if (Operation *maker = other.getDefiningOp();
        maker && isLater(other, product.getOut()))
      builder.setInsertionPointAfter(maker);
    else if (maker
                 ? maker->getBlock() != product->getBlock()
                 : cast<BlockArgument>(other).getOwner() != product->getBlock())
      builder.setInsertionPoint(add);
    auto fused = ScaledMatmulOp::create(
        builder, product.getLoc(), add.getType(), product.getA(),
        product.getB(), Value(), other, product.getFastAccumulationAttr(),
        product.getContractAttr());
    fused->setDiscardableAttrs(product->getDiscardableAttrDictionary());
    add.replaceAllUsesWith(fused.getOut());
    add.erase();
    product.erase();
    ++numFused;
    return true;
  }
};
} // namespace
