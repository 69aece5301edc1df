//===- TypesTest.cpp - conversions of Core/Types.h, exhaustively ----------===//

#include "Core/Types.h"
#include "Core/Formulas.h"

#include <gtest/gtest.h>

#include <cmath>

using namespace te::rt;

namespace {

// Decoding and encoding again returns every code, except NaN, and infinities of
// types that saturate.
TEST(Types, RoundTripOfEveryCode) {
  for (uint32_t code = 0; code < 256; ++code) {
    const float e4m3 = e4m3ToFloat(code), e5m2 = e5m2ToFloat(code);
    EXPECT_EQ(std::isnan(e4m3) ? 0x7f : code, floatToE4M3(e4m3));
    if (std::isinf(e5m2))
      EXPECT_EQ((code & 0x80) | 0x7b, floatToE5M2(e5m2));
    else
      EXPECT_EQ(std::isnan(e5m2) ? 0x7f : code, floatToE5M2(e5m2));
  }
  for (uint32_t code = 0; code < 65536; ++code) {
    const float bf16 = bf16ToFloat(code), f16 = f16ToFloat(code);
    EXPECT_EQ(std::isnan(bf16) ? 0x7fff : code, floatToBf16(bf16));
    EXPECT_EQ(std::isnan(f16) ? 0x7fff : code, floatToF16(f16));
  }
}

// The compiler's half type is an independent implementation.
TEST(Types, F16EqualsTheCompilers) {
  for (uint32_t bits = 0; bits < 0xff800000u; bits += 1009) {
    const float value = std::bit_cast<float>(bits);
    if (!std::isnan(value))
      ASSERT_EQ(std::bit_cast<uint16_t>(static_cast<_Float16>(value)),
                floatToF16(value))
          << value;
  }
}

TEST(Types, Saturation) {
  EXPECT_EQ(floatToE4M3(INFINITY), 0x7e);
  EXPECT_EQ(floatToE4M3(-1e30f), 0xfe);
  EXPECT_EQ(floatToE4M3(464.0f), 0x7e);
  EXPECT_EQ(floatToE5M2(-INFINITY), 0xfb);
  EXPECT_EQ(floatToE4M3(-0.0f), 0x80);
  EXPECT_EQ(floatToE5M2(-1e-30f), 0x80);
  EXPECT_EQ(floatToF16(65520.0f), 0x7c00);
  EXPECT_EQ(floatToF16(65519.0f), 0x7bff);
  EXPECT_EQ(floatToBf16(3.4028235e38f), 0x7f80);
}

// Compares with the definition at every power of two and both neighbours. Casts
// use only some of these arguments.
TEST(Types, E8M0IsTheLeastPowerNotBelow) {
  EXPECT_EQ(math::e8m0RoundUp(0.0f), 0);
  EXPECT_EQ(math::e8m0RoundUp(INFINITY), 0xfe);
  EXPECT_EQ(math::e8m0RoundUp(NAN), 0xff);
  EXPECT_EQ(math::e8m0RoundUp(0x1.fffffep127f), 0xfe);
  for (int k = -149; k < 128; ++k) {
    const float at = std::ldexp(1.0f, k);
    EXPECT_EQ(math::e8m0RoundUp(at), std::max(k + 127, 0)) << k;
    EXPECT_EQ(math::e8m0RoundUp(std::nextafter(at, INFINITY)),
              std::clamp(k + 128, 0, 254))
        << k;
    EXPECT_EQ(math::e8m0RoundUp(std::nextafter(at, 0.0f)), std::max(k + 127, 0))
        << k;
  }
  for (int code = 0; code < 255; ++code) {
    EXPECT_EQ(math::e8m0ToFloat(code), std::ldexp(1.0f, code - 127));
    EXPECT_EQ(math::e8m0Inverse(code), std::ldexp(1.0f, 127 - code));
  }
  EXPECT_TRUE(std::isnan(math::e8m0ToFloat(255)));
  EXPECT_TRUE(std::isnan(math::e8m0Inverse(255)));
}

TEST(Types, E2M1Codes) {
  const float magnitudes[] = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6};
  for (uint32_t code = 0; code < 8; ++code) {
    EXPECT_EQ(math::e2m1ToFloat(code), magnitudes[code]);
    EXPECT_EQ(math::e2m1ToFloat(code | 8), -magnitudes[code]);
    EXPECT_TRUE(std::signbit(math::e2m1ToFloat(code | 8)));
    // Only the low four bits matter.
    EXPECT_EQ(math::e2m1ToFloat(code | 0xfff0), magnitudes[code]);
  }
  const uint8_t bytes[] = {0x21, 0xf7};
  const float values[] = {0.5f, 1.0f, 6.0f, -6.0f};
  for (int i = 0; i < 4; ++i)
    EXPECT_EQ(loadE2M1(bytes, i), values[i]);
}

} // namespace
