//===- Workspaces.h - scratch memory of launches --------------------------===//

#ifndef TEDIALECT_TERT_WORKSPACES_H
#define TEDIALECT_TERT_WORKSPACES_H

#include "TEDialect/TERT/TERT.h"

namespace mlir::tert {

/// Most bytes of scratch memory that the `cuda` backend takes for a launch; a
/// step has one region of the largest of them, which all its launches share,
/// outside the arena. The kernel's row in Kernels.td has the formula: what its
/// own kernels take is known; a product is counted with what cuBLASLt may take,
/// and attention with the scratch of the algorithm that is asked for: scores of
/// the deterministic backward, f32 gradients of q else. What products on sm_100
/// rewrite (scales, row-scaled results) is not counted.
int64_t workspaceBytes(StringRef kernel, DictionaryAttr parameters);
inline int64_t workspaceBytes(LaunchOp launch) {
  return workspaceBytes(launch.getKernel(), launch.getParameters());
}

} // namespace mlir::tert

#endif // TEDIALECT_TERT_WORKSPACES_H
