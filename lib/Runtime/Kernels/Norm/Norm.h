//===- Norm.h - what plans of norms and of column sums share --------------===//

#ifndef TE_RUNTIME_KERNELS_NORM_NORM_H
#define TE_RUNTIME_KERNELS_NORM_NORM_H

#include "Cuda/CudaBackend.h"
#include "Kernels/Norm/norm_args.h"
#include "Kernels/Pointwise/KernelLookup.h"

namespace te::rt::cuda {

/// A kernel of blocks of kNormBlock threads.
inline Status findNorm(const CudaDevice &device, const char *family,
                       int32_t type, int64_t blocks, LaunchConfig *config) {
  TE_RT_RETURN_IF_FAILED(findTyped(device, family, {type}, config));
  config->block = kNormBlock;
  return setGrid(blocks, config);
}

/// The blocks for all columns of a chunk or strip.
inline unsigned columnBlocks(int64_t cols, bool vectors) {
  return static_cast<unsigned>(
      ceilDiv(cols, kNormBlock * (vectors ? kColumnsPerThread : 1)));
}

} // namespace te::rt::cuda

#endif // TE_RUNTIME_KERNELS_NORM_NORM_H
