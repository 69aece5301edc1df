//===- KernelWorkspaces.h - scratch memory of the kernels of cuda ---------===//
//
// What a kernel asks for when it is planned is what the compiler counts without
// a device: both call these.
//
//===----------------------------------------------------------------------===//

#ifndef TEDIALECT_SUPPORT_KERNELWORKSPACES_H
#define TEDIALECT_SUPPORT_KERNELWORKSPACES_H

#include <cstdint>

namespace te_table {

/// Sums of columns, an f32 for each run of `runRows` rows.
constexpr int64_t columnSumBytes(int64_t rows, int64_t cols, int64_t runRows) {
  return (rows + runRows - 1) / runRows * cols * 4;
}

/// rms_norm_backward sums one gradient, layer_norm_backward two.
inline constexpr int64_t kNormStripRows = 32;
constexpr int64_t normBackwardBytes(int64_t rows, int64_t cols, int64_t sums) {
  return sums * columnSumBytes(rows, cols, kNormStripRows);
}

inline constexpr int64_t kBiasGradRows = 128;
constexpr int64_t biasGradBytes(int64_t rows, int64_t cols) {
  return columnSumBytes(rows, cols, kBiasGradRows);
}

/// How often each row of the table is read.
constexpr int64_t embeddingBackwardBytes(int64_t vocab) { return vocab * 4; }

/// The gradient's factor.
inline constexpr int64_t kCrossEntropyBackwardBytes = 4;

/// 13 f64 for each run of elements.
inline constexpr int64_t kStatsRun = 32768, kStatsRowBytes = 104;
constexpr int64_t tensorStatsBytes(int64_t elements) {
  return (elements + kStatsRun - 1) / kStatsRun * kStatsRowBytes;
}

} // namespace te_table

#endif // TEDIALECT_SUPPORT_KERNELWORKSPACES_H
