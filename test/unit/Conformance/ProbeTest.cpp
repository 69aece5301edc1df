//===- ProbeTest.cpp - statistics and NaN of tensors ----------------------===//
//
// The statistics are computed in f64 from the description of their kernel, with
// the codes and scale layouts of Oracle. Data and scales are random bytes:
// probes also work for casts that make no sense, and random scales have all
// extreme values. One explicit case checks the meaning of the numbers.
//
//===----------------------------------------------------------------------===//

#include "Conformance/Harness.h"
#include "Conformance/Oracle.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <set>

using namespace te::conformance;

namespace {

constexpr int32_t kTypes[] = {TE_RT_F32, TE_RT_BF16, TE_RT_F16};
constexpr const char *kKinds[] = {"normal",  "zeros",     "inf",  "nan",
                                  "negzero", "subnormal", "huge", "wide"};
constexpr double kInf = std::numeric_limits<double>::infinity();

class Probe : public BackendTest {};

//===----------------------------------------------------------------------===//
// count_nonfinite
//===----------------------------------------------------------------------===//

TEST_P(Probe, CountNonfinite) {
  constexpr int64_t kEntries = 5;
  for (int32_t type : kTypes)
    for (const char *kind : kKinds)
      for (int64_t count : {0, 1, 37, 4096, 70001})
        for (bool casts : {false, true}) {
          const Array x = makeArray(kind, type, count);
          const std::vector<float> scale = {37.5f};
          const float limit = 464.0f;
          const int64_t index = count % kEntries;
          std::vector<uint32_t> counts(3 * kEntries);
          for (size_t i = 0; i < counts.size(); ++i)
            counts[i] = 0xfffffff0u + static_cast<uint32_t>(i);
          std::vector<uint32_t> expected = counts;
          for (size_t i = 0; i < x.size(); ++i) {
            const double value = x.at(i);
            expected[3 * index] += std::isnan(value);
            expected[3 * index + 1] += std::isinf(value);
            expected[3 * index + 2] +=
                casts && std::isfinite(value) &&
                std::fabs(roundTo(TE_RT_F32, value * scale[0])) > limit;
          }
          SCOPED_TRACE(std::string(kind) + " type " + std::to_string(type) +
                       " count " + std::to_string(count));
          const auto plan =
              TE_PLAN(count_nonfinite, count, type, kEntries, index, limit);
          for (const Buffer &input : {in(x.bytes), unaligned(in(x.bytes), 4)}) {
            std::vector<uint32_t> copied(counts.size()), inPlace(counts.size());
            const Buffer scaleBuffer = casts ? in(scale) : none();
            device().run(plan, {input, scaleBuffer, in(counts), out(copied)});
            EXPECT_EQ(copied, expected);
            device().run(plan,
                         {input, scaleBuffer, in(counts), outOn(2, inPlace)});
            EXPECT_EQ(inPlace, expected);
          }
        }
}

//===----------------------------------------------------------------------===//
// tensor_stats
//===----------------------------------------------------------------------===//

/// A run sum, as in the kernel list.
double runSum(const std::vector<double> &terms) {
  double total = 0;
  for (size_t begin = 0; begin < terms.size(); begin += 32768) {
    double lanes[256] = {};
    for (size_t i = begin; i < std::min(terms.size(), begin + 32768); ++i)
      lanes[(i - begin) % 256] += terms[i];
    for (int s = 128; s != 0; s /= 2)
      for (int i = 0; i < s; ++i)
        lanes[i] += lanes[i + s];
    total += lanes[0];
  }
  return total;
}

float f32(double value) { return static_cast<float>(value); }

bool isMx(int32_t scheme) {
  return scheme == TE_RT_MX_1X32 || scheme == TE_RT_MX_32X32;
}
bool isNv(int32_t scheme) { return scheme >= TE_RT_NV_1X16; }

/// A cast, whose statistics are computed.
struct Cast {
  int64_t rows, cols;
  int32_t fp8Type, scheme, axis, rowScaled = 0, scaleMax = 0;
  std::vector<uint8_t> data = {}, scale = {};
  std::vector<float> amax = {};

  bool isFP4() const { return isNv(scheme); }
  bool isMicroscaled() const { return scheme >= TE_RT_MX_1X32; }

