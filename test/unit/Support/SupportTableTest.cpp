//===- SupportTableTest.cpp - the support table says what it should -------===//
//
// The support table is written again as grids, and the properties of every row
// are checked: each pair has one row, and each error has the combination, a
// rule and a nearest choice that is supported.
//
//===----------------------------------------------------------------------===//

#include "TEDialect/Support/SupportTable.h"
#include "TEDialect/Runtime/te_runtime_types.h"

#include "gtest/gtest.h"

using namespace te_table;

namespace {

bool contains(const std::string &text, const std::string &part) {
  return text.find(part) != text.npos;
}

std::string grid(Target target) {
  std::string text;
  for (int32_t a = 0; a < kNumSchemes; ++a) {
    for (int32_t b = 0; b < kNumSchemes; ++b)
      text += productRow(a, b).exists()
                  ? "-nkexr"[static_cast<size_t>(productOn(a, b, target).path)]
                  : '.';
    text += '\n';
  }
  return text;
}

constexpr Product plain(int32_t a, int32_t b) {
  auto element = [](int32_t scheme) {
    return scheme >= TE_RT_NV_1X16 ? TE_RT_F4E2M1FN : TE_RT_F8E4M3FN;
  };
  return {a, element(a), b, element(b), TE_RT_BF16, false, false};
}

} // namespace

// per_tensor, block_1x128, block_128x128, mx_1x32, mx_32x32, nv_1x16, nv_16x16;
// n native, k kernel of this project, e emulated, x through MXFP8, r reference.
TEST(SupportTable, ProductsOfEveryTarget) {
  EXPECT_EQ(grid(Target::Sm90), "n......\n"
                                ".kk....\n"
                                ".n.....\n"
                                "...ee..\n"
                                "...ee..\n"
                                ".....ee\n"
                                ".....ee\n");
  EXPECT_EQ(grid(Target::Sm100), "n......\n"
                                 ".xx....\n"
                                 ".x.....\n"
                                 "...nn..\n"
                                 "...nn..\n"
                                 ".....nn\n"
                                 ".....nn\n");
  EXPECT_EQ(grid(Target::Reference), "r......\n"
                                     ".rr....\n"
                                     ".r.....\n"
                                     "...rr..\n"
                                     "...rr..\n"
                                     ".....rr\n"
                                     ".....rr\n");
}

TEST(SupportTable, NumbersAreThoseOfTheAbi) {
  const char *const schemes[] = {"per_tensor", "block_1x128", "block_128x128",
                                 "mx_1x32",    "mx_32x32",    "nv_1x16",
                                 "nv_16x16"};
  ASSERT_EQ(kNumSchemes, TE_RT_NV_16X16 + 1);
  for (int32_t scheme = 0; scheme < kNumSchemes; ++scheme)
    EXPECT_STREQ(schemeRow(scheme).name, schemes[scheme]);
  const char *const types[] = {"f32",    "bf16", "f16",      "f8E4M3FN",
                               "f8E5M2", "i32",  "f4E2M1FN", "f8E8M0FNU"};
  for (int32_t type = 0; type <= TE_RT_F8E8M0FNU; ++type)
    EXPECT_EQ(typeName(type), types[type]);
  EXPECT_EQ(typeName(99), "99");
  EXPECT_EQ(schemeName(-1), "-1");
}

TEST(SupportTable, EveryPairIsDecidedOnceAndInItsPlace) {
  for (int32_t a = 0; a < kNumSchemes; ++a)
    for (int32_t b = 0; b < kNumSchemes; ++b) {
      const ProductRow &row = productRow(a, b);
      EXPECT_EQ(row.a, a);
      EXPECT_EQ(row.b, b);
      EXPECT_TRUE(productRow(row.nearestA, row.nearestB).exists());
      if (!row.exists()) {
        const std::string text = refuseProduct(plain(a, b));
        for (int32_t scheme : {a, b, row.nearestA, row.nearestB})
          EXPECT_TRUE(contains(text, "'" + schemeName(scheme) + "'")) << text;
        EXPECT_TRUE(contains(text, row.rule)) << text;
        EXPECT_TRUE(contains(text, "nearest supported")) << text;
        continue;
      }
      EXPECT_EQ(refuseProduct(plain(a, b)), "");
      for (int64_t multiple : {row.m, row.n, row.k})
        EXPECT_GT(multiple, 0);
      // Sizes that every value of the schemes has are not a rule of the GEMM.
      EXPECT_EQ(row.m % schemeRow(a).multiple, 0);
      EXPECT_EQ(row.n % schemeRow(b).multiple, 0);
    }
}

