//===- BlockGemm.h - plans of own dense FP8 GEMMs for Hopper --------------===//

#ifndef TE_RUNTIME_KERNELS_GEMM_BLOCKGEMM_H
#define TE_RUNTIME_KERNELS_GEMM_BLOCKGEMM_H

#include "Core/Backend.h"
#include "Cuda/CudaDevice.h"

namespace te::rt::cuda {

/// What a tensor map describes: [matrices, rows, cols] elements, or [rows,
/// cols] if `matrices` is 0. Boxes whose rows are 128 bytes are stored in the
/// 128-byte swizzle.
struct TensorView {
  CUtensorMapDataType type;
  uint64_t elementBytes, rows, cols, matrices;
  uint32_t boxRows, boxCols;

  /// An 8-bit operand [rows, k].
  static TensorView bytes(uint64_t rows, uint64_t k);
  /// An f32 operand C [rows, n].
  static TensorView cOperand(uint64_t rows, uint64_t n);
  /// 1x128 scales [slices, outer], of which a tile has `boxCols`.
  static TensorView scales(uint64_t slices, uint64_t outer, uint32_t boxCols);
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

/// Whether planOwnGemm runs the matmul: on sm_90, block scales for which the
/// support table names a kernel of this library, and per-tensor scales with
/// split accumulation where that is faster than cuBLASLt, with the same bits.
bool runsOwnGemm(const CudaDevice &device, const scaled_matmul_params &params);

Status planOwnGemm(const CudaDevice &device, const scaled_matmul_params &params,
                   std::unique_ptr<Plan> *plan);

} // namespace te::rt::cuda

#endif // TE_RUNTIME_KERNELS_GEMM_BLOCKGEMM_H
