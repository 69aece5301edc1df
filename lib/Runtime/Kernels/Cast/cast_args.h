//===- cast_args.h - arguments of the quantisation kernels ----------------===//
//
// The kernels and the host code that launches them share this header.
//
//===----------------------------------------------------------------------===//

#ifndef TE_RUNTIME_KERNELS_CAST_CAST_ARGS_H
#define TE_RUNTIME_KERNELS_CAST_CAST_ARGS_H

#include "Kernels/Activation/activation_args.h"
#include "Kernels/CrossEntropy/cross_entropy_args.h"

#include <cstdint>

namespace te::rt::cuda {

/// A block of kTileThreads threads computes a tile of kTile x kTile elements.
/// Tiles are numbered along the columns first.
inline constexpr int kTile = 128;
inline constexpr int kTileThreads = 256;

// blockIdx.y is the matrix of a stack. `strides` are the bytes from one matrix
// to the next.

/// The outputs of a quantised [rows, cols] value. Any pointer may be null.
struct QuantizeOutputs {
  uint8_t *row;    // [rows, cols]
  float *rowScale; // layout of the scheme
  uint8_t *col;    // [cols, rows], in rows of colPitch bytes
  float *colScale;
  int64_t colPitch;
};

struct QuantizeStrides {
  int64_t x, scale, row, rowScale, col, colScale, amax;
};

struct QuantizeArgs {
  const void *x;      // [xRows, xCols]
  const float *scale; // [1], per-tensor only, as are amax and fromAmax
  float *amax;        // [1], null in the kernels that do not measure
  uint32_t amaxSlot;  // as AmaxArgs::slot
  QuantizeOutputs out;
  const float *skip; // [1], or null
  QuantizeStrides strides;
  int64_t rows, cols;
  int64_t xRows, xCols; // what is outside of them is zero
  uint32_t colTiles;
  int32_t fromAmax; // whether `scale` is the amax to compute it from
  int32_t pow2;
  float epsilon;
};

/// Casts an activation (x) or its gradient (dy and x). `rows` and `cols` are
/// those of the activation.
struct ActivationQuantizeArgs : QuantizeArgs {
  const void *dy;     // [rows, cols], backward only
  const void *second; // of gated kinds; `x` is the first half
  int64_t pitch;      // of rows of x and of `second`
  ActivationKind act;
  // Of gated kinds, backward only: how the gradient of `second` is cast. It has
  // a scale and an amax of its own, or those of the gradient of x.
  QuantizeArgs other;
  int64_t outPitch; // of rows of both gradients
};

/// Casts the gradient of logits, which takes the place of `x`.
struct CrossEntropyQuantizeArgs : QuantizeArgs {
  CrossEntropyArgs loss;
};

/// Computes one amax for each matrix.
struct AmaxArgs {
  const void *x;
  float *amax;
  const float *skip; // [1], or null
  int64_t count, stride;
  uint32_t slot; // of the first amax of this plan, below kAmaxSlots
  bool rounds;   // to bf16
};
inline constexpr uint32_t kAmaxSlots = 4096;

struct ComputeScaleArgs {
  const float *amax;
  float *scale;
  float fp8Max, epsilon;
  int32_t pow2;
};

struct DequantizeArgs {
  const uint8_t *data; // [rows, cols], or [cols, rows] of axis 0
  const float *scale;
  void *out; // [rows, cols]
  struct {
    int64_t data, scale, out;
  } strides;
  int64_t rows, cols;
  uint32_t colTiles;
  int32_t scheme, axis;
};

struct TransposeArgs {
  const uint8_t *data; // [rows, cols]
  const float *scale;
  uint8_t *outData; // [cols, rows]
  float *outScale;
  const float *skip; // [1], or null
  struct {
    int64_t data, scale, outScale; // outData is as long as data
  } strides;
  int64_t rows, cols;
  uint32_t colTiles;
  int32_t scheme;
};

/// Dynamic shared memory of every tile kernel, of general kernels, which also
/// stage their input, and of the fast activation kernels, which have one tile
/// of bf16, or two for gated kinds, where the stage starts.
inline constexpr int kTileScratchBytes =
    2 * kTile * 4 + (kTileThreads / 32) * kTile * 4;
inline constexpr int kTileSharedBytes = kTileScratchBytes + kTile * kTile;
constexpr int generalSharedBytes(int elementBytes) {
  return kTileSharedBytes + kTile * kTile * elementBytes;
}
constexpr int activationSharedBytes(int tiles) {
  return kTileScratchBytes + tiles * kTile * kTile * 2;
}
/// Dynamic shared memory of the kernels for whole tiles (slot_tiles.cuh).
inline constexpr int kSlotScratchBytes =
    4 * kTile * 4 + (kTileThreads / 32) * kTile * 4;
constexpr int slotSharedBytes(int tiles) {
  return kSlotScratchBytes + tiles * kTile * kTile * 2;
}

} // namespace te::rt::cuda

#endif // TE_RUNTIME_KERNELS_CAST_CAST_ARGS_H
