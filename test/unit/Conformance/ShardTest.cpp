//===- ShardTest.cpp - casts of flat shards -------------------------------===//
//
// A matrix is cut into flat runs, anywhere; the largest of the amaxes that they
// have of each block, and the casts of the runs one after another, are those of
// the whole. `start` stands for the number of the rank, of which a process by
// itself has one.
//
//===----------------------------------------------------------------------===//

#include "Conformance/Harness.h"
#include "Conformance/Oracle.h"

#include <algorithm>

using namespace te::conformance;

namespace {

constexpr const char *kKinds[] = {"normal",  "zeros",     "inf", "nan",
                                  "negzero", "subnormal", "huge"};

int64_t blocks(int64_t size) { return (size + 127) / 128; }

class Shards : public BackendTest {
protected:
  /// Elements start to start + count of `x`, what is not there being a number
  /// that would show.
  static Array runOf(const Array &x, int64_t start, int64_t count) {
    Array run(x.type, static_cast<size_t>(count));
    for (int64_t i = 0; i < count; ++i)
      run.set(i, 60000.0);
    const int64_t bytes = x.size() ? x.bytes.size() / x.size() : 0;
    for (int64_t i = 0; i < count; ++i)
      if (const int64_t e = start + i;
          e >= 0 && e < static_cast<int64_t>(x.size()))
        std::copy_n(&x.bytes[e * bytes], bytes, &run.bytes[i * bytes]);
    return run;
  }

  void check(const Array &x, int64_t rows, int64_t cols, int64_t count,
             int64_t first, int32_t fp8Type, bool pow2, float epsilon,
             const std::string &what) {
    const int64_t elements = rows * cols;
    const size_t numBlocks = blocks(rows) * blocks(cols);
    std::vector<float> amax(numBlocks, 0.0f);
    for (int64_t start = first; start < elements; start += count) {
      std::vector<float> part(numBlocks, -1.0f);
      device().run(
          TE_PLAN(partial_amax, count, rows, cols, start, x.type, 1, 0),
          {in(runOf(x, start, count).bytes), out(part), none()});
      for (size_t i = 0; i < numBlocks; ++i)
        amax[i] = std::max(amax[i], part[i]);
    }
    const Quantised wanted = quantiseBlocks(x, rows, cols, 1, fp8Type,
                                            TE_RT_BLOCK_128X128, pow2, epsilon);
    for (int64_t start = first; start < elements; start += count) {
      std::vector<uint8_t> data(count, 0xee);
      std::vector<float> scale(scaleCount(TE_RT_BLOCK_128X128, rows, cols),
                               -1.0f);
      device().run(TE_PLAN(quantize_shard, count, rows, cols, start, x.type,
                           fp8Type, pow2, epsilon, 1, 0),
                   {in(runOf(x, start, count).bytes), in(amax), out(data),
                    out(scale), none()});
      ASSERT_EQ(wanted.scale, scale) << what << ", from " << start;
      for (int64_t i = 0; i < count; ++i) {
        const int64_t e = start + i;
        ASSERT_EQ(int(e >= 0 && e < elements ? wanted.data[e] : 0),
                  int(data[i]))
            << what << ", element " << e;
      }
    }
  }
};
TE_FOR_EACH_BACKEND(Shards);

TEST_P(Shards, CutAnywhereAreTheWhole) {
  int turn = 0;
  for (auto [rows, cols] : {std::pair<int64_t, int64_t>{1, 1},
                            {1, 300},
                            {129, 1},
                            {128, 128},
                            {130, 272},
                            {257, 129},
                            {300, 40}})
    for (const char *kind : kKinds)
      for (int32_t type : {TE_RT_BF16, TE_RT_F32, TE_RT_F16}) {
        const Array x = makeArray(kind, type, rows * cols, ++turn);
        const int64_t all = rows * cols;
        // Whole, in the middle of rows and blocks, in vectors of eight, with
        // padding before and behind.
        for (int64_t count :
             {all, all / 2 + 1, all / 3 + 7, all / 16 * 8 + 8}) {
          check(x, rows, cols, count, turn % 2 ? 0 : -(turn % count),
                turn % 3 ? TE_RT_F8E4M3FN : TE_RT_F8E5M2, turn % 4 < 2, 0.0f,
                std::string(kind) + " " + std::to_string(rows) + "x" +
                    std::to_string(cols) + " by " + std::to_string(count));
          if (HasFatalFailure())
            return;
        }
      }
}

TEST_P(Shards, AmaxEpsilonRaisesSmallBlocks) {
  check(makeArray("wide", TE_RT_BF16, 130 * 260), 130, 260, 9001, 0,
        TE_RT_F8E4M3FN, false, 0.5f, "epsilon");
}

// A rank behind the last element has nothing of any block, and takes part.
TEST_P(Shards, EmptyOnesHaveNothing) {
  const Array x = makeArray("normal", TE_RT_BF16, 64);
  std::vector<float> amax(2, -1.0f);
  device().run(TE_PLAN(partial_amax, 64, 1, 256, 256, TE_RT_BF16, 1, 0),
               {in(x.bytes), out(amax), none()});
  EXPECT_EQ(amax, (std::vector<float>{0.0f, 0.0f}));
  std::vector<uint8_t> data(64, 0xee);
  std::vector<float> scale(4, -1.0f);
  device().run(TE_PLAN(quantize_shard, 64, 1, 256, 256, TE_RT_BF16,
                       TE_RT_F8E4M3FN, 0, 0.0f, 1, 0),
               {in(x.bytes), in(std::vector<float>{448.0f, 896.0f}), out(data),
                out(scale), none()});
  EXPECT_EQ(data, std::vector<uint8_t>(64, 0));
  EXPECT_EQ(scale, (std::vector<float>{1.0f, 2.0f, 0.0f, 0.0f}));
}

} // namespace
