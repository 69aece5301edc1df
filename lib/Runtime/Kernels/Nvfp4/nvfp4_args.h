//===- nvfp4_args.h - arguments of the 4-bit kernels ----------------------===//
//
// The kernels and the host code that launches them share this header.
//
//===----------------------------------------------------------------------===//

#ifndef TE_RUNTIME_KERNELS_NVFP4_NVFP4_ARGS_H
#define TE_RUNTIME_KERNELS_NVFP4_NVFP4_ARGS_H

#include <cstdint>

namespace te::rt::cuda {

/// Threads of the kernels below the quantiser, which has kTileThreads.
inline constexpr int kNvThreads = 256;

/// Any of the outputs may be null. rows and cols are multiples of 16.
struct QuantizeNvfp4Args {
  const void *x;       // [xRows, xCols]
  const float *amax;   // [1], or [rows] if rowScaled
  const uint32_t *rng; // [2] (seed, offset), or null for zeros
  uint8_t *row;        // [rows, cols / 2]
  uint8_t *rowScale;   // [up(rows, 128), up(cols / 16, 4)]
  float *rowAmax;      // as amax
  uint8_t *col;        // [cols, rows / 2]
  uint8_t *colScale;   // [up(cols, 128), up(rows / 16, 4)]
  float *colAmax;      // [1]
  const float *skip;   // [1], or null
  struct {
    int64_t x, amax, data, rowScale, colScale;
  } strides; // as in cast_args.h
  int64_t rows, cols;
  int64_t xRows, xCols; // what is outside of them is zero
  uint32_t colTiles;
  int32_t rowScaled;
  int32_t scaleMax;
  int32_t measure; // of 4over6
  uint32_t stream;
  int32_t aligned; // x to 16 bytes, col to 8, row and the scales to 4
};

struct AmaxRowsArgs {
  const void *x;     // [rows, cols]
  float *amax;       // [rows]
  const float *skip; // [1], or null
  int64_t rows, cols;
};

struct HadamardArgs {
  const void *x; // [rows, cols] bf16
  void *y;
  int64_t cols;
  uint32_t colBlocks; // blocks to a run of 16 rows
};

struct Nvfp4AlphaArgs {
  const float *aAmax; // [matrices, rows]
  const float *bAmax; // [matrices]
  float *alpha;       // [matrices, rows]
  int64_t matrices, rows;
  int32_t aScaleMax, bScaleMax;
};

/// The output may be the input.
struct RngAdvanceArgs {
  const uint32_t *state; // [2]
  uint32_t *newState;
  uint32_t count;
};

} // namespace te::rt::cuda

#endif // TE_RUNTIME_KERNELS_NVFP4_NVFP4_ARGS_H
