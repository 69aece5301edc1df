//===- product_ring.cuh - what the persistent products on Hopper share ----===//
//
// One CTA makes 256 x 128 tiles: two consumer warpgroups of 128 rows each, and
// one producer warp that keeps four stages of operands in flight. A stage holds
// 128 bytes of the contracted axis for every row and column of the tile, so 128
// elements in 8 bits, 64 in 16. CTAs come in pairs that share the 256 rows of
// A: each copies one half of A into both, so L2 serves A once for two tiles.
//
// Which tiles there are is a template parameter, `Tiles`: those of one product
// (block_gemm.cu) or of the products of many groups (grouped_tiles.cuh). What
// is multiplied is scaled_product.cuh's or plain_product.cuh's.
//
// Who waits for whom: `full[s]` completes when the producer's arrival and all
// bytes of stage s are in (half of A's bytes come from the peer's producer).
// `empty[s]` completes when the eight consumer warps of *both* CTAs have left
// stage s, because a producer also writes into its peer's stage.
//
// An f32 c that the tile adds passes through the ring as well, in four steps
// after the last operands: its loads are in flight while these are multiplied.
// The first warpgroup has its two steps first. So it is done while the other
// one still stores, and multiplies the next tile meanwhile. (An atomic addition
// of the store, red or cp.reduce.async.bulk, would save the loads, but flushes
// subnormal numbers in global memory.)
//
//===----------------------------------------------------------------------===//

#ifndef TE_RUNTIME_KERNELS_GEMM_PRODUCT_RING_CUH
#define TE_RUNTIME_KERNELS_GEMM_PRODUCT_RING_CUH

#include "Kernels/Device/barrier.cuh"
#include "Kernels/Device/cluster_sm90.cuh"
#include "Kernels/Device/mbarrier_sm90.cuh"
#include "Kernels/Device/setmaxnreg_sm90.cuh"
#include "Kernels/Device/tma_sm90.cuh"
#include "Kernels/Device/wgmma_sm90.cuh"
#include "Kernels/Gemm/block_gemm_args.h"
#include "Kernels/Gemm/group_tiles.h"

#include <cuda_bf16.h>

namespace te::rt::cuda {
namespace {

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)

/// Bytes of the contracted axis in a stage, of each row and column.
constexpr int kLine = kBlockGemmDepth;
constexpr int kRows = kBlockGemmRows, kCols = kBlockGemmCols,
              kStages = kBlockGemmStages;
constexpr int kConsumerWarps = 8;

struct Shared {
  uint8_t *a;      // [stage][256 * 128]
  uint8_t *b;      // [stage][128 * 128]
  float *aScale;   // [stage][256]
  float *bScale;   // [stage][128]
  uint64_t *full;  // [stage]
  uint64_t *empty; // [stage]

