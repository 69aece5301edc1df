//===- EmitCollectives.cpp - launches over the ranks of a group -----------===//
//
// Collectives of the runtime concatenate the parts of all ranks. That is the
// result if parts are split along the first axis of the stored data. Otherwise,
// the parts go to a scratch buffer, from which a strided copy moves every row
// of every part to its place, and drops the padding of scales between parts.
//
//===----------------------------------------------------------------------===//

#include "LaunchCall.h"

#include "TEDialect/Runtime/te_runtime_types.h"

using namespace mlir;
using namespace mlir::te;

namespace {

/// The layout of the parts of an array in the whole, which may end within a
/// part.
struct Parts {
  /// The rows of a part as stored, and the bytes from one to the next.
  int64_t rows, rowBytes;
  /// Along the split axis: the bytes of one unit, and the number of units in a
  /// part and in the whole.
  int64_t unitBytes, count, wholeCount;
  /// The bytes from one row to the next in the whole.
  int64_t rowStride;

  int64_t bytes() const { return rows * rowBytes; }
  /// The bytes from one part to the next in the whole.
  int64_t stride() const { return count * unitBytes; }
};

/// Parts of `rows` x `cols` elements of `bytes`. `count` of them along `axis`
/// are concatenated in a whole of `wholeCols` columns, up to its `wholeCount`.
Parts partsAlong(unsigned axis, int64_t rows, int64_t cols, int64_t bytes,
                 int64_t count, int64_t wholeCount, int64_t wholeCols) {
  // If parts are split along the rows, a part is one run.
  if (axis == 0)
    return {1, rows * cols * bytes, cols * bytes, count, wholeCount, 0};
  return {rows, cols * bytes, bytes, count, wholeCount, wholeCols * bytes};
}

/// The axis of the stored data or scales along which the rows of a value of
/// type `type` are stored, and the number of rows.
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
  const int64_t rows = type.getRows(), blocks = (rows + 127) / 128;
  switch (type.getScheme()) {
  case Scheme::PerTensor:
    break;
  case Scheme::Block1x128:
    return rowsAreOuter ? RowAxis{1, rows} : RowAxis{0, blocks};
  case Scheme::Block128x128:
    return {rowsAreOuter ? 0u : 1u, blocks};
  case Scheme::Mx1x32:
  case Scheme::Mx32x32:
    return {0, rowsAreOuter ? rows : rows / 32};
  case Scheme::Nv1x16:
  case Scheme::Nv16x16:
    return rowsAreOuter ? RowAxis{0, rows} : RowAxis{1, rows / 16};
  }
  llvm_unreachable("a per-tensor scale has no rows");
}

/// Whether an array of a value of type `type` belongs to the whole value and is
/// the same on all ranks.
bool isOfWhole(ScaledType type, StringRef array) {
  if (array == "amax")
    return !type.is(ScaleVariant::RowScaled);
  return array == "scale" && type.getScheme() == Scheme::PerTensor;
}

/// The bytes from one part to the next, and from one row to the next.
struct StridesOfParts {
  int64_t part, row;
};

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

/// Gathers the parts in `from` to `to`, where their layout is `parts`.
static LogicalResult
emitGather(function_ref<LogicalResult(Value, Value)> gather,
           function_ref<Value(int64_t)> alloc,
           function_ref<LogicalResult(Value, Value, const Parts &)> place,
           Value from, Value to, int64_t ranks, const Parts &parts) {
  const bool isInPlace = parts.rows == 1 && parts.stride() == parts.bytes() &&
                         bytesOf(to) == ranks * parts.bytes();
  if (isInPlace)
    return gather(from, to);
  Value scratch = alloc(ranks * parts.bytes());
  if (failed(gather(from, scratch)))
    return failure();
  return place(scratch, to, parts);
}

static LogicalResult fillZeros(LaunchEmitter &emitter, Operation *op,
                               Value buffer) {
  // Buffers with padding are scales, in tiles of 512 bytes, or tensors.
  const bool isWide = bytesOf(buffer) % 4 == 0;
  return LaunchCall(emitter, op, "fill")
      .i64("count", bytesOf(buffer) / (isWide ? 4 : 2))
      .i32("type", isWide ? TE_RT_F32 : TE_RT_BF16)
      .f32("value", APFloat(0.0f))
      .buffer(buffer)
      .none(1)
      .emit();
}

