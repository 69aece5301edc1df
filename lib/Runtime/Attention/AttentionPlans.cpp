//===- AttentionPlans.cpp - plans of attention and its backward -----------===//
//
// A plan is one cuDNN graph. A launch passes the buffers of the kernel to it.
// The size of its scratch memory is known when the plan is made. With dropout,
// a kernel first derives cuDNN's seed from the state, because cuDNN's random
// bits of one seed with two offsets are the same bits, shifted.
//
//===----------------------------------------------------------------------===//

#include "Attention/AttentionPlanner.h"

#include "Core/Capabilities.h"
#include "Cuda/CudaBackend.h"
#include "Kernels/Attention/attention_args.h"
#include "Kernels/LaunchPlan.h"

namespace te::rt::cuda {

namespace {

/// `bind` returns the pointers of a launch, and `rng` is the index of the state
/// of dropout.
template <typename Params, typename Bind>
Status planGraph(const CudaDevice &device, const Params &params, Bind bind,
                 int rng, std::unique_ptr<Plan> *plan) {
  if (params.type != TE_RT_BF16 && params.type != TE_RT_F16)
    return {TE_RT_UNSUPPORTED, "expected 'type' to be 'bf16' or 'f16' for "
                               "attention on the cuda backend, but got "
                               "'f32'"};
  if (params.boundaries != 0)
    return {TE_RT_UNSUPPORTED,
            "expected no 'documents' for attention on the cuda backend "
            "('boundaries' 0), but got " +
                std::to_string(params.boundaries) + " boundaries"};
  if (params.tokens == 0) {
    *plan =
        makePlan(device, [](Launcher, void *const *) { return Status::ok(); });
    return Status::ok();
  }
  std::unique_ptr<CudnnGraph> made;
  TE_RT_RETURN_IF_FAILED(device.attention->plan(params, &made));
  std::shared_ptr<CudnnGraph> graph = std::move(made);
  // The seed is at the end of the scratch memory.
  const int64_t scratch = roundUp(graph->workspaceBytes(), 256);
  const bool drops = params.dropout != 0.0f;
  LaunchConfig seeds;
  if (drops) {
    TE_RT_RETURN_IF_FAILED(seeds.find(device, "te_attention_seed"));
    seeds.block = 1;
  }
  *plan = makeWorkspacePlan(
      device, drops ? scratch + 16 : graph->workspaceBytes(),
      [=](Launcher launch, void *const *buffers, void *workspace) {
        TE_RT_RETURN_IF_FAILED(checkBuffers(params, buffers));
        AttentionBuffers bound = bind(buffers);
        if (drops) {
          AttentionSeedArgs args;
          args.state = static_cast<const uint32_t *>(buffers[rng]);
          args.seed = reinterpret_cast<int64_t *>(
              static_cast<char *>(workspace) + scratch);
          args.stream = static_cast<uint32_t>(params.stream);
          TE_RT_RETURN_IF_FAILED(launch(seeds, args));
          bound.seed = args.seed;
        }
        return graph->launch(bound, workspace, launch.rawStream());
      });
  return Status::ok();
}

} // namespace

Status plan_attention(const CudaDevice &device, const attention_params &params,
                      std::unique_ptr<Plan> *plan) {
  namespace b = attention_buffers;
  auto bind = [hasSinks = params.has_sinks](void *const *buffers) {
    return AttentionBuffers{.q = buffers[b::q],
                            .k = buffers[b::k],
                            .v = buffers[b::v],
                            .o = buffers[b::o],
                            .lse = buffers[b::lse],
                            .sinks = hasSinks ? buffers[b::sinks] : nullptr};
  };
  return planGraph(device, params, bind, b::rng, plan);
}

Status plan_attention_backward(const CudaDevice &device,
                               const attention_backward_params &params,
                               std::unique_ptr<Plan> *plan) {
  namespace b = attention_backward_buffers;
  auto bind = [](void *const *buffers) {
    return AttentionBuffers{.q = buffers[b::q],
                            .k = buffers[b::k],
                            .v = buffers[b::v],
                            .o = buffers[b::o],
                            .lse = buffers[b::lse],
                            .dout = buffers[b::dout],
                            .dq = buffers[b::dq],
                            .dk = buffers[b::dk],
                            .dv = buffers[b::dv]};
  };
  return planGraph(device, params, bind, b::rng, plan);
}

} // namespace te::rt::cuda
