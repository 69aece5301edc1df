//===- LayerGemms.cpp - the GEMMs of linear layers and their operands -----===//
//
// The sizes of groups are those that the forward computed. A backward GEMM
// reads them through te.residual, which is the identity, and both must have the
// same value.
//
//===----------------------------------------------------------------------===//

#include "LayerGemms.h"
#include "ZeroPadding.h"

#include "TEDialect/Transforms/Utils/Padding.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace mlir::te;

static ArrayRef<int64_t> shapeOf(Value value) {
  return cast<ShapedType>(value.getType()).getShape();
}

Value Operand::whole() const {
  if (view)
    return tensor::ExpandShapeOp(view).getResult();
  return gather ? AllGatherOp(gather).getY() : value;
}

SmallVector<int64_t, 3> Operand::castShape() const {
  SmallVector<int64_t, 3> sizes(shape());
  for (auto [size, zeros] :
       llvm::zip(MutableArrayRef(sizes).take_back(2), padding))
    size += zeros;
  return sizes;
}

SmallVector<int64_t, 1> Operand::perGroup() const {
  if (!hasGroups())
    return {};
  return {isStack() ? shape()[0] : shapeOf(groupSizes)[0]};
}

/// Describes `value` as an operand of a GEMM; if it is gathered, the operand is
/// this rank's part.
static Operand describeOperand(Value value, TensorRole role,
                               unsigned contract) {
  auto view = value.getDefiningOp<tensor::ExpandShapeOp>();
  auto gather = (view ? view.getSrc() : value).getDefiningOp<AllGatherOp>();
  if (!gather || gather.getAxis() != 0 ||
      (view && (role != TensorRole::W || shapeOf(view.getSrc()).size() != 1)))
    return {value, role, contract};
  Operand operand = {gather.getX(), role, contract};
  operand.gather = gather;
  operand.view = view;
  return operand;
}

/// Describes a weight that is contracted along `axis`, or along the other axis
/// if it is transposed.
static Operand describeWeight(Value value, bool isTransposed, unsigned axis) {
  Operand operand =
      describeOperand(value, TensorRole::W, isTransposed ? 1 - axis : axis);
  operand.isTransposed = isTransposed;
  return operand;
}

/// Describes rows in groups that are contracted along axis `contract`.
template <typename GroupedOp>
static Operand describeRows(GroupedOp op, Value rows, TensorRole role,
                            unsigned contract) {
  return {rows, role, contract, behindResiduals(op.getGroupSizes()),
          static_cast<int64_t>(op.getAlignment())};
}

static LayerGemm describe(GroupedLinearOp linear) {
  ArrayRef<int64_t> w = shapeOf(linear.getW());
  return {linear,
          Gemm::Fprop,
          describeRows(linear, linear.getX(), TensorRole::X, 1),
          {linear.getW(), TensorRole::W, 1},
          linear.getBias(),
          {static_cast<int64_t>(linear.getAlignment()), w[1], w[2]},
          linear.getGroupSizes()};
}

static LayerGemm describe(GroupedLinearDgradOp dgrad) {
  ArrayRef<int64_t> w = shapeOf(dgrad.getW());
  return {dgrad,
          Gemm::Dgrad,
          describeRows(dgrad, dgrad.getDy(), TensorRole::Dy, 1),
          {dgrad.getW(), TensorRole::W, 0},
          {},
          {static_cast<int64_t>(dgrad.getAlignment()), w[1], w[2]},
          dgrad.getGroupSizes()};
}

static LayerGemm describe(GroupedLinearWgradOp wgrad) {
  return {wgrad,
          Gemm::Wgrad,
          describeRows(wgrad, wgrad.getDy(), TensorRole::Dy, 0),
          describeRows(wgrad, wgrad.getX(), TensorRole::X, 0),
          {},
          {static_cast<int64_t>(wgrad.getAlignment()),
           shapeOf(wgrad.getDy())[1], shapeOf(wgrad.getX())[1]},
          wgrad.getGroupSizes(),
          wgrad.getAccumulate()};
}

static LayerGemm describe(LinearOp linear) {
  ArrayRef<int64_t> x = shapeOf(linear.getX()), y = shapeOf(linear.getY());
  return {linear,
          Gemm::Fprop,
          describeOperand(linear.getX(), TensorRole::X, 1),
          describeWeight(linear.getW(), linear.getTransposedWeight(), 1),
          linear.getBias(),
          {x[0], y[1], x[1]}};
}

static LayerGemm describe(LinearDgradOp dgrad) {
  ArrayRef<int64_t> dy = shapeOf(dgrad.getDy()), dx = shapeOf(dgrad.getDx());
  return {dgrad,
          Gemm::Dgrad,
          describeOperand(dgrad.getDy(), TensorRole::Dy, 1),
          describeWeight(dgrad.getW(), dgrad.getTransposedWeight(), 0),
          {},
          {dy[0], dy[1], dx[1]}};
}

static LayerGemm describe(LinearWgradOp wgrad) {
  ArrayRef<int64_t> dy = shapeOf(wgrad.getDy()), x = shapeOf(wgrad.getX());
  LayerGemm gemm = {wgrad,
                    Gemm::Wgrad,
                    describeOperand(wgrad.getDy(), TensorRole::Dy, 0),
                    describeOperand(wgrad.getX(), TensorRole::X, 0),
                    {},
                    {dy[0], dy[1], x[1]},
                    /*groupSizes=*/{},
                    wgrad.getAccumulate(),
                    wgrad.getTransposedWeight()};
  // The gradient of a weight [K, N] is x^T dy.
  if (gemm.isTransposed)
    std::swap(gemm.a, gemm.b);
  return gemm;
}

