//===- AttentionPlans.cpp - plans of attention and its backward -----------===//
//
// A plan is one cuDNN graph. A launch passes the buffers of the kernel to it.
// The size of its scratch memory is known when the plan is made.
//
//===----------------------------------------------------------------------===//

#include "Attention/AttentionPlanner.h"

#include "Core/Capabilities.h"
#include "Cuda/CudaBackend.h"
#include "Kernels/LaunchPlan.h"

namespace te::rt::cuda {

namespace {

/// `bind` returns the pointers of a launch.
template <typename Params, typename Bind>
Status planGraph(const CudaDevice &device, const Params &params, Bind bind,
                 std::unique_ptr<Plan> *plan) {
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
  *plan = makeWorkspacePlan(
      device, graph->workspaceBytes(),
      [=](Launcher launch, void *const *buffers, void *workspace) {
        if constexpr (requires { checkBuffers(params, buffers); })
          TE_RT_RETURN_IF_FAILED(checkBuffers(params, buffers));
        return graph->launch(bind(buffers), workspace, launch.rawStream());
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
  return planGraph(device, params, bind, plan);
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
  return planGraph(device, params, bind, plan);
}

} // namespace te::rt::cuda
