//===- TECollectiveOps.cpp - ops over the ranks of a group ----------------===//
//
// A gather and a scatter are each other's derivative, an exchange is its own
// with its axes swapped; the sum over all ranks gives every rank the same
// value, whose cotangent is that of each summand.
//
//===----------------------------------------------------------------------===//

#include "TEVerifiers.h"

#include "TEDialect/IR/DiagnosticData.h"
#include "TEDialect/IR/Support.h"

using namespace mlir;
using namespace mlir::te;

static ArrayRef<int64_t> sizesOf(Type type) {
  if (auto scaled = dyn_cast<ScaledType>(type))
    return scaled.getShape();
  return shapeOf(type);
}

/// `x` has `axis`.
static LogicalResult verifyAxis(Operation *op, uint64_t axis, Type x) {
  if (axis < sizesOf(x).size())
    return success();
  return op->emitOpError() << "expected 'axis' to be one of " << x
                           << ", but got " << static_cast<int64_t>(axis);
}

/// `whole` is `part` with another size of `axis`, which `size` parts cover.
static LogicalResult verifyParts(Operation *op, Type part, Type whole,
                                 StringRef name, uint64_t axis, int64_t size) {
  auto sameButSizes = [&] {
    if (auto scaled = dyn_cast<ScaledType>(part)) {
      auto other = dyn_cast<ScaledType>(whole);
      return other && other.getElementType() == scaled.getElementType() &&
             other.getScheme() == scaled.getScheme() &&
             other.getVariant() == scaled.getVariant() &&
             other.getContract() == scaled.getContract() &&
             other.getGroups() == scaled.getGroups();
    }
    auto tensor = dyn_cast<RankedTensorType>(whole);
    return tensor &&
           tensor.getElementType() == cast<ShapedType>(part).getElementType();
  };
  const int64_t least = sizesOf(part)[axis];
  SmallVector<int64_t> expected(sizesOf(whole));
  const int64_t found = axis < expected.size() ? expected[axis] : -1;
  if (axis < expected.size())
    expected[axis] = least;
  if (!sameButSizes() || sizesOf(part) != ArrayRef<int64_t>(expected) ||
      found < least || found > least * size)
    return op->emitOpError()
           << "expected 'x' and 'y' to differ in nothing but axis " << axis
           << ", where '" << name << "' has from " << least << " to "
           << least * size << " for a group of " << size << ", but got "
           << op->getOperand(0).getType() << " and "
           << op->getResult(0).getType();
  return success();
}

LogicalResult AllReduceOp::verify() {
  // all_reduce-c1
  return verifyGroup(*this, getGroup());
}

std::string AllGatherOp::refuseParts(ScaledType local) {
  auto text = [&](StringRef rule) {
    std::string result;
    llvm::raw_string_ostream(result)
        << "expected " << rule << ", but got " << local;
    return result;
  };
  if (local.isGrouped() || local.isStacked() ||
      local.is(ScaleVariant::Swizzled))
    return text("a value without groups and swizzled scales");
  int64_t block = 1;
  switch (local.getScheme()) {
  case Scheme::PerTensor:
    break;
  case Scheme::Block1x128:
    block = local.getContract() == 0 ? 128 : 1;
    break;
  case Scheme::Block128x128:
    block = 128;
    break;
  case Scheme::Mx1x32:
  case Scheme::Mx32x32:
  case Scheme::Nv1x16:
  case Scheme::Nv16x16:
    // The type itself asks for whole blocks.
    break;
  }
  if (local.getRows() % block)
    return text("the rows of a part to be a multiple of " +
                std::to_string(block));
  return {};
}

LogicalResult AllGatherOp::verify() {
  // all_gather-c1
  FailureOr<GroupAttr> group = verifyGroup(*this, getGroup());
  if (failed(group))
    return failure();
  auto scaled = dyn_cast<ScaledType>(getX().getType());
  // all_gather-c2
  if (scaled && getAxis() != 0)
    return emitOpError()
           << "expected 'axis' of a scaled value to be 0, but got "
           << static_cast<int64_t>(getAxis());
  if (failed(verifyAxis(*this, getAxis(), getX().getType())))
    return failure();
  // all_gather-c5
  if (scaled && scaled.isShard()) {
    const int64_t all = scaled.getRows() * scaled.getCols();
    if (getY().getType() != scaled.getWhole())
      return emitOpError() << "expected the shards of all ranks to be "
                           << scaled.getWhole() << ", but got "
                           << getY().getType();
    if (scaled.getShard() * group->getSize() < all)
      return emitOpError() << "expected the shards of " << group->getSize()
                           << " ranks to cover " << all << " elements, but got "
                           << scaled.getShard() << " of each";
    return success();
  }
  // all_gather-c4
  if (scaled)
    if (std::string refusal = refuseParts(scaled); !refusal.empty())
      return emitOpError() << refusal;
  // all_gather-c3
  return verifyParts(*this, getX().getType(), getY().getType(), "y", getAxis(),
                     group->getSize());
}

