//===- scaled_product.cuh - FP8 products with scales, on Hopper -----------===//
//
// out[m, n] = sum over 128-wide slices of k of (A B^T of the slice) * sa * sb.
// A has 1x128 scales, B has 1x128 or 128x128 scales; or neither has any, and
// one factor multiplies the sum.
//
// A stage of the ring (product_ring.cuh) is one slice, with its scales.
//
// Accumulation has two levels. The tensor core sums one slice (four products
// of depth 32) into `partial`, which is then scaled and added to `total` with
// ordinary f32 arithmetic: the scales demand it, and it also keeps the sum
// exact where the tensor core's accumulator is short. A warpgroup does that for
// its two halves of 64 rows in turn; while it scales one half, the other
// warpgroup has the tensor core. (Handing the tensor core over with named
// barriers, so that the two never fall into step, measured 1-2 % slower.)
//
//===----------------------------------------------------------------------===//

#ifndef TE_RUNTIME_KERNELS_GEMM_SCALED_PRODUCT_CUH
#define TE_RUNTIME_KERNELS_GEMM_SCALED_PRODUCT_CUH

#include "Kernels/Gemm/product_ring.cuh"

namespace te::rt::cuda {
namespace {

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)

constexpr int kDepth = kBlockGemmDepth;

/// The scales of both operands.
enum class Scales { LinesBySquares, LinesByLines, None };

/// Elements of k in slices of kDepth.
__device__ __forceinline__ uint32_t slicesOf(uint32_t k) {
  return (k + kDepth - 1) / kDepth;
}

template <Scales kScales, typename Out, typename Tiles>
__device__ __forceinline__ void produce(const BlockGemmArgs &args,
                                        const Shared &shared, Tiles tiles,
                                        uint32_t rank) {
  const Summand summand = summandOf<Tiles>(args);
  Ring ring;
  while (tiles.advance()) {
    const uint32_t slices = slicesOf(tiles.extent());
    const uint32_t aBytes =
        kScales == Scales::None || tiles.row >= args.a_scale_stride
            ? 0
            : min(kRows, int(args.a_scale_stride - tiles.row)) * sizeof(float);
    const uint32_t bBytes =
        kScales != Scales::LinesByLines || tiles.col >= args.n
            ? 0
            : min(kCols, int(args.b_scale_stride - tiles.col)) * sizeof(float);
    for (uint32_t slice = 0; slice < slices; ++slice, ring.advance()) {
      prefetchC<Out>(args, tiles, summand, slice, slices);
      const uint32_t s = ring.stage;
      uint64_t *full = &shared.full[s];
      ptx::mbarrierWait(&shared.empty[s], ring.parity ^ 1);
      ptx::mbarrierArriveExpectTx(full,
                                  (kRows + kCols) * kDepth + aBytes + bBytes);
      ptx::tmaLoad2dMulticast(shared.a + (s * kRows + rank * kCols) * kDepth,
                              &args.a, full, tiles.depth() + slice * kDepth,
                              tiles.row + rank * (kRows / 2), 0b11);
      ptx::tmaLoad2d(shared.b + s * kCols * kDepth, &args.b, full,
                     tiles.depth() + slice * kDepth, tiles.bRow() + tiles.col);
      if (aBytes)
        ptx::cpAsyncBulk(shared.aScale + s * kRows,
                         args.a_scale +
                             uint64_t(tiles.aScaleLine() + slice) *
                                 args.a_scale_stride +
                             tiles.row,
                         full, aBytes);
      if (bBytes)
        ptx::cpAsyncBulk(shared.bScale + s * kCols,
                         args.b_scale +
                             uint64_t(tiles.bScaleLine() + slice) *
                                 args.b_scale_stride +
                             tiles.col,
                         full, bBytes);
    }
    if (bringsC<Out, Tiles>(summand))
      produceC(args, shared, tiles, ring);
  }
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
  ptx::fenceProxyAsync();
  ptx::namedBarrierSync<1, kConsumerWarps * 32>();
}

template <Scales kScales, typename Out, Product product, typename Tiles>
__device__ __forceinline__ void consume(const BlockGemmArgs &args,
                                        const Shared &shared, Tiles tiles) {
  const int group = warpgroup(), lane = threadIdx.x % 32;
  // This thread's first row within 64, its second is 8 below.
  const int threadRow = (threadIdx.x % 128) / 32 * 16 + lane / 4;
  const Summand summand = summandOfWarp<Tiles>(args);
  Ring ring;
  while (tiles.advance()) {
    const uint32_t extent = tiles.extent(), slices = slicesOf(extent);
    const float *squareScale =
        args.b_scale +
        uint64_t(tiles.bScaleLine() + tiles.col / kCols) * args.b_scale_stride;
    const bool inside = tiles.col < args.n;
    const auto arrive = [&](uint32_t slice) {
      ptx::mbarrierWait(&shared.full[ring.stage], ring.parity);
      if constexpr (Tiles::kHasTail)
        if (const uint32_t left = extent - slice * kDepth; left < kDepth)
          clearTail(shared, ring.stage, left);
    };
    // A warpgroup that has no rows of data lets the stages pass. The shuffle
    // tells the compiler that a warp agrees on it: descriptors stay uniform.
    const bool idle =
        __shfl_sync(~0u, tiles.hasNone(tiles.row + group * 128), 0);
    for (uint32_t slice = 0; idle && slice < slices; ++slice, ring.advance()) {
      arrive(slice);
      leave(&shared.empty[ring.stage], lane);
    }
    float total[2][64];
#pragma unroll
    for (int i = 0; i < 64; ++i)
      total[0][i] = total[1][i] = 0.0f;
    for (uint32_t slice = 0; !idle && slice < slices; ++slice, ring.advance()) {
      const uint32_t s = ring.stage;
      const float sb = kScales == Scales::LinesBySquares && inside
                           ? __ldg(squareScale + slice)
                           : 0.0f;
      arrive(slice);
      const uint8_t *a = shared.a + (s * kRows + group * 128) * kDepth;
      const uint64_t bDescriptor =
          ptx::wgmmaDescriptor(shared.b + s * kCols * kDepth);
      float2 bScale[16]; // of LinesByLines: columns 8j + 2q and the next
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const float *aScale =
            shared.aScale + s * kRows + group * 128 + half * 64 + threadRow;
        const float sa0 = kScales == Scales::None ? 1.0f : aScale[0];
        const float sa1 = kScales == Scales::None ? 1.0f : aScale[8];
        const uint64_t aDescriptor =
            ptx::wgmmaDescriptor(a + half * 64 * kDepth);
        float partial[64];
        ptx::wgmmaFence();
#pragma unroll
        for (int step = 0; step < 4; ++step)
          product(partial, aDescriptor + 2 * step, bDescriptor + 2 * step,
                  step != 0);
        ptx::wgmmaCommitGroup();
        if constexpr (kScales == Scales::None) {
          ptx::wgmmaWaitGroup<0>();
          if (half == 1)
            leave(&shared.empty[s], lane);
#pragma unroll
          for (int i = 0; i < 64; ++i)
            total[half][i] += partial[i];
        } else if constexpr (kScales == Scales::LinesBySquares) {
          ptx::wgmmaWaitGroup<0>();
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
          // Read for the first half, four pairs ahead of their use: all before
          // the product ends would not fit in registers beside it, and reading
          // them again for the second half took 3 % longer. The fence keeps the
          // compiler from doing either.
          const float2 *from =
              reinterpret_cast<const float2 *>(shared.bScale + s * kCols) +
              lane % 4;
          if (half == 0)
#pragma unroll
            for (int i = 0; i < 4; ++i)
              bScale[i] = from[4 * i];
          ptx::wgmmaWaitGroup<0>();
#pragma unroll
          for (int j = 0; j < 16; ++j) {
            if (half == 0 && j % 4 == 0 && j < 12) {
#pragma unroll
              for (int i = j + 4; i < j + 8; ++i)
                bScale[i] = from[4 * i];
              ptx::compilerMemoryFence();
            }
            const float2 pair = bScale[j];
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
    finish<Out, kScales != Scales::None>(args, shared, tiles, summand, ring,
                                         slices == 0, total);
  }
}

/// The whole kernel; parameters as of runRoles.
template <Scales kScales, typename Out, Product product, typename Prepare,
          typename MakeTiles>
__device__ __forceinline__ void runProduct(const BlockGemmArgs &args,
                                           uint8_t *raw, Prepare prepare,
                                           MakeTiles makeTiles) {
  runRoles(
      raw, prepare, makeTiles,
      [&](const Shared &shared, auto tiles, uint32_t rank) {
        produce<kScales, Out>(args, shared, tiles, rank);
      },
      [&](const Shared &shared, auto tiles) {
        consume<kScales, Out, product>(args, shared, tiles);
      });
}

#endif // __CUDA_ARCH_FEAT_SM90_ALL

} // namespace
} // namespace te::rt::cuda

#endif // TE_RUNTIME_KERNELS_GEMM_SCALED_PRODUCT_CUH
