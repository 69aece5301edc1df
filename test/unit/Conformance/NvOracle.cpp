//===- NvOracle.cpp - what 4-bit quantisation must give -------------------===//

#include "Conformance/NvOracle.h"

#include <algorithm>
#include <cfloat>
#include <cmath>

namespace te::conformance {

namespace {

/// Rounds an f64 result of an f32 operation to f32. Sums and products of f32
/// are exact in f64, and quotients have so many more bits that rounding twice
/// gives the correctly rounded result.
double f32(double value) { return static_cast<float>(value); }

double atMost(double limit, double value) { return std::min(limit, value); }

/// The index of the largest magnitude of e2m1 that is at most `magnitude`.
size_t floorCode(double magnitude) {
  return std::upper_bound(std::begin(kE2M1), std::end(kE2M1), magnitude) -
         std::begin(kE2M1) - 1;
}

uint32_t withSign(uint32_t code, double value) {
  return code | (std::signbit(value) ? 8 : 0);
}

struct TensorFactor {
  double amax, factor, inverse;

  TensorFactor(double amax, int32_t scaleMax) : amax(amax) {
    factor = atMost(FLT_MAX, f32(f32(scaleMax * 6.0) / amax));
    if (amax == 0 || factor == 0)
      factor = 1;
    inverse = f32(1 / factor);
  }
};

double inverseOf(uint8_t scale, const TensorFactor &tensor) {
  const double value = decode(TE_RT_F8E4M3FN, scale);
  return atMost(FLT_MAX, f32(1 / f32(value * tensor.inverse)));
}

} // namespace

uint32_t encodeE2M1(double value) {
  if (std::isnan(value))
    return 7;
  const double magnitude = std::fabs(value);
  if (magnitude >= 6)
    return withSign(7, value);
  const size_t low = floorCode(magnitude);
  const double down = magnitude - kE2M1[low], up = kE2M1[low + 1] - magnitude;
  const bool isUp = up < down || (up == down && low % 2 == 1);
  return withSign(static_cast<uint32_t>(low + isUp), value);
}

uint32_t encodeE2M1Stochastic(double value, uint32_t random) {
  if (std::isnan(value))
    return 7;
  const double magnitude = std::fabs(value);
  if (magnitude >= 6)
    return withSign(7, value);
  const size_t low = floorCode(magnitude);
  const double place = (magnitude - kE2M1[low]) / (kE2M1[low + 1] - kE2M1[low]);
  const bool isUp = std::floor(place * 65536) + random >= 65536;
  return withSign(static_cast<uint32_t>(low + isUp), value);
}

std::array<uint32_t, 4> philoxOf(std::array<uint32_t, 4> counter,
                                 std::array<uint32_t, 2> key) {
  auto high = [](uint32_t a, uint32_t b) {
    return static_cast<uint32_t>((uint64_t{a} * b) >> 32);
  };
  constexpr uint32_t m0 = 0xd2511f53, m1 = 0xcd9e8d57;
  for (uint32_t round = 0; round < 10; ++round) {
    // The key schedule is a Weyl sequence of the golden ratio and sqrt(3) - 1.
    const uint32_t k0 = key[0] + round * 0x9e3779b9u;
    const uint32_t k1 = key[1] + round * 0xbb67ae85u;
    counter = {high(m1, counter[2]) ^ counter[1] ^ k0, m1 * counter[2],
               high(m0, counter[0]) ^ counter[3] ^ k1, m0 * counter[0]};
  }
  return counter;
}

int64_t nvScaleCount(int64_t outer, int64_t inner) {
  return (outer + 127) / 128 * 128 * ((inner / 16 + 3) / 4 * 4);
}

uint32_t nibbleOf(const std::vector<uint8_t> &packed, int64_t i) {
  return i % 2 == 0 ? packed[i / 2] % 16 : packed[i / 2] / 16;
}

NvQuantised quantiseNv(const Array &x, int64_t rows, int64_t cols, int axis,
                       const std::vector<float> &amax,
                       const NvOptions &options) {
  const int64_t outer = axis == 1 ? rows : cols;
  const int64_t inner = axis == 1 ? cols : rows;
  const int64_t groups = inner / 16, pitch = (groups + 3) / 4 * 4;
  const bool square = options.scheme == TE_RT_NV_16X16;
  std::vector<double> values(x.size());
  for (size_t i = 0; i < x.size(); ++i)
    values[i] = x.at(i);
  auto at = [&](int64_t r, int64_t c) { return values[r * cols + c]; };

  NvQuantised result;
  result.data.resize(outer * inner / 2);
  result.scale.resize(nvScaleCount(outer, inner));

  // The block of `height` rows and `width` columns at (r0, c0) of the matrix.
  const int64_t height = square || axis == 0 ? 16 : 1;
  const int64_t width = square || axis == 1 ? 16 : 1;
  for (int64_t r0 = 0; r0 < rows; r0 += height)
    for (int64_t c0 = 0; c0 < cols; c0 += width) {
      const TensorFactor tensor(amax[options.rowScaled ? r0 : 0],
                                options.scaleMax);
      double blockAmax = 0;
      for (int64_t r = r0; r < r0 + height; ++r)
        for (int64_t c = c0; c < c0 + width; ++c)
          if (std::fabs(at(r, c)) > blockAmax)
            blockAmax = std::fabs(at(r, c));

      uint8_t scale;
      if (options.fourOverSix == 0) {
        const double k = f32(tensor.factor * f32(1.0 / 6));
        scale = encodeFp8(TE_RT_F8E4M3FN, atMost(FLT_MAX, f32(blockAmax * k)));
      } else {
        const double base = f32(f32(blockAmax / 6) * tensor.factor);
        uint8_t candidates[2];
        double errors[2];
        for (int four = 0; four < 2; ++four) {
          candidates[four] = encodeFp8(
              TE_RT_F8E4M3FN, atMost(448, four ? f32(1.5 * base) : base));
          const double value = decode(TE_RT_F8E4M3FN, candidates[four]);
          const double inverse = inverseOf(candidates[four], tensor);
          // Groups of 16 elements in order; a block of a column is one group.
          std::vector<double> sums;
          for (int64_t g = 0; g < (square ? 16 : 1); ++g) {
            double sum = 0;
            for (int64_t i = 0; i < 16; ++i) {
              const double v = square      ? at(r0 + g, c0 + i)
                               : axis == 1 ? at(r0, c0 + i)
                                           : at(r0 + i, c0);
              const double q = e2m1Value(encodeE2M1(f32(v * inverse)));
              const double back = f32(f32(f32(q * value) * tensor.amax) /
                                      (6.0 * options.scaleMax));
              const double d = f32(back - v);
              sum = f32(sum +
                        (options.fourOverSix == 1 ? std::fabs(d) : f32(d * d)));
            }
            sums.push_back(sum);
          }
          while (sums.size() > 1) {
            const size_t half = sums.size() / 2;
            for (size_t i = 0; i < half; ++i)
              sums[i] = f32(sums[i] + sums[i + half]);
            sums.resize(half);
          }
          errors[four] = sums[0];
        }
        const bool four = errors[1] < errors[0];
        result.mappedToFour += four;
        scale = candidates[four];
      }

      const double inverse = inverseOf(scale, tensor);
      for (int64_t r = r0; r < r0 + height; ++r)
        for (int64_t c = c0; c < c0 + width; ++c) {
          const int64_t o = axis == 1 ? r : c, i = axis == 1 ? c : r;
          const double scaled = f32(at(r, c) * inverse);
          uint32_t code = encodeE2M1(scaled);
          if (options.stochastic) {
            const uint64_t group = o * groups + i / 16;
            const std::array<uint32_t, 4> words = philoxOf(
                {static_cast<uint32_t>(group),
                 static_cast<uint32_t>(group >> 32),
                 static_cast<uint32_t>(options.offset), axis == 1 ? 0u : 1u},
                {static_cast<uint32_t>(options.seed),
                 static_cast<uint32_t>(options.stream)});
            // Each element's byte, and below it that of the element 4 away.
            auto byteOf = [&](int64_t j) {
              return words[j / 4] >> j % 4 * 8 & 0xff;
            };
            const int64_t j = i % 16, partner = j % 8 < 4 ? j + 4 : j - 4;
            code =
                encodeE2M1Stochastic(scaled, byteOf(j) * 256 + byteOf(partner));
          }
          result.data[(o * inner + i) / 2] |=
              static_cast<uint8_t>(code << (i % 2 * 4));
          result.scale[o * pitch + i / 16] = scale;
        }
    }
  return result;
}

} // namespace te::conformance