  __device__ __forceinline__ uint8_t *aOf(uint32_t stage) const {
    return a + stage * kRows * kLine;
  }
  __device__ __forceinline__ uint8_t *bOf(uint32_t stage) const {
    return b + stage * kCols * kLine;
  }
};

__device__ __forceinline__ Shared carve(uint8_t *raw) {
  Shared shared;
  shared.a = raw;
  shared.b = shared.a + kStages * kRows * kLine;
  shared.aScale = reinterpret_cast<float *>(shared.b + kStages * kCols * kLine);
  shared.bScale = shared.aScale + kStages * kRows;
  shared.full = reinterpret_cast<uint64_t *>(shared.bScale + kStages * kCols);
  shared.empty = shared.full + kStages;
  return shared;
}

/// Position in the ring of stages.
struct Ring {
  uint32_t stage = 0, parity = 0;
  __device__ __forceinline__ void advance() {
    if (++stage == kStages) {
      stage = 0;
      parity ^= 1;
    }
  }
};

/// This warp is done with a stage: tells the producers of both CTAs.
__device__ __forceinline__ void leave(uint64_t *empty, int lane) {
  __syncwarp();
  if (lane < kBlockGemmCluster)
    ptx::mbarrierArriveCluster(empty, lane);
}

/// The warpgroup of this thread. The shuffle tells the compiler that a warp
/// agrees on it: what follows from it is then kept in uniform registers.
__device__ __forceinline__ int warpgroup() {
  return __shfl_sync(~0u, threadIdx.x / 128, 0);
}

/// Row of a thread's element of `total` within 64; `half` is bit 1 of its
/// index.
__device__ __forceinline__ uint32_t rowOf(int half) {
  return (threadIdx.x % 128) / 32 * 16 + threadIdx.x % 32 / 4 + 8 * half;
}

//===----------------------------------------------------------------------===//
// What is added
//===----------------------------------------------------------------------===//

/// Where c is given and not kept, zeros are added: a sum of -0 becomes +0.
enum class Summand { None, Zeros, C };

template <typename Tiles>
__device__ __forceinline__ Summand summandOf(const BlockGemmArgs &args) {
  if (!Tiles::kHasC || !args.c)
    return Summand::None;
  return !args.keep || *args.keep == 1.0f ? Summand::C : Summand::Zeros;
}
/// The same in a whole warp, which agrees on it as far as the compiler knows.
template <typename Tiles>
__device__ __forceinline__ Summand summandOfWarp(const BlockGemmArgs &args) {
  return static_cast<Summand>(
      __shfl_sync(~0u, static_cast<int>(summandOf<Tiles>(args)), 0));
}

//===----------------------------------------------------------------------===//
// c in f32
//===----------------------------------------------------------------------===//

/// Steps of the ring that bring c, 64 rows each: step i has rows of half i % 2
/// of warpgroup i / 2.
constexpr int kCSteps = 4;

template <typename Out, typename Tiles>
__device__ __forceinline__ bool bringsC(Summand summand) {
  return Tiles::kHasC && sizeof(Out) == 4 && summand == Summand::C;
}

/// Calls visit(box, x, y) for the boxes of a step.
template <typename Tiles, typename Visit>
__device__ __forceinline__ void forBoxesOfC(const Tiles &tiles, int step,
                                            Visit visit) {
  const uint32_t row = tiles.outRow() + tiles.row + step * kCBoxRows;
#pragma unroll
  for (int box = 0; box < kCols / kCBoxCols; ++box)
    visit(box, tiles.col + box * kCBoxCols, row);
}

/// Brings the tile's c into L2 when `slice` of `slices` is a few before the
/// last, so that the ring waits for no more than that.
template <typename Out, typename Tiles>
__device__ __forceinline__ void prefetchC(const BlockGemmArgs &args,
                                          const Tiles &tiles, Summand summand,
                                          uint32_t slice, uint32_t slices) {
  constexpr uint32_t kAhead = 8;
  if (!bringsC<Out, Tiles>(summand) ||
      slice != (slices > kAhead ? slices - kAhead : 0))
    return;
  for (int step = 0; step < kCSteps; ++step)
    forBoxesOfC(tiles, step, [&](int, uint32_t x, uint32_t y) {
      ptx::tmaPrefetch2d(&args.cMap, x, y);
    });
}

/// The producer's part. Rows and columns that are not the tile's may be copied;
/// nobody uses them.
template <typename Tiles>
__device__ __forceinline__ void produceC(const BlockGemmArgs &args,
                                         const Shared &shared,
                                         const Tiles &tiles, Ring &ring) {
  for (int step = 0; step < kCSteps; ++step, ring.advance()) {
    uint64_t *full = &shared.full[ring.stage];
    ptx::mbarrierWait(&shared.empty[ring.stage], ring.parity ^ 1);
    ptx::mbarrierArriveExpectTx(full, kCBoxRows * kCols * 4);
    uint8_t *to = shared.aOf(ring.stage);
    forBoxesOfC(tiles, step, [&](int box, uint32_t x, uint32_t y) {
      ptx::tmaLoad2d(to + box * kCBoxRows * kLine, &args.cMap, full, x, y);
    });
  }
}

/// Adds a step to 64 rows: what the layout of the product has of c's, from the
/// 128-byte swizzle. A sum of nothing is c itself.
__device__ __forceinline__ void addFloats(const uint8_t *tile, bool isEmpty,
                                          float (&total)[64]) {
  const int q = threadIdx.x % 4;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const uint32_t row = rowOf(half);
#pragma unroll
    for (int j = 0; j < 16; ++j) {
      // Columns 8j + 2q and the next: of box j / 4, 16-byte chunk
      // 2 (j % 4) + q / 2.
      const uint32_t chunk = (2 * (j % 4) + q / 2) ^ row % 8;
      const float2 c = *reinterpret_cast<const float2 *>(
          tile + (j / 4 * kCBoxRows + row) * kLine + chunk * 16 + q % 2 * 8);
      float *sum = &total[4 * j + 2 * half];
      sum[0] = isEmpty ? c.x : sum[0] + c.x;
      sum[1] = isEmpty ? c.y : sum[1] + c.y;
    }
  }
}

