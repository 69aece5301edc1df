//===- Optimizer.cpp - plans of the optimizers ----------------------------===//
//
// A launch is one kernel. Buffers that are not aligned are updated element by
// element.
//
//===----------------------------------------------------------------------===//

#include "Cuda/CudaBackend.h"

#include "Kernels/Optimizer/optimizer_args.h"
#include "Kernels/Pointwise/KernelLookup.h"

namespace te::rt::cuda {

namespace {

Status configure(const CudaDevice &device, const char *family,
                 std::initializer_list<int32_t> types, int64_t count,
                 LaunchConfig *config) {
  TE_RT_RETURN_IF_FAILED(findTyped(device, family, types, config));
  config->block = kOptimizerBlock;
  return setGrid(
      ceilDiv(count, kOptimizerBlock * kOptimizerRun * kOptimizerUnroll),
      config);
}

} // namespace

Status plan_adamw(const CudaDevice &device, const adamw_params &params,
                  std::unique_ptr<Plan> *plan) {
  namespace b = adamw_buffers;
  LaunchConfig config;
  TE_RT_RETURN_IF_FAILED(
      configure(device, "te_adamw",
                {params.param_type, params.grad_type, params.moment_type},
                params.count, &config));
  *plan = makePlan(device, [=](Launcher launch, void *const *buffers) {
    AdamwArgs args{};
    args.params = params;
    args.param = buffers[b::param];
    args.grad = buffers[b::grad];
    args.m = buffers[b::m];
    args.v = buffers[b::v];
    args.lr = static_cast<const float *>(buffers[b::lr]);
    args.step = static_cast<const float *>(buffers[b::step]);
    args.newParam = buffers[b::new_param];
    args.newM = buffers[b::new_m];
    args.newV = buffers[b::new_v];
    if (areAligned({args.param, args.grad, args.m, args.v, args.newParam,
                    args.newM, args.newV}))
      args.runs = params.count / kOptimizerRun;
    return launch(config, args);
  });
  return Status::ok();
}

Status plan_sgd(const CudaDevice &device, const sgd_params &params,
                std::unique_ptr<Plan> *plan) {
  namespace b = sgd_buffers;
  LaunchConfig config;
  TE_RT_RETURN_IF_FAILED(configure(device, "te_sgd",
                                   {params.param_type, params.grad_type},
                                   params.count, &config));
  *plan = makePlan(device, [=](Launcher launch, void *const *buffers) {
    SgdArgs args{};
    args.params = params;
    args.param = buffers[b::param];
    args.grad = buffers[b::grad];
    args.buf = static_cast<const float *>(buffers[b::buf]);
    args.lr = static_cast<const float *>(buffers[b::lr]);
    args.newParam = buffers[b::new_param];
    args.newBuf = static_cast<float *>(buffers[b::new_buf]);
    if (areAligned(
            {args.param, args.grad, args.buf, args.newParam, args.newBuf}))
      args.runs = params.count / kOptimizerRun;
    return launch(config, args);
  });
  return Status::ok();
}

} // namespace te::rt::cuda
