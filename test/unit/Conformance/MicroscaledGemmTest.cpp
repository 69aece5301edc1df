//===- MicroscaledGemmTest.cpp - products of mx and nv operands -----------===//
//
// Operands are made from codes and scales directly, stored and padded as the
// head of Kernels.td says, so no quantiser takes part. What a
// product must be is computed in f64, where products and sums of these codes
// are exact or nearly so (sums of up to 2^10 terms of 16 bits, times powers of
// two).
//
// The bound. On the reference backend a product of two codes is exact. P, a sum
// of `block` of them, takes at most `block` roundings, and none for nv: the
// codes are multiples of 1/2 up to 6, so P is a multiple of 1/4 up to 576. Both
// scales multiply P exactly (powers of two, or 12 + 4 + 4 bits). Each slice is
// added by one rounding. So a term passes through at most
//
//   n = (mx ? 32 : 0) + k / block  roundings, + 1 each for alpha, bias and c,
//
// each of u = 2^-24, and the error is at most gamma(n) = n u / (1 - n u) times
// the sum of magnitudes. alpha itself is computed here with the same three
// roundings, which belong to its definition. Other backends add in another
// order and with less: n = k + 3 and u = 2^-22, plus 2^-13 for each of the 4
// chained steps of 8-bit products (GemmTest.cpp). The stored value is rounded
// again.
//
//===----------------------------------------------------------------------===//

#include "Conformance/Harness.h"
#include "Conformance/Oracle.h"

#include <cmath>
#include <random>

using namespace te::conformance;

namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

bool isMx(int32_t scheme) {
  return scheme == TE_RT_MX_1X32 || scheme == TE_RT_MX_32X32;
}
int64_t blockOf(int32_t scheme) { return isMx(scheme) ? 32 : 16; }
int64_t up(int64_t n, int64_t to) { return (n + to - 1) / to * to; }

double decodeE2M1(int code) {
  static const double magnitudes[] = {0, 0.5, 1, 1.5, 2, 3, 4, 6};
  return code & 8 ? -magnitudes[code & 7] : magnitudes[code & 7];
}
double decodeE8M0(int code) {
  return code == 255 ? kNan : std::ldexp(1.0, code - 127);
}

/// An operand [outer, k] with codes, and one scale code for each block of a
/// row.
struct Operand {
  int32_t scheme, type;
  int64_t outer, k;
  std::vector<uint8_t> codes;  // [outer, k]
  std::vector<uint8_t> scales; // [outer, k / block]
  std::vector<float> amax;     // [1] or [outer]
  int32_t scaleMax = 0;

  double scale(int64_t o, int64_t i) const {
    const int64_t block = blockOf(scheme);
    const uint8_t code = scales[o * (k / block) + i / block];
    return isMx(scheme) ? decodeE8M0(code) : decode(TE_RT_F8E4M3FN, code);
  }
  double code(int64_t o, int64_t i) const {
    const uint8_t bits = codes[o * k + i];
    return isMx(scheme) ? decode(type, bits) : decodeE2M1(bits);
  }
  /// [outer, k] without the factor of the amaxes.
  std::vector<double> values() const {
    std::vector<double> result(codes.size());
    for (int64_t o = 0; o < outer; ++o)
      for (int64_t i = 0; i < k; ++i)
        result[o * k + i] = code(o, i) * scale(o, i);
    return result;
  }

  /// The codes as stored for `axis`.
  std::vector<uint8_t> data(int axis) const {
    std::vector<uint8_t> bytes(isMx(scheme) ? codes.size() : codes.size() / 2);
    for (int64_t o = 0; o < outer; ++o)
      for (int64_t i = 0; i < k; ++i) {
        const uint8_t bits = codes[o * k + i];
        if (!isMx(scheme))
          bytes[(o * k + i) / 2] |= i % 2 == 0 ? bits : bits << 4;
        else
          bytes[axis == 1 ? o * k + i : i * outer + o] = bits;
      }
    return bytes;
  }
  /// The scales with padding, as stored for `axis`, or swizzled.
  std::vector<uint8_t> storedScales(int axis, bool swizzled) const {
    const int64_t lines = up(outer, 128), blocks = k / blockOf(scheme);
    const int64_t columns = up(blocks, 4);
    const bool transposed = isMx(scheme) && axis == 0;
    std::vector<uint8_t> bytes(lines * columns);
    for (int64_t o = 0; o < outer; ++o)
      for (int64_t j = 0; j < blocks; ++j) {
        // Tiles of 128 x 4. In each, 32 rows follow 4 groups of 4 columns.
        const int64_t tile = o / 128 * (columns / 4) + j / 4;
        const int64_t inTile = o % 32 * 16 + o % 128 / 32 * 4 + j % 4;
        const int64_t at = swizzled     ? tile * 512 + inTile
                           : transposed ? j * lines + o
                                        : o * columns + j;
        bytes[at] = scales[o * blocks + j];
      }
    return bytes;
  }
};

