//===- LogitsChain.cpp - what is between a head and its loss --------------===//

#include "LogitsChain.h"

using namespace mlir;
using namespace mlir::te;

Value te::forwardValue(Value value) {
  while (auto residual = value.getDefiningOp<ResidualOp>())
    value = residual.getValue();
  return value;
}

/// All readers of `value` except residuals, also those behind residuals.
static SmallVector<Operation *> readersOf(Value value) {
  SmallVector<Operation *> readers;
  for (Operation *user : value.getUsers())
    if (auto residual = dyn_cast<ResidualOp>(user))
      llvm::append_range(readers, readersOf(residual.getHeld()));
    else
      readers.push_back(user);
  return readers;
}

static std::string nameOf(Operation *op) {
  return "'" + op->getName().getStringRef().str() + "'";
}

/// Whether rows of a value of `type` can be cast or read by themselves.
static bool canBeCut(Type type) {
  auto scaled = dyn_cast<ScaledType>(type);
  return !scaled || ((scaled.getScheme() == Scheme::PerTensor ||
                      scaled.getScheme() == Scheme::Block1x128) &&
                     !scaled.isStacked() && !scaled.isGrouped());
}

/// Whether `op` is a GEMM that computes a row of its result from a row of its
/// first operand.
static bool isGemmOfRows(Operation *op) {
  if (auto gemm = dyn_cast_if_present<MatmulOp>(op))
    return gemm.getContract()[0] == 1 && !gemm.getAccumulate() &&
           !gemm.getAlpha();
  auto gemm = dyn_cast_if_present<ScaledMatmulOp>(op);
  return gemm && gemm.getContractedAxis(0) == 1 && !gemm.getAccumulate() &&
         canBeCut(gemm.getA().getType());
}

namespace {
class Matcher {
public:
  Matcher(CrossEntropyOp loss, bool anyScales) : anyScales(anyScales) {
    chain.loss = loss;
  }

  /// Fails, and sets `why`, if the chain cannot be computed by rows.
  LogicalResult match();

  LogitsChain chain;
  std::string why;

private:
  LogicalResult fail(const Twine &reason) {
    why = reason.str();
    return failure();
  }
  bool isInForward(Value value) {
    DenseMap<Value, Value> computed;
    return static_cast<bool>(
        inForward(value, chain.loss, /*builder=*/nullptr, computed));
  }
  LogicalResult matchReaders();
  LogicalResult matchGradient();
  LogicalResult matchCast(QuantizeOp cast);

  /// Whether the target multiplies block scales that are not powers of two.
  bool anyScales;
};
} // namespace

LogicalResult Matcher::match() {
  chain.fprop = chain.logits().getDefiningOp();
  if (!isGemmOfRows(chain.fprop))
    return fail("its logits are not the result of a GEMM of rows");
  return failure(failed(matchReaders()) ||
                 (chain.gradient && failed(matchGradient())));
}

LogicalResult Matcher::matchReaders() {
  for (Operation *reader : readersOf(chain.logits())) {
    if (reader == chain.loss)
      continue;
    auto gradient = dyn_cast<CrossEntropyBackwardOp>(reader);
    if (!gradient || chain.gradient)
      return fail(nameOf(reader) + " reads the logits too");
    chain.gradient = gradient;
  }
  for (Operation *reader : chain.loss.getLse() ? readersOf(chain.loss.getLse())
                                               : SmallVector<Operation *>())
    if (reader != chain.gradient)
      return fail(nameOf(reader) + " reads 'lse' too");
  return success();
}

