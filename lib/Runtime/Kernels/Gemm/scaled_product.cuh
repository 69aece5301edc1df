//===- scaled_product.cuh - FP8 products with scales, on Hopper -----------===//
//
// out[m, n] = sum over 128-wide slices of k of (A B^T of the slice) * sa * sb.
// A has 1x128 scales, B has 1x128 or 128x128 scales; or neither has any, and
// one factor multiplies the sum.
//
// A persistent kernel. One CTA makes 256 x 128 tiles: two consumer warpgroups
// of 128 rows each, and one producer warp that keeps four stages of 128-wide
// slices in flight. CTAs come in pairs that share the 256 rows of A: each
// copies one half of A into both, so L2 serves A once for two tiles.
//
// Which tiles there are is a template parameter, `Tiles`: those of one product
// (block_gemm.cu) or of the products of many groups (grouped_gemm.cu).
//
// Accumulation has two levels. The tensor core sums one slice (four products
// of depth 32) into `partial`, which is then scaled and added to `total` with
// ordinary f32 arithmetic: the scales demand it, and it also keeps the sum
// exact where the tensor core's accumulator is short. A warpgroup does that for
// its two halves of 64 rows in turn; while it scales one half, the other
// warpgroup has the tensor core. (Handing the tensor core over with named
// barriers, so that the two never fall into step, measured 1-2 % slower.)
//
// Who waits for whom: `full[s]` completes when the producer's arrival and all
// bytes of stage s are in (half of A's bytes come from the peer's producer).
// `empty[s]` completes when the eight consumer warps of *both* CTAs have left
// stage s, because a producer also writes into its peer's stage.
//
//===----------------------------------------------------------------------===//

#ifndef TE_RUNTIME_KERNELS_GEMM_SCALED_PRODUCT_CUH
#define TE_RUNTIME_KERNELS_GEMM_SCALED_PRODUCT_CUH

#include "Kernels/Device/ptx_sm90.cuh"
#include "Kernels/Gemm/block_gemm_args.h"
#include "Kernels/Gemm/group_tiles.h"

#include <cuda_bf16.h>

