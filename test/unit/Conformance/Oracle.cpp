//===- Oracle.cpp - what the kernels must give, from the definitions ------===//

#include "Conformance/Oracle.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <optional>
#include <random>
#include <utility>

namespace te::conformance {

namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

struct Format {
  int exponentBits, mantissaBits;
  bool hasInfinity;
};

Format formatOf(int32_t type) {
  switch (type) {
  case TE_RT_F32:
    return {8, 23, true};
  case TE_RT_BF16:
    return {8, 7, true};
  case TE_RT_F16:
    return {5, 10, true};
  case TE_RT_F8E4M3FN:
    return {4, 3, false};
  default:
    return {5, 2, true};
  }
}

/// `value` times two to the `exponent`, exact where neither factor nor product
/// is subnormal, and cheaper than std::ldexp.
double timesPowerOfTwo(double value, int exponent) {
  return value * std::bit_cast<double>(uint64_t(1023 + exponent) << 52);
}

/// std::ilogb of a normal double.
int exponentOf(double value) {
  return static_cast<int>(std::bit_cast<uint64_t>(value) >> 52 & 0x7ff) - 1023;
}

/// Standard normal numbers by the polar method; std::normal_distribution takes
/// a logarithm of the generator's range for each of its uniform numbers.
class Normal {
public:
  double operator()(std::mt19937 &random) {
    if (spare)
      return *std::exchange(spare, std::nullopt);
    double x, y, square;
    do {
      x = uniform(random);
      y = uniform(random);
      square = x * x + y * y;
    } while (square > 1 || square == 0);
    const double factor = std::sqrt(-2 * std::log(square) / square);
    spare = x * factor;
    return y * factor;
  }

private:
  /// From -1 on and below 1.
  static double uniform(std::mt19937 &random) {
    const double low = random(), high = random();
    return (low + high * 0x1p32) * 0x1p-63 - 1;
  }

  std::optional<double> spare;
};

/// The value of a code, from the definition of binary floats. In types without
/// infinity, all codes of the top exponent except the last one are numbers.
double decodeByDefinition(int32_t type, uint32_t bits) {
  const Format f = formatOf(type);
  const uint32_t mantissa = bits & ((1u << f.mantissaBits) - 1);
  const uint32_t top = (1u << f.exponentBits) - 1;
  const uint32_t exponent = bits >> f.mantissaBits & top;
  const bool negative = bits >> (f.mantissaBits + f.exponentBits) & 1;
  const int bias = (1 << (f.exponentBits - 1)) - 1;
  const double fraction = timesPowerOfTwo(mantissa, -f.mantissaBits);
  double value;
  if (exponent == top && f.hasInfinity)
    value = mantissa == 0 ? kInf : kNan;
  else if (exponent == top && mantissa == (1u << f.mantissaBits) - 1)
    value = kNan;
  else if (exponent == 0)
    value = timesPowerOfTwo(fraction, 1 - bias);
  else
    value = timesPowerOfTwo(1 + fraction, static_cast<int>(exponent) - bias);
  return negative ? -value : value;
}

/// The finite values of the positive codes, in increasing order.
const std::vector<double> &positiveValues(int32_t type) {
  static const std::array<std::vector<double>, 2> tables = [] {
    std::array<std::vector<double>, 2> result;
    for (int t = 0; t < 2; ++t)
      for (uint32_t code = 0; code < 128; ++code) {
        const double value = decodeByDefinition(TE_RT_F8E4M3FN + t, code);
        if (std::isfinite(value))
          result[t].push_back(value);
      }
    return result;
  }();
  return tables[type - TE_RT_F8E4M3FN];
}

uint32_t encodeWide(int32_t type, double value) {
  const Format f = formatOf(type);
  const int width = f.exponentBits + f.mantissaBits;
  const double rounded = roundTo(type, value);
  uint32_t bits = 0;
  const uint32_t top = ((1u << f.exponentBits) - 1) << f.mantissaBits;
  if (std::isnan(rounded))
    return top | ((1u << f.mantissaBits) - 1);
  if (std::isinf(rounded)) {
    bits = top;
  } else if (rounded != 0) {
    const int bias = (1 << (f.exponentBits - 1)) - 1;
    const int exponent = std::max(exponentOf(rounded), 1 - bias);
    // Counts units in the last place, the implicit bit included.
    const auto units = static_cast<uint32_t>(
        timesPowerOfTwo(std::fabs(rounded), f.mantissaBits - exponent));
    bits =
        (static_cast<uint32_t>(exponent + bias - 1) << f.mantissaBits) + units;
  }
  return bits | static_cast<uint32_t>(std::signbit(rounded)) << width;
}

} // namespace

