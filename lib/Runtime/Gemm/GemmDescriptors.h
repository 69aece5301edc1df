//===- GemmDescriptors.h - a matrix product as cuBLASLt sees it -----------===//
//
// cuBLASLt thinks in columns. Our row-major out[m, n] is either its
// column-major [n, m] product with B as first operand, or, asking for row order
// of the output, its [m, n] product with A as first operand. Both read the same
// bytes. Its bias runs along the rows of the product, so only the first form
// can add a bias[n].
//
//===----------------------------------------------------------------------===//

#ifndef TE_RUNTIME_GEMM_GEMMDESCRIPTORS_H
#define TE_RUNTIME_GEMM_GEMMDESCRIPTORS_H

#include "Cuda/CublasLt.h"
#include "Gemm/GemmProblem.h"

#include <memory>
#include <vector>

namespace te::rt::cuda {

enum class GemmOrder { bFirst, aFirst };

/// An algorithm and the form it was chosen for.
struct GemmAlgorithm {
  GemmOrder order = GemmOrder::bFirst;
  int64_t workspaceBytes = 0;
  cublasLtMatmulAlgo_t algo = {};
};

/// Device pointers of one launch; `alpha`, `bias` and `c` may be null, the
/// scales are null for unscaled operands.
struct GemmBuffers {
  void *a = nullptr, *aScale = nullptr, *b = nullptr, *bScale = nullptr;
  void *alpha = nullptr, *bias = nullptr, *c = nullptr, *out = nullptr;
};

/// What a product may do beside multiplying, fixed in its descriptors.
struct GemmExtras {
  bool bias = false;
  /// alpha is a device f32. cuBLASLt then wants beta on the device too:
  /// `zeroAndOne` points to the device's {0, 1}. Null: alpha is 1.
  const float *zeroAndOne = nullptr;
};

/// The operation and layout descriptors of one problem in one form.
class GemmDescriptors {
public:
  static Status create(const CublasLt &library, const GemmProblem &problem,
                       GemmOrder order, GemmExtras extras,
                       std::unique_ptr<GemmDescriptors> *descriptors);
  ~GemmDescriptors();
  GemmDescriptors(const GemmDescriptors &) = delete;
  GemmDescriptors &operator=(const GemmDescriptors &) = delete;

  /// Appends up to `count` algorithms, best guess first; none where the
  /// library does not support the problem.
  Status suggest(int count, std::vector<GemmAlgorithm> *algorithms) const;

  /// Whether `algorithm` fits these descriptors; corrects its workspace.
  bool accepts(GemmAlgorithm *algorithm) const;

  /// One cublasLtMatmul, after handing over those pointers of scales and bias
  /// that differ from the last launch's.
  Status launch(const GemmAlgorithm &algorithm, const GemmBuffers &buffers,
                void *workspace, void *stream);

private:
  GemmDescriptors(const CublasLt &library, GemmOrder order, GemmExtras extras)
      : library(library), order(order), extras(extras) {}
  Status initialize(const GemmProblem &problem);
  Status setPointer(cublasLtMatmulDescAttributes_t attribute, void *pointer,
                    void **last);

  const CublasLt &library;
  const GemmOrder order;
  const GemmExtras extras;
  cublasLtMatmulDesc_t operation = nullptr;
  cublasLtMatrixLayout_t first = nullptr, second = nullptr, out = nullptr;
  void *lastFirstScale = nullptr, *lastSecondScale = nullptr;
  void *lastBias = nullptr;
};

} // namespace te::rt::cuda

#endif // TE_RUNTIME_GEMM_GEMMDESCRIPTORS_H
