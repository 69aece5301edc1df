//===- NvOracle.h - what 4-bit quantisation must give ---------------------===//
//
// Like Oracle.h, for the nv schemes: codes are found by searching the eight
// magnitudes of e2m1, every f32 operation is computed in f64 and rounded once,
// and the random generator follows its paper.
//
//===----------------------------------------------------------------------===//

#ifndef TE_CONFORMANCE_NVORACLE_H
#define TE_CONFORMANCE_NVORACLE_H

#include "Conformance/Oracle.h"

#include <array>

namespace te::conformance {

/// The eight magnitudes, in the order of codes.
inline constexpr double kE2M1[] = {0, 0.5, 1, 1.5, 2, 3, 4, 6};
/// The nearest 4-bit code, saturating; NaN becomes +6.
uint32_t encodeE2M1(double value);
/// Rounds away from zero if the position between two magnitudes, truncated to 8
/// bits, plus `byte` is at least 256.
uint32_t encodeE2M1Stochastic(double value, uint32_t byte);

/// Philox4x32-10.
std::array<uint32_t, 4> philoxOf(std::array<uint32_t, 4> counter,
                                 std::array<uint32_t, 2> key);

struct NvOptions {
  int32_t scheme = TE_RT_NV_1X16, rowScaled = 0, scaleMax = 448,
          fourOverSix = 0, stochastic = 0, stream = 0;
  int32_t seed = 0, offset = 0;
};

struct NvQuantised {
  std::vector<uint8_t> data;  // packed
  std::vector<uint8_t> scale; // with its padding
  /// The number of blocks whose amax 4over6 mapped to 4.
  int64_t mappedToFour = 0;
};
int64_t nvScaleCount(int64_t outer, int64_t inner);
/// The code of element i of a packed array.
uint32_t nibbleOf(const std::vector<uint8_t> &packed, int64_t i);

/// The usage along axis 1 (row) or 0 (col) of x[rows, cols]. `amax` has one
/// element, or one for each row.
NvQuantised quantiseNv(const Array &x, int64_t rows, int64_t cols, int axis,
                       const std::vector<float> &amax,
                       const NvOptions &options);

} // namespace te::conformance

#endif // TE_CONFORMANCE_NVORACLE_H
