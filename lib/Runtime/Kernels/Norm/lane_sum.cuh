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
    for (int stride = 128; stride >= 32 * V; stride /= 2)
#pragma unroll
      for (int k = 0; k < stride / 32; ++k)
        acc[k] += acc[k + stride / 32];
    divide<kThreads, 16, V>();
    // Sums of lanes that are equal modulo V are left, which partners have.
    constexpr int kFirst = kThreads / 2;
#pragma unroll
    for (int partner = kFirst; partner > kFirst / V; partner /= 2)
      acc[0] += __shfl_xor_sync(~0u, acc[0], partner);
    return acc[0];
  }

private:
  /// Adds `kSums` sums of threads to those of their partners. While there are
  /// several, a thread gives half of them to its partner and takes the other
  /// half, so that each has one place in the end. Addition commutes, so
  /// partners that compute the same sum have the same bits.
  template <int kThreads, int kPartner, int kSums>
  __device__ __forceinline__ void divide() {
    if constexpr (kPartner >= kThreads) {
#pragma unroll
      for (int k = 0; k < kSums; ++k)
        acc[k] += 0.0f;
      divide<kThreads, kPartner / 2, kSums>();
    } else if constexpr (kPartner != 0 && kSums == 1) {
      acc[0] += __shfl_xor_sync(~0u, acc[0], kPartner);
      divide<kThreads, kPartner / 2, 1>();
    } else if constexpr (kPartner != 0) {
      constexpr int kKept = kSums / 2;
      const bool isUpper = (threadIdx.x & kPartner) != 0;
#pragma unroll
      for (int k = 0; k < kKept; ++k) {
        const float low = acc[k], high = acc[k + kKept];
        acc[k] = (isUpper ? high : low) +
                 __shfl_xor_sync(~0u, isUpper ? low : high, kPartner);
      }
      divide<kThreads, kPartner / 2, kKept>();
    }
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
