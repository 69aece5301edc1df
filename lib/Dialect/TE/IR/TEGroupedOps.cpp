//===- TEGroupedOps.cpp - verifiers of ops on groups of rows --------------===//
//
// A group is checked as the op of one matrix is: what a product needs of its
// sizes it needs of every group, whose rows are padded to the alignment.
//
//===----------------------------------------------------------------------===//

#include "TEVerifiers.h"

#include "TEDialect/IR/Support.h"

using namespace mlir;
using namespace mlir::te;

static int64_t groupsIn(Value groupSizes) {
  return shapeOf(groupSizes.getType())[0];
}

/// 'name' has the element type of 'otherName', or f32.
static LogicalResult verifyResultType(Operation *op, StringRef name, Type type,
                                      StringRef otherName, Type other) {
  if (cast<ShapedType>(type).getElementType().isF32())
    return success();
  return verifySameElementType(op, otherName, other, name, type);
}

static LogicalResult verifyAgree(Operation *op, StringRef what, int64_t a,
                                 int64_t b) {
  if (a == b)
    return success();
  return op->emitOpError() << "expected " << what << " to agree, but got " << a
                           << " and " << b;
}

/// A layer has `groups` matrices.
static LogicalResult verifyHasGroups(Operation *op, int64_t groups) {
  if (groups != 0)
    return success();
  return op->emitOpError() << "expected one group or more, but got 0";
}

LogicalResult GroupedAmaxOp::verify() {
  // grouped_amax-c1
  if (failed(verifyShape(*this, "amax", getAmax().getType(),
                         shapeOf(getGroupSizes().getType()))))
    return failure();
  // grouped_amax-c2
  return verifyGroupLayout(*this, shapeOf(getX().getType())[0], getAlignment());
}

LogicalResult ZeroPaddingOp::verify() {
  // zero_padding-c1
  return verifyGroupLayout(*this, shapeOf(getX().getType())[0], getAlignment());
}

LogicalResult RoundGroupSizesOp::verify() {
  // round_group_sizes-c1
  auto multiple = static_cast<int64_t>(getMultiple());
  if (multiple < 1)
    return emitOpError() << "expected 'multiple' to be one or more, but got "
                         << multiple;
  return success();
}

/// What te.scaled_matmul has, of operands `a` and `b` whose groups have
/// multiples of `alignment` rows. `k` is the contracted size of a group.
static LogicalResult verifyProduct(Operation *op, ScaledType a, ScaledType b,
                                   Type result, bool fastAccumulation,
                                   bool bias, int64_t m, int64_t n, int64_t k) {
  auto aScheme = static_cast<int32_t>(a.getScheme());
  auto bScheme = static_cast<int32_t>(b.getScheme());
  auto typeNumber = [](Type type) { return getTypeNumber(type).value_or(-1); };
  std::string refusal = support::refuseProduct(
      {aScheme, typeNumber(a.getElementType()), bScheme,
       typeNumber(b.getElementType()),
       typeNumber(cast<ShapedType>(result).getElementType()), fastAccumulation,
       bias});
  if (!refusal.empty())
    return op->emitOpError() << refusal;
  const support::ProductRow &row = support::productRow(aScheme, bScheme);
  for (auto [name, size, multiple] :
       {std::tuple("the contracted size", k, row.k),
        {"the rows of the result", m, row.m},
        {"the columns of the result", n, row.n}})
    if (refusal = support::refuseSize(name, size, multiple); !refusal.empty())
      return op->emitOpError() << refusal;
  return success();
}

static LogicalResult verifyAlignment(Operation *op, ScaledType a,
                                     int64_t alignment) {
  if (std::string refusal = support::refuseAlignment(
          static_cast<int32_t>(a.getScheme()), alignment);
      !refusal.empty())
    return op->emitOpError() << refusal;
  return verifyGroupLayout(op, a.getRows(), alignment);
}

static LogicalResult verifySameHadamard(Operation *op, ScaledType a,
                                        ScaledType b) {
  if (a.is(ScaleVariant::Hadamard) == b.is(ScaleVariant::Hadamard))
    return success();
  return op->emitOpError() << "expected both operands or neither to be "
                              "'hadamard', but got "
                           << a << " and " << b;
}

