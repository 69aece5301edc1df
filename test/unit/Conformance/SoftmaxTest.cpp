//===- SoftmaxTest.cpp - softmax of rows and its gradient -----------------===//
//
// To the bit against the definition, written here in f32: the maximum, lane
// sums, products. Only the exponentials come from the runtime, math::exp, whose
// accuracy ScalarMathTest checks. And against f64, within a bound: u = 2^-24,
// and a lane sum of n values rounds each at most K = n / 256 + 9 times.
//
//===----------------------------------------------------------------------===//

#include "Conformance/Harness.h"
#include "Conformance/Oracle.h"
#include "Core/Math.h"

#include <array>
#include <cmath>

using namespace te::conformance;

namespace {

constexpr double kU = 0x1p-24;
constexpr int32_t kTypes[] = {TE_RT_F32, TE_RT_BF16, TE_RT_F16};
constexpr float kScales[] = {1.0f, 0.125f, -3.0f};
/// No rows, no columns; rows in whole runs of 16 bytes and not, of a part of
/// the lanes and of several rounds, and longer than what stays in registers.
constexpr struct {
  int64_t rows, cols;
} kShapes[] = {{0, 8},    {3, 0},    {1, 1},    {5, 7},    {9, 64},
               {3, 255},  {2, 256},  {6, 257},  {4, 1000}, {2, 2048},
               {2, 4096}, {1, 4104}, {2, 5001}, {1, 8200}};

/// `addTo(acc, i)` is the new value of a lane that takes element i.
template <typename AddTo> float laneSum(int64_t count, AddTo addTo) {
  std::array<float, 256> lanes{};
  for (int64_t i = 0; i < count; ++i)
    lanes[i % 256] = addTo(lanes[i % 256], i);
  for (int distance = 128; distance >= 1; distance /= 2)
    for (int i = 0; i < distance; ++i)
      lanes[i] = lanes[i] + lanes[i + distance];
  return lanes[0];
}

class Softmax : public BackendTest {
protected:
  /// Calls body(rows, cols, scale, x) for every shape, type and kind, with one
  /// scale after another; long rows only with some kinds. Most long rows with
  /// an infinity are NaN, so every other row has only the negative ones, which
  /// the scale of that kind leaves negative.
  template <typename Body> void forEachInput(Body body) {
    size_t next = 0;
    for (const auto &[rows, cols] : kShapes)
      for (int32_t type : kTypes)
        for (const std::string kind :
             {"normal", "nan", "inf", "negzero", "subnormal", "huge", "wide"}) {
          if (cols > 1000 && kind != "normal" && kind != "nan" && kind != "inf")
            continue;
          Array x = makeArray(kind, type, rows * cols);
          float scale = kScales[next++ % std::size(kScales)];
          if (kind == "inf") {
            scale = 0.125f;
            for (int64_t i = 0; i < rows * cols; ++i)
              if (i / cols % 2 == 0 && x.at(i) == HUGE_VAL)
                x.set(i, -HUGE_VAL);
          }
          body(rows, cols, scale, x);
          ASSERT_FALSE(HasFailure()) << rows << "x" << cols << " type " << type
                                     << " " << kind << " scale " << scale;
        }
  }

  Array softmax(const Array &x, int64_t rows, int64_t cols, float scale) {
    Array y(x.type, x.size());
    device().run(TE_PLAN(softmax, rows, cols, x.type, scale),
                 {in(x.bytes), out(y.bytes)});
    return y;
  }

  Array defined(const Array &x, int64_t rows, int64_t cols, float scale) {
    Array e(TE_RT_F32, x.size()), y(x.type, x.size());
    auto scaled = [&](int64_t i) {
      return scale * static_cast<float>(x.at(i));
    };
    for (int64_t begin = 0; begin < rows * cols; begin += cols) {
      float max = -INFINITY;
      for (int64_t i = begin; i < begin + cols; ++i)
        max = std::fmax(max, scaled(i));
      for (int64_t i = begin; i < begin + cols; ++i)
        e.set(i, te::rt::math::exp(scaled(i) - max));
    }
    auto at = [&](int64_t i) { return static_cast<float>(e.at(i)); };
    for (int64_t begin = 0; begin < rows * cols; begin += cols) {
      const float inverse = 1.0f / laneSum(cols, [&](float acc, int64_t c) {
                              return acc + at(begin + c);
                            });
      for (int64_t i = begin; i < begin + cols; ++i)
        y.set(i, at(i) * inverse);
    }
    return y;
  }

