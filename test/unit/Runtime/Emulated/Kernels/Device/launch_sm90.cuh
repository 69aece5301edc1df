//===- launch_sm90.cuh - kernels run one after the other ------------------===//

#ifndef TE_RUNTIME_KERNELS_DEVICE_LAUNCH_SM90_CUH
#define TE_RUNTIME_KERNELS_DEVICE_LAUNCH_SM90_CUH

namespace te::rt::cuda::ptx {

inline void waitForKernelsBefore() {}
inline void allowNextKernel() {}
inline void beginKernel() {}
inline void beginPersistentKernel() {}

} // namespace te::rt::cuda::ptx

#endif // TE_RUNTIME_KERNELS_DEVICE_LAUNCH_SM90_CUH
