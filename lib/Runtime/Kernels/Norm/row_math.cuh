//===- row_math.cuh - what norms do with the elements of a row ------------===//
//
// The two norms share their code: `kCentred` marks what layer_norm has and
// rms_norm does not have, the mean.
//
//===----------------------------------------------------------------------===//

#ifndef TE_RUNTIME_KERNELS_NORM_ROW_MATH_CUH
#define TE_RUNTIME_KERNELS_NORM_ROW_MATH_CUH

#include "Core/Formulas.h"
#include "Kernels/Norm/lane_sum.cuh"
#include "Kernels/Norm/norm_runs.cuh"

namespace te::rt::cuda {

template <int V, typename T>
__device__ __forceinline__ void addValues(const Run<T, V> &run, int slot,
                                          LaneSum<V> &sum) {
  float x[V];
  run.unpack(x);
#pragma unroll
  for (int k = 0; k < V; ++k)
    sum.acc[(slot * V + k) % 8] = sum.acc[(slot * V + k) % 8] + x[k];
}

template <bool kCentred, int V, typename T>
__device__ __forceinline__ void addSquares(const Run<T, V> &run, float mu,
                                           int slot, LaneSum<V> &sum) {
  float x[V];
  run.unpack(x);
#pragma unroll
  for (int k = 0; k < V; ++k) {
    const float d = kCentred ? x[k] - mu : x[k];
    sum.acc[(slot * V + k) % 8] = fmaf(d, d, sum.acc[(slot * V + k) % 8]);
  }
}

template <bool kCentred, int V, typename T>
__device__ __forceinline__ Run<T, V>
normalised(const Run<T, V> &run, const Run<T, V> &gamma, const Run<T, V> &beta,
           bool zeroCentered, float mu, float rsigma) {
  float x[V], g[V], b[V], out[V];
  run.unpack(x);
  gammaOf(gamma, zeroCentered, g);
  if constexpr (kCentred)
    beta.unpack(b);
#pragma unroll
  for (int k = 0; k < V; ++k)
    out[k] = kCentred ? math::layerNorm(x[k], g[k], b[k], mu, rsigma)
                      : math::rmsNorm(x[k], g[k], rsigma);
  return Run<T, V>::pack(out);
}

/// The statistics of a row that its dx depends on.
struct RowStatistics {
  float mu, rsigma;
  float meanOfGrad; // of g dy
  float mean;       // of g dy h
};

template <bool kCentred, int V, typename T>
__device__ __forceinline__ void
addProducts(const Run<T, V> &gamma, bool zeroCentered, const Run<T, V> &dyRun,
            const Run<T, V> &xRun, int slot, const RowStatistics &row,
            LaneSum<V> &grads, LaneSum<V> &products) {
  float dy[V], x[V], g[V];
  dyRun.unpack(dy);
  xRun.unpack(x);
  gammaOf(gamma, zeroCentered, g);
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
inputGrad(const Run<T, V> &gamma, bool zeroCentered, const Run<T, V> &dyRun,
          const Run<T, V> &xRun, bool adds, const Run<T, V> &addend, T *dx,
          const RowStatistics &row, AbsMax<T> &amax) {
  float dy[V], x[V], g[V], out[V];
  dyRun.unpack(dy);
  xRun.unpack(x);
  gammaOf(gamma, zeroCentered, g);
#pragma unroll
  for (int k = 0; k < V; ++k)
    out[k] = kCentred
                 ? math::layerNormGrad(dy[k], x[k], g[k], row.mu, row.rsigma,
                                       row.meanOfGrad, row.mean)
                 : math::rmsNormGrad(dy[k], x[k], g[k], row.rsigma, row.mean);
  Run<T, V> packed = Run<T, V>::pack(out);
  if (adds)
    packed = added(packed, addend);
  amax.add(packed);
  packed.store(dx);
}

/// Adds what a row contributes to dgamma and, if `kCentred`, dbeta.
template <bool kCentred, int V, typename T>
__device__ __forceinline__ void
addToParameters(const Run<T, V> &dyRun, const Run<T, V> &xRun, float mu,
                float rsigma, float (&acc)[kCentred ? 2 : 1][V]) {
  float dy[V], x[V];
  dyRun.unpack(dy);
  xRun.unpack(x);
#pragma unroll
  for (int k = 0; k < V; ++k) {
    const float h = rsigma * (kCentred ? x[k] - mu : x[k]);
    acc[0][k] = fmaf(dy[k], h, acc[0][k]);
    if constexpr (kCentred)
      acc[1][k] = acc[1][k] + dy[k];
  }
}

} // namespace te::rt::cuda

#endif // TE_RUNTIME_KERNELS_NORM_ROW_MATH_CUH
