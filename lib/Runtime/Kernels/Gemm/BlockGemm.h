//===- BlockGemm.h - block-scaled products by the own Hopper kernel -------===//

#ifndef TE_RUNTIME_KERNELS_GEMM_BLOCKGEMM_H
#define TE_RUNTIME_KERNELS_GEMM_BLOCKGEMM_H

#include "Core/Backend.h"
#include "Cuda/CudaDevice.h"

namespace te::rt::cuda {

/// Writes the tensor map of an operand unless it is the one written last.
class OperandMap {
public:
  /// `data` is [rows, k] bytes.
  Status encode(const CudaDevice &device, void *data, uint64_t rows, uint64_t k,
                CUtensorMap *map);

private:
  void *encoded = nullptr;
};

/// True where planBlockGemm takes the product: on sm_90, what the support table
/// gives to an own kernel.
bool supportsBlockGemm(const CudaDevice &device,
                       const scaled_matmul_params &params);

Status planBlockGemm(const CudaDevice &device,
                     const scaled_matmul_params &params,
                     std::unique_ptr<Plan> *plan);

} // namespace te::rt::cuda

#endif // TE_RUNTIME_KERNELS_GEMM_BLOCKGEMM_H