//===----------------------------------------------------------------------===//
// The result
//===----------------------------------------------------------------------===//

/// Four lanes hold columns 2q, 2q + 1 of four 8-column groups; afterwards lane
/// q holds all eight columns of group q.
__device__ __forceinline__ uint4 gather8(uint32_t v0, uint32_t v1, uint32_t v2,
                                         uint32_t v3, int q) {
  const bool odd = q & 1, high = q & 2;
  uint32_t x = __shfl_xor_sync(~0u, odd ? v0 : v1, 1);
  uint32_t y = __shfl_xor_sync(~0u, odd ? v2 : v3, 1);
  // Now (a0, a1) are columns pairs of group odd, (b0, b1) of group 2 + odd.
  const uint32_t a0 = odd ? x : v0, a1 = odd ? v1 : x;
  const uint32_t b0 = odd ? y : v2, b1 = odd ? v3 : y;
  x = __shfl_xor_sync(~0u, high ? a0 : b0, 2);
  y = __shfl_xor_sync(~0u, high ? a1 : b1, 2);
  return high ? make_uint4(x, y, b0, b1) : make_uint4(a0, a1, x, y);
}

__device__ __forceinline__ uint32_t packBf16(float low, float high) {
  __nv_bfloat162 pair = __floats2bfloat162_rn(low, high);
  return *reinterpret_cast<uint32_t *>(&pair);
}

__device__ __forceinline__ float2 unpackBf16(uint32_t pair) {
  return make_float2(__uint_as_float(pair << 16),
                     __uint_as_float(pair & 0xffff0000u));
}

__device__ __forceinline__ uint32_t addBf16(uint32_t x, uint32_t y) {
  const float2 u = unpackBf16(x), v = unpackBf16(y);
  return packBf16(u.x + v.x, u.y + v.y);
}

/// Adds 64 rows of a bf16 c, or zeros, before rounding. All loads come before
/// any store: c may be out, so that the compiler could not move them there. A
/// sum of nothing is c itself.
template <typename Tiles>
__device__ __forceinline__ void
addC(const BlockGemmArgs &args, const Tiles &tiles, bool reads,
     float (&total)[64], uint32_t row, uint32_t col, bool isEmpty) {
  const int q = threadIdx.x % 4;
  uint32_t previous[2][16];
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const uint32_t r = row + rowOf(half);
    const uint64_t line = tiles.outOffset() + uint64_t(r) * args.n;
#pragma unroll
    for (int j = 0; j < 16; ++j) {
      const uint32_t at = col + 8 * j + 2 * q;
      previous[half][j] =
          reads && r < tiles.rowEnd() && at < args.n
              ? static_cast<const uint32_t *>(args.c)[(line + at) / 2]
              : 0;
    }
  }
#pragma unroll
  for (int half = 0; half < 2; ++half)
#pragma unroll
    for (int j = 0; j < 16; ++j) {
      const float2 c = unpackBf16(previous[half][j]);
      float *sum = &total[4 * j + 2 * half];
      sum[0] = isEmpty ? c.x : sum[0] + c.x;
      sum[1] = isEmpty ? c.y : sum[1] + c.y;
    }
}

