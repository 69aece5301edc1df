//===- norm_rows.cuh - a warp's row of a norm's gradient ------------------===//
//
// Formulas on runs of a row, shared by the kernels that find the row in global
// and in shared memory.
//
//===----------------------------------------------------------------------===//

#ifndef TE_RUNTIME_KERNELS_NORM_NORM_ROWS_CUH
#define TE_RUNTIME_KERNELS_NORM_NORM_ROWS_CUH

#include "Core/Formulas.h"
#include "Kernels/Norm/lane_sum.cuh"
#include "Kernels/Pointwise/elements.cuh"

namespace te::rt::cuda {
namespace {

/// Calls visit(slot, first element) for the runs of this thread in a row of
/// `cols`, in order; `slot` % (8 / V) is a constant after unrolling.
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

/// Gamma of the elements from `i` on, plus 1 where it is zero-centred.
template <typename T, int V>
__device__ __forceinline__ void gammaOf(const void *gamma, bool zeroCentered,
                                        int i, float (&g)[V]) {
  Run<T, V>::load(static_cast<const T *>(gamma) + i).unpack(g);
  if (zeroCentered) {
#pragma unroll
    for (int k = 0; k < V; ++k)
      g[k] = g[k] + 1.0f;
  }
}

/// What a row of dx needs to know of the row.
struct RowStatistics {
  float mu, rsigma;
  float meanOfGrad; // of g dy
  float mean;       // of g dy h
};

template <bool kCentred, int V, typename T>
__device__ __forceinline__ void
addProducts(const void *gamma, bool zeroCentered, const Run<T, V> &dyRun,
            const Run<T, V> &xRun, int slot, int i, const RowStatistics &row,
            LaneSum<V> &grads, LaneSum<V> &products) {
  float dy[V], x[V], g[V];
  dyRun.unpack(dy);
  xRun.unpack(x);
  gammaOf<T>(gamma, zeroCentered, i, g);
#pragma unroll
  for (int k = 0; k < V; ++k) {
    const int lane = (slot * V + k) % 8;
    const float grad = g[k] * dy[k];
    const float h = row.rsigma * (kCentred ? x[k] - row.mu : x[k]);
    products.acc[lane] = fmaf(grad, h, products.acc[lane]);
    if constexpr (kCentred)
      grads.acc[lane] = grads.acc[lane] + grad;
  }
}

template <bool kCentred, int V, typename T>
__device__ __forceinline__ void
inputGrad(const void *gamma, bool zeroCentered, const Run<T, V> &dyRun,
          const Run<T, V> &xRun, int i, T *dx, const RowStatistics &row) {
  float dy[V], x[V], g[V], out[V];
  dyRun.unpack(dy);
  xRun.unpack(x);
  gammaOf<T>(gamma, zeroCentered, i, g);
#pragma unroll
  for (int k = 0; k < V; ++k)
    out[k] = kCentred
                 ? math::layerNormGrad(dy[k], x[k], g[k], row.mu, row.rsigma,
                                       row.meanOfGrad, row.mean)
                 : math::rmsNormGrad(dy[k], x[k], g[k], row.rsigma, row.mean);
  Run<T, V>::pack(out).store(dx + i);
}

} // namespace
} // namespace te::rt::cuda

#endif // TE_RUNTIME_KERNELS_NORM_NORM_ROWS_CUH
