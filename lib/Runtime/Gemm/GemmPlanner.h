//===- GemmPlanner.h - cuBLASLt plans with tuned algorithms ---------------===//
//
// What the plans of `matmul` and `scaled_matmul` (MatmulPlans.cpp) are made of.
// Everything is decided here: descriptors, form, algorithm, scratch memory. A
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

/// A planned product. Bias, c, and alpha where the problem says so, may be
/// present or absent in each launch.
class GemmProduct {
public:
  /// One problem in one form, ready to launch; without descriptors where the
  /// library cannot do it.
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
  Status plan(const GemmProblem &problem,
              std::unique_ptr<GemmProduct> *product);

  /// The device's {0, 1}, made by the first call.
  Status zeroAndOne(const float **constants);

private:
  Status choosePlain(const GemmProblem &problem, GemmExtras extras,
                     GemmProduct::Variant *chosen);
  Status chooseLike(const GemmAlgorithm &preferred, const GemmProblem &problem,
                    GemmExtras extras, GemmProduct::Variant *chosen);

  const CudaDevice &device;
  const CublasLt &library;
  AlgorithmCache cache;
  CUdeviceptr constants = 0;
};

} // namespace te::rt::cuda

#endif // TE_RUNTIME_GEMM_GEMMPLANNER_H