/// Adds the bias to both halves of a warpgroup's rows.
template <typename Tiles>
__device__ __forceinline__ void
addBias(const BlockGemmArgs &args, const Tiles &tiles, float (&total)[2][64]) {
  const int q = threadIdx.x % 4;
  const auto *bias =
      static_cast<const uint32_t *>(args.bias) + tiles.biasOffset() / 2;
#pragma unroll
  for (int j = 0; j < 16; ++j) {
    const uint32_t at = tiles.col + 8 * j + 2 * q;
    const float2 add = unpackBf16(at < args.n ? bias[at / 2] : 0);
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float *t = &total[half][4 * j];
      t[0] += add.x, t[1] += add.y, t[2] += add.x, t[3] += add.y;
    }
  }
}

/// Writes 64 rows of a warpgroup in f32. Neighbouring lanes exchange halves of
/// two 8-column groups, so that each holds four columns in a row and a store
/// covers 64 bytes of a line.
template <typename Tiles>
__device__ __forceinline__ void
storeFloats(const BlockGemmArgs &args, const Tiles &tiles,
            const float (&total)[64], uint32_t row, uint32_t col) {
  const int q = threadIdx.x % 4;
  const bool odd = q & 1;
  const uint32_t first = col + 8 * odd + 4 * (q / 2);
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const uint32_t r = row + rowOf(half);
    const bool padding = tiles.isPadding(r);
    float *out = static_cast<float *>(args.out) + tiles.outOffset() +
                 uint64_t(r) * args.n + first;
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      const float *t = &total[8 * i + 2 * half];
      const float x = __shfl_xor_sync(~0u, odd ? t[0] : t[4], 1);
      const float y = __shfl_xor_sync(~0u, odd ? t[1] : t[5], 1);
      float4 value =
          odd ? make_float4(x, y, t[4], t[5]) : make_float4(t[0], t[1], x, y);
      if (padding)
        value = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
      if (r < tiles.rowEnd() && first + 16 * i < args.n)
        *reinterpret_cast<float4 *>(out + 16 * i) = value;
    }
  }
}

/// Writes 64 rows of a warpgroup in bf16. A product of blocks is rounded before
/// c is added, another one only after.
template <bool kRoundFirst, typename Tiles>
__device__ __forceinline__ void
storeHalves(const BlockGemmArgs &args, const Tiles &tiles, Summand summand,
            float (&total)[64], uint32_t row, uint32_t col, bool isEmpty) {
  const int q = threadIdx.x % 4;
  const bool adds = Tiles::kHasC && summand != Summand::None,
             reads = Tiles::kHasC && summand == Summand::C;
  if (adds && !kRoundFirst)
    addC(args, tiles, reads, total, row, col, isEmpty);
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const uint32_t r = row + rowOf(half);
    const uint64_t line = tiles.outOffset() + uint64_t(r) * args.n;
    const bool padding = tiles.isPadding(r);
#pragma unroll
    for (int j = 0; j < 16; j += 4) {
      auto pair = [&](int i) {
        return packBf16(total[4 * i + 2 * half], total[4 * i + 2 * half + 1]);
      };
      uint4 eight = gather8(pair(j), pair(j + 1), pair(j + 2), pair(j + 3), q);
      const uint32_t at = col + 8 * (j + q);
      if (r >= tiles.rowEnd() || at >= args.n)
        continue;
      if (adds && kRoundFirst) {
        uint4 c = make_uint4(0, 0, 0, 0);
        if (reads)
          c = *reinterpret_cast<const uint4 *>(
              static_cast<const __nv_bfloat16 *>(args.c) + line + at);
        eight = isEmpty
                    ? c
                    : make_uint4(addBf16(eight.x, c.x), addBf16(eight.y, c.y),
                                 addBf16(eight.z, c.z), addBf16(eight.w, c.w));
      }
      if (padding)
        eight = make_uint4(0, 0, 0, 0);
      *reinterpret_cast<uint4 *>(static_cast<__nv_bfloat16 *>(args.out) + line +
                                 at) = eight;
    }
  }
}

