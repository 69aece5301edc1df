//===- ChunkRows.cpp - a row program over a few rows at a time ------------===//
//
// Each stage of a row program becomes a copy of its ops for every chunk of
// rows. A copy begins with the head on a slice of its input, so that logits are
// computed again in each stage, and are saved for none. Numbers for each row
// are concatenated, and gradients of the weight are added up in f32.
//
// In a copy, all values have one axis of rows: a matrix is [rows, columns], and
// numbers for rows are a vector.
//
//===----------------------------------------------------------------------===//

#include "RowProgram.h"

#include "TEDialect/IR/Chunks.h"
#include "TEDialect/Transforms/Residuals/Passes.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/Matchers.h"
#include "mlir/IR/Remarks.h"
#include "llvm/ADT/TypeSwitch.h"

namespace mlir::te {
#define GEN_PASS_DEF_CHUNKROWSPASS
#include "TEDialect/Transforms/Residuals/Passes.h.inc"
} // namespace mlir::te

using namespace mlir;
using namespace mlir::te;

static RankedTensorType typeOf(Value value) {
  return cast<RankedTensorType>(value.getType());
}

/// The reassociation that makes one dimension of `rank` ones.
static SmallVector<ReassociationIndices> oneGroup(int64_t rank) {
  return {llvm::to_vector(llvm::seq<int64_t>(rank))};
}

/// `value`, which has one dimension, in the shape of `type`.
static Value expand(OpBuilder &b, Location loc, Value value,
                    RankedTensorType type) {
  if (type.getRank() == 1)
    return value;
  SmallVector<ReassociationIndices> groups;
  if (type.getRank() > 0)
    groups = oneGroup(type.getRank());
  return tensor::ExpandShapeOp::create(b, loc, type, value, groups);
}

static Value concat(OpBuilder &b, Location loc, ArrayRef<Value> parts) {
  return tensor::ConcatOp::create(b, loc, /*dim=*/0, parts);
}

namespace {
/// Builds one stage of a program.
class Stage {
public:
  Stage(RowProgram &program, int stage, int64_t rowsAtATime)
      : program(program), stage(stage), rowsAtATime(rowsAtATime),
        builder(program.getHead()) {}

  void build();

private:
  void copyChunk();
  Value copy(Value value);
  Value copyMatrix(Value value);
  Value copyBroadcast(linalg::BroadcastOp op);
  Value copyReduction(linalg::ReduceOp op);
  Value copyWithRows(Operation *op, ArrayRef<int64_t> shape);
  Value copyGradient(Operation *op);
  Value partOf(Value whole);
  Value flat(Value vector);
  Value known(Value value);
  Value save(Value value);
  void moveBefore(Value value);

  RowProgram &program;
  int stage;
  int64_t rowsAtATime;
  OpBuilder builder;
  /// The op before which the copies are.
  Operation *position = nullptr;
  /// What all chunks read: values in other shapes, and those that are saved.
  DenseMap<Value, Value> flattened, saved;
  /// The chunk, and the values of its copy.
  int64_t first = 0, rows = 0;
  DenseMap<Value, Value> copies;
  /// The sum so far of each gradient of a parameter.
  DenseMap<Operation *, Value> sums;
};
} // namespace

/// Moves what computes `value` up to the position of the copies. It reads
/// nothing of this stage.
void Stage::moveBefore(Value value) {
  Operation *op = value.getDefiningOp();
  if (!op || op->getBlock() != position->getBlock() ||
      op->isBeforeInBlock(position))
    return;
  for (Value operand : op->getOperands())
    moveBefore(operand);
  op->moveBefore(position);
}

/// A residual of `value` of this stage only, so that nothing that is computed
/// again is merged with what another stage computes.
Value Stage::save(Value value) {
  Value &held = saved[value];
  if (held)
    return held;
  Operation *boundary = program.getBoundary();
  OpBuilder b(boundary ? boundary : position);
  held = ResidualOp::create(
      b, program.getHead().getLoc(), value,
      b.getStringAttr("rows" + Twine(stage) + "." + Twine(saved.size() - 1)));
  return held;
}

