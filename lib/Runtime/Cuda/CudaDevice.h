//===- CudaDevice.h - one GPU as plan makers see it -----------------------===//
//
// What the plan functions of lib/Runtime/Kernels need from the backend: the
// driver's entry points (a table that is filled at run time, because the
// library does not link CUDA), the device's limits, and the embedded kernels by
// name. All of it is used while planning; a launch only calls
// cuLaunchKernelEx.
//
//===----------------------------------------------------------------------===//

#ifndef TE_RUNTIME_CUDA_CUDADEVICE_H
#define TE_RUNTIME_CUDA_CUDADEVICE_H

#include "Core/Status.h"

#include <cuda.h>

#include <string>
#include <sys/types.h>
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
class DeviceErrors;
class GemmPlanner;
class NcclGroups;

class CudaDevice {
public:
  const Driver *driver = nullptr;
  GemmPlanner *gemm = nullptr;
  AttentionPlanner *attention = nullptr;
  NcclGroups *nccl = nullptr;
  DeviceErrors *errors = nullptr;
  CUdevice device = 0;
  CUcontext context = nullptr;
  /// The context's own stream, which runs copies, timers and tuning.
  CUstream stream = nullptr;
  std::string name;
  /// The version of the driver, for example 13000 for CUDA 13.0.
  int driverVersion = 0;
  int computeMajor = 0, computeMinor = 0;
  int multiprocessors = 0;
  int l2Bytes = 0;
  /// The process that may use it: CUDA does not survive a fork.
  pid_t process = 0;
  /// Mutable, because planning may load generated code.
  mutable std::vector<CUmodule> modules;

  /// Makes the kernels of `module` known by name. After a failure it is in
  /// `modules` too, so that it is unloaded with them.
  Status addModule(CUmodule module);

  /// Finds an embedded kernel, or returns TE_RT_INTERNAL if no module has it.
  /// Raises the kernel's limit of dynamic shared memory if `sharedBytes` is
  /// above 48 KiB. The limit never falls, because plans that need more may
  /// still be launched.
  Status function(const char *name, CUfunction *function,
                  int sharedBytes = 0) const;

  /// Finds the kernel `name` of `ptx`, which is compiled for this device when
  /// it is first asked for, and lets it have `sharedBytes` of dynamic shared
  /// memory, which are always the same.
  Status generated(const char *ptx, const char *name, int sharedBytes,
                   CUfunction *function) const;

  /// Converts `result` to a Status that names the driver's error and the
  /// operation `what`.
  Status check(CUresult result, const char *what) const;

private:
  /// The dynamic shared bytes that a launch may ask for unless told otherwise.
  static constexpr int kSharedLimit = 48 * 1024;
  struct Kernel {
    CUmodule module;
    int sharedLimit = kSharedLimit;
  };
  Status raiseSharedLimit(CUfunction function, int sharedBytes) const;
  /// The kernels by name.
  mutable std::unordered_map<std::string, Kernel> kernels;
  /// Compiled PTX by its text.
  mutable std::unordered_map<std::string, CUmodule> generatedModules;
};

} // namespace te::rt::cuda

#endif // TE_RUNTIME_CUDA_CUDADEVICE_H
