//===- LayerGemmsTest.cpp - what the GEMMs of linear layers read ----------===//

#include "Quantize/GatheredOperands.h"

#include "mlir/AsmParser/AsmParser.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/Parser/Parser.h"
#include "gtest/gtest.h"

using namespace mlir;
using namespace mlir::te;

namespace {
class LayerGemmsTest : public testing::Test {
protected:
  LayerGemmsTest() {
    context.loadDialect<TEDialect, func::FuncDialect, tensor::TensorDialect>();
  }

  /// The GEMM of the only layer in `body`, the arguments and ops of a function.
  LayerGemm describe(const std::string &body) {
    module = parseSourceString<ModuleOp>(
        "module attributes {te.groups = [#te.group<id = 0, name = \"dp\", axis "
        "= \"dp\", size = 2>]} {\n"
        "func.func @f" +
            body + "\n}",
        &context);
    EXPECT_TRUE(module) << body;
    Operation *layer = nullptr;
    module->walk([&](Operation *op) {
      if (isForwardLayer(op) || isBackwardLayer(op))
        layer = op;
    });
    return describeLayerGemm(layer);
  }

  QuantPolicy policy(StringRef kind) {
    auto recipe = dyn_cast_or_null<RecipeAttr>(
        parseAttribute(("#te.recipe<" + kind + ">").str(), &context));
    EXPECT_TRUE(recipe) << kind.str();
    return QuantPolicy(recipe);
  }

  MLIRContext context;
  OwningOpRef<ModuleOp> module;
};

const char *const gathered =
    R"((%x: tensor<64x32xbf16>, %w: tensor<PARTx32xbf16>) {
  %whole = te.all_gather %w group 0 axis 0 : tensor<PARTx32xbf16> -> tensor<WHOLEx32xbf16>
  %y = te.linear %x, %whole : tensor<64x32xbf16>, tensor<WHOLEx32xbf16> -> tensor<64xWHOLExbf16>
  return
})";

std::string gatheredWeight(int64_t part) {
  std::string text = gathered;
  for (auto [name, size] : {std::pair("PART", part), {"WHOLE", 2 * part}})
    for (size_t at; (at = text.find(name)) != std::string::npos;)
      text.replace(at, std::string(name).size(), std::to_string(size));
  return text;
}
} // namespace

TEST_F(LayerGemmsTest, AWgradContractsRowsOfBothOperands) {
  LayerGemm gemm =
      describe(R"((%dy: tensor<64x48xbf16>, %x: tensor<64x32xbf16>) {
  %dw = te.linear_wgrad %dy, %x : tensor<64x48xbf16>, tensor<64x32xbf16> -> tensor<48x32xbf16>
  return
})");
  EXPECT_EQ(gemm.gemm, Gemm::Wgrad);
  EXPECT_EQ(gemm.a.role, TensorRole::Dy);
  EXPECT_EQ(gemm.b.role, TensorRole::X);
  EXPECT_EQ(gemm.a.contract, 0u);
  EXPECT_EQ(gemm.b.contract, 0u);
  EXPECT_EQ(gemm.ofForward().value, gemm.b.value);
  EXPECT_EQ(gemm.sizes.m, 64);
  EXPECT_EQ(gemm.sizes.n, 48);
  EXPECT_EQ(gemm.sizes.k, 32);
}

TEST_F(LayerGemmsTest, ATransposedWeightIsContractedAlongTheOtherAxis) {
  LayerGemm gemm =
      describe(R"((%x: tensor<64x32xbf16>, %w: tensor<32x48xbf16>) {
  %y = te.linear %x, %w {transposed_weight} : tensor<64x32xbf16>, tensor<32x48xbf16> -> tensor<64x48xbf16>
  return
})");
  EXPECT_TRUE(gemm.b.isTransposed);
  EXPECT_EQ(gemm.b.contract, 0u);
  EXPECT_EQ(gemm.b.firstAxis(), 0u);
  // Its first reader is the forward, for either contracted axis.
  EXPECT_EQ(gemm.b.reader(), Gemm::Fprop);
}

TEST_F(LayerGemmsTest, TypesThatAKernelDoesNotTakeAreRefused) {
  LayerGemm gemm = describe(
      R"((%x: tensor<64x24xf16>, %w: tensor<48x24xf16>, %b: tensor<48xf16>) {
  %y = te.linear %x, %w bias %b : tensor<48xf16> : tensor<64x24xf16>, tensor<48x24xf16> -> tensor<64x48xf16>
  return
})");
  QuantPolicy blocks = policy("float8_block_scaling");
  EXPECT_EQ(refuseMode(gemm, blocks, blocks.operandMode(gemm.gemm)),
            "expected the result of 'block_1x128' and 'block_128x128' with a "
            "'bias' to be 'f32' or 'bf16', but got 'f16'");
  QuantPolicy plain = policy("high_precision");
  EXPECT_EQ(refuseMode(gemm, plain, plain.operandMode(gemm.gemm)), "");
}

TEST_F(LayerGemmsTest, SizesOfAnyNumberAreNotRefused) {
  LayerGemm gemm = describe(R"((%x: tensor<33x24xbf16>, %w: tensor<3x24xbf16>) {
  %y = te.linear %x, %w : tensor<33x24xbf16>, tensor<3x24xbf16> -> tensor<33x3xbf16>
  return
})");
  QuantPolicy blocks = policy("float8_block_scaling");
  EXPECT_EQ(refuseMode(gemm, blocks, blocks.operandMode(gemm.gemm)), "");
  gemm.b.padding = {5, 8};
  EXPECT_EQ(gemm.b.castShape(), (SmallVector<int64_t, 3>{8, 32}));
}

TEST_F(LayerGemmsTest, AGatheredWeightIsItsPart) {
  LayerGemm gemm = describe(gatheredWeight(128));
  EXPECT_TRUE(gemm.b.gather);
  EXPECT_EQ(gemm.b.shape()[0], 128);
  EXPECT_EQ(cast<ShapedType>(gemm.b.whole().getType()).getDimSize(0), 256);
}

TEST_F(LayerGemmsTest, PartsAreCastByThemselvesWhereBlocksEndWithThem) {
  LayerGemm gemm = describe(gatheredWeight(128));
  EXPECT_EQ(refuseCastOfParts(gemm.b, policy("float8_block_scaling")), "");
  Operand kept = keepExactGather(gemm.b, policy("float8_block_scaling"), "f");
  EXPECT_TRUE(kept.gather);
}

TEST_F(LayerGemmsTest, PartsThatCutABlockAreGatheredFirst) {
  LayerGemm gemm = describe(gatheredWeight(64));
  EXPECT_NE(refuseCastOfParts(gemm.b, policy("float8_block_scaling")), "");
  Operand kept = keepExactGather(gemm.b, policy("float8_block_scaling"), "f");
  EXPECT_FALSE(kept.gather);
  EXPECT_EQ(kept.value, gemm.b.whole());
  // With one scale for the whole tensor, no block has to end at a certain row.
  EXPECT_EQ(refuseCastOfParts(gemm.b, policy("float8_current_scaling")), "");
}
