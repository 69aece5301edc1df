//===- Optimizer.cpp - plans of the optimizers ----------------------------===//
//
// An update is one kernel, and so are those of a group, in rows of blocks.
// Buffers that are not aligned are updated element by element. A sum of squares
// is three: one warp for each run, one block for each tensor, which adds its
// runs, and, of several tensors, one thread that adds them.
//
//===----------------------------------------------------------------------===//

#include "Core/Capabilities.h"
#include "Core/Workspaces.h"
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
    args.gradScale = static_cast<const float *>(buffers[b::grad_scale]);
    args.newParam = buffers[b::new_param];
    args.newM = buffers[b::new_m];
    args.newV = buffers[b::new_v];
    args.skip = static_cast<const float *>(buffers[b::skip]);
    if (areAligned({args.param, args.grad, args.m, args.v, args.newParam,
                    args.newM, args.newV}))
      args.runs = params.count / kOptimizerRun;
    return launch(config, args);
  });
  return Status::ok();
}

Status plan_adamw_group(const CudaDevice &device,
                        const adamw_group_params &params,
                        std::unique_ptr<Plan> *plan) {
  namespace b = adamw_group_buffers;
  int64_t most = 0;
  int rows = 0;
  for (int i = 0; i < kAdamwGroup; ++i)
    if (const int64_t count = memberOf(params, i).count; count != 0) {
      most = std::max(most, count);
      rows = i + 1;
    }
  LaunchConfig config;
  TE_RT_RETURN_IF_FAILED(
      configure(device, "te_adamw_group",
                {params.param_type, params.grad_type, params.moment_type}, most,
                &config));
  config.gridY = static_cast<unsigned>(rows);
  *plan = makePlan(device, [=](Launcher launch, void *const *buffers) {
    TE_RT_RETURN_IF_FAILED(checkBuffers(params, buffers));
    AdamwGroupArgs args{};
    args.params = memberOf(params, 0);
    args.lr = static_cast<const float *>(buffers[b::lr]);
    args.step = static_cast<const float *>(buffers[b::step]);
    args.gradScale = static_cast<const float *>(buffers[b::grad_scale]);
    args.skip = static_cast<const float *>(buffers[b::skip]);
    for (int i = 0; i < rows; ++i) {
      const adamw_params member = memberOf(params, i);
      AdamwGroupArgs::Member &to = args.members[i];
      to.param = buffers[b::param0 + i];
      to.grad = buffers[b::grad0 + i];
      to.m = buffers[b::m0 + i];
      to.v = buffers[b::v0 + i];
      to.newParam = buffers[b::new_param0 + i];
      to.newM = buffers[b::new_m0 + i];
      to.newV = buffers[b::new_v0 + i];
      to.count = member.count;
      to.seed = member.seed;
      if (areAligned(
              {to.param, to.grad, to.m, to.v, to.newParam, to.newM, to.newV}))
        to.runs = to.count / kOptimizerRun;
    }
    return launch(config, args);
  });
  return Status::ok();
}

Status plan_adamw_fp8(const CudaDevice &device, const adamw_fp8_params &params,
                      std::unique_ptr<Plan> *plan) {
  namespace b = adamw_fp8_buffers;
  static_assert(kMomentBlockLength == te_table::kernel_rows::kMomentBlock);
  const int64_t blocks = ceilDiv(params.count, kMomentBlockLength);
  LaunchConfig config;
  TE_RT_RETURN_IF_FAILED(findTyped(
      device, "te_adamw_fp8", {params.param_type, params.grad_type}, &config));
  config.block = kOptimizerBlock;
  TE_RT_RETURN_IF_FAILED(setGrid(
      ceilDiv(blocks, kOptimizerBlock / 32 * kMomentBlocksPerWarp), &config));
  *plan = makePlan(device, [=](Launcher launch, void *const *buffers) {
    AdamwFp8Args args{};
    args.params = params;
    args.param = buffers[b::param];
    args.grad = buffers[b::grad];
    args.m = static_cast<const uint8_t *>(buffers[b::m]);
    args.v = static_cast<const uint8_t *>(buffers[b::v]);
    args.scales = static_cast<const float *>(buffers[b::scales]);
    args.lr = static_cast<const float *>(buffers[b::lr]);
    args.step = static_cast<const float *>(buffers[b::step]);
    args.gradScale = static_cast<const float *>(buffers[b::grad_scale]);
    args.newParam = buffers[b::new_param];
    args.newM = static_cast<uint8_t *>(buffers[b::new_m]);
    args.newV = static_cast<uint8_t *>(buffers[b::new_v]);
    args.newScales = static_cast<float *>(buffers[b::new_scales]);
    args.skip = static_cast<const float *>(buffers[b::skip]);
    args.blocks = blocks;
    args.aligned = areAligned({args.param, args.grad, args.m, args.v,
                               args.newParam, args.newM, args.newV});
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
    args.gradScale = static_cast<const float *>(buffers[b::grad_scale]);
    args.newParam = buffers[b::new_param];
    args.newBuf = static_cast<float *>(buffers[b::new_buf]);
    args.skip = static_cast<const float *>(buffers[b::skip]);
    if (areAligned(
            {args.param, args.grad, args.buf, args.newParam, args.newBuf}))
      args.runs = params.count / kOptimizerRun;
    return launch(config, args);
  });
  return Status::ok();
}

