//===- Moe.cpp - plans of the kernels that route tokens -------------------===//
//
// Routing takes two kernels of some blocks, which have a part of the entries
// each. All other kernels have a block or a warp for each token or entry, or a
// few rows.
//
//===----------------------------------------------------------------------===//

#include "Cuda/CudaBackend.h"

#include "Core/Workspaces.h"
#include "Kernels/Moe/moe_args.h"
#include "Kernels/Pointwise/KernelLookup.h"

namespace te::rt::cuda {

namespace {

template <typename T> T *as(void *buffer) { return static_cast<T *>(buffer); }

Status find(const CudaDevice &device, const char *kernel, int32_t type,
            int64_t blocks, LaunchConfig *config, unsigned block = kMoeBlock) {
  TE_RT_RETURN_IF_FAILED(findTyped(device, kernel, {type}, config));
  config->block = block;
  return setGrid(blocks, config);
}

/// A kernel of the router, whose blocks stage `floats` numbers of each of their
/// tokens if these fit in shared memory.
template <typename Params>
Status findRouter(const CudaDevice &device, const char *kernel,
                  const Params &params, int64_t tokens, int64_t floats,
                  LaunchConfig *config, bool *staged) {
  const int64_t most = kMostMoeSharedBytes / (tokens * int64_t{sizeof(float)});
  *staged = floats <= most;
  TE_RT_RETURN_IF_FAILED(config->find(
      device, std::string(kernel) + "_" + inputTypeName(params.type),
      *staged ? static_cast<int>(floats * tokens * sizeof(float)) : 0));
  config->block = kRouterBlock;
  return setGrid(ceilDiv(params.tokens, tokens), config);
}

} // namespace

Status plan_router_topk(const CudaDevice &device,
                        const router_topk_params &params,
                        std::unique_ptr<Plan> *plan) {
  namespace b = router_topk_buffers;
  LaunchConfig config;
  bool staged = false;
  TE_RT_RETURN_IF_FAILED(findRouter(
      device, "te_router_topk", params, kRouterTokens,
      routerStride(params.experts) + params.groups, &config, &staged));
  *plan = makePlan(device, [=](Launcher launch, void *const *buffers) {
    return launch(
        config,
        RouterArgs{buffers[b::logits], as<const float>(buffers[b::bias]),
                   as<int32_t>(buffers[b::ids]), as<float>(buffers[b::probs]),
                   as<float>(buffers[b::scores]), params.tokens, params.experts,
                   params.k, params.groups, params.chosen_groups, params.score,
                   params.normalize, staged});
  });
  return Status::ok();
}

Status plan_router_topk_backward(const CudaDevice &device,
                                 const router_topk_backward_params &params,
                                 std::unique_ptr<Plan> *plan) {
  namespace b = router_topk_backward_buffers;
  LaunchConfig config;
  bool staged = false;
  TE_RT_RETURN_IF_FAILED(
      findRouter(device, "te_router_topk_backward", params, kRouterGradients,
                 2 * routerStride(params.experts), &config, &staged));
  *plan = makePlan(device, [=](Launcher launch, void *const *buffers) {
    return launch(config,
                  RouterBackwardArgs{as<const float>(buffers[b::dprobs]),
                                     as<const int32_t>(buffers[b::ids]),
                                     as<const float>(buffers[b::probs]),
                                     as<const float>(buffers[b::scores]),
                                     buffers[b::dlogits], params.tokens,
                                     params.experts, params.k, params.score,
                                     params.normalize, staged});
  });
  return Status::ok();
}

Status plan_moe_route(const CudaDevice &device, const moe_route_params &params,
                      std::unique_ptr<Plan> *plan) {
  namespace b = moe_route_buffers;
  // Shared memory for the counts limits the number of warps.
  const int64_t warps = std::min<int64_t>(
      (kMostMoeSharedBytes / 4 - 1) / params.groups - 2, kMoeBlock / 32);
  if (warps < 1)
    return {TE_RT_UNSUPPORTED,
            "moe_route: expected at most " + std::to_string(kMostRouteGroups) +
                " 'groups', but got " + std::to_string(params.groups)};
  MoeRouteArgs args{};
  args.entries = params.tokens * params.k;
  args.k = params.k;
  args.groups = params.groups;
  args.rows = params.rows;
  args.alignment = params.alignment;
  args.capacity = params.capacity;
  args.segment = std::max<int64_t>(
      roundUp(ceilDiv(args.entries,
                      te_table::kernel_rows::kMostRouteBlocks * warps),
              kRouteBatch),
      kRouteBatch);
  args.warps = static_cast<uint32_t>(warps);
  args.blocks = static_cast<uint32_t>(
      std::max<int64_t>(ceilDiv(args.entries, args.segment * warps), 1));
  args.padded = params.padded;
  LaunchConfig count, place;
  for (auto [config, name] : {std::pair(&count, "te_moe_route_count"),
                              std::pair(&place, "te_moe_route_place")}) {
    TE_RT_RETURN_IF_FAILED(
        config->find(device, name,
                     static_cast<int>(routeSharedBytes(params.groups, warps))));
    config->block = static_cast<unsigned>(32 * warps);
    config->gridX = args.blocks;
  }
  *plan = makeWorkspacePlan(
      device, workspaceBytes(params),
      [=](Launcher launch, void *const *buffers, void *workspace) {
        MoeRouteArgs given = args;
        given.ids = as<const int32_t>(buffers[b::ids]);
        given.used = as<const float>(buffers[b::used]);
        given.sizes = as<int32_t>(buffers[b::group_sizes]);
        given.rowOf = as<int32_t>(buffers[b::row_of]);
        given.entryOf = as<int32_t>(buffers[b::entry_of]);
        given.dropped = as<int32_t>(buffers[b::dropped]);
        given.counts = as<uint32_t>(workspace);
        TE_RT_RETURN_IF_FAILED(launch(count, given));
        return launch(place, given);
      });
  return Status::ok();
}

Status plan_moe_permute(const CudaDevice &device,
                        const moe_permute_params &params,
                        std::unique_ptr<Plan> *plan) {
  namespace b = moe_permute_buffers;
  LaunchConfig config;
  TE_RT_RETURN_IF_FAILED(find(device, "te_moe_permute", params.type,
                              ceilDiv(params.rows, kPermutedRows), &config));
  *plan = makePlan(device, [=](Launcher launch, void *const *buffers) {
    return launch(config,
                  MoePermuteArgs{buffers[b::x],
                                 as<const int32_t>(buffers[b::entry_of]),
                                 as<const float>(buffers[b::probs]),
                                 buffers[b::y], params.tokens * params.k,
                                 params.rows, params.k, params.cols});
  });
  return Status::ok();
}

Status plan_moe_prob_grad(const CudaDevice &device,
                          const moe_prob_grad_params &params,
                          std::unique_ptr<Plan> *plan) {
  namespace b = moe_prob_grad_buffers;
  TE_RT_RETURN_IF_FAILED(checkCols("te_moe_prob_grad", params.cols));
  const int64_t entries = params.tokens * params.k;
  LaunchConfig config;
  TE_RT_RETURN_IF_FAILED(find(device, "te_moe_prob_grad", params.type,
                              ceilDiv(entries * 32, kMoeBlock), &config));
  *plan = makePlan(device, [=](Launcher launch, void *const *buffers) {
    return launch(config,
                  MoeProbGradArgs{buffers[b::dout], buffers[b::y],
                                  as<const int32_t>(buffers[b::row_of]),
                                  as<float>(buffers[b::dprobs]), entries,
                                  params.rows, params.k, params.cols});
  });
  return Status::ok();
}

Status plan_moe_unpermute(const CudaDevice &device,
                          const moe_unpermute_params &params,
                          std::unique_ptr<Plan> *plan) {
  namespace b = moe_unpermute_buffers;
  LaunchConfig config;
  TE_RT_RETURN_IF_FAILED(
      find(device, "te_moe_unpermute", params.type, params.tokens, &config));
  *plan = makePlan(device, [=](Launcher launch, void *const *buffers) {
    return launch(
        config,
        MoeUnpermuteArgs{buffers[b::y], as<const int32_t>(buffers[b::row_of]),
                         as<const float>(buffers[b::probs]), buffers[b::out],
                         params.rows, params.k, params.cols});
  });
  return Status::ok();
}

} // namespace te::rt::cuda
