//===- GemmPlanner.h - cuBLASLt plans with tuned algorithms ---------------===//
//
// MatmulPlans.cpp makes the plans of `matmul` and `scaled_matmul` from these.
// Planning decides everything: descriptors, form, algorithm, scratch memory. A
// launch is one cublasLtMatmul.
//
//===----------------------------------------------------------------------===//

#ifndef TE_RUNTIME_GEMM_GEMMPLANNER_H
#define TE_RUNTIME_GEMM_GEMMPLANNER_H

#include "Core/Backend.h"
#include "Cuda/CublasLt.h"
#include "Cuda/CudaDevice.h"
#include "Gemm/AlgorithmCache.h"
#include "Gemm/GemmDescriptors.h"

#include <memory>

namespace te::rt::cuda {

/// A planned GEMM. Each launch may have a bias and c or not, and alpha where
/// the problem says so.
class PlannedGemm {
public:
  /// One problem in one form, ready to launch. It has no descriptors if the
  /// library does not support it.
  struct Variant {
    std::unique_ptr<GemmDescriptors> descriptors;
    GemmAlgorithm algorithm;
  };
  Variant &variant(bool withAlpha, bool withBias) {
    return variants[withAlpha][withBias];
  }

  Status launch(const GemmBuffers &buffers, void *workspace, void *stream);
  int64_t workspaceBytes() const;

private:
  Variant variants[2][2];
};

class GemmPlanner {
public:
  /// `device` and `library` outlive the planner and everything it plans.
  GemmPlanner(const CudaDevice &device, const CublasLt &library);
  ~GemmPlanner();
  GemmPlanner(const GemmPlanner &) = delete;

  const CublasLt &cublasLt() const { return library; }

  /// m, n and k are positive.
  Status plan(const GemmProblem &problem, std::unique_ptr<PlannedGemm> *gemm);

  /// {0, 1} in device memory; the first call allocates it.
  Status zeroAndOne(const float **constants);

private:
  Status choosePlain(const GemmProblem &problem, GemmExtras extras,
                     PlannedGemm::Variant *chosen);
  Status chooseLike(const GemmAlgorithm &preferred, const GemmProblem &problem,
                    GemmExtras extras, PlannedGemm::Variant *chosen);

  const CudaDevice &device;
  const CublasLt &library;
  AlgorithmCache cache;
  CUdeviceptr constants = 0;
};

} // namespace te::rt::cuda

#endif // TE_RUNTIME_GEMM_GEMMPLANNER_H
