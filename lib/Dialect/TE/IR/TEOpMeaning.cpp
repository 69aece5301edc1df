//===- TEOpMeaning.cpp - what an op says of itself ------------------------===//

#include "TEDialect/IR/OpMeaning.h"
#include "TEDialect/IR/TE.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/Matchers.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/ErrorHandling.h"

using namespace mlir;
using namespace mlir::te;

//===----------------------------------------------------------------------===//
// Axis relations
//===----------------------------------------------------------------------===//

int AxisRelation::factorOf(StringRef name) {
  auto *found = llvm::find(factors, name);
  if (found == factors.end()) {
    factors.push_back(name.str());
    return static_cast<int>(factors.size()) - 1;
  }
  return static_cast<int>(found - factors.begin());
}

void AxisRelation::add(SmallVectorImpl<Entry> &entries, StringRef name,
                       ValueRange values, StringRef text) {
  constexpr StringLiteral kAllAxes = "...";
  for (Value value : values) {
    // Scaled values have no axes here: what asks runs before casts.
    auto type = dyn_cast<RankedTensorType>(value.getType());
    if (!type)
      continue;
    Entry entry{value, name, {}};
    if (text == kAllAxes) {
      for (int64_t i = 0; i < type.getRank(); ++i)
        entry.axes.push_back({factorOf("#" + std::to_string(i)), 1});
    } else {
      SmallVector<StringRef> tokens;
      text.split(tokens, ' ', /*MaxSplit=*/-1, /*KeepEmpty=*/false);
      for (StringRef token : tokens) {
        Axis axis;
        if (token.consume_front("~"))
          axis.times = 0;
        else if (token.consumeInteger(10, axis.times))
          axis.times = 1;
        if (token != "_")
          axis.factor = factorOf(token);
        entry.axes.push_back(axis);
      }
    }
    if (static_cast<int64_t>(entry.axes.size()) != type.getRank())
      llvm::report_fatal_error("the axes of '" + op->getName().getStringRef() +
                               "' say that '" + name + "' is [" + text +
                               "], but its rank is " + Twine(type.getRank()));
    entries.push_back(std::move(entry));
  }
}

void AxisRelation::operands(StringRef name, ValueRange values, StringRef text) {
  pointwiseOnly &= text == "..." || text.empty();
  add(operandEntries, name, values, text);
}

void AxisRelation::results(StringRef name, ValueRange values, StringRef text) {
  pointwiseOnly &= text == "...";
  add(resultEntries, name, values, text);
}

AxisRelation AxisRelation::pointwise(Operation *op) {
  AxisRelation relation(op);
  relation.operands("operand", op->getOperands(), "...");
  relation.results("result", op->getResults(), "...");
  return relation;
}

//===----------------------------------------------------------------------===//
// Ops of other dialects
//===----------------------------------------------------------------------===//

