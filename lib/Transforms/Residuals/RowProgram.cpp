//===- RowProgram.cpp - what is computed of each row of a head's logits ---===//

#include "RowProgram.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/Matchers.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

using namespace mlir;
using namespace mlir::te;

static Value behindResiduals(Value value) {
  while (auto residual = value.getDefiningOp<ResidualOp>())
    value = residual.getValue();
  return value;
}

static bool isSplat(Value value) {
  DenseElementsAttr constant;
  return matchPattern(value, m_Constant(&constant)) && constant.isSplat();
}

static bool isReshape(Operation *op) {
  return isa<tensor::CollapseShapeOp, tensor::ExpandShapeOp>(op);
}

/// Whether `op` computes each element of its result of the elements of its
/// operands in the same place.
static bool isElementwise(Operation *op) {
  return op->getNumResults() == 1 && op->hasTrait<OpTrait::Elementwise>() &&
         isMemoryEffectFree(op) &&
         isa<RankedTensorType>(op->getResult(0).getType());
}

/// The stage that reads a value of `stage` by rows.
static int readerOf(int stage) { return stage < 0 ? 0 : stage + stage % 2; }

bool RowProgram::hasRows(Value value) const {
  auto type = dyn_cast<RankedTensorType>(value.getType());
  return type && type.hasStaticShape() && type.getRank() > 1 &&
         type.getShape().back() > 1 &&
         llvm::product_of(type.getShape().drop_back()) == getRows();
}

bool RowProgram::isVector(Value value) const {
  auto type = dyn_cast<RankedTensorType>(value.getType());
  return type && type.hasStaticShape() && type.getNumElements() == getRows();
}

/// Whether `value` is a matrix whose last dimension is the columns.
bool RowProgram::isInRows(Value value) const {
  return isMatrix(value) && hasRows(value) &&
         cast<RankedTensorType>(value.getType()).getShape().back() ==
             getColumns(value);
}

/// The columns of the result of `op` if it computes each row of a matrix of the
/// same row of its operands, of a number for each row or column, or of numbers.
std::optional<int64_t> RowProgram::columnsOf(Operation *op) const {
  if (op->getNumResults() != 1)
    return std::nullopt;
  const Value result = op->getResult(0);
  if (isa<ResidualOp>(op) || isReshape(op) || isElementwise(op)) {
    std::optional<int64_t> columns;
    for (Value operand : op->getOperands()) {
      if (isSplat(operand))
        continue;
      if (!isMatrix(operand) || (columns && *columns != getColumns(operand)))
        return std::nullopt;
      columns = getColumns(operand);
    }
    return columns;
  }
  if (!hasRows(result))
    return std::nullopt;
  auto type = cast<RankedTensorType>(result.getType());
  const int64_t last = type.getRank() - 1, columns = type.getShape().back();
  if (auto broadcast = dyn_cast<linalg::BroadcastOp>(op)) {
    auto added = llvm::to_vector(broadcast.getDimensions());
    llvm::sort(added);
    const bool toColumns = added == SmallVector<int64_t>{last};
    const bool toRows = llvm::equal(added, llvm::seq<int64_t>(last));
    if (toColumns || toRows || broadcast.getInput().getType().getRank() == 0)
      return columns;
    return std::nullopt;
  }
  auto areInRows = [&](ValueRange values) {
    return llvm::all_of(
        values, [&](Value value) { return isSplat(value) || isInRows(value); });
  };
  bool isOfRows = isa<SoftmaxOp, SoftmaxBackwardOp>(op);
  if (auto slice = dyn_cast<tensor::ExtractSliceOp>(op))
    isOfRows = slice.hasUnitStride() &&
               slice.getSourceType().getRank() == type.getRank() &&
               slice.getSourceType().getShape().drop_back() ==
                   type.getShape().drop_back();
  else if (auto concat = dyn_cast<tensor::ConcatOp>(op))
    isOfRows = concat.getDim() == uint64_t(last);
  return isOfRows && areInRows(op->getOperands()) ? std::optional(columns)
                                                  : std::nullopt;
}

/// Whether `op` computes a number for each row of such numbers.
bool RowProgram::isVectorOp(Operation *op) const {
  return (isElementwise(op) || isReshape(op)) && isVector(op->getResult(0)) &&
         llvm::all_of(op->getOperands(), [&](Value operand) {
           return isVector(operand) || isSplat(operand);
         });
}

