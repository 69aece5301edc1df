//===- norm_runs.cuh - runs of elements that the norms share --------------===//

#ifndef TE_RUNTIME_KERNELS_NORM_NORM_RUNS_CUH
#define TE_RUNTIME_KERNELS_NORM_NORM_RUNS_CUH

#include "Kernels/Device/elements.cuh"

namespace te::rt::cuda {

/// Gamma, plus 1 if it is zero-centred.
template <typename T, int V>
__device__ __forceinline__ void gammaOf(const Run<T, V> &gamma,
                                        bool zeroCentered, float (&g)[V]) {
  gamma.unpack(g);
  if (zeroCentered) {
#pragma unroll
    for (int k = 0; k < V; ++k)
      g[k] = g[k] + 1.0f;
  }
}

/// The rounded sums of elements.
template <int V, typename T>
__device__ __forceinline__ Run<T, V> added(const Run<T, V> &a,
                                           const Run<T, V> &b) {
  float x[V], y[V];
  a.unpack(x);
  b.unpack(y);
#pragma unroll
  for (int k = 0; k < V; ++k)
    x[k] = x[k] + y[k];
  return Run<T, V>::pack(x);
}

} // namespace te::rt::cuda

#endif // TE_RUNTIME_KERNELS_NORM_NORM_RUNS_CUH
