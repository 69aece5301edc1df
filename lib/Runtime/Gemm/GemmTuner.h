//===- GemmTuner.h - measures the algorithms of one problem ---------------===//
//
// The library's first guess is often not its fastest algorithm (up to 26 %
// slower for block-scaled GEMMs), so candidates are timed on the device, with
// scratch memory of random finite values.
//
//===----------------------------------------------------------------------===//

#ifndef TE_RUNTIME_GEMM_GEMMTUNER_H
#define TE_RUNTIME_GEMM_GEMMTUNER_H

#include "Cuda/CudaDevice.h"
#include "Gemm/GemmDescriptors.h"

#include <optional>
#include <vector>

namespace te::rt::cuda {

/// One algorithm and the descriptors of its form.
struct GemmCandidate {
  GemmDescriptors *descriptors = nullptr;
  GemmAlgorithm algorithm;
};

/// Sets `*fastest` to the index of the candidate with the shortest launch, or
/// to nothing where there is no memory to measure in. Candidates that do not
/// launch are skipped. The candidates were created with `extras`.
Status findFastest(const CudaDevice &device, const GemmProblem &problem,
                   GemmExtras extras,
                   const std::vector<GemmCandidate> &candidates,
                   std::optional<size_t> *fastest);

} // namespace te::rt::cuda

#endif // TE_RUNTIME_GEMM_GEMMTUNER_H
