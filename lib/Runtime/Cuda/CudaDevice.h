//===- CudaDevice.h - one GPU as plan makers see it -----------------------===//
//
// What the plan functions of lib/Runtime/Kernels need from the backend: the
// driver's entry points (a table filled at run time: the library links no
// CUDA), the device's limits and the embedded kernels by name. Everything here
// is used while planning; a launch only calls cuLaunchKernel.
//
//===----------------------------------------------------------------------===//

#ifndef TE_RUNTIME_CUDA_CUDADEVICE_H
#define TE_RUNTIME_CUDA_CUDADEVICE_H

#include "Core/Status.h"

#include <cuda.h>

#include <string>
#include <unordered_map>
#include <vector>

namespace te::rt::cuda {

/// Entry points of libcuda, one member per row of DriverSymbols.inc.
struct Driver {
#define TE_CUDA_SYMBOL(name, versioned) decltype(&::name) name = nullptr;
#include "Cuda/DriverSymbols.inc"
#undef TE_CUDA_SYMBOL
};

class AttentionPlanner;
class GemmPlanner;
class NcclGroups;

class CudaDevice {
public:
  const Driver *driver = nullptr;
  GemmPlanner *gemm = nullptr;
  AttentionPlanner *attention = nullptr;
  NcclGroups *nccl = nullptr;
  CUdevice device = 0;
  CUcontext context = nullptr;
  /// The context's own stream: copies, timers and tuning run on it.
  CUstream stream = nullptr;
  std::string name;
  /// As 13000 for CUDA 13.0.
  int driverVersion = 0;
  int computeMajor = 0, computeMinor = 0;
  int multiprocessors = 0;
  int l2Bytes = 0;
  std::vector<CUmodule> modules;

  /// Makes the kernels of `module` known by name. `modules` has it also after a
  /// failure, so that whoever unloads those unloads it.
  Status addModule(CUmodule module);

  /// Finds an embedded kernel; TE_RT_INTERNAL when no module holds it. With
  /// `sharedBytes` above 48 KiB, raises the kernel's dynamic limit, which never
  /// falls: plans that asked for more may still be launched.
  Status function(const char *name, CUfunction *function,
                  int sharedBytes = 0) const;

  /// `result` as a Status that names the driver's error and `what` was tried.
  Status check(CUresult result, const char *what) const;

private:
  struct Kernel {
    CUmodule module;
    /// Dynamic shared bytes that a launch may ask for.
    int sharedLimit = 48 * 1024;
  };
  /// By name.
  mutable std::unordered_map<std::string, Kernel> kernels;
};

} // namespace te::rt::cuda

#endif // TE_RUNTIME_CUDA_CUDADEVICE_H
