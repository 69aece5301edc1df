//===- Shard.cpp - plans of the kernels of flat shards --------------------===//
//
// The first element of the shard is known once the group is bound, which is
// before a step is loaded.
//
//===----------------------------------------------------------------------===//

#include "Core/Workspaces.h"
#include "Cuda/CudaBackend.h"
#include "Cuda/Nccl.h"
#include "Kernels/LaunchPlan.h"
#include "Kernels/Shard/shard_args.h"

#include <algorithm>
#include <bit>
#include <limits>

namespace te::rt::cuda {

/// The shard of this rank without its pointer.
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
  TE_RT_RETURN_IF_FAILED(config.find(
      device, "te_partial_amax_" + std::to_string(params.block_rows) + "x" +
                  std::to_string(params.block_cols) + "_" +
                  inputTypeName(params.type)));
  // A block of threads has a 128x128 block. All other blocks are in tiles of
  // 32x32, one for each warp.
  const bool isLarge = params.block_rows == kShardBlock;
  const int64_t side = isLarge ? kShardBlock : kShardTile;
  const int64_t rowTiles = ceilDiv(params.rows, side),
                colTiles = ceilDiv(params.cols, side);
  if (colTiles != 0 &&
      rowTiles > std::numeric_limits<int32_t>::max() / colTiles)
    return {TE_RT_UNSUPPORTED, "expected at most 2147483647 tiles of " +
                                   std::to_string(side) + "x" +
                                   std::to_string(side) + ", but got rows " +
                                   std::to_string(params.rows) + " and cols " +
                                   std::to_string(params.cols)};
  config.block = kShardThreads;
  PartialAmaxArgs args{};
  args.shard = shardOf(device, params);
  args.colTiles = static_cast<uint32_t>(colTiles);
  args.tiles = static_cast<uint32_t>(rowTiles * colTiles);
  config.gridX = static_cast<unsigned>(
      isLarge ? args.tiles : ceilDiv(args.tiles, kShardThreads / 32));
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

/// The number of blocks for the chunks of a shard: all are resident at once,
/// and every thread has a chunk.
static unsigned blocksFor(const CudaDevice &device, int64_t count) {
  return static_cast<unsigned>(std::clamp<int64_t>(
      ceilDiv(count, kShardThreads * 8), 1, device.multiprocessors * 8));
}

static int32_t log2Of(int64_t power) {
  return std::countr_zero(static_cast<uint64_t>(power));
}

Status plan_quantize_nvfp4_shard(const CudaDevice &device,
                                 const quantize_nvfp4_shard_params &params,
                                 std::unique_ptr<Plan> *plan) {
  LaunchConfig config;
  TE_RT_RETURN_IF_FAILED(
      config.find(device, std::string("te_quantize_nvfp4_shard_") +
                              inputTypeName(params.type)));
  config.block = kShardThreads;
  config.gridX = blocksFor(device, params.count);
  const BlockShape block(params.scheme, /*axis=*/1);
  const MicroscaleLayout layout(params.scheme, /*axis=*/1, params.rows,
                                params.cols);
  QuantizeNvfp4ShardArgs args{};
  args.shard = shardOf(device, params);
  args.colBlocks = params.cols / block.cols;
  args.pitch = layout.pitch;
  args.blockRows = log2Of(block.rows);
  args.scaleMax = params.scale_max;
  // A skipped cast does not write out_amax, so the largest amax is computed
  // elsewhere.
  std::unique_ptr<Plan> largest;
  TE_RT_RETURN_IF_FAILED(
      plan_amax(device,
                {.count = params.rows / block.rows * args.colBlocks,
                 .x_type = TE_RT_F32,
                 .type = TE_RT_F32},
                &largest));
  *plan = makeWorkspacePlan(
      device, workspaceBytes(params),
      [config, args, largest = std::shared_ptr<Plan>(std::move(largest))](
          const Launcher &launch, void *const *buffers, void *workspace) {
        namespace index = quantize_nvfp4_shard_buffers;
        void *ofAmax[amax_buffers::count_] = {};
        ofAmax[amax_buffers::x] = buffers[index::block_amax];
        ofAmax[amax_buffers::amax] = workspace;
        ofAmax[amax_buffers::skip] = buffers[index::skip];
        TE_RT_RETURN_IF_FAILED(largest->launch(launch.rawStream(), ofAmax));
        QuantizeNvfp4ShardArgs with = args;
        with.shard.x = buffers[index::x];
        with.blockAmax = static_cast<const float *>(buffers[index::block_amax]);
        with.amax = static_cast<const float *>(workspace);
        with.data = static_cast<uint8_t *>(buffers[index::data]);
        with.scale = static_cast<uint8_t *>(buffers[index::scale]);
        with.outAmax = static_cast<float *>(buffers[index::out_amax]);
        with.skip = static_cast<const float *>(buffers[index::skip]);
        return launch(config, with);
      });
  return Status::ok();
}

Status plan_quantize_shard(const CudaDevice &device,
                           const quantize_shard_params &params,
                           std::unique_ptr<Plan> *plan) {
  const bool mx = isMx(params.scheme);
  LaunchConfig config;
  TE_RT_RETURN_IF_FAILED(config.find(
      device,
      std::string(mx ? "te_quantize_shard_mx_" : "te_quantize_shard_block_") +
          inputTypeName(params.type) + "_" + fp8TypeName(params.fp8_type)));
  config.block = kShardThreads;
  config.gridX = blocksFor(device, params.count);
  QuantizeShardArgs args{};
  args.shard = shardOf(device, params);
  const BlockShape block(params.scheme, params.axis);
  args.colBlocks = ceilDiv(params.cols, block.cols);
  // The scale of a square mx block is stored once for each of its lines.
  const int64_t rowsOfScale = mx && params.axis == 1 ? 1 : block.rows,
                colsOfScale = mx && params.axis == 0 ? 1 : block.cols;
  if (mx) {
    const MicroscaleLayout layout(params.scheme, params.axis, params.rows,
                                  params.cols);
    args.scaleRows = layout.lines;
    args.scaleCols = layout.pitch;
  } else {
    args.scaleRows = ceilDiv(params.rows, block.rows);
    args.scaleCols = roundUp(args.colBlocks, 4);
  }
  args.blockRows = log2Of(block.rows);
  args.blockCols = log2Of(block.cols);
  args.rowsOfScale = log2Of(rowsOfScale);
  args.colsOfScale = log2Of(colsOfScale);
  args.pow2 = params.pow2_scales;
  args.epsilon = params.amax_epsilon;
  *plan = makePlan(
      device, [config, args](const Launcher &launch, void *const *buffers) {
        namespace index = quantize_shard_buffers;
        QuantizeShardArgs with = args;
        with.shard.x = buffers[index::x];
        with.amax = static_cast<const float *>(buffers[index::amax]);
        with.data = static_cast<uint8_t *>(buffers[index::data]);
        with.scale = buffers[index::scale];
        with.skip = static_cast<const float *>(buffers[index::skip]);
        return launch(config, with);
      });
  return Status::ok();
}

} // namespace te::rt::cuda
