//===- launch_sm90.cuh - a kernel that starts before the last one ended ---===//
//
// The runtime launches kernels so that the blocks of one may start while the
// last blocks of the kernel before it on the stream still run (programmatic
// stream serialization). So each kernel reads and writes no memory before
// beginKernel, with which it begins: lint-kernel_starts checks the latter.
//
//===----------------------------------------------------------------------===//

#ifndef TE_RUNTIME_KERNELS_DEVICE_LAUNCH_SM90_CUH
#define TE_RUNTIME_KERNELS_DEVICE_LAUNCH_SM90_CUH

namespace te::rt::cuda::ptx {

/// griddepcontrol.wait: waits until the kernels before this one have ended, and
/// what they wrote is visible.
__device__ __forceinline__ void waitForKernelsBefore() {
  asm volatile("griddepcontrol.wait;" ::: "memory");
}

/// griddepcontrol.launch_dependents: once each block has called this or ended,
/// blocks of the next kernel start where there is room, and wait.
__device__ __forceinline__ void allowNextKernel() {
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
}

/// For kernels of many blocks, whose last ones start shortly before the end.
__device__ __forceinline__ void beginKernel() {
  waitForKernelsBefore();
  allowNextKernel();
}

/// For kernels whose blocks all start at once and run for long: they call
/// allowNextKernel near their end. Earlier, blocks of the next kernel would
/// wait where those of other streams could run.
__device__ __forceinline__ void beginPersistentKernel() {
  waitForKernelsBefore();
}

} // namespace te::rt::cuda::ptx

#endif // TE_RUNTIME_KERNELS_DEVICE_LAUNCH_SM90_CUH
