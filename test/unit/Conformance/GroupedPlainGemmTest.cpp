//===- GroupedPlainGemmTest.cpp - bf16 products of groups of rows ---------===//
//
// Small integers have exact products and sums, so every backend must compute
// the same numbers, over many tiles and layouts. Normal data is compared with
// f64 within the bound of GemmTest: n = k + 3 roundings of an f32 sum (the
// factor, the bias or c, and one more), whose unit is 2^-22 on tensor cores,
// and the rounding of the result.
//
// Padding is NaN, because no kernel reads it.
//
//===----------------------------------------------------------------------===//

#include "Conformance/Harness.h"
#include "Conformance/Oracle.h"

#include <algorithm>
#include <cmath>
#include <limits>

using namespace te::conformance;

namespace {

struct Groups {
  std::vector<int32_t> sizes;
  int64_t alignment, spare;

  int64_t count() const { return static_cast<int64_t>(sizes.size()); }
  int64_t start(int64_t g) const {
    int64_t row = 0;
    for (int64_t i = 0; i < g; ++i)
      row += (sizes[i] + alignment - 1) / alignment * alignment;
    return row;
  }
  int64_t rows() const { return start(count()) + spare * alignment; }
  std::vector<int64_t> groupOfRows() const {
    std::vector<int64_t> result(rows(), -1);
    for (int64_t g = 0; g < count(); ++g)
      std::fill_n(result.begin() + start(g), sizes[g], g);
    return result;
  }
};

/// Which optional operands a GEMM has.
struct Options {
  bool alpha, extra; // a bias or c
  bool inPlace = false;
};

enum class Data { Integers, Normal };

class GroupedPlainGemm : public BackendTest {
protected:
  static Array makeOperand(Data data, int64_t count, uint32_t seed) {
    if (data == Data::Normal)
      return makeArray("normal", TE_RT_BF16, count, seed);
    Array x(TE_RT_BF16, count);
    for (int64_t i = 0; i < count; ++i)
      x.set(i, static_cast<double>((i * seed + i / 11) % 3) - 1);
    return x;
  }
  /// Rows that belong to no group are NaN.
  static Array makeRows(const Groups &groups, Data data, int64_t cols,
                        uint32_t seed) {
    Array x = makeOperand(data, groups.rows() * cols, seed);
    const std::vector<int64_t> groupOf = groups.groupOfRows();
    for (int64_t i = 0; i < groups.rows() * cols; ++i)
      if (groupOf[i / cols] < 0)
        x.set(i, std::numeric_limits<double>::quiet_NaN());
    return x;
  }
  static std::vector<float> makeAlpha(const Groups &groups, Data data) {
    std::vector<float> alpha;
    for (int64_t g = 0; g < groups.count(); ++g)
      alpha.push_back(data == Data::Integers ? std::ldexp(1.0f, int(g % 4) - 1)
                                             : 0.3f + 0.1f * float(g));
    return alpha;
  }

  /// Compares one element with the sum of `terms` products of this magnitude.
  void check(Data data, const Array &actual, int64_t at, double value,
             double magnitude, int64_t terms) {
    if (data == Data::Integers) {
      ASSERT_EQ(roundTo(actual.type, value), actual.at(at)) << at;
      return;
    }
    const double u = GetParam() == "reference" ? 0x1p-24 : 0x1p-22;
    const double n = static_cast<double>(terms) + 3;
    const double sum = n * u / (1 - n * u) * magnitude;
    ASSERT_LE(std::fabs(actual.at(at) - value),
              sum + unitRoundoff(actual.type) * (std::fabs(value) + sum))
        << at;
  }

  void checkRows(const Groups &groups, Data data, int32_t transB,
                 int32_t outType, int64_t n, int64_t k, Options options) {
    const int64_t rows = groups.rows(), count = groups.count();
    const std::vector<int64_t> groupOf = groups.groupOfRows();
    const Array a = makeRows(groups, data, k, 7);
    const Array b = makeOperand(data, count * n * k, 11);
    const Array bias = makeOperand(data, count * n, 5);
    const std::vector<float> alpha = makeAlpha(groups, data);
    Array y(outType, rows * n);
    device().run(TE_PLAN(grouped_matmul, rows, n, k, count, groups.alignment,
                         transB, TE_RT_BF16, outType),
                 {in(a.bytes), in(b.bytes), in(groups.sizes),
                  options.alpha ? in(alpha) : none(),
                  options.extra ? in(bias.bytes) : none(), out(y.bytes)});
    const int64_t step = std::max<int64_t>(1, rows * n * k / (1 << 22) | 1);
    for (int64_t at = 0; at < rows * n; at += step) {
      const int64_t i = at / n, j = at % n, g = groupOf[i];
      if (g < 0)
        continue;
      double sum = 0, magnitude = 0;
      for (int64_t l = 0; l < k; ++l) {
        const int64_t bAt = transB ? (g * k + l) * n + j : (g * n + j) * k + l;
        const double product = a.at(i * k + l) * b.at(bAt);
        sum += product, magnitude += std::fabs(product);
      }
      if (options.alpha)
        sum *= double{alpha[g]}, magnitude *= double{alpha[g]};
      if (options.extra)
        sum += bias.at(g * n + j), magnitude += std::fabs(bias.at(g * n + j));
      check(data, y, at, sum, magnitude, k);
    }
    const int64_t rowBytes = n * elementBytes(outType);
    for (int64_t i = 0; i < rows; ++i)
      if (groupOf[i] < 0)
        ASSERT_TRUE(std::all_of(y.bytes.begin() + i * rowBytes,
                                y.bytes.begin() + (i + 1) * rowBytes,
                                [](uint8_t byte) { return byte == 0; }))
            << "padding row " << i;
  }

