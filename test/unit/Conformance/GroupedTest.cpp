//===- GroupedTest.cpp - groups of rows against one matrix each -----------===//
//
// What a kernel of groups gives for a group is what the kernel for one matrix
// gives for its rows alone, bit for bit, be the group empty, shorter than a
// block or as long as one; rows of no group are zeros. The matrices of the
// comparison are cut out of the input before anything is quantised, and padded
// with zero rows to what their kernels take.
//
//===----------------------------------------------------------------------===//

#include "Conformance/Harness.h"
#include "Conformance/Oracle.h"

#include <algorithm>

using namespace te::conformance;

namespace {

/// Sizes, and the rows they leave unused at the end, in `alignment`s.
struct Layout {
  std::vector<int32_t> sizes;
  int64_t alignment, spare = 1;

  int64_t groups() const { return static_cast<int64_t>(sizes.size()); }
  int64_t padded(int64_t g) const {
    return (sizes[g] + alignment - 1) / alignment * alignment;
  }
  int64_t start(int64_t g) const {
    return g == 0 ? 0 : start(g - 1) + padded(g - 1);
  }
  int64_t rows() const { return start(groups()) + spare * alignment; }
};

std::vector<Layout> layouts(int64_t alignment) {
  const auto a = static_cast<int32_t>(alignment);
  return {{{a}, alignment},
          {{a + 5, 0, 3 * a, 7}, alignment, 0},
          {{0, 1, 0, 2 * a - 1, 0}, alignment, 2},
          {{0, 0}, alignment}};
}

/// Also of several tiles, of which some have rows of several groups.
std::vector<Layout> layoutsOfCasts() {
  std::vector<Layout> result = layouts(16);
  result.push_back({{130, 0, 300, 1, 256}, 16, 3});
  result.push_back({{5, 64, 0, 131, 2, 2, 2}, 1, 7});
  return result;
}

/// Rows [begin, begin + count) of x, then zero rows up to `height`.
Array rowsOf(const Array &x, int64_t cols, int64_t begin, int64_t count,
             int64_t height) {
  Array part(x.type, height * cols);
  for (int64_t i = 0; i < count * cols; ++i)
    part.set(i, x.at(begin * cols + i));
  return part;
}

/// Values in group layout with zeros for padding.
Array makeGrouped(const Layout &layout, const char *kind, int32_t type,
                  int64_t cols, uint32_t seed) {
  const auto values = makeValues(kind, type, layout.rows() * cols, seed);
  Array x(type, values.size());
  for (int64_t g = 0; g < layout.groups(); ++g)
    for (int64_t i = layout.start(g) * cols;
         i < (layout.start(g) + layout.sizes[g]) * cols; ++i)
      x.set(i, values[i]);
  return x;
}

//===----------------------------------------------------------------------===//
// Casts and sums
//===----------------------------------------------------------------------===//

class Grouped : public BackendTest {};
TE_FOR_EACH_BACKEND(Grouped);

constexpr const char *kKinds[] = {"normal",  "inf",       "nan",
                                  "negzero", "subnormal", "wide"};

TEST_P(Grouped, AmaxIsThatOfEachGroup) {
  for (const Layout &layout : layoutsOfCasts())
    for (int32_t type : {TE_RT_BF16, TE_RT_F16, TE_RT_F32})
      for (auto [kind, cols] : {std::pair("normal", 37),
                                {"inf", 37},
                                {"nan", 37},
                                {"negzero", 37},
                                {"subnormal", 37},
                                {"wide", 37},
                                {"wide", 640},
                                {"nan", 640}}) {
        // Padding that must not be read.
        const Array x =
            Array(type, makeValues(kind, type, layout.rows() * cols, 1));
        std::vector<float> amax(layout.groups());
        device().run(TE_PLAN(grouped_amax, layout.rows(), cols, layout.groups(),
                             layout.alignment, type),
                     {in(x.bytes), in(layout.sizes), out(amax)});
        for (int64_t g = 0; g < layout.groups(); ++g) {
          const Array part = rowsOf(x, cols, layout.start(g), layout.sizes[g],
                                    layout.sizes[g]);
          std::vector<float> expected(1);
          device().run(TE_PLAN(amax, static_cast<int64_t>(part.size()), type),
                       {in(part.bytes), out(expected)});
          EXPECT_EQ(amax[g], expected[0]) << kind << ", group " << g;
        }
      }
}

TEST_P(Grouped, ZeroPaddingKeepsTheGroups) {
  for (const Layout &layout : layoutsOfCasts())
    for (auto [type, cols] : {std::pair(TE_RT_BF16, int64_t{21}),
                              {TE_RT_F32, 21},
                              {TE_RT_BF16, 264},
                              {TE_RT_F16, 264},
                              {TE_RT_F32, 72}}) {
      const int64_t rows = layout.rows();
      Array x(type, makeValues("nan", type, rows * cols, 2));
      Array expected(type, rows * cols);
      const size_t rowBytes = expected.bytes.size() / rows;
      for (int64_t g = 0; g < layout.groups(); ++g)
        std::copy_n(x.bytes.begin() + layout.start(g) * rowBytes,
                    layout.sizes[g] * rowBytes,
                    expected.bytes.begin() + layout.start(g) * rowBytes);
      Array y(type, rows * cols), inPlace(type, rows * cols);
      const PlanFunction plan =
          TE_PLAN(grouped_zero_padding, rows, cols, layout.groups(),
                  layout.alignment, type);
      device().run(plan, {in(x.bytes), in(layout.sizes), out(y.bytes)});
      EXPECT_EQ(y.bytes, expected.bytes);
      device().run(plan,
                   {in(x.bytes), in(layout.sizes), outOn(0, inPlace.bytes)});
      EXPECT_EQ(inPlace.bytes, expected.bytes);
    }
}

TEST_P(Grouped, SizesAreRoundedUp) {
  const std::vector<int32_t> sizes{0, 1, 16, 17, -3, 48};
  std::vector<int32_t> rounded(6);
  device().run(TE_PLAN(grouped_round_sizes, 6, 16), {in(sizes), out(rounded)});
  EXPECT_EQ(rounded, (std::vector<int32_t>{0, 16, 16, 32, 0, 48}));
}

TEST_P(Grouped, BiasGradIsThatOfEachGroup) {
  for (const Layout &layout : layouts(128)) {
    const int64_t cols = 40;
    const Array dy(TE_RT_BF16,
                   makeValues("normal", TE_RT_BF16, layout.rows() * cols, 3));
    Array db(TE_RT_F32, layout.groups() * cols);
    device().run(TE_PLAN(grouped_bias_grad, layout.rows(), cols,
                         layout.groups(), layout.alignment, TE_RT_BF16,
                         TE_RT_F32),
                 {in(dy.bytes), in(layout.sizes), out(db.bytes)});
    for (int64_t g = 0; g < layout.groups(); ++g) {
      const Array part =
          rowsOf(dy, cols, layout.start(g), layout.sizes[g], layout.sizes[g]);
      Array expected(TE_RT_F32, cols);
      device().run(TE_PLAN(bias_grad, static_cast<int64_t>(layout.sizes[g]),
                           cols, TE_RT_BF16, TE_RT_F32),
                   {in(part.bytes), out(expected.bytes)});
      EXPECT_TRUE(std::equal(expected.bytes.begin(), expected.bytes.end(),
                             db.bytes.begin() + g * cols * 4))
          << "group " << g;
    }
  }
}

TEST_P(Grouped, TensorCastIsThatOfEachGroup) {
  for (const Layout &layout : layoutsOfCasts())
    for (auto [type, fp8, outType, cols] :
         {std::tuple(TE_RT_BF16, TE_RT_F8E4M3FN, TE_RT_F32, int64_t{70}),
          {TE_RT_BF16, TE_RT_F8E5M2, TE_RT_BF16, 70},
          {TE_RT_BF16, TE_RT_F8E4M3FN, TE_RT_F32, 264},
          {TE_RT_BF16, TE_RT_F8E5M2, TE_RT_BF16, 264},
          {TE_RT_F16, TE_RT_F8E4M3FN, TE_RT_F16, 264},
          {TE_RT_F32, TE_RT_F8E5M2, TE_RT_F32, 136}})
      for (const char *kind : kKinds) {
        const int64_t rows = layout.rows();
        const Array x(type, makeValues(kind, type, rows * cols, 4));
        std::vector<float> scale(layout.groups());
        for (size_t g = 0; g < scale.size(); ++g)
          scale[g] = 0.375f + static_cast<float>(g);
        std::vector<uint8_t> row(rows * cols), col(rows * cols);
        std::vector<float> rowScale(scale.size()), colScale(scale.size());
        device().run(TE_PLAN(grouped_quantize_tensor, rows, cols,
                             layout.groups(), layout.alignment, type, fp8),
                     {in(x.bytes), in(layout.sizes), in(scale), out(row),
                      out(rowScale), out(col), out(colScale)});
        Array restored(outType, rows * cols), restoredCol(outType, rows * cols);
        for (auto [data, axis, result] :
             {std::tuple(&row, 1, &restored), {&col, 0, &restoredCol}})
          device().run(TE_PLAN(grouped_dequantize, rows, cols, layout.groups(),
                               layout.alignment, fp8, TE_RT_PER_TENSOR, axis, 0,
                               0, outType),
                       {in(*data), in(rowScale), none(), in(layout.sizes),
                        out(result->bytes)});
        std::vector<uint8_t> expected(rows * cols), expectedCol(rows * cols);
        Array decoded(outType, rows * cols);
        for (int64_t g = 0; g < layout.groups(); ++g) {
          const int64_t count = layout.sizes[g], start = layout.start(g);
          const Array part = rowsOf(x, cols, start, count, count);
          std::vector<uint8_t> q(count * cols), qCol(count * cols);
          std::vector<float> inverse(1), one{scale[g]}, amax(1);
          device().run(TE_PLAN(quantize_tensor, 1, count, cols, type, fp8),
                       {in(part.bytes), in(one), out(q), out(inverse),
                        out(qCol), none(), none()});
          EXPECT_EQ(rowScale[g], inverse[0]);
          EXPECT_EQ(colScale[g], inverse[0]);
          Array back(outType, count * cols);
          device().run(TE_PLAN(dequantize, 1, count, cols, fp8,
                               TE_RT_PER_TENSOR, 1, 0, 0, outType),
                       {in(q), in(inverse), none(), out(back.bytes)});
          std::copy(q.begin(), q.end(), expected.begin() + start * cols);
          std::copy(back.bytes.begin(), back.bytes.end(),
                    decoded.bytes.begin() +
                        start * cols * elementBytes(outType));
          for (int64_t c = 0; c < cols; ++c)
            std::copy_n(qCol.begin() + c * count, count,
                        expectedCol.begin() + c * rows + start);
        }
        EXPECT_EQ(row, expected) << kind;
        EXPECT_EQ(col, expectedCol) << kind;
        EXPECT_TRUE(sameBits(decoded, restored)) << kind;
        EXPECT_TRUE(sameBits(decoded, restoredCol)) << kind;
      }
}

//===----------------------------------------------------------------------===//
// Scaled values and products
//===----------------------------------------------------------------------===//

struct Scaled {
  std::vector<uint8_t> data, scale;
  std::vector<float> amax;
};

bool isMx(int32_t scheme) {
  return scheme == TE_RT_MX_1X32 || scheme == TE_RT_MX_32X32;
}
bool isNv(int32_t scheme) {
  return scheme == TE_RT_NV_1X16 || scheme == TE_RT_NV_16X16;
}
int32_t scaleMaxOf(int32_t scheme) { return isNv(scheme) ? 448 : 0; }
int32_t elementsOf(int32_t scheme, bool gradient) {
  return isNv(scheme) ? TE_RT_F4E2M1FN
         : gradient   ? TE_RT_F8E5M2
                      : TE_RT_F8E4M3FN;
}

class GroupedProducts : public Grouped {
protected:
  Buffer amaxOf(const Scaled &q) {
    return q.amax.empty() ? none() : in(q.amax);
  }

