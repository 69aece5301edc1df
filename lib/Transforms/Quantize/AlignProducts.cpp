//===- AlignProducts.cpp - matmuls of sizes that a GPU multiplies fast ----===//
//
// The last axis of a matrix is that of its rows in memory, so only these axes
// are padded: of the operands and of the result.
//
//===----------------------------------------------------------------------===//

#include "TEDialect/Analysis/GemmOrigin.h"
#include "TEDialect/IR/TE.h"
#include "TEDialect/Transforms/Quantize/Passes.h"
#include "TEDialect/Transforms/Utils/Padding.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/Support/MathExtras.h"

namespace mlir::te {
#define GEN_PASS_DEF_ALIGNPRODUCTSPASS
#include "TEDialect/Transforms/Quantize/Passes.h.inc"
} // namespace mlir::te

using namespace mlir;
using namespace mlir::te;

/// Elements of 16 bits in the 16 bytes that rows are multiples of.
static constexpr int64_t kAlignment = 8;

namespace {
/// The sizes of a matmul by name: rows and columns of the result, and terms of
/// each sum.
struct Sizes {
  int64_t m, n, k;
  bool operator==(const Sizes &) const = default;
};

struct AlignProducts final : te::impl::AlignProductsPassBase<AlignProducts> {
  using Base::Base;

  void runOnOperation() override {
    paddedValues.clear();
    SmallVector<MatmulOp> products;
    getOperation().walk([&](MatmulOp op) { products.push_back(op); });
    for (MatmulOp op : products)
      align(op);
  }

private:
  void align(MatmulOp op);
  Value padded(OpBuilder &builder, Value operand, ArrayRef<int64_t> shape);

  /// What was padded already in a block, by value and type.
  DenseMap<std::tuple<Block *, Value, Type>, Value> paddedValues;
};
} // namespace

static Sizes sizesOf(MatmulOp op) {
  ArrayRef<int64_t> out = op.getOut().getType().getShape();
  return {out[0], out[1], op.getA().getType().getDimSize(op.getContract()[0])};
}

/// The sizes with each one that is the length of rows in memory rounded up.
static Sizes alignedSizes(MatmulOp op) {
  Sizes sizes = sizesOf(op);
  const auto alignUp = [](int64_t &size) {
    size = llvm::alignTo(size, kAlignment);
  };
  alignUp(op.getContract()[0] == 1 ? sizes.k : sizes.m);
  alignUp(op.getContract()[1] == 1 ? sizes.k : sizes.n);
  alignUp(sizes.n);
  return sizes;
}

Value AlignProducts::padded(OpBuilder &builder, Value operand,
                            ArrayRef<int64_t> shape) {
  auto type = cast<RankedTensorType>(operand.getType()).clone(shape);
  Value &made = paddedValues[{builder.getInsertionBlock(), operand, type}];
  if (!made)
    made = padWithZeros(builder, operand, shape);
  return made;
}

void AlignProducts::align(MatmulOp op) {
  const Sizes given = sizesOf(op), sizes = alignedSizes(op);
  auto type = cast<RankedTensorType>(op.getOut().getType());
  if (given == sizes || op.getA().getType().getElementTypeBitWidth() != 16 ||
      given.m * given.n < least / std::max<int64_t>(given.k, 1))
    return;
  OpBuilder builder(op);
  const auto shapeFor = [&](unsigned contract, int64_t free) {
    return contract == 1 ? SmallVector<int64_t>{free, sizes.k}
                         : SmallVector<int64_t>{sizes.k, free};
  };
  Value a = padded(builder, op.getA(), shapeFor(op.getContract()[0], sizes.m));
  Value b = padded(builder, op.getB(), shapeFor(op.getContract()[1], sizes.n));
  Value bias = op.getBias(), accumulate = op.getAccumulate();
  if (bias)
    bias = padded(builder, bias, {sizes.n});
  if (accumulate)
    accumulate = padded(builder, accumulate, {sizes.m, sizes.n});
  Location loc = op.getLoc();
  if (std::optional<GemmOrigin> origin = GemmOrigin::find(loc)) {
    std::string text;
    describePadding('M', given.m, sizes.m, text);
    describePadding('N', given.n, sizes.n, text);
    describePadding('K', given.k, sizes.k, text);
    origin->reason += ", padded: " + text;
    loc = origin->attach(loc);
  }
  auto product =
      MatmulOp::create(builder, loc, type.clone({sizes.m, sizes.n}), a, b,
                       op.getAlpha(), bias, accumulate, op.getContractAttr());
  op.replaceAllUsesWith(cutTo(builder, loc, product.getOut(), type));
  op.erase();
  ++numAligned;
}
