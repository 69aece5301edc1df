//===- microscale_args.h - arguments of the mx and nv kernels -------------===//
//
// The kernels and the host code that launches them share this header.
//
//===----------------------------------------------------------------------===//

#ifndef TE_RUNTIME_KERNELS_CAST_MICROSCALE_ARGS_H
#define TE_RUNTIME_KERNELS_CAST_MICROSCALE_ARGS_H

#include <cstdint>

namespace te::rt::cuda {

// Tiles and `strides` are as in cast_args.h. A tile has 128 x 4 scales (blocks
// of 32) or 128 x 8 (blocks of 16), so tiles cover the padded scales exactly,
// except that the last tile with blocks of 16 may have 128 x 4.

struct QuantizeMxArgs {
  const void *x; // [xRows, xCols]
  // The outputs. Any may be null.
  uint8_t *row;      // [rows, cols]
  uint8_t *rowScale; // [up(rows, 128), up(cols / 32, 4)]
  uint8_t *col;      // [rows, cols]
  uint8_t *colScale; // [up(rows / 32, 4), up(cols, 128)]
  const float *skip; // [1], or null
  struct {
    int64_t x, data, rowScale, colScale;
  } strides;
  int64_t rows, cols;
  int64_t xRows, xCols; // what is outside of them is zero
  uint32_t colTiles;
};

struct MicroscaleDequantizeArgs {
  const uint8_t *data;  // mx [rows, cols]; nv [outer, contraction / 2]
  const uint8_t *scale; // [., pitch] of MicroscaleLayout
  const float *amax;    // nv: [1], or [rows] when row-scaled; may be null
  void *out;            // [rows, cols]
  struct {
    int64_t data, scale, amax, out;
  } strides;
  int64_t rows, cols, pitch;
  uint32_t colTiles;
  int32_t rowScaled, scaleMax;
};

struct MicroscaleTransposeArgs {
  const uint8_t *data;  // mx [rows, cols]; nv [rows, cols / 2]
  const uint8_t *scale; // [., pitch]
  const float *amax;    // nv: [1], may be null, as may outAmax
  uint8_t *outData;     // mx [rows, cols]; nv [cols, rows / 2]
  uint8_t *outScale;    // [., outPitch]
  float *outAmax;
  const float *skip; // [1], or null
  struct {
    int64_t data, scale, outScale; // outData is as long as data
  } strides;
  int64_t rows, cols, pitch, outPitch;
  uint32_t colTiles;
};

struct SwizzleArgs {
  const uint8_t *scale; // [outer, blocks], or [blocks, outer] when transposed
  uint8_t *swizzled;
  int64_t outer, blocks;
  int32_t isTransposed;
};

} // namespace te::rt::cuda

#endif // TE_RUNTIME_KERNELS_CAST_MICROSCALE_ARGS_H
