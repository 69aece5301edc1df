//===- EmitByRows.cpp - launches of losses, and of chains of rows ---------===//
//
// The body of te.by_rows is emitted once for each run of rows. Its values by
// rows get new temporaries each time, whose memory the planner can use again,
// or are a part of a result. What is computed of all rows, a loss, an amax or a
// sum, is collected for each token, run or chunk of rows, and computed at the
// end.
//
//===----------------------------------------------------------------------===//

#include "LaunchCall.h"

#include "TEDialect/Support/KernelRows.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace mlir::te;

//===----------------------------------------------------------------------===//
// Cross entropy
//===----------------------------------------------------------------------===//

/// Adds the parameters that all kernels of cross entropy have.
template <typename LossOp>
static LaunchCall &addTokens(LaunchCall &call, LossOp op, int64_t tokens,
                             int64_t vocabulary) {
  return call.i64("tokens", tokens)
      .i64("vocab", vocabulary)
      .i32("ignore_index", op.getIgnoreIndex());
}

/// Adds them, and the logits, which may have more columns than classes.
template <typename LossOp>
static LaunchCall &addLogits(LaunchCall &call, LossOp op, int64_t tokens) {
  return addTokens(call, op, tokens, op.getClasses())
      .i64("cols", dim(op.getLogits(), 1))
      .type("type", elementType(op.getLogits()));
}

/// The losses of tokens, and lse.
static LogicalResult emitLosses(CrossEntropyOp op, int64_t tokens,
                                Value tokenLoss, LaunchEmitter &emitter) {
  LaunchCall call(emitter, op, "cross_entropy");
  return addLogits(call, op, tokens)
      .in(op.getLogits())
      .in(op.getTargets())
      .outOrScratch(op.getLse(), tokens)
      .buffer(tokenLoss)
      .emit();
}

static LogicalResult emitMean(CrossEntropyOp op, Value tokenLoss,
                              LaunchEmitter &emitter) {
  LaunchCall call(emitter, op, "cross_entropy_mean");
  return addTokens(call, op, dim(op.getLogits(), 0), op.getClasses())
      .buffer(tokenLoss)
      .in(op.getTargets())
      .out(op.getLoss())
      .emit();
}

/// A buffer for a number of each token.
static Value allocTokenLoss(CrossEntropyOp op, LaunchEmitter &emitter) {
  return emitter.alloc(op.getLoc(), emitter.baseName(op) + ".token_loss",
                       emitter.causeOf(op, op.getLoss()),
                       dim(op.getTargets(), 0) * int64_t(sizeof(float)));
}

template <>
LogicalResult te::emitLaunches(CrossEntropyOp op, LaunchEmitter &emitter) {
  Value tokenLoss = allocTokenLoss(op, emitter);
  return failure(
      failed(emitLosses(op, dim(op.getTargets(), 0), tokenLoss, emitter)) ||
      failed(emitMean(op, tokenLoss, emitter)));
}

template <>
LogicalResult te::emitLaunches(CrossEntropyWeightOp op,
                               LaunchEmitter &emitter) {
  LaunchCall call(emitter, op, "cross_entropy_weight");
  return addTokens(call, op, dim(op.getTargets(), 0), op.getVocabulary())
      .in(op.getDloss())
      .in(op.getTargets())
      .out(op.getWeight())
      .emit();
}

static LogicalResult emitGradient(CrossEntropyBackwardOp op,
                                  LaunchEmitter &emitter, RowRange rows) {
  LaunchCall call(emitter, op, "cross_entropy_backward");
  return addLogits(call, op, rows.count)
      .in(op.getWeight())
      .in(op.getLogits())
      .in(op.getTargets())
      .in(op.getLse())
      .out(op.getDlogits())
      .emit();
}

template <>
LogicalResult te::emitLaunches(CrossEntropyBackwardOp op,
                               LaunchEmitter &emitter) {
  const int64_t tokens = dim(op.getTargets(), 0);
  return emitGradient(op, emitter, {0, tokens, tokens});
}

//===----------------------------------------------------------------------===//
// Chains of rows
//===----------------------------------------------------------------------===//

/// The chunks of a chunk sum of `rows` rows.
static int64_t chunksOf(int64_t rows) {
  return llvm::divideCeil(rows, te_table::kernel_rows::kChunkSumRows);
}

/// Whether `op` has the memory of its operand.
static bool isView(Operation *op) {
  return isa<tensor::CollapseShapeOp, tensor::ExpandShapeOp,
             tensor::ExtractSliceOp>(op);
}