/// Ends a tile: `total` is the sum of the warpgroup's two halves in the layout
/// of the product, and takes bias and c.
template <typename Out, bool kRoundFirst, typename Tiles>
__device__ __forceinline__ void
finish(const BlockGemmArgs &args, const Shared &shared, const Tiles &tiles,
       Summand summand, Ring &ring, bool isEmpty, float (&total)[2][64]) {
  const int group = warpgroup();
  const uint32_t row = tiles.row + group * 128;
  // Only rows of no group are an empty sum where there may be a bias; no bias
  // is theirs.
  if (args.bias && !isEmpty)
    addBias(args, tiles, total);
  const auto store = [&](int half) {
    if constexpr (sizeof(Out) == 4)
      storeFloats(args, tiles, total[half], row + half * 64, tiles.col);
    else
      storeHalves<kRoundFirst>(args, tiles, summand, total[half],
                               row + half * 64, tiles.col, isEmpty);
  };
  if (!bringsC<Out, Tiles>(summand)) {
    if (sizeof(Out) == 4 && Tiles::kHasC && summand == Summand::Zeros)
#pragma unroll
      for (int i = 0; i < 64; ++i)
        total[0][i] += 0.0f, total[1][i] += 0.0f;
#pragma unroll
    for (int half = 0; half < 2; ++half)
      store(half);
    return;
  }
  // All threads step through the ring alike, whoever's the steps are: a
  // position that differed would cost the loop of products its uniform
  // registers.
#pragma unroll
  for (int step = 0; step < kCSteps; ++step, ring.advance()) {
    ptx::mbarrierWait(&shared.full[ring.stage], ring.parity);
    const bool own = step / 2 == group;
    if (own)
      addFloats(shared.aOf(ring.stage), isEmpty, total[step % 2]);
    leave(&shared.empty[ring.stage], threadIdx.x % 32);
    if (own)
      store(step % 2);
  }
}

//===----------------------------------------------------------------------===//
// Roles
//===----------------------------------------------------------------------===//

/// The whole kernel. `prepare` is called by all threads before anything else,
/// and what it writes to shared memory is there when makeTiles(rank) is called,
/// by every thread that walks tiles: the one of produce(shared, tiles, rank)
/// and those of consume(shared, tiles).
template <typename Prepare, typename MakeTiles, typename Produce,
          typename Consume>
__device__ __forceinline__ void runRoles(uint8_t *raw, Prepare prepare,
                                         MakeTiles makeTiles, Produce produce,
                                         Consume consume) {
  const Shared shared = carve(raw);
  const uint32_t rank = ptx::clusterCtaRank();
  if (threadIdx.x == 0) {
    for (int s = 0; s < kStages; ++s) {
      ptx::mbarrierInit(&shared.full[s], 1);
      ptx::mbarrierInit(&shared.empty[s], kConsumerWarps * kBlockGemmCluster);
    }
    ptx::mbarrierInitFence();
  }
  prepare();
  // The peer's barriers must exist before anything is counted on them.
  ptx::clusterSync();
  if (threadIdx.x >= 256) {
    ptx::setmaxnregDec<40>();
    if (threadIdx.x == 256)
      produce(shared, makeTiles(rank), rank);
  } else {
    ptx::setmaxnregInc<232>();
    // The address passes through a shuffle so that the compiler keeps it: it
    // would derive it from the CTA's rank again in every slice.
    const uint32_t base = __shfl_sync(~0u, ptx::sharedAddress(raw), 0);
    consume(carve(static_cast<uint8_t *>(__cvta_shared_to_generic(base))),
            makeTiles(rank));
  }
  // A CTA must not leave while its peer still arrives on its barriers.
  __syncwarp();
  ptx::clusterSync();
}

#endif // __CUDA_ARCH_FEAT_SM90_ALL

} // namespace
} // namespace te::rt::cuda

#endif // TE_RUNTIME_KERNELS_GEMM_PRODUCT_RING_CUH
