//===- block_sum.cuh - the row sum of Kernels.td in a block ---------------===//
//
// Thread t of 128 has lanes 2 t and 2 t + 1 of the 256 lanes of a row sum: in a
// row, columns 2 t and 2 t + 1 of each run of 256.
//
//===----------------------------------------------------------------------===//

#ifndef TE_RUNTIME_KERNELS_NORM_BLOCK_SUM_CUH
#define TE_RUNTIME_KERNELS_NORM_BLOCK_SUM_CUH

#include "Core/Formulas.h"
#include "Kernels/Norm/norm_args.h"

namespace te::rt::cuda {

/// The sums of the lanes of N row sums, for every thread of the block. acc[n]
/// are the two lanes of the thread. `lanes` is used again only after the next
/// barrier.
template <int N>
__device__ __forceinline__ void blockTotals(const float (&acc)[N][2],
                                            float (&lanes)[N][kLanes],
                                            float (&total)[N]) {
  static_assert(kLanes == 2 * kPairBlock && kPairBlock == 128);
#pragma unroll
  for (int n = 0; n < N; ++n)
    *reinterpret_cast<float2 *>(&lanes[n][2 * threadIdx.x]) =
        make_float2(acc[n][0], acc[n][1]);
  __syncthreads();
  const int thread = static_cast<int>(threadIdx.x % 32);
#pragma unroll
  for (int n = 0; n < N; ++n) {
    float2 of[4];
#pragma unroll
    for (int warp = 0; warp < 4; ++warp)
      of[warp] =
          *reinterpret_cast<const float2 *>(&lanes[n][64 * warp + 2 * thread]);
    float low = (of[0].x + of[2].x) + (of[1].x + of[3].x);
    float high = (of[0].y + of[2].y) + (of[1].y + of[3].y);
#pragma unroll
    for (int stride = 16; stride >= 1; stride /= 2) {
      low += __shfl_xor_sync(~0u, low, stride);
      high += __shfl_xor_sync(~0u, high, stride);
    }
    total[n] = low + high;
  }
}

/// Calls visit(first) for the first of each `kPairGroup` runs of 256 columns.
/// Loads of a group are not behind branches.
template <int kRuns, typename Visit>
__device__ __forceinline__ void forGroups(int cols, Visit visit) {
#pragma unroll
  for (int first = 0; first < kRuns; first += kPairGroup)
    if (first * kLanes < cols)
      visit(first);
}

} // namespace te::rt::cuda

#endif // TE_RUNTIME_KERNELS_NORM_BLOCK_SUM_CUH
