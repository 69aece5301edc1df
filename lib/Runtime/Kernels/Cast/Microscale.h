//===- Microscale.h - plans of mx and nv values ---------------------------===//
//
// Plans of kernels that serve every scheme pass their mx and nv values on to
// these.
//
//===----------------------------------------------------------------------===//

#ifndef TE_RUNTIME_KERNELS_CAST_MICROSCALE_H
#define TE_RUNTIME_KERNELS_CAST_MICROSCALE_H

#include "Core/Backend.h"
#include "Core/Kernels.h"
#include "Cuda/CudaDevice.h"

namespace te::rt::cuda {

/// Implement plan_dequantize and plan_transpose_scaled if isMx or isNv is
/// true.
Status planMicroscaledDequantize(const CudaDevice &device,
                                 const dequantize_params &params,
                                 std::unique_ptr<Plan> *plan);
Status planMicroscaledTranspose(const CudaDevice &device,
                                const transpose_scaled_params &params,
                                std::unique_ptr<Plan> *plan);

} // namespace te::rt::cuda

#endif // TE_RUNTIME_KERNELS_CAST_MICROSCALE_H
