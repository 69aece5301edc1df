//===- LogitsChain.cpp - what is between a head and its loss --------------===//

#include "LogitsChain.h"

#include "TEDialect/Transforms/Utils/Padding.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "llvm/ADT/SetVector.h"

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

/// Whether `op` computes each row of its result, a matrix, from that row of its
/// operands.
static bool isOfRows(Operation *op) {
  auto type = op && op->getNumResults() == 1
                  ? dyn_cast<RankedTensorType>(op->getResult(0).getType())
                  : RankedTensorType();
  if (!type || type.getRank() != 2)
    return false;
  if (auto slice = dyn_cast<tensor::ExtractSliceOp>(op))
    return slice.getSourceType().getRank() == 2 &&
           slice.getSourceType().getDimSize(0) == type.getDimSize(0) &&
           slice.hasUnitStride() && slice.hasZeroOffset();
  if (auto concat = dyn_cast<tensor::ConcatOp>(op))
    return concat.getDim() == 1;
  return isa<FloatType>(type.getElementType()) &&
         op->hasTrait<OpTrait::Elementwise>() &&
         isa<arith::ArithDialect, math::MathDialect>(op->getDialect()) &&
         llvm::all_of(op->getOperandTypes(), [](Type operand) {
           return isa<FloatType>(getElementTypeOrSelf(operand));
         });
}

static bool isSplat(Value value) {
  DenseFPElementsAttr constant;
  return matchPattern(value, m_Constant(&constant)) && constant.isSplat();
}

/// `value` before zeros were added after its columns.
static Value withoutZeros(Value value) {
  auto concat = value.getDefiningOp<tensor::ConcatOp>();
  return addsZeros(concat) && concat.getDim() == 1 ? concat.getInputs().front()
                                                   : value;
}

template <typename Ops> static void sortByPosition(Ops &ops) {
  llvm::sort(ops,
             [](Operation *a, Operation *b) { return a->isBeforeInBlock(b); });
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
  LogicalResult matchBefore();
  LogicalResult matchReaders();
  LogicalResult matchGradient();
  LogicalResult matchAfter();
  LogicalResult matchFactors();
  LogicalResult matchReader(Operation *reader, Value gradient);
  LogicalResult matchCast(QuantizeOp cast);

  /// Whether the target multiplies block scales that are not powers of two.
  bool anyScales;
  /// `before`; the parts of `after` that depend on the gradient and that do
  /// not; and what else reads the values of the forward.
  llvm::SmallSetVector<Operation *, 4> before, after, factors, others;
  /// The amaxes of the gradient.
  SmallVector<AmaxOp> amaxes;
};
} // namespace

LogicalResult Matcher::match() {
  return failure(failed(matchBefore()) || failed(matchReaders()) ||
                 (chain.gradient && failed(matchGradient())));
}

LogicalResult Matcher::matchBefore() {
  SmallVector<Value> worklist = {chain.logits()};
  while (!worklist.empty()) {
    Value value = worklist.pop_back_val();
    Operation *op = value.getDefiningOp();
    if (isGemmOfRows(op) && (!chain.fprop || chain.fprop == op))
      chain.fprop = op;
    else if (!isOfRows(op))
      return fail("its logits are not the result of a GEMM of rows");
    else if (before.insert(op))
      llvm::copy_if(op->getOperands(), std::back_inserter(worklist),
                    [](Value operand) { return !isSplat(operand); });
  }
  if (!chain.fprop)
    return fail("its logits are not the result of a GEMM of rows");
  if (llvm::is_contained(chain.fprop->getOperands().drop_front(),
                         chain.fprop->getOperand(0)))
    return fail("the head multiplies a value with itself");
  chain.before = before.takeVector();
  before.insert_range(chain.before);
  sortByPosition(chain.before);
  return success();
}

