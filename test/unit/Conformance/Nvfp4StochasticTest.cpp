//===- Nvfp4StochasticTest.cpp - 4-bit quantisation at random -------------===//
//
// Stochastic rounding is unbiased, and its streams are independent. Bounds of
// statistics are four standard errors. Seeds are fixed, so the results are the
// same in every run.
//
//===----------------------------------------------------------------------===//

#include "Conformance/Nvfp4Cast.h"

#include <array>
#include <cmath>
#include <random>

using namespace te::conformance;

namespace {

// "Parallel random numbers: as easy as 1, 2, 3": zeros, ones, digits of pi.
TEST(NvOracle, PhiloxKnownAnswers) {
  using Words = std::array<uint32_t, 4>;
  EXPECT_EQ((Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}),
            philoxOf({0, 0, 0, 0}, {0, 0}));
  EXPECT_EQ((Words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}),
            philoxOf({~0u, ~0u, ~0u, ~0u}, {~0u, ~0u}));
  EXPECT_EQ((Words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}),
            philoxOf({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
                     {0xa4093822, 0x299f31d0}));
}

class Nvfp4Stochastic : public Nvfp4Cast {
protected:
  static constexpr int64_t kRows = 4096, kCols = 2688;

  /// Groups of a 6 and 15 of the values, repeated.
  static Array pattern(const std::vector<double> &values) {
    Array x(TE_RT_F32, size_t{kRows * kCols});
    for (int64_t i = 0; i < kRows * kCols; ++i)
      x.set(i, i % 16 == 0 ? 6 : values[i % 16 - 1]);
    return x;
  }
  std::vector<uint8_t> codes(const Array &x, int32_t seed, int32_t offset,
                             int32_t stream, const char *usage = "row") {
    BothUsages both = quantise(
        x, kRows, kCols, {kUnitAmax},
        {.stochastic = 1, .stream = stream, .seed = seed, .offset = offset});
    return std::move(usage[0] == 'r' ? both.row.data : both.col.data);
  }
};

// Over 10 million draws, of places that 8 bits hold and of others. Those are
// cut to 16 bits, a bias far below what so many draws could show. Partners
// share bytes. Be A, B that the own byte of each decides for up, and a, b that
// it ties and the partner's decides: A and B are independent, cov(A, b) and
// cov(B, a) are at most 1/256 * 1/4, cov(a, b) at most 1/65536, together
// 129/65536.
TEST_P(Nvfp4Stochastic, Unbiased) {
  for (const bool isExact : {true, false}) {
    std::vector<double> values, probability;
    for (int j = 0; j < 15; ++j) {
      const int low = j % 7;
      const double place =
          (isExact ? (j * 37 + 11) % 256 : (j * 37 + 11) % 256 + 0.625) / 256.0;
      const double step = kE2M1[low + 1] - kE2M1[low];
      values.push_back((kE2M1[low] + place * step) * (j % 2 ? -1 : 1));
      probability.push_back(place);
    }
    const std::vector<uint8_t> data = codes(pattern(values), 1234, 77, 2);
    const int64_t groups = kRows * kCols / 16;
    ASSERT_GE(groups * 15, 10'000'000);
    std::vector<int64_t> ups(15);
    for (int64_t i = 0; i < kRows * kCols; ++i) {
      const uint32_t code = nibbleOf(data, i);
      if (i % 16 == 0) {
        ASSERT_EQ(7u, code);
        continue;
      }
      const int64_t j = i % 16 - 1;
      ASSERT_EQ(j % 2 ? 8u : 0u, code & 8);
      const int64_t up = (code & 7) - j % 7;
      ASSERT_TRUE(up == 0 || up == 1);
      ups[j] += up;
    }
    double error = 0, variance = 0;
    for (int j = 0; j < 15; ++j) {
      const double p = probability[j];
      const double off = ups[j] - groups * p;
      EXPECT_LE(std::fabs(off), 4 * std::sqrt(groups * p * (1 - p)))
          << "value " << values[j];
      const double step = kE2M1[j % 7 + 1] - kE2M1[j % 7];
      error += off * step;
      variance += groups * (p * (1 - p) + 129.0 / 65536) * step * step;
    }
    EXPECT_LE(std::fabs(error), 4 * std::sqrt(variance));
  }
}