Status plan_sum_of_squares(const CudaDevice &device,
                           const sum_of_squares_params &params,
                           std::unique_ptr<Plan> *plan) {
  namespace b = sum_of_squares_buffers;
  static_assert(kSquaresRunLength == te_table::kernel_rows::kSquaresRun);
  SquaresArgs args{};
  std::vector<int> members;
  int64_t blocks = 0;
  for (int i = 0; i < kSquaresGroup; ++i) {
    const auto [count, type] = memberOf(params, i);
    if (count == 0)
      continue;
    SquaresTensor &tensor = args.tensors[members.size()];
    tensor.count = count;
    tensor.numRuns = ceilDiv(count, kSquaresRunLength);
    tensor.firstBlock = static_cast<uint32_t>(blocks);
    tensor.type = type;
    blocks += ceilDiv(tensor.numRuns, kSquaresRunsPerBlock);
    members.push_back(i);
  }
  args.numTensors = static_cast<int32_t>(members.size());
  LaunchConfig gather, runs, total;
  TE_RT_RETURN_IF_FAILED(gather.find(device, "te_sum_of_squares"));
  TE_RT_RETURN_IF_FAILED(setGrid(blocks, &gather));
  TE_RT_RETURN_IF_FAILED(runs.find(device, "te_sum_of_squares_runs"));
  runs.gridX = static_cast<unsigned>(members.size());
  TE_RT_RETURN_IF_FAILED(total.find(device, "te_sum_of_squares_total"));
  gather.block = runs.block = kOptimizerBlock;
  total.block = 1;
  *plan = makeWorkspacePlan(
      device, workspaceBytes(params),
      [=](Launcher launch, void *const *buffers, void *workspace) {
        TE_RT_RETURN_IF_FAILED(checkBuffers(params, buffers));
        SquaresArgs given = args;
        given.squares = static_cast<float *>(workspace);
        given.sum = static_cast<const float *>(buffers[b::sum]);
        given.newSum = static_cast<float *>(buffers[b::new_sum]);
        given.skip = static_cast<const float *>(buffers[b::skip]);
        float *next = given.squares + members.size();
        for (size_t i = 0; i < members.size(); ++i) {
          SquaresTensor &tensor = given.tensors[i];
          tensor.x = buffers[b::x0 + members[i]];
          tensor.aligned = areAligned({tensor.x});
          tensor.runs = next;
          next += tensor.numRuns;
        }
        TE_RT_RETURN_IF_FAILED(launch(gather, given));
        TE_RT_RETURN_IF_FAILED(launch(runs, given));
        return members.size() == 1 ? Status::ok() : launch(total, given);
      });
  return Status::ok();
}

Status plan_clip_factor(const CudaDevice &device,
                        const clip_factor_params &params,
                        std::unique_ptr<Plan> *plan) {
  namespace b = clip_factor_buffers;
  LaunchConfig config;
  TE_RT_RETURN_IF_FAILED(config.find(device, "te_clip_factor"));
  config.block = 1;
  *plan = makePlan(device, [=](Launcher launch, void *const *buffers) {
    return launch(
        config,
        ClipFactorArgs{.sum = static_cast<const float *>(buffers[b::sum]),
                       .norm = static_cast<float *>(buffers[b::norm]),
                       .factor = static_cast<float *>(buffers[b::factor]),
                       .maxNorm = params.max_norm});
  });
  return Status::ok();
}

} // namespace te::rt::cuda