namespace te::rt::cuda {
namespace {

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)

constexpr int kRows = kBlockGemmRows, kCols = kBlockGemmCols,
              kDepth = kBlockGemmDepth, kStages = kBlockGemmStages;
constexpr int kConsumerWarps = 8;

struct Shared {
  uint8_t *a;      // [stage][256][128]
  uint8_t *b;      // [stage][128][128]
  float *aScale;   // [stage][256]
  float *bScale;   // [stage][128]
  uint64_t *full;  // [stage]
  uint64_t *empty; // [stage]
};

__device__ __forceinline__ Shared carve(uint8_t *raw) {
  Shared shared;
  shared.a = raw;
  shared.b = shared.a + kStages * kRows * kDepth;
  shared.aScale =
      reinterpret_cast<float *>(shared.b + kStages * kCols * kDepth);
  shared.bScale = shared.aScale + kStages * kRows;
  shared.full = reinterpret_cast<uint64_t *>(shared.bScale + kStages * kCols);
  shared.empty = shared.full + kStages;
  return shared;
}

/// The scales of both operands.
enum class Scales { LinesBySquares, LinesByLines, None };

/// Elements of k in slices of kDepth.
__device__ __forceinline__ uint32_t slicesOf(uint32_t k) {
  return (k + kDepth - 1) / kDepth;
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

/// Brings the rows of c that a tile adds into L2 while its last slices are
/// multiplied: whole lines then, where its loads ask for pieces of them.
class PrefetchC {
public:
  template <typename Tiles>
  __device__ __forceinline__ PrefetchC(const BlockGemmArgs &args,
                                       const Tiles &tiles, uint32_t slices)
      : next(static_cast<const float *>(args.c) + tiles.outOffset() +
             uint64_t(tiles.row) * args.n + tiles.col),
        left(tiles.col < args.n ? min(uint32_t(kRows), args.m - tiles.row) : 0),
        share((kRows - 1) / min(kSlices, max(slices, 1u)) + 1) {}

  /// While `slices` of the tile are to come.
  __device__ __forceinline__ void advance(const BlockGemmArgs &args,
                                          uint32_t col, uint32_t slices) {
    if (slices > kSlices)
      return;
    for (uint32_t i = min(share, left); i != 0; --i, --left, next += args.n)
      ptx::prefetchBytes(next, min(uint32_t(kCols), args.n - col) * 4);
  }

private:
  static constexpr uint32_t kSlices = 8;
  const float *next;
  uint32_t left, share;
};

template <Scales kScales, typename Out, typename Tiles>
__device__ __forceinline__ void produce(const BlockGemmArgs &args,
                                        const Shared &shared, Tiles tiles,
                                        uint32_t rank) {
  Ring ring;
  while (tiles.advance()) {
    const uint32_t slices = tiles.slices();
    const uint32_t aBytes =
        kScales == Scales::None
            ? 0
            : min(kRows, int(args.a_scale_stride - tiles.row)) * sizeof(float);
    const uint32_t bBytes =
        kScales != Scales::LinesByLines || tiles.col >= args.n
            ? 0
            : min(kCols, int(args.b_scale_stride - tiles.col)) * sizeof(float);
    PrefetchC prefetch(args, tiles, slices);
    for (uint32_t slice = 0; slice < slices; ++slice, ring.advance()) {
      const uint32_t s = ring.stage;
      uint64_t *full = &shared.full[s];
      ptx::barrierWait(&shared.empty[s], ring.parity ^ 1);
      ptx::barrierArriveExpect(full,
                               (kRows + kCols) * kDepth + aBytes + bBytes);
      ptx::copyTileMulticast(shared.a + (s * kRows + rank * kCols) * kDepth,
                             &args.a, full, tiles.depth() + slice * kDepth,
                             tiles.row + rank * (kRows / 2), 0b11);
      ptx::copyTile(shared.b + s * kCols * kDepth, &args.b, full,
                    tiles.depth() + slice * kDepth, tiles.bRow() + tiles.col);
      if (kScales != Scales::None)
        ptx::copyBytes(shared.aScale + s * kRows,
                       args.a_scale +
                           uint64_t(tiles.aScaleLine() + slice) *
                               args.a_scale_stride +
                           tiles.row,
                       full, aBytes);
      if (bBytes)
        ptx::copyBytes(shared.bScale + s * kCols,
                       args.b_scale +
                           uint64_t(tiles.bScaleLine() + slice) *
                               args.b_scale_stride +
                           tiles.col,
                       full, bBytes);
      if (Tiles::kHasC && sizeof(Out) == 4 && args.c)
        prefetch.advance(args, tiles.col, slices - slice);
    }
  }
}

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

/// Row of a thread's element of `total` within 64; `half` is bit 1 of its
/// index.
__device__ __forceinline__ uint32_t rowOf(int half) {
  return (threadIdx.x % 128) / 32 * 16 + threadIdx.x % 32 / 4 + 8 * half;
}

/// Adds the 64 rows of a bf16 c before rounding. All loads come before any
/// store: c may be out, so that the compiler could not move them there.
template <typename Tiles>
__device__ __forceinline__ void addC(const BlockGemmArgs &args,
                                     const Tiles &tiles, float (&total)[64],
                                     uint32_t row, uint32_t col) {
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
          r < tiles.rowEnd() && at < args.n
              ? static_cast<const uint32_t *>(args.c)[(line + at) / 2]
              : 0;
    }
  }
#pragma unroll
  for (int half = 0; half < 2; ++half)
#pragma unroll
    for (int j = 0; j < 16; ++j) {
      const float2 c = unpackBf16(previous[half][j]);
      total[4 * j + 2 * half] += c.x;
      total[4 * j + 2 * half + 1] += c.y;
    }
}

