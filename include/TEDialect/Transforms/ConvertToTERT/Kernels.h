//===- Kernels.h - which kernels compute the ops of a step ----------------===//

#ifndef TEDIALECT_TRANSFORMS_CONVERTTOTERT_KERNELS_H
#define TEDIALECT_TRANSFORMS_CONVERTTOTERT_KERNELS_H

namespace mlir {
class DialectRegistry;
namespace te {

/// Gives the ops of te, and those of arith, math and tensor that the runtime
/// computes, their `KernelOpInterface` when those dialects are loaded. A te op
/// without one is a fatal error then.
void registerTEKernels(DialectRegistry &registry);

} // namespace te
} // namespace mlir

#endif // TEDIALECT_TRANSFORMS_CONVERTTOTERT_KERNELS_H
