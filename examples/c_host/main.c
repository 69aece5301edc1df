/* main.c - a host program of the runtime, in plain C.
 *
 * Makes a context, loads a compiled step, runs it on 1000 floats and prints its
 * result; then makes the mistakes a host program can make and prints what the
 * runtime says. Links te_runtime and nothing else. `te_module` is what the
 * compiler calls the step it makes; step.c stands in for its object file.
 */

#include "TEDialect/Runtime/te_runtime.h"

#include <stdio.h>
#include <stdlib.h>

extern const te_rt_module te_module;

enum { COUNT = 1000 };

/* Every call returns a status; the sentence is this thread's last error. */
static void check(te_rt_status status) {
  if (status == TE_RT_OK)
    return;
  fprintf(stderr, "c_host: status %d: %s\n", (int)status, te_rt_last_error());
  exit(1);
}

/* A call that has to fail; returns 1 when it does not. */
static int show(const char *what, te_rt_status status) {
  printf("%-16s status %d: %s\n", what, (int)status, te_rt_last_error());
  return status == TE_RT_OK;
}

static int showErrors(te_rt_context *context) {
  te_rt_context *other = NULL;
  te_rt_instance *instance = NULL;
  void *pointer = NULL;
  int wrong = 0;

  wrong += show("unknown backend", te_rt_context_create("tpu", &other));
  wrong += show("negative size", te_rt_alloc(context, -1, &pointer));

  te_rt_module stale = te_module;
  stale.version = te_module.version + 1;
  wrong +=
      show("other version", te_rt_instance_create(context, &stale, &instance));

  check(te_rt_instance_create(context, &te_module, &instance));
  void *arguments[2] = {NULL, NULL};
  wrong += show("null argument", te_rt_instance_run(instance, arguments, NULL));
  te_rt_instance_destroy(instance);
  return wrong;
}

int main(void) {
  if (te_rt_version() != TE_RT_VERSION) {
    fprintf(stderr, "c_host: header and library have different versions\n");
    return 1;
  }
  te_rt_context *context = NULL;
  check(te_rt_context_create("reference", &context));
  printf("backend %s: %s\n", te_rt_context_backend(context),
         te_rt_context_description(context));

  /* The only allocations: the arguments here, plans and arena in the load. */
  void *x = NULL, *amax = NULL;
  check(te_rt_alloc(context, COUNT * sizeof(float), &x));
  check(te_rt_alloc(context, sizeof(float), &amax));
  te_rt_instance *instance = NULL;
  check(te_rt_instance_create(context, &te_module, &instance));

  float host[COUNT], result = 0.0f;
  for (int step = 1; step <= 3; ++step) {
    for (int i = 0; i < COUNT; ++i)
      host[i] = (float)(step * (i % 7)) - 3.0f;
    check(te_rt_copy_to_device(context, x, host, sizeof(host)));
    void *arguments[2] = {x, amax}; /* inputs first, then results */
    check(te_rt_instance_run(instance, arguments, NULL));
    check(te_rt_copy_to_host(context, &result, amax, sizeof(result)));
    printf("step %d: max|2 x| = %g\n", step, result);
    if (result != 2.0f * (float)(step * 6 - 3))
      return 1;
  }

  const int wrong = showErrors(context);
  te_rt_instance_destroy(instance);
  check(te_rt_free(context, amax));
  check(te_rt_free(context, x));
  te_rt_context_destroy(context);
  return wrong;
}
