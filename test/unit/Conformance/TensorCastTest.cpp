//===- TensorCastTest.cpp - per-tensor casts, exhaustively ----------------===//

#include "Conformance/Harness.h"
#include "Conformance/Oracle.h"

#include <cmath>
#include <functional>
#include <limits>

using namespace te::conformance;

namespace {

class TensorCast : public BackendTest {
protected:
  /// Quantises x[rows, cols] into both usages and compares with the oracle.
  void check(const Array &x, int64_t rows, int64_t cols, int32_t fp8Type,
             float scale) {
    std::vector<uint8_t> row(rows * cols), col(rows * cols);
    std::vector<float> rowScale(1), colScale(1);
    device().run(TE_PLAN(quantize_tensor, 1, rows, cols, rows, cols, x.type,
                         x.type, fp8Type, 0, 0, 0.0f),
                 {in(x.bytes), in(std::vector<float>{scale}), out(row),
                  out(rowScale), out(col), out(colScale), none()});
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t c = 0; c < cols; ++c) {
        const double value = x.at(r * cols + c);
        const uint8_t expected = encodeFp8(
            fp8Type, static_cast<float>(value * static_cast<double>(scale)));
        ASSERT_EQ(expected, row[r * cols + c])
            << value << " * " << scale << " to type " << fp8Type;
        ASSERT_EQ(expected, col[c * rows + r])
            << value << " * " << scale << " to type " << fp8Type;
      }
    ASSERT_EQ(rowScale[0], 1.0f / scale);
    ASSERT_EQ(colScale[0], 1.0f / scale);
  }
};

constexpr int32_t kFp8Types[] = {TE_RT_F8E4M3FN, TE_RT_F8E5M2};

TEST_P(TensorCast, EveryHalfPrecisionInput) {
  for (int32_t type : {TE_RT_BF16, TE_RT_F16}) {
    Array x(type, 65536);
    for (uint32_t i = 0; i < 65536; ++i) {
      x.bytes[2 * i] = i & 0xff;
      x.bytes[2 * i + 1] = i >> 8;
    }
    for (int32_t fp8Type : kFp8Types)
      for (float scale : {1.0f, 7.3f, 0.013f, 0x1p-20f, 0x1p5f, 0x1p100f,
                          std::numeric_limits<float>::max()})
        check(x, 256, 256, fp8Type, scale);
  }
}

// Values at which the result changes: the midpoint of two neighbouring codes,
// the codes themselves, and the next f32 on both sides of each.
TEST_P(TensorCast, EveryDecisionPointOfSinglePrecision) {
  for (int32_t fp8Type : kFp8Types) {
    std::vector<double> values;
    for (uint32_t code = 0; code < 127; ++code) {
      const double low = decode(fp8Type, code),
                   high = decode(fp8Type, code + 1);
      if (!std::isfinite(low))
        continue;
      const double next = std::isfinite(high) ? high : 2 * low;
      for (double point : {low, (low + next) / 2}) {
        const auto p = static_cast<float>(point);
        for (float v : {p, std::nextafterf(p, 0), std::nextafterf(p, 1e30f)}) {
          values.push_back(v);
          values.push_back(-v);
        }
      }
    }
    const int64_t count = values.size();
    check(Array(TE_RT_F32, values), 1, count, fp8Type, 1.0f);
    check(Array(TE_RT_F32, values), count, 1, fp8Type, 0.37f);
  }
}

TEST_P(TensorCast, OneUsageAlone) {
  const Array x = makeArray("wide", TE_RT_BF16, 33 * 65);
  const std::vector<float> scale{3.0f};
  std::vector<uint8_t> row(33 * 65), col(33 * 65), rowAlone(33 * 65),
      colAlone(33 * 65);
  std::vector<float> inverse(1), inverse2(1);
  const auto plan = TE_PLAN(quantize_tensor, 1, 33, 65, 33, 65, TE_RT_BF16,
                            TE_RT_BF16, TE_RT_F8E5M2, 0, 0, 0.0f);
  device().run(plan, {in(x.bytes), in(scale), out(row), out(inverse), out(col),
                      out(inverse2), none()});
  device().run(plan, {in(x.bytes), in(scale), out(rowAlone), out(inverse),
                      none(), none(), none()});
  device().run(plan, {in(x.bytes), in(scale), none(), none(), out(colAlone),
                      out(inverse2), none()});
  EXPECT_EQ(row, rowAlone);
  EXPECT_EQ(col, colAlone);
  EXPECT_EQ(inverse, inverse2);
}

