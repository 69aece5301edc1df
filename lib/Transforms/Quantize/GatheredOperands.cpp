//===- GatheredOperands.cpp - casts of parts, before they are gathered ----===//

#include "GatheredOperands.h"
#include "OperandCasts.h"

#include "TEDialect/Analysis/GemmOrigin.h"
#include "TEDialect/IR/Support.h"

#include "mlir/IR/Remarks.h"
#include "llvm/Support/FormatVariadic.h"

using namespace mlir;
using namespace mlir::te;

std::string te::refuseCastOfParts(const Operand &operand,
                                  const QuantPolicy &policy) {
  if (operand.isTransposed)
    return "the weight is stored as [K, N]";
  if (operand.isPadded())
    return "the cast of the gathered tensor is padded";
  const int64_t size = operand.shape()[0];
  if (operand.view)
    return policy.shardRefusal(operand.reader(), operand.contract, size);
  const Scheme scheme = policy.scheme(operand.role, operand.reader());
  const int64_t multiple =
      support::schemeRow(static_cast<int32_t>(scheme)).multiple;
  if (size % multiple)
    return llvm::formatv("expected the rows of a part to be a multiple of {0}, "
                         "but got {1}",
                         multiple, size);
  return AllGatherOp::refuseParts(castTypeOf(operand, policy));
}

Operand te::keepExactGather(const Operand &operand, const QuantPolicy &policy,
                            StringRef function) {
  if (!operand.gather)
    return operand;
  const std::string refusal = refuseCastOfParts(operand, policy);
  auto options = remark::RemarkOpts::name("gather-precision")
                     .category("te-insert-casts")
                     .function(function);
  Location loc = AllGatherOp(operand.gather).getLoc();
  std::string name = describeValue(operand.value);
  if (refusal.empty()) {
    remark::passed(loc, options) << remark::add(
        "parts of '{0}' are cast before they are gathered", name);
    return operand;
  }
  remark::missed(loc, options)
      << remark::add("'{0}' is gathered in high precision", name)
      << remark::reason("{0}", refusal);
  Operand gathered = operand;
  gathered.value = operand.whole();
  gathered.gather = {};
  gathered.view = {};
  return gathered;
}

bool te::gathersRowsOnly(const Operand &operand, const QuantPolicy &policy) {
  // A custom recipe may cast rows and columns in different ways.
  return operand.gather && operand.contract == 0 &&
         policy.getRecipe().getKind() != RecipeKind::Custom &&
         castTypeOf(operand, policy).getScheme() == Scheme::PerTensor;
}

Value te::gatherParts(OpBuilder &builder, Value local, AllGatherOp gather) {
  Type type = gather.getY().getType();
  if (auto scaled = dyn_cast<ScaledType>(local.getType());
      scaled && scaled.isShard())
    type = scaled.getWhole();
  else if (scaled)
    type = ScaledType::get(scaled.getContext(),
                           cast<ShapedType>(gather.getY().getType()).getShape(),
                           scaled.getElementType(), scaled.getScheme(),
                           scaled.getVariant(), scaled.getContract());
  return AllGatherOp::create(builder, gather.getLoc(), type, local,
                             gather.getGroup(), gather.getAxis());
}
