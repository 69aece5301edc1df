//===- GemmDescriptors.h - a GEMM as cuBLASLt sees it ---------------------===//
//
// cuBLASLt is column-major. Our row-major out[m, n] is either its column-major
// [n, m] result with B as first operand, or, with row order of the output, its
// [m, n] result with A as first operand. Both read the same bytes. Its bias
// runs along the rows of the result, so only the first form can add a bias[n].
//
//===----------------------------------------------------------------------===//

#ifndef TE_RUNTIME_GEMM_GEMMDESCRIPTORS_H
#define TE_RUNTIME_GEMM_GEMMDESCRIPTORS_H

#include "Cuda/CublasLt.h"
#include "Gemm/GemmProblem.h"

#include <memory>
#include <string>
#include <vector>

namespace te::rt::cuda {

enum class GemmOrder { bFirst, aFirst };

inline const char *orderText(GemmOrder order) {
  return order == GemmOrder::aFirst ? "a-first" : "b-first";
}
/// The bytes of `algo`.
std::string hexText(const cublasLtMatmulAlgo_t &algo);

/// An algorithm and the form it was chosen for.
struct GemmAlgorithm {
  GemmOrder order = GemmOrder::bFirst;
  int64_t workspaceBytes = 0;
  cublasLtMatmulAlgo_t algo = {};

  /// What decides the bits, such as "b-first 07000000...".
  std::string text() const {
    return std::string(orderText(order)) + ' ' + hexText(algo);
  }
};

/// Device pointers of one launch. `alpha`, `bias` and `c` may be null; the
/// scales are null for unscaled operands.
struct GemmBuffers {
  void *a = nullptr, *aScale = nullptr, *b = nullptr, *bScale = nullptr;
  void *alpha = nullptr, *bias = nullptr, *c = nullptr, *out = nullptr;
};

/// What a GEMM does beside multiplying. Its descriptors depend on it.
struct GemmExtras {
  bool bias = false;
  /// If not null, alpha is an f32 in device memory. cuBLASLt then needs beta
  /// there too: `zeroAndOne` points to {0, 1} in device memory. If null, alpha
  /// is 1.
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

  /// Whether the library accepts `algorithm` for these descriptors. Sets its
  /// workspace size.
  bool accepts(GemmAlgorithm *algorithm) const;

  /// One cublasLtMatmul, after setting the pointers of scales and bias that
  /// differ from those of the last launch.
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