/// `value` where this stage may read it: what the forward computed is saved for
/// the backward.
Value Stage::known(Value value) {
  Operation *op = value.getDefiningOp(), *boundary = program.getBoundary();
  if (stage == 0 || !boundary || !op || isa<ResidualOp>(op) ||
      matchPattern(value, m_Constant()) || !op->isBeforeInBlock(boundary)) {
    moveBefore(value);
    return value;
  }
  return save(value);
}

/// The numbers of all rows as a vector.
Value Stage::flat(Value vector) {
  Value &found = flattened[vector];
  if (found)
    return found;
  found = known(vector);
  if (const int64_t rank = typeOf(vector).getRank(); rank != 1)
    found = tensor::CollapseShapeOp::create(builder, vector.getLoc(), found,
                                            oneGroup(rank));
  return found;
}

/// The rows of this chunk of `whole`, a vector or a matrix.
Value Stage::partOf(Value whole) {
  const RankedTensorType type = typeOf(whole);
  SmallVector<OpFoldResult> offsets(type.getRank(), builder.getIndexAttr(0)),
      sizes = getAsIndexOpFoldResult(builder.getContext(), type.getShape()),
      strides(type.getRank(), builder.getIndexAttr(1));
  offsets.front() = builder.getIndexAttr(first);
  sizes.front() = builder.getIndexAttr(rows);
  return tensor::ExtractSliceOp::create(builder, whole.getLoc(), whole, offsets,
                                        sizes, strides);
}

/// A copy of `op` whose result has `shape`.
Value Stage::copyWithRows(Operation *op, ArrayRef<int64_t> shape) {
  IRMapping map;
  for (Value operand : op->getOperands()) {
    DenseElementsAttr splat;
    if (!matchPattern(operand, m_Constant(&splat))) {
      map.map(operand, copy(operand));
      continue;
    }
    SmallVector<int64_t, 2> part(shape);
    if (isa<tensor::ConcatOp>(op))
      part.back() = typeOf(operand).getShape().back();
    map.map(operand, arith::ConstantOp::create(
                         builder, operand.getLoc(),
                         splat.resizeSplat(typeOf(operand).clone(part)))
                         .getResult());
  }
  Operation *made = builder.clone(*op, map);
  made->getResult(0).setType(typeOf(op->getResult(0)).clone(shape));
  return made->getResult(0);
}

Value Stage::copyBroadcast(linalg::BroadcastOp op) {
  const RankedTensorType type = typeOf(op->getResult(0));
  const int64_t last = type.getRank() - 1;
  Value input = op.getInput(), from;
  SmallVector<int64_t> added;
  if (typeOf(input).getRank() == 0) {
    from = known(input);
    added = {0, 1};
  } else if (op.getDimensions() == ArrayRef<int64_t>{last}) {
    from = copy(input);
    added = {1};
  } else {
    from = known(input);
    added = {0};
  }
  Value empty = tensor::EmptyOp::create(
      builder, op.getLoc(), ArrayRef<int64_t>{rows, type.getShape().back()},
      type.getElementType());
  return linalg::BroadcastOp::create(builder, op.getLoc(), from, empty, added)
      ->getResult(0);
}

Value Stage::copyReduction(linalg::ReduceOp op) {
  DenseElementsAttr init;
  [[maybe_unused]] const bool isConstant =
      matchPattern(op.getInits().front(), m_Constant(&init));
  assert(isConstant && "reductions of a row program begin with a constant");
  auto type = typeOf(op->getResult(0)).clone(ArrayRef<int64_t>{rows});
  IRMapping map;
  map.map(op.getInputs().front(), copy(op.getInputs().front()));
  map.map(
      op.getInits().front(),
      arith::ConstantOp::create(builder, op.getLoc(), init.resizeSplat(type))
          .getResult());
  auto made = cast<linalg::ReduceOp>(builder.clone(*op, map));
  made.setDimensions({1});
  made->getResult(0).setType(type);
  return made->getResult(0);
}

