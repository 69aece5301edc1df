//===- CudaBackend.h - the cuda backend on given libraries ----------------===//
//
// What the tests need beyond Core/Backend.h: the same backend with the vendor
// libraries at given paths.
//
//===----------------------------------------------------------------------===//

#ifndef TE_RUNTIME_CUDA_CUDABACKEND_H
#define TE_RUNTIME_CUDA_CUDABACKEND_H

#include "Core/Backend.h"
#include "Core/Kernels.h"
#include "Cuda/CudaDevice.h"
#include "Cuda/Library.h"

namespace te::rt::cuda {

/// Like te::rt::createCudaBackend, with the libraries at `paths`.
Status createBackend(const LibraryPaths &paths,
                     std::unique_ptr<Backend> *backend,
                     int32_t device = kAnyDevice);

// Status plan_amax(const CudaDevice &, const amax_params &, ...);
// Each is defined by the kernel's family in lib/Runtime/Kernels, or by
// lib/Runtime/Gemm. The device outlives every plan.
#define TE_RT_KERNEL(name, parameters, buffers)                                \
  Status plan_##name(const CudaDevice &device, const name##_params &params,    \
                     std::unique_ptr<Plan> *plan);
#include "TEDialect/Runtime/te_runtime_kernels.inc"

} // namespace te::rt::cuda

#endif // TE_RUNTIME_CUDA_CUDABACKEND_H
