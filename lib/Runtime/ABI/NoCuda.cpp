//===- NoCuda.cpp - the cuda backend of a build without one ---------------===//
//
// Linked instead of lib/Runtime/Cuda where the build found no CUDA headers.
//
//===----------------------------------------------------------------------===//

#include "Core/Backend.h"

static te::rt::Status noCuda() {
  return {TE_RT_UNSUPPORTED,
          "this build has no cuda backend; use 'reference', or build again "
          "with the CUDA toolkit and TE_CUDA=ON"};
}

te::rt::Status te::rt::createCudaBackend(std::unique_ptr<Backend> *, int32_t) {
  return noCuda();
}

te::rt::Status te::rt::createGroupId(char *) { return noCuda(); }