Value Stage::copyMatrix(Value value) {
  Operation *op = value.getDefiningOp();
  const int64_t columns = program.getColumns(value);
  if (isa<ResidualOp, tensor::CollapseShapeOp, tensor::ExpandShapeOp>(op))
    return copy(op->getOperand(0));
  if (auto broadcast = dyn_cast<linalg::BroadcastOp>(op))
    return copyBroadcast(broadcast);
  if (auto slice = dyn_cast<tensor::ExtractSliceOp>(op)) {
    auto index = [&](int64_t i) -> OpFoldResult {
      return builder.getIndexAttr(i);
    };
    return tensor::ExtractSliceOp::create(
        builder, op->getLoc(), copy(slice.getSource()),
        {index(0), index(slice.getStaticOffsets().back())},
        {index(rows), index(columns)}, {index(1), index(1)});
  }
  if (auto head = dyn_cast<LinearOp>(op)) {
    IRMapping map;
    for (Value operand : head->getOperands())
      map.map(operand, known(operand));
    map.map(head.getX(), copy(head.getX()));
    auto made = cast<LinearOp>(builder.clone(*op, map));
    made.getY().setType(typeOf(value).clone({rows, columns}));
    return made.getY();
  }
  Value made = copyWithRows(op, {rows, columns});
  if (auto concat = made.getDefiningOp<tensor::ConcatOp>())
    concat.setDim(1);
  return made;
}

/// `value` for the rows of this chunk.
Value Stage::copy(Value value) {
  Value behind = value;
  if (auto residual = value.getDefiningOp<ResidualOp>();
      residual && residual.getValue() == program.getHead().getX())
    behind = residual.getValue();
  if (Value made = copies.lookup(behind))
    return made;
  Value made;
  Operation *op = behind.getDefiningOp();
  if (behind == program.getHead().getX()) {
    made = partOf(stage == 0 ? behind : save(behind));
    made.getDefiningOp()->setAttr(kChunkAttr, builder.getUnitAttr());
  } else if (program.isMatrix(behind)) {
    made = copyMatrix(behind);
  } else if (!program.isComputed(behind, stage)) {
    made = partOf(flat(behind));
  } else if (auto reduce = dyn_cast<linalg::ReduceOp>(op)) {
    made = copyReduction(reduce);
  } else if (isa<tensor::CollapseShapeOp, tensor::ExpandShapeOp>(op)) {
    made = copy(op->getOperand(0));
  } else {
    made = copyWithRows(op, {rows});
  }
  return copies[behind] = made;
}

/// A gradient of the head for this chunk: rows, or the sum so far.
Value Stage::copyGradient(Operation *op) {
  Location loc = op->getLoc();
  if (auto dgrad = dyn_cast<LinearDgradOp>(op)) {
    IRMapping map;
    map.map(dgrad.getDy(), copy(dgrad.getDy()));
    map.map(dgrad.getW(), known(dgrad.getW()));
    auto made = cast<LinearDgradOp>(builder.clone(*op, map));
    made.getDx().setType(
        typeOf(dgrad.getDx())
            .clone({rows, typeOf(dgrad.getDx()).getDimSize(1)}));
    return made.getDx();
  }
  Value &sum = sums[op];
  auto wgrad = dyn_cast<LinearWgradOp>(op);
  if (!wgrad) {
    auto wide = typeOf(op->getResult(0)).clone(builder.getF32Type());
    Value part = BiasGradOp::create(builder, loc, wide,
                                    copy(cast<BiasGradOp>(op).getDy()));
    return sum = sum ? arith::AddFOp::create(builder, loc, sum, part) : part;
  }
  IRMapping map;
  map.map(wgrad.getDy(), copy(wgrad.getDy()));
  map.map(wgrad.getX(), copy(wgrad.getX()));
  if (wgrad.getAccumulate())
    map.map(wgrad.getAccumulate(), sum ? sum : known(wgrad.getAccumulate()));
  auto made = cast<LinearWgradOp>(builder.clone(*op, map));
  if (!wgrad.getAccumulate()) {
    made.getDw().setType(typeOf(wgrad.getDw()).clone(builder.getF32Type()));
    if (sum)
      made.getAccumulateMutable().assign(sum);
  }
  return sum = made.getDw();
}

