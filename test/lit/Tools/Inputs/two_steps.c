/* Two compiled steps in one program, by their headers. */
#include "other.h"
#include "sgd.h"

#include <stdio.h>
#include <string.h>

int main(void) {
  if (sgd.num_arguments != SGD_NUM_ARGUMENTS ||
      mlp_grad.num_arguments != MLP_GRAD_NUM_ARGUMENTS)
    return 1;
  const te_rt_argument_info *info =
      &mlp_grad_signature.arguments[MLP_GRAD_OUT_GRAD_W1];
  printf("%d arguments of %s, %d of %s, %s is %d\n",
         sgd_signature.num_arguments, sgd_signature.entry,
         mlp_grad_signature.num_arguments, mlp_grad_signature.entry, info->name,
         MLP_GRAD_OUT_GRAD_W1);
  return 0;
}