  uint32_t code(int64_t r, int64_t c) const {
    const bool moved = axis == 0 && !isMx(scheme);
    const int64_t i = moved ? c * rows + r : r * cols + c;
    return isFP4() ? data[i / 2] >> (i % 2 * 4) & 0xf : data[i];
  }
  int64_t numScales() const {
    if (isMicroscaled())
      return microscaleCount(scheme, axis, rows, cols);
    return 4 * scaleCount(scheme, axis ? rows : cols, axis ? cols : rows);
  }
  /// The value of the scale, and its index.
  int64_t place(int64_t r, int64_t c) const {
    if (isMicroscaled())
      return microscaleIndex(scheme, axis, rows, cols, r, c);
    return axis ? scaleIndex(scheme, rows, cols, r, c)
                : scaleIndex(scheme, cols, rows, c, r);
  }
  float scaleAt(int64_t r, int64_t c) const {
    const int64_t i = place(r, c);
    if (!isMicroscaled()) {
      float value;
      std::memcpy(&value, &scale[4 * i], 4);
      return value;
    }
    if (!isFP4())
      return f32(e8m0Value(scale[i]));
    const double block = decode(TE_RT_F8E4M3FN, scale[i]);
    const double level = f32(block * amax[rowScaled ? r : 0]);
    return f32(level * f32(1.0 / (6.0 * scaleMax)));
  }
  bool isClipped(int64_t r, int64_t c) const {
    const int64_t i = place(r, c);
    if (!isMicroscaled())
      return !std::isnormal(scaleAt(r, c));
    if (!isFP4())
      return scale[i] == 0 || scale[i] == 254 || scale[i] == 255;
    const double value = decode(TE_RT_F8E4M3FN, scale[i]);
    return value == 0 || std::isnan(value);
  }
  /// The least row and column that share a scale with (r, c).
  std::pair<int64_t, int64_t> blockOf(int64_t r, int64_t c) const {
    const int64_t size = isNv(scheme) ? 16 : isMx(scheme) ? 32 : 128;
    if (scheme == TE_RT_PER_TENSOR)
      return {0, 0};
    const bool square = scheme == TE_RT_BLOCK_128X128 ||
                        scheme == TE_RT_MX_32X32 || scheme == TE_RT_NV_16X16;
    return {square || axis == 0 ? r / size : r,
            square || axis == 1 ? c / size : c};
  }
};

std::vector<float> expectedStats(const Array &x, const Cast &cast,
                                 bool hasCast) {
  std::vector<double> values, squares, errors;
  double amax = 0, amin = kInf, scaleMin = kInf, scaleMax = 0;
  double zeros = 0, nans = 0, infs = 0, underflows = 0, overflows = 0;
  std::set<std::pair<int64_t, int64_t>> clipped;
  for (int64_t r = 0; r < cast.rows; ++r)
    for (int64_t c = 0; c < cast.cols; ++c) {
      const double v = x.at(r * cast.cols + c);
      const bool isFinite = std::isfinite(v);
      nans += std::isnan(v);
      infs += std::isinf(v);
      zeros += v == 0;
      if (std::fabs(v) > amax)
        amax = std::fabs(v);
      if (isFinite && v != 0)
        amin = std::min(amin, std::fabs(v));
      // Elements that are not counted keep their lanes.
      values.push_back(isFinite ? v : 0);
      squares.push_back(isFinite ? v * v : 0);
      if (!hasCast)
        continue;
      const float scale = cast.scaleAt(r, c);
      if (scale > scaleMax)
        scaleMax = scale;
      if (scale < scaleMin)
        scaleMin = scale;
      if (v != 0 && cast.isClipped(r, c))
        clipped.insert(cast.blockOf(r, c));
      const uint32_t code = cast.code(r, c);
      const double q =
          cast.isFP4() ? e2m1Value(code) : decode(cast.fp8Type, code);
      const float value = f32(q * scale);
      errors.push_back(isFinite ? (value - v) * (value - v) : 0);
      if (!isFinite)
        continue;
      const double largest = cast.isFP4() ? 6 : maxFiniteOf(cast.fp8Type);
      const double next = cast.isFP4()                     ? 7
                          : cast.fp8Type == TE_RT_F8E4M3FN ? 464
                                                           : 61440;
      underflows += v != 0 && q == 0;
      overflows += std::fabs(q) == largest &&
                   std::fabs(v) > f32(std::fabs(value) *
                                      static_cast<double>(f32(next / largest)));
    }
  const double count = static_cast<double>(cast.rows * cast.cols);
  const double n = count - nans - infs;
  const double mean = n > 0 ? runSum(values) / n : 0;
  const double sumOfSquares = runSum(squares);
  const double variance = n > 0 ? sumOfSquares / n - mean * mean : 0;
  auto percent = [&](double k) { return f32(count > 0 ? 100 * k / count : 0); };
  std::vector<float> stats = {
      f32(amax),      f32(amin == kInf ? 0 : amin),
      f32(mean),      f32(std::sqrt(std::max(variance, 0.0))),
      percent(zeros), f32(nans),
      f32(infs)};
  if (!hasCast)
    return stats;
  const double noise = runSum(errors);
  for (float each :
       {percent(underflows), percent(overflows), f32(n > 0 ? noise / n : 0),
        f32(noise == 0 ? kInf : sumOfSquares / noise), f32(scaleMin),
        f32(scaleMax), f32(static_cast<double>(clipped.size()))})
    stats.push_back(each);
  return stats;
}

class TensorStats : public Probe {
protected:
  void check(const Array &x, const Cast &cast, bool hasCast) {
    const auto plan =
        TE_PLAN(tensor_stats, cast.rows, cast.cols, x.type, cast.fp8Type,
                cast.scheme, cast.axis, cast.rowScaled, cast.scaleMax);
    const std::vector<float> expected = expectedStats(x, cast, hasCast);
    std::vector<float> stats(expected.size());
    device().run(plan, {in(x.bytes), hasCast ? in(cast.data) : none(),
                        hasCast ? in(cast.scale) : none(),
                        hasCast && cast.isFP4() ? in(cast.amax) : none(),
                        out(stats)});
    for (size_t i = 0; i < stats.size(); ++i)
      EXPECT_TRUE(std::memcmp(&stats[i], &expected[i], 4) == 0 ||
                  (std::isnan(stats[i]) && std::isnan(expected[i])))
          << "entry " << i << ": expected " << expected[i] << ", but got "
          << stats[i];
  }
};

TEST_P(TensorStats, HighPrecision) {
  for (int32_t type : kTypes)
    for (const char *kind : kKinds)
      for (auto [rows, cols] : {std::pair(0, 7), {1, 1}, {3, 37}, {300, 301}}) {
        SCOPED_TRACE(std::string(kind) + " type " + std::to_string(type) + " " +
                     std::to_string(rows) + "x" + std::to_string(cols));
        check(makeArray(kind, type, rows * cols),
              {rows, cols, TE_RT_F8E4M3FN, TE_RT_PER_TENSOR, 1}, false);
      }
}

TEST_P(TensorStats, RandomCasts) {
  std::mt19937 random(5);
  auto bytes = [&](int64_t count) {
    std::vector<uint8_t> result(count);
    for (uint8_t &each : result)
      each = static_cast<uint8_t>(random());
    return result;
  };
  for (int32_t scheme = TE_RT_PER_TENSOR; scheme <= TE_RT_NV_16X16; ++scheme)
    for (int32_t axis : {0, 1})
      for (int32_t fp8Type : {TE_RT_F8E4M3FN, TE_RT_F8E5M2, TE_RT_F4E2M1FN})
        for (const char *kind : {"normal", "inf", "nan", "subnormal", "wide"})
          for (int32_t variant : {0, 1, 2}) {
            if ((fp8Type == TE_RT_F4E2M1FN) != isNv(scheme))
              continue;
            const bool whole = scheme >= TE_RT_MX_1X32;
            Cast cast{whole ? 288 : 131, whole ? 320 : 300, fp8Type, scheme,
                      axis};
            if (isNv(scheme)) {
              cast.scaleMax = variant == 1 ? 256 : 448;
              cast.rowScaled =
                  variant == 2 && scheme == TE_RT_NV_1X16 && axis == 1;
              cast.amax.resize(cast.rowScaled ? cast.rows : 1);
              for (float &each : cast.amax)
                each = std::exp2(static_cast<float>(random() % 60) - 30.0f);
            }
            cast.data = bytes(cast.rows * cast.cols / (isNv(scheme) ? 2 : 1));
            cast.scale = bytes(cast.numScales());
            // Every tenth scale is random. The others are near the data, so
            // that codes are large and small.
            if (!cast.isMicroscaled())
              for (size_t i = 0; i < cast.scale.size(); i += 4) {
                const float near =
                    std::exp2(static_cast<float>(random() % 20) - 14.0f);
                if (random() % 10 != 0)
                  std::memcpy(&cast.scale[i], &near, 4);
              }
            else
              for (uint8_t &each : cast.scale)
                if (random() % 10 != 0)
                  each =
                      isNv(scheme) ? 0x28 + random() % 32 : 113 + random() % 20;
            // The scale of a square block is repeated.
            if (scheme == TE_RT_MX_32X32 || scheme == TE_RT_NV_16X16)
              for (int64_t r = 0; r < cast.rows; ++r)
                for (int64_t c = 0; c < cast.cols; ++c) {
                  const int64_t size = isNv(scheme) ? 16 : 32;
                  cast.scale[cast.place(r, c)] =
                      cast.scale[cast.place(r / size * size, c / size * size)];
                }
            const int32_t type = kTypes[random() % 3];
            SCOPED_TRACE(
                std::string(kind) + " scheme " + std::to_string(scheme) +
                " axis " + std::to_string(axis) + " type " +
                std::to_string(type) + " variant " + std::to_string(variant));
            check(makeArray(kind, type, cast.rows * cast.cols, random()), cast,
                  true);
            if (HasFailure())
              return;
          }
}

/// The meaning of the numbers, in an explicit case.
TEST_P(TensorStats, ByHand) {
  constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
  // With scale 1, 464 is the midpoint to the next code and rounds to 448; 465
  // overflows.
  const std::vector<float> x = {464, -465, 0x1p-10f, 0x1p-9f, 0, 2, kNaN, 2};
  const std::vector<float> one = {1.0f};
  std::vector<uint8_t> row(8);
  std::vector<float> rowScale(1);
  device().run(
      TE_PLAN(quantize_tensor, 1, 2, 4, 2, 4, TE_RT_F32, TE_RT_F32,
              TE_RT_F8E4M3FN, 0, 0, 0.0f),
      {in(x), in(one), out(row), out(rowScale), none(), none(), none()});
  std::vector<float> stats(14);
  device().run(TE_PLAN(tensor_stats, 2, 4, TE_RT_F32, TE_RT_F8E4M3FN,
                       TE_RT_PER_TENSOR, 1, 0, 0),
               {in(x), in(row), in(rowScale), none(), out(stats)});
  EXPECT_EQ(stats[TE_RT_STAT_AMAX], 465);
  EXPECT_EQ(stats[TE_RT_STAT_AMIN], 0x1p-10f);
  EXPECT_EQ(stats[TE_RT_STAT_MEAN], f32((3 + 0x1.8p-9) / 7));
  EXPECT_EQ(stats[TE_RT_STAT_ZEROS], 12.5f);
  EXPECT_EQ(stats[TE_RT_STAT_NAN], 1);
  EXPECT_EQ(stats[TE_RT_STAT_INF], 0);
  EXPECT_EQ(stats[TE_RT_STAT_UNDERFLOWS], 12.5f);
  EXPECT_EQ(stats[TE_RT_STAT_OVERFLOWS], 12.5f);
  const double noise = 16 * 16 + 17 * 17 + 0x1p-20;
  EXPECT_EQ(stats[TE_RT_STAT_MSE], f32(noise / 7));
  const double signal =
      464.0 * 464 + 465.0 * 465 + 0x1p-20 + 0x1p-18 + 2 * 2 + 2 * 2;
  EXPECT_EQ(stats[TE_RT_STAT_SNR], f32(signal / noise));
  EXPECT_EQ(stats[TE_RT_STAT_SCALE_INV_MIN], 1);
  EXPECT_EQ(stats[TE_RT_STAT_SCALE_INV_MAX], 1);
  EXPECT_EQ(stats[TE_RT_STAT_SCALES_CLIPPED], 0);
}

/// Statistics of a cast need its scale, and those of nv its amax.
TEST_P(TensorStats, MissingBuffers) {
  const std::vector<float> x(16 * 16, 1.0f), one = {1.0f};
  std::vector<uint8_t> data(256), scale(128 * 4);
  std::vector<float> stats(14);
  EXPECT_EQ(device().tryRun(TE_PLAN(tensor_stats, 16, 16, TE_RT_F32,
                                    TE_RT_F8E5M2, TE_RT_PER_TENSOR, 1, 0, 0),
                            {in(x), in(data), none(), none(), out(stats)}),
            TE_RT_INVALID_ARGUMENT);
  EXPECT_NE(device().message.find("'scale' beside 'data'"), std::string::npos)
      << device().message;
  EXPECT_EQ(device().tryRun(TE_PLAN(tensor_stats, 16, 16, TE_RT_F32,
                                    TE_RT_F4E2M1FN, TE_RT_NV_1X16, 1, 0, 448),
                            {in(x), in(data), in(scale), none(), out(stats)}),
            TE_RT_INVALID_ARGUMENT);
  EXPECT_NE(device().message.find("'amax' for nv"), std::string::npos)
      << device().message;
}

TE_FOR_EACH_BACKEND(Probe);
TE_FOR_EACH_BACKEND(TensorStats);

} // namespace
