//===- GroupedTest.cpp - casts and sums of groups of rows -----------------===//
//
// The result of a kernel of groups for each group has the bits of the kernel
// for one matrix, applied to only the group's rows. Groups are empty, shorter
// than a block, or as long as one. Rows that belong to no group are zeros. The
// matrices for the comparison are copied from the input before anything is
// quantised, and padded with zero rows to the sizes that their kernels need.
//
//===----------------------------------------------------------------------===//

#include "Conformance/GroupedLayout.h"

#include <algorithm>

using namespace te::conformance;

namespace {

/// Several tiles are included, some of which have rows of several groups.
std::vector<Layout> layoutsOfCasts() {
  std::vector<Layout> result = layouts(16);
  result.push_back({{130, 0, 300, 1, 256}, 16, 3});
  result.push_back({{5, 64, 0, 131, 2, 2, 2}, 1, 7});
  return result;
}

class Grouped : public BackendTest {};
TE_FOR_EACH_BACKEND(Grouped);

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
        // This padding must not be read.
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
          device().run(
              TE_PLAN(amax, static_cast<int64_t>(part.size()), type, type),
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
          device().run(TE_PLAN(quantize_tensor, 1, count, cols, count, cols,
                               type, type, fp8, 0, 0, 0.0f),
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
    device().run(TE_PLAN(quantize_nvfp4, 1, rows, cols, rows, cols, TE_RT_BF16,
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
