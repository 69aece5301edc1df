//===- EmulateProducts.cpp - MX and FP4 products in high precision --------===//
//
// The operands are decoded and multiplied as any other matrices. Elements times
// block scales of FP4 are exact in bf16, so its amaxes become a factor of the
// sum. The origin of the product stays on its location, with a word that it is
// emulated.
//
//===----------------------------------------------------------------------===//

#include "TEDialect/Transforms/Quantize/GemmOrigin.h"
#include "TEDialect/Transforms/Quantize/Passes.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

#include <tuple>

namespace mlir::te {
#define GEN_PASS_DEF_EMULATEPRODUCTSPASS
#include "TEDialect/Transforms/Quantize/Passes.h.inc"
} // namespace mlir::te

using namespace mlir;
using namespace mlir::te;

static Location emulated(Location loc) {
  std::optional<GemmOrigin> origin = GemmOrigin::find(loc);
  if (!origin)
    return loc;
  origin->reason += ", emulated";
  return origin->attach(loc);
}

/// What products of one block share: an operand, its decoded element type, and
/// whether its amax is left out.
using Decoded = DenseMap<std::tuple<Block *, Value, Type, unsigned>, Value>;

static Value decode(OpBuilder &builder, TypedValue<ScaledType> scaled,
                    Type element, bool withoutAmax, Decoded &decoded) {
  Value &made =
      decoded[{builder.getInsertionBlock(), scaled, element, withoutAmax}];
  if (!made)
    made = DequantizeOp::create(
        builder, scaled.getLoc(),
        RankedTensorType::get(scaled.getType().getShape(), element), scaled,
        withoutAmax ? builder.getUnitAttr() : UnitAttr());
  return made;
}

static void emulate(ScaledMatmulOp product, Decoded &decoded) {
  OpBuilder builder(product);
  Location loc = emulated(product.getLoc());
  Type bf16 = builder.getBF16Type(), f32 = builder.getF32Type();
  RankedTensorType type = product.getOut().getType();
  auto a = product.getA(), b = product.getB();
  // A factor for each row cannot leave the sum: decode all of it, into f32.
  const bool rowScaled = a.getType().is(ScaleVariant::RowScaled);
  const bool withoutAmax = a.getType().isNv() && !rowScaled;
  // te.matmul gives its operands' type or f32, and with a bias only the first.
  const bool wide =
      rowScaled || (product.getBias() && !type.getElementType().isBF16());
  Type operand = wide ? f32 : bf16;
  RankedTensorType result =
      !wide && type.getElementType().isBF16() ? type : type.clone(f32);
  Value bias = product.getBias();
  if (bias && wide)
    bias = arith::ExtFOp::create(
        builder, loc, cast<RankedTensorType>(bias.getType()).clone(f32), bias);
  Value accumulate = product.getAccumulate();
  if (accumulate && accumulate.getType() != result)
    accumulate = arith::ExtFOp::create(builder, loc, result, accumulate);
  Value alpha;
  if (withoutAmax)
    alpha = NvFp4AlphaOp::create(builder, loc, RankedTensorType::get({}, f32),
                                 a, b);
  auto axis = [](TypedValue<ScaledType> scaled) {
    return static_cast<int64_t>(scaled.getType().getContract());
  };
  Value out = MatmulOp::create(
      builder, loc, result, decode(builder, a, operand, withoutAmax, decoded),
      decode(builder, b, operand, withoutAmax, decoded), alpha, bias,
      accumulate, builder.getDenseI64ArrayAttr({axis(a), axis(b)}));
  if (result != type)
    out = arith::TruncFOp::create(builder, loc, type, out);
  product.replaceAllUsesWith(out);
  product.erase();
}

namespace {
struct EmulateProducts final
    : te::impl::EmulateProductsPassBase<EmulateProducts> {
  using Base::Base;

  void runOnOperation() override {
    SmallVector<ScaledMatmulOp> products;
    getOperation().walk([&](ScaledMatmulOp product) {
      if (product.getA().getType().isMx() || product.getA().getType().isNv())
        products.push_back(product);
    });
    Decoded decoded;
    for (ScaledMatmulOp product : products) {
      emulate(product, decoded);
      ++numEmulated;
    }
  }
};
} // namespace
