/* The compiler as a library says who it is. */
#include "te-c/te_compiler.h"

#include <stdio.h>

int main(void) {
  printf("%s\n", te_compiler_version());
  return 0;
}