/// Copies an axis of `wholeCount` units, with `count` in a part, between parts
/// and the whole, row by row: first the full parts, then the units of the last
/// part.
static LogicalResult copyParts(LaunchEmitter &emitter, Operation *op, Value x,
                               Value y, int64_t rows, int64_t unitBytes,
                               int64_t count, int64_t wholeCount,
                               StridesOfParts from, StridesOfParts to) {
  auto tail = [&](Value buffer, int64_t offset) {
    return offset == 0 ? buffer
                       : emitter.slice(op->getLoc(), buffer, offset,
                                       bytesOf(buffer) - offset);
  };
  auto copy = [&](int64_t first, int64_t parts, int64_t bytes) {
    if (parts * bytes == 0)
      return success();
    return LaunchCall(emitter, op, "copy_strided")
        .i64("parts", parts)
        .i64("rows", rows)
        .i64("bytes", bytes)
        .i64("x_part", from.part)
        .i64("x_row", from.row)
        .i64("y_part", to.part)
        .i64("y_row", to.row)
        .buffer(tail(x, first * from.part))
        .buffer(tail(y, first * to.part))
        .emit();
  };
  if (count == 0)
    return success();
  const int64_t full = wholeCount / count;
  if (failed(copy(0, full, count * unitBytes)))
    return failure();
  return copy(full, 1, wholeCount % count * unitBytes);
}

template <>
LogicalResult te::emitLaunches(AllGatherOp op, LaunchEmitter &emitter) {
  const int64_t ranks = lookupGroup(op, op.getGroup()).getSize();
  FailureOr<Buffers> from = emitter.lookup(op.getX());
  if (failed(from))
    return failure();
  auto gather = [&](Value x, Value y) {
    return LaunchCall(emitter, op, "all_gather")
        .i64("bytes", bytesOf(x))
        .i32("ranks", ranks)
        .i32("group_id", op.getGroup())
        .buffer(x)
        .buffer(y)
        .emit();
  };
  auto scratch = [&](int64_t bytes) {
    return emitter.alloc(op.getLoc(), emitter.baseName(op) + ".parts",
                         emitter.causeOf(op, op.getY()), bytes);
  };
  auto place = [&](Value x, Value y, const Parts &parts) -> LogicalResult {
    const bool hasPadding =
        bytesOf(y) != parts.rows * parts.wholeCount * parts.unitBytes;
    if (hasPadding && failed(fillZeros(emitter, op, y)))
      return failure();
    return copyParts(emitter, op, x, y, parts.rows, parts.unitBytes,
                     parts.count, parts.wholeCount,
                     {parts.bytes(), parts.rowBytes},
                     {parts.stride(), parts.rowStride});
  };

  std::string base = emitter.baseName(op, op.getY());
  SmallVector<tert::BufferLayout, 2> partLayouts =
      tert::getBufferLayouts(op.getX().getType());
  Buffers to;
  for (auto [i, layout] :
       llvm::enumerate(tert::getBufferLayouts(op.getY().getType()))) {
    to.push_back(emitter.alloc(
        op.getLoc(),
        layout.part == "value" ? base : base + "." + layout.part.str(),
        emitter.causeOf(op, op.getY()), layout.bytes));
    ArrayRef<int64_t> shape = partLayouts[i].shape;
    auto scaled = dyn_cast<ScaledType>(op.getX().getType());
    auto whole = dyn_cast<ScaledType>(op.getY().getType());
    Parts parts;
    if (!scaled) {
      const int64_t rows = product(shape.take_front(op.getAxis()));
      const int64_t count = shape[op.getAxis()];
      const int64_t bytes = rows == 0 ? 0 : bytesOf((*from)[i]) / rows;
      const int64_t unit = count == 0 ? 0 : bytes / count;
      const int64_t wholeCount = layout.shape[op.getAxis()];
      parts = {rows, bytes, unit, count, wholeCount, wholeCount * unit};
    } else if (scaled.isShard() && layout.part == "data") {
      parts = {1, shape[0], 1, shape[0], whole.getDataBytes(), 0};
    } else if (isOfWhole(scaled, layout.part) ||
               (scaled.isShard() && layout.part == "scale")) {
      emitter.copy(op.getLoc(), (*from)[i], to.back());
      continue;
    } else if (layout.part == "amax") {
      parts = partsAlong(0, shape[0], 1, 4, shape[0], layout.shape[0], 1);
    } else {
      auto rowsOf = layout.part == "data" ? rowsOfData : rowsOfScales;
      RowAxis axis = rowsOf(scaled);
      const int64_t elements = product(shape);
      const int64_t bytes = elements == 0 ? 1 : bytesOf((*from)[i]) / elements;
      parts = partsAlong(axis.axis, shape[0], shape[1], bytes, axis.count,
                         rowsOf(whole).count, layout.shape[1]);
    }
    if (failed(emitGather(gather, scratch, place, (*from)[i], to.back(), ranks,
                          parts)))
      return failure();
  }
  emitter.bind(op.getY(), to);
  return success();
}

