//===- lane_sum.cuh - the row sum of Kernels.td in a warp -----------------===//
//
// Lane i of 256 adds elements i, i + 256, ... in order; then a halving tree
// adds the lanes. A thread has eight lanes.
//
//===----------------------------------------------------------------------===//

#ifndef TE_RUNTIME_KERNELS_NORM_LANE_SUM_CUH
#define TE_RUNTIME_KERNELS_NORM_LANE_SUM_CUH

namespace te::rt::cuda {

/// The 8 of 256 lanes that one thread of a warp sums: acc[k] is lane
/// (k / V) * 32 V + thread * V + k % V.
template <int V> struct LaneSum {
  float acc[8] = {};

  /// Reduces the lanes as a tree. Every thread of the warp calls it and gets
  /// the sum; that of its half, if there are 16 `kThreads` in place of a warp.
  template <int kThreads = 32> __device__ __forceinline__ float total() {
#pragma unroll
    for (int stride = 128; stride >= 1; stride /= 2) {
      if (stride >= 32 * V) {
#pragma unroll
        for (int k = 0; k < 8; ++k)
          if (k < stride / 32)
            acc[k] += acc[k + stride / 32];
      } else if (stride >= V) {
        // Both partners compute the same sum: addition commutes.
#pragma unroll
        for (int k = 0; k < V; ++k)
          acc[k] += stride / V < kThreads
                        ? __shfl_xor_sync(~0u, acc[k], stride / V)
                        : 0.0f;
      } else {
#pragma unroll
        for (int k = 0; k < V; ++k)
          if (k < stride)
            acc[k] += acc[k + stride];
      }
    }
    return acc[0];
  }
};

/// The runs that forRunGroups loads before it stores; eight spill registers in
/// the backward.
inline constexpr int kRunGroup = 4;

/// Calls visit(slot, first element) for those of the next `kRuns` runs of V
/// elements, from `begin` on, that are this thread's and in a row of `cols`, in
/// order. Element k of a run belongs to `acc[(slot * V + k) % 8]` of a
/// LaneSum<V>; slot * V % 8 is a constant after unrolling.
template <int V, int kRuns, typename Visit>
__device__ __forceinline__ void forRuns(int begin, int cols, Visit visit) {
  const int thread = static_cast<int>(threadIdx.x % 32);
#pragma unroll
  for (int r = 0; r < kRuns; ++r) {
    const int i = begin + (r * 32 + thread) * V;
    if (i < cols)
      visit(r, i);
  }
}

/// forRuns for visits that store: loads for a few runs, load(number in the
/// group, first element), come before use(slot, number, first element) of the
/// same runs, because a load cannot move up before a store.
template <int V, int kRuns, typename Load, typename Use>
__device__ __forceinline__ void forRunGroups(int begin, int cols, Load load,
                                             Use use) {
  static_assert(kRuns % kRunGroup == 0);
#pragma unroll
  for (int first = 0; first < kRuns; first += kRunGroup) {
    const int from = begin + first * 32 * V;
    forRuns<V, kRunGroup>(from, cols, load);
    forRuns<V, kRunGroup>(from, cols,
                          [&](int r, int i) { use(first + r, r, i); });
  }
}

} // namespace te::rt::cuda

#endif // TE_RUNTIME_KERNELS_NORM_LANE_SUM_CUH
