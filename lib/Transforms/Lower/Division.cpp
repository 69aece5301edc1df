//===- Division.cpp - divisions of several f32 by one ---------------------===//
//
// A quotient is the product of the dividend and the inverse, corrected twice by
// what is left of the dividend. The last step is rounded correctly if the
// inverse is, and if no step is subnormal or overflows (Markstein, "Computation
// of elementary functions on the IBM RISC System/6000 processor", 1990). If one
// dividend of several is outside of the range where that holds, all are divided
// again, so that there is one branch for all of them.
//
//===----------------------------------------------------------------------===//

#include "CodeEmitter.h"

using namespace mlir;
using namespace mlir::te;

/// The exponents of divisors and dividends for which no step is subnormal or
/// overflows are from minus these to before them.
static constexpr int64_t kMildDivisor = 24, kMildDividend = 100;

/// The bits of an f32 without its sign.
static Value magnitudeOf(OpBuilder &b, Location loc, Value value) {
  const Type i32 = b.getI32Type();
  Value mask =
      LLVM::ConstantOp::create(b, loc, b.getI32IntegerAttr(0x7fffffff));
  return LLVM::AndOp::create(b, loc,
                             LLVM::BitcastOp::create(b, loc, i32, value), mask);
}

/// Whether the exponent of the f32 with the bits `magnitude` is from -`limit`
/// to before `limit`.
static Value isMild(OpBuilder &b, Location loc, Value magnitude,
                    int64_t limit) {
  auto bitsOf = [&](int64_t exponent) -> Value {
    return LLVM::ConstantOp::create(b, loc,
                                    b.getI32IntegerAttr(exponent << 23));
  };
  Value above = LLVM::SubOp::create(b, loc, magnitude, bitsOf(127 - limit));
  return LLVM::ICmpOp::create(b, loc, LLVM::ICmpPredicate::ult, above,
                              bitsOf(2 * limit));
}

auto CodeEmitter::prepareDivisor(Value value) -> Divisor {
  Value one = LLVM::ConstantOp::create(b, loc, b.getF32FloatAttr(1.0f));
  return {value, LLVM::FDivOp::create(b, loc, one, value),
          LLVM::FNegOp::create(b, loc, value),
          isMild(b, loc, magnitudeOf(b, loc, value), kMildDivisor)};
}

SmallVector<Value> CodeEmitter::divide(ValueRange dividends,
                                       const Divisor &by) {
  auto multiplyAdd = [&](Value x, Value y, Value z) {
    return intrinsic("llvm.fma.f32", b.getF32Type(), {x, y, z});
  };
  SmallVector<Value> quotients;
  Value areMild = by.isMild;
  for (Value dividend : dividends) {
    Value first = LLVM::FMulOp::create(b, loc, dividend, by.inverse);
    Value quotient = first;
    for (int step = 0; step < 2; ++step) {
      Value rest = multiplyAdd(by.negated, quotient, dividend);
      quotient = multiplyAdd(rest, by.inverse, quotient);
    }
    // The corrections lose the sign of a zero.
    Value magnitude = magnitudeOf(b, loc, dividend);
    Value isZero = LLVM::ICmpOp::create(b, loc, LLVM::ICmpPredicate::eq,
                                        magnitude, number(b.getI32Type(), 0));
    quotients.push_back(
        LLVM::SelectOp::create(b, loc, isZero, first, quotient));
    areMild = LLVM::AndOp::create(
        b, loc, areMild,
        LLVM::OrOp::create(b, loc, isZero,
                           isMild(b, loc, magnitude, kMildDividend)));
  }
  return emitUnless(areMild, quotients, [&] {
    return llvm::map_to_vector(dividends, [&](Value dividend) -> Value {
      return LLVM::FDivOp::create(b, loc, dividend, by.value);
    });
  });
}
