//===- MaterializeTransposes.cpp - when a weight's columns are made -------===//
//
// The column usage of a weight is a permutation of its row usage wherever the
// type says so. Holding rows and permuting them right before dgrad trades a
// pass over the bytes for not holding them twice; bits are the same.
//
//===----------------------------------------------------------------------===//

#include "TEDialect/IR/Support.h"
#include "TEDialect/Transforms/Quantize/GemmOrigin.h"
#include "TEDialect/Transforms/Quantize/Passes.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Remarks.h"

namespace mlir::te {
#define GEN_PASS_DEF_MATERIALIZETRANSPOSESPASS
#include "TEDialect/Transforms/Quantize/Passes.h.inc"
} // namespace mlir::te

using namespace mlir;
using namespace mlir::te;

/// True for the column cast of a weight whose columns follow from its rows. A
/// cast that also measures is needed anyway, and one that rounds stochastically
/// has its own random bits.
static bool isDerivable(QuantizeOp cast) {
  auto type = mlir::cast<ScaledType>(cast.getUsages()[0].getType());
  return cast.getUsages().size() == 1 && !cast.getAmax() && !cast.getRng() &&
         type.getContract() == 0 && type.isTransposeExact() &&
         isWeight(cast.getX());
}

/// The row usage of what `column` casts, made where `column` is made or
/// earlier.
static Value rowUsage(QuantizeOp column) {
  auto type =
      cast<ScaledType>(column.getUsages()[0].getType()).getTransposedUsage();
  for (Operation *user : column.getX().getUsers()) {
    auto row = dyn_cast<QuantizeOp>(user);
    if (row && row->getBlock() == column->getBlock() &&
        row->isBeforeInBlock(column) && row.getUsages().size() == 1 &&
        row.getUsages()[0].getType() == type &&
        row.getScale() == column.getScale() &&
        row.getGivenAmax() == column.getGivenAmax() && !row.getRng() &&
        row.getAmaxEpsilonAttr() == column.getAmaxEpsilonAttr() &&
        row.getFourOverSixAttr() == column.getFourOverSixAttr())
      return row.getUsages()[0];
  }
  OpBuilder builder(column);
  return QuantizeOp::create(builder, column.getLoc(), TypeRange(type),
                            /*amax=*/Type(), column.getX(), column.getScale(),
                            column.getGivenAmax(), /*rng=*/Value(),
                            column.getAmaxEpsilonAttr(), column.getStreamAttr(),
                            column.getFourOverSixAttr())
      .getUsages()[0];
}

/// Replaces `column`, if it has uses, by a transpose of `row` right before the
/// first of them. Precondition: all uses are in one block.
static bool transposeBeforeUse(Value row, Value column) {
  if (column.use_empty())
    return false;
  Operation *first = *column.user_begin();
  for (Operation *user : column.getUsers())
    if (user->isBeforeInBlock(first))
      first = user;
  OpBuilder builder(first);
  column.replaceAllUsesWith(
      TransposeOp::create(builder, first->getLoc(), column.getType(), row));
  return true;
}

namespace {
struct MaterializeTransposes final
    : te::impl::MaterializeTransposesPassBase<MaterializeTransposes> {
  using Base::Base;

  LogicalResult initialize(MLIRContext *context) override {
    Location loc = UnknownLoc::get(context);
    if (policy != "on-demand" && policy != "eager")
      return emitError(loc)
             << "expected option 'policy' of 'te-materialize-transposes' to "
                "be 'on-demand' or 'eager', but got '"
             << policy.getValue() << "'";
    if (!support::parseTarget(target.getValue()))
      return emitError(loc)
             << getArgument() << ": " << support::refuseTargetName(target);
    return success();
  }

  void runOnOperation() override {
    SmallVector<QuantizeOp> columns;
    getOperation().walk([&](QuantizeOp cast) {
      if (isDerivable(cast))
        columns.push_back(cast);
    });
    for (QuantizeOp column : columns) {
      explain(column);
      if (policy == "on-demand")
        materialize(column);
    }
  }

  void materialize(QuantizeOp column) {
    Value row = rowUsage(column);
    Value made = column.getUsages()[0];
    for (Operation *user : llvm::make_early_inc_range(made.getUsers())) {
      auto residual = dyn_cast<ResidualOp>(user);
      if (!residual)
        continue;
      OpBuilder builder(residual);
      Value held = ResidualOp::create(builder, residual.getLoc(), row.getType(),
                                      row, residual.getNameAttr());
      numTransposes += transposeBeforeUse(held, residual.getHeld());
      residual.erase();
    }
    numTransposes += transposeBeforeUse(row, made);
    column.erase();
  }

  void explain(QuantizeOp column) {
    std::string name = describeValue(column.getX());
    auto options = remark::RemarkOpts::name("weight-transpose")
                       .category("te-materialize-transposes")
                       .function(getOperation().getName());
    remark::passed(column.getLoc(), options)
        << remark::add("columns of '{0}' are made {1}", name,
                       policy == "eager" ? "in the forward and held"
                                         : "right before their use");
    auto type = mlir::cast<ScaledType>(column.getUsages()[0].getType());
    if (target == "sm_100" && type.getScheme() == Scheme::PerTensor)
      remark::missed(column.getLoc(), options)
          << remark::add("columns of '{0}' are made although sm_100 could "
                         "contract the rows",
                         name);
  }
};
} // namespace
