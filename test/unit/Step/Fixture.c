/* Fixture.c - a step, as te-compile would make it, for tests of Step.h.
 *
 * w and m are [2, 3] states, next w = w + w; next m = w. s is a state of the
 * recipe, which stays as it is.
 */

#include "TEDialect/Runtime/te_runtime_compiled.h"

#include <stddef.h>

enum { COUNT = 6 };

static te_rt_status load(te_rt_instance *instance) {
  te_rt_plan_copy(instance, 0, COUNT * 4);
  te_rt_plan_copy(instance, 1, COUNT * 4);
  return te_rt_plan_bias_add(instance, 2, 1, COUNT, TE_RT_F32);
}

static void step(te_rt_instance *instance, char *arena,
                 void *const *arguments) {
  void *toArena[] = {arguments[0], arena};
  te_rt_launch(instance, 0, toArena);
  void *toState[] = {arena, arguments[4]};
  te_rt_launch(instance, 1, toState);
  void *add[] = {arena, arena, arguments[3]};
  te_rt_launch(instance, 2, add);
}

const te_rt_module te_module = {TE_RT_MODULE_MAGIC,
                                TE_RT_VERSION,
                                COUNT * 4,
                                3,
                                6,
                                load,
                                step,
                                NULL,
                                NULL,
                                0,
                                0};

static const int64_t shape[] = {2, 3};
static const int64_t vector[] = {2};
static const te_rt_argument_info arguments[] = {
    {"w", "tensor<2x3xf32>", shape, COUNT * 4, 2, TE_RT_F32, TE_RT_ARGUMENT,
     TE_RT_PART_VALUE, -1, TE_RT_IS_WEIGHT, 0, 0, -1},
    {"m", "tensor<2x3xf32>", shape, COUNT * 4, 2, TE_RT_F32, TE_RT_ARGUMENT,
     TE_RT_PART_VALUE, -1, 0, 0, 0, -1},
    {"s", "tensor<2xf32>", vector, 8, 1, TE_RT_F32, TE_RT_ARGUMENT,
     TE_RT_PART_VALUE, -1, TE_RT_HAS_INIT | TE_RT_IS_RECIPE_STATE, 1, 0, -1},
    {"w", "tensor<2x3xf32>", shape, COUNT * 4, 2, TE_RT_F32, TE_RT_RESULT,
     TE_RT_PART_VALUE, 0, 0, 0, 0, -1},
    {"m", "tensor<2x3xf32>", shape, COUNT * 4, 2, TE_RT_F32, TE_RT_RESULT,
     TE_RT_PART_VALUE, 1, 0, 0, 0, -1},
    {"s", "tensor<2xf32>", vector, 8, 1, TE_RT_F32, TE_RT_RESULT,
     TE_RT_PART_VALUE, 2, 0, 0, 0, -1},
};

const te_rt_signature te_module_signature = {TE_RT_SIGNATURE_MAGIC,
                                             TE_RT_VERSION,
                                             "step",
                                             "#te.recipe<fixture>",
                                             "",
                                             6,
                                             sizeof(te_rt_argument_info),
                                             arguments};
