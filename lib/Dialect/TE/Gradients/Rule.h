//===- Rule.h - derivatives of ops of other dialects --------------------===//
//
// External models, so that ops of other dialects take part in te-differentiate
// without knowing of it. A file has an overload of `apply` for each op, in the
// namespace mlir::te, and attaches them.
//
//===----------------------------------------------------------------------===//

#ifndef TEDIALECT_GRADIENTS_RULE_H
#define TEDIALECT_GRADIENTS_RULE_H

#include "TEDialect/IR/Gradients.h"
#include "TEDialect/IR/TE.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

namespace mlir::te {

/// What a rule works with: the builder, the op's place, its cotangent.
struct Rule {
  OpBuilder &b;
  Location loc;
  AdjointContext &adjoints;
  Value dy;

  Value mul(Value a, Value c) { return arith::MulFOp::create(b, loc, a, c); }
  Value div(Value a, Value c) { return arith::DivFOp::create(b, loc, a, c); }
  Value neg(Value a) { return arith::NegFOp::create(b, loc, a); }
  Value splat(double number) {
    auto type = cast<ShapedType>(dy.getType());
    auto value = b.getFloatAttr(type.getElementType(), number);
    return arith::ConstantOp::create(b, loc,
                                     DenseElementsAttr::get(type, value));
  }
  /// `yes` where the comparison holds, `no` elsewhere.
  Value choose(arith::CmpFPredicate predicate, Value a, Value c, Value yes,
               Value no) {
    Value holds = arith::CmpFOp::create(b, loc, predicate, a, c);
    return arith::SelectOp::create(b, loc, holds, yes, no);
  }

  /// Adds what `make` builds to `operand`, if that wants it.
  template <typename Make> void add(Value operand, Make make) {
    if (adjoints.wants(operand))
      adjoints.add(operand, make());
  }
};

template <typename Op>
struct Gradient : DifferentiableOpInterface::ExternalModel<Gradient<Op>, Op> {
  LogicalResult differentiate(Operation *op, OpBuilder &builder,
                              AdjointContext &adjoints) const {
    apply(cast<Op>(op), Rule{builder, op->getLoc(), adjoints,
                             adjoints.get(op->getResult(0))});
    return success();
  }
};

template <typename... Ops> void attach(MLIRContext *context) {
  (Ops::template attachInterface<Gradient<Ops>>(*context), ...);
}

void registerMovementGradients(DialectRegistry &registry);

} // namespace mlir::te

#endif // TEDIALECT_GRADIENTS_RULE_H