LogicalResult Matcher::matchGradient() {
  CrossEntropyBackwardOp gradient = chain.gradient;
  chain.weight = gradient.getWeight().getDefiningOp<CrossEntropyWeightOp>();
  Value targets = forwardValue(chain.loss.getTargets());
  if (!chain.weight || forwardValue(chain.weight.getTargets()) != targets ||
      forwardValue(gradient.getTargets()) != targets ||
      forwardValue(gradient.getLse()) != chain.loss.getLse() ||
      chain.weight.getIgnoreIndex() != chain.loss.getIgnoreIndex() ||
      gradient.getIgnoreIndex() != chain.loss.getIgnoreIndex())
    return fail("its gradient is of another loss");
  if (chain.dloss() && chain.type().getElementType().isF16())
    return fail("gradients in f16 may need the factor that the loss is "
                "multiplied with");
  for (Operation *reader : readersOf(gradient.getDlogits())) {
    if (auto cast = dyn_cast<QuantizeOp>(reader)) {
      if (failed(matchCast(cast)))
        return failure();
      continue;
    }
    auto gemm = dyn_cast<MatmulOp>(reader);
    if (gemm && gemm.getA() == gradient.getDlogits() && isGemmOfRows(gemm))
      chain.dgrads.push_back(gemm);
    else if (gemm)
      return fail("a GEMM reads the gradient of all logits, which takes as "
                  "much memory");
    else if (!isa<AmaxOp>(reader)) // of a scale, which matchCast checks
      return fail(nameOf(reader) + " reads the gradient of the logits");
  }
  auto inOrder = [](Operation *a, Operation *b) {
    return a->isBeforeInBlock(b);
  };
  llvm::sort(chain.casts, inOrder);
  llvm::sort(chain.dgrads, inOrder);
  for (Operation *gemm : chain.dgrads)
    if (!isInForward(gemm->getOperand(1)))
      return fail("the weight of the gradient is not known in the forward");
  return success();
}

AmaxOp te::currentAmax(QuantizeOp cast) {
  auto scale = cast.getScale() ? cast.getScale().getDefiningOp<ComputeScaleOp>()
                               : ComputeScaleOp();
  auto amax = scale ? scale.getAmax().getDefiningOp<AmaxOp>() : AmaxOp();
  return amax && amax.getX() == cast.getX() ? amax : AmaxOp();
}

LogicalResult Matcher::matchCast(QuantizeOp cast) {
  ScaledType type = cast.getUsageType();
  if (!canBeCut(type) || cast.getSkip())
    return fail("the gradient of the logits is cast to '" +
                stringifyScheme(type.getScheme()) + "'");
  if (cast.getScale() && !currentAmax(cast) && !isInForward(cast.getScale()))
    return fail("the scale of the gradient of the logits is not known in the "
                "forward");
  if (AmaxOp amax = currentAmax(cast))
    for (Operation *reader : amax->getUsers())
      if (reader != cast.getScale().getDefiningOp())
        return fail(nameOf(reader) +
                    " reads the amax of the gradient of the logits");
  for (Value usage : cast.getUsages()) {
    if (mlir::cast<ScaledType>(usage.getType()).getContract() == 0) {
      if (!anyScales && chain.dloss() && type.getScheme() != Scheme::PerTensor)
        return fail("the target multiplies only scales that are powers of two");
      continue;
    }
    for (Operation *reader : usage.getUsers()) {
      if (!isGemmOfRows(reader) || reader->getOperand(0) != usage ||
          reader->getOperand(1) == usage)
        return fail(nameOf(reader) + " reads a cast of the gradient of the "
                                     "logits");
      chain.dgrads.push_back(reader);
    }
  }
  chain.casts.push_back(cast);
  return success();
}

FailureOr<LogitsChain> te::matchLogitsChain(CrossEntropyOp loss, bool anyScales,
                                            std::string &why) {
  Matcher matcher(loss, anyScales);
  if (succeeded(matcher.match()))
    return matcher.chain;
  why = matcher.why;
  return failure();
}

Value te::inForward(Value value, CrossEntropyOp loss, OpBuilder *builder,
                    DenseMap<Value, Value> &computed) {
  value = forwardValue(value);
  Operation *op = value.getDefiningOp();
  if (!op || (op->getBlock() == loss->getBlock() && op->isBeforeInBlock(loss)))
    return value;
  if (Value again = computed.lookup(value))
    return again;
  // A weight is cast or transposed where its gradient's GEMM reads it.
  auto transpose = dyn_cast<TransposeOp>(op);
  auto quantize = dyn_cast<QuantizeOp>(op);
  if (!(transpose && !transpose.getSkip()) &&
      !(quantize && !quantize.getSkip() && !quantize.getAmax()) &&
      !isa<DequantizeOp, AmaxOp, ComputeScaleOp>(op))
    return {};
  IRMapping map;
  for (Value operand : op->getOperands()) {
    Value before = inForward(operand, loss, builder, computed);
    if (!before)
      return {};
    map.map(operand, before);
  }
  if (!builder)
    return value;
  Operation *copy = builder->clone(*op, map);
  for (auto [from, to] : llvm::zip_equal(op->getResults(), copy->getResults()))
    computed[from] = to;
  return computed.lookup(value);
}
