//===- Probe.h - what a probe gathers of a tensor -------------------------===//
//
// The formulas of count_nonfinite and tensor_stats, compiled by host and device
// alike (see Math.h). A probe looks at every element once and gathers a row of
// f64: sums, maxima and minima, each with its own way to combine. Backends
// differ only in who looks at which element; the order of combining is that of
// the kernel list.
//
// Blocks with a clipped scale are counted by their first element that is not 0.
// Such blocks are rare, so that element may afford to look at those before it.
//
//===----------------------------------------------------------------------===//

#ifndef TE_RUNTIME_CORE_PROBE_H
#define TE_RUNTIME_CORE_PROBE_H

#include "Core/Formulas.h"

namespace te::rt {

/// Elements of one run of a run sum.
inline constexpr int64_t kProbeRun = 32768;

/// What is gathered. Sums come first, then maxima, then minima.
enum ProbeField : int {
  kProbeSum,
  kProbeSquares,
  kProbeErrors,
  kProbeZeros,
  kProbeNaN,
  kProbeInf,
  kProbeUnderflows,
  kProbeOverflows,
  kProbeClipped,
  kProbeAmax,
  kProbeScaleMax,
  kProbeAmin,
  kProbeScaleMin,
  kProbeFields
};

struct ProbeRow {
  double field[kProbeFields];
};

/// A scaled value of logical shape [rows, cols] as the kernel list lays it out.
/// `data` is null where there is none.
struct ProbeCast {
  const uint8_t *data;
  const void *scale;
  const float *amax;
  int64_t rows, cols;
  int32_t fp8Type, scheme, axis, rowScaled, scaleMax;
};

namespace math {

TE_HOST_DEVICE bool isNaN(float x) { return x != x; }
TE_HOST_DEVICE bool isInfinite(float x) {
  return (floatToBits(x) & 0x7fffffffu) == 0x7f800000u;
}

/// Whether a cast with `scale` loses `x`: see count_nonfinite.
TE_HOST_DEVICE bool isLost(float x, float scale, float limit) {
  return !isNaN(x) && !isInfinite(x) && fabsf(x * scale) > limit;
}

//===----------------------------------------------------------------------===//
// Combining
//===----------------------------------------------------------------------===//

/// What combines with anything to that.
TE_HOST_DEVICE double probeStart(int field) {
  return field >= kProbeAmin ? static_cast<double>(kInfinity) : 0.0;
}
TE_HOST_DEVICE double probeCombine(int field, double a, double b) {
  if (field >= kProbeAmin)
    return b < a ? b : a;
  if (field >= kProbeAmax)
    return b > a ? b : a;
  return a + b;
}

//===----------------------------------------------------------------------===//
// Elements
//===----------------------------------------------------------------------===//

TE_HOST_DEVICE int64_t up(int64_t n, int64_t multiple) {
  return (n + multiple - 1) / multiple * multiple;
}

/// The value of an 8-bit float: its bits, moved to an f32 that is smaller by a
/// power of two.
TE_HOST_DEVICE float fp8ToFloat(uint8_t code, int32_t type) {
  const uint32_t magnitude = code & 0x7fu;
  float value;
  if (type == TE_RT_F8E4M3FN)
    value = magnitude == 0x7f ? bitsToFloat(0x7fffffffu)
                              : bitsToFloat(magnitude << 20) * 0x1p120f;
  else
    value = magnitude == 0x7c  ? kInfinity
            : magnitude > 0x7c ? bitsToFloat(0x7fffffffu)
                               : bitsToFloat(magnitude << 21) * 0x1p112f;
  return code & 0x80 ? -value : value;
}

/// One element of a cast.
struct ProbeElement {
  float value, scaleInv;
  bool isZero, isLargest, isClipped;
};

/// Rows and columns of the block of one scale; a whole tensor has none.
struct ProbeBlock {
  int64_t height, width;
};
TE_HOST_DEVICE ProbeBlock probeBlock(const ProbeCast &cast) {
  int64_t block = 128;
  if (cast.scheme == TE_RT_MX_1X32 || cast.scheme == TE_RT_MX_32X32)
    block = 32;
  if (cast.scheme == TE_RT_NV_1X16 || cast.scheme == TE_RT_NV_16X16)
    block = 16;
  const bool isSquare = cast.scheme == TE_RT_BLOCK_128X128 ||
                        cast.scheme == TE_RT_MX_32X32 ||
                        cast.scheme == TE_RT_NV_16X16;
  return {isSquare || cast.axis == 0 ? block : 1,
          isSquare || cast.axis == 1 ? block : 1};
}

/// Where the scale of element (r, c) is.
TE_HOST_DEVICE int64_t probeScaleIndex(const ProbeCast &cast, int64_t r,
                                       int64_t c) {
  const bool alongRow = cast.axis == 1;
  const int64_t outer = alongRow ? r : c, inner = alongRow ? c : r;
  const int64_t outers = alongRow ? cast.rows : cast.cols;
  const int64_t inners = alongRow ? cast.cols : cast.rows;
  switch (cast.scheme) {
  case TE_RT_PER_TENSOR:
    return 0;
  case TE_RT_BLOCK_1X128:
    return inner / 128 * up(outers, 4) + outer;
  case TE_RT_BLOCK_128X128:
    return outer / 128 * up((inners + 127) / 128, 4) + inner / 128;
  case TE_RT_MX_1X32:
  case TE_RT_MX_32X32:
    return alongRow ? outer * up(inners / 32, 4) + inner / 32
                    : inner / 32 * up(outers, 128) + outer;
  default: // nv
    return outer * up(inners / 16, 4) + inner / 16;
  }
}

TE_HOST_DEVICE ProbeElement probeElement(const ProbeCast &cast, int64_t r,
                                         int64_t c) {
  const bool isMicroscaled = cast.scheme >= TE_RT_MX_1X32;
  const bool isFP4 = cast.scheme >= TE_RT_NV_1X16;
  const bool isStoredAsIs = cast.axis == 1 || (isMicroscaled && !isFP4);
  const int64_t i = isStoredAsIs ? r * cast.cols + c : c * cast.rows + r;
  const int64_t s = probeScaleIndex(cast, r, c);
  ProbeElement e{};
  float q;
  if (isFP4) {
    const uint32_t code = cast.data[i / 2] >> (i % 2 * 4) & 0xf;
    q = e2m1ToFloat(code);
    e.isZero = (code & 7) == 0;
    e.isLargest = (code & 7) == 7;
  } else {
    const uint8_t code = cast.data[i];
    q = fp8ToFloat(code, cast.fp8Type);
    e.isZero = (code & 0x7f) == 0;
    e.isLargest =
        (code & 0x7f) == (cast.fp8Type == TE_RT_F8E4M3FN ? 0x7e : 0x7b);
  }
  if (!isMicroscaled) {
    e.scaleInv = static_cast<const float *>(cast.scale)[s];
    const uint32_t exponent = floatToBits(e.scaleInv) >> 23 & 0xff;
    e.isClipped = exponent == 0 || exponent == 0xff;
  } else {
    const uint8_t code = static_cast<const uint8_t *>(cast.scale)[s];
    e.isClipped = isFP4 ? (code & 0x7f) == 0 || (code & 0x7f) == 0x7f
                        : code == 0 || code >= 0xfe;
    e.scaleInv =
        isFP4 ? nvFactor(fp8ToFloat(code, TE_RT_F8E4M3FN),
                         cast.amax[cast.rowScaled ? r : 0], cast.scaleMax)
              : e8m0ToFloat(code);
  }
  e.value = q * e.scaleInv;
  return e;
}

/// Whether `x` is above what rounds to the largest code, decoded as `value`.
TE_HOST_DEVICE bool isAboveLargest(float x, float value, int32_t fp8Type) {
  const float reach = fp8Type == TE_RT_F8E4M3FN ? 29.0f / 28.0f
                      : fp8Type == TE_RT_F8E5M2 ? 15.0f / 14.0f
                                                : 7.0f / 6.0f;
  return fabsf(x) > fabsf(value) * reach;
}

/// Whether no element of the block before (r, c), row by row, differs from 0;
/// `at(i)` is element i of x. A whole tensor asks nobody: true.
template <typename At>
TE_HOST_DEVICE bool isFirstOfBlock(const ProbeCast &cast, int64_t r, int64_t c,
                                   const At &at) {
  if (cast.scheme == TE_RT_PER_TENSOR)
    return true;
  const ProbeBlock block = probeBlock(cast);
  const int64_t r0 = r / block.height * block.height;
  const int64_t c0 = c / block.width * block.width;
  const int64_t end =
      c0 + block.width < cast.cols ? c0 + block.width : cast.cols;
  for (int64_t row = r0; row <= r; ++row)
    for (int64_t col = c0; col < (row == r ? c : end); ++col)
      if (at(row * cast.cols + col) != 0.0f)
        return false;
  return true;
}

/// Adds element i of x to `row`.
template <typename At>
TE_HOST_DEVICE void probeAdd(const ProbeCast &cast, int64_t i, const At &at,
                             double (&row)[kProbeFields]) {
  auto gather = [&](int field, double value) {
    row[field] = probeCombine(field, row[field], value);
  };
  const float x = at(i);
  const bool isFinite = !isNaN(x) && !isInfinite(x);
  if (isNaN(x))
    gather(kProbeNaN, 1.0);
  else
    gather(kProbeAmax, fabsf(x));
  if (isInfinite(x))
    gather(kProbeInf, 1.0);
  if (x == 0.0f)
    gather(kProbeZeros, 1.0);
  else if (isFinite)
    gather(kProbeAmin, fabsf(x));
  const double wide = x;
  if (isFinite) {
    gather(kProbeSum, wide);
    gather(kProbeSquares, wide * wide);
  }
  if (!cast.data)
    return;
  const int64_t r = i / cast.cols, c = i % cast.cols;
  const ProbeElement e = probeElement(cast, r, c);
  gather(kProbeScaleMax, e.scaleInv);
  gather(kProbeScaleMin, e.scaleInv);
  if (e.isClipped && x != 0.0f && isFirstOfBlock(cast, r, c, at))
    gather(kProbeClipped, 1.0);
  if (!isFinite)
    return;
  if (e.isZero && x != 0.0f)
    gather(kProbeUnderflows, 1.0);
  if (e.isLargest && isAboveLargest(x, e.value, cast.fp8Type))
    gather(kProbeOverflows, 1.0);
  const double error = static_cast<double>(e.value) - wide;
  gather(kProbeErrors, error * error);
}

//===----------------------------------------------------------------------===//
// Results
//===----------------------------------------------------------------------===//

/// Writes the te_rt_stat entries of `count` elements.
TE_HOST_DEVICE void probeResults(const double (&row)[kProbeFields],
                                 const ProbeCast &cast, float *stats) {
  const double count = static_cast<double>(cast.rows * cast.cols);
  const double finite = count - row[kProbeNaN] - row[kProbeInf];
  auto mean = [&](int field) {
    return finite > 0.0 ? row[field] / finite : 0.0;
  };
  auto percent = [&](int field) {
    return static_cast<float>(count > 0.0 ? 100.0 * row[field] / count : 0.0);
  };
  auto least = [&](int field) {
    return row[field] == static_cast<double>(kInfinity)
               ? 0.0f
               : static_cast<float>(row[field]);
  };
  const double average = mean(kProbeSum);
  const double variance = mean(kProbeSquares) - average * average;
  stats[TE_RT_STAT_AMAX] = static_cast<float>(row[kProbeAmax]);
  stats[TE_RT_STAT_AMIN] = least(kProbeAmin);
  stats[TE_RT_STAT_MEAN] = static_cast<float>(average);
  stats[TE_RT_STAT_STD] =
      static_cast<float>(sqrt(variance > 0.0 ? variance : 0.0));
  stats[TE_RT_STAT_ZEROS] = percent(kProbeZeros);
  stats[TE_RT_STAT_NAN] = static_cast<float>(row[kProbeNaN]);
  stats[TE_RT_STAT_INF] = static_cast<float>(row[kProbeInf]);
  if (!cast.data)
    return;
  stats[TE_RT_STAT_UNDERFLOWS] = percent(kProbeUnderflows);
  stats[TE_RT_STAT_OVERFLOWS] = percent(kProbeOverflows);
  stats[TE_RT_STAT_MSE] = static_cast<float>(mean(kProbeErrors));
  stats[TE_RT_STAT_SNR] =
      row[kProbeErrors] == 0.0
          ? kInfinity
          : static_cast<float>(row[kProbeSquares] / row[kProbeErrors]);
  stats[TE_RT_STAT_SCALE_INV_MIN] = static_cast<float>(row[kProbeScaleMin]);
  stats[TE_RT_STAT_SCALE_INV_MAX] = static_cast<float>(row[kProbeScaleMax]);
  const bool isWhole = cast.scheme == TE_RT_PER_TENSOR;
  stats[TE_RT_STAT_SCALES_CLIPPED] =
      isWhole && row[kProbeClipped] > 1.0
          ? 1.0f
          : static_cast<float>(row[kProbeClipped]);
}

} // namespace math
} // namespace te::rt

#endif // TE_RUNTIME_CORE_PROBE_H
