//===- PrepareRegions.cpp - ops in the forms that regions take ------------===//

#include "Regions.h"
#include "StridedView.h"

#include "TEDialect/IR/TE.h"
#include "TEDialect/TERT/GeneratedBody.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Dialect/Utils/IndexingUtils.h"
#include "mlir/IR/Matchers.h"

using namespace mlir;
using namespace mlir::te;

/// What a maximum begins with.
static constexpr float kLowest = -std::numeric_limits<float>::infinity();

/// Gives each select a comparison that only it reads, directly before it.
static void separateComparisons(Block &block) {
  for (auto select :
       llvm::make_early_inc_range(block.getOps<arith::SelectOp>())) {
    auto comparison = select.getCondition().getDefiningOp<arith::CmpFOp>();
    if (!comparison)
      continue;
    if (!comparison->hasOneUse())
      comparison = cast<arith::CmpFOp>(OpBuilder(select).clone(*comparison));
    comparison->moveBefore(select);
    select.getConditionMutable().assign(comparison);
  }
}

/// Writes each te.zero_unused as a select.
static void expandZeroUnused(Block &block) {
  for (auto op : llvm::make_early_inc_range(block.getOps<ZeroUnusedOp>())) {
    OpBuilder b(op);
    Location loc = op.getLoc();
    auto type = op.getX().getType();
    auto masks = RankedTensorType::get(type.getShape(),
                                       getElementTypeOrSelf(op.getUsed()));
    Value none = tensor::EmptyOp::create(b, loc, masks.getShape(),
                                         masks.getElementType());
    Value used = linalg::BroadcastOp::create(b, loc, op.getUsed(), none,
                                             /*dimensions=*/1)
                     ->getResult(0);
    Value zero = arith::ConstantOp::create(b, loc, b.getZeroAttr(masks));
    Value isUsed =
        arith::CmpFOp::create(b, loc, arith::CmpFPredicate::UNE, used, zero);
    Value zeros = arith::ConstantOp::create(b, loc, b.getZeroAttr(type));
    op.replaceAllUsesWith(
        arith::SelectOp::create(b, loc, isUsed, op.getX(), zeros).getResult());
    op.erase();
  }
}

Value te::reshapeFlat(OpBuilder &b, Location loc, Value value,
                      RankedTensorType type) {
  auto from = cast<RankedTensorType>(value.getType());
  if (from == type)
    return value;
  SmallVector<ReassociationIndices> all;
  const int64_t rank = std::max(from.getRank(), type.getRank());
  if (std::min(from.getRank(), type.getRank()) > 0)
    all.push_back(llvm::to_vector(llvm::seq<int64_t>(rank)));
  return from.getRank() > type.getRank()
             ? tensor::CollapseShapeOp::create(b, loc, type, value, all)
                   .getResult()
             : tensor::ExpandShapeOp::create(b, loc, type, value, all)
                   .getResult();
}

Value te::flatten(OpBuilder &b, Location loc, Value value) {
  auto type = cast<RankedTensorType>(value.getType());
  return reshapeFlat(
      b, loc, value,
      RankedTensorType::get(type.getNumElements(), type.getElementType()));
}

/// `x` with `dimensions`, which become those of the transpose, behind the
/// others.
static Value moveLast(OpBuilder &b, Location loc, Value x,
                      SmallVectorImpl<int64_t> &dimensions) {
  auto shape = cast<RankedTensorType>(x.getType()).getShape();
  const int64_t rank = shape.size(), number = dimensions.size();
  SmallVector<int64_t> order;
  for (int64_t axis : llvm::seq(rank))
    if (!llvm::is_contained(dimensions, axis))
      order.push_back(axis);
  order.append(dimensions);
  dimensions = llvm::to_vector(llvm::seq(rank - number, rank));
  Value init = tensor::EmptyOp::create(b, loc, applyPermutation(shape, order),
                                       getElementTypeOrSelf(x));
  return linalg::TransposeOp::create(b, loc, x, init, order)->getResult(0);
}