// Where all is one half up, codes are coin tosses: two independent sequences of
// n agree in n/2 places with a standard deviation of sqrt(n)/2. So do the bits
// of one and those of a neighbour.
TEST_P(Nvfp4Stochastic, StreamsAreIndependent) {
  const Array x = pattern(std::vector<double>(15, 2.5));
  const std::vector<uint8_t> base = codes(x, 1, 2, 3);
  EXPECT_EQ(base, codes(x, 1, 2, 3));
  const int64_t n = kRows * kCols / 16 * 15;
  auto expectIndependent = [&](const std::vector<uint8_t> &other,
                               const char *what, int64_t shift = 0) {
    int64_t equal = 0, count = 0;
    for (int64_t i = 0; i + shift < kRows * kCols; ++i)
      if (i % 16 != 0 && (i + shift) % 16 != 0) {
        equal += nibbleOf(base, i) == nibbleOf(other, i + shift);
        ++count;
      }
    EXPECT_GE(count, n * 13 / 15);
    EXPECT_LE(std::fabs(equal - count / 2.0), 2 * std::sqrt(double(count)))
        << what;
  };
  expectIndependent(codes(x, 2, 2, 3), "another seed");
  expectIndependent(codes(x, 1, 3, 3), "another offset");
  expectIndependent(codes(x, 1, 2, 4), "another stream");
  expectIndependent(codes(x, 2, 1, 3), "seed and offset exchanged");
  expectIndependent(base, "the next element", 1);
  expectIndependent(base, "the next group", 16);
  expectIndependent(base, "the next row", kCols);

  // The col usage of a value whose groups along the columns are equal.
  Array y(TE_RT_F32, size_t{kRows * kCols});
  for (int64_t i = 0; i < kRows * kCols; ++i)
    y.set(i, i / kCols % 16 == 0 ? 6 : 2.5);
  expectIndependent(codes(y, 1, 2, 3, "col"), "the other usage");

  // Per place in the group: the sum of 15 squared deviations, each of mean 1
  // and variance 2.
  double chiSquare = 0;
  const double groups = kRows * kCols / 16.0;
  for (int j = 1; j < 16; ++j) {
    double ups = 0;
    for (int64_t i = j; i < kRows * kCols; i += 16)
      ups += nibbleOf(base, i) == 5;
    chiSquare += (ups - groups / 2) * (ups - groups / 2) / (groups / 4);
  }
  EXPECT_LE(chiSquare, 15 + 4 * std::sqrt(30.0));
}

TEST_P(Nvfp4Stochastic, ExactValuesNeverMove) {
  std::vector<double> values;
  for (int j = 0; j < 15; ++j)
    values.push_back(e2m1Value(j));
  const std::vector<uint8_t> data = codes(pattern(values), 9, 9, 9);
  for (int64_t i = 0; i < kRows * kCols; ++i)
    ASSERT_EQ(i % 16 == 0 ? 7u : static_cast<uint32_t>(i % 16 - 1),
              nibbleOf(data, i));
}

// If a scale rounds to 0 or saturates, elements exceed 6.
TEST_P(Nvfp4Stochastic, Saturates) {
  Array x(TE_RT_F32, size_t{16 * 32});
  for (int i = 0; i < 16; ++i) {
    x.set(i, i % 2 ? -1e-6 : 1e-6);
    x.set(16 + i, i % 2 ? -1e6 : 1e6);
  }
  const BothUsages both =
      quantise(x, 16, 32, {kUnitAmax}, {.stochastic = 1, .seed = 3});
  EXPECT_EQ(0x00, both.row.scale[0]);
  EXPECT_EQ(0x7e, both.row.scale[1]);
  for (int i = 0; i < 32; ++i)
    EXPECT_EQ(i % 2 ? 15u : 7u, nibbleOf(both.row.data, i));
}

TE_FOR_EACH_BACKEND(Nvfp4Stochastic);

} // namespace
