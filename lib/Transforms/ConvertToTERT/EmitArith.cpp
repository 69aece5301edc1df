//===- EmitArith.cpp - launches of ops of other dialects ------------------===//
//
// This covers constants, the regions of elementwise ops that te-form-regions
// makes, and the reshapes of tensor, which are views.
//
//===----------------------------------------------------------------------===//

#include "LaunchCall.h"
#include "Regions.h"

#include "TEDialect/Runtime/te_runtime_types.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/Matchers.h"

using namespace mlir;
using namespace mlir::te;

/// Emits constant sizes of groups: a run of equal sizes is filled with the f32
/// that has the same bits.
static LogicalResult emitGroupSizes(LaunchEmitter &emitter, Operation *op,
                                    DenseElementsAttr sizes) {
  SmallVector<APInt> values(sizes.getValues<APInt>());
  // Larger values have the bits of NaNs, which a fill does not preserve.
  constexpr uint64_t kLargest = 0x7f7fffff;
  for (const APInt &value : values)
    if (value.ugt(kLargest))
      return op->emitError()
             << "expected a constant of i32 to hold values "
                "from 0 to "
             << kLargest << ", but got " << value.getSExtValue();
  Value result = op->getResult(0);
  const int64_t count = te::count(result);
  Value whole =
      emitter.alloc(op->getLoc(), emitter.baseName(op), tert::Cause::Constant,
                    count * int64_t(sizeof(int32_t)));
  emitter.bind(result, {whole});
  for (int64_t begin = 0, end = 0; begin < count; begin = end) {
    while (end < count && values[end] == values[begin])
      ++end;
    Value run =
        emitter.slice(op->getLoc(), whole, begin * int64_t(sizeof(int32_t)),
                      (end - begin) * int64_t(sizeof(int32_t)));
    if (failed(LaunchCall(emitter, op, "fill")
                   .i64("count", end - begin)
                   .type("type", Float32Type::get(op->getContext()))
                   .f32("value", APFloat(APFloat::IEEEsingle(), values[begin]))
                   .buffer(run)
                   .none(1)
                   .emit()))
      return failure();
  }
  return success();
}

template <>
LogicalResult te::emitLaunches(arith::ConstantOp op, LaunchEmitter &emitter) {
  DenseElementsAttr value;
  Value result = op.getResult();
  // Zero has the same bits in i32 and in f32, which the kernel supports.
  if (elementType(result).isInteger(32) &&
      matchPattern(op.getResult(), m_Zero()))
    return LaunchCall(emitter, op, "fill")
        .i64("count", count(result))
        .i32("type", TE_RT_F32)
        .f32("value", APFloat(0.0f))
        .out(result)
        .none(1)
        .emit();
  if (matchPattern(op.getResult(), m_Constant(&value)) &&
      value.getElementType().isSignlessInteger(32))
    return emitGroupSizes(emitter, op, value);
  if (!value || !value.isSplat() || !isa<FloatType>(value.getElementType()))
    return op->emitError()
           << "expected a constant to be a splat of a float, but its type is "
           << op.getResult().getType();
  APFloat splat = value.getSplatValue<APFloat>();
  bool losesInfo = false;
  splat.convert(APFloat::IEEEsingle(), APFloat::rmNearestTiesToEven,
                &losesInfo);
  if (losesInfo)
    return op->emitError() << "expected a constant to fit into f32";
  return LaunchCall(emitter, op, "fill")
      .i64("count", count(result))
      .type("type", elementType(result))
      .f32("value", splat)
      .out(result)
      .none(1)
      .emit();
}

void te::attachArithKernels(MLIRContext *context) {
  attachKernelsOf<tert::Cause::Constant, arith::ConstantOp>(context);
}

/// A region of te-form-regions, whose body becomes that of the launch. Some of
/// all rows are some of all elements, because a region of te.by_rows reads a
/// row for a row.
LogicalResult te::emitRows(linalg::GenericOp op, LaunchEmitter &emitter,
                           RowRange rows) {
  LaunchCall call(emitter, op, "generated");
  auto maps = op.getIndexingMapsArray();
  auto whole =
      llvm::find_if(maps, [](AffineMap map) { return map.isIdentity(); });
  const int64_t all = count(op->getOperand(whole - maps.begin()));
  call.i64("count", all / rows.whole * rows.count).i64("function", 0);
  unsigned absent[2] = {};
  for (const tert::KernelBuffer &buffer :
       tert::lookupKernel("generated")->buffers)
    ++absent[buffer.isOutput];
  for (Value input : op.getInputs())
    call.in(input);
  call.none(absent[0] - op.getInputs().size());
  for (Value output : op.getResults())
    call.out(output);
  call.none(absent[1] - op.getNumResults());
  FailureOr<tert::LaunchOp> launch = call.launch();
  if (failed(launch))
    return failure();
  auto isIdentity = [](AffineMap map) { return map.isIdentity(); };
  const unsigned numInputs = op.getInputs().size();
  if (llvm::all_of(ArrayRef(maps).drop_front(numInputs), isIdentity))
    maps.truncate(numInputs);
  if (!llvm::all_of(maps, isIdentity))
    launch->setMapsAttr(emitter.getBuilder().getAffineMapArrayAttr(maps));

  Block *from = op.getBody();
  OpBuilder b(op.getContext());
  Block *body = b.createBlock(&launch->getBody());
  IRMapping map;
  for (BlockArgument argument : from->getArguments().take_front(numInputs))
    map.map(argument, body->addArgument(argument.getType(), argument.getLoc()));
  for (Operation &each : from->without_terminator())
    b.clone(each, map);
  SmallVector<Value> results;
  for (Value result : from->getTerminator()->getOperands())
    results.push_back(map.lookup(result));
  tert::YieldOp::create(b, op.getLoc(), results);
  return success();
}

