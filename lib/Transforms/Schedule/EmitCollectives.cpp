//===- EmitCollectives.cpp - launches over the ranks of a group -----------===//
//
// Collectives of the runtime put the parts of all ranks one after another. That
// is the result where parts are split along the first axis of what is stored;
// else it goes to a scratch buffer, from where a strided copy puts every row of
// every part in its place, and drops the padding of scales between parts.
//
//===----------------------------------------------------------------------===//

#include "LaunchCall.h"

#include "TEDialect/Runtime/te_runtime_types.h"

#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace mlir::te;

namespace {

/// How the parts of an array lie in the whole.
struct Parts {
  /// Rows of a part as stored, and bytes between them.
  int64_t rows, rowBytes;
  /// Bytes of each row that belong to the whole.
  int64_t bytes;
  /// Of the whole: from one part to the next, and from row to row.
  int64_t partStride, rowStride;
};

/// Parts of `rows` x `cols` elements of `bytes`, of which `count` along `axis`
/// are put one after another in a whole of `wholeCols` columns.
Parts partsAlong(unsigned axis, int64_t rows, int64_t cols, int64_t bytes,
                 int64_t count, int64_t wholeCols) {
  // Along the rows, all of a part is one run.
  if (axis == 0)
    return {1, rows * cols * bytes, count * cols * bytes, count * cols * bytes,
            0};
  return {rows, cols * bytes, count * bytes, count * bytes, wholeCols * bytes};
}

/// Along which axis of the stored data, and scales, the rows of a value of type
/// `type` run, and how many there are.
struct RowAxis {
  unsigned axis;
  int64_t count;
};
RowAxis rowsOfData(ScaledType type) {
  if (type.isMx() || type.getContract() == 1)
    return {0, type.getRows()};
  return {1, type.isNv() ? type.getRows() / 2 : type.getRows()};
}
RowAxis rowsOfScales(ScaledType type) {
  const bool rowsAreOuter = type.getContract() == 1;
  const int64_t rows = type.getRows();
  switch (type.getScheme()) {
  case Scheme::PerTensor:
    break;
  case Scheme::Block1x128:
    return rowsAreOuter ? RowAxis{1, rows} : RowAxis{0, rows / 128};
  case Scheme::Block128x128:
    return {rowsAreOuter ? 0u : 1u, rows / 128};
  case Scheme::Mx1x32:
  case Scheme::Mx32x32:
    return {0, rowsAreOuter ? rows : rows / 32};
  case Scheme::Nv1x16:
  case Scheme::Nv16x16:
    return rowsAreOuter ? RowAxis{0, rows} : RowAxis{1, rows / 16};
  }
  llvm_unreachable("a per-tensor scale has no rows");
}

int64_t product(ArrayRef<int64_t> sizes) {
  int64_t result = 1;
  for (int64_t size : sizes)
    result *= size;
  return result;
}

int64_t bytesOf(Value buffer) {
  return cast<tert::BufferType>(buffer.getType()).getBytes();
}

} // namespace

/// Gathers the parts in `from` to `to`, which lie there as `parts` says.
static LogicalResult
emitGather(function_ref<LogicalResult(Value, Value)> gather,
           function_ref<Value(int64_t)> alloc,
           function_ref<LogicalResult(Value, Value, const Parts &)> place,
           Value from, Value to, int64_t ranks, const Parts &parts) {
  const int64_t partBytes = parts.rows * parts.rowBytes;
  const bool isInPlace = parts.rows == 1 && parts.bytes == partBytes &&
                         bytesOf(to) == ranks * partBytes;
  if (isInPlace)
    return gather(from, to);
  Value scratch = alloc(ranks * partBytes);
  if (failed(gather(from, scratch)))
    return failure();
  return place(scratch, to, parts);
}

