//===- Nvfp4Test.cpp - the small kernels of the nvfp4 recipe --------------===//
//
// Factors of GEMMs, random states, row amaxes and the Hadamard transform.
// Nvfp4CastTest.cpp tests quantisation itself.
//
//===----------------------------------------------------------------------===//

#include "Conformance/Harness.h"
#include "Conformance/Oracle.h"

#include <bit>
#include <cmath>
#include <limits>

using namespace te::conformance;

namespace {

class Nvfp4 : public BackendTest {};

// Each step is computed in f64, where it is exact, and then rounded.
TEST_P(Nvfp4, AlphaRoundsEveryStep) {
  for (int64_t rows : {0, 1, 300})
    for (int32_t aMax : {448, 256})
      for (int32_t bMax : {448, 256}) {
        const Array a = makeArray("wide", TE_RT_F32, rows, 1);
        const std::vector<float> b{2.71875f};
        std::vector<float> alpha(rows), expected(rows);
        for (int64_t r = 0; r < rows; ++r) {
          const auto product = static_cast<float>(a.at(r) * double(b[0]));
          const auto factor = static_cast<float>(1.0 / (36.0 * aMax * bMax));
          expected[r] = static_cast<float>(double(product) * factor);
        }
        device().run(TE_PLAN(nvfp4_alpha, 1, rows, aMax, bMax),
                     {in(a.bytes), in(b), out(alpha)});
        ASSERT_EQ(expected, alpha);
      }
}

TEST_P(Nvfp4, RngAdvanceWrapsAndMayBeInPlace) {
  const std::vector<std::vector<int32_t>> cases = {
      {7, 0, 1}, {-5, 41, 1000}, {3, -1, 2}, {3, INT32_MAX, INT32_MAX}};
  for (const auto &c : cases) {
    const std::vector<int32_t> state{c[0], c[1]};
    const std::vector<int32_t> expected{
        c[0], std::bit_cast<int32_t>(static_cast<uint32_t>(c[1]) +
                                     static_cast<uint32_t>(c[2]))};
    std::vector<int32_t> apart(2), onTop(2);
    device().run(TE_PLAN(rng_advance, c[2]), {in(state), out(apart)});
    device().run(TE_PLAN(rng_advance, c[2]), {in(state), outOn(0, onTop)});
    EXPECT_EQ(expected, apart);
    EXPECT_EQ(expected, onTop);
  }
}

TEST_P(Nvfp4, AmaxOfRows) {
  for (int32_t type : {TE_RT_BF16, TE_RT_F32, TE_RT_F16})
    for (const char *kind : {"normal", "zeros", "inf", "nan", "subnormal"})
      for (int64_t rows : {0, 1, 9, 130})
        for (int64_t cols : {0, 1, 7, 16, 255, 264, 2049}) {
          const Array x = makeArray(kind, type, rows * cols, rows);
          std::vector<float> expected(rows), amax(rows);
          for (int64_t i = 0; i < rows * cols; ++i)
            if (std::fabs(x.at(i)) > expected[i / cols])
              expected[i / cols] = static_cast<float>(std::fabs(x.at(i)));
          device().run(TE_PLAN(amax_rows, rows, cols, type),
                       {in(x.bytes), out(amax)});
          ASSERT_EQ(expected, amax)
              << kind << " " << rows << "x" << cols << " type " << type;
        }
}

/// The matrix of the transform, from its definition.
double entry(int i, int j) {
  constexpr int kSigns[] = {1,  1,  1,  -1, 1,  -1, -1, -1,
                            -1, -1, -1, 1,  -1, 1,  -1, -1};
  return kSigns[i] *
         (std::popcount(static_cast<unsigned>(i & j)) % 2 ? -0.25 : 0.25);
}

class Hadamard : public BackendTest {
protected:
  Array transform(const Array &x, int64_t rows, int64_t cols) {
    Array y(TE_RT_BF16, x.size());
    device().run(TE_PLAN(hadamard, rows, cols), {in(x.bytes), out(y.bytes)});
    return y;
  }
};

// Unit vectors give the rows of T, which is orthogonal.
TEST_P(Hadamard, MatrixIsTheDefinition) {
  Array unit(TE_RT_BF16, size_t{256});
  for (int i = 0; i < 16; ++i)
    unit.set(i * 16 + i, 1);
  const Array t = transform(unit, 16, 16);
  for (int i = 0; i < 16; ++i)
    for (int k = 0; k < 16; ++k) {
      ASSERT_EQ(entry(i, k), t.at(k * 16 + i)) << i << ", " << k;
      double dot = 0;
      for (int j = 0; j < 16; ++j)
        dot += t.at(j * 16 + i) * t.at(j * 16 + k);
      ASSERT_EQ(i == k ? 1 : 0, dot);
    }
}

// The sum of 16 numbers overflows where a quarter of it does not, and partial
// sums that cancel overflow in f32. All sums here are exact in double.
TEST_P(Hadamard, OverflowsOnlyWhereTheResultDoes) {
  const double largest = std::ldexp(255.0, 120);
  Array x(TE_RT_BF16, size_t{16 * 64});
  for (int i = 0; i < 16; ++i)
    for (int c = 0; c < 64; ++c) {
      // Column c is row c % 16 of T, of one size in all elements, or in half.
      const double size = c < 16   ? std::ldexp(1.0, 124)
                          : c < 32 ? largest
                          : c < 48 ? (i < 8 ? largest : -largest)
                                   : std::ldexp(1.0, -133);
      x.set(i * 64 + c, entry(i, c % 16) < 0 ? -size : size);
    }
  const Array y = transform(x, 16, 64);
  for (int j = 0; j < 16; ++j)
    for (int c = 0; c < 64; ++c) {
      double sum = 0;
      for (int i = 0; i < 16; ++i)
        sum += x.at(i * 64 + c) * entry(i, j);
      Array expected(TE_RT_BF16, size_t{1});
      expected.set(0, sum);
      ASSERT_EQ(expected.at(0), y.at(j * 64 + c)) << j << ", " << c;
    }
}

// Integers up to 15 give multiples of 1/4 up to 60, which bf16 represents.
// Nothing is rounded, and the transpose of T gives the integers back.
TEST_P(Hadamard, TransposeRestoresSmallIntegers) {
  for (int64_t rows : {0, 16, 48, 272})
    for (int64_t cols : {0, 1, 5, 16, 130, 513, 1030}) {
      Array x(TE_RT_BF16, size_t(rows * cols));
      for (int64_t i = 0; i < rows * cols; ++i)
        x.set(i, static_cast<double>(i * 7919 % 31 - 15));
      const Array y = transform(x, rows, cols);
      for (int64_t r = 0; r < rows; ++r)
        for (int64_t c = 0; c < cols; ++c) {
          double back = 0;
          for (int j = 0; j < 16; ++j)
            back += y.at((r / 16 * 16 + j) * cols + c) *
                    entry(static_cast<int>(r % 16), j);
          ASSERT_EQ(x.at(r * cols + c), back)
              << rows << "x" << cols << " at " << r << ", " << c;
        }
    }
}

// Four levels of f32 sums, each with an error of at most 2^-24 of a quarter of
// the magnitudes of a run; then one rounding to bf16.
TEST_P(Hadamard, RoundsOnce) {
  const int64_t rows = 64, cols = 200;
  for (const char *kind : {"normal", "wide", "huge"}) {
    const Array x = makeArray(kind, TE_RT_BF16, rows * cols);
    const Array y = transform(x, rows, cols);
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t c = 0; c < cols; ++c) {
        double exact = 0, magnitudes = 0;
        for (int i = 0; i < 16; ++i) {
          const double v = x.at((r / 16 * 16 + i) * cols + c);
          exact += v * entry(i, static_cast<int>(r % 16));
          magnitudes += std::fabs(v);
        }
        // An intermediate sum may overflow even if the result does not.
        if (magnitudes > maxFiniteOf(TE_RT_F32))
          continue;
        const double slack = 1.001 * 4 * std::ldexp(magnitudes / 4, -24);
        const double low = roundTo(TE_RT_BF16, exact - slack);
        const double high = roundTo(TE_RT_BF16, exact + slack);
        ASSERT_TRUE(low <= y.at(r * cols + c) && y.at(r * cols + c) <= high)
            << kind << ": " << exact << " gave " << y.at(r * cols + c);
      }
  }
}

// A NaN affects only its run. An infinity gives infinities with the signs of T.
TEST_P(Hadamard, SpecialValuesStayInTheirRun) {
  constexpr double inf = std::numeric_limits<double>::infinity();
  Array x = makeArray("normal", TE_RT_BF16, 48 * 3);
  x.set((16 + 5) * 3 + 1, std::numeric_limits<double>::quiet_NaN());
  x.set((32 + 6) * 3 + 2, inf);
  const Array y = transform(x, 48, 3);
  for (int r = 0; r < 48; ++r)
    for (int c = 0; c < 3; ++c) {
      const double v = y.at(r * 3 + c);
      if (r / 16 == 1 && c == 1)
        ASSERT_TRUE(std::isnan(v));
      else if (r / 16 == 2 && c == 2)
        ASSERT_EQ(std::copysign(inf, entry(6, r % 16)), v);
      else
        ASSERT_TRUE(std::isfinite(v));
    }
}

TE_FOR_EACH_BACKEND(Hadamard);
TE_FOR_EACH_BACKEND(Nvfp4);

} // namespace