template <>
LogicalResult te::emitLaunches(linalg::GenericOp op, LaunchEmitter &emitter) {
  return emitRows(op, emitter, {0, 1, 1});
}

LogicalResult te::emitProductWithScalar(Operation *op, int64_t count,
                                        Value from, Value factor, Value to,
                                        LaunchEmitter &emitter) {
  LaunchCall call(emitter, op, "generated");
  unsigned absent[2] = {};
  for (const tert::KernelBuffer &buffer :
       tert::lookupKernel("generated")->buffers)
    ++absent[buffer.isOutput];
  FailureOr<tert::LaunchOp> launch = call.i64("count", count)
                                         .i64("function", 0)
                                         .buffer(from)
                                         .in(factor)
                                         .none(absent[0] - 2)
                                         .buffer(to)
                                         .none(absent[1] - 1)
                                         .launch();
  if (failed(launch))
    return failure();
  MLIRContext *context = op->getContext();
  launch->setMapsAttr(emitter.getBuilder().getAffineMapArrayAttr(
      {AffineMap::getMultiDimIdentityMap(1, context),
       AffineMap::get(1, 0, getAffineConstantExpr(0, context))}));
  OpBuilder b(context);
  Block *body = b.createBlock(&launch->getBody());
  const Type f32 = b.getF32Type();
  body->addArguments({f32, f32}, {op->getLoc(), op->getLoc()});
  Value product = arith::MulFOp::create(b, op->getLoc(), body->getArgument(0),
                                        body->getArgument(1));
  tert::YieldOp::create(b, op->getLoc(), product);
  return success();
}

/// The elements of a flat tensor that a region reads.
template <>
LogicalResult te::emitLaunches(tensor::ExtractSliceOp op,
                               LaunchEmitter &emitter) {
  FailureOr<Buffers> from = emitter.lookup(op.getSource());
  if (failed(from) || op.getSourceType().getRank() != 1)
    return refuseLaunch(op);
  const int64_t bytes = elementType(op).getIntOrFloatBitWidth() / 8;
  emitter.bind(op.getResult(),
               {emitter.slice(op.getLoc(), from->front(),
                              op.getStaticOffsets().front() * bytes,
                              count(op.getResult()) * bytes)});
  return success();
}

/// Whether the buffer of `value` is the part of `whole` from `offset` on.
static bool isPartOf(Value value, Value whole, int64_t offset,
                     LaunchEmitter &emitter) {
  FailureOr<Buffers> buffers = emitter.lookup(value);
  if (failed(buffers))
    return false;
  auto part = buffers->front().getDefiningOp<tert::SliceOp>();
  return part && part.getBuffer() == whole &&
         static_cast<int64_t>(part.getOffset()) == offset;
}

/// A copy of each operand into `whole`, of which `rows` rows of the axis are
/// written. If one of them is zero, all is filled with zeros before.
static LogicalResult emitConcat(tensor::ConcatOp op, Value whole, int64_t rows,
                                LaunchEmitter &emitter) {
  const Value result = op.getResult();
  const int64_t axis = op.getDim();
  const int64_t bytes = elementType(result).getIntOrFloatBitWidth() / 8;
  // The bytes of a row of each operand and of the result.
  auto rowBytes = [&](Value value) {
    return llvm::product_of(
               cast<ShapedType>(value.getType()).getShape().drop_front(axis)) *
           bytes;
  };
  const int64_t rowOfResult = rowBytes(result);
  auto isZero = [](Value operand) {
    return matchPattern(operand, m_PosZeroFloat());
  };
  if (llvm::any_of(op.getInputs(), isZero) &&
      failed(LaunchCall(emitter, op, "fill")
                 .i64("count", rows * rowOfResult / bytes)
                 .type("type", elementType(result))
                 .f32("value", APFloat(0.0f))
                 .buffer(whole)
                 .none(1)
                 .emit()))
    return failure();
  int64_t offset = 0;
  for (Value operand : op.getInputs()) {
    const int64_t row = rowBytes(operand), first = offset;
    offset += row;
    if (rows * row == 0 || isZero(operand))
      continue;
    FailureOr<Buffers> from = emitter.lookup(operand);
    if (failed(from))
      return failure();
    // It is computed there.
    if (isPartOf(operand, whole, first, emitter))
      continue;
    Value to = emitter.slice(op.getLoc(), whole, first,
                             (rows - 1) * rowOfResult + row);
    if (failed(LaunchCall(emitter, op, "copy_strided")
                   .i64("parts", 1)
                   .i64("rows", rows)
                   .i64("bytes", row)
                   .i64("x_part", rows * row)
                   .i64("x_row", row)
                   .i64("y_part", rows * rowOfResult)
                   .i64("y_row", rowOfResult)
                   .buffer(from->front())
                   .buffer(to)
                   .emit()))
      return failure();
  }
  return success();
}

