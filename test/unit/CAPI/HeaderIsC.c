//===- HeaderIsC.c - the header is C, and its functions are there ---------===//

#include "te-c/te_compiler.h"

int32_t te_capi_test_version(void);
int32_t te_capi_test_version(void) { return te_compiler_runtime_version(); }
