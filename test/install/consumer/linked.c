/* Two steps, linked in; runs the first on zeros. */
#include "sgd-grad.h"
#include "sgd.h"

#include <stdio.h>

static int failed(te_rt_status status) {
  if (status != TE_RT_OK)
    fprintf(stderr, "linked: %s\n", te_rt_last_error());
  return status != TE_RT_OK;
}

int main(void) {
  te_rt_context *context = NULL;
  te_rt_instance *instance = NULL;
  void *pointers[SGD_NUM_ARGUMENTS];
  if (failed(te_rt_context_create("reference", &context)) ||
      failed(te_rt_instance_create(context, &sgd, &instance)))
    return 1;
  for (int i = 0; i < SGD_NUM_ARGUMENTS; ++i)
    if (failed(te_rt_alloc(context, sgd_signature.arguments[i].bytes,
                           &pointers[i])))
      return 1;
  /* Memory of the reference backend is memory. */
  float *error = pointers[SGD_OUT_LARGEST_ERROR];
  *error = -1.0f;
  unsigned short *x = pointers[SGD_IN_X], *w = pointers[SGD_IN_W],
                 *target = pointers[SGD_IN_TARGET];
  for (int i = 0; i < 64 * 32; ++i)
    x[i] = 0x3f80; /* 1 */
  for (int i = 0; i < 16 * 32; ++i)
    w[i] = 0x3f00; /* 0.5 */
  for (int i = 0; i < 64 * 16; ++i)
    target[i] = 0x4100; /* 8 */
  pointers[SGD_OUT_W] = w;
  if (failed(te_rt_instance_run(instance, pointers, NULL)))
    return 1;
  printf("largest error %g of %d and %d arguments\n", *error, sgd.num_arguments,
         mlp_grad.num_arguments);
  te_rt_instance_destroy(instance);
  te_rt_context_destroy(context);
  return *error != 8.0f;
}