/// Whether the cast that reads `gradient` computes it.
static bool isUnstored(CrossEntropyBackwardOp gradient) {
  return gradient->hasOneUse() && isa<QuantizeOp>(*gradient->user_begin());
}

CrossEntropyBackwardOp te::unstoredGradient(QuantizeOp cast) {
  auto gradient = cast.getX().getDefiningOp<CrossEntropyBackwardOp>();
  return gradient && isUnstored(gradient) ? gradient : CrossEntropyBackwardOp();
}

namespace {
class ByRowsEmitter {
public:
  ByRowsEmitter(ByRowsOp op, LaunchEmitter &emitter)
      : op(op), emitter(emitter), body(op.getBody().front()) {}

  LogicalResult emit();

private:
  LogicalResult bindOperands();
  void allocateResults();
  void shareLogits();
  void bindInputs(RowRange rows);
  Value partOf(Value buffer, const tert::BufferLayout &layout, RowRange rows);
  Value partOfScales(Value buffer, ScaledType type, RowRange rows);
  const Buffers &buffersOf(Value value, RowRange rows);
  LogicalResult emitOp(Operation &inner, RowRange rows);
  LogicalResult finish();

  ByRowsOp op;
  LaunchEmitter &emitter;
  Block &body;
  /// The buffers of all rows of each input, and of what is returned.
  SmallVector<Buffers> inputs;
  DenseMap<Value, Buffers> results;
  /// For each loss the loss of each token, for each amax that of each run, and
  /// for each bias gradient the sums of chunks of rows.
  DenseMap<Value, Value> terms;
  /// The value whose memory another value by rows takes.
  DenseMap<Value, Value> storage;
  /// The buffers of the values of this run, by `storage`.
  DenseMap<Value, Buffers> ofRun;
};
} // namespace

/// The layout of `rows` rows of `type`.
static SmallVector<tert::BufferLayout, 2> layoutsOf(Type type, int64_t rows) {
  if (auto scaled = dyn_cast<ScaledType>(type))
    return tert::getBufferLayouts(ScaledType::get(
        type.getContext(), {rows, scaled.getCols()}, scaled.getElementType(),
        scaled.getScheme(), scaled.getVariant(), scaled.getContract()));
  auto tensor = cast<RankedTensorType>(type);
  SmallVector<int64_t> shape(tensor.getShape());
  shape.front() = rows;
  return tert::getBufferLayouts(tensor.clone(shape));
}

LogicalResult ByRowsEmitter::bindOperands() {
  for (auto [argument, operand] :
       llvm::zip_equal(body.getArguments(), op->getOperands())) {
    FailureOr<Buffers> found = emitter.lookup(operand);
    if (failed(found))
      return failure();
    if (op.isByRows(argument))
      inputs.push_back(*found);
    else
      emitter.bind(argument, *found);
  }
  return success();
}

void ByRowsEmitter::allocateResults() {
  for (auto [value, result] : llvm::zip_equal(
           cast<YieldOp>(body.getTerminator()).getValues(), op.getOutputs())) {
    Buffers &buffers = results[value];
    std::string name = emitter.baseName(value.getDefiningOp());
    if (buffers.empty())
      for (const tert::BufferLayout &layout :
           tert::getBufferLayouts(value.getType()))
        buffers.push_back(emitter.allocPart(op, result, layout,
                                            name + "." + layout.part.str()));
    emitter.bind(result, buffers);
  }
  const int64_t runs = llvm::divideCeil(op.getNumRows(), op.getRows());
  for (Operation &inner : body) {
    if (auto loss = dyn_cast<CrossEntropyOp>(inner))
      terms[loss.getLoss()] = allocTokenLoss(loss, emitter);
    if (auto cast = dyn_cast<QuantizeOp>(inner); cast && cast.getAmax())
      terms[cast.getAmax()] = emitter.alloc(
          cast.getLoc(), emitter.baseName(cast) + ".amaxes",
          emitter.causeOf(cast, cast.getAmax()), runs * int64_t(sizeof(float)));
    if (auto sum = dyn_cast<BiasGradOp>(inner))
      terms[sum.getDb()] =
          emitter.alloc(sum.getLoc(), emitter.baseName(sum) + ".sums",
                        emitter.causeOf(sum, sum.getDb()),
                        chunksOf(op.getNumRows()) * count(sum.getDb()) *
                            int64_t(sizeof(float)));
  }
}