TEST(SupportTable, EveryConditionOfATargetNamesRuleAndNearest) {
  unsigned conditional = 0;
  for (const ProductRow &row : kProducts) {
    if (!row.exists())
      continue;
    for (size_t i = 0; i < kNumTargets; ++i) {
      const auto target = static_cast<Target>(i);
      EXPECT_EQ(
          refuseTarget(row.a, row.b, target, {.pow2 = true, .emulate = true}),
          "");
      const std::string text = refuseTarget(row.a, row.b, target, {});
      if (text.empty())
        continue;
      ++conditional;
      EXPECT_TRUE(contains(text, row.targets[i].rule)) << text;
      EXPECT_TRUE(contains(text, row.targets[i].nearest)) << text;
      EXPECT_TRUE(contains(text, targetName(target))) << text;
    }
  }
  // There are 3 block pairs on sm_100, and 4 mx and 4 nv pairs on sm_90.
  EXPECT_EQ(conditional, 11u);
  EXPECT_NE(
      refuseTarget(TE_RT_MX_1X32, TE_RT_MX_1X32, Target::Sm90, {.pow2 = true}),
      "");
  EXPECT_NE(refuseTarget(TE_RT_BLOCK_1X128, TE_RT_BLOCK_1X128, Target::Sm100,
                         {.emulate = true}),
            "");
}

TEST(SupportTable, TypesResultsAndAccumulation) {
  Product p = plain(TE_RT_PER_TENSOR, TE_RT_PER_TENSOR);
  p.aType = TE_RT_F8E5M2;
  EXPECT_EQ(refuseProduct(p), "");
  p.bType = TE_RT_F8E5M2;
  EXPECT_EQ(refuseProduct(p),
            "expected two element types that a target multiplies, but got "
            "'f8E5M2' and 'f8E5M2': no tensor core multiplies two of 'f8E5M2'; "
            "the nearest supported pair is 'f8E4M3FN' and 'f8E5M2'");
  p = plain(TE_RT_PER_TENSOR, TE_RT_PER_TENSOR);
  p.resultType = TE_RT_F16;
  EXPECT_EQ(refuseProduct(p), "");
  p.bias = true;
  EXPECT_EQ(refuseProduct(p),
            "expected the result of 'per_tensor' and 'per_tensor' with a "
            "'bias' to be 'f32' or 'bf16', but got 'f16'");
  p = plain(TE_RT_NV_1X16, TE_RT_NV_16X16);
  p.resultType = TE_RT_F16;
  EXPECT_EQ(refuseProduct(p),
            "expected the result of 'nv_1x16' and 'nv_16x16' to be 'f32' or "
            "'bf16', but got 'f16'");
  p = plain(TE_RT_NV_1X16, TE_RT_NV_16X16);
  p.bType = TE_RT_F8E4M3FN;
  EXPECT_EQ(refuseProduct(p), "expected elements of 'nv_16x16' to be "
                              "'f4E2M1FN', but got 'f8E4M3FN'");
  p = plain(TE_RT_BLOCK_1X128, TE_RT_BLOCK_1X128);
  p.fastAccumulation = true;
  EXPECT_TRUE(contains(refuseProduct(p), "'fast_accumulation'"));
}

// k kernel of this project, e emulated, r reference, - not supported.
TEST(SupportTable, GroupsOfEveryTarget) {
  auto groups = [](Target target) {
    std::string text;
    for (int32_t a = 0; a < kNumSchemes; ++a)
      for (int32_t b = 0; b < kNumSchemes; ++b)
        if (productRow(a, b).exists())
          text += "-nkexr"[static_cast<size_t>(
              productRow(a, b).groups[static_cast<size_t>(target)].path)];
    return text;
  };
  // Groups support 0 by 0; 1 by 1 and 2; 2 by 1; 3 and 4, and 5 and 6, by each
  // other.
  EXPECT_EQ(groups(Target::Sm90), "kkk-eeeeeeee");
  EXPECT_EQ(groups(Target::Sm100), "------------");
  EXPECT_EQ(groups(Target::Reference), "rrrrrrrrrrrr");
  const int32_t block = TE_RT_BLOCK_1X128, mx = TE_RT_MX_1X32;
  EXPECT_EQ(refuseGroups(block, block, Target::Sm90, TE_RT_BF16, {}), "");
  EXPECT_TRUE(contains(refuseGroups(block, block, Target::Sm90, TE_RT_F16, {}),
                       "to be 'f32' or 'bf16', but got 'f16'"));
  EXPECT_EQ(refuseGroups(mx, mx, Target::Sm90, TE_RT_BF16, {.emulate = true}),
            "");
  EXPECT_TRUE(contains(refuseGroups(mx, mx, Target::Sm90, TE_RT_BF16, {}),
                       "the nearest supported is the pipeline option"));
  EXPECT_TRUE(
      contains(refusePlainGroups(Target::Sm100, TE_RT_BF16, TE_RT_BF16),
               "'sm_100' has, but got one of 'bf16' into 'bf16': no kernel"));
  EXPECT_EQ(refusePlainGroups(Target::Sm90, TE_RT_BF16, TE_RT_F32), "");
  EXPECT_EQ(refusePlainGroups(Target::Sm90, TE_RT_F16, TE_RT_F16),
            "expected a product of groups that 'sm_90' has, but got one of "
            "'f16' into 'f16': its kernel multiplies 'bf16' into 'f32' or "
            "'bf16'; the nearest supported is 'target=reference'");
  EXPECT_EQ(refusePlainGroups(Target::Reference, TE_RT_F16, TE_RT_F16), "");
}

