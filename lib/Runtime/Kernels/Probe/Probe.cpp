//===- Probe.cpp - plans of the probes ------------------------------------===//
//
// Statistics need two launches: one block for each run, then one block that
// combines the runs in order.
//
//===----------------------------------------------------------------------===//

#include "Kernels/Probe/probe_args.h"

#include "Core/Capabilities.h"
#include "Core/Workspaces.h"
#include "Cuda/CudaBackend.h"
#include "Kernels/Pointwise/KernelLookup.h"

#include <algorithm>

namespace te::rt::cuda {

Status plan_count_nonfinite(const CudaDevice &device,
                            const count_nonfinite_params &params,
                            std::unique_ptr<Plan> *plan) {
  namespace b = count_nonfinite_buffers;
  LaunchConfig config;
  TE_RT_RETURN_IF_FAILED(
      findTyped(device, "te_count_nonfinite", {params.type}, &config));
  config.block = kProbeBlock;
  // All blocks are resident at once. There are fewer if a thread would
  // otherwise get fewer than 8 chunks.
  config.gridX = static_cast<unsigned>(
      std::min<int64_t>(ceilDiv(params.count, kProbeBlock * 64),
                        device.multiprocessors * int64_t{8}));
  *plan = makePlan(device, [=, &device](Launcher launch, void *const *buffers) {
    auto *counts = static_cast<uint32_t *>(buffers[b::new_counts]);
    if (counts != buffers[b::counts])
      TE_RT_RETURN_IF_FAILED(device.check(
          device.driver->cuMemcpyDtoDAsync(
              reinterpret_cast<CUdeviceptr>(counts),
              reinterpret_cast<CUdeviceptr>(buffers[b::counts]),
              static_cast<size_t>(params.entries) * 3 * sizeof(uint32_t),
              launch.rawStream()),
          "cuMemcpyDtoDAsync"));
    return launch(config,
                  CountNonfiniteArgs{
                      .x = buffers[b::x],
                      .scale = static_cast<const float *>(buffers[b::scale]),
                      .row = counts + 3 * params.index,
                      .count = params.count,
                      .limit = params.limit});
  });
  return Status::ok();
}

Status plan_tensor_stats(const CudaDevice &device,
                         const tensor_stats_params &params,
                         std::unique_ptr<Plan> *plan) {
  namespace b = tensor_stats_buffers;
  const int64_t runs = ceilDiv(params.rows * params.cols, kProbeRun);
  LaunchConfig gather, finish;
  TE_RT_RETURN_IF_FAILED(
      findTyped(device, "te_tensor_stats", {params.type}, &gather));
  gather.block = kProbeBlock;
  TE_RT_RETURN_IF_FAILED(setGrid(runs, &gather));
  TE_RT_RETURN_IF_FAILED(finish.find(device, "te_tensor_stats_finish"));
  finish.block = kProbeBlock;
  static_assert(kProbeRun == te_table::kernel_rows::kStatsRun &&
                sizeof(ProbeRow) == te_table::kernel_rows::kStatsRowBytes);
  *plan = makeWorkspacePlan(
      device, workspaceBytes(params),
      [=](Launcher launch, void *const *buffers, void *workspace) {
        TE_RT_RETURN_IF_FAILED(checkBuffers(params, buffers));
        const ProbeCast cast{
            .data = static_cast<const uint8_t *>(buffers[b::data]),
            .scale = buffers[b::scale],
            .amax = static_cast<const float *>(buffers[b::amax]),
            .rows = params.rows,
            .cols = params.cols,
            .fp8Type = params.fp8_type,
            .scheme = params.scheme,
            .axis = params.axis,
            .rowScaled = params.row_scaled,
            .scaleMax = params.scale_max};
        auto *rows = static_cast<ProbeRow *>(workspace);
        TE_RT_RETURN_IF_FAILED(launch(
            gather,
            TensorStatsArgs{.x = buffers[b::x], .runs = rows, .cast = cast}));
        return launch(finish,
                      TensorStatsFinishArgs{
                          .runs = rows,
                          .stats = static_cast<float *>(buffers[b::stats]),
                          .numRuns = runs,
                          .cast = cast});
      });
  return Status::ok();
}

} // namespace te::rt::cuda
