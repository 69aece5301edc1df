//===- CheckFinite.cpp - count NaN and infinities of every value ----------===//
//
// The pass first lists all values to check, in program order, and then inserts
// the chain of counts. Descriptions are built while the values are as the user
// wrote them or as quantisation left them, so that they name those ops.
//
//===----------------------------------------------------------------------===//

#include "Results.h"

#include "TEDialect/Analysis/GemmOrigin.h"
#include "TEDialect/IR/TE.h"
#include "TEDialect/Transforms/Instrument/Passes.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

namespace mlir::te {
#define GEN_PASS_DEF_CHECKFINITEPASS
#include "TEDialect/Transforms/Instrument/Passes.h.inc"
} // namespace mlir::te

using namespace mlir;
using namespace mlir::te;

namespace {
/// A tensor to check after `after`, or at the start of the function.
struct Check {
  Operation *after;
  Value x;
  /// The per-tensor cast of the tensor, if this check is of a cast.
  QuantizeOpInterface cast;
  Attribute description;
};
} // namespace

/// Whether `type` is a float tensor of static shape. Other tensors do not reach
/// this pass.
static bool isFloat(Type type) {
  auto tensor = dyn_cast<RankedTensorType>(type);
  return tensor && tensor.hasStaticShape() &&
         isa<Float32Type, BFloat16Type, Float16Type>(tensor.getElementType());
}

/// Whether `op` cannot compute NaN or infinity from finite operands.
static bool keepsFinite(Operation *op) {
  return isDataMovement(op) ||
         isa<arith::ConstantOp, ResidualOp, AmaxOp, AmaxRowsOp, PartialAmaxOp,
             AmaxReduceOp, ComputeScaleOp, DelayedScalingUpdateOp,
             TensorStatsOp>(op);
}

/// The description of a row of counts, which te-run prints.
static DictionaryAttr describe(StringRef kind, StringRef name, Value tensor,
                               Location loc, ArrayRef<Attribute> inputs) {
  Builder b(loc.getContext());
  return b.getDictionaryAttr(
      {b.getNamedAttr("op", b.getStringAttr(kind)),
       b.getNamedAttr("name", b.getStringAttr(name)),
       b.getNamedAttr("elements",
                      b.getI64IntegerAttr(
                          cast<ShapedType>(tensor.getType()).getNumElements())),
       b.getNamedAttr("inputs", b.getArrayAttr(inputs)),
       b.getNamedAttr("location", b.getStringAttr(describePlace(loc)))});
}

static DictionaryAttr describeResult(OpResult result) {
  Operation *op = result.getOwner();
  SmallVector<Attribute> inputs;
  for (Value operand : op->getOperands())
    if (isa<ScaledType>(operand.getType()) || isFloat(operand.getType()))
      inputs.push_back(
          StringAttr::get(op->getContext(), describeValue(operand)));
  std::string name;
  if (auto origin = GemmOrigin::find(op->getLoc()))
    name = origin->layer + " " + origin->gemm;
  else
    name = describeValue(result);
  if (result.getResultNumber() > 0)
    name += "#" + std::to_string(result.getResultNumber());
  return describe(op->getName().getStringRef(), name, result, op->getLoc(),
                  inputs);
}

/// Whether what is in padding of `argument` is read by nothing: the result of
/// te.zero_unused is checked in its place.
static bool mayHavePadding(BlockArgument argument) {
  return !argument.use_empty() &&
         llvm::all_of(argument.getUsers(), llvm::IsaPred<ZeroUnusedOp>);
}

static std::vector<Check> collectChecks(Block &block) {
  std::vector<Check> checks;
  for (BlockArgument argument : block.getArguments())
    if (isFloat(argument.getType()) && !mayHavePadding(argument))
      checks.push_back({nullptr,
                        argument,
                        {},
                        describe("argument", describeValue(argument), argument,
                                 argument.getLoc(), {})});
  for (Operation &op : block.without_terminator()) {
    if (keepsFinite(&op))
      continue;
    // Casts with a scale for each group are not checked.
    if (auto cast = dyn_cast<QuantizeOpInterface>(op);
        cast && cast.getScale() &&
        mlir::cast<ShapedType>(cast.getScale().getType()).getRank() == 0) {
      auto input = StringAttr::get(op.getContext(), describeValue(cast.getX()));
      checks.push_back(
          {&op, cast.getX(), cast,
           describe(op.getName().getStringRef(), describeValue(cast.getX()),
                    cast.getX(), op.getLoc(), input)});
      continue;
    }
    for (OpResult result : op.getResults())
      if (isFloat(result.getType()))
        checks.push_back({&op, result, {}, describeResult(result)});
  }
  return checks;
}

namespace {
struct CheckFinite final : te::impl::CheckFinitePassBase<CheckFinite> {
  using Base::Base;

  void runOnOperation() override {
    func::FuncOp function = getOperation();
    if (!isStep(function))
      return;
    Block &block = function.getBody().front();
    std::vector<Check> checks = collectChecks(block);
    if (checks.empty())
      return;
    OpBuilder builder = OpBuilder::atBlockBegin(&block);
    auto type = RankedTensorType::get({int64_t(checks.size()), 3},
                                      builder.getI32Type());
    Value counts = arith::ConstantOp::create(builder, function.getLoc(),
                                             builder.getZeroAttr(type));
    SmallVector<Attribute> rows;
    Operation *last = nullptr;
    for (auto [index, check] : llvm::enumerate(checks)) {
      // The counts of one op follow one another.
      if (check.after != last)
        builder.setInsertionPointAfter(last = check.after);
      Location loc = check.after ? check.after->getLoc() : check.x.getLoc();
      TypeAttr elementType;
      if (check.cast)
        elementType = TypeAttr::get(check.cast.getUsageType().getElementType());
      auto count = CountNonfiniteOp::create(
          builder, loc, type, check.x,
          check.cast ? check.cast.getScale() : Value(), elementType, counts,
          builder.getI64IntegerAttr(index));
      counts = count.getNewCounts();
      rows.push_back(check.description);
    }
    addResult(function, uniqueName(function, "nonfinite"), counts,
              builder.getArrayAttr(rows));
    numChecks += checks.size();
  }
};
} // namespace
