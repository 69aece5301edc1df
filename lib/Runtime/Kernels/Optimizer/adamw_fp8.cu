//===- adamw_fp8.cu - AdamW with moments of 8 bits ------------------------===//
//
// te_adamw_fp8_<param>_<grad>: a warp updates some blocks of 128 elements, four
// in each lane, and its lanes agree on the largest magnitudes for the new
// scales.
//
//===----------------------------------------------------------------------===//

#include "Core/Formulas.h"
#include "Core/Moments.h"
#include "Kernels/Device/elements.cuh"
#include "Kernels/Device/fp8_sm89.cuh"
#include "Kernels/Device/launch_sm90.cuh"
#include "Kernels/Optimizer/adamw_run.cuh"
#include "Kernels/Optimizer/keep.cuh"
#include "Kernels/Optimizer/optimizer_args.h"

namespace te::rt::cuda {
namespace {

constexpr int kRun = kOptimizerRun;

/// Loads `left` of four elements, and zeros for the others. `vector`: all four,
/// by one access.
template <typename T>
__device__ __forceinline__ void loadRun(const T *from, int left, bool vector,
                                        float (&values)[kRun]) {
  if (vector) {
    Run<T, kRun>::load(from).unpack(values);
    return;
  }
#pragma unroll
  for (int k = 0; k < kRun; ++k)
    values[k] = k < left ? toFloat(from[k]) : 0.0f;
}
template <typename T>
__device__ __forceinline__ void storeRun(T *to, int left, bool vector,
                                         const float (&values)[kRun]) {
  if (vector) {
    Run<T, kRun>::pack(values).store(to);
    return;
  }
#pragma unroll
  for (int k = 0; k < kRun; ++k)
    if (k < left)
      to[k] = fromFloat<T>(values[k]);
}

/// As above, for bytes in a word.
__device__ __forceinline__ uint32_t loadBytes(const uint8_t *from, int left,
                                              bool vector) {
  if (vector)
    return *reinterpret_cast<const uint32_t *>(from);
  uint32_t word = 0;
#pragma unroll
  for (int k = 0; k < kRun; ++k)
    if (k < left)
      word |= static_cast<uint32_t>(from[k]) << 8 * k;
  return word;
}
__device__ __forceinline__ void storeBytes(uint8_t *to, int left, bool vector,
                                           uint32_t word) {
  if (vector) {
    *reinterpret_cast<uint32_t *>(to) = word;
    return;
  }
#pragma unroll
  for (int k = 0; k < kRun; ++k)
    if (k < left)
      to[k] = static_cast<uint8_t>(word >> 8 * k);
}

/// What all elements of a launch share.
struct Fp8Step {
  AdamwStep adamw;
  float number, gradScale;
};

/// Updates one block of moments with a warp. `kWhole`: the block has all of its
/// elements, and accesses of four of them are aligned.
template <typename Param, typename Grad, bool kWhole>
__device__ __forceinline__ void
updateBlock(const AdamwFp8Args &args, const Fp8Step &step, int64_t block) {
  const int64_t first =
      block * kMomentBlockLength + threadIdx.x % 32 * static_cast<int>(kRun);
  const int64_t behind = kWhole ? kRun : args.params.count - first;
  const int left = behind < 0      ? 0
                   : behind < kRun ? static_cast<int>(behind)
                                   : kRun;
  const bool vector = kWhole || (args.aligned && left == kRun);
  float param[kRun], grad[kRun], m[kRun], v[kRun];
  loadRun(static_cast<const Param *>(args.param) + first, left, vector, param);
  loadRun(static_cast<const Grad *>(args.grad) + first, left, vector, grad);
  unpackBytes<E4M3>(loadBytes(args.m + first, left, vector), m);
  unpackBytes<E5M2>(loadBytes(args.v + first, left, vector), v);
  float mScale = args.scales[block], vScale = args.scales[args.blocks + block];
#pragma unroll
  for (int k = 0; k < kRun; ++k) {
    m[k] = m[k] * mScale;
    v[k] = v[k] * vScale;
    if (args.gradScale)
      grad[k] = grad[k] * step.gradScale;
  }
  adamwRun(args.params, step.adamw, param, grad, m, v);
  uint32_t largestM = 0, largestV = 0;
#pragma unroll
  for (int k = 0; k < kRun; ++k) {
    // Elements behind the last one have no part in the scales.
    if (k < left) {
      largestM = max(largestM, math::finiteMagnitude(m[k]));
      largestV = max(largestV, math::finiteMagnitude(v[k]));
    }
  }
  storeRun(static_cast<Param *>(args.newParam) + first, left, vector, param);
  mScale = math::momentScale<3>(__reduce_max_sync(~0u, largestM));
  vScale = math::momentScale<2>(__reduce_max_sync(~0u, largestV));
  const math::PhiloxWords random =
      math::adamwRandom(args.params.seed, first / kRun, step.number);
  uint32_t mWord = 0, vWord = 0;
#pragma unroll
  for (int k = 0; k < kRun; ++k) {
    const uint32_t word = random.word[k];
    mWord |= math::firstMomentCode(m[k], mScale, word) << 8 * k;
    vWord |= math::secondMomentCode(v[k], vScale, word) << 8 * k;
  }
  storeBytes(args.newM + first, left, vector, mWord);
  storeBytes(args.newV + first, left, vector, vWord);
  if (threadIdx.x % 32 == 0) {
    args.newScales[block] = mScale;
    args.newScales[args.blocks + block] = vScale;
  }
}

template <typename Param, typename Grad>
__device__ __forceinline__ void adamwFp8(const AdamwFp8Args &args) {
  // Before the first load, which would take as long as the update.
  if (isSkipped(args.skip)) {
    keep(static_cast<const Param *>(args.param),
         static_cast<Param *>(args.newParam), args.params.count);
    keep(args.m, args.newM, args.params.count);
    keep(args.v, args.newV, args.params.count);
    keep(args.scales, args.newScales, 2 * args.blocks);
    return;
  }
  const float number = *args.step;
  const Fp8Step step{adamwStep(args.params, args.lr, number), number,
                     args.gradScale ? *args.gradScale : 1.0f};
  int64_t block = (static_cast<int64_t>(blockIdx.x) * (kOptimizerBlock / 32) +
                   threadIdx.x / 32) *
                  kMomentBlocksPerWarp;
  const int64_t end = min(block + kMomentBlocksPerWarp, args.blocks);
#pragma unroll 1
  for (; block < end; ++block) {
    if (args.aligned && (block + 1) * kMomentBlockLength <= args.params.count)
      updateBlock<Param, Grad, true>(args, step, block);
    else
      updateBlock<Param, Grad, false>(args, step, block);
  }
}

} // namespace
} // namespace te::rt::cuda

using namespace te::rt;
using namespace te::rt::cuda;

// Six blocks in a multiprocessor: warps that wait for others hide more than
// registers save.
#define TE_ADAMW_FP8(param, grad, Param, Grad)                                 \
  extern "C" __global__ void __launch_bounds__(kOptimizerBlock, 6)             \
      te_adamw_fp8_##param##_##grad(                                           \
          const __grid_constant__ AdamwFp8Args args) {                         \
    te::rt::cuda::ptx::beginKernel();                                          \
    adamwFp8<Param, Grad>(args);                                               \
  }
#define TE_ADAMW_FP8_GRADS(param, Param)                                       \
  TE_ADAMW_FP8(param, f32, Param, float)                                       \
  TE_ADAMW_FP8(param, bf16, Param, bf16)                                       \
  TE_ADAMW_FP8(param, f16, Param, f16)
TE_ADAMW_FP8_GRADS(f32, float)
TE_ADAMW_FP8_GRADS(bf16, bf16)
TE_ADAMW_FP8_GRADS(f16, f16)
