//===- MomentsTest.cpp - AdamW with moments of 8 bits ---------------------===//
//
// Codes and scales are computed here again, from their definition, and compared
// to the bit.
//
//===----------------------------------------------------------------------===//

#include "Conformance/Harness.h"
#include "Conformance/NvOracle.h"
#include "Conformance/Oracle.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <string>

using namespace te::conformance;

namespace {

constexpr int32_t kTypes[] = {TE_RT_F32, TE_RT_BF16, TE_RT_F16};

class Moments : public BackendTest {};

/// 8-bit moments of a type: codes, and a scale for each 128 of them.
struct Rounded {
  Array codes;
  std::vector<float> scales;

  Rounded(int32_t type, int64_t count)
      : codes(type, count), scales((count + 127) / 128) {}

  double at(int64_t i) const {
    return codes.at(i) * static_cast<double>(scales[i / 128]);
  }
  static std::vector<float> joined(const Rounded &m, const Rounded &v) {
    std::vector<float> both = m.scales;
    both.insert(both.end(), v.scales.begin(), v.scales.end());
    return both;
  }
};

/// What the page of kernels says that moments become: the two codes around a
/// value are found in the table of all codes.
Rounded rounded(int32_t type, const std::vector<float> &values, uint32_t seed,
                float step) {
  const bool isFirst = type == TE_RT_F8E4M3FN;
  const int top = isFirst ? 7 : 14;
  const double normal = isFirst ? 0x1p-6 : 0x1p-14;
  const auto count = static_cast<int64_t>(values.size());
  Rounded result(type, count);
  for (int64_t block = 0; block * 128 < count; ++block) {
    const int64_t first = block * 128,
                  end = std::min<int64_t>(first + 128, count);
    double largest = 0;
    for (int64_t i = first; i < end; ++i)
      if (std::isfinite(values[i]))
        largest = std::max<double>(largest, std::fabs(values[i]));
    const int exponent = largest > 0 ? std::ilogb(largest) - top : -126;
    result.scales[block] = std::ldexp(1.0f, std::max(exponent, -126));
    for (int64_t i = first; i < end; ++i) {
      if (!std::isfinite(values[i])) {
        result.codes.bytes[i] = 0x7f;
        continue;
      }
      double y = std::fabs(static_cast<double>(values[i])) /
                 static_cast<double>(result.scales[block]);
      if (y < normal)
        y = roundTo(TE_RT_F32, y + normal) - normal;
      uint32_t code = 0;
      while (decode(type, code + 1) <= y)
        ++code;
      const double low = decode(type, code), high = decode(type, code + 1);
      const auto group = static_cast<uint64_t>(i) / 4;
      const uint32_t word = philoxOf({static_cast<uint32_t>(group),
                                      static_cast<uint32_t>(group >> 32),
                                      std::bit_cast<uint32_t>(step), 2},
                                     {seed, 0})[i % 4];
      const uint32_t bits = isFirst ? word & 0xffff : word >> 16;
      if (std::floor((y - low) / (high - low) * 65536) + bits >= 65536)
        ++code;
      if (!isFirst && code == 0 && values[i] > 0)
        code = 1;
      result.codes.bytes[i] = code | (std::signbit(values[i]) ? 0x80 : 0);
    }
  }
  return result;
}

// Moments of 8 bits give the parameters of the same moments in f32, whose new
// values they round as the definition says, to the bit.
TEST_P(Moments, OfEightBits) {
  const std::vector<float> lr{0.01f}, scale{0.3f};
  for (int64_t count : {0, 1, 127, 128, 129, 5003})
    for (int32_t type : kTypes)
      for (const char *kind :
           {"normal", "wide", "zeros", "subnormal", "huge", "inf", "nan"})
        for (int offset : {0, 4}) {
          const std::vector<float> step{static_cast<float>(count + 1)};
          const uint32_t seed = 17 + offset;
          const Array param = makeArray("normal", type, count, 1);
          const Array grad = makeArray(kind, type, count, 2);
          // Each code, with scales over the whole range.
          Rounded m(TE_RT_F8E4M3FN, count), v(TE_RT_F8E5M2, count);
          Array mWide(TE_RT_F32, count), vWide(TE_RT_F32, count);
          for (size_t block = 0; block < m.scales.size(); ++block) {
            m.scales[block] = std::ldexp(1.0f, block % 3 * 40 - 100);
            v.scales[block] = std::ldexp(1.0f, block % 5 * 30 - 126);
          }
          for (int64_t i = 0; i < count; ++i) {
            m.codes.bytes[i] = i * 37 % 256;
            v.codes.bytes[i] = i * 11 % 128;
            mWide.set(i, m.at(i));
            vWide.set(i, v.at(i));
          }
          Array exactParam(type, count), newParam(type, count);
          std::vector<float> exactM(count), exactV(count);
          device().run(TE_PLAN(adamw, count, type, type, 0.9f, 0.999f, 1e-8f,
                               0.1f, TE_RT_F32, 0),
                       {in(param.bytes), in(grad.bytes), in(mWide.bytes),
                        in(vWide.bytes), in(lr), in(step), in(scale),
                        out(exactParam.bytes), out(exactM), out(exactV)});
          std::vector<float> scales = Rounded::joined(m, v), newScales = scales;
          std::vector<uint8_t> newM = m.codes.bytes, newV = v.codes.bytes;
          // Half of the runs write moments in place.
          auto to = [&](int input, auto &values) {
            return offset ? unaligned(out(values), offset)
                          : outOn(input, values);
          };
          device().run(TE_PLAN(adamw_fp8, count, type, type, 0.9f, 0.999f,
                               1e-8f, 0.1f, static_cast<int32_t>(seed)),
                       {unaligned(in(param.bytes), offset), in(grad.bytes),
                        in(m.codes.bytes), in(v.codes.bytes), in(scales),
                        in(lr), in(step), in(scale), out(newParam.bytes),
                        to(2, newM), to(3, newV),
                        offset ? out(newScales) : outOn(4, newScales)});
          const std::string what = std::to_string(count) + " of type " +
                                   std::to_string(type) + ", " + kind;
          EXPECT_TRUE(sameBits(exactParam, newParam)) << what;
          const Rounded expectedM =
              rounded(TE_RT_F8E4M3FN, exactM, seed, step[0]);
          const Rounded expectedV =
              rounded(TE_RT_F8E5M2, exactV, seed, step[0]);
          EXPECT_EQ(newM, expectedM.codes.bytes) << what;
          EXPECT_EQ(newV, expectedV.codes.bytes) << what;
          EXPECT_EQ(newScales, Rounded::joined(expectedM, expectedV)) << what;
        }
}

TE_FOR_EACH_BACKEND(Moments);

} // namespace
