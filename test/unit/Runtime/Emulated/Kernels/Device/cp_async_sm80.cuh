//===- cp_async_sm80.cuh - copies to shared memory, emulated --------------===//
//===----------------------------------------------------------------------===//

#ifndef TE_RUNTIME_KERNELS_DEVICE_CP_ASYNC_SM80_CUH
#define TE_RUNTIME_KERNELS_DEVICE_CP_ASYNC_SM80_CUH

#include "Kernels/Device/global_memory.cuh"

namespace te::rt::cuda::ptx {

inline void cpAsync16(void *to, const void *from, bool inside) {
  requireAligned16(to);
  if (inside)
    requireAligned16(from);
  emulated::startCopy(to, inside ? from : nullptr);
}
inline void cpAsyncCommitGroup() { emulated::commitCopies(); }
template <int Pending> void cpAsyncWaitGroup() {
  emulated::waitForCopies(Pending);
}

} // namespace te::rt::cuda::ptx

#endif // TE_RUNTIME_KERNELS_DEVICE_CP_ASYNC_SM80_CUH
