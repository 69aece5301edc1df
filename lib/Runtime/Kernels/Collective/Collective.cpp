//===- Collective.cpp - plan the collectives ------------------------------===//
//
// One process: the maximum over a group of one is the value itself.
//
//===----------------------------------------------------------------------===//

#include "Cuda/CudaBackend.h"

#include "Core/Kernels.h"

namespace te::rt::cuda {

Status plan_all_reduce_max(const CudaDevice &device,
                           const all_reduce_max_params &params,
                           std::unique_ptr<Plan> *plan) {
  static_assert(static_cast<int>(all_reduce_max_buffers::x) ==
                    static_cast<int>(copy_buffers::x) &&
                static_cast<int>(all_reduce_max_buffers::y) ==
                    static_cast<int>(copy_buffers::y));
  return plan_copy(device, {params.count * static_cast<int64_t>(sizeof(float))},
                   plan);
}

} // namespace te::rt::cuda
