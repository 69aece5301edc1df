//===- CastErrorTest.cpp - refusals of casts and of their scales ----------===//

#include "Conformance/Errors.h"

using namespace te::conformance;

namespace {

TEST_P(Errors, PaddedCasts) {
  EXPECT_TRUE(refuses(TE_RT_INVALID_ARGUMENT,
                      TE_PLAN(quantize_tensor, 1, 16, 16, 17, 16, TE_RT_BF16,
                              TE_RT_BF16, TE_RT_F8E4M3FN, 0, 0, 0.0f),
                      {"quantize_tensor", "'x_rows'", "'rows'", "17"}));
  EXPECT_TRUE(refuses(TE_RT_INVALID_ARGUMENT,
                      TE_PLAN(quantize_mx, 1, 32, 32, 32, 33, TE_RT_BF16,
                              TE_RT_F8E4M3FN, TE_RT_MX_1X32),
                      {"quantize_mx", "'x_cols'", "'cols'", "33"}));
}

TEST_P(Errors, RoundedCasts) {
  auto tensor = [](int32_t xType, int32_t type, int32_t fp8Type) {
    return TE_PLAN(quantize_tensor, 1, 16, 16, 16, 16, xType, type, fp8Type, 0,
                   0, 0.0f);
  };
  for (const auto &plan : {tensor(TE_RT_F16, TE_RT_BF16, TE_RT_F8E4M3FN),
                           tensor(TE_RT_F32, TE_RT_F16, TE_RT_F8E4M3FN),
                           tensor(TE_RT_F32, TE_RT_BF16, TE_RT_F8E5M2)})
    EXPECT_TRUE(
        refuses(TE_RT_INVALID_ARGUMENT, plan, {"quantize_tensor", "'x_type'"}));
  EXPECT_TRUE(
      refuses(TE_RT_INVALID_ARGUMENT,
              TE_PLAN(quantize_block, 1, 16, 16, 16, 16, TE_RT_F32, TE_RT_BF16,
                      TE_RT_F8E4M3FN, TE_RT_BLOCK_1X128, 0, 0.0f),
              {"quantize_block", "'x_type'"}));
  EXPECT_TRUE(refuses(TE_RT_INVALID_ARGUMENT,
                      TE_PLAN(amax, 16, TE_RT_F32, TE_RT_F16),
                      {"amax", "'x_type'"}));
}

TEST_P(Errors, Microscaled) {
  constexpr int32_t e4 = TE_RT_F8E4M3FN, e2 = TE_RT_F4E2M1FN;
  const auto invalid = TE_RT_INVALID_ARGUMENT;
  EXPECT_TRUE(refuses(
      invalid, TE_PLAN(quantize_mx, 1, 48, 64, 48, 64, TE_RT_BF16, e4, 3),
      {"quantize_mx", "'rows' to be a multiple of 32", "48"}));
  EXPECT_TRUE(refuses(
      invalid, TE_PLAN(quantize_mx, 1, 64, 16, 64, 16, TE_RT_BF16, e4, 3),
      {"'cols' to be a multiple of 32", "16"}));
  EXPECT_TRUE(refuses(
      invalid, TE_PLAN(quantize_mx, 1, 64, 64, 64, 64, TE_RT_BF16, e4, 5),
      {"mx_1x32 to mx_32x32", "nv_1x16"}));
  EXPECT_TRUE(refuses(
      invalid, TE_PLAN(quantize_mx, 1, 64, 64, 64, 64, TE_RT_BF16, e2, 3),
      {"'fp8_type'", "f8E4M3FN, f8E5M2", "f4E2M1FN"}));
  EXPECT_TRUE(
      refuses(invalid, TE_PLAN(swizzle_scales, 64, 64, 1, 1),
              {"swizzle_scales", "mx_1x32 to nv_16x16", "block_1x128"}));
  EXPECT_TRUE(refuses(invalid, TE_PLAN(swizzle_scales, 64, 8, 5, 1),
                      {"'cols' to be a multiple of 16", "8"}));
  EXPECT_TRUE(refuses(invalid, TE_PLAN(transpose_scaled, 1, 64, 64, 3),
                      {"exact transpose", "mx_1x32"}));
  EXPECT_TRUE(refuses(invalid, TE_PLAN(transpose_scaled, 1, 64, 64, 5),
                      {"exact transpose", "nv_1x16"}));
  auto dequantize = [](int32_t type, int32_t scheme, int32_t axis,
                       int32_t rowScaled, int32_t scaleMax) {
    return PlanFunction(TE_PLAN(dequantize, 1, 64, 64, type, scheme, axis,
                                rowScaled, scaleMax, TE_RT_BF16));
  };
  EXPECT_TRUE(refuses(invalid, dequantize(e4, TE_RT_NV_1X16, 1, 0, 448),
                      {"'fp8_type'", "f4E2M1FN", "f8E4M3FN"}));
  EXPECT_TRUE(refuses(invalid, dequantize(e2, TE_RT_NV_1X16, 1, 0, 0),
                      {"'scale_max' to be 448 or 256", "0"}));
  EXPECT_TRUE(refuses(invalid, dequantize(e4, TE_RT_MX_1X32, 1, 0, 448),
                      {"'scale_max' to be 0", "448"}));
  EXPECT_TRUE(refuses(invalid, dequantize(e2, TE_RT_NV_1X16, 0, 1, 448),
                      {"'row_scaled'", "nv_1x16 along axis 1", "1"}));
  EXPECT_TRUE(refuses(invalid, dequantize(e2, TE_RT_NV_16X16, 1, 1, 448),
                      {"'row_scaled'", "nv_1x16 along axis 1", "1"}));
}

TEST_P(Errors, CastsOfRows) {
  auto expect = [&](int64_t rows, int64_t whole, int64_t first, int32_t scheme,
                    int32_t pow2, std::initializer_list<const char *> parts) {
    EXPECT_TRUE(refuses(TE_RT_INVALID_ARGUMENT,
                        TE_PLAN(quantize_rows, rows, 64, whole, first,
                                TE_RT_BF16, TE_RT_F8E4M3FN, scheme, pow2, 0.0f),
                        parts));
  };
  expect(128, 512, 64, TE_RT_BLOCK_1X128, 1,
         {"'first_row' to be a multiple of 128", "64"});
  expect(256, 512, 384, TE_RT_BLOCK_1X128, 1,
         {"end within 'whole_rows' (512)", "384 and 256"});
  expect(64, 512, 128, TE_RT_BLOCK_1X128, 1,
         {"'rows' to be a multiple of 128", "(512)", "128 and 64"});
  expect(128, 512, 128, TE_RT_BLOCK_128X128, 1,
         {"per_tensor to block_1x128", "block_128x128"});
  expect(128, 512, 128, TE_RT_PER_TENSOR, 1,
         {"'pow2_scales' to be 0 for per_tensor", "1"});
}

TEST_P(Errors, Nvfp4) {
  struct Parameters {
    int64_t rows = 32, cols = 32;
    int32_t scheme = TE_RT_NV_1X16, rowScaled = 0, scaleMax = 448,
            fourOverSix = 0, stochastic = 0;
  };
  auto expect = [&](const Parameters &p,
                    std::initializer_list<const char *> parts) {
    EXPECT_TRUE(refuses(TE_RT_INVALID_ARGUMENT,
                        TE_PLAN(quantize_nvfp4, 1, p.rows, p.cols, p.rows,
                                p.cols, TE_RT_BF16, p.scheme, p.rowScaled,
                                p.scaleMax, p.fourOverSix, p.stochastic, 0),
                        parts));
  };
  expect({.rows = 24},
         {"quantize_nvfp4", "'rows' to be a multiple of 16", "24"});
  expect({.cols = 8}, {"'cols' to be a multiple of 16", "8"});
  expect({.scheme = TE_RT_BLOCK_1X128},
         {"'scheme' to be nv_1x16 to nv_16x16", "block_1x128"});
  expect({.rowScaled = 2}, {"'row_scaled' to be 0 or 1", "2"});
  expect({.scaleMax = 512}, {"'scale_max' to be 448 or 256", "512"});
  expect({.fourOverSix = 3}, {"'four_over_six'", "mse (2)", "3"});
  expect({.stochastic = -1}, {"'stochastic' to be 0 or 1", "-1"});
  expect({.scheme = TE_RT_NV_16X16, .rowScaled = 1},
         {"'row_scaled' to be 0 for nv_16x16"});
  expect({.rowScaled = 1, .stochastic = 1},
         {"'row_scaled' to be 0 with stochastic"});
  expect({.fourOverSix = 1, .stochastic = 1},
         {"'four_over_six' to be 0 with stochastic"});
  EXPECT_TRUE(refuses(TE_RT_INVALID_ARGUMENT, TE_PLAN(hadamard, 40, 8),
                      {"hadamard", "'rows' to be a multiple of 16", "40"}));
  EXPECT_TRUE(refuses(TE_RT_INVALID_ARGUMENT,
                      TE_PLAN(nvfp4_alpha, 1, 4, 448, 6),
                      {"'b_scale_max' to be 448 or 256", "6"}));
  EXPECT_TRUE(refuses(TE_RT_INVALID_ARGUMENT,
                      TE_PLAN(amax_rows, 4, 4, TE_RT_I32), {"'type'", "i32"}));
}

TEST_P(Errors, DelayedScaling) {
  auto count = [](int64_t count, int64_t entries, int64_t index, float limit) {
    return PlanFunction(
        TE_PLAN(count_nonfinite, count, TE_RT_BF16, entries, index, limit));
  };
  EXPECT_TRUE(refuses(TE_RT_INVALID_ARGUMENT, count(-1, 1, 0, 448),
                      {"count_nonfinite", "'count'", "-1"}));
  EXPECT_TRUE(refuses(TE_RT_INVALID_ARGUMENT, count(1, 0, 0, 448),
                      {"'entries'", "one or more", "0"}));
  EXPECT_TRUE(refuses(TE_RT_INVALID_ARGUMENT, count(1, 3, 3, 448),
                      {"'index'", "below 'entries'", "3 and 3"}));
  EXPECT_TRUE(
      refuses(TE_RT_INVALID_ARGUMENT, count(1, 3, -1, 448), {"'index'", "-1"}));
  EXPECT_TRUE(
      refuses(TE_RT_INVALID_ARGUMENT, count(1, 3, 0, -1), {"'limit'", "-1"}));
  auto stats = [](int64_t rows, int32_t fp8Type, int32_t scheme,
                  int32_t scaleMax) {
    return PlanFunction(TE_PLAN(tensor_stats, rows, 32, TE_RT_BF16, fp8Type,
                                scheme, 1, 0, scaleMax));
  };
  EXPECT_TRUE(refuses(TE_RT_INVALID_ARGUMENT,
                      stats(33, TE_RT_F8E5M2, TE_RT_MX_1X32, 0),
                      {"tensor_stats", "'rows'", "multiple of 32", "33"}));
  EXPECT_TRUE(refuses(TE_RT_INVALID_ARGUMENT,
                      stats(32, TE_RT_F8E5M2, TE_RT_NV_1X16, 448),
                      {"'fp8_type'", "f4E2M1FN", "f8E5M2"}));
  EXPECT_TRUE(refuses(TE_RT_INVALID_ARGUMENT,
                      stats(32, TE_RT_F4E2M1FN, TE_RT_NV_1X16, 0),
                      {"'scale_max'", "448 or 256", "0"}));
  auto update = [](int64_t slots, int64_t length, int32_t algorithm,
                   float fp8Max, int32_t margin) {
    return PlanFunction(TE_PLAN(delayed_scaling_update, slots, length,
                                algorithm, fp8Max, margin));
  };
  EXPECT_TRUE(refuses(TE_RT_INVALID_ARGUMENT, update(-1, 8, 0, 448, 0),
                      {"delayed_scaling_update", "'slots'", "-1"}));
  EXPECT_TRUE(refuses(TE_RT_INVALID_ARGUMENT, update(3, 0, 0, 448, 0),
                      {"'history_length' to be one or more", "0"}));
  EXPECT_TRUE(refuses(TE_RT_INVALID_ARGUMENT, update(3, 8, 2, 448, 0),
                      {"'algorithm'", "most_recent (1)", "2"}));
  EXPECT_TRUE(refuses(TE_RT_INVALID_ARGUMENT, update(3, 8, 0, -1, 0),
                      {"'fp8_max'", "-1"}));
  EXPECT_TRUE(refuses(TE_RT_INVALID_ARGUMENT, update(3, 8, 0, 448, 101),
                      {"'margin'", "-100 to 100", "101"}));
}

TEST_P(Errors, ShardsOfNoSense) {
  EXPECT_TRUE(
      refuses(TE_RT_INVALID_ARGUMENT,
              TE_PLAN(partial_amax, -1, 8, 8, 0, 128, 128, TE_RT_BF16, 1, 0),
              {"partial_amax", "'count' to be zero or more", "-1"}));
  EXPECT_TRUE(
      refuses(TE_RT_INVALID_ARGUMENT,
              TE_PLAN(partial_amax, 8, 8, 8, 0, 128, 128, TE_RT_BF16, 0, 0),
              {"'ranks' to be one or more", "0"}));
  EXPECT_TRUE(refuses(
      TE_RT_INVALID_ARGUMENT,
      TE_PLAN(partial_amax, 8, 8, 8, INT64_MIN, 128, 128, TE_RT_BF16, 1, 0),
      {"'start' to be from -2^60 to 2^60"}));
  EXPECT_TRUE(
      refuses(TE_RT_INVALID_ARGUMENT,
              TE_PLAN(quantize_shard, 8, 8, 8, 0, TE_RT_BF16, TE_RT_BF16,
                      TE_RT_BLOCK_128X128, 1, 0, 0.0f, 1, 0),
              {"quantize_shard", "'fp8_type'", "bf16"}));
  EXPECT_TRUE(
      refuses(TE_RT_INVALID_ARGUMENT,
              TE_PLAN(quantize_shard, 8, 8, 8, 0, TE_RT_BF16, TE_RT_F8E4M3FN,
                      TE_RT_BLOCK_128X128, 1, 2, 0.0f, 1, 0),
              {"'pow2_scales' to be 0 or 1", "2"}));
  EXPECT_TRUE(
      refuses(TE_RT_INVALID_ARGUMENT,
              TE_PLAN(quantize_shard, 8, 8, 8, 0, TE_RT_BF16, TE_RT_F8E4M3FN,
                      TE_RT_BLOCK_128X128, 1, 0, 0.0f, 2, 0),
              {"group 0 to have 2 ranks"}));
  EXPECT_TRUE(
      refuses(TE_RT_INVALID_ARGUMENT,
              TE_PLAN(partial_amax, 8, 8, 8, 0, 32, 128, TE_RT_BF16, 1, 0),
              {"'block_rows' x 'block_cols' to be 128x128, 1x32, 32x1, 32x32, "
               "1x16 or 16x16",
               "32x128"}));
  const auto shard = [](int64_t rows, int32_t scheme, int32_t axis,
                        int32_t pow2, float epsilon) {
    return PlanFunction(TE_PLAN(quantize_shard, 8, rows, 32, 0, TE_RT_BF16,
                                TE_RT_F8E4M3FN, scheme, axis, pow2, epsilon, 1,
                                0));
  };
  EXPECT_TRUE(refuses(TE_RT_INVALID_ARGUMENT,
                      shard(32, TE_RT_NV_1X16, 1, 0, 0.0f),
                      {"'scheme' to be block_128x128 to mx_32x32", "nv_1x16"}));
  EXPECT_TRUE(refuses(TE_RT_INVALID_ARGUMENT,
                      shard(48, TE_RT_MX_1X32, 1, 0, 0.0f),
                      {"'rows' to be a multiple of 32", "48"}));
  EXPECT_TRUE(refuses(TE_RT_INVALID_ARGUMENT,
                      shard(32, TE_RT_BLOCK_128X128, 0, 0, 0.0f),
                      {"'axis' to be 1 for block_128x128", "0"}));
  EXPECT_TRUE(refuses(TE_RT_INVALID_ARGUMENT,
                      shard(32, TE_RT_MX_1X32, 2, 0, 0.0f),
                      {"'axis' to be 0 or 1", "2"}));
  EXPECT_TRUE(refuses(TE_RT_INVALID_ARGUMENT,
                      shard(32, TE_RT_MX_1X32, 1, 1, 0.0f),
                      {"'pow2_scales' to be 0 for mx schemes", "1"}));
  EXPECT_TRUE(refuses(TE_RT_INVALID_ARGUMENT,
                      shard(32, TE_RT_MX_32X32, 1, 0, 0.5f),
                      {"'amax_epsilon' to be 0 for mx schemes", "0.5"}));
  const auto nvShard = [](int64_t count, int64_t rows, int64_t cols,
                          int64_t start, int32_t scheme, int32_t scaleMax) {
    return PlanFunction(TE_PLAN(quantize_nvfp4_shard, count, rows, cols, start,
                                TE_RT_BF16, scheme, scaleMax, 1, 0));
  };
  EXPECT_TRUE(refuses(TE_RT_INVALID_ARGUMENT,
                      nvShard(7, 32, 32, 0, TE_RT_NV_16X16, 448),
                      {"'count' to be a multiple of 2", "7"}));
  EXPECT_TRUE(refuses(TE_RT_INVALID_ARGUMENT,
                      nvShard(8, 32, 32, -3, TE_RT_NV_16X16, 448),
                      {"'start' to be a multiple of 2", "-3"}));
  EXPECT_TRUE(refuses(TE_RT_INVALID_ARGUMENT,
                      nvShard(8, 24, 32, 0, TE_RT_NV_1X16, 448),
                      {"'rows' to be a multiple of 16", "24"}));
  EXPECT_TRUE(refuses(TE_RT_INVALID_ARGUMENT,
                      nvShard(8, 32, 40, 0, TE_RT_NV_1X16, 448),
                      {"'cols' to be a multiple of 16", "40"}));
  EXPECT_TRUE(refuses(TE_RT_INVALID_ARGUMENT,
                      nvShard(8, 32, 32, 0, TE_RT_MX_1X32, 448),
                      {"'scheme' to be nv_1x16 to nv_16x16", "mx_1x32"}));
  EXPECT_TRUE(refuses(TE_RT_INVALID_ARGUMENT,
                      nvShard(8, 32, 32, 0, TE_RT_NV_1X16, 300),
                      {"'scale_max' to be 448 or 256", "300"}));
  EXPECT_TRUE(refuses(TE_RT_INVALID_ARGUMENT,
                      TE_PLAN(quantize_nvfp4_shard, 8, 32, 32, 0,
                              TE_RT_F8E4M3FN, TE_RT_NV_1X16, 448, 1, 0),
                      {"quantize_nvfp4_shard", "'type'"}));
}

} // namespace
