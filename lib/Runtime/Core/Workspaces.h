//===- Workspaces.h - scratch memory that a row of Kernels.td states ------===//
//
// What a kernel asks for when it is planned is what the compiler counts without
// a device: both evaluate the row.
//
//===----------------------------------------------------------------------===//

#ifndef TE_RUNTIME_CORE_WORKSPACES_H
#define TE_RUNTIME_CORE_WORKSPACES_H

#include "Core/Kernels.h"
#include "TEDialect/Support/KernelRows.h"

namespace te::rt {

// int64_t workspaceBytes(const amax_params &params);
#define TE_RT_I64(name) params.name,
#define TE_RT_I32(name) params.name,
#define TE_RT_F32(name) 0,
#define TE_RT_KERNEL(kernel, parameters, buffers)                              \
  inline int64_t workspaceBytes(const kernel##_params &params) {               \
    const int64_t values[] = {parameters 0};                                   \
    return te_table::findKernelRow(#kernel)->workspaceBytes(values);           \
  }
#include "TEDialect/Runtime/te_runtime_kernels.inc"

} // namespace te::rt

#endif // TE_RUNTIME_CORE_WORKSPACES_H
