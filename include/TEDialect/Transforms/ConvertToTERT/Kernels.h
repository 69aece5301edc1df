//===- Kernels.h - which kernels compute the ops of a step ----------------===//

#ifndef TEDIALECT_TRANSFORMS_CONVERTTOTERT_KERNELS_H
#define TEDIALECT_TRANSFORMS_CONVERTTOTERT_KERNELS_H

namespace mlir {
class DialectRegistry;
namespace te {

/// Attaches `KernelOpInterface` to the ops of te, and to the ops of arith, math
/// and tensor that the runtime computes, when those dialects are loaded. A te
/// op without a model is then a fatal error.
void registerTEKernels(DialectRegistry &registry);

} // namespace te
} // namespace mlir

#endif // TEDIALECT_TRANSFORMS_CONVERTTOTERT_KERNELS_H
