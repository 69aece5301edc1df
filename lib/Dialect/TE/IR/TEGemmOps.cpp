//===- TEGemmOps.cpp - verifiers of matrix products -----------------------===//

#include "TEVerifiers.h"

#include "TEDialect/IR/Support.h"

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

unsigned ScaledMatmulOp::getContractedAxis(unsigned operand) {
  if (auto axes = getContract())
    return static_cast<unsigned>((*axes)[operand]);
  return cast<ScaledType>(getOperand(operand).getType()).getContract();
}

int64_t ScaledMatmulOp::getContractedSize(unsigned operand) {
  auto type = cast<ScaledType>(getOperand(operand).getType());
  return getContractedAxis(operand) == 0 ? type.getRows() : type.getCols();
}

int64_t ScaledMatmulOp::getOuterSize(unsigned operand) {
  auto type = cast<ScaledType>(getOperand(operand).getType());
  return getContractedAxis(operand) == 0 ? type.getCols() : type.getRows();
}

/// Operands that are contracted along an axis they were not made for.
static LogicalResult verifyContract(ScaledMatmulOp op) {
  std::optional<ArrayRef<int64_t>> contract = op.getContract();
  if (!contract)
    return success();
  if (contract->size() != 2 || !llvm::all_of(*contract, [](int64_t axis) {
        return axis == 0 || axis == 1;
      }))
    return op.emitOpError()
           << "expected 'contract' to hold two axes, each 0 or 1";
  for (auto [index, name] : {std::pair(0, "a"), {1, "b"}}) {
    auto type = cast<ScaledType>(op.getOperand(index).getType());
    if (type.getContract() == (*contract)[index])
      continue;
    if (type.getScheme() != Scheme::PerTensor)
      return op.emitOpError()
             << "expected '" << name << "', which is contracted along axis "
             << (*contract)[index] << " and was made for axis "
             << type.getContract() << ", to be 'per_tensor', but got '"
             << stringifyScheme(type.getScheme()) << "'";
    const auto scheme = static_cast<int32_t>(Scheme::PerTensor);
    if (std::string refusal = support::refuseSize(
            (Twine("the axis that '") + name + "' was made for").str(),
            type.getContraction(), support::productRow(scheme, scheme).k);
        !refusal.empty())
      return op.emitOpError() << refusal;
  }
  return success();
}

