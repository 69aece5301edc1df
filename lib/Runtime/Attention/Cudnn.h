//===- Cudnn.h - attention graphs of cuDNN --------------------------------===//
//
// cuDNN is loaded when the first attention is planned: a program without one
// runs on a machine without it. Its graphs are made through NVIDIA's
// header-only frontend, which CudnnGraph.cpp alone includes.
//
//===----------------------------------------------------------------------===//

#ifndef TE_RUNTIME_ATTENTION_CUDNN_H
#define TE_RUNTIME_ATTENTION_CUDNN_H

#include "Core/Status.h"
#include "Cuda/Library.h"

#include <cstdint>
#include <memory>

namespace te::rt::cuda {

/// What decides a graph: the parameters of the kernels `attention` and
/// `attention_backward`.
struct AttentionProblem {
  int64_t batch = 0, sequence = 0, heads = 0, kvHeads = 0, headDim = 0;
  int32_t type = 0;
  float scale = 0.0f;
  /// What scores are bounded by; 0: nothing.
  float softcap = 0.0f;
  bool causal = false, backward = false;
  /// Of a forward: a score of each head beside those of keys.
  bool hasSinks = false;
  /// Of causal attention: how many positions before itself one sees, fewer than
  /// there are; -1: all of them.
  int64_t windowLeft = -1;
  /// Of a backward: the same bits every time.
  bool deterministic = true;
};

/// Device pointers of one launch, of what its graph has. The forward reads
/// sinks and writes o and lse; the backward reads these and dout, and writes
/// the gradients.
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
  /// Enqueues the graph; allocates nothing and may be captured.
  virtual Status launch(const AttentionBuffers &buffers, void *workspace,
                        void *stream) = 0;
};

/// The library and one handle of it.
class Cudnn {
public:
  virtual ~Cudnn() = default;

  /// Loads cuDNN and, with it, the CUDA runtime that the frontend asks for the
  /// device. TE_RT_UNSUPPORTED says what is missing. The device's context is
  /// current, here and below.
  static Status load(const LibraryPaths &paths, std::unique_ptr<Cudnn> *cudnn);

  /// TE_RT_UNSUPPORTED where cuDNN has no engine for the problem, in its words.
  /// The graph does not outlive this object.
  virtual Status plan(const AttentionProblem &problem,
                      std::unique_ptr<CudnnGraph> *graph) = 0;
};

} // namespace te::rt::cuda

#endif // TE_RUNTIME_ATTENTION_CUDNN_H
