//===- Formulas.h - element formulas both backends share ------------------===//
//
// The few formulas beyond Math.h where the order of operations decides the last
// bit: the scale rules, the optimizers, normalisation, elementwise operators.
// Host and device compile this file with contraction off (see Math.h), so a
// backend that calls these functions in the reduction orders documented in
// Kernels.td equals the reference bit for bit.
//
//===----------------------------------------------------------------------===//

#ifndef TE_RUNTIME_CORE_FORMULAS_H
#define TE_RUNTIME_CORE_FORMULAS_H

#include "Core/Kernels.h"
#include "Core/Math.h"
#include "Core/Random.h"
#include "TEDialect/Runtime/te_runtime_types.h"

namespace te::rt {

/// Lanes of every row reduction: lane i takes elements i, i + kLanes, ...; then
/// the tree acc[i] += acc[i + s] for s = 128, 64, ..., 1 and i < s.
inline constexpr int kLanes = 256;

/// Consecutive elements of a lane in the sum of exponentials of Kernels.td.
inline constexpr int kExpRun = 8;
/// Rows of one partial sum of a bias gradient.
inline constexpr int kChunkRows = 128;
/// Rows of one partial sum of a norm's parameter gradients, and how many of
/// these are summed before the results are.
inline constexpr int kStripRows = 32, kRunStrips = 16;

namespace math {

inline constexpr float kInfinity = __builtin_inff();
inline constexpr float kFloatMax = 3.402823466e+38f;

/// Largest finite value of a te_rt_dtype.
TE_HOST_DEVICE float maxFinite(int32_t type) {
  switch (type) {
  case TE_RT_BF16:
    return bitsToFloat(0x7f7f0000u);
  case TE_RT_F16:
    return 65504.0f;
  case TE_RT_F8E4M3FN:
    return 448.0f;
  case TE_RT_F8E5M2:
    return 57344.0f;
  default:
    return kFloatMax;
  }
}

/// The quantisation factor for values up to `amax`. `valueForInf` replaces an
/// overflowing quotient: kFloatMax for per-tensor scales, the largest finite
/// value of the *input* type for block scales.
TE_HOST_DEVICE float computeScale(float amax, float fp8Max, bool pow2,
                                  float epsilon, float valueForInf) {
  if (amax < epsilon)
    amax = epsilon;
  if (amax != amax || amax == kInfinity || amax == 0.0f)
    return 1.0f;
  float scale = fp8Max / amax;
  if (scale == kInfinity)
    scale = valueForInf;
  return pow2 ? bitsToFloat(floatToBits(scale) & 0xff800000u) : scale;
}

/// The f8E8M0FNU code of the least power of two not below `v` >= 0: an infinity
/// gives the largest, NaN the NaN. Values up to 2^-127, zero included, give 0.
TE_HOST_DEVICE uint8_t e8m0RoundUp(float v) {
  const uint32_t bits = floatToBits(v) & 0x7fffffffu;
  if (bits >= 0x7f800000u)
    return bits > 0x7f800000u ? 0xff : 0xfe;
  const uint32_t exponent = bits >> 23, mantissa = bits & 0x7fffffu;
  // 2^-127 is the f32 subnormal of mantissa 0x400000.
  const bool isAbove = mantissa > (exponent == 0 ? 0x400000u : 0u);
  return static_cast<uint8_t>(exponent + (isAbove && exponent != 0xfe ? 1 : 0));
}
/// The f8E8M0FNU code of a power of two; NaN's for any other value.
TE_HOST_DEVICE uint8_t e8m0OfPowerOfTwo(float v) {
  const uint32_t bits = floatToBits(v);
  if (bits == 0x400000u)
    return 0;
  const bool isNormalPower = (bits & 0x807fffffu) == 0 && bits != 0;
  return static_cast<uint8_t>(isNormalPower ? bits >> 23 : 0xffu);
}
TE_HOST_DEVICE float e8m0ToFloat(uint8_t code) {
  if (code == 0xff)
    return bitsToFloat(0x7fffffffu);
  return bitsToFloat(code == 0 ? 0x400000u : uint32_t{code} << 23);
}
/// 2^(127 - code), the factor of quantisation.
TE_HOST_DEVICE float e8m0Inverse(uint8_t code) {
  if (code == 0xff)
    return bitsToFloat(0x7fffffffu);
  return bitsToFloat(code == 0xfe ? 0x400000u : (254u - code) << 23);
}
/// The exponent of an mx block with this amax; `fp8Max` is 448 or 57344.
TE_HOST_DEVICE uint8_t mxExponent(float amax, float fp8Max) {
  return e8m0RoundUp(amax * (1.0f / fp8Max));
}

/// What the codes of an nv block are multiplied by to dequantise them: `scale`
/// is the decoded scale of the block, `scaleMax` the largest there may be.
TE_HOST_DEVICE float nvFactor(float scale, float amax, int32_t scaleMax) {
  return scale * amax * (1.0f / (6.0f * static_cast<float>(scaleMax)));
}

/// The next factor of delayed scaling: `old` where `amax` says nothing (0,
/// infinite, NaN). `scaledMax` is the largest finite value times 2^-margin.
TE_HOST_DEVICE float delayedScale(float amax, float scaledMax, float old) {
  const float scale = amax > 0.0f && amax < kInfinity ? scaledMax / amax : old;
  return scale == kInfinity ? kFloatMax : scale;
}

/// 1 - beta^step, through f64 so that a long run does not lose it.
TE_HOST_DEVICE float adamwBiasCorrection(float beta, float step) {
  double power = 1.0, factor = beta;
  for (unsigned n = static_cast<unsigned>(step); n != 0; n >>= 1) {
    if (n & 1)
      power *= factor;
    factor *= factor;
  }
  return static_cast<float>(1.0 - power);
}

/// The three parts of adamw: the new moments, the direction that they give, and
/// the new parameter. `Params` are those of adamw or adamw_fp8.
template <typename Params>
TE_HOST_DEVICE void adamwMoments(const Params &p, float grad, float &m,
                                 float &v) {
  m = p.beta1 * m + (1.0f - p.beta1) * grad;
  v = p.beta2 * v + ((1.0f - p.beta2) * grad) * grad;
}
TE_HOST_DEVICE float adamwDirection(float m, float v, float correction1,
                                    float correction2, float epsilon) {
  return (m / correction1) / (sqrtf(v / correction2) + epsilon);
}
template <typename Params>
TE_HOST_DEVICE float adamwParam(const Params &p, float param, float direction,
                                float lr) {
  return param - lr * (direction + p.weight_decay * param);
}

/// Updates `m` and `v` in place and returns the new parameter. `correction1`
/// and `correction2` are adamwBiasCorrection of the betas.
template <typename Params>
TE_HOST_DEVICE float adamw(const Params &p, float param, float grad, float &m,
                           float &v, float lr, float correction1,
                           float correction2) {
  adamwMoments(p, grad, m, v);
  return adamwParam(
      p, param, adamwDirection(m, v, correction1, correction2, p.epsilon), lr);
}

/// Random words for the moments of elements 4 `group` to 4 `group` + 3: the low
/// half of a word is for m, the high half for v.
TE_HOST_DEVICE PhiloxWords adamwRandom(int32_t seed, int64_t group,
                                       float step) {
  return philox(static_cast<uint32_t>(group),
                static_cast<uint32_t>(static_cast<uint64_t>(group) >> 32),
                floatToBits(step), kAdamwMoments, static_cast<uint32_t>(seed),
                0);
}

/// Random words for the dropout of elements 4 `group` to 4 `group` + 3.
TE_HOST_DEVICE PhiloxWords dropoutWords(int64_t group, uint32_t kind,
                                        uint32_t seed, uint32_t offset,
                                        uint32_t stream) {
  return philox(static_cast<uint32_t>(group),
                static_cast<uint32_t>(static_cast<uint64_t>(group) >> 32),
                offset, kind, seed, stream);
}

/// That of element `index` among the words of its group.
TE_HOST_DEVICE uint32_t dropoutWord(const PhiloxWords &words, int64_t index) {
  // Shifts, because a choice of a number in an array needs memory on a GPU.
  const uint64_t low = words.word[0] | uint64_t(words.word[1]) << 32,
                 high = words.word[2] | uint64_t(words.word[3]) << 32;
  return static_cast<uint32_t>((index & 2 ? high : low) >> (index & 1) * 32);
}

/// What a dropout multiplies an element with whose random word is `word`: 0
/// with `probability`, and 1 / (1 - probability) otherwise.
TE_HOST_DEVICE float dropoutFactor(float probability, uint32_t word) {
  const double p = probability;
  return word < p * 4294967296.0 || p == 1 ? 0.0f
                                           : static_cast<float>(1 / (1 - p));
}

/// `buf` is the momentum buffer, updated in place; pass 0 where there is none.
TE_HOST_DEVICE float sgd(const sgd_params &p, float param, float grad,
                         float &buf, float lr) {
  const float decayed = grad + p.weight_decay * param;
  buf = p.momentum * buf + decayed;
  return param - lr * (p.nesterov ? p.momentum * buf + decayed : buf);
}

/// A factor above 1 is 1; a comparison keeps NaN, fminf would not.
TE_HOST_DEVICE float clipFactor(float norm, float maxNorm) {
  const float factor = maxNorm / (norm + 1e-6f);
  return factor > 1.0f ? 1.0f : factor;
}

/// From the sum of squares of a row, of its centred values for layer_norm.
TE_HOST_DEVICE float rsigma(float sumOfSquares, int64_t cols, float epsilon) {
  return 1.0f / sqrtf(sumOfSquares / static_cast<float>(cols) + epsilon);
}
/// `g` is gamma, plus 1 when zero-centred.
TE_HOST_DEVICE float rmsNorm(float x, float g, float rsigma) {
  return g * (rsigma * x);
}
/// `mean` is the row's sum of fmaf(g * dy, rsigma * x, acc), over cols.
TE_HOST_DEVICE float rmsNormGrad(float dy, float x, float g, float rsigma,
                                 float mean) {
  return rsigma * (g * dy - (rsigma * x) * mean);
}

/// As rmsNorm, of the centred row, plus beta.
TE_HOST_DEVICE float layerNorm(float x, float g, float b, float mu,
                               float rsigma) {
  return g * (rsigma * (x - mu)) + b;
}
/// `meanOfGrad` is the row's mean of g * dy, `mean` that of (g * dy) h with
/// h = rsigma * (x - mu).
TE_HOST_DEVICE float layerNormGrad(float dy, float x, float g, float mu,
                                   float rsigma, float meanOfGrad, float mean) {
  return rsigma * ((g * dy - meanOfGrad) - (rsigma * (x - mu)) * mean);
}

/// The parameters of clamped_swiglu.
struct Clamp {
  float limit, alpha, offset;
};

/// What makes one activation of the others that are built on a sigmoid:
/// c = min(x, limit), s = sigmoid(slope * c), y = c * s, or s alone for glu.
struct SigmoidForm {
  float limit, slope;
  bool isBare;
};
/// `kind` is neither of gelu's nor of relu's.
TE_HOST_DEVICE SigmoidForm sigmoidForm(int32_t kind, const Clamp &clamp) {
  switch (kind) {
  case TE_RT_QGELU:
  case TE_RT_QGEGLU:
    return {kInfinity, 1.702f, false};
  case TE_RT_GLU:
    return {kInfinity, 1.0f, true};
  case TE_RT_CLAMPED_SWIGLU:
    return {clamp.limit, clamp.alpha, false};
  default: // TE_RT_SILU, TE_RT_SWIGLU
    return {kInfinity, 1.0f, false};
  }
}
/// The argument of the sigmoid, and y and dy/dx from it and its sigmoid.
TE_HOST_DEVICE float sigmoidArgument(const SigmoidForm &form, float x) {
  return form.slope * (x > form.limit ? form.limit : x);
}
TE_HOST_DEVICE float sigmoidValue(const SigmoidForm &form, float x, float s) {
  return form.isBare ? s : (x > form.limit ? form.limit : x) * s;
}
TE_HOST_DEVICE float sigmoidSlope(const SigmoidForm &form, float x, float z,
                                  float s) {
  if (form.isBare)
    return s * (1.0f - s);
  return x > form.limit ? 0.0f : z * s * (1.0f - s) + s;
}

/// act of a te_rt_activation, and its derivative.
TE_HOST_DEVICE float activation(int32_t kind, const Clamp &clamp, float x) {
  switch (kind) {
  case TE_RT_GELU:
  case TE_RT_GEGLU:
    return gelu(x);
  case TE_RT_GELU_ERF:
  case TE_RT_GEGLU_ERF:
    return geluErf(x, normal(x));
  case TE_RT_RELU:
  case TE_RT_REGLU:
    return relu(x);
  case TE_RT_SRELU:
  case TE_RT_SREGLU:
    return srelu(x);
  default: {
    const SigmoidForm form = sigmoidForm(kind, clamp);
    return sigmoidValue(form, x, sigmoid(sigmoidArgument(form, x)));
  }
  }
}
TE_HOST_DEVICE float activationGrad(int32_t kind, const Clamp &clamp, float x) {
  switch (kind) {
  case TE_RT_GELU:
  case TE_RT_GEGLU:
    return geluGrad(x);
  case TE_RT_GELU_ERF:
  case TE_RT_GEGLU_ERF:
    return geluErfGrad(x, normal(x));
  case TE_RT_RELU:
  case TE_RT_REGLU:
    return reluGrad(x);
  case TE_RT_SRELU:
  case TE_RT_SREGLU:
    return sreluGrad(x);
  default: {
    const SigmoidForm form = sigmoidForm(kind, clamp);
    const float z = sigmoidArgument(form, x);
    return sigmoidSlope(form, x, z, sigmoid(z));
  }
  }
}

/// What act(a) of a gated kind is multiplied by, and the gradient of b where
/// `grad` is that of this factor.
TE_HOST_DEVICE float gate(int32_t kind, const Clamp &clamp, float b) {
  if (kind != TE_RT_CLAMPED_SWIGLU)
    return b;
  const float low = b < -clamp.limit ? -clamp.limit : b;
  return (low > clamp.limit ? clamp.limit : low) + clamp.offset;
}
TE_HOST_DEVICE float gateGrad(int32_t kind, const Clamp &clamp, float b,
                              float grad) {
  return kind == TE_RT_CLAMPED_SWIGLU && fabsf(b) > clamp.limit ? 0.0f : grad;
}

} // namespace math
} // namespace te::rt

#endif // TE_RUNTIME_CORE_FORMULAS_H
