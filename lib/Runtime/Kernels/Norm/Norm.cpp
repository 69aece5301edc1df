//===- Norm.cpp - plans of normalisation and column sums ------------------===//
//
// Rows that fit in registers have their own kernels. The alignment of the
// buffers of a launch decides which kernel runs, so a plan has all kernels that
// a launch may need.
//
//===----------------------------------------------------------------------===//

#include "Cuda/CudaBackend.h"

#include "Core/Formulas.h"
#include "Core/Workspaces.h"
#include "Kernels/Norm/norm_args.h"
#include "Kernels/Pointwise/KernelLookup.h"

namespace te::rt::cuda {

namespace {

/// The names of the kernels of one norm. They are literals, because messages
/// keep pointers to them.
struct NormKernels {
  const char *family, *shortRows, *longRows, *anyRows;
  const char *backwardShortRows, *backwardAnyRows;
};
#define TE_NORM_KERNELS(name)                                                  \
  {name,        name "_short",          name "_long",                          \
   name "_any", name "_backward_short", name "_backward_any"}
constexpr NormKernels kRmsNorm = TE_NORM_KERNELS("te_rms_norm");
constexpr NormKernels kLayerNorm = TE_NORM_KERNELS("te_layer_norm");
#undef TE_NORM_KERNELS

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

/// Whether there is a kernel that keeps rows of this size in registers.
const char *keptKernel(const NormKernels &names, int64_t rowBytes) {
  if (rowBytes <= kNormShortRuns * kNormRunBytes)
    return names.shortRows;
  return rowBytes <= kNormLongRuns * kNormRunBytes ? names.longRows : nullptr;
}

/// `read(buffers)` returns arguments with the buffers of a launch.
template <typename Params, typename Read>
Status planNorm(const CudaDevice &device, const NormKernels &names,
                const Params &params, Read read, std::unique_ptr<Plan> *plan) {
  TE_RT_RETURN_IF_FAILED(checkCols(names.family, params.cols));
  const int64_t rowBytes = params.cols * byteSize(params.type);
  const int64_t blocks = ceilDiv(params.rows, kNormRowsPerBlock);
  LaunchConfig any, kept;
  TE_RT_RETURN_IF_FAILED(
      findNorm(device, names.anyRows, params.type, blocks, &any));
  kept = any;
  if (const char *name = keptKernel(names, rowBytes))
    TE_RT_RETURN_IF_FAILED(findNorm(device, name, params.type, blocks, &kept));
  *plan = makePlan(device, [=](Launcher launch, void *const *buffers) {
    NormArgs args = read(buffers);
    args.rows = params.rows;
    args.cols = static_cast<int32_t>(params.cols);
    args.epsilon = params.epsilon;
    args.zeroCentered = params.zero_centered != 0;
    args.vectors =
        rowBytes % 16 == 0 && areAligned({args.x, args.gamma, args.beta, args.y,
                                          args.addend, args.sum, args.base});
    if (args.amax)
      TE_RT_RETURN_IF_FAILED(launch.zero(args.amax, sizeof(float)));
    return launch(args.vectors ? kept : any, args);
  });
  return Status::ok();
}

/// The buffers of a backward launch. `dbeta` is null for rms_norm.
struct BackwardBuffers {
  NormBackwardArgs args;
  void *dgamma, *dbeta;
};

template <typename Params, typename Read>
Status planNormBackward(const CudaDevice &device, const NormKernels &names,
                        const Params &params, int sums, Read read,
                        std::unique_ptr<Plan> *plan) {
  TE_RT_RETURN_IF_FAILED(checkCols(names.family, params.cols));
  const int64_t rowBytes = params.cols * byteSize(params.type);
  const int64_t strips = ceilDiv(params.rows, kStripRows);
  const int64_t rowBlocks = kStripRows / kNormRowsPerBlock;
  LaunchConfig any, kept, sum;
  TE_RT_RETURN_IF_FAILED(
      findNorm(device, names.backwardAnyRows, params.type,
               strips * (rowBlocks + columnBlocks(params.cols, false)), &any));
  kept = any;
  if (rowBytes <= kNormShortRuns * kNormRunBytes)
    TE_RT_RETURN_IF_FAILED(
        findNorm(device, names.backwardShortRows, params.type, 0, &kept));
  TE_RT_RETURN_IF_FAILED(
      setGrid(strips * (rowBlocks + columnBlocks(params.cols, true)), &kept));
  TE_RT_RETURN_IF_FAILED(findNorm(device, "te_strip_sum", params.type,
                                  ceilDiv(sums * params.cols, kStripColumns),
                                  &sum));
  sum.block = kStripColumns * kStripRuns;
  static_assert(kStripRows == te_table::kernel_rows::kStripSumRows);
  *plan = makeWorkspacePlan(
      device, workspaceBytes(params),
      [=](Launcher launch, void *const *buffers, void *workspace) {
        BackwardBuffers of = read(buffers);
        NormBackwardArgs &args = of.args;
        args.partial = static_cast<float *>(workspace);
        args.rows = params.rows;
        args.cols = static_cast<int32_t>(params.cols);
        args.zeroCentered = params.zero_centered != 0;
        args.vectors =
            rowBytes % 16 == 0 &&
            areAligned({args.dy, args.x, args.gamma, args.dx, args.addend});
        args.columnBlocks = columnBlocks(params.cols, args.vectors);
        TE_RT_RETURN_IF_FAILED(launch(args.vectors ? kept : any, args));
        return launch(sum, StripSumArgs{args.partial, of.dgamma, of.dbeta,
                                        strips, args.cols});
      });
  return Status::ok();
}

} // namespace

Status plan_rms_norm(const CudaDevice &device, const rms_norm_params &params,
                     std::unique_ptr<Plan> *plan) {
  return planNorm(
      device, kRmsNorm, params,
      [](void *const *buffers) {
        namespace b = rms_norm_buffers;
        NormArgs args{};
        args.x = buffers[b::x];
        args.gamma = buffers[b::gamma];
        args.y = buffers[b::y];
        args.rsigma = static_cast<float *>(buffers[b::rsigma]);
        args.amax = static_cast<float *>(buffers[b::amax]);
        args.addend = buffers[b::addend];
        args.sum = buffers[b::sum];
        return args;
      },
      plan);
}

Status plan_layer_norm(const CudaDevice &device,
                       const layer_norm_params &params,
                       std::unique_ptr<Plan> *plan) {
  return planNorm(
      device, kLayerNorm, params,
      [](void *const *buffers) {
        namespace b = layer_norm_buffers;
        NormArgs args{};
        args.x = buffers[b::x];
        args.gamma = buffers[b::gamma];
        args.beta = buffers[b::beta];
        args.y = buffers[b::y];
        args.mu = static_cast<float *>(buffers[b::mu]);
        args.rsigma = static_cast<float *>(buffers[b::rsigma]);
        args.amax = static_cast<float *>(buffers[b::amax]);
        args.addend = buffers[b::addend];
        args.sum = buffers[b::sum];
        return args;
      },
      plan);
}

Status plan_rms_norm_backward(const CudaDevice &device,
                              const rms_norm_backward_params &params,
                              std::unique_ptr<Plan> *plan) {
  return planNormBackward(
      device, kRmsNorm, params, 1,
      [](void *const *buffers) {
        namespace b = rms_norm_backward_buffers;
        NormBackwardArgs args{};
        args.dy = buffers[b::dy];
        args.x = buffers[b::x];
        args.gamma = buffers[b::gamma];
        args.rsigma = static_cast<const float *>(buffers[b::rsigma]);
        args.dx = buffers[b::dx];
        args.base = buffers[b::base];
        args.addend = buffers[b::addend];
        return BackwardBuffers{args, buffers[b::dgamma], nullptr};
      },
      plan);
}

Status plan_layer_norm_backward(const CudaDevice &device,
                                const layer_norm_backward_params &params,
                                std::unique_ptr<Plan> *plan) {
  return planNormBackward(
      device, kLayerNorm, params, 2,
      [](void *const *buffers) {
        namespace b = layer_norm_backward_buffers;
        NormBackwardArgs args{};
        args.dy = buffers[b::dy];
        args.x = buffers[b::x];
        args.gamma = buffers[b::gamma];
        args.mu = static_cast<const float *>(buffers[b::mu]);
        args.rsigma = static_cast<const float *>(buffers[b::rsigma]);
        args.dx = buffers[b::dx];
        args.addend = buffers[b::addend];
        return BackwardBuffers{args, buffers[b::dgamma], buffers[b::dbeta]};
        args.base = buffers[b::base];
      },
      plan);
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
  TE_RT_RETURN_IF_FAILED(findNorm(device, "te_chunk_sum", params.out_type,
                                  ceilDiv(params.cols, kNormBlock), &sum));
  static_assert(kChunkRows == te_table::kernel_rows::kChunkSumRows);
  *plan = makeWorkspacePlan(
      device, workspaceBytes(params),
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
