//===- GemmProblem.h - what the algorithm of a GEMM depends on ------------===//
//
// out[m, n] = sum_k A[m, k] B[n, k], reduced to the facts that an algorithm
// depends on. Two problems with equal text() share their tuned algorithm.
//
//===----------------------------------------------------------------------===//

#ifndef TE_RUNTIME_GEMM_GEMMPROBLEM_H
#define TE_RUNTIME_GEMM_GEMMPROBLEM_H

#include "Core/Kernels.h"

#include <string>

namespace te::rt::cuda {

struct GemmOperand {
  static constexpr int32_t unscaled = -1;

  int32_t type = TE_RT_F32;
  /// A te_rt_scheme, or `unscaled`.
  int32_t scheme = unscaled;
  /// Stored [k, outer] instead of [outer, k].
  bool transposed = false;
};

/// Whether launches have a factor of the sum, as a pointer to a device f32.
enum class GemmAlpha { absent, optional, present };

struct GemmProblem {
  int64_t m = 0, n = 0, k = 0;
  GemmOperand a, b;
  int32_t biasType = TE_RT_BF16;
  int32_t outType = TE_RT_BF16;
  bool fastAccumulation = false;
  /// Not part of text(), because it does not change the speed of an algorithm.
  GemmAlpha alpha = GemmAlpha::absent;

  /// One line without tabs, such as "m=64 n=32 k=128 a=bf16 b=bf16t out=f32".
  std::string text() const;
};

} // namespace te::rt::cuda

#endif // TE_RUNTIME_GEMM_GEMMPROBLEM_H