// A cast that measures has the bytes of one that does not, and the amax is that
// of its input before scaling.
TEST_P(TensorCast, MeasuresWhileItCasts) {
  const struct {
    int64_t rows, cols;
  } shapes[] = {{1, 1}, {7, 33}, {128, 128}, {130, 256}, {304, 272}};
  for (int32_t type : {TE_RT_F32, TE_RT_BF16, TE_RT_F16})
    for (const char *kind :
         {"normal", "zeros", "inf", "nan", "negzero", "subnormal", "huge"})
      for (const auto &[rows, cols] : shapes) {
        const int64_t count = rows * cols;
        const Array x = makeArray(kind, type, count);
        const std::vector<float> scale{7.3f};
        std::vector<uint8_t> row(count), col(count), plainRow(count),
            plainCol(count);
        std::vector<float> rowScale(1), colScale(1), amax(1), expected(1);
        const auto plan = TE_PLAN(quantize_tensor, 1, rows, cols, rows, cols,
                                  type, type, TE_RT_F8E4M3FN, 0, 0, 0.0f);
        device().run(plan,
                     {in(x.bytes), in(scale), out(plainRow), out(rowScale),
                      out(plainCol), out(colScale), none()});
        device().run(plan, {in(x.bytes), in(scale), out(row), out(rowScale),
                            out(col), out(colScale), out(amax)});
        device().run(TE_PLAN(amax, count, type, type),
                     {in(x.bytes), out(expected)});
        ASSERT_EQ(amax, expected) << kind << " " << rows << "x" << cols;
        ASSERT_EQ(row, plainRow);
        ASSERT_EQ(col, plainCol);
      }
}

TEST_P(TensorCast, EmptyMatrix) {
  std::vector<uint8_t> nothing;
  std::vector<float> inverse(1), amax(1);
  device().run(TE_PLAN(quantize_tensor, 1, 0, 64, 0, 64, TE_RT_BF16, TE_RT_BF16,
                       TE_RT_F8E4M3FN, 0, 0, 0.0f),
               {in(nothing), in(std::vector<float>{4.0f}), out(nothing),
                out(inverse), none(), none(), out(amax)});
  EXPECT_EQ(inverse[0], 0.25f);
  EXPECT_EQ(amax[0], 0.0f);
}

TEST_P(TensorCast, AmaxDropsNanAndKeepsInfinity) {
  for (int32_t type : {TE_RT_F32, TE_RT_BF16, TE_RT_F16})
    for (const char *kind :
         {"normal", "zeros", "inf", "nan", "negzero", "subnormal", "huge"})
      for (size_t count : {0, 1, 7, 1000, 70001}) {
        const Array x = makeArray(kind, type, count);
        double expected = 0;
        for (size_t i = 0; i < count; ++i)
          if (std::fabs(x.at(i)) > expected)
            expected = std::fabs(x.at(i));
        std::vector<float> amax(1);
        device().run(TE_PLAN(amax, static_cast<int64_t>(count), type, type),
                     {in(x.bytes), out(amax)});
        ASSERT_EQ(expected, amax[0]) << kind << " " << count;
      }
}

TEST_P(TensorCast, ComputeScale) {
  const float inf = std::numeric_limits<float>::infinity();
  for (float amax : {0.0f, 1.0f, 3.7f, 448.0f, 1e-38f, 1e-45f, 3e-36f, 3e38f,
                     inf, std::nanf(""), 0.02f})
    for (float epsilon : {0.0f, 0.01f, 1e-40f})
      for (bool pow2 : {false, true})
        for (int32_t fp8Type : kFp8Types) {
          std::vector<float> scale(1);
          device().run(TE_PLAN(compute_scale, 1, fp8Type, pow2, epsilon),
                       {in(std::vector<float>{amax}), out(scale)});
          EXPECT_EQ(scale[0], scaleOf(amax, fp8Type, pow2, epsilon,
                                      maxFiniteOf(TE_RT_F32)))
              << amax << " " << epsilon << " " << pow2;
        }
}

// A cast that gets an amax has the scale that compute_scale computes from it.
TEST_P(TensorCast, ComputesItsScaleFromAnAmax) {
  const float inf = std::numeric_limits<float>::infinity();
  const int64_t rows = 130, cols = 48;
  const Array x = makeArray("wide", TE_RT_BF16, rows * cols);
  for (float amax : {0.0f, 1.0f, 3.7f, 448.0f, 1e-38f, 1e-45f, 3e-36f, 3e38f,
                     inf, std::nanf("")})
    for (float epsilon : {0.0f, 0.01f})
      for (bool pow2 : {false, true})
        for (int32_t fp8Type : kFp8Types) {
          const float scale =
              scaleOf(amax, fp8Type, pow2, epsilon, maxFiniteOf(TE_RT_F32));
          std::vector<uint8_t> row(rows * cols), col(rows * cols);
          std::vector<float> rowScale(1), colScale(1);
          device().run(TE_PLAN(quantize_tensor, 1, rows, cols, rows, cols,
                               x.type, x.type, fp8Type, 1, pow2, epsilon),
                       {in(x.bytes), in(std::vector<float>{amax}), out(row),
                        out(rowScale), out(col), out(colScale), none()});
          ASSERT_EQ(rowScale[0], 1.0f / scale) << amax << " " << epsilon;
          ASSERT_EQ(colScale[0], 1.0f / scale);
          for (int64_t r = 0; r < rows; ++r)
            for (int64_t c = 0; c < cols; ++c) {
              const uint8_t expected = encodeFp8(
                  fp8Type, static_cast<float>(x.at(r * cols + c) *
                                              static_cast<double>(scale)));
              ASSERT_EQ(expected, row[r * cols + c]) << amax << " " << epsilon;
              ASSERT_EQ(expected, col[c * rows + r]) << amax << " " << epsilon;
            }
        }
}

