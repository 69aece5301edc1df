//===- norm_ring.cu - norm gradients that read each row once --------------===//
//
// te_{rms,layer}_norm_backward_ring_<type>. Rows of dy and x pass through a
// ring in shared memory, where they are read twice: along the row by one of
// eight warps, which makes dx, and along columns by eight others, which sum
// dgamma (and dbeta) of a strip in registers. One more warp copies. A CTA takes
// strips in turn, so the rows of a strip meet its columns in order.
//
// Who waits for whom: `full[s]` completes when both rows of slot s are in,
// `empty[s]` when the warp that has the row and the eight of the columns have
// left it.
//
//===----------------------------------------------------------------------===//

#include "Kernels/Device/ptx_sm90.cuh"
#include "Kernels/Norm/norm_args.h"
#include "Kernels/Norm/norm_rows.cuh"

namespace te::rt::cuda {
namespace {

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)

struct Ring {
  uint8_t *slots; // [slot][dy, x][row]
  uint8_t *gamma; // [row]
  uint64_t *full; // [slot]
  uint64_t *empty;
  uint64_t *gammaFull;
  uint32_t count, rowBytes;

  __device__ __forceinline__ Ring(uint8_t *raw, uint32_t count,
                                  uint32_t rowBytes)
      : slots(raw), gamma(raw + count * 2 * rowBytes),
        full(reinterpret_cast<uint64_t *>(gamma + rowBytes)),
        empty(full + kRingMostSlots), gammaFull(empty + kRingMostSlots),
        count(count), rowBytes(rowBytes) {}

  __device__ __forceinline__ const uint8_t *dy(uint32_t slot) const {
    return slots + slot * 2 * rowBytes;
  }
  __device__ __forceinline__ const uint8_t *x(uint32_t slot) const {
    return dy(slot) + rowBytes;
  }
};

/// The rows of a CTA in order, every `step`-th of them from `first` on: where
/// they lie in the matrix and in the ring.
class RowWalk {
public:
  __device__ __forceinline__ RowWalk(const NormBackwardArgs &args,
                                     uint32_t first, uint32_t step)
      : args(args), step(step), next(first), slot(first % args.slots),
        parity(first / args.slots % 2) {}

