//===- CublasLt.cpp - cuBLASLt's error codes as Status --------------------===//
//
// This is the only place that maps a cublasStatus_t to a status of the runtime.
//
//===----------------------------------------------------------------------===//

#include "Cuda/CublasLt.h"

namespace te::rt::cuda {

static te_rt_status statusOf(cublasStatus_t result) {
  switch (result) {
  case CUBLAS_STATUS_SUCCESS:
    return TE_RT_OK;
  case CUBLAS_STATUS_ALLOC_FAILED:
    return TE_RT_OUT_OF_MEMORY;
  case CUBLAS_STATUS_NOT_SUPPORTED:
  case CUBLAS_STATUS_ARCH_MISMATCH:
    return TE_RT_UNSUPPORTED;
  default:
    return TE_RT_DEVICE_ERROR;
  }
}

Status CublasLt::check(cublasStatus_t result, const char *what) const {
  if (result == CUBLAS_STATUS_SUCCESS)
    return Status::ok();
  return {statusOf(result), std::string(what) + ": " +
                                cublasLtGetStatusName(result) + ", " +
                                cublasLtGetStatusString(result)};
}

} // namespace te::rt::cuda
