//===- gemm_scales.cu - block scales before a GEMM, row factors after it --===//
//
// te_block_to_mx_scales     converts f32 block scales to swizzled exponents. A
//                           thread writes one word: the four exponents of one
//                           row in one slice of 128, which are all the same.
// te_scale_rows_{f32,bf16}  computes out = alpha[row] * unscaled + bias + c. A
//                           thread writes four elements.
//
//===----------------------------------------------------------------------===//

#include "Core/Formulas.h"
#include "Kernels/Device/elements.cuh"
#include "Kernels/Device/launch_sm90.cuh"
#include "Kernels/Gemm/gemm_scales_args.h"

using namespace te::rt::cuda;

extern "C" __global__ void __launch_bounds__(kGemmScalesThreads)
    te_block_to_mx_scales(const __grid_constant__ BlockToMxArgs args) {
  te::rt::cuda::ptx::beginKernel();
  const int64_t word = int64_t{blockIdx.x} * kGemmScalesThreads + threadIdx.x;
  if (word >= args.words)
    return;
  // A tile has 128 words: word w belongs to line w / 4 + w % 4 * 32 of it.
  const uint32_t inTile = static_cast<uint32_t>(word % 128);
  const int64_t tile = word / 128;
  const int64_t line =
      tile / args.tileCols * 128 + inTile % 4 * 32 + inTile / 4;
  const uint32_t slice = static_cast<uint32_t>(tile % args.tileCols);
  uint32_t packed = 0;
  if (line < args.outer && slice * 4 < args.blocks) {
    const float scale =
        args.scale[args.isSquare ? line / 128 * args.stride + slice
                                 : slice * args.stride + line];
    packed = te::rt::math::e8m0OfPowerOfTwo(scale) * 0x01010101u;
    const uint32_t present = args.blocks - slice * 4;
    if (present < 4)
      packed &= (1u << 8 * present) - 1;
  }
  args.mxScale[word] = packed;
}

template <typename Out>
__device__ __forceinline__ void scaleRows(const ScaleRowsArgs &args) {
  const uint32_t row = blockIdx.x / args.rowBlocks;
  const uint32_t col =
      blockIdx.x % args.rowBlocks * kScaleRowsCols + threadIdx.x * 4;
  if (col >= args.n)
    return;
  const int64_t at = int64_t{row} * args.n + col;
  const float4 four = *reinterpret_cast<const float4 *>(args.unscaled + at);
  const float alpha = args.alpha[row];
  float values[4] = {four.x, four.y, four.z, four.w};
  const auto *bias = static_cast<const bf16 *>(args.bias);
  const auto *c = static_cast<const Out *>(args.c);
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    values[i] = alpha * values[i];
    if (bias)
      values[i] += toFloat(bias[col + i]);
    if (c)
      values[i] += toFloat(c[at + i]);
  }
#pragma unroll
  for (int i = 0; i < 4; ++i)
    static_cast<Out *>(args.out)[at + i] = fromFloat<Out>(values[i]);
}

extern "C" __global__ void __launch_bounds__(kGemmScalesThreads)
    te_scale_rows_f32(const __grid_constant__ ScaleRowsArgs args) {
  te::rt::cuda::ptx::beginKernel();
  scaleRows<float>(args);
}
extern "C" __global__ void __launch_bounds__(kGemmScalesThreads)
    te_scale_rows_bf16(const __grid_constant__ ScaleRowsArgs args) {
  te::rt::cuda::ptx::beginKernel();
  scaleRows<bf16>(args);
}
