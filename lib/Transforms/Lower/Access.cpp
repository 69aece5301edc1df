//===- Access.cpp - how generated code loads, stores and converts ---------===//

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

SmallVector<Value> CodeEmitter::loadConsecutive(Value from, Type type,
                                                int64_t length) {
  const bool hasWords = type.isBF16() && length % 2 == 0;
  const Type i32 = b.getI32Type();
  Value vector =
      LLVM::LoadOp::create(b, loc,
                           hasWords ? VectorType::get(length / 2, i32)
                                    : VectorType::get(length, type),
                           from, alignmentOf(length, type));
  SmallVector<Value> elements;
  for (int64_t k = 0; k < length; ++k) {
    if (!hasWords) {
      elements.push_back(extract(vector, k));
      continue;
    }
    const HalfOfWord half{extract(vector, k / 2), /*isHigh=*/k % 2 == 1};
    Value bits = half.word;
    if (half.isHigh)
      bits = LLVM::LShrOp::create(b, loc, bits, number(i32, 16));
    elements.push_back(LLVM::BitcastOp::create(
        b, loc, type, LLVM::TruncOp::create(b, loc, b.getI16Type(), bits)));
    halves[elements.back()] = half;
  }
  return elements;
}

SmallVector<Value> CodeEmitter::loadRun(unsigned i, Value index,
                                        int64_t length) {
  const AffineMap &map = maps[i];
  if (isConsecutive(map.getResult(0), length))
    return loadConsecutive(at(pointers[i], inputs[i], place(i, index)),
                           inputs[i], length);
  if (tert::isUniform(map.getResult(0), length))
    return SmallVector<Value>(length, load(i, index));
  SmallVector<Value> elements;
  for (int64_t k = 0; k < length; ++k)
    elements.push_back(load(i, add(index, wide(k))));
  return elements;
}

static constexpr StringLiteral kRoundToBF16 = "llvm.nvvm.f2bf16.rn";

/// On a GPU, one instruction has the same bits as Core/Types.h. It is emitted
/// as an intrinsic, because LLVM may move other ops across an fptrunc, which
/// changes the sign of a NaN. The instructions of CPUs flush subnormals, so the
/// host code calls the functions of Core/Types.h.
Value CodeEmitter::narrow(Value value, Type type) {
  if (isDevice && type.isBF16())
    return intrinsic(kRoundToBF16, type, value);
  if (isDevice)
    return LLVM::BitcastOp::create(
        b, loc, type, intrinsic("llvm.nvvm.f2h.rn", b.getI16Type(), value));
  return call(type.isBF16() ? "te_scalar_to_bf16" : "te_scalar_to_f16",
              b.getI16Type(), value);
}

Value CodeEmitter::widen(Value value, Type type) {
  const Type f32 = b.getF32Type(), i32 = b.getI32Type();
  if (!isDevice)
    return call(type.isBF16() ? "te_scalar_from_bf16" : "te_scalar_from_f16",
                f32, value);
  if (!type.isBF16())
    return LLVM::FPExtOp::create(b, loc, f32, value);
  // Above a half of zeros, what was just rounded is an f32: one instruction
  // rounds and widens it.
  auto rounded = value.getDefiningOp<LLVM::CallIntrinsicOp>();
  if (rounded && rounded.getIntrin() == kRoundToBF16) {
    Value zero = LLVM::ConstantOp::create(b, loc, b.getF32FloatAttr(0.0f));
    Value pair = intrinsic("llvm.nvvm.ff2bf16x2.rn", VectorType::get(2, type),
                           {rounded.getArgs().front(), zero});
    return LLVM::BitcastOp::create(b, loc, f32, pair);
  }
  auto half = halves.find(value);
  if (half == halves.end())
    return LLVM::FPExtOp::create(b, loc, f32, value);
  auto [word, isHigh] = half->second;
  Value bits = isHigh ? LLVM::AndOp::create(b, loc, word,
                                            number(i32, int32_t(0xffff0000)))
                            .getResult()
                      : LLVM::ShlOp::create(b, loc, word, number(i32, 16));
  return LLVM::BitcastOp::create(b, loc, f32, bits);
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