LogicalResult GroupedScaledMatmulOp::verify() {
  ScaledType a = getA().getType(), b = getB().getType();
  int64_t groups = groupsIn(getGroupSizes());
  // grouped_scaled_matmul-c1
  if (a.getGroups() != groups || a.getContract() != 1)
    return emitOpError() << "expected 'a' to be made for axis 1 with " << groups
                         << " groups, but got " << a;
  if (!b.isStacked() || b.getNumMatrices() != groups)
    return emitOpError() << "expected 'b' to be a stack of " << groups
                         << " matrices, but got " << b;
  // grouped_scaled_matmul-c2
  if (failed(verifyAgree(*this, "the contracted sizes of 'a' and 'b'",
                         a.getContraction(), b.getContraction())) ||
      failed(verifyShape(*this, "out", getOut().getType(),
                         {a.getRows(), b.getOuter()})))
    return failure();
  // grouped_scaled_matmul-c4
  if (failed(verifyAlignment(*this, a, getAlignment())))
    return failure();
  // grouped_scaled_matmul-c3
  if (failed(verifyProduct(*this, a, b, getOut().getType(),
                           getFastAccumulation(), static_cast<bool>(getBias()),
                           getAlignment(), b.getOuter(), a.getContraction())))
    return failure();
  // grouped_scaled_matmul-c6
  if (failed(verifySameHadamard(*this, a, b)))
    return failure();
  if (b.is(ScaleVariant::RowScaled))
    return emitOpError() << "expected 'b' not to be row-scaled, but got " << b;
  // grouped_scaled_matmul-c5
  if (getBias())
    return verifyShape(*this, "bias", getBias().getType(),
                       {groups, b.getOuter()});
  return success();
}

LogicalResult GroupedScaledWgradOp::verify() {
  ScaledType a = getA().getType(), b = getB().getType();
  int64_t groups = groupsIn(getGroupSizes());
  // grouped_scaled_wgrad-c1
  for (auto [name, type] : {std::pair("a", a), std::pair("b", b)})
    if (type.getGroups() != groups || type.getContract() != 0)
      return emitOpError() << "expected '" << name
                           << "' to be made for axis 0 with " << groups
                           << " groups, but got " << type;
  if (failed(verifyAgree(*this, "the rows of 'a' and 'b'", a.getRows(),
                         b.getRows())))
    return failure();
  // grouped_scaled_wgrad-c2
  if (failed(verifyShape(*this, "out", getOut().getType(),
                         {groups, a.getCols(), b.getCols()})))
    return failure();
  // grouped_scaled_wgrad-c4
  if (failed(verifyAlignment(*this, a, getAlignment())))
    return failure();
  // grouped_scaled_wgrad-c3
  if (failed(verifyProduct(*this, a, b, getOut().getType(),
                           getFastAccumulation(), /*bias=*/false, a.getCols(),
                           b.getCols(), getAlignment())))
    return failure();
  // grouped_scaled_wgrad-c5
  if (failed(verifySameHadamard(*this, a, b)))
    return failure();
  // grouped_scaled_wgrad-c6
  return verifyAccumulate(*this, getAccumulate(), getOut().getType());
}

/// 'alpha' is `[groups]` where it is given.
static LogicalResult verifyAlpha(Operation *op, Value alpha, int64_t groups) {
  return alpha ? verifyShape(op, "alpha", alpha.getType(), {groups})
               : success();
}

LogicalResult GroupedMatmulOp::verify() {
  auto a = shapeOf(getA().getType()), b = shapeOf(getB().getType());
  int64_t groups = groupsIn(getGroupSizes());
  auto contract = static_cast<int64_t>(getContract());
  // grouped_matmul-c1
  if (contract != 0 && contract != 1)
    return emitOpError() << "expected 'contract' to be 0 or 1, but got "
                         << contract;
  int64_t columns = b[2 - contract];
  if (failed(verifyAgree(*this, "the matrices of 'b' and 'group_sizes'", b[0],
                         groups)) ||
      failed(verifyAgree(*this, "the contracted sizes of 'a' and 'b'", a[1],
                         b[1 + contract])) ||
      failed(verifyShape(*this, "out", getOut().getType(), {a[0], columns})))
    return failure();
  // grouped_matmul-c2
  if (failed(verifySameElementType(*this, "a", getA().getType(), "b",
                                   getB().getType())) ||
      failed(verifyResultType(*this, "out", getOut().getType(), "a",
                              getA().getType())))
    return failure();
  // grouped_matmul-c3
  if (failed(verifyAlpha(*this, getAlpha(), groups)))
    return failure();
  if (getBias()) {
    Type bias = getBias().getType();
    if (failed(verifyShape(*this, "bias", bias, {groups, columns})) ||
        failed(verifySameElementType(*this, "bias", bias, "a",
                                     getA().getType())) ||
        failed(verifySameElementType(*this, "bias", bias, "out",
                                     getOut().getType())))
      return failure();
  }
  // grouped_matmul-c4
  return verifyGroupLayout(*this, a[0], getAlignment());
}

