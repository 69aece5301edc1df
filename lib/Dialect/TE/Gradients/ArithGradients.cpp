//===- ArithGradients.cpp - derivatives of arith, math and tensor ops -----===//
//
// External models, so that ops of other dialects take part in te-differentiate
// without knowing of it. Elementwise, in the type of the values: every op of a
// derivative rounds once, as the forward's do. maximumf and minimumf have no
// rule on purpose: at a tie the derivative is a convention, not a number.
//
//===----------------------------------------------------------------------===//

#include "TEDialect/IR/Gradients.h"
#include "TEDialect/IR/TE.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Dialect/Utils/IndexingUtils.h"

using namespace mlir;
using namespace mlir::te;

namespace {

/// What a rule works with: the builder, the op's place, its cotangent.
struct Rule {
  OpBuilder &b;
  Location loc;
  AdjointContext &adjoints;
  Value dy;

  Value mul(Value a, Value c) { return arith::MulFOp::create(b, loc, a, c); }
  Value div(Value a, Value c) { return arith::DivFOp::create(b, loc, a, c); }
  Value neg(Value a) { return arith::NegFOp::create(b, loc, a); }

  /// Adds what `make` builds to `operand`, if that wants it.
  template <typename Make> void add(Value operand, Make make) {
    if (adjoints.wants(operand))
      adjoints.add(operand, make());
  }
};

/// One overload per op, below; dy is the cotangent of the only result.
void apply(arith::AddFOp op, Rule rule) {
  rule.add(op.getLhs(), [&] { return rule.dy; });
  rule.add(op.getRhs(), [&] { return rule.dy; });
}

void apply(arith::SubFOp op, Rule rule) {
  rule.add(op.getLhs(), [&] { return rule.dy; });
  rule.add(op.getRhs(), [&] { return rule.neg(rule.dy); });
}

void apply(arith::MulFOp op, Rule rule) {
  rule.add(op.getLhs(), [&] {
    return rule.mul(rule.dy, rule.adjoints.residual(op.getRhs(), "rhs"));
  });
  rule.add(op.getRhs(), [&] {
    return rule.mul(rule.dy, rule.adjoints.residual(op.getLhs(), "lhs"));
  });
}

// With y = a / b: da = dy / b, db = -(dy / b) y.
void apply(arith::DivFOp op, Rule rule) {
  Value quotient =
      rule.div(rule.dy, rule.adjoints.residual(op.getRhs(), "rhs"));
  rule.add(op.getLhs(), [&] { return quotient; });
  rule.add(op.getRhs(), [&] {
    Value y = rule.adjoints.residual(op.getResult(), "out");
    return rule.neg(rule.mul(quotient, y));
  });
}

void apply(arith::NegFOp op, Rule rule) {
  rule.add(op.getOperand(), [&] { return rule.neg(rule.dy); });
}

void apply(arith::TruncFOp op, Rule rule) {
  rule.add(op.getIn(), [&]() -> Value {
    return arith::ExtFOp::create(rule.b, rule.loc, op.getIn().getType(),
                                 rule.dy);
  });
}

void apply(arith::ExtFOp op, Rule rule) {
  rule.add(op.getIn(), [&]() -> Value {
    return arith::TruncFOp::create(rule.b, rule.loc, op.getIn().getType(),
                                   rule.dy);
  });
}

void apply(math::ExpOp op, Rule rule) {
  rule.add(op.getOperand(), [&] {
    return rule.mul(rule.dy, rule.adjoints.residual(op.getResult(), "out"));
  });
}

// dx = dy (1 - y²)
void apply(math::TanhOp op, Rule rule) {
  rule.add(op.getOperand(), [&] {
    Value y = rule.adjoints.residual(op.getResult(), "out");
    auto type = cast<ShapedType>(y.getType());
    Value one = arith::ConstantOp::create(
        rule.b, rule.loc,
        DenseElementsAttr::get(type,
                               rule.b.getFloatAttr(type.getElementType(), 1)));
    Value slope = arith::SubFOp::create(rule.b, rule.loc, one, rule.mul(y, y));
    return rule.mul(rule.dy, slope);
  });
}

// dx = dy / (2 y); doubling is exact.
void apply(math::SqrtOp op, Rule rule) {
  rule.add(op.getOperand(), [&] {
    Value y = rule.adjoints.residual(op.getResult(), "out");
    return rule.div(rule.dy, arith::AddFOp::create(rule.b, rule.loc, y, y));
  });
}

void apply(tensor::CollapseShapeOp op, Rule rule) {
  rule.add(op.getSrc(), [&]() -> Value {
    return tensor::ExpandShapeOp::create(rule.b, rule.loc, op.getSrcType(),
                                         rule.dy, op.getReassociationIndices());
  });
}

void apply(tensor::ExpandShapeOp op, Rule rule) {
  rule.add(op.getSrc(), [&]() -> Value {
    return tensor::CollapseShapeOp::create(rule.b, rule.loc, op.getSrcType(),
                                           rule.dy,
                                           op.getReassociationIndices());
  });
}

/// The reassociation that makes a matrix of a tensor of `rank` dimensions,
/// whose columns are the dimensions from `split` on.
SmallVector<ReassociationIndices> matrixGroups(int64_t split, int64_t rank) {
  SmallVector<ReassociationIndices> groups(2);
  for (int64_t axis = 0; axis < rank; ++axis)
    groups[axis >= split].push_back(axis);
  return groups;
}

/// What an op of linalg writes a result of the type of `value` to.
Value emptyLike(Rule rule, Value value) {
  auto type = cast<RankedTensorType>(value.getType());
  return tensor::EmptyOp::create(rule.b, rule.loc, type.getShape(),
                                 type.getElementType());
}

Value zeros(Rule rule, ArrayRef<int64_t> shape, Type element) {
  auto type = RankedTensorType::get(shape, element);
  return arith::ConstantOp::create(
      rule.b, rule.loc,
      DenseElementsAttr::get(type, rule.b.getFloatAttr(element, 0.0)));
}

/// The sum over the dimensions that a broadcast adds, in f32.
Value sumOver(Rule rule, ArrayRef<int64_t> dimensions, RankedTensorType type) {
  Type f32 = rule.b.getF32Type();
  Value dy = rule.dy;
  if (!type.getElementType().isF32())
    dy = arith::ExtFOp::create(
        rule.b, rule.loc, cast<RankedTensorType>(dy.getType()).clone(f32), dy);
  Value sum =
      linalg::ReduceOp::create(
          rule.b, rule.loc, dy, zeros(rule, type.getShape(), f32), dimensions,
          [](OpBuilder &b, Location loc, ValueRange elements) {
            Value sum = arith::AddFOp::create(b, loc, elements[1], elements[0]);
            linalg::YieldOp::create(b, loc, sum);
          })
          ->getResult(0);
  return type.getElementType().isF32()
             ? sum
             : arith::TruncFOp::create(rule.b, rule.loc, type, sum);
}

/// The sum over the dimensions that are added. Leading ones are the rows of a
/// matrix whose columns are the elements of the operand.
LogicalResult differentiateBroadcast(linalg::BroadcastOp op, Rule rule) {
  if (!rule.adjoints.wants(op.getInput()))
    return success();
  auto from = cast<RankedTensorType>(op.getInput().getType()),
       to = cast<RankedTensorType>(op->getResult(0).getType());
  const int64_t added = op.getDimensions().size();
  if (added == 0) {
    rule.adjoints.add(op.getInput(), rule.dy);
    return success();
  }
  auto dimensions = llvm::to_vector(op.getDimensions());
  llvm::sort(dimensions);
  if (from.getRank() == 0 || dimensions.back() != added - 1) {
    rule.adjoints.add(op.getInput(), sumOver(rule, dimensions, from));
    return success();
  }
  Value dy = rule.dy;
  if (to.getRank() > 2)
    dy = tensor::CollapseShapeOp::create(rule.b, rule.loc, dy,
                                         matrixGroups(added, to.getRank()));
  auto vector =
      RankedTensorType::get(from.getNumElements(), from.getElementType());
  Value db = BiasGradOp::create(rule.b, rule.loc, vector, dy);
  if (from.getRank() > 1) {
    ReassociationIndices all =
        llvm::to_vector(llvm::seq<int64_t>(from.getRank()));
    db = tensor::ExpandShapeOp::create(rule.b, rule.loc, from, db, {all});
  }
  rule.adjoints.add(op.getInput(), db);
  return success();
}

void apply(linalg::ReduceOp op, Rule rule) {
  Value x = op.getInputs().front();
  rule.add(x, [&] {
    return linalg::BroadcastOp::create(rule.b, rule.loc, rule.dy,
                                       emptyLike(rule, x), op.getDimensions())
        ->getResult(0);
  });
}

void apply(linalg::TransposeOp op, Rule rule) {
  rule.add(op.getInput(), [&] {
    return linalg::TransposeOp::create(
               rule.b, rule.loc, rule.dy, emptyLike(rule, op.getInput()),
               invertPermutationVector(op.getPermutation()))
        ->getResult(0);
  });
}

/// Zeros around dy.
void apply(tensor::ExtractSliceOp op, Rule rule) {
  rule.add(op.getSource(), [&] {
    Value padded = rule.dy;
    for (int64_t axis = op.getType().getRank(); axis-- > 0;) {
      auto shape =
          llvm::to_vector(cast<RankedTensorType>(padded.getType()).getShape());
      const int64_t before = op.getStaticOffsets()[axis],
                    after = op.getSourceType().getDimSize(axis) - before -
                            shape[axis];
      SmallVector<Value> parts{padded};
      auto zerosOf = [&](int64_t size) {
        shape[axis] = size;
        return zeros(rule, shape, op.getType().getElementType());
      };
      if (before > 0)
        parts.insert(parts.begin(), zerosOf(before));
      if (after > 0)
        parts.push_back(zerosOf(after));
      if (parts.size() > 1)
        padded = tensor::ConcatOp::create(rule.b, rule.loc, axis, parts);
    }
    return padded;
  });
}

/// Each operand gets its part of dy.
void apply(tensor::ConcatOp op, Rule rule) {
  int64_t offset = 0;
  for (Value operand : op.getInputs()) {
    auto type = cast<RankedTensorType>(operand.getType());
    SmallVector<OpFoldResult> offsets(type.getRank(), rule.b.getIndexAttr(0)),
        strides(type.getRank(), rule.b.getIndexAttr(1));
    offsets[op.getDim()] = rule.b.getIndexAttr(offset);
    offset += type.getDimSize(op.getDim());
    rule.add(operand, [&]() -> Value {
      // There is no slice of a tensor without elements.
      if (type.getNumElements() == 0)
        return zeros(rule, type.getShape(), type.getElementType());
      return tensor::ExtractSliceOp::create(
          rule.b, rule.loc, type, rule.dy, offsets,
          getAsIndexOpFoldResult(rule.b.getContext(), type.getShape()),
          strides);
    });
  }
}

struct BroadcastGradient
    : DifferentiableOpInterface::ExternalModel<BroadcastGradient,
                                               linalg::BroadcastOp> {
  LogicalResult differentiate(Operation *op, OpBuilder &builder,
                              AdjointContext &adjoints) const {
    return differentiateBroadcast(
        cast<linalg::BroadcastOp>(op),
        Rule{builder, op->getLoc(), adjoints, adjoints.get(op->getResult(0))});
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

} // namespace

void te::registerTEGradients(DialectRegistry &registry) {
  registry.addExtension(+[](MLIRContext *context, arith::ArithDialect *) {
    attach<arith::AddFOp, arith::SubFOp, arith::MulFOp, arith::DivFOp,
           arith::NegFOp, arith::TruncFOp, arith::ExtFOp>(context);
  });
  registry.addExtension(+[](MLIRContext *context, math::MathDialect *) {
    attach<math::ExpOp, math::TanhOp, math::SqrtOp>(context);
  });
  registry.addExtension(+[](MLIRContext *context, linalg::LinalgDialect *) {
    linalg::BroadcastOp::attachInterface<BroadcastGradient>(*context);
    attach<linalg::ReduceOp, linalg::TransposeOp>(context);
  });
  registry.addExtension(+[](MLIRContext *context, tensor::TensorDialect *) {
    attach<tensor::CollapseShapeOp, tensor::ExpandShapeOp,
           tensor::ExtractSliceOp, tensor::ConcatOp>(context);
  });
}
