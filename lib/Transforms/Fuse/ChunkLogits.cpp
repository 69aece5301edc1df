//===- ChunkLogits.cpp - a head and its loss over a few rows at a time ----===//
//
// The pass collects the ops between the rows of a linear layer and what is left
// of its logits: the loss and, with a backward, the gradient of the rows, that
// of the bias, and the cast of the gradient of the logits that the weight's
// gradient reads. They move into one te.by_rows in the forward. There the
// gradient of the loss is not known, so it is taken as 1, and what leaves the
// chain is multiplied by it in the backward.
//
//===----------------------------------------------------------------------===//

#include "LogitsChain.h"

#include "TEDialect/IR/Support.h"
#include "TEDialect/Transforms/Fuse/Passes.h"
#include "TEDialect/Transforms/TargetOption.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/Remarks.h"

namespace mlir::te {
#define GEN_PASS_DEF_CHUNKLOGITSPASS
#include "TEDialect/Transforms/Fuse/Passes.h.inc"
} // namespace mlir::te

using namespace mlir;
using namespace mlir::te;

namespace {
/// Builds the te.by_rows of a chain.
class Rewriter {
public:
  explicit Rewriter(LogitsChain &chain) : chain(chain), builder(chain.loss) {}

  void run(int64_t rows);

private:
  Value argumentFor(Value value);
  Value scaleOf(QuantizeOp cast);
  void addBody(ByRowsOp op, ArrayRef<Operation *> ops,
               ArrayRef<Value> returned);
  Value saved(Value value, StringRef suffix);
  void replaceResults(ByRowsOp op, ArrayRef<Value> returned);

  LogitsChain &chain;
  OpBuilder builder;
  DenseMap<Value, Value> computed;
  /// The operands of te.by_rows, by the values of the chain.
  SmallVector<std::pair<Value, Value>> inputs, whole;
};

} // namespace

//===----------------------------------------------------------------------===//
// The rewrite
//===----------------------------------------------------------------------===//

/// The scale of `cast`, which in current scaling is that of the largest element
/// that the gradient may have.
Value Rewriter::scaleOf(QuantizeOp cast) {
  if (!currentAmax(cast))
    return inForward(cast.getScale(), chain.loss, &builder, computed);
  Value bound = argumentFor(chain.gradient.getWeight());
  if (const double factor = *boundOf(cast.getX(), chain); factor != 1)
    bound = arith::MulFOp::create(
        builder, cast.getLoc(), bound,
        arith::ConstantOp::create(
            builder, cast.getLoc(),
            DenseElementsAttr::get(
                mlir::cast<RankedTensorType>(bound.getType()),
                static_cast<float>(factor))));
  IRMapping map;
  auto scale = cast.getScale().getDefiningOp<ComputeScaleOp>();
  map.map(scale.getAmax(), bound);
  return builder.clone(*scale, map)->getResult(0);
}

/// The operand of te.by_rows for `value` of the chain, which all rows read.
Value Rewriter::argumentFor(Value value) {
  for (auto [known, operand] : whole)
    if (known == value)
      return operand;
  Value operand;
  if (chain.gradient && value == chain.gradient.getWeight())
    operand = CrossEntropyWeightOp::create(
        builder, chain.weight.getLoc(), value.getType(),
        chain.loss.getTargets(), /*dloss=*/Value(),
        chain.weight.getVocabularyAttr(), chain.weight.getIgnoreIndexAttr());
  else
    operand = inForward(value, chain.loss, &builder, computed);
  whole.push_back({value, operand});
  return operand;
}

/// The body: clones of `ops`, of which `returned` leave it.
void Rewriter::addBody(ByRowsOp op, ArrayRef<Operation *> ops,
                       ArrayRef<Value> returned) {
  Block *body = &op.getBody().emplaceBlock();
  OpBuilder inside = OpBuilder::atBlockEnd(body);
  IRMapping map;
  for (auto *list : {&inputs, &whole})
    for (auto [value, operand] : *list) {
      Value argument = body->addArgument(operand.getType(), operand.getLoc());
      map.map(value, argument);
      map.map(forwardValue(value), argument);
    }
  for (Operation *each : ops) {
    for (Value operand : each->getOperands())
      if (matchPattern(operand, m_Constant()) && !map.contains(operand))
        inside.clone(*operand.getDefiningOp(), map);
      else if (!map.contains(operand))
        map.map(operand, map.lookup(forwardValue(operand)));
    inside.clone(*each, map);
  }
  SmallVector<Value> values;
  for (Value value : returned)
    values.push_back(map.lookup(value));
  YieldOp::create(inside, op.getLoc(), values);
}

/// `value` of the forward as the backward reads it.
Value Rewriter::saved(Value value, StringRef suffix) {
  auto residual = chain.gradient.getLogits().getDefiningOp<ResidualOp>();
  if (!residual)
    return value;
  OpBuilder before(residual);
  return ResidualOp::create(
      before, residual.getLoc(), value,
      before.getStringAttr(residual.getName().rsplit('.').first + "." +
                           suffix));
}

/// `x` times a scalar, rounded once to the type of x.
static Value multiply(OpBuilder &b, Location loc, Value x, Value factor) {
  auto type = cast<RankedTensorType>(x.getType());
  RankedTensorType wide = type.clone(b.getF32Type());
  Value empty =
      tensor::EmptyOp::create(b, loc, wide.getShape(), wide.getElementType());
  Value factors =
      linalg::BroadcastOp::create(b, loc, factor, empty,
                                  llvm::to_vector(llvm::seq(type.getRank())))
          ->getResult(0);
  if (type == wide)
    return arith::MulFOp::create(b, loc, x, factors);
  Value widened = arith::ExtFOp::create(b, loc, wide, x);
  return arith::TruncFOp::create(
      b, loc, type, arith::MulFOp::create(b, loc, widened, factors));
}

