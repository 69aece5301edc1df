//===- TEByRows.cpp - which values of te.by_rows are computed by rows -----===//

#include "TEVerifiers.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace mlir::te;

/// Schemes with scales for one row, or for any number of whole runs of rows.
static bool canBeCut(ScaledType type) {
  return (type.getScheme() == Scheme::PerTensor ||
          type.getScheme() == Scheme::Block1x128) &&
         !type.isStacked() && !type.isGrouped() && !type.isShard();
}

/// The number of rows of a value that may be an input; else -1.
static int64_t countRows(Type type) {
  if (auto scaled = dyn_cast<ScaledType>(type))
    return canBeCut(scaled) && scaled.getContract() == 1 ? scaled.getRows()
                                                         : -1;
  auto tensor = dyn_cast<RankedTensorType>(type);
  return tensor && tensor.getRank() != 0 ? tensor.getDimSize(0) : -1;
}

int64_t ByRowsOp::getNumRows() {
  return getInputs().empty() ? 0 : countRows(getInputs().front().getType());
}

bool ByRowsOp::isByRows(Value value) {
  if (auto argument = dyn_cast<BlockArgument>(value))
    return argument.getArgNumber() < getInputs().size();
  if (auto loss = value.getDefiningOp<CrossEntropyOp>())
    return value == loss.getLse();
  if (value.getDefiningOp<BiasGradOp>())
    return false;
  if (auto quantize = value.getDefiningOp<QuantizeOp>()) {
    auto type = dyn_cast<ScaledType>(value.getType());
    return type && type.getContract() == 1;
  }
  return true;
}

namespace {
/// How an op of the body reads its operands.
struct Reads {
  /// By rows: the first operand, or all up to here.
  SmallVector<Value, 3> byRows;
  SmallVector<Value, 4> whole;
  /// Why the op cannot be computed by rows; "" if it can.
  std::string refusal;
};
} // namespace

/// What is wrong with a GEMM that contracts axis `axis` of its rows, or "".
static std::string refuseGemm(unsigned axis, Value accumulate) {
  if (accumulate)
    return "it has 'accumulate'";
  return axis == 1 ? "" : "it sums over its rows";
}

static Reads describe(MatmulOp op) {
  Reads reads = {{op.getA()},
                 {op.getB()},
                 refuseGemm(op.getContract()[0], op.getAccumulate())};
  for (Value value : {op.getAlpha(), op.getBias()})
    if (value)
      reads.whole.push_back(value);
  return reads;
}

static Reads describe(ScaledMatmulOp op) {
  Reads reads = {{op.getA()},
                 {op.getB()},
                 refuseGemm(op.getContractedAxis(0), op.getAccumulate())};
  if (op.getBias())
    reads.whole.push_back(op.getBias());
  return reads;
}

static Reads describe(CrossEntropyOp op) {
  return {{op.getLogits(), op.getTargets()}, {}, ""};
}

static Reads describe(CrossEntropyBackwardOp op) {
  return {{op.getLogits(), op.getTargets(), op.getLse()}, {op.getWeight()}, ""};
}

static Reads describe(BiasGradOp op) { return {{op.getDy()}, {}, ""}; }

static Reads describe(QuantizeOp op) {
  Reads reads = {{op.getX()}, {}, ""};
  if (op.getScale())
    reads.whole.push_back(op.getScale());
  if (op.getSkip())
    reads.refusal = "it is cached";
  else if (op.getRounded())
    reads.refusal = "it rounds first";
  else if (!canBeCut(op.getUsageType()))
    reads.refusal = "its scheme is '" +
                    stringifyScheme(op.getUsageType().getScheme()).str() + "'";
  return reads;
}