template <>
LogicalResult te::emitLaunches(ReduceScatterOp op, LaunchEmitter &emitter) {
  const int64_t ranks = lookupGroup(op, op.getGroup()).getSize();
  FailureOr<Buffers> from = emitter.lookup(op.getX());
  if (failed(from))
    return failure();
  Value x = from->front();
  ArrayRef<int64_t> shape = cast<ShapedType>(op.getX().getType()).getShape();
  const int64_t rows = product(shape.take_front(op.getAxis()));
  const int64_t wholeCount = shape[op.getAxis()];
  const int64_t count =
      cast<ShapedType>(op.getY().getType()).getDimSize(op.getAxis());
  const bool isUneven = wholeCount != count * ranks;
  if (rows > 1 || isUneven) {
    // Copy [rows, whole, rest] to [ranks, rows, count, rest].
    const int64_t unit =
        rows * wholeCount == 0 ? 0 : bytesOf(x) / rows / wholeCount;
    Value parts = emitter.alloc(op.getLoc(), emitter.baseName(op) + ".parts",
                                emitter.causeOf(op, op.getY()),
                                ranks * rows * count * unit);
    if (isUneven && failed(fillZeros(emitter, op, parts)))
      return failure();
    if (failed(copyParts(emitter, op, x, parts, rows, unit, count, wholeCount,
                         {count * unit, wholeCount * unit},
                         {rows * count * unit, count * unit})))
      return failure();
    x = parts;
  }
  return LaunchCall(emitter, op, "reduce_scatter_sum")
      .i64("count", te::count(op.getY()))
      .type("type", elementType(op.getX()))
      .i32("ranks", ranks)
      .i32("group_id", op.getGroup())
      .buffer(x)
      .out(op.getY())
      .emit();
}

namespace {

/// The exchange of one array: the concatenated parts before and after it, and
/// the final layout of the received parts.
struct Exchange {
  Value toSend, got, y;
  int64_t bytes;
  Parts received;
};

/// The axes of a stored array, two of which are exchanged.
struct ExchangedAxes {
  SmallVector<int64_t> sizes;
  int64_t split, concat;
};

ExchangedAxes exchangedAxes(AllToAllOp op, const tert::BufferLayout &layout,
                            int64_t ranks) {
  auto scaled = dyn_cast<ScaledType>(op.getX().getType());
  const int64_t split = op.getSplit(), concat = op.getConcat();
  if (!scaled)
    return {llvm::to_vector(cast<ShapedType>(op.getX().getType()).getShape()),
            split, concat};
  const RowAxis rows = layout.part == "amax"   ? RowAxis{0, scaled.getRows()}
                       : layout.part == "data" ? rowsOfData(scaled)
                                               : rowsOfScales(scaled);
  // A block may span groups that travel together.
  const int64_t groups =
      split == concat && split == 0 ? ranks : op.getSentGroups();
  SmallVector<int64_t> sizes = llvm::to_vector(layout.shape);
  sizes[rows.axis] = groups;
  sizes.insert(sizes.begin() + rows.axis + 1, rows.count / groups);
  return {sizes, split + rows.axis, concat + rows.axis};
}

/// The layout of a part of `bytes` along `axis`: the number of runs before the
/// axis, the size of the axis, and the bytes of one unit.
Parts alongAxis(ArrayRef<int64_t> part, int64_t axis, int64_t bytes,
                int64_t ranks) {
  const int64_t rows = product(part.take_front(axis));
  const int64_t count = part[axis];
  return {rows,
          rows == 0 ? 0 : bytes / rows,
          rows * count == 0 ? 0 : bytes / rows / count,
          count,
          count * ranks,
          0};
}

} // namespace

