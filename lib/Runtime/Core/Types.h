//===- Types.h - conversions between f32 and the narrow float types -------===//
//
// Host conversions, all round-to-nearest-even. 8-bit floats saturate to the
// largest finite value (infinities too); bf16 and f16 overflow to infinity.
// A NaN becomes the canonical positive one (0x7f, 0x7fff), as the conversion
// instructions of the GPU make it.
//
//===----------------------------------------------------------------------===//

#ifndef TE_RUNTIME_CORE_TYPES_H
#define TE_RUNTIME_CORE_TYPES_H

#include "Core/Math.h"
#include "TEDialect/Runtime/te_runtime_types.h"

#include <algorithm>
#include <bit>
#include <cstdint>

namespace te::rt {

/// A binary float of 1 + exponentBits + mantissaBits bits.
template <int exponentBits, int mantissaBits> struct FloatFormat {
  static constexpr int bias = (1 << (exponentBits - 1)) - 1;
  /// f32 mantissa bits that are rounded away from a normal value.
  static constexpr int dropped = 23 - mantissaBits;
  static constexpr int signShift = exponentBits + mantissaBits;
};

/// Magnitude bits of |value| rounded to `Format`, as if exponents had no upper
/// limit. `value` is finite.
template <typename Format> inline uint32_t roundMagnitude(float value) {
  uint32_t bits = std::bit_cast<uint32_t>(value) & 0x7fffffffu;
  const int exponent = static_cast<int>(bits >> 23) - 127;
  // Below the smallest normal of the format more bits are dropped.
  const int minExponent = 1 - Format::bias;
  if (exponent >= minExponent) {
    const uint32_t half = (1u << (Format::dropped - 1)) - 1;
    bits += half + ((bits >> Format::dropped) & 1);
    return (bits >> Format::dropped) -
           (static_cast<uint32_t>(127 - Format::bias)
            << (23 - Format::dropped));
  }
  const int shift = Format::dropped + minExponent - exponent;
  if (shift > 25 || exponent == -127)
    return 0;
  const uint32_t mantissa = (bits & 0x7fffffu) | 0x800000u;
  const uint32_t half = (1u << (shift - 1)) - 1;
  return (mantissa + half + ((mantissa >> shift) & 1)) >> shift;
}

template <typename Format>
inline uint8_t toFloat8(float value, uint32_t maxFiniteBits) {
  if (value != value)
    return 0x7f;
  const uint32_t sign = std::bit_cast<uint32_t>(value) >> 31;
  uint32_t magnitude = maxFiniteBits;
  if (std::fabs(value) < 1e6f)
    magnitude = std::min(roundMagnitude<Format>(value), maxFiniteBits);
  return static_cast<uint8_t>(sign << Format::signShift | magnitude);
}

inline uint8_t floatToE4M3(float value) {
  return toFloat8<FloatFormat<4, 3>>(value, 0x7e);
}
inline uint8_t floatToE5M2(float value) {
  return toFloat8<FloatFormat<5, 2>>(value, 0x7b);
}

inline float e4m3ToFloat(uint8_t code) {
  const uint32_t exponent = code >> 3 & 0xf, mantissa = code & 7;
  float value =
      exponent == 0
          ? static_cast<float>(mantissa) * 0x1p-9f
          : std::bit_cast<float>((exponent + 120) << 23 | mantissa << 20);
  if ((code & 0x7f) == 0x7f)
    value = std::bit_cast<float>(0x7fffffffu);
  return code & 0x80 ? -value : value;
}
inline float e5m2ToFloat(uint8_t code) {
  const uint32_t exponent = code >> 2 & 0x1f, mantissa = code & 3;
  float value =
      exponent == 0
          ? static_cast<float>(mantissa) * 0x1p-16f
          : std::bit_cast<float>((exponent + 112) << 23 | mantissa << 21);
  if (exponent == 31)
    value = std::bit_cast<float>(mantissa == 0 ? 0x7f800000u : 0x7fffffffu);
  return code & 0x80 ? -value : value;
}

/// Element `i` of a packed f4E2M1FN array: the even one has the low nibble.
inline float loadE2M1(const void *array, int64_t i) {
  const uint8_t byte = static_cast<const uint8_t *>(array)[i / 2];
  return math::e2m1ToFloat(i % 2 == 0 ? byte & 0xf : byte >> 4);
}

inline float bf16ToFloat(uint16_t bits) {
  return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
}
inline uint16_t floatToBf16(float value) {
  if (value != value)
    return 0x7fff;
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  return static_cast<uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

inline float f16ToFloat(uint16_t bits) {
  const uint32_t sign = static_cast<uint32_t>(bits & 0x8000) << 16;
  const uint32_t exponent = bits >> 10 & 0x1f, mantissa = bits & 0x3ff;
  if (exponent == 31)
    return std::bit_cast<float>(sign | 0x7f800000u | mantissa << 13);
  if (exponent == 0) {
    const float value = static_cast<float>(mantissa) * 0x1p-24f;
    return sign ? -value : value;
  }
  return std::bit_cast<float>(sign | (exponent + 112) << 23 | mantissa << 13);
}
inline uint16_t floatToF16(float value) {
  if (value != value)
    return 0x7fff;
  const uint32_t sign = std::bit_cast<uint32_t>(value) >> 31;
  uint32_t magnitude = 0x7c00;
  if (std::fabs(value) < 1e6f)
    magnitude = std::min(roundMagnitude<FloatFormat<5, 10>>(value), 0x7c00u);
  return static_cast<uint16_t>(sign << 15 | magnitude);
}

/// Element `i` of an array of a te_rt_dtype other than TE_RT_I32, as f32.
template <int32_t type> inline float loadAs(const void *array, int64_t i) {
  if constexpr (type == TE_RT_F32)
    return static_cast<const float *>(array)[i];
  else if constexpr (type == TE_RT_BF16)
    return bf16ToFloat(static_cast<const uint16_t *>(array)[i]);
  else if constexpr (type == TE_RT_F16)
    return f16ToFloat(static_cast<const uint16_t *>(array)[i]);
  else if constexpr (type == TE_RT_F8E4M3FN)
    return e4m3ToFloat(static_cast<const uint8_t *>(array)[i]);
  else
    return e5m2ToFloat(static_cast<const uint8_t *>(array)[i]);
}
/// Stores `value` rounded to the type and returns what was stored, as f32.
template <int32_t type>
inline float storeAs(void *array, int64_t i, float value) {
  if constexpr (type == TE_RT_F32) {
    return static_cast<float *>(array)[i] = value;
  } else if constexpr (type == TE_RT_BF16) {
    static_cast<uint16_t *>(array)[i] = floatToBf16(value);
  } else if constexpr (type == TE_RT_F16) {
    static_cast<uint16_t *>(array)[i] = floatToF16(value);
  } else if constexpr (type == TE_RT_F8E4M3FN) {
    static_cast<uint8_t *>(array)[i] = floatToE4M3(value);
  } else {
    static_cast<uint8_t *>(array)[i] = floatToE5M2(value);
  }
  return loadAs<type>(array, i);
}

/// As above, for a type known only at run time.
inline float load(const void *array, int64_t i, int32_t type) {
  switch (type) {
  case TE_RT_F32:
    return loadAs<TE_RT_F32>(array, i);
  case TE_RT_BF16:
    return loadAs<TE_RT_BF16>(array, i);
  case TE_RT_F16:
    return loadAs<TE_RT_F16>(array, i);
  case TE_RT_F8E4M3FN:
    return loadAs<TE_RT_F8E4M3FN>(array, i);
  default:
    return loadAs<TE_RT_F8E5M2>(array, i);
  }
}
/// `value`, rounded to nearest even if `type` is bf16.
inline float roundTo(float value, int32_t type) {
  return type == TE_RT_BF16 ? bf16ToFloat(floatToBf16(value)) : value;
}
/// Element (r, c) of what a cast with the parameters `p` reads: zero outside of
/// its x.
template <typename Params>
float loadPadded(const void *x, int64_t r, int64_t c, const Params &p) {
  if (r >= p.x_rows || c >= p.x_cols)
    return 0.0f;
  const int64_t i = r * p.x_cols + c;
  if constexpr (requires { p.x_type; })
    return roundTo(load(x, i, p.x_type), p.type);
  else
    return load(x, i, p.type);
}
inline float store(void *array, int64_t i, float value, int32_t type) {
  switch (type) {
  case TE_RT_F32:
    return storeAs<TE_RT_F32>(array, i, value);
  case TE_RT_BF16:
    return storeAs<TE_RT_BF16>(array, i, value);
  case TE_RT_F16:
    return storeAs<TE_RT_F16>(array, i, value);
  case TE_RT_F8E4M3FN:
    return storeAs<TE_RT_F8E4M3FN>(array, i, value);
  default:
    return storeAs<TE_RT_F8E5M2>(array, i, value);
  }
}

} // namespace te::rt

#endif // TE_RUNTIME_CORE_TYPES_H
