//===- LayerErrorTest.cpp - refusals of layers and collectives ------------===//

#include "Conformance/Errors.h"
#include "Conformance/Oracle.h"

#include <cmath>

using namespace te::conformance;

namespace {

TEST_P(Errors, Parameters) {
  EXPECT_TRUE(refuses(TE_RT_INVALID_ARGUMENT,
                      TE_PLAN(amax, 4, TE_RT_I32, TE_RT_I32),
                      {"'x_type'", "f32, bf16, f16", "i32"}));
  EXPECT_TRUE(refuses(TE_RT_INVALID_ARGUMENT,
                      TE_PLAN(amax, -1, TE_RT_F32, TE_RT_F32),
                      {"'count'", "-1"}));
  EXPECT_TRUE(refuses(TE_RT_INVALID_ARGUMENT,
                      TE_PLAN(transpose_scaled, 1, 8, 8, TE_RT_BLOCK_1X128),
                      {"exact transpose", "block_1x128"}));
  EXPECT_TRUE(refuses(TE_RT_INVALID_ARGUMENT,
                      TE_PLAN(activation, 8, 8, TE_RT_BF16, 99, TE_CLAMP),
                      {"'kind'", "99"}));
  EXPECT_TRUE(refuses(TE_RT_INVALID_ARGUMENT,
                      TE_PLAN(activation, 8, 8, TE_RT_BF16,
                              TE_RT_CLAMPED_SWIGLU, -1.0f, 1.0f, 1.0f),
                      {"'limit'", "-1"}));
  EXPECT_TRUE(refuses(TE_RT_INVALID_ARGUMENT,
                      TE_PLAN(activation_backward, 8, 8, TE_RT_BF16,
                              TE_RT_CLAMPED_SWIGLU, 1.0f, INFINITY, 1.0f),
                      {"'alpha' to be finite", "inf"}));
  for (int64_t matrices : {0, 4097})
    EXPECT_TRUE(refuses(
        TE_RT_INVALID_ARGUMENT,
        TE_PLAN(transpose_scaled, matrices, 8, 8, TE_RT_PER_TENSOR),
        {"'matrices' to be from 1 to 4096", std::to_string(matrices).c_str()}));
  EXPECT_TRUE(
      refuses(TE_RT_INVALID_ARGUMENT,
              TE_PLAN(quantize_tensor, 1, INT64_MAX / 2, 8, INT64_MAX / 2, 8,
                      TE_RT_BF16, TE_RT_BF16, TE_RT_F8E4M3FN, 0, 0, 0.0f),
              {"'rows' and 'cols'"}));
}

TEST_P(Errors, AttentionSizes) {
  auto attention = [](int64_t tokens, int64_t sequence, int64_t heads,
                      int64_t kvHeads, int64_t headDim, float scale,
                      int64_t windowLeft = -1, int32_t causal = 1,
                      float softcap = 0, int32_t hasSinks = 0,
                      int64_t boundaries = 0) {
    return TE_PLAN(attention, tokens, sequence, heads, kvHeads, headDim,
                   headDim, TE_RT_BF16, causal, windowLeft, scale, softcap,
                   hasSinks, boundaries, 0.0f, 0);
  };
  EXPECT_TRUE(refuses(TE_RT_INVALID_ARGUMENT, attention(8, 0, 4, 2, 64, 1),
                      {"attention", "'sequence' to be one or more", "0"}));
  EXPECT_TRUE(refuses(TE_RT_INVALID_ARGUMENT, attention(8, 3, 4, 2, 64, 1),
                      {"'tokens' to be a multiple of 3", "8"}));
  EXPECT_TRUE(refuses(TE_RT_INVALID_ARGUMENT, attention(8, 4, 4, 3, 64, 1),
                      {"'heads' to be a multiple of 3", "4"}));
  EXPECT_TRUE(refuses(TE_RT_INVALID_ARGUMENT, attention(8, 4, 4, 0, 64, 1),
                      {"'kv_heads' to be one or more", "0"}));
  EXPECT_TRUE(refuses(TE_RT_INVALID_ARGUMENT,
                      attention(8, 4, 4, 2, 64, __builtin_inff()),
                      {"'scale' to be finite", "inf"}));
  EXPECT_TRUE(refuses(TE_RT_INVALID_ARGUMENT, attention(8, 4, 4, 2, 64, 1, -2),
                      {"'window_left' to be -1, or zero or more", "-2"}));
  EXPECT_TRUE(refuses(TE_RT_INVALID_ARGUMENT,
                      attention(8, 4, 4, 2, 64, 1, 2, 0),
                      {"'window_left' to be -1", "with 'causal'", "2"}));
  for (float cap : {-1.0f, __builtin_inff(), __builtin_nanf("")})
    EXPECT_TRUE(refuses(TE_RT_INVALID_ARGUMENT,
                        attention(8, 4, 4, 2, 64, 1, -1, 1, cap),
                        {"'softcap' to be finite and zero or more"}));
  EXPECT_TRUE(
      refuses(TE_RT_INVALID_ARGUMENT,
              TE_PLAN(attention_backward, 8, 3, 4, 2, 64, 64, TE_RT_BF16, 0, -1,
                      1.0f, 0.0f, 1, 0, 0.0f, 0),
              {"attention_backward", "'tokens' to be a multiple of 3", "8"}));
  EXPECT_TRUE(refuses(TE_RT_INVALID_ARGUMENT,
                      attention(8, 4, 4, 2, 64, 1, -1, 1, 0, 2),
                      {"'has_sinks' to be 0 or 1", "2"}));
  for (float dropout : {-0.5f, 1.0f, __builtin_nanf("")})
    EXPECT_TRUE(refuses(TE_RT_INVALID_ARGUMENT,
                        TE_PLAN(attention, 8, 4, 4, 2, 64, 64, TE_RT_BF16, 1,
                                -1, 1.0f, 0.0f, 0, 0, dropout, 0),
                        {"'dropout' to be"}));
  auto sinkGrad = [](int64_t tokens, int64_t sequence, int64_t heads,
                     int64_t headDim, int32_t type, int64_t boundaries = 0) {
    return TE_PLAN(attention_sink_grad, tokens, sequence, heads, headDim, type,
                   boundaries);
  };
  // 'sequence' bounds the length of documents.
  const std::initializer_list<const char *> tooLong = {
      "'sequence' to be at most 'tokens' (8) with 'boundaries'", "9"};
  EXPECT_TRUE(refuses(TE_RT_INVALID_ARGUMENT,
                      attention(8, 9, 4, 2, 64, 1, -1, 1, 0, 0, 3), tooLong));
  EXPECT_TRUE(refuses(TE_RT_INVALID_ARGUMENT,
                      TE_PLAN(attention_backward, 8, 9, 4, 2, 64, 64,
                              TE_RT_BF16, 0, -1, 1.0f, 0.0f, 1, 3, 0.0f, 0),
                      tooLong));
  EXPECT_TRUE(refuses(TE_RT_INVALID_ARGUMENT,
                      sinkGrad(8, 9, 4, 64, TE_RT_BF16, 3), tooLong));
  EXPECT_TRUE(refuses(TE_RT_INVALID_ARGUMENT,
                      attention(8, 8, 4, 2, 64, 1, -1, 1, 0, 0, -1),
                      {"'boundaries' to be zero or more", "-1"}));
  EXPECT_TRUE(
      refuses(TE_RT_INVALID_ARGUMENT, sinkGrad(8, 3, 4, 64, TE_RT_BF16),
              {"attention_sink_grad", "'tokens' to be a multiple of 3", "8"}));
  EXPECT_TRUE(refuses(TE_RT_INVALID_ARGUMENT, sinkGrad(8, 4, 0, 64, TE_RT_BF16),
                      {"'heads' to be one or more", "0"}));
  EXPECT_TRUE(refuses(TE_RT_INVALID_ARGUMENT,
                      sinkGrad(8, 4, 4, 64, TE_RT_F8E4M3FN), {"'type'"}));
}

// A launch with sinks requires their buffer.
TEST_P(Errors, AttentionWithoutItsSinks) {
  const std::vector<uint16_t> x(64 * 64);
  std::vector<uint16_t> o(64 * 64);
  std::vector<float> lse(64);
  EXPECT_EQ(device().tryRun(TE_PLAN(attention, 64, 64, 1, 1, 64, 64, TE_RT_BF16,
                                    1, -1, 1.0f, 0.0f, 1, 0, 0.0f, 0),
                            {in(x), in(x), in(x), none(), none(), none(),
                             out(o), out(lse)}),
            TE_RT_INVALID_ARGUMENT);
  EXPECT_TRUE(lastErrorHas({"'sinks' for 'has_sinks' 1, but got null"}));
  EXPECT_EQ(device().tryRun(TE_PLAN(attention, 64, 64, 1, 1, 64, 64, TE_RT_BF16,
                                    1, -1, 1.0f, 0.0f, 0, 0, 0.5f, 0),
                            {in(x), in(x), in(x), none(), none(), none(),
                             out(o), out(lse)}),
            TE_RT_INVALID_ARGUMENT);
  EXPECT_TRUE(lastErrorHas({"'rng' for 'dropout' 0.5", "but got null"}));
}

// So do launches with documents and with positions.
TEST_P(Errors, AttentionAndRopeWithoutTheirOptionalBuffers) {
  const std::vector<uint16_t> x(64 * 64);
  const std::vector<float> lse(64), sinks(1), table(64);
  std::vector<uint16_t> y(64 * 64);
  std::vector<float> dsinks(1);
  EXPECT_EQ(device().tryRun(
                TE_PLAN(attention_sink_grad, 64, 64, 1, 64, TE_RT_BF16, 3),
                {in(x), in(x), in(lse), in(sinks), none(), out(dsinks)}),
            TE_RT_INVALID_ARGUMENT);
  EXPECT_TRUE(lastErrorHas({"'documents' for 'boundaries' 3, but got null"}));
  EXPECT_EQ(
      device().tryRun(TE_PLAN(rope, 64, 1, 64, 2, 64, TE_RT_BF16, 0, 0, 1),
                      {in(x), in(table), in(table), none(), out(y)}),
      TE_RT_INVALID_ARGUMENT);
  EXPECT_TRUE(lastErrorHas({"'positions' for 'has_positions' 1"}));
}

TEST_P(Errors, RopeSizes) {
  auto rope = [](int64_t tokens, int64_t heads, int64_t headDim,
                 int64_t sequence, int64_t rotaryDim) {
    return TE_PLAN(rope, tokens, heads, headDim, sequence, rotaryDim,
                   TE_RT_BF16, 0, 0, 0);
  };
  EXPECT_TRUE(refuses(TE_RT_INVALID_ARGUMENT, rope(8, 0, 4, 4, 4),
                      {"rope", "'heads' to be one or more", "0"}));
  EXPECT_TRUE(refuses(TE_RT_INVALID_ARGUMENT, rope(8, 2, 4, 0, 4),
                      {"'sequence'", "0"}));
  EXPECT_TRUE(refuses(TE_RT_INVALID_ARGUMENT, rope(8, 2, 4, 3, 4),
                      {"'tokens' to be a multiple of 3", "8"}));
  EXPECT_TRUE(refuses(TE_RT_INVALID_ARGUMENT, rope(8, 2, 4, 4, 3),
                      {"'rotary_dim' to be a multiple of 2", "3"}));
  EXPECT_TRUE(refuses(TE_RT_INVALID_ARGUMENT, rope(8, 2, 4, 4, 6),
                      {"'rotary_dim' to be at most 'head_dim' (4)", "6"}));
  EXPECT_TRUE(refuses(TE_RT_INVALID_ARGUMENT,
                      rope(8, int64_t{1} << 40, int64_t{1} << 40, 4, 4),
                      {"'heads' and 'head_dim' to fit in memory"}));
}

TEST_P(Errors, Moe) {
  const te_rt_status invalid = TE_RT_INVALID_ARGUMENT;
  EXPECT_TRUE(
      refuses(invalid, TE_PLAN(router_topk, 4, 8, 9, TE_RT_F32, 0, 0, 1, 1),
              {"router_topk", "'k' to be at most 'experts'", "9 of 8"}));
  EXPECT_TRUE(refuses(invalid,
                      TE_PLAN(router_topk, 4, 8, 2, TE_RT_F32, 0, 0, 3, 1),
                      {"'experts' to be a multiple of 3", "8"}));
  EXPECT_TRUE(refuses(invalid,
                      TE_PLAN(router_topk, 4, 8, 2, TE_RT_F32, 0, 0, 8, 4),
                      {"'groups' of two or more 'experts'", "8 of 8"}));
  EXPECT_TRUE(refuses(invalid,
                      TE_PLAN(router_topk, 4, 8, 2, TE_RT_F32, 0, 0, 2, 3),
                      {"'chosen_groups' to be at most 'groups'", "3 of 2"}));
  EXPECT_TRUE(
      refuses(invalid, TE_PLAN(router_topk, 4, 8, 5, TE_RT_F32, 0, 0, 4, 2),
              {"'k' to be at most the experts of 'chosen_groups'", "5 of 4"}));
  EXPECT_TRUE(refuses(invalid,
                      TE_PLAN(router_topk_backward, 4, 8, 2, TE_RT_F32, 2, 0),
                      {"'score' to be 0 or 1", "2"}));
  EXPECT_TRUE(refuses(invalid, TE_PLAN(moe_route, 4, 2, 3, 40, 16, 0, 0),
                      {"'rows' to be a multiple of 16", "40"}));
  EXPECT_TRUE(refuses(invalid, TE_PLAN(moe_route, 4, 2, 3, 96, 16, 24, 1),
                      {"'capacity' to be a multiple of 16", "24"}));
  EXPECT_TRUE(refuses(invalid, TE_PLAN(moe_route, 4, 2, 3, 64, 16, 32, 1),
                      {"'rows' of padded groups to be 'groups' times "
                       "'capacity'",
                       "64 of 3 times 32"}));
  EXPECT_TRUE(refuses(
      invalid, TE_PLAN(moe_permute, 1ll << 20, 1 << 12, 32, 8, TE_RT_F32),
      {"'tokens' times 'k' to be below 2^31"}));
}

TEST_P(Errors, CollectivesOfNoSense) {
  EXPECT_TRUE(refuses(TE_RT_INVALID_ARGUMENT, TE_PLAN(all_gather, -1, 1, 0),
                      {"all_gather", "'bytes' to be zero or more", "-1"}));
  EXPECT_TRUE(refuses(TE_RT_INVALID_ARGUMENT, TE_PLAN(all_gather, 1, 0, 0),
                      {"'ranks' to be one or more", "0"}));
  EXPECT_TRUE(refuses(TE_RT_INVALID_ARGUMENT,
                      TE_PLAN(all_gather, INT64_MAX / 2, 3, 0),
                      {"'bytes' and 'ranks' to fit in memory"}));
  EXPECT_TRUE(
      refuses(TE_RT_INVALID_ARGUMENT, TE_PLAN(all_to_all, 1, -4, 1, 0),
              {"all_to_all", "'scale_bytes' to be zero or more", "-4"}));
  EXPECT_TRUE(refuses(TE_RT_INVALID_ARGUMENT,
                      TE_PLAN(all_to_all, 1, INT64_MAX / 2, 3, 0),
                      {"'scale_bytes' and 'ranks' to fit in memory"}));
  for (int32_t type : {TE_RT_F8E4M3FN, TE_RT_I32}) {
    EXPECT_TRUE(refuses(TE_RT_INVALID_ARGUMENT,
                        TE_PLAN(all_reduce_sum, 4, type, 1, 0),
                        {"all_reduce_sum", "'type' to be one of f32, bf16"}));
    EXPECT_TRUE(refuses(
        TE_RT_INVALID_ARGUMENT, TE_PLAN(reduce_scatter_sum, 4, type, 1, 0),
        {"reduce_scatter_sum", "'type' to be one of f32, bf16"}));
  }
  EXPECT_TRUE(refuses(TE_RT_INVALID_ARGUMENT,
                      TE_PLAN(reduce_scatter_sum, 4, TE_RT_F32, -2, 0),
                      {"'ranks' to be one or more", "-2"}));
}

} // namespace
