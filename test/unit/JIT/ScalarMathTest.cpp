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
    ASSERT_TRUE(isSame(te_scalar_tanh(x), math::tanh(x))) << x;
  });
}

void expectWithinTwoUlp(double expected, float actual, float x) {
  const float rounded = static_cast<float>(expected);
  if (!std::isfinite(rounded)) {
    ASSERT_TRUE(isSame(rounded, actual)) << x;
    return;
  }
  const double ulp =
      expected == 0 ? 0
                    : std::ldexp(1, std::max(std::ilogb(expected), -126) - 23);
  ASSERT_LE(std::fabs(actual - expected), 2 * ulp) << x;
}

TEST(ScalarMath, FunctionsAreWithinTwoUlp) {
  forFloats([](float x) {
    expectWithinTwoUlp(std::exp(static_cast<double>(x)), te_scalar_exp(x), x);
    expectWithinTwoUlp(std::tanh(static_cast<double>(x)), te_scalar_tanh(x), x);
    expectWithinTwoUlp(std::log(static_cast<double>(x)), te_scalar_log(x), x);
    expectWithinTwoUlp(std::log1p(static_cast<double>(x)), te_scalar_log1p(x),
                       x);
    expectWithinTwoUlp(std::sin(static_cast<double>(x)), te_scalar_sin(x), x);
    expectWithinTwoUlp(std::cos(static_cast<double>(x)), te_scalar_cos(x), x);
  });
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
