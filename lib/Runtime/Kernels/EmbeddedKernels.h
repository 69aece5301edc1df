//===- EmbeddedKernels.h - the kernel images inside this library ----------===//
//
// One fatbin per kernel family, embedded by lib/Runtime/Kernels/CMakeLists.txt,
// which also generates the table below. A fatbin holds one image per built
// architecture; cuModuleLoadData picks the device's.
//
//===----------------------------------------------------------------------===//

#ifndef TE_RUNTIME_KERNELS_EMBEDDEDKERNELS_H
#define TE_RUNTIME_KERNELS_EMBEDDEDKERNELS_H

namespace te::rt::cuda {

struct EmbeddedKernel {
  const char *name;  // the family
  const void *image; // a fatbin, 64-byte aligned
};

/// Every family, ended by a row of nulls.
extern const EmbeddedKernel embeddedKernels[];

} // namespace te::rt::cuda

#endif // TE_RUNTIME_KERNELS_EMBEDDEDKERNELS_H
