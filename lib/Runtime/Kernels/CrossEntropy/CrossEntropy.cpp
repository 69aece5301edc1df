//===- CrossEntropy.cpp - plans of cross entropy --------------------------===//

#include "Cuda/CudaBackend.h"

#include "Core/Formulas.h"
#include "Kernels/CrossEntropy/cross_entropy_args.h"
#include "Kernels/Pointwise/KernelLookup.h"

namespace te::rt::cuda {

namespace {

/// Arguments for the parameters that all kernels of the family have.
template <typename Params> CrossEntropyArgs argumentsOf(const Params &params) {
  CrossEntropyArgs args{};
  args.tokens = params.tokens;
  args.vocab = params.vocab;
  args.ignoreIndex = params.ignore_index;
  return args;
}

Status findOneBlock(const CudaDevice &device, const std::string &name,
                    LaunchConfig *config) {
  config->block = kMeanBlock;
  return config->find(device, name);
}

} // namespace

Status plan_cross_entropy(const CudaDevice &device,
                          const cross_entropy_params &params,
                          std::unique_ptr<Plan> *plan) {
  namespace b = cross_entropy_buffers;
  LaunchConfig config;
  TE_RT_RETURN_IF_FAILED(
      findTyped(device, "te_cross_entropy", {params.type}, &config));
  config.block = kLanes;
  TE_RT_RETURN_IF_FAILED(setGrid(params.tokens, &config));
  *plan = makePlan(device, [=](Launcher launch, void *const *buffers) {
    CrossEntropyArgs args = argumentsOf(params);
    args.logits = buffers[b::logits];
    args.cols = params.cols;
    args.targets = static_cast<const int32_t *>(buffers[b::targets]);
    args.lse = static_cast<float *>(buffers[b::lse]);
    args.tokenLoss = static_cast<float *>(buffers[b::token_loss]);
    args.vectors = params.cols % kExpRun == 0 && areAligned({args.logits});
    return launch(config, args);
  });
  return Status::ok();
}

Status plan_cross_entropy_mean(const CudaDevice &device,
                               const cross_entropy_mean_params &params,
                               std::unique_ptr<Plan> *plan) {
  namespace b = cross_entropy_mean_buffers;
  LaunchConfig config;
  TE_RT_RETURN_IF_FAILED(
      findOneBlock(device, "te_cross_entropy_mean", &config));
  *plan = makePlan(device, [=](Launcher launch, void *const *buffers) {
    CrossEntropyArgs args = argumentsOf(params);
    args.tokenLoss = static_cast<float *>(buffers[b::token_loss]);
    args.targets = static_cast<const int32_t *>(buffers[b::targets]);
    args.loss = static_cast<float *>(buffers[b::loss]);
    return launch(config, args);
  });
  return Status::ok();
}

Status plan_cross_entropy_weight(const CudaDevice &device,
                                 const cross_entropy_weight_params &params,
                                 std::unique_ptr<Plan> *plan) {
  namespace b = cross_entropy_weight_buffers;
  LaunchConfig config;
  TE_RT_RETURN_IF_FAILED(
      findOneBlock(device, "te_cross_entropy_weight", &config));
  *plan = makePlan(device, [=](Launcher launch, void *const *buffers) {
    CrossEntropyArgs args = argumentsOf(params);
    args.dloss = static_cast<const float *>(buffers[b::dloss]);
    args.targets = static_cast<const int32_t *>(buffers[b::targets]);
    args.weight = static_cast<float *>(buffers[b::weight]);
    return launch(config, args);
  });
  return Status::ok();
}

Status plan_cross_entropy_backward(const CudaDevice &device,
                                   const cross_entropy_backward_params &params,
                                   std::unique_ptr<Plan> *plan) {
  namespace b = cross_entropy_backward_buffers;
  const int64_t length = runLength({params.type});
  const int64_t blocksPerRow =
      ceilDiv(params.cols, kLogitGradBlock * kLogitGradElements);
  LaunchConfig config;
  TE_RT_RETURN_IF_FAILED(
      findTyped(device, "te_cross_entropy_backward", {params.type}, &config));
  config.block = kLogitGradBlock;
  TE_RT_RETURN_IF_FAILED(setGrid(params.tokens * blocksPerRow, &config));
  *plan = makePlan(device, [=](Launcher launch, void *const *buffers) {
    CrossEntropyArgs args = argumentsOf(params);
    args.weight = static_cast<float *>(buffers[b::weight]);
    args.logits = buffers[b::logits];
    args.cols = params.cols;
    args.targets = static_cast<const int32_t *>(buffers[b::targets]);
    args.lse = static_cast<float *>(buffers[b::lse]);
    args.dlogits = buffers[b::dlogits];
    args.blocksPerRow = static_cast<uint32_t>(blocksPerRow);
    args.vectors =
        params.cols % length == 0 && areAligned({args.logits, args.dlogits});
    return launch(config, args);
  });
  return Status::ok();
}

} // namespace te::rt::cuda