/// The parameters of a case besides the operands.
struct Options {
  int32_t outType = TE_RT_F32;
  int aAxis = 1, bAxis = 1;
  bool swizzled = true, bias = false, accumulate = false;
};

class MicroscaledGemm : public BackendTest {
protected:
  void SetUp() override {
    if (isReference())
      return;
    const te_rt_status status = device().tryRun(
        TE_PLAN(scaled_matmul, 0, 0, 0, TE_RT_F8E4M3FN, TE_RT_MX_1X32,
                TE_RT_F8E4M3FN, TE_RT_MX_1X32, TE_RT_F32, 0, 1, 1, 1, 0, 0, 0),
        std::vector<Buffer>(9));
    if (status == TE_RT_UNSUPPORTED)
      GTEST_SKIP() << device().message;
  }
  bool isReference() const { return GetParam() == "reference"; }

  /// Codes around one with both signs. The scales of a square block are
  /// repeated.
  static Operand makeOperand(int64_t outer, int64_t k, int32_t type,
                             int32_t scheme, uint32_t seed,
                             bool rowScaled = false) {
    std::mt19937 random(seed);
    Operand x{scheme, type, outer, k, {}, {}, {}};
    const Array normal = makeArray("normal", TE_RT_BF16, outer * k, seed);
    for (int64_t i = 0; i < outer * k; ++i)
      x.codes.push_back(isMx(scheme) ? encodeFp8(type, 32.0 * normal.at(i))
                                     : static_cast<uint8_t>(random() & 15));
    const int64_t block = blockOf(scheme), blocks = k / block;
    const bool isSquare = scheme == TE_RT_MX_32X32 || scheme == TE_RT_NV_16X16;
    for (int64_t o = 0; o < outer; ++o)
      for (int64_t j = 0; j < blocks; ++j)
        x.scales.push_back(isSquare && o % block != 0
                               ? x.scales[(o - 1) * blocks + j]
                               : static_cast<uint8_t>(isMx(scheme)
                                                          ? 122 + random() % 8
                                                          : random() % 0x7f));
    if (!isMx(scheme)) {
      x.scaleMax = seed % 2 ? 448 : 256;
      for (int64_t o = 0; o < (rowScaled ? outer : 1); ++o)
        x.amax.push_back(static_cast<float>(random() % 1000 + 1) * 0.037f);
    }
    return x;
  }

  /// The factor of row i, with the roundings of its definition.
  static float alphaOf(const Operand &a, const Operand &b, int64_t i) {
    if (isMx(a.scheme))
      return 1.0f;
    const double amaxes =
        roundTo(TE_RT_F32, static_cast<double>(a.amax[i % a.amax.size()]) *
                               static_cast<double>(b.amax[0]));
    const double unit =
        roundTo(TE_RT_F32, 1.0 / (36.0 * a.scaleMax * b.scaleMax));
    return static_cast<float>(roundTo(TE_RT_F32, amaxes * unit));
  }

  Array run(const Operand &a, const Operand &b, const Options &o,
            const Array &bias, const Array &c) {
    const int64_t m = a.outer, n = b.outer, k = a.k;
    Array result(o.outType, m * n);
    const auto aData = a.data(o.aAxis), bData = b.data(o.bAxis);
    const auto aScale = a.storedScales(o.aAxis, o.swizzled);
    const auto bScale = b.storedScales(o.bAxis, o.swizzled);
    const bool rowScaled = a.amax.size() > 1;
    auto amax = [](const Operand &x) {
      return x.amax.empty() ? none() : in(x.amax);
    };
    device().run(TE_PLAN(scaled_matmul, m, n, k, a.type, a.scheme, b.type,
                         b.scheme, o.outType, 0, o.aAxis, o.bAxis, o.swizzled,
                         rowScaled, a.scaleMax, b.scaleMax),
                 {in(aData), in(aScale), amax(a), in(bData), in(bScale),
                  amax(b), o.bias ? in(bias.bytes) : none(),
                  o.accumulate ? in(c.bytes) : none(), out(result.bytes)});
    return result;
  }

