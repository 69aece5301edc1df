//===- MxCastTest.cpp - MX quantisation -----------------------------------===//
//
// The exponent of a block is computed from bits, so all values at which it
// changes are tested: each power of two of each format with its neighbours,
// every 16-bit value as the amax of a block, and blocks of zeros, infinities,
// NaN and subnormals. Results must be equal.
//
//===----------------------------------------------------------------------===//

#include "Conformance/Harness.h"
#include "Conformance/Oracle.h"

#include <cmath>
#include <limits>

using namespace te::conformance;

namespace {

constexpr int64_t kSizes[] = {32, 64, 96, 128, 160, 288};
constexpr int32_t kTypes[] = {TE_RT_BF16, TE_RT_F32, TE_RT_F16};
constexpr int32_t kFp8Types[] = {TE_RT_F8E4M3FN, TE_RT_F8E5M2};
constexpr int32_t kSchemes[] = {TE_RT_MX_1X32, TE_RT_MX_32X32};
constexpr const char *kKinds[] = {"normal",  "zeros",     "inf",  "nan",
                                  "negzero", "subnormal", "huge", "wide"};
constexpr float kInf = std::numeric_limits<float>::infinity();

struct BothUsages {
  BothUsages(int64_t rows, int64_t cols, int32_t scheme) {
    row.data.resize(rows * cols);
    col.data.resize(rows * cols);
    row.scale.resize(microscaleCount(scheme, 1, rows, cols));
    col.scale.resize(microscaleCount(scheme, 0, rows, cols));
  }
  Microscaled row, col;
};

class MxCast : public BackendTest {
protected:
  static void expectEqual(const Microscaled &expected,
                          const Microscaled &actual, const std::string &what) {
    ASSERT_EQ(expected.scale.size(), actual.scale.size());
    for (size_t i = 0; i < expected.scale.size(); ++i)
      ASSERT_EQ(int(expected.scale[i]), int(actual.scale[i]))
          << what << ", scale at " << i;
    for (size_t i = 0; i < expected.data.size(); ++i)
      ASSERT_EQ(int(expected.data[i]), int(actual.data[i]))
          << what << ", data at " << i;
  }

  BothUsages quantise(const Array &x, int64_t rows, int64_t cols,
                      int32_t fp8Type, int32_t scheme) {
    BothUsages both(rows, cols, scheme);
    device().run(TE_PLAN(quantize_mx, 1, rows, cols, rows, cols, x.type,
                         fp8Type, scheme),
                 {in(x.bytes), out(both.row.data), out(both.row.scale),
                  out(both.col.data), out(both.col.scale)});
    return both;
  }

