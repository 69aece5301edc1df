//===- RuntimeFuzzer.cpp - any sequence of calls of the runtime's C ABI ---===//
//
// Bytes choose calls and their numbers, on the reference backend. Pointers are
// null or valid, as the ABI asks: others are not detected. A module's `load`
// makes plans of any kernel with any numbers; the only step that runs is one
// with two launches of known size.
//
//===----------------------------------------------------------------------===//

#include "../unit/Runtime/DoublingModule.h"
#include "Fuzz.h"
#include "TEDialect/Runtime/te_runtime_compiled.h"

using te::fuzz::Choices;
using te::fuzz::require;

namespace {

/// What `loadAny` chooses of.
Choices *choices;

template <typename Parameter> Parameter choose() {
  if constexpr (std::is_floating_point_v<Parameter>)
    return choices->real();
  else
    return choices->integer<Parameter>();
}

template <typename... Parameters>
void plan(te_rt_status (*function)(te_rt_instance *, int32_t, Parameters...),
          te_rt_instance *instance, int32_t slot) {
  // Braces: chosen from left to right.
  const std::tuple<Parameters...> parameters{choose<Parameters>()...};
  std::apply([&](Parameters... values) { function(instance, slot, values...); },
             parameters);
}

using Planner = void (*)(te_rt_instance *, int32_t);
const Planner planners[] = {
#define TE_RT_KERNEL(name, parameters, buffers)                                \
  [](te_rt_instance *instance, int32_t slot) {                                 \
    plan(te_rt_plan_##name, instance, slot);                                   \
  },
#include "TEDialect/Runtime/te_runtime_kernels.inc"
};

te_rt_status loadAny(te_rt_instance *instance) {
  for (int32_t slot = 0; slot < 2; ++slot) {
    planners[choices->below(std::size(planners))](instance, slot);
    if (choices->byte() % 4 == 0)
      te_rt_order(instance, choices->integer<int32_t>(),
                  choices->integer<int32_t>(), choices->integer<int32_t>());
  }
  return TE_RT_OK;
}

/// Everything that the calls share.
struct Host {
  te_rt_context *context = nullptr;
  te_rt_instance *instance = nullptr;
  /// Whether the instance has the plans of DoublingModule.h.
  bool runs = false;
  /// Of kCount floats.
  void *buffers[2] = {};

  ~Host() { reset(); }

  void reset() {
    te_rt_instance_destroy(instance);
    for (void *&buffer : buffers) {
      if (buffer)
        te_rt_free(context, buffer);
      buffer = nullptr;
    }
    te_rt_context_destroy(context);
    instance = nullptr;
    runs = false;
    context = nullptr;
  }

  void create() {
    reset();
    require(te_rt_context_create("reference", &context) == TE_RT_OK,
            "there is a reference backend");
    for (void *&buffer : buffers) {
      require(te_rt_alloc(context, kCount * 4, &buffer) == TE_RT_OK,
              "a buffer is allocated");
      const float zeros[kCount] = {};
      te_rt_copy_to_device(context, buffer, zeros, sizeof(zeros));
    }
  }

  void createInstance() {
    te_rt_instance_destroy(instance);
    instance = nullptr;
    runs = choices->byte() % 2 == 0;
    te_rt_module module = makeModule(runs ? load : loadAny);
    if (choices->byte() % 8 == 0) {
      module.arena_bytes = choices->integer<int64_t>();
      runs = runs && module.arena_bytes >= kCount * 4;
    }
    if (choices->byte() % 16 == 0)
      module.num_plans = choices->integer<int32_t>() % 1024;
    // With another number of plans some are not made.
    runs = runs && module.num_plans == 2;
    // More than this is for the machine's memory to refuse.
    if (module.arena_bytes > 1 << 24 && module.arena_bytes < int64_t{1} << 48)
      module.arena_bytes = 1 << 24;
    const te_rt_status status =
        te_rt_instance_create(context, &module, &instance);
    require((status == TE_RT_OK) == (instance != nullptr),
            "an instance is made or is null");
    require(status == TE_RT_OK || *te_rt_last_error(),
            "an error has a sentence");
    runs = runs && instance;
  }

  void run() {
    const auto begin = choices->integer<int32_t>();
    const auto end = choices->integer<int32_t>();
    switch (runs ? choices->below(5) : 5) {
    case 0:
      require(te_rt_instance_run(instance, buffers, nullptr) == TE_RT_OK,
              "the step runs");
      break;
    case 1:
      te_rt_instance_run_graph(instance, buffers);
      break;
    case 2:
      te_rt_instance_run_part(instance, buffers, nullptr, begin, end);
      break;
    case 3:
      te_rt_instance_run_part_graph(instance, buffers, nullptr, begin, end);
      break;
    case 4:
      te_rt_instance_release_graph(instance);
      break;
    default:
      break;
    }
  }

  void ask() {
    int64_t first = 0, second = 0;
    float time = 0;
    switch (choices->below(7)) {
    case 0:
      te_rt_instance_memory(instance, &first, &second);
      break;
    case 1: {
      const auto slot = choices->integer<int32_t>();
      te_rt_gemm_info gemm = {};
      te_rt_instance_workspace(instance, slot, &first);
      te_rt_instance_gemm(instance, slot, &gemm);
      break;
    }
    case 2:
      te_rt_timer_mark(context, choices->integer<int32_t>());
      break;
    case 3:
      te_rt_timer_elapsed_ms(context, &time);
      break;
    case 4:
      te_rt_synchronize(context);
      break;
    case 5:
      te_rt_context_set_group_timeout(context, choices->integer<int64_t>());
      break;
    default: {
      const int32_t sizes[] = {choices->integer<int32_t>(),
                               choices->integer<int32_t>()};
      te_rt_check_group_sizes(sizes, choices->below(3),
                              choices->integer<int64_t>(),
                              choices->integer<int64_t>());
    }
    }
  }

  void bind() {
    const auto group = choices->integer<int32_t>();
    const auto size = choices->integer<int32_t>();
    const auto rank = choices->integer<int32_t>();
    te_rt_context_bind_group(context, group, nullptr, size, rank);
  }
};

} // namespace

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
  Choices all(bytes, size);
  choices = &all;
  Host host;
  host.create();
  while (!all.empty())
    switch (all.below(8)) {
    case 0:
      if (all.byte() % 4 == 0)
        host.create();
      break;
    case 1:
    case 2:
    case 3:
      host.createInstance();
      break;
    case 4:
    case 5:
      host.run();
      break;
    case 6:
      host.bind();
      break;
    default:
      host.ask();
    }
  return 0;
}
