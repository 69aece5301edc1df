//===- SumTest.cpp - sums and gathers over several GPUs -------------------===//
//
// Every rank computes the values of all ranks. Gathers are compared byte for
// byte. Sums of two ranks have the bits of the definition: there is one
// addition, and a sum of two bf16 or f16 in f32 rounds to the type like the
// exact sum. Over more ranks, NCCL may add in any order and round after each
// addition; R - 1 roundings have an error of at most g = (R-1) u / (1 - (R-1)
// u) of the sum of magnitudes. Infinities and NaN occur in any order.
//
//===----------------------------------------------------------------------===//

#include "Conformance/Oracle.h"
#include "Runtime/Nccl/Ranks.h"

#include <cmath>

using namespace te::conformance;
using namespace te::ranks;

namespace {

using Collective = RanksTest;

constexpr int32_t kTypes[] = {TE_RT_F32, TE_RT_BF16, TE_RT_F16};
constexpr int64_t kCounts[] = {0, 1, 7, 4096, 100003};
// Kinds whose sums may overflow or be NaN are last, because with more than two
// ranks there is no bound for them.
const char *const kKinds[] = {"normal",    "zeros", "negzero", "wide",
                              "subnormal", "nan",   "inf",     "huge"};

const char *kindOf(int round) {
  const size_t numKinds = std::size(kKinds) - (numRanks() > 2 ? 3 : 0);
  return kKinds[static_cast<size_t>(round) % numKinds];
}

Array valuesOf(int rank, int32_t type, int64_t count, int round) {
  return makeArray(kindOf(round + rank), type, static_cast<size_t>(count),
                   static_cast<uint32_t>(1 + rank + 100 * round));
}

Step sumStep(int64_t count, int32_t type) {
  return {1, 2, 0,
          [=](te_rt_instance *instance) {
            te_rt_plan_all_reduce_sum(instance, 0, count, type, numRanks(), 7);
          },
          [](te_rt_instance *instance, char *, void *const *arguments) {
            te_rt_launch(instance, 0, arguments);
          }};
}
Step scatterStep(int64_t count, int32_t type) {
  return {1, 2, 0,
          [=](te_rt_instance *instance) {
            te_rt_plan_reduce_scatter_sum(instance, 0, count, type, numRanks(),
                                          7);
          },
          [](te_rt_instance *instance, char *, void *const *arguments) {
            te_rt_launch(instance, 0, arguments);
          }};
}
Step gatherStep(int64_t bytes) {
  return {1, 2, 0,
          [=](te_rt_instance *instance) {
            te_rt_plan_all_gather(instance, 0, bytes, numRanks(), 7);
          },
          [](te_rt_instance *instance, char *, void *const *arguments) {
            te_rt_launch(instance, 0, arguments);
          }};
}

/// The scales are stored after the data.
Step exchangeStep(int64_t bytes, int64_t scaleBytes) {
  return {
      1, 2, 0,
      [=](te_rt_instance *instance) {
        te_rt_plan_all_to_all(instance, 0, bytes, scaleBytes, numRanks(), 7);
      },
      [=](te_rt_instance *instance, char *, void *const *arguments) {
        const auto scales = [&](void *data) -> void * {
          return static_cast<char *>(data) + bytes * numRanks();
        };
        void *const buffers[] = {arguments[0], arguments[1],
                                 scales(arguments[0]), scales(arguments[1])};
        te_rt_launch(instance, 0, buffers);
      }};
}

/// Whether `actual` is elements [begin, ...) of the sum of the ranks' values.
/// With more than two ranks the order is NCCL's: partial sums are at most the
/// sum of magnitudes, within g; if that exceeds the range of f16, an element
/// may be infinite.
testing::AssertionResult isSum(const std::vector<Array> &values, int64_t begin,
                               const Array &actual) {
  Array expected = actual;
  const auto ranks = static_cast<double>(values.size());
  const double u = unitRoundoff(actual.type);
  const double g = (ranks - 1) * u / (1 - (ranks - 1) * u);
  for (size_t i = 0; i < actual.size(); ++i) {
    const size_t at = static_cast<size_t>(begin) + i;
    auto sum = static_cast<float>(values[0].at(at));
    double exact = values[0].at(at), magnitudes = std::fabs(exact);
    for (size_t r = 1; r < values.size(); ++r) {
      sum += static_cast<float>(values[r].at(at));
      exact += values[r].at(at);
      magnitudes += std::fabs(values[r].at(at));
    }
    constexpr double kF16Overflow = 65520;
    const bool mayOverflow =
        actual.type == TE_RT_F16 && (1 + g) * magnitudes >= kF16Overflow;
    if (values.size() == 2)
      expected.set(i, sum);
    else if (mayOverflow && !std::isfinite(actual.at(i)))
      continue;
    else if (std::isfinite(exact)
                 ? !(std::fabs(actual.at(i) - exact) <= g * magnitudes)
                 : !(actual.at(i) == exact ||
                     (std::isnan(actual.at(i)) && std::isnan(exact))))
      return testing::AssertionFailure()
             << "element " << i << ": expected " << exact << " within "
             << g * magnitudes << ", but got " << actual.at(i);
  }
  return sameBits(expected, actual);
}

/// Runs `step` on x; y has the type and the size of `result`.
void run(Rank &rank, const Step &step, const Array &x, Array &result,
         bool captured, bool inPlace) {
  te_rt_instance *instance = rank.load(step);
  ASSERT_NE(instance, nullptr);
  void *from = rank.upload(x.bytes);
  const std::vector<uint8_t> poison(result.bytes.size(), 0xcd);
  void *to = inPlace ? from : rank.upload(poison);
  // A replay reads the current values.
  for (int i = 0; i < (captured ? 2 : 1); ++i) {
    rank.write(from, x.bytes);
    rank.run(instance, step, {from, to}, captured);
  }
  result.bytes = rank.download<uint8_t>(to, result.bytes.size());
  te_rt_instance_destroy(instance);
  rank.free(from);
  if (!inPlace)
    rank.free(to);
}

TEST_F(Collective, SumIsTheDefinition) {
  ASSERT_NO_FATAL_FAILURE(bind(7));
  onEachRank([](Rank &rank) {
    int round = 0;
    for (int32_t type : kTypes)
      for (int64_t count : kCounts)
        for (bool captured : {false, true})
          for (bool inPlace : {false, true}) {
            std::vector<Array> values;
            for (int r = 0; r < numRanks(); ++r)
              values.push_back(valuesOf(r, type, count, round));
            Array y(type, static_cast<size_t>(count));
            run(rank, sumStep(count, type),
                values[static_cast<size_t>(rank.number)], y, captured, inPlace);
            EXPECT_TRUE(isSum(values, 0, y))
                << "rank " << rank.number << ", type " << type << ", count "
                << count << ", round " << round;
            ++round;
          }
  });
}

TEST_F(Collective, ScatteredSumIsTheDefinition) {
  ASSERT_NO_FATAL_FAILURE(bind(7));
  onEachRank([](Rank &rank) {
    int round = 0;
    for (int32_t type : kTypes)
      for (int64_t count : kCounts)
        for (bool captured : {false, true}) {
          std::vector<Array> values;
          for (int r = 0; r < numRanks(); ++r)
            values.push_back(valuesOf(r, type, count * numRanks(), round));
          Array y(type, static_cast<size_t>(count));
          run(rank, scatterStep(count, type),
              values[static_cast<size_t>(rank.number)], y, captured, false);
          EXPECT_TRUE(isSum(values, rank.number * count, y))
              << "rank " << rank.number << ", type " << type << ", count "
              << count << ", round " << round;
          ++round;
        }
  });
}

TEST_F(Collective, GatherMovesBytes) {
  ASSERT_NO_FATAL_FAILURE(bind(7));
  const auto bytesOf = [](int rank, int64_t bytes) {
    Array array(TE_RT_F8E4M3FN, static_cast<size_t>(bytes));
    for (size_t i = 0; i < array.bytes.size(); ++i)
      array.bytes[i] = static_cast<uint8_t>((i * 131 + i / 251) ^
                                            (static_cast<size_t>(rank) * 85));
    return array;
  };
  onEachRank([&](Rank &rank) {
    for (int64_t bytes : {0, 1, 3, 127, 4096, 1000003})
      for (bool captured : {false, true}) {
        std::vector<uint8_t> expected;
        for (int r = 0; r < numRanks(); ++r) {
          const Array other = bytesOf(r, bytes);
          expected.insert(expected.end(), other.bytes.begin(),
                          other.bytes.end());
        }
        Array y(TE_RT_F8E4M3FN, expected.size());
        run(rank, gatherStep(bytes), bytesOf(rank.number, bytes), y, captured,
            false);
        EXPECT_EQ(expected, y.bytes) << "rank " << rank.number;
      }
  });
}

// Every rank sends different values to each rank. In every second case, the
// first exchange of a size is captured.
TEST_F(Collective, ExchangeMovesBytes) {
  ASSERT_NO_FATAL_FAILURE(bind(7));
  const auto bytesOf = [](int from, int to, int64_t count) {
    std::vector<uint8_t> bytes(static_cast<size_t>(count));
    for (size_t i = 0; i < bytes.size(); ++i)
      bytes[i] = static_cast<uint8_t>((i * 131 + i / 251) ^
                                      static_cast<size_t>(from * 16 + to));
    return bytes;
  };
  onEachRank([&](Rank &rank) {
    for (auto [count, scales] : {std::pair<int64_t, int64_t>{4096, 0},
                                 {0, 0},
                                 {1, 1},
                                 {3, 0},
                                 {127, 12},
                                 {0, 8},
                                 {4096, 4096},
                                 {1000003, 31252}})
      for (bool captured : {true, false}) {
        Array x(TE_RT_F8E4M3FN, 0), y(TE_RT_F8E4M3FN, 0), expected = y;
        // The scales have other values than the data.
        for (auto [bytes, more] : {std::pair(count, 0), {scales, 8}})
          for (int r = 0; r < numRanks(); ++r) {
            const int from = rank.number + more, to = r + more;
            const std::vector<uint8_t> sent = bytesOf(from, to, bytes),
                                       received = bytesOf(to, from, bytes);
            x.bytes.insert(x.bytes.end(), sent.begin(), sent.end());
            expected.bytes.insert(expected.bytes.end(), received.begin(),
                                  received.end());
          }
        y.bytes.resize(x.bytes.size());
        run(rank, exchangeStep(count, scales), x, y, captured, false);
        EXPECT_EQ(expected.bytes, y.bytes)
            << "rank " << rank.number << ", " << count << " and " << scales
            << " bytes";
      }
  });
}

// Rank 0 waits for ranks that never arrive, and reports that in time.
// Afterwards, every context can be destroyed, so the test ends.
void waitForNobody(Rank &rank, bool captured) {
  TE_EXPECT_OK(te_rt_context_set_group_timeout(rank.context, 2000));
  if (rank.number != 0)
    return;
  const Step step = sumStep(1000, TE_RT_F32);
  te_rt_instance *instance = rank.load(step);
  ASSERT_NE(instance, nullptr);
  void *x = rank.upload(std::vector<float>(1000, 1.0f));
  rank.run(instance, step, {x, x}, captured);
  EXPECT_EQ(te_rt_synchronize(rank.context), TE_RT_TIMED_OUT);
  EXPECT_NE(std::string(te_rt_last_error())
                .find("all_reduce_sum (slot 0): group 7 (rank 0 of "),
            std::string::npos)
      << te_rt_last_error();
  te_rt_instance_destroy(instance);
}

TEST_F(Collective, MissingRanksAreTimedOut) {
  ASSERT_NO_FATAL_FAILURE(bind(7));
  onEachRank([](Rank &rank) { waitForNobody(rank, /*captured=*/false); });
}

TEST_F(Collective, MissingRanksOfACapturedStepAreTimedOut) {
  ASSERT_NO_FATAL_FAILURE(bind(7));
  onEachRank([](Rank &rank) { waitForNobody(rank, /*captured=*/true); });
}

} // namespace
