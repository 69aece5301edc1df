//===- EmulateProducts.cpp - MX and FP4 GEMMs in high precision -----------===//
//
// The operands are dequantised and multiplied like other matrices. The product
// of an FP4 element and its block scale is exact in bf16, so the amaxes become
// a factor of the sum. The location of the GEMM keeps its origin, marked as
// emulated.
//
//===----------------------------------------------------------------------===//

#include "TEDialect/Analysis/GemmOrigin.h"
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

/// The dequantised operands that the GEMMs of one block share, by operand,
/// element type, whether the amax is left out, and sizes of groups.
using Decoded =
    DenseMap<std::tuple<Block *, Value, Type, unsigned, Value>, Value>;

/// Dequantises `scaled`; `groupSizes` are the sizes of its groups, if any.
static Value decode(OpBuilder &builder, TypedValue<ScaledType> scaled,
                    Type element, bool withoutAmax, Decoded &decoded,
                    Value groupSizes = {}, IntegerAttr alignment = {}) {
  Value &made = decoded[{builder.getInsertionBlock(), scaled, element,
                         withoutAmax, groupSizes}];
  if (made)
    return made;
  return made = DequantizeOp::create(
             builder, scaled.getLoc(),
             RankedTensorType::get(scaled.getType().getShape(), element),
             scaled, groupSizes,
             groupSizes ? alignment : builder.getI64IntegerAttr(0),
             withoutAmax ? builder.getUnitAttr() : UnitAttr());
}

/// How a GEMM is emulated: the type of its dequantised operands and of its
/// sums.
struct Emulation {
  explicit Emulation(Type a, RankedTensorType result, bool hasBias) {
    auto scaled = cast<ScaledType>(a);
    Builder builder(a.getContext());
    // One factor for each row cannot be alpha, so the operand includes it, in
    // f32.
    const bool rowScaled = scaled.is(ScaleVariant::RowScaled);
    withoutAmax = scaled.isNv() && !rowScaled;
    // The result of te.matmul has the type of its operands or is f32; with a
    // bias, it has the type of its operands.
    wide = rowScaled || (hasBias && !result.getElementType().isBF16());
    operand = wide ? Type(builder.getF32Type()) : builder.getBF16Type();
    sum = !wide && result.getElementType().isBF16()
              ? result
              : result.clone(builder.getF32Type());
  }

  /// `accumulate` in the type of the sum, or null.
  Value addend(OpBuilder &builder, Location loc, Value accumulate) const {
    return accumulate && accumulate.getType() != sum
               ? arith::ExtFOp::create(builder, loc, sum, accumulate)
               : accumulate;
  }

  bool withoutAmax, wide;
  Type operand;
  RankedTensorType sum;
};

static Value inF32(OpBuilder &builder, Location loc, Value value) {
  return arith::ExtFOp::create(
      builder, loc,
      cast<RankedTensorType>(value.getType()).clone(builder.getF32Type()),
      value);
}

/// Replaces `product` with `sum`, rounded to the type of `product`'s result.
static void replace(OpBuilder &builder, Location loc, Operation *product,
                    Value sum) {
  Type type = product->getResult(0).getType();
  if (sum.getType() != type)
    sum = arith::TruncFOp::create(builder, loc, type, sum);
  product->getResult(0).replaceAllUsesWith(sum);
  product->erase();
}

static void emulate(ScaledMatmulOp product, Decoded &decoded) {
  OpBuilder builder(product);
  Location loc = emulated(product.getLoc());
  auto a = product.getA(), b = product.getB();
  Emulation as(a.getType(), product.getOut().getType(),
               static_cast<bool>(product.getBias()));
  Value bias = product.getBias();
  if (bias && as.wide)
    bias = inF32(builder, loc, bias);
  Value accumulate = as.addend(builder, loc, product.getAccumulate());
  Value alpha;
  if (as.withoutAmax)
    alpha = NvFp4AlphaOp::create(builder, loc, a, b);
  auto axis = [](TypedValue<ScaledType> scaled) {
    return static_cast<int64_t>(scaled.getType().getContract());
  };
  replace(
      builder, loc, product,
      MatmulOp::create(builder, loc, as.sum,
                       decode(builder, a, as.operand, as.withoutAmax, decoded),
                       decode(builder, b, as.operand, as.withoutAmax, decoded),
                       alpha, bias, accumulate,
                       builder.getDenseI64ArrayAttr({axis(a), axis(b)})));
}

static void emulate(GroupedScaledMatmulOp product, Decoded &decoded) {
  OpBuilder builder(product);
  Location loc = emulated(product.getLoc());
  auto a = product.getA(), b = product.getB();
  Emulation as(a.getType(), product.getOut().getType(),
               static_cast<bool>(product.getBias()));
  Value bias = product.getBias();
  if (bias && as.wide)
    bias = inF32(builder, loc, bias);
  Value alpha;
  if (as.withoutAmax)
    alpha = NvFp4AlphaOp::create(builder, loc, a, b);
  Value sizes = product.getGroupSizes();
  replace(builder, loc, product,
          GroupedMatmulOp::create(
              builder, loc, as.sum,
              decode(builder, a, as.operand, as.withoutAmax, decoded, sizes,
                     product.getAlignmentAttr()),
              decode(builder, b, as.operand, as.withoutAmax, decoded), sizes,
              alpha, bias, builder.getI64IntegerAttr(b.getType().getContract()),
              product.getAlignmentAttr()));
}

static void emulate(GroupedScaledWgradOp product, Decoded &decoded) {
  OpBuilder builder(product);
  Location loc = emulated(product.getLoc());
  auto a = product.getA(), b = product.getB();
  Emulation as(a.getType(), product.getOut().getType(), /*hasBias=*/false);
  Value alpha;
  if (as.withoutAmax)
    alpha = NvFp4AlphaOp::create(builder, loc, a, b);
  Value sizes = product.getGroupSizes();
  auto operand = [&](TypedValue<ScaledType> scaled) {
    return decode(builder, scaled, as.operand, as.withoutAmax, decoded, sizes,
                  product.getAlignmentAttr());
  };
  replace(builder, loc, product,
          GroupedWgradOp::create(
              builder, loc, as.sum, operand(a), operand(b), sizes, alpha,
              as.addend(builder, loc, product.getAccumulate()),
              product.getAlignmentAttr()));
}

namespace {
struct EmulateProducts final
    : te::impl::EmulateProductsPassBase<EmulateProducts> {
  using Base::Base;

  void runOnOperation() override {
    Decoded decoded;
    emulateAll<ScaledMatmulOp>(decoded);
    emulateAll<GroupedScaledMatmulOp>(decoded);
    emulateAll<GroupedScaledWgradOp>(decoded);
  }

private:
  template <typename ProductOp> void emulateAll(Decoded &decoded) {
    SmallVector<ProductOp> products;
    getOperation().walk([&](ProductOp product) {
      if (product.getA().getType().isMx() || product.getA().getType().isNv())
        products.push_back(product);
    });
    for (ProductOp product : products) {
      emulate(product, decoded);
      ++numEmulated;
    }
  }
};
} // namespace
