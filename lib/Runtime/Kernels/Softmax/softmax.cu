//===- softmax.cu - softmax of rows and its gradient ----------------------===//
//
// te_softmax_{short,any}_<type>, te_softmax_backward_{short,any}_<type>. A warp
// computes a row, with the loads of norm.cu, which suit the lanes of a row sum.
// Short rows, of up to 8 KiB, stay in registers: the exponentials of the
// forward are computed once, between the maximum and the sum. Other rows are
// read again for each pass, and their exponentials are computed again; those
// that are not aligned are read element by element (V = 1).
//
// A thread writes an element after its last read of it, so that a result may
// take the memory of an operand.
//
//===----------------------------------------------------------------------===//

#include "Core/Formulas.h"
#include "Kernels/Activation/fast_math.cuh"
#include "Kernels/Device/elements.cuh"
#include "Kernels/Norm/lane_sum.cuh"
#include "Kernels/Softmax/softmax_args.h"

namespace te::rt::cuda {
namespace {

/// Runs that a thread has at a time; kRuns == 0: a row of any length.
template <int kRuns> inline constexpr int kKept = kRuns == 0 ? 8 : kRuns;

/// Calls pass(begin) for all parts of a row; a row that is kept has one.
template <int V, int kRuns, typename Pass>
__device__ __forceinline__ void forParts(int cols, Pass pass) {
  int begin = 0;
  do {
    pass(begin);
    begin += kKept<kRuns> * 32 * V;
  } while (kRuns == 0 && begin < cols);
}

/// The maximum over the warp of values that are no NaN.
__device__ __forceinline__ float warpMax(float max) {
#pragma unroll
  for (int distance = 16; distance != 0; distance /= 2)
    max = fmaxf(max, __shfl_xor_sync(~0u, max, distance));
  return max;
}

template <typename T, int V, int kRuns>
__device__ __forceinline__ void softmaxRow(const SoftmaxArgs &args,
                                           int64_t row) {
  const T *x = static_cast<const T *>(args.x) + row * args.cols;
  T *y = static_cast<T *>(args.out) + row * args.cols;
  constexpr int kKeptRuns = kKept<kRuns>;
  // First the scaled elements, then their exponentials.
  float values[kKeptRuns][V];
  const auto load = [&](int begin) {
    Run<T, V> runs[kKeptRuns];
    forRuns<V, kKeptRuns>(begin, args.cols, [&](int r, int i) {
      runs[r] = Run<T, V>::load(x + i);
    });
    forRuns<V, kKeptRuns>(begin, args.cols, [&](int r, int) {
      runs[r].unpack(values[r]);
#pragma unroll
      for (int k = 0; k < V; ++k)
        values[r][k] = args.scale * values[r][k];
    });
  };

  float max = -math::kInfinity;
  forParts<V, kRuns>(args.cols, [&](int begin) {
    load(begin);
    forRuns<V, kKeptRuns>(begin, args.cols, [&](int r, int) {
#pragma unroll
      for (int k = 0; k < V; ++k)
        max = values[r][k] > max ? values[r][k] : max;
    });
  });
  max = warpMax(max);

  const auto exponentiate = [&](int begin) {
    if (kRuns == 0)
      load(begin);
    forRuns<V, kKeptRuns>(begin, args.cols, [&](int r, int) {
#pragma unroll
      for (int k = 0; k < V; ++k)
        values[r][k] = values[r][k] - max;
      expOf(values[r], values[r]);
    });
  };
  LaneSum<V> sum;
  forParts<V, kRuns>(args.cols, [&](int begin) {
    exponentiate(begin);
    forRuns<V, kKeptRuns>(begin, args.cols, [&](int r, int) {
#pragma unroll
      for (int k = 0; k < V; ++k)
        sum.acc[(r * V + k) % 8] = sum.acc[(r * V + k) % 8] + values[r][k];
    });
  });
  const float inverse = 1.0f / sum.total();

  forParts<V, kRuns>(args.cols, [&](int begin) {
    if (kRuns == 0)
      exponentiate(begin);
    forRuns<V, kKeptRuns>(begin, args.cols, [&](int r, int i) {
#pragma unroll
      for (int k = 0; k < V; ++k)
        values[r][k] = values[r][k] * inverse;
      Run<T, V>::pack(values[r]).store(y + i);
    });
  });
}

template <typename T, int V, int kRuns>
__device__ __forceinline__ void gradientRow(const SoftmaxArgs &args,
                                            int64_t row) {
  const T *dy = static_cast<const T *>(args.x) + row * args.cols;
  const T *y = static_cast<const T *>(args.y) + row * args.cols;
  T *dx = static_cast<T *>(args.out) + row * args.cols;
  constexpr int kKeptRuns = kKept<kRuns>;
  Run<T, V> dyRuns[kKeptRuns], yRuns[kKeptRuns];
  const auto load = [&](int begin) {
    forRuns<V, kKeptRuns>(begin, args.cols, [&](int r, int i) {
      dyRuns[r] = Run<T, V>::load(dy + i);
      yRuns[r] = Run<T, V>::load(y + i);
    });
  };
  /// Calls visit(dy, y, first element, slot) for the runs of a part.
  const auto forValues = [&](int begin, auto visit) {
    forRuns<V, kKeptRuns>(begin, args.cols, [&](int r, int i) {
      float dyOf[V], yOf[V];
      dyRuns[r].unpack(dyOf);
      yRuns[r].unpack(yOf);
      visit(dyOf, yOf, i, r);
    });
  };

  LaneSum<V> products;
  forParts<V, kRuns>(args.cols, [&](int begin) {
    load(begin);
    forValues(begin, [&](const float (&dyOf)[V], const float (&yOf)[V], int,
                         int slot) {
#pragma unroll
      for (int k = 0; k < V; ++k)
        products.acc[(slot * V + k) % 8] =
            fmaf(dyOf[k], yOf[k], products.acc[(slot * V + k) % 8]);
    });
  });
  const float sum = products.total();

  forParts<V, kRuns>(args.cols, [&](int begin) {
    if (kRuns == 0)
      load(begin);
    forValues(begin,
              [&](const float (&dyOf)[V], const float (&yOf)[V], int i, int) {
                float out[V];
#pragma unroll
                for (int k = 0; k < V; ++k)
                  out[k] = math::softmaxGrad(dyOf[k], yOf[k], args.scale, sum);
                Run<T, V>::pack(out).store(dx + i);
              });
  });
}

template <bool kBackward, typename T, int V, int kRuns>
__device__ __forceinline__ void computeRow(const SoftmaxArgs &args,
                                           int64_t row) {
  if constexpr (kBackward)
    gradientRow<T, V, kRuns>(args, row);
  else
    softmaxRow<T, V, kRuns>(args, row);
}

template <bool kBackward, typename T, int kRuns>
__device__ __forceinline__ void computeRows(const SoftmaxArgs &args) {
  const int64_t row = static_cast<int64_t>(blockIdx.x) * kSoftmaxRowsPerBlock +
                      threadIdx.x / 32;
  if (row >= args.rows)
    return;
  if (args.vectors)
    computeRow<kBackward, T, runLength<T>, kRuns>(args, row);
  else if constexpr (kRuns == 0)
    computeRow<kBackward, T, 1, kRuns>(args, row);
}

} // namespace
} // namespace te::rt::cuda

using namespace te::rt::cuda;

// The blocks per multiprocessor are given where ptxas would otherwise use more
// registers, and fit fewer blocks.
#define TE_SOFTMAX(name, type, T, kRuns, kBlocks)                              \
  extern "C" __global__ void __launch_bounds__(kSoftmaxBlock, kBlocks)         \
      te_softmax_##name##_##type(const __grid_constant__ SoftmaxArgs args) {   \
    computeRows<false, T, kRuns>(args);                                        \
  }                                                                            \
  extern "C" __global__ void __launch_bounds__(kSoftmaxBlock, kBlocks)         \
      te_softmax_backward_##name##_##type(                                     \
          const __grid_constant__ SoftmaxArgs args) {                          \
    computeRows<true, T, kRuns>(args);                                         \
  }
#define TE_SOFTMAX_TYPE(type, T)                                               \
  TE_SOFTMAX(short, type, T, kSoftmaxRuns, 3)                                  \
  TE_SOFTMAX(any, type, T, 0, 4)
TE_SOFTMAX_TYPE(f32, float)
TE_SOFTMAX_TYPE(bf16, bf16)
TE_SOFTMAX_TYPE(f16, f16)