/// Whether `dimensions` are those from `first` on.
static bool isRun(ArrayRef<int64_t> dimensions, int64_t first) {
  return llvm::equal(dimensions,
                     llvm::seq<int64_t>(first, first + dimensions.size()));
}

/// Brings a sum into a form that has a kernel: over leading or trailing
/// dimensions, of which a sum over all is two. A conversion of the operand to
/// f32 moves into the body.
static void prepareSum(linalg::ReduceOp op) {
  OpBuilder b(op);
  Location loc = op.getLoc();
  Value x = op.getInputs().front();
  auto dimensions = llvm::to_vector(op.getDimensions());
  const int64_t rank = cast<RankedTensorType>(x.getType()).getRank(),
                sums = dimensions.size();
  auto create = [&](Value x, Value init, ArrayRef<int64_t> dimensions) {
    auto widened = x.getDefiningOp<arith::ExtFOp>();
    return linalg::ReduceOp::create(
               b, loc, widened ? widened.getIn() : x, init, dimensions,
               [](OpBuilder &b, Location loc, ValueRange elements) {
                 Value element = elements[0];
                 if (!element.getType().isF32())
                   element =
                       arith::ExtFOp::create(b, loc, b.getF32Type(), element);
                 Value sum =
                     arith::AddFOp::create(b, loc, element, elements[1]);
                 linalg::YieldOp::create(b, loc, sum);
               })
        ->getResult(0);
  };
  if (!isRun(dimensions, 0) && !isRun(dimensions, rank - sums)) {
    auto widened = x.getDefiningOp<arith::ExtFOp>();
    x = moveLast(b, loc, widened ? widened.getIn() : x, dimensions);
  } else if (sums == rank && rank > 1) {
    auto shape = cast<RankedTensorType>(x.getType()).getShape().drop_back();
    auto type = RankedTensorType::get(shape, b.getF32Type());
    Value zero = arith::ConstantOp::create(b, loc, b.getZeroAttr(type));
    x = create(x, zero, rank - 1);
    dimensions.pop_back();
  }
  Value sum = create(x, op.getInits().front(), dimensions);
  op->getResult(0).replaceAllUsesWith(sum);
  op.erase();
}

/// The f32 of all elements if `value` is a splat constant or a view of one.
static std::optional<APFloat> splatBehindViews(Value value) {
  while (Operation *op = value.getDefiningOp()) {
    Value source = getSourceOfView(op);
    if (!source)
      break;
    value = source;
  }
  DenseFPElementsAttr constant;
  if (matchPattern(value, m_Constant(&constant)) && constant.isSplat())
    return constant.getSplatValue<APFloat>();
  return std::nullopt;
}

/// How many elements of each of `rows` rows are reduced together. Rows that are
/// too long for a region are divided, as is a long row that has no others to be
/// computed beside. te-legalize-input knows that there is a divisor.
static int64_t dividedLength(int64_t rows, int64_t cols) {
  constexpr int64_t kLongRow = 8192, kMostOfPart = 4096, kFewestOfPart = 32;
  const bool fits = cols <= tert::kMostColsOfReduction;
  if (fits && (rows > 1 || cols <= kLongRow))
    return cols;
  for (int64_t part = kMostOfPart; part >= kFewestOfPart; --part)
    if (cols % part == 0)
      return part;
  int64_t part = fits ? cols : kMostOfPart + 1;
  while (cols % part != 0)
    ++part;
  return part;
}

/// The reduction of each row of an f32 matrix by `Op`, from `first` on, which
/// belongs to a region.
template <typename Op>
static Value createReduction(OpBuilder &b, Location loc, Value matrix,
                             float first) {
  auto rows = RankedTensorType::get(
      cast<RankedTensorType>(matrix.getType()).getShape().drop_back(),
      b.getF32Type());
  Value init =
      arith::ConstantOp::create(b, loc, DenseElementsAttr::get(rows, first));
  auto reduction = linalg::ReduceOp::create(
      b, loc, matrix, init, rows.getRank(),
      [](OpBuilder &b, Location loc, ValueRange elements) {
        Value both = Op::create(b, loc, elements[0], elements[1]);
        linalg::YieldOp::create(b, loc, both);
      });
  reduction->setAttr(kInRegion, b.getUnitAttr());
  return reduction->getResult(0);
}

