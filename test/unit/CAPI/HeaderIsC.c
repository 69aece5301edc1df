//===- HeaderIsC.c - the headers are C, and their functions are there -----===//

#include "te-c/te_compiler.h"
#include "te-c/te_xla.h"

int32_t te_capi_test_version(void);
int32_t te_capi_test_version(void) { return te_compiler_runtime_version(); }