int64_t elementBytes(int32_t type) {
  const Format f = formatOf(type);
  return type == TE_RT_I32 ? 4 : (1 + f.exponentBits + f.mantissaBits) / 8;
}

double maxFiniteOf(int32_t type) {
  if (type == TE_RT_F8E4M3FN || type == TE_RT_F8E5M2)
    return positiveValues(type).back();
  const Format f = formatOf(type);
  return timesPowerOfTwo(2 - timesPowerOfTwo(1, -f.mantissaBits),
                         (1 << (f.exponentBits - 1)) - 1);
}

double unitRoundoff(int32_t type) {
  return std::ldexp(1, -formatOf(type).mantissaBits - 1);
}

double roundTo(int32_t type, double value) {
  if (!std::isfinite(value) || value == 0)
    return value;
  const Format f = formatOf(type);
  const int minExponent = 2 - (1 << (f.exponentBits - 1));
  const int ulp = std::max(exponentOf(value), minExponent) - f.mantissaBits;
  const double rounded =
      timesPowerOfTwo(std::nearbyint(timesPowerOfTwo(value, -ulp)), ulp);
  if (std::fabs(rounded) > maxFiniteOf(type))
    return std::copysign(kInf, value);
  return std::copysign(rounded, value);
}

uint8_t encodeFp8(int32_t type, double value) {
  if (std::isnan(value))
    return 0x7f;
  const std::vector<double> &table = positiveValues(type);
  const double magnitude = std::fabs(value);
  const auto above = std::lower_bound(table.begin(), table.end(), magnitude);
  size_t code = above - table.begin();
  if (above == table.end()) {
    code = table.size() - 1;
  } else if (*above != magnitude) {
    // Of two neighbouring codes, the nearer one, or the even one if both are
    // equally near.
    const double up = table[code] - magnitude;
    const double down = magnitude - table[code - 1];
    if (down < up || (down == up && (code - 1) % 2 == 0))
      --code;
  }
  return static_cast<uint8_t>(code | (std::signbit(value) ? 0x80 : 0));
}

double decode(int32_t type, uint32_t bits) {
  if (type == TE_RT_F32) {
    float value;
    std::memcpy(&value, &bits, sizeof(value));
    return value;
  }
  return decodeByDefinition(type, bits);
}

Array::Array(int32_t type, size_t count)
    : type(type), bytes(count * elementBytes(type)) {}

Array::Array(int32_t type, const std::vector<double> &values)
    : Array(type, values.size()) {
  for (size_t i = 0; i < values.size(); ++i)
    set(i, values[i]);
}

double Array::at(size_t i) const {
  uint32_t bits = 0;
  std::memcpy(&bits, &bytes[i * elementBytes(type)], elementBytes(type));
  return decode(type, bits);
}

void Array::set(size_t i, double value) {
  const uint32_t bits = elementBytes(type) == 1 ? encodeFp8(type, value)
                                                : encodeWide(type, value);
  std::memcpy(&bytes[i * elementBytes(type)], &bits, elementBytes(type));
}

testing::AssertionResult sameBits(const Array &expected, const Array &actual) {
  const int64_t size = elementBytes(expected.type);
  if (expected.type != actual.type || expected.size() != actual.size())
    return testing::AssertionFailure() << "type or size differ";
  size_t mismatches = 0, first = 0;
  for (size_t i = 0; i < expected.size(); ++i) {
    if (std::memcmp(&expected.bytes[i * size], &actual.bytes[i * size], size) ==
        0)
      continue;
    // The payload of an f32 NaN is not part of the contract.
    if (size > 1 && std::isnan(expected.at(i)) && std::isnan(actual.at(i)))
      continue;
    if (mismatches++ == 0)
      first = i;
  }
  if (mismatches == 0)
    return testing::AssertionSuccess();
  return testing::AssertionFailure()
         << mismatches << " of " << expected.size() << " differ, first at "
         << first << ": expected " << expected.at(first) << ", but got "
         << actual.at(first);
}

