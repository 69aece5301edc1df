//===- Padding.cpp - zeros at the end of axes -----------------------------===//

#include "TEDialect/Transforms/Utils/Padding.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/Matchers.h"
#include "llvm/Support/FormatVariadic.h"

using namespace mlir;
using namespace mlir::te;

Value te::padWithZeros(OpBuilder &builder, Value source,
                       ArrayRef<int64_t> shape) {
  Location loc = source.getLoc();
  // The last axis first: rows of zeros are then copied only once.
  for (int64_t axis = shape.size(); axis-- > 0;) {
    auto type = cast<RankedTensorType>(source.getType());
    auto zeros = llvm::to_vector(type.getShape());
    zeros[axis] = shape[axis] - zeros[axis];
    if (zeros[axis] == 0)
      continue;
    Value padding = arith::ConstantOp::create(
        builder, loc, builder.getZeroAttr(type.clone(zeros)));
    source = tensor::ConcatOp::create(builder, loc, axis,
                                      ValueRange{source, padding});
  }
  return source;
}

Value te::cutTo(OpBuilder &builder, Location loc, Value source, Type type) {
  if (source.getType() == type)
    return source;
  auto result = cast<RankedTensorType>(type);
  if (result.getNumElements() == 0) {
    // No slice begins at 0 in an empty axis, which ends there.
    const SmallVector<ReassociationIndices> all = {
        llvm::to_vector<2>(llvm::seq<int64_t>(result.getRank()))};
    Value flat = tensor::CollapseShapeOp::create(builder, loc, source, all);
    return tensor::ExpandShapeOp::create(builder, loc, result, flat, all);
  }
  SmallVector<OpFoldResult> offsets(result.getRank(), builder.getIndexAttr(0)),
      strides(result.getRank(), builder.getIndexAttr(1));
  return tensor::ExtractSliceOp::create(
      builder, loc, result, source, offsets,
      getAsIndexOpFoldResult(builder.getContext(), result.getShape()), strides);
}

bool te::addsZeros(tensor::ConcatOp op) {
  return op && llvm::all_of(op.getInputs().drop_front(), [](Value operand) {
           return matchPattern(operand, m_PosZeroFloat());
         });
}

void te::describePadding(char axis, int64_t from, int64_t to,
                         std::string &text) {
  if (from != to)
    text += llvm::formatv("{0}{1} {2} to {3}", text.empty() ? "" : ", ", axis,
                          from, to);
}