namespace {

/// An op of whatever dialect all of whose tensors have one shape.
struct PointwiseAxes : AxisRelationOpInterface::FallbackModel<PointwiseAxes> {
  AxisRelation getAxisRelation(Operation *op) const {
    return AxisRelation::pointwise(op);
  }
};

/// Whether all elements of `value` are one finite number.
bool isFiniteSplat(Value value) {
  DenseFPElementsAttr constant;
  return matchPattern(value, m_Constant(&constant)) && constant.isSplat() &&
         constant.getSplatValue<APFloat>().isFinite();
}

/// One whose result is zero where its operands are, or where the other factor
/// of a finite constant is.
template <typename Op>
struct ZeroKeepingAxes
    : AxisRelationOpInterface::ExternalModel<ZeroKeepingAxes<Op>, Op> {
  AxisRelation getAxisRelation(Operation *op) const {
    AxisRelation relation = AxisRelation::pointwise(op);
    for (Value operand : op->getOperands())
      if (!isa<arith::MulFOp>(op) || !isFiniteSplat(operand))
        relation.keepZerosOf(operand);
    return relation;
  }
};

/// A reshape: axes that it leaves as they are have one size.
template <typename Op>
struct ReshapeAxes
    : AxisRelationOpInterface::ExternalModel<ReshapeAxes<Op>, Op> {
  AxisRelation getAxisRelation(Operation *op) const {
    constexpr bool isCollapse = std::is_same_v<Op, tensor::CollapseShapeOp>;
    const Value many = isCollapse ? op->getOperand(0) : op->getResult(0);
    SmallVector<std::string> longer(
        cast<RankedTensorType>(many.getType()).getRank(), "_");
    SmallVector<std::string> shorter;
    for (const auto &group : cast<Op>(op).getReassociationIndices()) {
      shorter.push_back("_");
      if (group.size() == 1)
        shorter.back() = longer[group.front()] =
            "f" + std::to_string(shorter.size());
    }
    AxisRelation relation(op);
    relation.operands("src", op->getOperand(0),
                      llvm::join(isCollapse ? longer : shorter, " "));
    relation.results("result", op->getResult(0),
                     llvm::join(isCollapse ? shorter : longer, " "));
    relation.movesElements = true;
    return relation;
  }
};

/// The names of the axes of a tensor of `rank`, joined by spaces.
std::string axisNames(ArrayRef<std::string> names) {
  return llvm::join(names, " ");
}
SmallVector<std::string> makeAxisNames(int64_t rank) {
  return llvm::map_to_vector(
      llvm::seq(rank), [](int64_t axis) { return "f" + std::to_string(axis); });
}
int64_t rankOf(Value value) {
  return cast<RankedTensorType>(value.getType()).getRank();
}

/// The relation of an op of linalg with one operand, `input`, and one result.
AxisRelation linalgRelation(Operation *op, ArrayRef<std::string> input,
                            ArrayRef<std::string> result) {
  AxisRelation relation(op);
  relation.operands("input", op->getOperand(0), axisNames(input));
  relation.operands("init", op->getOperand(1), axisNames(result));
  relation.results("result", op->getResults(), axisNames(result));
  return relation;
}

/// The axes of the operand are those of the result that it has.
struct BroadcastAxes
    : AxisRelationOpInterface::ExternalModel<BroadcastAxes,
                                             linalg::BroadcastOp> {
  AxisRelation getAxisRelation(Operation *op) const {
    auto added = cast<linalg::BroadcastOp>(op).getDimensions();
    SmallVector<std::string> result = makeAxisNames(rankOf(op->getResult(0))),
                             input;
    for (auto [axis, name] : llvm::enumerate(result))
      if (!llvm::is_contained(added, axis))
        input.push_back(name);
    return linalgRelation(op, input, result);
  }
};

struct TransposeAxes
    : AxisRelationOpInterface::ExternalModel<TransposeAxes,
                                             linalg::TransposeOp> {
  AxisRelation getAxisRelation(Operation *op) const {
    SmallVector<std::string> input = makeAxisNames(rankOf(op->getOperand(0))),
                             result;
    for (int64_t axis : cast<linalg::TransposeOp>(op).getPermutation())
      result.push_back(input[axis]);
    AxisRelation relation = linalgRelation(op, input, result);
    relation.movesElements = true;
    return relation;
  }
};

/// The result is a sum over the dimensions that it lacks, or a maximum, which
/// is no sum of the maxima of parts.
struct ReduceAxes
    : AxisRelationOpInterface::ExternalModel<ReduceAxes, linalg::ReduceOp> {
  AxisRelation getAxisRelation(Operation *op) const {
    auto reduce = cast<linalg::ReduceOp>(op);
    auto reduced = reduce.getDimensions();
    SmallVector<std::string> input = makeAxisNames(rankOf(op->getOperand(0))),
                             result;
    for (auto [axis, name] : llvm::enumerate(input))
      if (!llvm::is_contained(reduced, axis))
        result.push_back(name);
    AxisRelation relation = linalgRelation(op, input, result);
    for (int64_t axis : reduced)
      isSum(reduce) ? relation.sum(input[axis])
                    : relation.needWhole(input[axis]);
    return relation;
  }
};

/// A slice or concatenation: each rank needs all of the dimensions of which the
/// result has another size.
template <typename Op>
struct PartAxes : AxisRelationOpInterface::ExternalModel<PartAxes<Op>, Op> {
  AxisRelation getAxisRelation(Operation *op) const {
    auto shapeOf = [](Value value) {
      return cast<RankedTensorType>(value.getType()).getShape();
    };
    const Value result = op->getResult(0);
    AxisRelation relation(op);
    // te-legalize-input refuses a slice that drops dimensions.
    if (rankOf(op->getOperand(0)) != rankOf(result))
      return relation;
    const SmallVector<std::string> names = makeAxisNames(rankOf(result));
    SmallVector<std::string> resultNames = names;
    for (auto [i, operand] : llvm::enumerate(op->getOperands())) {
      SmallVector<std::string> operandNames = names;
      for (size_t axis = 0; axis < names.size(); ++axis)
        if (shapeOf(operand)[axis] != shapeOf(result)[axis]) {
          operandNames[axis] += "of" + std::to_string(i);
          resultNames[axis] = "_";
          relation.needWhole(operandNames[axis]);
        }
      relation.operands("source", operand, axisNames(operandNames));
    }
    relation.results("result", result, axisNames(resultNames));
    relation.movesElements = true;
    return relation;
  }
};

template <typename Op>
struct StoredForm : StoredFormOpInterface::ExternalModel<StoredForm<Op>, Op> {};

} // namespace

