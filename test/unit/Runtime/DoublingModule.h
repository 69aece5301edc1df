//===- DoublingModule.h - a module of two launches, for tests -------------===//
//
// y = 2x through the arena: a copy, then an addition. Arguments are x and y,
// `kCount` floats each.
//
//===----------------------------------------------------------------------===//

#ifndef TE_UNITTEST_RUNTIME_DOUBLINGMODULE_H
#define TE_UNITTEST_RUNTIME_DOUBLINGMODULE_H

#include "TEDialect/Runtime/te_runtime_compiled.h"

namespace {

constexpr int64_t kCount = 100;

te_rt_status load(te_rt_instance *instance) {
  te_rt_plan_copy(instance, 0, kCount * 4);
  return te_rt_plan_bias_add(instance, 1, 1, kCount, TE_RT_F32);
}
void step(te_rt_instance *instance, char *arena, void *const *arguments) {
  void *copy[] = {arguments[0], arena};
  te_rt_launch(instance, 0, copy);
  void *add[] = {arena, arguments[0], arguments[1]};
  te_rt_launch(instance, 1, add);
}

/// The module, or one with another `load` of the same launches.
te_rt_module makeModule(te_rt_status (*loadOf)(te_rt_instance *) = load) {
  return {TE_RT_MODULE_MAGIC,
          TE_RT_VERSION,
          kCount * 4,
          2,
          2,
          loadOf,
          step,
          nullptr,
          nullptr,
          0,
          0};
}

} // namespace

#endif // TE_UNITTEST_RUNTIME_DOUBLINGMODULE_H
