//===- RowsCastTest.cpp - casts of some rows equal those of all rows ------===//

#include "Conformance/Harness.h"
#include "Conformance/Oracle.h"

#include <cstring>

using namespace te::conformance;

namespace {

constexpr int32_t kTypes[] = {TE_RT_BF16, TE_RT_F32, TE_RT_F16};

struct Usages {
  Usages(int32_t scheme, int64_t rows, int64_t cols, int64_t wholeRows)
      : row(rows * cols), col(cols * wholeRows),
        rowScale(scheme == TE_RT_PER_TENSOR ? 1
                                            : scaleCount(scheme, rows, cols)),
        colScale(scheme == TE_RT_PER_TENSOR
                     ? 1
                     : scaleCount(scheme, cols, wholeRows)) {}
  std::vector<uint8_t> row, col;
  std::vector<float> rowScale, colScale;
  std::vector<float> amax = {0};
};

class RowsCast : public BackendTest {
protected:
  struct Shape {
    int64_t rows, cols, step;
  };

  /// Casts x as a whole.
  Usages castAll(const Array &x, const Shape &s, int32_t scheme, int32_t fp8,
                 const std::vector<float> &scale) {
    Usages all(scheme, s.rows, s.cols, s.rows);
    if (scheme == TE_RT_PER_TENSOR)
      device().run(TE_PLAN(quantize_tensor, 1, s.rows, s.cols, s.rows, s.cols,
                           x.type, x.type, fp8, 0, 0, 0.0f),
                   {in(x.bytes), in(scale), out(all.row), out(all.rowScale),
                    out(all.col), out(all.colScale), out(all.amax), none()});
    else
      device().run(TE_PLAN(quantize_block, 1, s.rows, s.cols, s.rows, s.cols,
                           x.type, x.type, fp8, scheme, 1, 0.0f),
                   {in(x.bytes), out(all.row), out(all.rowScale), out(all.col),
                    out(all.colScale), none()});
    return all;
  }

