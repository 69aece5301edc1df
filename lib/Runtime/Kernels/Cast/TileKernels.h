//===- TileKernels.h - plans of kernels that cast 128 x 128 tiles ---------===//

#ifndef TE_RUNTIME_KERNELS_CAST_TILEKERNELS_H
#define TE_RUNTIME_KERNELS_CAST_TILEKERNELS_H

#include "Core/Stack.h"
#include "Cuda/CudaBackend.h"
#include "Kernels/Cast/cast_args.h"
#include "Kernels/LaunchPlan.h"

#include <limits>

namespace te::rt::cuda {

/// The fast and the general kernel, which have the same grid unless
/// fastColTiles and generalColTiles differ.
struct TileKernels {
  LaunchConfig fast, general;
  bool hasFast = true;
  uint32_t fastColTiles = 0, generalColTiles = 0;

  /// `fastName` may be empty.
  Status find(const CudaDevice &device, const std::string &fastName,
              int fastShared, const std::string &generalName,
              int generalShared) {
    hasFast = !fastName.empty();
    fast.block = general.block = kTileThreads;
    if (hasFast)
      TE_RT_RETURN_IF_FAILED(fast.find(device, fastName, fastShared));
    return general.find(device, generalName, generalShared);
  }

  /// Sets one block for each tile of [rows, cols] for the fast kernel, and of
  /// [rows, generalCols] for the general one.
  Status setGrid(int64_t rows, int64_t cols, int64_t generalCols) {
    TE_RT_RETURN_IF_FAILED(setGrid(fast, rows, cols));
    TE_RT_RETURN_IF_FAILED(setGrid(general, rows, generalCols));
    fastColTiles = static_cast<uint32_t>(ceilDiv(cols, kTile));
    generalColTiles = static_cast<uint32_t>(ceilDiv(generalCols, kTile));
    return Status::ok();
  }

  /// Sets as many rows of blocks as there are matrices.
  void setStack(int64_t matrices) {
    fast.gridY = general.gridY = static_cast<unsigned>(matrices);
  }

  /// Launches the fast kernel if `isFast` and there is one.
  template <typename Args>
  Status launch(const Launcher &launch, bool isFast, Args &args) const {
    isFast &= hasFast;
    args.colTiles = isFast ? fastColTiles : generalColTiles;
    return launch(isFast ? fast : general, args);
  }

private:
  static Status setGrid(LaunchConfig &config, int64_t rows, int64_t cols) {
    const int64_t rowTiles = ceilDiv(rows, kTile);
    const int64_t colTiles = ceilDiv(cols, kTile);
    const int64_t limit = std::numeric_limits<int32_t>::max();
    if (colTiles != 0 && rowTiles > limit / colTiles)
      return {TE_RT_UNSUPPORTED,
              "expected at most 2147483647 tiles of 128x128, but got rows " +
                  std::to_string(rows) + " and cols " + std::to_string(cols)};
    config.gridX = static_cast<unsigned>(rowTiles * colTiles);
    return Status::ok();
  }
};

/// Whether the row and column stores of tile.cuh may use vectors.
inline bool storesVectors(const QuantizeOutputs &out, int64_t rows,
                          int64_t cols) {
  return cols % 8 == 0 && isAligned(out.row, 8) &&
         (!out.col ||
          (rows % 16 == 0 && out.colPitch % 16 == 0 && isAligned(out.col, 16)));
}

/// The four outputs that are the last buffers of every quantisation kernel of
/// `rows` rows.
inline QuantizeOutputs quantizeOutputs(void *const *buffers, int64_t rows) {
  return {.row = static_cast<uint8_t *>(buffers[0]),
          .rowScale = static_cast<float *>(buffers[1]),
          .col = static_cast<uint8_t *>(buffers[2]),
          .colScale = static_cast<float *>(buffers[3]),
          .colPitch = rows};
}

/// What a cast reads and writes: `buffers` are its scale, the four outputs and
/// the amax. `wholeRows` are those of the matrix that has these rows.
template <typename Params>
void placeCast(const Params &params, int64_t wholeRows, uint32_t slot,
               void *const *buffers, QuantizeArgs &args) {
  args.scale = static_cast<const float *>(buffers[0]);
  args.out = quantizeOutputs(buffers + 1, wholeRows);
  args.amax = static_cast<float *>(buffers[5]);
  args.amaxSlot = slot;
  args.rows = params.rows;
  args.cols = params.cols;
  args.pow2 = params.pow2_scales;
  args.epsilon = params.amax_epsilon;
}

/// The same of some rows of a matrix (quantize_rows). `col` has columns of the
/// whole matrix, and starts at these rows.
template <typename Params>
void placeRows(const Params &params, uint32_t slot, void *const *buffers,
               QuantizeArgs &args) {
  placeCast(params, params.whole_rows, slot, buffers, args);
  if (args.out.col)
    args.out.col += params.first_row;
  // The scales of 128 rows follow those of the 128 rows before.
  if (args.out.colScale && params.scheme != TE_RT_PER_TENSOR)
    args.out.colScale += params.first_row / kTile * roundUp(params.cols, 4);
}

/// The first of `count` slots of device memory for a plan that computes an amax
/// (finishAmax in tensor_tile.cuh). A slot is used again after kAmaxSlots
/// others; its content matters only while a kernel runs.
uint32_t takeAmaxSlots(int64_t count);

} // namespace te::rt::cuda

#endif // TE_RUNTIME_KERNELS_CAST_TILEKERNELS_H
