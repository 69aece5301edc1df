//===- BlockCastTest.cpp - block casts, their inverse and transpose -------===//

#include "Conformance/Harness.h"
#include "Conformance/Oracle.h"

using namespace te::conformance;

namespace {

constexpr int64_t kSizes[] = {1, 16, 127, 128, 129, 256, 272, 304};
constexpr int32_t kTypes[] = {TE_RT_BF16, TE_RT_F32, TE_RT_F16};
constexpr int32_t kFp8Types[] = {TE_RT_F8E4M3FN, TE_RT_F8E5M2};
constexpr int32_t kBlockSchemes[] = {TE_RT_BLOCK_1X128, TE_RT_BLOCK_128X128};
constexpr const char *kKinds[] = {"normal",  "zeros",     "inf", "nan",
                                  "negzero", "subnormal", "huge"};

struct BothUsages {
  BothUsages(int64_t rows, int64_t cols, int32_t scheme) {
    row.data.resize(rows * cols);
    col.data.resize(rows * cols);
    row.scale.resize(scaleCount(scheme, rows, cols));
    col.scale.resize(scaleCount(scheme, cols, rows));
  }
  Quantised row, col;
};

class BlockCast : public BackendTest {
protected:
  void expectEqual(const Quantised &expected, const Quantised &actual,
                   const std::string &what) {
    ASSERT_EQ(expected.data.size(), actual.data.size());
    for (size_t i = 0; i < expected.data.size(); ++i)
      ASSERT_EQ(int(expected.data[i]), int(actual.data[i]))
          << what << ", data at " << i;
    ASSERT_EQ(expected.scale, actual.scale) << what;
  }