/// Concatenates the parts of `x`, and determines the layout of the received
/// parts. Nothing is copied if the parts are concatenated already.
static FailureOr<Exchange> prepareExchange(AllToAllOp op,
                                           LaunchEmitter &emitter,
                                           const tert::BufferLayout &layout,
                                           Value x, Value y, int64_t ranks) {
  const ExchangedAxes axes = exchangedAxes(op, layout, ranks);
  const int64_t unit =
      product(layout.shape) == 0 ? 0 : layout.bytes / product(layout.shape);
  const int64_t all = product(axes.sizes) * unit, bytes = all / ranks;
  // There may be padding after the last row of scales.
  if (all != layout.bytes) {
    if (failed(fillZeros(emitter, op, y)))
      return failure();
    x = emitter.slice(op.getLoc(), x, 0, all);
    y = emitter.slice(op.getLoc(), y, 0, all);
  }
  SmallVector<int64_t> part = axes.sizes;
  part[axes.split] /= ranks;
  const Parts sent = alongAxis(part, axes.split, bytes, ranks);
  const Parts received = alongAxis(part, axes.concat, bytes, ranks);
  auto scratch = [&](StringRef suffix) {
    const bool isOnly = layout.part == "value";
    return emitter.alloc(op.getLoc(),
                         emitter.baseName(op) +
                             (isOnly ? "" : ("." + layout.part).str()) +
                             suffix.str(),
                         emitter.causeOf(op, op.getY()), all);
  };
  Value toSend = x;
  if (sent.rows > 1) {
    toSend = scratch(".sent");
    if (failed(copyParts(emitter, op, x, toSend, sent.rows, sent.unitBytes,
                         sent.count, sent.wholeCount,
                         {sent.stride(), ranks * sent.rowBytes},
                         {bytes, sent.rowBytes})))
      return failure();
  }
  Value got = received.rows > 1 ? scratch(".received") : y;
  return Exchange{toSend, got, y, bytes, received};
}

/// Emits one operation for two arrays, such as data and scales.
static LogicalResult launchExchanges(AllToAllOp op, LaunchEmitter &emitter,
                                     ArrayRef<Exchange> exchanges,
                                     int64_t ranks) {
  for (size_t i = 0; i < exchanges.size(); i += 2) {
    const bool isPair = i + 1 < exchanges.size();
    LaunchCall call(emitter, op, "all_to_all");
    call.i64("bytes", exchanges[i].bytes)
        .i64("scale_bytes", isPair ? exchanges[i + 1].bytes : 0)
        .i32("ranks", ranks)
        .i32("group_id", op.getGroup())
        .buffer(exchanges[i].toSend)
        .buffer(exchanges[i].got);
    if (isPair)
      call.buffer(exchanges[i + 1].toSend).buffer(exchanges[i + 1].got);
    else
      call.none(2);
    if (failed(call.emit()))
      return failure();
  }
  return success();
}