template <template <typename> class Model, typename... Ops>
static void attach(MLIRContext *context) {
  (Ops::template attachInterface<Model<Ops>>(*context), ...);
}

void te::attachMeaningOfOtherDialects(MLIRContext *context) {
  attach<ZeroKeepingAxes, arith::AddFOp, arith::SubFOp, arith::MulFOp,
         arith::ExtFOp, arith::TruncFOp>(context);
  attach<ReshapeAxes, tensor::CollapseShapeOp, tensor::ExpandShapeOp>(context);
  attach<PartAxes, tensor::ExtractSliceOp, tensor::ConcatOp>(context);
  linalg::BroadcastOp::attachInterface<BroadcastAxes>(*context);
  linalg::TransposeOp::attachInterface<TransposeAxes>(*context);
  linalg::ReduceOp::attachInterface<ReduceAxes>(*context);
  attach<StoredForm, arith::ExtFOp, arith::TruncFOp>(context);
  for (RegisteredOperationName op : context->getRegisteredOperations())
    if (isa<arith::ArithDialect, math::MathDialect>(op.getDialect()) &&
        op.hasTrait<OpTrait::Elementwise>() &&
        !op.hasInterface<AxisRelationOpInterface>())
      op.attachInterface<PointwiseAxes>();
}

bool te::isSum(linalg::ReduceOp op) {
  Value reduced = op.getBody()->getTerminator()->getOperand(0);
  return isa_and_nonnull<arith::AddFOp>(reduced.getDefiningOp());
}

bool te::isDataMovement(Operation *op) {
  return isa<tensor::CollapseShapeOp, tensor::ExpandShapeOp,
             tensor::ExtractSliceOp, tensor::ConcatOp, tensor::EmptyOp,
             linalg::BroadcastOp, linalg::TransposeOp>(op);
}

//===----------------------------------------------------------------------===//
// Ops that say nothing
//===----------------------------------------------------------------------===//

SmallVector<StringRef> te::findOpsWithoutMeaning(MLIRContext *context,
                                                 StringRef dialect) {
  SmallVector<StringRef> names;
  for (RegisteredOperationName op : context->getRegisteredOperations())
    if (op.getDialectNamespace() == dialect &&
        !op.hasInterface<AxisRelationOpInterface>())
      names.push_back(op.getStringRef());
  return names;
}

void te::requireMeaning(MLIRContext *context, StringRef dialect) {
  for (StringRef name : findOpsWithoutMeaning(context, dialect))
    llvm::report_fatal_error("op '" + name +
                             "' does not implement AxisRelationOpInterface; "
                             "declare its axes in TableGen with TE_Axes, or "
                             "that it has none with TE_NoAxes");
}
