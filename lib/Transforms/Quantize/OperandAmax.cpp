//===- OperandAmax.cpp - the amax of an operand of a GEMM -----------------===//

#include "OperandAmax.h"

using namespace mlir;
using namespace mlir::te;

Value te::reduceAmax(OpBuilder &builder, Value amax, int64_t group,
                     RecipeAttr recipe) {
  auto reduce =
      AmaxReduceOp::create(builder, amax.getLoc(), TypeRange(amax.getType()),
                           amax, static_cast<int32_t>(group));
  // te-verify-collectives checks whether the recipe has reductions.
  if (RecipeAttr::lookup(reduce) != recipe)
    reduce->setDiscardableAttr(kRecipeAttr, recipe);
  return reduce.getReduced().front();
}

Value te::createAmax(OpBuilder &builder, Value source, const Operand &operand,
                     RecipeAttr recipe) {
  Location loc = operand.value.getLoc();
  auto type = RankedTensorType::get(operand.perGroup(), builder.getF32Type());
  if (operand.groupSizes)
    return GroupedAmaxOp::create(builder, loc, type, source, operand.groupSizes,
                                 builder.getI64IntegerAttr(operand.alignment));
  if (operand.isStack()) {
    // The amax of a matrix is that of a row with all elements of the matrix.
    Value rows = tensor::CollapseShapeOp::create(
        builder, loc, source, ArrayRef<ReassociationIndices>{{0}, {1, 2}});
    return AmaxRowsOp::create(builder, loc, type, rows);
  }
  Value amax = AmaxOp::create(builder, loc, type, source);
  return operand.gather
             ? reduceAmax(builder, amax, AllGatherOp(operand.gather).getGroup(),
                          recipe)
             : amax;
}
