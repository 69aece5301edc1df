//===- row_sum.cu - the sum of each row -----------------------------------===//
//
// te_row_sum_<type>_<out_type>: a warp sums a row in the lanes of lane_sum.cuh.
// Rows that are not aligned are read element by element (V = 1).
//
//===----------------------------------------------------------------------===//

#include "Kernels/Device/elements.cuh"
#include "Kernels/Device/launch_sm90.cuh"
#include "Kernels/Norm/lane_sum.cuh"
#include "Kernels/RowSum/row_sum_args.h"

namespace te::rt::cuda {
namespace {

template <typename T, int V>
__device__ __forceinline__ float sumOfRow(const T *x, int cols) {
  LaneSum<V> sum;
  for (int begin = 0; begin < cols; begin += kRowSumRuns * 32 * V) {
    Run<T, V> runs[kRowSumRuns];
    forRuns<V, kRowSumRuns>(
        begin, cols, [&](int r, int i) { runs[r] = Run<T, V>::load(x + i); });
    forRuns<V, kRowSumRuns>(begin, cols, [&](int r, int) {
      float values[V];
      runs[r].unpack(values);
#pragma unroll
      for (int k = 0; k < V; ++k)
        sum.acc[(r * V + k) % 8] = sum.acc[(r * V + k) % 8] + values[k];
    });
  }
  return sum.total();
}

template <typename T, typename Out>
__device__ __forceinline__ void rowSum(const RowSumArgs &args) {
  const int64_t row =
      static_cast<int64_t>(blockIdx.x) * kRowSumRowsPerBlock + threadIdx.x / 32;
  if (row >= args.rows)
    return;
  const T *x = static_cast<const T *>(args.x) + row * args.cols;
  const float sum = args.vectors ? sumOfRow<T, runLength<T>>(x, args.cols)
                                 : sumOfRow<T, 1>(x, args.cols);
  if (threadIdx.x % 32 == 0)
    static_cast<Out *>(args.y)[row] = fromFloat<Out>(sum);
}

} // namespace
} // namespace te::rt::cuda

using namespace te::rt::cuda;

#define TE_ROW_SUM(name, out, T, Out)                                          \
  extern "C" __global__ void __launch_bounds__(kRowSumBlock)                   \
      te_row_sum_##name##_##out(const __grid_constant__ RowSumArgs args) {     \
    te::rt::cuda::ptx::beginKernel();                                          \
    rowSum<T, Out>(args);                                                      \
  }
#define TE_ROW_SUM_TYPE(name, T)                                               \
  TE_ROW_SUM(name, f32, T, float)                                              \
  TE_ROW_SUM(name, bf16, T, bf16)                                              \
  TE_ROW_SUM(name, f16, T, f16)
TE_ROW_SUM_TYPE(f32, float)
TE_ROW_SUM_TYPE(bf16, bf16)
TE_ROW_SUM_TYPE(f16, f16)
