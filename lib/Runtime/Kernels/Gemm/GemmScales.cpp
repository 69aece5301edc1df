//===- GemmScales.cpp - kernels before and after a GEMM of the library ----===//
//
// One thread writes a word of scales, or four elements of a result.
//
//===----------------------------------------------------------------------===//

#include "Kernels/Gemm/GemmScales.h"

#include "Cuda/CudaBackend.h"

#include <limits>

namespace te::rt::cuda {

static Status setGrid(LaunchConfig *config, int64_t blocks) {
  if (blocks > std::numeric_limits<int32_t>::max())
    return {TE_RT_UNSUPPORTED,
            "expected at most 2147483647 blocks of threads, but got " +
                std::to_string(blocks)};
  config->block = kGemmScalesThreads;
  config->gridX = static_cast<unsigned>(blocks);
  return Status::ok();
}

Status plan_block_to_mx_scales(const CudaDevice &device,
                               const block_to_mx_scales_params &params,
                               std::unique_ptr<Plan> *plan) {
  const bool isSquare = params.scheme == TE_RT_BLOCK_128X128;
  BlockToMxArgs args = {};
  args.outer = params.outer;
  args.stride =
      roundUp(isSquare ? ceilDiv(params.inner, 128) : params.outer, 4);
  args.blocks = static_cast<uint32_t>(ceilDiv(params.inner, 32));
  args.tileCols = static_cast<uint32_t>(ceilDiv(args.blocks, 4));
  args.words = roundUp(params.outer, 128) * args.tileCols;
  args.isSquare = isSquare;
  LaunchConfig config;
  TE_RT_RETURN_IF_FAILED(config.find(device, "te_block_to_mx_scales"));
  TE_RT_RETURN_IF_FAILED(
      setGrid(&config, ceilDiv(args.words, kGemmScalesThreads)));
  *plan = makePlan(
      device, [config, args](const Launcher &launch, void *const *buffers) {
        namespace b = block_to_mx_scales_buffers;
        if (!isAligned(buffers[b::mx_scale], 4))
          return Status(TE_RT_INVALID_ARGUMENT,
                        "expected 'mx_scale' to be aligned to 4 bytes");
        BlockToMxArgs given = args;
        given.scale = static_cast<const float *>(buffers[b::scale]);
        given.mxScale = static_cast<uint32_t *>(buffers[b::mx_scale]);
        return launch(config, given);
      });
  return Status::ok();
}

Status ScaleRows::plan(const CudaDevice &device, int64_t m, int64_t cols,
                       int32_t outType) {
  TE_RT_RETURN_IF_FAILED(config.find(device, std::string("te_scale_rows_") +
                                                 inputTypeName(outType)));
  if (cols > std::numeric_limits<int32_t>::max())
    return {TE_RT_UNSUPPORTED,
            "expected 'n' to be at most 2147483647, but got " +
                std::to_string(cols)};
  n = static_cast<uint32_t>(cols);
  rowBlocks = static_cast<uint32_t>(ceilDiv(cols, kScaleRowsCols));
  return setGrid(&config, m * rowBlocks);
}

Status ScaleRows::launch(const Launcher &launch, ScaleRowsArgs args) const {
  args.n = n;
  args.rowBlocks = rowBlocks;
  return launch(config, args);
}

} // namespace te::rt::cuda