  /// False when there is no row left.
  __device__ __forceinline__ bool isInside() const { return row() < args.rows; }
  __device__ __forceinline__ int64_t strip() const {
    return blockIdx.x + static_cast<int64_t>(next / kStripRows) * gridDim.x;
  }
  __device__ __forceinline__ int64_t row() const {
    return strip() * kStripRows + next % kStripRows;
  }
  __device__ __forceinline__ void advance() {
    next += step;
    slot += step;
    while (slot >= args.slots) {
      slot -= args.slots;
      parity ^= 1;
    }
  }

private:
  const NormBackwardArgs &args;
  uint32_t step, next;

public:
  uint32_t slot, parity;
};

__device__ __forceinline__ void leave(uint64_t *empty) {
  __syncwarp();
  if (threadIdx.x % 32 == 0)
    ptx::barrierArrive(empty);
}

/// By one thread.
__device__ __forceinline__ void copyRows(const NormBackwardArgs &args,
                                         const Ring &ring) {
  ptx::barrierArriveExpect(ring.gammaFull, ring.rowBytes);
  ptx::copyBytes(ring.gamma, args.gamma, ring.gammaFull, ring.rowBytes);
  for (RowWalk walk(args, 0, 1); walk.isInside(); walk.advance()) {
    uint64_t *full = &ring.full[walk.slot];
    const int64_t at = walk.row() * ring.rowBytes;
    ptx::barrierWait(&ring.empty[walk.slot], walk.parity ^ 1);
    ptx::barrierArriveExpect(full, 2 * ring.rowBytes);
    ptx::copyBytes(ring.slots + walk.slot * 2 * ring.rowBytes,
                   static_cast<const uint8_t *>(args.dy) + at, full,
                   ring.rowBytes);
    ptx::copyBytes(ring.slots + (walk.slot * 2 + 1) * ring.rowBytes,
                   static_cast<const uint8_t *>(args.x) + at, full,
                   ring.rowBytes);
  }
}

template <typename T, bool kCentred>
__device__ __forceinline__ void makeRows(const NormBackwardArgs &args,
                                         const Ring &ring) {
  constexpr int V = runLength<T>, kRuns = kNormShortRuns;
  ptx::barrierWait(ring.gammaFull, 0);
  for (RowWalk walk(args, threadIdx.x / 32, kRingRowWarps); walk.isInside();
       walk.advance()) {
    const int64_t row = walk.row();
    RowStatistics of{kCentred ? args.mu[row] : 0.0f, args.rsigma[row], 0.0f,
                     0.0f};
    const T *dy = reinterpret_cast<const T *>(ring.dy(walk.slot));
    const T *x = reinterpret_cast<const T *>(ring.x(walk.slot));
    // A parity tells a phase only from its neighbours, and this warp waits for
    // every eighth row: the slot's last row but one was gone before this warp's
    // last came, but its last may still be on its way, for copies overtake each
    // other. Hence first `empty`.
    ptx::barrierWait(&ring.empty[walk.slot], walk.parity ^ 1);
    ptx::barrierWait(&ring.full[walk.slot], walk.parity);
    LaneSum<V> grads, products;
    forRuns<V, kRuns>(0, args.cols, [&](int r, int i) {
      addProducts<kCentred>(ring.gamma, args.zeroCentered,
                            Run<T, V>::load(dy + i), Run<T, V>::load(x + i), r,
                            i, of, grads, products);
    });
    if constexpr (kCentred)
      of.meanOfGrad = grads.total() / static_cast<float>(args.cols);
    of.mean = products.total() / static_cast<float>(args.cols);
    T *dx = static_cast<T *>(args.dx) + row * args.cols;
    forRuns<V, kRuns>(0, args.cols, [&](int, int i) {
      inputGrad<kCentred>(ring.gamma, args.zeroCentered,
                          Run<T, V>::load(dy + i), Run<T, V>::load(x + i), i,
                          dx, of);
    });
    leave(&ring.empty[walk.slot]);
  }
}

/// Each thread has every 256th run of 16 bytes.
template <typename T, bool kCentred>
__device__ __forceinline__ void sumColumns(const NormBackwardArgs &args,
                                           const Ring &ring) {
  constexpr int V = runLength<T>, kThreads = kRingColumnWarps * 32;
  constexpr int kRuns = kRingMostRowBytes / 16 / kThreads;
  constexpr int kSums = kCentred ? 2 : 1;
  const int thread = static_cast<int>(threadIdx.x) - kRingRowWarps * 32;
  const int lane = thread % 32;
  float acc[kSums][kRuns][V] = {};
  float rsigmas = 0.0f, mus = 0.0f; // of the strip's rows, one to a lane
  static_assert(kStripRows == 32);
  for (RowWalk walk(args, 0, 1); walk.isInside();) {
    const int64_t row = walk.row(), strip = walk.strip();
    const int within = static_cast<int>(row % kStripRows);
    if (within == 0 && row + lane < args.rows) {
      rsigmas = args.rsigma[row + lane];
      if constexpr (kCentred)
        mus = args.mu[row + lane];
    }
    const float rsigma = __shfl_sync(~0u, rsigmas, within);
    const float mu = kCentred ? __shfl_sync(~0u, mus, within) : 0.0f;
    ptx::barrierWait(&ring.full[walk.slot], walk.parity);
#pragma unroll
    for (int r = 0; r < kRuns; ++r) {
      const int i = (r * kThreads + thread) * V;
      if (i >= args.cols)
        continue;
      float dy[V], x[V];
      Run<T, V>::load(reinterpret_cast<const T *>(ring.dy(walk.slot)) + i)
          .unpack(dy);
      Run<T, V>::load(reinterpret_cast<const T *>(ring.x(walk.slot)) + i)
          .unpack(x);
#pragma unroll
      for (int k = 0; k < V; ++k) {
        const float h = rsigma * (kCentred ? x[k] - mu : x[k]);
        acc[0][r][k] = fmaf(dy[k], h, acc[0][r][k]);
        if constexpr (kCentred)
          acc[1][r][k] = acc[1][r][k] + dy[k];
      }
    }
    leave(&ring.empty[walk.slot]);
    walk.advance();
    if (within != kStripRows - 1 && row != args.rows - 1)
      continue;
#pragma unroll
    for (int s = 0; s < kSums; ++s)
#pragma unroll
      for (int r = 0; r < kRuns; ++r) {
        const int i = (r * kThreads + thread) * V;
        if (i < args.cols)
          Run<float, V>::pack(acc[s][r]).store(
              args.partial + (strip * kSums + s) * args.cols + i);
#pragma unroll
        for (int k = 0; k < V; ++k)
          acc[s][r][k] = 0.0f;
      }
  }
}

template <typename T, bool kCentred>
__device__ __forceinline__ void backwardRing(const NormBackwardArgs &args) {
  extern __shared__ __align__(16) uint8_t raw[];
  const Ring ring(raw, args.slots,
                  static_cast<uint32_t>(args.cols) * sizeof(T));
  if (threadIdx.x == 0) {
    for (uint32_t s = 0; s < args.slots; ++s) {
      ptx::barrierInit(&ring.full[s], 1);
      ptx::barrierInit(&ring.empty[s], 1 + kRingColumnWarps);
    }
    ptx::barrierInit(ring.gammaFull, 1);
    ptx::barrierInitFence();
  }
  __syncthreads();
  const unsigned warp = threadIdx.x / 32;
  if (warp < kRingRowWarps)
    makeRows<T, kCentred>(args, ring);
  else if (warp < kRingRowWarps + kRingColumnWarps)
    sumColumns<T, kCentred>(args, ring);
  else if (threadIdx.x % 32 == 0)
    copyRows(args, ring);
}

#endif // __CUDA_ARCH_FEAT_SM90_ALL

} // namespace
} // namespace te::rt::cuda

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
#define TE_BODY(T, centred) te::rt::cuda::backwardRing<T, centred>(args)
#else
#define TE_BODY(T, centred) __trap()
#endif

#define TE_NORM_RING(name, type, T, centred)                                   \
  extern "C" __global__ void __launch_bounds__(te::rt::cuda::kRingThreads, 1)  \
      te_##name##_backward_ring_##type(                                        \
          const __grid_constant__ te::rt::cuda::NormBackwardArgs args) {       \
    TE_BODY(T, centred);                                                       \
  }
#define TE_NORM_RINGS(type, T)                                                 \
  TE_NORM_RING(rms_norm, type, T, false)                                       \
  TE_NORM_RING(layer_norm, type, T, true)
TE_NORM_RINGS(f32, float)
TE_NORM_RINGS(bf16, te::rt::cuda::bf16)
TE_NORM_RINGS(f16, te::rt::cuda::f16)