/// Brings a maximum or a minimum, which is that of the negated elements, into
/// maxima of the rows of a matrix.
static void prepareMaximum(linalg::ReduceOp op) {
  OpBuilder b(op);
  Location loc = op.getLoc();
  Value x = op.getInputs().front(), result;
  auto from = cast<RankedTensorType>(x.getType()),
       to = cast<RankedTensorType>(op->getResult(0).getType());
  if (from.getNumElements() == 0) {
    result = op.getInits().front();
  } else if (std::optional<APFloat> splat = splatBehindViews(x)) {
    result =
        arith::ConstantOp::create(b, loc, DenseElementsAttr::get(to, *splat));
  } else {
    const bool isMinimum = !op.getBody()->getOps<arith::MinimumFOp>().empty();
    auto dimensions = llvm::to_vector(op.getDimensions());
    if (!isRun(dimensions, from.getRank() - dimensions.size())) {
      auto widened = x.getDefiningOp<arith::ExtFOp>();
      x = moveLast(b, loc, widened ? widened.getIn() : x, dimensions);
      if (widened)
        x = arith::ExtFOp::create(
            b, loc, cast<RankedTensorType>(x.getType()).clone(b.getF32Type()),
            x);
    }
    if (isMinimum)
      x = arith::NegFOp::create(b, loc, x);
    const int64_t rows = to.getNumElements();
    for (int64_t cols = from.getNumElements() / rows; cols > 1;) {
      const int64_t part = dividedLength(rows, cols);
      cols /= part;
      Value matrix = reshapeFlat(b, loc, flatten(b, loc, x),
                                 from.clone({rows * cols, part}));
      x = createReduction<arith::MaximumFOp>(b, loc, matrix, kLowest);
    }
    if (isMinimum)
      x = arith::NegFOp::create(b, loc, x);
    result = reshapeFlat(b, loc, flatten(b, loc, x), to);
  }
  op->getResult(0).replaceAllUsesWith(result);
  op.erase();
}

namespace {

/// Writes a softmax or its gradient as ops on f32.
class RowBuilder {
public:
  RowBuilder(Operation *op, RankedTensorType type)
      : b(op), loc(op->getLoc()), type(type),
        wide(RankedTensorType::get(type.getShape(), b.getF32Type())),
        rows(RankedTensorType::get(type.getShape().drop_back(),
                                   b.getF32Type())) {}

  Value widen(Value x) {
    return type == wide ? x
                        : arith::ExtFOp::create(b, loc, wide, x).getResult();
  }
  Value narrow(Value x) {
    return type == wide ? x
                        : arith::TruncFOp::create(b, loc, type, x).getResult();
  }
  Value scale(Value x, const APFloat &factor) {
    Value factors =
        arith::ConstantOp::create(b, loc, DenseElementsAttr::get(wide, factor));
    return arith::MulFOp::create(b, loc, x, factors);
  }
  /// The maximum or, with arith.addf and 0, the sum of each row.
  template <typename Op> Value reduce(Value x, float first) {
    return createReduction<Op>(b, loc, x, first);
  }
  Value inverse(Value x) {
    Value ones =
        arith::ConstantOp::create(b, loc, DenseElementsAttr::get(rows, 1.0f));
    return arith::DivFOp::create(b, loc, ones, x);
  }
  /// The value of each row in its elements.
  Value spread(Value x) {
    Value none =
        tensor::EmptyOp::create(b, loc, wide.getShape(), wide.getElementType());
    return linalg::BroadcastOp::create(b, loc, x, none, rows.getRank())
        ->getResult(0);
  }
  template <typename Op> Value create(auto... operands) {
    return Op::create(b, loc, operands...);
  }

private:
  OpBuilder b;
  Location loc;
  RankedTensorType type, wide, rows;
};

} // namespace