/// Whether `op` reduces each row of a matrix.
bool RowProgram::isReduction(Operation *op) const {
  auto reduce = dyn_cast<linalg::ReduceOp>(op);
  if (!reduce || reduce.getInputs().size() != 1 ||
      !isInRows(reduce.getInputs().front()) ||
      !isSplat(reduce.getInits().front()))
    return false;
  auto type = cast<RankedTensorType>(reduce.getInputs().front().getType());
  // What depends on no logits may be of another layer.
  return (readsLogits(op) ||
          type.getShape().back() == getColumns(getHead().getY())) &&
         reduce.getDimensions() == ArrayRef<int64_t>{type.getRank() - 1};
}

/// Whether `op` is a gradient of the head, of a matrix that is known by rows.
/// One that does not depend on logits is found by its location.
bool RowProgram::isGradient(Operation *op) const {
  if (!isa<LinearDgradOp, LinearWgradOp, BiasGradOp>(op))
    return false;
  Value dy = op->getOperand(0), other = op->getOperands().back();
  if (!isMatrix(dy) ||
      (!ofLogits.contains(dy) && op->getLoc() != getHead().getLoc()))
    return false;
  if (auto wgrad = dyn_cast<LinearWgradOp>(op))
    return behindResiduals(wgrad.getX()) == getHead().getX();
  return isa<BiasGradOp>(op) || behindResiduals(other) == getHead().getW();
}

void RowProgram::visit(Operation &op, std::string &why) {
  int stage = -1;
  for (Value operand : op.getOperands())
    stage = std::max(stage, stageOf(operand));
  const bool isSaved = isa<ResidualOp>(op), reads = readsLogits(&op);
  std::optional<int64_t> columns = columnsOf(&op);
  if (&op == head || columns) {
    if (columns)
      matrices[op.getResult(0)] = *columns;
    if (&op == head || reads)
      ofLogits.insert(op.getResult(0));
    if (stage >= 0 || &op == head)
      stages[op.getResult(0)] = readerOf(stage) + (isSaved ? 2 : 0);
    return;
  }
  if (isReduction(&op) || isGradient(&op)) {
    const bool isBackward = boundary && boundary->isBeforeInBlock(&op);
    stages[op.getResult(0)] = std::max(readerOf(stage), isBackward ? 2 : 0);
    sinks.push_back(&op);
    return;
  }
  if (reads && why.empty())
    why = "'" + op.getName().getStringRef().str() + "' reads the logits too";
  if (stage < 0)
    return;
  for (Value result : op.getResults())
    stages[result] = isVectorOp(&op) ? stage : stage | 1;
}

/// Adds the ops that reductions and gradients need. Of those that compute a
/// number for each row, these are the ones that rows read in their own stage.
void RowProgram::addMembers() {
  SmallVector<Operation *> open(sinks);
  while (!open.empty()) {
    Operation *op = open.pop_back_val();
    if (!members.insert(op) || op == head)
      continue;
    const bool readsVectors = isa<linalg::BroadcastOp>(op) || isVectorOp(op);
    for (Value operand : op->getOperands()) {
      Operation *maker = operand.getDefiningOp();
      const int stage = stageOf(operand);
      if (maker && (isMatrix(operand) || (readsVectors && stage >= 0 &&
                                          stage % 2 == 0 && isVectorOp(maker))))
        open.push_back(maker);
    }
  }
}

SmallVector<int> RowProgram::getStages() const {
  SmallVector<int> found;
  for (Operation *op : sinks)
    if (int stage = stageOf(op->getResult(0));
        !llvm::is_contained(found, stage))
      found.push_back(stage);
  llvm::sort(found);
  return found;
}

SmallVector<Value> RowProgram::getResults(int stage) const {
  SmallVector<Operation *> ops;
  for (Operation *op : members) {
    Value result = op->getResult(0);
    if (isComputed(result, stage) &&
        llvm::any_of(result.getUsers(),
                     [&](Operation *user) { return isOutside(user); }))
      ops.push_back(op);
  }
  llvm::sort(ops,
             [](Operation *a, Operation *b) { return a->isBeforeInBlock(b); });
  return llvm::map_to_vector(
      ops, [](Operation *op) -> Value { return op->getResult(0); });
}

FailureOr<RowProgram> RowProgram::find(LinearOp head, std::string &why) {
  RowProgram program(head);
  program.matrices[head.getY()] =
      cast<RankedTensorType>(head.getY().getType()).getDimSize(1);
  for (auto residual : head->getBlock()->getOps<ResidualOp>())
    if (!program.boundary && head->isBeforeInBlock(residual))
      program.boundary = residual;
  if (head.getParallel())
    why = "the layer is split over ranks";
  for (Operation &op : *head->getBlock())
    program.visit(op, why);
  if (llvm::none_of(program.sinks, llvm::IsaPred<linalg::ReduceOp>))
    why.clear();
  else if (why.empty()) {
    program.addMembers();
    return program;
  }
  return failure();
}
