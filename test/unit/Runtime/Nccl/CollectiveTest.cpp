//===- CollectiveTest.cpp - the maximum over several GPUs, exactly --------===//
//
// Every rank computes the values of all ranks and the expected results. A
// maximum does not round, so results are compared bit for bit. Values have both
// signs and all magnitudes, from subnormals to infinities. NaN and -0 have no
// defined result.
//
//===----------------------------------------------------------------------===//

#include "Runtime/Nccl/Ranks.h"

#include <algorithm>
#include <bit>
#include <cfloat>
#include <cmath>
#include <cstdio>

using namespace te::ranks;

namespace {

using Collective = RanksTest;

// NCCL uses other algorithms for small arrays than for large ones.
constexpr int64_t kCounts[] = {1, 2, 3, 127, 4096, 1000003};

/// Values that differ for each rank and round, but not between runs.
std::vector<float> valuesOf(int rank, int round, int64_t count) {
  uint32_t state = 0x9e3779b9u * static_cast<uint32_t>(rank + 1) +
                   0x85ebca6bu * static_cast<uint32_t>(round + 1);
  std::vector<float> values(static_cast<size_t>(count));
  for (float &value : values) {
    state = state * 1664525u + 1013904223u;
    const uint32_t random = state >> 8; // 24 good bits
    const float sign = random & 1 ? -1.0f : 1.0f;
    switch ((random >> 1) % 8) {
    case 0:
      value = 0;
      break;
    case 1:
      value = sign * std::bit_cast<float>((random >> 4) + 1); // subnormal
      break;
    case 2:
      value = sign * FLT_MAX;
      break;
    case 3:
      // Infinities are rare, because they exceed all other values.
      value = (random >> 4) % 16 == 0 ? sign * INFINITY : sign;
      break;
    default:
      value = sign * std::ldexp(static_cast<float>((random >> 4) + 1),
                                static_cast<int>((random >> 4) % 200) - 120);
    }
  }
  return values;
}

std::vector<float> maximumOf(int round, int64_t count) {
  std::vector<float> maximum = valuesOf(0, round, count);
  for (int rank = 1; rank < numRanks(); ++rank) {
    const std::vector<float> values = valuesOf(rank, round, count);
    for (size_t i = 0; i < values.size(); ++i)
      maximum[i] = std::max(maximum[i], values[i]);
  }
  return maximum;
}

testing::AssertionResult sameBits(const std::vector<float> &expected,
                                  const std::vector<float> &actual) {
  for (size_t i = 0; i < expected.size(); ++i)
    if (std::bit_cast<uint32_t>(expected[i]) !=
        std::bit_cast<uint32_t>(actual[i]))
      return testing::AssertionFailure()
             << "element " << i << " of " << expected.size() << ": expected "
             << expected[i] << ", but got " << actual[i];
  return testing::AssertionSuccess();
}

/// y = maximum of x over group 7.
Step maximumStep(int64_t count) {
  return {1, 2, 0,
          [=](te_rt_instance *instance) {
            te_rt_plan_all_reduce_max(instance, 0, count, 7);
          },
          [](te_rt_instance *instance, char *, void *const *arguments) {
            te_rt_launch(instance, 0, arguments);
          }};
}

/// Runs the step on values of several rounds; each replay reads new ones.
void checkMaximum(Rank &rank, bool captured, bool inPlace) {
  for (int64_t count : kCounts) {
    const Step step = maximumStep(count);
    te_rt_instance *instance = rank.load(step);
    ASSERT_NE(instance, nullptr);
    const std::vector<float> poison(static_cast<size_t>(count), NAN);
    void *x = rank.upload(poison), *y = inPlace ? x : rank.upload(poison);
    for (int round = 0; round < 3; ++round) {
      const std::vector<float> values = valuesOf(rank.number, round, count);
      rank.write(x, values);
      rank.run(instance, step, {x, y}, captured);
      EXPECT_TRUE(
          sameBits(maximumOf(round, count), rank.download(y, values.size())))
          << "rank " << rank.number << ", round " << round;
      if (!inPlace) {
        EXPECT_TRUE(sameBits(values, rank.download(x, values.size())));
      }
    }
    te_rt_instance_destroy(instance);
  }
}

TEST_F(Collective, MaximumIsExact) {
  ASSERT_NO_FATAL_FAILURE(bind(7));
  onEachRank([](Rank &rank) {
    for (bool inPlace : {false, true})
      checkMaximum(rank, /*captured=*/false, inPlace);
  });
}

TEST_F(Collective, CapturedMaximumIsExact) {
  ASSERT_NO_FATAL_FAILURE(bind(7));
  onEachRank([](Rank &rank) {
    for (bool inPlace : {false, true})
      checkMaximum(rank, /*captured=*/true, inPlace);
  });
}

// y = 2 max(2 x): the collective waits for the kernel before it, and the kernel
// after it waits for the collective.
TEST_F(Collective, KeepsItsPlaceBetweenKernels) {
  ASSERT_NO_FATAL_FAILURE(bind(7));
  constexpr int64_t kCount = 1000003;
  const Step step = {
      3, 2, kCount * 4,
      [](te_rt_instance *instance) {
        te_rt_plan_bias_add(instance, 0, 1, kCount, TE_RT_F32);
        te_rt_plan_all_reduce_max(instance, 1, kCount, 7);
        te_rt_plan_bias_add(instance, 2, 1, kCount, TE_RT_F32);
      },
      [](te_rt_instance *instance, char *arena, void *const *arguments) {
        void *const twice[] = {arguments[0], arguments[0], arena};
        te_rt_launch(instance, 0, twice);
        void *const maximum[] = {arena, arena};
        te_rt_launch(instance, 1, maximum);
        void *const again[] = {arena, arena, arguments[1]};
        te_rt_launch(instance, 2, again);
      }};
  onEachRank([&](Rank &rank) {
    te_rt_instance *instance = rank.load(step);
    ASSERT_NE(instance, nullptr);
    const std::vector<float> poison(kCount, NAN);
    void *x = rank.upload(poison), *y = rank.upload(poison);
    for (int round = 0; round < 6; ++round) {
      rank.write(x, valuesOf(rank.number, round, kCount));
      rank.run(instance, step, {x, y}, /*captured=*/round % 2 == 1);
      std::vector<float> expected = maximumOf(round, kCount);
      for (float &value : expected)
        value = (value + value) + (value + value);
      EXPECT_TRUE(sameBits(expected, rank.download(y, kCount)))
          << "rank " << rank.number << ", round " << round;
    }
    te_rt_instance_destroy(instance);
  });
}

// One step over three groups: all ranks, all ranks in reverse order, and only
// this rank.
TEST_F(Collective, GroupsAreIndependent) {
  ASSERT_NO_FATAL_FAILURE(bind(7));
  ASSERT_NO_FATAL_FAILURE(bind(0, /*reversed=*/true));
  constexpr int64_t kCount = 1000;
  const Step step = {
      3, 4, 0,
      [](te_rt_instance *instance) {
        int32_t slot = 0;
        for (int32_t group : {7, 0, 12})
          te_rt_plan_all_reduce_max(instance, slot++, kCount, group);
      },
      [](te_rt_instance *instance, char *, void *const *arguments) {
        for (int32_t slot : {0, 1, 2}) {
          void *const buffers[] = {arguments[0], arguments[slot + 1]};
          te_rt_launch(instance, slot, buffers);
        }
      }};
  onEachRank([&](Rank &rank) {
    TE_EXPECT_OK(te_rt_context_bind_group(rank.context, 12, nullptr, 1, 0));
    te_rt_instance *instance = rank.load(step);
    ASSERT_NE(instance, nullptr);
    const std::vector<float> values = valuesOf(rank.number, 0, kCount);
    std::vector<void *> arguments = {rank.upload(values)};
    for (int i = 0; i < 3; ++i)
      arguments.push_back(rank.upload(std::vector<float>(kCount, NAN)));
    for (bool captured : {false, true}) {
      rank.run(instance, step, arguments, captured);
      const std::vector<float> all = maximumOf(0, kCount);
      EXPECT_TRUE(sameBits(all, rank.download(arguments[1], kCount)));
      EXPECT_TRUE(sameBits(all, rank.download(arguments[2], kCount)));
      EXPECT_TRUE(sameBits(values, rank.download(arguments[3], kCount)));
    }
    te_rt_instance_destroy(instance);
  });
}

TEST_F(Collective, UnboundGroupIsAnErrorAtLoad) {
  ASSERT_NO_FATAL_FAILURE(bind(8));
  const te_rt_module module = {TE_RT_MODULE_MAGIC,
                               TE_RT_VERSION,
                               0,
                               1,
                               2,
                               [](te_rt_instance *instance) {
                                 return te_rt_plan_all_reduce_max(instance, 0,
                                                                  1, 7);
                               },
                               [](te_rt_instance *, char *, void *const *) {},
                               nullptr,
                               nullptr,
                               0,
                               0};
  te_rt_instance *instance = nullptr;
  EXPECT_EQ(te_rt_instance_create(contexts[0], &module, &instance),
            TE_RT_INVALID_ARGUMENT);
  EXPECT_NE(std::string(te_rt_last_error()).find("(8), but got 7"),
            std::string::npos)
      << te_rt_last_error();
}

// Measures, but does not check, the result for NaN and the time of a small
// collective.
TEST_F(Collective, Observations) {
  ASSERT_NO_FATAL_FAILURE(bind(7));
  constexpr int kRuns = 1000;
  const Step step = maximumStep(64);
  onEachRank([&](Rank &rank) {
    te_rt_instance *instance = rank.load(step);
    ASSERT_NE(instance, nullptr);
    std::vector<float> values(64, 1.0f);
    if (rank.number == 0)
      values[0] = NAN;
    values[1] = NAN;
    void *x = rank.upload(values), *y = rank.upload(values);
    float milliseconds[2] = {};
    for (bool captured : {false, true}) {
      rank.run(instance, step, {x, y}, captured);
      TE_EXPECT_OK(te_rt_timer_mark(rank.context, 0));
      for (int i = 0; i < kRuns; ++i)
        rank.run(instance, step, {x, y}, captured);
      TE_EXPECT_OK(te_rt_timer_mark(rank.context, 1));
      TE_EXPECT_OK(
          te_rt_timer_elapsed_ms(rank.context, &milliseconds[captured]));
    }
    const std::vector<float> received = rank.download(y, 64);
    if (rank.number == 0)
      std::printf("%d ranks, 64 f32: %.2f us launched, %.2f us captured; NaN "
                  "on one rank gives %g, on all %g\n",
                  numRanks(), 1000 * milliseconds[0] / kRuns,
                  1000 * milliseconds[1] / kRuns, received[0], received[1]);
    te_rt_instance_destroy(instance);
  });
}

} // namespace
