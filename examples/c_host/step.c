/* step.c - a compiled step, written by hand.
 *
 * amax = max |x + x| of 1000 floats: one temporary in the arena, two launches.
 * A real step is the same three things, made by te-convert-tert-to-llvm: a
 * `load` that makes every plan, a `step` that enqueues every launch, and the
 * constant `te_module`.
 */

#include "TEDialect/Runtime/te_runtime_compiled.h"

#include <stddef.h>

enum { COUNT = 1000 };

/* Errors are sticky, so the last status is the first error. */
static te_rt_status load(te_rt_instance *instance) {
  te_rt_plan_bias_add(instance, 0, 1, COUNT, TE_RT_F32);
  return te_rt_plan_amax(instance, 1, COUNT, TE_RT_F32, TE_RT_F32);
}

static void step(te_rt_instance *instance, char *arena,
                 void *const *arguments) {
  void *add[3] = {arguments[0], arguments[0], arena};
  te_rt_launch(instance, 0, add);
  void *amax[3] = {arena, arguments[1], 0 /* nothing to skip for */};
  te_rt_launch(instance, 1, amax);
}

const te_rt_module te_module = {
    TE_RT_MODULE_MAGIC,
    TE_RT_VERSION,
    4096 /* arena, a multiple of 256 */,
    2 /* plans */,
    2 /* arguments */,
    load,
    step,
    NULL /* where plans come from */,
    NULL /* kernels, which are those of the header */,
    0,
    0};
