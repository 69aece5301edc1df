//===- QuantPolicyTest.cpp - what a recipe means for one GEMM -------------===//
//
// The tables of the recipes, for every role, GEMM and override. The expected
// values are from the recipes' definitions, not from the code under test.
//
//===----------------------------------------------------------------------===//

#include "TEDialect/Analysis/QuantPolicy.h"

#include "mlir/AsmParser/AsmParser.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/MLIRContext.h"
#include "gtest/gtest.h"

using namespace mlir;
using namespace mlir::te;

namespace {
constexpr Gemm allGemms[] = {Gemm::Fprop, Gemm::Dgrad, Gemm::Wgrad};
constexpr TensorRole allRoles[] = {TensorRole::X, TensorRole::W,
                                   TensorRole::Dy};

class QuantPolicyTest : public testing::Test {
protected:
  QuantPolicyTest() { context.loadDialect<TEDialect>(); }

  QuantPolicy policy(const std::string &recipe) {
    auto attr = dyn_cast_or_null<RecipeAttr>(
        parseAttribute("#te.recipe<" + recipe + ">", &context));
    EXPECT_TRUE(attr) << recipe;
    return QuantPolicy(attr);
  }

  /// The type of the cast of a 256x512 tensor, as text.
  std::string cast(const std::string &recipe, TensorRole role,
                   unsigned contract) {
    std::string text;
    llvm::raw_string_ostream os(text);
    os << policy(recipe).castType(role, readerOf(role, contract), {256, 512},
                                  contract);
    return text;
  }

  MLIRContext context;
};
} // namespace

TEST_F(QuantPolicyTest, CurrentScalingIsHybridPerTensor) {
  const std::string recipe = "float8_current_scaling";
  EXPECT_EQ(cast(recipe, TensorRole::X, 1),
            "!te.scaled<256x512xf8E4M3FN, per_tensor, contract = 1>");
  EXPECT_EQ(cast(recipe, TensorRole::W, 0),
            "!te.scaled<256x512xf8E4M3FN, per_tensor, contract = 0>");
  EXPECT_EQ(cast(recipe, TensorRole::Dy, 1),
            "!te.scaled<256x512xf8E5M2, per_tensor, contract = 1>");
  EXPECT_EQ(policy(recipe).scheme(TensorRole::X, Gemm::Fprop),
            Scheme::PerTensor);
}

TEST_F(QuantPolicyTest, E4M3FormatAppliesToGradients) {
  EXPECT_EQ(
      cast("float8_current_scaling, {fp8_format = e4m3}", TensorRole::Dy, 1),
      "!te.scaled<256x512xf8E4M3FN, per_tensor, contract = 1>");
}

TEST_F(QuantPolicyTest, BlockScalingUsesRowsForXAndDyAndSquaresForW) {
  const std::string recipe = "float8_block_scaling";
  EXPECT_EQ(cast(recipe, TensorRole::X, 1),
            "!te.scaled<256x512xf8E4M3FN, block_1x128, pow2, contract = 1>");
  EXPECT_EQ(cast(recipe, TensorRole::W, 1),
            "!te.scaled<256x512xf8E4M3FN, block_128x128, pow2, contract = 1>");
  EXPECT_EQ(cast(recipe, TensorRole::Dy, 0),
            "!te.scaled<256x512xf8E4M3FN, block_1x128, pow2, contract = 0>");
  EXPECT_EQ(policy(recipe).scheme(TensorRole::X, Gemm::Fprop),
            Scheme::Block1x128);
}

TEST_F(QuantPolicyTest, BlockDimensionsAndScalesFollowTheRecipe) {
  const std::string recipe = "float8_block_scaling, {pow2_scales = false, "
                             "w_block_dim = 1, x_block_dim = 2}";
  EXPECT_EQ(cast(recipe, TensorRole::X, 1),
            "!te.scaled<256x512xf8E4M3FN, block_128x128, contract = 1>");
  EXPECT_EQ(cast(recipe, TensorRole::W, 1),
            "!te.scaled<256x512xf8E4M3FN, block_1x128, contract = 1>");
}

TEST_F(QuantPolicyTest, NoGemmMeetsTwoE5M2Operands) {
  for (const char *recipe :
       {"float8_current_scaling", "float8_block_scaling, {fp8_format = hybrid}",
        "float8_current_scaling, {fp8_format = e4m3}"}) {
    unsigned wide = 0;
    for (TensorRole role : allRoles)
      wide += isa<Float8E5M2Type>(
          policy(recipe)
              .castType(role, readerOf(role, 1), {256, 512}, 1)
              .getElementType());
    EXPECT_LE(wide, 1u) << recipe;
  }
}

