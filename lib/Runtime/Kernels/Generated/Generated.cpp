//===- Generated.cpp - plan launches of generated code --------------------===//
//
// A module contains the PTX of all its generated kernels. The driver compiles
// it when the first of them is planned, and caches the result on disk.
//
//===----------------------------------------------------------------------===//

#include "Cuda/CudaBackend.h"

#include "Kernels/Pointwise/KernelLookup.h"
#include "TEDialect/Runtime/te_runtime_compiled.h"

#include <array>

namespace te::rt::cuda {

static constexpr int kGeneratedOutputs =
    generated_buffers::count_ - generated_buffers::out0;

Status plan_generated(const CudaDevice &device, const generated_params &params,
                      std::unique_ptr<Plan> *plan) {
  const auto &code =
      *reinterpret_cast<const te_rt_generated *>(params.function);
  if (!code.device_code)
    return {TE_RT_UNSUPPORTED,
            "expected a module that was compiled for a GPU, but got one "
            "compiled with 'target=reference', whose code for '" +
                std::string(code.name) + "' runs on the CPU only"};
  LaunchConfig config;
  config.name = code.name;
  config.block = static_cast<unsigned>(code.block);
  config.sharedBytes = static_cast<unsigned>(code.shared_bytes);
  TE_RT_RETURN_IF_FAILED(device.generated(code.device_code, code.device_name,
                                          code.shared_bytes, &config.function));
  TE_RT_RETURN_IF_FAILED(
      setGrid(ceilDiv(params.count, code.block_elements), &config));
  const int64_t count = params.count;
  const int32_t stream = code.stream, amaxes = code.amaxes;
  *plan = makePlan(device, [=](Launcher launch, void *const *buffers) {
    constexpr int kBuffers = generated_buffers::count_;
    std::array<void *, kBuffers> used;
    std::array<void *, kBuffers + 3> arguments;
    int numUsed = 0;
    int32_t aligned = 1;
    for (int i = 0; i < kBuffers; ++i)
      if (buffers[i]) {
        aligned &= isAligned(buffers[i], 16);
        used[numUsed] = buffers[i];
        arguments[numUsed] = &used[numUsed];
        ++numUsed;
      }
    for (int i = 0; i < kGeneratedOutputs; ++i)
      if (amaxes >> i & 1)
        TE_RT_RETURN_IF_FAILED(
            launch.zero(buffers[generated_buffers::out0 + i], sizeof(float)));
    int64_t elements = count;
    int32_t first = stream;
    arguments[numUsed] = &elements;
    arguments[numUsed + 1] = &aligned;
    arguments[numUsed + 2] = &first;
    return launch(config, arguments.data());
  });
  return Status::ok();
}

} // namespace te::rt::cuda
