//===- MissingKernels.cpp - plans of kernels that no family provides ------===//
//
// A weak definition of every plan function, so that the backend links with the
// kernel families that are there. The definition of a family, which is strong,
// takes its place.
//
//===----------------------------------------------------------------------===//

#include "Cuda/CudaBackend.h"

namespace te::rt::cuda {

#define TE_RT_KERNEL(name, parameters, buffers)                                \
  __attribute__((weak)) Status plan_##name(                                    \
      const CudaDevice &, const name##_params &, std::unique_ptr<Plan> *) {    \
    return {TE_RT_UNSUPPORTED, "the cuda backend has no kernel '" #name        \
                               "'; use the 'reference' backend"};              \
  }
#include "TEDialect/Runtime/te_runtime_kernels.inc"

} // namespace te::rt::cuda