TEST_F(QuantPolicyTest, AccumulationPerGemm) {
  // In the order fprop, dgrad, wgrad.
  auto fast = [&](const std::string &recipe) {
    std::string text;
    for (Gemm gemm : allGemms)
      text += policy(recipe).fastAccumulation(gemm) ? 'f' : 's';
    return text;
  };
  EXPECT_EQ(fast("float8_current_scaling"), "fss");
  EXPECT_EQ(fast("float8_current_scaling, {split_fprop = true}"), "sss");
  EXPECT_EQ(fast("float8_current_scaling, {split_dgrad = false}"), "ffs");
  EXPECT_EQ(fast("float8_current_scaling, {split_wgrad = false}"), "fsf");
  EXPECT_EQ(fast("float8_block_scaling"), "sss");
}

TEST_F(QuantPolicyTest, OverrideChangesTheBackwardOnly) {
  // h: original operands, d: dequantised, q: quantised.
  auto modes = [&](const std::string &recipe) {
    std::string text;
    for (Gemm gemm : allGemms)
      text += "hdq"[static_cast<int>(policy(recipe).operandMode(gemm))];
    return text;
  };
  EXPECT_EQ(modes("high_precision"), "hhh");
  for (const std::string recipe :
       {"float8_current_scaling", "float8_block_scaling"}) {
    EXPECT_EQ(modes(recipe), "qqq");
    EXPECT_EQ(modes(recipe + ", {backward_override = high_precision}"), "qhh");
    EXPECT_EQ(modes(recipe + ", {backward_override = dequantized}"), "qdd");
  }
}

TEST_F(QuantPolicyTest, ReasonNamesTheRecipeOrTheOverride) {
  QuantPolicy dequantized =
      policy("float8_block_scaling, {backward_override = dequantized}");
  EXPECT_EQ(dequantized.reason(Gemm::Fprop), "recipe 'float8_block_scaling'");
  EXPECT_EQ(dequantized.reason(Gemm::Wgrad), "override 'dequantized'");
  EXPECT_EQ(policy("high_precision").reason(Gemm::Dgrad),
            "recipe 'high_precision'");
}

TEST_F(QuantPolicyTest, SizeRulesAreThoseOfTheGemm) {
  // The contracted axis is a multiple of 16. Outer axes are multiples of 8, or
  // any size for per-tensor scaling.
  struct Case {
    const char *recipe;
    Gemm gemm;
    LinearSizes sizes;
    const char *violated;
    bool transposed = false;
  };
  const Case cases[] = {
      {"float8_block_scaling", Gemm::Fprop, {8, 8, 16}, ""},
      {"float8_block_scaling", Gemm::Fprop, {8, 8, 8}, "K"},
      {"float8_block_scaling", Gemm::Fprop, {4, 8, 16}, "M"},
      {"float8_block_scaling", Gemm::Fprop, {8, 4, 16}, "N"},
      {"float8_block_scaling", Gemm::Dgrad, {8, 16, 8}, ""},
      {"float8_block_scaling", Gemm::Dgrad, {8, 8, 8}, "N"},
      {"float8_block_scaling", Gemm::Wgrad, {16, 8, 8}, ""},
      {"float8_block_scaling", Gemm::Wgrad, {8, 8, 8}, "M"},
      {"float8_current_scaling", Gemm::Fprop, {1, 8, 16}, ""},
      {"float8_current_scaling", Gemm::Fprop, {8, 4, 16}, "N"},
      {"float8_current_scaling", Gemm::Fprop, {8, 8, 8}, "K"},
      {"float8_current_scaling", Gemm::Dgrad, {3, 16, 8}, ""},
      {"float8_current_scaling", Gemm::Dgrad, {8, 16, 4}, "K"},
      {"float8_current_scaling", Gemm::Wgrad, {16, 3, 8}, ""},
      {"float8_current_scaling", Gemm::Wgrad, {8, 8, 8}, "M"},
      {"float8_current_scaling", Gemm::Wgrad, {16, 8, 4}, "K"},
      // N of a weight [K, N] is the axis of the columns of its gradient.
      {"float8_current_scaling", Gemm::Wgrad, {16, 8, 3}, "", true},
      {"float8_current_scaling", Gemm::Wgrad, {16, 4, 8}, "N", true},
      {"float8_current_scaling", Gemm::Fprop, {1, 8, 16}, "", true},
      {"float8_current_scaling, {backward_override = dequantized}",
       Gemm::Wgrad,
       {1, 1, 1},
       ""},
      {"high_precision", Gemm::Fprop, {1, 1, 1}, ""},
  };
  for (const Case &c : cases) {
    auto rules = policy(c.recipe).sizeRules(c.gemm, c.transposed);
    const auto *broken = llvm::find_if(rules, [&](SizeRule rule) {
      return rule.size(c.sizes) % rule.multiple != 0;
    });
    EXPECT_EQ(broken != rules.end() ? std::string(1, broken->axis) : "",
              c.violated)
        << c.recipe << " " << stringifyGemm(c.gemm).str() << " " << c.sizes.m
        << "x" << c.sizes.n << "x" << c.sizes.k;
  }
}

