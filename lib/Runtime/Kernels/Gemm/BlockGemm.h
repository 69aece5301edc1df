//===- BlockGemm.h - block-scaled products by the own Hopper kernel -------===//

#ifndef TE_RUNTIME_KERNELS_GEMM_BLOCKGEMM_H
#define TE_RUNTIME_KERNELS_GEMM_BLOCKGEMM_H

#include "Core/Backend.h"
#include "Cuda/CudaDevice.h"

namespace te::rt::cuda {

/// True where planBlockGemm takes the product: sm_90, schemes for which the
/// support table names an own kernel, bf16 or f32 result.
bool supportsBlockGemm(const CudaDevice &device,
                       const scaled_matmul_params &params);

Status planBlockGemm(const CudaDevice &device,
                     const scaled_matmul_params &params,
                     std::unique_ptr<Plan> *plan);

} // namespace te::rt::cuda

#endif // TE_RUNTIME_KERNELS_GEMM_BLOCKGEMM_H
