//===- GemmPlanner.h - cuBLASLt plans with tuned algorithms ---------------===//
//
// Makes the plans of `matmul` and `scaled_matmul`. Everything is decided here:
// descriptors, form, algorithm, scratch memory. A launch is one cublasLtMatmul.
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

/// A planned product. Bias and c may be present or absent in each launch.
class GemmProduct {
public:
  /// One problem in one form, ready to launch.
  struct Variant {
    std::unique_ptr<GemmDescriptors> descriptors;
    GemmAlgorithm algorithm;
  };

  GemmProduct(Variant plain, Variant withBias)
      : plain(std::move(plain)), withBias(std::move(withBias)) {}

  Status launch(const GemmBuffers &buffers, void *workspace, void *stream);
  int64_t workspaceBytes() const;

private:
  Variant plain;
  /// Without descriptors where the library cannot add a bias.
  Variant withBias;
};

class GemmPlanner {
public:
  /// `device` and `library` outlive the planner and everything it plans.
  GemmPlanner(const CudaDevice &device, const CublasLt &library);

  const CublasLt &cublasLt() const { return library; }

  /// m, n and k are positive.
  Status plan(const GemmProblem &problem,
              std::unique_ptr<GemmProduct> *product);

private:
  Status choosePlain(const GemmProblem &problem, GemmProduct::Variant *chosen);
  Status chooseWithBias(const GemmProblem &problem,
                        const GemmAlgorithm &preferred,
                        GemmProduct::Variant *chosen);

  const CudaDevice &device;
  const CublasLt &library;
  AlgorithmCache cache;
};

} // namespace te::rt::cuda

#endif // TE_RUNTIME_GEMM_GEMMPLANNER_H
