//===- adamw_run.cuh - math::adamw of a few elements, in fewer steps ------===//
//
// An IEEE quotient or root is a few instructions from the hardware's
// approximation, and a branch to a subroutine for operands near the ends of the
// range. Per element, the branches cost more than the rest of AdamW and keep
// the elements of a thread apart. Here one test of all elements of a run takes
// their place. Usual elements take the instructions without the branches, which
// give the rounded results where nothing can overflow or lose bits to
// underflow; the inverses of both bias corrections are those of the whole
// launch. Elements whose moments are zero, such as rows of an embedding that
// were never read, divide nothing. A run with other elements is computed by
// math::adamw. Bits never differ.
//
//===----------------------------------------------------------------------===//

#ifndef TE_RUNTIME_KERNELS_OPTIMIZER_ADAMW_RUN_CUH
#define TE_RUNTIME_KERNELS_OPTIMIZER_ADAMW_RUN_CUH

#include "Core/Formulas.h"
#include "Kernels/Device/reciprocal.cuh"

namespace te::rt::cuda {

/// a / b; `inverse` is 1 / b as fastInverse computes it. No step overflows, and
/// |a| is at least 2^-100.
__device__ __forceinline__ float fastQuotient(float a, float b, float inverse) {
  const float quotient = a * inverse;
  return fmaf(inverse, fmaf(-b, quotient, a), quotient);
}
__device__ __forceinline__ float fastInverse(float b) {
  const float approximate = ptx::rcpApprox(b);
  return fmaf(approximate, fmaf(-b, approximate, 1.0f), approximate);
}
/// The root of x in [2^-100, 2^100].
__device__ __forceinline__ float fastRoot(float x) {
  const float inverse = ptx::rsqrtApprox(x);
  const float root = x * inverse, half = inverse * 0.5f;
  return fmaf(fmaf(-root, root, x), half, root);
}

/// The bits of 2^exponent.
__host__ __device__ constexpr uint32_t powerBits(int exponent) {
  return static_cast<uint32_t>(exponent + 127) << 23;
}

/// What all elements of a launch share.
struct AdamwStep {
  float lr, correction1, correction2, epsilon;
  float inverse1, inverse2; // of the corrections
  bool isUsual;             // elements may be usual

  AdamwStep() = default;
  __device__ AdamwStep(float lr, float correction1, float correction2,
                       float epsilon)
      : lr(lr), correction1(correction1), correction2(correction2),
        epsilon(epsilon), inverse1(fastInverse(correction1)),
        inverse2(fastInverse(correction2)),
        isUsual(correction1 >= 0x1p-30f && correction2 >= 0x1p-30f &&
                epsilon <= 0x1p40f) {}

  /// math::adamwDirection of moments with 2^-60 <= |m| <= 2^30 and 2^-96 <= v
  /// <= 2^60. Then the root of v / correction2 is in [2^-48, 2^45], and the
  /// result in [2^-101, 2^108].
  __device__ __forceinline__ float direction(float m, float v) const {
    const float root = fastRoot(fastQuotient(v, correction2, inverse2));
    const float divisor = root + epsilon;
    return fastQuotient(fastQuotient(m, correction1, inverse1), divisor,
                        fastInverse(divisor));
  }
};

/// What all elements of a launch share, at step `number`; every thread of a
/// block calls it. One warp runs each of the loops in f64.
template <typename Params>
__device__ __forceinline__ AdamwStep adamwStep(const Params &params,
                                               const float *lr, float number) {
  __shared__ float corrections[2];
  if (threadIdx.x == 0)
    corrections[0] = math::adamwBiasCorrection(params.beta1, number);
  if (threadIdx.x == 32)
    corrections[1] = math::adamwBiasCorrection(params.beta2, number);
  __syncthreads();
  return AdamwStep(*lr, corrections[0], corrections[1], params.epsilon);
}

/// `x`, or for NaN the bits of the one NaN of bf16. Random bits may be added to
/// it; added to the NaN of the GPU, 0x7fffffff, they would give -0.
__device__ __forceinline__ float withoutPayload(float x) {
  return isnan(x) ? __uint_as_float(0x7fff0000u) : x;
}

/// math::adamw of N elements: updates `param`, `m` and `v`.
template <int N, typename Params>
__device__ __forceinline__ void
adamwRun(const Params &params, const AdamwStep &step, float (&param)[N],
         const float (&grad)[N], float (&m)[N], float (&v)[N]) {
  uint32_t leastM = ~0u, mostM = 0, leastV = ~0u, mostV = 0;
#pragma unroll
  for (int k = 0; k < N; ++k) {
    math::adamwMoments(params, grad[k], m[k], v[k]);
    const uint32_t magnitude = __float_as_uint(m[k]) & 0x7fffffffu;
    leastM = min(leastM, magnitude);
    mostM = max(mostM, magnitude);
    leastV = min(leastV, __float_as_uint(v[k]));
    mostV =
        max(mostV, __float_as_uint(v[k])); // a sign bit makes it the largest
  }
  float direction[N];
  if (step.isUsual && leastM >= powerBits(-60) && mostM <= powerBits(30) &&
      leastV >= powerBits(-96) && mostV <= powerBits(60)) {
#pragma unroll
    for (int k = 0; k < N; ++k)
      direction[k] = step.direction(m[k], v[k]);
  } else if (step.isUsual && step.epsilon > 0 && (mostM | mostV) == 0) {
#pragma unroll
    for (int k = 0; k < N; ++k)
      direction[k] = m[k]; // a zero of either sign stays what it is
  } else {
#pragma unroll
    for (int k = 0; k < N; ++k) {
      direction[k] = math::adamwDirection(m[k], v[k], step.correction1,
                                          step.correction2, step.epsilon);
      m[k] = withoutPayload(m[k]);
      v[k] = withoutPayload(v[k]);
    }
  }
#pragma unroll
  for (int k = 0; k < N; ++k)
    param[k] = math::adamwParam(params, param[k], direction[k], step.lr);
}

} // namespace te::rt::cuda

#endif // TE_RUNTIME_KERNELS_OPTIMIZER_ADAMW_RUN_CUH
