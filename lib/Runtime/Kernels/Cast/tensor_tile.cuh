//===- tensor_tile.cuh - casts with one scale, and amaxes of a launch -----===//
//
// What kernels of quantize.cu share with those that compute the tile that they
// cast.
//
//===----------------------------------------------------------------------===//

#ifndef TE_RUNTIME_KERNELS_CAST_TENSOR_TILE_CUH
#define TE_RUNTIME_KERNELS_CAST_TENSOR_TILE_CUH

#include "Kernels/Cast/tile.cuh"

namespace te::rt::cuda {

/// The running maximum and the number of finished blocks of every plan. Both
/// are zero again when a launch ends, so no launch has to clear them first.
static __device__ uint32_t amaxBits[kAmaxSlots];
static __device__ uint32_t amaxBlocksDone[kAmaxSlots];

/// One thread of every block calls it with the maximum of the block. `amax`,
/// that of this row of blocks, gets the maximum of the row.
__device__ __forceinline__ void finishAmax(float blockAmax, uint32_t slot,
                                           float *amax) {
  slot = (slot + blockIdx.y) % kAmaxSlots;
  // The bits of magnitudes have the same order as the magnitudes. The block
  // whose count completes the grid sees the maximum of every other block,
  // because each block wrote it before its fence.
  atomicMax(&amaxBits[slot], __float_as_uint(blockAmax));
  __threadfence();
  if (atomicInc(&amaxBlocksDone[slot], gridDim.x - 1) == gridDim.x - 1) {
    __threadfence();
    *amax = __uint_as_float(atomicExch(&amaxBits[slot], 0));
  }
}

/// The outputs of the matrix of this block.
__device__ __forceinline__ QuantizeOutputs outputsOf(const QuantizeArgs &args) {
  return {.row = ofMatrix(args.out.row, args.strides.row),
          .rowScale = ofMatrix(args.out.rowScale, args.strides.rowScale),
          .col = ofMatrix(args.out.col, args.strides.col),
          .colScale = ofMatrix(args.out.colScale, args.strides.colScale),
          .colPitch = args.out.colPitch};
}

/// The scale of the matrix of this block. Its outputs get the inverse.
template <typename F8>
__device__ __forceinline__ float scaleOf(const QuantizeArgs &args,
                                         const QuantizeOutputs &out) {
  float scale = *ofMatrix(args.scale, args.strides.scale);
  if (args.fromAmax)
    scale = math::computeScale(scale, F8::max, args.pow2, args.epsilon,
                               math::kFloatMax);
  if (blockIdx.x == 0 && threadIdx.x == 0) {
    if (out.rowScale)
      *out.rowScale = __frcp_rn(scale);
    if (out.colScale)
      *out.colScale = __frcp_rn(scale);
  }
  return scale;
}

/// Quantises a tile with the scale of its matrix, and measures its amax if
/// `kMeasures`. Elements of the tile that are outside of the matrix are zero.
template <typename F8, bool kAligned, bool kMeasures, typename T,
          typename Position>
__device__ __forceinline__ void quantizeTensorTile(const QuantizeArgs &args,
                                                   const Position &at,
                                                   const Tile<T> &tile) {
  const QuantizeOutputs out = outputsOf(args);
  const float scale = scaleOf<F8>(args, out);
  if constexpr (kMeasures) {
    const float amax = tileAmax(tile, tileShared());
    if (threadIdx.x == 0)
      finishAmax(amax, args.amaxSlot, ofMatrix(args.amax, args.strides.amax));
  }
  quantizeTileUniform<T, F8, kAligned>(tile, at, out, scale, tileShared());
}

} // namespace te::rt::cuda

#endif // TE_RUNTIME_KERNELS_CAST_TENSOR_TILE_CUH
