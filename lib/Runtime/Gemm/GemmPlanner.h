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
#include "Gemm/GemmTuner.h"

#include <chrono>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

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

  /// How the variant without a bias was chosen.
  GemmRecord record;

private:
  Variant variants[2][2];
};

class GemmPlanner {
public:
  /// `device` and `library` outlive the planner and everything it plans, and so
  /// does `slot`, the number of the launch that is being planned.
  GemmPlanner(const CudaDevice &device, const CublasLt &library,
              const int32_t &slot);
  ~GemmPlanner();
  GemmPlanner(const GemmPlanner &) = delete;

  const CublasLt &cublasLt() const { return library; }

  /// As Backend::setGemmOptions.
  Status setOptions(const te_rt_gemm_options &options);

  /// As Backend::setDeterministic.
  Status setDeterministic(bool is);

  /// m, n and k are positive.
  Status plan(const GemmProblem &problem, std::unique_ptr<PlannedGemm> *gemm);

  /// {0, 1} in device memory; the first call allocates it.
  Status zeroAndOne(const float **constants);

private:
  using Forms = std::vector<std::unique_ptr<GemmDescriptors>>;

  /// Of the instance that is being loaded.
  int32_t choice() const;
  Status choosePlain(const GemmProblem &problem, GemmExtras extras,
                     te_rt_gemm_origin *origin, PlannedGemm::Variant *chosen);
  /// Takes what is stored for the problem; false if the library does not accept
  /// it. Sets `*isStored`.
  bool takeStored(const GemmProblem &problem, Forms &forms, bool *isStored,
                  PlannedGemm::Variant *chosen);
  Status notStored(const GemmProblem &problem, bool isStored) const;
  Status suggest(const GemmProblem &problem, const Forms &forms, bool all,
                 std::vector<GemmCandidate> *candidates) const;
  Status measure(const GemmProblem &problem, GemmExtras extras,
                 const std::vector<GemmCandidate> &candidates,
                 std::optional<size_t> *fastest);
  Status chooseLike(const GemmAlgorithm &preferred, const GemmProblem &problem,
                    GemmExtras extras, PlannedGemm::Variant *chosen);

  const CudaDevice &device;
  const CublasLt &library;
  const int32_t &slot;
  te_rt_gemm_options options = {};
  bool hasOptions = false, isDeterministic = false;
  AlgorithmCache cache;
  /// The problems that were measured here, and how long that took.
  std::set<std::string> measured;
  std::chrono::steady_clock::duration spent = {};
  CUdeviceptr constants = 0;
};

} // namespace te::rt::cuda

#endif // TE_RUNTIME_GEMM_GEMMPLANNER_H
