//===- Workspaces.cpp - scratch memory of launches ------------------------===//
//
// The runtime knows what a plan takes once it is made, on the device. Here are
// the formulas of its kernels (Norm.cpp, Embedding.cpp, CrossEntropy.cpp,
// Probe.cpp) and caps for what a library decides, so that a plan without a
// device accounts for them.
//
//===----------------------------------------------------------------------===//

#include "TEDialect/TERT/Workspaces.h"

#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace mlir::tert;

int64_t tert::workspaceBytes(LaunchOp launch) {
  auto get = [&](StringRef name) {
    auto value = launch.getParameters().getAs<IntegerAttr>(name);
    return value ? value.getInt() : int64_t(0);
  };
  // Column sums keep one f32 a column for each chunk of 128 rows.
  auto columnSums = [&] {
    return int64_t(llvm::divideCeil(get("rows"), 128)) * get("cols") * 4;
  };
  StringRef kernel = launch.getKernel();
  if (kernel == "matmul" || kernel == "scaled_matmul")
    return kProductWorkspaceBytes;
  if (kernel == "rms_norm_backward" || kernel == "bias_grad")
    return columnSums();
  if (kernel == "layer_norm_backward")
    return 2 * columnSums();
  if (kernel == "embedding_backward")
    return get("vocab") * 4;
  if (kernel == "cross_entropy_backward")
    return 4;
  // 13 f64 for each run of 32768 elements.
  if (kernel == "tensor_stats")
    return int64_t(llvm::divideCeil(get("rows") * get("cols"), 32768)) * 104;
  if (kernel == "attention_backward")
    return get("deterministic") != 0
               ? get("heads") * get("tokens") * get("sequence") * 2
               : get("heads") * get("tokens") * get("head_dim") * 4;
  return 0;
}