  /// Runs and compares within the bound at the head of this file. Returns the
  /// largest error as a fraction of the bound.
  double check(const Operand &a, const Operand &b, const Options &o) {
    const int64_t m = a.outer, n = b.outer, k = a.k;
    const Array bias = makeArray("normal", TE_RT_BF16, n, 3);
    const Array c = makeArray("normal", o.outType, m * n, 4);
    const Array actual = run(a, b, o, bias, c);
    const bool mx = isMx(a.scheme);
    const double u = isReference() ? 0x1p-24 : 0x1p-22;
    const double steps =
        isReference() ? (mx ? 32 : 0) + k / blockOf(a.scheme) + 3.0 : k + 3.0;
    const double relative =
        steps * u / (1 - steps * u) + (isReference() ? 0 : 4 * 0x1p-13);
    const std::vector<double> aValues = a.values(), bValues = b.values();
    double worst = 0;
    for (int64_t i = 0; i < m; ++i)
      for (int64_t j = 0; j < n; ++j) {
        double sum = 0, magnitude = 0;
        for (int64_t l = 0; l < k; ++l) {
          const double product = aValues[i * k + l] * bValues[j * k + l];
          sum += product;
          magnitude += std::fabs(product);
        }
        const double alpha = alphaOf(a, b, i);
        sum *= alpha;
        magnitude *= alpha;
        if (o.bias) {
          sum += bias.at(j);
          magnitude += std::fabs(bias.at(j));
        }
        if (o.accumulate) {
          sum += c.at(i * n + j);
          magnitude += std::fabs(c.at(i * n + j));
        }
        double bound = relative * magnitude;
        // The rounding of the result, or half of f16's smallest subnormal.
        bound += unitRoundoff(o.outType) * (std::fabs(sum) + bound) + 0x1p-25;
        const double error = std::fabs(actual.at(i * n + j) - sum);
        worst = std::max(worst, error / bound);
        if (!(error <= bound)) {
          ADD_FAILURE() << "at (" << i << ", " << j << "): expected " << sum
                        << " within " << bound << ", but got "
                        << actual.at(i * n + j);
          return worst;
        }
      }
    return worst;
  }

  std::vector<bool> swizzles() const {
    return isReference() ? std::vector{false, true} : std::vector{true};
  }
};

struct Shape {
  int64_t m, n, k;
};

TEST_P(MicroscaledGemm, Mx) {
  double worst = 0;
  for (const Shape &s : {Shape{32, 32, 32}, {160, 96, 416}, {32, 64, 2048}})
    for (const auto &[aType, bType] :
         {std::pair{TE_RT_F8E4M3FN, TE_RT_F8E4M3FN},
          {TE_RT_F8E5M2, TE_RT_F8E4M3FN}})
      for (int32_t aScheme : {TE_RT_MX_1X32, TE_RT_MX_32X32})
        for (int axes = 0; axes < 4; ++axes)
          for (bool swizzled : swizzles())
            for (int32_t outType : {TE_RT_F32, TE_RT_BF16})
              worst = std::max(
                  worst,
                  check(makeOperand(s.m, s.k, aType, aScheme, 1),
                        makeOperand(s.n, s.k, bType, TE_RT_MX_1X32, 2),
                        {outType, axes & 1, axes >> 1, swizzled,
                         outType == TE_RT_BF16, aScheme == TE_RT_MX_32X32}));
  std::printf("mx: largest error is %.3f of the bound\n", worst);
}

TEST_P(MicroscaledGemm, Nv) {
  double worst = 0;
  for (const Shape &s : {Shape{16, 16, 32}, {144, 80, 416}, {48, 16, 2048}})
    for (int32_t bScheme : {TE_RT_NV_1X16, TE_RT_NV_16X16})
      for (bool rowScaled : {false, true})
        for (bool swizzled : swizzles())
          for (int32_t outType : {TE_RT_F32, TE_RT_BF16})
            for (int extras = 0; extras < 4; ++extras)
              worst = std::max(
                  worst,
                  check(makeOperand(s.m, s.k, TE_RT_F4E2M1FN, TE_RT_NV_1X16, 1,
                                    rowScaled),
                        makeOperand(s.n, s.k, TE_RT_F4E2M1FN, bScheme, 2),
                        {outType, 1, 1, swizzled, (extras & 1) != 0,
                         (extras & 2) != 0}));
  std::printf("nv: largest error is %.3f of the bound\n", worst);
}