LogicalResult ReduceScatterOp::verify() {
  // reduce_scatter-c1
  FailureOr<GroupAttr> group = verifyGroup(*this, getGroup());
  if (failed(group))
    return failure();
  // reduce_scatter-c2
  if (failed(verifyAxis(*this, getAxis(), getX().getType())))
    return failure();
  // reduce_scatter-c3
  return verifyParts(*this, getY().getType(), getX().getType(), "x", getAxis(),
                     group->getSize());
}

/// Groups of the sender, where a receiver has `groups`; the same function, with
/// the axes swapped, is the other direction.
static int64_t groupsBefore(int64_t groups, uint64_t split, uint64_t concat,
                            int64_t ranks) {
  if (split == concat)
    return groups;
  return split == 0 ? groups * ranks : groups / ranks;
}

int64_t AllToAllOp::getSentGroups() {
  auto x = cast<ScaledType>(getX().getType());
  auto y = cast<ScaledType>(getY().getType());
  const int64_t ranks = lookupGroup(*this, getGroup()).getSize();
  if (x.isGrouped())
    return x.getGroups();
  return y.isGrouped()
             ? groupsBefore(y.getGroups(), getSplit(), getConcat(), ranks)
             : ranks;
}

int64_t AllToAllOp::getRunRows() {
  const int64_t ranks = lookupGroup(*this, getGroup()).getSize();
  const int64_t groups = getSentGroups();
  const int64_t rows = cast<ScaledType>(getX().getType()).getRows() / groups;
  if (getSplit() == 1)
    return rows / ranks;
  return getConcat() == 1 ? rows : groups / ranks * rows;
}

std::string AllToAllOp::refuseRuns(ScaledType scaled, int64_t run) {
  // Rows of a block, and of what rows of scales are padded to where they are
  // the inner axis.
  int64_t block = 1, padding = 1;
  switch (scaled.getScheme()) {
  case Scheme::PerTensor:
    break;
  case Scheme::Block1x128:
    (scaled.getContract() == 0 ? block : padding) =
        scaled.getContract() == 0 ? 128 : 4;
    break;
  case Scheme::Block128x128:
    block = 128;
    padding = scaled.getContract() == 0 ? 4 * 128 : 1;
    break;
  case Scheme::Mx1x32:
    block = scaled.getContract() == 0 ? 32 : 1;
    break;
  case Scheme::Mx32x32:
    block = 32;
    break;
  case Scheme::Nv1x16:
  case Scheme::Nv16x16:
    block = scaled.getContract() == 1 && scaled.getScheme() == Scheme::Nv1x16
                ? 1
                : 16;
    padding = scaled.getContract() == 0 ? 4 * 16 : 1;
    break;
  }
  auto refuse = [&](StringRef what, int64_t multiple, int64_t found) {
    std::string result;
    llvm::raw_string_ostream(result)
        << "expected " << what << " of " << scaled << " to be a multiple of "
        << multiple << ", but got " << found;
    return result;
  };
  if (run % block)
    return refuse("rows that travel together", block, run);
  if (scaled.getRows() % padding)
    return refuse("the rows", padding, scaled.getRows());
  return {};
}

