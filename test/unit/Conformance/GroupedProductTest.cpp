//===- GroupedProductTest.cpp - groups of rows against one matrix each ----===//
//
// As in GroupedTest.cpp, the rows of a group have the bits of the kernel for
// one matrix; here for GEMMs.
//
//===----------------------------------------------------------------------===//

#include "Conformance/GroupedLayout.h"

#include <algorithm>

using namespace te::conformance;

namespace {

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

class GroupedProducts : public BackendTest {
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

  /// One usage of x, a bf16 matrix: of the whole matrix, or of each group of
  /// `layout`.
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
      device().run(
          TE_PLAN(quantize_mx, 1, rows, cols, rows, cols, type, fp8, scheme),
          usage({in(x.bytes)}, 2));
      return q;
    }
    if (scheme == TE_RT_BLOCK_1X128 || scheme == TE_RT_BLOCK_128X128) {
      device().run(TE_PLAN(quantize_block, 1, rows, cols, rows, cols, type,
                           type, fp8, scheme, 0, 0.0f),
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
      device().run(TE_PLAN(amax, rows * cols, type, type),
                   {in(x.bytes), out(amax)});
    if (isNv(scheme)) {
      if (layout)
        device().run(
            TE_PLAN(grouped_quantize_nvfp4, rows, cols, groups,
                    layout->alignment, type, 448, 0, 0, 0),
            usage({in(x.bytes), in(layout->sizes), in(amax), none()}, 3));
      else
        device().run(TE_PLAN(quantize_nvfp4, 1, rows, cols, rows, cols, type,
                             scheme, 0, 448, 0, 0, 0),
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
      device().run(TE_PLAN(quantize_tensor, 1, rows, cols, rows, cols, type,
                           type, fp8, 0, 0, 0.0f),
                   buffers);
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
// The backends may differ in the last bits of a GEMM, so groups are compared on
// one backend.
INSTANTIATE_TEST_SUITE_P(, GroupedProducts, testing::Values("reference"),
                         [](const auto &info) { return info.param; });

TEST_P(GroupedProducts, RowsOfAGroupAreTheProductWithItsWeight) {
  for (const Case &c : cases())
    for (const Layout &layout : layouts(c.alignment))
      // Weights are cast for either axis: for fprop, and for dgrad, which
      // contracts the rows of the stored weight.
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
    // Gradients are quantised like activations; square blocks are for weights.
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

} // namespace