  /// Compares both schemes and formats with the oracle.
  void check(const Array &x, int64_t rows, int64_t cols,
             const std::string &what) {
    for (int32_t scheme : kSchemes)
      for (int32_t fp8Type : kFp8Types) {
        const BothUsages both = quantise(x, rows, cols, fp8Type, scheme);
        const std::string label =
            what + " " + std::to_string(rows) + "x" + std::to_string(cols) +
            " scheme " + std::to_string(scheme) + " type " +
            std::to_string(x.type) + " to " + std::to_string(fp8Type);
        expectEqual(quantiseMx(x, rows, cols, 1, fp8Type, scheme), both.row,
                    label + " row");
        expectEqual(quantiseMx(x, rows, cols, 0, fp8Type, scheme), both.col,
                    label + " col");
        if (HasFatalFailure())
          return;
      }
  }
};

TEST_P(MxCast, ShapesAndKinds) {
  int turn = 0;
  for (int64_t rows : kSizes)
    for (int64_t cols : kSizes)
      for (const char *kind : kKinds) {
        check(makeArray(kind, kTypes[turn % 3], rows * cols, turn), rows, cols,
              kind);
        ++turn;
        if (HasFatalFailure())
          return;
      }
}

// Explicit numbers, without the oracle: max * 2^k has the scale 2^k, and the
// next larger f32 has 2^(k + 1).
TEST_P(MxCast, ExponentsChangeRightAboveEachPower) {
  for (int32_t fp8Type : kFp8Types) {
    const auto max = static_cast<float>(maxFiniteOf(fp8Type));
    const int top = fp8Type == TE_RT_F8E4M3FN ? 119 : 112;
    std::vector<double> values;
    std::vector<int> codes;
    for (int k = -126; k <= top; ++k) {
      const float at = std::ldexp(max, k);
      for (float v : {at, std::nextafter(at, kInf)}) {
        values.push_back(v);
        codes.push_back(k + 127 + (v > at));
      }
    }
    // Each row block has one value, at each position in turn.
    const int64_t rows = (values.size() + 31) / 32 * 32, cols = 32;
    std::vector<double> matrix(rows * cols, 0.0);
    for (size_t i = 0; i < values.size(); ++i)
      matrix[i * cols + i % cols] = i % 2 ? -values[i] : values[i];
    const Array x(TE_RT_F32, matrix);
    const BothUsages both = quantise(x, rows, cols, fp8Type, TE_RT_MX_1X32);
    for (size_t i = 0; i < values.size(); ++i)
      ASSERT_EQ(codes[i], int(both.row.scale[i * 4]))
          << values[i] << " to " << fp8Type;
    check(x, rows, cols, "powers");
  }
}

TEST_P(MxCast, NeighboursOfEveryPower) {
  // Blocks with a value near max * 2^k or 2^k, for all k of f32, its half and
  // its third.
  std::vector<double> values;
  for (int k = -149; k < 128; ++k)
    for (double base : {1.0, 448.0, 57344.0}) {
      const auto at = static_cast<float>(std::ldexp(base, k));
      if (std::isinf(at))
        continue;
      for (float v : {std::nextafter(at, 0.0f), at, std::nextafter(at, kInf)})
        values.push_back(v);
    }
  // The product with 1 / max is a subnormal f32 below 2^-126, and one of its
  // steps may be several steps of the amax.
  for (double base : {448.0, 57344.0})
    for (int k : {-128, -127, -126})
      for (int step = -9; step < 10; ++step) {
        const double ulp = std::ldexp(base, k - 24);
        values.push_back(static_cast<float>(std::ldexp(base, k) + step * ulp));
      }
  const int64_t rows = (values.size() + 31) / 32 * 32, cols = 96;
  std::vector<double> matrix(rows * cols, 0.0);
  for (size_t i = 0; i < values.size(); ++i) {
    matrix[i * cols + i % 32] = values[i];
    matrix[i * cols + 32 + i % 31] = values[i];
    matrix[i * cols + 32 + i % 31 + 1] = -values[i] / 2;
    matrix[i * cols + 64 + i % 30] = -values[i];
    matrix[i * cols + 64 + i % 30 + 2] = values[i] / 3;
  }
  check(Array(TE_RT_F32, matrix), rows, cols, "neighbours");
}

TEST_P(MxCast, Every16BitValue) {
  for (int32_t type : {TE_RT_BF16, TE_RT_F16}) {
    // Both directions in one matrix.
    Array square(type, 65536);
    for (uint32_t bits = 0; bits < 65536; ++bits) {
      square.bytes[2 * bits] = static_cast<uint8_t>(bits);
      square.bytes[2 * bits + 1] = static_cast<uint8_t>(bits >> 8);
    }
    check(square, 256, 256, "all values");
    // Each value is the amax of a separate block.
    const int64_t rows = 65536, cols = 32;
    Array alone(type, rows * cols);
    for (uint32_t bits = 0; bits < 65536; ++bits) {
      uint8_t *to = &alone.bytes[2 * (bits * cols + bits % cols)];
      to[0] = static_cast<uint8_t>(bits);
      to[1] = static_cast<uint8_t>(bits >> 8);
    }
    for (int32_t fp8Type : kFp8Types) {
      expectEqual(quantiseMx(alone, rows, cols, 1, fp8Type, TE_RT_MX_1X32),
                  quantise(alone, rows, cols, fp8Type, TE_RT_MX_1X32).row,
                  "alone " + std::to_string(type));
      if (HasFatalFailure())
        return;
    }
  }
}

// A block of each kind, with the result that the recipe defines.
TEST_P(MxCast, SpecialBlocks) {
  const double nan = std::nan("");
  struct {
    const char *name;
    double first, others;
    int code, firstByte, otherByte;
  } cases[] = {
      {"zeros", 0.0, 0.0, 0, 0x00, 0x00},
      {"negative zeros", -0.0, -0.0, 0, 0x80, 0x80},
      {"nothing but NaN", nan, nan, 0, 0x7f, 0x7f},
      // NaN is ignored: the amax is 448.
      {"one NaN", nan, 448.0, 127, 0x7f, 0x7e},
      {"infinity", kInf, 0.0, 254, 0x7e, 0x00},
      {"negative infinity", -kInf, std::ldexp(1.0, 127), 254, 0xfe, 0x38},
      {"infinity and NaN", kInf, nan, 254, 0x7e, 0x7f},
      // Exponents end at 2^-127. Subnormal f32 are not flushed.
      {"least subnormal", std::ldexp(1.0, -149), 0.0, 0, 0x00, 0x00},
      {"subnormal", std::ldexp(1.0, -127), 0.0, 0, 0x38, 0x00},
      {"largest", std::ldexp(2 - std::ldexp(1.0, -23), 127), 0.0, 247, 0x78,
       0x00},
  };
  for (const auto &c : cases) {
    std::vector<double> values(32 * 32, 0.0);
    for (int i = 0; i < 32; ++i)
      values[5 * 32 + i] = i == 7 ? c.first : c.others;
    const Array x(TE_RT_F32, values);
    const BothUsages both = quantise(x, 32, 32, TE_RT_F8E4M3FN, TE_RT_MX_1X32);
    EXPECT_EQ(int(both.row.scale[5 * 4]), c.code) << c.name;
    EXPECT_EQ(int(both.row.data[5 * 32 + 7]), c.firstByte) << c.name;
    EXPECT_EQ(int(both.row.data[5 * 32 + 8]), c.otherByte) << c.name;
    check(x, 32, 32, c.name);
  }
}

// One usage, or a part of one, has the bits that it has together with the
// others.
TEST_P(MxCast, PartsAloneAndUnaligned) {
  const int64_t rows = 160, cols = 96;
  for (int32_t type : kTypes)
    for (int32_t scheme : kSchemes)
      for (int32_t fp8Type : kFp8Types) {
        const Array x = makeArray("wide", type, rows * cols, scheme);
        const auto plan = TE_PLAN(quantize_mx, 1, rows, cols, rows, cols, type,
                                  fp8Type, scheme);
        const BothUsages both = quantise(x, rows, cols, fp8Type, scheme);
        BothUsages alone(rows, cols, scheme), odd(rows, cols, scheme);
        device().run(plan, {in(x.bytes), out(alone.row.data),
                            out(alone.row.scale), none(), none()});
        device().run(plan, {in(x.bytes), none(), none(), out(alone.col.data),
                            out(alone.col.scale)});
        expectEqual(both.row, alone.row, "row alone");
        expectEqual(both.col, alone.col, "col alone");
        std::vector<uint8_t> data(rows * cols), scale(both.row.scale.size());
        device().run(plan, {in(x.bytes), out(data), none(), none(), none()});
        device().run(plan, {in(x.bytes), none(), out(scale), none(), none()});
        ASSERT_EQ(both.row.data, data);
        ASSERT_EQ(both.row.scale, scale);
        device().run(plan, {unaligned(in(x.bytes), int(elementBytes(type))),
                            unaligned(out(odd.row.data)),
                            unaligned(out(odd.row.scale)),
                            unaligned(out(odd.col.data)),
                            unaligned(out(odd.col.scale))});
        expectEqual(both.row, odd.row, "row unaligned");
        expectEqual(both.col, odd.col, "col unaligned");
      }
}

// The purpose of square blocks: both usages have the same numbers.
TEST_P(MxCast, SquareUsagesHaveTheSameBytes) {
  const Array x = makeArray("wide", TE_RT_BF16, 96 * 288);
  const BothUsages both = quantise(x, 96, 288, TE_RT_F8E4M3FN, TE_RT_MX_32X32);
  EXPECT_EQ(both.row.data, both.col.data);
}

TEST_P(MxCast, EmptyMatrix) {
  std::vector<uint8_t> nothing;
  for (int64_t rows : {0, 64})
    for (int32_t scheme : kSchemes)
      device().run(TE_PLAN(quantize_mx, 1, rows, 64 - rows, rows, 64 - rows,
                           TE_RT_BF16, TE_RT_F8E4M3FN, scheme),
                   {in(nothing), out(nothing), out(nothing), out(nothing),
                    out(nothing)});
}

TE_FOR_EACH_BACKEND(MxCast);

} // namespace