// All sums are exact in f32, so a wrong index, scale or factor gives a wrong
// number. alpha adds one rounding.
TEST_P(MicroscaledGemm, ExactIntegers) {
  const int64_t m = 160, n = 160, k = 416;
  for (int32_t scheme :
       {TE_RT_MX_1X32, TE_RT_MX_32X32, TE_RT_NV_1X16, TE_RT_NV_16X16})
    for (bool rowScaled : {false, true})
      for (int axes = 0; axes < 4; ++axes)
        for (bool swizzled : swizzles()) {
          if (isMx(scheme)
                  ? rowScaled
                  : axes != 3 || (rowScaled && scheme != TE_RT_NV_1X16))
            continue;
          const int32_t type = isMx(scheme) ? TE_RT_F8E4M3FN : TE_RT_F4E2M1FN;
          Operand a = makeOperand(m, k, type, scheme, 1, rowScaled);
          Operand b = makeOperand(n, k, type, scheme, 2);
          for (Operand *x : {&a, &b}) {
            for (size_t i = 0; i < x->codes.size(); ++i) {
              const int value = static_cast<int>(i * 7 + i / 13) % 3 - 1;
              x->codes[i] = isMx(scheme) ? encodeFp8(type, value)
                            : value == 0 ? 0
                            : value > 0  ? 2
                                         : 10;
            }
            // 1, 2, 4 or 8, of which a square has one.
            for (uint8_t &scale : x->scales)
              scale = isMx(scheme) ? 127 + scale % 4
                                   : encodeFp8(TE_RT_F8E4M3FN, 1 << scale % 4);
          }
          const Options options{TE_RT_F32, axes & 1, axes >> 1, swizzled};
          const Array actual = run(a, b, options, {}, {});
          const std::vector<double> aValues = a.values(), bValues = b.values();
          for (int64_t i = 0; i < m; ++i)
            for (int64_t j = 0; j < n; ++j) {
              double sum = 0;
              for (int64_t l = 0; l < k; ++l)
                sum += aValues[i * k + l] * bValues[j * k + l];
              ASSERT_EQ(roundTo(TE_RT_F32, sum * alphaOf(a, b, i)),
                        actual.at(i * n + j))
                  << i << ", " << j << ", scheme " << scheme;
            }
        }
}

// The exponents are far outside of the range of elements, but their sum is
// ordinary.
TEST_P(MicroscaledGemm, ExponentsCancel) {
  Operand a = makeOperand(32, 64, TE_RT_F8E4M3FN, TE_RT_MX_1X32, 1);
  Operand b = makeOperand(32, 64, TE_RT_F8E4M3FN, TE_RT_MX_1X32, 2);
  for (size_t i = 0; i < a.codes.size(); ++i)
    a.codes[i] = b.codes[i] = encodeFp8(TE_RT_F8E4M3FN, 1.0);
  for (size_t i = 0; i < a.scales.size(); ++i) {
    a.scales[i] = i % 2 ? 1 : 254;
    b.scales[i] = i % 2 ? 253 : 0;
  }
  const Array actual = run(a, b, {}, {}, {});
  for (size_t i = 0; i < actual.size(); ++i)
    ASSERT_EQ(actual.at(i), 32.0 + 32.0);
}

// A NaN in a code or a scale affects only its row or column.
TEST_P(MicroscaledGemm, NanStaysInItsLine) {
  for (int32_t scheme : {TE_RT_MX_1X32, TE_RT_NV_1X16}) {
    const bool mx = isMx(scheme);
    const int32_t type = mx ? TE_RT_F8E4M3FN : TE_RT_F4E2M1FN;
    Operand a = makeOperand(32, 64, type, scheme, 1);
    Operand b = makeOperand(48 + 16 * mx, 64, type, scheme, 2);
    if (mx)
      a.codes[5 * 64 + 9] = 0x7f;
    else
      a.scales[5 * 4 + 1] = 0x7f;
    b.scales[7 * (mx ? 2 : 4) + 1] = mx ? 0xff : 0x7f;
    const Array actual = run(a, b, {}, {}, {});
    for (int64_t i = 0; i < a.outer; ++i)
      for (int64_t j = 0; j < b.outer; ++j)
        ASSERT_EQ(std::isnan(actual.at(i * b.outer + j)), i == 5 || j == 7)
            << i << ", " << j << ", scheme " << scheme;
  }
}