LogicalResult Matcher::matchReaders() {
  SmallVector<Value> values = {chain.fprop->getResult(0)};
  for (Operation *op : chain.before)
    values.push_back(op->getResult(0));
  for (Value value : values)
    for (Operation *reader : readersOf(value)) {
      auto gradient = dyn_cast<CrossEntropyBackwardOp>(reader);
      if (gradient && value == chain.logits() && !chain.gradient)
        chain.gradient = gradient;
      else if (isOfRows(reader) && !before.contains(reader))
        others.insert(reader);
      else if (reader != chain.loss && !before.contains(reader))
        return fail(nameOf(reader) + " reads the logits too");
    }
  if (!chain.gradient && !others.empty())
    return fail(nameOf(others.front()) + " reads the logits too");
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
  if (failed(matchAfter()))
    return failure();
  // A gradient has the type of its value.
  auto isF16 = [](Operation *op) {
    return getElementTypeOrSelf(op->getResult(0)).isF16();
  };
  if (chain.dloss() &&
      (isF16(chain.fprop) || isF16(gradient) ||
       llvm::any_of(chain.before, isF16) || llvm::any_of(chain.dgrads, isF16) ||
       llvm::any_of(chain.biasGrads, isF16)))
    return fail("gradients in f16 may need the factor that the loss is "
                "multiplied with");
  sortByPosition(chain.casts);
  sortByPosition(chain.dgrads);
  for (Operation *gemm : chain.dgrads)
    if (!isInForward(gemm->getOperand(1)))
      return fail("the weight of the gradient is not known in the forward");
  return success();
}

/// Collects what is computed from the gradient of the logits, up to its casts.
LogicalResult Matcher::matchAfter() {
  SmallVector<Value> worklist = {chain.gradient.getDlogits()};
  while (!worklist.empty()) {
    Value value = worklist.pop_back_val();
    for (Operation *reader : readersOf(value))
      if (isOfRows(reader)) {
        if (after.insert(reader))
          worklist.push_back(reader->getResult(0));
      } else if (failed(matchReader(reader, value))) {
        return failure();
      }
  }
  if (failed(matchFactors()))
    return failure();
  auto isGradient = [&](Value operand) {
    Operation *op = operand.getDefiningOp();
    return op == chain.gradient || after.contains(op);
  };
  // The factor of the loss is multiplied with what leaves the chain, so that
  // all of this has to be linear.
  auto isLinear = [&](Operation *op) {
    const unsigned gradients = llvm::count_if(op->getOperands(), isGradient);
    if (isa<arith::MulFOp>(op))
      return gradients == 1;
    if (isa<arith::DivFOp>(op))
      return gradients == 1 && isGradient(op->getOperand(0));
    if (auto concat = dyn_cast<tensor::ConcatOp>(op))
      return addsZeros(concat);
    return isa<arith::AddFOp, arith::SubFOp, arith::NegFOp, arith::ExtFOp,
               arith::TruncFOp, tensor::ExtractSliceOp>(op) &&
           gradients == op->getNumOperands();
  };
  for (Operation *op : after)
    if (!isLinear(op))
      return fail(nameOf(op) + " of the gradient of the logits is not linear");
  for (Operation *other : others)
    if (!after.contains(other) && !factors.contains(other))
      return fail(nameOf(other) + " reads the logits too");
  chain.after.append(after.begin(), after.end());
  chain.after.append(factors.begin(), factors.end());
  sortByPosition(chain.after);
  for (QuantizeOp cast : chain.casts) {
    AmaxOp amax = currentAmax(cast);
    if (amax && !boundOf(cast.getX(), chain))
      return fail("nothing bounds the gradient of the logits");
    llvm::erase(amaxes, amax);
  }
  if (!amaxes.empty())
    return fail("the amax of the gradient of the logits is read, but is not of "
                "a cast's scale");
  return success();
}

/// Collects what the ops of `after` read of the forward, computed by rows.
LogicalResult Matcher::matchFactors() {
  auto isOfChain = [&](Value operand) {
    Operation *op = forwardValue(operand).getDefiningOp();
    return isSplat(operand) || op == chain.gradient || op == chain.fprop ||
           before.contains(op) || after.contains(op) || factors.contains(op);
  };
  SmallVector<Operation *> worklist(after.begin(), after.end());
  while (!worklist.empty())
    for (Value operand : worklist.pop_back_val()->getOperands()) {
      if (isOfChain(operand))
        continue;
      Operation *op = operand.getDefiningOp();
      if (!isOfRows(op))
        return fail("the gradient of the logits depends on a value that is not "
                    "computed by rows");
      factors.insert(op);
      worklist.push_back(op);
    }
  for (Operation *op : factors)
    for (Operation *reader : readersOf(op->getResult(0)))
      if (!after.contains(reader) && !factors.contains(reader))
        return fail(nameOf(reader) + " reads a part of the gradient of the "
                                     "logits");
  return success();
}

