//===- GeneratedBody.cpp - the body of a launch of generated code ---------===//

#include "TEDialect/TERT/GeneratedBody.h"

#include "TEDialect/TERT/ElementwiseOps.h"
#include "TEDialect/TERT/KernelTable.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "llvm/Support/CheckedArithmetic.h"

using namespace mlir;
using namespace mlir::tert;

bool tert::isUniform(AffineExpr expr, int64_t length) {
  if (isa<AffineConstantExpr>(expr))
    return true;
  auto binary = dyn_cast<AffineBinaryOpExpr>(expr);
  if (!binary)
    return false;
  if (expr.getKind() == AffineExprKind::FloorDiv &&
      isa<AffineDimExpr>(binary.getLHS()))
    return cast<AffineConstantExpr>(binary.getRHS()).getValue() % length == 0;
  return isUniform(binary.getLHS(), length) &&
         isUniform(binary.getRHS(), length);
}

int64_t tert::getColsOfReductions(Block &body) {
  auto sums = body.getOps<RowReduceOp>();
  return sums.empty() ? 0 : (*sums.begin()).getCols();
}

AffineMap tert::getMapOfRows(int64_t cols, MLIRContext *context) {
  return AffineMap::get(1, 0, getAffineDimExpr(0, context).floorDiv(cols));
}

AffineMap tert::getMapOfOne(MLIRContext *context) {
  return AffineMap::get(1, 0, getAffineConstantExpr(0, context));
}

llvm::DenseSet<Value> tert::getValuesOfRows(Block &body,
                                            ArrayRef<AffineMap> maps) {
  llvm::DenseSet<Value> values;
  const int64_t cols = getColsOfReductions(body);
  if (cols == 0)
    return values;
  for (auto [argument, map] : llvm::zip(body.getArguments(), maps))
    if (isUniform(map.getResult(0), cols))
      values.insert(argument);
  // A dropout depends on the number of the element.
  for (Operation &op : body.without_terminator())
    if (isa<RowReduceOp>(op) ||
        (!isa<DropoutOp, AmaxOp>(op) &&
         llvm::all_of(op.getOperands(),
                      [&](Value value) { return values.contains(value); })))
      values.insert(op.getResult(0));
  return values;
}

SmallVector<AffineMap> LaunchOp::getMapsOfBuffers() {
  Block &body = getBody().front();
  SmallVector<AffineMap> maps;
  if (std::optional<ArrayAttr> given = getMaps())
    maps = llvm::map_to_vector(given->getAsValueRange<AffineMapAttr>(),
                               [](AffineMap map) { return map; });
  maps.resize(body.getNumArguments() + body.getTerminator()->getNumOperands(),
              AffineMap::getMultiDimIdentityMap(1, getContext()));
  return maps;
}

/// An op that code can be generated for: arithmetic on f32, choices between two
/// f32, conversions, and random factors.
static bool isScalarCode(Operation &op) {
  if (isa<DropoutOp, RowReduceOp, AmaxOp>(op))
    return true;
  auto isFloat = [](Type type) {
    return type.isF32() || type.isBF16() || type.isF16();
  };
  auto isF32 = [](Type type) { return type.isF32(); };
  if (isa<arith::CmpFOp>(op))
    return llvm::all_of(op.getOperandTypes(), isF32);
  if (auto select = dyn_cast<arith::SelectOp>(op))
    return select.getCondition().getDefiningOp<arith::CmpFOp>() &&
           isF32(select.getType());
  if (op.getNumResults() != 1 || !isFloat(op.getResult(0).getType()) ||
      !llvm::all_of(op.getOperandTypes(), isFloat))
    return false;
  const StringRef name = op.getName().getStringRef();
  if (name == "arith.extf")
    return op.getResult(0).getType().isF32();
  if (name == "arith.truncf")
    return op.getOperand(0).getType().isF32() && !op.hasAttr("roundingmode");
  if (name != "arith.constant" && !isElementwiseOp(name))
    return false;
  return op.getResult(0).getType().isF32() &&
         llvm::all_of(op.getOperandTypes(), isF32);
}

