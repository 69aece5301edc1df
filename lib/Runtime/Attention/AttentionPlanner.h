//===- AttentionPlanner.h - cuDNN for the plans of one backend ------------===//

#ifndef TE_RUNTIME_ATTENTION_ATTENTIONPLANNER_H
#define TE_RUNTIME_ATTENTION_ATTENTIONPLANNER_H

#include "Attention/Cudnn.h"

namespace te::rt::cuda {

/// Loads cuDNN when it is first needed.
class AttentionPlanner {
public:
  explicit AttentionPlanner(LibraryPaths paths) : paths(std::move(paths)) {}

  /// The planner must outlive the graph.
  template <typename Params>
  Status plan(const Params &params, std::unique_ptr<CudnnGraph> *graph) {
    if (!cudnn)
      TE_RT_RETURN_IF_FAILED(Cudnn::load(paths, &cudnn));
    return cudnn->plan(params, graph);
  }

private:
  const LibraryPaths paths;
  std::unique_ptr<Cudnn> cudnn;
};

} // namespace te::rt::cuda

#endif // TE_RUNTIME_ATTENTION_ATTENTIONPLANNER_H
