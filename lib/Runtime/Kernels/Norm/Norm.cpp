//===- Norm.cpp - plans of normalisation ----------------------------------===//
//
// Rows that fit in registers have their own kernels. The alignment of the
// buffers of a launch decides which kernel runs, so a plan has all kernels that
// a launch may need.
//
//===----------------------------------------------------------------------===//

#include "Kernels/Norm/Norm.h"

#include "Core/Formulas.h"
#include "Core/Workspaces.h"

namespace te::rt::cuda {

namespace {

/// The names of the kernels of one norm. They are literals, because messages
/// keep pointers to them.
struct NormKernels {
  const char *family, *shortRows, *longRows, *anyRows;
  const char *backwardStrips, *backwardShortRows, *backwardAnyRows;
  // Of rows of one run for each thread of half a warp, and of a warp.
  const char *narrowRows[2], *backwardNarrowRows[2];
  const char *blockRows; // or null
};
#define TE_NORM_KERNELS(name, blockRows)                                       \
  {name,                                                                       \
   name "_short",                                                              \
   name "_long",                                                               \
   name "_any",                                                                \
   name "_backward_strips",                                                    \
   name "_backward_short",                                                     \
   name "_backward_any",                                                       \
   {name "_narrow16", name "_narrow32"},                                       \
   {name "_backward_narrow16", name "_backward_narrow32"},                     \
   blockRows}
constexpr NormKernels kRmsNorm = TE_NORM_KERNELS("te_rms_norm", nullptr);
constexpr NormKernels kLayerNorm =
    TE_NORM_KERNELS("te_layer_norm", "te_layer_norm_block");
#undef TE_NORM_KERNELS

/// Whether there is a kernel that keeps rows of this size in registers.
const char *keptKernel(const NormKernels &names, int64_t rowBytes) {
  if (rowBytes <= kNormShortRuns * kNormRunBytes)
    return names.shortRows;
  return rowBytes <= kNormLongRuns * kNormRunBytes ? names.longRows : nullptr;
}

/// Of `names`, the kernel of rows of this size; null for longer ones.
const char *narrowKernel(const char *const (&names)[2], int64_t rowBytes) {
  if (rowBytes > kNormRunBytes)
    return nullptr;
  return names[rowBytes > kNormRunBytes / 2];
}

/// Whether a block can compute a row, and is not too large for it.
bool isBlockRow(int64_t cols, int64_t rowBytes) {
  return cols % (kPairGroup * kLanes) == 0 && rowBytes > kBlockRowBytes / 2 &&
         rowBytes <= kBlockRowBytes;
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
  if (names.blockRows && isBlockRow(params.cols, rowBytes)) {
    TE_RT_RETURN_IF_FAILED(
        findNorm(device, names.blockRows, params.type, params.rows, &kept));
    kept.block = kPairBlock;
  } else if (const char *narrow = narrowKernel(names.narrowRows, rowBytes)) {
    TE_RT_RETURN_IF_FAILED(findNorm(device, narrow, params.type,
                                    ceilDiv(params.rows, kStripRows), &kept));
  } else if (const char *name = keptKernel(names, rowBytes)) {
    TE_RT_RETURN_IF_FAILED(findNorm(device, name, params.type, blocks, &kept));
  }
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

/// A block for each strip. `stageBytes` are those of a row of all inputs.
Status findStrips(const CudaDevice &device, const char *family, int32_t type,
                  int64_t strips, int64_t stageBytes, LaunchConfig *config) {
  TE_RT_RETURN_IF_FAILED(
      config->find(device, std::string(family) + "_" + inputTypeName(type),
                   static_cast<int>(kStripStages * stageBytes)));
  config->name = family;
  config->block = kPairBlock;
  return setGrid(strips, config);
}

/// The columns of a block that adds strips. With many, it reads whole lines of
/// memory; with few, it has more of the strips at a time, which is faster where
/// there would be at most 32 blocks.
int columnsOfStripSum(int64_t cols, int64_t strips) {
  constexpr int64_t kStripsAtATime =
      kStripSumBlock / kStripSumColumns * kRunStrips;
  return strips > kStripsAtATime && cols <= 32 * kStripSumColumns
             ? kStripSumFewColumns
             : kStripSumColumns;
}

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
  if (strips >= device.multiprocessors && isBlockRow(params.cols, rowBytes)) {
    TE_RT_RETURN_IF_FAILED(findStrips(device, names.backwardStrips, params.type,
                                      strips, 3 * rowBytes, &kept));
  } else if (const char *narrow =
                 narrowKernel(names.backwardNarrowRows, rowBytes)) {
    TE_RT_RETURN_IF_FAILED(
        findNorm(device, narrow, params.type, strips, &kept));
  } else {
    if (rowBytes <= kNormShortRuns * kNormRunBytes)
      TE_RT_RETURN_IF_FAILED(
          findNorm(device, names.backwardShortRows, params.type, 0, &kept));
    TE_RT_RETURN_IF_FAILED(
        setGrid(strips * (rowBlocks + columnBlocks(params.cols, true)), &kept));
  }
  const int blockColumns = columnsOfStripSum(sums * params.cols, strips);
  TE_RT_RETURN_IF_FAILED(findNorm(device, "te_strip_sum", params.type,
                                  ceilDiv(sums * params.cols, blockColumns),
                                  &sum));
  sum.block = kStripSumBlock;
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
        if (args.amax)
          TE_RT_RETURN_IF_FAILED(launch.zero(args.amax, sizeof(float)));
        TE_RT_RETURN_IF_FAILED(launch(args.vectors ? kept : any, args));
        return launch(sum, StripSumArgs{args.partial, of.dgamma, of.dbeta,
                                        strips, args.cols, blockColumns});
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
        args.base = buffers[b::base];
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
        args.base = buffers[b::base];
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
        args.amax = static_cast<float *>(buffers[b::amax]);
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
        args.amax = static_cast<float *>(buffers[b::amax]);
        args.addend = buffers[b::addend];
        return BackwardBuffers{args, buffers[b::dgamma], buffers[b::dbeta]};
      },
      plan);
}

} // namespace te::rt::cuda