  static Scaled allocate(int32_t scheme, int axis, int64_t rows, int64_t cols,
                         int64_t groups) {
    Scaled q;
    q.data.resize(isNv(scheme) ? rows * cols / 2 : rows * cols);
    const int64_t outer = axis == 1 ? rows : cols,
                  inner = axis == 1 ? cols : rows;
    q.scale.resize(scheme == TE_RT_PER_TENSOR ? 4 * groups
                   : isMx(scheme) || isNv(scheme)
                       ? microscaleCount(scheme, axis, rows, cols)
                       : 4 * scaleCount(scheme, outer, inner));
    if (isNv(scheme))
      q.amax.resize(groups);
    return q;
  }

  /// One usage of x, a bf16 matrix: as a whole, or of each group of `layout`.
  Scaled quantise(const Array &x, int64_t rows, int64_t cols, int32_t scheme,
                  int axis, bool gradient, const Layout *layout = nullptr) {
    Scaled q =
        allocate(scheme, axis, rows, cols, layout ? layout->groups() : 1);
    const int32_t type = x.type, fp8 = elementsOf(scheme, gradient);
    auto usage = [&](std::vector<Buffer> inputs, int parts) {
      for (int usageAxis : {1, 0})
        if (usageAxis != axis) {
          inputs.insert(inputs.end(), parts, none());
        } else {
          inputs.push_back(out(q.data));
          inputs.push_back(out(q.scale));
          if (parts == 3)
            inputs.push_back(out(q.amax));
        }
      return inputs;
    };
    if (isMx(scheme)) {
      device().run(TE_PLAN(quantize_mx, 1, rows, cols, type, fp8, scheme),
                   usage({in(x.bytes)}, 2));
      return q;
    }
    if (scheme == TE_RT_BLOCK_1X128 || scheme == TE_RT_BLOCK_128X128) {
      device().run(
          TE_PLAN(quantize_block, 1, rows, cols, type, fp8, scheme, 0, 0.0f),
          usage({in(x.bytes)}, 2));
      return q;
    }
    const int64_t groups = layout ? layout->groups() : 1;
    std::vector<float> amax(groups), scale(groups);
    if (layout)
      device().run(
          TE_PLAN(grouped_amax, rows, cols, groups, layout->alignment, type),
          {in(x.bytes), in(layout->sizes), out(amax)});
    else
      device().run(TE_PLAN(amax, rows * cols, type), {in(x.bytes), out(amax)});
    if (isNv(scheme)) {
      if (layout)
        device().run(
            TE_PLAN(grouped_quantize_nvfp4, rows, cols, groups,
                    layout->alignment, type, 448, 0, 0, 0),
            usage({in(x.bytes), in(layout->sizes), in(amax), none()}, 3));
      else
        device().run(TE_PLAN(quantize_nvfp4, 1, rows, cols, type, scheme, 0,
                             448, 0, 0, 0),
                     usage({in(x.bytes), in(amax), none()}, 3));
      return q;
    }
    device().run(TE_PLAN(compute_scale, groups, fp8, 0, 0.0f),
                 {in(amax), out(scale)});
    if (layout)
      device().run(TE_PLAN(grouped_quantize_tensor, rows, cols, groups,
                           layout->alignment, type, fp8),
                   usage({in(x.bytes), in(layout->sizes), in(scale)}, 2));
    else {
      std::vector<Buffer> buffers = usage({in(x.bytes), in(scale)}, 2);
      buffers.push_back(none());
      device().run(TE_PLAN(quantize_tensor, 1, rows, cols, type, fp8), buffers);
    }
    return q;
  }

