//===- GemmScales.h - kernels before and after a GEMM of the library ------===//

#ifndef TE_RUNTIME_KERNELS_GEMM_GEMMSCALES_H
#define TE_RUNTIME_KERNELS_GEMM_GEMMSCALES_H

#include "Kernels/Gemm/gemm_scales_args.h"
#include "Kernels/LaunchPlan.h"

namespace te::rt::cuda {

/// out[m, n] = alpha[m] * unscaled[m, n] (+ bias[n]) (+ c[m, n]) in f32,
/// rounded once: the last step of a row-scaled GEMM.
class ScaleRows {
public:
  /// `outType` is f32 or bf16; n is a multiple of 4, m and n are positive.
  Status plan(const CudaDevice &device, int64_t m, int64_t n, int32_t outType);
  /// `args` has the pointers; the sizes are filled in here.
  Status launch(const Launcher &launch, ScaleRowsArgs args) const;

private:
  LaunchConfig config;
  uint32_t n = 0, rowBlocks = 0;
};

} // namespace te::rt::cuda

#endif // TE_RUNTIME_KERNELS_GEMM_GEMMSCALES_H
