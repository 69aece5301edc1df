//===- MicroscaledPlans.h - GEMMs with 8-bit block scales -----------------===//

#ifndef TE_RUNTIME_GEMM_MICROSCALEDPLANS_H
#define TE_RUNTIME_GEMM_MICROSCALEDPLANS_H

#include "Core/Backend.h"
#include "Cuda/CudaDevice.h"
#include "Gemm/GemmProblem.h"

namespace te::rt::cuda {

/// Whether planMicroscaled makes the plan: for mx and nv operands always, and
/// for block-scaled operands where they are multiplied as mx operands.
bool isMicroscaled(const CudaDevice &device,
                   const scaled_matmul_params &params);

/// m, n and k are positive. `problem` describes the GEMM of `params`.
Status planMicroscaled(const CudaDevice &device,
                       const scaled_matmul_params &params,
                       const GemmProblem &problem, std::unique_ptr<Plan> *plan);

} // namespace te::rt::cuda

#endif // TE_RUNTIME_GEMM_MICROSCALEDPLANS_H
