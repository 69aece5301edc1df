//===- ScalarMath.cpp - scalar functions for generated code ---------------===//
//
// This file is compiled to LLVM bitcode, which lib/JIT links into generated
// code for the CPU and for GPUs. Both therefore compute the same bits, and so
// do the kernels of the runtime, whose formulas are used or repeated here.
//
//===----------------------------------------------------------------------===//

#include "Core/Formulas.h"
#include "Core/Types.h"

using namespace te::rt;

extern "C" {

/// 1 / y: an approximation on a GPU, and the correctly rounded quotient on a
/// CPU. lib/JIT defines it.
float te_scalar_approximate_reciprocal(float y);

// te_scalar_exp and te_scalar_tanh have the bits of math::exp and math::tanh.
// They have no branches, so that a GPU can interleave several elements.

namespace {

/// 2^fraction times 2 to the integer in the low bits of `shifted`. The product
/// has to be a normal number. The left shift drops the bits above the integer.
inline float normalPower(const math::BinaryPower &power) {
  return math::bitsToFloat(
      math::floatToBits(math::exp2Fraction(power.fraction)) +
      (math::floatToBits(power.shifted) << 23));
}

/// Such a product that can be any float. A large one is computed as 2^-33 of
/// itself and a small one as 2^33 times itself, which are normal numbers; the
/// last step is the only one that rounds. NaN stays NaN.
struct AnyPower {
  /// The low bits of a sum with `shift` are the exponent of a factor.
  float shift, unit;

  explicit AnyPower(bool isSmall)
      : shift(math::kRoundingShift + (isSmall ? 127 + 33 : 127 - 33)),
        unit(isSmall ? 0x1p-33f : 0x1p33f) {}
  float of(const math::BinaryPower &power) const {
    return math::exp2Fraction(power.fraction) *
           math::bitsToFloat(math::floatToBits(power.shifted) << 23) * unit;
  }
};

} // namespace

/// The result is 0 below the first bound and infinite above the second.
float te_scalar_exp(float x) {
  x = __builtin_elementwise_minimum(__builtin_elementwise_maximum(x, -104.0f),
                                    88.8f);
  const AnyPower power(x < 0.0f);
  return power.of(math::binaryPower(x, power.shift));
}

/// te_scalar_exp(x) for x <= 0 or NaN.
float te_scalar_exp_nonpositive(float x) {
  x = __builtin_elementwise_maximum(x, -104.0f);
  const AnyPower power(true);
  return power.of(math::binaryPower(x, power.shift));
}

/// The result rounds to 1 if |x| > 9.1, so |x| is clamped to 10 before exp. The
/// reciprocal on a GPU is that of the runtime's kernels (fast_math.cuh).
float te_scalar_tanh(float x) {
  const float z = x * x;
  float p = -5.70498872745e-3f;
  p = fmaf(p, z, 2.06390887954e-2f);
  p = fmaf(p, z, -5.37397155531e-2f);
  p = fmaf(p, z, 1.33314422036e-1f);
  p = fmaf(p, z, -3.33332819422e-1f);
  const float small = fmaf(p * z, x, x);
  const float size = std::fabs(x),
              a = __builtin_elementwise_minimum(size, 10.0f);
  const float y =
      normalPower(math::binaryPower(a + a, math::kRoundingShift)) + 1.0f;
  const float near = te_scalar_approximate_reciprocal(y);
  const float reciprocal = fmaf(near, fmaf(-y, near, 1.0f), near);
  const float large = std::copysign(fmaf(-2.0f, reciprocal, 1.0f), x);
  // `small` is NaN if x is.
  return size >= 0.625f ? large : small;
}

namespace {

/// log(x) is exponent ln(2) + f - f²/2 + rest.
struct Logarithm {
  float exponent, f, rest;
};
/// x is normal. It is 2^n m with m in [sqrt(1/2), sqrt(2)), and log(m) a
/// polynomial of f = m - 1.
inline Logarithm logarithmOf(float x) {
  const uint32_t bits = math::floatToBits(x);
  const int exponent = static_cast<int>(bits - 0x3f3504f3u) >> 23;
  const float f =
      math::bitsToFloat(bits - (static_cast<uint32_t>(exponent) << 23)) - 1.0f;
  float p = 7.0376836292e-2f;
  p = fmaf(p, f, -1.1514610310e-1f);
  p = fmaf(p, f, 1.1676998740e-1f);
  p = fmaf(p, f, -1.2420140846e-1f);
  p = fmaf(p, f, 1.4249322787e-1f);
  p = fmaf(p, f, -1.6668057665e-1f);
  p = fmaf(p, f, 2.0000714765e-1f);
  p = fmaf(p, f, -2.4999993993e-1f);
  p = fmaf(p, f, 3.3333331174e-1f);
  return {static_cast<float>(exponent), f, p * f * (f * f)};
}

} // namespace

/// ln(2) is the sum of two numbers, of which the first times n is exact.
float te_scalar_log(float x) {
  const bool isSmall = x < 0x1p-126f;
  const Logarithm log = logarithmOf(isSmall ? x * 0x1p23f : x);
  const float n = isSmall ? log.exponent - 23.0f : log.exponent;
  const float p = fmaf(n, -2.12194440e-4f, log.rest);
  const float y = fmaf(n, 0.693359375f, log.f + fmaf(-0.5f, log.f * log.f, p));
  const float above = x < math::kInfinity ? y : x;
  return x > 0.0f ? above : x == 0.0f ? -math::kInfinity : __builtin_nanf("");
}

/// As te_scalar_exp. It is exact if x is an integer.
float te_scalar_exp2(float x) {
  x = __builtin_elementwise_minimum(__builtin_elementwise_maximum(x, -151.0f),
                                    129.0f);
  const AnyPower power(x < 0.0f);
  const float shifted = x + power.shift;
  return power.of({x - (shifted - power.shift), shifted});
}

/// As te_scalar_log, times log2(e) = 1 + 0.4426950. It is exact if x is a power
/// of two.
float te_scalar_log2(float x) {
  const bool isSmall = x < 0x1p-126f;
  const Logarithm log = logarithmOf(isSmall ? x * 0x1p23f : x);
  const float n = isSmall ? log.exponent - 23.0f : log.exponent;
  const float low = fmaf(-0.5f, log.f * log.f, log.rest);
  float y = fmaf(low, 0.44269504f, log.f * 0.44269504f);
  y = n + (log.f + (low + y));
  const float above = x < math::kInfinity ? y : x;
  return x > 0.0f ? above : x == 0.0f ? -math::kInfinity : __builtin_nanf("");
}

/// Adds to log(1 + x) the part of x that 1 + x rounds off.
float te_scalar_log1p(float x) {
  const float y = 1.0f + x, lost = x - (y - 1.0f);
  const float log = te_scalar_log(y);
  return y > 0.0f && y < math::kInfinity ? log + lost / y : log;
}

namespace {

/// Bits 32 (n - 1) + 1 to 32 n of the fraction 2 / pi.
inline uint32_t twoOverPi(uint32_t n) {
  return n == 1   ? 0xa2f9836eu
         : n == 2 ? 0x4e441529u
         : n == 3 ? 0xfc2757d1u
         : n == 4 ? 0xf534ddc0u
         : n == 5 ? 0xdb629599u
         : n == 6 ? 0x3c439041u
         : n == 7 ? 0xfe5163abu
                  : 0u;
}

/// The sine and the cosine of (quadrant pi / 2 + x), where |x| <= pi / 4.
struct Angle {
  uint32_t quadrant;
  float x;
};

/// `x` is positive. It is m 2^e with an integer m below 2^24, and bits of 2 /
/// pi whose product with 2^e is a multiple of 4 change no quadrant. So m is
/// multiplied with the next 96 bits: two before the binary point, and so many
/// behind it that enough are left next to a multiple of pi / 2 (2^-29 is the
/// smallest distance).
inline Angle angleOf(float x) {
  const uint32_t bits = math::floatToBits(x);
  const uint64_t m = (bits & 0x7fffffu) | 0x800000u;
  const uint32_t first = (bits >> 23) - 120, word = first >> 5,
                 shift = first & 31;
  const auto take = [&](uint32_t n) {
    const uint64_t both = static_cast<uint64_t>(twoOverPi(word + n)) << 32 |
                          twoOverPi(word + n + 1);
    return both << shift >> 32;
  };
  const uint64_t product =
      ((m * take(0)) << 32) + m * take(1) + ((m * take(2)) >> 32);
  const auto fraction = static_cast<int64_t>(product << 2);
  const Angle far = {
      static_cast<uint32_t>((product + (uint64_t{1} << 61)) >> 62),
      // pi / 2^65
      static_cast<float>(static_cast<double>(fraction) *
                         0x1.921fb54442d18p-64)};
  // pi / 4
  return x <= 0x1.921fb6p-1f ? Angle{0, x} : far;
}

inline float sineOf(const Angle &angle) {
  const float x = angle.x, z = x * x;
  float s = -1.9515295891e-4f;
  s = fmaf(s, z, 8.3321608736e-3f);
  s = fmaf(s, z, -1.6666654611e-1f);
  s = fmaf(s * z, x, x);
  float c = 2.443315711809948e-5f;
  c = fmaf(c, z, -1.388731625493765e-3f);
  c = fmaf(c, z, 4.166664568298827e-2f);
  c = fmaf(c, z * z, fmaf(-0.5f, z, 1.0f));
  const float size = angle.quadrant & 1 ? c : s;
  return angle.quadrant & 2 ? -size : size;
}

} // namespace

float te_scalar_sin(float x) {
  const float size = std::fabs(x), y = sineOf(angleOf(size));
  const bool isNegative = math::floatToBits(x) >> 31 != 0;
  return size < math::kInfinity ? isNegative ? -y : y : __builtin_nanf("");
}

float te_scalar_cos(float x) {
  const float size = std::fabs(x);
  Angle angle = angleOf(size);
  angle.quadrant += 1;
  return size < math::kInfinity ? sineOf(angle) : __builtin_nanf("");
}

/// Near 0, x plus x times a polynomial of x². Else 1 - e^q, where q is a
/// polynomial close to log(erfc(|x|)); the result rounds to 1 if |x| > 3.9.
float te_scalar_erf(float x) {
  const float size = std::fabs(x), z = x * x;
  float p = -5.976893803e-4f;
  p = fmaf(p, z, 4.990980254e-3f);
  p = fmaf(p, z, -2.676556700e-2f);
  p = fmaf(p, z, 1.128180277e-1f);
  p = fmaf(p, z, -3.761249432e-1f);
  p = fmaf(p, z, 1.283791500e-1f);
  const float small = fmaf(p, x, x);
  const float t = __builtin_elementwise_minimum(size, 4.0f);
  float q = 1.959382605e-4f;
  q = fmaf(q, t, -3.043226759e-3f);
  q = fmaf(q, t, 2.222695520e-2f);
  q = fmaf(q, t, -1.039316645e-1f);
  q = fmaf(q, t, -6.371821753e-1f);
  q = fmaf(q, t, -1.276756660e-1f);
  q = fmaf(q, t, -1.956665271e-4f) - t;
  const float large = std::copysign(
      1.0f - normalPower(math::binaryPower(q, math::kRoundingShift)), x);
  // `small` is NaN if x is.
  return size >= 0.93f ? large : small;
}

/// e^(-x²) times t P(t) with t = 1 / (1 + 0.4 x) from 1/2 on, and what that
/// leaves of 2 up to -1/2.
float te_scalar_erfc(float x) {
  const float size = std::fabs(x),
              a = __builtin_elementwise_minimum(size, 11.0f);
  const float t = 1.0f / fmaf(0.4f, a, 1.0f);
  float p = 5.954538996e-2f;
  p = fmaf(p, t, -2.179951112e-1f);
  p = fmaf(p, t, 2.240374576e-1f);
  p = fmaf(p, t, -5.171621497e-2f);
  p = fmaf(p, t, 1.638317515e-1f);
  p = fmaf(p, t, 1.621920269e-1f);
  p = fmaf(p, t, 2.088459440e-1f);
  p = fmaf(p, t, 2.255916006e-1f);
  p = fmaf(p, t, 2.256779866e-1f);
  const float z = a * a, lost = fmaf(a, a, -z);
  const float ratio = p * t;
  const float tail = te_scalar_exp(-z) * fmaf(ratio, -lost, ratio);
  const float near = 1.0f - te_scalar_erf(x);
  const float far = x < 0.0f ? 2.0f - tail : tail;
  // `near` is NaN if x is.
  return size >= 0.5f ? far : near;
}

float te_scalar_roundeven(float x) {
  return std::copysign(__builtin_rintf(x), x);
}
float te_scalar_floor(float x) {
  const float y = __builtin_rintf(x);
  return std::copysign(y > x ? y - 1.0f : y, x);
}
float te_scalar_ceil(float x) { return -te_scalar_floor(-x); }
float te_scalar_trunc(float x) {
  return std::copysign(te_scalar_floor(std::fabs(x)), x);
}

/// The remainder of C's fmod, without an error: each step subtracts a multiple
/// of y 2^k that has few enough bits for f64.
float te_scalar_rem(float x, float y) {
  double rest = std::fabs(x);
  const double by = std::fabs(y);
  if (!(by > 0.0) || !(rest < static_cast<double>(math::kInfinity)))
    return __builtin_nanf("");
  while (rest >= by) {
    const auto bits = std::bit_cast<uint64_t>(rest / by);
    const int exponent = static_cast<int>(bits >> 52) - 1023;
    // 2^(exponent - 27), where the quotient is not below 2^28.
    const double scale =
        exponent < 28 ? 1.0
                      : std::bit_cast<double>(
                            static_cast<uint64_t>(exponent - 27 + 1023) << 52);
    const double part = by * scale;
    rest -= static_cast<double>(static_cast<int64_t>(rest / part)) * part;
  }
  return std::copysign(static_cast<float>(rest), x);
}

namespace {

/// log2 of a positive float, within 2^-35 of itself: n + log2(m), where the
/// latter is a series of s = (m - 1) / (m + 1).
inline double log2Of(float x) {
  const uint64_t bits = std::bit_cast<uint64_t>(static_cast<double>(x));
  const int64_t exponent =
      static_cast<int64_t>(bits - 0x3fe6a09e667f3bcdull) >> 52;
  const double m =
      std::bit_cast<double>(bits - (static_cast<uint64_t>(exponent) << 52));
  const double s = (m - 1.0) / (m + 1.0), z = s * s;
  double p = 1.0 / 15;
  p = p * z + 1.0 / 13;
  p = p * z + 1.0 / 11;
  p = p * z + 1.0 / 9;
  p = p * z + 1.0 / 7;
  p = p * z + 1.0 / 5;
  p = p * z + 1.0 / 3;
  p = p * z + 1.0;
  return static_cast<double>(exponent) + p * s * 0x1.71547652b82fep+1;
}

/// 2^x within 2^-33 of itself, for |x| <= 1000.
inline double exp2Of(double x) {
  // 1.5 * 2^52
  const double shift = 6755399441055744.0, shifted = x + shift;
  const double r = (x - (shifted - shift)) * 0x1.62e42fefa39efp-1;
  double p = 1.0 / 362880;
  p = p * r + 1.0 / 40320;
  p = p * r + 1.0 / 5040;
  p = p * r + 1.0 / 720;
  p = p * r + 1.0 / 120;
  p = p * r + 1.0 / 24;
  p = p * r + 1.0 / 6;
  p = p * r + 0.5;
  p = p * r + 1.0;
  p = p * r + 1.0;
  return std::bit_cast<double>(std::bit_cast<uint64_t>(p) +
                               (std::bit_cast<uint64_t>(shifted) << 52));
}

} // namespace

/// 2^(y log2 |x|) in f64, with the special values of C's pow.
float te_scalar_pow(float x, float y) {
  const float size = std::fabs(x), half = 0.5f * y;
  const bool isFinite = size > 0.0f && size < math::kInfinity;
  const double log = isFinite      ? log2Of(size)
                     : size > 0.0f ? static_cast<double>(math::kInfinity)
                                   : -static_cast<double>(math::kInfinity);
  double power = static_cast<double>(y) * log;
  power = power > 200.0 ? 200.0 : power < -200.0 ? -200.0 : power;
  const bool isOne = size == 1.0f || y == 0.0f;
  const float made = isOne ? 1.0f : static_cast<float>(exp2Of(power));
  const bool isInteger = __builtin_rintf(y) == y;
  const bool isOdd = isInteger && __builtin_rintf(half) != half;
  const float result = isOdd ? std::copysign(made, x) : made;
  const bool hasNone = x < 0.0f && size < math::kInfinity && !isInteger;
  // NaN to the power 0 is 1, and so is 1 to the power NaN.
  const bool isNan = hasNone || (x != x && y != 0.0f) || (y != y && x != 1.0f);
  return isNan ? __builtin_nanf("") : result;
}

/// NaN if either operand is, and `a` if they are equal.
float te_scalar_max(float a, float b) { return b != b || a < b ? b : a; }
float te_scalar_min(float a, float b) { return b != b || a > b ? b : a; }
float te_scalar_from_bf16(uint16_t bits) { return bf16ToFloat(bits); }
uint16_t te_scalar_to_bf16(float value) { return floatToBf16(value); }
float te_scalar_from_f16(uint16_t bits) { return f16ToFloat(bits); }
uint16_t te_scalar_to_f16(float value) { return floatToF16(value); }

/// The words of elements 4 `group` to 4 `group` + 3 for their dropout.
using FourWords = uint32_t __attribute__((ext_vector_type(4)));
FourWords te_scalar_dropout_words(int64_t group, uint32_t seed, uint32_t offset,
                                  uint32_t stream) {
  const math::PhiloxWords words =
      math::dropoutWords(group, math::kElementDropout, seed, offset, stream);
  return {words.word[0], words.word[1], words.word[2], words.word[3]};
}
/// The arithmetic on `probability`, a constant, is done when this is inlined.
float te_scalar_dropout(FourWords words, int64_t index, float probability) {
  return math::dropoutFactor(
      probability,
      math::dropoutWord({{words.x, words.y, words.z, words.w}}, index));
}

// The lane sum of Kernels.td, for the CPU.
void te_scalar_set_lanes(float *lanes, float value) {
  for (int i = 0; i < kLanes; ++i)
    lanes[i] = value;
}
float te_scalar_sum_of_lanes(float *lanes) {
  for (int stride = kLanes / 2; stride != 0; stride /= 2)
    for (int i = 0; i < stride; ++i)
      lanes[i] += lanes[i + stride];
  return lanes[0];
}
/// NaN if a lane is, and +0 is larger than -0.
float te_scalar_max_of_lanes(float *lanes) {
  float max = lanes[0];
  for (int i = 1; i < kLanes; ++i)
    max = __builtin_elementwise_maximum(max, lanes[i]);
  return max;
}

// fma and rint for processors without the instruction, where LLVM would call
// libm; see makePortable in GeneratedCode.cpp.

/// The product is exact in f64, and the sum is rounded to odd. f64 has enough
/// more bits than f32 that rounding this sum to f32 is correct (Boldo,
/// Melquiond: "Emulation of a FMA and correctly rounded sums", 2008).
float te_scalar_fma(float a, float b, float c) {
  const double product = static_cast<double>(a) * b, summand = c;
  const double sum = product + summand;
  const double back = sum - product;
  const double lost = (product - (sum - back)) + (summand - back);
  uint64_t bits = std::bit_cast<uint64_t>(sum);
  const bool isFinite = (bits >> 52 & 0x7ff) != 0x7ff;
  if (isFinite && lost != 0 && (bits & 1) == 0)
    bits += (lost > 0) == (sum > 0) ? 1 : -1;
  return static_cast<float>(std::bit_cast<double>(bits));
}
/// Floats of 2^23 and more are integers.
float te_scalar_rint(float x) {
  const float magic = std::fabs(x) < 0x1p23f ? 0x1p23f : 0.0f;
  return std::copysign((std::fabs(x) + magic) - magic, x);
}

} // extern "C"