/// Writes 64 rows of a warpgroup in f32, with c added. Neighbouring lanes
/// exchange halves of two 8-column groups, so that each holds four columns in a
/// row and a store covers 64 bytes of a line. Loads of c come first, as above.
template <typename Tiles>
__device__ __forceinline__ void
storeFloats(const BlockGemmArgs &args, const Tiles &tiles, float (&total)[64],
            uint32_t row, uint32_t col) {
  const int q = threadIdx.x % 4;
  const bool odd = q & 1;
  const uint32_t first = col + 8 * odd + 4 * (q / 2);
  float4 previous[2][8];
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const uint32_t r = row + rowOf(half);
    const float *c = static_cast<const float *>(args.c) + tiles.outOffset() +
                     uint64_t(r) * args.n + first;
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      previous[half][i] = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
      if (Tiles::kHasC && args.c && r < tiles.rowEnd() &&
          first + 16 * i < args.n)
        previous[half][i] = *reinterpret_cast<const float4 *>(c + 16 * i);
    }
  }
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
      if (Tiles::kHasC && args.c) {
        const float4 c = previous[half][i];
        value.x += c.x, value.y += c.y, value.z += c.z, value.w += c.w;
      }
      if (padding)
        value = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
      if (r < tiles.rowEnd() && first + 16 * i < args.n)
        *reinterpret_cast<float4 *>(out + 16 * i) = value;
    }
  }
}

/// Writes 64 rows of a warpgroup: `total` in the layout of the product. A
/// product of blocks is rounded before c is added, another one only after.
template <typename Out, bool kRoundFirst, typename Tiles>
__device__ __forceinline__ void store(const BlockGemmArgs &args,
                                      const Tiles &tiles, float (&total)[64],
                                      uint32_t row, uint32_t col) {
  const int lane = threadIdx.x % 32, q = lane % 4;
  if (args.bias) {
    const auto *bias =
        static_cast<const uint32_t *>(args.bias) + tiles.biasOffset() / 2;
#pragma unroll
    for (int j = 0; j < 16; ++j) {
      const uint32_t at = col + 8 * j + 2 * q;
      const float2 add = unpackBf16(at < args.n ? bias[at / 2] : 0);
      total[4 * j + 0] += add.x, total[4 * j + 1] += add.y;
      total[4 * j + 2] += add.x, total[4 * j + 3] += add.y;
    }
  }
  if constexpr (sizeof(Out) == 4)
    return storeFloats(args, tiles, total, row, col);
  if (Tiles::kHasC && !kRoundFirst && args.c)
    addC(args, tiles, total, row, col);
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
      if (Tiles::kHasC && kRoundFirst && args.c) {
        const uint4 c = *reinterpret_cast<const uint4 *>(
            static_cast<const __nv_bfloat16 *>(args.c) + line + at);
        eight = make_uint4(addBf16(eight.x, c.x), addBf16(eight.y, c.y),
                           addBf16(eight.z, c.z), addBf16(eight.w, c.w));
      }
      if (padding)
        eight = make_uint4(0, 0, 0, 0);
      *reinterpret_cast<uint4 *>(static_cast<__nv_bfloat16 *>(args.out) + line +
                                 at) = eight;
    }
  }
}

/// This warp is done with a stage: tells the producers of both CTAs.
__device__ __forceinline__ void leave(uint64_t *empty, int lane) {
  __syncwarp();
  if (lane < kBlockGemmCluster)
    ptx::barrierArriveRemote(empty, lane);
}

using Product = void (*)(float (&)[64], uint64_t, uint64_t, bool);

