//===- ZeroUnused.cpp - te-zero-unused ------------------------------------===//
//
// One walk in program order follows the rows that te.zero_unused says are not
// used, and whether they are still zeros. What casts a value in which they are
// not, such as the result of a norm with a bias, or sums over its rows, reads
// it behind another te.zero_unused; routing gets the rows that are used.
// Cotangents need nothing: the derivative of a te.zero_unused is one, and every
// op of a backward gives rows of zeros for rows of zeros.
//
//===----------------------------------------------------------------------===//

#include "TEDialect/Analysis/QuantPolicy.h"
#include "TEDialect/IR/TE.h"
#include "TEDialect/IR/TEMoe.h"
#include "TEDialect/Transforms/Import/Passes.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

namespace mlir::te {
#define GEN_PASS_DEF_ZEROUNUSEDPASS
#include "TEDialect/Transforms/Import/Passes.h.inc"
} // namespace mlir::te

using namespace mlir;
using namespace mlir::te;

namespace {

/// The rows of a tensor, which its first axes count.
struct Rows {
  Value used; // null if nothing is known
  bool unusedAreZeros = false;
};

struct ZeroUnused final : te::impl::ZeroUnusedPassBase<ZeroUnused> {
  using Base::Base;

  void runOnOperation() override {
    for (Block &block : getOperation().getBody()) {
      rows.clear();
      zeroed.clear();
      for (Operation &op : block)
        visit(op);
    }
  }

private:
  void visit(Operation &op);
  template <typename Layer> void visitLayer(Layer layer);
  void visitSum(linalg::ReduceOp sum);
  void visitPermute(PermuteOp permute);
  void readZeros(OpOperand &operand);
  Value usedTokens(PermuteOp permute) const;
  Rows rowsOf(Operation &op, const AxisRelation &relation,
              const AxisRelation::Entry &result) const;

  DenseMap<Value, Rows> rows;
  /// What layers and sums read in place of values.
  DenseMap<Value, Value> zeroed;
};

} // namespace

static ArrayRef<int64_t> shapeOf(Value value) {
  return cast<ShapedType>(value.getType()).getShape();
}

/// How many of the first axes of `value` together are the rows of `used`; 0 if
/// none are.
static size_t countRowAxes(Value value, Value used) {
  int64_t product = 1;
  for (auto [axis, size] : llvm::enumerate(shapeOf(value)))
    if ((product *= size) == shapeOf(used)[0])
      return axis + 1;
  return 0;
}

/// Whether the rows of the operand are those of the result.
static bool shareRows(const AxisRelation::Entry &operand,
                      const AxisRelation::Entry &result, Value used) {
  const size_t count = countRowAxes(operand.value, used);
  auto isSame = [&](size_t axis) {
    const AxisRelation::Axis from = operand.axes[axis], to = result.axes[axis];
    return from.factor != AxisRelation::kNone && from.factor == to.factor &&
           from.times == 1 && to.times == 1;
  };
  return count > 0 && operand.axes.size() >= count &&
         result.axes.size() >= count && llvm::all_of(llvm::seq(count), isSame);
}

/// Whether the rows of the result of attention that are not `used` are zeros.
static bool leavesZeros(AttentionOp op, Value used) {
  auto mask = used.getDefiningOp<UsedRowsOp>();
  return mask && mask.getDocuments() == op.getDocuments();
}

Rows ZeroUnused::rowsOf(Operation &op, const AxisRelation &relation,
                        const AxisRelation::Entry &result) const {
  Rows found;
  for (const AxisRelation::Entry &operand : relation.getOperands())
    if (const Value used = rows.lookup(operand.value).used;
        used && !found.used && shareRows(operand, result, used))
      found.used = used;
  if (!found.used)
    return {};
  auto isZero = [&](Value operand) {
    const Rows of = rows.lookup(operand);
    return of.used == found.used && of.unusedAreZeros;
  };
  if (auto attention = dyn_cast<AttentionOp>(op))
    found.unusedAreZeros = leavesZeros(attention, found.used);
  else if (relation.movesElements)
    found.unusedAreZeros = llvm::all_of(
        relation.getOperands(), [&](const AxisRelation::Entry &operand) {
          return isZero(operand.value) ||
                 !shareRows(operand, result, found.used);
        });
  else
    found.unusedAreZeros = !relation.getZeroKeepers().empty() &&
                           llvm::all_of(relation.getZeroKeepers(), isZero);
  return found;
}

