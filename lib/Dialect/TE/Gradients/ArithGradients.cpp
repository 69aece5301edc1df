//===- ArithGradients.cpp - derivatives of arith and math ops -------------===//
//
// Elementwise, in the type of the values: every op of a derivative rounds once,
// as the forward's do. Where the derivative is a convention, it is that of
// PyTorch and JAX: maximumf and minimumf give each of two equal operands half
// of the cotangent, and absf gives none at 0.
//
//===----------------------------------------------------------------------===//

#include "Rule.h"

#include "mlir/Dialect/Math/IR/Math.h"
#include "llvm/Support/MathExtras.h"

namespace mlir::te {

/// One overload per op, below; dy is the cotangent of the only result.
static void apply(arith::AddFOp op, Rule rule) {
  rule.add(op.getLhs(), [&] { return rule.dy; });
  rule.add(op.getRhs(), [&] { return rule.dy; });
}

static void apply(arith::SubFOp op, Rule rule) {
  rule.add(op.getLhs(), [&] { return rule.dy; });
  rule.add(op.getRhs(), [&] { return rule.neg(rule.dy); });
}

static void apply(arith::MulFOp op, Rule rule) {
  rule.add(op.getLhs(), [&] {
    return rule.mul(rule.dy, rule.adjoints.residual(op.getRhs(), "rhs"));
  });
  rule.add(op.getRhs(), [&] {
    return rule.mul(rule.dy, rule.adjoints.residual(op.getLhs(), "lhs"));
  });
}

// With y = a / b: da = dy / b, db = -(dy / b) y.
static void apply(arith::DivFOp op, Rule rule) {
  Value quotient =
      rule.div(rule.dy, rule.adjoints.residual(op.getRhs(), "rhs"));
  rule.add(op.getLhs(), [&] { return quotient; });
  rule.add(op.getRhs(), [&] {
    Value y = rule.adjoints.residual(op.getResult(), "out");
    return rule.neg(rule.mul(quotient, y));
  });
}

static void apply(arith::NegFOp op, Rule rule) {
  rule.add(op.getOperand(), [&] { return rule.neg(rule.dy); });
}

/// The larger operand by `predicate` has dy, equal ones have half of it each.
static void applyToExtremum(Operation *op, arith::CmpFPredicate predicate,
                            Rule rule) {
  Value operands[] = {op->getOperand(0), op->getOperand(1)};
  StringRef names[] = {"lhs", "rhs"};
  for (int own : {0, 1})
    rule.add(operands[own], [&] {
      Value x = rule.adjoints.residual(operands[own], names[own]);
      Value other = rule.adjoints.residual(operands[1 - own], names[1 - own]);
      Value tie =
          rule.choose(arith::CmpFPredicate::OEQ, x, other,
                      rule.mul(rule.dy, rule.splat(0.5)), rule.splat(0.0));
      return rule.choose(predicate, x, other, rule.dy, tie);
    });
}

static void apply(arith::MaximumFOp op, Rule rule) {
  applyToExtremum(op, arith::CmpFPredicate::OGT, rule);
}

static void apply(arith::MinimumFOp op, Rule rule) {
  applyToExtremum(op, arith::CmpFPredicate::OLT, rule);
}

static void apply(math::AbsFOp op, Rule rule) {
  rule.add(op.getOperand(), [&] {
    Value x = rule.adjoints.residual(op.getOperand(), "x");
    Value zero = rule.splat(0.0);
    Value negative = rule.choose(arith::CmpFPredicate::OLT, x, zero,
                                 rule.neg(rule.dy), rule.dy);
    return rule.choose(arith::CmpFPredicate::OEQ, x, zero, zero, negative);
  });
}

/// The backward compares again: truth values are not saved.
static void apply(arith::SelectOp op, Rule rule) {
  auto comparison = op.getCondition().getDefiningOp<arith::CmpFOp>();
  auto part = [&](bool ofTrue) {
    Value lhs = rule.adjoints.residual(comparison.getLhs(), "lhs"),
          rhs = rule.adjoints.residual(comparison.getRhs(), "rhs"),
          zero = rule.splat(0.0);
    return rule.choose(comparison.getPredicate(), lhs, rhs,
                       ofTrue ? rule.dy : zero, ofTrue ? zero : rule.dy);
  };
  rule.add(op.getTrueValue(), [&] { return part(true); });
  rule.add(op.getFalseValue(), [&] { return part(false); });
}

static void apply(arith::TruncFOp op, Rule rule) {
  rule.add(op.getIn(), [&]() -> Value {
    return arith::ExtFOp::create(rule.b, rule.loc, op.getIn().getType(),
                                 rule.dy);
  });
}

static void apply(arith::ExtFOp op, Rule rule) {
  rule.add(op.getIn(), [&]() -> Value {
    return arith::TruncFOp::create(rule.b, rule.loc, op.getIn().getType(),
                                   rule.dy);
  });
}

static void apply(math::ExpOp op, Rule rule) {
  rule.add(op.getOperand(), [&] {
    return rule.mul(rule.dy, rule.adjoints.residual(op.getResult(), "out"));
  });
}

static void apply(math::LogOp op, Rule rule) {
  rule.add(op.getOperand(), [&] {
    return rule.div(rule.dy, rule.adjoints.residual(op.getOperand(), "x"));
  });
}

static void apply(math::Log1pOp op, Rule rule) {
  rule.add(op.getOperand(), [&] {
    Value x = rule.adjoints.residual(op.getOperand(), "x");
    return rule.div(
        rule.dy, arith::AddFOp::create(rule.b, rule.loc, x, rule.splat(1.0)));
  });
}

static void apply(math::SinOp op, Rule rule) {
  rule.add(op.getOperand(), [&] {
    Value x = rule.adjoints.residual(op.getOperand(), "x");
    return rule.mul(rule.dy, math::CosOp::create(rule.b, rule.loc, x));
  });
}

static void apply(math::CosOp op, Rule rule) {
  rule.add(op.getOperand(), [&] {
    Value x = rule.adjoints.residual(op.getOperand(), "x");
    return rule.neg(
        rule.mul(rule.dy, math::SinOp::create(rule.b, rule.loc, x)));
  });
}

// dx = dy (1 - y²)
static void apply(math::TanhOp op, Rule rule) {
  rule.add(op.getOperand(), [&] {
    Value y = rule.adjoints.residual(op.getResult(), "out");
    Value slope = arith::SubFOp::create(rule.b, rule.loc, rule.splat(1.0),
                                        rule.mul(y, y));
    return rule.mul(rule.dy, slope);
  });
}

static void apply(math::Exp2Op op, Rule rule) {
  rule.add(op.getOperand(), [&] {
    Value y = rule.adjoints.residual(op.getResult(), "out");
    return rule.mul(rule.dy, rule.mul(y, rule.splat(llvm::numbers::ln2)));
  });
}

static void apply(math::Log2Op op, Rule rule) {
  rule.add(op.getOperand(), [&] {
    Value x = rule.adjoints.residual(op.getOperand(), "x");
    return rule.div(rule.dy, rule.mul(x, rule.splat(llvm::numbers::ln2)));
  });
}

/// dy `sign` 2 / sqrt(pi) e^(-x²)
static Value bellOf(Value x, double sign, Rule rule) {
  Value bell = math::ExpOp::create(rule.b, rule.loc, rule.neg(rule.mul(x, x)));
  return rule.mul(
      rule.dy,
      rule.mul(bell, rule.splat(sign * 2 * llvm::numbers::inv_sqrtpi)));
}

static void apply(math::ErfOp op, Rule rule) {
  rule.add(op.getOperand(), [&] {
    return bellOf(rule.adjoints.residual(op.getOperand(), "x"), 1, rule);
  });
}

static void apply(math::ErfcOp op, Rule rule) {
  rule.add(op.getOperand(), [&] {
    return bellOf(rule.adjoints.residual(op.getOperand(), "x"), -1, rule);
  });
}

// With p = x^y: dx = dy (y x^(y-1)), and 0 for y = 0; dy = dy (p log(x)), and 0
// where x = 0 and y is not negative.
static void apply(math::PowFOp op, Rule rule) {
  auto x = [&] { return rule.adjoints.residual(op.getLhs(), "lhs"); };
  auto y = [&] { return rule.adjoints.residual(op.getRhs(), "rhs"); };
  rule.add(op.getLhs(), [&] {
    Value exponent = y(), zero = rule.splat(0.0);
    Value less =
        arith::SubFOp::create(rule.b, rule.loc, exponent, rule.splat(1.0));
    Value slope =
        rule.mul(exponent, math::PowFOp::create(rule.b, rule.loc, x(), less));
    return rule.choose(arith::CmpFPredicate::OEQ, exponent, zero, zero,
                       rule.mul(rule.dy, slope));
  });
  rule.add(op.getRhs(), [&] {
    Value base = x(), zero = rule.splat(0.0);
    Value p = rule.adjoints.residual(op.getResult(), "out");
    Value other = rule.mul(
        rule.dy, rule.mul(p, math::LogOp::create(rule.b, rule.loc, base)));
    Value atZero =
        rule.choose(arith::CmpFPredicate::OGE, y(), zero, zero, other);
    return rule.choose(arith::CmpFPredicate::OEQ, base, zero, atZero, other);
  });
}

// dx = dy (-1/2 (y / x))
static void apply(math::RsqrtOp op, Rule rule) {
  rule.add(op.getOperand(), [&] {
    Value y = rule.adjoints.residual(op.getResult(), "out"),
          x = rule.adjoints.residual(op.getOperand(), "x");
    return rule.mul(rule.dy, rule.mul(rule.div(y, x), rule.splat(-0.5)));
  });
}

// a - trunc(a / b) b
static void apply(arith::RemFOp op, Rule rule) {
  rule.add(op.getLhs(), [&] { return rule.dy; });
  rule.add(op.getRhs(), [&] {
    Value quotient = rule.div(rule.adjoints.residual(op.getLhs(), "lhs"),
                              rule.adjoints.residual(op.getRhs(), "rhs"));
    Value whole = math::TruncOp::create(rule.b, rule.loc, quotient);
    return rule.neg(rule.mul(rule.dy, whole));
  });
}

// Constant between whole numbers.
static void apply(math::FloorOp, Rule) {}
static void apply(math::CeilOp, Rule) {}
static void apply(math::TruncOp, Rule) {}
static void apply(math::RoundEvenOp, Rule) {}

// dx = dy / (2 y); doubling is exact.
static void apply(math::SqrtOp op, Rule rule) {
  rule.add(op.getOperand(), [&] {
    Value y = rule.adjoints.residual(op.getResult(), "out");
    return rule.div(rule.dy, arith::AddFOp::create(rule.b, rule.loc, y, y));
  });
}

} // namespace mlir::te

using namespace mlir;
using namespace mlir::te;

void te::registerTEGradients(DialectRegistry &registry) {
  registry.addExtension(+[](MLIRContext *context, arith::ArithDialect *) {
    attach<arith::AddFOp, arith::SubFOp, arith::MulFOp, arith::DivFOp,
           arith::NegFOp, arith::MaximumFOp, arith::MinimumFOp, arith::SelectOp,
           arith::TruncFOp, arith::ExtFOp, arith::RemFOp>(context);
  });
  registry.addExtension(+[](MLIRContext *context, math::MathDialect *) {
    attach<math::AbsFOp, math::ExpOp, math::LogOp, math::Log1pOp, math::SinOp,
           math::CosOp, math::TanhOp, math::SqrtOp, math::Exp2Op, math::Log2Op,
           math::ErfOp, math::ErfcOp, math::PowFOp, math::RsqrtOp,
           math::FloorOp, math::CeilOp, math::TruncOp, math::RoundEvenOp>(
        context);
  });
  registerMovementGradients(registry);
}
