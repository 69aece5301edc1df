//===- Shard.cpp - plans of the kernels of flat shards --------------------===//
//
// Where the shard begins is known once the group is bound, which is before a
// step is loaded.
//
//===----------------------------------------------------------------------===//

#include "Cuda/CudaBackend.h"
#include "Cuda/Nccl.h"
#include "Kernels/LaunchPlan.h"
#include "Kernels/Shard/shard_args.h"

#include <algorithm>
#include <limits>

namespace te::rt::cuda {

/// The shard of this rank, but for its pointer.
template <typename Params>
static Shard shardOf(const CudaDevice &device, const Params &params) {
  const NcclGroup *const group = device.nccl->find(params.rank_of);
  const int64_t rank = group ? group->rank() : 0;
  return {.x = nullptr,
          .count = params.count,
          .begin = params.start + rank * params.count,
          .rows = params.rows,
          .cols = params.cols};
}

Status plan_partial_amax(const CudaDevice &device,
                         const partial_amax_params &params,
                         std::unique_ptr<Plan> *plan) {
  LaunchConfig config;
  TE_RT_RETURN_IF_FAILED(config.find(device, std::string("te_partial_amax_") +
                                                 inputTypeName(params.type)));
  const int64_t rowBlocks = ceilDiv(params.rows, kShardBlock),
                colBlocks = ceilDiv(params.cols, kShardBlock);
  if (colBlocks != 0 &&
      rowBlocks > std::numeric_limits<int32_t>::max() / colBlocks)
    return {TE_RT_UNSUPPORTED,
            "expected at most 2147483647 blocks of 128x128, but got rows " +
                std::to_string(params.rows) + " and cols " +
                std::to_string(params.cols)};
  config.block = kShardThreads;
  config.gridX = static_cast<unsigned>(rowBlocks * colBlocks);
  PartialAmaxArgs args{};
  args.shard = shardOf(device, params);
  args.colBlocks = static_cast<uint32_t>(colBlocks);
  *plan = makePlan(
      device, [config, args](const Launcher &launch, void *const *buffers) {
        namespace index = partial_amax_buffers;
        PartialAmaxArgs with = args;
        with.shard.x = buffers[index::x];
        with.amax = static_cast<float *>(buffers[index::amax]);
        with.skip = static_cast<const float *>(buffers[index::skip]);
        return launch(config, with);
      });
  return Status::ok();
}

Status plan_quantize_shard(const CudaDevice &device,
                           const quantize_shard_params &params,
                           std::unique_ptr<Plan> *plan) {
  LaunchConfig config;
  TE_RT_RETURN_IF_FAILED(config.find(
      device, std::string("te_quantize_shard_") + inputTypeName(params.type) +
                  "_" + fp8TypeName(params.fp8_type)));
  config.block = kShardThreads;
  // All blocks resident at once; fewer where a thread would get no chunk.
  config.gridX = static_cast<unsigned>(std::clamp<int64_t>(
      ceilDiv(params.count, kShardThreads * 8), 1, device.multiprocessors * 8));
  QuantizeShardArgs args{};
  args.shard = shardOf(device, params);
  args.rowBlocks = ceilDiv(params.rows, kShardBlock);
  args.colBlocks = ceilDiv(params.cols, kShardBlock);
  args.pow2 = params.pow2_scales;
  args.epsilon = params.amax_epsilon;
  *plan = makePlan(
      device, [config, args](const Launcher &launch, void *const *buffers) {
        namespace index = quantize_shard_buffers;
        QuantizeShardArgs with = args;
        with.shard.x = buffers[index::x];
        with.amax = static_cast<const float *>(buffers[index::amax]);
        with.data = static_cast<uint8_t *>(buffers[index::data]);
        with.scale = static_cast<float *>(buffers[index::row_scale]);
        with.skip = static_cast<const float *>(buffers[index::skip]);
        return launch(config, with);
      });
  return Status::ok();
}

} // namespace te::rt::cuda
