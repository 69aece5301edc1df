//===- BlockGemm.h - plans of the block-scaled GEMM for Hopper ------------===//

#ifndef TE_RUNTIME_KERNELS_GEMM_BLOCKGEMM_H
#define TE_RUNTIME_KERNELS_GEMM_BLOCKGEMM_H

#include "Core/Backend.h"
#include "Cuda/CudaDevice.h"

namespace te::rt::cuda {

/// What a tensor map describes: [matrices, rows, cols] elements, or [rows,
/// cols] if `matrices` is 0. A row of a box is 128 bytes.
struct TensorView {
  CUtensorMapDataType type;
  uint64_t elementBytes, rows, cols, matrices;
  uint32_t boxRows, boxCols;

  /// An 8-bit operand [rows, k].
  static TensorView bytes(uint64_t rows, uint64_t k);
  /// An f32 operand C [rows, n].
  static TensorView cOperand(uint64_t rows, uint64_t n);
};

/// Encodes the tensor map of a buffer, unless that buffer was the last one.
class OperandMap {
public:
  Status encode(const CudaDevice &device, const TensorView &view, void *data,
                CUtensorMap *map);

private:
  void *encoded = nullptr;
};

/// Clusters that run at a time for at most `tiles` tiles: as many as the device
/// holds, but at most one for each half of a tile.
uint32_t clustersFor(const CudaDevice &device, int64_t tiles);

/// Whether planBlockGemm supports the matmul: on sm_90, if the support table
/// names a kernel of this library.
bool supportsBlockGemm(const CudaDevice &device,
                       const scaled_matmul_params &params);

Status planBlockGemm(const CudaDevice &device,
                     const scaled_matmul_params &params,
                     std::unique_ptr<Plan> *plan);

} // namespace te::rt::cuda

#endif // TE_RUNTIME_KERNELS_GEMM_BLOCKGEMM_H
