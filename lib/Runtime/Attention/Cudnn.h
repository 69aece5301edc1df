//===- Cudnn.h - attention graphs of cuDNN --------------------------------===//
//
// cuDNN is loaded when the first attention is planned, so a program without
// attention runs on a machine without cuDNN. Graphs are built with NVIDIA's
// header-only frontend, which only CudnnGraph.cpp includes.
//
//===----------------------------------------------------------------------===//

#ifndef TE_RUNTIME_ATTENTION_CUDNN_H
#define TE_RUNTIME_ATTENTION_CUDNN_H

#include "Core/Status.h"
#include "Cuda/Library.h"

#include <cstdint>
#include <memory>

namespace te::rt::cuda {

/// What a graph depends on: the parameters of the kernels `attention` and
/// `attention_backward`.
struct AttentionProblem {
  int64_t batch = 0, sequence = 0, heads = 0, kvHeads = 0, headDim = 0;
  int32_t type = 0;
  float scale = 0.0f;
  /// The bound of the scores (soft cap), or 0 for none.
  float softcap = 0.0f;
  bool causal = false, backward = false;
  /// Whether the forward has an extra logit for each head in the softmax
  /// denominator.
  bool hasSinks = false;
  /// For causal attention: the number of earlier positions that a position
  /// attends to, or -1 for all of them.
  int64_t windowLeft = -1;
  /// Whether the backward gives the same bits every time.
  bool deterministic = true;
};

/// Device pointers of one launch, for the tensors of its graph. The forward
/// reads sinks and writes o and lse; the backward reads these and dout, and
/// writes the gradients.
struct AttentionBuffers {
  void *q = nullptr, *k = nullptr, *v = nullptr, *o = nullptr, *lse = nullptr;
  void *sinks = nullptr;
  void *dout = nullptr, *dq = nullptr, *dk = nullptr, *dv = nullptr;
};

/// A graph with its execution plan.
class CudnnGraph {
public:
  virtual ~CudnnGraph() = default;
  virtual int64_t workspaceBytes() const = 0;
  /// Enqueues the graph. It allocates nothing and may be captured.
  virtual Status launch(const AttentionBuffers &buffers, void *workspace,
                        void *stream) = 0;
};

/// The library and one handle of it.
class Cudnn {
public:
  virtual ~Cudnn() = default;

  /// Loads cuDNN and the CUDA runtime, which the frontend needs to query the
  /// device. TE_RT_UNSUPPORTED says what is missing. The device's context must
  /// be current, here and below.
  static Status load(const LibraryPaths &paths, std::unique_ptr<Cudnn> *cudnn);

  /// Returns TE_RT_UNSUPPORTED, with cuDNN's message, where cuDNN has no engine
  /// for the problem. The graph must not outlive this object.
  virtual Status plan(const AttentionProblem &problem,
                      std::unique_ptr<CudnnGraph> *graph) = 0;
};

} // namespace te::rt::cuda

#endif // TE_RUNTIME_ATTENTION_CUDNN_H
