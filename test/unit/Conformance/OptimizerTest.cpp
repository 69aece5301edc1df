//===- OptimizerTest.cpp - what clips gradients, and updates --------------===//
//
// Values of other updates are in PointwiseTest.cpp, and sums of squares in
// SquaresTest.cpp.
//
//===----------------------------------------------------------------------===//

#include "Conformance/Harness.h"
#include "Conformance/NvOracle.h"
#include "Conformance/Options.h"
#include "Conformance/Oracle.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <random>

using namespace te::conformance;

namespace {

constexpr int32_t kTypes[] = {TE_RT_F32, TE_RT_BF16, TE_RT_F16};

class Optimizer : public BackendTest {};

TEST_P(Optimizer, ClipFactors) {
  auto factors = [&](float sum, float maxNorm) {
    std::vector<float> norm(1), factor(1);
    device().run(TE_PLAN(clip_factor, maxNorm),
                 {in(std::vector<float>{sum}), out(norm), out(factor)});
    return std::pair(norm[0], factor[0]);
  };
  for (float sum : {0.0f, 1e-40f, 0.5f, 3.0f, 1e30f})
    for (float maxNorm : {1e-20f, 0.1f, 1.0f, 1e20f}) {
      const auto [norm, factor] = factors(sum, maxNorm);
      // f64 holds a root and a quotient well enough to round it to f32.
      const auto root = static_cast<float>(std::sqrt(static_cast<double>(sum)));
      EXPECT_EQ(norm, root);
      const float divisor = root + 1e-6f;
      EXPECT_EQ(factor,
                std::min(1.0f, static_cast<float>(static_cast<double>(maxNorm) /
                                                  divisor)));
    }
  EXPECT_EQ(factors(INFINITY, 1.0f), std::pair(INFINITY, 0.0f));
  EXPECT_EQ(factors(3.0f, INFINITY).second, 1.0f);
  EXPECT_TRUE(std::isnan(factors(INFINITY, INFINITY).second));
  EXPECT_TRUE(std::isnan(factors(NAN, 1.0f).first));
  EXPECT_TRUE(std::isnan(factors(NAN, 1.0f).second));
}

// An update with a factor is the update by gradients that were multiplied in
// f32 before, to the bit.
TEST_P(Optimizer, ScaledGradients) {
  const int64_t count = 2051;
  const std::vector<float> lr{0.01f}, step{3};
  const Array param = makeArray("normal", TE_RT_F32, count, 1);
  const Array buf = makeArray("normal", TE_RT_F32, count, 3);
  for (int32_t gradType : kTypes)
    for (float factor : {1.0f, 0.3f, 0.0f, NAN}) {
      const std::vector<float> scale{factor};
      const Array grad = makeArray("wide", gradType, count, 2);
      Array scaled(TE_RT_F32, count);
      for (int64_t i = 0; i < count; ++i)
        scaled.set(i, static_cast<float>(grad.at(i)) * factor);
      for (int32_t moment : {TE_RT_F32, TE_RT_BF16})
        for (int offset : {0, 4}) {
          const Array m = makeArray("normal", moment, count, 3);
          const Array v(moment, std::vector<double>(count, 1.0));
          auto update = [&](const Array &by, Buffer with) {
            std::array<Array, 3> result{Array(TE_RT_F32, count),
                                        Array(moment, count),
                                        Array(moment, count)};
            device().run(TE_PLAN(adamw, count, TE_RT_F32, by.type, 0.9f, 0.999f,
                                 1e-8f, 0.1f, moment, 7),
                         {unaligned(in(param.bytes), offset), in(by.bytes),
                          in(m.bytes), in(v.bytes), in(lr), in(step), with,
                          out(result[0].bytes), out(result[1].bytes),
                          out(result[2].bytes)});
            return result;
          };
          const auto expected = update(scaled, none()),
                     actual = update(grad, in(scale));
          for (int i = 0; i < 3; ++i)
            EXPECT_TRUE(sameBits(expected[i], actual[i]))
                << "adamw " << gradType << " " << moment << " " << factor;
        }
      for (bool momentum : {false, true}) {
        auto update = [&](const Array &by, Buffer with) {
          std::array<Array, 2> result{Array(TE_RT_F32, count),
                                      Array(TE_RT_F32, momentum ? count : 0)};
          device().run(TE_PLAN(sgd, count, TE_RT_F32, by.type,
                               momentum ? 0.9f : 0.0f, 0.1f, momentum),
                       {in(param.bytes), in(by.bytes),
                        momentum ? in(buf.bytes) : none(), in(lr), with,
                        out(result[0].bytes),
                        momentum ? out(result[1].bytes) : none()});
          return result;
        };
        const auto expected = update(scaled, none()),
                   actual = update(grad, in(scale));
        for (int i = 0; i < 2; ++i)
          EXPECT_TRUE(sameBits(expected[i], actual[i]))
              << "sgd " << gradType << " " << momentum << " " << factor;
      }
    }
}

/// Moments in runs of four, some of which divide without special cases: usual
/// ones, any exponent, the ends of the ranges, zeros, some zeros, too small,
/// too large, and not finite.
void drawMoments(uint32_t seed, Array &m, Array &v) {
  std::mt19937 random(seed);
  auto pick = [&](int low, int high) {
    return low + static_cast<int>(random() % (high - low + 1));
  };
  auto number = [&](int low, int high) {
    return std::ldexp(1 + random() * 0x1p-32, pick(low, high));
  };
  auto near = [&](int exponent) {
    const float x = std::ldexp(1.0f, exponent);
    const float around[] = {x, std::nextafterf(x, 0),
                            std::nextafterf(x, 1e38f)};
    return static_cast<double>(around[pick(0, 2)]);
  };
  for (size_t i = 0; i < m.size(); ++i) {
    const double sign = random() % 2 ? 1 : -1;
    switch (i / 4 % 8) {
    case 0:
      m.set(i, sign * number(-40, 5)), v.set(i, number(-80, 10));
      break;
    case 1:
      m.set(i, sign * number(-149, 127)), v.set(i, number(-149, 127));
      break;
    case 2:
      m.set(i, sign * near(pick(0, 1) ? -59 : 31));
      v.set(i, near(pick(0, 1) ? -95 : 61));
      break;
    case 3:
      m.set(i, sign * 0.0), v.set(i, 0.0);
      break;
    case 4:
      m.set(i, pick(0, 3) ? sign * number(-30, 0) : 0.0);
      v.set(i, pick(0, 3) ? number(-60, 0) : sign * 0.0);
      break;
    case 5:
      m.set(i, sign * number(-140, -60)), v.set(i, number(-140, -90));
      break;
    case 6:
      m.set(i, sign * number(30, 126)), v.set(i, number(-90, 120));
      break;
    default:
      m.set(i, pick(0, 2) ? sign * number(-30, 0) : sign * INFINITY);
      v.set(i, pick(0, 2) ? number(-60, 0) : pick(0, 1) ? NAN : -1.0);
    }
  }
}

/// `x` in bf16, rounded by word `i` of the page of kernels; m takes its lower
/// 16 bits, and v its upper ones.
float roundedByChance(float x, int64_t i, uint32_t seed, float step, bool isV) {
  if (!std::isfinite(x))
    return x;
  const auto group = static_cast<uint64_t>(i) / 4;
  const uint32_t word = philoxOf({static_cast<uint32_t>(group),
                                  static_cast<uint32_t>(group >> 32),
                                  std::bit_cast<uint32_t>(step), 2},
                                 {seed, 0})[i % 4];
  const uint32_t bits = isV ? word >> 16 : word & 0xffff;
  return std::bit_cast<float>((std::bit_cast<uint32_t>(x) + bits) &
                              0xffff0000u);
}

/// A parameter and its moments.
using State = std::array<Array, 3>;

State adamwOf(const State &state, const Array &grad, float beta, float step,
              float epsilon, uint32_t seed) {
  const auto &[param, m, v] = state;
  State result = state;
  const auto correction =
      static_cast<float>(1.0 - std::pow(static_cast<double>(beta), step));
  for (size_t i = 0; i < grad.size(); ++i) {
    const auto p = static_cast<float>(param.at(i));
    const auto g = static_cast<float>(grad.at(i));
    float newM = beta * static_cast<float>(m.at(i)) + (1.0f - beta) * g;
    float newV = beta * static_cast<float>(v.at(i)) + ((1.0f - beta) * g) * g;
    const float direction =
        (newM / correction) / (std::sqrt(newV / correction) + epsilon);
    if (m.type == TE_RT_BF16) {
      newM = roundedByChance(newM, i, seed, step, false);
      newV = roundedByChance(newV, i, seed, step, true);
    }
    result[0].set(i, p - 0.3f * (direction + 0.1f * p));
    result[1].set(i, newM);
    result[2].set(i, newV);
  }
  return result;
}

// The quotients and the root of AdamW are those of IEEE 754 for moments of any
// size, also where a kernel computes them in fewer steps.
TEST_P(Optimizer, AdamwIsRoundedForMomentsOfAnySize) {
  const int64_t count = onlySmallValues ? 2051 : 200'003;
  const std::vector<float> lr{0.3f};
  for (int32_t type : {TE_RT_F32, TE_RT_BF16})
    for (float beta : {0.5f, 0.9f, 0.0f})
      for (float number : {1.0f, 7.0f, 4000.0f})
        for (float epsilon : {1e-8f, 0.0f, 1e30f}) {
          const std::vector<float> step{number};
          State state{makeArray("normal", TE_RT_F32, count, 1),
                      Array(type, count), Array(type, count)};
          drawMoments(static_cast<uint32_t>(number) + 3, state[1], state[2]);
          Array grad = makeArray("normal", TE_RT_F32, count, 2);
          // Most gradients keep the moments in their ranges.
          for (int64_t i = 0; i < count; ++i)
            if (i / 32 % 4)
              grad.set(i, 0.0);
          const State expected =
              adamwOf(state, grad, beta, number, epsilon, 11);
          State found = expected;
          // With an offset, element by element.
          for (int offset : {0, 4}) {
            device().run(TE_PLAN(adamw, count, TE_RT_F32, TE_RT_F32, beta, beta,
                                 epsilon, 0.1f, type, 11),
                         {unaligned(in(state[0].bytes), offset), in(grad.bytes),
                          in(state[1].bytes), in(state[2].bytes), in(lr),
                          in(step), none(), out(found[0].bytes),
                          out(found[1].bytes), out(found[2].bytes)});
            for (int k = 0; k < 3; ++k)
              EXPECT_TRUE(sameBits(expected[k], found[k]))
                  << type << " " << beta << " " << number << " " << epsilon
                  << ", offset " << offset << ", result " << k;
          }
        }
}

TE_FOR_EACH_BACKEND(Optimizer);

} // namespace
