//===- CublasLt.h - cuBLASLt's entry points and its one handle ------------===//
//
// The table of entry points (filled at run time: the library links no CUDA) and
// the only place where a cublasStatus_t becomes a Status.
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

  /// `result` as a Status that names the library's error and `what` was tried.
  Status check(cublasStatus_t result, const char *what) const;
};

} // namespace te::rt::cuda

#endif // TE_RUNTIME_CUDA_CUBLASLT_H
