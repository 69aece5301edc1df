//===- CrossEntropy.cpp - plans of cross entropy --------------------------===//
//
// Forward: the log-sum-exp of each row, then the mean. Backward: dloss / count
// in the workspace, then the gradient of the logits.
//
//===----------------------------------------------------------------------===//

#include "Cuda/CudaBackend.h"

#include "Core/Workspaces.h"
#include "Kernels/CrossEntropy/cross_entropy_args.h"
#include "Kernels/Pointwise/KernelLookup.h"

namespace te::rt::cuda {

Status plan_cross_entropy(const CudaDevice &device,
                          const cross_entropy_params &params,
                          std::unique_ptr<Plan> *plan) {
  namespace b = cross_entropy_buffers;
  LaunchConfig lse, mean;
  TE_RT_RETURN_IF_FAILED(
      findTyped(device, "te_cross_entropy_lse", {params.type}, &lse));
  lse.block = kLseBlock;
  TE_RT_RETURN_IF_FAILED(setGrid(params.tokens, &lse));
  TE_RT_RETURN_IF_FAILED(
      findTyped(device, "te_cross_entropy_mean", {params.type}, &mean));
  mean.block = kMeanBlock;
  *plan = makePlan(device, [=](Launcher launch, void *const *buffers) {
    CrossEntropyArgs args{};
    args.logits = buffers[b::logits];
    args.targets = static_cast<const int32_t *>(buffers[b::targets]);
    args.loss = static_cast<float *>(buffers[b::loss]);
    args.lse = static_cast<float *>(buffers[b::lse]);
    args.tokens = params.tokens;
    args.vocab = params.vocab;
    args.ignoreIndex = params.ignore_index;
    args.vectors = params.vocab % 2 == 0 && areAligned({args.logits});
    TE_RT_RETURN_IF_FAILED(launch(lse, args));
    return launch(mean, args);
  });
  return Status::ok();
}

Status plan_cross_entropy_backward(const CudaDevice &device,
                                   const cross_entropy_backward_params &params,
                                   std::unique_ptr<Plan> *plan) {
  namespace b = cross_entropy_backward_buffers;
  const int64_t length = runLength({params.type});
  const int64_t blocksPerRow =
      ceilDiv(params.vocab, kLogitGradBlock * kLogitGradElements);
  LaunchConfig scale, grad;
  TE_RT_RETURN_IF_FAILED(scale.find(device, "te_cross_entropy_scale"));
  scale.block = kMeanBlock;
  TE_RT_RETURN_IF_FAILED(
      findTyped(device, "te_cross_entropy_backward", {params.type}, &grad));
  grad.block = kLogitGradBlock;
  TE_RT_RETURN_IF_FAILED(setGrid(params.tokens * blocksPerRow, &grad));
  *plan = makeWorkspacePlan(
      device, workspaceBytes(params),
      [=](Launcher launch, void *const *buffers, void *workspace) {
        CrossEntropyArgs args{};
        args.logits = buffers[b::logits];
        args.targets = static_cast<const int32_t *>(buffers[b::targets]);
        args.dloss = static_cast<const float *>(buffers[b::dloss]);
        args.lse = static_cast<float *>(buffers[b::lse]);
        args.dlogits = buffers[b::dlogits];
        args.scale = static_cast<float *>(workspace);
        args.tokens = params.tokens;
        args.vocab = params.vocab;
        args.ignoreIndex = params.ignore_index;
        args.blocksPerRow = static_cast<uint32_t>(blocksPerRow);
        args.vectors = params.vocab % length == 0 &&
                       areAligned({args.logits, args.dlogits});
        TE_RT_RETURN_IF_FAILED(launch(scale, args));
        return launch(grad, args);
      });
  return Status::ok();
}

} // namespace te::rt::cuda
