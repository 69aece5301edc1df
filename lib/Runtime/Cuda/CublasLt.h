//===- CublasLt.h - cuBLASLt's entry points and its handle ----------------===//
//
// The table of entry points is filled at run time, because the library does not
// link CUDA. A cublasStatus_t becomes a Status only here.
//
//===----------------------------------------------------------------------===//

#ifndef TE_RUNTIME_CUDA_CUBLASLT_H
#define TE_RUNTIME_CUDA_CUBLASLT_H

#include "Core/Status.h"

#include <cublasLt.h>

namespace te::rt::cuda {

struct CublasLt {
#define TE_CUBLASLT_SYMBOL(name) decltype(&::name) name = nullptr;
#include "Cuda/CublasLtSymbols.inc"
#undef TE_CUBLASLT_SYMBOL

  cublasLtHandle_t handle = nullptr;

  /// Converts `result` to a Status that names the library's error and the
  /// operation `what`.
  Status check(cublasStatus_t result, const char *what) const;
};

} // namespace te::rt::cuda

#endif // TE_RUNTIME_CUDA_CUBLASLT_H
