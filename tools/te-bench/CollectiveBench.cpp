//===- CollectiveBench.cpp - collectives of a step in isolation -----------===//
//
// What collectives cost is measured by a second step that has the collectives
// of the first, in its order and with its sizes, and nothing else.
//
//===----------------------------------------------------------------------===//

#include "Parallel.h"

#include "TEDialect/Runtime/te_runtime_compiled.h"

#include "mlir/IR/BuiltinAttributes.h"
#include "llvm/ADT/STLExtras.h"

using namespace mlir;
using namespace ::te::bench;

namespace {

/// What a module's functions, which are given nothing but the instance, load
/// and run on this thread.
thread_local const std::vector<Collective> *current;
thread_local int32_t currentRanks;

te_rt_status loadCollectives(te_rt_instance *instance) {
  int32_t slot = 0;
  for (const Collective &each : *current) {
    te_rt_status status = TE_RT_OK;
    if (each.kernel == "all_gather")
      status = te_rt_plan_all_gather(instance, slot, each.count, currentRanks,
                                     each.group);
    else if (each.isAmax())
      status =
          te_rt_plan_all_reduce_max(instance, slot, each.count, each.group);
    else if (each.kernel == "all_reduce_sum")
      status = te_rt_plan_all_reduce_sum(instance, slot, each.count, each.type,
                                         currentRanks, each.group);
    else
      status = te_rt_plan_reduce_scatter_sum(
          instance, slot, each.count, each.type, currentRanks, each.group);
    if (status != TE_RT_OK)
      return status;
    ++slot;
  }
  return TE_RT_OK;
}

/// The buffers are two sets of three, in turns, so that no collective finds
/// what the one before it left in the cache.
void runCollectives(te_rt_instance *instance, char *, void *const *arguments) {
  for (int32_t slot = 0; slot < static_cast<int32_t>(current->size()); ++slot) {
    void *const buffers[] = {arguments[slot % 3], arguments[3 + slot % 3]};
    te_rt_launch(instance, slot, buffers);
  }
}

} // namespace

namespace te::bench {

std::vector<Collective> collectivesOf(const mlir::te::CompiledStep &step) {
  std::vector<Collective> found;
  for (const mlir::te::LaunchInfo &launch : step.launches()) {
    if (!llvm::is_contained({"all_gather", "all_reduce_max", "all_reduce_sum",
                             "reduce_scatter_sum"},
                            launch.kernel))
      continue;
    const auto number = [&](StringRef name) -> int64_t {
      auto attribute = launch.parameters.getAs<IntegerAttr>(name);
      return attribute ? attribute.getInt() : 0;
    };
    found.push_back(
        {launch.kernel,
         launch.kernel == "all_gather" ? number("bytes") : number("count"),
         static_cast<int32_t>(number("type")),
         static_cast<int32_t>(number("group_id"))});
  }
  return found;
}

double timeCollectives(const Ranks &ranks, const Effort &effort,
                       const std::vector<Collective> &collectives) {
  if (collectives.empty())
    return 0;
  int64_t bytes = 0;
  for (const Collective &each : collectives)
    bytes = std::max(bytes, each.bytesOf(ranks.size()));
  const te_rt_module module = {TE_RT_MODULE_MAGIC,
                               TE_RT_VERSION,
                               0,
                               static_cast<int32_t>(collectives.size()),
                               6,
                               loadCollectives,
                               runCollectives,
                               /*origins=*/nullptr,
                               nullptr,
                               0,
                               0};
  struct One {
    std::unique_ptr<DeviceBuffers> memory;
    std::vector<void *> arguments;
    te_rt_instance *instance = nullptr;
  };
  std::vector<One> all(static_cast<size_t>(ranks.size()));
  const auto enter = [&] {
    current = &collectives;
    currentRanks = ranks.size();
  };
  ranks.each([&](te_rt_context *context, int rank) {
    enter();
    One &one = all[static_cast<size_t>(rank)];
    one.memory = std::make_unique<DeviceBuffers>(context);
    for (int i = 0; i < 6; ++i)
      one.arguments.push_back(
          one.memory->allocateRandom(bytes / 2 + 1, TE_RT_BF16, 1.0f));
    need(te_rt_instance_create(context, &module, &one.instance),
         "loading collectives");
  });
  const Timing timing = ranks.measure(effort, [&](int rank, int64_t) {
    enter();
    One &one = all[static_cast<size_t>(rank)];
    need(te_rt_instance_run_graph(one.instance, one.arguments.data()),
         "collectives");
  });
  ranks.each([&](te_rt_context *, int rank) {
    te_rt_instance_destroy(all[static_cast<size_t>(rank)].instance);
  });
  return timing.sustainedMs;
}

} // namespace te::bench
