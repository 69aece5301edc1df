//===- GroupedGemmTest.cpp - FP8 products of groups on every backend ------===//
//
// There are three comparisons. Small integers with scales that are powers of
// two have exact products and sums, so every backend must compute the same
// numbers, over many tiles, types and layouts. GEMMs with block scales have the
// arithmetic of those of one matrix, so a group has the bits of a GEMM of only
// its rows. GEMMs with one scale for each group are compared with f64 within
// the bound of GemmTest: n = k + 5 roundings of an f32 sum, and 2^-13 for each
// of the four steps that a tensor core chains before an f32 addition.
//
// Padding is NaN if a kernel must not read it.
//
//===----------------------------------------------------------------------===//

#include "Conformance/Harness.h"
#include "Conformance/Oracle.h"

#include <algorithm>
#include <cmath>

using namespace te::conformance;

namespace {

constexpr uint8_t kNaN = 0x7f; // of both 8-bit types

struct Groups {
  std::vector<int32_t> sizes;
  int64_t alignment, spare;

  int64_t count() const { return static_cast<int64_t>(sizes.size()); }
  int64_t extent(int64_t g) const {
    return (sizes[g] + alignment - 1) / alignment * alignment;
  }
  int64_t start(int64_t g) const {
    int64_t row = 0;
    for (int64_t i = 0; i < g; ++i)
      row += extent(i);
    return row;
  }
  int64_t rows() const { return start(count()) + spare * alignment; }
};

struct Schemes {
  int32_t a, b;
  int64_t alignment;
};
constexpr Schemes kRowSchemes[] = {
    {TE_RT_PER_TENSOR, TE_RT_PER_TENSOR, 16},
    {TE_RT_BLOCK_1X128, TE_RT_BLOCK_128X128, 128},
    {TE_RT_BLOCK_1X128, TE_RT_BLOCK_1X128, 128},
};
constexpr Schemes kDepthSchemes[] = {kRowSchemes[0], kRowSchemes[2]};
constexpr std::pair<int32_t, int32_t> kTypes[] = {
    {TE_RT_F8E4M3FN, TE_RT_F8E4M3FN},
    {TE_RT_F8E5M2, TE_RT_F8E4M3FN},
    {TE_RT_F8E4M3FN, TE_RT_F8E5M2},
};

struct Operand {
  std::vector<uint8_t> data;
  std::vector<float> scale;
  std::vector<double> values; // scaled, in the order of data
};

/// `parts` stored [outer, inner] matrices of -1, 0 and 1, which are contiguous.
/// Each has its block scales. A scheme without blocks has `scales` in all, and
/// partOf(part, o, i) is the scale of an element (-1: none).
template <typename PartOf>
Operand makeIntegers(int32_t type, int32_t scheme, int64_t parts, int64_t outer,
                     int64_t inner, int64_t scales, int seed, PartOf partOf) {
  Operand q;
  const bool tensor = scheme == TE_RT_PER_TENSOR;
  const int64_t perPart = tensor ? 0 : scaleCount(scheme, outer, inner);
  q.scale.resize(tensor ? scales : parts * perPart);
  for (size_t i = 0; i < q.scale.size(); ++i)
    q.scale[i] = static_cast<float>(1 << (i * seed + i / 5) % 4);
  q.data.resize(parts * outer * inner);
  q.values.resize(q.data.size());
  const uint8_t codes[] = {encodeFp8(type, -1), encodeFp8(type, 0),
                           encodeFp8(type, 1)};
  for (int64_t p = 0; p < parts; ++p)
    for (int64_t o = 0; o < outer; ++o)
      for (int64_t i = 0; i < inner; ++i) {
        const int64_t at = (p * outer + o) * inner + i;
        const auto value = static_cast<int>((at * seed + at / 11) % 3);
        q.data[at] = codes[value];
        const int64_t scale =
            tensor ? partOf(p, o, i)
                   : p * perPart + scaleIndex(scheme, outer, inner, o, i);
        q.values[at] = scale < 0 ? 0.0 : (value - 1) * double{q.scale[scale]};
      }
  return q;
}

class GroupedGemm : public BackendTest {
protected:
  static std::vector<int64_t> groupOfRows(const Groups &groups) {
    std::vector<int64_t> result(groups.rows(), -1);
    for (int64_t g = 0; g < groups.count(); ++g)
      std::fill_n(result.begin() + groups.start(g), groups.sizes[g], g);
    return result;
  }

