//===- TEGemmOps.cpp - verifiers of matrix products -----------------------===//

#include "TEVerifiers.h"

using namespace mlir;
using namespace mlir::te;

/// 'bias' is `[columns]`, of `element` type when given.
static LogicalResult verifyBias(Operation *op, Value bias, int64_t columns,
                                Type element) {
  if (!bias)
    return success();
  if (failed(verifyShape(op, "bias", bias.getType(), {columns})))
    return failure();
  Type actual = cast<ShapedType>(bias.getType()).getElementType();
  if (element && actual != element)
    return op->emitOpError() << "expected 'bias' to have element type "
                             << element << ", but got " << actual;
  return success();
}

static LogicalResult verifyAccumulate(Operation *op, Value accumulate,
                                      Type result) {
  if (!accumulate || accumulate.getType() == result)
    return success();
  return op->emitOpError() << "expected 'accumulate' to have the result's type "
                           << result << ", but got " << accumulate.getType();
}

LogicalResult ScaledMatmulOp::verify() {
  auto a = cast<ScaledType>(getA().getType());
  auto b = cast<ScaledType>(getB().getType());
  // scaled_matmul-c1
  if (a.getContraction() != b.getContraction())
    return emitOpError() << "expected 'a' and 'b' to agree on the contracted "
                            "size, but got "
                         << a.getContraction() << " and " << b.getContraction()
                         << "; 'a' is made for axis " << a.getContract()
                         << ", 'b' for axis " << b.getContract();
  // scaled_matmul-c2
  if (failed(verifyShape(*this, "out", getOut().getType(),
                         {a.getOuter(), b.getOuter()})))
    return failure();
  // scaled_matmul-c3
  bool perTensor = a.getScheme() == Scheme::PerTensor;
  if (perTensor != (b.getScheme() == Scheme::PerTensor) ||
      (a.getScheme() == Scheme::Block128x128 &&
       b.getScheme() == Scheme::Block128x128))
    return emitOpError() << "expected both operands per-tensor, or both "
                            "block-scaled with at most one 128x128, but got '"
                         << stringifyScheme(a.getScheme()) << "' and '"
                         << stringifyScheme(b.getScheme()) << "'";
  // scaled_matmul-c4
  if (isa<Float8E5M2Type>(a.getElementType()) &&
      isa<Float8E5M2Type>(b.getElementType()))
    return emitOpError() << "expected at most one operand of 'f8E5M2'; no "
                            "tensor core path multiplies two";
  // scaled_matmul-c5
  if (!perTensor && getFastAccumulation())
    return emitOpError() << "expected 'fast_accumulation = false' for block "
                            "schemes, which scale every 128-wide slice";
  // scaled_matmul-c6
  if (a.getContraction() % 16)
    return emitOpError() << "expected the contracted size to be a multiple of "
                            "16, but got "
                         << a.getContraction();
  // scaled_matmul-c7
  int64_t rule = perTensor ? 16 : 8;
  if (a.getOuter() % 8)
    return emitOpError() << "expected the rows of the result to be a multiple "
                            "of 8, but got "
                         << a.getOuter();
  if (b.getOuter() % rule)
    return emitOpError() << "expected the columns of the result to be a "
                            "multiple of "
                         << rule << ", but got " << b.getOuter();
  // scaled_matmul-c8
  if (failed(verifyBias(*this, getBias(), b.getOuter(), {})))
    return failure();
  if (getBias() && getOut().getType().getElementType().isF16())
    return emitOpError() << "expected the result to have element type 'bf16' "
                            "or 'f32' where there is a 'bias', but got 'f16'";
  return verifyAccumulate(*this, getAccumulate(), getOut().getType());
}

