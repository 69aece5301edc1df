//===- Activation.cpp - plans of the activations --------------------------===//
//
// Shapes and kernels are fixed while planning. A launch only decides whether
// its buffers are aligned for vector accesses.
//
//===----------------------------------------------------------------------===//

#include "Cuda/CudaBackend.h"

#include "Kernels/Activation/activation_args.h"
#include "Kernels/Pointwise/KernelLookup.h"

namespace te::rt::cuda {

namespace {

struct Shape {
  int64_t rows, cols;
  int32_t type;
  ActivationKind act;
};

template <typename Params> Shape shapeOf(const Params &p) {
  return {p.rows, p.cols, p.type, {p.kind, p.limit, p.alpha, p.offset}};
}

const char *kernelName(int32_t kind, bool backward) {
  switch (kind) {
  case TE_RT_GELU:
    return backward ? "te_activation_backward_gelu" : "te_activation_gelu";
  case TE_RT_SILU:
    return backward ? "te_activation_backward_silu" : "te_activation_silu";
  case TE_RT_RELU:
    return backward ? "te_activation_backward_relu" : "te_activation_relu";
  case TE_RT_SWIGLU:
    return backward ? "te_activation_backward_swiglu" : "te_activation_swiglu";
  default:
    if (isGated(kind))
      return backward ? "te_activation_backward_gated" : "te_activation_gated";
    return backward ? "te_activation_backward_plain" : "te_activation_plain";
  }
}

Status configure(const CudaDevice &device, const Shape &shape, bool backward,
                 LaunchConfig *config) {
  TE_RT_RETURN_IF_FAILED(findTyped(device, kernelName(shape.act.kind, backward),
                                   {shape.type}, config));
  config->block = kActivationBlock;
  return setGrid(
      ceilDiv(shape.rows * shape.cols,
              kActivationBlock * (backward ? kActivationBackwardElements
                                           : kActivationElements)),
      config);
}

Status enqueue(const Launcher &launch, const LaunchConfig &config,
               const Shape &shape, ActivationArgs args) {
  const int64_t length = runLength({shape.type});
  args.cols = shape.cols;
  args.count = shape.rows * shape.cols;
  args.act = shape.act;
  args.runs = 0;
  args.runsPerRow = 0;
  const bool rowsAligned = args.gap == 0 || shape.cols % length == 0;
  // Gated kernels divide indices of runs by runsPerRow in 32 bits.
  const bool small = args.count / length <= 0xffffffff;
  if (rowsAligned && small &&
      areAligned({args.dy, args.x, args.second, args.out, args.outSecond})) {
    args.runs = args.count / length;
    args.runsPerRow = static_cast<uint32_t>(shape.cols / length);
  }
  for (float *amax : {args.amax, args.amaxSecond})
    if (amax)
      TE_RT_RETURN_IF_FAILED(launch.zero(amax, sizeof(float)));
  return launch(config, args);
}

/// The second half of packed rows of `shape`, whose first half is at `first`.
const void *secondHalf(const Shape &shape, const void *first) {
  return static_cast<const char *>(first) + shape.cols * byteSize(shape.type);
}

/// Sets the halves of packed rows of x and, in a backward, of dx.
void setPacked(const Shape &shape, bool backward, ActivationArgs &args) {
  if (!isGated(shape.act.kind))
    return;
  args.gap = shape.cols;
  args.isAmaxOfBoth = true;
  args.second = secondHalf(shape, args.x);
  if (backward)
    args.outSecond = const_cast<void *>(secondHalf(shape, args.out));
}

} // namespace

Status plan_activation(const CudaDevice &device,
                       const activation_params &params,
                       std::unique_ptr<Plan> *plan) {
  namespace b = activation_buffers;
  const Shape shape = shapeOf(params);
  LaunchConfig config;
  TE_RT_RETURN_IF_FAILED(configure(device, shape, false, &config));
  *plan = makePlan(device, [=](Launcher launch, void *const *buffers) {
    ActivationArgs args{};
    args.x = buffers[b::x];
    args.out = buffers[b::y];
    args.amax = static_cast<float *>(buffers[b::amax]);
    setPacked(shape, false, args);
    return enqueue(launch, config, shape, args);
  });
  return Status::ok();
}

Status plan_activation_backward(const CudaDevice &device,
                                const activation_backward_params &params,
                                std::unique_ptr<Plan> *plan) {
  namespace b = activation_backward_buffers;
  const Shape shape = shapeOf(params);
  LaunchConfig config;
  TE_RT_RETURN_IF_FAILED(configure(device, shape, true, &config));
  *plan = makePlan(device, [=](Launcher launch, void *const *buffers) {
    ActivationArgs args{};
    args.dy = buffers[b::dy];
    args.x = buffers[b::x];
    args.out = buffers[b::dx];
    args.amax = static_cast<float *>(buffers[b::amax]);
    setPacked(shape, true, args);
    return enqueue(launch, config, shape, args);
  });
  return Status::ok();
}

Status plan_gated_activation(const CudaDevice &device,
                             const gated_activation_params &params,
                             std::unique_ptr<Plan> *plan) {
  namespace b = gated_activation_buffers;
  const Shape shape = shapeOf(params);
  LaunchConfig config;
  TE_RT_RETURN_IF_FAILED(configure(device, shape, false, &config));
  *plan = makePlan(device, [=](Launcher launch, void *const *buffers) {
    ActivationArgs args{};
    args.x = buffers[b::a];
    args.second = buffers[b::b];
    args.out = buffers[b::y];
    args.amax = static_cast<float *>(buffers[b::amax]);
    return enqueue(launch, config, shape, args);
  });
  return Status::ok();
}

Status
plan_gated_activation_backward(const CudaDevice &device,
                               const gated_activation_backward_params &params,
                               std::unique_ptr<Plan> *plan) {
  namespace b = gated_activation_backward_buffers;
  const Shape shape = shapeOf(params);
  LaunchConfig config;
  TE_RT_RETURN_IF_FAILED(configure(device, shape, true, &config));
  *plan = makePlan(device, [=](Launcher launch, void *const *buffers) {
    ActivationArgs args{};
    args.dy = buffers[b::dy];
    args.x = buffers[b::a];
    args.second = buffers[b::b];
    args.out = buffers[b::da];
    args.outSecond = buffers[b::db];
    args.amax = static_cast<float *>(buffers[b::da_amax]);
    args.amaxSecond = static_cast<float *>(buffers[b::db_amax]);
    return enqueue(launch, config, shape, args);
  });
  return Status::ok();
}

} // namespace te::rt::cuda
