//===- fast_math.cuh - Core/Math.h in fewer instructions, same bits -------===//
//
// Device versions of Core/Math.h on a restricted domain, where its special
// cases cannot occur. Each returns exactly the bits of the general function:
//
//   * scaling by 2^n is an addition to the exponent, exact if p * 2^n is
//     normal;
//   * 1 / y is one correction step from the hardware's approximation, which is
//     how a correctly rounded reciprocal of an unexceptional y is computed.
//
//===----------------------------------------------------------------------===//

#ifndef TE_RUNTIME_KERNELS_ACTIVATION_FAST_MATH_CUH
#define TE_RUNTIME_KERNELS_ACTIVATION_FAST_MATH_CUH

#include "Core/Math.h"
#include "Kernels/Device/reciprocal.cuh"

namespace te::rt::cuda {

/// The domain of fastExp, fastSigmoid and the functions that use them.
__device__ __forceinline__ bool isFastExpArgument(float x) {
  return fabsf(x) < 87.0f;
}

/// math::exp(x) for |x| < 87.
__device__ __forceinline__ float fastExp(float x) {
  const math::BinaryPower power = math::binaryPower(x, math::kRoundingShift);
  // The shift drops the upper bits of the sum; n, in two's complement, remains.
  return __uint_as_float(__float_as_uint(math::exp2Fraction(power.fraction)) +
                         (__float_as_uint(power.shifted) << 23));
}

/// y = math::exp(x). The general form is used only if an x needs it.
template <int N>
__device__ __forceinline__ void expOf(const float (&x)[N], float (&y)[N]) {
  bool fast = true;
#pragma unroll
  for (int i = 0; i < N; ++i)
    fast &= isFastExpArgument(x[i]);
  if (fast) {
#pragma unroll
    for (int i = 0; i < N; ++i)
      y[i] = fastExp(x[i]);
  } else {
#pragma unroll
    for (int i = 0; i < N; ++i)
      y[i] = math::exp(x[i]);
  }
}

/// 1.0f / y for y in [2^-125, 2^126).
__device__ __forceinline__ float fastReciprocal(float y) {
  const float approximate = ptx::rcpApprox(y);
  return fmaf(approximate, fmaf(-y, approximate, 1.0f), approximate);
}

/// math::sigmoid(x) for |x| < 87.
__device__ __forceinline__ float fastSigmoid(float x) {
  return fastReciprocal(__fadd_rn(1.0f, fastExp(-x)));
}

/// math::tanh(x). The result for NaN is unspecified.
__device__ __forceinline__ float fastTanhOfNumber(float x) {
  const float z = __fmul_rn(x, x);
  float p = -5.70498872745e-3f;
  p = fmaf(p, z, 2.06390887954e-2f);
  p = fmaf(p, z, -5.37397155531e-2f);
  p = fmaf(p, z, 1.33314422036e-1f);
  p = fmaf(p, z, -3.33332819422e-1f);
  const float small = fmaf(__fmul_rn(p, z), x, x);
  // The result is 1 from 9.1 on, so 10 gives the right result for larger |x|.
  const float a = fminf(fabsf(x), 10.0f);
  const float y = __fadd_rn(fastExp(__fadd_rn(a, a)), 1.0f);
  const float large = fmaf(-2.0f, fastReciprocal(y), 1.0f);
  return fabsf(x) < 0.625f ? small : copysignf(large, x);
}

/// math::gelu and math::geluGrad. The result is multiplied by x, so a NaN x
/// gives NaN.
__device__ __forceinline__ float fastGelu(float x) {
  const float t = fastTanhOfNumber(x * (0.79788456f + 0.03567741f * x * x));
  // 0.5 * t is exact whenever a rounding could change its sum with 0.5.
  return x * fmaf(0.5f, t, 0.5f);
}
__device__ __forceinline__ float fastGeluGrad(float x) {
  const float t =
      fastTanhOfNumber(0.79788456f * x * (1.0f + 0.044715f * x * x));
  return 0.5f * x * ((1.0f - t * t) * (0.79788456f + 0.1070322243f * x * x)) +
         0.5f * (1.0f + t);
}

/// math::normal(x).
__device__ __forceinline__ math::NormalAt fastNormal(float x) {
  const float a = fabsf(x);
  // The argument of exp is at least -84.5; that of the reciprocal is in
  // [1, 4.6].
  const float near = fminf(a, 13.0f);
  const math::NormalAt at = math::normalOf(
      x, math::normalTailRatio(fastReciprocal(fmaf(0.27f, near, 1.0f))),
      fastExp(-0.5f * near * near));
  if (a < 13.0f)
    return at;
  return {x < 0.0f ? 0.0f : 1.0f, 0.0f};
}

} // namespace te::rt::cuda

#endif // TE_RUNTIME_KERNELS_ACTIVATION_FAST_MATH_CUH
