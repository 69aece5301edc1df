//===- EmitArith.cpp - launches of ops of other dialects ------------------===//
//
// This covers constants, the regions of elementwise ops that te-form-regions
// makes, and the reshapes of tensor, which are views.
//
//===----------------------------------------------------------------------===//

#include "LaunchCall.h"

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

/// The index into an operand that `map` gives for an element of a tensor of
/// `shape`, both counted in row-major order. Runs of neighbouring dimensions
/// that the operand has are one term.
static AffineMap linearMap(AffineMap map, ArrayRef<int64_t> shape) {
  MLIRContext *context = map.getContext();
  // No element is read.
  if (llvm::is_contained(shape, 0))
    return AffineMap::get(1, 0, getAffineConstantExpr(0, context));
  const AffineExpr element = getAffineDimExpr(0, context);
  AffineExpr index = getAffineConstantExpr(0, context);
  int64_t stride = 1;
  for (int64_t result = map.getNumResults(); result > 0;) {
    const int64_t last = map.getDimPosition(result - 1);
    int64_t first = last;
    while (--result > 0 && map.getDimPosition(result - 1) == first - 1)
      --first;
    const int64_t below = llvm::product_of(shape.drop_front(last + 1));
    const int64_t size = llvm::product_of(shape.slice(first, last - first + 1));
    AffineExpr term = element.floorDiv(below);
    if (first > 0)
      term = term % size;
    index = index + term * stride;
    stride *= size;
  }
  return AffineMap::get(1, 0, index);
}

/// A region of te-form-regions, whose body becomes that of the launch.
template <>
LogicalResult te::emitLaunches(linalg::GenericOp op, LaunchEmitter &emitter) {
  LaunchCall call(emitter, op, "generated");
  call.i64("count", count(op.getResult(0))).i64("function", 0);
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
  auto shape = cast<ShapedType>(op.getResult(0).getType()).getShape();
  SmallVector<AffineMap> maps = llvm::map_to_vector(
      ArrayRef(op.getIndexingMapsArray()).take_front(op.getInputs().size()),
      [&](AffineMap map) { return linearMap(map, shape); });
  if (!llvm::all_of(maps, [](AffineMap map) { return map.isIdentity(); }))
    launch->setMapsAttr(emitter.getBuilder().getAffineMapArrayAttr(maps));

  Block *from = op.getBody();
  const unsigned numInputs = op.getInputs().size();
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

/// Where a region writes; the buffer is that of the region's result.
template <> LogicalResult te::emitLaunches(tensor::EmptyOp, LaunchEmitter &) {
  return success();
}

void te::attachLinalgKernels(MLIRContext *context) {
  attachKernels<linalg::GenericOp>(context);
}

void te::attachTensorKernels(MLIRContext *context) {
  attachKernels<tensor::EmptyOp>(context);
  attachViews<tensor::CollapseShapeOp, tensor::ExpandShapeOp>(context);
}
