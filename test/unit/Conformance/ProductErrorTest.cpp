//===- ProductErrorTest.cpp - refusals of matrix products -----------------===//

#include "Conformance/Errors.h"
#include "TEDialect/Support/SupportTable.h"

using namespace te::conformance;

namespace {

TEST_P(Errors, UnsupportedProducts) {
  auto product = [](int64_t m, int64_t n, int64_t k, int32_t aType,
                    int32_t aScheme, int32_t bType, int32_t bScheme,
                    int32_t fast = 0, int32_t aAxis = 1, int32_t bAxis = 1) {
    return PlanFunction(TE_PLAN(scaled_matmul, m, n, k, aType, aScheme, bType,
                                bScheme, TE_RT_BF16, fast, aAxis, bAxis, 0, 0,
                                0, 0));
  };
  constexpr int32_t e4 = TE_RT_F8E4M3FN, e5 = TE_RT_F8E5M2;
  constexpr int32_t tensor = TE_RT_PER_TENSOR, one = TE_RT_BLOCK_1X128,
                    two = TE_RT_BLOCK_128X128;
  EXPECT_TRUE(
      refuses(TE_RT_UNSUPPORTED, product(16, 16, 16, e5, tensor, e5, tensor),
              {"scaled_matmul", "'f8E5M2' and 'f8E5M2'", "nearest supported"}));
  EXPECT_TRUE(
      refuses(TE_RT_UNSUPPORTED, product(128, 128, 128, e4, two, e4, two),
              {"'block_128x128' and 'block_128x128'",
               "nearest supported pair is 'block_1x128' and 'block_128x128'"}));
  EXPECT_TRUE(refuses(TE_RT_UNSUPPORTED,
                      product(128, 128, 128, e4, tensor, e4, one),
                      {"'per_tensor' and 'block_1x128'", "one family"}));
  EXPECT_TRUE(refuses(TE_RT_UNSUPPORTED,
                      product(128, 128, 128, e4, one, e4, one, 1),
                      {"'fast_accumulation'"}));
  EXPECT_TRUE(refuses(TE_RT_INVALID_ARGUMENT,
                      product(16, 16, 24, e4, tensor, e4, tensor),
                      {"'k' to be a multiple of 16", "24"}));
  EXPECT_TRUE(
      refuses(TE_RT_INVALID_ARGUMENT,
              product(24, 16, 32, e4, tensor, e4, tensor, 0, 0, 1),
              {"'m' of an 'a' of axis 0 to be a multiple of 16", "24"}));
  EXPECT_TRUE(refuses(TE_RT_INVALID_ARGUMENT,
                      product(16, 40, 32, e4, tensor, e4, tensor, 0, 0, 0),
                      {"'n' of a 'b' of axis 0 to be a multiple of 16", "40"}));
  EXPECT_TRUE(refuses(TE_RT_INVALID_ARGUMENT,
                      product(12, 16, 32, e4, one, e4, two),
                      {"'m' to be a multiple of 8", "12"}));
  EXPECT_TRUE(refuses(TE_RT_INVALID_ARGUMENT,
                      product(16, 20, 32, e4, one, e4, two),
                      {"'n' to be a multiple of 8", "20"}));
}

TEST_P(Errors, UnsupportedMicroscaledProducts) {
  auto product = [](int64_t m, int64_t n, int64_t k, int32_t type,
                    int32_t aScheme, int32_t bScheme, int32_t rowScaled,
                    int32_t aScaleMax, int32_t bScaleMax,
                    int32_t outType = TE_RT_BF16) {
    return PlanFunction(TE_PLAN(scaled_matmul, m, n, k, type, aScheme, type,
                                bScheme, outType, 0, 1, 1, 1, rowScaled,
                                aScaleMax, bScaleMax));
  };
  constexpr int32_t e4 = TE_RT_F8E4M3FN, e2 = TE_RT_F4E2M1FN;
  constexpr int32_t mx = TE_RT_MX_1X32, nv = TE_RT_NV_1X16,
                    square = TE_RT_NV_16X16;
  EXPECT_TRUE(refuses(TE_RT_UNSUPPORTED,
                      product(32, 32, 32, e4, mx, TE_RT_PER_TENSOR, 0, 0, 0),
                      {"'mx_1x32' and 'per_tensor'", "one family"}));
  EXPECT_TRUE(refuses(TE_RT_UNSUPPORTED,
                      product(32, 32, 32, e4, nv, nv, 0, 448, 448),
                      {"'nv_1x16'", "'f4E2M1FN'", "'f8E4M3FN'"}));
  EXPECT_TRUE(refuses(TE_RT_UNSUPPORTED,
                      product(32, 32, 32, e2, nv, nv, 0, 448, 448, TE_RT_F16),
                      {"'f32' or 'bf16'", "'f16'"}));
  EXPECT_TRUE(refuses(TE_RT_INVALID_ARGUMENT,
                      product(32, 32, 48, e2, nv, nv, 0, 448, 448),
                      {"'k' to be a multiple of 32", "48"}));
  EXPECT_TRUE(refuses(TE_RT_INVALID_ARGUMENT,
                      product(48, 32, 64, e4, mx, mx, 0, 0, 0),
                      {"'m' to be a multiple of 32", "48"}));
  EXPECT_TRUE(refuses(TE_RT_INVALID_ARGUMENT,
                      product(32, 32, 32, e2, nv, nv, 0, 448, 0),
                      {"'b_scale_max' to be 448 or 256", "0"}));
  EXPECT_TRUE(refuses(TE_RT_INVALID_ARGUMENT,
                      product(32, 32, 32, e4, mx, mx, 0, 448, 448),
                      {"scales without amax", "448"}));
  EXPECT_TRUE(refuses(TE_RT_INVALID_ARGUMENT,
                      product(32, 32, 32, e2, square, nv, 1, 448, 448),
                      {"'a_row_scaled'", "nv_1x16", "1"}));
  EXPECT_TRUE(refuses(TE_RT_INVALID_ARGUMENT,
                      TE_PLAN(block_to_mx_scales, 8, 8, TE_RT_PER_TENSOR),
                      {"'scheme'", "block_1x128", "per_tensor"}));

  if (GetParam() == "cuda")
    return; // It has the product on some machines only; see te-cuda-host.
  const std::vector<uint8_t> bytes(16 * 32);
  std::vector<uint8_t> result(16 * 16 * 2);
  const std::vector<float> amax = {1.0f};
  EXPECT_EQ(device().tryRun(product(16, 16, 32, e2, nv, nv, 0, 448, 448),
                            {in(bytes), in(bytes), in(amax), in(bytes),
                             in(bytes), none(), none(), none(), out(result)}),
            TE_RT_INVALID_ARGUMENT);
  EXPECT_NE(device().message.find("'b_amax'"), std::string::npos)
      << device().message;
}

// The rows of the support table describe the runtime. For each pair, the
// smallest sizes that a row permits can be planned, and smaller ones cannot.
// Other backends may lack a mode, but accept no pair that the table does not
// have.
TEST_P(Errors, ProductsAreThoseOfTheSupportTable) {
  namespace table = te_table;
  for (const table::ProductRow &row : table::kProducts) {
    auto plan = [&](int64_t m, int64_t n, int64_t k, int32_t outType) {
      auto element = [](int32_t scheme) {
        return scheme >= TE_RT_NV_1X16 ? TE_RT_F4E2M1FN : TE_RT_F8E4M3FN;
      };
      const int32_t scaleMax = row.a >= TE_RT_NV_1X16 ? 448 : 0;
      return PlanFunction(TE_PLAN(scaled_matmul, m, n, k, element(row.a), row.a,
                                  element(row.b), row.b, outType, 0, 1, 1, 1, 0,
                                  scaleMax, scaleMax));
    };
    if (!row.exists()) {
      EXPECT_TRUE(refuses(TE_RT_UNSUPPORTED, plan(128, 128, 128, TE_RT_BF16),
                          {row.rule, "nearest supported"}));
      continue;
    }
    for (auto [size, name] :
         {std::pair(row.m, "'m'"), {row.n, "'n'"}, {row.k, "'k'"}}) {
      if (size == 1)
        continue;
      auto off = [&](const char *axis, int64_t multiple) {
        return multiple + (name == std::string(axis) ? multiple / 2 : 0);
      };
      EXPECT_TRUE(refuses(TE_RT_INVALID_ARGUMENT,
                          plan(off("'m'", row.m), off("'n'", row.n),
                               off("'k'", row.k), TE_RT_BF16),
                          {name, "smallest padded size"}));
    }
    if (GetParam() != "reference")
      continue;
    for (int32_t type : {TE_RT_F32, TE_RT_BF16, TE_RT_F16})
      EXPECT_TRUE(
          refuses(table::has(row.results, type) ? TE_RT_OK : TE_RT_UNSUPPORTED,
                  plan(row.m, row.n, row.k, type), {}))
          << table::quotedPair(table::schemeName(row.a),
                               table::schemeName(row.b));
  }
}

TEST_P(Errors, Grouped) {
  const te_rt_status invalid = TE_RT_INVALID_ARGUMENT;
  EXPECT_TRUE(refuses(invalid, TE_PLAN(grouped_round_sizes, 2, 0),
                      {"'multiple' to be one or more", "0"}));
  EXPECT_TRUE(refuses(invalid, TE_PLAN(grouped_amax, 48, 8, 2, 32, TE_RT_BF16),
                      {"grouped_amax", "'rows' to be a multiple of 32", "48"}));
  EXPECT_TRUE(refuses(invalid, TE_PLAN(grouped_amax, 48, 8, 0, 16, TE_RT_BF16),
                      {"'groups' to be one or more", "0"}));
  EXPECT_TRUE(refuses(invalid, TE_PLAN(bias_add, 4, 8, TE_RT_F8E5M2),
                      {"bias_add", "'type'"}));
  EXPECT_TRUE(refuses(invalid, TE_PLAN(copy_strided, 2, 4, 8, 32, 8, -1, 16),
                      {"copy_strided", "'y_part'", "-1"}));
  EXPECT_TRUE(refuses(invalid,
                      TE_PLAN(grouped_zero_padding, 48, 8, 2, 0, TE_RT_BF16),
                      {"'alignment' to be one or more", "0"}));
  EXPECT_TRUE(refuses(invalid,
                      TE_PLAN(grouped_dequantize, 64, 64, 2, 32, TE_RT_F8E5M2,
                              TE_RT_MX_1X32, 1, 0, 0, TE_RT_BF16),
                      {"'scheme' to be per_tensor or of nv", "mx_1x32"}));
  EXPECT_TRUE(refuses(
      invalid,
      TE_PLAN(grouped_quantize_nvfp4, 64, 64, 2, 8, TE_RT_BF16, 448, 0, 0, 0),
      {"'alignment' to be a multiple of 16", "8"}));
  const auto product = [](int64_t n, int64_t alignment, int32_t scheme) {
    return PlanFunction(TE_PLAN(grouped_scaled_matmul, 256, n, 64, 2, alignment,
                                TE_RT_F8E4M3FN, scheme, TE_RT_F8E4M3FN, scheme,
                                TE_RT_BF16, 0, 1, 0, 0, 0));
  };
  EXPECT_TRUE(refuses(
      invalid, product(64, 64, TE_RT_BLOCK_1X128),
      {"'alignment' to be a multiple of 128 for 'block_1x128'", "but got 64"}));
  EXPECT_TRUE(refuses(invalid, product(60, 16, TE_RT_PER_TENSOR),
                      {"'n' to be a multiple of 8", "60"}));
}

} // namespace