/// An op that computes rows of its results from the same rows of its operands,
/// element by element. te-form-regions writes such ops as loops over all
/// elements, with reshapes around them.
static std::optional<Reads> describeElementwise(Operation &op, int64_t rows) {
  Reads reads = {llvm::to_vector<3>(op.getOperands()), {}, ""};
  auto isFlat = [](Type type) { return cast<ShapedType>(type).getRank() == 1; };
  auto hasRows = [&](Type type) {
    auto tensor = dyn_cast<RankedTensorType>(type);
    return tensor && tensor.getRank() == 2 && tensor.getDimSize(0) == rows;
  };
  auto areOfRows = [&] {
    return llvm::all_of(op.getOperandTypes(), hasRows) &&
           llvm::all_of(op.getResultTypes(), hasRows);
  };
  if (auto generic = dyn_cast<linalg::GenericOp>(op)) {
    if (generic.getNumLoops() != 1 || generic.getNumParallelLoops() != 1)
      reads.refusal = "it is not a loop over all elements";
  } else if (isa<tensor::CollapseShapeOp, tensor::ExpandShapeOp>(op)) {
    Type from = op.getOperand(0).getType(), to = op.getResult(0).getType();
    if (!(hasRows(from) && isFlat(to)) && !(isFlat(from) && hasRows(to)))
      reads.refusal = "it reshapes rows";
  } else if (auto slice = dyn_cast<tensor::ExtractSliceOp>(op)) {
    if (!slice.hasZeroOffset() || !slice.hasUnitStride() ||
        !(areOfRows() ||
          (isFlat(slice.getSourceType()) && isFlat(slice.getType()))))
      reads.refusal = "it does not take the first columns";
  } else if (auto concat = dyn_cast<tensor::ConcatOp>(op)) {
    if (concat.getDim() != 1 || !areOfRows())
      reads.refusal = "it does not concatenate columns";
  } else if (isa<arith::ConstantOp>(op) ||
             (op.hasTrait<OpTrait::Elementwise>() && isMemoryEffectFree(&op))) {
    if (!areOfRows())
      reads.refusal = "it has other rows";
  } else if (!isa<tensor::EmptyOp>(op)) {
    return std::nullopt;
  }
  return reads;
}

static LogicalResult verifyBodyOp(ByRowsOp op, Operation &inner) {
  auto reads = llvm::TypeSwitch<Operation *, std::optional<Reads>>(&inner)
                   .Case<MatmulOp, ScaledMatmulOp, CrossEntropyOp,
                         CrossEntropyBackwardOp, BiasGradOp, QuantizeOp>(
                       [](auto each) { return describe(each); })
                   .Default([&](Operation *each) {
                     return describeElementwise(*each, op.getNumRows());
                   });
  // by_rows-c4
  if (!reads)
    return inner.emitOpError()
           << "in 'te.by_rows': expected a GEMM of rows, te.cross_entropy, "
              "te.cross_entropy_backward, te.bias_grad, te.quantize or an "
              "elementwise op";
  if (!reads->refusal.empty())
    return inner.emitOpError()
           << "in 'te.by_rows': expected an op that computes each row by "
              "itself, but "
           << reads->refusal;
  // by_rows-c5
  for (Value value : reads->byRows)
    if (!op.isByRows(value))
      return inner.emitOpError()
             << "in 'te.by_rows': expected an operand of type "
             << value.getType()
             << " to be computed by rows, but it is computed for all rows";
  for (Value value : reads->whole)
    if (!isa<BlockArgument>(value) || op.isByRows(value))
      return inner.emitOpError()
             << "in 'te.by_rows': expected an operand of type "
             << value.getType() << " to be an argument for 'with'";
  return success();
}

LogicalResult ByRowsOp::verify() {
  // by_rows-c1
  Block &block = getBody().front();
  if (block.getArgumentTypes() != getOperandTypes())
    return emitOpError() << "expected the body to have an argument for each "
                            "operand, of its type";
  // by_rows-c2
  if (getInputs().empty())
    return emitOpError() << "expected inputs";
  for (auto [index, input] : llvm::enumerate(getInputs()))
    if (const int64_t rows = countRows(input.getType());
        rows < 0 || rows != getNumRows())
      return emitOpError() << "expected input " << index << " to be "
                           << getNumRows()
                           << " rows of a tensor, or of a scaled value for "
                              "axis 1, but got "
                           << input.getType();
  // by_rows-c3
  if (getRows() <= 0 || getRows() % 128 != 0)
    return emitOpError()
           << "expected 'rows' to be a positive multiple of 128, but got "
           << getRows();
  for (Operation &inner : block.without_terminator())
    if (failed(verifyBodyOp(*this, inner)))
      return failure();
  // by_rows-c5, by_rows-c6
  auto yield = dyn_cast<YieldOp>(block.getTerminator());
  if (!yield)
    return emitOpError() << "expected the body to end in te.yield";
  for (Value value : yield.getValues())
    if (!isa_and_present<MatmulOp, ScaledMatmulOp, CrossEntropyOp,
                         CrossEntropyBackwardOp, BiasGradOp, QuantizeOp>(
            value.getDefiningOp()) ||
        (isa<ScaledType>(value.getType()) && isByRows(value)))
      return yield.emitOpError()
             << "expected a result of a GEMM or a loss, a bias gradient, a "
                "cast for axis 0 or an amax that the body computes, but got a "
                "value of type "
             << value.getType();
  if (yield.getValues().getTypes() != getResultTypes())
    return emitOpError() << "expected the results to have the types of what "
                            "te.yield returns";
  return success();
}