LogicalResult ScaledMatmulOp::verify() {
  auto a = cast<ScaledType>(getA().getType());
  auto b = cast<ScaledType>(getB().getType());
  // scaled_matmul-c12
  if (failed(verifyContract(*this)))
    return failure();
  // scaled_matmul-c1
  const int64_t contracted = getContractedSize(0);
  const int64_t rows = getOuterSize(0), columns = getOuterSize(1);
  if (contracted != getContractedSize(1))
    return emitOpError() << "expected 'a' and 'b' to agree on the contracted "
                            "size, but got "
                         << contracted << " and " << getContractedSize(1)
                         << "; 'a' is contracted along axis "
                         << getContractedAxis(0) << ", 'b' along axis "
                         << getContractedAxis(1);
  // scaled_matmul-c2
  if (failed(verifyShape(*this, "out", getOut().getType(), {rows, columns})))
    return failure();
  // scaled_matmul-c3, scaled_matmul-c4, scaled_matmul-c5, scaled_matmul-c8
  auto aScheme = static_cast<int32_t>(a.getScheme());
  auto bScheme = static_cast<int32_t>(b.getScheme());
  auto typeNumber = [](Type type) { return getTypeNumber(type).value_or(-1); };
  std::string refusal = support::refuseProduct(
      {aScheme, typeNumber(a.getElementType()), bScheme,
       typeNumber(b.getElementType()),
       typeNumber(getOut().getType().getElementType()), getFastAccumulation(),
       static_cast<bool>(getBias())});
  if (!refusal.empty())
    return emitOpError() << refusal;
  // scaled_matmul-c6, scaled_matmul-c7
  const support::ProductRow &row = support::productRow(aScheme, bScheme);
  for (auto [name, size, multiple] :
       {std::tuple("the contracted size", contracted, row.k),
        {"the rows of the result", rows, row.m},
        {"the columns of the result", columns, row.n}})
    if (refusal = support::refuseSize(name, size, multiple); !refusal.empty())
      return emitOpError() << refusal;
  // scaled_matmul-c8
  if (failed(verifyBias(*this, getBias(), columns, {})))
    return failure();
  // scaled_matmul-c9, scaled_matmul-c10
  for (ScaleVariant variant : {ScaleVariant::Hadamard, ScaleVariant::Swizzled})
    if (a.is(variant) != b.is(variant))
      return emitOpError() << "expected both operands or neither to be '"
                           << stringifyScaleVariant(variant) << "', but got "
                           << a << " and " << b;
  // scaled_matmul-c11
  if (b.is(ScaleVariant::RowScaled))
    return emitOpError() << "expected 'b' not to be row-scaled, but got " << b;
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

/// The rows of `xName` and `yName`, of which `parallel` may split one over its
/// group; without, they are the same.
static LogicalResult verifyRows(Operation *op, ParallelAttr parallel,
                                StringRef xName, int64_t x, StringRef yName,
                                int64_t y) {
  int64_t xParts = 1, yParts = 1;
  if (parallel) {
    FailureOr<GroupAttr> group = verifyGroup(op, parallel.getGroup());
    if (failed(group))
      return failure();
    if (parallel.getSequence())
      (parallel.isColumn() ? xParts : yParts) = group->getSize();
  }
  if (x * xParts == y * yParts)
    return success();
  InFlightDiagnostic diagnostic = op->emitOpError();
  diagnostic << "expected '" << xName << "' and '" << yName
             << "' to have the same rows";
  if (xParts * yParts > 1)
    diagnostic << ", of which '" << (xParts > 1 ? xName : yName)
               << "' has a part for each of " << xParts * yParts << " ranks";
  return diagnostic << ", but got " << x << " and " << y;
}

/// N and K of a weight of a layer: [N, K], or [K, N] where it is `transposed`.
static std::pair<int64_t, int64_t> weightSizes(Value w, bool transposed) {
  auto shape = shapeOf(w.getType());
  return {shape[transposed ? 1 : 0], shape[transposed ? 0 : 1]};
}

static LogicalResult verifyTransposedWeight(Operation *op, bool transposed,
                                            ParallelAttr parallel) {
  if (!transposed || !parallel)
    return success();
  return op->emitOpError() << "expected no 'parallel' with "
                              "'transposed_weight', but got "
                           << parallel;
}

LogicalResult LinearOp::verify() {
  auto x = shapeOf(getX().getType()), y = shapeOf(getY().getType());
  // linear-c5
  auto [n, k] = weightSizes(getW(), getTransposedWeight());
  if (failed(verifyTransposedWeight(*this, getTransposedWeight(),
                                    getParallelAttr())))
    return failure();
  // linear-c1, linear-c4
  if (failed(verifyContracted(*this, "x", x[1], "w", k)) ||
      failed(verifyRows(*this, getParallelAttr(), "x", x[0], "y", y[0])) ||
      failed(verifyShape(*this, "y", getY().getType(), {y[0], n})))
    return failure();
  // linear-c3
  if (failed(verifySameElementType(*this, "x", getX().getType(), "w",
                                   getW().getType())) ||
      failed(verifySameElementType(*this, "x", getX().getType(), "y",
                                   getY().getType())))
    return failure();
  // linear-c2
  return verifyBias(*this, getBias(), n, getX().getType().getElementType());
}

LogicalResult LinearDgradOp::verify() {
  auto dy = shapeOf(getDy().getType()), dx = shapeOf(getDx().getType());
  // linear_dgrad-c4
  auto [n, k] = weightSizes(getW(), getTransposedWeight());
  if (failed(verifyTransposedWeight(*this, getTransposedWeight(),
                                    getParallelAttr())))
    return failure();
  // linear_dgrad-c1, linear_dgrad-c3
  if (failed(verifyContracted(*this, "dy", dy[1], "w", n)) ||
      failed(verifyRows(*this, getParallelAttr(), "dx", dx[0], "dy", dy[0])) ||
      failed(verifyShape(*this, "dx", getDx().getType(), {dx[0], k})))
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
  // linear_wgrad-c5
  const bool transposed = getTransposedWeight();
  if (failed(verifyTransposedWeight(*this, transposed, getParallelAttr())))
    return failure();
  // linear_wgrad-c1, linear_wgrad-c4
  if (failed(verifyRows(*this, getParallelAttr(), "x", x[0], "dy", dy[0])) ||
      failed(
          verifyShape(*this, "dw", getDw().getType(),
                      {transposed ? x[1] : dy[1], transposed ? dy[1] : x[1]})))
    return failure();
  // linear_wgrad-c2
  if (failed(verifySameElementType(*this, "dy", getDy().getType(), "x",
                                   getX().getType())))
    return failure();
  if (!getDw().getType().getElementType().isF32() &&
      failed(verifySameElementType(*this, "dy", getDy().getType(), "dw",
                                   getDw().getType())))
    return failure();
  // linear_wgrad-c3
  return verifyAccumulate(*this, getAccumulate(), getDw().getType());
}

LogicalResult BiasGradOp::verify() {
  // bias_grad-c1
  return verifyShape(*this, "db", getDb().getType(),
                     {shapeOf(getDy().getType())[1]});
}

AxisRelation MatmulOp::getAxisRelation() {
  AxisRelation relation(*this);
  auto axes = [&](unsigned operand, StringRef outer) {
    const bool isLast = getContract()[operand] == 1;
    return isLast ? (outer + " k").str() : ("k " + outer).str();
  };
  relation.operands("a", getA(), axes(0, "m"));
  relation.operands("b", getB(), axes(1, "n"));
  if (getBias())
    relation.operands("bias", getBias(), "n");
  if (getAccumulate())
    relation.operands("accumulate", getAccumulate(), "m n");
  relation.results("out", getOut(), "m n");
  // Over rows, it is the gradient of a weight.
  if (llvm::all_equal({getContract()[0], getContract()[1], int64_t(0)}))
    relation.sum("k");
  return relation;
}

//===----------------------------------------------------------------------===//
// Parallel layers
//===----------------------------------------------------------------------===//

/// What te-insert-collectives will make of a layer that is split as `parallel`
/// says, where it communicates `value`.
static std::optional<CollectiveCall> callOfLayer(Operation *op,
                                                 ParallelAttr parallel,
                                                 bool communicates,
                                                 Value value) {
  if (!parallel || !(communicates || parallel.getSequence()))
    return std::nullopt;
  return CollectiveCall{parallel.getGroup(), value.getType(),
                        op->getResult(0).getType(), parallel};
}

/// A layer sums its result over the group where it `reduces`.
static std::optional<GroupEffect> effectOfLayer(ParallelAttr parallel,
                                                bool reduces) {
  if (!parallel)
    return std::nullopt;
  return GroupEffect{parallel.getGroup(),
                     /*varies=*/!reduces || parallel.getSequence()};
}

std::optional<CollectiveCall> LinearOp::getCollectiveCall() {
  ParallelAttr parallel = getParallelAttr();
  return callOfLayer(*this, parallel, parallel && parallel.isRow(), getY());
}

std::optional<GroupEffect> LinearOp::getGroupEffect() {
  ParallelAttr parallel = getParallelAttr();
  return effectOfLayer(parallel, parallel && parallel.isRow());
}

std::optional<CollectiveCall> LinearDgradOp::getCollectiveCall() {
  ParallelAttr parallel = getParallelAttr();
  return callOfLayer(*this, parallel, parallel && parallel.isColumn(), getDx());
}

std::optional<GroupEffect> LinearDgradOp::getGroupEffect() {
  ParallelAttr parallel = getParallelAttr();
  return effectOfLayer(parallel, parallel && parallel.isColumn());
}

std::optional<CollectiveCall> LinearWgradOp::getCollectiveCall() {
  return callOfLayer(*this, getParallelAttr(), /*communicates=*/false, getX());
}

std::optional<GroupEffect> LinearWgradOp::getGroupEffect() {
  return effectOfLayer(getParallelAttr(), /*reduces=*/false);
}