/// Verifies an exchange of scaled values over `ranks`.
static LogicalResult verifyScaled(AllToAllOp op, int64_t ranks) {
  auto x = cast<ScaledType>(op.getX().getType());
  auto y = dyn_cast<ScaledType>(op.getY().getType());
  // all_to_all-c4
  if (!y || x.getInGroups(0) != y.getInGroups(0))
    return op.emitOpError() << "expected 'x' and 'y' to differ in nothing but "
                               "groups, but got "
                            << x << " and " << op.getY().getType();
  // all_to_all-c5
  if (x.isStacked() || x.is(ScaleVariant::Swizzled))
    return op.emitOpError()
           << "expected a matrix whose scales are not swizzled, but got " << x;
  const bool hasGroups = x.isGrouped() || y.isGrouped();
  const bool isScaledAsOne = x.getScheme() == Scheme::PerTensor ||
                             (x.isNv() && !x.is(ScaleVariant::RowScaled));
  if (hasGroups && isScaledAsOne)
    return op.emitOpError()
           << "expected a value of one " << (x.isNv() ? "amax" : "scale")
           << " for all rows to have no groups, but got " << x << " and " << y;
  // all_to_all-c2
  for (auto [name, axis] :
       {std::pair("split", op.getSplit()), {"concat", op.getConcat()}})
    if (axis >= (hasGroups ? 2 : 1))
      return op.emitOpError()
             << "expected '" << name << "' to be "
             << (hasGroups ? "0, the groups of rows, or 1, the rows of a group"
                           : "0, the rows of a value without groups")
             << ", but got " << static_cast<int64_t>(axis);
  // all_to_all-c3
  const int64_t groups = op.getSentGroups();
  if (groups == 0 || x.getRows() % groups)
    return op.emitOpError() << "expected the rows of " << x
                            << " to be a multiple of their groups, but got "
                            << groups << " groups";
  const int64_t size = op.getSplit() == 0 ? groups : x.getRows() / groups;
  if (size % ranks)
    return op.emitOpError() << "expected the size of axis " << op.getSplit()
                            << " to be a multiple of the " << ranks
                            << " ranks of the group, but got " << size;
  // all_to_all-c4
  const int64_t received =
      groupsBefore(groups, op.getConcat(), op.getSplit(), ranks);
  if (y.isGrouped() && y.getGroups() != received)
    return op.emitOpError()
           << "expected 'y' to have " << received << " groups, but got " << y;
  // all_to_all-c6
  if (std::string refusal = AllToAllOp::refuseRuns(x, op.getRunRows());
      !refusal.empty())
    return op.emitOpError() << refusal;
  return success();
}

LogicalResult AllToAllOp::verify() {
  // all_to_all-c1
  FailureOr<GroupAttr> group = verifyGroup(*this, getGroup());
  if (failed(group))
    return failure();
  const int64_t ranks = group->getSize();
  if (isa<ScaledType>(getX().getType()))
    return verifyScaled(*this, ranks);
  ArrayRef<int64_t> x = shapeOf(getX().getType());
  // all_to_all-c2
  for (auto [name, axis] :
       {std::pair("split", getSplit()), {"concat", getConcat()}})
    if (axis >= x.size())
      return emitOpError() << "expected '" << name << "' to be an axis of "
                           << getX().getType() << ", but got "
                           << static_cast<int64_t>(axis);
  // all_to_all-c3
  if (x[getSplit()] % ranks != 0)
    return emitOpError() << "expected the size of axis " << getSplit()
                         << " to be a multiple of the " << ranks
                         << " ranks of the group, but got " << x[getSplit()];
  // all_to_all-c4
  if (!isa<RankedTensorType>(getY().getType()))
    return emitOpError() << "expected 'y' to be a tensor as "
                         << getX().getType() << ", but got "
                         << getY().getType();
  SmallVector<int64_t> y(x);
  y[getSplit()] /= ranks;
  y[getConcat()] *= ranks;
  if (failed(verifyShape(*this, "y", getY().getType(), y)))
    return failure();
  return verifySameElementType(*this, "x", getX().getType(), "y",
                               getY().getType());
}

LogicalResult RankOp::verify() {
  // rank-c1
  return verifyGroup(*this, getGroup());
}

LogicalResult BiasAddOp::verify() {
  // bias_add-c1
  if (failed(verifyShape(*this, "bias", getBias().getType(),
                         {shapeOf(getX().getType())[1]})))
    return failure();
  return verifySameElementType(*this, "x", getX().getType(), "bias",
                               getBias().getType());
}

//===----------------------------------------------------------------------===//
// Derivatives
//===----------------------------------------------------------------------===//

LogicalResult AllReduceOp::differentiate(OpBuilder &,
                                         AdjointContext &adjoints) {
  adjoints.add(getX(), adjoints.get(getY()));
  return success();
}

