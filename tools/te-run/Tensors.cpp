//===- Tensors.cpp - arrays of files against arguments of a step ----------===//

#include "Tensors.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <numbers>
#include <string_view>

namespace te::run {
namespace {

struct TypeNames {
  const char *name;
  int64_t bytes;
  /// What an array of this type may be called; results are written as `file`.
  std::vector<std::string_view> accepted;
  const char *file;
  /// In .safetensors files.
  const char *checkpoint;
};

const TypeNames &namesOf(te_rt_dtype type) {
  static const std::array<TypeNames, 8> table = {{
      {"f32", 4, {"<f4"}, "<f4", "F32"},
      {"bf16", 2, {"bfloat16", "<u2", "|V2", "<V2"}, "<u2", "BF16"},
      {"f16", 2, {"<f2"}, "<f2", "F16"},
      {"f8E4M3FN", 1, {"float8_e4m3fn", "|u1", "|V1", "<V1"}, "|u1", "F8_E4M3"},
      {"f8E5M2", 1, {"float8_e5m2", "|u1", "|V1", "<V1"}, "|u1", "F8_E5M2"},
      {"i32", 4, {"<i4"}, "<i4", "I32"},
      // Two elements a byte.
      {"f4E2M1FN", 1, {"|u1", "|V1", "<V1"}, "|u1", "F4"},
      {"f8E8M0FNU",
       1,
       {"float8_e8m0fnu", "|u1", "|V1", "<V1"},
       "|u1",
       "F8_E8M0"},
  }};
  return table[type];
}

/// splitmix64: one multiplication chain per value, the same on every machine.
class Generator {
public:
  explicit Generator(uint64_t state) : state(state) {}

