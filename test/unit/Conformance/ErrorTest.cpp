//===- ErrorTest.cpp - what the runtime refuses, and in which words -------===//

#include "Conformance/Harness.h"
#include "Conformance/Oracle.h"
#include "TEDialect/Support/SupportTable.h"

#include <cmath>

using namespace te::conformance;
using testing::AssertionFailure;
using testing::AssertionResult;
using testing::AssertionSuccess;

namespace {

AssertionResult lastErrorHas(std::initializer_list<const char *> parts) {
  const std::string text = te_rt_last_error();
  for (const char *part : parts)
    if (text.find(part) == std::string::npos)
      return AssertionFailure() << "no \"" << part << "\" in: " << text;
  return AssertionSuccess();
}

te_rt_status loadNothing(te_rt_instance *) { return TE_RT_OK; }
void stepNothing(te_rt_instance *, char *, void *const *) {}

class Errors : public BackendTest {
protected:
  te_rt_status create(const te_rt_module &module) {
    te_rt_instance *instance = nullptr;
    const te_rt_status status =
        te_rt_instance_create(device().context, &module, &instance);
    EXPECT_EQ(instance == nullptr, status != TE_RT_OK);
    const std::string message = te_rt_last_error();
    te_rt_instance_destroy(instance);
    return status;
  }
  te_rt_module module(int32_t plans, te_rt_status (*load)(te_rt_instance *),
                      void (*step)(te_rt_instance *, char *,
                                   void *const *) = stepNothing) {
    return {TE_RT_MODULE_MAGIC,
            TE_RT_VERSION,
            0,
            plans,
            0,
            load,
            step,
            nullptr,
            nullptr,
            0,
            0};
  }
  /// Plans one kernel and expects a refusal whose text has `parts`.
  AssertionResult refuses(te_rt_status code, const PlanFunction &plan,
                          std::initializer_list<const char *> parts) {
    static const PlanFunction *current;
    current = &plan;
    const te_rt_status status =
        create(module(1, [](te_rt_instance *i) { return (*current)(i, 0); }));
    if (status != code)
      return AssertionFailure() << "expected status " << code << ", but got "
                                << status << ": " << te_rt_last_error();
    return lastErrorHas(parts);
  }
};

TEST_P(Errors, BadMagicNamesBothValues) {
  te_rt_module m = module(0, loadNothing);
  m.magic = 0x12345678;
  EXPECT_EQ(create(m), TE_RT_INVALID_ARGUMENT);
  EXPECT_TRUE(lastErrorHas({"'magic'", "0x4d524554", "0x12345678"}));
}

TEST_P(Errors, BadVersionNamesBothValues) {
  te_rt_module m = module(0, loadNothing);
  m.version = TE_RT_VERSION + 7;
  EXPECT_EQ(create(m), TE_RT_INVALID_ARGUMENT);
  EXPECT_TRUE(lastErrorHas({"'version'", std::to_string(TE_RT_VERSION).c_str(),
                            std::to_string(TE_RT_VERSION + 7).c_str()}));
}

TEST_P(Errors, AttentionSizes) {
  auto attention = [](int64_t tokens, int64_t sequence, int64_t heads,
                      int64_t kvHeads, int64_t headDim, float scale,
                      int64_t windowLeft = -1, int32_t causal = 1,
                      float softcap = 0, int32_t hasSinks = 0) {
    return TE_PLAN(attention, tokens, sequence, heads, kvHeads, headDim,
                   TE_RT_BF16, causal, windowLeft, scale, softcap, hasSinks);
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
              TE_PLAN(attention_backward, 8, 3, 4, 2, 64, TE_RT_BF16, 0, -1,
                      1.0f, 0.0f, 1),
              {"attention_backward", "'tokens' to be a multiple of 3", "8"}));
  EXPECT_TRUE(refuses(TE_RT_INVALID_ARGUMENT,
                      attention(8, 4, 4, 2, 64, 1, -1, 1, 0, 2),
                      {"'has_sinks' to be 0 or 1", "2"}));
  auto sinkGrad = [](int64_t tokens, int64_t sequence, int64_t heads,
                     int64_t headDim, int32_t type) {
    return TE_PLAN(attention_sink_grad, tokens, sequence, heads, headDim, type);
  };
  EXPECT_TRUE(
      refuses(TE_RT_INVALID_ARGUMENT, sinkGrad(8, 3, 4, 64, TE_RT_BF16),
              {"attention_sink_grad", "'tokens' to be a multiple of 3", "8"}));
  EXPECT_TRUE(refuses(TE_RT_INVALID_ARGUMENT, sinkGrad(8, 4, 0, 64, TE_RT_BF16),
                      {"'heads' to be one or more", "0"}));
  EXPECT_TRUE(refuses(TE_RT_INVALID_ARGUMENT,
                      sinkGrad(8, 4, 4, 64, TE_RT_F8E4M3FN), {"'type'"}));
}

