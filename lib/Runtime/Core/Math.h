//===- Math.h - the transcendental functions both backends share ----------===//
//
// exp, tanh and what activations build from them, and the codes of the types
// the device has no conversion of, written as one fixed sequence
// of IEEE f32 operations. Host and device compile this same file, so the
// reference backend and the CUDA kernels agree to the last bit. That holds only
// while no compiler reorders or contracts: the host compiles with
// -ffp-contract=off, nvcc with -fmad=false, and every fused multiply-add below
// is spelled out. Accuracy: exp and tanh within 2 ulp of the true value.
//
//===----------------------------------------------------------------------===//

#ifndef TE_RUNTIME_CORE_MATH_H
#define TE_RUNTIME_CORE_MATH_H

#include <cmath>
#include <cstdint>
#include <cstring>

#ifdef __CUDACC__
#define TE_HOST_DEVICE __host__ __device__ __forceinline__
#else
#define TE_HOST_DEVICE inline
#endif

namespace te::rt::math {

TE_HOST_DEVICE float bitsToFloat(uint32_t bits) {
#ifdef __CUDA_ARCH__
  return __uint_as_float(bits);
#else
  float value;
  std::memcpy(&value, &bits, sizeof(value));
  return value;
#endif
}

TE_HOST_DEVICE uint32_t floatToBits(float value) {
#ifdef __CUDA_ARCH__
  return __float_as_uint(value);
#else
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof(bits));
  return bits;
#endif
}

/// The value of an f4E2M1FN code, the low four bits of `code`, exactly: its
/// exponent and mantissa are those of an f32 that is 2^126 times smaller.
TE_HOST_DEVICE float e2m1ToFloat(uint32_t code) {
  return bitsToFloat((code & 8) << 28 | (code & 7) << 22) * 0x1p126f;
}

/// 2^n for n in [-126, 127].
TE_HOST_DEVICE float exp2Int(int n) {
  return bitsToFloat(static_cast<uint32_t>(n + 127) << 23);
}

/// e^x. Reduces x = n ln2 + r with |r| <= ln2 / 2, evaluates a polynomial of r.
TE_HOST_DEVICE float exp(float x) {
  if (!(x < 88.8f))
    return x != x ? x : bitsToFloat(0x7f800000u);
  if (x < -104.0f)
    return 0.0f;
  const float n = rintf(x * 1.44269504f);
  float r = fmaf(n, -0.693359375f, x);
  r = fmaf(n, 2.12194440e-4f, r);
  float p = 1.9875691500e-4f;
  p = fmaf(p, r, 1.3981999507e-3f);
  p = fmaf(p, r, 8.3334519073e-3f);
  p = fmaf(p, r, 4.1665795894e-2f);
  p = fmaf(p, r, 1.6666665459e-1f);
  p = fmaf(p, r, 5.0000001201e-1f);
  p = fmaf(p, r * r, r) + 1.0f;
  // Two factors, because 2^n alone can leave the normal range.
  const int half = static_cast<int>(n) / 2;
  return p * exp2Int(half) * exp2Int(static_cast<int>(n) - half);
}

TE_HOST_DEVICE float tanh(float x) {
  const float a = fabsf(x);
  if (a < 0.625f) {
    const float z = x * x;
    float p = -5.70498872745e-3f;
    p = fmaf(p, z, 2.06390887954e-2f);
    p = fmaf(p, z, -5.37397155531e-2f);
    p = fmaf(p, z, 1.33314422036e-1f);
    p = fmaf(p, z, -3.33332819422e-1f);
    return fmaf(p * z, x, x);
  }
  const float t = 1.0f - 2.0f / (exp(a + a) + 1.0f);
  return x < 0.0f ? -t : t;
}

TE_HOST_DEVICE float sigmoid(float x) { return 1.0f / (1.0f + exp(-x)); }

/// Tanh form.
TE_HOST_DEVICE float gelu(float x) {
  return x * (0.5f + 0.5f * tanh(x * (0.79788456f + 0.03567741f * x * x)));
}
TE_HOST_DEVICE float geluGrad(float x) {
  const float t = tanh(0.79788456f * x * (1.0f + 0.044715f * x * x));
  return 0.5f * x * ((1.0f - t * t) * (0.79788456f + 0.1070322243f * x * x)) +
         0.5f * (1.0f + t);
}

/// NaN passes through.
TE_HOST_DEVICE float relu(float x) { return x < 0.0f ? 0.0f : x; }
TE_HOST_DEVICE float reluGrad(float x) { return x > 0.0f ? 1.0f : 0.0f; }
TE_HOST_DEVICE float srelu(float x) { return x < 0.0f ? 0.0f : x * x; }
TE_HOST_DEVICE float sreluGrad(float x) { return x > 0.0f ? x + x : 0.0f; }

} // namespace te::rt::math

#endif // TE_RUNTIME_CORE_MATH_H
