//===- MovementGradients.cpp - of views, moves and reductions -----------===//
//
// The gradient of a move moves elements back, and that of a broadcast is a sum.
//
//===----------------------------------------------------------------------===//

#include "Rule.h"

#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Dialect/Utils/IndexingUtils.h"

namespace mlir::te {

static void apply(tensor::CollapseShapeOp op, Rule rule) {
  rule.add(op.getSrc(), [&]() -> Value {
    return tensor::ExpandShapeOp::create(rule.b, rule.loc, op.getSrcType(),
                                         rule.dy, op.getReassociationIndices());
  });
}

static void apply(tensor::ExpandShapeOp op, Rule rule) {
  rule.add(op.getSrc(), [&]() -> Value {
    return tensor::CollapseShapeOp::create(rule.b, rule.loc, op.getSrcType(),
                                           rule.dy,
                                           op.getReassociationIndices());
  });
}

/// The reassociation that makes a matrix of a tensor of `rank` dimensions,
/// whose columns are the dimensions from `split` on.
static SmallVector<ReassociationIndices> matrixGroups(int64_t split,
                                                      int64_t rank) {
  SmallVector<ReassociationIndices> groups(2);
  for (int64_t axis = 0; axis < rank; ++axis)
    groups[axis >= split].push_back(axis);
  return groups;
}

/// What an op of linalg writes a result of the type of `value` to.
static Value emptyLike(Rule rule, Value value) {
  auto type = cast<RankedTensorType>(value.getType());
  return tensor::EmptyOp::create(rule.b, rule.loc, type.getShape(),
                                 type.getElementType());
}

static Value zeros(Rule rule, ArrayRef<int64_t> shape, Type element) {
  auto type = RankedTensorType::get(shape, element);
  return arith::ConstantOp::create(
      rule.b, rule.loc,
      DenseElementsAttr::get(type, rule.b.getFloatAttr(element, 0.0)));
}

/// The sum of `x` over `dimensions`, computed in f32.
static Value sumOver(Rule rule, Value x, ArrayRef<int64_t> dimensions,
                     RankedTensorType type) {
  Type f32 = rule.b.getF32Type();
  if (!type.getElementType().isF32())
    x = arith::ExtFOp::create(
        rule.b, rule.loc, cast<RankedTensorType>(x.getType()).clone(f32), x);
  Value sum =
      linalg::ReduceOp::create(
          rule.b, rule.loc, x, zeros(rule, type.getShape(), f32), dimensions,
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
static LogicalResult differentiateBroadcast(linalg::BroadcastOp op, Rule rule) {
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
    rule.adjoints.add(op.getInput(), sumOver(rule, rule.dy, dimensions, from));
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

/// Of a sum, dy in all elements. Of a maximum or minimum, an equal share of dy
/// in each element that equals it.
static void apply(linalg::ReduceOp op, Rule rule) {
  Value input = op.getInputs().front();
  auto spread = [&](Value y) {
    return linalg::BroadcastOp::create(
               rule.b, rule.loc, y, emptyLike(rule, input), op.getDimensions())
        ->getResult(0);
  };
  rule.add(input, [&]() -> Value {
    if (isSum(op))
      return spread(rule.dy);
    Value x = rule.adjoints.residual(input, "x"),
          y = spread(rule.adjoints.residual(op->getResult(0), "out"));
    auto type = cast<RankedTensorType>(input.getType()),
         rows = cast<RankedTensorType>(op->getResult(0).getType());
    Value zero = zeros(rule, type.getShape(), type.getElementType());
    Value one = arith::ConstantOp::create(rule.b, rule.loc,
                                          DenseElementsAttr::get(type, 1.0f));
    auto ifEqual = [&](Value value) {
      return rule.choose(arith::CmpFPredicate::OEQ, x, y, value, zero);
    };
    Value number = sumOver(rule, ifEqual(one), op.getDimensions(), rows);
    return ifEqual(spread(rule.div(rule.dy, number)));
  });
}

static void apply(linalg::TransposeOp op, Rule rule) {
  rule.add(op.getInput(), [&] {
    return linalg::TransposeOp::create(
               rule.b, rule.loc, rule.dy, emptyLike(rule, op.getInput()),
               invertPermutationVector(op.getPermutation()))
        ->getResult(0);
  });
}

/// Zeros around dy.
static void apply(tensor::ExtractSliceOp op, Rule rule) {
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
static void apply(tensor::ConcatOp op, Rule rule) {
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

namespace {
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
} // namespace

} // namespace mlir::te

using namespace mlir;
using namespace mlir::te;

void te::registerMovementGradients(DialectRegistry &registry) {
  registry.addExtension(+[](MLIRContext *context, linalg::LinalgDialect *) {
    linalg::BroadcastOp::attachInterface<BroadcastGradient>(*context);
    attach<linalg::ReduceOp, linalg::TransposeOp>(context);
  });
  registry.addExtension(+[](MLIRContext *context, tensor::TensorDialect *) {
    attach<tensor::CollapseShapeOp, tensor::ExpandShapeOp,
           tensor::ExtractSliceOp, tensor::ConcatOp>(context);
  });
}