TEST_F(QuantPolicyTest, DefaultSchemesAreThoseOfTheSupportTable) {
  Type bf16 = BFloat16Type::get(&context);
  for (const support::RecipeRow &row : support::kRecipes) {
    if (*row.variant != 0 || !symbolizeRecipeKind(row.name))
      continue;
    QuantPolicy recipe = policy(row.name);
    EXPECT_EQ(static_cast<int32_t>(recipe.scheme(TensorRole::X, Gemm::Fprop)),
              row.x);
    EXPECT_EQ(static_cast<int32_t>(recipe.scheme(TensorRole::W, Gemm::Fprop)),
              row.w);
    EXPECT_EQ(static_cast<int32_t>(recipe.scheme(TensorRole::Dy, Gemm::Dgrad)),
              row.dy);
    EXPECT_EQ(recipe.getRecipe().getOptions().pow2Scales, row.pow2) << row.name;
    for (Gemm gemm : allGemms)
      EXPECT_EQ(recipe.refusal(gemm, bf16, bf16, true), "");
  }
}

TEST_F(QuantPolicyTest, OverridesAreThoseOfTheSupportTable) {
  std::string said;
  ScopedDiagnosticHandler handler(&context, [&](Diagnostic &diagnostic) {
    said = diagnostic.str();
    return success();
  });
  unsigned tried = 0;
  for (const support::RecipeRow &row : support::kRecipes) {
    if (*row.variant != 0 || !symbolizeRecipeKind(row.name))
      continue;
    for (int32_t mode = 0; mode < 3; ++mode) {
      std::string recipe = std::string(row.name) + ", {backward_override = " +
                           support::kOverrideNames[mode] + "}";
      EXPECT_EQ(
          stringifyBackwardOverride(static_cast<BackwardOverride>(mode)).str(),
          support::kOverrideNames[mode]);
      EXPECT_EQ(static_cast<bool>(
                    parseAttribute("#te.recipe<" + recipe + ">", &context)),
                support::has(row.overrides, mode))
          << recipe << ": " << said;
      ++tried;
    }
  }
  EXPECT_GE(tried, 6u);
}

TEST_F(QuantPolicyTest, RefusesWhatTheTransformCannotRead) {
  Type bf16 = BFloat16Type::get(&context), f32 = Float32Type::get(&context);
  QuantPolicy recipe = policy("nvfp4_block_scaling");
  EXPECT_EQ(recipe.refusal(Gemm::Fprop, {f32, f32}, f32, false), "");
  EXPECT_EQ(recipe.refusal(Gemm::Wgrad, {bf16, bf16}, f32, false), "");
  EXPECT_EQ(recipe.refusal(Gemm::Wgrad, {bf16, f32}, f32, false),
            "expected 'bf16' operands where a recipe has 'hadamard', but got "
            "'f32': the transform is rounded to bf16; the nearest supported is "
            "'hadamard = false'");
  EXPECT_EQ(policy("nvfp4_block_scaling, {hadamard = false}")
                .refusal(Gemm::Wgrad, {f32, f32}, f32, false),
            "");
}

TEST_F(QuantPolicyTest, RowScalesHaveNoBackward) {
  Type bf16 = BFloat16Type::get(&context);
  const std::string rows = "nvfp4_block_scaling, {hadamard = false, "
                           "stochastic_rounding = false, "
                           "row_scaled_activation = true}";
  EXPECT_EQ(policy(rows).refusal(Gemm::Fprop, bf16, bf16, false), "");
  for (Gemm gemm : {Gemm::Dgrad, Gemm::Wgrad}) {
    EXPECT_NE(policy(rows).refusal(gemm, bf16, bf16, false), "");
    // Row scales in the fprop of a custom recipe do not affect its backward.
    EXPECT_EQ(policy("custom, {fprop = #te.recipe<" + rows +
                     ">, dgrad = #te.recipe<mxfp8_block_scaling>, "
                     "wgrad = #te.recipe<mxfp8_block_scaling>}")
                  .refusal(gemm, bf16, bf16, false),
              "");
  }
}