TEST(SupportTable, Casts) {
  // The sizes of values, and the schemes with an exact transpose.
  const int64_t multiples[] = {1, 1, 1, 32, 32, 16, 16};
  const bool exact[] = {true, false, true, false, true, false, true};
  for (int32_t scheme = 0; scheme < kNumSchemes; ++scheme) {
    EXPECT_EQ(schemeRow(scheme).multiple, multiples[scheme]);
    EXPECT_EQ(refuseTranspose(scheme).empty(), exact[scheme]);
    EXPECT_EQ(refuseType(scheme, TE_RT_F4E2M1FN, "f4E2M1FN").empty(),
              scheme >= TE_RT_NV_1X16);
    for (const TargetRow &row : schemeRow(scheme).casts)
      EXPECT_NE(row.path, Path::Never);
  }
  EXPECT_EQ(refuseSize("'k'", 24, 16), "expected 'k' to be a multiple of 16, "
                                       "but got 24; the smallest padded size "
                                       "is 32");
  EXPECT_EQ(refuseSize("'k'", 48, 16), "");
}

TEST(SupportTable, OverridesOfRecipes) {
  struct Case {
    const char *recipe, *variant, *allowed;
  };
  for (const Case &c :
       {Case{"delayed_scaling", "", "n"},
        {"float8_current_scaling", "", "nhd"},
        {"float8_block_scaling", "", "nhd"},
        {"mxfp8_block_scaling", "", "nhd"},
        {"nvfp4_block_scaling", "", "nhd"},
        {"nvfp4_block_scaling", "row_scaled_activation", "hd"}}) {
    const RecipeRow *row = recipeRow(c.recipe, c.variant);
    ASSERT_NE(row, nullptr) << c.recipe;
    for (int32_t mode = 0; mode < 3; ++mode) {
      const std::string text = refuseOverride(*row, mode);
      EXPECT_EQ(text.empty(), contains(c.allowed, {"nhd"[mode]})) << text;
      if (!text.empty()) {
        EXPECT_TRUE(contains(text, row->overrideRule)) << text;
      }
    }
  }
  EXPECT_EQ(recipeRow("high_precision"), nullptr);
}

// The default schemes of a recipe occur in three GEMMs, all of which are
// supported.
TEST(SupportTable, ProductsOfRecipesExist) {
  for (const RecipeRow &row : kRecipes)
    for (auto [a, b] : {std::pair(row.x, row.w), std::pair(row.dy, row.w),
                        std::pair(row.dy, row.x)})
      EXPECT_EQ(refusePair(a, b), "") << row.name;
}

TEST(SupportTable, OwnKernelsAndWhatTheyLeave) {
  auto path = [](int32_t b, int32_t result) {
    return productPath(TE_RT_BLOCK_1X128, b, Target::Sm90, result);
  };
  for (int32_t b : {TE_RT_BLOCK_1X128, TE_RT_BLOCK_128X128}) {
    EXPECT_EQ(path(b, TE_RT_BF16), Path::OwnKernel);
    EXPECT_EQ(path(b, TE_RT_F32), Path::OwnKernel);
    EXPECT_EQ(path(b, TE_RT_F16), Path::Native);
  }
  EXPECT_EQ(
      productPath(TE_RT_PER_TENSOR, TE_RT_PER_TENSOR, Target::Sm90, TE_RT_BF16),
      Path::Native);
}

TEST(SupportTable, TargetNames) {
  EXPECT_EQ(refuseTargetName("sm_100"), "");
  EXPECT_EQ(parseTarget("reference"), Target::Reference);
  EXPECT_EQ(refuseTargetName("sm_80"),
            "expected 'target' to be one of sm_90, sm_100, reference, but got "
            "'sm_80'");
}

TEST(SupportTable, Libraries) {
  EXPECT_EQ(refuseLibrary(TE_RT_BLOCK_128X128, TE_RT_BLOCK_1X128, Target::Sm90,
                          120900),
            "");
  EXPECT_EQ(refuseLibrary(TE_RT_BLOCK_128X128, TE_RT_BLOCK_1X128, Target::Sm90,
                          120803),
            "expected cuBLASLt 12.9 or newer for 'block_128x128' and "
            "'block_1x128' on 'sm_90', but got 12.8");
  EXPECT_NE(refuseLibrary(TE_RT_MX_1X32, TE_RT_MX_1X32, Target::Sm100, 120700),
            "");
}
