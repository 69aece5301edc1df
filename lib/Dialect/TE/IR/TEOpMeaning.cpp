//===- TEOpMeaning.cpp - what an op says of itself ------------------------===//

#include "TEDialect/IR/OpMeaning.h"
#include "TEDialect/IR/TE.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
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

/// One whose result is zero where its operands are.
template <typename Op>
struct ZeroKeepingAxes
    : AxisRelationOpInterface::ExternalModel<ZeroKeepingAxes<Op>, Op> {
  AxisRelation getAxisRelation(Operation *op) const {
    AxisRelation relation = AxisRelation::pointwise(op);
    relation.keepsZeros = true;
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

/// The axes of the operand are those of the result that it has.
struct BroadcastAxes
    : AxisRelationOpInterface::ExternalModel<BroadcastAxes,
                                             linalg::BroadcastOp> {
  AxisRelation getAxisRelation(Operation *op) const {
    auto broadcast = cast<linalg::BroadcastOp>(op);
    SmallVector<std::string> result, operand;
    for (int64_t axis = 0, rank = broadcast.getInit().getType().getRank();
         axis < rank; ++axis) {
      result.push_back("f" + std::to_string(axis));
      if (!llvm::is_contained(broadcast.getDimensions(), axis))
        operand.push_back(result.back());
    }
    AxisRelation relation(op);
    relation.operands("input", broadcast.getInput(), llvm::join(operand, " "));
    relation.operands("init", broadcast.getInit(), llvm::join(result, " "));
    relation.results("result", op->getResults(), llvm::join(result, " "));
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
  linalg::BroadcastOp::attachInterface<BroadcastAxes>(*context);
  attach<StoredForm, arith::ExtFOp, arith::TruncFOp>(context);
  for (RegisteredOperationName op : context->getRegisteredOperations())
    if (isa<arith::ArithDialect, math::MathDialect>(op.getDialect()) &&
        op.hasTrait<OpTrait::Elementwise>() &&
        !op.hasInterface<AxisRelationOpInterface>())
      op.attachInterface<PointwiseAxes>();
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
