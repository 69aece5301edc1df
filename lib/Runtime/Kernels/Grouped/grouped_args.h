//===- grouped_args.h - arguments of the kernels of row groups ------------===//

#ifndef TE_RUNTIME_KERNELS_GROUPED_GROUPED_ARGS_H
#define TE_RUNTIME_KERNELS_GROUPED_GROUPED_ARGS_H

#include "Core/GroupLayout.h"

#include <cstdint>

namespace te::rt::cuda {

/// A matrix in group layout.
struct GroupedRows {
  const int32_t *sizes; // [groups]
  GroupShape shape;
  int64_t cols;
};

struct GroupedAmaxArgs {
  GroupedRows layout;
  const void *x; // [rows, cols]
  float *amax;   // [groups], 0 before
};

struct GroupedRoundArgs {
  const int32_t *sizes; // [groups]
  int32_t *rounded;     // [groups]
  int64_t groups, multiple;
};

struct GroupedZeroPaddingArgs {
  GroupedRows layout;
  const void *x; // [rows, cols], may be y
  void *y;       // [rows, cols]
};

struct GroupedBiasGradArgs {
  GroupedRows layout;
  const void *dy; // [rows, cols]
  void *db;       // [groups, cols] of out_type
  int32_t outType;
};

struct GroupedQuantizeArgs {
  GroupedRows layout;
  const void *x;      // [rows, cols]
  const float *scale; // [groups]
  uint8_t *row;       // [rows, cols] or null
  float *rowScale;    // [groups] or null
  uint8_t *col;       // [cols, rows] or null
  float *colScale;    // [groups] or null
  uint32_t colTiles;
};

struct GroupedQuantizeNvfp4Args {
  GroupedRows layout;
  const void *x;       // [rows, cols]
  const float *amax;   // [groups]
  const uint32_t *rng; // (seed, offset) or null
  uint8_t *data;       // [rows, cols / 2], or [cols, rows / 2] of axis 0
  uint8_t *scale;      // [up(outer, 128), pitch], 0 before
  float *amaxOut;      // [groups] or null
  int64_t pitch;
  int32_t axis, scaleMax, fourOverSix, stochastic;
  uint32_t stream;
};

struct GroupedDequantizeArgs {
  GroupedRows layout;
  const uint8_t *data;
  const void *scale;
  const float *amax;  // [groups], [rows] when rowScaled, or null
  void *out;          // [rows, cols] of outType
  int64_t pitch;      // of nv scales
  uint32_t rowBlocks; // blocks of a row
  int32_t fp8Type, axis, rowScaled, scaleMax, outType;
};

inline constexpr int kGroupedBlock = 256;
/// Consecutive elements that a warp computes.
inline constexpr int kGroupedSpan = 2048;
/// The same if a warp only reads: finding the groups costs as much as
/// reading several hundred elements.
inline constexpr int kGroupedAmaxSpan = 8192;

} // namespace te::rt::cuda

#endif // TE_RUNTIME_KERNELS_GROUPED_GROUPED_ARGS_H