void expectNear(double expected, double bound, const Array &actual, size_t i,
                const char *what) {
  const double rounding =
      unitRoundoff(actual.type) * (std::fabs(expected) + bound) + 0x1p-25;
  ASSERT_LE(std::fabs(actual.at(i) - expected),
            bound + (actual.type == TE_RT_F32 ? 0x1p-149 : rounding))
      << what << " at " << i << ": expected " << expected << ", but got "
      << actual.at(i);
}

std::vector<double> makeValues(const std::string &kind, int32_t type,
                               size_t count, uint32_t seed) {
  std::mt19937 random(seed * 2654435761u + count);
  Normal normal;
  std::vector<double> values(count);
  const double largest = maxFiniteOf(type);
  for (size_t i = 0; i < count; ++i) {
    const uint32_t r = random();
    double &v = values[i];
    v = normal(random);
    if (kind == "zeros")
      v = 0;
    else if (kind == "inf" && r % 97 == 0)
      v = r & 0x10000 ? kInf : -kInf;
    else if (kind == "nan" && r % 53 == 0)
      v = kNan;
    else if (kind == "negzero" && r % 3 != 0)
      v = r % 3 == 1 ? -0.0 : 0.0;
    else if (kind == "subnormal")
      v = std::ldexp(v, type == TE_RT_F16 ? -18 : -130);
    else if (kind == "huge")
      v = std::clamp(std::ldexp(v, std::ilogb(largest)), -largest, largest);
    else if (kind == "wide")
      v = std::ldexp(v, static_cast<int>(r % 60) - 40);
  }
  return values;
}

Array makeArray(const std::string &kind, int32_t type, size_t count,
                uint32_t seed) {
  return Array(type, makeValues(kind, type, count, seed));
}

float scaleOf(float amax, int32_t fp8Type, bool pow2, float epsilon,
              double valueForInf) {
  if (amax < epsilon)
    amax = epsilon;
  if (!std::isfinite(amax) || amax == 0)
    return 1;
  float scale = static_cast<float>(maxFiniteOf(fp8Type)) / amax;
  if (std::isinf(scale))
    scale = static_cast<float>(valueForInf);
  return pow2 ? static_cast<float>(std::ldexp(1.0, std::ilogb(scale))) : scale;
}

int64_t scaleCount(int32_t scheme, int64_t outer, int64_t inner) {
  const int64_t innerBlocks = (inner + 127) / 128;
  if (scheme == TE_RT_PER_TENSOR)
    return 1;
  if (scheme == TE_RT_BLOCK_1X128)
    return innerBlocks * ((outer + 3) / 4 * 4);
  return (outer + 127) / 128 * ((innerBlocks + 3) / 4 * 4);
}

int64_t scaleIndex(int32_t scheme, int64_t outer, int64_t inner, int64_t o,
                   int64_t i) {
  if (scheme == TE_RT_PER_TENSOR)
    return 0;
  if (scheme == TE_RT_BLOCK_1X128)
    return i / 128 * ((outer + 3) / 4 * 4) + o;
  return o / 128 * (((inner + 127) / 128 + 3) / 4 * 4) + i / 128;
}

Quantised quantiseBlocks(const Array &x, int64_t rows, int64_t cols, int axis,
                         int32_t fp8Type, int32_t scheme, bool pow2,
                         float epsilon) {
  const int64_t outer = axis == 1 ? rows : cols;
  const int64_t inner = axis == 1 ? cols : rows;
  std::vector<double> values(x.size());
  for (size_t i = 0; i < x.size(); ++i)
    values[i] = x.at(i);
  auto at = [&](int64_t o, int64_t i) {
    return values[axis == 1 ? o * cols + i : i * cols + o];
  };
  Quantised result;
  result.data.resize(outer * inner);
  result.scale.assign(scaleCount(scheme, outer, inner), 0.0f);
  // First the amax of every block, then every element with its block's scale.
  std::vector<double> amax(result.scale.size(), 0.0);
  for (int64_t o = 0; o < outer; ++o)
    for (int64_t i = 0; i < inner; ++i) {
      double &block = amax[scaleIndex(scheme, outer, inner, o, i)];
      if (std::fabs(at(o, i)) > block)
        block = std::fabs(at(o, i));
    }
  for (int64_t o = 0; o < outer; ++o)
    for (int64_t i = 0; i < inner; ++i) {
      const int64_t block = scaleIndex(scheme, outer, inner, o, i);
      const float scale = scaleOf(static_cast<float>(amax[block]), fp8Type,
                                  pow2, epsilon, maxFiniteOf(x.type));
      // The f64 product of two f32 is exact, so the conversion rounds once.
      const auto scaled =
          static_cast<float>(at(o, i) * static_cast<double>(scale));
      result.data[o * inner + i] = encodeFp8(fp8Type, scaled);
      result.scale[block] = 1.0f / scale;
    }
  return result;
}

