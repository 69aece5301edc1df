//===- Workspaces.cpp - scratch memory of launches ------------------------===//
//
// The runtime knows what a plan takes once it is made, on the device. Its own
// kernels are counted with their formulas, and what a library decides with
// caps, so that a plan without a device accounts for them.
//
//===----------------------------------------------------------------------===//

#include "TEDialect/TERT/Workspaces.h"

#include "TEDialect/Support/KernelWorkspaces.h"

using namespace mlir;
using namespace mlir::tert;

int64_t tert::workspaceBytes(StringRef kernel, DictionaryAttr parameters) {
  auto get = [&](StringRef name) {
    auto value = parameters.getAs<IntegerAttr>(name);
    return value ? value.getInt() : int64_t(0);
  };
  if (kernel == "matmul" || kernel == "scaled_matmul")
    return kProductWorkspaceBytes;
  if (kernel == "rms_norm_backward")
    return te_table::normBackwardBytes(get("rows"), get("cols"), 1);
  if (kernel == "layer_norm_backward")
    return te_table::normBackwardBytes(get("rows"), get("cols"), 2);
  if (kernel == "bias_grad")
    return te_table::biasGradBytes(get("rows"), get("cols"));
  if (kernel == "embedding_backward")
    return te_table::embeddingBackwardBytes(get("vocab"));
  if (kernel == "cross_entropy_backward")
    return te_table::kCrossEntropyBackwardBytes;
  if (kernel == "tensor_stats")
    return te_table::tensorStatsBytes(get("rows") * get("cols"));
  if (kernel == "attention_sink_grad")
    return te_table::biasGradBytes(get("tokens"), get("heads"));
  // The frontend keeps a sum of each row of scores beside.
  if (kernel == "attention_backward")
    return get("heads") * get("tokens") *
           (4 + (get("deterministic") != 0 ? get("sequence") * 2
                                           : get("head_dim") * 4));
  return 0;
}