/// Zeros what lies behind the first `depth` bytes of each row of a stage: they
/// belong to another group. All consumers call it together.
__device__ __forceinline__ void clearTail(const Shared &shared, uint32_t s,
                                          uint32_t depth) {
  auto clear = [&](uint8_t *tile, uint32_t row) {
    for (uint32_t chunk = depth / 16; chunk < kDepth / 16; ++chunk) {
      // As the 128-byte swizzle puts it.
      uint8_t *at = tile + row * kDepth + (chunk ^ row % 8) * 16;
      if (chunk * 16 >= depth)
        *reinterpret_cast<uint4 *>(at) = make_uint4(0, 0, 0, 0);
      else
        for (uint32_t byte = depth % 16; byte < 16; ++byte)
          at[byte] = 0;
    }
  };
  clear(shared.a + s * kRows * kDepth, threadIdx.x);
  if (threadIdx.x < kCols)
    clear(shared.b + s * kCols * kDepth, threadIdx.x);
  // Written like any memory, read by the tensor core.
  ptx::proxyFence();
  ptx::barrierSync<1, kConsumerWarps * 32>();
}

template <Scales kScales, typename Out, Product product, typename Tiles>
__device__ __forceinline__ void consume(const BlockGemmArgs &args,
                                        const Shared &shared, Tiles tiles) {
  const int group = threadIdx.x / 128, lane = threadIdx.x % 32;
  // This thread's first row within 64, its second is 8 below.
  const int threadRow = (threadIdx.x % 128) / 32 * 16 + lane / 4;
  Ring ring;
  while (tiles.advance()) {
    const uint32_t slices = tiles.slices();
    float total[2][64];
#pragma unroll
    for (int i = 0; i < 64; ++i)
      total[0][i] = total[1][i] = 0.0f;
    const float *squareScale =
        args.b_scale +
        uint64_t(tiles.bScaleLine() + tiles.col / kCols) * args.b_scale_stride;
    const bool inside = tiles.col < args.n;
    // A warpgroup none of whose rows is data lets the stages pass. The shuffle
    // tells the compiler that a warp agrees on it: descriptors stay uniform.
    const bool idle =
        __shfl_sync(~0u, tiles.isPadding(tiles.row + group * 128), 0);
    for (uint32_t slice = 0; idle && slice < slices; ++slice, ring.advance()) {
      ptx::barrierWait(&shared.full[ring.stage], ring.parity);
      leave(&shared.empty[ring.stage], lane);
    }
    for (uint32_t slice = 0; !idle && slice < slices; ++slice, ring.advance()) {
      const uint32_t s = ring.stage;
      const float sb = kScales == Scales::LinesBySquares && inside
                           ? __ldg(squareScale + slice)
                           : 0.0f;
      ptx::barrierWait(&shared.full[s], ring.parity);
      if constexpr (Tiles::kHasTail)
        if (const uint32_t left = tiles.depthLeft(slice); left < kDepth)
          clearTail(shared, s, left);
      const uint8_t *a = shared.a + (s * kRows + group * 128) * kDepth;
      const uint64_t bDescriptor =
          ptx::operandDescriptor(shared.b + s * kCols * kDepth);
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const float *aScale =
            shared.aScale + s * kRows + group * 128 + half * 64 + threadRow;
        const float sa0 = kScales == Scales::None ? 1.0f : aScale[0];
        const float sa1 = kScales == Scales::None ? 1.0f : aScale[8];
        const uint64_t aDescriptor =
            ptx::operandDescriptor(a + half * 64 * kDepth);
        float partial[64];
        ptx::productFence();
#pragma unroll
        for (int step = 0; step < 4; ++step)
          product(partial, aDescriptor + 2 * step, bDescriptor + 2 * step,
                  step != 0);
        ptx::productCommit();
        if constexpr (kScales == Scales::None) {
          ptx::productWait<0>();
          if (half == 1)
            leave(&shared.empty[s], lane);
#pragma unroll
          for (int i = 0; i < 64; ++i)
            total[half][i] += partial[i];
        } else if constexpr (kScales == Scales::LinesBySquares) {
          ptx::productWait<0>();
          if (half == 1)
            leave(&shared.empty[s], lane);
          const float f0 = sa0 * sb, f1 = sa1 * sb;
#pragma unroll
          for (int j = 0; j < 16; ++j) {
            float *t = &total[half][4 * j], *p = &partial[4 * j];
            t[0] = fmaf(p[0], f0, t[0]), t[1] = fmaf(p[1], f0, t[1]);
            t[2] = fmaf(p[2], f1, t[2]), t[3] = fmaf(p[3], f1, t[3]);
          }
        } else {
          // Column scales in batches of four pairs, the next batch loaded while
          // one is used: all at once would not fit in registers. The fences
          // keep the compiler from merging the batches.
          const float2 *bScale =
              reinterpret_cast<const float2 *>(shared.bScale + s * kCols) +
              lane % 4;
          float2 batch[2][4];
#pragma unroll
          for (int i = 0; i < 4; ++i)
            batch[0][i] = bScale[4 * i];
          ptx::productWait<0>();
#pragma unroll
          for (int j = 0; j < 16; ++j) {
            if (j % 4 == 0 && j < 12) {
#pragma unroll
              for (int i = 0; i < 4; ++i)
                batch[(j / 4 + 1) % 2][i] = bScale[4 * (j + 4 + i)];
              asm volatile("" ::: "memory");
            }
            const float2 pair = batch[j / 4 % 2][j % 4];
            float *t = &total[half][4 * j], *p = &partial[4 * j];
            t[0] = fmaf(p[0], sa0 * pair.x, t[0]);
            t[1] = fmaf(p[1], sa0 * pair.y, t[1]);
            t[2] = fmaf(p[2], sa1 * pair.x, t[2]);
            t[3] = fmaf(p[3], sa1 * pair.y, t[3]);
          }
          if (half == 1)
            leave(&shared.empty[s], lane);
        }
      }
    }
    if constexpr (kScales == Scales::None) {
      // Of no slices the factor is not read: an empty sum is 0, whatever it is.
      if (slices != 0) {
        const float factor = tiles.factor();
#pragma unroll
        for (int i = 0; i < 64; ++i)
          total[0][i] *= factor, total[1][i] *= factor;
      }
    }
    store<Out, kScales != Scales::None>(args, tiles, total[0],
                                        tiles.row + group * 128, tiles.col);
    store<Out, kScales != Scales::None>(
        args, tiles, total[1], tiles.row + group * 128 + 64, tiles.col);
  }
}