double e2m1Value(uint32_t code) {
  constexpr double kMagnitudes[] = {0, 0.5, 1, 1.5, 2, 3, 4, 6};
  return code & 8 ? -kMagnitudes[code & 7] : kMagnitudes[code & 7];
}

double e8m0Value(uint32_t code) {
  return code == 255 ? kNan : std::ldexp(1.0, static_cast<int>(code) - 127);
}

namespace {

int64_t roundUpTo(int64_t n, int64_t of) { return (n + of - 1) / of * of; }

struct MicroscaleShape {
  int64_t block, lines, pitch;
};
MicroscaleShape microscaleShape(int32_t scheme, int axis, int64_t rows,
                                int64_t cols) {
  if (scheme == TE_RT_MX_1X32 || scheme == TE_RT_MX_32X32) {
    if (axis == 1)
      return {32, roundUpTo(rows, 128), roundUpTo(cols / 32, 4)};
    return {32, roundUpTo(rows / 32, 4), roundUpTo(cols, 128)};
  }
  if (axis == 1)
    return {16, roundUpTo(rows, 128), roundUpTo(cols / 16, 4)};
  return {16, roundUpTo(cols, 128), roundUpTo(rows / 16, 4)};
}

/// The code of the least power of two that is at least `v`.
int coveringPower(float v) {
  if (std::isinf(v))
    return 254;
  if (v == 0)
    return 0;
  int exponent;
  const double fraction = std::frexp(static_cast<double>(v), &exponent);
  return std::clamp(exponent - (fraction == 0.5 ? 1 : 0) + 127, 0, 254);
}

} // namespace

int64_t microscaleCount(int32_t scheme, int axis, int64_t rows, int64_t cols) {
  const MicroscaleShape shape = microscaleShape(scheme, axis, rows, cols);
  return shape.lines * shape.pitch;
}

int64_t microscaleIndex(int32_t scheme, int axis, int64_t rows, int64_t cols,
                        int64_t r, int64_t c) {
  const MicroscaleShape shape = microscaleShape(scheme, axis, rows, cols);
  if (axis == 1)
    return r * shape.pitch + c / shape.block;
  if (shape.block == 32)
    return r / 32 * shape.pitch + c;
  return c * shape.pitch + r / 16;
}

Microscaled quantiseMx(const Array &x, int64_t rows, int64_t cols, int axis,
                       int32_t fp8Type, int32_t scheme) {
  Microscaled result;
  result.data.resize(rows * cols);
  result.scale.assign(microscaleCount(scheme, axis, rows, cols), 0);
  const auto factor = static_cast<float>(1.0 / maxFiniteOf(fp8Type));
  // Blocks of `height` x `width`, indexed by an element in each.
  const bool isSquare = scheme == TE_RT_MX_32X32;
  const int64_t height = isSquare || axis == 0 ? 32 : 1;
  const int64_t width = isSquare || axis == 1 ? 32 : 1;
  std::vector<double> values(x.size());
  std::vector<float> amax(rows * cols / (height * width), 0.0f);
  auto blockOf = [&](int64_t i) {
    return i / cols / height * (cols / width) + i % cols / width;
  };
  for (size_t i = 0; i < x.size(); ++i) {
    values[i] = x.at(i);
    float &block = amax[blockOf(i)];
    if (std::fabs(values[i]) > block)
      block = static_cast<float>(std::fabs(values[i]));
  }
  for (size_t i = 0; i < x.size(); ++i) {
    const float block = amax[blockOf(i)];
    // f64 products of two f32, and by powers of two, are exact, so there is one
    // rounding.
    const int code =
        coveringPower(static_cast<float>(static_cast<double>(block) * factor));
    const auto scaled = static_cast<float>(std::ldexp(values[i], 127 - code));
    result.data[i] = encodeFp8(fp8Type, scaled);
    result
        .scale[microscaleIndex(scheme, axis, rows, cols, i / cols, i % cols)] =
        static_cast<uint8_t>(code);
  }
  return result;
}

} // namespace te::conformance
