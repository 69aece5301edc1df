//===- Nvfp4FormulasTest.cpp - 4-bit rounding and its random bits ---------===//
//
// The formulas of Core/Nvfp4.h are compared with their definition, without a
// kernel: the nearest magnitudes by search, and known results of the generator.
//
//===----------------------------------------------------------------------===//

#include "Core/Nvfp4.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>

using namespace te::rt::math;

namespace {

constexpr double kMagnitudes[] = {0, 0.5, 1, 1.5, 2, 3, 4, 6};

uint32_t nearest(double m) {
  if (m > 6)
    return 7;
  uint32_t best = 0;
  for (uint32_t code = 1; code < 8; ++code) {
    const double now = std::fabs(m - kMagnitudes[code]);
    const double before = std::fabs(m - kMagnitudes[best]);
    if (now < before || (now == before && code % 2 == 0))
      best = code;
  }
  return best;
}

uint32_t stochastic(double m, uint32_t random) {
  if (m >= 6)
    return 7;
  uint32_t low = 0;
  while (kMagnitudes[low + 1] <= m)
    ++low;
  const double place =
      (m - kMagnitudes[low]) / (kMagnitudes[low + 1] - kMagnitudes[low]);
  return low + (std::floor(65536 * place) + random >= 65536 ? 1 : 0);
}

// A prime stride through all positive floats, and all those next to a midpoint,
// a magnitude, or a multiple of 1/512.
template <typename Body> void forEachMagnitude(Body body) {
  for (uint32_t bits = 0; bits <= 0x7f800000u; bits += 1009)
    body(std::bit_cast<float>(bits));
  for (int i = 0; i <= 8 * 512; ++i)
    for (int ulp = -2; ulp <= 2; ++ulp) {
      const uint32_t bits = std::bit_cast<uint32_t>(i / 512.0f);
      if (ulp >= 0 || bits >= 2)
        body(std::bit_cast<float>(bits + ulp));
    }
}

TEST(Nvfp4Formulas, NearestCode) {
  forEachMagnitude([](float m) { ASSERT_EQ(nearest(m), e2m1Code(m)) << m; });
  EXPECT_EQ(7u, e2m1Code(std::nanf("")));
  EXPECT_EQ(7u, e2m1Code(INFINITY));
  for (uint32_t code = 0; code < 8; ++code)
    EXPECT_EQ(code, e2m1Code(e2m1ToFloat(code)));
}

TEST(Nvfp4Formulas, StochasticCode) {
  uint32_t bits = 0;
  forEachMagnitude([&](float m) {
    bits = (bits * 5 + 3) % 65536; // every value in turn
    for (uint32_t random : {0u, 65535u, bits})
      ASSERT_EQ(stochastic(m, random), e2m1CodeStochastic(m, random))
          << m << " with " << random;
  });
  for (int i = 0; i <= 8 * 512; ++i)
    for (uint32_t step = 0; step < 256; ++step)
      for (uint32_t random : {step * 256, step * 256 + 255})
        ASSERT_EQ(stochastic(i / 512.0, random),
                  e2m1CodeStochastic(i / 512.0f, random))
            << i / 512.0 << " with " << random;
  // Cases in which one of all random numbers makes the difference.
  for (double low : {0.0, 1.5, 2.5, 4.5})
    for (uint32_t place = 0; place < 65536; place += 97)
      for (double off : {0.0, 0.75})
        for (uint32_t random : {65535 - place, 65536 - place, 65537 - place}) {
          const auto m = static_cast<float>(low + (place + off) / 131072);
          if (random < 65536)
            ASSERT_EQ(stochastic(m, random), e2m1CodeStochastic(m, random))
                << m << " with " << random;
        }
  EXPECT_EQ(7u, e2m1CodeStochastic(std::nanf(""), 65535));
  EXPECT_EQ(7u, e2m1CodeStochastic(INFINITY, 65535));
}

TEST(Nvfp4Formulas, RandomBits) {
  EXPECT_EQ(0x44ddu, nvRandomBits(0x11223344, 0xaabbccdd, 0));
  EXPECT_EQ(0x22bbu, nvRandomBits(0x11223344, 0xaabbccdd, 2));
  EXPECT_EQ(0xbb22u, nvRandomBits(0xaabbccdd, 0x11223344, 6));
  EXPECT_EQ(0x11aau, nvRandomBits(0x11223344, 0xaabbccdd, 11));
}

// From the paper of the Random123 generators: zeros, ones, digits of pi.
TEST(Nvfp4Formulas, PhiloxKnownAnswers) {
  auto expect = [](const PhiloxWords &words, uint32_t a, uint32_t b, uint32_t c,
                   uint32_t d) {
    EXPECT_EQ(a, words.word[0]);
    EXPECT_EQ(b, words.word[1]);
    EXPECT_EQ(c, words.word[2]);
    EXPECT_EQ(d, words.word[3]);
  };
  expect(philox(0, 0, 0, 0, 0, 0), 0x6627e8d5, 0xe169c58d, 0xbc57ac4c,
         0x9b00dbd8);
  expect(philox(~0u, ~0u, ~0u, ~0u, ~0u, ~0u), 0x408f276d, 0x41c83b0e,
         0xa20bc7c6, 0x6d5451fd);
  expect(philox(0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344, 0xa4093822,
                0x299f31d0),
         0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1);
  // The position of a group, an offset, a usage, a seed and a stream in the
  // counter and the key.
  const PhiloxWords words = nvRandom(0x1234567890abcdef, 1, 7, 8, 9);
  const PhiloxWords same = philox(0x90abcdef, 0x12345678, 8, 1, 7, 9);
  expect(words, same.word[0], same.word[1], same.word[2], same.word[3]);
}

} // namespace
