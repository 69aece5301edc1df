//===- NoCuda.cpp - the cuda backend of a build without one ---------------===//
//
// Linked instead of lib/Runtime/Cuda where the build found no CUDA headers.
//
//===----------------------------------------------------------------------===//

#include "Core/Backend.h"

te::rt::Status te::rt::createCudaBackend(std::unique_ptr<Backend> *) {
  return {TE_RT_UNSUPPORTED,
          "this build has no cuda backend; use 'reference', or build again "
          "with the CUDA toolkit and TE_CUDA=ON"};
}