template <>
LogicalResult te::emitLaunches(AllToAllOp op, LaunchEmitter &emitter) {
  const int64_t ranks = lookupGroup(op, op.getGroup()).getSize();
  FailureOr<Buffers> from = emitter.lookup(op.getX());
  if (failed(from))
    return failure();
  std::string base = emitter.baseName(op, op.getY());
  auto scaled = dyn_cast<ScaledType>(op.getX().getType());
  SmallVector<Exchange, 3> exchanges;
  Buffers to;
  for (auto [i, layout] :
       llvm::enumerate(tert::getBufferLayouts(op.getY().getType()))) {
    to.push_back(emitter.alloc(
        op.getLoc(),
        layout.part == "value" ? base : base + "." + layout.part.str(),
        emitter.causeOf(op, op.getY()), layout.bytes));
    if (scaled && isOfWhole(scaled, layout.part)) {
      emitter.copy(op.getLoc(), (*from)[i], to.back());
      continue;
    }
    FailureOr<Exchange> exchange =
        prepareExchange(op, emitter, layout, (*from)[i], to.back(), ranks);
    if (failed(exchange))
      return failure();
    exchanges.push_back(*exchange);
  }
  if (failed(launchExchanges(op, emitter, exchanges, ranks)))
    return failure();
  for (const Exchange &each : exchanges)
    if (const Parts &parts = each.received;
        parts.rows > 1 &&
        failed(copyParts(emitter, op, each.got, each.y, parts.rows,
                         parts.unitBytes, parts.count, parts.wholeCount,
                         {each.bytes, parts.rowBytes},
                         {parts.stride(), ranks * parts.rowBytes})))
      return failure();
  emitter.bind(op.getY(), to);
  return success();
}

/// Amaxes that are reduced together are stored one after another. The op that
/// computes an amax writes it there (`placeOf`).
template <>
LogicalResult te::emitLaunches(AmaxReduceOp op, LaunchEmitter &emitter) {
  if (op.getAmaxes().size() == 1)
    return LaunchCall(emitter, op, "all_reduce_max")
        .i64("count", count(op.getAmaxes().front()))
        .i32("group_id", op.getGroupId())
        .in(op.getAmaxes().front())
        .out(op.getReduced().front())
        .emit();
  int64_t bytes = 0;
  for (Value amax : op.getAmaxes())
    bytes += count(amax) * int64_t(sizeof(float));
  Value from = emitter.getPacked(op);
  if (!from)
    from = emitter.alloc(op.getLoc(), emitter.baseName(op) + ".amaxes",
                         emitter.causeOf(op, op.getReduced().front()), bytes);
  Value to = emitter.alloc(op.getLoc(), emitter.baseName(op) + ".reduced",
                           emitter.causeOf(op, op.getReduced().front()), bytes);
  int64_t offset = 0;
  for (auto [amax, reduced] : llvm::zip(op.getAmaxes(), op.getReduced())) {
    const int64_t size = count(amax) * int64_t(sizeof(float));
    FailureOr<Buffers> made = emitter.lookup(amax);
    if (failed(made))
      return failure();
    // It is an argument, or an amax that another op reduces too.
    auto part = made->front().getDefiningOp<tert::SliceOp>();
    if (!part || part.getBuffer() != from ||
        static_cast<int64_t>(part.getOffset()) != offset)
      emitter.copy(op.getLoc(), made->front(),
                   emitter.slice(op.getLoc(), from, offset, size));
    emitter.bind(reduced, {emitter.slice(op.getLoc(), to, offset, size)});
    offset += size;
  }
  return LaunchCall(emitter, op, "all_reduce_max")
      .i64("count", bytes / int64_t(sizeof(float)))
      .i32("group_id", op.getGroupId())
      .buffer(from)
      .buffer(to)
      .emit();
}

template <>
LogicalResult te::emitLaunches(AllReduceOp op, LaunchEmitter &emitter) {
  return LaunchCall(emitter, op, "all_reduce_sum")
      .i64("count", count(op.getX()))
      .type("type", elementType(op.getX()))
      .i32("ranks", lookupGroup(op, op.getGroup()).getSize())
      .i32("group_id", op.getGroup())
      .in(op.getX())
      .out(op.getY())
      .emit();
}

void te::attachCollectiveKernels(MLIRContext *context) {
  attachKernels<AmaxReduceOp, AllReduceOp, AllGatherOp, ReduceScatterOp,
                AllToAllOp>(context);
}