bool te::isForwardLayer(Operation *op) {
  return isa<LinearOp, GroupedLinearOp>(op);
}

bool te::isBackwardLayer(Operation *op) {
  return isa<LinearDgradOp, LinearWgradOp, GroupedLinearDgradOp,
             GroupedLinearWgradOp>(op);
}

LayerGemm te::describeLayerGemm(Operation *op) {
  return llvm::TypeSwitch<Operation *, LayerGemm>(op)
      .Case<LinearOp, LinearDgradOp, LinearWgradOp, GroupedLinearOp,
            GroupedLinearDgradOp, GroupedLinearWgradOp>(
          [](auto layer) { return describe(layer); });
}

std::string te::refuseMode(const LayerGemm &gemm, const QuantPolicy &policy,
                           OperandMode mode) {
  if (gemm.groupSizes && mode != OperandMode::HighPrecision)
    if (std::string rule = policy.alignmentRefusal(
            mode == OperandMode::Dequantized ? Gemm::Fprop : gemm.gemm,
            gemm.alignment());
        !rule.empty())
      return rule;
  auto elementType = [](Value value) {
    return cast<ShapedType>(value.getType()).getElementType();
  };
  return policy.refusal(gemm.gemm,
                        {elementType(gemm.a.value), elementType(gemm.b.value)},
                        elementType(gemm.op->getResult(0)),
                        static_cast<bool>(gemm.bias), gemm.isTransposed);
}

/// `bias`, which is f32, bf16 or null, in bf16, as quantised GEMMs need it.
static Value biasInBF16(OpBuilder &builder, Value bias) {
  if (!bias)
    return bias;
  auto type = cast<RankedTensorType>(bias.getType());
  if (type.getElementType().isBF16())
    return bias;
  return arith::TruncFOp::create(builder, bias.getLoc(),
                                 type.clone(builder.getBF16Type()), bias);
}

Operation *te::createScaledGemm(OpBuilder &builder, Location loc,
                                const LayerGemm &gemm, Value a, Value b,
                                bool fastAccumulation) {
  auto type = cast<RankedTensorType>(gemm.op->getResult(0).getType());
  auto shape = llvm::to_vector(type.getShape());
  for (auto [size, operand] :
       llvm::zip(MutableArrayRef(shape).take_back(2),
                 std::array<const Operand *, 2>{&gemm.a, &gemm.b}))
    size += operand->padding[1 - operand->contract];
  type = type.clone(shape);
  Value bias = biasInBF16(builder, gemm.bias);
  if (bias) {
    SmallVector<int64_t, 2> sizes(shapeOf(bias));
    sizes.back() = shape.back();
    bias = padWithZeros(builder, bias, sizes);
  }
  Value accumulate = gemm.accumulate;
  if (accumulate)
    accumulate = padWithZeros(builder, accumulate, shape);
  BoolAttr fast = builder.getBoolAttr(fastAccumulation);
  if (!gemm.groupSizes) {
    auto isMadeFor = [](Value value, const Operand &operand) {
      return cast<ScaledType>(value.getType()).getContract() ==
             operand.contract;
    };
    DenseI64ArrayAttr contract;
    if (!isMadeFor(a, gemm.a) || !isMadeFor(b, gemm.b))
      contract =
          builder.getDenseI64ArrayAttr({gemm.a.contract, gemm.b.contract});
    return ScaledMatmulOp::create(builder, loc, type, a, b, bias, accumulate,
                                  fast, contract);
  }
  IntegerAttr alignment = builder.getI64IntegerAttr(gemm.alignment());
  if (gemm.gemm != Gemm::Wgrad)
    return GroupedScaledMatmulOp::create(
        builder, loc, type, a, b, gemm.groupSizes, bias, fast, alignment);
  Value sizes = gemm.groupSizes;
  // The transform fills up the last run of 16 rows of each group.
  if (cast<ScaledType>(a.getType()).is(ScaleVariant::Hadamard))
    sizes = RoundGroupSizesOp::create(builder, loc, sizes.getType(), sizes,
                                      builder.getI64IntegerAttr(16));
  return GroupedScaledWgradOp::create(builder, loc, type, a, b, sizes,
                                      accumulate, fast, alignment);
}

Operation *te::createPlainGemm(OpBuilder &builder, Location loc,
                               const LayerGemm &gemm, Value a, Value b) {
  Type type = gemm.op->getResult(0).getType();
  if (!gemm.groupSizes)
    return MatmulOp::create(
        builder, loc, type, a, b, gemm.bias, gemm.accumulate,
        builder.getDenseI64ArrayAttr({gemm.a.contract, gemm.b.contract}));
  IntegerAttr alignment = builder.getI64IntegerAttr(gemm.alignment());
  if (gemm.gemm == Gemm::Wgrad)
    return GroupedWgradOp::create(builder, loc, type, a, b, gemm.groupSizes,
                                  /*alpha=*/Value(), gemm.accumulate,
                                  alignment);
  return GroupedMatmulOp::create(
      builder, loc, type, a, b, gemm.groupSizes, /*alpha=*/Value(), gemm.bias,
      builder.getI64IntegerAttr(gemm.b.contract), alignment);
}
