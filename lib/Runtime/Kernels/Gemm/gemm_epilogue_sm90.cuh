//===- gemm_epilogue_sm90.cuh - from accumulators to the result -----------===//
//
// The end of a tile: the consumers add the bias and C to their accumulators,
// round, and store. `total[half]` has 64 rows of a warpgroup in the layout of a
// wgmma accumulator (Device/wgmma_sm90.cuh): a thread has pairs of neighbouring
// columns, so the lanes of a row exchange pairs before they store 16 bytes
// each.
//
//===----------------------------------------------------------------------===//

#ifndef TE_RUNTIME_KERNELS_GEMM_GEMM_EPILOGUE_SM90_CUH
#define TE_RUNTIME_KERNELS_GEMM_GEMM_EPILOGUE_SM90_CUH

#include "Kernels/Gemm/gemm_pipeline_sm90.cuh"

#include <cuda_bf16.h>

namespace te::rt::cuda {
namespace {

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)

/// Adds one stage of an f32 C to 64 rows, from the 128-byte swizzle that TMA
/// wrote. If the GEMM is an empty sum, the result is C itself.
__device__ __forceinline__ void addCStage(const uint8_t *tile, bool isEmpty,
                                          float (&total)[64]) {
  const int q = threadIdx.x % 4;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const uint32_t row = accumulatorRow(half);
#pragma unroll
    for (int j = 0; j < 16; ++j) {
      // Columns 8j + 2q and 8j + 2q + 1 are in box j / 4, in 16-byte chunk
      // 2 (j % 4) + q / 2 of its row.
      const uint32_t chunk = (2 * (j % 4) + q / 2) ^ row % 8;
      const float2 c = *reinterpret_cast<const float2 *>(
          tile + (j / 4 * kCBoxRows + row) * kStageRowBytes + chunk * 16 +
          q % 2 * 8);
      float *sum = &total[4 * j + 2 * half];
      sum[0] = isEmpty ? c.x : sum[0] + c.x;
      sum[1] = isEmpty ? c.y : sum[1] + c.y;
    }
  }
}

/// Before, lane q of four lanes has columns 2q and 2q + 1 of four groups of
/// eight columns. Afterwards it has all eight columns of group q.
__device__ __forceinline__ uint4 gatherColumns(uint32_t v0, uint32_t v1,
                                               uint32_t v2, uint32_t v3,
                                               int q) {
  const bool odd = q & 1, high = q & 2;
  uint32_t x = __shfl_xor_sync(~0u, odd ? v0 : v1, 1);
  uint32_t y = __shfl_xor_sync(~0u, odd ? v2 : v3, 1);
  // Now (a0, a1) are pairs of columns of group `odd`, (b0, b1) of group
  // 2 + odd.
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

/// Adds 64 rows of a bf16 C, or zeros, before rounding. All loads are written
/// before any store: C may be the output, so the compiler could not move them
/// there. If the GEMM is an empty sum, the result is C itself.
template <typename Tiles>
__device__ __forceinline__ void
addCBf16(const BlockGemmArgs &args, const Tiles &tiles, bool reads,
         float (&total)[64], uint32_t row, uint32_t col, bool isEmpty) {
  const int q = threadIdx.x % 4;
  uint32_t previous[2][16];
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const uint32_t r = row + accumulatorRow(half);
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

/// Stores 64 rows of a warpgroup in f32. Neighbouring lanes exchange halves of
/// two groups of eight columns, so that each has four consecutive columns and a
/// store covers 64 bytes of a row.
template <typename Tiles>
__device__ __forceinline__ void
storeF32(const BlockGemmArgs &args, const Tiles &tiles,
         const float (&total)[64], uint32_t row, uint32_t col) {
  const int q = threadIdx.x % 4;
  const bool odd = q & 1;
  const uint32_t first = col + 8 * odd + 4 * (q / 2);
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const uint32_t r = row + accumulatorRow(half);
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

/// Stores 64 rows of a warpgroup in bf16. With `kRoundFirst`, as for block
/// scales, the sum is rounded before C is added and again after; otherwise it
/// is rounded once, after C is added.
template <bool kRoundFirst, typename Tiles>
__device__ __forceinline__ void
storeBf16(const BlockGemmArgs &args, const Tiles &tiles, COperand cOperand,
          float (&total)[64], uint32_t row, uint32_t col, bool isEmpty) {
  const int q = threadIdx.x % 4;
  const bool adds = Tiles::kHasC && cOperand != COperand::None,
             reads = Tiles::kHasC && cOperand == COperand::Tensor;
  if (adds && !kRoundFirst)
    addCBf16(args, tiles, reads, total, row, col, isEmpty);
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const uint32_t r = row + accumulatorRow(half);
    const uint64_t line = tiles.outOffset() + uint64_t(r) * args.n;
    const bool padding = tiles.isPadding(r);
#pragma unroll
    for (int j = 0; j < 16; j += 4) {
      auto pair = [&](int i) {
        return packBf16(total[4 * i + 2 * half], total[4 * i + 2 * half + 1]);
      };
      uint4 eight =
          gatherColumns(pair(j), pair(j + 1), pair(j + 2), pair(j + 3), q);
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

/// Adds bias and C to the accumulators of the warpgroup's two halves, and
/// stores them. If C passes through the pipeline, its stages are taken from
/// there.
template <typename Out, bool kRoundFirst, typename Tiles>
__device__ __forceinline__ void
epilogue(const BlockGemmArgs &args, const SharedStorage &shared,
         const Tiles &tiles, COperand cOperand, PipelineState &pipe,
         bool isEmpty, float (&total)[2][64]) {
  const int group = warpgroupIndex();
  const uint32_t row = tiles.row + group * 128;
  // In a GEMM with a bias, only rows that belong to no group are an empty sum.
  // They get no bias.
  if (args.bias && !isEmpty)
    addBias(args, tiles, total);
  const auto store = [&](int half) {
    if constexpr (sizeof(Out) == 4)
      storeF32(args, tiles, total[half], row + half * 64, tiles.col);
    else
      storeBf16<kRoundFirst>(args, tiles, cOperand, total[half],
                             row + half * 64, tiles.col, isEmpty);
  };
  if (!loadsC<Out, Tiles>(cOperand)) {
    if (sizeof(Out) == 4 && Tiles::kHasC && cOperand == COperand::Zeros)
#pragma unroll
      for (int i = 0; i < 64; ++i)
        total[0][i] += 0.0f, total[1][i] += 0.0f;
#pragma unroll
    for (int half = 0; half < 2; ++half)
      store(half);
    return;
  }
  // Both warpgroups step through all stages of C, also through those of the
  // other one: if their pipeline states differed, the main loop would lose its
  // uniform registers.
#pragma unroll
  for (int step = 0; step < kCStages; ++step, pipe.advance()) {
    ptx::mbarrierWait(&shared.full[pipe.stage], pipe.parity);
    const bool own = step / 2 == group;
    if (own)
      addCStage(shared.stageA(pipe.stage), isEmpty, total[step % 2]);
    releaseStage(&shared.empty[pipe.stage], threadIdx.x % 32);
    if (own)
      store(step % 2);
  }
}

#endif // __CUDA_ARCH_FEAT_SM90_ALL

} // namespace
} // namespace te::rt::cuda

#endif // TE_RUNTIME_KERNELS_GEMM_GEMM_EPILOGUE_SM90_CUH
