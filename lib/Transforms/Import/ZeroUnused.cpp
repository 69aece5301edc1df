//===- ZeroUnused.cpp - te-zero-unused ------------------------------------===//
//
// One walk in program order follows the rows that te.zero_unused says are not
// used, and whether they are still zeros. A layer that casts an input of which
// they are not, such as the result of a norm with a bias, reads the input
// behind another te.zero_unused. Cotangents need none: the derivative of a
// te.zero_unused is one, and every op of a backward gives rows of zeros for
// rows of zeros.
//
//===----------------------------------------------------------------------===//

#include "TEDialect/Analysis/QuantPolicy.h"
#include "TEDialect/IR/TE.h"
#include "TEDialect/Transforms/Import/Passes.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

namespace mlir::te {
#define GEN_PASS_DEF_ZEROUNUSEDPASS
#include "TEDialect/Transforms/Import/Passes.h.inc"
} // namespace mlir::te

using namespace mlir;
using namespace mlir::te;

namespace {

/// The rows of a matrix, or of a tensor whose leading dimensions are rows.
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
  void visitLayer(LinearOp layer);
  Rows rowsOf(Operation &op, const AxisRelation &relation,
              const AxisRelation::Entry &result) const;

  DenseMap<Value, Rows> rows;
  /// The inputs of layers that were set to zero.
  DenseMap<Value, Value> zeroed;
};

} // namespace

static ArrayRef<int64_t> shapeOf(Value value) {
  return cast<ShapedType>(value.getType()).getShape();
}

/// Whether the first dimensions of `value` together are `count` rows.
static bool hasRows(Value value, int64_t count) {
  int64_t product = 1;
  return llvm::any_of(shapeOf(value).drop_back(),
                      [&](int64_t size) { return (product *= size) == count; });
}

/// Whether the rows of the result of attention that are not `used` are zeros.
static bool leavesZeros(AttentionOp op, Value used) {
  auto mask = used.getDefiningOp<UsedRowsOp>();
  return mask && mask.getDocuments() == op.getDocuments();
}

Rows ZeroUnused::rowsOf(Operation &op, const AxisRelation &relation,
                        const AxisRelation::Entry &result) const {
  Rows found;
  bool areZeros = true;
  const bool isMatrix = shapeOf(result.value).size() == 2;
  if (!isMatrix && !relation.isPointwise())
    return {};
  for (const AxisRelation::Entry &operand : relation.getOperands()) {
    if (operand.axes.empty() || operand.axes[0].times != 1 ||
        operand.axes[0].factor == AxisRelation::kNone ||
        operand.axes[0].factor != result.axes[0].factor)
      continue;
    const Rows of = rows.lookup(operand.value);
    if (!found.used)
      found.used = of.used;
    areZeros &= of.unusedAreZeros && of.used == found.used;
  }
  if (!found.used || !hasRows(result.value, shapeOf(found.used)[0]))
    return {};
  auto isZero = [&](Value operand) {
    const Rows of = rows.lookup(operand);
    return of.used == found.used && of.unusedAreZeros;
  };
  if (auto attention = dyn_cast<AttentionOp>(op))
    found.unusedAreZeros = leavesZeros(attention, found.used);
  else if (relation.movesElements)
    found.unusedAreZeros = areZeros;
  else
    found.unusedAreZeros = !relation.getZeroKeepers().empty() &&
                           llvm::all_of(relation.getZeroKeepers(), isZero);
  return found;
}

/// Lets `layer` read zeros, if it casts its input.
void ZeroUnused::visitLayer(LinearOp layer) {
  const QuantPolicy policy(RecipeAttr::lookup(layer));
  const Rows input = rows.lookup(layer.getX());
  if (!input.used || input.unusedAreZeros ||
      llvm::none_of(std::array{Gemm::Fprop, Gemm::Wgrad}, [&](Gemm gemm) {
        return policy.operandMode(gemm) == OperandMode::Quantized;
      }))
    return;
  Value &zeros = zeroed[layer.getX()];
  if (!zeros) {
    OpBuilder b(layer);
    zeros = ZeroUnusedOp::create(b, layer.getLoc(), layer.getX(), input.used);
    rows[zeros] = {input.used, /*unusedAreZeros=*/true};
    ++numInserted;
  }
  layer.getXMutable().assign(zeros);
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
  if (isa<tensor::CollapseShapeOp, tensor::ExpandShapeOp>(op)) {
    const Rows from = rows.lookup(op.getOperand(0));
    if (from.used && hasRows(op.getResult(0), shapeOf(from.used)[0]))
      rows[op.getResult(0)] = from;
    return;
  }
  auto rule = dyn_cast<AxisRelationOpInterface>(op);
  if (!rule)
    return;
  const AxisRelation relation = rule.getAxisRelation();
  for (const AxisRelation::Entry &result : relation.getResults())
    if (shapeOf(result.value).size() >= 2)
      if (const Rows of = rowsOf(op, relation, result); of.used)
        rows[result.value] = of;
}