/// Replaces an op without elements with a constant.
static bool replaceEmpty(Operation *op) {
  auto type = cast<RankedTensorType>(op->getResult(0).getType());
  if (type.getNumElements() != 0)
    return false;
  OpBuilder b(op);
  op->replaceAllUsesWith(
      arith::ConstantOp::create(b, op->getLoc(), b.getZeroAttr(type)));
  return true;
}

/// y = e / sum of e, as a product with the inverse, where e is exp(s - maximum
/// of s) and s the scaled x.
static void expandSoftmax(SoftmaxOp op) {
  if (!replaceEmpty(op)) {
    RowBuilder rows(op, cast<RankedTensorType>(op.getX().getType()));
    Value s = rows.scale(rows.widen(op.getX()), op.getScale());
    Value max = rows.reduce<arith::MaximumFOp>(s, kLowest);
    Value below = rows.create<arith::SubFOp>(s, rows.spread(max));
    Value e = rows.create<math::ExpOp>(below);
    Value inverse = rows.inverse(rows.reduce<arith::AddFOp>(e, 0.0f));
    Value y = rows.create<arith::MulFOp>(e, rows.spread(inverse));
    op.replaceAllUsesWith(rows.narrow(y));
  }
  op.erase();
}

/// dx = scale y (dy - sum of dy y).
static void expandSoftmaxBackward(SoftmaxBackwardOp op) {
  if (!replaceEmpty(op)) {
    RowBuilder rows(op, cast<RankedTensorType>(op.getY().getType()));
    Value y = rows.widen(op.getY()), dy = rows.widen(op.getDy());
    Value sum =
        rows.reduce<arith::AddFOp>(rows.create<arith::MulFOp>(dy, y), 0.0f);
    Value rest = rows.create<arith::SubFOp>(dy, rows.spread(sum));
    Value dx = rows.create<arith::MulFOp>(rows.scale(y, op.getScale()), rest);
    op.replaceAllUsesWith(rows.narrow(dx));
  }
  op.erase();
}

/// Looks up rows of a table that only te.embedding reads before they are
/// rounded, if this moves fewer bytes than rounding the table.
static void roundAfterLookups(Block &block) {
  for (auto lookup : llvm::make_early_inc_range(block.getOps<EmbeddingOp>())) {
    auto rounded = lookup.getTable().getDefiningOp<arith::TruncFOp>();
    if (!rounded || !rounded->hasOneUse())
      continue;
    auto type = lookup.getY().getType();
    Value table = rounded.getIn();
    // The rows of the table are read and written in 4 + 2 bytes an element, and
    // those of the tokens are looked up in 2 + 2, or in 4 + 4 and then rounded.
    if (6 * countOf(table) <= 10 * countOf(lookup.getY()))
      continue;
    OpBuilder b(lookup);
    auto wide = cast<EmbeddingOp>(b.clone(*lookup));
    wide.getTableMutable().assign(table);
    wide.getY().setType(type.clone(getElementTypeOrSelf(table)));
    lookup.replaceAllUsesWith(
        arith::TruncFOp::create(b, rounded.getLoc(), type, wide.getY())
            .getResult());
    lookup.erase();
    rounded.erase();
  }
}

void te::prepareRegions(Block &block, bool movesRounding) {
  if (movesRounding)
    roundAfterLookups(block);
  expandZeroUnused(block);
  separateComparisons(block);
  for (auto reduce :
       llvm::make_early_inc_range(block.getOps<linalg::ReduceOp>()))
    isSum(reduce) ? prepareSum(reduce) : prepareMaximum(reduce);
  for (Operation &op : llvm::make_early_inc_range(block)) {
    if (auto softmax = dyn_cast<SoftmaxOp>(op))
      expandSoftmax(softmax);
    else if (auto backward = dyn_cast<SoftmaxBackwardOp>(op))
      expandSoftmaxBackward(backward);
  }
}
