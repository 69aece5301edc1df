//===- SquaresTest.cpp - sums of the squares of tensors, to the bit -------===//
//
// The order of a sum_of_squares is computed here again, from its definition.
//
//===----------------------------------------------------------------------===//

#include "Conformance/Harness.h"
#include "Conformance/Oracle.h"

#include <algorithm>
#include <array>
#include <cmath>

using namespace te::conformance;

namespace {

constexpr int32_t kTypes[] = {TE_RT_F32, TE_RT_BF16, TE_RT_F16};

/// The tensors of a sum; a null has no elements.
using Tensors = std::vector<const Array *>;

class Squares : public BackendTest {
protected:
  float sumOfSquares(const Tensors &tensors, const Buffer &before,
                     int offset = 0) {
    std::vector<float> sum(1);
    std::vector<int64_t> counts;
    std::vector<int32_t> types;
    std::vector<Buffer> buffers;
    for (size_t i = 0; i < kSquaresGroup; ++i) {
      const bool isGiven = i < tensors.size() && tensors[i];
      counts.push_back(isGiven ? static_cast<int64_t>(tensors[i]->size()) : 0);
      types.push_back(isGiven ? tensors[i]->type : TE_RT_F32);
      buffers.push_back(
          isGiven ? unaligned(in(tensors[i]->bytes), i % 2 ? 0 : offset)
                  : none());
    }
    buffers.push_back(before);
    buffers.push_back(out(sum));
    device().run(planOfSquares(counts, types), buffers);
    return sum[0];
  }
  float sumOfSquares(const Array &x, const Buffer &before, int offset = 0) {
    return sumOfSquares(Tensors{&x}, before, offset);
  }
};

/// The lane sum of the page of kernels: 256 lanes, then a halving tree.
template <typename Step> float laneSum(int64_t count, Step step) {
  std::array<float, 256> lanes{};
  for (int64_t i = 0; i < count; ++i)
    lanes[i % 256] = step(lanes[i % 256], i);
  for (size_t half = 128; half != 0; half /= 2)
    for (size_t i = 0; i < half; ++i)
      lanes[i] = lanes[i] + lanes[i + half];
  return lanes[0];
}

float squaresOf(const Array &x) {
  const auto count = static_cast<int64_t>(x.size());
  std::vector<float> runs;
  for (int64_t first = 0; first < count; first += 4096)
    runs.push_back(laneSum(
        std::min<int64_t>(4096, count - first), [&](float acc, int64_t i) {
          const auto value = static_cast<float>(x.at(first + i));
          return std::fma(value, value, acc);
        }));
  return laneSum(static_cast<int64_t>(runs.size()),
                 [&](float acc, int64_t i) { return acc + runs[i]; });
}

TEST_P(Squares, OfOneTensor) {
  const std::vector<float> before{2.7f};
  for (int64_t count : {0, 1, 255, 4095, 4096, 4104, 40000, 1050000})
    for (int32_t type : kTypes) {
      if (count > 100000 && type != TE_RT_BF16)
        continue;
      const Array x = makeArray("normal", type, count, 1);
      const float expected = squaresOf(x);
      EXPECT_EQ(sumOfSquares(x, none()), expected) << count << " " << type;
      EXPECT_EQ(sumOfSquares(x, in(before)), 2.7f + expected);
      // Addresses without the alignment of vectors give the same bits.
      EXPECT_EQ(sumOfSquares(x, none(), type == TE_RT_F32 ? 4 : 2), expected);
      // Squares are not negative, so each of the at most 16 + 8 + 2 + 8 + 1
      // roundings that a square passes through is relative to the sum.
      double exact = 0;
      for (int64_t i = 0; i < count; ++i)
        exact += x.at(i) * x.at(i);
      EXPECT_NEAR(expected, exact, 36 * 0x1p-24 * exact);
    }
}

// Tensors of all sizes and types are added one after the other.
TEST_P(Squares, OfManyTensors) {
  std::vector<Array> arrays;
  for (int64_t count : {4096 * 9, 1, 40000, 0, 33000, 8, 250000, 4096})
    for (int32_t type : kTypes)
      arrays.push_back(
          makeArray("normal", type, count, static_cast<int>(arrays.size())));
  for (size_t most : {2, 5, 24, 32})
    for (float before : {0.0f, 2.7f}) {
      Tensors tensors;
      float expected = before;
      for (size_t i = 0; i < most; ++i) {
        const Array &x = arrays[(i * 7 + most) % arrays.size()];
        // One is absent, in the middle and at the end.
        const bool isGiven = i % 8 != 7 && x.size() != 0;
        tensors.push_back(isGiven ? &x : nullptr);
        if (isGiven)
          expected += squaresOf(x);
      }
      const std::vector<float> sum{before};
      for (int offset : {0, 4})
        EXPECT_EQ(sumOfSquares(tensors, in(sum), offset), expected)
            << most << " " << before << " " << offset;
      if (before == 0.0f)
        EXPECT_EQ(sumOfSquares(tensors, none()), expected) << most;
    }
  EXPECT_EQ(sumOfSquares(Tensors{}, none()), 0.0f);
}

TEST_P(Squares, NeedTheirTensors) {
  std::vector<float> sum(1);
  std::vector<Buffer> buffers(kSquaresGroup + 1, none());
  buffers.push_back(out(sum));
  EXPECT_EQ(
      device().tryRun(planOfSquares({0, 7}, {TE_RT_F32, TE_RT_F32}), buffers),
      TE_RT_INVALID_ARGUMENT);
  EXPECT_NE(std::string(te_rt_last_error())
                .find("expected all buffers of tensor 1, whose count is 7"),
            std::string::npos)
      << te_rt_last_error();
}

TEST_P(Squares, InPlaceAndOutOfRange) {
  Array x(TE_RT_F32, std::vector<double>(5000, -2.0));
  std::vector<float> sum{1.0f}, before{1.0f};
  std::vector<Buffer> buffers = {in(x.bytes)};
  buffers.resize(kSquaresGroup, none());
  buffers.push_back(in(before));
  buffers.push_back(outOn(kSquaresGroup, sum));
  device().run(planOfSquares({5000}, {TE_RT_F32}), buffers);
  EXPECT_EQ(sum[0], 20001.0f);
  x.set(4999, 3e38);
  EXPECT_EQ(sumOfSquares(x, none()), INFINITY);
  x.set(17, -INFINITY);
  EXPECT_EQ(sumOfSquares(x, none()), INFINITY);
  x.set(4098, NAN);
  EXPECT_TRUE(std::isnan(sumOfSquares(x, none())));
  x = Array(TE_RT_F32, std::vector<double>(3, -0.0));
  EXPECT_FALSE(std::signbit(sumOfSquares(x, none())));
  const std::vector<float> nan{NAN};
  EXPECT_TRUE(std::isnan(sumOfSquares(x, in(nan))));
}

TE_FOR_EACH_BACKEND(Squares);

} // namespace