/// The largest value of `expr` for dimensions from 0 to `last`; nothing if that
/// cannot be said.
static std::optional<int64_t> maximumOf(AffineExpr expr, int64_t last) {
  if (auto constant = dyn_cast<AffineConstantExpr>(expr))
    return constant.getValue();
  if (isa<AffineDimExpr>(expr))
    return last;
  auto binary = dyn_cast<AffineBinaryOpExpr>(expr);
  if (!binary)
    return std::nullopt;
  std::optional<int64_t> left = maximumOf(binary.getLHS(), last),
                         right = maximumOf(binary.getRHS(), last);
  if (!left || !right || *left < 0 || *right < 0)
    return std::nullopt;
  if (expr.getKind() == AffineExprKind::Add)
    return llvm::checkedAdd(*left, *right);
  // The others have a constant on the right.
  if (!isa<AffineConstantExpr>(binary.getRHS()) || *right == 0)
    return std::nullopt;
  switch (expr.getKind()) {
  case AffineExprKind::Mul:
    return llvm::checkedMul(*left, *right);
  case AffineExprKind::FloorDiv:
    return *left / *right;
  case AffineExprKind::Mod:
    return std::min(*left, *right - 1);
  default:
    return std::nullopt;
  }
}

/// Reductions are of rows of one length, outputs that have an element for each
/// row have one value in it, and those that have one element are amaxes.
static LogicalResult verifyReductions(LaunchOp op, int64_t count) {
  Block &body = op.getBody().front();
  const int64_t cols = getColsOfReductions(body);
  // row_reduce-c1
  for (RowReduceOp sum : body.getOps<RowReduceOp>()) {
    const int64_t given = sum.getCols();
    if (given < 1 || given > kMostColsOfReduction || count % given != 0)
      return sum.emitOpError()
             << "expected 'cols' to be from 1 to " << kMostColsOfReduction
             << " and to divide 'count' (" << count << "), but got " << given;
    if (given != cols)
      return sum.emitOpError()
             << "expected 'cols' to be that of the first reduction (" << cols
             << "), but got " << given;
  }
  // amax-c1
  for (AmaxOp amax : body.getOps<AmaxOp>())
    for (Operation *user : amax->getUsers())
      if (!isa<YieldOp>(user))
        return user->emitOpError()
               << "expected only tert.yield to read the result of tert.amax";
  // launch-c8
  SmallVector<AffineMap> maps = op.getMapsOfBuffers();
  const llvm::DenseSet<Value> values = getValuesOfRows(body, maps);
  const AffineMap first = getMapOfOne(op.getContext());
  for (auto [value, map] :
       llvm::zip_equal(body.getTerminator()->getOperands(),
                       ArrayRef(maps).drop_front(body.getNumArguments()))) {
    const bool isAmax = value.getDefiningOp<AmaxOp>() != nullptr;
    if (isAmax ? map == first : map.isIdentity())
      continue;
    if (isAmax || cols == 0 || map != getMapOfRows(cols, op.getContext()) ||
        !values.contains(value))
      return op.emitOpError()
             << "expected an output to have an element for each of 'count', "
                "one "
                "for each row, with one value in a row, or, of tert.amax, one "
                "for all, but its map is "
             << AffineMapAttr::get(map);
  }
  return success();
}