// A group of two has the bytes of two casts, whatever the addresses.
TEST_P(TensorCast, Groups) {
  struct Form {
    bool row, col, amax, fromAmax;
    int offset;
  };
  for (auto [rows, cols] : {std::pair<int64_t, int64_t>{256, 384},
                            {64, 48},
                            {33, 65},
                            {1, 1000},
                            {0, 16}})
    for (int32_t type : {TE_RT_BF16, TE_RT_F32})
      for (const Form &form : {Form{true, true, true, false, 0},
                               {true, false, false, true, 0},
                               {false, true, true, false, 4},
                               {true, true, false, true, 4}}) {
        const size_t size = rows * cols;
        const std::vector<float> scale[] = {{3.0f}, {0.75f}};
        struct Results {
          std::vector<uint8_t> row, col;
          std::vector<float> rowScale, colScale, amax;
          explicit Results(size_t size)
              : row(size), col(size), rowScale(1), colScale(1), amax(1) {}
        };
        const Array x[] = {makeArray("normal", type, size, 1),
                           makeArray("nan", type, size, 2)};
        Results together[] = {Results(size), Results(size)},
                apart[] = {Results(size), Results(size)};
        const int32_t fp8 = TE_RT_F8E4M3FN;
        auto given = [](bool is, Buffer buffer) {
          return is ? buffer : none();
        };
        auto at = [&](int i, Buffer buffer) {
          return unaligned(buffer, i == 1 ? form.offset : 0);
        };
        std::vector<Buffer> buffers;
        for (auto add : std::vector<std::function<Buffer(int)>>{
                 [&](int i) { return at(i, in(x[i].bytes)); },
                 [&](int i) { return in(scale[i]); },
                 [&](int i) {
                   return given(form.row, at(i, out(together[i].row)));
                 },
                 [&](int i) {
                   return given(form.row, out(together[i].rowScale));
                 },
                 [&](int i) {
                   return given(form.col, at(i, out(together[i].col)));
                 },
                 [&](int i) {
                   return given(form.col, out(together[i].colScale));
                 },
                 [&](int i) {
                   return given(form.amax, out(together[i].amax));
                 }})
          for (int i : {0, 1})
            buffers.push_back(add(i));
        device().run(TE_PLAN(quantize_tensor_group, rows, cols, rows, cols,
                             type, type, fp8, form.fromAmax, 0, 0.0f),
                     buffers);
        for (int i : {0, 1}) {
          device().run(TE_PLAN(quantize_tensor, 1, rows, cols, rows, cols, type,
                               type, fp8, form.fromAmax, 0, 0.0f),
                       {in(x[i].bytes), in(scale[i]),
                        given(form.row, out(apart[i].row)),
                        given(form.row, out(apart[i].rowScale)),
                        given(form.col, out(apart[i].col)),
                        given(form.col, out(apart[i].colScale)),
                        given(form.amax, out(apart[i].amax))});
          const std::string what = std::to_string(rows) + "x" +
                                   std::to_string(cols) + ", matrix " +
                                   std::to_string(i);
          EXPECT_EQ(together[i].row, apart[i].row) << what;
          EXPECT_EQ(together[i].col, apart[i].col) << what;
          EXPECT_EQ(together[i].rowScale, apart[i].rowScale) << what;
          EXPECT_EQ(together[i].colScale, apart[i].colScale) << what;
          EXPECT_EQ(together[i].amax, apart[i].amax) << what;
        }
      }
}

TEST_P(TensorCast, GroupsHaveTheSameOutputs) {
  const std::vector<float> x(256), scale(1);
  std::vector<uint8_t> row(256);
  std::vector<Buffer> buffers = {in(x), in(x), in(scale), in(scale), out(row)};
  EXPECT_EQ(
      device().tryRun(TE_PLAN(quantize_tensor_group, 16, 16, 16, 16, TE_RT_F32,
                              TE_RT_F32, TE_RT_F8E4M3FN, 0, 0, 0.0f),
                      buffers),
      TE_RT_INVALID_ARGUMENT);
  EXPECT_NE(
      std::string(te_rt_last_error())
          .find("expected 'row0' and 'row1' both or neither, but got null "
                "for one of them"),
      std::string::npos)
      << te_rt_last_error();
}

TE_FOR_EACH_BACKEND(TensorCast);

} // namespace