LogicalResult LaunchEmitter::emitAllGather(AllGatherOp op) {
  const int64_t ranks = lookupGroup(op, op.getGroup()).getSize();
  FailureOr<Buffers> from = lookup(op.getX());
  if (failed(from))
    return failure();
  auto gather = [&](Value x, Value y) {
    return Call(*this, op, "all_gather")
        .i64("bytes", bytesOf(x))
        .i32("ranks", ranks)
        .i32("group_id", op.getGroup())
        .buffer(x)
        .buffer(y)
        .emit();
  };
  auto scratch = [&](int64_t bytes) {
    return alloc(op.getLoc(), baseName(op) + ".parts", causeOf(op, op.getY()),
                 bytes);
  };
  auto place = [&](Value x, Value y, const Parts &parts) -> LogicalResult {
    const bool hasPadding = bytesOf(y) != ranks * parts.rows * parts.bytes;
    if (hasPadding && failed(Call(*this, op, "fill")
                                 .i64("count", bytesOf(y))
                                 .i32("type", TE_RT_F8E4M3FN)
                                 .f32("value", APFloat(0.0f))
                                 .buffer(y)
                                 .none(1)
                                 .emit()))
      return failure();
    return Call(*this, op, "copy_strided")
        .i64("parts", ranks)
        .i64("rows", parts.rows)
        .i64("bytes", parts.bytes)
        .i64("x_part", parts.rows * parts.rowBytes)
        .i64("x_row", parts.rowBytes)
        .i64("y_part", parts.partStride)
        .i64("y_row", parts.rowStride)
        .buffer(x)
        .buffer(y)
        .emit();
  };

  StringRef residual = residualNames.lookup(op.getY());
  std::string base = residual.empty() ? baseName(op) : residual.str();
  SmallVector<tert::BufferLayout, 2> partLayouts =
      tert::getBufferLayouts(op.getX().getType());
  Buffers to;
  for (auto [i, layout] :
       llvm::enumerate(tert::getBufferLayouts(op.getY().getType()))) {
    to.push_back(
        alloc(op.getLoc(),
              layout.part == "value" ? base : base + "." + layout.part.str(),
              causeOf(op, op.getY()), layout.bytes));
    ArrayRef<int64_t> shape = partLayouts[i].shape;
    auto scaled = dyn_cast<ScaledType>(op.getX().getType());
    Parts parts;
    if (!scaled) {
      const int64_t rows = product(shape.take_front(op.getAxis()));
      const int64_t bytes = rows == 0 ? 0 : bytesOf((*from)[i]) / rows;
      parts = partsAlong(1, rows, bytes, 1, bytes, ranks * bytes);
    } else if (layout.part == "amax"
                   ? !scaled.is(ScaleVariant::RowScaled)
                   : layout.part == "scale" &&
                         scaled.getScheme() == Scheme::PerTensor) {
      // One for the tensor, which all ranks have.
      copy(op.getLoc(), (*from)[i], to.back());
      continue;
    } else if (layout.part == "amax") {
      parts = partsAlong(0, shape[0], 1, 4, shape[0], 1);
    } else {
      RowAxis axis =
          layout.part == "data" ? rowsOfData(scaled) : rowsOfScales(scaled);
      const int64_t elements = product(shape);
      const int64_t bytes = elements == 0 ? 1 : bytesOf((*from)[i]) / elements;
      parts = partsAlong(axis.axis, shape[0], shape[1], bytes, axis.count,
                         layout.shape[1]);
    }
    if (failed(emitGather(gather, scratch, place, (*from)[i], to.back(), ranks,
                          parts)))
      return failure();
  }
  bind(op.getY(), to);
  return success();
}

LogicalResult LaunchEmitter::emitReduceScatter(ReduceScatterOp op) {
  const int64_t ranks = lookupGroup(op, op.getGroup()).getSize();
  FailureOr<Buffers> from = lookup(op.getX());
  if (failed(from))
    return failure();
  Value x = from->front();
  ArrayRef<int64_t> shape = cast<ShapedType>(op.getX().getType()).getShape();
  if (int64_t rows = product(shape.take_front(op.getAxis())); rows > 1) {
    // [rows, ranks, rest] to [ranks, rows, rest].
    const int64_t bytes = bytesOf(x) / rows / ranks;
    Value parts = alloc(op.getLoc(), baseName(op) + ".parts",
                        causeOf(op, op.getY()), bytesOf(x));
    if (failed(Call(*this, op, "copy_strided")
                   .i64("parts", ranks)
                   .i64("rows", rows)
                   .i64("bytes", bytes)
                   .i64("x_part", bytes)
                   .i64("x_row", ranks * bytes)
                   .i64("y_part", rows * bytes)
                   .i64("y_row", bytes)
                   .buffer(x)
                   .buffer(parts)
                   .emit()))
      return failure();
    x = parts;
  }
  return Call(*this, op, "reduce_scatter_sum")
      .i64("count", count(op.getY()))
      .type("type", elementType(op.getX()))
      .i32("ranks", ranks)
      .i32("group_id", op.getGroup())
      .buffer(x)
      .out(op.getY())
      .emit();
}

LogicalResult LaunchEmitter::emitCollective(Operation *op, bool &isKnown) {
  return TypeSwitch<Operation *, LogicalResult>(op)
      .Case([&](AmaxReduceOp op) {
        return Call(*this, op, "all_reduce_max")
            .i64("count", 1)
            .i32("group_id", op.getGroupId())
            .in(op.getAmax())
            .out(op.getReduced())
            .emit();
      })
      .Case([&](AllReduceOp op) {
        return Call(*this, op, "all_reduce_sum")
            .i64("count", count(op.getX()))
            .type("type", elementType(op.getX()))
            .i32("ranks", lookupGroup(op, op.getGroup()).getSize())
            .i32("group_id", op.getGroup())
            .in(op.getX())
            .out(op.getY())
            .emit();
      })
      .Case([&](AllGatherOp op) { return emitAllGather(op); })
      .Case([&](ReduceScatterOp op) { return emitReduceScatter(op); })
      .Case([&](BiasAddOp op) {
        return Call(*this, op, "bias_add")
            .i64("rows", dim(op.getX(), 0))
            .i64("cols", dim(op.getX(), 1))
            .type("type", elementType(op.getX()))
            .in(op.getX())
            .in(op.getBias())
            .out(op.getY())
            .emit();
      })
      .Default([&](Operation *) {
        isKnown = false;
        return failure();
      });
}
