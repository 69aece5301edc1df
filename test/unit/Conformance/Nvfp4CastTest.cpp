//===- Nvfp4CastTest.cpp - 4-bit quantisation -----------------------------===//
//
// Casts are compared bit for bit with a separate oracle, and checked for
// properties: square blocks can be transposed, and row scales keep powers of
// two.
//
//===----------------------------------------------------------------------===//

#include "Conformance/Nvfp4Cast.h"

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

// Input types, and casts of only one usage, alternate, so that each occurs with
// every variant, kind and shape.
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

/// Groups of a 6 and 15 of the values, padded with zeros.
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
  // Each magnitude and each midpoint of two, with their neighbours in f32.
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
  // The midpoints, explicitly.
  const double ties[] = {0.25, 0.75, 1.25, 1.75, 2.5, 3.5, 5};
  const double rounded[] = {0, 1, 1, 2, 2, 4, 4};
  for (int i = 0; i < 7; ++i)
    EXPECT_EQ(rounded[i], e2m1Value(encodeE2M1(ties[i])));
}

TEST_P(Nvfp4Cast, SpecialValues) {
  constexpr double inf = std::numeric_limits<double>::infinity();
  // A block for each: zeros of both signs; infinities; NaN among ones.
  Array x(TE_RT_BF16, size_t{16 * 48});
  for (int i = 0; i < 16; ++i) {
    x.set(i, i % 2 ? -0.0 : 0.0);
    x.set(16 + i, i == 3 ? inf : i == 4 ? -inf : 1);
    x.set(32 + i, 1);
  }
  // Two NaNs with their sign bits set, which conversions from double do not
  // create.
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
    // For 1 with factor 1: e4m3(1/6) is 0.171875.
    EXPECT_EQ(encodeE2M1(1 / 0.171875), nibbleOf(both.row.data, 32));
  }
}

// The compiler relies on this when it transposes instead of quantising twice.
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
    // Without 4over6, the scale is the rounding of another product, which may
    // be the next e4m3. If it is not, map 6 is one of the two candidates.
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
        // Otherwise, the data would not distinguish the orders.
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

TE_FOR_EACH_BACKEND(Nvfp4Cast);

} // namespace