  /// Casts the rows from `first` on in memory that is filled with kPoison.
  Usages castRows(const Array &x, const Shape &s, int64_t first, int64_t rows,
                  int32_t scheme, int32_t fp8,
                  const std::vector<float> &scale) {
    const int64_t bytes = x.bytes.size() / s.rows;
    const std::vector<uint8_t> part(x.bytes.begin() + first * bytes,
                                    x.bytes.begin() + (first + rows) * bytes);
    Usages some(scheme, rows, s.cols, s.rows);
    const bool perTensor = scheme == TE_RT_PER_TENSOR;
    device().run(TE_PLAN(quantize_rows, rows, s.cols, s.rows, first, x.type,
                         fp8, scheme, perTensor ? 0 : 1, 0.0f),
                 {in(part), perTensor ? in(scale) : none(), out(some.row),
                  out(some.rowScale), out(some.col), out(some.colScale),
                  perTensor ? out(some.amax) : none()});
    return some;
  }
};

// Every byte of the rows is that of the cast of all rows, and no byte that
// belongs to other rows is written.
TEST_P(RowsCast, EqualsThatOfAllRows) {
  int turn = 0;
  for (const Shape s : {Shape{400, 272, 128}, Shape{384, 16, 256},
                        Shape{130, 37, 128}, Shape{256, 128, 128}})
    for (int32_t scheme : {TE_RT_PER_TENSOR, TE_RT_BLOCK_1X128})
      for (int32_t fp8 : {TE_RT_F8E4M3FN, TE_RT_F8E5M2})
        for (const char *kind : {"normal", "nan", "wide"}) {
          const int32_t type = kTypes[turn++ % 3];
          const Array x = makeArray(kind, type, s.rows * s.cols, turn);
          const std::vector<float> scale = {3.5f};
          const Usages all = castAll(x, s, scheme, fp8, scale);
          float amax = 0;
          for (int64_t first = 0; first < s.rows; first += s.step) {
            const int64_t rows = std::min(s.step, s.rows - first);
            const Usages some = castRows(x, s, first, rows, scheme, fp8, scale);
            amax = std::max(amax, some.amax[0]);
            for (int64_t r = 0; r < s.rows; ++r)
              for (int64_t c = 0; c < s.cols; ++c) {
                const bool within = r >= first && r < first + rows;
                ASSERT_EQ(int(some.col[c * s.rows + r]),
                          within ? int(all.col[c * s.rows + r]) : int(kPoison))
                    << "column " << c << ", row " << r << " of the rows from "
                    << first;
                if (within) {
                  ASSERT_EQ(some.row[(r - first) * s.cols + c],
                            all.row[r * s.cols + c]);
                }
              }
            if (scheme == TE_RT_PER_TENSOR) {
              EXPECT_EQ(some.rowScale, all.rowScale);
              EXPECT_EQ(some.colScale, all.colScale);
              continue;
            }
            // Scales are [blocks, rows], or [blocks of rows, columns].
            const int64_t cols4 = (s.cols + 3) / 4 * 4;
            const int64_t begin = first / 128 * cols4;
            const int64_t end = (first + rows + 127) / 128 * cols4;
            for (int64_t i = 0; i < int64_t(some.colScale.size()); ++i) {
              uint32_t bits;
              std::memcpy(&bits, &some.colScale[i], sizeof(bits));
              if (i >= begin && i < end)
                ASSERT_EQ(some.colScale[i], all.colScale[i]) << i;
              else
                ASSERT_EQ(bits, kPoison * 0x01010101u) << i;
            }
          }
          if (scheme == TE_RT_PER_TENSOR) {
            EXPECT_EQ(amax, all.amax[0]);
          }
        }
}

// The gradient of logits is cast without being stored, to the same bytes.
TEST_P(RowsCast, OfTheGradientOfLogits) {
  int turn = 0;
  for (const Shape s : {Shape{400, 272, 128}, Shape{130, 37, 128}})
    for (int32_t scheme : {TE_RT_PER_TENSOR, TE_RT_BLOCK_1X128})
      for (int32_t fp8 : {TE_RT_F8E4M3FN, TE_RT_F8E5M2})
        for (const char *kind : {"normal", "nan", "wide"}) {
          const int32_t type = kTypes[turn++ % 3];
          const bool perTensor = scheme == TE_RT_PER_TENSOR;
          const int64_t first = s.step, rows = s.rows - first;
          // Some have columns of padding after the classes.
          const int64_t vocab = s.cols - turn % 2 * 3;
          const Array logits = makeArray(kind, type, rows * s.cols, turn);
          const std::vector<float> weight = {0.25f}, scale = {3.5f},
                                   lse(rows, 1.25f);
          std::vector<int32_t> targets(rows);
          for (int64_t t = 0; t < rows; ++t)
            targets[t] = t % 5 == 0 ? -100 : t * 31 % vocab;
          const std::vector<Buffer> inputs = {in(weight), in(logits.bytes),
                                              in(targets), in(lse)};
          Array gradient(type, rows * s.cols);
          auto buffers = inputs;
          buffers.push_back(out(gradient.bytes));
          device().run(
              TE_PLAN(cross_entropy_backward, rows, vocab, s.cols, type, -100),
              buffers);
          Usages apart(scheme, rows, s.cols, s.rows), fused = apart;
          const auto outputs = [&](Usages &to) {
            return std::vector<Buffer>{perTensor ? in(scale) : none(),
                                       out(to.row),
                                       out(to.rowScale),
                                       out(to.col),
                                       out(to.colScale),
                                       perTensor ? out(to.amax) : none()};
          };
          buffers = outputs(apart);
          buffers.insert(buffers.begin(), in(gradient.bytes));
          device().run(TE_PLAN(quantize_rows, rows, s.cols, s.rows, first, type,
                               fp8, scheme, !perTensor, 0.0f),
                       buffers);
          buffers = outputs(fused);
          buffers.insert(buffers.begin(), inputs.begin(), inputs.end());
          device().run(TE_PLAN(cross_entropy_backward_quantize, rows, vocab,
                               s.cols, s.rows, first, type, fp8, scheme,
                               !perTensor, 0.0f, -100),
                       buffers);
          EXPECT_EQ(apart.row, fused.row);
          EXPECT_EQ(apart.col, fused.col);
          EXPECT_EQ(apart.amax, fused.amax);
          const auto isSame = [](const auto &a, const auto &b) {
            return std::memcmp(a.data(), b.data(), 4 * a.size()) == 0;
          };
          EXPECT_TRUE(isSame(apart.rowScale, fused.rowScale));
          EXPECT_TRUE(isSame(apart.colScale, fused.colScale));
        }
}

TE_FOR_EACH_BACKEND(RowsCast);

} // namespace