TEST_F(QuantPolicyTest, GroupsAreRefusedByTheTable) {
  Type bf16 = BFloat16Type::get(&context), f16 = Float16Type::get(&context);
  using support::Target;
  auto refused = [&](StringRef recipe, Target target, bool emulate, Type type) {
    return !policy(recipe.str())
                .groupsRefusal(Gemm::Fprop, target, emulate, type, type)
                .empty();
  };
  for (const char *recipe :
       {"float8_current_scaling", "float8_block_scaling"}) {
    EXPECT_FALSE(refused(recipe, Target::Sm90, false, bf16));
    EXPECT_TRUE(refused(recipe, Target::Sm90, false, f16));
    EXPECT_FALSE(refused(recipe, Target::Reference, false, f16));
    EXPECT_TRUE(refused(recipe, Target::Sm100, false, bf16));
  }
  // Emulated GEMMs have the constraints of high precision.
  for (Target target : {Target::Sm90, Target::Reference})
    EXPECT_EQ(refused("mxfp8_block_scaling", target, true, bf16),
              refused("high_precision", target, false, bf16));
  EXPECT_TRUE(refused("mxfp8_block_scaling", Target::Sm90, false, bf16));
  EXPECT_TRUE(
      refused("float8_block_scaling, {x_block_dim = 2, w_block_dim = 1}",
              Target::Sm90, false, bf16));
}

TEST_F(QuantPolicyTest, ProductsAreRefusedByTheTable) {
  Type f16 = Float16Type::get(&context);
  EXPECT_EQ(
      policy("float8_current_scaling").refusal(Gemm::Fprop, f16, f16, false),
      "");
  EXPECT_NE(
      policy("float8_current_scaling").refusal(Gemm::Fprop, f16, f16, true),
      "");
  const std::string blocks = "float8_block_scaling, {pow2_scales = false}";
  EXPECT_EQ(policy(blocks).targetRefusal(Gemm::Wgrad, support::Target::Sm90,
                                         /*emulate=*/false),
            "");
  EXPECT_NE(policy(blocks).targetRefusal(Gemm::Wgrad, support::Target::Sm100,
                                         /*emulate=*/false),
            "");
  EXPECT_EQ(policy("float8_block_scaling")
                .targetRefusal(Gemm::Wgrad, support::Target::Sm100,
                               /*emulate=*/false),
            "");
  EXPECT_EQ(policy("float8_block_scaling, {pow2_scales = false, "
                   "backward_override = high_precision}")
                .targetRefusal(Gemm::Wgrad, support::Target::Sm100, false),
            "");
}

TEST_F(QuantPolicyTest, FlatShardsAreCastWhereNoBlockNeedsAllOfItsElements) {
  auto refusal = [&](const std::string &recipe, unsigned contract,
                     int64_t count) {
    return policy(recipe).shardRefusal(readerOf(TensorRole::W, contract),
                                       contract, count);
  };
  for (unsigned contract : {0, 1}) {
    for (const char *recipe :
         {"float8_current_scaling", "float8_block_scaling",
          "mxfp8_block_scaling", "mxfp8_block_scaling, {w_2d = true}"})
      EXPECT_EQ(refusal(recipe, contract, 77), "") << recipe;
    EXPECT_EQ(refusal("nvfp4_block_scaling", contract, 78), "");
    EXPECT_EQ(refusal("nvfp4_block_scaling", contract, 77),
              "a flat shard of 77 elements, an odd number, cuts a byte of two "
              "FP4 values");
    EXPECT_NE(
        refusal("nvfp4_block_scaling, {four_over_six = weights}", contract, 78),
        "");
  }
  // The rows of 1x16 blocks are runs of the weight; the columns are not.
  const char *const oneRow = "nvfp4_block_scaling, {w_2d = false}";
  EXPECT_EQ(refusal(oneRow, 1, 78), "");
  EXPECT_EQ(refusal(oneRow, 0, 78), "a flat shard cuts blocks of scheme "
                                    "'nv_1x16' that lie down columns");
}
