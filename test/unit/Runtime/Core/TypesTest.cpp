//===- TypesTest.cpp - conversions of Core/Types.h, exhaustively ----------===//

#include "Core/Types.h"

#include <gtest/gtest.h>

#include <cmath>

using namespace te::rt;

namespace {

// Decoding and encoding again is the identity on every code that is not a NaN,
// or an infinity of a type that saturates.
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

// The compiler's own half type is an independent implementation.
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

} // namespace