  static Array definedGradient(const Array &dy, const Array &y, int64_t rows,
                               int64_t cols, float scale) {
    Array dx(y.type, y.size());
    auto value = [](const Array &a, int64_t i) {
      return static_cast<float>(a.at(i));
    };
    for (int64_t begin = 0; begin < rows * cols; begin += cols) {
      const float sum = laneSum(cols, [&](float acc, int64_t c) {
        return std::fma(value(dy, begin + c), value(y, begin + c), acc);
      });
      for (int64_t i = begin; i < begin + cols; ++i)
        dx.set(i, (scale * value(y, i)) * (value(dy, i) - sum));
    }
    return dx;
  }
};

TEST_P(Softmax, IsTheDefinitionToTheBit) {
  forEachInput([&](int64_t rows, int64_t cols, float scale, const Array &x) {
    const Array expected = defined(x, rows, cols, scale);
    const auto plan = TE_PLAN(softmax, rows, cols, x.type, scale);
    Array y(x.type, x.size()), odd(x.type, x.size()), inPlace(x.type, x.size());
    const int shift = static_cast<int>(elementBytes(x.type));
    device().run(plan, {in(x.bytes), out(y.bytes)});
    device().run(plan, {unaligned(in(x.bytes), shift),
                        unaligned(out(odd.bytes), shift)});
    device().run(plan, {in(x.bytes), outOn(0, inPlace.bytes)});
    EXPECT_TRUE(sameBits(expected, y));
    EXPECT_TRUE(sameBits(expected, odd)) << "unaligned";
    EXPECT_TRUE(sameBits(expected, inPlace)) << "in place";
  });
}

TEST_P(Softmax, GradientIsTheDefinitionToTheBit) {
  forEachInput([&](int64_t rows, int64_t cols, float scale, const Array &dy) {
    const Array y = makeArray("normal", dy.type, dy.size(), 2);
    const Array expected = definedGradient(dy, y, rows, cols, scale);
    const auto plan = TE_PLAN(softmax_backward, rows, cols, dy.type, scale);
    Array dx(y.type, y.size()), odd(y.type, y.size());
    const int shift = static_cast<int>(elementBytes(y.type));
    device().run(plan, {in(dy.bytes), in(y.bytes), out(dx.bytes)});
    device().run(plan,
                 {in(dy.bytes), unaligned(in(y.bytes), shift), out(odd.bytes)});
    EXPECT_TRUE(sameBits(expected, dx));
    EXPECT_TRUE(sameBits(expected, odd)) << "unaligned";
    for (int operand : {0, 1}) {
      Array inPlace(y.type, y.size());
      device().run(plan,
                   {in(dy.bytes), in(y.bytes), outOn(operand, inPlace.bytes)});
      EXPECT_TRUE(sameBits(expected, inPlace)) << "in place of " << operand;
    }
  });
}

// s = scale x is within u |s|; with D the largest |s - max| of the row, s - max
// is within (2 max|s| + D) u, an exponential within that and 4u, their sum
// within K u more, its inverse and the product one each.
TEST_P(Softmax, Values) {
  for (const auto &[rows, cols] : kShapes)
    for (int32_t type : kTypes)
      for (float scale : kScales) {
        const Array x = makeArray("normal", type, rows * cols, 3);
        const Array y = softmax(x, rows, cols, scale);
        const double k = static_cast<double>(cols) / 256 + 9;
        for (int64_t begin = 0; begin < rows * cols; begin += cols) {
          double max = -HUGE_VAL, size = 0, sum = 0, spread = 0;
          auto s = [&](int64_t i) { return double{scale} * x.at(i); };
          for (int64_t i = begin; i < begin + cols; ++i) {
            max = std::max(max, s(i));
            size = std::max(size, std::fabs(s(i)));
          }
          for (int64_t i = begin; i < begin + cols; ++i) {
            sum += std::exp(s(i) - max);
            spread = std::max(spread, max - s(i));
          }
          const double error = 2 * size + spread + 4;
          for (int64_t i = begin; i < begin + cols && !HasFatalFailure(); ++i) {
            const double expected = std::exp(s(i) - max) / sum;
            expectNear(expected, 1.01 * kU * expected * (2 * error + k + 2), y,
                       i, "y");
          }
        }
      }
}

// The sum is within K + 1 roundings of its terms; then a difference and two
// products.
TEST_P(Softmax, Gradients) {
  for (const auto &[rows, cols] : kShapes)
    for (int32_t type : kTypes)
      for (float scale : kScales) {
        const Array dy = makeArray("normal", type, rows * cols, 4);
        const Array y =
            softmax(makeArray("normal", type, rows * cols, 5), rows, cols, 1);
        Array dx(type, y.size());
        device().run(TE_PLAN(softmax_backward, rows, cols, type, scale),
                     {in(dy.bytes), in(y.bytes), out(dx.bytes)});
        const double k = static_cast<double>(cols) / 256 + 10;
        for (int64_t begin = 0; begin < rows * cols; begin += cols) {
          double sum = 0, size = 0;
          for (int64_t i = begin; i < begin + cols; ++i) {
            sum += dy.at(i) * y.at(i);
            size += std::fabs(dy.at(i) * y.at(i));
          }
          for (int64_t i = begin; i < begin + cols && !HasFatalFailure(); ++i) {
            const double factor = double{scale} * y.at(i);
            const double difference = dy.at(i) - sum;
            expectNear(factor * difference,
                       1.01 * kU * std::fabs(factor) *
                           (3 * std::fabs(difference) + k * size),
                       dx, i, "dx");
          }
        }
      }
}

TEST_P(Softmax, InfinitiesAndNaN) {
  const double inf = HUGE_VAL, nan = std::nan("");
  for (int32_t type : kTypes) {
    const Array x(type, {-inf, 0,    -inf, -0.0,   // two that count
                         -inf, -inf, -inf, -inf,   // none does
                         1,    nan,  2,    3,      // NaN
                         1,    inf,  2,    3,      // an infinity
                         -inf, -inf, 7,    -inf}); // one counts
    EXPECT_TRUE(
        sameBits(Array(type, {0,   0.5, 0,   0.5, nan, nan, nan, nan, nan, nan,
                              nan, nan, nan, nan, nan, nan, 0,   0,   1,   0}),
                 softmax(x, 5, 4, 0.5f)));
    const Array signs(type, {inf, 2, inf, 2,  // multiplied, they are -inf
                             -inf, 2, 3, 4}); // and +inf
    EXPECT_TRUE(sameBits(Array(type, {0, 0.5, 0, 0.5, nan, nan, nan, nan}),
                         softmax(signs, 2, 4, -3.0f)));
    const Array any(type, {1, -2, 3, 40, 1, inf, 2, 3});
    EXPECT_TRUE(
        sameBits(Array(type, {0.25, 0.25, 0.25, 0.25, nan, nan, nan, nan}),
                 softmax(any, 2, 4, 0.0f)));
  }
}

// An element whose y is 0 has a gradient of 0, unless the sum is no number.
TEST_P(Softmax, GradientsOfZerosInfinitiesAndNaN) {
  const double inf = HUGE_VAL, nan = std::nan("");
  for (int32_t type : kTypes) {
    const Array y(type, {0, 0.5, 0, 0.5, 0, 0.5, 0, 0.5, //
                         nan, nan, nan, nan, 0.5, 0.5, 0, 0});
    const Array dy(type, {7, 1, -3, 2, inf, 1, -3, 2, //
                          1, 1, 1, 1, inf, 1, 2, 3});
    Array dx(type, y.size());
    device().run(TE_PLAN(softmax_backward, 4, 4, type, 0.5f),
                 {in(dy.bytes), in(y.bytes), out(dx.bytes)});
    // inf - inf is NaN, and so is 0 (2 - inf).
    EXPECT_TRUE(
        sameBits(Array(type, {0, -0.125, -0.0, 0.125, nan, nan, nan, nan, //
                              nan, nan, nan, nan, nan, -inf, nan, nan}),
                 dx));
  }
}

// The sum has the definition's bits. A row without elements sums to 0.
TEST_P(Softmax, RowSumsAreLaneSums) {
  for (auto [rows, cols] : kShapes)
    for (int32_t type : kTypes)
      for (int32_t outType : {type, +TE_RT_F32})
        for (const char *kind : {"normal", "inf", "nan", "negzero", "huge"}) {
          const Array x = makeArray(kind, type, rows * cols, 1);
          Array expected(outType, rows), y(outType, rows);
          for (int64_t r = 0; r < rows; ++r)
            expected.set(r, laneSum(cols, [&](float acc, int64_t c) {
                           return acc + static_cast<float>(x.at(r * cols + c));
                         }));
          device().run(TE_PLAN(row_sum, rows, cols, type, outType),
                       {in(x.bytes), out(y.bytes)});
          ASSERT_TRUE(sameBits(expected, y))
              << rows << "x" << cols << " " << kind << " type " << type;
        }
}

TE_FOR_EACH_BACKEND(Softmax);

} // namespace
