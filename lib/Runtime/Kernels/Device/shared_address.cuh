//===- shared_address.cuh - addresses of shared memory for PTX ------------===//
//
// PTX instructions take a shared memory operand as a 32-bit address in the
// shared state space, which is what this converts a generic pointer to.
//
//===----------------------------------------------------------------------===//

#ifndef TE_RUNTIME_KERNELS_DEVICE_SHARED_ADDRESS_CUH
#define TE_RUNTIME_KERNELS_DEVICE_SHARED_ADDRESS_CUH

#include <cstdint>

namespace te::rt::cuda::ptx {

__device__ __forceinline__ uint32_t sharedAddress(const void *pointer) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(pointer));
}

} // namespace te::rt::cuda::ptx

#endif // TE_RUNTIME_KERNELS_DEVICE_SHARED_ADDRESS_CUH
