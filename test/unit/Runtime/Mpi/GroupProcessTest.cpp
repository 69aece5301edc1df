//===- GroupProcessTest.cpp - collectives over processes, exactly ---------===//
//
// Every process computes the inputs of all processes and the expected results,
// from the definition in Kernels.td. Results are compared bit for bit; the
// payload of an f32 NaN is not defined. All processes run the same tests in the
// same order.
//
//===----------------------------------------------------------------------===//

#include "Conformance/Oracle.h"
#include "Runtime/Mpi/Processes.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <numeric>

using namespace te::conformance;
using namespace te::processes;

namespace {

constexpr int64_t kTimeout = 60000;
constexpr int32_t kTypes[] = {TE_RT_F32, TE_RT_BF16, TE_RT_F16};
// The last size is sent in two pieces.
constexpr int64_t kCounts[] = {0, 1, 2, 7, 1001, 70001};
const char *const kKinds[] = {"normal",  "nan",       "inf",  "zeros",
                              "negzero", "subnormal", "huge", "wide"};

#define EXPECT_OK(call) EXPECT_EQ(call, TE_RT_OK) << process.message
#define ASSERT_OK(call) ASSERT_EQ(call, TE_RT_OK) << process.message

std::vector<int32_t> everybody() {
  std::vector<int32_t> ranks(static_cast<size_t>(jobSize()));
  std::iota(ranks.begin(), ranks.end(), 0);
  return ranks;
}

/// The input of process `rank` of the job. Kinds differ between ranks.
Array valuesOf(int rank, int32_t type, int64_t count, int round) {
  const size_t kind = static_cast<size_t>(rank + round) % std::size(kKinds);
  return makeArray(kKinds[kind], type, static_cast<size_t>(count),
                   static_cast<uint32_t>(1 + rank + 100 * round));
}

/// Elements [begin, begin + count) of the sum over `ranks`, in their order.
Array sumOf(const std::vector<int32_t> &ranks, int32_t type, int64_t all,
            int64_t begin, int64_t count, int round) {
  std::vector<Array> values;
  for (int32_t rank : ranks)
    values.push_back(valuesOf(rank, type, all, round));
  Array sum(type, static_cast<size_t>(count));
  for (int64_t i = 0; i < count; ++i) {
    auto value =
        static_cast<float>(values[0].at(static_cast<size_t>(begin + i)));
    for (size_t r = 1; r < values.size(); ++r)
      value += static_cast<float>(values[r].at(static_cast<size_t>(begin + i)));
    sum.set(static_cast<size_t>(i), value);
  }
  return sum;
}

Process::PlanFunction sum(int64_t count, int32_t type, int32_t ranks,
                          int32_t group) {
  return [=](te_rt_instance *instance) {
    return te_rt_plan_all_reduce_sum(instance, 0, count, type, ranks, group);
  };
}
Process::PlanFunction maximum(int64_t count, int32_t group) {
  return [=](te_rt_instance *instance) {
    return te_rt_plan_all_reduce_max(instance, 0, count, group);
  };
}
Process::PlanFunction gather(int64_t bytes, int32_t ranks, int32_t group) {
  return [=](te_rt_instance *instance) {
    return te_rt_plan_all_gather(instance, 0, bytes, ranks, group);
  };
}
Process::PlanFunction exchange(int64_t bytes, int32_t ranks, int32_t group) {
  return [=](te_rt_instance *instance) {
    return te_rt_plan_all_to_all(instance, 0, bytes, 0, ranks, group);
  };
}
Process::PlanFunction scatter(int64_t count, int32_t type, int32_t ranks,
                              int32_t group) {
  return [=](te_rt_instance *instance) {
    return te_rt_plan_reduce_scatter_sum(instance, 0, count, type, ranks,
                                         group);
  };
}

TEST(GroupProcesses, SumsAreInTheOrderOfRanks) {
  Process process(kTimeout);
  ASSERT_OK(process.bind(3, everybody()));
  for (int32_t type : kTypes)
    for (int64_t count : kCounts)
      for (int round = 0; round < (count > 2000 ? 1 : 8); ++round) {
        const Array x = valuesOf(jobRank(), type, count, round);
        Array y(type, static_cast<size_t>(count)), inPlace = x;
        const auto plan = sum(count, type, jobSize(), 3);
        EXPECT_OK(process.run(plan, x.bytes.data(), y.bytes.data()));
        const Array expected = sumOf(everybody(), type, count, 0, count, round);
        ASSERT_TRUE(sameBits(expected, y));
        EXPECT_OK(
            process.run(plan, inPlace.bytes.data(), inPlace.bytes.data()));
        ASSERT_TRUE(sameBits(expected, inPlace));
      }
}

TEST(GroupProcesses, EachRankKeepsItsPartOfASum) {
  Process process(kTimeout);
  ASSERT_OK(process.bind(3, everybody()));
  for (int32_t type : kTypes)
    for (int64_t count : kCounts)
      for (int round = 0; round < (count > 2000 ? 1 : 8); ++round) {
        const int64_t all = count * jobSize();
        const Array x = valuesOf(jobRank(), type, all, round);
        Array y(type, static_cast<size_t>(count));
        EXPECT_OK(process.run(scatter(count, type, jobSize(), 3),
                              x.bytes.data(), y.bytes.data()));
        ASSERT_TRUE(sameBits(
            sumOf(everybody(), type, all, jobRank() * count, count, round), y));
      }
}

// Bytes of any type, including the payloads of NaNs.
TEST(GroupProcesses, GathersBytesInTheOrderOfRanks) {
  Process process(kTimeout);
  ASSERT_OK(process.bind(3, everybody()));
  const auto bytesOf = [](int rank, int64_t count) {
    std::vector<uint8_t> bytes(static_cast<size_t>(count));
    for (size_t i = 0; i < bytes.size(); ++i)
      bytes[i] = static_cast<uint8_t>((i * 131 + i / 251) ^
                                      (static_cast<size_t>(rank) * 85));
    return bytes;
  };
  for (int64_t count : {0, 1, 3, 1000, 1 << 20, (1 << 21) + 5}) {
    const std::vector<uint8_t> x = bytesOf(jobRank(), count);
    std::vector<uint8_t> y(x.size() * static_cast<size_t>(jobSize()));
    EXPECT_OK(process.run(gather(count, jobSize(), 3), x.data(), y.data()));
    std::vector<uint8_t> expected;
    for (int rank = 0; rank < jobSize(); ++rank) {
      const std::vector<uint8_t> other = bytesOf(rank, count);
      expected.insert(expected.end(), other.begin(), other.end());
    }
    ASSERT_EQ(expected, y);
  }
}

// Each rank sends different values to every rank, including itself.
TEST(GroupProcesses, ExchangesBytesInTheOrderOfRanks) {
  Process process(kTimeout);
  ASSERT_OK(process.bind(3, everybody()));
  const auto bytesOf = [](int from, int to, int64_t count) {
    std::vector<uint8_t> bytes(static_cast<size_t>(count));
    for (size_t i = 0; i < bytes.size(); ++i)
      bytes[i] = static_cast<uint8_t>((i * 131 + i / 251) ^
                                      static_cast<size_t>(from * 16 + to));
    return bytes;
  };
  for (int64_t count : {0, 1, 3, 1000, 1 << 20, (1 << 21) + 5}) {
    std::vector<uint8_t> x, expected;
    for (int rank = 0; rank < jobSize(); ++rank) {
      const std::vector<uint8_t> sent = bytesOf(jobRank(), rank, count),
                                 received = bytesOf(rank, jobRank(), count);
      x.insert(x.end(), sent.begin(), sent.end());
      expected.insert(expected.end(), received.begin(), received.end());
    }
    std::vector<uint8_t> y(x.size());
    EXPECT_OK(process.run(exchange(count, jobSize(), 3), x.data(), y.data()));
    ASSERT_EQ(expected, y);
  }
}

TEST(GroupProcesses, MaximumIsThatOfAllRanks) {
  Process process(kTimeout);
  ASSERT_OK(process.bind(3, everybody()));
  for (int64_t count : kCounts) {
    Array x = valuesOf(jobRank(), TE_RT_F32, count, 6); // huge, wide, normal...
    Array y(TE_RT_F32, static_cast<size_t>(count));
    EXPECT_OK(process.run(maximum(count, 3), x.bytes.data(), y.bytes.data()));
    std::vector<Array> values;
    for (int rank = 0; rank < jobSize(); ++rank)
      values.push_back(valuesOf(rank, TE_RT_F32, count, 6));
    for (size_t i = 0; i < static_cast<size_t>(count); ++i) {
      double expected = values[0].at(i);
      bool isDefined = expected == expected;
      for (const Array &each : values) {
        isDefined = isDefined && each.at(i) == each.at(i);
        expected = std::max(expected, each.at(i));
      }
      if (isDefined) {
        ASSERT_EQ(expected, y.at(i)) << i;
      }
    }
  }
}

// Pairs of neighbours, all of which call their group 1, and all ranks in
// reverse order: ranks in a group differ from those of the job.
TEST(GroupProcesses, GroupsOfSomeOfTheProcesses) {
  Process process(kTimeout);
  const int32_t first = jobRank() / 2 * 2;
  const std::vector<int32_t> pair = {first, first + 1};
  std::vector<int32_t> reversed = everybody();
  std::reverse(reversed.begin(), reversed.end());
  ASSERT_OK(process.bind(2, reversed));
  ASSERT_OK(process.bind(1, pair));
  constexpr int64_t kCount = 33;
  for (int32_t type : kTypes)
    for (int round = 0; round < 8; ++round) {
      const Array x = valuesOf(jobRank(), type, kCount, round);
      Array y(type, kCount);
      EXPECT_OK(
          process.run(sum(kCount, type, 2, 1), x.bytes.data(), y.bytes.data()));
      EXPECT_TRUE(sameBits(sumOf(pair, type, kCount, 0, kCount, round), y));
      EXPECT_OK(process.run(sum(kCount, type, jobSize(), 2), x.bytes.data(),
                            y.bytes.data()));
      EXPECT_TRUE(sameBits(sumOf(reversed, type, kCount, 0, kCount, round), y));
    }
}

// One collective has another kind, size or type: every rank reports it with
// both sides, and no rank gets wrong bytes.
TEST(GroupProcesses, DisagreementIsAnErrorOnEveryRank) {
  const struct {
    Process::PlanFunction mine, theirs;
    const char *mineText, *theirText;
  } cases[] = {
      {sum(4, TE_RT_F32, jobSize(), 3), gather(16, jobSize(), 3),
       "all_reduce_sum of 4 f32", "all_gather of 16 bytes"},
      {sum(4, TE_RT_F32, jobSize(), 3), sum(8, TE_RT_F32, jobSize(), 3),
       "all_reduce_sum of 4 f32", "all_reduce_sum of 8 f32"},
      {exchange(8, jobSize(), 3), gather(8, jobSize(), 3),
       "all_to_all of 8 bytes", "all_gather of 8 bytes"},
      {sum(4, TE_RT_F16, jobSize(), 3), sum(4, TE_RT_BF16, jobSize(), 3),
       "all_reduce_sum of 4 f16", "all_reduce_sum of 4 bf16"},
      {maximum(4, 3), scatter(4, TE_RT_F32, jobSize(), 3),
       "all_reduce_max of 4 f32", "reduce_scatter_sum of 4 f32"},
  };
  for (const auto &each : cases) {
    Process process(kTimeout);
    ASSERT_OK(process.bind(3, everybody()));
    std::vector<float> x(64, 1.0f), y(64, -1.0f);
    // The last rank differs.
    const bool isOdd = jobRank() == jobSize() - 1;
    EXPECT_EQ(process.run(isOdd ? each.theirs : each.mine, x.data(), y.data()),
              TE_RT_INVALID_ARGUMENT);
    for (const char *part :
         {each.mineText, each.theirText, "in one order", "group 3 (rank "})
      EXPECT_NE(process.message.find(part), std::string::npos)
          << process.message;
    EXPECT_EQ(y, std::vector<float>(64, -1.0f));
    // A group that failed stays failed, and no rank waits.
    const std::string first = process.message;
    EXPECT_EQ(process.run(each.mine, x.data(), y.data()),
              TE_RT_INVALID_ARGUMENT);
  }
}

// Every rank gets the error without waiting for another.
TEST(GroupProcesses, ExchangesOfScalesNeedTheirBuffers) {
  Process process(kTimeout);
  ASSERT_OK(process.bind(3, everybody()));
  std::vector<float> x(jobSize(), 1.0f), y(jobSize(), -1.0f);
  const auto plan = [](te_rt_instance *instance) {
    return te_rt_plan_all_to_all(instance, 0, 4, 4, jobSize(), 3);
  };
  EXPECT_EQ(process.run(plan, x.data(), y.data()), TE_RT_INVALID_ARGUMENT);
  EXPECT_NE(process.message.find("expected buffers 'x_scale' and 'y_scale' for "
                                 "'scale_bytes' 4, but got null"),
            std::string::npos)
      << process.message;
  EXPECT_EQ(y, std::vector<float>(y.size(), -1.0f));
}

TEST(GroupProcesses, PlacesAreCheckedWhenBound) {
  Process process(kTimeout);
  te_rt_communicator communicator = communicatorOf(5, everybody());
  communicator.rank = (communicator.rank + 1) % communicator.size;
  EXPECT_EQ(process.bind(5, communicator), TE_RT_INVALID_ARGUMENT);
  EXPECT_NE(process.message.find("of the communicator to bind group 5 as rank"),
            std::string::npos)
      << process.message;
  // Two ranks pass different numbers for the same rank.
  EXPECT_EQ(process.bind(20 + jobRank(), communicatorOf(6, everybody())),
            TE_RT_INVALID_ARGUMENT);
  EXPECT_NE(process.message.find("but it binds group 2"), std::string::npos)
      << process.message;
}

TEST(GroupProcesses, CommunicatorsAreOfTheJob) {
  // All processes are on one host here.
  EXPECT_EQ(te_mpi_local_rank(job()), jobRank());
  te_rt_communicator communicator;
  char message[TE_RT_MESSAGE_BYTES];
  const auto refuses = [&](int32_t tag, std::vector<int32_t> ranks,
                           const std::string &text) {
    EXPECT_EQ(te_mpi_communicator(job(), tag, ranks.data(),
                                  static_cast<int32_t>(ranks.size()),
                                  &communicator, message),
              TE_RT_INVALID_ARGUMENT);
    EXPECT_NE(std::string(message).find(text), std::string::npos) << message;
  };
  const int32_t other = (jobRank() + 1) % jobSize();
  refuses(0, {other}, "expected this process, rank");
  refuses(0, {jobRank(), jobRank()}, "is there twice");
  refuses(0, {jobRank(), jobSize()}, "below the size of the job");
  refuses(0, {}, "'size' to be one or more");
  refuses(-1, everybody(), "'tag' to be from 0 to 32766, but got -1");
}

} // namespace

int main(int argc, char **argv) {
  testing::InitGoogleTest(&argc, argv);
  // One report is sufficient; every rank prints failures.
  if (jobRank() != 0) {
    auto &listeners = testing::UnitTest::GetInstance()->listeners();
    delete listeners.Release(listeners.default_result_printer());
    class Failures : public testing::EmptyTestEventListener {
      void OnTestPartResult(const testing::TestPartResult &result) override {
        if (result.failed())
          std::fprintf(stderr, "rank %d: %s:%d: %s\n", jobRank(),
                       result.file_name() ? result.file_name() : "",
                       result.line_number(), result.message());
      }
    };
    listeners.Append(new Failures);
  }
  const int result = RUN_ALL_TESTS();
  char message[TE_RT_MESSAGE_BYTES];
  if (result != 0 || te_mpi_destroy(job(), kTimeout, message) != TE_RT_OK)
    te_mpi_abort(job(), 1);
  return result;
}
