//===- ScalarMathTest.cpp - functions of generated code -------------------===//
//
// Generated code must have the bits of the runtime's kernels, which call
// Core/Math.h. Here ScalarMath.cpp is compiled for the CPU, like the bitcode
// that generated code is linked with.
//
//===----------------------------------------------------------------------===//

#include "../../../lib/JIT/ScalarMath.cpp"

#include "gtest/gtest.h"

#include <cmath>
#include <vector>

float te_scalar_approximate_reciprocal(float y) { return 1.0f / y; }

namespace {

/// Calls `check` with floats of every exponent and sign, and with special ones.
template <typename Check> void forFloats(Check check) {
  for (uint32_t special : {0u, 0x80000000u, 1u, 0x807fffffu, 0x7f800000u,
                           0xff800000u, 0x7fc00000u, 0xff812345u, 0x7f7fffffu})
    check(std::bit_cast<float>(special));
  // An odd stride, so that all low bits occur.
  for (uint64_t bits = 0; bits <= UINT32_MAX; bits += 4099)
    check(std::bit_cast<float>(static_cast<uint32_t>(bits)));
}

bool isSame(float a, float b) {
  return std::isnan(a)
             ? std::isnan(b)
             : std::bit_cast<uint32_t>(a) == std::bit_cast<uint32_t>(b);
}

TEST(ScalarMath, ExpAndTanhHaveTheBitsOfTheKernels) {
  forFloats([](float x) {
    ASSERT_TRUE(isSame(te_scalar_exp(x), math::exp(x))) << x;
    if (!(x > 0.0f))
      ASSERT_TRUE(isSame(te_scalar_exp_nonpositive(x), math::exp(x))) << x;
    ASSERT_TRUE(isSame(te_scalar_tanh(x), math::tanh(x))) << x;
  });
}

void expectWithin(double bound, double expected, float actual, float x) {
  const float rounded = static_cast<float>(expected);
  if (!std::isfinite(rounded)) {
    ASSERT_TRUE(isSame(rounded, actual)) << x;
    return;
  }
  const double ulp =
      expected == 0 ? 0
                    : std::ldexp(1, std::max(std::ilogb(expected), -126) - 23);
  ASSERT_LE(std::fabs(actual - expected), bound * ulp) << x;
}
void expectWithinTwoUlp(double expected, float actual, float x) {
  expectWithin(2, expected, actual, x);
}

TEST(ScalarMath, FunctionsAreWithinTwoUlp) {
  forFloats([](float x) {
    expectWithinTwoUlp(std::exp(static_cast<double>(x)), te_scalar_exp(x), x);
    expectWithinTwoUlp(std::tanh(static_cast<double>(x)), te_scalar_tanh(x), x);
    expectWithinTwoUlp(std::log(static_cast<double>(x)), te_scalar_log(x), x);
    expectWithinTwoUlp(std::log1p(static_cast<double>(x)), te_scalar_log1p(x),
                       x);
    expectWithinTwoUlp(std::exp2(static_cast<double>(x)), te_scalar_exp2(x), x);
    expectWithinTwoUlp(std::log2(static_cast<double>(x)), te_scalar_log2(x), x);
    expectWithinTwoUlp(std::erf(static_cast<double>(x)), te_scalar_erf(x), x);
    expectWithinTwoUlp(std::sin(static_cast<double>(x)), te_scalar_sin(x), x);
    expectWithinTwoUlp(std::cos(static_cast<double>(x)), te_scalar_cos(x), x);
  });
}

TEST(ScalarMath, ErfcIsWithinEightUlp) {
  forFloats([](float x) {
    expectWithin(8, std::erfc(static_cast<double>(x)), te_scalar_erfc(x), x);
  });
}

TEST(ScalarMath, PowersOfTwoAndTheirLogarithmsAreExact) {
  for (int n = -149; n < 128; ++n) {
    EXPECT_EQ(te_scalar_exp2(static_cast<float>(n)), std::ldexp(1.0f, n));
    EXPECT_EQ(te_scalar_log2(std::ldexp(1.0f, n)), n);
  }
}

/// Numbers of every size and sign, special ones, and small integers and halves.
std::vector<float> operands() {
  std::vector<float> found = {
      NAN,       INFINITY, 0.0f,  0x1p-149f,      0x1.fffffep127f,
      1.0f,      0.5f,     1.5f,  2.0f,           2.5f,
      3.0f,      4.0f,     7.0f,  0x1p23f,        0x1.000002p23f,
      33.0f,     127.0f,   0.99f, 0x1.fffffep-1f, 0x1.000002p0f,
      0x1p-126f, 0x1p24f};
  for (uint32_t bits = 0x00001000; bits < 0x7f800000; bits += 0x00a2f3d1)
    found.push_back(std::bit_cast<float>(bits));
  for (size_t i = 0, count = found.size(); i < count; ++i)
    found.push_back(-found[i]);
  return found;
}

TEST(ScalarMath, PowHasTheSpecialValuesOfC) {
  const std::vector<float> some = operands();
  auto expect = [](float x, float y) {
    expectWithin(1, std::pow(static_cast<double>(x), static_cast<double>(y)),
                 te_scalar_pow(x, y), x);
    const float exact = std::pow(x, y);
    ASSERT_EQ(std::isnan(exact), std::isnan(te_scalar_pow(x, y))) << x << y;
    if (!std::isnan(exact))
      ASSERT_EQ(std::signbit(exact), std::signbit(te_scalar_pow(x, y)))
          << x << " " << y;
  };
  for (float x : some)
    for (float y : some)
      expect(x, y);
  // Results that are neither 0 nor infinite.
  for (float x : some)
    for (float y = -4.0f; y < 4.0f; y += 0.0371f)
      expect(x, y);
}

TEST(ScalarMath, RoundingIsExact) {
  forFloats([](float x) {
    ASSERT_TRUE(isSame(te_scalar_floor(x), std::floor(x))) << x;
    ASSERT_TRUE(isSame(te_scalar_ceil(x), std::ceil(x))) << x;
    ASSERT_TRUE(isSame(te_scalar_trunc(x), std::trunc(x))) << x;
    ASSERT_TRUE(isSame(te_scalar_roundeven(x), std::rint(x))) << x;
  });
}

TEST(ScalarMath, RemainderIsExact) {
  const std::vector<float> some = operands();
  for (float x : some)
    for (float y : some)
      ASSERT_TRUE(isSame(te_scalar_rem(x, y), std::fmod(x, y)))
          << x << " " << y;
}

TEST(ScalarMath, MaxAndMinKeepNanAndTheFirstOfEquals) {
  EXPECT_TRUE(std::isnan(te_scalar_max(NAN, 1)));
  EXPECT_TRUE(std::isnan(te_scalar_max(1, NAN)));
  EXPECT_TRUE(std::isnan(te_scalar_min(1, NAN)));
  EXPECT_TRUE(isSame(te_scalar_max(-0.0f, 0.0f), -0.0f));
  EXPECT_TRUE(isSame(te_scalar_min(0.0f, -0.0f), 0.0f));
  EXPECT_EQ(te_scalar_max(-INFINITY, 2), 2);
  EXPECT_EQ(te_scalar_min(-INFINITY, 2), -INFINITY);
}

} // namespace
