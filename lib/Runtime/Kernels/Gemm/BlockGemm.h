//===- BlockGemm.h - block-scaled products by the own Hopper kernel -------===//

#ifndef TE_RUNTIME_KERNELS_GEMM_BLOCKGEMM_H
#define TE_RUNTIME_KERNELS_GEMM_BLOCKGEMM_H

#include "Core/Backend.h"
#include "Cuda/CudaDevice.h"

namespace te::rt::cuda {

/// What a tensor map copies boxes of: [matrices, rows, cols] elements, rows and
/// columns of a box being 128 bytes wide. Without `matrices` it has two axes.
struct TensorView {
  CUtensorMapDataType type;
  uint64_t elementBytes, rows, cols, matrices;
  uint32_t boxRows, boxCols;

  /// An operand [rows, k] of 8 bits.
  static TensorView bytes(uint64_t rows, uint64_t k);
  /// A summand [rows, n] in f32.
  static TensorView summand(uint64_t rows, uint64_t n);
};

/// Writes the tensor map of a buffer unless it is the one written last.
class OperandMap {
public:
  Status encode(const CudaDevice &device, const TensorView &view, void *data,
                CUtensorMap *map);

private:
  void *encoded = nullptr;
};

/// Clusters of a launch that makes at most so many tiles: as many as the device
/// holds, or as there are halves of tiles.
uint32_t clustersFor(const CudaDevice &device, int64_t tiles);

/// True where planBlockGemm takes the product: on sm_90, what the support table
/// gives to an own kernel.
bool supportsBlockGemm(const CudaDevice &device,
                       const scaled_matmul_params &params);

Status planBlockGemm(const CudaDevice &device,
                     const scaled_matmul_params &params,
                     std::unique_ptr<Plan> *plan);

} // namespace te::rt::cuda

#endif // TE_RUNTIME_KERNELS_GEMM_BLOCKGEMM_H