  void checkQuantise(const Array &x, int64_t rows, int64_t cols,
                     int32_t fp8Type, int32_t scheme, bool pow2, float epsilon,
                     const std::string &what, bool alone) {
    const auto plan = TE_PLAN(quantize_block, 1, rows, cols, rows, cols, x.type,
                              x.type, fp8Type, scheme, pow2, epsilon);
    BothUsages both(rows, cols, scheme);
    device().run(plan, {in(x.bytes), out(both.row.data), out(both.row.scale),
                        out(both.col.data), out(both.col.scale)});
    expectEqual(
        quantiseBlocks(x, rows, cols, 1, fp8Type, scheme, pow2, epsilon),
        both.row, what + " row");
    expectEqual(
        quantiseBlocks(x, rows, cols, 0, fp8Type, scheme, pow2, epsilon),
        both.col, what + " col");
    if (!alone)
      return;
    BothUsages one(rows, cols, scheme);
    device().run(plan, {in(x.bytes), out(one.row.data), out(one.row.scale),
                        none(), none()});
    device().run(plan, {in(x.bytes), none(), none(), out(one.col.data),
                        out(one.col.scale)});
    expectEqual(both.row, one.row, what + " row alone");
    expectEqual(both.col, one.col, what + " col alone");
  }
};

// Every shape with every kind and scheme. Input types, casts of only one usage,
// and the scale rule of a format alternate, so that each occurs with every
// other parameter.
TEST_P(BlockCast, ShapesAndKinds) {
  int turn = 0;
  for (int64_t rows : kSizes)
    for (int64_t cols : kSizes)
      for (const char *kind : kKinds) {
        const int32_t type = kTypes[turn++ % 3];
        const Array x = makeArray(kind, type, rows * cols, turn);
        for (int32_t scheme : kBlockSchemes)
          for (int32_t fp8Type : kFp8Types) {
            const bool pow2 = (turn + (fp8Type == TE_RT_F8E5M2)) % 2 == 0;
            checkQuantise(x, rows, cols, fp8Type, scheme, pow2, 0.0f,
                          std::string(kind) + " " + std::to_string(rows) + "x" +
                              std::to_string(cols) + " type " +
                              std::to_string(type) + " scheme " +
                              std::to_string(scheme) + " pow2 " +
                              std::to_string(pow2),
                          turn % 5 == 0);
            if (HasFatalFailure())
              return;
          }
      }
}

TEST_P(BlockCast, AmaxEpsilonRaisesSmallBlocks) {
  const Array x = makeArray("wide", TE_RT_F32, 130 * 260);
  for (int32_t scheme : kBlockSchemes)
    checkQuantise(x, 130, 260, TE_RT_F8E4M3FN, scheme, false, 0.5f, "epsilon",
                  false);
}

TEST_P(BlockCast, DequantiseInvertsTheStorage) {
  for (int32_t scheme :
       {TE_RT_PER_TENSOR, TE_RT_BLOCK_1X128, TE_RT_BLOCK_128X128})
    for (int axis : {0, 1})
      for (int32_t fp8Type : kFp8Types)
        for (int32_t outType : kTypes)
          for (int64_t rows : {1, 130, 272})
            for (int64_t cols : {16, 129, 256}) {
              const int64_t outer = axis ? rows : cols;
              const int64_t inner = axis ? cols : rows;
              // Every code, including NaN, with arbitrary scales.
              std::vector<uint8_t> data(rows * cols);
              for (size_t i = 0; i < data.size(); ++i)
                data[i] = static_cast<uint8_t>(i * 37 + i / 256);
              std::vector<float> scale(scaleCount(scheme, outer, inner));
              for (size_t i = 0; i < scale.size(); ++i)
                scale[i] = 0.013f * static_cast<float>(1 + i % 11);
              Array expected(outType, rows * cols),
                  actual(outType, rows * cols);
              for (int64_t o = 0; o < outer; ++o)
                for (int64_t i = 0; i < inner; ++i) {
                  const auto value = static_cast<float>(
                      decode(fp8Type, data[o * inner + i]) *
                      scale[scaleIndex(scheme, outer, inner, o, i)]);
                  expected.set(axis ? o * cols + i : i * cols + o, value);
                }
              device().run(TE_PLAN(dequantize, 1, rows, cols, fp8Type, scheme,
                                   axis, 0, 0, outType),
                           {in(data), in(scale), none(), out(actual.bytes)});
              ASSERT_TRUE(sameBits(expected, actual))
                  << rows << "x" << cols << " scheme " << scheme << " axis "
                  << axis;
            }
}

// The compiler relies on this when it replaces one with the other.
TEST_P(BlockCast, TransposeEqualsDirectColumnUsage) {
  for (int64_t rows : kSizes)
    for (int64_t cols : kSizes) {
      const Array x = makeArray("wide", TE_RT_BF16, rows * cols, rows);
      BothUsages tensor(rows, cols, TE_RT_PER_TENSOR);
      BothUsages block(rows, cols, TE_RT_BLOCK_128X128);
      device().run(TE_PLAN(quantize_tensor, 1, rows, cols, rows, cols,
                           TE_RT_BF16, TE_RT_BF16, TE_RT_F8E4M3FN, 0, 0, 0.0f),
                   {in(x.bytes), in(std::vector<float>{7.3f}),
                    out(tensor.row.data), out(tensor.row.scale),
                    out(tensor.col.data), out(tensor.col.scale), none()});
      device().run(TE_PLAN(quantize_block, 1, rows, cols, rows, cols,
                           TE_RT_BF16, TE_RT_BF16, TE_RT_F8E4M3FN,
                           TE_RT_BLOCK_128X128, 0, 0.0f),
                   {in(x.bytes), out(block.row.data), out(block.row.scale),
                    out(block.col.data), out(block.col.scale)});
      for (const auto &[scheme, usages] :
           {std::pair<int32_t, BothUsages &>{TE_RT_PER_TENSOR, tensor},
            {TE_RT_BLOCK_128X128, block}}) {
        BothUsages turned(rows, cols, scheme);
        device().run(TE_PLAN(transpose_scaled, 1, rows, cols, scheme),
                     {in(usages.row.data), in(usages.row.scale), none(),
                      out(turned.col.data), out(turned.col.scale), none()});
        expectEqual(usages.col, turned.col,
                    std::to_string(rows) + "x" + std::to_string(cols));
        if (HasFatalFailure())
          return;
      }
    }
}

TE_FOR_EACH_BACKEND(BlockCast);

} // namespace