LogicalResult te::emitRows(tensor::ConcatOp op, LaunchEmitter &emitter,
                           RowRange rows) {
  Buffers result = emitter.takePlace(op.getResult());
  emitter.bind(op.getResult(), result);
  return emitConcat(op, result.front(), rows.count, emitter);
}

template <>
LogicalResult te::emitLaunches(tensor::ConcatOp op, LaunchEmitter &emitter) {
  if (isReadWithoutZeros(op))
    return success();
  const Value result = op.getResult();
  const int64_t bytes = elementType(result).getIntOrFloatBitWidth() / 8;
  auto shape = op.getResultType().getShape();
  const int64_t rows = llvm::product_of(shape.take_front(op.getDim()));
  const Value joined = emitter.getJoined(op);
  const Value whole =
      joined && rows == 1
          ? joined
          : emitter.alloc(op.getLoc(), emitter.baseName(op, result),
                          emitter.causeOf(op, result), count(result) * bytes);
  emitter.bind(result, {whole});
  const int64_t parts = op.getInputs().size(),
                part = count(result) / parts * bytes;
  auto isComputedThere = [&](auto indexed) {
    return isPartOf(indexed.value(), joined, indexed.index() * part, emitter);
  };
  if (whole == joined || !joined ||
      !llvm::all_of(llvm::enumerate(op.getInputs()), isComputedThere))
    return emitConcat(op, whole, rows, emitter);
  const int64_t row = part / rows;
  return LaunchCall(emitter, op, "copy_strided")
      .i64("parts", parts)
      .i64("rows", rows)
      .i64("bytes", row)
      .i64("x_part", rows * row)
      .i64("x_row", row)
      .i64("y_part", row)
      .i64("y_row", parts * row)
      .buffer(joined)
      .buffer(whole)
      .emit();
}

/// The matrix whose rows or columns a linalg.reduce sums: dimensions of the
/// operand that follow one another, with all others before or after them.
static std::optional<std::pair<int64_t, int64_t>>
matrixOf(linalg::ReduceOp op) {
  auto shape = cast<ShapedType>(op.getInputs().front().getType()).getShape();
  const int64_t rank = shape.size(), sums = op.getDimensions().size();
  auto isRun = [&](int64_t first) {
    return llvm::equal(op.getDimensions(), llvm::seq(first, first + sums));
  };
  if (!isRun(0) && !isRun(rank - sums))
    return std::nullopt;
  const int64_t split = isRun(rank - sums) ? rank - sums : sums;
  return std::pair(llvm::product_of(shape.take_front(split)),
                   llvm::product_of(shape.drop_front(split)));
}

/// A sum. The operand is f32, or is widened to it in the body of the op.
template <>
LogicalResult te::emitLaunches(linalg::ReduceOp op, LaunchEmitter &emitter) {
  auto matrix = matrixOf(op);
  if (!matrix || !isSum(op))
    return refuseLaunch(op);
  const Value x = op.getInputs().front(), y = op->getResult(0);
  const bool isOfRows =
      op.getDimensions().back() == cast<ShapedType>(x.getType()).getRank() - 1;
  LaunchCall call(emitter, op, isOfRows ? "row_sum" : "bias_grad");
  return call.i64("rows", matrix->first)
      .i64("cols", matrix->second)
      .type("type", elementType(x))
      .type("out_type", elementType(y))
      .in(x)
      .out(y)
      .emit();
}

/// Where a region writes; the buffer is that of the region's result.
template <> LogicalResult te::emitLaunches(tensor::EmptyOp, LaunchEmitter &) {
  return success();
}

void te::attachLinalgKernels(MLIRContext *context) {
  attachKernels<linalg::GenericOp, linalg::ReduceOp>(context);
}

void te::attachTensorKernels(MLIRContext *context) {
  attachKernels<tensor::ConcatOp, tensor::EmptyOp, tensor::ExtractSliceOp>(
      context);
  attachViews<tensor::CollapseShapeOp, tensor::ExpandShapeOp>(context);
}