LogicalResult GroupedWgradOp::verify() {
  auto a = shapeOf(getA().getType()), b = shapeOf(getB().getType());
  int64_t groups = groupsIn(getGroupSizes());
  // grouped_wgrad-c1
  if (failed(verifyAgree(*this, "the rows of 'a' and 'b'", a[0], b[0])) ||
      failed(
          verifyShape(*this, "out", getOut().getType(), {groups, a[1], b[1]})))
    return failure();
  // grouped_wgrad-c2
  if (failed(verifySameElementType(*this, "a", getA().getType(), "b",
                                   getB().getType())) ||
      failed(verifyResultType(*this, "out", getOut().getType(), "a",
                              getA().getType())) ||
      failed(verifyAlpha(*this, getAlpha(), groups)))
    return failure();
  // grouped_wgrad-c3
  if (failed(verifyGroupLayout(*this, a[0], getAlignment())))
    return failure();
  // grouped_wgrad-c4
  return verifyAccumulate(*this, getAccumulate(), getOut().getType());
}

LogicalResult GroupedBiasGradOp::verify() {
  auto dy = shapeOf(getDy().getType());
  // grouped_bias_grad-c1
  if (failed(verifyShape(*this, "db", getDb().getType(),
                         {groupsIn(getGroupSizes()), dy[1]})))
    return failure();
  // grouped_bias_grad-c2
  return verifyGroupLayout(*this, dy[0], getAlignment());
}

LogicalResult GroupedLinearOp::verify() {
  auto x = shapeOf(getX().getType()), w = shapeOf(getW().getType());
  // grouped_linear-c1
  if (failed(verifyHasGroups(*this, w[0])) ||
      failed(verifyAgree(*this, "the contracting sizes of 'x' and 'w'", x[1],
                         w[2])) ||
      failed(verifyShape(*this, "group_sizes", getGroupSizes().getType(),
                         {w[0]})) ||
      failed(verifyShape(*this, "y", getY().getType(), {x[0], w[1]})))
    return failure();
  // grouped_linear-c2
  if (getBias() &&
      failed(verifyShape(*this, "bias", getBias().getType(), {w[0], w[1]})))
    return failure();
  // grouped_linear-c3
  if (failed(verifySameElementType(*this, "x", getX().getType(), "w",
                                   getW().getType())) ||
      failed(verifySameElementType(*this, "x", getX().getType(), "y",
                                   getY().getType())) ||
      (getBias() && failed(verifySameElementType(*this, "x", getX().getType(),
                                                 "bias", getBias().getType()))))
    return failure();
  // grouped_linear-c4
  return verifyGroupLayout(*this, x[0], getAlignment());
}

LogicalResult GroupedLinearDgradOp::verify() {
  auto dy = shapeOf(getDy().getType()), w = shapeOf(getW().getType());
  // grouped_linear_dgrad-c1
  if (failed(verifyHasGroups(*this, w[0])) ||
      failed(verifyAgree(*this, "the contracting sizes of 'dy' and 'w'", dy[1],
                         w[1])) ||
      failed(verifyShape(*this, "group_sizes", getGroupSizes().getType(),
                         {w[0]})) ||
      failed(verifyShape(*this, "dx", getDx().getType(), {dy[0], w[2]})))
    return failure();
  // grouped_linear_dgrad-c2
  if (failed(verifySameElementType(*this, "dy", getDy().getType(), "w",
                                   getW().getType())) ||
      failed(verifySameElementType(*this, "dy", getDy().getType(), "dx",
                                   getDx().getType())))
    return failure();
  // grouped_linear_dgrad-c3
  return verifyGroupLayout(*this, dy[0], getAlignment());
}

LogicalResult GroupedLinearWgradOp::verify() {
  auto dy = shapeOf(getDy().getType()), x = shapeOf(getX().getType());
  // grouped_linear_wgrad-c1
  if (failed(verifyHasGroups(*this, groupsIn(getGroupSizes()))) ||
      failed(verifyAgree(*this, "the rows of 'dy' and 'x'", dy[0], x[0])) ||
      failed(verifyShape(*this, "dw", getDw().getType(),
                         {groupsIn(getGroupSizes()), dy[1], x[1]})))
    return failure();
  // grouped_linear_wgrad-c2
  if (failed(verifySameElementType(*this, "dy", getDy().getType(), "x",
                                   getX().getType())) ||
      failed(verifyResultType(*this, "dw", getDw().getType(), "dy",
                              getDy().getType())))
    return failure();
  // grouped_linear_wgrad-c3
  if (failed(verifyGroupLayout(*this, dy[0], getAlignment())))
    return failure();
  // grouped_linear_wgrad-c4
  return verifyAccumulate(*this, getAccumulate(), getDw().getType());
}