/// Gives the backward what it read, with the factor that the chain left out.
void Rewriter::replaceResults(ByRowsOp op, ArrayRef<Value> returned) {
  const Value dloss = chain.dloss();
  for (auto [original, result] : llvm::zip_equal(returned, op.getOutputs())) {
    Value value = original;
    Operation *from = value.getDefiningOp();
    OpBuilder b(from);
    Value now = result;
    if (value == chain.loss.getLoss()) {
      value.replaceAllUsesWith(now);
    } else if (isa<ScaledType>(value.getType())) {
      now = saved(now, "dlogits");
      if (dloss)
        now = RescaleOp::create(b, from->getLoc(),
                                cast<ScaledType>(now.getType()).getAnyScales(),
                                now, dloss);
      value.replaceAllUsesWith(now);
    } else if (isa<QuantizeOp>(from)) { // its amax
      value.replaceAllUsesWith(now);
    } else {
      now = saved(now, isa<BiasGradOp>(from) ? "dbias" : "dx");
      value.replaceAllUsesWith(dloss ? multiply(b, from->getLoc(), now, dloss)
                                     : now);
    }
  }
}

void Rewriter::run(int64_t rows) {
  SmallVector<Operation *> ops = {chain.fprop};
  llvm::append_range(ops, chain.before);
  ops.push_back(chain.loss);
  SmallVector<Value> returned = {chain.loss.getLoss()};
  inputs = {{chain.fprop->getOperand(0), chain.fprop->getOperand(0)},
            {chain.loss.getTargets(), chain.loss.getTargets()}};
  for (Value operand : chain.fprop->getOperands().drop_front())
    argumentFor(operand);
  if (chain.gradient) {
    ops.push_back(chain.gradient);
    llvm::append_range(ops, chain.after);
    argumentFor(chain.gradient.getWeight());
    for (BiasGradOp sum : chain.biasGrads) {
      ops.push_back(sum);
      returned.push_back(sum.getDb());
    }
  }
  for (QuantizeOp cast : chain.casts) {
    ops.push_back(cast);
    if (Value scale = cast.getScale();
        scale && !llvm::is_contained(llvm::make_first_range(whole), scale))
      whole.push_back({scale, scaleOf(cast)});
    for (Value result : cast->getResults())
      if (auto type = dyn_cast<ScaledType>(result.getType());
          !result.use_empty() && (!type || type.getContract() == 0))
        returned.push_back(result);
  }
  for (Operation *gemm : chain.dgrads) {
    ops.push_back(gemm);
    returned.push_back(gemm->getResult(0));
    for (Value operand : gemm->getOperands().drop_front())
      argumentFor(operand);
  }

  SmallVector<Value> byRows(llvm::make_second_range(inputs)),
      forAll(llvm::make_second_range(whole));
  auto op = ByRowsOp::create(builder, chain.loss.getLoc(),
                             TypeRange(ValueRange(returned)), byRows, forAll,
                             builder.getI64IntegerAttr(rows));
  addBody(op, ops, returned);
  replaceResults(op, returned);
}

namespace {
struct ChunkLogits final : te::impl::ChunkLogitsPassBase<ChunkLogits> {
  using Base::Base;

  LogicalResult initialize(MLIRContext *context) override {
    return checkTargetOption(context, getArgument(), target.getValue());
  }

  void runOnOperation() override {
    SmallVector<CrossEntropyOp> losses;
    getOperation().walk([&](CrossEntropyOp op) { losses.push_back(op); });
    for (CrossEntropyOp loss : losses)
      if (budget > 0 && chunk(loss))
        eraseUnread(*loss->getBlock());
  }

  /// Erases what nothing reads, above all the chain and its residuals.
  static void eraseUnread(Block &block) {
    for (Operation &op : llvm::make_early_inc_range(llvm::reverse(block)))
      if (isOpTriviallyDead(&op))
        op.erase();
  }

  bool chunk(CrossEntropyOp loss) {
    auto type = cast<RankedTensorType>(loss.getLogits().getType());
    const int64_t row =
        llvm::divideCeil(type.getDimSize(1) * type.getElementTypeBitWidth(), 8);
    if (row == 0 || type.getDimSize(0) <= budget / row)
      return false;
    const int64_t rows =
        std::max<int64_t>(budget / row / kAlignment, 1) * kAlignment;
    if (rows >= type.getDimSize(0))
      return false;
    auto options = remark::RemarkOpts::name("chunk-logits")
                       .category("te-chunk-logits")
                       .function(getOperation().getName());
    std::string why;
    FailureOr<LogitsChain> chain = matchLogitsChain(
        loss, support::parseTarget(target.getValue()) != support::Target::Sm100,
        why);
    if (failed(chain)) {
      remark::missed(loss.getLoc(), options)
          << remark::add("the logits of a loss are stored as a whole, in {0} "
                         "bytes",
                         row * type.getDimSize(0))
          << remark::reason("{0}", why);
      return false;
    }
    remark::passed(loss.getLoc(), options)
        << remark::add("{0} rows of logits are stored at a time, in {1} bytes",
                       rows, row * rows);
    Rewriter(*chain).run(rows);
    ++numChunked;
    return true;
  }

  /// Rows of a block of the casts for axis 0.
  static constexpr int64_t kAlignment = 128;
};
} // namespace