/// Checks a reader of `gradient`, or of what is computed from it by rows.
LogicalResult Matcher::matchReader(Operation *reader, Value gradient) {
  if (auto cast = dyn_cast<QuantizeOp>(reader))
    return matchCast(cast);
  auto gemm = dyn_cast<MatmulOp>(reader);
  if (gemm && gemm.getA() == gradient && isGemmOfRows(gemm))
    chain.dgrads.push_back(gemm);
  else if (gemm)
    return fail("a GEMM reads the gradient of all logits, which takes as much "
                "memory");
  else if (auto amax = dyn_cast<AmaxOp>(reader))
    amaxes.push_back(amax);
  else if (auto bias = dyn_cast<BiasGradOp>(reader))
    chain.biasGrads.push_back(bias);
  else
    return fail(nameOf(reader) + " reads the gradient of the logits");
  return success();
}

namespace {
/// The numbers between which all elements of a value are.
struct Interval {
  double low, high;

  double magnitude() const { return std::max(std::abs(low), std::abs(high)); }
  static Interval within(double magnitude) { return {-magnitude, magnitude}; }
};
} // namespace

/// The range of `value` of the forward, as far as a soft cap needs it.
static std::optional<Interval> rangeOf(Value value) {
  value = forwardValue(value);
  DenseFPElementsAttr constant;
  if (matchPattern(value, m_Constant(&constant)) && constant.isSplat()) {
    const double splat = constant.getSplatValue<APFloat>().convertToDouble();
    return Interval{splat, splat};
  }
  Operation *op = value.getDefiningOp();
  if (isa_and_present<math::TanhOp>(op))
    return Interval::within(1);
  if (isa_and_present<arith::ExtFOp, arith::TruncFOp>(op))
    return rangeOf(op->getOperand(0));
  if (!isa_and_present<arith::MulFOp, arith::SubFOp>(op))
    return std::nullopt;
  std::optional<Interval> a = rangeOf(op->getOperand(0)),
                          b = rangeOf(op->getOperand(1));
  if (!a || !b)
    return std::nullopt;
  if (isa<arith::SubFOp>(op))
    return Interval{a->low - b->high, a->high - b->low};
  const double product = a->magnitude() * b->magnitude();
  return op->getOperand(0) == op->getOperand(1) ? Interval{0, product}
                                                : Interval::within(product);
}

std::optional<double> te::boundOf(Value value, const LogitsChain &chain) {
  Operation *op = value.getDefiningOp();
  if (op == chain.gradient)
    return 1;
  if (!llvm::is_contained(chain.after, op))
    return std::nullopt;
  if (isa<arith::ExtFOp, arith::TruncFOp, arith::NegFOp, tensor::ConcatOp,
          tensor::ExtractSliceOp>(op))
    return boundOf(op->getOperand(0), chain);
  if (!isa<arith::MulFOp, arith::DivFOp>(op))
    return std::nullopt;
  for (unsigned i : {0, 1}) {
    std::optional<double> bound = boundOf(op->getOperand(i), chain);
    std::optional<Interval> other = rangeOf(op->getOperand(1 - i));
    if (!bound || !other)
      continue;
    if (isa<arith::MulFOp>(op))
      return *bound * other->magnitude();
    if (i == 0 && other->low == other->high && other->low != 0)
      return *bound / std::abs(other->low);
  }
  return std::nullopt;
}

AmaxOp te::currentAmax(QuantizeOp cast) {
  auto scale = cast.getScale() ? cast.getScale().getDefiningOp<ComputeScaleOp>()
                               : ComputeScaleOp();
  auto amax = scale ? scale.getAmax().getDefiningOp<AmaxOp>() : AmaxOp();
  const bool isOfCast =
      amax && amax.getRounded() == cast.getRounded() &&
      (amax.getX() == cast.getX() || amax.getX() == withoutZeros(cast.getX()));
  return isOfCast ? amax : AmaxOp();
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
  // A weight is padded, cast or transposed where its gradient's GEMM reads it.
  auto transpose = dyn_cast<TransposeOp>(op);
  auto quantize = dyn_cast<QuantizeOp>(op);
  if (!(transpose && !transpose.getSkip()) &&
      !(quantize && !quantize.getSkip() && !quantize.getAmax()) &&
      !addsZeros(dyn_cast<tensor::ConcatOp>(op)) &&
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