  void checkRows(const Groups &groups, const Schemes &s, int32_t aType,
                 int32_t bType, int32_t outType, int64_t n, int64_t k,
                 bool biased) {
    const int64_t rows = groups.rows(), count = groups.count();
    const std::vector<int64_t> groupOf = groupOfRows(groups);
    Operand a = makeIntegers(
        aType, s.a, 1, rows, k, count, 7,
        [&](int64_t, int64_t row, int64_t) { return groupOf[row]; });
    const Operand b =
        makeIntegers(bType, s.b, count, n, k, count, 11,
                     [](int64_t part, int64_t, int64_t) { return part; });
    for (int64_t row = 0; row < rows; ++row)
      if (groupOf[row] < 0)
        std::fill_n(a.data.begin() + row * k, k, kNaN);
    Array bias(TE_RT_BF16, count * n);
    for (size_t i = 0; i < bias.size(); ++i)
      bias.set(i, static_cast<double>(i % 17));
    Array actual(outType, rows * n);
    device().run(TE_PLAN(grouped_scaled_matmul, rows, n, k, count,
                         groups.alignment, aType, s.a, bType, s.b, outType, 0,
                         1, 0, 0, 0),
                 {in(a.data), in(a.scale), none(), in(b.data), in(b.scale),
                  none(), in(groups.sizes), biased ? in(bias.bytes) : none(),
                  out(actual.bytes)});
    // All elements of a small result, a sample of a large one, and every row of
    // padding.
    const int64_t step = std::max<int64_t>(1, rows * n * k / (1 << 23) | 1);
    for (int64_t element = 0; element < rows * n; element += step) {
      const int64_t i = element / n, j = element % n, g = groupOf[i];
      double sum = g < 0 || !biased ? 0 : bias.at(g * n + j);
      for (int64_t l = 0; l < k && g >= 0; ++l)
        sum += a.values[i * k + l] * b.values[(g * n + j) * k + l];
      ASSERT_EQ(roundTo(outType, sum), actual.at(element))
          << i << ", " << j << " of group " << g << ", " << rows << "x" << n
          << "x" << k << ", schemes " << s.a << " " << s.b;
    }
    const int64_t rowBytes = n * elementBytes(outType);
    for (int64_t i = 0; i < rows; ++i)
      if (groupOf[i] < 0)
        ASSERT_TRUE(std::all_of(actual.bytes.begin() + i * rowBytes,
                                actual.bytes.begin() + (i + 1) * rowBytes,
                                [](uint8_t byte) { return byte == 0; }))
            << "padding row " << i;
  }