  uint64_t bits() {
    state += 0x9e3779b97f4a7c15u;
    uint64_t z = state;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  }
  /// In (0, 1].
  double uniform() { return ((bits() >> 11) + 1) * 0x1p-53; }
  /// Box-Muller.
  double normal() {
    const double radius = std::sqrt(-2.0 * std::log(uniform()));
    return radius * std::cos(2.0 * std::numbers::pi * uniform());
  }

private:
  uint64_t state;
};

/// FNV-1a.
uint64_t hashName(std::string_view name) {
  uint64_t hash = 0xcbf29ce484222325u;
  for (unsigned char c : name)
    hash = (hash ^ c) * 0x100000001b3u;
  return hash;
}

/// Nearest, ties to even; finite values only.
uint16_t toBf16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  return static_cast<uint16_t>((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}

/// A float of `exponent` and `mantissa` bits below its sign. With `ieee` the
/// largest exponent is inf and NaN.
double decodeFloat(uint32_t bits, int exponent, int mantissa, bool ieee) {
  const int largest = (1 << exponent) - 1, bias = largest >> 1;
  const int e = bits >> mantissa & largest;
  const int m = bits & ((1 << mantissa) - 1);
  double value = e == 0 ? std::ldexp(m, 1 - bias - mantissa)
                        : std::ldexp(m + (1 << mantissa), e - bias - mantissa);
  if (ieee && e == largest)
    value = m == 0 ? INFINITY : NAN;
  return bits >> (exponent + mantissa) & 1 ? -value : value;
}

/// Writes `value` as element `i` of an array of a floating type above 8 bits.
void storeFloat(te_rt_dtype type, uint8_t *data, int64_t i, float value) {
  if (type == TE_RT_F32) {
    std::memcpy(data + 4 * i, &value, 4);
    return;
  }
  const uint16_t half = type == TE_RT_BF16
                            ? toBf16(value)
                            : std::bit_cast<uint16_t>(_Float16(value));
  std::memcpy(data + 2 * i, &half, 2);
}

} // namespace

int64_t TensorSpec::numElements() const {
  int64_t count = 1;
  for (int64_t size : shape)
    count *= size;
  return count;
}

int64_t TensorSpec::bytes() const {
  return numElements() * namesOf(type).bytes;
}

std::string TensorSpec::str() const {
  return std::string(namesOf(type).name) + " " + support::shapeText(shape);
}

std::string fileType(te_rt_dtype type) { return namesOf(type).file; }

std::string checkpointType(te_rt_dtype type) {
  return namesOf(type).checkpoint;
}

std::vector<int64_t> checkpointShape(const TensorSpec &spec) {
  std::vector<int64_t> shape = spec.shape;
  if (spec.type == TE_RT_F4E2M1FN)
    shape.back() *= 2;
  return shape;
}

bool fits(const TensorSpec &spec, const support::NpyArray &array, int64_t steps,
          std::string &error) {
  const TypeNames &names = namesOf(spec.type);
  const std::string label = spec.name + (steps ? ".steps" : "");
  bool known = false;
  std::string accepted;
  for (std::string_view name : names.accepted) {
    known |= array.dtype == name;
    accepted += (accepted.empty() ? "'" : ", '") + std::string(name) + "'";
  }
  if (!known) {
    error = "expected array '" + label + "' to hold " + names.name +
            ", stored as one of " + accepted + ", but its type is '" +
            array.dtype + "'";
    return false;
  }
  std::vector<int64_t> expected = spec.shape;
  if (steps)
    expected.insert(expected.begin(), steps);
  if (array.shape != expected) {
    error = "expected array '" + label + "' to have shape " +
            support::shapeText(expected) +
            (steps ? ", one for each of '--steps'" : "") + ", but got " +
            support::shapeText(array.shape);
    return false;
  }
  return true;
}

double decodeElement(te_rt_dtype type, uint32_t bits) {
  switch (type) {
  case TE_RT_F32:
    return std::bit_cast<float>(bits);
  case TE_RT_BF16:
    return std::bit_cast<float>(bits << 16);
  case TE_RT_F16:
    return decodeFloat(bits, 5, 10, /*ieee=*/true);
  case TE_RT_F8E4M3FN:
    return (bits & 0x7f) == 0x7f ? NAN : decodeFloat(bits, 4, 3, false);
  case TE_RT_F8E5M2:
    return decodeFloat(bits, 5, 2, /*ieee=*/true);
  case TE_RT_F4E2M1FN:
    return decodeFloat(bits, 2, 1, /*ieee=*/false);
  case TE_RT_F8E8M0FNU:
    return bits == 0xff ? NAN : std::ldexp(1.0, static_cast<int>(bits) - 127);
  default:
    return static_cast<int32_t>(bits);
  }
}

std::string noMemoryFor(const TensorSpec &spec) {
  int64_t bytes = 0;
  const bool isCountable =
      support::checkedByteSize(spec.shape, namesOf(spec.type).bytes, bytes);
  return "no host memory for '" + spec.name + "' (" + spec.str() + ", " +
         (isCountable ? std::to_string(bytes)
                      : "more than " + std::to_string(INT64_MAX)) +
         " bytes)";
}

bool zerosArray(const TensorSpec &spec, support::NpyArray &array) {
  array = {fileType(spec.type), spec.shape, {}};
  // A size that the command line is a factor of.
  int64_t bytes = 0;
  return support::checkedByteSize(spec.shape, namesOf(spec.type).bytes,
                                  bytes) &&
         support::tryResize(array.data, bytes);
}

bool drawArray(const TensorSpec &spec, uint64_t seed,
               support::NpyArray &array) {
  if (!zerosArray(spec, array))
    return false;
  Generator generator(hashName(spec.name) ^ (seed * 0x9e3779b97f4a7c15u));
  const double deviation = spec.isWeight ? 0.02 : 1.0;
  for (int64_t i = 0; i < spec.numElements(); ++i) {
    switch (spec.type) {
    case TE_RT_I32: {
      const int32_t id = generator.bits() >> 56;
      std::memcpy(&array.data[4 * i], &id, 4);
      break;
    }
    case TE_RT_F8E4M3FN:
    case TE_RT_F8E5M2: {
      // The bytes above the largest finite magnitude are inf and NaN.
      const uint8_t largest = spec.type == TE_RT_F8E4M3FN ? 0x7e : 0x7b;
      const uint64_t bits = generator.bits();
      array.data[i] = (bits >> 32) % (largest + 1) | (bits >> 63) << 7;
      break;
    }
    case TE_RT_F4E2M1FN:
      array.data[i] = generator.bits() >> 56;
      break;
    case TE_RT_F8E8M0FNU:
      // Factors from 1/8 to 16.
      array.data[i] = 124 + (generator.bits() >> 61);
      break;
    default:
      storeFloat(spec.type, array.data.data(), i,
                 static_cast<float>(deviation * generator.normal()));
    }
  }
  return true;
}

bool filledArray(const TensorSpec &spec, float value,
                 support::NpyArray &array) {
  if (!zerosArray(spec, array))
    return false;
  // No value of a type, whatever its bits.
  if (std::isnan(value)) {
    std::fill(array.data.begin(), array.data.end(), 0xff);
    return true;
  }
  const auto integer = static_cast<int32_t>(value);
  for (int64_t i = 0; i < spec.numElements(); ++i)
    if (spec.type == TE_RT_I32)
      std::memcpy(&array.data[4 * i], &integer, 4);
    else
      storeFloat(spec.type, array.data.data(), i, value);
  return true;
}

} // namespace te::run
