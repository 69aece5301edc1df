//===- TEVerifiers.cpp - checks that several ops share --------------------===//

#include "TEVerifiers.h"

#include "llvm/ADT/StringExtras.h"

using namespace mlir;
using namespace mlir::te;

std::string te::formatShape(ArrayRef<int64_t> shape) {
  if (shape.empty())
    return "()";
  return llvm::join(
      llvm::map_range(shape, [](int64_t size) { return std::to_string(size); }),
      "x");
}

LogicalResult te::verifyFinite(Operation *op, StringRef name, APFloat value) {
  if (value.isFinite())
    return success();
  SmallString<16> text;
  value.toString(text);
  return op->emitOpError() << "expected '" << name << "' to be finite, but got "
                           << text;
}

LogicalResult te::verifyNonNegative(Operation *op, StringRef name,
                                    APFloat value) {
  if (value.isFinite() && (!value.isNegative() || value.isZero()))
    return success();
  SmallString<16> text;
  value.toString(text);
  return op->emitOpError() << "expected '" << name
                           << "' to be finite and not negative, but got "
                           << text;
}

LogicalResult te::verifyUsages(Operation *op, TypeRange usages,
                               ArrayRef<int64_t> shape) {
  if (usages.empty() || usages.size() > 2)
    return op->emitOpError()
           << "expected one or two scaled results, but got " << usages.size();
  for (Type usage : usages)
    if (cast<ScaledType>(usage).getShape() != shape)
      return op->emitOpError() << "expected every result to have shape "
                               << formatShape(shape) << ", but got " << usage;
  if (usages.size() == 2 &&
      cast<ScaledType>(usages[0]).getTransposedUsage() != usages[1])
    return op->emitOpError() << "expected the two results to differ in nothing "
                                "but 'contract', but got "
                             << usages[0] << " and " << usages[1];
  return success();
}

LogicalResult te::verifyShape(Operation *op, StringRef name, Type type,
                              ArrayRef<int64_t> shape) {
  if (shapeOf(type) == shape)
    return success();
  return op->emitOpError() << "expected '" << name << "' to have shape "
                           << formatShape(shape) << ", but got "
                           << formatShape(shapeOf(type));
}

LogicalResult te::verifyAccumulate(Operation *op, Value accumulate,
                                   Type result) {
  if (!accumulate || accumulate.getType() == result)
    return success();
  return op->emitOpError() << "expected 'accumulate' to have the result's type "
                           << result << ", but got " << accumulate.getType();
}

LogicalResult te::verifyGroupLayout(Operation *op, int64_t rows,
                                    int64_t alignment) {
  if (alignment < 1)
    return op->emitOpError()
           << "expected 'alignment' to be one or more, but got " << alignment;
  if (rows % alignment != 0)
    return op->emitOpError() << "expected the rows to be a multiple of the "
                                "alignment "
                             << alignment << ", but got " << rows;
  return success();
}

LogicalResult te::verifySameElementType(Operation *op, StringRef name,
                                        Type type, StringRef otherName,
                                        Type other) {
  Type element = cast<ShapedType>(type).getElementType();
  Type otherElement = cast<ShapedType>(other).getElementType();
  if (element == otherElement)
    return success();
  return op->emitOpError() << "expected '" << name << "' and '" << otherName
                           << "' to have one element type, but got " << element
                           << " and " << otherElement;
}

LogicalResult te::verifyCovers(Operation *op, GroupAttr group, int64_t count,
                               ArrayRef<int64_t> shape) {
  const int64_t all = shape[0] * shape[1];
  if (count <= all && count * group.getSize() >= all)
    return success();
  return op->emitOpError() << "expected a shard of the " << all
                           << " elements of the matrix to have from "
                           << llvm::divideCeil(all, group.getSize()) << " to "
                           << all << " of them for a group of "
                           << group.getSize() << ", but got " << count;
}

LogicalResult te::verifyNotSwizzled(Operation *op, StringRef name,
                                    ScaledType type) {
  if (type.is(ScaleVariant::Swizzled))
    return op->emitOpError()
           << "expected '" << name << "' not to be swizzled, but got " << type;
  return success();
}

LogicalResult te::verifyCached(Operation *op, ValueRange into, Value skip,
                               TypeRange results) {
  if (into.empty() == static_cast<bool>(skip))
    return op->emitOpError() << "expected 'into' exactly with 'skip', but got "
                             << (skip ? "a flag without a cached value"
                                      : "a cached value without a flag");
  if (!into.empty() && into.getTypes() != results)
    return op->emitOpError() << "expected 'into' to have the types " << results
                             << " of the results, but got " << into.getTypes();
  return success();
}
