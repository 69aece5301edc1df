//===- OpMeaningTest.cpp - does every op say what it means? ---------------===//

#include "TEDialect/IR/TE.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Parser/Parser.h"
#include "gtest/gtest.h"

using namespace mlir;
using namespace mlir::te;

namespace {

class OpMeaningTest : public testing::Test {
protected:
  OpMeaningTest() { context.loadDialect<TEDialect, func::FuncDialect>(); }

  /// The axis relation of the last op of a function with `body`.
  AxisRelation relationOf(const std::string &arguments,
                          const std::string &body) {
    module = parseSourceString<ModuleOp>(
        "func.func @f(" + arguments + ") {\n" + body + "\nreturn\n}", &context);
    EXPECT_TRUE(module);
    auto function = *module->getOps<func::FuncOp>().begin();
    Operation *op = function.getBody().front().getTerminator()->getPrevNode();
    return cast<AxisRelationOpInterface>(op).getAxisRelation();
  }

  MLIRContext context{MLIRContext::Threading::DISABLED};
  OwningOpRef<ModuleOp> module;
};

TEST_F(OpMeaningTest, EveryOpDeclaresItsAxes) {
  EXPECT_TRUE(findOpsWithoutMeaning(&context, "te").empty());
  EXPECT_FALSE(findOpsWithoutMeaning(&context, "func").empty());
}

TEST_F(OpMeaningTest, AnOpWithoutAxesIsNamedWhenItsDialectIsLoaded) {
  EXPECT_DEATH(requireMeaning(&context, "func"),
               "op 'func\\.[a-z_]+' does not implement "
               "AxisRelationOpInterface");
}

TEST_F(OpMeaningTest, EveryBackwardOpSaysWhatIsSaved) {
  unsigned count = 0;
  for (RegisteredOperationName op : context.getRegisteredOperations()) {
    StringRef name = op.getStringRef();
    if (!name.starts_with("te."))
      continue;
    ++count;
    if (name.ends_with("_backward") || name.ends_with("_grad") ||
        name.ends_with("linear_dgrad") || name.ends_with("linear_wgrad"))
      EXPECT_TRUE(op.hasInterface<SavedOperandsOpInterface>()) << name.str();
  }
  EXPECT_GT(count, 60u);
}

TEST_F(OpMeaningTest, LinearContractsColumns) {
  AxisRelation relation = relationOf(
      "%x: tensor<4x8xbf16>, %w: tensor<16x8xbf16>",
      "%y = te.linear %x, %w : tensor<4x8xbf16>, tensor<16x8xbf16> -> "
      "tensor<4x16xbf16>");
  const AxisRelation::Entry &x = relation.getOperands()[0],
                            &w = relation.getOperands()[1],
                            &y = relation.getResults()[0];
  EXPECT_EQ(x.axes[0].factor, y.axes[0].factor);
  EXPECT_EQ(x.axes[1].factor, w.axes[1].factor);
  EXPECT_EQ(w.axes[0].factor, y.axes[1].factor);
  EXPECT_FALSE(y.has(x.axes[1].factor));
  EXPECT_TRUE(relation.getSummed().empty());
  EXPECT_FALSE(relation.isPointwise());
}

TEST_F(OpMeaningTest, GatedActivationHalvesColumns) {
  AxisRelation relation =
      relationOf("%x: tensor<4x16xbf16>",
                 "%y = te.activation <swiglu> %x : tensor<4x16xbf16> -> "
                 "tensor<4x8xbf16>");
  const AxisRelation::Entry &x = relation.getOperands()[0],
                            &y = relation.getResults()[0];
  EXPECT_EQ(x.axes[1].factor, y.axes[1].factor);
  EXPECT_EQ(x.axes[1].times, 2);
  EXPECT_EQ(y.axes[1].times, 1);
  // Without 'gate', only 'x' has to be zero.
  ASSERT_EQ(relation.getZeroKeepers().size(), 1u);
  EXPECT_EQ(relation.getZeroKeepers()[0], x.value);
}

TEST_F(OpMeaningTest, WeightGradientSumsOverTokens) {
  AxisRelation relation = relationOf(
      "%dy: tensor<4x16xbf16>, %x: tensor<4x8xbf16>",
      "%dw = te.linear_wgrad %dy, %x : tensor<4x16xbf16>, tensor<4x8xbf16> -> "
      "tensor<16x8xbf16>");
  ASSERT_EQ(relation.getSummed().size(), 1u);
  EXPECT_EQ(relation.getSummed()[0], relation.getOperands()[0].axes[0].factor);
  EXPECT_FALSE(relation.getResults()[0].has(relation.getSummed()[0]));
}

TEST_F(OpMeaningTest, ReshapeRelatesAxesThatItLeaves) {
  AxisRelation relation = relationOf(
      "%x: tensor<2x4x8xbf16>", "%y = tensor.collapse_shape %x [[0, 1], [2]] : "
                                "tensor<2x4x8xbf16> into tensor<8x8xbf16>");
  const AxisRelation::Entry &x = relation.getOperands()[0],
                            &y = relation.getResults()[0];
  EXPECT_EQ(x.axes[2].factor, y.axes[1].factor);
  EXPECT_EQ(y.axes[0].factor, AxisRelation::kNone);
  EXPECT_TRUE(relation.movesElements);
}

TEST_F(OpMeaningTest, ElementwiseOpsOfOtherDialectsArePointwise) {
  AxisRelation relation =
      relationOf("%x: tensor<4x8xbf16>", "%y = math.exp %x : tensor<4x8xbf16>");
  EXPECT_TRUE(relation.isPointwise());
  EXPECT_TRUE(relation.getZeroKeepers().empty());
}

TEST_F(OpMeaningTest, BiasesAndFactorsHaveToBeZeroToo) {
  AxisRelation linear = relationOf(
      "%x: tensor<4x8xbf16>, %w: tensor<16x8xbf16>, %b: tensor<16xbf16>",
      "%y = te.linear %x, %w bias %b : tensor<16xbf16> : tensor<4x8xbf16>, "
      "tensor<16x8xbf16> -> tensor<4x16xbf16>");
  EXPECT_EQ(linear.getZeroKeepers().size(), 2u);
  AxisRelation product =
      relationOf("%x: tensor<4x8xbf16>, %z: tensor<4x8xbf16>",
                 "%y = arith.mulf %x, %z : tensor<4x8xbf16>");
  EXPECT_EQ(product.getZeroKeepers().size(), 2u);
}

TEST_F(OpMeaningTest, ProductsWithFiniteConstantsKeepZeros) {
  auto keepersWith = [&](StringRef number) {
    return relationOf("%x: tensor<4x8xbf16>",
                      ("%c = arith.constant dense<" + number +
                       "> : tensor<4x8xbf16> %y = arith.mulf %c, %x : "
                       "tensor<4x8xbf16>")
                          .str())
        .getZeroKeepers()
        .size();
  };
  EXPECT_EQ(keepersWith("2.0"), 1u);
  EXPECT_EQ(keepersWith("0x7F80"), 2u); // infinity
}

} // namespace