  void checkDepth(const Groups &groups, Data data, int32_t outType, int64_t m,
                  int64_t n, Options options) {
    const int64_t rows = groups.rows(), count = groups.count();
    const Array a = makeRows(groups, data, m, 7);
    const Array b = makeRows(groups, data, n, 11);
    const std::vector<float> alpha = makeAlpha(groups, data);
    Array c(outType, count * m * n), dw(outType, count * m * n);
    for (size_t i = 0; i < c.size(); ++i)
      c.set(i, static_cast<double>(i % 13) - 5.5);
    device().run(TE_PLAN(grouped_wgrad, rows, m, n, count, groups.alignment,
                         TE_RT_BF16, outType),
                 {in(a.bytes), in(b.bytes), in(groups.sizes),
                  options.alpha ? in(alpha) : none(),
                  options.extra ? in(c.bytes) : none(),
                  options.inPlace ? outOn(4, dw.bytes) : out(dw.bytes)});
    const int64_t step = std::max<int64_t>(1, rows * m * n / (1 << 22) | 1);
    for (int64_t at = 0; at < count * m * n; at += step) {
      const int64_t g = at / (m * n), i = at / n % m, j = at % n;
      double sum = 0, magnitude = 0;
      for (int64_t l = groups.start(g); l < groups.start(g) + groups.sizes[g];
           ++l) {
        const double product = a.at(l * m + i) * b.at(l * n + j);
        sum += product, magnitude += std::fabs(product);
      }
      if (options.alpha)
        sum *= double{alpha[g]}, magnitude *= double{alpha[g]};
      if (options.extra)
        sum += c.at(at), magnitude += std::fabs(c.at(at));
      check(data, dw, at, sum, magnitude, groups.sizes[g]);
    }
  }
};
TE_FOR_EACH_BACKEND(GroupedPlainGemm);

TEST_P(GroupedPlainGemm, ExactRows) {
  for (const Groups &groups :
       {Groups{{5}, 1, 0}, Groups{{130, 0, 300, 1, 256}, 16, 3},
        Groups{{0, 0}, 128, 1}, Groups{{17, 33, 15, 16, 700}, 1, 9}})
    for (int32_t transB : {0, 1}) {
      checkRows(groups, Data::Integers, transB, TE_RT_BF16, 136, 72,
                {false, false});
      checkRows(groups, Data::Integers, transB, TE_RT_F32, 40, 8,
                {true, false});
      checkRows(groups, Data::Integers, transB, TE_RT_BF16, 264, 320,
                {true, true});
    }
}

TEST_P(GroupedPlainGemm, ExactDepth) {
  for (const Groups &groups :
       {Groups{{5}, 1, 0}, Groups{{130, 0, 300, 1, 256}, 16, 3},
        Groups{{0, 0}, 128, 1}, Groups{{17, 33, 15, 16, 700}, 1, 9}}) {
    checkDepth(groups, Data::Integers, TE_RT_F32, 72, 136, {false, false});
    checkDepth(groups, Data::Integers, TE_RT_F32, 264, 40, {true, true});
    checkDepth(groups, Data::Integers, TE_RT_F32, 40, 264, {true, true, true});
    checkDepth(groups, Data::Integers, TE_RT_BF16, 136, 264, {false, false});
    checkDepth(groups, Data::Integers, TE_RT_BF16, 72, 136,
               {false, true, true});
  }
}

// A sum of no terms is zero, for any factor. What is added to it is the result.
TEST_P(GroupedPlainGemm, SumsOfNothing) {
  const Groups groups = {{5, 0, 11}, 8, 2}, empty = {{0, 0}, 8, 0};
  for (int32_t outType : {TE_RT_BF16, TE_RT_F32})
    for (bool alpha : {false, true}) {
      for (int32_t transB : {0, 1})
        checkRows(groups, Data::Integers, transB, outType, 136, 0,
                  {alpha, false});
      checkDepth(empty, Data::Integers, outType, 72, 136, {alpha, false});
      checkDepth(empty, Data::Integers, outType, 72, 136, {alpha, true});
      checkDepth(empty, Data::Integers, outType, 72, 136, {alpha, true, true});
    }
}

TEST_P(GroupedPlainGemm, BiasOfASumOfNothing) {
  const Groups groups = {{5, 0, 11}, 8, 2};
  if (GetParam() == "reference")
    return checkRows(groups, Data::Integers, 0, TE_RT_BF16, 136, 0,
                     {true, true});
  const std::vector<uint8_t> a, b;
  const Array bias = makeOperand(Data::Integers, groups.count() * 136, 5);
  Array y(TE_RT_BF16, groups.rows() * 136);
  EXPECT_EQ(device().tryRun(TE_PLAN(grouped_matmul, groups.rows(), 136, 0, 3, 8,
                                    0, TE_RT_BF16, TE_RT_BF16),
                            {in(a), in(b), in(groups.sizes), none(),
                             in(bias.bytes), out(y.bytes)}),
            TE_RT_UNSUPPORTED);
  EXPECT_NE(device().message.find("expected 'k' to be at least 1"),
            std::string::npos)
      << device().message;
}

// Stages wrap around, and clusters compute several tiles of several groups.
TEST_P(GroupedPlainGemm, ExactOverManyTiles) {
  Groups groups = {{}, 16, 2};
  for (int32_t g = 0; g < 45; ++g)
    groups.sizes.push_back(g % 7 == 3 ? 0 : g * 37 % 401);
  const Groups few = {{900, 2100, 0, 1100}, 8, 1};
  for (int32_t transB : {0, 1}) {
    checkRows(groups, Data::Integers, transB, TE_RT_BF16, 1288, 144,
              {false, true});
    checkRows(few, Data::Integers, transB, TE_RT_F32, 1032, 584, {true, false});
  }
  checkDepth(groups, Data::Integers, TE_RT_F32, 520, 328, {false, true, true});
  checkDepth(few, Data::Integers, TE_RT_F32, 776, 648, {true, false});
}

TEST_P(GroupedPlainGemm, NormalDataIsWithinTheBound) {
  const Groups groups = {{130, 0, 300, 1, 257}, 16, 2};
  for (int32_t outType : {TE_RT_BF16, TE_RT_F32}) {
    for (int32_t transB : {0, 1})
      checkRows(groups, Data::Normal, transB, outType, 136, 400,
                {true, outType == TE_RT_BF16});
    checkDepth(groups, Data::Normal, outType, 136, 200, {true, true});
  }
}

// An empty sum does not change c, including the sign of zeros.
TEST_P(GroupedPlainGemm, EmptyGroupsKeepC) {
  const Groups groups = {{0, 40, 0}, 8, 0};
  const int64_t m = 40, n = 136;
  const Array a = makeRows(groups, Data::Integers, m, 7);
  const Array b = makeRows(groups, Data::Integers, n, 11);
  for (int32_t type : {TE_RT_F32, TE_RT_BF16})
    for (bool inPlace : {false, true}) {
      Array c(type, 3 * m * n), dw(type, 3 * m * n);
      for (size_t i = 0; i < c.size(); ++i)
        c.set(i, i % 3 == 0 ? -0.0 : static_cast<double>(i % 7));
      device().run(
          TE_PLAN(grouped_wgrad, groups.rows(), m, n, 3, 8, TE_RT_BF16, type),
          {in(a.bytes), in(b.bytes), in(groups.sizes), none(), in(c.bytes),
           inPlace ? outOn(4, dw.bytes) : out(dw.bytes)});
      const int64_t bytes = m * n * elementBytes(type);
      for (int64_t g : {0, 2})
        EXPECT_TRUE(std::equal(c.bytes.begin() + g * bytes,
                               c.bytes.begin() + (g + 1) * bytes,
                               dw.bytes.begin() + g * bytes))
            << "group " << g << ", type " << type;
    }
}

// If the flag does not keep c, zeros are added, for any values of c.
TEST_P(GroupedPlainGemm, FlagDecidesWhatIsAddedTo) {
  const int64_t m = 40, n = 136;
  for (const Groups &groups :
       {Groups{{0, 40, 200}, 8, 0}, Groups{{0, 0, 0}, 8, 0}})
    for (int32_t type : {TE_RT_F32, TE_RT_BF16})
      for (bool inPlace : {false, true}) {
        const Array a = makeRows(groups, Data::Integers, m, 7);
        const Array b = makeRows(groups, Data::Integers, n, 11);
        Array c(type, 3 * m * n);
        const Array zeros(type, c.size());
        for (size_t i = 0; i < c.size(); ++i)
          c.set(i, i % 3 == 0   ? -0.0
                   : i % 3 == 1 ? static_cast<double>(i % 7)
                                : NAN);
        const auto gradient = [&](const Array &from, const float *keep) {
          Array dw = from;
          device().run(TE_PLAN(grouped_wgrad, groups.rows(), m, n, 3, 8,
                               TE_RT_BF16, type),
                       {in(a.bytes), in(b.bytes), in(groups.sizes), none(),
                        in(from.bytes),
                        inPlace ? outOn(4, dw.bytes) : out(dw.bytes),
                        keep ? in(std::vector<float>{*keep}) : none()});
          return dw;
        };
        for (float keep : {1.0f, 0.0f, -1.0f, 2.0f, NAN})
          EXPECT_EQ(gradient(c, &keep).bytes,
                    gradient(keep == 1.0f ? c : zeros, nullptr).bytes)
              << keep << ", type " << type << ", rows " << groups.rows();
      }
}

} // namespace