LogicalResult AllGatherOp::differentiate(OpBuilder &b,
                                         AdjointContext &adjoints) {
  if (isa<ScaledType>(getX().getType()))
    return withData(emitError(), {code::kNotDifferentiable})
           << "'te.all_gather' of a scaled value has no derivative";
  adjoints.add(getX(), ReduceScatterOp::create(b, getLoc(), getX().getType(),
                                               adjoints.get(getY()), getGroup(),
                                               getAxis()));
  return success();
}

LogicalResult ReduceScatterOp::differentiate(OpBuilder &b,
                                             AdjointContext &adjoints) {
  adjoints.add(getX(), AllGatherOp::create(b, getLoc(), getX().getType(),
                                           adjoints.get(getY()), getGroup(),
                                           getAxis()));
  return success();
}

LogicalResult AllToAllOp::differentiate(OpBuilder &b,
                                        AdjointContext &adjoints) {
  if (isa<ScaledType>(getX().getType()))
    return withData(emitError(), {code::kNotDifferentiable})
           << "'te.all_to_all' of a scaled value has no derivative";
  adjoints.add(getX(), AllToAllOp::create(b, getLoc(), getX().getType(),
                                          adjoints.get(getY()), getGroup(),
                                          /*split=*/getConcat(),
                                          /*concat=*/getSplit()));
  return success();
}

LogicalResult BiasAddOp::differentiate(OpBuilder &b, AdjointContext &adjoints) {
  Value dy = adjoints.get(getY());
  if (adjoints.wants(getX()))
    adjoints.add(getX(), dy);
  if (adjoints.wants(getBias()))
    adjoints.add(getBias(),
                 BiasGradOp::create(b, getLoc(), getBias().getType(), dy));
  return success();
}

//===----------------------------------------------------------------------===//
// What ranks have to agree on
//===----------------------------------------------------------------------===//

std::optional<CollectiveCall> AmaxReduceOp::getCollectiveCall() {
  auto group = static_cast<int64_t>(getGroupId());
  if (getAmaxes().size() == 1)
    return CollectiveCall{group,
                          getAmaxes().front().getType(),
                          getReduced().front().getType(),
                          {}};
  // One collective for all: ranks must agree on how many.
  auto all = TupleType::get(getContext(), getAmaxes().getTypes());
  return CollectiveCall{group, all, all, {}};
}

std::optional<GroupEffect> AmaxReduceOp::getGroupEffect() {
  return GroupEffect{static_cast<int64_t>(getGroupId()), /*varies=*/false};
}

/// The collective that makes `y` of `x` over `group`.
static CollectiveCall callOf(Value x, Value y, uint64_t group,
                             Attribute how = {}) {
  return {static_cast<int64_t>(group), x.getType(), y.getType(), how};
}

std::optional<CollectiveCall> AllReduceOp::getCollectiveCall() {
  return callOf(getX(), getY(), getGroup());
}

std::optional<GroupEffect> AllReduceOp::getGroupEffect() {
  return GroupEffect{static_cast<int64_t>(getGroup()), /*varies=*/false};
}

std::optional<CollectiveCall> AllGatherOp::getCollectiveCall() {
  return callOf(getX(), getY(), getGroup(), getAxisAttr());
}

std::optional<GroupEffect> AllGatherOp::getGroupEffect() {
  return GroupEffect{static_cast<int64_t>(getGroup()), /*varies=*/false};
}

std::optional<CollectiveCall> ReduceScatterOp::getCollectiveCall() {
  return callOf(getX(), getY(), getGroup(), getAxisAttr());
}

std::optional<GroupEffect> ReduceScatterOp::getGroupEffect() {
  return GroupEffect{static_cast<int64_t>(getGroup()), /*varies=*/true,
                     static_cast<int64_t>(getAxis())};
}

std::optional<CollectiveCall> AllToAllOp::getCollectiveCall() {
  return callOf(
      getX(), getY(), getGroup(),
      ArrayAttr::get(getContext(), {getSplitAttr(), getConcatAttr()}));
}

std::optional<GroupEffect> AllToAllOp::getGroupEffect() {
  return GroupEffect{static_cast<int64_t>(getGroup()), /*varies=*/true};
}

/// It asks for a number, which differs, and nobody else.
std::optional<CollectiveCall> RankOp::getCollectiveCall() {
  return std::nullopt;
}

std::optional<GroupEffect> RankOp::getGroupEffect() {
  return GroupEffect{static_cast<int64_t>(getGroup()), /*varies=*/true};
}
