//===- Softmax.cpp - plans of softmax and its gradient --------------------===//
//
// Rows that fit in registers have their own kernels. The alignment of the
// buffers of a launch decides which kernel runs, so a plan has both.
//
//===----------------------------------------------------------------------===//

#include "Cuda/CudaBackend.h"

#include "Kernels/Pointwise/KernelLookup.h"
#include "Kernels/Softmax/softmax_args.h"

namespace te::rt::cuda {

namespace {

/// `read(buffers)` returns arguments with the buffers of a launch. The names of
/// the kernels are literals, because messages keep pointers to them.
template <typename Params, typename Read>
Status planSoftmax(const CudaDevice &device, const char *shortRows,
                   const char *anyRows, const Params &params, Read read,
                   std::unique_ptr<Plan> *plan) {
  TE_RT_RETURN_IF_FAILED(checkCols(anyRows, params.cols));
  const int64_t rowBytes = params.cols * byteSize(params.type);
  LaunchConfig any, kept;
  TE_RT_RETURN_IF_FAILED(findTyped(device, anyRows, {params.type}, &any));
  any.block = kSoftmaxBlock;
  TE_RT_RETURN_IF_FAILED(
      setGrid(ceilDiv(params.rows, kSoftmaxRowsPerBlock), &any));
  kept = any;
  if (rowBytes <= kSoftmaxRuns * kSoftmaxRunBytes)
    TE_RT_RETURN_IF_FAILED(findTyped(device, shortRows, {params.type}, &kept));
  *plan = makePlan(device, [=](Launcher launch, void *const *buffers) {
    SoftmaxArgs args = read(buffers);
    args.rows = params.rows;
    args.cols = static_cast<int32_t>(params.cols);
    args.scale = params.scale;
    args.vectors = rowBytes % 16 == 0 && areAligned({args.x, args.y, args.out});
    return launch(args.vectors ? kept : any, args);
  });
  return Status::ok();
}

} // namespace

Status plan_softmax(const CudaDevice &device, const softmax_params &params,
                    std::unique_ptr<Plan> *plan) {
  return planSoftmax(
      device, "te_softmax_short", "te_softmax_any", params,
      [](void *const *buffers) {
        namespace b = softmax_buffers;
        SoftmaxArgs args{};
        args.x = buffers[b::x];
        args.out = buffers[b::y];
        return args;
      },
      plan);
}

Status plan_softmax_backward(const CudaDevice &device,
                             const softmax_backward_params &params,
                             std::unique_ptr<Plan> *plan) {
  return planSoftmax(
      device, "te_softmax_backward_short", "te_softmax_backward_any", params,
      [](void *const *buffers) {
        namespace b = softmax_backward_buffers;
        SoftmaxArgs args{};
        args.x = buffers[b::dy];
        args.y = buffers[b::y];
        args.out = buffers[b::dx];
        return args;
      },
      plan);
}

} // namespace te::rt::cuda
