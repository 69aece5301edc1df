//===- LaunchPlan.h - plans that are one kernel launch --------------------===//
//
// Kernels of this library take one argument: a plain struct, by value. The
// numbers in it are fixed while planning, the pointers are filled in at
// launch. A plan is then a `LaunchConfig` (function, grid, block, shared bytes)
// and a function that copies buffers into the struct:
//
//   LaunchConfig config;
//   TE_RT_RETURN_IF_FAILED(config.find(device, "te_amax_bf16"));
//   config.gridX = ...;
//   *plan = makePlan(device, [=](const Launcher &launch, void *const *buffers)
//   {
//     AmaxArgs args{.count = count};
//     args.x = buffers[amax_buffers::x];
//     return launch(config, args);
//   });
//
// Launching never allocates; a kernel that needs several variants or several
// kernels captures several configs.
//
//===----------------------------------------------------------------------===//

#ifndef TE_RUNTIME_KERNELS_LAUNCHPLAN_H
#define TE_RUNTIME_KERNELS_LAUNCHPLAN_H

#include "Core/Backend.h"
#include "Core/Kernels.h"
#include "Cuda/CudaDevice.h"

#include <memory>
#include <string>
#include <type_traits>
#include <utility>

namespace te::rt::cuda {

/// The parameters of cuLaunchKernelEx besides the argument. An empty grid (any
/// dimension 0) launches nothing.
struct LaunchConfig {
  CUfunction function = nullptr;
  /// Whether the kernel waits for those before it (Device/launch_sm90.cuh), so
  /// that it may start before they end.
  bool waits = false;
  std::string name; // of the kernel, for messages
  unsigned gridX = 1, gridY = 1, gridZ = 1;
  unsigned block = 256;
  unsigned sharedBytes = 0; // dynamic

  /// Looks up `kernel` of this library. `sharedBytes` above 48 KiB must be set
  /// here.
  Status find(const CudaDevice &device, std::string kernel, int shared = 0) {
    name = std::move(kernel);
    waits = true;
    sharedBytes = static_cast<unsigned>(shared);
    return device.function(name.c_str(), &function, shared);
  }
};

/// Enqueues kernels on one stream.
class Launcher {
public:
  Launcher(const CudaDevice &device, void *stream)
      : device(device), stream(static_cast<CUstream>(stream)) {}

  template <typename Args>
  Status operator()(const LaunchConfig &config, const Args &args) const {
    static_assert(std::is_trivially_copyable_v<Args>);
    void *arguments[] = {const_cast<Args *>(&args)};
    return (*this)(config, static_cast<void **>(arguments));
  }
  /// The same for a kernel with several arguments, given by their addresses.
  Status operator()(const LaunchConfig &config, void **arguments) const {
    if (config.gridX == 0 || config.gridY == 0 || config.gridZ == 0)
      return Status::ok();
    CUlaunchAttribute starts = {};
    starts.id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION;
    starts.value.programmaticStreamSerializationAllowed = 1;
    const CUlaunchConfig launch = {.gridDimX = config.gridX,
                                   .gridDimY = config.gridY,
                                   .gridDimZ = config.gridZ,
                                   .blockDimX = config.block,
                                   .blockDimY = 1,
                                   .blockDimZ = 1,
                                   .sharedMemBytes = config.sharedBytes,
                                   .hStream = stream,
                                   .attrs = &starts,
                                   .numAttrs = config.waits ? 1u : 0u};
    CUresult result = device.driver->cuLaunchKernelEx(&launch, config.function,
                                                      arguments, nullptr);
    return result == CUDA_SUCCESS ? Status::ok()
                                  : device.check(result, config.name.c_str());
  }

  /// Sets `bytes` bytes at `pointer` to zero, or to `value`.
  Status zero(void *pointer, int64_t bytes) const {
    return fill(pointer, 0, bytes);
  }
  Status fill(void *pointer, uint8_t value, int64_t bytes) const {
    if (bytes == 0)
      return Status::ok();
    return device.check(device.driver->cuMemsetD8Async(
                            reinterpret_cast<CUdeviceptr>(pointer), value,
                            static_cast<size_t>(bytes), stream),
                        "cuMemsetD8Async");
  }

  /// Copies `bytes` bytes within the device.
  Status copy(void *to, const void *from, int64_t bytes) const {
    if (bytes == 0)
      return Status::ok();
    return device.check(
        device.driver->cuMemcpyDtoDAsync(reinterpret_cast<CUdeviceptr>(to),
                                         reinterpret_cast<CUdeviceptr>(from),
                                         static_cast<size_t>(bytes), stream),
        "cuMemcpyDtoDAsync");
  }

  CUstream rawStream() const { return stream; }

private:
  const CudaDevice &device;
  CUstream stream;
};

/// A plan whose launch is `body(Launcher, buffers)`.
template <typename Body> class FunctionPlan final : public Plan {
public:
  FunctionPlan(const CudaDevice &device, Body body)
      : device(device), body(std::move(body)) {}

  Status launch(void *stream, void *const *buffers) override {
    return body(Launcher(device, stream), buffers);
  }

private:
  const CudaDevice &device; // outlives every plan of its backend
  Body body;
};

template <typename Body>
std::unique_ptr<Plan> makePlan(const CudaDevice &device, Body body) {
  return std::make_unique<FunctionPlan<Body>>(device, std::move(body));
}

/// A FunctionPlan with scratch memory: `body(Launcher, buffers, workspace)`.
template <typename Body> class WorkspacePlan final : public Plan {
public:
  WorkspacePlan(const CudaDevice &device, int64_t bytes, Body body)
      : device(device), bytes(bytes), body(std::move(body)) {}

  Status launch(void *stream, void *const *buffers) override {
    return body(Launcher(device, stream), buffers, workspace);
  }
  int64_t workspaceBytes() const override { return bytes; }
  void setWorkspace(void *pointer) override { workspace = pointer; }

private:
  const CudaDevice &device; // outlives every plan of its backend
  int64_t bytes;
  void *workspace = nullptr;
  Body body;
};

template <typename Body>
std::unique_ptr<Plan> makeWorkspacePlan(const CudaDevice &device, int64_t bytes,
                                        Body body) {
  return std::make_unique<WorkspacePlan<Body>>(device, bytes, std::move(body));
}

/// Infix of kernel names for an input type ("bf16", "f16", "f32"), or null.
inline const char *inputTypeName(int32_t type) {
  switch (type) {
  case TE_RT_F32:
    return "f32";
  case TE_RT_BF16:
    return "bf16";
  case TE_RT_F16:
    return "f16";
  default:
    return nullptr;
  }
}

/// Infix of kernel names for an 8-bit float type ("e4m3", "e5m2"), or null.
inline const char *fp8TypeName(int32_t type) {
  switch (type) {
  case TE_RT_F8E4M3FN:
    return "e4m3";
  case TE_RT_F8E5M2:
    return "e5m2";
  default:
    return nullptr;
  }
}

/// Whether `pointer` (null counts) is a multiple of `bytes`.
inline bool isAligned(const void *pointer, uintptr_t bytes) {
  return reinterpret_cast<uintptr_t>(pointer) % bytes == 0;
}

} // namespace te::rt::cuda

#endif // TE_RUNTIME_KERNELS_LAUNCHPLAN_H