/// Lets the gradient of logits that nothing reads afterwards take their memory,
/// which may be a part of a result.
void ByRowsEmitter::shareLogits() {
  for (auto gradient : body.getOps<CrossEntropyBackwardOp>()) {
    Value logits = gradient.getLogits();
    if (!isUnstored(gradient) && !isa<BlockArgument>(logits) &&
        !isView(logits.getDefiningOp()) &&
        llvm::all_of(logits.getUsers(), [&](Operation *user) {
          return user == gradient || user->isBeforeInBlock(gradient);
        }))
      storage[logits] = gradient.getDlogits();
  }
}

Value ByRowsEmitter::partOf(Value buffer, const tert::BufferLayout &layout,
                            RowRange rows) {
  return emitter.slice(op.getLoc(), buffer,
                       layout.bytes / rows.count * rows.first, layout.bytes);
}

/// The scales of some rows of a value with 1x128 blocks, which are stored
/// [blocks, rows].
Value ByRowsEmitter::partOfScales(Value buffer, ScaledType type,
                                  RowRange rows) {
  const tert::BufferLayout part = layoutsOf(type, rows.count)[1];
  const int64_t blocks = part.shape[0], line = part.bytes / blocks;
  const int64_t lineOfAll = tert::getBufferLayouts(type)[1].bytes / blocks;
  Value from =
      emitter.slice(op.getLoc(), buffer, rows.first * int64_t(sizeof(float)),
                    (blocks - 1) * lineOfAll + line);
  Value to = emitter.alloc(op.getLoc(), emitter.baseName(op) + ".scale",
                           tert::Cause::CachedCast, part.bytes);
  // Every buffer is given, so the launch is always made.
  (void)LaunchCall(emitter, op, "copy_strided")
      .i64("parts", 1)
      .i64("rows", blocks)
      .i64("bytes", line)
      .i64("x_part", blocks * lineOfAll)
      .i64("x_row", lineOfAll)
      .i64("y_part", part.bytes)
      .i64("y_row", line)
      .buffer(from)
      .buffer(to)
      .emit();
  return to;
}

void ByRowsEmitter::bindInputs(RowRange rows) {
  for (auto [argument, buffers] : llvm::zip(body.getArguments(), inputs)) {
    auto layouts = layoutsOf(argument.getType(), rows.count);
    Buffers parts = {partOf(buffers[0], layouts[0], rows)};
    if (auto scaled = dyn_cast<ScaledType>(argument.getType()))
      parts.push_back(scaled.getScheme() == Scheme::PerTensor
                          ? buffers[1]
                          : partOfScales(buffers[1], scaled, rows));
    emitter.bind(argument, parts);
  }
}

/// The buffers of `value`, which is computed by rows.
const Buffers &ByRowsEmitter::buffersOf(Value value, RowRange rows) {
  if (Value other = storage.lookup(value); other && !results.contains(value))
    value = other;
  Buffers &buffers = ofRun[value];
  if (!buffers.empty())
    return buffers;
  // A region of te-form-regions has flat results.
  auto type = dyn_cast<RankedTensorType>(value.getType());
  auto layouts = layoutsOf(value.getType(),
                           type ? type.getDimSize(0) / rows.whole * rows.count
                                : rows.count);
  Operation *producer = value.getDefiningOp();
  if (auto all = results.find(value); all != results.end())
    buffers.push_back(partOf(all->second.front(), layouts.front(), rows));
  else
    for (const tert::BufferLayout &layout : layouts)
      buffers.push_back(emitter.alloc(
          op.getLoc(), emitter.baseName(producer) + "." + layout.part.str(),
          emitter.causeOf(producer, value), layout.bytes));
  return buffers;
}

/// Binds a slice, which begins at the first element, to the memory of its
/// operand. Others look through reshapes.
static LogicalResult bindView(Operation &view, LaunchEmitter &emitter) {
  if (!isa<tensor::ExtractSliceOp>(view))
    return success();
  Value from = view.getOperand(0), result = view.getResult(0);
  FailureOr<Buffers> buffers = emitter.lookup(from);
  if (failed(buffers))
    return failure();
  // The end of the last row is left out.
  const int64_t end = (count(from) - count(result)) *
                      (elementType(from).getIntOrFloatBitWidth() / 8);
  Value all = buffers->front();
  emitter.bind(
      result,
      {emitter.slice(view.getLoc(), all, 0,
                     cast<tert::BufferType>(all.getType()).getBytes() - end)});
  return success();
}