  void checkDepth(const Groups &groups, const Schemes &s, int32_t aType,
                  int32_t bType, int32_t outType, int64_t m, int64_t n,
                  bool accumulates, bool inPlace) {
    const int64_t rows = groups.rows(), count = groups.count();
    const std::vector<int64_t> groupOf = groupOfRows(groups);
    auto operand = [&](int32_t type, int32_t scheme, int64_t outer, int seed) {
      Operand q = makeIntegers(
          type, scheme, 1, outer, rows, count, seed,
          [&](int64_t, int64_t, int64_t row) { return groupOf[row]; });
      // Padding is zero if it shares a block with data. Otherwise, and with
      // other schemes, it is not read.
      for (int64_t row = 0; row < rows; ++row)
        if (groupOf[row] < 0) {
          const bool shared =
              scheme != TE_RT_PER_TENSOR && groupOf[row / 128 * 128] >= 0;
          for (int64_t o = 0; o < outer; ++o)
            q.data[o * rows + row] = shared ? 0 : kNaN;
        }
      return q;
    };
    const Operand a = operand(aType, s.a, m, 7), b = operand(bType, s.b, n, 11);
    Array c(outType, count * m * n), actual(outType, count * m * n);
    for (size_t i = 0; i < c.size(); ++i)
      c.set(i, static_cast<double>(i % 13) - 5.5);
    device().run(TE_PLAN(grouped_scaled_wgrad, rows, m, n, count,
                         groups.alignment, aType, s.a, bType, s.b, outType, 0,
                         0, 0),
                 {in(a.data), in(a.scale), none(), in(b.data), in(b.scale),
                  none(), in(groups.sizes), accumulates ? in(c.bytes) : none(),
                  inPlace ? outOn(7, actual.bytes) : out(actual.bytes)});
    const int64_t step = std::max<int64_t>(1, rows * m * n / (1 << 23) | 1);
    for (int64_t element = 0; element < count * m * n; element += step) {
      const int64_t g = element / (m * n), i = element / n % m, j = element % n;
      double sum = 0;
      for (int64_t l = groups.start(g); l < groups.start(g) + groups.sizes[g];
           ++l)
        sum += a.values[i * rows + l] * b.values[j * rows + l];
      if (accumulates && s.a != TE_RT_PER_TENSOR)
        sum = roundTo(outType, sum); // scaled_matmul: before c is added
      if (accumulates)
        sum += c.at(element);
      ASSERT_EQ(roundTo(outType, sum), actual.at(element))
          << i << ", " << j << " of group " << g << ", " << m << "x" << n
          << ", schemes " << s.a << " " << s.b;
    }
  }
};
TE_FOR_EACH_BACKEND(GroupedGemm);

TEST_P(GroupedGemm, ExactRows) {
  for (const Schemes &s : kRowSchemes)
    for (const auto &[aType, bType] : kTypes)
      for (int32_t outType : {TE_RT_BF16, TE_RT_F32})
        for (const Groups &groups :
             {Groups{{5}, s.alignment, 0},
              Groups{{130, 0, 300, 1, 256}, s.alignment, 3},
              Groups{{0, 0}, s.alignment, 1},
              Groups{{128, 384}, s.alignment, 0}})
          checkRows(groups, s, aType, bType, outType, 264, 272,
                    outType == TE_RT_BF16);
}

TEST_P(GroupedGemm, ExactDepth) {
  for (const Schemes &s : kDepthSchemes)
    for (const auto &[aType, bType] : kTypes)
      for (const Groups &groups :
           {Groups{{5}, s.alignment, 0},
            Groups{{130, 0, 300, 1, 256}, s.alignment, 3},
            Groups{{0, 0}, s.alignment, 1},
            Groups{{17, 33, 15, 16, 700}, s.alignment, 9}}) {
        checkDepth(groups, s, aType, bType, TE_RT_F32, 72, 136, false, false);
        checkDepth(groups, s, aType, bType, TE_RT_F32, 264, 40, true, false);
        checkDepth(groups, s, aType, bType, TE_RT_F32, 40, 264, true, true);
        checkDepth(groups, s, aType, bType, TE_RT_BF16, 136, 264, false, false);
        checkDepth(groups, s, aType, bType, TE_RT_BF16, 72, 136, true, true);
      }
}

// A sum of no terms is zero, to which c is added.
TEST_P(GroupedGemm, SumsOfNothing) {
  for (const Schemes &s : kRowSchemes)
    for (int32_t outType : {TE_RT_BF16, TE_RT_F32})
      checkRows({{5, 0, 11}, s.alignment, 2}, s, TE_RT_F8E4M3FN, TE_RT_F8E4M3FN,
                outType, 136, 0, false);
  for (const Schemes &s : kDepthSchemes)
    for (int32_t outType : {TE_RT_BF16, TE_RT_F32})
      for (bool inPlace : {false, true}) {
        const Groups groups = {{0, 0}, s.alignment, 0};
        checkDepth(groups, s, TE_RT_F8E5M2, TE_RT_F8E4M3FN, outType, 72, 136,
                   false, false);
        checkDepth(groups, s, TE_RT_F8E5M2, TE_RT_F8E4M3FN, outType, 72, 136,
                   true, inPlace);
      }
}

// Stages wrap around, clusters compute several tiles of several groups, and
// there are more groups than lanes that assign them. The reference backend has
// no tiles, so narrower matrices suffice there.
TEST_P(GroupedGemm, ExactOverManyTiles) {
  const bool tiles = GetParam() != "reference";
  for (const Schemes &s : kRowSchemes) {
    Groups groups = {{}, s.alignment, 2};
    for (int32_t g = 0; g < 45; ++g)
      groups.sizes.push_back(g % 7 == 3 ? 0 : g * 37 % 401);
    checkRows(groups, s, TE_RT_F8E4M3FN, TE_RT_F8E4M3FN, TE_RT_BF16, 1288, 144,
              true);
    const Groups few = {{900, 2100, 0, 1100}, s.alignment, 1};
    checkRows(few, s, TE_RT_F8E5M2, TE_RT_F8E4M3FN, TE_RT_F32,
              tiles ? 2056 : 520, tiles ? 1168 : 304, false);
  }
  for (const Schemes &s : kDepthSchemes) {
    Groups groups = {{}, s.alignment, 2};
    for (int32_t g = 0; g < 45; ++g)
      groups.sizes.push_back(g % 7 == 3 ? 0 : g * 37 % 401);
    checkDepth(groups, s, TE_RT_F8E4M3FN, TE_RT_F8E4M3FN, TE_RT_F32, 520, 328,
               true, true);
    const Groups few = {{900, 2100, 0, 1100}, s.alignment, 1};
    checkDepth(few, s, TE_RT_F8E5M2, TE_RT_F8E4M3FN, TE_RT_F32,
               tiles ? 776 : 264, tiles ? 1288 : 392, false, false);
  }
}

// A negative size is an empty group, and a size that does not fit is reduced to
// the rows that fit. The reference backend returns an error for both.
TEST_P(GroupedGemm, BadSizesStayInside) {
  if (GetParam() == "reference")
    GTEST_SKIP() << "the reference backend refuses bad sizes";
  const Schemes s = kRowSchemes[1];
  const int64_t rows = 1024, n = 40, k = 128;
  const std::vector<uint8_t> a(rows * k, encodeFp8(TE_RT_F8E4M3FN, 1)),
      b(4 * n * k, encodeFp8(TE_RT_F8E4M3FN, 1));
  const std::vector<float> aScale(scaleCount(s.a, rows, k), 1.0f),
      bScale(4 * scaleCount(s.b, n, k), 1.0f);
  auto run = [&](std::vector<int32_t> sizes) {
    std::vector<float> y(rows * n), dw(4 * k * k);
    device().run(TE_PLAN(grouped_scaled_matmul, rows, n, k, 4, 128,
                         TE_RT_F8E4M3FN, s.a, TE_RT_F8E4M3FN, s.b, TE_RT_F32, 0,
                         1, 0, 0, 0),
                 {in(a), in(aScale), none(), in(b), in(bScale), none(),
                  in(sizes), none(), out(y)});
    const std::vector<float> colScale(scaleCount(s.a, k, rows), 1.0f);
    device().run(TE_PLAN(grouped_scaled_wgrad, rows, k, k, 4, 128,
                         TE_RT_F8E4M3FN, s.a, TE_RT_F8E4M3FN, s.a, TE_RT_F32, 0,
                         0, 0),
                 {in(a), in(colScale), none(), in(a), in(colScale), none(),
                  in(sizes), none(), out(dw)});
    return std::pair(y, dw);
  };
  EXPECT_EQ(run({200, -5, 2000, 7}), run({200, 0, 768, 0}));
  EXPECT_EQ(run({INT32_MAX, INT32_MAX, INT32_MIN, 1}), run({1024, 0, 0, 0}));
}

// An empty sum does not change c, including the sign of zeros.
TEST_P(GroupedGemm, EmptyGroupsKeepC) {
  const int64_t m = 40, n = 136, rows = 128;
  const std::vector<int32_t> sizes = {0, 40, 0};
  const std::vector<uint8_t> a(m * rows, encodeFp8(TE_RT_F8E4M3FN, 1)),
      b(n * rows, encodeFp8(TE_RT_F8E4M3FN, 1));
  for (const Schemes &s : kDepthSchemes)
    for (int32_t type : {TE_RT_F32, TE_RT_BF16})
      for (bool inPlace : {false, true}) {
        const bool tensor = s.a == TE_RT_PER_TENSOR;
        const std::vector<float> aScale(tensor ? 3 : scaleCount(s.a, m, rows),
                                        1.0f),
            bScale(tensor ? 3 : scaleCount(s.b, n, rows), 1.0f);
        Array c(type, 3 * m * n), dw(type, 3 * m * n);
        for (size_t i = 0; i < c.size(); ++i)
          c.set(i, i % 3 == 0 ? -0.0 : static_cast<double>(i % 7));
        device().run(
            TE_PLAN(grouped_scaled_wgrad, rows, m, n, 3, 128, TE_RT_F8E4M3FN,
                    s.a, TE_RT_F8E4M3FN, s.b, type, 0, 0, 0),
            {in(a), in(aScale), none(), in(b), in(bScale), none(), in(sizes),
             in(c.bytes), inPlace ? outOn(7, dw.bytes) : out(dw.bytes)});
        const int64_t bytes = m * n * elementBytes(type);
        for (int64_t g : {0, 2})
          EXPECT_TRUE(std::equal(c.bytes.begin() + g * bytes,
                                 c.bytes.begin() + (g + 1) * bytes,
                                 dw.bytes.begin() + g * bytes))
              << "group " << g << ", type " << type;
      }
}

// If the flag does not keep c, zeros are added, for any values of c.
TEST_P(GroupedGemm, FlagDecidesWhatIsAddedTo) {
  const int64_t m = 40, n = 136, rows = 384;
  const std::vector<int32_t> sizes = {0, 40, 200};
  std::vector<uint8_t> a(m * rows), b(n * rows);
  for (size_t i = 0; i < a.size(); ++i)
    a[i] = encodeFp8(TE_RT_F8E4M3FN, static_cast<double>(i % 5) - 2);
  for (size_t i = 0; i < b.size(); ++i)
    b[i] = encodeFp8(TE_RT_F8E4M3FN, static_cast<double>(i % 3) - 1);
  for (const Schemes &s : kDepthSchemes)
    for (int32_t type : {TE_RT_F32, TE_RT_BF16})
      for (bool inPlace : {false, true}) {
        const bool tensor = s.a == TE_RT_PER_TENSOR;
        const std::vector<float> aScale(tensor ? 3 : scaleCount(s.a, m, rows),
                                        1.0f),
            bScale(tensor ? 3 : scaleCount(s.b, n, rows), 1.0f);
        Array c(type, 3 * m * n);
        const Array zeros(type, c.size());
        for (size_t i = 0; i < c.size(); ++i)
          c.set(i, i % 3 == 0   ? -0.0
                   : i % 3 == 1 ? static_cast<double>(i % 7)
                                : NAN);
        const auto gradient = [&](const Array &from, const float *keep) {
          Array dw = from;
          device().run(
              TE_PLAN(grouped_scaled_wgrad, rows, m, n, 3, 128, TE_RT_F8E4M3FN,
                      s.a, TE_RT_F8E4M3FN, s.b, type, 0, 0, 0),
              {in(a), in(aScale), none(), in(b), in(bScale), none(), in(sizes),
               in(from.bytes), inPlace ? outOn(7, dw.bytes) : out(dw.bytes),
               keep ? in(std::vector<float>{*keep}) : none()});
          return dw;
        };
        for (float keep : {1.0f, 0.0f, -1.0f, 2.0f, NAN})
          EXPECT_EQ(gradient(c, &keep).bytes,
                    gradient(keep == 1.0f ? c : zeros, nullptr).bytes)
              << keep << ", type " << type << ", scheme " << s.a;
      }
}

//===----------------------------------------------------------------------===//
// Normal data
//===----------------------------------------------------------------------===//

/// [rows, cols] with zeros as padding.
Array makeRows(const Groups &groups, const char *kind, int64_t cols,
               uint32_t seed) {
  const auto values = makeValues(kind, TE_RT_BF16, groups.rows() * cols, seed);
  Array x(TE_RT_BF16, values.size());
  for (int64_t g = 0; g < groups.count(); ++g)
    for (int64_t i = groups.start(g) * cols;
         i < (groups.start(g) + groups.sizes[g]) * cols; ++i)
      x.set(i, values[i]);
  return x;
}

/// Rows [begin, begin + count) of x.
Array cut(const Array &x, int64_t cols, int64_t begin, int64_t count) {
  Array part(x.type, count * cols);
  const int64_t bytes = cols * elementBytes(x.type);
  std::copy_n(x.bytes.begin() + begin * bytes, count * bytes,
              part.bytes.begin());
  return part;
}

TEST_P(GroupedGemm, BlockRowsHaveTheBitsOfOneMatrix) {
  const Groups groups = {{130, 0, 300, 1, 256}, 128, 1};
  const int64_t rows = groups.rows(), n = 264, k = 400, count = groups.count();
  for (const char *kind : {"normal", "wide", "nan"})
    for (int32_t bScheme : {TE_RT_BLOCK_128X128, TE_RT_BLOCK_1X128})
      for (int32_t outType : {TE_RT_BF16, TE_RT_F32}) {
        const Array x = makeRows(groups, kind, k, 1);
        const Quantised a = quantiseBlocks(x, rows, k, 1, TE_RT_F8E4M3FN,
                                           TE_RT_BLOCK_1X128, false, 0.0f);
        Quantised all;
        std::vector<Quantised> weights;
        for (int64_t g = 0; g < count; ++g) {
          const Array w =
              makeArray(kind, TE_RT_BF16, n * k, 50 + static_cast<uint32_t>(g));
          weights.push_back(
              quantiseBlocks(w, n, k, 1, TE_RT_F8E4M3FN, bScheme, false, 0.0f));
          all.data.insert(all.data.end(), weights[g].data.begin(),
                          weights[g].data.end());
          all.scale.insert(all.scale.end(), weights[g].scale.begin(),
                           weights[g].scale.end());
        }
        Array actual(outType, rows * n);
        device().run(TE_PLAN(grouped_scaled_matmul, rows, n, k, count, 128,
                             TE_RT_F8E4M3FN, TE_RT_BLOCK_1X128, TE_RT_F8E4M3FN,
                             bScheme, outType, 0, 1, 0, 0, 0),
                     {in(a.data), in(a.scale), none(), in(all.data),
                      in(all.scale), none(), in(groups.sizes), none(),
                      out(actual.bytes)});
        for (int64_t g = 0; g < count; ++g) {
          const int64_t height = groups.extent(g), start = groups.start(g);
          if (height == 0)
            continue;
          const Quantised one =
              quantiseBlocks(cut(x, k, start, height), height, k, 1,
                             TE_RT_F8E4M3FN, TE_RT_BLOCK_1X128, false, 0.0f);
          Array expected(outType, height * n);
          device().run(TE_PLAN(scaled_matmul, height, n, k, TE_RT_F8E4M3FN,
                               TE_RT_BLOCK_1X128, TE_RT_F8E4M3FN, bScheme,
                               outType, 0, 1, 1, 0, 0, 0, 0),
                       {in(one.data), in(one.scale), none(),
                        in(weights[g].data), in(weights[g].scale), none(),
                        none(), none(), out(expected.bytes)});
          EXPECT_TRUE(sameBits(cut(expected, n, 0, groups.sizes[g]),
                               cut(actual, n, start, groups.sizes[g])))
              << kind << ", group " << g;
        }
      }
}

TEST_P(GroupedGemm, BlockDepthHasTheBitsOfOneMatrix) {
  const Groups groups = {{130, 0, 300, 1, 640}, 128, 1};
  const int64_t rows = groups.rows(), m = 136, n = 264, count = groups.count();
  for (const char *kind : {"normal", "wide", "nan"})
    for (bool accumulates : {false, true}) {
      const Array dy = makeRows(groups, kind, m, 3);
      const Array x = makeRows(groups, kind, n, 4);
      auto column = [&](const Array &value, int64_t height, int64_t cols,
                        int32_t type) {
        return quantiseBlocks(value, height, cols, 0, type, TE_RT_BLOCK_1X128,
                              false, 0.0f);
      };
      const Quantised a = column(dy, rows, m, TE_RT_F8E5M2);
      const Quantised b = column(x, rows, n, TE_RT_F8E4M3FN);
      const Array c = makeArray("normal", TE_RT_F32, count * m * n, 5);
      Array actual(TE_RT_F32, count * m * n);
      device().run(TE_PLAN(grouped_scaled_wgrad, rows, m, n, count, 128,
                           TE_RT_F8E5M2, TE_RT_BLOCK_1X128, TE_RT_F8E4M3FN,
                           TE_RT_BLOCK_1X128, TE_RT_F32, 0, 0, 0),
                   {in(a.data), in(a.scale), none(), in(b.data), in(b.scale),
                    none(), in(groups.sizes),
                    accumulates ? in(c.bytes) : none(), out(actual.bytes)});
      for (int64_t g = 0; g < count; ++g) {
        const int64_t height = groups.extent(g), start = groups.start(g);
        const Array sum = cut(c, m * n, g, 1);
        Array expected = accumulates ? sum : Array(TE_RT_F32, m * n);
        if (height != 0) {
          const Quantised oneA =
              column(cut(dy, m, start, height), height, m, TE_RT_F8E5M2);
          const Quantised oneB =
              column(cut(x, n, start, height), height, n, TE_RT_F8E4M3FN);
          device().run(
              TE_PLAN(scaled_matmul, m, n, height, TE_RT_F8E5M2,
                      TE_RT_BLOCK_1X128, TE_RT_F8E4M3FN, TE_RT_BLOCK_1X128,
                      TE_RT_F32, 0, 0, 0, 0, 0, 0, 0),
              {in(oneA.data), in(oneA.scale), none(), in(oneB.data),
               in(oneB.scale), none(), none(),
               accumulates ? in(sum.bytes) : none(), out(expected.bytes)});
        }
        EXPECT_TRUE(sameBits(expected, cut(actual, m * n, g, 1)))
            << kind << ", group " << g;
      }
    }
}

TEST_P(GroupedGemm, PerTensorIsWithinTheBound) {
  const Groups groups = {{130, 0, 300, 1, 257}, 16, 2};
  const int64_t rows = groups.rows(), n = 136, k = 400, count = groups.count();
  const bool exact = GetParam() == "reference";
  const double u = exact ? 0x1p-24 : 0x1p-22;
  auto bound = [&](double terms) {
    return terms * u / (1 - terms * u) + (exact ? 0 : 4 * 0x1p-13);
  };
  auto codes = [](int32_t type, int64_t size, uint32_t seed) {
    const Array values = makeArray("normal", TE_RT_BF16, size, seed);
    std::vector<uint8_t> result(size);
    for (int64_t i = 0; i < size; ++i)
      result[i] = encodeFp8(type, values.at(i) * 20);
    return result;
  };
  auto decoded = [](int32_t type, const std::vector<uint8_t> &data) {
    std::vector<double> result;
    for (uint8_t code : data)
      result.push_back(decode(type, code));
    return result;
  };
  for (const auto &[aType, bType] : kTypes) {
    const std::vector<uint8_t> a = codes(aType, rows * k, 1),
                               b = codes(bType, count * n * k, 2);
    std::vector<float> sa(count), sb(count);
    for (int64_t g = 0; g < count; ++g)
      sa[g] = 0.037f + 0.01f * static_cast<float>(g), sb[g] = 0.3f / sa[g];
    Array y(TE_RT_F32, rows * n), dw(TE_RT_F32, count * n * k);
    device().run(TE_PLAN(grouped_scaled_matmul, rows, n, k, count, 16, aType,
                         TE_RT_PER_TENSOR, bType, TE_RT_PER_TENSOR, TE_RT_F32,
                         0, 1, 0, 0, 0),
                 {in(a), in(sa), none(), in(b), in(sb), none(),
                  in(groups.sizes), none(), out(y.bytes)});
    // [n, rows] and [k, rows].
    const std::vector<uint8_t> dyT = codes(aType, n * rows, 3),
                               xT = codes(bType, k * rows, 4);
    device().run(TE_PLAN(grouped_scaled_wgrad, rows, n, k, count, 16, aType,
                         TE_RT_PER_TENSOR, bType, TE_RT_PER_TENSOR, TE_RT_F32,
                         0, 0, 0),
                 {in(dyT), in(sa), none(), in(xT), in(sb), none(),
                  in(groups.sizes), none(), out(dw.bytes)});
    const std::vector<double> av = decoded(aType, a), bv = decoded(bType, b),
                              dyV = decoded(aType, dyT),
                              xV = decoded(bType, xT);
    for (int64_t g = 0; g < count; ++g) {
      const int64_t start = groups.start(g), size = groups.sizes[g];
      const double scale = double{sa[g]} * sb[g];
      auto check = [&](double sum, double magnitude, int64_t terms,
                       double actual) {
        ASSERT_LE(std::fabs(actual - sum * scale),
                  bound(static_cast<double>(terms) + 5) * magnitude * scale)
            << "group " << g;
      };
      for (int64_t i = start; i < start + size; ++i)
        for (int64_t j = 0; j < n; ++j) {
          double sum = 0, magnitude = 0;
          for (int64_t l = 0; l < k; ++l) {
            const double product = av[i * k + l] * bv[(g * n + j) * k + l];
            sum += product, magnitude += std::fabs(product);
          }
          check(sum, magnitude, k, y.at(i * n + j));
        }
      for (int64_t i = 0; i < n; ++i)
        for (int64_t j = 0; j < k; ++j) {
          double sum = 0, magnitude = 0;
          for (int64_t l = start; l < start + size; ++l) {
            const double product = dyV[i * rows + l] * xV[j * rows + l];
            sum += product, magnitude += std::fabs(product);
          }
          check(sum, magnitude, size, dw.at((g * n + i) * k + j));
        }
    }
  }
}

} // namespace
