//===- Cast.h - plans of casts that other families share ------------------===//

#ifndef TE_RUNTIME_KERNELS_CAST_CAST_H
#define TE_RUNTIME_KERNELS_CAST_CAST_H

#include "Core/Backend.h"
#include "Core/Kernels.h"
#include "Cuda/CudaDevice.h"

#include <memory>

namespace te::rt::cuda {

/// Whether the rows are few and long: those of a stack of weights, not those of
/// a matrix.
bool hasLongRows(const amax_rows_params &params);

/// amax_rows with many blocks to a row, for rows that are long.
Status planAmaxOfLongRows(const CudaDevice &device,
                          const amax_rows_params &params,
                          std::unique_ptr<Plan> *plan);

} // namespace te::rt::cuda

#endif // TE_RUNTIME_KERNELS_CAST_CAST_H