/// The whole kernel. `prepare` is called by all threads before anything else,
/// and what it writes to shared memory is there when makeTiles(rank) is called,
/// by every thread that walks tiles.
template <Scales kScales, typename Out, Product product, typename Prepare,
          typename MakeTiles>
__device__ __forceinline__ void runProduct(const BlockGemmArgs &args,
                                           uint8_t *raw, Prepare prepare,
                                           MakeTiles makeTiles) {
  const Shared shared = carve(raw);
  const uint32_t rank = ptx::clusterRank();
  if (threadIdx.x == 0) {
    for (int s = 0; s < kStages; ++s) {
      ptx::barrierInit(&shared.full[s], 1);
      ptx::barrierInit(&shared.empty[s], kConsumerWarps * kBlockGemmCluster);
    }
    ptx::barrierInitFence();
  }
  prepare();
  // The peer's barriers must exist before anything is counted on them.
  ptx::clusterSync();
  if (threadIdx.x >= 256) {
    ptx::registersDecrease<40>();
    if (threadIdx.x == 256)
      produce<kScales, Out>(args, shared, makeTiles(rank), rank);
  } else {
    ptx::registersIncrease<232>();
    consume<kScales, Out, product>(args, shared, makeTiles(rank));
  }
  // A CTA must not leave while its peer still arrives on its barriers.
  __syncwarp();
  ptx::clusterSync();
}

#endif // __CUDA_ARCH_FEAT_SM90_ALL

} // namespace
} // namespace te::rt::cuda

#endif // TE_RUNTIME_KERNELS_GEMM_SCALED_PRODUCT_CUH