LogicalResult ByRowsEmitter::emitOp(Operation &inner, RowRange rows) {
  if (auto gradient = dyn_cast<CrossEntropyBackwardOp>(inner);
      gradient && isUnstored(gradient))
    return success();
  if (isa<arith::ConstantOp, tensor::EmptyOp>(inner))
    return success();
  if (isView(&inner))
    return bindView(inner, emitter);
  for (Value result : inner.getResults())
    if (op.isByRows(result))
      emitter.place(result, buffersOf(result, rows));
    else if (isa<ScaledType>(result.getType()))
      emitter.place(result, results[result]);
  constexpr int64_t f32 = sizeof(float);
  return llvm::TypeSwitch<Operation *, LogicalResult>(&inner)
      .Case([&](CrossEntropyOp loss) {
        Value part = emitter.slice(loss.getLoc(), terms[loss.getLoss()],
                                   rows.first * f32, rows.count * f32);
        return emitLosses(loss, rows.count, part, emitter);
      })
      .Case([&](QuantizeOp cast) {
        if (cast.getAmax())
          emitter.place(cast.getAmax(),
                        {emitter.slice(cast.getLoc(), terms[cast.getAmax()],
                                       rows.first / op.getRows() * f32, f32)});
        return te::emitRows(cast, emitter, rows);
      })
      .Case([&](CrossEntropyBackwardOp gradient) {
        return emitGradient(gradient, emitter, rows);
      })
      .Case([&](BiasGradOp sum) {
        const int64_t line = count(sum.getDb()) * f32;
        return LaunchCall(emitter, sum, "chunk_sums")
            .i64("rows", rows.count)
            .i64("cols", count(sum.getDb()))
            .type("type", elementType(sum.getDy()))
            .in(sum.getDy())
            .buffer(emitter.slice(sum.getLoc(), terms[sum.getDb()],
                                  chunksOf(rows.first) * line,
                                  chunksOf(rows.count) * line))
            .emit();
      })
      .Case<MatmulOp, ScaledMatmulOp, linalg::GenericOp, tensor::ConcatOp>(
          [&](auto each) { return te::emitRows(each, emitter, rows); })
      .Default([](Operation *other) { return refuseLaunch(other); });
}

/// Computes losses, sums and amaxes from their terms.
LogicalResult ByRowsEmitter::finish() {
  // The means read the targets of all tokens.
  for (auto [argument, buffers] : llvm::zip(body.getArguments(), inputs))
    emitter.bind(argument, buffers);
  for (Operation &inner : body) {
    for (Value result : inner.getResults())
      if (auto found = results.find(result);
          terms.contains(result) && found != results.end())
        emitter.place(result, found->second);
    LogicalResult result = success();
    if (auto loss = dyn_cast<CrossEntropyOp>(inner))
      result = emitMean(loss, terms[loss.getLoss()], emitter);
    if (auto cast = dyn_cast<QuantizeOp>(inner); cast && cast.getAmax())
      result =
          LaunchCall(emitter, cast, "amax")
              .i64("count", llvm::divideCeil(op.getNumRows(), op.getRows()))
              .type("x_type", Float32Type::get(op.getContext()))
              .type("type", Float32Type::get(op.getContext()))
              .buffer(terms[cast.getAmax()])
              .out(cast.getAmax())
              .none(1)
              .emit();
    if (auto sum = dyn_cast<BiasGradOp>(inner))
      result = LaunchCall(emitter, sum, "sum_of_chunks")
                   .i64("chunks", chunksOf(op.getNumRows()))
                   .i64("cols", count(sum.getDb()))
                   .type("out_type", elementType(sum.getDb()))
                   .buffer(terms[sum.getDb()])
                   .out(sum.getDb())
                   .emit();
    if (failed(result))
      return failure();
  }
  return success();
}

LogicalResult ByRowsEmitter::emit() {
  if (failed(bindOperands()))
    return failure();
  allocateResults();
  shareLogits();
  const int64_t whole = op.getNumRows();
  for (int64_t first = 0; first < whole; first += op.getRows()) {
    const RowRange rows = {
        first, std::min<int64_t>(op.getRows(), whole - first), whole};
    ofRun.clear();
    bindInputs(rows);
    for (Operation &inner : body.without_terminator())
      if (failed(emitOp(inner, rows)))
        return failure();
  }
  return finish();
}

template <>
LogicalResult te::emitLaunches(ByRowsOp op, LaunchEmitter &emitter) {
  return ByRowsEmitter(op, emitter).emit();
}

void te::attachByRowsKernels(MLIRContext *context) {
  attachKernels<ByRowsOp, CrossEntropyOp, CrossEntropyWeightOp,
                CrossEntropyBackwardOp>(context);
}
