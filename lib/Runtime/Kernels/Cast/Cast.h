//===- Cast.h - plans of casts that other families share ------------------===//

#ifndef TE_RUNTIME_KERNELS_CAST_CAST_H
#define TE_RUNTIME_KERNELS_CAST_CAST_H

#include "Core/Backend.h"
#include "Core/Kernels.h"
#include "Cuda/CudaDevice.h"

#include <memory>

namespace te::rt::cuda {

/// Whether the rows are few and long, as for a stack of weights, and not as in
/// a matrix.
bool hasLongRows(const amax_rows_params &params);

/// Plans amax_rows with many blocks for each row, for long rows.
Status planAmaxOfLongRows(const CudaDevice &device,
                          const amax_rows_params &params,
                          std::unique_ptr<Plan> *plan);

} // namespace te::rt::cuda

#endif // TE_RUNTIME_KERNELS_CAST_CAST_H
