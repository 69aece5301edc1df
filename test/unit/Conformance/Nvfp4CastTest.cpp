//===- Nvfp4CastTest.cpp - 4-bit quantisation -----------------------------===//
//
// Against an oracle of its own, bit for bit, and by properties that need none:
// square blocks are transposes, powers of two pass through row scales, random
// rounding is unbiased and its streams are independent. Bounds on statistics
// are four standard errors; seeds are fixed, so a test that passes passes
// always.
//
//===----------------------------------------------------------------------===//

#include "Conformance/Harness.h"
#include "Conformance/NvOracle.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

using namespace te::conformance;

namespace {

constexpr int64_t kSizes[] = {16, 32, 48, 112, 128, 144, 272};
constexpr int32_t kTypes[] = {TE_RT_BF16, TE_RT_F32, TE_RT_F16};
constexpr const char *kKinds[] = {"normal",    "zeros", "inf", "nan",
                                  "subnormal", "huge",  "wide"};
constexpr NvOptions kVariants[] = {
    {.scheme = TE_RT_NV_1X16},
    {.scheme = TE_RT_NV_16X16},
    {.scheme = TE_RT_NV_1X16, .scaleMax = 256},
    {.scheme = TE_RT_NV_16X16, .scaleMax = 256},
    {.scheme = TE_RT_NV_1X16, .fourOverSix = 1},
    {.scheme = TE_RT_NV_16X16, .fourOverSix = 1},
    {.scheme = TE_RT_NV_1X16, .scaleMax = 256, .fourOverSix = 2},
    {.scheme = TE_RT_NV_16X16, .scaleMax = 256, .fourOverSix = 2},
    {.stochastic = 1, .stream = 3, .seed = 11, .offset = 5},
    {.scheme = TE_RT_NV_16X16, .stochastic = 1, .stream = -1, .offset = -7},
    {.rowScaled = 1},
    {.rowScaled = 1, .scaleMax = 256, .fourOverSix = 1}};

std::vector<float> amaxOf(const Array &x, int64_t rows, int64_t cols,
                          bool perRow) {
  std::vector<float> amax(perRow ? rows : 1, 0.0f);
  for (int64_t i = 0; i < rows * cols; ++i) {
    float &entry = amax[perRow ? i / cols : 0];
    if (std::fabs(x.at(i)) > entry)
      entry = static_cast<float>(std::fabs(x.at(i)));
  }
  return amax;
}

struct BothUsages {
  BothUsages(int64_t rows, int64_t cols, size_t amaxes = 1)
      : rowAmax(amaxes), colAmax(1) {
    row.data.resize(rows * cols / 2);
    col.data.resize(rows * cols / 2);
    row.scale.resize(nvScaleCount(rows, cols));
    col.scale.resize(nvScaleCount(cols, rows));
  }
  NvQuantised row, col;
  std::vector<float> rowAmax, colAmax;
};

class Nvfp4Cast : public BackendTest {
protected:
  static PlanFunction plan(int32_t type, int64_t rows, int64_t cols,
                           const NvOptions &o) {
    return TE_PLAN(quantize_nvfp4, 1, rows, cols, type, o.scheme, o.rowScaled,
                   o.scaleMax, o.fourOverSix, o.stochastic, o.stream);
  }
  /// Both usages, or the row usage of a row-scaled value.
  BothUsages quantise(const Array &x, int64_t rows, int64_t cols,
                      const std::vector<float> &amax, const NvOptions &o) {
    BothUsages result(rows, cols, amax.size());
    const std::vector<int32_t> rng{o.seed, o.offset};
    std::vector<Buffer> buffers = {in(x.bytes),
                                   in(amax),
                                   o.stochastic ? in(rng) : none(),
                                   out(result.row.data),
                                   out(result.row.scale),
                                   out(result.rowAmax),
                                   out(result.col.data),
                                   out(result.col.scale),
                                   out(result.colAmax)};
    if (o.rowScaled)
      std::fill(buffers.begin() + 6, buffers.end(), none());
    device().run(plan(x.type, rows, cols, o), buffers);
    return result;
  }

  void expectEqual(const NvQuantised &expected, const NvQuantised &actual,
                   const std::string &what) {
    ASSERT_EQ(expected.scale.size(), actual.scale.size());
    for (size_t i = 0; i < expected.scale.size(); ++i)
      ASSERT_EQ(int(expected.scale[i]), int(actual.scale[i]))
          << what << ", scale at " << i;
    ASSERT_EQ(expected.data.size(), actual.data.size());
    for (size_t i = 0; i < expected.data.size() * 2; ++i)
      ASSERT_EQ(nibbleOf(expected.data, i), nibbleOf(actual.data, i))
          << what << ", code at " << i;
  }