// A launch with sinks wants them.
TEST_P(Errors, AttentionWithoutItsSinks) {
  const std::vector<uint16_t> x(64 * 64);
  std::vector<uint16_t> o(64 * 64);
  std::vector<float> lse(64);
  EXPECT_EQ(device().tryRun(TE_PLAN(attention, 64, 64, 1, 1, 64, TE_RT_BF16, 1,
                                    -1, 1.0f, 0.0f, 1),
                            {in(x), in(x), in(x), none(), out(o), out(lse)}),
            TE_RT_INVALID_ARGUMENT);
  EXPECT_TRUE(lastErrorHas({"'sinks' for 'has_sinks' 1, but got null"}));
}

TEST_P(Errors, RopeSizes) {
  auto rope = [](int64_t tokens, int64_t heads, int64_t headDim,
                 int64_t sequence, int64_t rotaryDim) {
    return TE_PLAN(rope, tokens, heads, headDim, sequence, rotaryDim,
                   TE_RT_BF16, 0, 0);
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

TEST_P(Errors, ModuleFields) {
  te_rt_module m = module(-1, loadNothing);
  EXPECT_EQ(create(m), TE_RT_INVALID_ARGUMENT);
  EXPECT_TRUE(lastErrorHas({"'num_plans'", "-1"}));
  m = module(0, nullptr);
  EXPECT_EQ(create(m), TE_RT_INVALID_ARGUMENT);
  EXPECT_TRUE(lastErrorHas({"'load'", "null"}));
  m = module(0, loadNothing);
  m.arena_bytes = INT64_MAX / 2;
  EXPECT_EQ(create(m), TE_RT_OUT_OF_MEMORY);
}

TEST_P(Errors, SlotOutOfRange) {
  for (int32_t slot : {-1, 2, 100}) {
    static int32_t wanted;
    wanted = slot;
    EXPECT_EQ(create(module(2,
                            [](te_rt_instance *i) {
                              return te_rt_plan_copy(i, wanted, 4);
                            })),
              TE_RT_INVALID_ARGUMENT);
    EXPECT_TRUE(
        lastErrorHas({"copy", "'num_plans' 2", std::to_string(slot).c_str()}));
  }
}

TEST_P(Errors, SlotPlannedTwiceOrNever) {
  EXPECT_EQ(create(module(1,
                          [](te_rt_instance *i) {
                            te_rt_plan_copy(i, 0, 4);
                            return te_rt_plan_amax(i, 0, 4, TE_RT_F32);
                          })),
            TE_RT_INVALID_ARGUMENT);
  EXPECT_TRUE(lastErrorHas({"amax (slot 0)", "'copy'"}));
  EXPECT_EQ(create(module(
                2, [](te_rt_instance *i) { return te_rt_plan_copy(i, 0, 4); })),
            TE_RT_INVALID_ARGUMENT);
  EXPECT_TRUE(lastErrorHas({"no plan for slot 1 of 2"}));
}

TEST_P(Errors, FirstFailureOfALoadIsReported) {
  EXPECT_EQ(create(module(1,
                          [](te_rt_instance *i) {
                            te_rt_plan_copy(i, 0, -4);
                            te_rt_plan_copy(i, 5, 4);
                            return TE_RT_OK;
                          })),
            TE_RT_INVALID_ARGUMENT);
  EXPECT_TRUE(lastErrorHas({"'bytes'", "-4"}));
}

TEST_P(Errors, NullRequiredBufferIsNamed) {
  std::vector<float> amax(1), x(4);
  EXPECT_EQ(device().tryRun(TE_PLAN(amax, 4, TE_RT_F32), {in(x), none()}),
            TE_RT_INVALID_ARGUMENT);
  EXPECT_NE(device().message.find("amax (slot 0): required buffer 'amax'"),
            std::string::npos)
      << device().message;
  EXPECT_EQ(device().tryRun(TE_PLAN(amax, 4, TE_RT_F32), {none(), out(amax)}),
            TE_RT_INVALID_ARGUMENT);
  EXPECT_NE(device().message.find("'x'"), std::string::npos);
}

TEST_P(Errors, FailedLaunchStopsTheStep) {
  static void *buffers[2];
  static te_rt_status second;
  te_rt_instance *instance = nullptr;
  const te_rt_module m = module(
      1, [](te_rt_instance *i) { return te_rt_plan_copy(i, 0, 4); },
      [](te_rt_instance *i, char *, void *const *) {
        te_rt_launch(i, 3, buffers);
        second = te_rt_launch(i, 0, buffers);
      });
  ASSERT_EQ(te_rt_instance_create(device().context, &m, &instance), TE_RT_OK);
  for (int run = 0; run < 2; ++run) {
    second = TE_RT_OK;
    EXPECT_EQ(te_rt_instance_run(instance, nullptr, nullptr),
              TE_RT_INVALID_ARGUMENT);
    EXPECT_TRUE(lastErrorHas({"te_rt_launch", "'num_plans' 1", "3"}));
    EXPECT_EQ(second, TE_RT_INVALID_ARGUMENT);
  }
  EXPECT_EQ(te_rt_launch(instance, 0, buffers), TE_RT_INVALID_ARGUMENT);
  EXPECT_EQ(te_rt_plan_copy(instance, 0, 4), TE_RT_INVALID_ARGUMENT);
  te_rt_instance_destroy(instance);
}

TEST_P(Errors, NullArgumentIsNumbered) {
  te_rt_module m = module(0, loadNothing);
  m.num_arguments = 2;
  te_rt_instance *instance = nullptr;
  ASSERT_EQ(te_rt_instance_create(device().context, &m, &instance), TE_RT_OK);
  int x;
  void *arguments[] = {&x, nullptr};
  for (auto status : {te_rt_instance_run(instance, arguments, nullptr),
                      te_rt_instance_run_graph(instance, arguments)})
    EXPECT_EQ(status, TE_RT_INVALID_ARGUMENT);
  EXPECT_TRUE(lastErrorHas({"argument 1 of 2 is null"}));
  te_rt_instance_destroy(instance);
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

// The table's rows are the runtime's behaviour: pair by pair, the smallest
// sizes that a row allows are planned, and sizes beside them are not. Other
// backends may lack a mode, but take no pair that the table refuses.
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

TEST_P(Errors, Parameters) {
  EXPECT_TRUE(refuses(TE_RT_INVALID_ARGUMENT, TE_PLAN(amax, 4, TE_RT_I32),
                      {"'type'", "f32, bf16, f16", "i32"}));
  EXPECT_TRUE(refuses(TE_RT_INVALID_ARGUMENT, TE_PLAN(amax, -1, TE_RT_F32),
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
  EXPECT_TRUE(refuses(
      TE_RT_INVALID_ARGUMENT,
      TE_PLAN(quantize_tensor, 1, INT64_MAX / 2, 8, TE_RT_BF16, TE_RT_F8E4M3FN),
      {"'rows' and 'cols'"}));
}

TEST_P(Errors, Microscaled) {
  constexpr int32_t e4 = TE_RT_F8E4M3FN, e2 = TE_RT_F4E2M1FN;
  const auto invalid = TE_RT_INVALID_ARGUMENT;
  EXPECT_TRUE(refuses(invalid,
                      TE_PLAN(quantize_mx, 1, 48, 64, TE_RT_BF16, e4, 3),
                      {"quantize_mx", "'rows' to be a multiple of 32", "48"}));
  EXPECT_TRUE(refuses(invalid,
                      TE_PLAN(quantize_mx, 1, 64, 16, TE_RT_BF16, e4, 3),
                      {"'cols' to be a multiple of 32", "16"}));
  EXPECT_TRUE(refuses(invalid,
                      TE_PLAN(quantize_mx, 1, 64, 64, TE_RT_BF16, e4, 5),
                      {"mx_1x32 to mx_32x32", "nv_1x16"}));
  EXPECT_TRUE(refuses(invalid,
                      TE_PLAN(quantize_mx, 1, 64, 64, TE_RT_BF16, e2, 3),
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

TEST_P(Errors, Moe) {
  const te_rt_status invalid = TE_RT_INVALID_ARGUMENT;
  EXPECT_TRUE(
      refuses(invalid, TE_PLAN(router_topk, 4, 8, 9, TE_RT_F32, 0, 0),
              {"router_topk", "'k' to be at most 'experts'", "9 of 8"}));
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

TEST_P(Errors, Nvfp4) {
  struct Parameters {
    int64_t rows = 32, cols = 32;
    int32_t scheme = TE_RT_NV_1X16, rowScaled = 0, scaleMax = 448,
            fourOverSix = 0, stochastic = 0;
  };
  auto expect = [&](const Parameters &p,
                    std::initializer_list<const char *> parts) {
    EXPECT_TRUE(refuses(TE_RT_INVALID_ARGUMENT,
                        TE_PLAN(quantize_nvfp4, 1, p.rows, p.cols, TE_RT_BF16,
                                p.scheme, p.rowScaled, p.scaleMax,
                                p.fourOverSix, p.stochastic, 0),
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

TEST(Context, UnknownBackend) {
  te_rt_context *context = nullptr;
  EXPECT_EQ(te_rt_context_create("metal", &context), TE_RT_INVALID_ARGUMENT);
  EXPECT_TRUE(lastErrorHas({"'reference', 'cuda' or 'auto'", "'metal'"}));
  EXPECT_EQ(context, nullptr);
  EXPECT_EQ(te_rt_context_create(nullptr, &context), TE_RT_INVALID_ARGUMENT);
}

TEST(Context, CudaWithoutGpuSaysWhatIsMissing) {
  Device &cuda = deviceOf("cuda");
  if (cuda.status == TE_RT_OK)
    GTEST_SKIP() << "there is a GPU";
  EXPECT_EQ(cuda.status, TE_RT_UNSUPPORTED);
  EXPECT_GT(cuda.message.size(), 30u) << cuda.message;
  Device automatic("auto");
  ASSERT_EQ(automatic.status, TE_RT_OK);
  EXPECT_STREQ(te_rt_context_backend(automatic.context), "reference");
  EXPECT_NE(std::string(te_rt_context_description(automatic.context))
                .find("cuda is not used"),
            std::string::npos);
}

TE_FOR_EACH_BACKEND(Errors);

} // namespace
