//===- ShardTest.cpp - casts of flat shards -------------------------------===//
//
// A matrix is cut into flat runs at arbitrary elements. The maximum over runs
// of the amax of each block, and the concatenated casts of the runs, must be
// those of the whole matrix. `start` takes the role of the rank's number,
// because a process without a launcher is one rank.
//
//===----------------------------------------------------------------------===//

#include "Conformance/Harness.h"
#include "Conformance/NvOracle.h"
#include "Conformance/Oracle.h"

#include <algorithm>
#include <cmath>
#include <cstring>

using namespace te::conformance;

namespace {

constexpr const char *kKinds[] = {"normal",  "zeros",     "inf", "nan",
                                  "negzero", "subnormal", "huge"};

/// How a shard is cast: the blocks, each of which has a scale.
struct Cast {
  int64_t blocks(int64_t rows, int64_t cols) const {
    return (rows + height - 1) / height * ((cols + width - 1) / width);
  }

  int32_t scheme, axis;
  int64_t height, width;
};
constexpr Cast kSquare = {TE_RT_BLOCK_128X128, 1, 128, 128};
constexpr Cast kMx[] = {{TE_RT_MX_1X32, 1, 1, 32},
                        {TE_RT_MX_1X32, 0, 32, 1},
                        {TE_RT_MX_32X32, 1, 32, 32},
                        {TE_RT_MX_32X32, 0, 32, 32}};
constexpr Cast kNv[] = {{TE_RT_NV_1X16, 1, 1, 16}, {TE_RT_NV_16X16, 1, 16, 16}};

/// The expected concatenation of all ranks' shards; for scales, the bytes.
struct Whole {
  std::vector<uint8_t> data, scale;
};
Whole quantiseWhole(const Cast &cast, const Array &x, int64_t rows,
                    int64_t cols, int32_t fp8Type, bool pow2, float epsilon) {
  if (cast.scheme != TE_RT_BLOCK_128X128) {
    Microscaled whole =
        quantiseMx(x, rows, cols, cast.axis, fp8Type, cast.scheme);
    return {whole.data, whole.scale};
  }
  const Quantised whole = quantiseBlocks(x, rows, cols, cast.axis, fp8Type,
                                         cast.scheme, pow2, epsilon);
  std::vector<uint8_t> scale(whole.scale.size() * sizeof(float));
  std::memcpy(scale.data(), whole.scale.data(), scale.size());
  return {whole.data, scale};
}

class Shards : public BackendTest {
protected:
  /// Elements start to start + count of `x`. Elements outside of x have a value
  /// that would change the result if it were read.
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

  /// The maximum over the runs from `first` on of the amax of each block.
  void measure(const Cast &cast, const Array &x, int64_t rows, int64_t cols,
               int64_t count, int64_t first, const std::string &what,
               std::vector<float> &amax) {
    const auto numBlocks = static_cast<size_t>(cast.blocks(rows, cols));
    amax.assign(numBlocks, 0.0f);
    for (int64_t start = first; start < rows * cols; start += count) {
      std::vector<float> part(numBlocks, -1.0f);
      device().run(TE_PLAN(partial_amax, count, rows, cols, start, cast.height,
                           cast.width, x.type, 1, 0),
                   {in(runOf(x, start, count).bytes), out(part), none()});
      for (size_t i = 0; i < numBlocks; ++i) {
        ASSERT_GE(part[i], 0.0f) << what << ", block " << i;
        amax[i] = std::max(amax[i], part[i]);
      }
    }
  }