  void check(const Array &x, int64_t rows, int64_t cols, const NvOptions &o,
             const std::string &what, bool alone) {
    const std::vector<float> amax = amaxOf(x, rows, cols, o.rowScaled);
    const BothUsages both = quantise(x, rows, cols, amax, o);
    expectEqual(quantiseNv(x, rows, cols, 1, amax, o), both.row, what + " row");
    ASSERT_EQ(amax, both.rowAmax) << what;
    if (o.rowScaled)
      return;
    expectEqual(quantiseNv(x, rows, cols, 0, amax, o), both.col, what + " col");
    ASSERT_EQ(amax, both.colAmax) << what;
    if (!alone)
      return;
    BothUsages one(rows, cols);
    const std::vector<int32_t> rng{o.seed, o.offset};
    device().run(plan(x.type, rows, cols, o),
                 {in(x.bytes), in(amax), in(rng), out(one.row.data),
                  out(one.row.scale), none(), none(), none(), none()});
    device().run(plan(x.type, rows, cols, o),
                 {in(x.bytes), in(amax), in(rng), none(), none(), none(),
                  out(one.col.data), out(one.col.scale), none()});
    expectEqual(both.row, one.row, what + " row alone");
    expectEqual(both.col, one.col, what + " col alone");
  }
};

// Input types and "one usage alone" take turns, so that each meets every
// variant, kind and shape.
TEST_P(Nvfp4Cast, ShapesAndKinds) {
  int turn = 0;
  for (const NvOptions &variant : kVariants)
    for (int64_t rows : kSizes)
      for (int64_t cols : {kSizes[turn % 7], kSizes[(turn / 3 + 3) % 7]})
        for (const char *kind : kKinds) {
          const int32_t type = kTypes[turn++ % 3];
          const Array x = makeArray(kind, type, rows * cols, turn);
          check(x, rows, cols, variant,
                std::string(kind) + " " + std::to_string(rows) + "x" +
                    std::to_string(cols) + " type " + std::to_string(type) +
                    " variant " + std::to_string(&variant - kVariants),
                turn % 4 == 0);
          if (HasFatalFailure())
            return;
        }
}

TEST_P(Nvfp4Cast, EmptyValuesHaveAnAmax) {
  for (const auto &[rows, cols] :
       {std::pair<int64_t, int64_t>{0, 16}, {16, 0}, {0, 0}})
    for (int32_t rowScaled : {0, 1}) {
      const NvOptions o{.rowScaled = rowScaled};
      const std::vector<float> amax(rowScaled ? rows : 1, 2.5f);
      const BothUsages both =
          quantise(Array(TE_RT_BF16, size_t{0}), rows, cols, amax, o);
      EXPECT_EQ(amax, both.rowAmax);
      if (!rowScaled)
        EXPECT_EQ(amax, both.colAmax);
      EXPECT_TRUE(std::ranges::all_of(both.row.scale,
                                      [](uint8_t byte) { return byte == 0; }));
    }
}

// With an amax of 2688 the tensor's factor is 1, and a block whose amax is 6
// has scale 1: codes are then those of the elements as they are.
constexpr float kUnitAmax = 2688;

/// Groups of 6 and 15 of the values, filled up with zeros.
Array unitGroups(const std::vector<double> &values, int64_t *cols) {
  std::vector<double> groups;
  for (size_t i = 0; i < values.size(); i += 15) {
    groups.push_back(6);
    for (size_t j = i; j < i + 15; ++j)
      groups.push_back(j < values.size() ? values[j] : 0);
  }
  *cols = groups.size();
  groups.resize(groups.size() * 16);
  return Array(TE_RT_F32, groups);
}

TEST_P(Nvfp4Cast, EveryCodeAndTie) {
  // Each magnitude and each middle of two, with their neighbours in f32.
  std::vector<double> values{1e-45, 1e-30, 0.1};
  for (int code = 0; code < 8; ++code)
    for (double v :
         {kE2M1[code], (kE2M1[code] + kE2M1[std::max(0, code - 1)]) / 2})
      for (float each : {static_cast<float>(v), std::nextafterf(v, 0.0f),
                         std::nextafterf(v, 6.0f)})
        values.push_back(each);
  for (size_t i = values.size(); i-- > 0;)
    values.push_back(-values[i]);
  int64_t cols;
  const Array x = unitGroups(values, &cols);
  const BothUsages both = quantise(x, 16, cols, {kUnitAmax}, {});
  for (int64_t i = 0; i < cols; ++i) {
    ASSERT_EQ(0x38, both.row.scale[i / 16]) << "1 in e4m3";
    ASSERT_EQ(encodeE2M1(x.at(i)), nibbleOf(both.row.data, i)) << x.at(i);
  }
  // The ties, spelled out.
  const double ties[] = {0.25, 0.75, 1.25, 1.75, 2.5, 3.5, 5};
  const double rounded[] = {0, 1, 1, 2, 2, 4, 4};
  for (int i = 0; i < 7; ++i)
    EXPECT_EQ(rounded[i], e2m1Value(encodeE2M1(ties[i])));
}

TEST_P(Nvfp4Cast, SpecialValues) {
  constexpr double inf = std::numeric_limits<double>::infinity();
  // One block each: zeros of both signs; infinities; NaN among ones.
  Array x(TE_RT_BF16, size_t{16 * 48});
  for (int i = 0; i < 16; ++i) {
    x.set(i, i % 2 ? -0.0 : 0.0);
    x.set(16 + i, i == 3 ? inf : i == 4 ? -inf : 1);
    x.set(32 + i, 1);
  }
  // Two NaNs with their sign bits set, which no rounding of a double makes.
  for (int i : {37, 38})
    x.bytes[2 * i] = 0xc1, x.bytes[2 * i + 1] = 0xff;
  for (int stochastic : {0, 1}) {
    const BothUsages both =
        quantise(x, 16, 48, {std::numeric_limits<float>::infinity()},
                 {.stochastic = stochastic});
    EXPECT_EQ(0, both.row.scale[0]);
    EXPECT_EQ(0x7e, both.row.scale[1]) << "448";
    for (int i = 0; i < 16; ++i)
      EXPECT_EQ(i % 2 ? 8u : 0u, nibbleOf(both.row.data, i));
    EXPECT_EQ(7u, nibbleOf(both.row.data, 19));
    EXPECT_EQ(15u, nibbleOf(both.row.data, 20));
    EXPECT_EQ(7u, nibbleOf(both.row.data, 37));
    EXPECT_EQ(7u, nibbleOf(both.row.data, 38));
    // Of 1, with factor 1: e4m3(1/6) is 0.171875.
    EXPECT_EQ(encodeE2M1(1 / 0.171875), nibbleOf(both.row.data, 32));
  }
}

// What the compiler relies on when it transposes instead of quantising twice.
TEST_P(Nvfp4Cast, SquareUsagesAreTransposes) {
  for (int32_t fourOverSix : {0, 1, 2})
    for (int64_t rows : kSizes)
      for (int64_t cols : kSizes) {
        const Array x = makeArray("normal", TE_RT_BF16, rows * cols, rows);
        const BothUsages both =
            quantise(x, rows, cols, amaxOf(x, rows, cols, false),
                     {.scheme = TE_RT_NV_16X16, .fourOverSix = fourOverSix});
        const int64_t rowPitch = (cols / 16 + 3) / 4 * 4;
        const int64_t colPitch = (rows / 16 + 3) / 4 * 4;
        for (int64_t r = 0; r < rows; ++r)
          for (int64_t c = 0; c < cols; ++c) {
            ASSERT_EQ(nibbleOf(both.row.data, r * cols + c),
                      nibbleOf(both.col.data, c * rows + r));
            ASSERT_EQ(both.row.scale[r * rowPitch + c / 16],
                      both.col.scale[c * colPitch + r / 16]);
          }
      }
}

// Both maps occur, and the one that is taken is the better one in f64 too,
// where that can be told apart: 16 terms, each of 5 operations on numbers up to
// twice the amax of the block, are off by less than 16 * 10 * 2^-24 of it.
TEST_P(Nvfp4Cast, FourOverSixTakesTheSmallerError) {
  const int64_t rows = 64, cols = 256;
  const Array x = makeArray("normal", TE_RT_F32, rows * cols, 5);
  const std::vector<float> amax = amaxOf(x, rows, cols, false);
  const BothUsages four = quantise(x, rows, cols, amax, {.fourOverSix = 1});
  const BothUsages six = quantise(x, rows, cols, amax, {});
  int64_t better = 0, same = 0;
  for (int64_t group = 0; group < rows * cols / 16; ++group) {
    double errors[2] = {}, largest = 0;
    for (int64_t i = group * 16; i < group * 16 + 16; ++i) {
      largest = std::max(largest, std::fabs(x.at(i)));
      for (const BothUsages *each : {&six, &four}) {
        const double scale = decode(TE_RT_F8E4M3FN, each->row.scale[group]);
        const double q = e2m1Value(nibbleOf(each->row.data, i));
        errors[each == &four] +=
            std::fabs(q * scale * amax[0] / kUnitAmax - x.at(i));
      }
    }
    // Without 4over6 the scale is rounded from another product, which may be
    // the next e4m3; where it is not, map 6 is one of the two candidates.
    if (six.row.scale[group] == four.row.scale[group])
      ++same;
    else if (errors[1] < errors[0])
      ++better;
    EXPECT_LE(errors[1], errors[0] + 160 * std::ldexp(largest, -24));
  }
  EXPECT_GT(same, rows * cols / 160);
  EXPECT_GT(better, rows * cols / 160);
}

// If the errors of both maps differ only in their roundings, the order of the
// sums decides. In a block with scales 1 and 1.5, 0.5 + t is t from a value
// of map 6 and 0.25 - t from one of map 4; 0.75 + t the other way round.
TEST_P(Nvfp4Cast, FourOverSixSumsInOrder) {
  const int64_t rows = 160, cols = 272;
  for (int32_t scheme : {TE_RT_NV_1X16, TE_RT_NV_16X16})
    for (int32_t fourOverSix : {1, 2}) {
      std::mt19937 random(scheme * 10 + fourOverSix);
      Array x(TE_RT_F32, size_t{rows * cols});
      auto fill = [&](auto index, int count) {
        std::vector<double> values{6, 0};
        while (values.size() < size_t(count)) {
          const double t = std::ldexp(random() % (1 << 21), -24);
          values.insert(values.end(), {0.5 + t, 0.75 + t});
        }
        std::shuffle(values.begin(), values.end(), random);
        for (int i = 0; i < count; ++i)
          x.set(index(i), random() % 2 ? values[i] : -values[i]);
      };
      auto run = [&](int axis) {
        const NvOptions o{.scheme = scheme, .fourOverSix = fourOverSix};
        const NvQuantised expected =
            quantiseNv(x, rows, cols, axis, {kUnitAmax}, o);
        const int64_t blocks =
            rows * cols / (scheme == TE_RT_NV_16X16 ? 256 : 16);
        // Else the data would not tell one order from another.
        EXPECT_GT(expected.mappedToFour, blocks / 10);
        EXPECT_LT(expected.mappedToFour, blocks * 9 / 10);
        const BothUsages both = quantise(x, rows, cols, {kUnitAmax}, o);
        expectEqual(expected, axis == 1 ? both.row : both.col,
                    "scheme " + std::to_string(scheme) + " axis " +
                        std::to_string(axis));
      };
      if (scheme == TE_RT_NV_16X16) {
        for (int64_t r = 0; r < rows; r += 16)
          for (int64_t c = 0; c < cols; c += 16)
            fill([&](int i) { return (r + i / 16) * cols + c + i % 16; }, 256);
        run(1);
        run(0);
        continue;
      }
      for (int64_t g = 0; g < rows * cols / 16; ++g)
        fill([&](int i) { return g * 16 + i; }, 16);
      run(1);
      for (int64_t r = 0; r < rows; r += 16)
        for (int64_t c = 0; c < cols; ++c)
          fill([&](int i) { return (r + i) * cols + c; }, 16);
      run(0);
    }
}

// A row times a power of two has the same codes and scales.
TEST_P(Nvfp4Cast, RowScalesAbsorbPowersOfTwo) {
  const int64_t rows = 144, cols = 80;
  const Array x = makeArray("normal", TE_RT_F32, rows * cols, 6);
  Array y = x;
  std::vector<float> amax = amaxOf(x, rows, cols, true), shifted = amax;
  for (int64_t r = 0; r < rows; ++r) {
    const int exponent = static_cast<int>(r * 7 % 61) - 30;
    shifted[r] = std::ldexp(amax[r], exponent);
    for (int64_t c = 0; c < cols; ++c)
      y.set(r * cols + c, std::ldexp(x.at(r * cols + c), exponent));
  }
  for (int32_t fourOverSix : {0, 1}) {
    const NvOptions o{.rowScaled = 1, .fourOverSix = fourOverSix};
    const BothUsages a = quantise(x, rows, cols, amax, o);
    const BothUsages b = quantise(y, rows, cols, shifted, o);
    expectEqual(a.row, b.row, "shifted");
    EXPECT_EQ(shifted, b.rowAmax);
  }
}

//===----------------------------------------------------------------------===//
// Random rounding
//===----------------------------------------------------------------------===//

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

  /// Groups of 6 and fifteen values, over and over.
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

  // The col usage of a value whose groups down the columns are alike.
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

// A scale that rounds to 0, or saturates, leaves elements beyond 6.
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

TE_FOR_EACH_BACKEND(Nvfp4Cast);
TE_FOR_EACH_BACKEND(Nvfp4Stochastic);

} // namespace
