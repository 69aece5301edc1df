//===- DelayedSlotsTest.cpp - which tensors share a delayed scale ---------===//

#include "Quantize/DelayedSlots.h"

#include "mlir/AsmParser/AsmParser.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Parser/Parser.h"
#include "gtest/gtest.h"

#include <memory>
#include <set>
#include <string>
#include <vector>

using namespace mlir;
using namespace mlir::te;

namespace {
class DelayedSlotsTest : public testing::Test {
protected:
  DelayedSlotsTest() {
    context.disableMultithreading();
    context.loadDialect<TEDialect, func::FuncDialect, arith::ArithDialect,
                        tensor::TensorDialect>();
  }

  /// A function of `body`, its arguments and ops, in a module with `groups`.
  /// Fills `layers` with its GEMMs, in order.
  void parse(const std::string &body, const std::string &groups = "") {
    module = parseSourceString<ModuleOp>("module attributes {te.groups = [" +
                                             groups + "]} {\nfunc.func @f" +
                                             body + "return\n}\n}",
                                         &context);
    EXPECT_TRUE(module) << body;
    function = *module->getOps<func::FuncOp>().begin();
    function.walk([&](Operation *op) {
      if (isForwardLayer(op) || isBackwardLayer(op))
        layers.push_back(describeLayerGemm(op));
    });
    states = std::make_unique<StateThreading>(function);
    slots = std::make_unique<DelayedSlots>(function, *states);
  }

  Layer layer(const std::string &name, StringRef options = "") {
    auto recipe = dyn_cast_or_null<RecipeAttr>(parseAttribute(
        ("#te.recipe<delayed_scaling" + options + ">").str(), &context));
    EXPECT_TRUE(recipe) << options.str();
    return {name, QuantPolicy(recipe)};
  }

  /// The scale of `operand`, measured at the end.
  Value scaleFor(const Operand &operand, const Layer &layer) {
    OpBuilder builder(function.front().getTerminator());
    return slots->scaleFor(builder, operand, layer);
  }

  void finish() {
    OpBuilder builder(function.front().getTerminator());
    slots->update(builder);
    states->finish();
    EXPECT_TRUE(succeeded(verify(*module)));
  }

  template <typename Op> int64_t count() {
    auto ops = function.getOps<Op>();
    return std::distance(ops.begin(), ops.end());
  }
  /// The names of the states, in the order of their arguments.
  std::vector<std::string> names() {
    std::vector<std::string> result;
    for (unsigned i = 0; i < function.getNumArguments(); ++i)
      if (function.getArgAttr(i, kInitAttr))
        result.push_back(
            function.getArgAttrOfType<StringAttr>(i, kNameAttr).str());
    return result;
  }

  MLIRContext context;
  OwningOpRef<ModuleOp> module;
  func::FuncOp function;
  std::vector<LayerGemm> layers;
  std::unique_ptr<StateThreading> states;
  std::unique_ptr<DelayedSlots> slots;
};

const std::string types =
    " : tensor<32x32xbf16>, tensor<32x32xbf16> -> tensor<32x32xbf16>\n";
const std::string matrices = "(%x: tensor<32x32xbf16>, %w: tensor<32x32xbf16>, "
                             "%v: tensor<32x32xf32>) {\n";
} // namespace

TEST_F(DelayedSlotsTest, ReadersOfOneTensorShareASlot) {
  parse(matrices + "%a = te.linear %x, %w" + types +
        "%r = te.residual %x \"x\"" +
        " : tensor<32x32xbf16>\n%rr = te.residual %r \"x\"" +
        " : tensor<32x32xbf16>\n%b = te.linear %rr, %w" + types);
  const Value x = scaleFor(layers[0].a, layer("a"));
  EXPECT_EQ(scaleFor(layers[1].a, layer("b")), x);
  const Value w = scaleFor(layers[0].b, layer("a"));
  EXPECT_EQ(scaleFor(layers[1].b, layer("b")), w);
  EXPECT_NE(x, w);
  EXPECT_EQ(count<AmaxOp>(), 2);
  finish();
  EXPECT_EQ(count<DelayedScalingUpdateOp>(), 2);
  // Of the first reader, the name.
  EXPECT_EQ(names(),
            (std::vector<std::string>{"a.x.amax_history", "a.x.scale",
                                      "a.w.amax_history", "a.w.scale"}));
}

