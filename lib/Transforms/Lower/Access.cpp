//===- Access.cpp - loads and stores of generated code --------------------===//

#include "CodeEmitter.h"

#include "TEDialect/TERT/GeneratedBody.h"

using namespace mlir;
using namespace mlir::te;

/// Indices and divisors are not negative, so that division needs no sign.
Value CodeEmitter::evaluate(AffineExpr expr, Value index) {
  if (auto constant = dyn_cast<AffineConstantExpr>(expr))
    return number(index.getType(), constant.getValue());
  auto binary = dyn_cast<AffineBinaryOpExpr>(expr);
  if (!binary)
    return index;
  Value left = evaluate(binary.getLHS(), index),
        right = evaluate(binary.getRHS(), index);
  switch (expr.getKind()) {
  case AffineExprKind::Add:
    return LLVM::AddOp::create(b, loc, left, right);
  case AffineExprKind::Mul:
    return LLVM::MulOp::create(b, loc, left, right);
  case AffineExprKind::FloorDiv:
    return LLVM::UDivOp::create(b, loc, left, right);
  case AffineExprKind::Mod:
    return LLVM::URemOp::create(b, loc, left, right);
  default:
    llvm_unreachable("the verifier of tert.launch admits no other expression");
  }
}

/// Whether `expr` has consecutive values for these elements, the first of them
/// a multiple of `length`.
static bool isConsecutive(AffineExpr expr, int64_t length) {
  if (isa<AffineDimExpr>(expr))
    return true;
  auto binary = dyn_cast<AffineBinaryOpExpr>(expr);
  if (!binary)
    return false;
  auto isMultiple = [&](AffineExpr of) { return of.isMultipleOf(length); };
  if (expr.getKind() == AffineExprKind::Mod)
    return isa<AffineDimExpr>(binary.getLHS()) && isMultiple(binary.getRHS());
  for (auto [some, other] : {std::pair(binary.getLHS(), binary.getRHS()),
                             std::pair(binary.getRHS(), binary.getLHS())})
    if (expr.getKind() == AffineExprKind::Add && isConsecutive(some, length) &&
        tert::isUniform(other, length) && isMultiple(other))
      return true;
  return false;
}

Value CodeEmitter::loadVector(unsigned i, Value index, int64_t length) {
  const AffineExpr map = maps[i].getResult(0);
  const Type vector = VectorType::get(length, inputs[i]);
  if (isConsecutive(map, length))
    return LLVM::LoadOp::create(b, loc, vector,
                                at(pointers[i], inputs[i], place(i, index)),
                                alignmentOf(length, inputs[i]));
  const bool isOne = tert::isUniform(map, length);
  Value loaded = LLVM::PoisonOp::create(b, loc, vector), element;
  for (int64_t lane = 0; lane < length; ++lane) {
    if (lane == 0 || !isOne)
      element = load(i, add(index, wide(lane)));
    loaded = insert(loaded, element, lane);
  }
  return loaded;
}

void CodeEmitter::store(unsigned i, Value index, Value element) {
  const unsigned buffer = inputs.size() + i;
  LLVM::StoreOp::create(b, loc, element,
                        at(pointers[buffer], outputs[i], place(buffer, index)));
}

void CodeEmitter::storeVector(unsigned i, Value index, Value vector,
                              int64_t length) {
  LLVM::StoreOp::create(b, loc, vector,
                        at(pointers[inputs.size() + i], outputs[i], index),
                        alignmentOf(length, outputs[i]));
}

SmallVector<Value> CodeEmitter::emptyVectors(int64_t length) {
  return llvm::map_to_vector(outputs, [&](Type type) -> Value {
    return LLVM::PoisonOp::create(b, loc, VectorType::get(length, type));
  });
}