  void check(const Cast &cast, const Array &x, int64_t rows, int64_t cols,
             int64_t count, int64_t first, int32_t fp8Type, bool pow2,
             float epsilon, const std::string &what) {
    const int64_t elements = rows * cols;
    std::vector<float> amax;
    ASSERT_NO_FATAL_FAILURE(
        measure(cast, x, rows, cols, count, first, what, amax));
    const Whole wanted =
        quantiseWhole(cast, x, rows, cols, fp8Type, pow2, epsilon);
    for (int64_t start = first; start < elements; start += count) {
      std::vector<uint8_t> data(count, 0xee);
      std::vector<uint8_t> scale(wanted.scale.size(), 0xee);
      device().run(TE_PLAN(quantize_shard, count, rows, cols, start, x.type,
                           fp8Type, cast.scheme, cast.axis, pow2, epsilon, 1,
                           0),
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

  /// Like check, for an nv scheme: the amax is that of the whole matrix.
  void checkNv(const Cast &cast, const Array &x, int64_t rows, int64_t cols,
               int64_t count, int64_t first, int32_t scaleMax,
               const std::string &what) {
    std::vector<float> blocks;
    ASSERT_NO_FATAL_FAILURE(
        measure(cast, x, rows, cols, count, first, what, blocks));
    std::vector<float> amax(1, 0.0f);
    for (int64_t i = 0; i < rows * cols; ++i)
      if (const double magnitude = std::fabs(x.at(i)); magnitude > amax[0])
        amax[0] = static_cast<float>(magnitude);
    NvOptions options;
    options.scheme = cast.scheme;
    options.scaleMax = scaleMax;
    const NvQuantised wanted = quantiseNv(x, rows, cols, 1, amax, options);
    for (int64_t start = first; start < rows * cols; start += count) {
      std::vector<uint8_t> data(count / 2, 0xee);
      std::vector<uint8_t> scale(wanted.scale.size(), 0xee);
      std::vector<float> ofValue(1, -1.0f);
      device().run(TE_PLAN(quantize_nvfp4_shard, count, rows, cols, start,
                           x.type, cast.scheme, scaleMax, 1, 0),
                   {in(runOf(x, start, count).bytes), in(blocks), out(data),
                    out(scale), out(ofValue), none()});
      ASSERT_EQ(amax, ofValue) << what << ", from " << start;
      ASSERT_EQ(wanted.scale, scale) << what << ", from " << start;
      for (int64_t i = 0; i < count; ++i) {
        const int64_t e = start + i;
        ASSERT_EQ(e >= 0 && e < rows * cols ? nibbleOf(wanted.data, e) : 0,
                  nibbleOf(data, i))
            << what << ", element " << e;
      }
    }
  }

  /// Every kind and type, with the matrix cut in several ways.
  void checkAll(const Cast &cast, int64_t rows, int64_t cols) {
    const bool mx = cast.scheme != TE_RT_BLOCK_128X128;
    const int64_t all = rows * cols;
    for (const char *kind : kKinds)
      for (int32_t type : {TE_RT_BF16, TE_RT_F32, TE_RT_F16}) {
        const Array x = makeArray(kind, type, all, ++turn);
        // Whole, inside rows and blocks, in vectors of eight, with padding at
        // the start and at the end.
        for (int64_t count :
             {all, all / 2 + 1, all / 3 + 7, all / 16 * 8 + 8}) {
          check(cast, x, rows, cols, count, turn % 2 ? 0 : -(turn % count),
                turn % 3 ? TE_RT_F8E4M3FN : TE_RT_F8E5M2, !mx && turn % 4 < 2,
                0.0f,
                std::string(kind) + " " + std::to_string(rows) + "x" +
                    std::to_string(cols) + " by " + std::to_string(count) +
                    " scheme " + std::to_string(cast.scheme) + " axis " +
                    std::to_string(cast.axis));
          if (HasFatalFailure())
            return;
        }
      }
  }

  int turn = 0;
};
TE_FOR_EACH_BACKEND(Shards);

TEST_P(Shards, CutAnywhereAreTheWhole) {
  for (auto [rows, cols] : {std::pair<int64_t, int64_t>{1, 1},
                            {1, 300},
                            {129, 1},
                            {128, 128},
                            {130, 272},
                            {257, 129},
                            {300, 40}}) {
    checkAll(kSquare, rows, cols);
    if (HasFatalFailure())
      return;
  }
}

// Sizes without whole tiles of scales, for both usages.
TEST_P(Shards, OfMxBlocksCutAnywhereAreTheWhole) {
  for (const Cast &cast : kMx)
    for (auto [rows, cols] : {std::pair<int64_t, int64_t>{32, 32},
                              {32, 288},
                              {160, 64},
                              {288, 160}}) {
      checkAll(cast, rows, cols);
      if (HasFatalFailure())
        return;
    }
}

TEST_P(Shards, AmaxEpsilonRaisesSmallBlocks) {
  check(kSquare, makeArray("wide", TE_RT_BF16, 130 * 260), 130, 260, 9001, 0,
        TE_RT_F8E4M3FN, false, 0.5f, "epsilon");
}

// The amax of a block that two ranks share is the larger of both: an element
// near the cut affects elements on the other side.
TEST_P(Shards, OfMxBlocksThatAreCutHaveOneExponent) {
  constexpr int64_t kRows = 64, kCols = 64, kCut = 32 * kCols + 16;
  Array x(TE_RT_BF16, kRows * kCols);
  for (int64_t i = 0; i < kRows * kCols; ++i)
    x.set(i, 1.0);
  x.set(kCut - 1, 448.0); // row 32, column 15, of the first run
  for (const Cast &cast : kMx) {
    std::vector<float> parts[2], amax(cast.blocks(kRows, kCols), 0.0f);
    const int64_t starts[] = {kCut - kRows * kCols, kCut};
    for (int i = 0; i < 2; ++i) {
      parts[i].resize(amax.size());
      device().run(TE_PLAN(partial_amax, kRows * kCols, kRows, kCols, starts[i],
                           cast.height, cast.width, TE_RT_BF16, 1, 0),
                   {in(runOf(x, starts[i], kRows * kCols).bytes), out(parts[i]),
                    none()});
    }
    const size_t cut =
        32 / cast.height * (kCols / cast.width) + 15 / cast.width;
    EXPECT_EQ(parts[0][cut], 448.0f);
    // With 1x32, the columns from 16 on are affected; with other schemes, the
    // rows below, too.
    EXPECT_EQ(parts[1][cut], 1.0f);
    amax[cut] = 448.0f;
    std::vector<uint8_t> data(kRows * kCols);
    std::vector<uint8_t> scale(
        microscaleCount(cast.scheme, cast.axis, kRows, kCols));
    device().run(TE_PLAN(quantize_shard, kRows * kCols, kRows, kCols, kCut,
                         TE_RT_BF16, TE_RT_F8E4M3FN, cast.scheme, cast.axis, 0,
                         0.0f, 1, 0),
                 {in(runOf(x, kCut, kRows * kCols).bytes), in(amax), out(data),
                  out(scale), none()});
    // 448 is 2^0 times the largest code. All other blocks have an amax of 0
    // here.
    EXPECT_EQ(int(scale[microscaleIndex(cast.scheme, cast.axis, kRows, kCols,
                                        32, 15)]),
              127);
    EXPECT_EQ(int(scale[microscaleIndex(cast.scheme, cast.axis, kRows, kCols, 0,
                                        40)]),
              0);
  }
}

// The cuts are inside groups of 16 and chunks of eight, but never inside a
// byte.
TEST_P(Shards, OfNvBlocksCutAnywhereAreTheWhole) {
  for (const Cast &cast : kNv)
    for (auto [rows, cols] : {std::pair<int64_t, int64_t>{16, 16},
                              {16, 272},
                              {144, 48},
                              {272, 144}}) {
      const int64_t all = rows * cols;
      for (const char *kind : kKinds)
        for (int32_t type : {TE_RT_BF16, TE_RT_F32, TE_RT_F16}) {
          const Array x = makeArray(kind, type, all, ++turn);
          for (int64_t count :
               {all, all / 2 + 2, all / 3 / 2 * 2 + 6, all / 16 * 8 + 8}) {
            checkNv(cast, x, rows, cols, count,
                    turn % 2 ? 0 : -(turn % count / 2 * 2),
                    turn % 3 ? 448 : 256,
                    std::string(kind) + " " + std::to_string(rows) + "x" +
                        std::to_string(cols) + " by " + std::to_string(count) +
                        " scheme " + std::to_string(cast.scheme) + " type " +
                        std::to_string(type));
            if (HasFatalFailure())
              return;
          }
        }
    }
}

// A rank after the last element has no element of any block, but takes part.
TEST_P(Shards, EmptyOnesHaveNothing) {
  const Array x = makeArray("normal", TE_RT_BF16, 64);
  std::vector<float> amax(2, -1.0f);
  device().run(
      TE_PLAN(partial_amax, 64, 1, 256, 256, 128, 128, TE_RT_BF16, 1, 0),
      {in(x.bytes), out(amax), none()});
  EXPECT_EQ(amax, (std::vector<float>{0.0f, 0.0f}));
  std::vector<uint8_t> data(64, 0xee);
  std::vector<float> scale(4, -1.0f);
  device().run(TE_PLAN(quantize_shard, 64, 1, 256, 256, TE_RT_BF16,
                       TE_RT_F8E4M3FN, TE_RT_BLOCK_128X128, 1, 0, 0.0f, 1, 0),
               {in(x.bytes), in(std::vector<float>{448.0f, 896.0f}), out(data),
                out(scale), none()});
  EXPECT_EQ(data, std::vector<uint8_t>(64, 0));
  EXPECT_EQ(scale, (std::vector<float>{1.0f, 2.0f, 0.0f, 0.0f}));
}

TEST_P(Shards, EmptyOnesOfMxBlocksHaveNothing) {
  const Array x = makeArray("normal", TE_RT_BF16, 64);
  for (const Cast &cast : kMx) {
    std::vector<float> amax(cast.blocks(32, 64), -1.0f);
    device().run(TE_PLAN(partial_amax, 64, 32, 64, 32 * 64, cast.height,
                         cast.width, TE_RT_BF16, 1, 0),
                 {in(x.bytes), out(amax), none()});
    EXPECT_EQ(amax, std::vector<float>(amax.size(), 0.0f));
    std::vector<uint8_t> data(64, 0xee);
    std::vector<uint8_t> scale(microscaleCount(cast.scheme, cast.axis, 32, 64),
                               0xee);
    // Every rank has all scales.
    device().run(TE_PLAN(quantize_shard, 64, 32, 64, 32 * 64, TE_RT_BF16,
                         TE_RT_F8E5M2, cast.scheme, cast.axis, 0, 0.0f, 1, 0),
                 {in(x.bytes), in(std::vector<float>(amax.size(), 57344.0f)),
                  out(data), out(scale), none()});
    EXPECT_EQ(data, std::vector<uint8_t>(64, 0));
    std::vector<uint8_t> wanted(scale.size(), 0);
    for (int64_t row = 0; row < 32; ++row)
      for (int64_t col = 0; col < 64; ++col)
        wanted[microscaleIndex(cast.scheme, cast.axis, 32, 64, row, col)] = 127;
    EXPECT_EQ(scale, wanted);
  }
}

TEST_P(Shards, EmptyOnesOfNvBlocksHaveNothing) {
  const Array x = makeArray("normal", TE_RT_BF16, 64);
  for (const Cast &cast : kNv) {
    std::vector<float> amax(cast.blocks(16, 64), -1.0f);
    device().run(TE_PLAN(partial_amax, 64, 16, 64, 16 * 64, cast.height,
                         cast.width, TE_RT_BF16, 1, 0),
                 {in(x.bytes), out(amax), none()});
    EXPECT_EQ(amax, std::vector<float>(amax.size(), 0.0f));
    std::vector<uint8_t> data(32, 0xee);
    std::vector<uint8_t> scale(nvScaleCount(16, 64), 0xee);
    std::vector<float> ofValue(1, -1.0f);
    // Every rank has all scales and the amax. The largest block has the largest
    // scale, 448, and a block with half its amax has half of that.
    amax.assign(amax.size(), 6.0f);
    amax[1] = 3.0f;
    device().run(
        TE_PLAN(quantize_nvfp4_shard, 64, 16, 64, 16 * 64, TE_RT_BF16,
                cast.scheme, 448, 1, 0),
        {in(x.bytes), in(amax), out(data), out(scale), out(ofValue), none()});
    EXPECT_EQ(data, std::vector<uint8_t>(32, 0));
    EXPECT_EQ(ofValue, std::vector<float>{6.0f});
    EXPECT_EQ(int(scale[0]), 0x7e); // 448
    EXPECT_EQ(int(scale[1]), 0x76); // 224
    // There is padding after the last row.
    EXPECT_EQ(int(scale[16 * 4]), 0);
  }
}

} // namespace