TEST_F(DelayedSlotsTest, RoundingsOfOneTensorShareASlot) {
  const std::string round =
      " = arith.truncf %v : tensor<32x32xf32> to tensor<32x32xbf16>\n";
  parse(matrices + "%p" + round + "%q" + round + "%a = te.linear %x, %p" +
        types + "%b = te.linear %x, %q" + types);
  EXPECT_EQ(scaleFor(layers[0].b, layer("a")),
            scaleFor(layers[1].b, layer("b")));
  EXPECT_EQ(count<AmaxOp>(), 1);
}

TEST_F(DelayedSlotsTest, RolesRecipesAndGroupsHaveSlotsOfTheirOwn) {
  parse("(%x: tensor<64x32xbf16>, %w: tensor<2x32x32xbf16>, "
        "%s: tensor<2xi32>, %t: tensor<2xi32>) {\n"
        "%a = te.grouped_linear %x, %w, %s {alignment = 16 : i64} : "
        "tensor<64x32xbf16>, tensor<2x32x32xbf16>, tensor<2xi32> -> "
        "tensor<64x32xbf16>\n"
        "%b = te.grouped_linear %x, %w, %t {alignment = 16 : i64} : "
        "tensor<64x32xbf16>, tensor<2x32x32xbf16>, tensor<2xi32> -> "
        "tensor<64x32xbf16>\n");
  std::vector<Value> scales = {scaleFor(layers[0].a, layer("a")),
                               scaleFor(layers[1].a, layer("a"))};
  Operand gradient = layers[0].a;
  gradient.role = TensorRole::Dy;
  scales.push_back(scaleFor(gradient, layer("a")));
  scales.push_back(
      scaleFor(layers[0].a, layer("a", ", {amax_history_len = 16}")));
  for (size_t i = 0; i < scales.size(); ++i)
    for (size_t j = 0; j < i; ++j)
      EXPECT_NE(scales[i], scales[j]) << i << " and " << j;
  // One scale for each group.
  for (Value scale : scales)
    EXPECT_EQ(cast<ShapedType>(scale.getType()).getShape(),
              ArrayRef<int64_t>({2}));
  // The weights are one tensor, with no sizes of groups.
  EXPECT_EQ(scaleFor(layers[0].b, layer("a")),
            scaleFor(layers[1].b, layer("b")));
  finish();
  // Names are not given twice.
  const std::vector<std::string> all = names();
  EXPECT_EQ(std::set<std::string>(all.begin(), all.end()).size(), all.size());
  EXPECT_EQ(all.size(), 10u);
  EXPECT_EQ(all[2], "a.x.1.amax_history");
}

TEST_F(DelayedSlotsTest, TheRecipeDecidesTheState) {
  parse(matrices + "%a = te.linear %x, %w" + types);
  scaleFor(layers[0].a, layer("a", ", {amax_history_len = 16, margin = 2, "
                                   "amax_compute_algo = most_recent}"));
  finish();
  auto update = *function.getOps<DelayedScalingUpdateOp>().begin();
  EXPECT_EQ(cast<ShapedType>(update.getHistory().getType()).getShape(),
            ArrayRef<int64_t>({16}));
  EXPECT_EQ(update.getMargin(), 2u);
  EXPECT_EQ(update.getAlgorithm(), AmaxAlgorithm::MostRecent);
  EXPECT_EQ(function.getNumResults(), 2u);
  EXPECT_EQ(function.getResultTypes()[0], update.getHistory().getType());
  EXPECT_EQ(function.getResultTypes()[1], update.getScale().getType());
}

// Along one axis of the mesh there may be several groups.
TEST_F(DelayedSlotsTest, AmaxesAreReducedOncePerAxis) {
  parse(matrices + "%a = te.linear %x, %w" + types,
        "#te.group<id = 0, name = \"dp\", axis = \"dp\", size = 2>, "
        "#te.group<id = 1, name = \"tp\", axis = \"tp\", size = 4>, "
        "#te.group<id = 2, name = \"grads\", axis = \"dp\", size = 2>, "
        "#te.group<id = 3, name = \"pp\", axis = \"pp\", size = 1>");
  scaleFor(layers[0].a, layer("a"));
  EXPECT_EQ(count<AmaxReduceOp>(), 0);
  finish();
  std::vector<int64_t> groups;
  for (auto reduce : function.getOps<AmaxReduceOp>())
    groups.push_back(reduce.getGroupId());
  EXPECT_EQ(groups, (std::vector<int64_t>{0, 1}));
}