/// `x` with zeros in the rows that are not `used`, as a matrix in between.
static Value zeroRows(OpBuilder &b, Location loc, Value x, Value used) {
  const int64_t rank = shapeOf(x).size(), count = countRowAxes(x, used);
  const bool isVector = count == rank;
  // An element of a vector is a row of one column.
  SmallVector<int64_t> shape(shapeOf(x));
  SmallVector<ReassociationIndices> columns;
  for (int64_t axis : llvm::seq(rank))
    columns.push_back({axis});
  if (isVector) {
    shape.push_back(1);
    columns.back().push_back(rank);
  }
  auto type = RankedTensorType::get(shape, getElementTypeOrSelf(x));
  SmallVector<ReassociationIndices> matrix(2);
  for (int64_t axis : llvm::seq<int64_t>(shape.size()))
    matrix[axis >= count].push_back(axis);

  Value zeros = x;
  if (isVector)
    zeros = tensor::ExpandShapeOp::create(b, loc, type, zeros, columns);
  if (shape.size() > 2)
    zeros = tensor::CollapseShapeOp::create(b, loc, zeros, matrix);
  zeros = ZeroUnusedOp::create(b, loc, zeros, used);
  if (shape.size() > 2)
    zeros = tensor::ExpandShapeOp::create(b, loc, type, zeros, matrix);
  if (isVector)
    zeros = tensor::CollapseShapeOp::create(b, loc, zeros, columns);
  return zeros;
}

/// Lets `operand` be zero in rows that are not used.
void ZeroUnused::readZeros(OpOperand &operand) {
  const Rows of = rows.lookup(operand.get());
  if (!of.used || of.unusedAreZeros)
    return;
  Value &zeros = zeroed[operand.get()];
  if (!zeros) {
    OpBuilder b(operand.getOwner());
    zeros = zeroRows(b, operand.getOwner()->getLoc(), operand.get(), of.used);
    rows[zeros] = {of.used, /*unusedAreZeros=*/true};
    ++numInserted;
  }
  operand.set(zeros);
}

/// Lets `layer` read zeros, if it casts its input.
template <typename Layer> void ZeroUnused::visitLayer(Layer layer) {
  const QuantPolicy policy(RecipeAttr::lookup(layer));
  if (llvm::any_of(std::array{Gemm::Fprop, Gemm::Wgrad}, [&](Gemm gemm) {
        return policy.operandMode(gemm) == OperandMode::Quantized;
      }))
    readZeros(layer.getXMutable());
}

/// Lets a sum over rows add zeros.
void ZeroUnused::visitSum(linalg::ReduceOp sum) {
  OpOperand &x = sum->getOpOperand(0);
  if (!isSum(sum))
    return;
  if (const Value used = rows.lookup(x.get()).used;
      used && llvm::any_of(sum.getDimensions(), [&](int64_t axis) {
        return axis < int64_t(countRowAxes(x.get(), used));
      }))
    readZeros(x);
}

/// The rows of the tokens of `permute` that are used.
Value ZeroUnused::usedTokens(PermuteOp permute) const {
  for (Value tokens : {Value(permute.getX()), Value(permute.getIds())})
    if (const Value used = rows.lookup(tokens).used;
        used && shapeOf(used)[0] == shapeOf(tokens)[0])
      return used;
  return permute.getUsed();
}

/// Leaves tokens that are not used without an expert.
void ZeroUnused::visitPermute(PermuteOp permute) {
  Value used = usedTokens(permute);
  if (!used || permute.getUsed())
    return;
  OpBuilder b(permute);
  if (auto type = cast<RankedTensorType>(used.getType());
      !type.getElementType().isF32())
    used = arith::ExtFOp::create(b, permute.getLoc(),
                                 type.clone(b.getF32Type()), used);
  permute.getUsedMutable().assign(used);
}

void ZeroUnused::visit(Operation &op) {
  if (auto zero = dyn_cast<ZeroUnusedOp>(op)) {
    rows[zero.getY()] = {zero.getUsed(), /*unusedAreZeros=*/true};
    return;
  }
  if (rows.empty())
    return;
  if (auto layer = dyn_cast<LinearOp>(op))
    visitLayer(layer);
  else if (auto layer = dyn_cast<GroupedLinearOp>(op))
    visitLayer(layer);
  else if (auto sum = dyn_cast<linalg::ReduceOp>(op))
    visitSum(sum);
  else if (auto permute = dyn_cast<PermuteOp>(op))
    visitPermute(permute);
  if (isa<tensor::CollapseShapeOp, tensor::ExpandShapeOp>(op)) {
    const Rows from = rows.lookup(op.getOperand(0));
    if (from.used && countRowAxes(op.getResult(0), from.used) > 0)
      rows[op.getResult(0)] = from;
    return;
  }
  if (auto unpermute = dyn_cast<UnpermuteOp>(op))
    if (auto permute = unpermute.getRowOf().getDefiningOp<PermuteOp>();
        permute && permute.getUsed()) {
      // Nothing is added up for a token without an expert.
      rows[unpermute.getOut()] = {usedTokens(permute), /*unusedAreZeros=*/true};
      return;
    }
  auto rule = dyn_cast<AxisRelationOpInterface>(op);
  if (!rule)
    return;
  const AxisRelation relation = rule.getAxisRelation();
  for (const AxisRelation::Entry &result : relation.getResults())
    // Vectors of te ops, such as the factors of a norm, are for their backward.
    if (shapeOf(result.value).size() >= 2 || !isa<TEDialect>(op.getDialect()))
      if (const Rows of = rowsOf(op, relation, result); of.used)
        rows[result.value] = of;
}