  static void append(Scaled &all, const Scaled &one) {
    all.data.insert(all.data.end(), one.data.begin(), one.data.end());
    all.scale.insert(all.scale.end(), one.scale.begin(), one.scale.end());
    all.amax.insert(all.amax.end(), one.amax.begin(), one.amax.end());
  }

  struct Case {
    int32_t x, w;
    int64_t alignment;
    const char *kind;
  };
  static std::vector<Case> cases() {
    std::vector<Case> result;
    for (const char *kind : {"normal", "nan", "wide"})
      for (const auto &[x, w, alignment] :
           {std::tuple(TE_RT_PER_TENSOR, TE_RT_PER_TENSOR, int64_t{16}),
            {TE_RT_BLOCK_1X128, TE_RT_BLOCK_128X128, 128},
            {TE_RT_BLOCK_1X128, TE_RT_BLOCK_1X128, 128},
            {TE_RT_BLOCK_128X128, TE_RT_BLOCK_1X128, 128},
            {TE_RT_MX_1X32, TE_RT_MX_1X32, 32},
            {TE_RT_MX_1X32, TE_RT_MX_32X32, 32},
            {TE_RT_NV_1X16, TE_RT_NV_16X16, 32}})
        result.push_back({x, w, alignment, kind});
    return result;
  }
};
// A product may differ in its last bits between the backends, so each group is
// compared on one.
INSTANTIATE_TEST_SUITE_P(, GroupedProducts, testing::Values("reference"),
                         [](const auto &info) { return info.param; });

TEST_P(GroupedProducts, RowsOfAGroupAreTheProductWithItsWeight) {
  for (const Case &c : cases())
    for (const Layout &layout : layouts(c.alignment))
      // Weights made for either axis: fprop, and dgrad, which contracts the
      // rows of the stored weight.
      for (int wAxis : {1, 0}) {
        const int64_t rows = layout.rows(), k = 160, n = 96;
        const bool gradient = wAxis == 0;
        SCOPED_TRACE(std::to_string(c.x) + " by " + std::to_string(c.w) + ", " +
                     c.kind);
        const Array x = makeGrouped(layout, c.kind, TE_RT_BF16, k, 5);
        const int32_t xType = elementsOf(c.x, gradient),
                      wType = elementsOf(c.w, false);
        const Scaled a = quantise(x, rows, k, c.x, 1, gradient, &layout);
        Scaled weights;
        std::vector<Scaled> weightOf;
        for (int64_t g = 0; g < layout.groups(); ++g) {
          const Array w(TE_RT_BF16, makeValues(c.kind, TE_RT_BF16, n * k,
                                               100 + static_cast<uint32_t>(g)));
          weightOf.push_back(wAxis == 1 ? quantise(w, n, k, c.w, 1, false)
                                        : quantise(w, k, n, c.w, 0, false));
          append(weights, weightOf.back());
        }
        const Array bias(TE_RT_BF16, makeValues("normal", TE_RT_BF16,
                                                layout.groups() * n, 6));
        Array y(TE_RT_BF16, rows * n);
        device().run(TE_PLAN(grouped_scaled_matmul, rows, n, k, layout.groups(),
                             layout.alignment, xType, c.x, wType, c.w,
                             TE_RT_BF16, 0, wAxis, 0, scaleMaxOf(c.x),
                             scaleMaxOf(c.w)),
                     {in(a.data), in(a.scale), amaxOf(a), in(weights.data),
                      in(weights.scale), amaxOf(weights), in(layout.sizes),
                      in(bias.bytes), out(y.bytes)});
        Array expected(TE_RT_BF16, rows * n);
        for (int64_t g = 0; g < layout.groups(); ++g) {
          const int64_t height = layout.padded(g);
          if (height == 0)
            continue;
          const Array part =
              rowsOf(x, k, layout.start(g), layout.sizes[g], height);
          const Scaled one = quantise(part, height, k, c.x, 1, gradient);
          const Array biasOf = rowsOf(bias, n, g, 1, 1);
          Array result(TE_RT_BF16, height * n);
          device().run(
              TE_PLAN(scaled_matmul, height, n, k, xType, c.x, wType, c.w,
                      TE_RT_BF16, 0, 1, c.w == TE_RT_PER_TENSOR ? 1 : wAxis, 0,
                      0, scaleMaxOf(c.x), scaleMaxOf(c.w)),
              {in(one.data), in(one.scale), amaxOf(one), in(weightOf[g].data),
               in(weightOf[g].scale), amaxOf(weightOf[g]), in(biasOf.bytes),
               none(), out(result.bytes)});
          std::copy_n(result.bytes.begin(), layout.sizes[g] * n * 2,
                      expected.bytes.begin() + layout.start(g) * n * 2);
        }
        ASSERT_EQ(expected.bytes, y.bytes);
      }
}

TEST_P(GroupedProducts, WeightGradientIsThatOfTheRowsOfAGroup) {
  for (const Case &c : cases()) {
    // Gradients are quantised as activations are; squares are for weights.
    if (c.w == TE_RT_MX_32X32)
      continue;
    const int32_t xScheme = c.w == TE_RT_BLOCK_1X128 ? c.w : c.x;
    for (const Layout &layout : layouts(c.alignment))
      for (bool accumulates : {false, true}) {
        const int64_t rows = layout.rows(), m = 96, n = 160;
        SCOPED_TRACE(std::to_string(c.x) + ", " + c.kind);
        const Array dy = makeGrouped(layout, c.kind, TE_RT_BF16, m, 7);
        const Array x = makeGrouped(layout, c.kind, TE_RT_BF16, n, 8);
        const Scaled a = quantise(dy, rows, m, c.x, 0, true, &layout);
        const Scaled b = quantise(x, rows, n, xScheme, 0, false, &layout);
        const int32_t aType = elementsOf(c.x, true),
                      bType = elementsOf(xScheme, false);
        const int64_t area = m * n;
        const Array sums(TE_RT_F32, makeValues("normal", TE_RT_F32,
                                               layout.groups() * area, 9));
        Array dw(TE_RT_F32, layout.groups() * area);
        device().run(TE_PLAN(grouped_scaled_wgrad, rows, m, n, layout.groups(),
                             layout.alignment, aType, c.x, bType, xScheme,
                             TE_RT_F32, 0, scaleMaxOf(c.x),
                             scaleMaxOf(xScheme)),
                     {in(a.data), in(a.scale), amaxOf(a), in(b.data),
                      in(b.scale), amaxOf(b), in(layout.sizes),
                      accumulates ? in(sums.bytes) : none(), out(dw.bytes)});
        const int axis = c.x == TE_RT_PER_TENSOR ? 1 : 0;
        for (int64_t g = 0; g < layout.groups(); ++g) {
          const Array sum = rowsOf(sums, area, g, 1, 1);
          Array expected = accumulates ? sum : Array(TE_RT_F32, area);
          const int64_t height = layout.padded(g);
          if (height != 0) {
            const Scaled oneA = quantise(
                rowsOf(dy, m, layout.start(g), layout.sizes[g], height), height,
                m, c.x, 0, true);
            const Scaled oneB =
                quantise(rowsOf(x, n, layout.start(g), layout.sizes[g], height),
                         height, n, xScheme, 0, false);
            device().run(TE_PLAN(scaled_matmul, m, n, height, aType, c.x, bType,
                                 xScheme, TE_RT_F32, 0, axis, axis, 0, 0,
                                 scaleMaxOf(c.x), scaleMaxOf(xScheme)),
                         {in(oneA.data), in(oneA.scale), amaxOf(oneA),
                          in(oneB.data), in(oneB.scale), amaxOf(oneB), none(),
                          accumulates ? in(sum.bytes) : none(),
                          out(expected.bytes)});
          }
          ASSERT_TRUE(std::equal(expected.bytes.begin(), expected.bytes.end(),
                                 dw.bytes.begin() + g * area * 4))
              << "group " << g;
        }
      }
  }
}

TEST_P(GroupedProducts, PlainProductsAreThoseOfEachGroup) {
  for (const Layout &layout : layouts(16))
    for (const char *kind : kKinds)
      for (int32_t transB : {0, 1}) {
        const int64_t rows = layout.rows(), k = 24, n = 33;
        const int64_t groups = layout.groups();
        const Array x = makeGrouped(layout, kind, TE_RT_BF16, k, 10);
        const Array dy = makeGrouped(layout, kind, TE_RT_BF16, n, 11);
        const Array w(TE_RT_BF16,
                      makeValues(kind, TE_RT_BF16, groups * n * k, 12));
        const Array bias(TE_RT_BF16,
                         makeValues("normal", TE_RT_BF16, groups * n, 13));
        std::vector<float> alpha(groups, 0.75f);
        Array y(TE_RT_BF16, rows * n), dw(TE_RT_F32, groups * n * k);
        device().run(TE_PLAN(grouped_matmul, rows, n, k, groups,
                             layout.alignment, transB, TE_RT_BF16, TE_RT_BF16),
                     {in(x.bytes), in(w.bytes), in(layout.sizes), in(alpha),
                      in(bias.bytes), out(y.bytes)});
        device().run(TE_PLAN(grouped_wgrad, rows, n, k, groups,
                             layout.alignment, TE_RT_BF16, TE_RT_F32),
                     {in(dy.bytes), in(x.bytes), in(layout.sizes), none(),
                      none(), out(dw.bytes)});
        Array expected(TE_RT_BF16, rows * n);
        for (int64_t g = 0; g < groups; ++g) {
          const int64_t count = layout.sizes[g], start = layout.start(g);
          const Array xOf = rowsOf(x, k, start, count, count);
          const Array dyOf = rowsOf(dy, n, start, count, count);
          const Array wOf = rowsOf(w, n * k, g, 1, 1);
          const Array biasOf = rowsOf(bias, n, g, 1, 1);
          const std::vector<float> one{0.75f};
          Array part(TE_RT_BF16, count * n), dwOf(TE_RT_F32, n * k);
          device().run(
              TE_PLAN(matmul, count, n, k, 0, transB, TE_RT_BF16, TE_RT_BF16),
              {in(xOf.bytes), in(wOf.bytes), in(one), in(biasOf.bytes), none(),
               out(part.bytes)});
          std::copy(part.bytes.begin(), part.bytes.end(),
                    expected.bytes.begin() + start * n * 2);
          device().run(
              TE_PLAN(matmul, n, k, count, 1, 1, TE_RT_BF16, TE_RT_F32),
              {in(dyOf.bytes), in(xOf.bytes), none(), none(), none(),
               out(dwOf.bytes)});
          EXPECT_TRUE(std::equal(dwOf.bytes.begin(), dwOf.bytes.end(),
                                 dw.bytes.begin() + g * n * k * 4))
              << kind << ", group " << g;
        }
        EXPECT_EQ(expected.bytes, y.bytes) << kind;
      }
}

TEST_P(Grouped, StochasticCastCountsOverTheWholeValue) {
  const Layout layout{{20, 0, 33}, 32};
  const int64_t rows = layout.rows(), cols = 64;
  const Array x = makeGrouped(layout, "normal", TE_RT_BF16, cols, 14);
  const std::vector<float> amax(layout.groups(), 4.0f), one{4.0f};
  const std::vector<uint32_t> rng{7, 9};
  for (int32_t fourOverSix : {0, 1, 2}) {
    const int32_t stochastic = fourOverSix == 0;
    std::vector<uint8_t> row(rows * cols / 2), col(row), wholeRow(row),
        wholeCol(row);
    std::vector<uint8_t> rowScale(
        microscaleCount(TE_RT_NV_1X16, 1, rows, cols)),
        colScale(microscaleCount(TE_RT_NV_1X16, 0, rows, cols)),
        wholeRowScale(rowScale), wholeColScale(colScale);
    std::vector<float> copied(layout.groups()), copiedCol(copied), whole(1),
        wholeColAmax(1);
    device().run(
        TE_PLAN(grouped_quantize_nvfp4, rows, cols, layout.groups(),
                layout.alignment, TE_RT_BF16, 448, fourOverSix, stochastic, 3),
        {in(x.bytes), in(layout.sizes), in(amax), in(rng), out(row),
         out(rowScale), out(copied), out(col), out(colScale), out(copiedCol)});
    // With one amax for all groups, the cast is that of the whole matrix.
    device().run(TE_PLAN(quantize_nvfp4, 1, rows, cols, TE_RT_BF16,
                         TE_RT_NV_1X16, 0, 448, fourOverSix, stochastic, 3),
                 {in(x.bytes), in(one), in(rng), out(wholeRow),
                  out(wholeRowScale), out(whole), out(wholeCol),
                  out(wholeColScale), out(wholeColAmax)});
    EXPECT_EQ(row, wholeRow);
    EXPECT_EQ(col, wholeCol);
    EXPECT_EQ(rowScale, wholeRowScale);
    EXPECT_EQ(colScale, wholeColScale);
    EXPECT_EQ(copied, amax);
    EXPECT_EQ(copiedCol, amax);
  }
}

TEST_P(Grouped, Nvfp4DequantisesEachGroupByItsAmax) {
  const Layout layout{{20, 0, 33}, 32};
  const int64_t rows = layout.rows(), cols = 64;
  const Array x = makeGrouped(layout, "normal", TE_RT_BF16, cols, 15);
  const std::vector<float> amax{4.0f, 1.0f, 9.0f};
  for (int32_t axis : {1, 0}) {
    Scaled q;
    q.data.resize(rows * cols / 2);
    q.scale.resize(microscaleCount(TE_RT_NV_1X16, axis, rows, cols));
    q.amax.resize(3);
    std::vector<Buffer> buffers = {in(x.bytes), in(layout.sizes), in(amax),
                                   none()};
    for (int each : {1, 0})
      for (Buffer buffer : {out(q.data), out(q.scale), out(q.amax)})
        buffers.push_back(each == axis ? buffer : none());
    device().run(TE_PLAN(grouped_quantize_nvfp4, rows, cols, 3,
                         layout.alignment, TE_RT_BF16, 448, 0, 0, 0),
                 buffers);
    for (bool withAmax : {true, false}) {
      Array restored(TE_RT_BF16, rows * cols),
          expected(TE_RT_BF16, rows * cols);
      device().run(TE_PLAN(grouped_dequantize, rows, cols, 3, layout.alignment,
                           TE_RT_F4E2M1FN, TE_RT_NV_1X16, axis, 0, 448,
                           TE_RT_BF16),
                   {in(q.data), in(q.scale), withAmax ? in(q.amax) : none(),
                    in(layout.sizes), out(restored.bytes)});
      for (int64_t g = 0; g < 3; ++g) {
        Array whole(TE_RT_BF16, rows * cols);
        const std::vector<float> one{amax[g]};
        device().run(TE_PLAN(dequantize, 1, rows, cols, TE_RT_F4E2M1FN,
                             TE_RT_NV_1X16, axis, 0, 448, TE_RT_BF16),
                     {in(q.data), in(q.scale), withAmax ? in(one) : none(),
                      out(whole.bytes)});
        for (int64_t i = layout.start(g) * cols;
             i < (layout.start(g) + layout.sizes[g]) * cols; ++i)
          expected.set(i, whole.at(i));
      }
      EXPECT_TRUE(sameBits(expected, restored)) << axis << withAmax;
    }
  }
}

TEST(GroupedErrors, BadSizesNameTheGroup) {
  Device &reference = deviceOf("reference");
  const std::vector<float> x(64 * 4);
  for (const auto &[sizes, part] :
       {std::pair(std::vector<int32_t>{16, -1},
                  "'group_sizes[1]' to be from 0 to the 48 rows that are left "
                  "of 64, but got -1"),
        {{17, 33},
         "'group_sizes[1]' to be from 0 to the 32 rows that are left of 64, "
         "but got 33"},
        {{65, 0},
         "'group_sizes[0]' to be from 0 to the 64 rows that are left of 64, "
         "but got 65"}}) {
    std::vector<float> amax(2);
    EXPECT_EQ(reference.tryRun(TE_PLAN(grouped_amax, 64, 4, 2, 16, TE_RT_F32),
                               {in(x), in(sizes), out(amax)}),
              TE_RT_INVALID_ARGUMENT);
    EXPECT_NE(reference.message.find(part), std::string::npos)
        << reference.message;
  }
}

} // namespace