TEST_P(MicroscaledGemm, EmptySum) {
  Operand a = makeOperand(32, 0, TE_RT_F8E4M3FN, TE_RT_MX_1X32, 1);
  Operand b = makeOperand(64, 0, TE_RT_F8E4M3FN, TE_RT_MX_1X32, 2);
  const Array actual = run(a, b, {}, {}, {});
  for (size_t i = 0; i < actual.size(); ++i)
    ASSERT_EQ(actual.at(i), 0.0);
}

// The order of additions of the reference backend, from the description of
// scaled_matmul.
TEST_P(MicroscaledGemm, ReferenceOrder) {
  if (!isReference())
    GTEST_SKIP() << "only the reference backend fixes the order";
  for (int32_t scheme : {TE_RT_MX_1X32, TE_RT_NV_1X16}) {
    const bool mx = isMx(scheme);
    const int32_t type = mx ? TE_RT_F8E4M3FN : TE_RT_F4E2M1FN;
    const Operand a = makeOperand(32, 416, type, scheme, 1, !mx);
    const Operand b = makeOperand(64, 416, type, scheme, 2);
    const Array bias = makeArray("normal", TE_RT_BF16, b.outer, 3);
    const Array c = makeArray("normal", TE_RT_F32, a.outer * b.outer, 4);
    Options options;
    options.bias = options.accumulate = true;
    const Array actual = run(a, b, options, bias, c);
    const int64_t block = blockOf(scheme);
    for (int64_t i = 0; i < a.outer; ++i)
      for (int64_t j = 0; j < b.outer; ++j) {
        float acc = 0;
        for (int64_t l0 = 0; l0 < a.k; l0 += block) {
          float partial = 0;
          for (int64_t l = l0; l < l0 + block; ++l)
            partial += static_cast<float>(a.code(i, l) * b.code(j, l));
          acc += static_cast<float>(partial * a.scale(i, l0) * b.scale(j, l0));
        }
        float expected = mx ? acc : alphaOf(a, b, i) * acc;
        expected += static_cast<float>(bias.at(j));
        expected += static_cast<float>(c.at(i * b.outer + j));
        ASSERT_EQ(expected, actual.at(i * b.outer + j)) << i << ", " << j;
      }
  }
}

class BlockToMxScales : public BackendTest {};

TEST_P(BlockToMxScales, Exponents) {
  // Codes of 2^(code - 127), and values that are not powers of two.
  std::vector<std::pair<float, int>> known;
  for (int code = 0; code < 255; ++code)
    known.push_back({std::ldexp(1.0f, code - 127), code});
  for (float other :
       {0.0f, -0.0f, -1.0f, 1.5f, 3.0f, kNan, HUGE_VALF, -HUGE_VALF, 0x1p-128f,
        0x1p-149f, 0x1.8p-127f, 0x1.000002p5f})
    known.push_back({other, 255});

  struct Case {
    int64_t outer, inner;
  };
  for (const Case &s : {Case{1, 16}, {130, 400}, {264, 2064}, {0, 64}, {64, 0}})
    for (int32_t scheme : {TE_RT_BLOCK_1X128, TE_RT_BLOCK_128X128}) {
      std::vector<float> scales(scaleCount(scheme, s.outer, s.inner), 0.0f);
      std::vector<int> codes(scales.size());
      for (int64_t o = 0; o < s.outer; ++o)
        for (int64_t i = 0; i < s.inner; i += 128) {
          const int64_t at = scaleIndex(scheme, s.outer, s.inner, o, i);
          const auto &[scale, code] = known[(at * 37 + 5) % known.size()];
          scales[at] = scale;
          codes[at] = code;
        }
      const int64_t columns = up((s.inner + 31) / 32, 4);
      std::vector<uint8_t> expected(up(s.outer, 128) * columns);
      for (int64_t o = 0; o < s.outer; ++o)
        for (int64_t i = 0; i < s.inner; i += 32) {
          const int64_t tile = o / 128 * (columns / 4) + i / 128;
          expected[tile * 512 + o % 32 * 16 + o % 128 / 32 * 4 + i / 32 % 4] =
              static_cast<uint8_t>(
                  codes[scaleIndex(scheme, s.outer, s.inner, o, i)]);
        }
      std::vector<uint8_t> actual(expected.size());
      device().run(TE_PLAN(block_to_mx_scales, s.outer, s.inner, scheme),
                   {in(scales), out(actual)});
      EXPECT_EQ(expected, actual)
          << s.outer << "x" << s.inner << ", scheme " << scheme;
    }
}

TE_FOR_EACH_BACKEND(MicroscaledGemm);
TE_FOR_EACH_BACKEND(BlockToMxScales);

} // namespace