void Stage::build() {
  SmallVector<Value> results = program.getResults(stage);
  for (Value result : results)
    for (Operation *user : result.getUsers())
      if (program.isOutside(user) &&
          (!position || user->isBeforeInBlock(position)))
        position = user;
  if (!position)
    return;
  // The forward is before what it saves for later stages.
  if (stage == 0)
    for (auto residual : position->getBlock()->getOps<ResidualOp>())
      if (program.getHead()->isBeforeInBlock(residual) &&
          residual->isBeforeInBlock(position))
        position = residual;
  builder.setInsertionPoint(position);
  DenseMap<Value, SmallVector<Value>> parts;
  for (first = 0; first < program.getRows(); first += rowsAtATime) {
    rows = std::min(rowsAtATime, program.getRows() - first);
    copies.clear();
    for (Value result : results) {
      Operation *op = result.getDefiningOp();
      parts[result].push_back(isa<LinearDgradOp, LinearWgradOp, BiasGradOp>(op)
                                  ? copyGradient(op)
                                  : copy(result));
    }
  }
  for (Value result : results) {
    Operation *op = result.getDefiningOp();
    const RankedTensorType type = typeOf(result);
    Location loc = op->getLoc();
    Value all;
    if (isa<LinearWgradOp, BiasGradOp>(op))
      all = sums[op].getType() == type
                ? sums[op]
                : arith::TruncFOp::create(builder, loc, type, sums[op])
                      .getResult();
    else if (isa<LinearDgradOp>(op))
      all = concat(builder, loc, parts[result]);
    else
      all = expand(builder, loc, concat(builder, loc, parts[result]), type);
    result.replaceUsesWithIf(
        all, [&](OpOperand &use) { return program.isOutside(use.getOwner()); });
  }
}

namespace {
struct ChunkRows final : te::impl::ChunkRowsPassBase<ChunkRows> {
  using Base::Base;

  void runOnOperation() override {
    SmallVector<LinearOp> heads;
    getOperation().walk([&](LinearOp op) { heads.push_back(op); });
    if (llvm::count_if(heads, [&](LinearOp op) { return chunk(op); }) == 0)
      return;
    for (Block &block : getOperation().getBody())
      for (Operation &op : llvm::make_early_inc_range(llvm::reverse(block)))
        if (isOpTriviallyDead(&op))
          op.erase();
  }

  bool chunk(LinearOp head) {
    const RankedTensorType type = typeOf(head.getY());
    const int64_t row =
        llvm::divideCeil(type.getDimSize(1) * type.getElementTypeBitWidth(), 8);
    if (budget == 0 || row == 0 || type.getDimSize(0) <= budget / row)
      return false;
    const int64_t rows =
        std::max<int64_t>(budget / row / kAlignment, 1) * kAlignment;
    if (rows >= type.getDimSize(0))
      return false;
    auto options = remark::RemarkOpts::name("chunk-rows")
                       .category("te-chunk-rows")
                       .function(getOperation().getName());
    std::string why;
    FailureOr<RowProgram> program = RowProgram::find(head, why);
    if (failed(program)) {
      // Most layers are no head.
      if (why.empty())
        return false;
      remark::missed(head.getLoc(), options)
          << remark::add("the result of a layer is stored as a whole, in {0} "
                         "bytes",
                         row * type.getDimSize(0))
          << remark::reason("{0}", why);
      return false;
    }
    remark::passed(head.getLoc(), options)
        << remark::add("{0} rows of logits are stored at a time, in {1} bytes",
                       rows, row * rows);
    // A later stage reads results of the ones before it.
    const SmallVector<int> stages = program->getStages();
    for (int stage : llvm::reverse(stages))
      Stage(*program, stage, rows).build();
    ++numChunked;
    return true;
  }

  /// Rows of a block of the casts for axis 0.
  static constexpr int64_t kAlignment = 128;
};
} // namespace
