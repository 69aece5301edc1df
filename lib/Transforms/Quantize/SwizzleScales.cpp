//===- SwizzleScales.cpp - scales in the order of the tensor core ---------===//
//
// The operands of a GEMM get swizzled copies directly before it. All other ops
// read the plain values, so no other pass depends on the order of scales.
//
//===----------------------------------------------------------------------===//

#include "TEDialect/IR/TE.h"
#include "TEDialect/Transforms/Quantize/Passes.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace mlir::te {
#define GEN_PASS_DEF_SWIZZLESCALESPASS
#include "TEDialect/Transforms/Quantize/Passes.h.inc"
} // namespace mlir::te

using namespace mlir;
using namespace mlir::te;

namespace {
struct SwizzleScales final : te::impl::SwizzleScalesPassBase<SwizzleScales> {
  using Base::Base;

  void runOnOperation() override {
    // GEMMs of one block share the copy of an operand.
    DenseMap<std::pair<Block *, Value>, Value> swizzled;
    getOperation().walk([&](ScaledMatmulOp product) {
      OpBuilder builder(product);
      for (OpOperand *operand :
           {&product.getAMutable(), &product.getBMutable()}) {
        auto type = cast<ScaledType>(operand->get().getType());
        if ((!type.isMx() && !type.isNv()) || type.is(ScaleVariant::Swizzled))
          continue;
        Value &copy = swizzled[{product->getBlock(), operand->get()}];
        if (!copy) {
          copy = SwizzleScalesOp::create(builder, product.getLoc(),
                                         type.getSwizzled(), operand->get());
          ++numSwizzled;
        }
        operand->set(copy);
      }
    });
  }
};
} // namespace
