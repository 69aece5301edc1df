//===- Cudnn.h - attention graphs of cuDNN --------------------------------===//
//
// cuDNN is loaded when the first attention is planned, so a program without
// attention runs on a machine without cuDNN. Graphs are built with NVIDIA's
// header-only frontend, which only CudnnGraph.cpp includes.
//
//===----------------------------------------------------------------------===//

#ifndef TE_RUNTIME_ATTENTION_CUDNN_H
#define TE_RUNTIME_ATTENTION_CUDNN_H

#include "Core/Kernels.h"
#include "Core/Status.h"
#include "Cuda/Library.h"

#include <cstdint>
#include <memory>

namespace te::rt::cuda {

/// Device pointers of one launch, for the tensors of its graph. The forward
/// reads sinks and writes o and lse; the backward reads these and dout, and
/// writes the gradients. `seed` and the offset after it are i64, for dropout.
/// `lengths` and `offsets` are those of AttentionDocumentsArgs.
struct AttentionBuffers {
  void *q = nullptr, *k = nullptr, *v = nullptr, *o = nullptr, *lse = nullptr;
  void *sinks = nullptr, *seed = nullptr;
  void *lengths = nullptr, *offsets = nullptr;
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
  virtual Status plan(const attention_params &params,
                      std::unique_ptr<CudnnGraph> *graph) = 0;
  virtual Status plan(const attention_backward_params &params,
                      std::unique_ptr<CudnnGraph> *graph) = 0;
};

} // namespace te::rt::cuda

#endif // TE_RUNTIME_ATTENTION_CUDNN_H