LogicalResult MatmulOp::verify() {
  // matmul-c1
  ArrayRef<int64_t> contract = getContract();
  if (contract.size() != 2 || !llvm::all_of(contract, [](int64_t axis) {
        return axis == 0 || axis == 1;
      }))
    return emitOpError() << "expected 'contract' to hold two axes, each 0 or 1";
  // matmul-c2
  auto aShape = shapeOf(getA().getType()), bShape = shapeOf(getB().getType());
  if (aShape[contract[0]] != bShape[contract[1]])
    return emitOpError() << "expected 'a' and 'b' to agree on the contracting "
                            "size, but got "
                         << aShape[contract[0]] << " and "
                         << bShape[contract[1]];
  if (failed(verifySameElementType(*this, "a", getA().getType(), "b",
                                   getB().getType())))
    return failure();
  // matmul-c3
  int64_t columns = bShape[1 - contract[1]];
  if (failed(verifyShape(*this, "out", getOut().getType(),
                         {aShape[1 - contract[0]], columns})))
    return failure();
  // matmul-c4
  if (getBias() &&
      failed(verifySameElementType(*this, "bias", getBias().getType(), "out",
                                   getOut().getType())))
    return failure();
  if (failed(verifyBias(*this, getBias(), columns,
                        getA().getType().getElementType())))
    return failure();
  return verifyAccumulate(*this, getAccumulate(), getOut().getType());
}

/// `left` [M, N] and `right` [N, K] (or [M, K] with `contractRows`) agree on
/// the size they are contracted over; the message names both.
static LogicalResult verifyContracted(Operation *op, StringRef leftName,
                                      int64_t left, StringRef rightName,
                                      int64_t right) {
  if (left == right)
    return success();
  return op->emitOpError() << "expected '" << leftName << "' and '" << rightName
                           << "' to agree on the contracting size, but got "
                           << left << " and " << right;
}

LogicalResult LinearOp::verify() {
  auto x = shapeOf(getX().getType()), w = shapeOf(getW().getType());
  // linear-c1
  if (failed(verifyContracted(*this, "x", x[1], "w", w[1])) ||
      failed(verifyShape(*this, "y", getY().getType(), {x[0], w[0]})))
    return failure();
  // linear-c3
  if (failed(verifySameElementType(*this, "x", getX().getType(), "w",
                                   getW().getType())) ||
      failed(verifySameElementType(*this, "x", getX().getType(), "y",
                                   getY().getType())))
    return failure();
  // linear-c2
  return verifyBias(*this, getBias(), w[0], getX().getType().getElementType());
}

LogicalResult LinearDgradOp::verify() {
  auto dy = shapeOf(getDy().getType()), w = shapeOf(getW().getType());
  // linear_dgrad-c1
  if (failed(verifyContracted(*this, "dy", dy[1], "w", w[0])) ||
      failed(verifyShape(*this, "dx", getDx().getType(), {dy[0], w[1]})))
    return failure();
  // linear_dgrad-c2
  if (failed(verifySameElementType(*this, "dy", getDy().getType(), "w",
                                   getW().getType())))
    return failure();
  return verifySameElementType(*this, "dy", getDy().getType(), "dx",
                               getDx().getType());
}

LogicalResult LinearWgradOp::verify() {
  auto dy = shapeOf(getDy().getType()), x = shapeOf(getX().getType());
  // linear_wgrad-c1
  if (failed(verifyContracted(*this, "dy", dy[0], "x", x[0])) ||
      failed(verifyShape(*this, "dw", getDw().getType(), {dy[1], x[1]})))
    return failure();
  // linear_wgrad-c2
  if (failed(verifySameElementType(*this, "dy", getDy().getType(), "x",
                                   getX().getType())))
    return failure();
  if (getDw().getType().getElementType().isF32())
    return success();
  return verifySameElementType(*this, "dy", getDy().getType(), "dw",
                               getDw().getType());
}

LogicalResult BiasGradOp::verify() {
  // bias_grad-c1
  return verifyShape(*this, "db", getDb().getType(),
                     {shapeOf(getDy().getType())[1]});
}