LogicalResult tert::verifyBody(LaunchOp op, const KernelInfo &kernel) {
  // launch-c7
  const bool isGenerated = kernel.name == "generated";
  if (op.getBody().empty() == isGenerated)
    return op.emitOpError() << "expected " << (isGenerated ? "a" : "no")
                            << " 'body' for kernel '" << kernel.name << "'";
  if (!isGenerated)
    return op.getMaps() ? op.emitOpError() << "expected no 'maps' for kernel '"
                                           << kernel.name << "'"
                        : success();
  Block &body = op.getBody().front();
  SmallVector<Value> buffers[2];
  for (auto [info, buffer] : llvm::zip_equal(kernel.buffers, op.getBuffers()))
    if (!buffer.getDefiningOp<NullOp>())
      buffers[info.isOutput].push_back(buffer);
  auto yield = body.empty() ? YieldOp() : dyn_cast<YieldOp>(body.back());
  if (!yield || buffers[0].size() != body.getNumArguments() ||
      buffers[1].size() != yield->getNumOperands())
    return op.emitOpError()
           << "expected a body that takes an element of each of "
           << buffers[0].size() << " inputs and yields one of each of "
           << buffers[1].size() << " outputs";
  for (Operation &each : body.without_terminator())
    if (!isScalarCode(each))
      return each.emitOpError()
             << "expected generated code to be arith and math ops on f32, "
                "conversions between f32 and bf16 or f16, tert.dropout, "
                "tert.row_reduce and tert.amax, but got '"
             << each.getName() << "'";
  const int64_t count =
      cast<IntegerAttr>(op.getParameters().get("count")).getInt();
  auto verifySize = [&](Type element, Value buffer,
                        int64_t expected) -> LogicalResult {
    const int64_t bytes = cast<BufferType>(buffer.getType()).getBytes();
    if ((element.isF32() || element.isBF16() || element.isF16() ||
         element.isInteger(32)) &&
        count >= 0 && expected == bytes * 8 / element.getIntOrFloatBitWidth())
      return success();
    return op.emitOpError()
           << "expected a buffer of " << expected << " elements of type "
           << element << ", but got one of " << bytes << " bytes";
  };
  // launch-c8
  SmallVector<Value> all = buffers[0];
  llvm::append_range(all, buffers[1]);
  if (std::optional<ArrayAttr> given = op.getMaps()) {
    auto isOfOne = [](AffineMap map) {
      return map.getNumInputs() == 1 && map.getNumResults() == 1;
    };
    if ((given->size() != buffers[0].size() && given->size() != all.size()) ||
        !llvm::all_of(given->getAsValueRange<AffineMapAttr>(), isOfOne))
      return op.emitOpError()
             << "expected 'maps' to be a map of one dimension to one result "
                "for each of "
             << buffers[0].size() << " inputs, or of them and "
             << buffers[1].size() << " outputs";
  }
  SmallVector<Type> types(body.getArgumentTypes());
  llvm::append_range(types, yield->getOperandTypes());
  for (auto [type, buffer, map] :
       llvm::zip_equal(types, all, op.getMapsOfBuffers())) {
    const std::optional<int64_t> last =
        maximumOf(map.getResult(0), std::max<int64_t>(count - 1, 0));
    if (!last || *last == std::numeric_limits<int64_t>::max())
      return op.emitOpError()
             << "expected 'maps' of sums, products, floordiv and mod that "
                "stay within 64 bits, but got "
             << AffineMapAttr::get(map);
    // Nothing is read through a map, whatever the size.
    if (count == 0 && !map.isIdentity())
      continue;
    if (failed(verifySize(type, buffer, count == 0 ? 0 : *last + 1)))
      return failure();
  }
  return verifyReductions(op, count);
}

bool LaunchOp::mayShare(unsigned input, unsigned output) {
  if (!lookupKernel(getKernel())->mayShare(input, output))
    return false;
  // An element that is not in the same place may be read again after the write.
  // The verifier asks before it knows that there are maps of all buffers.
  std::optional<ArrayAttr> maps = getMaps();
  if (!maps)
    return true;
  return llvm::all_of(ArrayRef{input, output}, [&](unsigned buffer) {
    const size_t place =
        llvm::count_if(getBuffers().take_front(buffer), [](Value before) {
          return !before.getDefiningOp<NullOp>();
        });
    return place < maps->size()
               ? cast<AffineMapAttr>((*maps)[place]).getValue().isIdentity()
               : buffer == output;
  });
}
