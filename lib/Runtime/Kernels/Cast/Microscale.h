//===- Microscale.h - plans of mx and nv values ---------------------------===//
//
// Kernels whose rows serve every scheme hand their mx and nv values over here.
//
//===----------------------------------------------------------------------===//

#ifndef TE_RUNTIME_KERNELS_CAST_MICROSCALE_H
#define TE_RUNTIME_KERNELS_CAST_MICROSCALE_H

#include "Core/Backend.h"
#include "Core/Kernels.h"
#include "Cuda/CudaDevice.h"

namespace te::rt::cuda {

/// plan_dequantize and plan_transpose_scaled where isMx or isNv holds.
Status planMicroscaledDequantize(const CudaDevice &device,
                                 const dequantize_params &params,
                                 std::unique_ptr<Plan> *plan);
Status planMicroscaledTranspose(const CudaDevice &device,
                                const transpose_scaled_params &params,
                                std::unique_ptr<Plan> *plan);

} // namespace te::rt::cuda

#endif // TE_RUNTIME_KERNELS_CAST_MICROSCALE_H
