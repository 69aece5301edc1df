//===- Norm.cpp - plan normalisation and column sums ----------------------===//
//
// Rows that fit in registers have their own kernels; which one runs depends on
// the alignment of the launch's buffers, so a plan holds all it may need.
//
//===----------------------------------------------------------------------===//

#include "Cuda/CudaBackend.h"

#include "Core/Formulas.h"
#include "Kernels/Norm/norm_args.h"
#include "Kernels/Pointwise/KernelLookup.h"

namespace te::rt::cuda {

namespace {

/// Column numbers are 32-bit in the kernels, with room to step past the end.
Status checkCols(const char *kernel, int64_t cols) {
  constexpr int64_t limit = int64_t{1} << 30;
  if (cols <= limit)
    return Status::ok();
  return {TE_RT_UNSUPPORTED,
          std::string(kernel) + ": expected 'cols' to be at most " +
              std::to_string(limit) + ", but got " + std::to_string(cols)};
}

Status findNorm(const CudaDevice &device, const char *family, int32_t type,
                int64_t blocks, LaunchConfig *config) {
  TE_RT_RETURN_IF_FAILED(findTyped(device, family, {type}, config));
  config->block = kNormBlock;
  return setGrid(blocks, config);
}

unsigned columnBlocks(int64_t cols, bool vectors) {
  return static_cast<unsigned>(
      ceilDiv(cols, kNormBlock * (vectors ? kColumnsPerThread : 1)));
}

/// The second stage of a column sum.
Status findChunkSum(const CudaDevice &device, int32_t outType, int64_t cols,
                    LaunchConfig *config) {
  return findNorm(device, "te_chunk_sum", outType, ceilDiv(cols, kNormBlock),
                  config);
}

} // namespace

Status plan_rms_norm(const CudaDevice &device, const rms_norm_params &params,
                     std::unique_ptr<Plan> *plan) {
  namespace b = rms_norm_buffers;
  TE_RT_RETURN_IF_FAILED(checkCols("te_rms_norm", params.cols));
  const int64_t rowBytes = params.cols * byteSize(params.type);
  const int64_t blocks = ceilDiv(params.rows, kNormRowsPerBlock);
  LaunchConfig any, kept;
  TE_RT_RETURN_IF_FAILED(
      findNorm(device, "te_rms_norm_any", params.type, blocks, &any));
  kept = any;
  if (rowBytes <= kNormShortRuns * kNormRunBytes)
    TE_RT_RETURN_IF_FAILED(
        findNorm(device, "te_rms_norm_short", params.type, blocks, &kept));
  else if (rowBytes <= kNormLongRuns * kNormRunBytes)
    TE_RT_RETURN_IF_FAILED(
        findNorm(device, "te_rms_norm_long", params.type, blocks, &kept));
  *plan = makePlan(device, [=](Launcher launch, void *const *buffers) {
    RmsNormArgs args{};
    args.x = buffers[b::x];
    args.gamma = buffers[b::gamma];
    args.y = buffers[b::y];
    args.rsigma = static_cast<float *>(buffers[b::rsigma]);
    args.amax = static_cast<float *>(buffers[b::amax]);
    args.rows = params.rows;
    args.cols = static_cast<int32_t>(params.cols);
    args.epsilon = params.epsilon;
    args.zeroCentered = params.zero_centered != 0;
    args.vectors =
        rowBytes % 16 == 0 && areAligned({args.x, args.gamma, args.y});
    if (args.amax)
      TE_RT_RETURN_IF_FAILED(launch.zero(args.amax, sizeof(float)));
    return launch(args.vectors ? kept : any, args);
  });
  return Status::ok();
}

Status plan_rms_norm_backward(const CudaDevice &device,
                              const rms_norm_backward_params &params,
                              std::unique_ptr<Plan> *plan) {
  namespace b = rms_norm_backward_buffers;
  TE_RT_RETURN_IF_FAILED(checkCols("te_rms_norm_backward", params.cols));
  const int64_t rowBytes = params.cols * byteSize(params.type);
  const int64_t chunks = ceilDiv(params.rows, kChunkRows);
  const int64_t rowBlocks = kChunkRows / kNormRowsPerBlock;
  LaunchConfig any, kept, sum;
  TE_RT_RETURN_IF_FAILED(
      findNorm(device, "te_rms_norm_backward_any", params.type,
               chunks * (rowBlocks + columnBlocks(params.cols, false)), &any));
  kept = any;
  if (rowBytes <= kNormShortRuns * kNormRunBytes)
    TE_RT_RETURN_IF_FAILED(
        findNorm(device, "te_rms_norm_backward_short", params.type, 0, &kept));
  TE_RT_RETURN_IF_FAILED(
      setGrid(chunks * (rowBlocks + columnBlocks(params.cols, true)), &kept));
  TE_RT_RETURN_IF_FAILED(findChunkSum(device, params.type, params.cols, &sum));
  const int64_t workspaceBytes =
      chunks * params.cols * static_cast<int64_t>(sizeof(float));
  *plan = makeWorkspacePlan(
      device, workspaceBytes,
      [=](Launcher launch, void *const *buffers, void *workspace) {
        RmsNormBackwardArgs args{};
        args.dy = buffers[b::dy];
        args.x = buffers[b::x];
        args.gamma = buffers[b::gamma];
        args.rsigma = static_cast<const float *>(buffers[b::rsigma]);
        args.dx = buffers[b::dx];
        args.partial = static_cast<float *>(workspace);
        args.rows = params.rows;
        args.cols = static_cast<int32_t>(params.cols);
        args.zeroCentered = params.zero_centered != 0;
        args.vectors = rowBytes % 16 == 0 &&
                       areAligned({args.dy, args.x, args.gamma, args.dx});
        args.columnBlocks = columnBlocks(params.cols, args.vectors);
        TE_RT_RETURN_IF_FAILED(launch(args.vectors ? kept : any, args));
        return launch(sum, ChunkSumArgs{args.partial, buffers[b::dgamma],
                                        chunks, args.cols});
      });
  return Status::ok();
}

Status plan_bias_grad(const CudaDevice &device, const bias_grad_params &params,
                      std::unique_ptr<Plan> *plan) {
  namespace b = bias_grad_buffers;
  TE_RT_RETURN_IF_FAILED(checkCols("te_bias_grad", params.cols));
  const int64_t chunks = ceilDiv(params.rows, kChunkRows);
  LaunchConfig scalars, sum;
  TE_RT_RETURN_IF_FAILED(findNorm(device, "te_bias_grad", params.type,
                                  chunks * columnBlocks(params.cols, false),
                                  &scalars));
  LaunchConfig vectors = scalars;
  TE_RT_RETURN_IF_FAILED(
      setGrid(chunks * columnBlocks(params.cols, true), &vectors));
  TE_RT_RETURN_IF_FAILED(
      findChunkSum(device, params.out_type, params.cols, &sum));
  const int64_t workspaceBytes =
      chunks * params.cols * static_cast<int64_t>(sizeof(float));
  *plan = makeWorkspacePlan(
      device, workspaceBytes,
      [=](Launcher launch, void *const *buffers, void *workspace) {
        ColumnSumArgs args{};
        args.dy = buffers[b::dy];
        args.partial = static_cast<float *>(workspace);
        args.rows = params.rows;
        args.cols = static_cast<int32_t>(params.cols);
        args.vectors =
            params.cols % kColumnsPerThread == 0 && areAligned({args.dy});
        args.columnBlocks = columnBlocks(params.cols, args.vectors);
        TE_RT_RETURN_IF_FAILED(launch(args.vectors ? vectors : scalars, args));
        return launch(
            sum, ChunkSumArgs{args.partial, buffers[b::db], chunks, args.cols});
      });
  return Status::ok();
}

} // namespace te::rt::cuda
